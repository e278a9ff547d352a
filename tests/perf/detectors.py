#!/usr/bin/env python3
"""The rows of docs/benchmarks/detectors.md: FastestDet's INT8 by qbench's calibrators and by files of other tools.

    python tests/perf/detectors.py --qbench build/release/qbench --shared ../shared [--folder FOLDER]

qbench calibrates on coco-sample's 118 images and scores 200 others; onnxruntime runs the files, whose boxes are decoded
here by the author's rules and scored by `qbench score` and, where it is installed, pycocotools.
"""
import argparse
import contextlib
import json
import os
import shutil
import subprocess

import numpy as np
import onnxruntime as ort
from PIL import Image

METHODS = "auto,entropy,minmax,mse,percentile:99.99"
SIDE, CELLS = 352, 22
FLOOR, OVERLAP = 0.001, 0.45


def suppressed(boxes, kept):
    """Does a box overlap one that stayed?"""
    for other in kept:
        low, high = np.maximum(boxes[:2], other[:2]), np.minimum(boxes[2:], other[2:])
        inside = np.prod(np.maximum(high - low, 0))
        if inside / (np.prod(boxes[2:] - boxes[:2]) + np.prod(other[2:] - other[:2]) - inside) > OVERLAP:
            return True
    return False


def decode(out, width, height):
    """Corners in pixels, scores, classes, best first, of 85 x 22 x 22."""
    score = out[0] ** 0.6 * out[5:].max(0) ** 0.4
    label = out[5:].argmax(0)
    y, x = np.nonzero(score > FLOOR)
    t = out[1:5, y, x]
    centre = (np.tanh(t[:2]) + [x, y]) / CELLS
    half = 0.5 / (1 + np.exp(-t[2:]))
    corners = np.concatenate([centre - half, centre + half]).T * [width, height, width, height]
    order = np.argsort(-score[y, x], kind="stable")
    kept = {}
    for i in order:
        of_class = kept.setdefault(int(label[y[i], x[i]]), [])
        if not suppressed(corners[i], of_class):
            of_class.append(corners[i])
            yield corners[i], float(score[y[i], x[i]]), int(label[y[i], x[i]])


def detections(model, sample, ids):
    session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    for image in json.load(open(f"{sample}/instances_val.json"))["images"]:
        with Image.open(f"{sample}/images/{image['file_name']}") as opened:
            pixels = opened.convert("RGB").resize((SIDE, SIDE), Image.BILINEAR)
        data = np.asarray(pixels, np.float32)[:, :, ::-1].transpose(2, 0, 1)[None] / 255
        out = session.run(None, {name: np.ascontiguousarray(data)})[0][0]
        for box, score, label in decode(out.astype(np.float64), image["width"], image["height"]):
            yield {"image_id": image["id"], "category_id": ids[label], "score": score,
                   "bbox": [box[0], box[1], box[2] - box[0], box[3] - box[1]]}


def pycocotools_ap(truth, results):
    try:
        from pycocotools.coco import COCO
        from pycocotools.cocoeval import COCOeval
    except ImportError:
        return None
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        coco = COCO(truth)
        evaluation = COCOeval(coco, coco.loadRes(results), "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return 100 * evaluation.stats[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--qbench", required=True)
    parser.add_argument("--shared", required=True)
    parser.add_argument("--folder", default="detectors")
    args = parser.parse_args()
    qbench, models = os.path.abspath(args.qbench), os.path.abspath(f"{args.shared}/tasks/models")
    sample = os.path.abspath(f"{args.shared}/tasks/coco-sample")
    os.makedirs(args.folder, exist_ok=True)
    os.chdir(args.folder)
    for end in "onnx", "json":
        shutil.copyfile(f"{models}/FastestDet.{end}", f"FastestDet.{end}")
    truth = f"{sample}/instances_val.json"

    rows = [f"int8:{method}" for method in METHODS.split(",")]
    subprocess.run([qbench, "calibrate", "--data", f"{sample}/instances_calib.json", "--method", METHODS, "-q"],
                   check=True, stdout=subprocess.DEVNULL)
    subprocess.run([qbench, "compare", "fp32", *rows, "--data", truth, "--duration", "0.05", "--no-figures", "-q"],
                   check=True, stdout=subprocess.DEVNULL)
    table = []
    for row in json.load(open("compare.json"))["rows"]:
        metric = {m["name"]: m["value"] for m in row["metrics"]}
        table.append((f"qbench {row['precision']} ({row['calibration']})", [metric[k] for k in ("ap", "ap50", "ap75")], None))

    ids = json.load(open("FastestDet.json"))["detection"]["category_ids"]
    files = [f"{models}/FastestDet.onnx", *sorted(e.path for e in os.scandir(f"{models}/int8") if e.name.endswith(".onnx"))]
    for file in files:
        json.dump(list(detections(file, sample, ids)), open("results.json", "w"))
        subprocess.run([qbench, "score", "--annotations", truth, "--results", "results.json", "--json", "score.json"],
                       check=True, stdout=subprocess.DEVNULL)
        score = json.load(open("score.json"))
        table.append((f"onnxruntime {os.path.basename(file)}", [100 * score[k] for k in ("AP", "AP50", "AP75")],
                      pycocotools_ap(truth, "results.json")))
    print("| | AP | AP50 | AP75 | drop | pycocotools |\n| --- | --- | --- | --- | --- | --- |")
    for name, values, judged in table:
        cells = [f"{v:.2f}" for v in [*values, table[0][1][0] - values[0]]]
        print(f"| {name} | {' | '.join(cells)} | {'' if judged is None else f'{judged:.2f}'} |")


main()
