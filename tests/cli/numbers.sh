#!/usr/bin/env bash
# The numbers of one engine are the same wherever they are said: build, inspect, bench, the record of
# compare, the page.
# ctest-timeout: 300, ctest-cost: 20, ctest-labels: slow
. "$1/tests/support/cli.sh"
command -v python3 >/dev/null || skip "no python3"

demo 5 20
cd demo || exit 1
expect 0 "$QBENCH" build --precision int8 -o a.qbe
cp "$work/.out" build.txt
cp "$work/.err" build.log
expect 0 "$QBENCH" build --precision int8 -o a.qbe --json build.json
expect 0 "$QBENCH" inspect a.qbe --steps --json inspect.json
cp "$work/.out" inspect.txt
expect 0 "$QBENCH" bench --loadEngine=a.qbe --duration=0.2 --dumpProfile --exportProfile=profile.json \
    --json bench.json
cp "$work/.out" bench.txt
expect 0 "$QBENCH" compare fp32 int8 a.qbe --data test -o record.json
expect 0 "$QBENCH" report record.json -o page.html
expect 0 python3 - <<'PY'
import json, os, re


def read(name):
    return open(name).read()


def number(text, pattern):
    found = re.search(pattern, text)
    assert found, pattern
    return int(found.group(1))


def agree(what, values):
    assert len(set(values.values())) == 1, f"{what}: {values}"


def near(what, a, b, share):
    assert abs(a - b) <= share * abs(b), f"{what}: {a} and {b}"


build, inspect, bench, profile = (json.load(open(f + ".json")) for f in ("build", "inspect", "bench", "profile"))
record = json.load(open("record.json"))
row = {r["precision"]: r for r in record["rows"]}
page = re.sub(r"<[^>]*>", " ", read("page.html"))
integer = r"int8: [0-9.]+ ms in ([0-9]+) steps"
agree("steps", {
    "build": number(read("build.txt"), r"([0-9]+) steps\n"), "build --json": build["steps"],
    "plan of build": len(build["plan"]), "inspect": number(read("inspect.txt"), r"steps +([0-9]+)"),
    "table of inspect": len(re.findall(r"(?m)^[0-9]+ ", read("inspect.txt"))),
    "inspect --json": len(inspect["steps"]), "bench": len(profile) - 1,
    "table of bench": len(re.findall(r"(?m)^ +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+ +[a-z]", read("bench.txt"))),
    "record": len(row["int8"]["steps"]), "record of the file": len(row["a.qbe"]["steps"]),
    "page": number(page, integer)})
agree("names of steps", {
    "build": str([s["name"] for s in build["plan"]]), "bench": str([s["name"] for s in profile[1:]]),
    "record": str([s["name"] for s in row["int8"]["steps"]])})
agree("bytes of the engine", {
    "build": number(read("build.log"), r"([0-9]+) bytes in memory"), "build --json": build["engine_bytes"],
    "inspect": number(read("inspect.txt"), r"([0-9]+) in memory"), "inspect --json": inspect["memory"]["engine"],
    "bench": bench["memory"]["engine_bytes"], "record": row["int8"]["engine_bytes"],
    "record of the file": row["a.qbe"]["engine_bytes"]})
agree("bytes of the file", {
    "disk": os.path.getsize("a.qbe"), "build": number(read("build.txt"), r"a.qbe: ([0-9]+) bytes"),
    "build --json": build["file_bytes"], "inspect": number(read("inspect.txt"), r"([0-9]+) bytes in the file"),
    "inspect --json": inspect["file_bytes"]})
agree("weights", {
    "build": build["weights_bytes"], "inspect": inspect["memory"]["weights"],
    "bench": bench["memory"]["weights_bytes"], "record": row["int8"]["weights_bytes"]})
agree("activations", {
    "build": build["arena_bytes"], "inspect": inspect["memory"]["arena"],
    "bench": bench["memory"]["arena_bytes"], "record": row["int8"]["arena_bytes"]})
for name, r in row.items():
    near(f"steps and median of {name}", sum(s["ms"] for s in r["steps"]), r["latency_ms"]["median"], 1e-6)
near("steps and median of bench", sum(s["medianMs"] for s in profile[1:]), bench["summary"]["median_ms"], 1e-6)
shown = re.search(r"int8: ([0-9.]+) ms in", page).group(1)
assert shown == f'{row["int8"]["latency_ms"]["median"]:.3f}', shown
assert f'median latency {shown} ms' in re.sub(r"\s+", " ", page), shown
PY
done_testing
