#!/usr/bin/env python3
"""Networks that nobody tuned for, on a GPU: qbench beside PyTorch's recorded graph.

    sweep.py export FOLDER [NAME...]
    gpu_sweep.py FOLDER [NAME...] --qbench PROGRAM --json FILE [--batches 1,32] [--seconds S]
    gpu_sweep.py FOLDER NAME... --export ...     exports those that are not there, some ahead of the measurements
    gpu_sweep.py --json FILE --markdown docs/benchmarks/h200_sweep.md     the page's table from rows

Networks are those that sweep.py exports, with seeded random weights, or timm.NAME:SIZE and torchvision.NAME:SIZE. A row is a network and a batch: FP16
and INT8 of qbench (inputs and outputs stay on the device, the median of its runs), PyTorch in FP16,
channels last, recorded and replayed, with --compile SECONDS also torch.compile where it builds in them; the largest difference of FP32's outputs (--outputs fp16: of
FP16's) from PyTorch's in FP32, over their range; steps on the host and copies between host and device
that the engines have, by operator. After S seconds nothing new is begun. The JSON is written after
each network, the table at the end.
"""
import argparse
import collections
import concurrent.futures
import functools
import json
import os
import shlex
import statistics
import subprocess
import sys
import time

import numpy as np

import sweep
from gpu_peers import recorded, run_ms


def known(name):
    """Networks by the names of timm and torchvision join those of sweep_networks.py."""
    import sweep_networks as n
    family, _, rest = name.partition(".")
    plain, _, size = rest.partition(":")
    build = {"timm": n.tm, "torchvision": n.tv}.get(family)
    if build and name not in n.NETWORKS:
        n.add(name, functools.partial(build, plain), n.image(int(size or 224)))


def export_one(folder, name):
    known(name)
    sweep.export_one(folder, name)


def exported(a, name):
    """Exports a network in a process of its own, where it is not there, and calibrates it; what went wrong, or None."""
    if not os.path.exists(os.path.join(a.folder, name, "data.npz")):
        problem = export_apart(a, name)
        if problem:
            return problem
    Qbench(a, name).calibrate()
    return None


def apart(call, seconds):
    """The last line that a function of this file prints in a process of its own."""
    r = subprocess.run([sys.executable, "-W", "ignore", "-c", f"import gpu_sweep; gpu_sweep.{call}"],
                       cwd=os.path.dirname(os.path.abspath(__file__)), capture_output=True, text=True, timeout=seconds)
    lines = (r.stderr if r.returncode else r.stdout).strip().splitlines()
    if r.returncode:
        raise RuntimeError(lines[-1] if lines else "it ended early")
    return lines[-1] if lines else ""


def export_apart(a, name):
    try:
        apart(f"export_one({os.path.abspath(a.folder)!r}, {name!r})", 240)
    except subprocess.TimeoutExpired:
        return "its export is too slow"
    except RuntimeError as e:
        return str(e)
    return None


class Peer:
    """The network that sweep.py exported, in PyTorch."""

    def __init__(self, folder, name):
        self.data = dict(np.load(os.path.join(folder, name, "data.npz")))
        known(name)
        self.model = sweep.seeded(name, self.data)

    def tensors(self, rows):
        import torch
        return [torch.from_numpy(np.ascontiguousarray(rows(v))) for v in self.data.values()]

    def outputs(self):
        """FP32's outputs of one sample."""
        import torch
        with torch.no_grad():
            return flat(self.model(*self.tensors(lambda v: v[3:4])))

    def on_device(self):
        import torch
        self.model = self.model.half().cuda()
        if all(v.ndim == 4 for v in self.data.values()):
            self.model = self.model.to(memory_format=torch.channels_last)
        return self.model

    def batch(self, n):
        """Inputs on the device, in FP16, images with channels last."""
        import torch
        feed = [t.cuda() for t in self.tensors(lambda v: np.resize(v, (n, *v.shape[1:])))]
        feed = [t.half() if t.is_floating_point() else t for t in feed]
        return [t.to(memory_format=torch.channels_last) if t.ndim == 4 else t for t in feed]


def batches_of(a, name):
    """A network that was exported for one sample runs no other batch."""
    import sweep_networks as n
    return [b for b in a.batches if b == 1 or not n.NETWORKS[name][2].get("fixed")]


def peer(a, name):
    """FP32's outputs of one sample, and milliseconds of FP16 by batch, recorded."""
    import torch
    p, ms = Peer(a.folder, name), {}
    expected, model = p.outputs(), p.on_device()
    for batch in batches_of(a, name):
        feed = p.batch(batch)
        with torch.inference_mode():
            try:
                run = recorded(lambda: model(*feed))
            except RuntimeError:  # it copies from the processor in each run
                torch.cuda.synchronize()
                run = lambda: model(*feed)
            ms[batch] = run_ms(run, 100)
    return expected, ms


def print_compiled(folder, name, batch, mode):
    """Prints milliseconds of torch.compile in FP16, recorded, and the seconds that it took to build."""
    import torch
    p = Peer(folder, name)
    model, feed = torch.compile(p.on_device(), mode=mode, dynamic=False), p.batch(batch)
    began = time.monotonic()
    with torch.inference_mode():
        model(*feed)
        torch.cuda.synchronize()
        built = time.monotonic() - began
        print(run_ms(recorded(lambda: model(*feed)), 100), built)


def compiled(a, name, batch):
    """What a row says of torch.compile, where it builds in time."""
    try:
        ms, seconds = apart(f"print_compiled({os.path.abspath(a.folder)!r}, {name!r}, {batch}, {a.mode!r})", a.compile + 40).split()
    except subprocess.TimeoutExpired:
        return {"compile_error": f"takes more than {a.compile:.0f} s"}
    except RuntimeError as e:
        return {"compile_error": str(e)[-200:]}
    if float(seconds) > a.compile:
        return {"compile_error": f"takes {float(seconds):.0f} s"}
    return {"torch_compile_ms": float(ms), "torch_compile_s": float(seconds), "torch_compile_mode": a.mode}


def flat(outputs):
    """Tensors of what a model returns, in ONNX's order."""
    if hasattr(outputs, "numpy"):
        return [outputs.float().numpy()]
    return [t for o in (outputs.values() if isinstance(outputs, dict) else outputs) for t in flat(o)]


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
            "--exportLayerInfo", "layers.json", *self.a.options, *more))

    def layers(self):
        with open(os.path.join(self.folder, "layers.json")) as f:
            return json.load(f)

    def calibrate(self):
        if not os.path.exists(os.path.join(self.folder, "model.calib.h5")):
            self.call("calibrate", "--model", "model.onnx", "--data", "data.npz", "--method", "minmax", "-q")

    def outputs(self):
        with np.load(os.path.join(self.folder, "data.npz")) as data:
            for name, value in data.items():
                np.ascontiguousarray(value[3:4]).tofile(os.path.join(self.folder, name + ".raw"))
            inputs = ",".join(f"{name}:{name}.raw" for name in data)
        self.bench(self.a.outputs, 1, "--loadInputs", inputs, "--exportOutput", "output.json")
        with open(os.path.join(self.folder, "output.json")) as f:
            outputs = json.load(f)
        number = lambda v: v if isinstance(v, (int, float)) else float("nan")
        return [np.array([number(v) for v in o["values"]]) for o in outputs]


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
    got = q.outputs()
    for batch in batches_of(a, name):
        row = {"name": name, "batch": batch, "torch_fp16_ms": ms[batch], "errors": {},
               a.outputs + "_error": sweep.error(expected, got)}
        for precision in ("fp16", "int8"):
            try:
                row[precision + "_ms"] = median_of(q.bench(precision, batch))
                row["on_host" if precision == "fp16" else "int8_on_host"] = on_host(q.layers())
            except (RuntimeError, subprocess.TimeoutExpired) as e:
                row["errors"][precision] = str(e)[-300:]
        if a.compile:
            row.update(compiled(a, name, batch))
        rows.append(row)
        print(f"{name:28} {batch:3} " + " ".join(f"{k} {row[k]:.3f}" for k in
                                                  ("torch_fp16_ms", "torch_compile_ms", "fp16_ms", "int8_ms") if k in row),
              f"error {row[a.outputs + '_error']:.0e}", row.get("on_host"), row.get("int8_on_host"), row["errors"] or "",
              flush=True)


def run(a):
    import torch
    began, rows, failed = time.monotonic(), [], {}
    names = a.names or sorted(os.listdir(a.folder))
    ahead = concurrent.futures.ThreadPoolExecutor(max_workers=a.export or 1)
    there = {name: ahead.submit(exported, a, name) for name in names if a.export}
    for name in names:
        if time.monotonic() - began > a.seconds:
            break
        try:
            problem = there[name].result() if a.export else None
            if problem:
                raise RuntimeError(problem)
            measure(a, name, rows)
        except Exception as e:  # one network is not the end of the sweep
            failed[name] = str(e)[-400:]
            print(f"{name}: {failed[name]}", flush=True)
        with open(a.json, "w") as f:
            json.dump({"schema": "qbench.gpu_sweep/1", "device": torch.cuda.get_device_name(), "torch": torch.__version__,
                       "rows": rows, "failed": failed}, f, indent=1)
    ahead.shutdown(wait=False, cancel_futures=True)
    print(table({"rows": rows}))


def table(record):
    """Markdown: the worst first."""
    over = lambda r: r.get("fp16_ms", float("nan")) / r["torch_fp16_ms"]
    ms = lambda r, key: f"{r[key]:.3f}" if key in r else "-"
    error = lambda r: next((f"{r[k]:.0e}" for k in ("fp32_error", "fp16_error") if k in r), "-")
    beside_compile = any("torch_compile_ms" in r or "compile_error" in r for r in record["rows"])
    column = lambda text: f" {text} |" if beside_compile else ""
    lines = ["| network | batch | PyTorch FP16, ms |" + column("compiled") + " qbench FP16 | over PyTorch |" +
             column("over compiled") + " INT8 | over FP16 | error | on the host |",
             "| --- | --- | --- |" + column("---") + " --- | --- |" + column("---") + " --- | --- | --- | --- |"]
    for r in sorted(record["rows"], key=over, reverse=True):
        steps = ", ".join(f"{form}{v} {k}" for form, key in (("", "on_host"), ("int8: ", "int8_on_host"))
                          for k, v in r.get(key, {}).items() if k not in ("upload", "download"))
        gain = f"{r['int8_ms'] / r['fp16_ms']:.2f}" if "int8_ms" in r and "fp16_ms" in r else "-"
        problem = "; ".join(f"{k}: {v[:60]}" for k, v in r["errors"].items())
        over_compiled = f"{r['fp16_ms'] / r['torch_compile_ms']:.2f}" if {"fp16_ms", "torch_compile_ms"} <= r.keys() else "-"
        lines.append(f"| {r['name']} | {r['batch']} | {r['torch_fp16_ms']:.3f} |" + column(ms(r, "torch_compile_ms")) +
                     f" {ms(r, 'fp16_ms')} | {over(r):.2f} |" + column(over_compiled) + f" {ms(r, 'int8_ms')} | {gain} | {error(r)} | {steps}{problem} |")
    ratios = sorted(over(r) for r in record["rows"] if "fp16_ms" in r)
    if ratios:
        lines += ["", f"{len(ratios)} rows, FP16 over PyTorch: median {statistics.median(ratios):.2f}, worst {ratios[-1]:.2f}, "
                  f"{sum(r <= 1 for r in ratios)} at most 1."]
    return "\n".join(lines)


def write_page(a):
    with open(a.json) as f:
        text = table(json.load(f))
    with open(a.markdown) as f:
        head = f.read().split("<!-- table -->")[0]
    with open(a.markdown, "w") as f:
        f.write(f"{head}<!-- table -->\n\n{text}\n")


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("folder", nargs="?")
    p.add_argument("names", nargs="*")
    p.add_argument("--qbench", default="qbench")
    p.add_argument("--json", required=True)
    p.add_argument("--batches", type=lambda t: [int(n) for n in t.split(",")], default=[1, 32])
    p.add_argument("--seconds", type=float, default=1e9)
    p.add_argument("--export", type=int, default=0, metavar="JOBS", help="export what is not there, so many at once")
    p.add_argument("--options", type=shlex.split, default=[], help="more options of qbench bench, such as --tacticSources=-CUDNN")
    p.add_argument("--compile", type=float, default=0, metavar="SECONDS",
                   help="also torch.compile, where it builds in so many seconds (and 40 for a start)")
    p.add_argument("--mode", default="max-autotune-no-cudagraphs", help="of torch.compile; its runs are recorded in any")
    p.add_argument("--outputs", choices=("fp32", "fp16"), default="fp32", help="whose outputs are compared")
    p.add_argument("--markdown", help="page whose table is written anew, from the rows in the JSON")
    a = p.parse_args()
    write_page(a) if a.markdown else run(a)


if __name__ == "__main__":
    main()
