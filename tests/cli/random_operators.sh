#!/usr/bin/env bash
# Each operator with attributes, shapes, types and opsets drawn at random, beside onnxruntime, by the
# definitions and by the default backends. Where Python has onnxruntime (QB_PYTHON names it).
. "$1/tests/support/cli.sh"
python=${QB_PYTHON:-python3}
"$python" -c 'import numpy, onnx, onnxruntime' 2>/dev/null || skip "no onnxruntime for $python"

expect 0 "$python" "$1/tests/op/random_cases.py" cases --seed "${QB_SEED:-1}" --count "${QB_COUNT:-400}"
expect 0 "$QBENCH" verify cases --rtol 2e-3 --atol 1e-5 --backends eval --backends cpu,dnnl,ref
done_testing
