#!/usr/bin/env python3
"""Parts of models (`qbench optimize --inputs --outputs`) beside onnxruntime.

    python tests/e2e/parts.py --qbench build/release/qbench --shared ../shared FOLDER

onnxruntime runs each model as it is, with the tensors at the cut as further outputs, and what qbench wrote on the same
numbers: the outputs must agree, in the order asked for, with the shapes that the file declares. Exit code 77 without
onnxruntime, 1 when a part is off.
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

LIMIT = 1e-5  # of an output's largest value
rng = np.random.default_rng(11)


def port(name, shape, dtype=T.FLOAT):
    return h.make_tensor_value_info(name, dtype, shape)


def weight(name, *shape):
    return nh.from_array(rng.standard_normal(shape).astype(np.float32), name)


def const(name, values, dtype=np.int64):
    return nh.from_array(np.array(values, dtype), name)


def model(nodes, inputs, outputs, constants=(), functions=(), infos=()):
    graph = h.make_graph(nodes, "part", inputs, outputs, list(constants), value_info=list(infos))
    opsets = [h.make_opsetid("", 17)] + [h.make_opsetid(d, 1) for d in {f.domain for f in functions}]
    return h.make_model(graph, opset_imports=opsets, ir_version=8, functions=list(functions))


def detector():
    """Boxes and scores from one trunk, then NonMaxSuppression and a class name per box: text, which is not read."""
    nodes = [
        h.make_node("Conv", ["image", "w"], ["trunk"], "trunk_conv", pads=[1, 1, 1, 1]),
        h.make_node("Relu", ["trunk"], ["features"]),
        h.make_node("Conv", ["features", "wb"], ["box_map"], "box_head"),
        h.make_node("Reshape", ["box_map", "box_shape"], ["boxes"]),
        h.make_node("Conv", ["features", "ws"], ["score_map"], "score_head"),
        h.make_node("Sigmoid", ["score_map"], ["score_sigmoid"]),
        h.make_node("Reshape", ["score_sigmoid", "score_shape"], ["scores"]),
        h.make_node("NonMaxSuppression", ["boxes", "scores", "most", "iou"], ["selected"], "nms"),
        h.make_node("Gather", ["selected", "one"], ["classes"], axis=1),
        h.make_node("Gather", ["labels", "classes"], ["names"]),
    ]
    constants = [weight("w", 6, 3, 3, 3), weight("wb", 4, 6, 1, 1), weight("ws", 2, 6, 1, 1),
                 const("box_shape", [1, -1, 4]), const("score_shape", [1, 2, -1]), const("most", [5]),
                 const("iou", [0.5], np.float32), const("one", 1),
                 h.make_tensor("labels", T.STRING, [2], [b"cat", b"dog"])]
    return model(nodes, [port("image", [1, 3, 8, 8])], [port("names", None, T.STRING)], constants)


def boxes_only():
    """The same without text: all of it can be read, but how many boxes stay only a run knows."""
    whole = detector()
    del whole.graph.node[8:]
    del whole.graph.output[:]
    whole.graph.output.append(port("selected", None, T.INT64))
    kept = [t for t in whole.graph.initializer if t.name not in ("labels", "one")]
    del whole.graph.initializer[:]
    whole.graph.initializer.extend(kept)
    return whole


def branches():
    """A body of If reads `seen` of the graph around it, and nothing else does."""
    def body(op):
        return h.make_graph([h.make_node(op, ["seen"], [f"{op}_out"])], op, [], [port(f"{op}_out", None)])
    nodes = [
        h.make_node("Relu", ["x"], ["a"]),
        h.make_node("Mul", ["x", "two"], ["seen"]),
        h.make_node("If", ["yes"], ["b"], then_branch=body("Neg"), else_branch=body("Exp")),
        h.make_node("Add", ["a", "b"], ["sum"]),
        h.make_node("If", ["maybe"], ["y"], then_branch=body("Abs"), else_branch=body("Exp")),
    ]
    return model(nodes, [port("x", ["N", 4]), port("maybe", [], T.BOOL)], [port("y", None)],
                 [const("two", 2, np.float32), const("yes", True, np.bool_)])


def calls():
    """Two calls of a function of two outputs; the second call is left out."""
    half = h.make_function("own", "Both", ["a"], ["up", "down"],
                           [h.make_node("Exp", ["a"], ["up"]), h.make_node("Neg", ["a"], ["down"])],
                           [h.make_opsetid("", 17)])
    nodes = [h.make_node("Both", ["x"], ["u", "d"], domain="own"),
             h.make_node("Both", ["d"], ["uu", "dd"], domain="own"),
             h.make_node("Add", ["u", "uu"], ["y"])]
    return model(nodes, [port("x", ["N", 4])], [port("y", ["N", 4])], functions=[half])


def split():
    """One node makes a tensor that becomes an input and one that is computed still."""
    nodes = [h.make_node("Split", ["x"], ["left", "right"], axis=1),
             h.make_node("Exp", ["left"], ["l"]),
             h.make_node("Sub", ["l", "right"], ["y"])]
    return model(nodes, [port("x", ["N", 4])], [port("y", ["N", 2])])


def inputs_of(at, shape=None):
    """Random numbers for the model's inputs."""
    dims = [d.dim_value if d.HasField("dim_value") else 2 for d in at.type.tensor_type.shape.dim]
    if at.type.tensor_type.elem_type == T.BOOL:
        return np.ones(dims, np.bool_)
    return rng.standard_normal(shape or dims).astype(np.float32)


def session(proto):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    return ort.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])


def values(proto, names):
    """The model's inputs and the named tensors of one run of it."""
    feeds = {i.name: inputs_of(i) for i in proto.graph.input
             if i.name not in {t.name for t in proto.graph.initializer}}
    wide = onnx.ModelProto()
    wide.CopyFrom(proto)
    made = [n for n in names if n not in feeds]
    for name in made:
        if name not in {o.name for o in wide.graph.output}:
            wide.graph.output.append(onnx.ValueInfoProto(name=name))
    return {**feeds, **dict(zip(made, session(wide).run(made, feeds)))}


def check(qbench, folder, title, proto, outputs, inputs=()):
    path, part = os.path.join(folder, title + ".onnx"), os.path.join(folder, title + ".part.onnx")
    onnx.save(proto, path)
    command = [qbench, "optimize", path, "-q", "-o", part, "--outputs", ",".join(outputs)]
    if inputs:
        command += ["--inputs", ",".join(inputs)]
    subprocess.run(command, check=True)
    written = onnx.load(part)
    onnx.checker.check_model(written, full_check=True)
    if [o.name for o in written.graph.output] != list(outputs):
        return f"outputs {[o.name for o in written.graph.output]}"
    if inputs and [i.name for i in written.graph.input] != list(inputs):
        return f"inputs {[i.name for i in written.graph.input]}"
    known = values(proto, [*outputs, *inputs])
    results = session(written).run(None, {i.name: known[i.name] for i in written.graph.input})
    for name, info, got in zip(outputs, written.graph.output, results):
        declared = [d.dim_value if d.HasField("dim_value") else None for d in info.type.tensor_type.shape.dim]
        if len(declared) != got.ndim or any(d not in (None, g) for d, g in zip(declared, got.shape)):
            return f"{name}: declared {declared}, came {got.shape}"
        scale = max(float(np.abs(known[name]).max()), 1e-30)
        off = float(np.abs(got.astype(np.float64) - known[name]).max()) / scale
        if got.dtype != known[name].dtype or off > LIMIT:
            return f"{name}: {got.dtype}, off by {off:.1e}"
    return None


def cases(shared):
    yield "heads", detector(), ["scores", "boxes"], []
    yield "one_head", detector(), ["box_map"], []
    yield "boxes_only", boxes_only(), ["boxes", "scores"], []
    yield "from_features", detector(), ["boxes", "scores"], ["features"]
    yield "two_starts", detector(), ["boxes", "scores"], ["box_map", "score_map"]
    yield "seen_by_a_branch", branches(), ["sum"], []
    yield "branch_is_gone", branches(), ["a", "x"], []
    yield "cut_in_what_a_branch_sees", branches(), ["sum"], ["x", "seen"]
    yield "function", calls(), ["u"], []
    yield "behind_a_function", calls(), ["y"], ["u", "d"]
    yield "split", split(), ["y"], ["x", "right"]
    for name, outputs, inputs in (
            ("squeezenet1.1", ["fire4/concat_1"], []),
            ("squeezenet1.1_ort_qdq_minmax", ["fire2/concat_1"], []),
            ("ultraface_rfb_320", None, [])):
        path = os.path.join(shared, "models", name + ".onnx")
        if os.path.exists(path):
            proto = onnx.load(path)
            if outputs is None or not any(o in n.output for o in outputs for n in proto.graph.node):
                outputs = [proto.graph.node[len(proto.graph.node) // 2].output[0]]
            yield name, proto, outputs, inputs


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--qbench", required=True)
    parser.add_argument("--shared", default="")
    parser.add_argument("folder")
    args = parser.parse_args()
    bad = 0
    for title, proto, outputs, inputs in cases(args.shared):
        fault = check(args.qbench, args.folder, title, proto, outputs, inputs)
        bad += fault is not None
        print(f"{title}: {fault or 'agrees'}")
    sys.exit(1 if bad else 0)


main()
