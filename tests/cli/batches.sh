#!/usr/bin/env bash
# Batches of a model one of whose inputs has none: a number beside the samples stays as it is.
. "$1/tests/support/cli.sh"
export PYTHONPATH=$1/tests/support PYTHONDONTWRITEBYTECODE=1

command -v python3 >/dev/null || skip "python3 is not installed"
python3 - <<'PY'
import random, struct, zipfile
from protobuf_fields import field
random.seed(3)
def port(name, *dims):
    sizes = b"".join(field(1, field(2, "N") if d is None else field(1, d)) for d in dims)
    return field(1, name) + field(2, field(1, field(1, 1) + field(2, sizes)))
def floats(n):
    return struct.pack(f"<{n}f", *(random.gauss(0, 1) for _ in range(n)))
def model(name, *batch):
    weight = field(1, 4) + field(1, 3) + field(2, 1) + field(8, "w") + field(9, floats(12))
    product = field(1, "x") + field(1, "w") + field(2, "p") + field(4, "MatMul")
    total = field(1, "p") + field(1, "t") + field(2, "y") + field(4, "Add")
    graph = field(1, product) + field(1, total) + field(2, "g") + field(5, weight)
    graph += field(11, port("x", *batch, 4)) + field(11, port("t", 1)) + field(12, port("y", *batch, 3))
    open(name, "wb").write(field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 17)))
def array(shape, n):
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".encode()
    head += b" " * (63 - (len(head) + 10) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + floats(n)
model("open.onnx", None)
model("fixed.onnx", 1)
with zipfile.ZipFile("data.npz", "w") as z:
    z.writestr("x.npy", array((8, 4), 32))
    z.writestr("t.npy", array("(8,)", 8))
PY

expect 0 "$QBENCH" calibrate --model open.onnx --data data.npz --method minmax
expect 0 "$QBENCH" compare fp32 int8 --model open.onnx --data data.npz --duration 0.02 --no-figures --batches 1,4
expect 0 python3 - <<'CHECK'
import json
rows = json.load(open("compare.json"))["rows"]
assert [[b["batch"] for b in r["batches"]] for r in rows] == [[1, 4], [1, 4]], rows
CHECK
expect 0 "$QBENCH" calibrate --model fixed.onnx --data data.npz --method minmax
expect 1 "$QBENCH" compare fp32 int8 --model fixed.onnx --data data.npz --batches 1,4
complains "batch 4: the model has a fixed batch .input 'x' is 1x4"
expect 0 "$QBENCH" bench --model open.onnx --batch 4 --duration 0.02 --warmUp 0
expect 1 "$QBENCH" bench --model fixed.onnx --batch 4 --duration 0.02 --warmUp 0
complains "batch 4: the model has a fixed batch .input 'x' is 1x4"
done_testing
