#!/usr/bin/env bash
# On a machine that is busy with other things latencies are no verdict: the record says what it saw,
# the gate that they could not be measured, and the page claims no speed-up.
# ctest-timeout: 200, ctest-cost: 20, ctest-labels: plain
. "$1/tests/support/cli.sh"
unset GITHUB_ACTIONS

demo 5 20
cd demo || exit 1
busy=()
for _ in $(seq $((3 * $(nproc)))); do
    while :; do :; done &
    busy+=($!)
done
trap 'kill "${busy[@]}" 2>/dev/null; rm -rf "$work"' EXIT
expect 0 "$QBENCH" compare fp32 int8 --data test --duration 1
kill "${busy[@]}"
wait "${busy[@]}" 2>/dev/null
says '^warning: others ran on the machine: '
says '^precision .* min ms'
says '^precision .* by minima'
grep -q '"name": "contention"' compare.json || fail 'the record lacks the warning'
grep -q '"waited": 0\.[0-9]' compare.json || fail 'the record does not say how long threads waited'
grep -q '"control_low"' compare.json || fail 'the record lacks the control'
for limit in --max-latency --max-latency-ratio; do
    expect 3 "$QBENCH" gate $limit 1000 --allow unstable
    says "^BLOCKED int8 ${limit#--}: could not be measured \\(limit 1000.*others ran on the machine.*--allow contention"
done
expect 0 "$QBENCH" gate --max-latency 100000 --allow unstable --allow contention
expect 0 "$QBENCH" gate --max-drop 90 # accuracy is another thing
grep -q 'times as fast' report.html && fail 'the page claims a speed-up'
grep -q 'by minima' report.html || fail 'the page does not show minima'
# the interval of the ratio holds that of the minima
python3 - <<'PYTHON' || fail 'intervals do not hold the disturbance'
import json
rows = json.load(open("compare.json"))["rows"]
for row in rows:
    l = row["latency_ms"]
    assert l["median_low"] <= l["min"] <= l["median_high"], l
l = rows[1]["latency_ms"]
assert l["ratio_low"] <= 1 / rows[1]["speedup_minima"] <= l["ratio_high"]
PYTHON
done_testing
