#!/usr/bin/env bash
# Models in f16 from images to INT8: inputs and outputs in f16, and Q/DQ with scales in f16, beside onnxruntime
# (QB_PYTHON: a python that has it; default: python3).
# ctest-timeout: 120
. "$1/tests/support/cli.sh"

python=${QB_PYTHON:-python3}
half=$1/tests/e2e/f16_models.py
"$python" -c 'import numpy, onnx, onnxruntime, PIL' 2>/dev/null || skip "$python lacks onnxruntime or Pillow"

# as_right MODEL: qbench gets as many of the 200 images right as onnxruntime does, or one more or less (a tie that
# rounds the other way).
as_right() {
    local ours theirs
    expect 0 "$QBENCH" compare fp32 "$1" --model half.onnx --data test --duration 0.05 --json "$1.json" -q
    ours=$("$python" -c 'import json, sys; print(round(json.load(open(sys.argv[1]))["rows"][1]["top1"] * 2))' "$1.json")
    theirs=$("$python" "$half" run "$1" test)
    echo "$1: $ours of 200 right, onnxruntime $theirs"
    checks=$((checks + 1))
    [ $((ours - theirs)) -ge -1 ] && [ $((ours - theirs)) -le 1 ] || fail "$1: $ours right, onnxruntime $theirs"
}

demo 5 20
cd demo || exit 1
expect 0 "$python" "$half" make model.onnx half.onnx
cp model.json half.json
expect 0 "$QBENCH" calibrate --model half.onnx --data calib --method minmax
expect 0 "$QBENCH" quantize --model half.onnx
says '24 layers in int8, 0 kept in float'
expect 0 "$QBENCH" inspect half.qdq.onnx
says '^inputs +image  f16 '
as_right half.qdq.onnx

expect 0 "$QBENCH" calibrate --model model.onnx --data calib --method minmax
expect 0 "$QBENCH" quantize --model model.onnx
expect 0 "$python" "$half" make model.qdq.onnx scales.onnx
expect 0 "$QBENCH" inspect scales.onnx --steps
says '^passes .*fold-qdq [1-9]'
says ' Conv[+]Relu +s8 .* cpu$'
says '^ +[a-z]+\.conv_s8'
as_right scales.onnx

done_testing
