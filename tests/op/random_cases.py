#!/usr/bin/env python3
"""Random ONNX test cases, one operator each, whose expected outputs are onnxruntime's. Where the
evaluator of the onnx package says something else, the standard is open and the case is dropped.

    python tests/op/random_cases.py OUT --seed 1 --count 500 [--only Resize,Pad]
    qbench verify OUT

Attributes, shapes, element types, opsets and absent optional inputs are drawn; cases that onnxruntime
refuses are drawn again. Exit code 77 without onnxruntime.
"""
import argparse
import os
import sys
import warnings

import random_recurrent
import random_regions

try:
    import numpy as np
    import onnx
    import onnxruntime as ort
    from onnx import helper, numpy_helper
    from onnx.reference import ReferenceEvaluator
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

FLOATS = [np.float32, np.float32, np.float32, np.float64, np.float16]
INTS = [np.int64, np.int32, np.int8, np.uint8, np.int16, np.uint16, np.uint32, np.uint64]
NUMBERS = FLOATS + INTS
ALL = NUMBERS + [np.bool_]
OPSETS = [7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25]


class Draw:
    """A case in the making."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.opset = int(self.rng.choice(OPSETS))
        self.inputs, self.constants, self.names, self.attrs = {}, {}, [], {}
        self.domain, self.n_out = "", 1

    def int(self, low, high):
        return int(self.rng.integers(low, high + 1))

    def pick(self, options):
        return options[self.int(0, len(options) - 1)]

    def chance(self, share):
        return self.rng.random() < share

    def shape(self, low=1, high=4, most=5, empty=0.03):
        return [0 if self.chance(empty) else self.int(1, most) for _ in range(self.int(low, high))]

    def values(self, shape, dtype, spread=3.0):
        if dtype == np.bool_:
            return self.rng.random(shape) < 0.5
        if np.issubdtype(dtype, np.floating):
            return np.asarray(self.rng.standard_normal(shape) * spread).astype(dtype)
        low = 0 if np.issubdtype(dtype, np.unsignedinteger) else -9
        return self.rng.integers(low, 10, shape).astype(dtype)

    def give(self, value, constant=None):
        """An input; parameters of shapes are constants in half of the cases."""
        name = f"x{len(self.names)}"
        constant = self.chance(0.3) if constant is None else constant
        (self.constants if constant else self.inputs)[name] = np.asarray(value)
        self.names.append(name)
        return value

    def tensor(self, shape, dtype=np.float32, spread=3.0, constant=None):
        return self.give(self.values(shape, dtype, spread), constant)

    def ints(self, values, constant=True, dtype=np.int64):
        return self.give(np.asarray(values, dtype), constant)

    def absent(self):
        self.names.append("")

    def broadcast(self, shape):
        """A shape that broadcasts with the given one."""
        out = [1 if self.chance(0.3) else d for d in shape]
        return out[self.int(0, len(out)):] if self.chance(0.4) else out

    def axis(self, rank):
        return self.int(-rank, rank - 1)

    def axes(self, rank):
        return [int(a) - (rank if self.chance(0.4) else 0)
                for a in self.rng.permutation(rank)[:self.int(1, rank)]]

    def maybe(self, share=0.5, **attrs):
        for name, value in attrs.items():
            if self.chance(share):
                self.attrs[name] = value


def unary(low=-3.0, high=3.0, types=FLOATS, **ranges):
    def make(d):
        dtype = d.pick(types)
        shape = d.shape(0)
        if np.issubdtype(dtype, np.floating):
            d.give((d.rng.random(shape) * (high - low) + low).astype(dtype), False)
        else:
            d.tensor(shape, dtype, constant=False)
        for name, (a, b) in ranges.items():
            d.maybe(**{name: float(np.float32(d.rng.uniform(a, b)))})
    return make


def binary(types, spread=3.0, nonzero=False):
    def make(d):
        dtype = d.pick(types)
        a, shape = d.shape(0), None
        shape = d.broadcast(a)
        shapes = [a, shape] if d.chance(0.5) else [shape, a]
        for i, s in enumerate(shapes):
            x = d.values(s, dtype, spread)
            if nonzero and i == 1:
                x = np.where(x == 0, np.asarray(1, dtype), x)
            d.give(x)
    return make


def variadic(types):
    def make(d):
        dtype, a = d.pick(types), d.shape(0)
        for _ in range(d.int(1, 4)):
            d.tensor(d.broadcast(a), dtype)
        if d.opset < 8:
            d.opset = 8
    return make


def power(d):
    dtype = d.pick([np.float32, np.float64, np.int32, np.int64])
    other = d.pick([np.float32, np.float64, np.int32, np.int64])
    d.opset = max(d.opset, 13)
    a = d.shape(0)
    d.give(np.abs(d.values(a, dtype)) + 1)
    d.give(np.abs(d.values(d.broadcast(a), other, 1.0)).clip(0, 3).astype(other))


def modulo(d):
    dtype = d.pick(INTS + [np.float32, np.float64])
    a = d.shape(0)
    d.tensor(a, dtype)
    y = d.values(d.broadcast(a), dtype)
    d.give(np.where(y == 0, np.asarray(3, dtype), y))
    if np.issubdtype(dtype, np.floating):
        d.attrs["fmod"] = 1
    else:
        d.maybe(fmod=1)


def reduction(types):
    def make(d):
        dtype = d.pick(types)
        shape = d.shape(0, 4, empty=0)
        d.tensor(shape, dtype, 1.0, False)
        d.maybe(keepdims=d.int(0, 1))
        axes = d.axes(len(shape)) if shape and d.chance(0.7) else None
        as_input = d.opset >= 18 or (d.opset >= 13 and d.op == "ReduceSum")
        if axes is not None and as_input:
            d.ints(axes, d.chance(0.7))
        elif axes is not None:
            d.attrs["axes"] = axes if d.opset >= 11 else [a % len(shape) for a in axes]
        elif as_input:
            if d.chance(0.3):
                d.ints([])
            d.maybe(noop_with_empty_axes=d.int(0, 1))
    return make


def arg(d):
    shape = d.shape(1, 4, empty=0)
    d.tensor(shape, d.pick([np.float32, np.float64, np.int32, np.int8, np.uint8]), constant=False)
    d.maybe(keepdims=d.int(0, 1), axis=d.axis(len(shape)) if d.opset >= 11 else 0)
    if d.opset >= 12:
        d.maybe(select_last_index=d.int(0, 1))


def windows(d, spatial, kernel):
    if d.chance(0.5):
        d.attrs["strides"] = [d.int(1, 3) for _ in range(spatial)]
    if d.chance(0.3):
        d.attrs["auto_pad"] = d.pick(["SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"])
    elif d.chance(0.6):
        d.attrs["pads"] = [d.int(0, (k - 1)) for k in kernel + kernel]


def pool(d):
    spatial = d.int(1, 3)
    kernel = [d.int(1, 4) for _ in range(spatial)]
    d.tensor([d.int(1, 2), d.int(1, 3)] + [d.int(7, 10) for _ in range(spatial)],
             np.float32 if d.op != "MaxPool" or d.opset < 12 else d.pick([np.float32, np.float32, np.uint8, np.int8]),
             constant=False)
    d.attrs["kernel_shape"] = kernel
    windows(d, spatial, kernel)
    if d.opset >= 10:
        d.maybe(ceil_mode=d.int(0, 1))
    if d.op == "AveragePool":
        d.maybe(count_include_pad=d.int(0, 1))
        if d.opset >= 19 and "auto_pad" not in d.attrs:
            d.maybe(0.4, dilations=[d.int(1, 2) for _ in range(spatial)])
    else:
        if d.opset >= 10:
            d.maybe(0.4, dilations=[d.int(1, 2) for _ in range(spatial)])
        if d.opset >= 8 and d.chance(0.4):
            d.n_out = 2
            d.maybe(storage_order=d.int(0, 1))


def conv(d):
    spatial, group = d.int(1, 3), d.int(1, 3)
    kernel = [d.int(1, 4) for _ in range(spatial)]
    c, m = group * d.int(1, 3), group * d.int(1, 3)
    side = [d.int(7, 9) for _ in range(spatial)]
    transposed = d.op == "ConvTranspose"
    d.tensor([d.int(1, 2), c] + side, constant=False)
    d.tensor(([c, m // group] if transposed else [m, c // group]) + kernel)
    if d.chance(0.5):
        d.tensor([m])
    d.attrs["group"] = group
    d.maybe(kernel_shape=kernel)
    windows(d, spatial, kernel)
    if transposed and "SAME" in d.attrs.get("auto_pad", ""):  # onnxruntime does not grow the output
        d.attrs["strides"] = [min(s, k) for s, k in zip(d.attrs.get("strides", [1] * spatial), kernel)]
    if d.attrs.get("auto_pad", "NOTSET") in ("NOTSET", "VALID") and d.chance(0.4):
        d.attrs["dilations"] = [d.int(1, 2) for _ in range(spatial)]
    if transposed and d.chance(0.4):
        strides = d.attrs.get("strides", [1] * spatial)
        d.attrs["output_padding"] = [d.int(0, s - 1) for s in strides]


def conv_integer(d):
    c, m, k = d.int(1, 3), d.int(1, 4), d.int(1, 3)
    d.opset = max(d.opset, 10)
    d.give(d.rng.integers(0, 255, [1, c, 6, 6]).astype(np.uint8), False)
    w = d.pick([np.uint8, np.int8])
    d.give(d.rng.integers(0, 100, [m, c, k, k]).astype(w))
    if d.chance(0.6):
        d.give(np.uint8(d.int(0, 255)))
    d.maybe(pads=[d.int(0, k - 1) for _ in range(4)], strides=[d.int(1, 2)] * 2)


def matmul(d):
    n, k, m = d.int(1, 5), d.int(1, 5), d.int(1, 5)
    dtype = d.pick([np.float32, np.float32, np.float64, np.int32, np.int64, np.uint32, np.uint64])
    batch = d.shape(0, 2, 3, 0)
    left, right = d.broadcast(batch), d.broadcast(batch)
    a, b = left + [n, k], right + [k, m]
    if d.chance(0.15):
        a = [k]
    if d.chance(0.15):
        b = [k]
    d.tensor(a, dtype)
    d.tensor(b, dtype)
    if d.opset < 9:
        d.opset = 13


def matmul_integer(d):
    n, k, m = d.int(1, 5), d.int(1, 9), d.int(1, 5)
    d.opset = max(d.opset, 10)
    d.give(d.rng.integers(0, 255, d.shape(0, 1, 3, 0) + [n, k]).astype(np.uint8), False)
    w = d.pick([np.uint8, np.int8])
    d.give(d.rng.integers(0, 100, [k, m]).astype(w))
    if d.chance(0.6):
        d.give(np.uint8(d.int(0, 255)))
        if d.chance(0.6):
            d.give(w(d.int(0, 100)) if d.chance(0.5) else d.rng.integers(0, 100, [m]).astype(w))


def gemm(d):
    n, k, m = d.int(1, 5), d.int(1, 5), d.int(1, 5)
    dtype = d.pick([np.float32, np.float64])
    ta, tb = d.int(0, 1), d.int(0, 1)
    d.tensor([k, n] if ta else [n, k], dtype)
    d.tensor([m, k] if tb else [k, m], dtype)
    d.attrs.update(transA=ta, transB=tb)
    d.maybe(alpha=float(np.float32(d.rng.uniform(-1, 2))), beta=float(np.float32(d.rng.uniform(-1, 2))))
    if d.opset < 11 or d.chance(0.7):
        d.tensor(d.broadcast([n, m]), dtype)


def einsum(d):
    d.opset = max(d.opset, 12)
    equation = d.pick(["ij,jk->ik", "ij->ji", "bij,bjk->bik", "i,i->", "ij->i", "...ij,...jk->...ik",
                       "bhid,bhjd->bhij", "ij,kj->ik", "ii->i", "i,j->ij", "ijk->", "ij,jk", "b...d->b..."])
    sizes = {c: d.int(1, 4) for c in "abcdefghijk"}
    extra = d.shape(0, 2, 3, 0)
    for term in equation.split("->")[0].split(","):
        shape = []
        if "..." in term:
            before, after = term.split("...")
            shape = [sizes[c] for c in before] + extra + [sizes[c] for c in after]
        else:
            shape = [sizes[c] for c in term]
        d.tensor(shape, constant=False)
    d.attrs["equation"] = equation


def resize(d):
    d.opset = max(d.opset, 11)
    spatial = d.int(1, 2)
    mode = d.pick(["nearest", "linear", "cubic"])
    if mode == "cubic":
        spatial = 2
    shape = [d.int(1, 2), d.int(1, 2)] + [d.int(2, 7) for _ in range(spatial)]
    d.tensor(shape, d.pick([np.float32, np.float32, np.uint8, np.int8, np.int32]) if mode == "nearest" else np.float32,
             constant=False)
    d.attrs["mode"] = mode
    modes = ["half_pixel", "asymmetric", "pytorch_half_pixel", "align_corners"]
    if d.opset >= 19:
        modes.append("half_pixel_symmetric")
    d.maybe(coordinate_transformation_mode=d.pick(modes),
            nearest_mode=d.pick(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]))
    if mode == "cubic":
        d.maybe(cubic_coeff_a=-0.5, exclude_outside=1)
    anti = d.opset >= 18 and mode != "nearest" and d.chance(0.4)
    if anti:
        d.attrs["antialias"] = 1
    crop = not anti and d.chance(0.15)
    axes = None
    if d.opset >= 18 and d.chance(0.4):
        axes = list(range(2, 2 + spatial))
        d.attrs["axes"] = [a - (len(shape) if d.chance(0.3) else 0) for a in axes]
    roi = []
    if crop:
        d.attrs["coordinate_transformation_mode"] = "tf_crop_and_resize"
        d.attrs["extrapolation_value"] = 1.5
        n = spatial if axes else len(shape)
        begin = [0.0] * (n - spatial) + [float(d.rng.uniform(0, 0.4)) for _ in range(spatial)]
        end = [1.0] * (n - spatial) + [float(d.rng.uniform(0.5, 1.2)) for _ in range(spatial)]
        roi = begin + end
        d.give(np.array(roi, np.float32), True)
    elif d.opset >= 13:
        d.absent()
    else:
        d.give(np.array([], np.float32), True)
    target = [d.int(1, 12) for _ in range(spatial)]
    if d.chance(0.5):
        scales = [t / s for t, s in zip(target, shape[2:])] if d.chance(0.5) else [
            d.pick([0.5, 0.6, 1.5, 2.0, 3.0, 0.34]) for _ in range(spatial)]
        d.give(np.array(([] if axes else [1.0, 1.0]) + scales, np.float32), True)
    else:
        if d.opset >= 13:
            d.absent()
        else:
            d.give(np.array([], np.float32), True)
        d.ints(([] if axes else shape[:2]) + target)
        if d.opset >= 18:
            d.maybe(0.3, keep_aspect_ratio_policy=d.pick(["not_larger", "not_smaller", "stretch"]))


def grid_sample(d):
    d.opset = max(d.opset, 16)
    spatial = 3 if d.opset >= 20 and d.chance(0.3) else 2
    modes = ["nearest", "bilinear", "bicubic"] if d.opset < 20 else ["nearest", "linear", "cubic"]
    d.maybe(0.8, mode=d.pick(modes[:2] if spatial == 3 else modes),
            padding_mode=d.pick(["zeros", "border", "reflection"]), align_corners=d.int(0, 1))
    samples = d.int(1, 2)
    d.tensor([samples, d.int(1, 3)] + [d.int(2, 6) for _ in range(spatial)], constant=False)
    d.tensor([samples] + [d.int(1, 5) for _ in range(spatial)] + [spatial], spread=1.7, constant=False)


def pad(d):
    shape = d.shape(1, 4, 5, 0)
    modes = ["constant", "reflect", "edge"] + (["wrap"] if d.opset >= 19 else [])
    mode = d.pick(modes)
    rank = len(shape)
    dtype = d.pick([np.float32, np.float64, np.int32, np.int64, np.uint8, np.int8, np.bool_]) if d.opset >= 13 else np.float32
    d.tensor(shape, dtype, constant=False)
    axes = None
    if d.opset >= 18 and d.chance(0.4):
        axes = d.axes(rank)
    n = len(axes) if axes else rank
    sides = [shape[a] for a in axes] if axes else shape
    low = -1 if mode == "constant" and d.chance(0.3) else 0
    pads = [d.int(low if sides[i % n] > 2 else 0, max(0, min(2, sides[i % n] - 1))) for i in range(2 * n)]
    d.maybe(1.0 if mode != "constant" else 0.5, mode=mode)
    if d.opset < 11:
        d.attrs["pads"] = pads
        d.maybe(value=1.5)
        return
    d.ints(pads)
    if mode == "constant" and d.chance(0.6):
        d.give(d.values([], dtype), True)
    elif axes:
        d.absent()
    if axes:
        d.ints(axes)


def slices(d):
    shape = d.shape(1, 4, 6, 0)
    d.tensor(shape, d.pick(ALL), constant=False)
    rank = len(shape)
    axes = d.axes(rank)
    starts = [d.int(-8, 8) for _ in axes]
    steps = [d.pick([1, 2, 3, -1, -2]) for _ in axes] if d.opset >= 10 and d.chance(0.6) else [1] * len(axes)
    ends = [d.pick([d.int(-8, 8), 2**31 - 1 if step > 0 else -2**31]) for step in steps]
    if d.opset < 10:
        d.attrs.update(starts=starts, ends=ends)
        d.attrs["axes"] = [a % rank for a in axes]
        return
    kind = d.pick([np.int64, np.int32])
    constant = d.chance(0.7)
    d.ints(starts, constant, kind)
    d.ints(ends, constant, kind)
    d.ints(axes, constant, kind)
    if any(step != 1 for step in steps) or d.chance(0.3):
        d.ints(steps, constant, kind)


def split(d):
    shape = d.shape(1, 4, 6, 0)
    axis = d.axis(len(shape)) if d.opset >= 11 else d.int(0, len(shape) - 1)
    size = shape[axis]
    d.tensor(shape, d.pick(ALL), constant=False)
    d.attrs["axis"] = axis
    cuts = sorted(d.int(0, size) for _ in range(d.int(0, 3)))
    parts = [b - a for a, b in zip([0] + cuts, cuts + [size])]
    d.n_out = len(parts)
    if d.opset >= 18 and d.chance(0.4):
        d.n_out = d.int(1, min(3, size))
        d.attrs["num_outputs"] = d.n_out
    elif d.opset >= 13:
        d.ints(parts)
    else:
        d.attrs["split"] = parts


def concat(d):
    shape = d.shape(1, 4)
    axis = d.axis(len(shape)) if d.opset >= 11 else d.int(0, len(shape) - 1)
    dtype = d.pick(ALL)
    for _ in range(d.int(1, 4)):
        one = list(shape)
        one[axis] = d.int(0, 4)
        d.tensor(one, dtype)
    d.attrs["axis"] = axis


def gather(d):
    shape = d.shape(1, 4, 5, 0)
    axis = d.axis(len(shape)) if d.opset >= 11 else d.int(0, len(shape) - 1)
    size = shape[axis]
    kind = d.pick([np.int64, np.int32])
    low = -size if d.opset >= 11 else 0
    d.tensor(shape, d.pick(ALL), constant=False)
    index = d.shape(0, 3)
    if d.op == "GatherElements":
        d.opset = max(d.opset, 11)
        index = [d.int(1, s) if i != axis % len(shape) else d.int(1, 6) for i, s in enumerate(shape)]
        low = -size
    d.give(d.rng.integers(low, size, index).astype(kind))
    d.attrs["axis"] = axis


def gather_nd(d):
    d.opset = max(d.opset, 11)
    shape = d.shape(2, 4, 4, 0)
    batch = d.int(0, 1) if d.opset >= 12 else 0
    depth = d.int(1, len(shape) - batch)
    index = shape[:batch] + d.shape(0, 2, 3, 0) + [depth]
    d.tensor(shape, d.pick(ALL), constant=False)
    low = [-s for s in shape[batch:batch + depth]]
    d.give(np.stack([d.rng.integers(l, s, index[:-1]) for l, s in zip(low, shape[batch:])], -1).astype(np.int64)
           if depth else np.zeros(index, np.int64))
    if batch:
        d.attrs["batch_dims"] = batch


def scatter(d):
    d.opset = max(d.opset, 11)
    shape = d.shape(1, 3, 5, 0)
    axis = d.axis(len(shape))
    a = axis % len(shape)
    dtype = d.pick([np.float32, np.int32, np.int64])
    d.tensor(shape, dtype, constant=False)
    reduction = d.pick(["none", "add", "mul"] + (["max", "min"] if d.opset >= 18 else [])) if d.opset >= 16 else "none"
    index = [d.int(1, s) for s in shape]
    order = np.argsort(d.rng.random(index[:a] + [shape[a]] + index[a + 1:]), axis=a)
    order = np.take(order, range(index[a]), axis=a)
    d.give(order.astype(np.int64))
    d.tensor(index, dtype)
    d.attrs["axis"] = axis
    if reduction != "none":
        d.attrs["reduction"] = reduction


def scatter_nd(d):
    d.opset = max(d.opset, 11)
    shape = d.shape(1, 3, 4, 0)
    depth = d.int(1, len(shape))
    dtype = d.pick([np.float32, np.int32])
    d.tensor(shape, dtype, constant=False)
    cells = np.array(list(np.ndindex(*shape[:depth])))
    n = d.int(1, len(cells))
    index = cells[d.rng.permutation(len(cells))[:n]]
    d.give(index.astype(np.int64))
    d.tensor([n] + shape[depth:], dtype)
    if d.opset >= 18:
        d.maybe(reduction=d.pick(["add", "mul", "max", "min"]))


def reshape(d):
    shape = d.shape(1, 4, 4, 0)
    d.tensor(shape, d.pick(ALL), constant=False)
    total = int(np.prod(shape))
    target = []
    left = total
    for _ in range(d.int(0, 3)):
        f = d.pick([k for k in range(1, left + 1) if left % k == 0])
        target.append(f)
        left //= f
    target.append(left)
    if d.chance(0.5):
        target[d.int(0, len(target) - 1)] = -1
    if d.chance(0.3) and target[0] == shape[0]:
        target[0] = 0
    d.ints(target, d.chance(0.7))


def flatten(d):
    shape = d.shape(1, 4)
    d.tensor(shape, d.pick(ALL) if d.opset >= 9 else np.float32, constant=False)
    d.maybe(axis=d.int(-len(shape), len(shape)) if d.opset >= 11 else d.int(0, len(shape)))


def squeeze(d):
    shape = d.shape(1, 4)
    axes = d.axes(len(shape))
    for a in axes:
        shape[a] = 1
    if d.opset < 11:
        axes = [a % len(shape) for a in axes]
    d.tensor(shape, d.pick(ALL), constant=False)
    if d.chance(0.7):
        if d.opset >= 13:
            d.ints(axes)
        else:
            d.attrs["axes"] = axes


def unsqueeze(d):
    shape = d.shape(0, 3)
    rank = len(shape) + d.int(1, 2)
    axes = [int(a) - (rank if d.chance(0.4) and d.opset >= 11 else 0)
            for a in d.rng.permutation(rank)[:rank - len(shape)]]
    d.tensor(shape, d.pick(ALL), constant=False)
    if d.opset >= 13:
        d.ints(axes)
    else:
        d.attrs["axes"] = axes


def transpose(d):
    shape = d.shape(0, 5)
    d.tensor(shape, d.pick(ALL), constant=False)
    if shape and d.chance(0.8):
        d.attrs["perm"] = [int(a) for a in d.rng.permutation(len(shape))]


def expand(d):
    d.opset = max(d.opset, 8)
    shape = d.shape(0, 4)
    d.tensor(d.broadcast(shape), d.pick(ALL), constant=False)
    d.ints(d.broadcast(shape) if d.chance(0.3) else shape, d.chance(0.7))


def tile(d):
    shape = d.shape(1, 4, 4)
    d.tensor(shape, d.pick([np.float32, np.int64, np.int32, np.uint8, np.bool_, np.float64]), constant=False)
    d.ints([d.int(0, 3) if d.chance(0.1) else d.int(1, 3) for _ in shape], d.chance(0.7))


def ranges(d):
    d.opset = max(d.opset, 11)
    dtype = d.pick([np.float32, np.float64, np.int32, np.int64, np.int16])
    step = d.pick([1, 2, 3, -1, -2])
    if np.issubdtype(dtype, np.floating):
        step *= 0.7
    d.give(dtype(d.int(-5, 5)), True)
    d.give(dtype(d.int(-10, 10)), True)
    d.give(dtype(step), True)


def where(d):
    d.opset = max(d.opset, 9)
    shape, dtype = d.shape(0, 4), d.pick([np.float32, np.int64, np.int32, np.uint8, np.float64])
    d.tensor(d.broadcast(shape), np.bool_)
    d.tensor(d.broadcast(shape), dtype)
    d.tensor(shape, dtype)


def clip(d):
    dtype = d.pick([np.float32, np.float32, np.float64, np.int8, np.uint8, np.int64, np.int32]) if d.opset >= 12 else np.float32
    d.tensor(d.shape(0), dtype, constant=False)
    low, high = sorted([d.values([], dtype), d.values([], dtype)])
    if d.opset < 11:
        d.maybe(min=float(low), max=float(high))
        return
    if d.chance(0.7):
        d.give(np.asarray(low))
    else:
        d.absent()
    if d.chance(0.7):
        d.give(np.asarray(high))


def softmax(d):
    shape = d.shape(1, 4, 6)
    d.tensor(shape, d.pick(FLOATS), constant=False)
    d.maybe(0.8 if len(shape) > 1 else 1.0, axis=d.axis(len(shape)) if d.opset >= 11 else d.int(0, len(shape) - 1))


def layer_norm(d):
    d.opset = max(d.opset, 17)
    shape = d.shape(1, 4, 6, 0)
    axis = d.axis(len(shape))
    d.tensor(shape, constant=False)
    d.tensor(shape[axis:] if axis < 0 else shape[axis:])
    if d.chance(0.6):
        d.tensor(shape[axis:])
    d.attrs["axis"] = axis
    d.maybe(epsilon=1e-3)
    d.n_out = d.pick([1, 1, 3])


def rms_norm(d):
    d.opset = max(d.opset, 23)
    shape = d.shape(1, 4, 6, 0)
    axis = d.axis(len(shape))
    d.tensor(shape, constant=False)
    d.tensor(shape[axis:])
    d.attrs["axis"] = axis
    d.maybe(epsilon=1e-3)


def group_norm(d):
    d.opset = max(d.opset, 21)
    groups, per = d.int(1, 3), d.int(1, 3)
    c = groups * per
    d.tensor([d.int(1, 2), c] + [d.int(1, 5) for _ in range(d.int(1, 2))], constant=False)
    d.tensor([c])
    d.tensor([c])
    d.attrs["num_groups"] = groups
    d.maybe(epsilon=1e-3)


def batch_norm(d):
    c = d.int(1, 4)
    shape = [d.int(1, 3), c] + [d.int(1, 5) for _ in range(d.int(0, 3))]
    d.tensor(shape, constant=False)
    d.tensor([c])
    d.tensor([c])
    d.tensor([c])
    d.give((d.rng.random([c]) + 0.1).astype(np.float32))
    d.maybe(epsilon=1e-3)


def instance_norm(d):
    c = d.int(1, 4)
    d.tensor([d.int(1, 3), c] + [d.int(1, 5) for _ in range(d.int(1, 3))], constant=False)
    d.tensor([c])
    d.tensor([c])
    d.maybe(epsilon=1e-3)


def lrn(d):
    d.tensor([d.int(1, 2), d.int(1, 8), d.int(1, 4), d.int(1, 4)], constant=False)
    d.attrs["size"] = d.pick([1, 3, 5])
    d.maybe(alpha=0.01, beta=0.6, bias=1.5)


def lp_norm(d):
    shape = d.shape(1, 4, 5, 0)
    d.tensor(shape, d.pick([np.float32, np.float64]), constant=False)
    d.maybe(axis=d.axis(len(shape)), p=d.pick([1, 2]))


def cumsum(d):
    d.opset = max(d.opset, 11)
    shape = d.shape(1, 4)
    d.tensor(shape, d.pick([np.float32, np.float64, np.int32, np.int64]), constant=False)
    d.give(np.asarray(d.axis(len(shape)), d.pick([np.int32, np.int64])), d.chance(0.6))
    d.maybe(exclusive=d.int(0, 1), reverse=d.int(0, 1))


def topk(d):
    shape = d.shape(1, 3, 8, 0)
    axis = d.axis(len(shape)) if d.opset >= 11 else d.int(0, len(shape) - 1)
    d.n_out = 2
    dtype = d.pick([np.float32, np.float64, np.int64, np.int32]) if d.opset >= 11 else np.float32
    x = d.rng.permutation(int(np.prod(shape))).reshape(shape).astype(dtype)
    d.give(x, False)
    d.attrs["axis"] = axis
    k = d.int(1, shape[axis])
    if d.opset < 10:
        d.attrs["k"] = k
    else:
        d.ints([k])
    if d.opset >= 11:
        d.maybe(largest=d.int(0, 1))


def trilu(d):
    d.opset = max(d.opset, 14)
    d.tensor(d.shape(2, 4), d.pick([np.float32, np.float64, np.int64]), constant=False)
    if d.chance(0.6):
        d.give(np.asarray(d.int(-4, 4), np.int64))
    d.maybe(upper=d.int(0, 1))


def cast(d):
    d.tensor(d.shape(0), d.pick(ALL), 30.0, False)
    if d.op == "Cast":
        to = d.pick(ALL)
        d.attrs["to"] = int(helper.np_dtype_to_tensor_dtype(np.dtype(to)))
    else:
        d.opset = max(d.opset, 15)
        d.tensor([1], d.pick(ALL))
    # what does not fit the integer is nobody's contract
    for held in (d.inputs, d.constants):
        if "x0" in held and np.issubdtype(held["x0"].dtype, np.floating):
            held["x0"] = np.abs(held["x0"]).clip(0, 120)
        elif "x0" in held and held["x0"].dtype.kind == "i":
            held["x0"] = np.abs(held["x0"])


def shapes(d):
    shape = d.shape(0, 5)
    d.tensor(shape, d.pick(ALL), constant=False)
    if d.op == "Shape" and d.opset >= 15:
        d.maybe(start=d.int(-6, 6), end=d.int(-6, 6))


def constant_of_shape(d):
    d.opset = max(d.opset, 9)
    d.ints(d.shape(0, 4), d.chance(0.5))
    if d.chance(0.7):
        d.attrs["value"] = numpy_helper.from_array(d.values([1], d.pick([np.float32, np.int64, np.uint8, np.bool_])))


def one_hot(d):
    d.opset = max(d.opset, 11)
    shape = d.shape(0, 3)
    depth = d.int(1, 6)
    kind = np.int64
    d.give(d.rng.integers(-depth - 1, depth + 2, shape).astype(kind), False)
    d.give(np.asarray(depth, kind), True)
    d.tensor([2], d.pick([np.float32, np.int64]))
    d.maybe(axis=d.int(-len(shape) - 1, len(shape)))


def depth(d):
    block = d.int(1, 3)
    if d.op == "DepthToSpace":
        d.tensor([1, block * block * d.int(1, 3), d.int(1, 3), d.int(1, 3)], constant=False)
        if d.opset >= 11:
            d.maybe(mode=d.pick(["DCR", "CRD"]))
    else:
        d.tensor([1, d.int(1, 3), block * d.int(1, 3), block * d.int(1, 3)], constant=False)
    d.attrs["blocksize"] = block


def prelu(d):
    shape = d.shape(1, 4)
    d.opset = max(d.opset, 9)
    d.tensor(shape, d.pick([np.float32, np.float64]), constant=False)
    d.tensor(d.broadcast(shape), (list(d.inputs.values()) or list(d.constants.values()))[0].dtype.type)


def nms(d):
    d.opset = max(d.opset, 11)
    n, boxes, classes = d.int(1, 2), d.int(1, 8), d.int(1, 3)
    corner = d.rng.random([n, boxes, 2])
    size = d.rng.random([n, boxes, 2]) * 0.5
    center = d.int(0, 1)
    data = np.concatenate([corner, size if center else corner + size], -1).astype(np.float32)
    d.give(data, True)
    d.give(d.rng.random([n, classes, boxes]).astype(np.float32), True)
    d.ints([d.int(0, 6)])
    d.give(np.array([0.4], np.float32), True)
    if d.chance(0.5):
        d.give(np.array([0.3], np.float32), True)
    d.attrs["center_point_box"] = center


def quantize(d):
    d.opset = max(d.opset, 10)
    shape = d.shape(1, 4, 5, 0)
    kind = d.pick([np.uint8, np.int8] + ([np.int16, np.uint16] if d.opset >= 21 else []))
    axis = d.axis(len(shape)) if d.opset >= 13 and d.chance(0.5) else None
    n = [] if axis is None else [shape[axis]]
    info = np.iinfo(kind)
    d.kind = kind
    if d.op == "QuantizeLinear":
        d.tensor(shape, np.float32, 5.0, False)
    else:
        d.give(d.rng.integers(info.min, info.max + 1, shape).astype(kind), False)
    d.give((d.rng.random(n) * 0.1 + 0.01).astype(np.float32))
    if d.chance(0.8) or kind != np.uint8:
        d.give(d.rng.integers(max(info.min, -100), min(info.max, 200), n).astype(kind))
    if axis is not None:
        d.attrs["axis"] = axis


def dynamic_quantize(d):
    d.opset = max(d.opset, 11)
    d.n_out = 3
    d.tensor(d.shape(1, 3, 6, 0), np.float32, 5.0, False)


def qlinear_matmul(d):
    d.opset = max(d.opset, 10)
    n, k, m = d.int(1, 5), d.int(1, 9), d.int(1, 5)
    kinds = d.pick([(np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8)])
    per_column = d.chance(0.4)

    def one(shape, kind, size=None):
        info = np.iinfo(kind)
        d.give(d.rng.integers(info.min, info.max + 1, shape).astype(kind), None if size is None else True)
        d.give((d.rng.random(size or []) * 0.05 + 0.01).astype(np.float32), True)
        zero = np.zeros(size or []) if kind == np.int8 else d.rng.integers(0, 255, size or [])
        d.give(np.asarray(zero).astype(kind), True)

    one(d.shape(0, 1, 3, 0) + [n, k], kinds[0])
    one([k, m], kinds[1], [m] if per_column else None)
    d.give(np.float32(0.3), True)
    d.give(kinds[0](d.int(0, 100)), True)


def qlinear_conv(d):
    d.opset = max(d.opset, 10)
    c, m, k = d.int(1, 4), d.int(1, 5), d.int(1, 3)
    x, w = d.pick([(np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8)])
    size = [m] if d.chance(0.5) else []
    for kind, shape, n in ((x, [1, c, 6, 6], []), (w, [m, c, k, k], size)):
        info = np.iinfo(kind)
        d.give(d.rng.integers(info.min, info.max + 1, shape).astype(kind), kind is w and n is size)
        d.give((d.rng.random(n) * 0.05 + 0.01).astype(np.float32), True)
        zero = d.rng.integers(0, 200) if kind == np.uint8 else 0
        d.give(np.full(n, zero).astype(kind), True)
    d.give(np.float32(0.2), True)
    d.give(x(d.int(0, 100)), True)
    if d.chance(0.5):
        d.give(d.rng.integers(-500, 500, [m]).astype(np.int32), True)
    d.maybe(pads=[d.int(0, k - 1) for _ in range(4)], strides=[d.int(1, 2)] * 2)


def attention(d):
    d.opset = max(d.opset, 23)
    b, heads, kv = d.int(1, 2), d.pick([2, 4]), d.pick([1, 2])
    q, k, size, vsize = d.int(1, 4), d.int(1, 5), d.pick([2, 4]), d.pick([2, 4])
    past = d.int(1, 3) if d.chance(0.3) else 0
    flat = not past and d.chance(0.4)
    if flat:
        d.tensor([b, q, heads * size], spread=1.0, constant=False)
        d.tensor([b, k, kv * size], spread=1.0, constant=False)
        d.tensor([b, k, kv * vsize], spread=1.0, constant=False)
        d.attrs.update(q_num_heads=heads, kv_num_heads=kv)
    else:
        d.tensor([b, heads, q, size], spread=1.0, constant=False)
        d.tensor([b, kv, k, size], spread=1.0, constant=False)
        d.tensor([b, kv, k, vsize], spread=1.0, constant=False)
    total = past + k
    if d.chance(0.5):
        mask = d.broadcast([b, heads])[-2:] + [q, total] if d.chance(0.5) else [q, total]
        d.tensor(mask, d.pick([np.float32, np.bool_]), constant=False)
    elif past:
        d.absent()
    if past:
        d.tensor([b, kv, past, size], spread=1.0, constant=False)
        d.tensor([b, kv, past, vsize], spread=1.0, constant=False)
        d.n_out = 3
    d.maybe(is_causal=d.int(0, 1), softcap=2.0, scale=0.5)


def rotary(d):
    d.opset = max(d.opset, 23)
    b, heads, length, size = d.int(1, 2), d.int(1, 3), d.int(1, 4), d.pick([4, 8])
    flat = d.chance(0.5)
    d.tensor([b, length, heads * size] if flat else [b, heads, length, size], constant=False)
    if flat:
        d.attrs["num_heads"] = heads
    d.maybe(interleaved=d.int(0, 1))
    part = 4 if size == 8 and d.chance(0.3) else size
    if part != size:
        d.attrs["rotary_embedding_dim"] = part
    if d.chance(0.5):
        d.tensor([7, part // 2], spread=1.0)
        d.tensor([7, part // 2], spread=1.0)
        d.give(d.rng.integers(0, 7, [b, length]).astype(np.int64))
    else:
        d.tensor([b, length, part // 2], spread=1.0)
        d.tensor([b, length, part // 2], spread=1.0)


def global_pool(d):
    d.tensor([d.int(1, 2), d.int(1, 4)] + [d.int(1, 5) for _ in range(d.int(1, 3))],
             d.pick([np.float32, np.float64]) if d.op == "GlobalAveragePool" else np.float32, constant=False)


def dropout(d):
    d.tensor(d.shape(0), constant=False)
    d.n_out = d.int(1, 2) if d.opset >= 12 else 1  # older masks say nothing when nobody trains
    if d.opset < 12:
        d.maybe(ratio=0.3)
    elif d.chance(0.5):
        d.give(np.float32(0.3), True)


def eye(d):
    d.opset = max(d.opset, 9)
    d.tensor(d.shape(2, 2, 5, 0), d.pick([np.float32, np.int32, np.int64]), constant=False)
    d.maybe(k=d.int(-3, 3), dtype=d.pick([1, 6, 7]))


def mean_variance(d):
    d.opset = max(d.opset, 9)
    shape = d.shape(4, 4, 5, 0)
    d.tensor(shape, constant=False)
    d.maybe(axes=sorted(a % 4 for a in d.axes(4)))


def gelu(d):
    d.opset = max(d.opset, 20)
    d.tensor(d.shape(0), d.pick([np.float32, np.float16]), constant=False)
    d.maybe(approximate=d.pick(["none", "tanh"]))


def nonzero(d):
    d.opset = max(d.opset, 9)
    d.tensor(d.shape(0, 3), d.pick([np.float32, np.int64, np.bool_, np.uint8]), constant=True)


COMPARE = [np.float32, np.float64, np.int32, np.int64, np.int8, np.uint8]
ARITHMETIC = [np.float32, np.float32, np.float64, np.int32, np.int64, np.int8, np.uint8, np.int16, np.uint16,
              np.uint32, np.uint64]
MAKERS = {
    **{n: unary() for n in ("Cos Sin Tanh Sigmoid Relu Softplus Softsign Erf Exp Floor Ceil Round Tan Atan "
                            "Sinh Cosh Asinh Identity Swish Mish HardSwish").split()},
    **{n: unary(-0.99, 0.99) for n in "Acos Asin Atanh".split()},
    "Acosh": unary(1.0, 5.0), "Log": unary(0.1, 5.0), "Sqrt": unary(0.0, 5.0), "Reciprocal": unary(0.2, 5.0),
    "Abs": unary(types=NUMBERS), "Neg": unary(types=[np.float32, np.float64, np.int8, np.int32, np.int64]),
    "Sign": unary(types=NUMBERS), "Not": unary(types=[np.bool_]),
    "Shrink": unary(lambd=(0.1, 2), bias=(0.1, 2)), "Elu": unary(alpha=(0.1, 2)),
    "Selu": unary(alpha=(0.1, 2), gamma=(0.1, 2)), "LeakyRelu": unary(alpha=(0.01, 2)),
    "Celu": unary(types=[np.float32], alpha=(0.1, 2)), "HardSigmoid": unary(alpha=(0.1, 1), beta=(0, 1)),
    "ThresholdedRelu": unary(alpha=(0.1, 2)),
    **{n: binary(ARITHMETIC) for n in "Add Sub Mul".split()}, "Div": binary(ARITHMETIC, nonzero=True),
    **{n: binary(COMPARE) for n in "Equal Greater Less GreaterOrEqual LessOrEqual".split()},
    **{n: binary([np.bool_]) for n in "And Or Xor".split()},
    **{n: variadic([np.float32, np.float64, np.int32, np.int64, np.uint8, np.int8]) for n in "Max Min".split()},
    **{n: variadic([np.float32, np.float64]) for n in "Sum Mean".split()},
    "Pow": power, "Mod": modulo,
    **{n: reduction([np.float32, np.float64, np.int32, np.int64]) for n in
       "ReduceSum ReduceMean ReduceProd ReduceL1 ReduceL2 ReduceSumSquare".split()},
    "ReduceLogSumExp": reduction([np.float32, np.float64]),
    **{n: reduction([np.float32, np.float64, np.int32, np.int64, np.int8, np.uint8, np.bool_]) for n in
       "ReduceMax ReduceMin".split()},
    "ReduceLogSum": reduction([np.float32]), "ArgMax": arg, "ArgMin": arg,
    "MaxPool": pool, "AveragePool": pool, "GlobalAveragePool": global_pool, "GlobalMaxPool": global_pool,
    "Conv": conv, "ConvTranspose": conv, "ConvInteger": conv_integer, "MatMul": matmul, "Gemm": gemm,
    "MatMulInteger": matmul_integer, "Einsum": einsum, "Resize": resize,
    "GridSample": grid_sample, "Pad": pad, "Slice": slices,
    "Split": split, "Concat": concat, "Gather": gather, "GatherElements": gather, "GatherND": gather_nd,
    "ScatterElements": scatter, "ScatterND": scatter_nd, "Reshape": reshape, "Flatten": flatten,
    "Squeeze": squeeze, "Unsqueeze": unsqueeze, "Transpose": transpose, "Expand": expand, "Tile": tile,
    "Range": ranges, "Where": where, "Clip": clip, "Softmax": softmax, "LogSoftmax": softmax, "Hardmax": softmax,
    "LayerNormalization": layer_norm, "RMSNormalization": rms_norm, "GroupNormalization": group_norm,
    "BatchNormalization": batch_norm, "InstanceNormalization": instance_norm, "LRN": lrn,
    "LpNormalization": lp_norm, "CumSum": cumsum, "TopK": topk, "Trilu": trilu, "Cast": cast, "CastLike": cast,
    "Shape": shapes, "Size": shapes, "ConstantOfShape": constant_of_shape, "OneHot": one_hot,
    "DepthToSpace": depth, "SpaceToDepth": depth, "PRelu": prelu, "NonMaxSuppression": nms,
    "QuantizeLinear": quantize, "DequantizeLinear": quantize, "DynamicQuantizeLinear": dynamic_quantize,
    "QLinearMatMul": qlinear_matmul, "QLinearConv": qlinear_conv, "Attention": attention,
    "RotaryEmbedding": rotary, "Dropout": dropout, "EyeLike": eye, "MeanVarianceNormalization": mean_variance,
    "Gelu": gelu, "NonZero": nonzero, **random_recurrent.MAKERS, **random_regions.MAKERS,
}


def model_of(d):
    outputs = [f"y{i}" for i in range(d.n_out)]
    node = helper.make_node(d.op, d.names, outputs, domain=d.domain, **d.attrs)
    inputs = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
              for n, v in d.inputs.items()]
    constants = [numpy_helper.from_array(v, n) for n, v in d.constants.items()]
    graph = helper.make_graph([node], d.op, inputs, [onnx.ValueInfoProto(name=n) for n in outputs], constants)
    opsets = [helper.make_opsetid("", d.opset)] + [helper.make_opsetid(d.domain, 1)] * bool(d.domain)
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def expected_of(model, feed):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(model.SerializeToString(), options,
                                providers=["CPUExecutionProvider"]).run(None, feed)


def disputed(model, feed, outputs):
    """Does the onnx package's own evaluator contradict? Not when it cannot run the operator. It leaves
    attributes of recurrent layers out: of those only the ones that grow beyond measure are dropped."""
    if model.graph.node[0].op_type in random_recurrent.MAKERS:
        return not all(np.all(np.abs(y) < 1e3) for y in outputs)
    try:
        others = ReferenceEvaluator(model).run(None, feed)
    except Exception:
        return False
    for ours, other in zip(outputs, others):
        other = np.asarray(other)
        if ours.shape != other.shape or ours.dtype != other.dtype:
            return True
        if not np.allclose(ours.astype(np.float64), other.astype(np.float64), 1e-2, 1e-3, equal_nan=True):
            return True
    return False


def write_case(folder, model, feed, outputs):
    data = os.path.join(folder, "test_data_set_0")
    os.makedirs(data, exist_ok=True)
    for value, tensor in zip(model.graph.output, outputs):
        value.CopyFrom(helper.make_tensor_value_info(value.name, helper.np_dtype_to_tensor_dtype(tensor.dtype),
                                                     tensor.shape))
    onnx.save(model, os.path.join(folder, "model.onnx"))
    for kind, tensors in (("input", feed.items()), ("output", [(v.name, t) for v, t in
                                                               zip(model.graph.output, outputs)])):
        for i, (name, tensor) in enumerate(tensors):
            with open(os.path.join(data, f"{kind}_{i}.pb"), "wb") as file:
                file.write(numpy_helper.from_array(np.asarray(tensor), name).SerializeToString())


def draw_case(op, seed):
    """(model, feed, outputs), or the reason why there is none."""
    d = Draw(seed)
    d.op = op
    MAKERS[op](d)
    model = model_of(d)
    try:
        outputs = expected_of(model, d.inputs)
    except Exception as error:  # each library has its own
        return None, str(error).splitlines()[0]
    if disputed(model, d.inputs, outputs):
        return None, "onnx and onnxruntime disagree"
    return (model, d.inputs, outputs), ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=500, help="cases to draw in all")
    parser.add_argument("--only", help="operators, with commas")
    parser.add_argument("--verbose", action="store_true", help="say why cases are refused")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    ops = args.only.split(",") if args.only else sorted(MAKERS)
    written = refused = 0
    for i in range(args.count):
        op = ops[i % len(ops)]
        for attempt in range(8):
            case, why = draw_case(op, [args.seed, i, attempt])
            if case:
                write_case(os.path.join(args.out, f"{op}_{args.seed}_{i}"), *case)
                written += 1
                break
            refused += 1
            if args.verbose:
                print(op, why)
    print(f"{written} cases, {refused} drawings refused")


main()
