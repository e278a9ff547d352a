#!/usr/bin/env python3
"""Trains the demo's model and measures it: demo/model.onnx, demo/model.json.

    python3 -m venv venv
    venv/bin/pip install torch==2.5.1 'numpy<2.3' onnx==1.23.2 onnxruntime==1.31.1
    venv/bin/python scripts/train_demo.py               # trains, writes, measures
    venv/bin/python scripts/train_demo.py --measure     # only measures what is there (no torch)

The images come from the program's own drawing code, which this script compiles with the C compiler
($CC or cc). docs/demo-model.md describes the result.
"""
import argparse
import ctypes
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

ROOT = Path(__file__).resolve().parent.parent
SEED_TRAIN, SEED_CALIB, SEED_TEST = 1, 2, 3  # as in demo/draw.h
SIDE, CLASSES = 32, 10
MEAN, STD = 128.0, 64.0


# ---------------------------------------------------------------- images
def load_drawing(folder):
    """The drawing code as a shared object. No FMA contraction, as in the program's own build."""
    path = Path(folder) / "demo_draw.so"
    sources = [ROOT / name for name in ("demo/draw.c", "demo/figure.c", "base/rng.c")]
    command = [os.environ.get("CC", "cc"), "-std=gnu17", "-O2", "-fPIC", "-shared",
               "-ffp-contract=off", "-fno-math-errno", "-D_GNU_SOURCE", f"-I{ROOT}",
               *map(str, sources), "-o", str(path), "-lm"]
    subprocess.run(command, check=True)
    library = ctypes.CDLL(str(path))
    library.qb_demo_pixels.argtypes = [ctypes.c_uint64, ctypes.c_int64, ctypes.c_int32,
                                       ctypes.c_void_p]
    library.qb_demo_class_name.argtypes = [ctypes.c_int32]
    library.qb_demo_class_name.restype = ctypes.c_char_p
    return library


def draw(library, seed, per_class):
    """Images u8 [n, 3, 32, 32] and labels; the classes alternate."""
    n = per_class * CLASSES
    pixels = np.empty((n, SIDE, SIDE, 3), np.uint8)
    labels = np.arange(n) % CLASSES
    for i in range(n):
        library.qb_demo_pixels(seed, i // CLASSES, int(labels[i]), pixels[i].ctypes.data)
    return np.ascontiguousarray(pixels.transpose(0, 3, 1, 2)), labels


def prepare(images):
    return (images.astype(np.float32) - MEAN) / STD


# ---------------------------------------------------------------- model
# Rows: output channels, stride, expansion. The first convolution and the last one (1x1) end in
# ReLU6, the blocks use ReLU: rescale() needs max(0, a x) = a max(0, x).
STEM, BLOCKS, HEAD = 16, [(24, 2, 3), (24, 1, 3), (40, 2, 4), (40, 1, 4), (40, 1, 4), (64, 2, 4),
                          (64, 1, 4)], 128


def make_net():
    import torch.nn as nn

    def unit(i, o, kernel, stride=1, groups=1, act=None):
        parts = [nn.Conv2d(i, o, kernel, stride, kernel // 2, groups=groups, bias=False),
                 nn.BatchNorm2d(o)]
        return nn.Sequential(*parts, *([act()] if act else []))

    class Block(nn.Module):
        """MobileNetV2's inverted residual."""

        def __init__(self, i, o, stride, expansion):
            super().__init__()
            h = i * expansion
            self.expand = unit(i, h, 1, act=nn.ReLU)
            self.depthwise = unit(h, h, 3, stride, h, act=nn.ReLU)
            self.project = unit(h, o, 1)
            self.residual = stride == 1 and i == o

        def forward(self, x):
            y = self.project(self.depthwise(self.expand(x)))
            return x + y if self.residual else y

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = unit(3, STEM, 3, act=nn.ReLU6)
            widths = [STEM] + [row[0] for row in BLOCKS]
            self.blocks = nn.ModuleList(Block(widths[k], *row) for k, row in enumerate(BLOCKS))
            self.head = unit(widths[-1], HEAD, 1, act=nn.ReLU6)
            self.classify = nn.Linear(HEAD, CLASSES)

        def forward(self, x):
            x = self.stem(x)
            for block in self.blocks:
                x = block(x)
            return self.classify(self.head(x).mean((2, 3)))

    return Net()


def train(net, images, labels, epochs, seed):
    """SGD with one learning-rate cycle; each batch is turned and mirrored as a whole."""
    import torch
    import torch.nn.functional as F
    layout = torch.channels_last
    images, labels = torch.from_numpy(images), torch.from_numpy(labels)
    net.to(memory_format=layout).train()
    batch, random = 128, torch.Generator().manual_seed(seed)
    batches = len(images) // batch
    sgd = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-4)
    rate = torch.optim.lr_scheduler.OneCycleLR(sgd, 0.15, total_steps=epochs * batches,
                                               pct_start=0.2)
    started = time.time()
    for epoch in range(epochs):
        order, total = torch.randperm(len(images), generator=random), 0.0
        for k in range(batches):
            pick = order[k * batch:(k + 1) * batch]
            turn = int(torch.randint(8, (1,), generator=random))
            x = torch.rot90((images[pick].float() - MEAN) / STD, turn % 4, (2, 3))
            x = x.flip(3) if turn > 3 else x
            loss = F.cross_entropy(net(x.contiguous(memory_format=layout)), labels[pick])
            sgd.zero_grad()
            loss.backward()
            sgd.step()
            rate.step()
            total += loss.item()
        print(f"epoch {epoch + 1}/{epochs}: loss {total / batches:.4f}, "
              f"{time.time() - started:.0f} s", flush=True)
    net.eval()


def rescale(net, x, factor, share):
    """Makes the depthwise weights of a few channels `factor` times larger than their neighbours',
    without changing what the network computes.

    In each block, for the `share` of the channels whose activations between expand and depthwise
    are largest, BatchNormalization divides by `factor` before the ReLU, and the one after the
    depthwise convolution multiplies by it: max(0, x / f) f = max(0, x) for f > 0, and with a power
    of two not a bit of the FP32 result changes. It is the inverse of cross-layer equalization
    (Nagel et al., "Data-free quantization through weight equalization and bias correction", 2019);
    MobileNets trained for long have such channels by themselves.
    """
    import torch
    assert factor == 2 ** round(np.log2(factor))
    with torch.no_grad():
        x = net.stem(x)
        for block in net.blocks:
            before, largest = block(x), block.expand(x).amax((0, 2, 3))
            pick = largest.argsort(descending=True)[:max(1, round(share * len(largest)))]
            first, second = block.expand[1], block.depthwise[1]
            first.weight[pick] /= factor
            first.bias[pick] /= factor
            second.running_mean[pick] /= factor
            second.weight[pick] *= factor
            assert torch.equal(block(x), before), "rescaling changed the function"
            x = before


# ---------------------------------------------------------------- ONNX
class Writer:
    """Builds the graph node by node: short names, no exporter's notes, BatchNormalization kept."""

    def __init__(self):
        self.nodes, self.initializers = [], []

    def constant(self, name, value):
        array = np.asarray(value.detach().numpy() if hasattr(value, "detach") else value,
                           np.float32)
        if name not in [i.name for i in self.initializers]:
            self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def node(self, op, inputs, output, **attributes):
        self.nodes.append(helper.make_node(op, inputs, [output], output, **attributes))
        return output

    def unit(self, parts, x, name):
        conv, norm = parts[0], parts[1]
        kernel, pad = conv.kernel_size[0], conv.kernel_size[0] // 2
        x = self.node("Conv", [x, self.constant(f"{name}.weight", conv.weight)], f"{name}.conv",
                      kernel_shape=[kernel] * 2, strides=list(conv.stride), pads=[pad] * 4,
                      group=conv.groups)
        x = self.node("BatchNormalization",
                      [x, self.constant(f"{name}.gamma", norm.weight),
                       self.constant(f"{name}.beta", norm.bias),
                       self.constant(f"{name}.mean", norm.running_mean),
                       self.constant(f"{name}.var", norm.running_var)], f"{name}.norm",
                      epsilon=norm.eps)
        if len(parts) < 3:
            return x
        if type(parts[2]).__name__ == "ReLU6":
            return self.node("Clip", [x, self.constant("zero", 0.0), self.constant("six", 6.0)],
                             f"{name}.relu6")
        return self.node("Relu", [x], f"{name}.relu")


def to_onnx(net):
    w = Writer()
    x = w.unit(net.stem, "image", "stem")
    for k, block in enumerate(net.blocks):
        y = x
        for part in ("expand", "depthwise", "project"):
            y = w.unit(getattr(block, part), y, f"block{k + 1}.{part}")
        x = w.node("Add", [x, y], f"block{k + 1}.add") if block.residual else y
    x = w.unit(net.head, x, "head")
    x = w.node("Flatten", [w.node("GlobalAveragePool", [x], "pool")], "features", axis=1)
    x = w.node("Gemm", [x, w.constant("classify.weight", net.classify.weight),
                        w.constant("classify.bias", net.classify.bias)], "logits", transB=1)
    w.node("Softmax", [x], "prob", axis=1)
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        w.nodes, "qbench demo", [value("image", TensorProto.FLOAT, ["N", 3, SIDE, SIDE])],
        [value("prob", TensorProto.FLOAT, ["N", CLASSES])], w.initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)],
                              producer_name="qbench scripts/train_demo.py", ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model


def sidecar(names):
    return {"model": "model.onnx", "input": "image", "layout": "NCHW", "dtype": "float32",
            "shape": ["N", 3, SIDE, SIDE], "resize": None, "crop": None, "color": "RGB",
            "mean": [MEAN] * 3, "std": [STD] * 3, "output": "prob",
            "activation": "softmax (in graph)", "labels": names}


# ---------------------------------------------------------------- measuring
def predict(model, images):
    path = str(model)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    x = prepare(images)
    parts = [session.run(None, {"image": x[k:k + 250]})[0] for k in range(0, len(x), 250)]
    return np.concatenate(parts)


# name, activation type, symmetric activations, per-channel weights, method
VARIANTS = [
    ("careless: s8 symmetric, per-tensor weights, minmax", "QInt8", True, False, "MinMax"),
    ("s8 symmetric, per-channel weights, minmax", "QInt8", True, True, "MinMax"),
    ("u8 affine, per-tensor weights, minmax", "QUInt8", False, False, "MinMax"),
    ("u8 affine, per-tensor weights, percentile 99.99", "QUInt8", False, False, "Percentile"),
    ("u8 affine, per-channel weights, minmax", "QUInt8", False, True, "MinMax"),
    ("u8 affine, per-channel weights, percentile 99.99", "QUInt8", False, True, "Percentile"),
]


def measure(model, library, folder):
    """FP32 and onnxruntime's quantize_static in the variants above: top-1 and agreement."""
    import contextlib
    import io
    import logging
    from onnxruntime import quantization as q
    from onnxruntime.quantization.shape_inference import quant_pre_process
    logging.getLogger().setLevel(logging.ERROR)
    images, labels = draw(library, SEED_TEST, 200)
    calibration = prepare(draw(library, SEED_CALIB, 50)[0])
    reference = predict(model, images)
    print(f"{'':52} top-1   same class as FP32   ({len(images)} test images)")
    print(f"{'FP32':52} {100 * np.mean(reference.argmax(1) == labels):5.2f}")
    prepared, quantized = f"{folder}/prepared.onnx", f"{folder}/quantized.onnx"
    quant_pre_process(str(model), prepared)  # folds BatchNormalization

    class Reader(q.CalibrationDataReader):
        def __init__(self):
            self.batches = iter(np.array_split(calibration, 10))

        def get_next(self):
            batch = next(self.batches, None)
            return None if batch is None else {"image": batch}

    for name, activation, symmetric, per_channel, method in VARIANTS:
        with contextlib.redirect_stdout(io.StringIO()):
            q.quantize_static(prepared, quantized, Reader(), quant_format=q.QuantFormat.QDQ,
                              per_channel=per_channel, weight_type=q.QuantType.QInt8,
                              activation_type=getattr(q.QuantType, activation),
                              calibrate_method=getattr(q.CalibrationMethod, method),
                              extra_options={"ActivationSymmetric": symmetric,
                                             "CalibPercentile": 99.99})
        top = predict(quantized, images).argmax(1)
        print(f"{name:52} {100 * np.mean(top == labels):5.2f}   "
              f"{100 * np.mean(top == reference.argmax(1)):6.2f}", flush=True)
    images, labels = draw(library, SEED_TEST, 1000)
    right = predict(model, images).argmax(1) == labels
    print(f"{'FP32, 10,000 images of the same seed':52} {100 * np.mean(right):5.2f}")
    for k in range(CLASSES):
        print(f"    {library.qb_demo_class_name(k).decode():10} "
              f"{100 * np.mean(right[labels == k]):5.1f}")


def build(args, library):
    import torch
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    torch.use_deterministic_algorithms(True)
    images, labels = draw(library, SEED_TRAIN, args.images // CLASSES)
    net = make_net()
    print(f"{sum(p.numel() for p in net.parameters())} parameters, {len(images)} images")
    if args.resume:
        net.load_state_dict(torch.load(args.resume, weights_only=True))
        net.eval()
    else:
        train(net, images, labels, args.epochs, args.seed)
    if args.save:
        torch.save(net.state_dict(), args.save)
    net.to(memory_format=torch.contiguous_format)
    rescale(net, torch.from_numpy(prepare(images[:500])), args.factor, args.share)
    model = to_onnx(net)
    path = args.out / "model.onnx"
    onnx.save(model, str(path))
    names = [library.qb_demo_class_name(k).decode() for k in range(CLASSES)]
    (args.out / "model.json").write_text(json.dumps(sidecar(names), indent=1) + "\n")
    with torch.no_grad():
        expected = torch.softmax(net(torch.from_numpy(prepare(images[:250]))), 1).numpy()
    difference = np.abs(expected - predict(path, images[:250])).max()
    print(f"{path}: {path.stat().st_size} bytes; torch and onnxruntime differ by {difference:.1e}")
    if difference > 1e-4:
        sys.exit("the exported model does not compute what was trained")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--measure", action="store_true", help="measure demo/model.onnx, no training")
    parser.add_argument("--out", type=Path, default=ROOT / "demo")
    parser.add_argument("--images", type=int, default=40000)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--factor", type=float, default=64.0, help="of rescale()")
    parser.add_argument("--share", type=float, default=0.06, help="of rescale()")
    parser.add_argument("--save", type=Path, help="keep the trained weights (torch)")
    parser.add_argument("--resume", type=Path, help="start from kept weights, do not train")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        library = load_drawing(folder)
        if not args.measure:
            build(args, library)
        measure(args.out / "model.onnx", library, folder)


if __name__ == "__main__":
    main()
