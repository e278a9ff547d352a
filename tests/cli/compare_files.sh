#!/usr/bin/env bash
# compare with files beside precisions: the Q/DQ file that quantize writes scores like the precision.
. "$1/tests/support/cli.sh"
command -v python3 >/dev/null || skip "no python3 to read JSON with"
expect 0 "$QBENCH" demo -o demo --test-images 10 --calibration-images 5
cd demo || exit 1
expect 0 "$QBENCH" quantize
expect 0 "$QBENCH" compare fp32 int8 model.qdq.onnx --data test --duration 0.01 --thumbnails 0
[ -s report.html ] || fail 'compare left no report.html'
expect 0 python3 - <<'PY'
import json
fp32, int8, file = json.load(open("compare.json"))["rows"]
assert file["precision"] == "model.qdq.onnx"
for key in ("top1", "agreement_top1", "sqnr_db"):
    assert int8[key] == file[key], (key, int8[key], file[key])
assert file["layers"]["int8"] == int8["layers"]["int8"] > 0
assert len(file["latency_ms"]["rounds"]) == len(fp32["latency_ms"]["rounds"]), "not the same rounds"
PY
expect 1 "$QBENCH" compare fp32 nowhere.onnx --data test --duration 0.01
complains 'nowhere.onnx'
expect 0 "$QBENCH" zoo squeezenet1_1 -o big.onnx
expect 1 "$QBENCH" compare fp32 big.onnx --model model.onnx --data test --duration 0.01
complains 'big.onnx|input'
done_testing
