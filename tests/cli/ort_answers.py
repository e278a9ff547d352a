"""ort_answers.py BENCH_ENGINE TARGET MODEL DB: loads and checks a Q/DQ file, and compares what
onnxruntime and qbench's engine answer on seeded inputs: at least DB of signal to noise. For its CPU
provider onnxruntime runs its integer kernels; for other targets the file as written."""
import collections
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime as ort

SAMPLES = 16
own, target, path, least = sys.argv[1:]

model = onnx.load(path)
onnx.checker.check_model(model, full_check=True)
assert model.opset_import[0].version >= 13

options = ort.SessionOptions()
options.log_severity_level = 3
# Without VNNI its products of u8 and s8 saturate in 16 bits, unless told to be exact.
options.add_session_config_entry("session.x64quantprecision", "1")
with tempfile.NamedTemporaryFile(suffix=".onnx") as optimized:
    options.optimized_model_filepath = optimized.name
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    ops = collections.Counter(n.op_type for n in onnx.load(optimized.name).graph.node)
print(dict(ops))
if target == "ort-cpu":
    assert ops["Conv"] + ops["FusedConv"] == 0, "float convolutions are left"
    layers = sum(n.op_type == "Conv" for n in model.graph.node)
    assert ops["QLinearConv"] == layers, f"{layers} convolutions, {ops['QLinearConv']} in integers"
else:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])

shape = [d if isinstance(d, int) else 1 for d in session.get_inputs()[0].shape]
inputs = np.random.default_rng(3).random([SAMPLES] + shape, dtype=np.float32)
name = session.get_inputs()[0].name
theirs = np.stack([session.run(None, {name: x})[0].ravel() for x in inputs])
run = subprocess.run([own, "answer", path, "1"], input=inputs.tobytes(), capture_output=True,
                     check=True)
ours = np.frombuffer(run.stdout, np.float32).reshape(theirs.shape)
noise = np.sum((ours - theirs) ** 2)
sqnr = 10 * np.log10(np.sum(theirs ** 2) / noise) if noise else np.inf
agree = np.mean(ours.argmax(1) == theirs.argmax(1))
print(f"{run.stderr.decode().strip()}; agreement {agree:.3f}, {sqnr:.1f} dB")
assert sqnr >= float(least)
