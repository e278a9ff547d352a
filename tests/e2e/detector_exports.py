#!/usr/bin/env python3
"""FastestDet as other exporters would have written it: the same network with other inputs, outputs and operators.

    python tests/e2e/detector_exports.py FastestDet.onnx FOLDER
"""
import copy
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh
from onnx import version_converter

OBJECT, BOX, SCORE, RAW_OBJECT, RAW_SCORE = (
    "onnx::Concat_744", "onnx::Concat_960", "onnx::Concat_757", "onnx::Sigmoid_954", "input.624")
SIDE, CELLS = 352, 484


class Model:
    """A copy of the network under another operator set."""

    def __init__(self, base, opset=13):
        self.proto = version_converter.convert_version(copy.deepcopy(base), opset)
        self.graph = self.proto.graph

    def const(self, value):
        name = f"constant_{len(self.graph.initializer)}"
        self.graph.initializer.append(nh.from_array(np.asarray(value), name))
        return name

    def add(self, op, inputs, out, **attributes):
        self.graph.node.append(h.make_node(op, inputs, [out], **attributes))
        return out

    def rename(self, old, new):
        for node in self.graph.node:
            for names in node.input, node.output:
                for i, name in enumerate(names):
                    if name == old:
                        names[i] = new

    def input(self, name, dtype, shape, *nodes):
        """A new input, and nodes that lead from it to the network's own."""
        self.rename("input.1", "network_input" if nodes else name)
        for node in reversed(nodes):
            self.graph.node.insert(0, node)
        del self.graph.input[:]
        self.graph.input.append(h.make_tensor_value_info(name, dtype, shape))

    def outputs(self, *ports):
        del self.graph.output[:]
        self.graph.output.extend(h.make_tensor_value_info(name, dtype, shape) for name, dtype, shape in ports)

    def save(self, folder):
        del self.graph.value_info[:]
        onnx.checker.check_model(self.proto)
        os.makedirs(folder)
        onnx.save(self.proto, f"{folder}/model.onnx")

    def open_batch(self):
        """The first dimension of inputs and outputs gets a name; channel shuffles stop naming it."""
        for port in [*self.graph.input, *self.graph.output]:
            port.type.tensor_type.shape.dim[0].dim_param = "batch"
        constants = {i.name: i for i in self.graph.initializer}
        for node in self.graph.node:
            if node.op_type == "Reshape" and len(nh.to_array(constants[node.input[1]])) in (3, 4):
                shape = nh.to_array(constants[node.input[1]]).copy()
                shape[0] = -1 if len(shape) == 3 else 0
                constants[node.input[1]].CopyFrom(nh.from_array(shape, node.input[1]))

    def decode(self):
        """Boxes 1 x 484 x 4 as corners in pixels of the input, scores 1 x 484 x 80."""
        grid = np.stack(np.meshgrid(np.arange(22), np.arange(22)))[None].astype(np.float32)
        low, high = self.const(np.array([0], np.int64)), self.const(np.array([2], np.int64))
        end, axis = self.const(np.array([4], np.int64)), self.const(np.array([1], np.int64))
        self.add("Tanh", [self.add("Slice", [BOX, low, high, axis], "txy")], "shift")
        self.add("Mul", [self.add("Add", ["shift", self.const(grid)], "place"), self.const(np.float32(16))], "centre")
        self.add("Sigmoid", [self.add("Slice", [BOX, high, end, axis], "twh")], "share")
        self.add("Mul", ["share", self.const(np.float32(SIDE / 2))], "half")
        self.add("Concat", [self.add("Sub", ["centre", "half"], "first"), self.add("Add", ["centre", "half"], "second")],
                 "corners", axis=1)
        self.add("Mul", [self.add("Pow", [OBJECT, self.const(np.float32(0.6))], "sure"),
                         self.add("Pow", [SCORE, self.const(np.float32(0.4))], "likely")], "score_map")
        for name, out, n in ("corners", "boxes_of_cells", 4), ("score_map", "scores_of_cells", 80):
            rows = self.add("Reshape", [name, self.const(np.array([0, n, CELLS], np.int64))], f"{out}_t")
            self.add("Transpose", [rows], out, perm=[0, 2, 1])

    def best(self, n):
        """The n best cells: boxes 1 x n x 4, scores and labels 1 x n."""
        self.add("ReduceMax", ["scores_of_cells"], "best", axes=[2], keepdims=0)
        self.add("ArgMax", ["scores_of_cells"], "class_of_cells", axis=2, keepdims=0)
        self.graph.node.append(h.make_node("TopK", ["best", self.const(np.array([n], np.int64))], ["scores", "cell"], axis=1))
        self.add("GatherElements", ["class_of_cells", "cell"], "labels", axis=1)
        self.add("Unsqueeze", ["cell", self.const(np.array([2], np.int64))], "cell_row")
        self.add("Tile", ["cell_row", self.const(np.array([1, 1, 4], np.int64))], "cell_box")
        self.add("GatherElements", ["boxes_of_cells", "cell_box"], "best_boxes", axis=1)


def main():
    base, folder = onnx.load(sys.argv[1]), sys.argv[2]

    m = Model(base, 11)  # as TensorFlow's exports: channels last on both sides
    m.input("image", T.FLOAT, [1, SIDE, SIDE, 3], h.make_node("Transpose", ["image"], ["network_input"], perm=[0, 3, 1, 2]))
    m.outputs((m.add("Transpose", ["758"], "pred", perm=[0, 2, 3, 1]), T.FLOAT, [1, 22, 22, 85]))
    m.save(f"{folder}/channels_last")

    m = Model(base, 18)  # pixels as they are, any number of images
    m.input("images", T.FLOAT, [1, 3, SIDE, SIDE], h.make_node("Div", ["images", m.const(np.float32(255))], ["network_input"]))
    m.open_batch()
    m.save(f"{folder}/own_normalization")

    m = Model(base)  # bytes
    m.input("image", T.UINT8, [1, SIDE, SIDE, 3], h.make_node("Cast", ["image"], ["floats"], to=T.FLOAT),
            h.make_node("Transpose", ["floats"], ["planes"], perm=[0, 3, 1, 2]),
            h.make_node("Mul", ["planes", m.const(np.float32(1 / 255))], ["network_input"]))
    m.save(f"{folder}/bytes")

    m = Model(base)
    m.open_batch()
    sizes = [n.input[2] for n in m.graph.node if n.op_type == "Resize"]
    for constant in m.graph.initializer:
        if constant.data_type == T.FLOAT and constant.name not in sizes:
            constant.CopyFrom(nh.from_array(nh.to_array(constant).astype(np.float16), constant.name))
    for port in [*m.graph.input, *m.graph.output]:
        port.type.tensor_type.elem_type = T.FLOAT16
    m.save(f"{folder}/half")

    m = Model(base)
    for name, port in (OBJECT, "obj"), (BOX, "reg"), (SCORE, "cls"):
        m.rename(name, port)
    m.outputs(("reg", T.FLOAT, [1, 4, 22, 22]), ("cls", T.FLOAT, [1, 80, 22, 22]), ("obj", T.FLOAT, [1, 1, 22, 22]))
    m.save(f"{folder}/three_outputs")

    m = Model(base)
    m.outputs((m.add("Concat", [RAW_OBJECT, BOX, RAW_SCORE], "raw", axis=1), T.FLOAT, [1, 85, 22, 22]))
    m.save(f"{folder}/logits")

    m = Model(base)
    rows = m.add("Reshape", ["758", m.const(np.array([1, 85, CELLS], np.int64))], "flat")
    m.outputs((m.add("Transpose", [rows], "rows", perm=[0, 2, 1]), T.FLOAT, [1, CELLS, 85]))
    m.save(f"{folder}/rows")

    for name, ids in ("ranks", np.arange(80)), ("ids", None):  # classes as values: ranks, or COCO's own ids
        m = Model(base, 16)
        m.decode()
        m.best(300)
        if ids is None:
            skipped = (12, 26, 29, 30, 45, 66, 68, 69, 71, 83)
            ids = np.array([i for i in range(1, 91) if i not in skipped])
        m.add("Gather", [m.const(ids.astype(np.int64)), "labels"], "classes")
        m.input("images", T.FLOAT, [1, 3, SIDE, SIDE])
        m.graph.input.append(h.make_tensor_value_info("orig_target_sizes", T.INT64, [1, 2]))  # as RT-DETR's
        m.add("Div", ["best_boxes", m.const(np.float32(SIDE))], "shares")
        m.add("Cast", ["orig_target_sizes"], "size", to=T.FLOAT)
        m.add("Tile", ["size", m.const(np.array([1, 2], np.int64))], "sizes")
        m.add("Mul", ["shares", m.add("Unsqueeze", ["sizes", m.const(np.array([1], np.int64))], "size_row")], "boxes")
        m.outputs(("classes", T.INT64, [1, 300]), ("boxes", T.FLOAT, [1, 300, 4]), ("scores", T.FLOAT, [1, 300]))
        m.save(f"{folder}/two_inputs_{name}")

    m = Model(base, 16)  # as PaddleDetection's: the image between two inputs, rows of final boxes and their number
    m.decode()
    m.best(300)
    m.input("image", T.FLOAT, [1, 3, SIDE, SIDE])
    pair = [h.make_tensor_value_info(name, T.FLOAT, [1, 2]) for name in ("im_shape", "scale_factor")]
    m.graph.input.insert(0, pair[0])
    m.graph.input.append(pair[1])
    m.add("Tile", ["scale_factor", m.const(np.array([1, 2], np.int64))], "factors")
    m.add("Div", ["best_boxes", m.add("Unsqueeze", ["factors", m.const(np.array([1], np.int64))], "factor_row")], "boxes")
    m.add("Cast", ["labels"], "classes", to=T.FLOAT)
    last = m.const(np.array([2], np.int64))
    columns = [m.add("Unsqueeze", ["classes", last], "class_column"), m.add("Unsqueeze", ["scores", last], "score_column"), "boxes"]
    m.add("Concat", columns, "rows_of_image", axis=2)
    m.add("Reshape", ["rows_of_image", m.const(np.array([300, 6], np.int64))], "rows")
    m.graph.initializer.append(nh.from_array(np.array([300], np.int32), "count_of_rows"))
    m.add("Identity", ["count_of_rows"], "count")
    m.outputs(("rows", T.FLOAT, [300, 6]), ("count", T.INT32, [1]))
    m.save(f"{folder}/three_inputs")


main()
