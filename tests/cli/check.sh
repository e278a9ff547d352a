#!/usr/bin/env bash
# `qbench check`: what quantize writes for a target keeps its rules, what it writes for another one does
# not; models of other tools are looked at as they stand.
. "$1/tests/support/cli.sh"

demo 5 5
cd demo || exit 1
for target in trt ort-cpu ort-cuda openvino; do
    expect 0 "$QBENCH" quantize -m model.onnx --for "$target" -o "model.$target.onnx"
    expect 0 "$QBENCH" check "model.$target.onnx" --for "$target"
    says "^PASS model.$target.onnx"
done
expect 3 "$QBENCH" check model.ort-cpu.onnx --for=trt
says '^FAIL float-bias: DequantizeLinear '
says '^FAIL signed-codes: '
says 'mend: '
expect 3 "$QBENCH" check model.trt.onnx --for ort-cpu --json -
says '"schema": "qbench.check/1"'
says '"rule": "integer-bias"'
says '"held": false'
expect 3 "$QBENCH" check model.onnx --for trt
says '^FAIL nothing-quantized: the model'
expect 2 "$QBENCH" check model.onnx
complains 'expected --for TARGET'
expect 2 "$QBENCH" check model.onnx --for tpu
complains 'expected one of trt, ort-cpu, ort-cuda, openvino'
expect 2 "$QBENCH" quantize -m model.onnx --for trt --activations u8-affine
complains '\-\-for trt decides'

model=${QB_SHARED:-}/models/resnet8_cifar10_ort_qdq_minmax.onnx
if [ -f "$model" ]; then
    expect 3 "$QBENCH" check "$model" --for trt
    says '^FAIL zero-point: '
    expect 3 "$QBENCH" check "$model" --for ort-cpu
    says '^FAIL unsigned-codes: Conv '
fi
done_testing
