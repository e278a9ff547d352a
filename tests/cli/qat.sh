#!/usr/bin/env bash
# A Q/DQ model in which some layers have no ranges: what is there stays, the rest is finished.
. "$1/tests/support/cli.sh"

demo 5 20
cd demo || exit 1
mkdir half
expect 0 "$QBENCH" quantize --model model.onnx --method minmax --keep-float 'block2*' -o half/half.onnx
says '21 layers in int8, 3 kept in float'
cp model.json half/half.json
cd half || exit 1

# Other data and another method: what is quantized is not touched by them.
expect 0 "$QBENCH" calibrate half.onnx --data ../test --method entropy
expect 0 "$QBENCH" quantize half.onnx -o whole.onnx --json whole.json
says '3 layers in int8, 0 kept in float, [0-9]+ activation tensors; 21 layers were in int8 before'
expect 0 "$QBENCH" build --model whole.onnx --precision fp32 --saveEngine=whole.qbe --steps
says 'types: 25 steps in INT8'
expect 0 "$QBENCH" compare fp32 whole.onnx --model ../model.onnx --data ../test --samples 100 --duration 0.05 --no-figures
awk '$1 == "whole.onnx" && !seen {seen = 1; ok = $2 > 85} END {exit !ok}' "$work/.out" || fail 'the finished model is wrong'

# Tensors are floats to a model whose input is quantized, too.
mkdir tensors
head -c 12288 /dev/zero >tensors/0.bin
expect 0 "$QBENCH" calibrate whole.onnx --data tensors --method minmax

# Without its quantization, to be calibrated anew.
expect 0 "$QBENCH" optimize whole.onnx --dequantize -o floats.onnx
expect 0 "$QBENCH" build --model floats.onnx --precision fp32 --saveEngine=floats.qbe --steps
says 'types: [0-9]+ steps in FP32'
expect 2 "$QBENCH" optimize ../model.onnx --dequantize -o no.onnx
complains 'nothing of the model is quantized'
absent no.onnx
done_testing
