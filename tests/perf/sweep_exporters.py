#!/usr/bin/env python3
"""Small files as other tools than PyTorch's exporter write them, for sweep.py: Keras through tf2onnx, Brevitas, ModelOpt,
onnxruntime's optimizers and quantizers, newer operators. Written node by node, so that each form is what that tool leaves.

    sweep_exporters.py FOLDER [NAME...]     then sweep.py run FOLDER --qbench PROGRAM --rows rows.json

Files with a form of their own (Q/DQ, few bits, operators of com.microsoft) are measured with --forms fp32: as they are."""
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper

MS, FILES = "com.microsoft", {}


def file(build):
    FILES[build.__name__] = build
    return build


class Model:
    """Nodes, constants with seeded weights, inputs with eight samples."""
    def __init__(self, opset):
        self.opset, self.rng, self.n = opset, np.random.default_rng(7), 0
        self.nodes, self.constants, self.inputs, self.outputs, self.data = [], [], [], [], {}

    def const(self, value, name=None):
        value = value if isinstance(value, onnx.TensorProto) else numpy_helper.from_array(np.asarray(value), "")
        self.n += 1
        value.name = name or f"c{self.n}"
        self.constants.append(value)
        return value.name

    def f32(self, v):
        return self.const(np.array(v, np.float32))

    def ints(self, *v):
        return self.const(np.array(v, np.int64))

    def weight(self, *shape, scale=None, dtype=np.float32):
        fan = np.prod(shape[1:]) if len(shape) > 2 else shape[0]
        return (self.rng.normal(size=shape) * (scale or (1.6 / fan) ** 0.5)).astype(dtype)

    def w(self, *shape, **more):
        return self.const(self.weight(*shape, **more))

    def input(self, name, shape, kind=np.float32):
        """Noise, or integers below a number."""
        full = (8, *shape)
        v = self.rng.normal(size=full).astype(kind) if kind is np.float32 else self.rng.integers(0, kind, full)
        self.data[name] = v.astype(np.uint8) if kind == 256 else v
        kinds = {"float32": T.FLOAT, "int64": T.INT64, "uint8": T.UINT8}
        self.inputs.append(helper.make_tensor_value_info(name, kinds[str(self.data[name].dtype)], ["N", *shape]))
        return name

    def __call__(self, op, *inputs, n=1, domain="", **attributes):
        self.n += 1
        outputs = [f"{op}{self.n}_{i}" for i in range(n)]
        inputs = [i if isinstance(i, str) else "" if i is None else self.const(i) for i in inputs]
        self.nodes.append(helper.make_node(op, inputs, outputs, f"{op}_{self.n}", domain=domain, **attributes))
        return outputs[0] if n == 1 else outputs

    def ms(self, op, *inputs, **more):
        return self(op, *inputs, domain=MS, **more)

    def conv(self, x, i, o, k=3, s=1, g=1, w=None, **more):
        return self("Conv", x, w or self.w(o, i // g, k, k), self.w(o, scale=0.1), strides=[s, s], pads=[k // 2] * 4, group=g, **more)

    def pair(self, x, scale, zero=0, dtype=np.uint8, domain="", bounds=None):
        s, z = self.f32(scale), self.const(np.array(zero, dtype))
        q = self("QuantizeLinear", x, s, z, domain=domain)
        if bounds:
            q = self("Clip", q, *(np.array(v, dtype) for v in bounds))
        return self("DequantizeLinear", q, s, z, domain=domain)

    def quantized(self, w, bits=8, domain=""):
        """A weight with a scale a filter."""
        most = 2 ** (bits - 1) - 1
        s = (np.abs(w).max(tuple(range(1, w.ndim))) / most).astype(np.float32)
        codes = np.round(w / s.reshape(-1, *[1] * (w.ndim - 1))).astype(np.int8)
        return self("DequantizeLinear", codes, s, np.zeros(len(s), np.int8), domain=domain, axis=0)

    def norm(self, d):
        return self.const((1 + 0.1 * self.rng.normal(size=d)).astype(np.float32)), self.w(d, scale=0.1)

    def out(self, value, kind=T.FLOAT):
        self.outputs.append(helper.make_tensor_value_info(value, kind, None))

    def save(self, folder):
        os.makedirs(folder, exist_ok=True)
        graph = helper.make_graph(self.nodes, "g", self.inputs, self.outputs, self.constants)
        imports = [helper.make_opsetid("", self.opset), helper.make_opsetid(MS, 1)]
        onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=8 if self.opset < 19 else 11), f"{folder}/model.onnx")
        np.savez(f"{folder}/data.npz", **self.data)


SHAPE = ((3, 16, 2), (16, 32, 1), (32, 32, 2))  # of three convolutions: channels in and out, stride


@file
def u8_images():
    """u8 pixels in NHWC of any size: Cast, Resize, crop, normalization, then a network."""
    m = Model(13)
    x = m("Transpose", m("Cast", m.input("image", (120, 160, 3), 256), to=T.FLOAT), perm=[0, 3, 1, 2])
    sizes = m("Concat", m("Slice", m("Shape", x), m.ints(0), m.ints(2)), m.ints(72, 96), axis=0)
    x = m("Slice", m("Resize", x, None, None, sizes, mode="linear"), m.ints(4, 16), m.ints(68, 80), m.ints(2, 3))
    x = m("Div", m("Sub", m("Div", x, m.f32(255)), m.f32(np.full((1, 3, 1, 1), 0.45))), m.f32(np.full((1, 3, 1, 1), 0.22)))
    for i, o, s in SHAPE:
        x = m("Relu", m.conv(x, i, o, 3, s))
    m.out(m("Softmax", m("MatMul", m("ReduceMean", x, axes=[2, 3], keepdims=0), m.w(32, 10)), axis=1))
    return m


@file
def asymmetric_resize():
    """TensorFlow 1: bilinear without centres, sizes computed."""
    m = Model(13)
    f = m("Relu", m.conv(m("Transpose", m.input("x", (64, 96, 3)), perm=[0, 3, 1, 2]), 3, 16, 3, 2))
    g = m("Relu", m.conv(f, 16, 32, 3, 2))
    part = lambda v, a, b: m("Slice", m("Shape", v), m.ints(a), m.ints(b))
    g = m("Resize", g, None, None, m("Concat", part(g, 0, 2), part(f, 2, 4), axis=0), mode="linear",
          coordinate_transformation_mode="asymmetric")
    m.out(m("Transpose", m.conv(m("Concat", f, g, axis=1), 48, 8, 1), perm=[0, 2, 3, 1]))
    return m


@file
def norms_in_f32():
    """A transformer in f16 whose norms and Softmax are in f32 between Casts."""
    m, h = Model(18), np.float16
    x = m("Gather", m.w(100, 64, scale=0.4, dtype=h), m.input("ids", (20,), 100))
    linear = lambda t, i=64, o=64: m("Add", m("MatMul", t, m.w(i, o, scale=0.12, dtype=h)), m.w(o, scale=0.1, dtype=h))
    norm = lambda t: m("Cast", m("LayerNormalization", m("Cast", t, to=T.FLOAT), *m.norm(64)), to=T.FLOAT16)
    for _ in range(2):
        y = norm(x)
        q, k, v = (m("Transpose", m("Reshape", linear(y), m.ints(0, 0, 4, 16)), perm=p)
                   for p in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]))
        s = m("Cast", m("Mul", m("MatMul", q, k), np.array(0.25, h)), to=T.FLOAT)
        y = m("MatMul", m("Cast", m("Softmax", s), to=T.FLOAT16), v)
        x = m("Add", x, linear(m("Reshape", m("Transpose", y, perm=[0, 2, 1, 3]), m.ints(0, 0, 64))))
        x = m("Add", x, linear(m("Relu", linear(norm(x), 64, 128)), 128, 64))
    m.out(m("Cast", x, to=T.FLOAT))
    return m


@file
def few_bits():
    """Brevitas: Q, Clip, DQ of activations and weights."""
    m = Model(13)
    x = m.pair(m.input("x", (3, 48, 48)), 0.03, 0, np.int8, bounds=(-127, 127))
    for i, o, s in SHAPE:
        step, zero = np.full(o, 0.3 * (1.6 / 9 / i) ** 0.5, np.float32), np.zeros(o, np.int8)
        w = m("Clip", m("QuantizeLinear", m.w(o, i, 3, 3), step, zero, axis=0), np.array(-7, np.int8), np.array(7, np.int8))
        w = m("DequantizeLinear", w, step, zero, axis=0)
        x = m.pair(m("Relu", m.conv(x, i, o, 3, s, w=w)), 0.2, 0, bounds=(0, 15))
    m.out(m("GlobalAveragePool", x))
    return m


@file
def pairs_of_16_bits():
    """quantize_static with 16-bit activations before opset 21: Q/DQ of com.microsoft."""
    m = Model(17)
    x = m.pair(m.input("x", (3, 48, 48)), 3e-4, 32768, np.uint16, MS)
    for i, o, s in SHAPE:
        w = m.quantized(m.weight(o, i, 3, 3), domain=MS)
        x = m.pair(m("Relu", m.conv(x, i, o, 3, s, w=w)), 1e-4, 0, np.uint16, MS)
    m.out(m("GlobalAveragePool", x))
    return m


@file
def blocks_of_4_bits():
    """Weights of 4 bits in blocks: DQ of opset 21, and onnxruntime's MatMulNBits."""
    m = Model(21)
    x = m.input("x", (16, 128))
    for i, o in ((128, 256), (256, 128)):
        w = helper.make_tensor("", T.INT4, (i, o), m.rng.integers(-8, 8, i * o).tolist())
        scales = (0.02 + 0.02 * m.rng.random((i // 32, o))).astype(np.float32)
        x = m("Relu", m("MatMul", x, m("DequantizeLinear", w, scales, axis=0, block_size=32)))
    for i, o in ((128, 256), (256, 128)):
        w, scales = m.rng.integers(0, 256, (o, i // 32, 16)).astype(np.uint8), (0.01 + 0.01 * m.rng.random(o * i // 32)).astype(np.float32)
        x = m("Relu", m.ms("MatMulNBits", x, w, scales, K=i, N=o, bits=4, block_size=32))
    m.out(x)
    return m


@file
def dynamic_convolutions():
    """quantize_dynamic of convolutions, with u8 weights."""
    m = Model(13)
    x = m.input("x", (3, 48, 48))
    for i, o, s in SHAPE:
        q, scale, zero = m("DynamicQuantizeLinear", x, n=3)
        w, step = m.rng.integers(0, 256, (o, i, 3, 3)).astype(np.uint8), np.array(0.02 * (1 / 9 / i) ** 0.5, np.float32)
        y = m("ConvInteger", q, w, zero, np.array(128, np.uint8), strides=[s, s], pads=[1] * 4)
        y = m("Mul", m("Cast", y, to=T.FLOAT), m("Mul", scale, step))
        x = m("Relu", m("Add", y, m.w(1, o, 1, 1, scale=0.1)))
    m.out(m("GlobalAveragePool", x))
    return m


@file
def optimized_encoder():
    """onnxruntime's transformer optimizer on BERT."""
    m, d = Model(17), 64
    mask = m.input("mask", (24,), 2)
    x, _ = m.ms("EmbedLayerNormalization", m("Cast", m.input("ids", (24,), 200), to=T.INT32), m("Cast", m.input("segments", (24,), 2), to=T.INT32),
                m.w(200, d, scale=0.5), m.w(32, d, scale=0.5), m.w(2, d, scale=0.5), *m.norm(d), n=2, epsilon=1e-12)
    for _ in range(2):
        y = m.ms("Attention", x, m.w(d, 3 * d), m.w(3 * d, scale=0.1), m("Cast", mask, to=T.INT32), num_heads=4)
        x = m.ms("SkipLayerNormalization", m("MatMul", y, m.w(d, d)), x, *m.norm(d), m.w(d, scale=0.1), epsilon=1e-12)
        y = m("MatMul", m.ms("BiasGelu", m("MatMul", x, m.w(d, 2 * d)), m.w(2 * d, scale=0.1)), m.w(2 * d, d))
        x = m.ms("SkipLayerNormalization", y, x, *m.norm(d), m.w(d, scale=0.1), epsilon=1e-12)
    m.out(x)
    return m


@file
def causal_groups():
    """Attention of opset 23 as PyTorch's exporter leaves it: causal, two heads of keys."""
    m = Model(23)
    x = m("Gather", m.w(100, 64, scale=0.5), m.input("ids", (32,), 100))
    linear = lambda t, i=64, o=64: m("MatMul", t, m.w(i, o))
    norm = lambda t: m("RMSNormalization", t, m.norm(64)[0], axis=-1, epsilon=1e-5)
    for _ in range(2):
        y = norm(x)
        y = m("Attention", linear(y), linear(y, 64, 32), linear(y, 64, 32), q_num_heads=4, kv_num_heads=2, is_causal=1)
        x = m("Add", x, linear(y))
        y = linear(norm(x), 64, 128)
        x = m("Add", x, linear(m("Mul", y, m("Sigmoid", y)), 128, 64))
    m.out(x)
    return m


if __name__ == "__main__":
    for name in sys.argv[2:] or FILES:
        FILES[name]().save(os.path.join(sys.argv[1], name))
