#!/usr/bin/env python3
"""Models that are odd and allowed: names, interfaces and shapes that exporters rarely write.

    python tests/e2e/odd_models.py --qbench build/release/qbench FOLDER

Each becomes a test case of its own in FOLDER. For each: `verify` agrees with onnxruntime on seeded
inputs, and so does onnxruntime on what `optimize` writes; where the model has a layer to quantize,
`calibrate` and `quantize` run on those inputs, and onnxruntime runs the Q/DQ file. Exit code 77
without onnxruntime, 1 when a model is off.
"""
import argparse
import os
import subprocess
import sys

try:
    import numpy as np
    import onnx
    import onnxruntime as ort
    from onnx import TensorProto as T
    from onnx import helper as h
    from onnx import numpy_helper as nh
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

LIMIT = 1e-4  # of an output's largest value
HALF_LIMIT = 2e-3  # two roundings to 10 bits
QUANTIZED_LIMIT = 0.1
TYPES = {T.FLOAT: np.float32, T.INT64: np.int64, T.INT32: np.int32, T.UINT8: np.uint8, T.BOOL: np.bool_,
         T.FLOAT16: np.float16}

rng = np.random.default_rng(7)


def port(name, shape, dtype=T.FLOAT):
    return h.make_tensor_value_info(name, dtype, shape)


def weight(name, *shape):
    return nh.from_array(rng.standard_normal(shape).astype(np.float32), name)


def model(nodes, inputs, outputs, constants=(), domains=(), opset=17):
    graph = h.make_graph(nodes, "odd", inputs, outputs, list(constants))
    opsets = [h.make_opsetid("", opset)] + [h.make_opsetid(d, 1) for d in domains]
    return h.make_model(graph, opset_imports=opsets, ir_version=8)


def named(inner, node_names=("", "")):
    """Two layers; `inner` names the value between them."""
    return model([h.make_node("MatMul", ["x", "w"], [inner], node_names[0]),
                  h.make_node("Relu", [inner], ["y"], node_names[1])],
                 [port("x", ["N", 8])], [port("y", ["N", 4])], [weight("w", 8, 4)])


def dense(x, y, w="w"):
    return h.make_node("MatMul", [x, w], [y])


def models():
    """Pairs of a name and a model."""
    w, x, y = weight("w", 8, 4), port("x", ["N", 8]), port("y", ["N", 4])
    yield "nodes_without_names", named("h")
    yield "nodes_of_one_name", named("h", ("same", "same"))
    yield "utf8_name", named("größe/价值 🙂", ("层 1", "层 2"))
    yield "spaces_and_newlines", named(" a b\n\tc ", ("first\nline", " "))
    yield "slashes_and_dots", named("../../a/b:0;%s%n", ("/", ".."))
    yield "long_name", named("n" * 5000, ("m" * 5000, "x"))
    yield "name_like_a_made_one", model(
        [dense("x", "y_DequantizeLinear"), h.make_node("Relu", ["y_DequantizeLinear"], ["w_quantized"]),
         h.make_node("Neg", ["w_quantized"], ["y"])], [x], [y], [w])
    yield "unused_domains", model([dense("x", "y")], [x], [y], [w],
                                  ["com.microsoft", "ai.onnx.ml", "example.org"])
    yield "initializer_is_an_input", model([dense("x", "y")], [x, port("w", [8, 4])], [y], [w])
    yield "unused_initializer", model([dense("x", "y")], [x], [y], [w, weight("nobody", 3)])
    yield "unused_input", model([dense("x", "y")], [x, port("nobody", [2], T.INT64)], [y], [w])
    yield "no_batch", model([h.make_node("MatMul", ["w", "x"], ["y"])], [port("x", [4])], [port("y", [8])], [w])
    yield "scalars", model([h.make_node("Mul", ["x", "x"], ["y"])], [port("x", [])], [port("y", [])])
    yield "scalar_beside_batch", model(
        [dense("x", "a"), h.make_node("Mul", ["a", "s"], ["y"]), h.make_node("ReduceMax", ["y"], ["t"], keepdims=0)],
        [x, port("s", [])], [y, port("t", [])], [w])
    yield "integer_inputs", model(
        [h.make_node("Gather", ["w", "ids"], ["e"]), h.make_node("Cast", ["flag"], ["f"], to=T.FLOAT),
         h.make_node("Mul", ["e", "f"], ["g"]), h.make_node("MatMul", ["g", "v"], ["y"])],
        [port("ids", ["N", 3], T.INT64), port("flag", ["N", 3, 1], T.BOOL)], [port("y", ["N", 3, 2])],
        [w, weight("v", 4, 2)])
    yield "bytes_in_and_out", model(
        [h.make_node("Cast", ["x"], ["f"], to=T.FLOAT), dense("f", "z"),
         h.make_node("Cast", ["z"], ["y"], to=T.INT32)],
        [port("x", ["N", 8], T.UINT8)], [port("y", ["N", 4], T.INT32), port("z", ["N", 4])], [w])
    yield "two_in_three_out", model(
        [dense("a", "p"), dense("b", "q"), h.make_node("Add", ["p", "q"], ["s"])],
        [port("a", ["N", 8]), port("b", ["N", 8])], [port("s", ["N", 4]), port("p", ["N", 4]), port("q", ["N", 4])],
        [w])
    yield "output_listed_twice", model([dense("x", "y")], [x], [y, y], [w])
    yield "output_is_read_on", model([dense("x", "y"), h.make_node("Relu", ["y"], ["z"])], [x],
                                     [port("z", ["N", 4]), y], [w])
    yield "output_is_an_input", model([dense("x", "y")], [x], [y, x], [w])
    yield "output_is_an_initializer", model([dense("x", "y")], [x], [y, port("w", [8, 4])], [w])
    yield "one_value_under_two_names", model(
        [dense("x", "h"), h.make_node("Identity", ["h"], ["y"]), h.make_node("Identity", ["h"], ["z"])],
        [x], [y, port("z", ["N", 4])], [w])
    yield "no_layers", model([h.make_node("Identity", ["x"], ["y"])], [x], [port("y", ["N", 8])])
    yield "names_of_one_symbol", model([h.make_node("Add", ["a", "b"], ["y"])], [port("a", ["N", "N"]), port("b", ["N", "N"])],
                                       [port("y", ["N", "N"])])
    half = nh.from_array(rng.standard_normal((8, 4)).astype(np.float16), "w")
    yield "half_inside", model(
        [h.make_node("Cast", ["x"], ["x16"], to=T.FLOAT16), dense("x16", "h"), h.make_node("Softmax", ["h"], ["s"]),
         h.make_node("Cast", ["s"], ["y"], to=T.FLOAT)], [x], [y], [half])
    yield "half_in_and_out", model([dense("x", "h"), h.make_node("Relu", ["h"], ["y"])],
                                   [port("x", ["N", 8], T.FLOAT16)], [port("y", ["N", 4], T.FLOAT16)], [half])
    yield "class_out", model([dense("x", "s"), h.make_node("ArgMax", ["s"], ["y"], axis=1, keepdims=0)],
                             [x], [port("y", ["N"], T.INT64)], [w])
    # Floats read what is left of the input: a quarter of its values are beyond these integers.
    yield "quantized_input_of_floats", model(
        [h.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]), h.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
         h.make_node("DequantizeLinear", ["v", "blocks"], ["v1"], axis=0, block_size=2), dense("d", "y", "v1")],
        [x], [y], [nh.from_array(np.float32(0.01), "s"), nh.from_array(np.uint8(128), "z"),
                   nh.from_array(rng.integers(-9, 9, (8, 4), np.int8), "v"),
                   nh.from_array(rng.random((4, 4), np.float32), "blocks")], opset=21)
    called = [h.make_node("f", ["x"], ["g"], domain="local", overload="one"),
              h.make_node("f", ["g"], ["h"], domain="local", overload="two"), dense("h", "y")]
    overloads = model(called, [x], [y], [w], ["local"], opset=21)
    overloads.ir_version = 10
    for overload, operator in (("one", "Exp"), ("two", "Neg")):
        overloads.functions.append(h.make_function(
            "local", "f", ["a"], ["b"], [h.make_node(operator, ["a"], ["b"])], [h.make_opsetid("", 21)], overload=overload))
    yield "functions_of_one_name", overloads
    renamed = model([h.make_node("Neg", ["x"], ["n"]), dense("n", "y")], [x], [y], [w])
    renamed.functions.append(h.make_function("", "Neg", ["a"], ["b"], [h.make_node("Abs", ["a"], ["b"])], [h.make_opsetid("", 17)]))
    yield "function_named_like_an_operator", renamed
    yield "no_output_shape", model([dense("x", "y")], [x], [port("y", None)], [w])


def feed_of(graph):
    constant = {t.name for t in graph.initializer}
    feed = {}
    for i in graph.input:
        if i.name in constant:
            continue
        tensor = i.type.tensor_type
        shape = [d.dim_value or 3 for d in tensor.shape.dim]
        dtype = TYPES[tensor.elem_type]
        feed[i.name] = (rng.standard_normal(shape) if dtype == np.float32
                        else rng.integers(0, 2, shape)).astype(dtype)
    return feed


def answers(path, feed):
    options = ort.SessionOptions()
    options.log_severity_level = 3
    # Q/DQ pairs by their definition: without VNNI its products of u8 and s8 saturate.
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    opened = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = {i.name for i in opened.get_inputs()}
    return opened.run(None, {k: v for k, v in feed.items() if k in names})


def off_by(got, wanted):
    worst = 0.0
    for g, w in zip(got, wanted):
        if g.shape != w.shape or g.dtype != w.dtype:
            return float("inf")
        spread = float(np.abs(w.astype(np.float64)).max()) or 1.0
        worst = max(worst, float(np.abs(g.astype(np.float64) - w).max()) / spread)
    return worst


def write_case(folder, proto, feed):
    data = os.path.join(folder, "test_data_set_0")
    os.makedirs(data)
    path = os.path.join(folder, "model.onnx")
    onnx.save(proto, path)
    nameless = onnx.ModelProto()  # onnxruntime refuses nodes that share a name
    nameless.CopyFrom(proto)
    for node in nameless.graph.node:
        node.name = ""
    onnx.save(nameless, path + ".nameless")
    wanted = answers(path + ".nameless", feed)
    for kind, tensors in (("input", feed.values()), ("output", wanted)):
        for i, tensor in enumerate(tensors):
            with open(os.path.join(data, f"{kind}_{i}.pb"), "wb") as file:
                file.write(nh.from_array(np.asarray(tensor)).SerializeToString())
    return path, wanted


def check(qbench, folder, name, proto):
    """What is wrong with a model; None: nothing."""
    def run(*arguments):
        done = subprocess.run([qbench, *arguments], capture_output=True, text=True, check=False)
        return None if done.returncode == 0 else f"{arguments[0]}: {done.stdout}{done.stderr}"

    feed = feed_of(proto.graph)
    case = os.path.join(folder, name)
    path, wanted = write_case(case, proto, feed)
    optimized, quantized = (os.path.join(case, f) for f in ("optimized.onnx", "model.qdq.onnx"))
    limit = HALF_LIMIT if name.startswith("half") else LIMIT
    wrong = run("verify", case, "--rtol", str(limit), "--atol", str(limit / 10)) or run("optimize", path, "-o", optimized, "-q")
    if wrong:
        return wrong
    if off_by(answers(optimized, feed), wanted) > limit:
        return "optimize: onnxruntime gives other outputs"
    if not any(n.op_type == "MatMul" for n in proto.graph.node):
        return None
    wrong = run("calibrate", path, "--data", case, "--method", "minmax", "-o", case, "-q") or \
        run("quantize", path, "-o", case, "-q") or \
        run("compare", "fp32", "int8", "-m", path, "--data", case, "--duration", "0.01", "--no-figures", "-o", case)
    if wrong:
        return wrong
    onnx.checker.check_model(quantized, full_check=True)
    error = off_by(answers(quantized, feed), wanted)
    return None if error <= QUANTIZED_LIMIT else f"quantize: off by {error:.3f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--qbench", required=True)
    args = parser.parse_args()
    off = 0
    for name, proto in models():
        wrong = check(args.qbench, args.folder, name, proto)
        print(f"{name}: {wrong or 'ok'}", flush=True)
        off += wrong is not None
    return 1 if off else 0


if __name__ == "__main__":
    sys.exit(main())
