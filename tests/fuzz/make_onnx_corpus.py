#!/usr/bin/env python3
"""Writes the seeds of fuzz_onnx: tiny models that between them use every part of the format that the
reader knows. Needs the onnx package (pip install onnx numpy).

    python3 tests/fuzz/make_onnx_corpus.py tests/fuzz/corpus/onnx
"""
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

rng = np.random.default_rng(3)


def weight(name, *shape, dtype=np.float32):
    return nh.from_array((rng.standard_normal(shape) * 3).astype(dtype), name)


def ints(name, *values):
    return nh.from_array(np.array(values, np.int64), name)


def io(name, shape, dtype=T.FLOAT):
    return h.make_tensor_value_info(name, dtype, shape)


def model(nodes, inputs, outputs, initializers=(), opset=17, ir=8, listed=()):
    graph = h.make_graph(nodes, "g", list(inputs) + list(listed), outputs, list(initializers))
    out = h.make_model(graph, opset_imports=[h.make_opsetid("", opset)], ir_version=ir)
    out.producer_name = ""
    return out


def qdq_model():
    def const(name, value, dtype):
        return nh.from_array(np.array(value, dtype), name)

    nodes = [
        h.make_node("QuantizeLinear", ["x", "xs", "xz"], ["xq"]),
        h.make_node("DequantizeLinear", ["xq", "xs", "xz"], ["xd"]),
        h.make_node("DequantizeLinear", ["wq", "ws", "wz"], ["wd"], axis=0),
        h.make_node("DequantizeLinear", ["bq", "bs"], ["bd"], axis=0),
        h.make_node("Conv", ["xd", "wd", "bd"], ["c"], pads=[1, 1, 1, 1]),
        h.make_node("QuantizeLinear", ["c", "cs", "cz"], ["cq"]),
        h.make_node("DequantizeLinear", ["cq", "cs", "cz"], ["cd"]),
        h.make_node("Relu", ["cd"], ["r"]),
        h.make_node("Add", ["r", "c"], ["s"]),
        h.make_node("QuantizeLinear", ["s", "cs", "cz"], ["sq"]),
        h.make_node("DequantizeLinear", ["sq", "cs", "cz"], ["y"]),
    ]
    initializers = [
        const("xs", 0.1, np.float32), const("xz", 3, np.uint8),
        const("ws", [0.1, 0.2], np.float32), const("wz", [0, 0], np.int8),
        weight("wq", 2, 1, 3, 3, dtype=np.int8), const("bq", [1, 2], np.int32),
        const("bs", [0.01, 0.02], np.float32), const("cs", 0.5, np.float32),
        const("cz", 0, np.int8),
    ]
    return model(nodes, [io("x", ["N", 1, 4, 4])], [io("y", None)], initializers)


def typed_model():
    dims = {"f": (T.FLOAT, [2], [1.0, 2.0]), "i8": (T.INT8, [2], [-1, 2]),
            "i64": (T.INT64, [1], [2]), "d": (T.DOUBLE, [1], [0.5]), "u64": (T.UINT64, [1], [7]),
            "b": (T.BOOL, [2], [1, 0]), "h": (T.FLOAT16, [1], [1.5])}
    tensors = [h.make_tensor(n, t, d, v) for n, (t, d, v) in dims.items()]
    nodes = [h.make_node("Cast", [n], ["c_" + n], to=T.FLOAT) for n in dims]
    nodes.append(h.make_node("Sum", ["c_" + n for n in dims] + ["x"], ["y"]))
    return model(nodes, [io("x", ["N", 2])], [io("y", None)], tensors)


def branches_model():
    """y = x + x where the first condition says so (it does), and the branch's own constant."""
    yes = h.make_graph([h.make_node("Add", ["x", "x"], ["t"]), h.make_node("Mul", ["t", "k"], ["o"])],
                       "yes", [], [io("o", None)], [nh.from_array(np.array(0.5, np.float32), "k")])
    no = h.make_graph([h.make_node("Neg", ["x"], ["o"])], "no", [], [io("o", None)])
    nodes = [h.make_node("Constant", [], ["c"], value=nh.from_array(np.array(True), "")),
             h.make_node("Identity", ["c"], ["d"]),
             h.make_node("If", ["d"], ["a"], then_branch=yes, else_branch=no),
             h.make_node("If", ["never"], ["b"], then_branch=yes, else_branch=no),
             h.make_node("Add", ["a", "b"], ["y"])]
    return model(nodes, [io("x", ["N", 2])], [io("y", ["N", 2])],
                 [nh.from_array(np.array(False), "never")])


def suppression_model():
    """The boxes whose score is above 0, suppressed where there are any, as torchvision writes it."""
    empty = nh.from_array(np.zeros(0, np.int64), "")
    yes = h.make_graph([h.make_node("Constant", [], ["o"], value=empty)], "yes", [], [io("o", None, T.INT64)])
    no = h.make_graph([h.make_node("Unsqueeze", ["boxes", "first"], ["b"]),
                       h.make_node("Unsqueeze", ["scores", "both"], ["s"]),
                       h.make_node("NonMaxSuppression", ["b", "s", "most"], ["picked"]),
                       h.make_node("Gather", ["picked", "last"], ["column"], axis=1),
                       h.make_node("Squeeze", ["column", "second"], ["o"])],
                      "no", [], [io("o", None, T.INT64)])
    numbers = dict(zero=np.array(0, np.float32), all=np.array([[0, 0, 1, 1], [2, 2, 3, 3]], np.float32),
                   first=np.array([0]), second=np.array([1]), both=np.array([0, 1]), most=np.array([9]),
                   last=np.array([2]), none=np.array(0))
    nodes = [h.make_node("Greater", ["x", "zero"], ["above"]), h.make_node("NonZero", ["above"], ["where"]),
             h.make_node("Squeeze", ["where", "first"], ["kept"]),
             h.make_node("Gather", ["all", "kept"], ["boxes"]), h.make_node("Gather", ["x", "kept"], ["scores"]),
             h.make_node("Shape", ["boxes"], ["shape"]), h.make_node("ReduceProd", ["shape"], ["n"], keepdims=0),
             h.make_node("Equal", ["n", "none"], ["same"]), h.make_node("Cast", ["same"], ["cond"], to=T.BOOL),
             h.make_node("If", ["cond"], ["keep"], then_branch=yes, else_branch=no),
             h.make_node("Gather", ["scores", "keep"], ["y"])]
    return model(nodes, [io("x", [2])], [io("y", ["M"])], [nh.from_array(v, k) for k, v in numbers.items()])


def loop_model(trips=3, condition=True):
    """s = x * 2 ** trips, all = the sums after each iteration plus its number."""
    body = h.make_graph(
        [h.make_node("Add", ["s_in", "s_in"], ["s_out"]),
         h.make_node("Cast", ["i"], ["f"], to=T.FLOAT),
         h.make_node("Mul", ["f", "one"], ["g"]), h.make_node("Add", ["s_out", "g"], ["each"]),
         h.make_node("Identity", ["go"], ["go_on"])],
        "body", [io("i", [], T.INT64), io("go", [], T.BOOL), io("s_in", None)],
        [io("go_on", [], T.BOOL), io("s_out", None), io("each", None)],
        [nh.from_array(np.array(1, np.float32), "one")])
    nodes = [h.make_node("Loop", ["n", "go0", "x"], ["s", "all"], body=body)]
    return model(nodes, [io("x", [2])], [io("s", [2]), io("all", ["M", 2])],
                 [nh.from_array(np.array(trips, np.int64), "n"),
                  nh.from_array(np.array(condition), "go0")])


def nested_loops_model():
    """Three loops of 1000 iterations, one inside the other: a thousand million Adds in 600 bytes."""
    nodes = [h.make_node("Add", ["s_in", "s_in"], ["s_out"])]
    for depth in range(3):
        body = h.make_graph(nodes, "body", [io("i", [], T.INT64), io("go", [], T.BOOL), io("s_in", None)],
                            [io("go", [], T.BOOL), io("s_out", None)])
        nodes = [h.make_node("Loop", ["n", "", "s_in" if depth < 2 else "x"],
                             ["s_out" if depth < 2 else "y"], body=body)]
    return model(nodes, [io("x", [2])], [io("y", [2])], [nh.from_array(np.array(1000, np.int64), "n")])


def nested_calls_model():
    """Functions that call the next one 64 times and yield nothing: 64 ** 6 calls that make no node."""
    functions = [h.make_function("local", f"f{i}", [], [],
                                 [h.make_node(f"f{i + 1}", [], [], domain="local")] * (64 if i < 6 else 0),
                                 [h.make_opsetid("", 17), h.make_opsetid("local", 1)])
                 for i in range(7)]
    out = model([h.make_node("f0", [], [], domain="local"), h.make_node("Abs", ["x"], ["y"])],
                [io("x", [2])], [io("y", [2])])
    out.opset_import.append(h.make_opsetid("local", 1))
    out.functions.extend(functions)
    return out


def unknown_in_loop_model():
    """A thousand copies of a node that nobody knows: looking for the nearest name once is enough."""
    body = h.make_graph([h.make_node("QLinearMull", ["s_in"], ["s_out"])], "body",
                        [io("i", [], T.INT64), io("go", [], T.BOOL), io("s_in", None)],
                        [io("go", [], T.BOOL), io("s_out", None)])
    return model([h.make_node("Loop", ["n", "", "x"], ["y"], body=body)], [io("x", [2])], [io("y", [2])],
                 [nh.from_array(np.array(1000, np.int64), "n")])


def upsample_bare_model():
    """An old Upsample without its scales, of a scalar: nothing to scale."""
    return model([h.make_node("Upsample", ["n"], ["y"])], [io("x", [2])], [io("y", [])],
                 [nh.from_array(np.array(1000, np.int64), "n")], opset=9)


def empty_huge_model():
    """No elements beside sizes whose product overflows: strides of the transposed would, too."""
    sizes = [3, 0, 63, 2**62]
    return model([h.make_node("Transpose", ["x"], ["y"], perm=[1, 0, 2, 3])], [io("x", sizes, T.INT64)],
                 [io("y", None, T.INT64)])


def scan_model():
    """Through the columns of w from the last on: s = x + w[:, 2] + w[:, 1] + w[:, 0]; the sums of each
    step, first step last, as columns."""
    body = h.make_graph(
        [h.make_node("Add", ["s_in", "column"], ["s_out"]), h.make_node("Mul", ["s_out", "k"], ["each"])],
        "body", [io("s_in", None), io("column", None)], [io("s_out", None), io("each", None)],
        [nh.from_array(np.array(2, np.float32), "k")])
    nodes = [h.make_node("Abs", ["w"], ["v"]),
             h.make_node("Scan", ["x", "v"], ["s", "all"], body=body, num_scan_inputs=1, scan_input_axes=[1],
                         scan_input_directions=[1], scan_output_axes=[-1], scan_output_directions=[1])]
    return model(nodes, [io("x", [2])], [io("s", [2]), io("all", [2, 3])],
                 [nh.from_array(np.array([[1, 2, 4], [8, 16, 32]], np.float32), "w")])


def computed_model():
    """A branch by the size of x, taken when x has 2 columns: y = x + x, else -x; and a loop that goes
    on while its number is below 2: z = 8 x."""
    double = h.make_graph([h.make_node("Add", ["x", "x"], ["t"])], "double", [], [io("t", None)])
    minus = h.make_graph([h.make_node("Neg", ["x"], ["t"])], "minus", [], [io("t", None)])
    body = h.make_graph(
        [h.make_node("Add", ["a", "a"], ["b"]), h.make_node("Less", ["i", "last"], ["again"])],
        "body", [io("i", [], T.INT64), io("go", [], T.BOOL), io("a", None)],
        [io("again", [], T.BOOL), io("b", None)], [nh.from_array(np.array(2, np.int64), "last")])
    nodes = [h.make_node("Shape", ["x"], ["shape"]), h.make_node("Gather", ["shape", "one"], ["columns"]),
             h.make_node("Equal", ["columns", "two"], ["is_two"]),
             h.make_node("If", ["is_two"], ["y"], then_branch=double, else_branch=minus),
             h.make_node("Loop", ["many", "", "x"], ["z"], body=body)]
    return model(nodes, [io("x", ["N", 2])], [io("y", ["N", 2]), io("z", ["N", 2])],
                 [nh.from_array(np.array(v, np.int64), n) for n, v in
                  (("one", 1), ("two", 2), ("many", 2**62))])


def function_model():
    """y = scaled(scaled(x, 3), 0.5 by default), scaled = leaky(x) * factor, leaky a function, too."""
    leaky = h.make_function("local", "leaky", ["v"], ["w"],
                            [h.make_node("LeakyRelu", ["v"], ["w"], alpha=0.25)],
                            [h.make_opsetid("", 17)])
    factor = h.make_node("Constant", [], ["k"])
    attr = factor.attribute.add()
    attr.name, attr.ref_attr_name, attr.type = "value_float", "factor", onnx.AttributeProto.FLOAT
    scaled = h.make_function(
        "local", "scaled", ["v"], ["w"],
        [h.make_node("leaky", ["v"], ["t"], domain="local"), factor,
         h.make_node("Mul", ["t", "k"], ["w"])],
        [h.make_opsetid("", 17), h.make_opsetid("local", 1)],
        attribute_protos=[h.make_attribute("factor", 0.5)])
    out = model([h.make_node("scaled", ["x"], ["a"], "first", domain="local", factor=3.0),
                 h.make_node("scaled", ["a"], ["y"], "second", domain="local")],
                [io("x", ["N", 2])], [io("y", ["N", 2])])
    out.opset_import.append(h.make_opsetid("local", 1))
    out.functions.extend([leaky, scaled])
    return out


def control_model():
    """A branch and a loop that depend on an input: both refused at once."""
    out = loop_model()
    out.graph.node[0].input[0] = "trips"
    out.graph.input.append(io("trips", [], T.INT64))
    out.graph.input.append(io("which", [], T.BOOL))
    one = h.make_graph([h.make_node("Neg", ["x"], ["o"])], "one", [], [io("o", None)])
    out.graph.node.append(h.make_node("If", ["which"], ["z"], then_branch=one, else_branch=one))
    out.graph.node.append(h.make_node("Convolution", ["z"], ["q"]))
    out.graph.output.append(io("q", None))
    return out


def recurrent_model():
    """Two layers that share weights, one both ways with lists of texts and floats."""
    lstm = h.make_node("LSTM", ["x", "w", "r", "", "n"], ["y", "", "c"], hidden_size=2,
                       direction="bidirectional", clip=2.0, activation_alpha=[0.3, 0.1],
                       activation_beta=[0.6], activations=["HardSigmoid", "Tanh", "Elu"] + ["Tanh"] * 3)
    gru = h.make_node("GRU", ["x", "v", "u"], ["", "z"], linear_before_reset=1)
    lengths = nh.from_array(np.array([3], np.int32), "n")
    return model([lstm, gru], [io("x", [3, "N", 3])], [io(o, None) for o in "ycz"],
                 [weight("w", 2, 8, 3), weight("r", 2, 8, 2), weight("v", 1, 6, 3), weight("u", 1, 6, 2),
                  lengths])


def models():
    x = io("x", ["N", 3, 8, 8])
    yield "conv", model(
        [h.make_node("Conv", ["x", "w", "b"], ["c"], "conv1", kernel_shape=[3, 3], strides=[2, 2],
                     pads=[0, 0, 1, 1], dilations=[1, 1], group=1),
         h.make_node("Relu", ["c"], ["r"]),
         h.make_node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], ceil_mode=1),
         h.make_node("GlobalAveragePool", ["p"], ["g"]),
         h.make_node("Flatten", ["g"], ["f"], axis=1),
         h.make_node("Gemm", ["f", "v"], ["y"], transB=1, alpha=0.5)],
        [x], [io("y", ["N", 2])], [weight("w", 2, 3, 3, 3), weight("b", 2), weight("v", 2, 2)])
    yield "old_listed", model(
        [h.make_node("Conv", ["x", "w"], ["c"], auto_pad="SAME_UPPER"),
         h.make_node("BatchNormalization", ["c", "s", "s", "s", "s"], ["n"], epsilon=1e-3),
         h.make_node("Dropout", ["n"], ["d"], ratio=0.5),
         h.make_node("Softmax", ["d"], ["y"])],
        [x], [io("y", None)], [weight("w", 2, 3, 1, 1), weight("s", 2)], opset=8, ir=3,
        listed=[io("w", [2, 3, 1, 1]), io("s", [2])])
    yield "shapes", model(
        [h.make_node("Shape", ["x"], ["s"]),
         h.make_node("Constant", [], ["zero"], value=ints("", 0)),
         h.make_node("Gather", ["s", "zero"], ["n"], axis=0),
         h.make_node("Constant", [], ["rest"], value_ints=[-1]),
         h.make_node("Concat", ["n", "rest"], ["to"], axis=0),
         h.make_node("Reshape", ["x", "to"], ["y"])],
        [x], [io("y", None)])
    yield "slices", model(
        [h.make_node("Slice", ["x", "a", "e", "ax", "st"], ["t"]),
         h.make_node("Transpose", ["t"], ["u"], perm=[0, 2, 3, 1]),
         h.make_node("Split", ["u"], ["v", "w"], axis=1),
         h.make_node("Unsqueeze", ["v", "ax"], ["q"]),
         h.make_node("Squeeze", ["q", "ax"], ["r"]),
         h.make_node("Concat", ["r", "w"], ["y"], axis=-1)],
        [x], [io("y", None)], [ints("a", 0), ints("e", 2**62), ints("ax", 2), ints("st", 2)])
    yield "upsample", model(
        [h.make_node("Resize", ["x", "", "sc"], ["r"], mode="linear"),
         h.make_node("Pad", ["r", "p"], ["q"], mode="reflect"),
         h.make_node("Clip", ["q", "", "hi"], ["k"]),
         h.make_node("ReduceMean", ["k"], ["m"], axes=[2, 3], keepdims=0),
         h.make_node("LRN", ["k"], ["y"], size=3)],
        [x], [io("y", None), io("m", None)],
        [nh.from_array(np.array([1, 1, 2, 2], np.float32), "sc"),
         ints("p", 0, 0, 1, 1, 0, 0, 1, 1), nh.from_array(np.array(6, np.float32), "hi")])
    yield "fold", model(
        [h.make_node("ConstantOfShape", ["n"], ["c"], value=h.make_tensor("", T.FLOAT, [1], [2.0])),
         h.make_node("Mul", ["c", "c"], ["d"]), h.make_node("MatMul", ["x", "d"], ["y"]),
         h.make_node("PRelu", ["y", "d"], ["z"])],
        [io("x", ["N", 4])], [io("z", None), io("d", [4, 4])], [ints("n", 4, 4)], opset=9)
    yield "transposed", model(
        [h.make_node("ConvTranspose", ["x", "w"], ["c"], strides=[2, 2], output_padding=[1, 1]),
         h.make_node("HardSwish", ["c"], ["s"]), h.make_node("Sub", ["s", "o"], ["t"]),
         h.make_node("Div", ["t", "o"], ["y"])],
        [x], [io("y", None)], [weight("w", 3, 2, 3, 3), weight("o", 2, 1, 1)])
    yield "depth", model(
        [h.make_node("SpaceToDepth", ["x"], ["a"], blocksize=2),
         h.make_node("DepthToSpace", ["a"], ["y"], blocksize=2, mode="CRD")], [x], [io("y", None)])
    names = ["Abs", "Ceil", "Cos", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "Identity",
             "LeakyRelu", "Log", "LogSoftmax", "Mish", "Neg", "Reciprocal", "Round", "Selu", "Sigmoid",
             "Sign", "Sin", "Softplus", "Softsign", "Sqrt", "Tanh", "ThresholdedRelu"]
    yield "unary", model(
        [h.make_node(n, ["x" if i == 0 else f"v{i - 1}"], [f"v{i}"]) for i, n in enumerate(names)],
        [x], [io(f"v{len(names) - 1}", None)], opset=20, ir=9)
    yield "logic", model(
        [h.make_node("Greater", ["x", "k"], ["a"]), h.make_node("LessOrEqual", ["x", "k"], ["b"]),
         h.make_node("And", ["a", "b"], ["c"]), h.make_node("Not", ["c"], ["d"]),
         h.make_node("Where", ["d", "x", "k"], ["e"]), h.make_node("Pow", ["e", "k"], ["f"]),
         h.make_node("Mod", ["f", "k"], ["g"], fmod=1), h.make_node("Max", ["g", "x", "k"], ["y"])],
        [x], [io("y", None)], [weight("k", 3, 1, 1)])
    yield "reduce", model(
        [h.make_node("ReduceSum", ["x", "ax"], ["a"], keepdims=0),
         h.make_node("ReduceMax", ["x"], ["b"], axes=[-1]),
         h.make_node("ReduceL2", ["b"], ["c"], axes=[1], keepdims=1),
         h.make_node("ArgMax", ["x"], ["d"], axis=1), h.make_node("TopK", ["x", "k"], ["e", "f"]),
         h.make_node("CumSum", ["x", "i"], ["g"]),
         h.make_node("LayerNormalization", ["x", "s"], ["y"], axis=-1)],
        [x], [io(n, None) for n in "acgy"],
        [ints("ax", 2, 3), ints("k", 2), nh.from_array(np.array(1, np.int64), "i"), weight("s", 8)])
    yield "reduce_few", model(
        [h.make_node("ReduceSum", ["x", "ax"], ["a"], keepdims=0),
         h.make_node("ReduceMean", ["x"], ["b"], axes=[-1]),
         h.make_node("InstanceNormalization", ["x", "s", "s"], ["y"])],
        [x], [io(n, None) for n in "aby"], [ints("ax", 2, 3), weight("s", 3)])
    yield "grow", model(
        [h.make_node("Range", ["zero", "four", "one"], ["r"]),
         h.make_node("Cast", ["r"], ["f"], to=T.FLOAT), h.make_node("Expand", ["f", "to"], ["e"]),
         h.make_node("Tile", ["e", "rep"], ["t"]), h.make_node("Size", ["t"], ["n"]),
         h.make_node("Add", ["x", "t"], ["y"])],
        [io("x", ["N", 2, 8])], [io("y", None), io("n", None, T.INT64)],
        [nh.from_array(np.array(v, np.int64), n) for n, v in
         (("zero", 0), ("four", 4), ("one", 1))] + [ints("to", 2, 4), ints("rep", 1, 2)])
    yield "line", model(
        [h.make_node("Conv", ["x", "w"], ["c"], dilations=[2], pads=[1, 1]),
         h.make_node("AveragePool", ["c"], ["p"], kernel_shape=[2], count_include_pad=1, pads=[1, 0]),
         h.make_node("Gather", ["p", "i"], ["y"], axis=2)],
        [io("x", ["N", 2, "L"])], [io("y", None)], [weight("w", 2, 2, 3), ints("i", 0, -1)])
    yield "typed", typed_model()
    yield "qdq", qdq_model()
    yield "unsupported", model(
        [h.make_node("NoSuchOp", ["x"], ["a"], "first"),
         h.make_node("Other", ["a"], ["b"], domain="example.org"),
         h.make_node("Relu", ["b"], ["y"])], [x], [io("y", None)])
    cyclic = model([h.make_node("Add", ["x", "b"], ["a"]), h.make_node("Relu", ["a"], ["b"])],
                   [x], [io("a", None)])
    yield "cycle", cyclic
    external = model([h.make_node("Add", ["x", "w"], ["y"])], [x], [io("y", None)],
                     [weight("w", 3, 1, 1)])
    w = external.graph.initializer[0]
    w.ClearField("raw_data")
    w.data_location = T.EXTERNAL
    for key, value in (("location", "w.bin"), ("offset", "0"), ("length", "12")):
        entry = w.external_data.add()
        entry.key, entry.value = key, value
    yield "external", external
    yield "branches", branches_model()
    yield "suppression", suppression_model()
    nameless = suppression_model()
    next(n for n in nameless.graph.node if n.op_type == "If").attribute[0].g.node[0].ClearField("op_type")
    yield "branch_without_operator", nameless
    yield "loop", loop_model()
    yield "nested_loops", nested_loops_model()
    yield "nested_calls", nested_calls_model()
    yield "unknown_in_loop", unknown_in_loop_model()
    yield "upsample_bare", upsample_bare_model()
    yield "empty_huge", empty_huge_model()
    yield "loop_stops", loop_model(condition=False)
    yield "scan", scan_model()
    yield "computed", computed_model()
    yield "function", function_model()
    yield "control", control_model()
    yield "recurrent", recurrent_model()
    described = model([h.make_node("Relu", ["x"], ["a"]), h.make_node("Split", ["a"], ["b", "c"], axis=1),
                       h.make_node("Exp", ["c"], ["d"]), h.make_node("Add", ["d", "k"], ["y"])],
                      [io("x", ["N", 4])], [io("y", None)], [weight("k", 2)])
    described.graph.value_info.append(io("b", ["N", 2]))
    described.graph.value_info.append(io("c", ["N", 2]))
    yield "described", described
    yield from refused_models()


def refused_models():
    """What contradicts itself: op.expand names the reason of each."""
    x, y = io("x", ["N", 2]), io("y", None)
    body = h.make_graph([h.make_node("Relu", ["x"], ["t"])], "b", [], [io("t", None)])
    true = nh.from_array(np.array(True), "c")
    yield "if_without_else", model([h.make_node("If", ["c"], ["y"], then_branch=body)], [x], [y], [true])
    step = h.make_graph([h.make_node("Add", ["s", "e"], ["t"]), h.make_node("Identity", ["t"], ["o"])], "b",
                        [io("s", [2]), io("e", [2])], [io("t", [2]), io("o", [2])])
    for name, n, more in (("scan_of_none", 0, {}), ("scan_of_too_many", 3, {}),
                          ("scan_sideways", 1, {"scan_input_directions": [7]}),
                          ("scan_two_ways", 1, {"scan_output_directions": [0, 1]})):
        scan = h.make_node("Scan", ["k", "x"], ["f", "y"], body=step, num_scan_inputs=n, **more)
        yield name, model([scan], [io("x", [4, 2])], [y], [weight("k", 2)])

    def functions(name, *inner):
        out = model([h.make_node("f", ["x"], ["y"], domain="own", name="call")], [x], [y])
        opsets = [h.make_opsetid("", 17), h.make_opsetid("own", 1)]
        out.opset_import.append(opsets[1])
        for i, nodes in enumerate(inner):
            out.functions.append(h.make_function("own", "fgh"[i], ["a"], ["b"], nodes, opsets))
        return name, out

    to_g = h.make_node("g", ["a"], ["b"], domain="own", name="to g")
    yield functions("error_in_functions", [to_g], [h.make_node("h", ["a"], ["b"], domain="own")],
                    [h.make_node("Neg", ["a"], ["t"]), h.make_node("Transpose", ["t"], ["b"], perm=[0, 0], name="last")])
    yield functions("function_of_nothing", [to_g], [h.make_node("Neg", ["a"], ["t"])])
    yield functions("unknown_in_function", [to_g], [h.make_node("Nonsense", ["a"], ["b"], name="last")])
    twice = model([h.make_node("Add", ["x", "w"], ["y"])], [x], [y], [weight("w", 2)])
    w = twice.graph.initializer[0]
    w.ClearField("raw_data")
    w.data_location = T.EXTERNAL
    for value in ("w.bin", "v.bin"):
        entry = w.external_data.add()
        entry.key, entry.value = "location", value
    yield "external_twice", twice
    yield "declared_otherwise", model([h.make_node("Add", ["x", "w"], ["y"])], [x, io("w", [2], T.INT64)], [y],
                                      [weight("w", 2)])
    yield "declared_larger", model([h.make_node("Add", ["x", "w"], ["y"])], [x, io("w", [3])], [y],
                                   [weight("w", 2)])
    both = h.make_graph([h.make_node("Add", ["s", "e"], ["o"])], "b", [io("s", [2]), io("e", [2])], [io("o", [2])])
    yield "scan_of_unlike", model([h.make_node("Scan", ["x", "w"], ["y"], body=both, num_scan_inputs=2)],
                                  [io("x", [4, 2])], [y], [weight("w", 3, 2)])


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    for name, it in models():
        with open(os.path.join(folder, name + ".onnx"), "wb") as f:
            f.write(it.SerializeToString(deterministic=True))


main()
