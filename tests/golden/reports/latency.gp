# Redraw with: gnuplot latency.gp
if (!exists('svg')) svg = 'latency.svg'
if (!exists('png')) png = 'latency.png'
set datafile separator tab
set terminal svg noenhanced size 900,380 font 'Helvetica,14' background '#ffffff'
set output svg
set title 'Latency of model.onnx, batch 1, 2 threads'
set xlabel 'milliseconds a batch (logarithmic); bar: median, line: to p99'
set logscale x
set xrange [0.066:0.487019]
set xtics ('0.07' 0.07, '0.1' 0.1, '0.15' 0.15, '0.2' 0.2, '0.3' 0.3, '0.4' 0.4)
set yrange [4.6:-0.6]
set ytics scale 0
set style fill solid 1.0 noborder
set grid xtics lc rgb '#d0d0d0'
set border 3
set tics nomirror out
unset key
end(median, p99) = p99 > median ? p99 : median
plot 'latency.tsv' skip 1 using 2:0:(0.066):2:($0-0.3):($0+0.3):ytic(1) with boxxyerror lc rgb '#0072B2', \
     '' skip 1 using 2:0:2:(end($2,$4)) with xerrorbars pt 0 lw 2 lc rgb '#202020' notitle, \
     '' skip 1 using (end($2,$4)):0:(sprintf($2 < 100 ? '%#.3g ms, %.2fx' : '%.0f ms, %.2fx', $2, $6)) with labels left offset 1,0 notitle
set terminal pngcairo noenhanced size 1350,570 font 'Helvetica,16' background '#ffffff'
set output png
replot
unset output
