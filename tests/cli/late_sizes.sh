#!/usr/bin/env bash
# Branches, loops and sizes that only a run decides: as onnxruntime computes them, and within --max-size.
# (QB_PYTHON: a python that has onnxruntime; default: python3).
. "$1/tests/support/cli.sh"

# If on sizes that the file leaves open: without --shapes, by the data alone.
models=$QB_SHARED/tasks/models
if [ -f "$models/silero_vad_16k_op15.onnx" ]; then
    cp -r "$models/testdata/silero_vad_16k_op15" silero
    cp "$models/silero_vad_16k_op15.onnx" silero/model.onnx
    expect 0 "$QBENCH" verify silero --atol 1e-4 --backends cpu,ref --backends eval
    says '^1 passed, 0 failed, 0 unsupported \(eval\)'
fi

python=${QB_PYTHON:-python3}
"$python" -c 'import onnx, onnxruntime' 2>/dev/null || skip "$python has no onnxruntime"
expect 0 "$python" "$1/tests/e2e/late_sizes.py" cases
expect 0 "$QBENCH" verify cases/branches cases/loop --backends eval
says '^2 passed, 0 failed, 0 unsupported \(eval\)'

# An engine needs a bound for what a loop or a branch gives.
run=(bench --duration=0.02 --warmUp=0 --iterations=2)
expect 1 "$QBENCH" "${run[@]}" --model cases/branches/model.onnx
complains "output 'y': nothing bounds its size.* --max-size y=[?0-9x]+, with"
python3 -c 'import struct,sys; sys.stdout.buffer.write(struct.pack("6f", 1, -2, 3, 4, -1, 0.5))' >x.bin
expect 0 "$QBENCH" "${run[@]}" --model cases/branches/model.onnx --max-size y=6 --loadInputs=x:x.bin --exportOutput=y.json
expect 0 "$QBENCH" "${run[@]}" --model cases/branches/model.onnx --max-size y=6 --loadInputs=x:x.bin --exportProfile=profile.json
expect 0 "$python" - <<'EOF'
import json
rows = json.load(open("profile.json"))[1:]
late = [r for r in rows if r["name"] == "all nodes whose sizes come with the data"]
assert len(late) == 1 and late[0]["medianMs"] > 0, rows
assert abs(sum(r["percentage"] for r in rows) - 100) < 1e-6, rows
EOF
grep -q '"values": *\[ *2[., ]' y.json || grep -A3 values y.json | grep -q '2' || fail 'other outputs'
expect 1 "$QBENCH" "${run[@]}" --model cases/branches/model.onnx --max-size y=4 --loadInputs=x:x.bin
complains "Add.*: output 'y' is 6 here, more than the 4 of --max-size"
expect 0 "$QBENCH" "${run[@]}" --model cases/loop/model.onnx --max-size y=6 --loadInputs=x:x.bin
expect 0 "$QBENCH" "${run[@]}" --model cases/loop/model.onnx --max-size y=6x2 --loadInputs=x:x.bin
expect 2 "$QBENCH" "${run[@]}" --model cases/loop/model.onnx --max-size y=6x
complains "expected NAME=100 or NAME=100x4, got 'y=6x'"
expect 2 "$QBENCH" "${run[@]}" --model cases/loop/model.onnx --max-size none=6
complains "'none' is no value whose size comes with the data"

# libqbench says how much of an output a run made; Python cannot load one with sanitizers.
if [ -z "${QB_SANITIZE:-}" ]; then
    expect 0 "$QBENCH" build --model cases/branches/model.onnx --max-size y=6 -o branches.qbe
    QBENCH_LIBRARY=$QB_BUILD/libqbench.so expect 0 "$python" - "$1/python" <<'EOF'
import sys
import numpy as np
sys.path.insert(0, sys.argv[1])
import qbench
engine = qbench.Engine.load("branches.qbe")
for x, y in (([1, -2, 3, 4, -1, 0.5], [2, -4, 6, 8, -2, 1]), ([-1, -2, 3, -4, 1, 0.5], [6, 2, 1]), ([-1] * 6, [])):
    got, = engine.run(np.array(x, np.float32))
    print(engine.outputs[0].shape, got.shape, np.array_equal(got, np.array(y, np.float32)))
EOF
    says '^\(6,\) \(6,\) True$'
    says '^\(6,\) \(3,\) True$'
    says '^\(6,\) \(0,\) True$'
fi

done_testing
