# Redraw with: gnuplot pareto.gp
if (!exists('svg')) svg = 'pareto.svg'
if (!exists('png')) png = 'pareto.png'
set datafile separator tab
set terminal svg noenhanced size 640,420 font 'Helvetica,15' background '#ffffff'
set output svg
set title 'Accuracy against latency; lines are 95 % intervals'
set xlabel 'median milliseconds a batch (logarithmic)'
set ylabel 'top-1, %'
set logscale x
set xrange [0.0825:0.24]
set offsets 0, 0, graph 0.08, graph 0.08
set grid lc rgb '#d0d0d0'
set border 3
set tics nomirror out
set key below center vertical maxrows 3 Left reverse
set xtics ('0.09' 0.09, '0.1' 0.1, '0.11' 0.11, '0.12' 0.12, '0.13' 0.13, '0.14' 0.14, '0.16' 0.16, '0.18' 0.18, '0.2' 0.2, '0.22' 0.22)
plot 'pareto.tsv' skip 1 using 2:5:3:4:6:7 with xyerrorbars pt 0 lw 1.2 lc rgb '#909090' notitle, \
     '' skip 1 every ::0::0 using 2:5 with points pt 6 ps 1.4 lc rgb '#0072B2' title 'fp32', \
     '' skip 1 every ::1::1 using 2:5 with points pt 7 ps 1.4 lc rgb '#E69F00' title 'int8', \
     '' skip 1 every ::2::2 using 2:5 with points pt 7 ps 1.4 lc rgb '#009E73' title 'int8:percentile', \
     '' skip 1 every ::3::3 using 2:5 with points pt 7 ps 1.4 lc rgb '#D55E00' title 'int8:minmax+s8-symmetric+per-tensor'
set terminal pngcairo noenhanced size 960,630 font 'Helvetica,16' background '#ffffff'
set output png
replot
unset output
