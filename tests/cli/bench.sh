#!/usr/bin/env bash
# bench: trtexec's options, its numbers among themselves, exports, errors.
. "$1/tests/support/cli.sh"
export PYTHONPATH=$1/tests/support PYTHONDONTWRITEBYTECODE=1

expect 0 "$QBENCH" zoo squeezenet1_1 -o model.onnx
short=(--duration=0.05 --warmUp=1 --iterations=4)

expect 0 "$QBENCH" bench --onnx=model.onnx "${short[@]}" --avgRuns=2 --percentile=50,99 --dumpProfile --dumpLayerInfo
says '^Throughput: [0-9.e+]+ qps'
says '^Latency: min = .*median = .*percentile\(50%\) = .*percentile\(99%\) = '
says '^Selected Device: '
says '^Created execution context with device memory size: [0-9.]+ MiB$'
says '^Warmup completed [0-9]+ queries over 1 ms$'
says '^Timing trace has [0-9]+ queries over [0-9.]+ s$'
says '^Average on 2 runs - Latency: '
says '^=== Profile \([0-9]+ iterations\) ==='
says ' Total$'

# Two streams, exports, JSON: the same numbers everywhere.
expect 0 "$QBENCH" bench model.onnx "${short[@]}" --infStreams=2 --batch 2 --json bench.json \
    --exportTimes=times.json --exportProfile=profile.json --exportLayerInfo=layers.json --exportOutput=output.json
if command -v python3 >/dev/null; then
    expect 0 python3 - <<'CHECK'
import json
bench, times = json.load(open('bench.json')), json.load(open('times.json'))
s = bench['summary']
assert bench['schema'] == 'qbench.bench/1' and bench['batch'] == 2 and bench['streams'] == 2
assert bench['queries'] == len(times) >= 8, (bench['queries'], len(times))
ms = sorted(t['latencyMs'] for t in times)
assert abs(ms[0] - s['min_ms']) < 1e-5 and abs(ms[-1] - s['max_ms']) < 1e-5
wall = max(t['endComputeMs'] for t in times)
assert min(t['startComputeMs'] for t in times) == 0 and abs(wall - s['wall_ms']) < 1e-4
assert abs(s['throughput_qps'] - 1e3 * len(times) / wall) < 1e-3 * s['throughput_qps']
assert abs(s['items_per_s'] - 2 * s['throughput_qps']) < 1e-6 * s['items_per_s']
for stream in (0, 1):
    mine = [t for t in times if t['stream'] == stream]
    assert len(mine) >= 4
    assert all(a['endD2hMs'] <= b['startEnqMs'] for a, b in zip(mine, mine[1:]))
for t in times:
    assert t['startEnqMs'] == t['endEnqMs'] == t['startH2dMs'] == t['endH2dMs'] == t['startComputeMs']
    assert t['endComputeMs'] == t['startD2hMs'] == t['endD2hMs']
    assert abs(t['endComputeMs'] - t['startComputeMs'] - t['latencyMs']) < 1e-5 and t['computeMs'] == t['latencyMs']
profile = json.load(open('profile.json'))
assert abs(sum(p['percentage'] for p in profile[1:]) - 100) < 1e-3
assert all('tactic' in layer for layer in json.load(open('layers.json')))
outputs = json.load(open('output.json'))
assert outputs[0]['dimensions'] == '2x1000' or outputs[0]['dimensions'].startswith('2x1000')
assert len(outputs[0]['values']) == 2000
CHECK
fi

expect 0 "$QBENCH" inspect --model model.onnx --json -
input=$(sed -n '/"inputs"/,/]/s/.*"name": "\([^"]*\)".*/\1/p' .out | head -1)
head -c 602112 /dev/zero >zeros.bin
expect 0 "$QBENCH" bench model.onnx "${short[@]}" --loadInputs="$input:zeros.bin" --exportOutput=zeros.json
! cmp -s zeros.json output.json || fail '--loadInputs changes nothing'

# Outputs of every type are exported as they are, in memory that does not grow with them.
if command -v python3 >/dev/null; then
    python3 - <<'PY'
import struct
from protobuf_fields import field
def port(name, kind, n):
    return field(1, name) + field(2, field(1, field(1, kind) + field(2, field(1, field(1, n)))))
def model(name, graph):
    open(name, "wb").write(field(1, 8) + field(7, graph + field(2, "g")) + field(8, field(1, "") + field(2, 17)))
def cast(to):
    return field(1, "x") + field(2, f"y{to}") + field(4, "Cast") + field(5, field(1, "to") + field(3, to) + field(20, 2))
types = [1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 16]
model("types.onnx", field(11, port("x", 1, 3)) + b"".join(field(1, cast(t)) + field(12, port(f"y{t}", t, 3)) for t in types))
open("types.bin", "wb").write(struct.pack("<3f", 0, 1, 100))
n = 1 << 22
shape = field(1, 1) + field(2, 7) + field(8, "s") + field(9, struct.pack("<q", n))
expand = field(1, "x") + field(1, "s") + field(2, "y") + field(4, "Expand")
model("wide.onnx", field(1, expand) + field(5, shape) + field(11, port("x", 1, 1)) + field(12, port("y", 1, n)))
PY
    expect 0 "$QBENCH" bench types.onnx "${short[@]}" --loadInputs=x:types.bin --exportOutput=all_types.json
    expect 0 python3 - <<'CHECK'
import json
outputs = json.load(open("all_types.json"))
assert len(outputs) == 13
for o in outputs:
    assert o["values"] == ([0, 1, 1] if o["dtype"] == "bool" else [0, 1, 100]), o
CHECK
    expect 0 "$QB_BUILD/tests/peak_memory" .peak "$QBENCH" bench wide.onnx "${short[@]}" --exportOutput=all_wide.json
    checks=$((checks + 1))
    [ -n "${QB_SANITIZE:-}" ] || [ "$(cat .peak)" -lt 200 ] || fail "4,194,304 numbers took $(cat .peak) MiB"
fi

# Without an end: until interrupted, and what was measured counts. On a busy machine nothing may be
# yet, so the model is the smallest that there is.
[ -e types.onnx ] && smallest=types.onnx || smallest=model.onnx
for seconds in 1.5 6 24; do
    setsid "$QBENCH" bench "$smallest" --warmUp=0 --duration=-1 >endless.out 2>endless.err &
    endless=$!
    sleep "$seconds"
    cat /proc/"$endless"/task/*/stat >endless.threads
    kill -INT "$endless"
    wait "$endless"
    ! grep -q '^Throughput: [1-9]' endless.out || break
done
checks=$((checks + 1))
grep -q '^Throughput: [1-9]' endless.out ||
    fail "interrupted: $(cat endless.out endless.err), its threads before: $(cat endless.threads)"

expect 0 "$QBENCH" bench model.onnx "${short[@]}" --skipInference --dumpOptimizationProfile
says '^none: the shapes are fixed$'

expect 2 "$QBENCH" bench model.onnx --shapes=nothing:1x3x8x8
complains "no input 'nothing'; it has [a-z]+"
expect 2 "$QBENCH" bench model.onnx --shapes="$input:1xa"
complains 'expected NAME:1x3x224x224'
expect 2 "$QBENCH" bench model.onnx --percentile=101
expect 1 "$QBENCH" bench model.onnx --loadInputs="$input:$QBENCH"
complains "takes 602112 bytes"
expect 2 "$QBENCH" bench model.onnx --precision int9
expect 2 "$QBENCH" bench model.onnx --devices=0,0
complains "expected numbers like 0,1, each once, got '0,0'"
expect 1 "$QBENCH" bench model.onnx "${short[@]}" --backends cpu --devices=0,1
complains 'expected an engine of a GPU'
expect 1 "$QBENCH" bench model.onnx --precision int8
complains "run 'qbench calibrate"
done_testing
