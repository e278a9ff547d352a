# Redraw with: gnuplot latency.gp
if (!exists('svg')) svg = 'latency.svg'
if (!exists('png')) png = 'latency.png'
set datafile separator tab
set terminal svg noenhanced size 640,380 font 'Helvetica,15' background '#ffffff'
set output svg
set title ' '
set label 99 'Latency of model.onnx, batch 1, 2 threads' at screen 0.5, graph 1 center offset 0, 1
set xlabel 'ms a batch; bar: median, line: to p99'
set xrange [0:0.785612]
set xtics 0,0.2
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
unset key
cut = 0.3
end(median, p99) = p99 > cut ? cut : p99 > median ? p99 : median
beyond(p99) = p99 > cut ? sprintf(p99 < 100 ? ', p99 %#.3g' : ', p99 %.0f', p99) : ''
plot 'latency.tsv' skip 1 using 2:0:(0):2:($0-0.3):($0+0.3):ytic(name(strcol(1))) with boxxyerror lc rgb '#0072B2', \
     '' skip 1 using 2:0:2:(end($2,$4)) with xerrorbars pt 0 lw 2 lc rgb '#202020' notitle, \
     '' skip 1 using (end($2,$4)):0:(sprintf($2 < 100 ? '%#.3g ms, %.2fx' : '%.0f ms, %.2fx', $2, $6).beyond($4)) with labels left offset 1,0 notitle
set terminal pngcairo noenhanced size 960,570 font 'Helvetica,16' background '#ffffff'
set output png
replot
unset output
