#!/usr/bin/env bash
# Odd names, interfaces and shapes through verify, optimize, calibrate and quantize, beside onnxruntime
# (QB_PYTHON: a python that has it; default: python3).
. "$1/tests/support/cli.sh"

python=${QB_PYTHON:-python3}
"$python" -c 'import onnx, onnxruntime' 2>/dev/null || skip "$python has no onnxruntime"
mkdir cases
expect 0 "$python" "$1/tests/e2e/odd_models.py" --qbench "$QBENCH" cases
cat "$work/.out"

done_testing
