#!/usr/bin/env python3
"""PyTorch on the GPU beside bench_cuda: the same architectures, random weights, FP16, channels last,
inputs on the device; the median of runs that are enqueued one after the other.

    gpu_peers.py [--models A,B] [--batches 1,128] [--compile A,B] [--mode MODE] [--no-eager]
                 [--replays 200] [--seconds S] --json FILE

Eager models are recorded as a CUDA graph and replayed. --compile: these models also through
torch.compile, "reduce-overhead" unless --mode says otherwise: it records CUDA graphs itself, and each
call copies its input into them. In the other modes this script records the graph. After S seconds
nothing new is begun. Needs torch and torchvision, for bert_base (128 tokens) transformers.
"""
import argparse
import json
import statistics
import time

import torch
import torchvision

WARM_UP = 10
OWN_GRAPHS = "reduce-overhead"


def run_ms(function, replays):
    for _ in range(WARM_UP):
        function()
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(replays + 1)]
    marks[0].record()
    for mark in marks[1:]:
        function()
        mark.record()
    torch.cuda.synchronize()
    return statistics.median(a.elapsed_time(b) for a, b in zip(marks, marks[1:]))


def recorded(function):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream), torch.inference_mode():
        for _ in range(3):
            function()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph), torch.inference_mode():
        function()
    return graph.replay


def make_model(name):
    if name == "bert_base":
        import transformers
        return transformers.BertModel(transformers.BertConfig()).cuda().half().eval()
    model = getattr(torchvision.models, name)(weights=None).cuda().half().eval()
    return model.to(memory_format=torch.channels_last)


def make_input(name, batch):
    if name == "bert_base":
        ids = torch.randint(0, 30000, (batch, 128), device="cuda")
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    x = torch.randn(batch, 3, 224, 224, device="cuda", dtype=torch.half)
    return x.to(memory_format=torch.channels_last)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", default="resnet50,mobilenet_v2,squeezenet1_1,vit_b_16")
    parser.add_argument("--batches", default="1,128")
    parser.add_argument("--compile", default="")
    parser.add_argument("--mode", default=OWN_GRAPHS)
    parser.add_argument("--no-eager", action="store_true")
    parser.add_argument("--replays", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--json", required=True)
    options = parser.parse_args()
    began, rows = time.monotonic(), []
    ways = ([] if options.no_eager else ["eager"]) + [options.mode]
    jobs = [(name, how) for how in ways for name in options.models.split(",")
            if how == "eager" or name in options.compile.split(",")]
    for name, how in jobs:
        model = make_model(name)
        if how != "eager":  # a program for each batch, as for the other side
            model = torch.compile(model, mode=how, dynamic=False)
        for batch in map(int, options.batches.split(",")):
            if time.monotonic() - began > options.seconds:
                break
            x = make_input(name, batch)
            run = (lambda: model(**x)) if isinstance(x, dict) else (lambda: model(x))
            start = time.monotonic()
            with torch.inference_mode():
                ms = run_ms(run if how == OWN_GRAPHS else recorded(run), options.replays)
            took = time.monotonic() - start
            rows.append({"model": name, "how": how, "batch": batch, "ms": ms, "took_s": took})
            print(f"{name:16} {how:16} {batch:4} {ms:8.3f} ms, took {took:.1f} s", flush=True)
            with open(options.json, "w") as file:  # whatever is done so far
                json.dump({"torch": torch.__version__, "device": torch.cuda.get_device_name(),
                           "replays": options.replays, "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()
