#!/usr/bin/env bash
# compare --layers on the demo's model: what must be so whatever the numbers are.
# ctest-cost: 50, ctest-labels: slow
. "$1/tests/support/cli.sh"
command -v python3 >/dev/null || skip "no python3 to read JSON with"
demo 5 20
cd demo || exit 1
for threads in 1 2; do
    expect 0 "$QBENCH" compare fp32 int8 int8+s8-symmetric --layers --data test --duration 0.01 \
        --no-figures --thumbnails 0 -j $threads -o "t$threads"
done
expect 0 python3 - <<'PY'
import json, math
one, two = (json.load(open(f"t{t}/compare.json"))["rows"] for t in (1, 2))
assert "layer_errors" not in one[0], "the float row has no layers"
for a, b in zip(one[1:], two[1:]):
    layers = a["layer_errors"]
    assert layers == b["layer_errors"], "threads change the result"
    assert len(layers) > 20
    # Nothing is inherited by the first layer, and the last one's value is what the SQNR is of.
    assert layers[0]["own_db"] == layers[0]["total_db"], layers[0]
    assert math.isclose(layers[-1]["total_db"], a["sqnr_db"], rel_tol=1e-6), layers[-1]
    shares = [l["share"] for l in layers if l["share"] is not None]
    assert math.isclose(sum(shares), 100, rel_tol=1e-6), sum(shares)
    for l in layers:
        assert 0 <= l["saturated"] <= 100 and -1 <= l["unused_codes"] <= 256, l
        assert l["range_low"] is None or l["range_low"] <= 0 <= l["range_high"], l
# A symmetric range wastes its negative half on what is never negative.
relu = [l for l in one[2]["layer_errors"] if l["seen_low"] >= 0 and l["unused_codes"] >= 0]
assert relu and all(l["unused_codes"] >= 127 for l in relu), relu
PY
# Layers kept in float leave the list and make less noise.
expect 0 "$QBENCH" compare fp32 int8 --layers --data test --duration 0.01 --no-figures --thumbnails 0 \
    --keep-float '*depthwise*' -o kept
expect 0 python3 - <<'PY'
import json
before, after = (json.load(open(f + "/compare.json"))["rows"][1] for f in ("t1", "kept"))
assert after["sqnr_db"] > before["sqnr_db"] + 3, (before["sqnr_db"], after["sqnr_db"])
kept = [s for s in after["steps"] if "depthwise" in s["name"] and s["flops"] > 0]
assert kept and all(s["reason"] == "kept in float" for s in kept), kept
PY
done_testing
