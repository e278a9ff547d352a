#!/usr/bin/env python3
"""Networks that nobody tuned for, on a GPU: qbench beside PyTorch's recorded graph.

    gpu_sweep.py export FOLDER [NAME...]
    gpu_sweep.py run FOLDER [NAME...] --qbench PROGRAM --json FILE [--batches 1,32] [--seconds S]

Architectures are those of sweep.py, with seeded random weights. A row is a network and a batch: FP16
and INT8 of qbench (inputs and outputs stay on the device, the median of its runs), PyTorch in FP16,
channels last, recorded and replayed; the largest difference of FP32's outputs from PyTorch's, over
their range; steps on the host and copies between host and device that the FP16 engine has, by
operator. After S seconds nothing new is begun. The JSON is written after each row. Needs torch,
torchvision, onnx; architectures of libraries that are not there are left out.
"""
import argparse
import collections
import json
import os
import statistics
import subprocess
import sys
import time

import numpy as np

import sweep
from gpu_peers import recorded, run_ms


def build(name):
    import torch
    library, own_name, _ = sweep.ARCHITECTURES[name]
    torch.manual_seed(1)
    return sweep.build(library, own_name)


def statistics_of(model, x):
    """Batch normalization by the samples: of untrained statistics nothing is left after some layers."""
    import torch
    for m in model.modules():
        if isinstance(m, torch.nn.modules.batchnorm._BatchNorm):
            m.momentum = None
    with torch.no_grad():
        model.train()(torch.from_numpy(x))
    return model.eval()


def export(a):
    import torch
    for name in a.names or sweep.ARCHITECTURES:
        x = sweep.samples(sweep.ARCHITECTURES[name][2], np.random.default_rng(1))
        to = os.path.join(a.folder, name)
        try:
            model = statistics_of(build(name), x)
        except ImportError as e:
            print(f"{name}: {e}", file=sys.stderr)
            continue
        os.makedirs(to, exist_ok=True)
        torch.save(model.state_dict(), os.path.join(to, "model.pt"))
        torch.onnx.export(model, torch.from_numpy(x[:1]), os.path.join(to, "model.onnx"), opset_version=17, input_names=["x"],
                          dynamic_axes={"x": {0: "N"}}, dynamo=False)
        np.savez(os.path.join(to, "data.npz"), x=x)
        print(name, flush=True)


def peer(a, name):
    """The network in PyTorch: FP32's output of one sample, and milliseconds of FP16 by batch."""
    import torch
    x = np.load(os.path.join(a.folder, name, "data.npz"))["x"]
    model = build(name).eval()
    model.load_state_dict(torch.load(os.path.join(a.folder, name, "model.pt")))
    with torch.no_grad():
        expected = model(torch.from_numpy(x[3:4])).numpy()
    model, ms = model.half().cuda(), {}
    if x.ndim == 4:
        model = model.to(memory_format=torch.channels_last)
    for batch in a.batches:
        t = torch.from_numpy(np.resize(x, (batch, *x.shape[1:]))).cuda()
        t = t.half() if t.is_floating_point() else t
        t = t.to(memory_format=torch.channels_last) if x.ndim == 4 else t
        with torch.inference_mode():
            ms[batch] = run_ms(recorded(lambda: model(t)), 100)
    return expected, ms


class Qbench:
    def __init__(self, a, name):
        self.a, self.folder = a, os.path.join(a.folder, name)

    def call(self, *arguments):
        r = subprocess.run([self.a.qbench, *arguments], cwd=self.folder, capture_output=True, text=True, timeout=150)
        if r.returncode:
            raise RuntimeError(f"{arguments[0]}: {(r.stderr or r.stdout).strip()[-300:]}")
        return r.stdout

    def bench(self, precision, batch, *more):
        return json.loads(self.call(
            "bench", "--model", "model.onnx", "--providers", "cuda", "--precision", precision, "--batch", str(batch), "--json", "-",
            "-q", "--noDataTransfers", "--no-check", "--timingCacheFile", "timing.cache", "--duration", "0.3", "--warmUp", "100",
            "--exportLayerInfo", "layers.json", *more))

    def layers(self):
        with open(os.path.join(self.folder, "layers.json")) as f:
            return json.load(f)

    def calibrate(self):
        if not os.path.exists(os.path.join(self.folder, "model.calib.h5")):
            self.call("calibrate", "--model", "model.onnx", "--data", "data.npz", "--method", "minmax", "-q")

    def fp32_output(self):
        x = np.load(os.path.join(self.folder, "data.npz"))["x"][3:4]
        np.ascontiguousarray(x).tofile(os.path.join(self.folder, "x.raw"))
        self.bench("fp32", 1, "--loadInputs", "x:x.raw", "--exportOutput", "output.json")
        with open(os.path.join(self.folder, "output.json")) as f:
            values = json.load(f)[0]["values"]
        return np.array([v if isinstance(v, (int, float)) else float("nan") for v in values])


def median_of(result):
    s = result["summary"]
    return s["compute"]["median_ms"]


def on_host(layers):
    """Steps that a GPU engine should not have: op -> how many."""
    return dict(collections.Counter(s["op"] for s in layers if s["provider"] != "cuda" and s["tactic"] != "alias"))


def measure(a, name, rows):
    q = Qbench(a, name)
    expected, ms = peer(a, name)
    q.calibrate()
    got = q.fp32_output()
    for batch in a.batches:
        row = {"name": name, "batch": batch, "torch_fp16_ms": ms[batch], "errors": {},
               "fp32_error": sweep.error([expected], [got])}
        for precision in ("fp16", "int8"):
            try:
                row[precision + "_ms"] = median_of(q.bench(precision, batch))
                if precision == "fp16":
                    row["on_host"] = on_host(q.layers())
            except (RuntimeError, subprocess.TimeoutExpired) as e:
                row["errors"][precision] = str(e)[-300:]
        rows.append(row)
        print(f"{name:28} {batch:3} " + " ".join(f"{k} {row.get(k, float('nan')):.3f}" for k in
                                                  ("torch_fp16_ms", "fp16_ms", "int8_ms")),
              f"error {row['fp32_error']:.0e}", row.get("on_host"), row["errors"] or "", flush=True)


def run(a):
    import torch
    began, rows, failed = time.monotonic(), [], {}
    for name in a.names or sorted(os.listdir(a.folder)):
        if time.monotonic() - began > a.seconds:
            break
        try:
            measure(a, name, rows)
        except Exception as e:  # one network is not the end of the sweep
            failed[name] = str(e)[-400:]
            print(f"{name}: {failed[name]}", flush=True)
        with open(a.json, "w") as f:
            json.dump({"schema": "qbench.gpu_sweep/1", "device": torch.cuda.get_device_name(), "torch": torch.__version__,
                       "rows": rows, "failed": failed}, f, indent=1)
    ratios = [r["fp16_ms"] / r["torch_fp16_ms"] for r in rows if "fp16_ms" in r]
    if ratios:
        print(f"FP16 over PyTorch: {len(ratios)} rows, median {statistics.median(ratios):.2f}, worst {max(ratios):.2f}")


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    verbs = p.add_subparsers(dest="verb", required=True)
    for verb in (export, run):
        v = verbs.add_parser(verb.__name__)
        v.set_defaults(call=verb)
        v.add_argument("folder")
        v.add_argument("names", nargs="*")
    v.add_argument("--qbench", default="qbench")
    v.add_argument("--json", required=True)
    v.add_argument("--batches", type=lambda t: [int(n) for n in t.split(",")], default=[1, 32])
    v.add_argument("--seconds", type=float, default=1e9)
    a = p.parse_args()
    a.call(a)


if __name__ == "__main__":
    main()
