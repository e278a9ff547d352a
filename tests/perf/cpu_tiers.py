#!/usr/bin/env python3
"""Latency of models in each tier of instruction sets, batch 1, and that of another build beside it.

    python3 tests/perf/cpu_tiers.py --bench build/release/tests/bench_engine \\
        [--before OTHER/tests/bench_engine] [--shared ../shared] [--tiers avx2 avx512] > tiers.json

QB_CPU holds both to the tier. A figure is the sum of each step's shortest time over many runs: what
else happens on the machine hits single runs of single steps. INT8 is the Q/DQ model that bench_engine
writes (uint8 activations, per-channel weights).
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

ZOO = ("resnet50", "mobilenet_v2", "efficientnet_b0", "densenet121", "squeezenet1_1")


def call(tier, *command):
    environment = dict(os.environ, QB_CPU=tier) if tier else None
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout


def shortest(bench, tier, model, threads, rounds):
    """Milliseconds, the least of some processes."""
    outputs = [call(tier, bench, "profile", model, "1", str(threads)) for _ in range(rounds)]
    return min(float(re.search(r"sum of shortest: ([0-9.]+) ms", text).group(1)) for text in outputs)


def files_of(args, folder):
    """Paths by model and precision."""
    files = {}
    for model in args.models:
        path = os.path.join(folder, model + ".onnx")
        if model in ZOO:
            call(None, args.bench, "zoo", model, path)
        else:
            path = os.path.join(args.shared, "models", model + ".onnx")
        files[model, "fp32"] = path
        files[model, "int8"] = os.path.join(folder, model + ".int8.onnx")
        call(None, args.bench, "quantize", path, files[model, "int8"])
    return files


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bench", required=True, help="bench_engine of this build")
    parser.add_argument("--before", help="bench_engine of the other build")
    parser.add_argument("--shared", default=os.environ.get("QB_SHARED", "../shared"))
    parser.add_argument("--models", nargs="+", default=[*ZOO, "resnet8_cifar10"])
    parser.add_argument("--tiers", nargs="+", default=["scalar", "avx2", "avx2-vnni", "avx512"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=2, help="processes for each figure")
    args = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        files = files_of(args, folder)
        for tier in args.tiers:
            for (model, precision), path in files.items():
                row = {"tier": tier, "model": model, "precision": precision}
                row["ms"] = shortest(args.bench, tier, path, args.threads, args.rounds)
                if args.before:
                    row["before_ms"] = shortest(args.before, tier, path, args.threads, args.rounds)
                rows.append(row)
                print(row, file=sys.stderr)
    json.dump({"schema": "qbench.cpu_tiers/1", "threads": args.threads, "rows": rows}, sys.stdout,
              indent=1)
    print()


if __name__ == "__main__":
    main()
