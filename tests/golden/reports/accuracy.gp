# Redraw with: gnuplot accuracy.gp
if (!exists('svg')) svg = 'accuracy.svg'
if (!exists('png')) png = 'accuracy.png'
set datafile separator tab
set terminal svg noenhanced size 640,420 font 'Helvetica,15' background '#ffffff'
set output svg
set title ' '
set label 99 'Accuracy of model.onnx on 1000 samples' at screen 0.5, graph 1 center offset 0, 1
set xlabel 'percent of the samples'
unset logscale
set xrange [0:114]
set xtics 0,20,100
cut(text) = strlen(text) > 30 ? substr(text, 1, 28).'..' : text
at(text) = strstrt(text, '+') > 0 ? strstrt(text, '+') : 29
name(text) = strlen(text) <= 26 ? text : cut(substr(text, 1, at(text) - 1))."\n".cut(substr(text, at(text), 400))
line(text) = strlen(text) <= 26 ? text : '..'.substr(text, strlen(text) - 23, strlen(text))
set yrange [4.6:-0.6]
set ytics scale 0
set style fill solid 1.0 noborder
set grid xtics lc rgb '#d0d0d0'
set border 3
set tics nomirror out
set key at screen 0.5, screen 0.985 center top horizontal
set tmargin 4.6
plot 'accuracy.tsv' skip 1 using 2:0:(0):2:($0-0.36):($0-0.02):ytic(name(strcol(1))) with boxxyerror lc rgb '#0072B2' title 'right class (top-1)', \
     '' skip 1 using 2:($0-0.190):(sprintf('%.2f', $2)) with labels left offset 0.5,0 notitle, \
     'accuracy.tsv' skip 1 using 4:0:(0):4:($0+0.02):($0+0.36):ytic(name(strcol(1))) with boxxyerror lc rgb '#E69F00' title 'same class as fp32', \
     '' skip 1 using 4:($0+0.190):(sprintf('%.2f', $4)) with labels left offset 0.5,0 notitle
set terminal pngcairo noenhanced size 960,630 font 'Helvetica,16' background '#ffffff'
set output png
replot
unset output
