#!/usr/bin/env bash
# A language model: tokens that are right, perplexity, sequences, against numbers counted here; the
# same of true tokens that --targets names.
. "$1/tests/support/cli.sh"
export PYTHONPATH=$1/tests/support PYTHONDONTWRITEBYTECODE=1

cat >make.py <<'PY'
import array, math, random, struct
V, D, T, N = 300, 24, 12, 20
random.seed(7)
E = [[random.gauss(0, 1) for _ in range(D)] for _ in range(V)]
following = lambda t: (7 * t + 3) % V
W = [[0.0] * V for _ in range(D)]
for t in range(V):
    for d in range(D):
        W[d][following(t)] += 0.5 * E[t][d]
f32 = lambda x: struct.unpack("<f", struct.pack("<f", x))[0]
E = [[f32(x) for x in row] for row in E]
W = [[f32(x) for x in row] for row in W]
ids = []
for n in range(N):
    row = [random.randrange(V)]
    while len(row) < T:
        wrong = n >= 3 and random.random() < 0.3
        row.append(random.randrange(V) if wrong else following(row[-1]))
    ids.append(row)

def npy(name, rows):
    head = "{'descr': '<i8', 'fortran_order': False, 'shape': (%d, %d), }" % (len(rows), len(rows[0]))
    head += " " * (117 - len(head)) + "\n"
    data = b"".join(struct.pack("<q", x) for row in rows for x in row)
    open(name, "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + data)

npy("ids.npy", ids)
truth = [row[1:] + [-100] for row in ids]
npy("truth.npy", truth)
right = whole = told = 0
nats = 0.0
for row in ids:
    good = 0
    for t in range(T - 1):
        logits = [sum(E[row[t]][d] * W[d][v] for d in range(D)) for v in range(V)]
        best = max(range(V), key=lambda v: logits[v])
        good += best == row[t + 1]
        most = max(logits)
        nats += most + math.log(sum(math.exp(x - most) for x in logits)) - logits[row[t + 1]]
    right += good
    told += T - 1
    whole += good == T - 1
print("%.4f %.4f %.4f" % (100 * right / told, 100 * whole / N, math.exp(nats / told)))

from protobuf_fields import field

def value(name, kind, dims):
    shape = b"".join(field(1, field(1, d)) for d in dims)
    return field(1, name) + field(2, field(1, field(1, kind) + field(2, shape)))

def tensor(name, rows):
    data = array.array("f", [x for row in rows for x in row]).tobytes()
    return field(1, len(rows)) + field(1, len(rows[0])) + field(2, 1) + field(8, name) + field(9, data)

def node(op, inputs, output):
    return b"".join(field(1, i) for i in inputs) + field(2, output) + field(3, output) + field(4, op)

graph = (field(1, node("Gather", ["E", "input_ids"], "x")) + field(1, node("MatMul", ["x", "W"], "logits"))
         + field(2, "lm") + field(5, tensor("E", E)) + field(5, tensor("W", W))
         + field(11, value("input_ids", 7, [1, T])) + field(12, value("logits", 1, [1, T, V])))
open("lm.onnx", "wb").write(field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 13)))
broken = graph.replace(field(12, value("logits", 1, [1, T, V])), b"") + field(1, node("Sqrt", ["logits"], "roots"))
broken += field(12, value("roots", 1, [1, T, V]))
import os
os.mkdir("broken")
open("broken/lm.onnx", "wb").write(field(1, 8) + field(7, broken) + field(8, field(1, "") + field(2, 13)))
PY
read -r tokens sequences perplexity < <(python3 make.py)
near() { # KEY WANTED: of the first row
    checks=$((checks + 1))
    python3 -c 'import json, sys
v = json.load(open("compare.json"))["rows"][0][sys.argv[1]]
sys.exit(abs(v - float(sys.argv[2])) > 2e-4)' "$1" "$2" || fail "$1: expected $2"
}
expect 0 "$QBENCH" calibrate lm.onnx --data ids.npy
expect 0 "$QBENCH" compare fp32 int8 --data ids.npy --duration 0.02 --no-figures
complains '^task tokens '
says '^precision +tokens % .* perplexity$'
near token_top1 "$tokens"
near sequence_top1 "$sequences"
near perplexity "$perplexity"
near same_tokens 100
expect 0 cat compare.json
says '^ "task": "tokens",$'
# A token with a NaN among its scores is none, also beside another such one.
expect 0 "$QBENCH" compare fp32 --model broken/lm.onnx --data ids.npy --duration 0.02 --no-figures -o broken
complains 'fp32: the output of 20 of 20 samples holds NaN'
expect 0 cat broken/compare.json
says '^   "token_top1": 0.0,$'
says '^   "same_tokens": 0.0$'
expect 0 "$QBENCH" gate --allow calibration-data --max-drop 50 --junit gate.xml
says '^PASS int8 max-drop of tokens: '
expect 3 "$QBENCH" gate --allow calibration-data --max-drop -1 --metric perplexity
says '^FAIL int8 max-drop of perplexity: '
cp compare.json before.json
expect 0 "$QBENCH" gate --allow calibration-data --max-drop 50 --baseline before.json --baseline-accuracy
says '^PASS int8 baseline-drop of tokens: '
expect 0 "$QBENCH" compare fp32 int8 --data ids.npy --targets truth.npy --duration 0.02 --no-figures
near token_top1 "$tokens"
near perplexity "$perplexity"
for i in 1 2; do expect 0 "$QBENCH" compare fp32 int8 --data ids.npy --duration 0.02 --shard $i/2; done
expect 0 "$QBENCH" merge part_1.json part_2.json --no-figures
near token_top1 "$tokens"
near perplexity "$perplexity"
expect 0 "$QBENCH" init lm.onnx --data ids.npy --force
says '^task tokens: '
done_testing
