#!/usr/bin/env python3
"""Models whose branches, loops and sizes only a run decides: a folder each with onnxruntime's answers.

    python tests/e2e/late_sizes.py FOLDER
"""
import os
import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh


def port(name, shape, dtype=T.FLOAT):
    return h.make_tensor_value_info(name, dtype, shape)


def const(name, value):
    return nh.from_array(np.asarray(value), name)


def branches():
    """If on the sum of the data: all of it, or what is above 0, whose size differs."""
    yes = h.make_graph([h.make_node("Identity", ["x"], ["all"])], "yes", [], [port("all", None)])
    no = h.make_graph([h.make_node("Greater", ["x", "zero"], ["mask"]), h.make_node("Compress", ["x", "mask"], ["some"])],
                      "no", [], [port("some", None)])
    nodes = [h.make_node("ReduceSum", ["x"], ["sum"], keepdims=0), h.make_node("Greater", ["sum", "zero"], ["c"]),
             h.make_node("If", ["c"], ["z"], then_branch=yes, else_branch=no), h.make_node("Add", ["z", "z"], ["y"])]
    return nodes, [const("zero", np.float32(0))], [["y", ["n"]]]


def loop():
    """As many rounds as numbers are above 0: doubles a value and gives each."""
    body = h.make_graph([h.make_node("Add", ["v", "v"], ["w"]), h.make_node("Identity", ["w"], ["piece"]),
                         h.make_node("Identity", ["go"], ["on"])], "body",
                        [port("i", [], T.INT64), port("go", [], T.BOOL), port("v", [2])],
                        [port("on", [], T.BOOL), port("w", [2]), port("piece", [2])])
    nodes = [h.make_node("Greater", ["x", "zero"], ["mask"]), h.make_node("Cast", ["mask"], ["ones"], to=T.INT64),
             h.make_node("ReduceSum", ["ones"], ["count"], keepdims=0), h.make_node("Slice", ["x", "from", "to"], ["start"]),
             h.make_node("Loop", ["count", "", "start"], ["last", "each"], body=body), h.make_node("Neg", ["each"], ["y"])]
    return nodes, [const("zero", np.float32(0)), const("from", np.array([0])), const("to", np.array([2]))], \
        [["last", [2]], ["y", ["n", 2]]]


def write(folder, nodes, initializers, outputs):
    graph = h.make_graph(nodes, "late", [port("x", [6])], [port(*o) for o in outputs], initializers)
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    os.makedirs(folder, exist_ok=True)
    onnx.save(model, f"{folder}/model.onnx")
    session = ort.InferenceSession(f"{folder}/model.onnx", providers=["CPUExecutionProvider"])
    for k, x in enumerate(([1, -2, 3, 4, -1, 0.5], [-1, -2, 3, -4, 1, 0.5], [-1, -2, -3, -4, -1, -0.5])):
        x = np.array(x, np.float32)
        to = f"{folder}/test_data_set_{k}"
        os.makedirs(to, exist_ok=True)
        with open(f"{to}/input_0.pb", "wb") as f:
            f.write(nh.from_array(x, "x").SerializeToString())
        for i, y in enumerate(session.run(None, {"x": x})):
            with open(f"{to}/output_{i}.pb", "wb") as f:
                f.write(nh.from_array(y, outputs[i][0]).SerializeToString())


for make in (branches, loop):
    write(f"{sys.argv[1]}/{make.__name__}", *make())
