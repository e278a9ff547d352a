#!/usr/bin/env bash
# compare with files beside precisions: the Q/DQ file that quantize writes scores like the precision.
# ctest-cost: 25, ctest-labels: plain
. "$1/tests/support/cli.sh"
command -v python3 >/dev/null || skip "no python3 to read JSON with"
demo 5 10
cd demo || exit 1
expect 0 "$QBENCH" quantize
expect 0 "$QBENCH" inspect model.qdq.onnx # its input is quantized inside: values are given
says '^inputs +image  f32 '
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

rm big.onnx
# An engine file takes its turns too, and answers as the engine that is built from the same artifacts.
expect 0 "$QBENCH" build --precision int8 -o old
expect 0 "$QBENCH" compare fp32 int8 old/model.int8.qbe --data test --duration 0.05 --no-figures --layers --batches 1,2
complains 'outputs are compared as they are, after a Softmax'
cat >same.py <<'END'
import json
fp32, int8, engine = json.load(open("compare.json"))["rows"]
assert engine["precision"] == "model.int8.qbe" and engine["calibration"] == int8["calibration"] != ""
for key in "top1", "agreement_top1", "sqnr_db", "paired", "metrics", "layers", "engine_bytes":
    assert engine[key] == int8[key], (key, engine[key], int8[key])
assert "layer_errors" not in engine and int8["layer_errors"]
assert engine["batches"][0]["median_ms"] > 0 and engine["batches"][1]["median_ms"] is None
END
expect 0 python3 same.py
expect 0 "$QBENCH" report -f html -o report.html --no-figures
cp -r calib copied # what the engine's ranges were chosen on, told by the file alone
mv model.calib.h5 kept.h5
expect 0 "$QBENCH" compare fp32 old/model.int8.qbe --data copied --duration 0.05 --no-figures -o flattered.json
says '^warning: model.int8.qbe: scored on copied, the samples that its ranges were chosen on'
expect 3 "$QBENCH" gate flattered.json --max-drop 100
says '^BLOCKED model.int8.qbe max-drop: .*--allow calibration-data'
expect 0 "$QBENCH" compare fp32 old/model.int8.qbe --data test --duration 0.05 --no-figures -o held_out.json
expect 0 "$QBENCH" gate held_out.json --max-drop 100
mv kept.h5 model.calib.h5
expect 1 "$QBENCH" compare fp32 old/model.int8.qbe --data test --duration 0.05 --no-figures --batch 4
complains 'model.int8.qbe was not built for batch 4'
expect 0 "$QBENCH" build --precision int8 --batch 4 -o wide
expect 1 "$QBENCH" compare fp32 wide/model.int8.qbe --data test --duration 0.05 --no-figures
complains "not built for batch 1: input 'image' was built for 4x3x[0-9x]+, a run takes 1x3x"
printf 'x' >>old/model.int8.qbe
expect 1 "$QBENCH" compare fp32 old/model.int8.qbe --data test --no-figures
complains 'model.int8.qbe'
done_testing
