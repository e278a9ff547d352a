#!/usr/bin/env bash
# qbench search: the front of accuracy and latency over precisions of groups, its files, and that an
# interrupted search goes on where it was.
# ctest-timeout: 400, ctest-cost: 100, ctest-labels: slow
. "$1/tests/support/cli.sh"
schemas=$1/docs/formats/schema

demo 5 20
cd demo || exit 1
search=("$QBENCH" search --model model.onnx --data test --samples 30 --no-figures)

# A plan that keeps its limits, with its files.
expect 0 "${search[@]}" --min-agreement 99 --json result.json
says '^ float type +ms ratio'
says '^\* +[0-9]+ (-|f32|bf16) '
cmp -s result.json model.search.json || fail 'the record is not what --json gives'
expect 0 "$QB_BUILD/tests/json_check" "$schemas/search.json" model.search.json
cat >front.py <<'PY'
import json, sys
d = json.load(open("model.search.json"))
picked = [p for p in d["points"] if p["picked"]]
assert len(picked) == 1 and picked[0]["agreement"] >= 99, picked
assert not any(p["meets"] and p["ratio"] < picked[0]["ratio"] for p in d["points"])
front = [p for p in d["points"] if p["on_front"]]
for a, b in zip(front, front[1:]):
    assert a["ratio"] <= b["ratio"] and (a["agreement"], a["sqnr_db"] == "inf") <= (b["agreement"], True), (a, b)
ends = {(len(p["float"]), p["float_type"]): p for p in d["points"]}
assert ends[0, "f32"]["ratio"] == 1 and ends[len(d["groups"]), "f32"]["sqnr_db"] == "inf"
assert len(d["groups"]) > 20 and all(g["float_alone"]["agreement"] is not None for g in d["groups"])
PY
expect 0 python3 front.py

# The plan makes the engine again, and the model is quantized where the plan is.
expect 0 "$QBENCH" build --precision best --plan model.search.plan.json --saveEngine=again.qbe
expect 0 "$QBENCH" inspect again.qbe --plan
cmp -s "$work/.out" model.search.plan.json || fail 'the plan does not make the engine again'
expect 0 "$QBENCH" compare fp32 int8 model.search.qbe model.search.qdq.onnx --data test --samples 30 --duration 0.05 --no-figures
cat >rows.py <<'PY'
import json
rows = {r["precision"]: r for r in json.load(open("compare.json"))["rows"]}
d = json.load(open("model.search.json"))
picked = [p for p in d["points"] if p["picked"]][0]
for name in ("model.search.qbe", "model.search.qdq.onnx"):
    assert abs(rows[name]["agreement_top1"] - picked["agreement"]) < 1e-9, name
PY
expect 0 python3 rows.py

# Suggestions of compare --layers are what was measured.
expect 0 "$QBENCH" compare fp32 int8 --layers --data test --samples 20 --duration 0.05 --no-figures
says '^int8: to keep in float, measured by qbench search: [0-9]+ groups in (f32|bf16).*times the latency of all integers'
grep -q '"float_db"' compare.json || fail 'layers lack what the search measured of them'
expect 0 "$QB_BUILD/tests/json_check" "$schemas/compare.json" compare.json

# Going on measures nothing again and gives the same bytes; other limits are answered as well.
cp model.search.json before.json
cp model.search.part before.part
expect 0 "${search[@]}" --min-agreement 99 --resume
complains 'goes on from .*model.search.part: [0-9]+ results'
! grep -q '^evaluate' "$work/.err" || fail 'what is known was measured again'
same_bytes before.json model.search.json
same_bytes before.part model.search.part
expect 0 "${search[@]}" --max-latency 100x --resume
expect 0 "$QB_BUILD/tests/json_check" "$schemas/search.json" model.search.json

# Killed at any time, it goes on: the last line may be torn. Accuracy is the same, whatever was
# measured together and by how many threads.
head -c $(($(wc -c <before.part) * 3 / 5)) before.part >model.search.part
expect 0 "${search[@]}" --min-agreement 99 --resume
cp model.search.part resumed.part
"${search[@]}" --min-agreement 99 >/dev/null 2>&1 &
pid=$!
for _ in $(seq 200); do
    [ "$(wc -l <model.search.part)" -gt 40 ] && break
    sleep 0.02
done
kill -KILL $pid
wait $pid 2>/dev/null
expect 0 "${search[@]}" --min-agreement 99 --resume
complains 'goes on from'
cp model.search.part killed.part
expect 0 "${search[@]}" --min-agreement 99 --threads 1
cat >scores.py <<'PY'
import json, sys
def scores(path):
    lines = [json.loads(l) for l in open(path)][1:]
    return {(l["kind"], l["key"]): l["value"] for l in lines if l["kind"] in ("score", "sensitivity")}
first = scores("before.part")
for other in ("resumed.part", "killed.part", "model.search.part"):
    b = scores(other)
    shared = first.keys() & b.keys()
    assert len(shared) > 50, (other, len(shared))
    assert all(first[k] == b[k] for k in shared), other
PY
expect 0 python3 scores.py

# What was measured for another search is not taken for this one.
expect 1 "${search[@]}" --min-agreement 99 --resume --samples 20
complains 'is of another search: its (threads|samples|samples_hash) is'
mkdir kept && cp -r test kept
for image in test/star/*.png; do cp test/ring/0000.png "$image"; done
expect 1 "${search[@]}" --min-agreement 99 --resume --threads 1
complains 'is of another search: its samples_content is'
rm -r test && mv kept/test test
echo '{"schema":"other"}' >model.search.part
expect 1 "${search[@]}" --min-agreement 99 --resume
complains 'not the cache of a search'

# Ways to quantize side by side: of the recovered model, too.
expect 0 "$QBENCH" calibrate --model model.onnx --data calib --recover
expect 0 "${search[@]}" --min-agreement 99 --precision int8,int8+recover --time-budget 1
says '^way 2: int8\+recover'
grep -q '"way": "int8+recover"' model.search.json || fail 'the second way was not looked at'
expect 0 "$QB_BUILD/tests/json_check" "$schemas/search.json" model.search.json

# The calibration's own samples flatter.
! grep -q 'flatter' "$work/.err" || fail 'held-out samples are taken for those of the calibration'
expect 0 "$QBENCH" search --model model.onnx --data calib --samples 20 --max-drop 100 --time-budget 1 --no-figures -o flattered
complains 'warning: scored on calib, the data that the ranges were chosen on'
cp -r calib copied
expect 0 "$QBENCH" search --model model.onnx --data copied --max-drop 100 --time-budget 1 --no-figures -o flattered
complains 'warning: scored on copied, the data that the ranges were chosen on'

# Limits that nothing keeps; options that make no sense.
rm -f model.search.qbe model.search.part
expect 3 "${search[@]}" --max-latency 0.000001 --time-budget 1
complains 'no plan meets the limits'
absent model.search.qbe
expect 2 "${search[@]}" --max-latency fast
complains "expected milliseconds such as 2.5, or times all integers such as 1.15x, got 'fast'"
expect 2 "${search[@]}" --confidence maybe
expect 2 "${search[@]}" --precision fp32
complains 'expected int8'
mkdir unlabelled && cp test/circle/*.png unlabelled
expect 2 "${search[@]}" --data unlabelled
complains 'no drop can be measured; limit --min-agreement'
expect 2 "${search[@]}" -o file.json
complains 'name a folder'
done_testing
