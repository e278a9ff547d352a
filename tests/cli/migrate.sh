#!/usr/bin/env bash
# Calibrations of other tools: `calib export`, `calib import` and `migrate` on the demo's model.
. "$1/tests/support/cli.sh"

demo 5 5
cd demo || exit 1
formats='trt ort-json ort-cache ort-flatbuffers ncnn ppq aimet'
for format in $formats; do
    expect 0 "$QBENCH" calib export -m model.onnx --format "$format" --method minmax -o "old.$format"
    expect 0 "$QBENCH" calib import "old.$format" -m model.onnx -o "$format.calib.h5"
    says "^$format.calib.h5: [0-9]+ tensors from $format, 0 without a range, 0 not in the model"
    expect 0 "$QBENCH" calib export "$format.calib.h5" -m model.onnx --format "$format" -o "again.$format"
    # a range becomes codes and a range again: the same text, but for the last digit in ncnn's
    [ "$format" = aimet ] || [ "$format" = ncnn ] || same_bytes "old.$format" "again.$format"
done
expect 0 "$QBENCH" calib show trt.calib.h5
says 'without statistics'
expect 1 "$QBENCH" calib plot trt.calib.h5
complains 'imported: it has no histogram'
expect 1 "$QBENCH" calibrate -m model.onnx --from trt.calib.h5 --method minmax
expect 2 "$QBENCH" calib export -m model.onnx
complains 'give --format'
expect 2 "$QBENCH" calib import
expect 2 "$QBENCH" calib export -m model.onnx --format tflite
complains 'expected one of trt, ort-json'

expect 0 "$QBENCH" migrate model.onnx old.trt -o new.qdq.onnx
says '^new.qdq.onnx: for trt, [0-9]+ layers in int8, 0 kept in float; [0-9]+ tensors had a range, 0 had none'
expect 0 "$QBENCH" check new.qdq.onnx --for trt
expect 0 "$QBENCH" quantize -m model.onnx --for trt --method minmax -o direct.onnx
says 'layers in int8'
expect 0 "$QBENCH" migrate model.onnx old.ort-json --for ort-cpu -o cpu.onnx
expect 0 "$QBENCH" check cpu.onnx --for ort-cpu

# What has no scale stays float and is listed; names of nothing are listed, too.
{
    sed 2d old.trt
    echo '(Unnamed Layer* 22) [Constant]_output: 3a4b050c'
} >part.trt
expect 0 "$QBENCH" migrate model.onnx part.trt -o part.onnx
says '^  not in the model: \(Unnamed Layer\* 22\) \[Constant\]_output'
expect 0 "$QBENCH" migrate model.onnx part.trt -o part.onnx --json -
says '"schema": "qbench.migrate/1"'
cp model.calib.h5 whole.calib.h5
expect 0 "$QBENCH" calib import part.trt -m model.onnx
expect 0 "$QBENCH" compare fp32 int8 -m model.onnx --data calib --samples 10 --duration 0.01 --no-figures
expect 1 "$QBENCH" quantize -m model.onnx
complains 'no range in the imported calibration of model.onnx: --skip-missing leaves it in float'
expect 0 "$QBENCH" quantize -m model.onnx --skip-missing
mv whole.calib.h5 model.calib.h5
expect 0 "$QBENCH" check part.onnx --for trt

# Another model's file.
expect 0 "$QBENCH" zoo squeezenet1_1 -o other.onnx
expect 1 "$QBENCH" migrate other.onnx old.trt
complains 'do not belong together.*old.trt.*other.onnx'
echo 'TRT-8205-X' >empty.trt
expect 1 "$QBENCH" migrate model.onnx empty.trt
complains 'empty.trt \(trt\): no ranges'
printf 'TRT-8205-X\nconv: zz\n' >bad.trt
expect 1 "$QBENCH" calib import bad.trt -m model.onnx
complains 'bad.trt \(trt\): line 2'
{
    cat old.trt
    echo 'image: 3f800000'
} >twice.trt
for command in 'calib import twice.trt -m model.onnx' 'migrate model.onnx twice.trt'; do
    # shellcheck disable=SC2086
    expect 1 "$QBENCH" $command
    complains "twice.trt \(trt\): 'image' is there twice: with the scale 0.0[0-9]+ .*in line [0-9]+, and 1 \(-127 to 127\) in line $(wc -l <twice.trt)$"
done
expect 1 "$QBENCH" calib import nothing.trt -m model.onnx
complains 'nothing.trt'
done_testing
