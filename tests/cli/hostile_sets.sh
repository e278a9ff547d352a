#!/usr/bin/env bash
# Annotations that are not whole, that contradict each other, or that would be read for long: an error with
# file and line, within seconds of processor time; names of classes rule no terminal.
# ctest-timeout: 60, ctest-cost: 4
. "$1/tests/support/cli.sh"

demo 3 4
cp demo/model.onnx demo/model.json .
escape=$'\x1b[31m'

doctor() { # CODE DATA
    expect "$1" bash -c 'ulimit -t 5; exec timeout -s KILL 60 "$@"' - "$QBENCH" data doctor "$2" --model model.onnx
}

# ---- PASCAL VOC ----

mkdir -p voc/JPEGImages voc/Annotations
cp demo/calib/ring/0000.png voc/JPEGImages/a.png
object() { # NAME
    printf '<object><name>%s</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>9</xmax><ymax>9</ymax></bndbox></object>\n' "$1"
}
annotation() { # TEXT...
    { echo '<annotation>' && printf '%s' "$@" && echo '</annotation>'; } >voc/Annotations/a.xml
}
annotation "$(object "${escape}cat")" "<!-- $(object none) -->" "$(object 'a &amp; b')"
doctor 0 voc
says '^good +truth +voc: 2 objects of 2 categories in 1 images'
annotation "$(object cat)" "$(object dog)"
cp voc/Annotations/a.xml whole.xml
for cut in 30 100 150 200 230; do # what is cut off has fewer objects
    head -c $cut whole.xml >voc/Annotations/a.xml
    doctor 1 voc
    complains 'voc/Annotations/a.xml:[0-9]+: .* is without its end: the file is cut short|a tag without its'
done
annotation "<object><name>cat</name></object>"
doctor 1 voc
complains 'voc/Annotations/a.xml:[0-9]+: an object without xmin in its bndbox'
# Each name was sought among all.
awk 'BEGIN { print "<annotation>"; for (i = 0; i < 150000; i++) printf "<object><name>c%d</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>9</xmax><ymax>9</ymax></bndbox></object>\n", i; print "</annotation>" }' >voc/Annotations/a.xml
expect 0 bash -c 'ulimit -t 10; exec "$@"' - "$QBENCH" calibrate model.onnx --data voc -o voc.calib.h5

# ---- YOLO ----

mkdir -p yolo/images/val yolo/labels/val
cp demo/calib/ring/0000.png yolo/images/val/a.png
echo '0 .5 .5 .1 .1' >yolo/labels/val/a.txt
settings() { printf 'path: .\nval: images/val\n%b\n' "$1" >yolo/data.yaml; }
settings "nc: 2\nnames: [cat, \"\\\\e[31mdog\"]"
doctor 0 yolo/data.yaml
says '1 of 2 categories have no object: .*x1b.*dog'
checks=$((checks + 1))
! grep -q $'\x1b' .out .err || fail 'a name of a class rules the terminal'
settings 'nc: 3\nnames: [cat, dog]'
doctor 1 yolo/data.yaml
complains 'yolo/data.yaml:3:5: nc: 3 classes, but names has 2'
settings 'nc: 2'
doctor 0 yolo/data.yaml
echo '0 .5 .5 -.1 .1' >yolo/labels/val/a.txt
doctor 1 yolo/data.yaml
complains 'labels/val/a.txt:1: a box of negative size'

# ---- lists and tables ----

calibrate() { # CODE DATA
    expect "$1" "$QBENCH" calibrate model.onnx --data "$2" -o list.calib.h5
}
ring=demo/calib/ring/0000.png star=demo/calib/star/0000.png
printf '0 .5 .5 .1 .1\n' >yolo/labels/val/a.txt
mkdir -p voc/ImageSets/Main
annotation "$(object cat)"
printf 'a\n\0\na\n' >voc/ImageSets/Main/val.txt
calibrate 1 voc
complains 'voc/ImageSets/Main/val.txt: not a text file: it has zero bytes'
printf 'images/val/a.png\n\0\nimages/val/a.png\n' >yolo/val.txt
printf 'path: .\nval: val.txt\nnames: [cat]\n' >yolo/data.yaml
calibrate 1 yolo/data.yaml
complains 'yolo/.*val.txt: not a text file: it has zero bytes'
while IFS='|' read -r wanted text; do
    printf '%b' "$text" >table.csv
    calibrate 1 table.csv
    complains "data table.csv .csv.: $wanted"
    absent list.calib.h5
done <<CASES
line 2: a quote without its end|path,label\n"$ring,0\n$star,1\n
line 3: a quote without its end|path,label\n$ring,0\n$star,"1\n
line 2: text behind a quote.s end|path,label\n"$ring"x,0\n
line 4: text behind a quote.s end|path,label\n"$ring",0\n$star,"0\n"1\n
line 2: 4 fields, the first line has 2|path,label\n$ring,0,9,9\n
line 2: 1 fields, expected 2|path,label\n$ring
table.csv: not a text file|path,label\n$ring,0\n\\0\n$star,1\n
CASES
printf 'path,label\r\n"%s","0"\r\n%s,1,\r\n' "$ring" "$star" >table.csv
calibrate 0 table.csv
complains 'calibrate: 2 samples'
done_testing
