#!/usr/bin/env python3
"""Models against onnxruntime: outputs at several batches, and the way out again.

    python tests/e2e/onnxruntime_models.py --qbench build/release/qbench MODEL.onnx...

For each model and batch (fixed batches run as they are), on seeded inputs:
  engine  qbench's outputs differ from onnxruntime's by at most this share of the output's range
  export  onnxruntime's outputs of the file that `qbench optimize` writes, from those of the original
  own     onnxruntime's outputs of the original as written, from those after its own optimizations
Engine and export must stay within 1e-4, or within twice `own` where that is more: a random network may
amplify a rounding of its input a thousandfold, and no order of summing is the right one. Integer models,
where a rounding that falls the other way moves a code, within 0.15 for the engine. Exit code 77 without
onnxruntime, 1 when a model is off.
"""
import argparse
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    import onnxruntime as ort
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

FLOAT_LIMIT, INTEGER_LIMIT = 1e-4, 0.15
OPEN_SIDE = 24  # size of open dimensions behind the first


def session(path, as_written=False):
    options = ort.SessionOptions()
    if as_written:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    options.intra_op_num_threads = 2
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def feed_of(opened, batch):
    """Seeded inputs; None when the batch is fixed to another number."""
    rng = np.random.default_rng(3)
    feed = {}
    for port in opened.get_inputs():
        shape = [d if isinstance(d, int) and d > 0 else batch if i == 0 else OPEN_SIDE
                 for i, d in enumerate(port.shape)]
        if not shape or shape[0] != batch:
            return None
        if "int" in port.type:
            feed[port.name] = rng.integers(0, 2, shape).astype(port.type[7:-1])
        else:
            feed[port.name] = rng.standard_normal(shape).astype(np.float32)
    return feed


def off_by(got, wanted):
    spread = float(wanted.max() - wanted.min()) or 1.0
    return float(np.abs(got.astype(np.float64) - wanted).max()) / spread


def write_case(folder, model, feed, outputs):
    data = os.path.join(folder, "test_data_set_0")
    os.makedirs(data)
    os.symlink(os.path.abspath(model), os.path.join(folder, "model.onnx"))
    for kind, tensors in (("input", feed.values()), ("output", outputs)):
        for i, tensor in enumerate(tensors):
            with open(os.path.join(data, f"{kind}_{i}.pb"), "wb") as file:
                file.write(onnx.numpy_helper.from_array(tensor).SerializeToString())


def engine_error(qbench, case, spread):
    """verify's largest absolute error as a share of the range; text when it could not run."""
    out = subprocess.run([qbench, "verify", case, "--rtol", "0", "--atol", "1e30"],
                         capture_output=True, text=True, check=False)
    if not out.stdout.startswith("passed"):
        return out.stdout.splitlines()[0] if out.stdout else out.stderr
    return float(out.stdout.splitlines()[0].rsplit(" ", 1)[1]) / spread


def check(args, model, batch, folder):
    """One row of the table; False when something is off."""
    name = os.path.basename(model)[:-5]
    if name == "model":
        name = os.path.basename(os.path.dirname(model))
    try:
        original = session(model)
    except Exception as error:  # pylint: disable=broad-except
        print(f"{name:34} {batch:3}  onnxruntime cannot load it: {str(error)[:60]!r}")
        return True
    feed = feed_of(original, batch)
    if feed is None:
        print(f"{name:34} {batch:3}  fixed batch")
        return True
    wanted = original.run(None, feed)
    case = os.path.join(folder, f"{name}-{batch}")
    write_case(case, model, feed, wanted)
    engine = engine_error(args.qbench, case, max(float(w.max() - w.min()) for w in wanted) or 1.0)
    exported = os.path.join(case, "exported.onnx")
    subprocess.run([args.qbench, "optimize", model, "-o", exported, "-q"], check=True)
    export = max(off_by(g, w) for g, w in zip(session(exported).run(None, feed), wanted))
    own = max(off_by(g, w) for g, w in zip(session(model, as_written=True).run(None, feed), wanted))
    integer = any(n.op_type == "DequantizeLinear"
                  for n in onnx.load(model, load_external_data=False).graph.node)
    limit = max(FLOAT_LIMIT, 2 * own)
    good = not isinstance(engine, str) and engine <= (INTEGER_LIMIT if integer else limit)
    good = good and export <= limit
    text = engine if isinstance(engine, str) else f"{engine:.1e}"
    print(f"{name:34} {batch:3}  {text:>9}  {export:9.1e}  {own:9.1e}  {'' if good else 'OFF'}", flush=True)
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--qbench", required=True)
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 8])
    args = parser.parse_args()
    print(f"{'model':34} {'N':>3}  {'engine':>9}  {'export':>9}  {'own':>9}")
    with tempfile.TemporaryDirectory() as folder:
        results = [check(args, m, b, folder) for m in args.models for b in args.batches]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
