#!/usr/bin/env bash
# Outputs of the small shared models beside onnxruntime's, at batch 1 and 8, and of what `optimize`
# writes. QB_PYTHON: a python that has onnxruntime and onnx (default: python3).
# ctest-timeout: 300
. "$1/tests/support/cli.sh"

python=${QB_PYTHON:-python3}
"$python" -c 'import onnx, onnxruntime' 2>/dev/null || skip "$python has no onnxruntime"
models=()
for name in ad01_toycar kws_dscnn mnist resnet8_cifar10 resnet8_cifar10_ort_qdq_minmax vww_96 \
    super_resolution_core; do
    [ ! -e "$QB_SHARED/models/$name.onnx" ] || models+=("$QB_SHARED/models/$name.onnx")
done
[ ${#models[@]} -gt 0 ] || skip "no models in $QB_SHARED"
expect 0 "$python" "$1/tests/e2e/onnxruntime_models.py" --qbench "$QBENCH" "${models[@]}"
cat "$work/.out"

done_testing
