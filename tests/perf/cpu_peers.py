#!/usr/bin/env python3
"""Latency of qbench beside onnxruntime and OpenVINO on this CPU, taking turns in one run.

Not part of the test suite: it needs the peers, which are installed only for it:

    python3 -m venv /tmp/peers && /tmp/peers/bin/pip install onnxruntime openvino numpy
    /tmp/peers/bin/python tests/perf/cpu_peers.py --bench build/tests/bench_engine --shared ../shared

For each model (squeezenet1.1 and resnet8 from the shared data, resnet50 and mobilenet_v2 from the
zoo) and batch, each engine runs a few times, then the next one does, for several rounds: what else
happens on the machine hits all of them. The smallest latency is compared (what the machine can do),
the median is shown. All run the same files: the float model, and for INT8 the Q/DQ model that qbench
writes (uint8 activations, per-channel weights), which is the form that both peers run fastest.
Transformers are also compared with onnxruntime's dynamic quantization of their matrix products;
with the precision "dynamic" qbench runs that file, too:

    ... --models bert_base vit_b_16 --batches 1 8 --peers onnxruntime --folder /tmp/models
        [--precisions fp32 int8 dynamic]
"""
import argparse
import json
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnxruntime as ort
import openvino as ov
from onnxruntime.quantization import QuantType, quantize_dynamic

TRANSFORMERS = ("bert_base", "vit_b_16")


def met(model, precision, own, peers):
    """Whether the latency is within what is allowed relative to the peers'."""
    of_onnxruntime = [ms for name, ms in peers.items() if name.startswith("onnxruntime")]
    if model in TRANSFORMERS:
        return own <= 1.15 * min(of_onnxruntime)
    if precision == "fp32":
        return own <= 1.05 * min(peers.values())
    return own < min(of_onnxruntime) and own <= 1.05 * peers.get("openvino", float("inf"))


class Own:
    def __init__(self, bench, model, batch, threads, backends):
        command = [bench, "run", model, str(batch), str(threads)] + ([backends] if backends else [])
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)
        if self.process.stdout.readline().strip() != "ready":
            sys.exit(f"{' '.join(command)} failed")

    def run(self, n):
        self.process.stdin.write(f"{n}\n")
        self.process.stdin.flush()
        return [float(ms) for ms in self.process.stdout.readline().split()]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def timed(call, n):
    times = []
    for _ in range(n):
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e3)
    return times


class Onnxruntime:
    def __init__(self, model, batch, threads):
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        # a spinning pool would take the processors from whoever's turn it is
        options.add_session_config_entry("session.intra_op.allow_spinning", "1")
        options.add_session_config_entry("session.force_spinning_stop", "1")
        self.session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self.feed = inputs_of([(i.name, i.shape, "int" in i.type)
                               for i in self.session.get_inputs()], batch)

    def run(self, n):
        return timed(lambda: self.session.run(None, self.feed), n)

    def close(self):
        pass


class Openvino:
    def __init__(self, model, batch, threads):
        core = ov.Core()
        net = core.read_model(model)
        shapes = {p.any_name: [batch if d.is_dynamic else d.get_length() for d in p.partial_shape]
                  for p in net.inputs}
        net.reshape(shapes)
        self.request = core.compile_model(net, "CPU", {
            "INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": "f32"}).create_infer_request()
        feed = inputs_of([(p.any_name, shapes[p.any_name], p.element_type.is_integral())
                          for p in net.inputs], batch)
        for name, value in feed.items():
            self.request.set_tensor(name, ov.Tensor(value))

    def run(self, n):
        return timed(self.request.infer, n)

    def close(self):
        pass


def inputs_of(ports, batch):
    rng = np.random.default_rng(7)
    feed = {}
    for name, shape, integer in ports:  # integers are zeros, as bench_engine's
        sizes = [d if isinstance(d, int) and d > 0 else batch for d in shape]
        feed[name] = (np.zeros(sizes, np.int64) if integer
                      else rng.standard_normal(sizes).astype(np.float32))
    return feed


def measure(engines, rounds, budget):
    """Milliseconds by engine; each turn lasts about budget seconds."""
    times = {name: [] for name in engines}
    turns = {}
    for name, engine in engines.items():
        engine.run(2)
        turns[name] = max(1, min(200, int(budget * 1e3 / min(engine.run(2)))))
    for _ in range(rounds):
        for name, engine in engines.items():
            engine.run(1)  # wakes its threads, fills its caches
            times[name] += engine.run(turns[name])
    return times


def engines_of(args, files, precision, batch):
    """All that take turns, by name; "qbench" is the first."""
    path = files[precision]
    engines = {"qbench": Own(args.bench, path, batch, args.threads, args.backends)}
    if "onnxruntime" in args.peers:
        engines["onnxruntime"] = Onnxruntime(path, batch, args.threads)
        if precision == "int8" and "dynamic" in files:
            engines["onnxruntime_dynamic"] = Onnxruntime(files["dynamic"], batch, args.threads)
    if "openvino" in args.peers:
        engines["openvino"] = Openvino(path, batch, args.threads)
    return engines


def compare(args, model, files, batch, results):
    smallest = {}
    for precision in filter(files.get, args.precisions):
        engines = engines_of(args, files, precision, batch)
        times = measure(engines, args.rounds, args.turn)
        for engine in engines.values():
            engine.close()
        best = {name: min(t) for name, t in times.items()}
        median = {name: statistics.median(t) for name, t in times.items()}
        own = smallest[precision] = best["qbench"]
        peers = {name: best[name] for name in best if name != "qbench"}
        ok = met(model, precision, own, peers)
        results.append({"model": model, "batch": batch, "precision": precision, "min_ms": best,
                        "median_ms": median, "runs": {n: len(t) for n, t in times.items()},
                        "met": ok})
        print(f"{model:14} {batch:3} {precision}  qbench {own:9.3f} ({median['qbench']:9.3f})" +
              "".join(f"  {n} {ms:9.3f} ({median[n]:9.3f}) {own / ms:6.3f}" for n, ms in peers.items()) +
              f"  {'met' if ok else 'MISSED'}", flush=True)
    if {"fp32", "int8"} <= smallest.keys():
        print(f"{model:14} {batch:3} int8 is {smallest['fp32'] / smallest['int8']:.2f} times as fast "
              "as fp32", flush=True)


def make(path, write):
    """The file, written unless an earlier run left it."""
    if not os.path.exists(path):
        write(path)
    return path


def models_of(args, folder):
    """Each model's name and its files by precision."""
    shared = {"squeezenet1.1": "squeezenet1.1.onnx", "resnet8": "resnet8_cifar10.onnx"}
    for model in args.models:
        stem = os.path.join(folder, model)
        if model in shared:
            path = os.path.join(args.shared, "models", shared[model])
        else:
            path = make(stem + ".onnx", lambda out, model=model: subprocess.run(
                [args.bench, "zoo", model, out], check=True))
        files = {"fp32": path,
                 "int8": make(stem + ".qdq.onnx", lambda out, path=path: subprocess.run(
                     [args.bench, "quantize", path, out], check=True))}
        if model in TRANSFORMERS and "onnxruntime" in args.peers:
            files["dynamic"] = make(stem + ".dynamic.onnx", lambda out, path=path: quantize_dynamic(
                path, out, op_types_to_quantize=["MatMul", "Gemm"], weight_type=QuantType.QInt8))
        yield model, files


def write_json(args, results):
    """The rows; an older file's rows of other models, batches and precisions stay."""
    def key(row):
        return row["model"], row["batch"], row["precision"]

    rows = []
    if os.path.exists(args.json):
        with open(args.json, encoding="utf-8") as file:
            rows = [r for r in json.load(file)["rows"] if key(r) not in map(key, results)]
    with open(args.json, "w", encoding="utf-8") as file:
        json.dump({"schema": "qbench.cpu_peers/1", "onnxruntime": ort.__version__,
                   "openvino": ov.__version__, "threads": args.threads,
                   "rows": sorted(rows + results, key=key)}, file, indent=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", required=True, help="path of bench_engine")
    parser.add_argument("--shared", default="../shared", help="the shared test data")
    parser.add_argument("--models", nargs="+",
                        default=["squeezenet1.1", "resnet8", "resnet50", "mobilenet_v2"])
    parser.add_argument("--precisions", nargs="+", default=["fp32", "int8"],
                        choices=["fp32", "int8", "dynamic"])
    parser.add_argument("--peers", nargs="+", default=["onnxruntime", "openvino"],
                        choices=["onnxruntime", "openvino"])
    parser.add_argument("--folder", help="where the models are made and left for the next run")
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 32])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--backends", help="of qbench, for example dnnl,cpu")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--turn", type=float, default=0.15, help="seconds of one turn")
    parser.add_argument("--json", help="write the figures to this file, in place of its older ones")
    args = parser.parse_args()
    results = []
    logging.disable(logging.WARNING)  # onnxruntime's advice on preprocessing
    print(f"onnxruntime {ort.__version__}, OpenVINO {ov.__version__}, {args.threads} threads; smallest "
          "(median) ms of each, and the ratio of qbench's smallest to it")
    with tempfile.TemporaryDirectory() as temporary:
        for model, files in models_of(args, args.folder or temporary):
            for batch in args.batches:
                compare(args, model, files, batch, results)
    if args.json:
        write_json(args, results)
    return 0 if all(row["met"] for row in results) else 3


if __name__ == "__main__":
    sys.exit(main())
