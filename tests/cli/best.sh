#!/usr/bin/env bash
# `best`: of integers and floats what is fastest, group by group; and rows of compare as engines.
# ctest-labels: plain
. "$1/tests/support/cli.sh"

demo 5 20
cd demo || exit 1

# --best, --precision best and --int8 with another type are one thing; what was chosen can be had
# again by its plan.
expect 0 "$QBENCH" build --best --saveEngine=best.qbe
complains 'best: all integers \(0 of [0-9]+ groups in f32\): [0-9.]+ ms'
complains 'ms, taken'
expect 0 "$QBENCH" inspect best.qbe --plan
cp "$work/.out" plan.json

# The command that inspect names realizes the plan that was chosen: it searches nothing.
expect 0 "$QBENCH" inspect best.qbe
command=$(sed -n 's/^built with  //p' "$work/.out")
cp best.qbe kept.qbe
checks=$((checks + 1))
PATH=$(dirname "$QBENCH"):$PATH bash -c "$command" >"$work/.out" 2>"$work/.err" || fail "$command"
checks=$((checks + 1))
grep -q ' groups in ' "$work/.err" && fail 'the plan was searched again'
same_bytes best.qbe kept.qbe

expect 0 "$QBENCH" build --int8 --fp16 --plan plan.json --saveEngine=again.qbe
same_bytes best.qbe again.qbe

# A plan in which a layer is float: that layer, and no other.
expect 0 "$QBENCH" build --precision int8 --keep-float block1.expand.conv --saveEngine=kept.qbe
expect 0 "$QBENCH" inspect kept.qbe --plan
cp "$work/.out" plan.json
expect 0 "$QBENCH" build --precision best --plan plan.json --saveEngine=again.qbe --steps
says 'block1.expand.conv +Conv[^ ]* +f32'
says 'stem.conv +Conv[^ ]* +s8'
sed 's/"float_type": "f32"/"float_type": "s32"/' plan.json >broken.json
expect 1 "$QBENCH" build --precision best --plan broken.json --saveEngine=no.qbe
complains 'broken.json: plan: spec.float_type: expected f32, bf16 or f16'
[ ! -e no.qbe ] || fail 'a refused plan left a file'

# A row is one engine: it has the plan that build makes, and says where its time goes.
expect 0 "$QBENCH" compare fp32 int8 best best:minmax+per-tensor --data test --duration 0.05 --no-figures
expect 0 "$QBENCH" build --precision int8 --saveEngine=int8.qbe
expect 0 "$QBENCH" compare fp32 int8.qbe --data test -o file.json --duration 0.05 --no-figures
cat >rows.py <<'PY'
import json
rows = {r["precision"]: r for r in json.load(open("compare.json"))["rows"]}
file = {r["precision"]: r for r in json.load(open("file.json"))["rows"]}
assert rows["int8"]["plan"] == file["int8.qbe"]["plan"] != rows["fp32"]["plan"]
assert rows["best:minmax+per-tensor"]["calibration"] == "minmax"
for name, row in rows.items():
    shares = row["time"]
    assert abs(sum(shares.values()) - 100) < 1, (name, shares)
assert rows["fp32"]["time"]["fp32"] > 99 and rows["int8"]["time"]["int8"] > 50
PY
expect 0 python3 rows.py
expect 2 "$QBENCH" inspect model.onnx --precision best
complains 'expected fp32, fp16 or bf16'
done_testing
