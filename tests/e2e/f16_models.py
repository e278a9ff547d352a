#!/usr/bin/env python3
"""Models in f16 on images: inputs, outputs, weights and the scales of Q/DQ.

    python tests/e2e/f16_models.py make MODEL.onnx OUT.onnx    the model, or Q/DQ model, in f16
    python tests/e2e/f16_models.py run MODEL.onnx IMAGES       how many onnxruntime gets right

Exit code 77 without onnxruntime.
"""
import json
import pathlib
import sys

try:
    import numpy as np
    import onnx
    import onnxruntime as ort
    from PIL import Image
    from onnx import TensorProto as T
    from onnx import numpy_helper as nh
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)


def floats_of_codes(model):
    """Biases in s32 become floats: their scales are too small for f16."""
    known = {t.name: t for t in model.graph.initializer}
    for node in list(model.graph.node):
        codes = known.get(node.input[0]) if node.op_type == "DequantizeLinear" else None
        if codes is None or codes.data_type != T.INT32:
            continue
        bias = nh.to_array(codes) * nh.to_array(known[node.input[1]])
        model.graph.initializer.append(nh.from_array(bias.astype(np.float32), node.output[0]))
        model.graph.node.remove(node)


def make(source, out):
    model = onnx.load(source)
    floats_of_codes(model)
    for t in model.graph.initializer:
        if t.data_type == T.FLOAT:
            t.CopyFrom(nh.from_array(nh.to_array(t).astype(np.float16), t.name))
    for port in [*model.graph.input, *model.graph.output]:
        port.type.tensor_type.elem_type = T.FLOAT16
    model.opset_import[0].version = max(model.opset_import[0].version, 21)  # f16 scales: from 19 on
    model.ir_version = 10
    onnx.save(model, out)


def run(path, images):
    how = json.loads(pathlib.Path(path).with_name("model.json").read_text())
    options = ort.SessionOptions()  # in floats: its integer kernels saturate on a processor without VNNI
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    mean, std = (np.array(how[k], np.float32).reshape(-1, 1, 1) for k in ("mean", "std"))
    right = 0
    for file in sorted(pathlib.Path(images).rglob("*.png")):
        pixels = np.asarray(Image.open(file).convert("RGB"), np.float32).transpose(2, 0, 1)
        x = ((pixels - mean) / std).astype(np.float16)[None]
        answer = session.run(None, {session.get_inputs()[0].name: x})[0].argmax()
        right += how["labels"][answer] == file.parent.name
    print(right)


{"make": make, "run": run}[sys.argv[1]](*sys.argv[2:])
