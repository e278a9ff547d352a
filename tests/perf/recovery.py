#!/usr/bin/env python3
"""What recovery and search give back of INT8's accuracy, at which latency, and other tools beside it.

    python3 tests/perf/recovery.py --qbench build/release/qbench --shared ../shared > recovery.json
    ... --models resnet8     some models alone
    ... --peers              onnxruntime and NNCF, too (pip install onnxruntime nncf openvino)

Of each model: `calibrate --method auto --recover`, `search` over both on the evaluation
images, and `compare` of FP32, INT8, recovered INT8 and the plan that was found. Latencies are ratios to
recovered INT8 by the alternating rounds of the search. Seconds are those of the clock and those of all
processors, MB the most that was resident. What was made stays in --folder, and a later call takes it up
where it ended. --table prints the record's rows as a page has them.

Other tools quantize with the same calibration images, prepared by Pillow as the model's sidecar says. What
they write runs in onnxruntime without optimizations, so that Q/DQ nodes are computed as they stand: on
processors without VNNI integer kernels of onnxruntime let sums of two products saturate.
"""
import argparse
import importlib.metadata
import json
import math
import os
import platform
import sys
import time
from pathlib import Path

PROGRAM = Path(__file__).resolve()
COCO = "tasks/coco-sample/instances_{}.json"
MODELS = {  # file, calibration data, evaluation data, limits of the search (None: no search)
    "squeezenet1.1": ("models/squeezenet1.1", "imagenet1k-sample/calib", "imagenet1k-sample/val",
                      ["--min-agreement", "98.5", "--max-drop", "0.4", "--max-latency", "1.10x"]),
    "resnet8": ("models/resnet8_cifar10", "cifar10/train", "cifar10/test",
                ["--min-agreement", "99", "--max-latency", "1.10x"]),
    "FastestDet": ("tasks/models/FastestDet", COCO.format("calib"), COCO.format("val"),
                   ["--max-drop", "0.2", "--max-latency", "1.15x"]),
    "yunet": ("tasks/models/yunet_n_dynamic", COCO.format("calib"), COCO.format("val"),
              ["--max-latency", "1.10x"]),
    "vww": ("models/vww_96", COCO.format("calib"), COCO.format("val"),
            ["--max-latency", "1.10x"]),
    "ultraface": ("models/ultraface_rfb_320", COCO.format("calib"), COCO.format("val"),
                  ["--max-latency", "1.10x"]),
    "kws": ("models/kws_dscnn", "calib.npz", "val.npz",
            ["--min-agreement", "99", "--max-latency", "1.10x"]),  # data: see kws_clips.py
}
ACCURACY = ("top1", "ap", "miou", "agreement", "refound", "sqnr")


def measured(log, *command):
    """Runs a command: its exit code, seconds (of the clock, of processors) and most resident MB."""
    began = time.monotonic()
    with open(log, "w", encoding="utf-8") as out:
        child = os.posix_spawnp(command[0], command, os.environ,
                                file_actions=[(os.POSIX_SPAWN_DUP2, out.fileno(), 1),
                                              (os.POSIX_SPAWN_DUP2, out.fileno(), 2)])
        _, status, usage = os.wait4(child, 0)
    return {"exit_code": os.waitstatus_to_exitcode(status),
            "seconds": round(time.monotonic() - began, 1),
            "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 1),
            "peak_mb": round(usage.ru_maxrss / 1024)}


def kept(path, make):
    """What `make` returns, or what it returned when it was called first."""
    if not path.exists():
        path.write_text(json.dumps(make()))
    return json.loads(path.read_text())


# ---- qbench --------------------------------------------------------------------------------------


def run(options, folder, name, *arguments, allowed=(0,)):
    """A command in the folder, where its artifacts go."""
    command = [options.qbench, *arguments, "--threads", str(options.threads), "--json",
               f"{name}.json"]
    os.chdir(folder)
    result = measured(f"{name}.log", *command)
    if result["exit_code"] not in allowed:
        sys.exit(f"{' '.join(command)} failed: see {folder / name}.log")
    return result


def rows(record):
    for row in record["rows"]:
        values = {m["name"]: m["value"] for m in row["metrics"]
                  if m["name"] in ACCURACY and m["value"] is not None}
        yield {"row": row["precision"], **values}


def ratios(points):
    """Latency over that of all integers of the first way, of the rows, by the search's rounds."""
    groups = max(len(p["float"]) for p in points)
    for p in points:
        name = p["way"] if not p["float"] else "fp32" if len(p["float"]) == groups else \
            "searched" if p["picked"] else None
        if name:
            yield name, [p["ratio"], p["ratio_low"], p["ratio_high"]]


def own(options, name, folder):
    file, calibration, evaluation, limits = MODELS[name]
    shared = options.shared
    model = shared / (file + ".onnx")
    data_folder = shared
    if name == "kws":
        import kws_clips
        kws_clips.write(shared, folder)
        data_folder = folder
    data = ["--data", str(data_folder / calibration)]
    out = {"calibration": calibration, "evaluation": evaluation}
    out["recover"] = kept(folder / "recover.kept", lambda: run(
        options, folder, "recover", "calibrate", "--model", str(model), *data, "--method", "auto",
        "--recover"))
    recovery = json.loads((folder / "recover.json").read_text())["recovery"]
    out["recover"]["steps"] = recovery["steps"]
    data = ["--data", str(data_folder / evaluation)]
    precisions = ["fp32", "int8:auto", "int8:auto+recover"]
    if limits and not options.no_search:
        out["search"] = kept(folder / "search.kept", lambda: run(
            options, folder, "search", "search", "--model", str(model), *data, "--precision",
            "int8:auto+recover,int8:auto", *limits, "--time-budget", str(options.search_seconds),
            "--no-figures", allowed=(0, 3)))
        out["search"]["limits"] = " ".join(limits)
        points = json.loads((folder / "search.json").read_text())["points"]
        out["search"]["points"] = len(points)
        out["search"]["front"] = [
            {key: p.get(key) for key in ("way", "float_type", "agreement", "drop", "sqnr_db", "ratio",
                                         "ratio_low", "ratio_high", "meets", "picked")} |
            {"float_groups": len(p["float"])} for p in points if p["on_front"] or p["picked"]]
        if (folder / f"{model.stem}.search.qdq.onnx").exists():
            precisions.append(f"{model.stem}.search.qdq.onnx")
    kept(folder / "compare.kept", lambda: run(
        options, folder, "compare", "compare", *precisions, "--model", str(model), *data,
        "--no-figures", "--duration", "0.5"))
    record = json.loads((folder / "compare.json").read_text())
    out["samples"] = record["dataset"]["samples"]
    out["rows"] = list(rows(record))
    if "search" in out:
        latency = dict(ratios(points))
        for row in out["rows"]:
            row["ratio"] = latency.get(row["row"], latency.get("searched"))
    return out


# ---- other tools ---------------------------------------------------------------------------------


def images(shared, data):
    """Paths in order, and the label of each where there are any."""
    path = shared / data
    if path.suffix == ".json":
        names = [i["file_name"] for i in json.loads(path.read_text())["images"]]
        return [path.parent / "images" / n for n in names], None
    files = sorted(path.glob("*/*.*"))
    listed = path.parent / "labels.txt"
    index = {}
    for line in listed.read_text().splitlines():
        parts = line.split("\t")  # "synset, number, name" or "number, name"
        index[parts[1] if parts[0].isdigit() else parts[0]] = \
            int(parts[0] if parts[0].isdigit() else parts[1])
    return files, [index[f.parent.name] for f in files]


def sidecar_of(options, name):
    model = options.shared / (MODELS[name][0] + ".onnx")
    return json.loads(model.with_suffix(".json").read_text()), model


def prepared(sidecar, path):
    import numpy as np
    from PIL import Image
    side, image = sidecar["resize"], Image.open(path).convert("RGB")
    if side and side["mode"] == "short_side":
        scale = side["size"] / min(image.size)
        image = image.resize([max(side["size"], round(s * scale)) for s in image.size],
                             Image.BILINEAR)
    elif side:
        size = side["size"] if isinstance(side["size"], list) else [side["size"]] * 2
        image = image.resize(size, Image.BILINEAR)
    if sidecar["crop"]:
        crop = sidecar["crop"]["size"] if isinstance(sidecar["crop"], dict) else sidecar["crop"]
        left, top = [(s - crop) // 2 for s in image.size]
        image = image.crop((left, top, left + crop, top + crop))
    x = np.asarray(image, dtype=np.float32)
    if sidecar["color"] == "BGR":
        x = x[:, :, ::-1]
    x = (x - np.float32(sidecar["mean"])) / np.float32(sidecar["std"])
    return np.ascontiguousarray(x.transpose(2, 0, 1)[None], dtype=np.float32)


def outputs(model, name, inputs):
    import onnxruntime as ort
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    return [session.run(None, {name: x})[0].reshape(-1) for x in inputs]


def scores(wanted, got, labels):
    """Agreement and top-1 in percent, SQNR in dB, of scores that end in a Softmax or do not."""
    import numpy as np
    wanted, got = np.array(wanted, np.float64), np.array(got, np.float64)
    if np.allclose(wanted.sum(1), 1, atol=1e-3) and (wanted >= 0).all():  # logits, less their mean
        wanted, got = [np.log(np.maximum(v, 1e-30)) for v in (wanted, got)]
        wanted, got = [v - v.mean(1, keepdims=True) for v in (wanted, got)]
    return {"agreement": round(100 * float((wanted.argmax(1) == got.argmax(1)).mean()), 2),
            "top1": round(100 * float((got.argmax(1) == np.array(labels)).mean()), 2),
            "sqnr": round(10 * math.log10((wanted**2).sum() / ((wanted - got)**2).sum()), 2)}


def quantize_ort(model, method, target, name, calibration):
    from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantFormat, QuantType
    from onnxruntime.quantization import quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(CalibrationDataReader):
        def __init__(self):
            self.left = iter(calibration())

        def get_next(self):
            x = next(self.left, None)
            return None if x is None else {name: x}

    prepared_model = target.with_suffix(".pre.onnx")
    quant_pre_process(str(model), str(prepared_model))
    extra = {"CalibPercentile": 99.999} if method == "percentile" else {}
    quantize_static(str(prepared_model), str(target), Reader(), quant_format=QuantFormat.QDQ,
                    per_channel=True, activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8,
                    calibrate_method=getattr(CalibrationMethod, {"minmax": "MinMax"}.get(
                        method, method.capitalize())), extra_options=extra)


def quantize_nncf(model, method, target, name, calibration):
    import nncf
    import openvino
    samples = list(calibration())
    data = nncf.Dataset(samples, lambda x: {name: x})
    quantized = nncf.quantize(openvino.Core().read_model(str(model)), data, subset_size=len(samples),
                              fast_bias_correction=method == "fast bias correction",
                              preset=nncf.QuantizationPreset.PERFORMANCE)
    openvino.save_model(quantized, str(target), compress_to_fp16=False)


def outputs_openvino(model, inputs):
    import openvino
    compiled = openvino.compile_model(str(model), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return [compiled(x)[0].reshape(-1).copy() for x in inputs]


PEERS = {  # a tool and its method: what quantizes, the file's ending
    **{f"onnxruntime {m}": (quantize_ort, m, ".onnx") for m in ("minmax", "entropy", "percentile")},
    **{f"NNCF {m}": (quantize_nncf, m, ".xml")
       for m in ("fast bias correction", "full bias correction")},
}


def peer_job(options, name, peer, folder):
    """In a process of its own: quantizes by one tool."""
    sidecar, model = sidecar_of(options, name)
    files, _ = images(options.shared, MODELS[name][1])
    quantize, method, ending = PEERS[peer]
    quantize(model, method, folder / f"{peer.replace(' ', '-')}{ending}",
             sidecar["input"], lambda: (prepared(sidecar, f) for f in files))


def peers(options, name, folder):
    sidecar, model = sidecar_of(options, name)
    files, labels = images(options.shared, MODELS[name][2])
    if labels is None:
        return []
    inputs = [prepared(sidecar, f) for f in files]
    wanted = outputs(model, sidecar["input"], inputs)
    out = []
    for peer, (_, _, ending) in PEERS.items():
        target = folder / f"{peer.replace(' ', '-')}{ending}"
        cost = kept(target.with_suffix(".kept"), lambda peer=peer, target=target: measured(
            target.with_suffix(".log"), sys.executable, str(PROGRAM), "--qbench", options.qbench,
            "--shared", str(options.shared), "--folder", str(folder.parent), "--models", name,
            "--quantize-by", peer))
        if not target.exists():
            out.append({"row": peer, **cost})
            continue
        got = outputs(target, sidecar["input"], inputs) if ending == ".onnx" \
            else outputs_openvino(target, inputs)
        out.append({"row": peer, **scores(wanted, got, labels), **cost})
    return out


# ---- the record ----------------------------------------------------------------------------------


def versions():
    found = {}
    for package in ("onnxruntime", "nncf", "openvino", "onnx", "pillow"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            pass
    return found


def processor():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def table(record):
    def text(value, form):
        return format(value, form) if isinstance(value, (int, float)) else ""

    def row_of(model, samples, row, cost):
        agree = row.get("agreement") or row.get("refound")
        ratio = "{:.2f} ({:.2f} to {:.2f})".format(*row["ratio"]) if row.get("ratio") else ""
        took = f"{cost['cpu_seconds']:.0f} s, {cost['peak_mb']} MB" if cost and "peak_mb" in cost else ""
        print(f"| {model}, {samples} | {row['row']} | {text(agree, '.2f')} | {text(row.get('sqnr'), '.1f')} | "
              f"{text(row.get('top1') or row.get('ap'), '.2f')} | {ratio} | {took} |")

    print("| model, images | row | agree % | SQNR dB | top-1 % or AP % | latency | processor time, memory |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for model, entry in record["models"].items():
        costs = [None, None, entry["recover"], entry.get("search")]
        for row, cost in zip(entry["rows"], costs):
            row_of(model, entry["samples"], row, cost)
        for row in entry.get("peers", []):
            row_of(model, entry["samples"], row, row)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--qbench", default="build/release/qbench")
    parser.add_argument("--shared", type=lambda p: Path(p).resolve(), default="../shared")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--folder", type=lambda p: Path(p).resolve(), default="recovery")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--search-seconds", type=int, default=600)
    parser.add_argument("--no-search", action="store_true")
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--quantize-by", choices=PEERS, help=argparse.SUPPRESS)
    parser.add_argument("--table", metavar="RECORD", help="print a record's rows and end")
    options = parser.parse_args()
    if options.table:
        return table(json.loads(Path(options.table).read_text()))
    if options.quantize_by:
        name = options.models[0]
        return peer_job(options, name, options.quantize_by, options.folder / name)
    options.qbench = str(Path(options.qbench).resolve())
    record = {"processor": processor(), "threads": options.threads, "versions": versions(), "models": {}}
    for name in options.models:
        folder = options.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        record["models"][name] = own(options, name, folder)
        if options.peers:
            record["models"][name]["peers"] = peers(options, name, folder)
        print(f"{name} done", file=sys.stderr)
    json.dump(record, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
