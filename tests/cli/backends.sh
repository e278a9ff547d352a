#!/usr/bin/env bash
# compare over backends: fp32@dnnl fp32@ref ... in one run; the record, every form of the report and the
# gate name them; what is not there is one error before anything runs.
# ctest-labels: plain
. "$1/tests/support/cli.sh"
command -v python3 >/dev/null || skip "no python3 to read JSON with"
demo 3 5
cd demo || exit 1
expect 0 "$QBENCH" quantize
short=(--data test --duration 0.01 --thumbnails 0 --threads 1)
rows=(fp32@ref int8@ref model.qdq.onnx@cpu)
"$QBENCH" inspect model.onnx --backends dnnl >/dev/null 2>&1 && rows+=(fp32@dnnl int8@dnnl)

# Several: names, backends, one answer; a column only here.
expect 0 "$QBENCH" compare fp32 "${rows[@]}" "${short[@]}"
says '^precision +backend +median ms'
says '^int8@ref +ref +[0-9.]+'
says '^backend: what ran it'
cat >check.py <<'END'
import json, sys
rows = {r["precision"]: r for r in json.load(open("compare.json"))["rows"]}
assert list(rows) == sys.argv[1:], list(rows)
for name, row in rows.items():
    assert row["backend"] == (name.split("@") + ["cpu"])[1], (name, row["backend"])
    tactics = {s["tactic"].split(".")[0] for s in row["steps"] if s["flops"] > 0}
    if row["backend"] == "ref":
        assert not tactics & {"cpu", "dnnl"}, (name, tactics)
    if row["backend"] == "dnnl":
        assert "dnnl" in tactics and "cpu" not in tactics, (name, tactics)
assert rows["int8@ref"]["top1"] == rows["model.qdq.onnx@cpu"]["top1"]
assert rows["fp32@ref"]["agreement_top1"] == 100
END
expect 0 python3 check.py fp32 "${rows[@]}"
grep -q "title 'ref'" figures/latency.gp || fail 'the latency chart does not group by backend'
expect 0 "$QBENCH" report --format md
says '^\| precision \| backend \|'
expect 0 "$QBENCH" report --format tsv
says $'^precision\t.*\tbackend\tmedian_ms'
grep -q ' scope="[a-z]*"[^>]*>int8@ref<' report.html || fail 'the page does not name the row'
grep -q '>backend<' report.html || fail 'the page has no column of backends'

# The gate takes such a name, and a baseline of another backend is no baseline for times.
expect 0 "$QBENCH" gate --min-agreement 50 --precision int8@ref
says '^PASS int8@ref min-agreement'
expect 2 "$QBENCH" gate --min-agreement 50 --precision int8@tpu
complains "no row 'int8@tpu' after the first one; it has fp32@ref, int8@ref"
expect 0 "$QBENCH" gate --baseline compare.json --baseline-ratio 1 --precision int8@ref --allow unstable --allow contention
sed 's/"backend": "ref"/"backend": "cpu"/' compare.json >other.json
expect 3 "$QBENCH" gate --baseline other.json --precision int8@ref
says 'FAIL int8@ref baseline-latency: .*the baseline ran on another backend'

# One backend: no column.
expect 0 "$QBENCH" compare fp32 int8 "${short[@]}" --no-figures
says '^precision +median ms'
expect 0 "$QBENCH" compare fp32 int8 "${short[@]}" --no-figures --backends cpu,ref
[ "$(grep -c '"backend": "cpu,ref"' compare.json)" = 2 ] || fail 'the record does not say --backends'

# An engine keeps its own, and the precision of a build or a bench may say one.
expect 0 "$QBENCH" build --precision int8@ref
expect 0 "$QBENCH" inspect model.int8@ref.qbe
says '^built for +ref:'
expect 0 "$QBENCH" compare fp32 model.int8@ref.qbe "${short[@]}" --no-figures
says '^model.int8@ref.qbe +ref '
expect 2 "$QBENCH" compare fp32 model.int8@ref.qbe@cpu "${short[@]}"
complains "an engine file runs on what it was built for: leave out '@cpu'"
expect 0 "$QBENCH" bench --precision fp32@ref --duration=0.01 --warmUp=0 --iterations=1

# Refused before the data is even looked for.
refused() { # refused CODE PRECISION MESSAGE
    rm -f compare.json
    expect "$1" "$QBENCH" compare fp32 "$2" --data nowhere
    complains "$3"
    [ "$(wc -l <"$work/.err")" = 1 ] || fail "more than one line about $2"
    absent compare.json
}
refused 2 fp32@rfe "fp32@rfe: backend 'rfe'; did you mean 'ref'\?"
refused 2 int8@tensorrt "backend 'tensorrt': this qbench has cpu"
refused 2 model.onnx@ "model.onnx@: backend ''"
refused 2 fp32@ref,cuda "cuda"
refused 1 fp16@ref 'fp16@ref: no kernel of the processor computes in fp16'
expect 2 "$QBENCH" compare --backends rfe "${short[@]}"
complains "did you mean 'ref'"
if ! "$QBENCH" compare fp32 fp32@cuda "${short[@]}" --no-figures >/dev/null 2>"$work/.err"; then
    complains "fp32@cuda: backend 'cuda':"
fi
done_testing
