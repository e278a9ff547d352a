#!/usr/bin/env bash
# Outputs of the shared models and of the zoo beside onnxruntime's, at batch 1 and 8, and of what
# `optimize` writes. QB_PYTHON: a python that has onnxruntime and onnx (default: python3).
# ctest-timeout: 600, ctest-cost: 50
# ctest-labels: e2e slow
. "$1/tests/support/cli.sh"

python=${QB_PYTHON:-python3}
"$python" -c 'import onnx, onnxruntime' 2>/dev/null || skip "$python has no onnxruntime"
models=()
for file in "$QB_SHARED"/models/*.onnx "$QB_SHARED"/onnx-light/*/model.onnx; do
    [ ! -e "$file" ] || models+=("$file")
done
[ ${#models[@]} -gt 0 ] || skip "no models in $QB_SHARED"
for name in resnet18 mobilenet_v2 efficientnet_b0 densenet121 yolov5s; do
    expect 0 "$QBENCH" zoo "$name" -o "$name.onnx"
    models+=("$name.onnx")
done
expect 0 "$python" "$1/tests/e2e/onnxruntime_models.py" --qbench "$QBENCH" "${models[@]}"
cat "$work/.out"

done_testing
