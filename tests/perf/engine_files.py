#!/usr/bin/env python3
"""Engine files of the model zoo: how long building, loading and reading take, and what memory they need.

    engine_files.py QBENCH FOLDER [MODEL ...]           measures, writes FOLDER/engine_files.json
    engine_files.py --cuda QBENCH FOLDER [MODEL ...]    in FP16 on a GPU
    engine_files.py --table FILE.json                   prints the Markdown table

Build: graph optimized already, kernels chosen, weights packed (from the program's own clock). Load: the
better of two in one process (`bench --timeDeserialize`). Read: the same file read twice into memory,
from the page cache as the load is. In FP32, bf16 and INT8; the latter needs numpy and is calibrated by minmax on
four random samples, which stand beside the models. On a GPU: without what the driver takes to open the device; a second
build with the timing cache of the first must give the same bytes, and the first load of a process counts.
"""

import filecmp
import json
import os
import re
import subprocess
import sys
import time

ZOO = ["squeezenet1_1", "mobilenet_v2", "efficientnet_b0", "densenet121", "resnet18", "yolov5s", "resnet50",
       "vit_b_16", "bert_base"]
PRECISIONS = ["fp32", "bf16", "int8"]


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


def read_twice(path):
    start = time.perf_counter()
    for _ in range(2):
        with open(path, "rb", buffering=0) as f:
            f.readall()
    return time.perf_counter() - start


def write_samples(qbench, model, folder):
    import numpy as np
    rng = np.random.default_rng(7)
    inputs = json.loads(run(qbench, "inspect", model, "--json", "-"))["inputs"]
    os.makedirs(folder, exist_ok=True)
    for i in range(4):
        sample = {}
        for value in inputs:
            shape = [int(d) if d.isdigit() else 1 for d in value["shape"].split("x")]
            sample[value["name"]] = (np.ones(shape, np.int64) if value["dtype"] == "s64"
                                     else rng.standard_normal(shape).astype(np.float32))
        np.savez(os.path.join(folder, f"{i}.npz"), **sample)


def calibrate(qbench, model):
    """Where the build looks for it: beside the engine."""
    path = model[:-len(".onnx")] + ".calib.h5"
    if not os.path.exists(path):
        write_samples(qbench, model, model + ".samples")
        run(qbench, "calibrate", model, "--data", model + ".samples", "--method", "minmax", "-o", path)


def measure(qbench, folder, name, precision):
    model, engine = (os.path.join(folder, name + end) for end in (".onnx", ".qbe"))
    if not os.path.exists(model):
        run(qbench, "zoo", name, "-o", model, *(["--side", "128"] if name == "bert_base" else []))
    record = os.path.join(folder, "build.json")
    if precision == "int8":
        calibrate(qbench, model)
    log = run(qbench, "build", model, "--precision", precision, "-o", engine, "--json", record)
    built = float(re.search(r"Engine built in ([0-9.e+-]+) sec", log).group(1))
    loads = run(qbench, "bench", "--loadEngine=" + engine, "--skipInference", "--timeDeserialize")
    loaded = min(float(s) for s in re.findall(r"Engine deserialized in ([0-9.e+-]+) sec", loads))
    with open(record) as f:
        memory = json.load(f)
    row = {"model": name, "precision": precision, "file_bytes": os.path.getsize(engine), "build_s": built,
           "load_s": loaded, "read_twice_s": min(read_twice(engine) for _ in range(3))}
    row.update((k, memory[k]) for k in memory if k.endswith("_bytes"))
    os.remove(engine)
    os.remove(record)
    return row


def build_cuda(qbench, model, engine, cache):
    log = run(qbench, "build", model, "--precision", "fp16", "--providers", "cuda", "-o", engine,
              "--timingCacheFile=" + cache)
    return float(re.search(r"Engine built in ([0-9.e+-]+) sec", log).group(1))


def measure_cuda(qbench, folder, name, precision):
    model, engine, again, cache = (os.path.join(folder, name + end) for end in (".onnx", ".qbe", ".2.qbe", ".cache"))
    if not os.path.exists(model):
        run(qbench, "zoo", name, "-o", model)
    if os.path.exists(cache):
        os.remove(cache)
    built, rebuilt = build_cuda(qbench, model, engine, cache), build_cuda(qbench, model, again, cache)
    log = run(qbench, "bench", "--loadEngine=" + engine, "--skipInference", "--timeDeserialize")
    loads = [float(s) for s in re.findall(r"Engine deserialized in ([0-9.e+-]+) sec", log)]
    row = {"model": name, "precision": precision, "file_bytes": os.path.getsize(engine), "build_s": built, "build_with_cache_s": rebuilt,
           "same_bytes": filecmp.cmp(engine, again, shallow=False), "load_s": loads[0], "load_again_s": loads[1],
           "open_device_s": float(re.search(r"Device opened in ([0-9.e+-]+) sec", log).group(1))}
    for path in (model, engine, again, cache):
        os.remove(path)
    return row


def table_cuda(rows):
    print("| model | file | build | with its timing cache | same bytes | load | load again | build / load |")
    print("| --- | ---: | ---: | ---: | --- | ---: | ---: | ---: |")
    for r in rows:
        print(f"| {r['model']} | {r['file_bytes'] / 2**20:.1f} MiB | {1e3 * r['build_s']:.0f} ms "
              f"| {1e3 * r['build_with_cache_s']:.0f} ms | {'yes' if r['same_bytes'] else 'no'} "
              f"| {1e3 * r['load_s']:.1f} ms | {1e3 * r['load_again_s']:.1f} ms | {r['build_s'] / r['load_s']:.0f} |")


def table(rows):
    print("| model | precision | file | weights | activations | over the bound | workspace | peak of the build | build | load "
          "| build / load | file read twice |")
    print("| --- | --- |" + " ---: |" * 10)
    mib = lambda n: f"{n / 2**20:.1f} MiB"
    for r in rows:
        print(f"| {r['model']} | {r['precision']} | {mib(r['file_bytes'])} | {mib(r['weights_bytes'])} | {mib(r['planned_bytes'])} "
              f"| {r['planned_bytes'] / r['lower_bound_bytes']:.3f} | {mib(r['workspace_bytes'])} "
              f"| {mib(r['peak_bytes'])} | {1e3 * r['build_s']:.0f} ms | {1e3 * r['load_s']:.1f} ms "
              f"| {r['build_s'] / r['load_s']:.0f} | {1e3 * r['read_twice_s']:.1f} ms |")


def main(arguments):
    if arguments[:1] == ["--table"] and len(arguments) == 2:
        with open(arguments[1]) as f:
            rows = json.load(f)
        return (table_cuda if "same_bytes" in rows[0] else table)(rows)
    cuda = arguments[:1] == ["--cuda"]
    arguments = arguments[cuda:]
    if len(arguments) < 2:
        sys.exit(__doc__)
    qbench, folder, *names = arguments
    path = os.path.join(folder, "engine_files.json")
    rows = []
    if os.path.exists(path):
        with open(path) as f:
            rows = [r for r in json.load(f) if r["model"] not in (names or ZOO)]
    for name in names or ZOO:
        for precision in ["fp16"] if cuda else PRECISIONS:
            rows.append((measure_cuda if cuda else measure)(qbench, folder, name, precision))
            with open(path, "w") as f:
                json.dump(sorted(rows, key=lambda r: ZOO.index(r["model"])), f, indent=1)


main(sys.argv[1:])
