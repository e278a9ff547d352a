#!/usr/bin/env python3
"""Latency of recurrent layers beside onnxruntime on this CPU, taking turns in one run.

Not part of the test suite; what it needs and how it measures: see cpu_peers.py.

    /tmp/peers/bin/python tests/perf/cpu_recurrent.py --bench build/tests/bench_engine

Each model is one layer in FP32 with random weights (also the zero initial states that exporters
write) and all outputs. Before the turns both engines answer the same input.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import cpu_peers

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
# operator, input, hidden, steps, batch, bidirectional
CASES = [(op, *sizes, batch, False)
         for op in ("LSTM", "GRU")
         for sizes in ((80, 128, 50), (128, 256, 100), (256, 256, 200), (512, 512, 100))
         for batch in (1, 8)]
CASES += [(op, 512, 256, steps, batch, True)  # as in text recognizers
          for op in ("LSTM", "GRU") for steps in (26, 80) for batch in (1, 8)]
CASES += [("RNN", 128, 256, 100, batch, False) for batch in (1, 8)]
LIMIT = 1.1


def name_of(case):
    op, inputs, hidden, steps, batch, both = case
    return f"{op.lower()}{'_both' if both else ''}_{inputs}_{hidden}_{steps}_{batch}"


def write_model(path, case, before_reset=1):
    op, inputs, hidden, steps, batch, both = case
    rng = np.random.default_rng(5)
    ways, rows = 2 if both else 1, GATES[op] * hidden
    bound = hidden ** -0.5  # as frameworks initialize

    def constant(name, *shape):
        return numpy_helper.from_array(rng.uniform(-bound, bound, shape).astype(np.float32), name)

    constants = [constant("w", ways, rows, inputs), constant("r", ways, rows, hidden),
                 constant("b", ways, 2 * rows),
                 numpy_helper.from_array(np.zeros((ways, batch, hidden), np.float32), "zero")]
    names = ["x", "w", "r", "b", "", "zero"] + (["zero"] if op == "LSTM" else [])
    attrs = {"hidden_size": hidden, "direction": "bidirectional" if both else "forward"}
    if op == "GRU":
        attrs["linear_before_reset"] = before_reset  # PyTorch's
    outputs = ["y", "y_h"] + (["y_c"] if op == "LSTM" else [])
    shapes = [[steps, ways, batch, hidden]] + [[ways, batch, hidden]] * 2
    graph = helper.make_graph(
        [helper.make_node(op, names, outputs, **attrs)], name_of(case),
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [steps, batch, inputs])],
        [helper.make_tensor_value_info(o, TensorProto.FLOAT, s) for o, s in zip(outputs, shapes)],
        constants)
    opset = helper.make_opsetid("", 14)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=8), path)


def difference(bench, path, peer):
    """The largest one between the answers to the same input."""
    own = subprocess.run([bench, "answer", path, "2"], input=peer.feed["x"].tobytes(),
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout
    theirs = np.concatenate([y.ravel() for y in peer.session.run(None, peer.feed)])
    return float(np.abs(np.frombuffer(own, np.float32) - theirs).max())


def compare(args, folder, case):
    path = os.path.join(folder, name_of(case) + ".onnx")
    write_model(path, case)
    engines = {"qbench": cpu_peers.Own(args.bench, path, 1, args.threads, None),
               "onnxruntime": cpu_peers.Onnxruntime(path, 1, args.threads)}
    apart = difference(args.bench, path, engines["onnxruntime"])
    times = cpu_peers.measure(engines, args.rounds, args.turn)
    for engine in engines.values():
        engine.close()
    row = {"model": name_of(case), "difference": apart,
           "min_ms": {n: min(t) for n, t in times.items()},
           "median_ms": {n: statistics.median(t) for n, t in times.items()}}
    ratio = row["min_ms"]["qbench"] / row["min_ms"]["onnxruntime"]
    row["met"] = ratio <= LIMIT and apart < 1e-5
    print(f"{row['model']:28}", *(f"{n} {row['min_ms'][n]:8.3f} ({row['median_ms'][n]:8.3f})"
                                  for n in engines),
          f"{ratio:6.3f}  differ by {apart:.1e}  {'met' if row['met'] else 'MISSED'}", flush=True)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", required=True, help="path of bench_engine")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--turn", type=float, default=0.05, help="seconds of one turn")
    parser.add_argument("--json", help="write the figures to this file")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = [compare(args, folder, case) for case in CASES if args.only in name_of(case)]
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump({"schema": "qbench.cpu_recurrent/1",
                       "onnxruntime": cpu_peers.ort.__version__, "threads": args.threads,
                       "rows": rows}, file, indent=1)
            file.write("\n")
    return 0 if all(row["met"] for row in rows) else 3


if __name__ == "__main__":
    sys.exit(main())
