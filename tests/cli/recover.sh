#!/usr/bin/env bash
# calibrate --recover and what takes the recovered model: compare, quantize --for, build.
# ctest-timeout: 400, ctest-cost: 50, ctest-labels: slow
. "$1/tests/support/cli.sh"
demo 60 5
cd demo || exit 1
cat >qbench.yaml <<END
model: model.onnx
data: {calibration: calib, evaluation: test}
END
expect 2 "$QBENCH" calibrate --recover=equalise
complains "unknown 'equalise': expected some of absorb, equalize, smooth, rounding, bias, ranges"
expect 1 "$QBENCH" compare fp32 int8+recover --duration 0.01 --no-figures
complains "was not recovered yet: run 'qbench calibrate --recover'"
expect 0 "$QBENCH" calibrate --method minmax --recover
says 'recovery, fitted to [0-9]+ samples, measured on [0-9]+ others'
says '^after +[0-9.]+'
expect 0 "$QBENCH" compare fp32 int8 int8:minmax+recover --duration 0.01 --no-figures --json -
python3 - "$work/.out" <<'END' || fail 'the recovered row is no better'
import json, sys
rows = json.load(open(sys.argv[1]))['rows']
sqnr = [next(m['value'] for m in row['metrics'] if m['name'] == 'sqnr') for row in rows]
sys.exit(not sqnr[2] > sqnr[1])
END

# The recovered model is an ordinary one: its own calibration gives the same Q/DQ file.
for target in trt ort-cpu; do
    expect 0 "$QBENCH" quantize --recover --for $target -o $target.onnx
    expect 0 "$QBENCH" check --for $target $target.onnx
done
expect 0 "$QBENCH" quantize --recover -o one.qdq.onnx
expect 0 "$QBENCH" quantize --model model.recovered.onnx -o two.qdq.onnx
same_bytes one.qdq.onnx two.qdq.onnx
expect 0 "$QBENCH" build --precision int8+recover

# What stays float is what it was before it was rounded.
expect 0 "$QBENCH" quantize --recover --keep-float '*' -o all-float.onnx
expect 0 "$QBENCH" compare fp32 all-float.onnx --duration 0.01 --no-figures --json -
python3 - "$work/.out" <<'END' || fail 'all layers in float are not the float model'
import json, sys
row = json.load(open(sys.argv[1]))['rows'][1]
sys.exit(not next(m['value'] for m in row['metrics'] if m['name'] == 'sqnr') > 90)
END

# The same bytes for any number of threads, and in a second run.
cp model.recovered.onnx first.onnx && cp model.recovered.calib.h5 first.h5
cp model.recovered.float.onnx first.float.onnx
expect 0 "$QBENCH" calibrate --method minmax --recover --threads 1 --json calibrate.json
same_bytes first.onnx model.recovered.onnx
same_bytes first.h5 model.recovered.calib.h5
same_bytes first.float.onnx model.recovered.float.onnx
expect 0 python3 -c "import json; r = json.load(open('calibrate.json'))['recovery']; assert r['steps'] and r['layers']"

# The recovered model is none of those to choose from.
mkdir alone && cp model.onnx model.json model.recovered.onnx model.recovered.calib.h5 model.calib.h5 alone
cd alone || exit 1
expect 0 "$QBENCH" build --precision int8:minmax+recover
cd .. || exit 1

# `run` compares again when it was recovered again.
printf 'compare: {duration: 0.01}\n' >>qbench.yaml
run=("$QBENCH" run fp32 int8:minmax+recover)
expect 0 "${run[@]}"
expect 0 "${run[@]}"
complains 'compare: up to date'
cp model.calib.h5 kept.h5
expect 0 "$QBENCH" calibrate --method minmax --recover=bias
cp kept.h5 model.calib.h5 # nothing but the recovered model has changed
expect 0 "${run[@]}" --dry-run
complains 'calibrate: up to date'
complains 'compare: would run'

# Of another model: refused. (An empty message merged into the graph: other bytes, the same model.)
mv model.onnx other.onnx
{ cat other.onnx; printf '\x3a\x00'; } >model.onnx
expect 1 "$QBENCH" quantize --recover -o three.qdq.onnx
complains 'was recovered from another model than model.onnx'
done_testing
