#!/usr/bin/env bash
# Names that rule terminals, forge lines of tables or look like others: of nodes, tensors, inputs,
# classes, files, samples. Every output shows them escaped, every record can be read again, and ONNX
# files keep them as they are.
# ctest-timeout: 200, ctest-cost: 30
. "$1/tests/support/cli.sh"
. "$1/tests/support/onnx.sh"

escape=$'\x1b]0;title\x07\x1b[31m'
bad="n$escape"$'\t\n::error::forged\r\xe2\x80\xae\xc2\x9b\xff'"\"'\`id\`<b>&|\$(id)"
export LC_ALL=C

# What may not be in an output: control characters but line breaks and tabs, U+202E, C1, lone bytes.
shown() { # FILE...
    local file
    for file in "$@"; do
        checks=$((checks + 1))
        ! grep -qaP '[\x00-\x08\x0b-\x1f\x7f\xff]|\xe2\x80\xae|\xc2\x9b|^::error::forged' "$file" ||
            fail "$file shows a name as it is: $(grep -aP '[\x00-\x08\x0b-\x1f\x7f\xff]|\xe2\x80\xae|\xc2\x9b|^::error::forged' "$file" | head -2 | cat -v)"
    done
}
# run CODE COMMAND...: as expect, and what it prints is clean.
run() {
    expect "$@"
    shown "$work/.out" "$work/.err"
}

# y = Relu(x W), all of it with such names, W of 4 x 4 values from 0 to 1.
values=''
for i in $(seq 16); do values+=$(printf '0000%02x3f' $((i * 8))); done
graph=$(field 0a "$(node MatMul "$bad" "h$bad" "x$bad" "w$bad")")
graph+=$(field 0a "$(node Relu "r$bad" "y$bad" "h$bad")")$(text 12 "g$bad")
graph+=$(field 2a "$(tensor "w$bad" '4 4' "$(field 4a "$values")")")
graph+="$(field 5a "$(port "x$bad" '1 4')")$(field 62 "$(port "y$bad" '1 4')")"
mkdir data && for i in $(seq 12); do
    printf '%b' "\\x00\\x00\\x$(printf '%02x' $((i * 9)))\\x3f\\0\\0\\x80\\x3f\\0\\0\\x00\\x3f\\0\\0\\x80\\xbf" >"data/s$i.bin"
done
cp -r data seen && rm seen/s1.bin seen/s2.bin
mv data/s1.bin "data/s1${bad//\//}.bin"
for file in model.onnx "m$bad.onnx"; do
    model "$file" "$graph"
    run 0 "$QBENCH" inspect "$file"
    run 0 "$QBENCH" inspect "$file" --steps
    run 0 "$QBENCH" inspect "$file" --json -
    run 0 "$QBENCH" inspect "$file" --dot graph.dot
    [ ! -e graph.dot ] || shown graph.dot
    run 0 "$QBENCH" calibrate "$file" --data data -o net.calib.h5
    run 0 "$QBENCH" calib show net.calib.h5
    run 0 "$QBENCH" optimize "$file" -o again.onnx
    rm -f again.onnx net.calib.h5
done
rm "m$bad.onnx"

# The names of the file come out byte by byte.
run 0 "$QBENCH" optimize model.onnx -o again.onnx
checks=$((checks + 1))
od -An -v -tx1 again.onnx | tr -d ' \n' >again.hex
for name in "x$bad" "y$bad" "w$bad"; do
    grep -q "$(hex "$name")" again.hex || fail "a name changed on its way out: ${name%%n*}"
done

# Records can be read again.
run 0 "$QBENCH" calibrate model.onnx --data seen
run 0 "$QBENCH" compare fp32 int8 --model model.onnx --data data --duration 0.01 --layers -v
shown compare.json figures/*.tsv figures/*.gp figures/*.svg
run 0 "$QBENCH" gate --min-sqnr 1 --allow calibration-data --junit junit.xml
shown junit.xml
run 0 "$QBENCH" gate --min-sqnr 1 --allow calibration-data --github
for format in html md tsv json text; do
    run 0 "$QBENCH" report --format $format
    [ ! -e report.html ] || shown report.html
done
checks=$((checks + 1))
! grep -q '<b>&|' report.html || fail 'a name is markup in the page'
run 0 "$QBENCH" quantize model.onnx --for trt
run 0 "$QBENCH" check model.qdq.onnx --for trt
run 0 "$QBENCH" build --model model.onnx --precision int8
run 0 "$QBENCH" inspect model.int8.qbe
run 0 "$QBENCH" inspect model.int8.qbe --steps
run 0 "$QBENCH" inspect model.int8.qbe --plan
run 0 "$QBENCH" bench --loadEngine=model.int8.qbe --duration=0 --iterations=2 --warmUp=0 --dumpProfile
cp model.int8.qbe "e$bad.qbe"
run 0 "$QBENCH" compare fp32 "./e$bad.qbe" --model model.onnx --data data --duration 0.01 --no-figures
run 0 "$QBENCH" report --format md
run 0 "$QBENCH" gate --min-sqnr 1
run 1 "$QBENCH" inspect "missing$bad.onnx"
complains 'missingn\\x1b\]0;title'
run 1 "$QBENCH" calibrate model.onnx --data "nowhere$bad"
run 2 "$QBENCH" inspect model.onnx "--no-such$bad"
run 2 "$QBENCH" "command$bad"
printf '"k%s": 1\n' 'e\u202e\u001b' >bad.yaml
run 1 "$QBENCH" calibrate model.onnx --data data --config bad.yaml

# Classes, by a sidecar and by a file of labels.
demo 3 4
cp -r demo images && rm -f images/compare.json && cd images || exit 1
tr -d '\n' <model.json | sed 's/"labels": *\["/&\\u001b[31m\\u202e\\n::error::forged\\t/' >named.json
mv named.json model.json
run 0 "$QBENCH" compare fp32 --model model.onnx --data calib --duration 0.01 --no-figures
done_testing
