#!/usr/bin/env python3
"""Networks that nobody tuned for, on the processor: qbench beside onnxruntime and OpenVINO.

    sweep.py export FOLDER [NAME...]     architectures with seeded random weights as ONNX
    sweep.py run FOLDER [NAME...] --qbench PROGRAM --rows rows.json
    sweep.py report rows.json [--against OLD.json] [--markdown docs/benchmarks/sweep.md]

Each network has a folder with model.onnx and data.npz (eight samples of each input); others than
those exported here may lie beside them. Engines take turns, a fraction of a second each, and the
best time of each counts, so that what else runs on the machine meets all of them. Three forms are
measured: FP32, qbench's own INT8, and the Q/DQ file of onnxruntime's quantize_static; --forms takes
other files of that tool as well (qdq_s8, qdq_u8, qoperator). Quality is the largest error over the
range for FP32 (where it is above 1e-4, fp32_peer_quality has that of onnxruntime without its
optimizer), SQNR in dB for others; agreement is SQNR against onnxruntime on the same file. A step is
plain where its kernel is a scalar loop (ref.*) or the operator's definition (node).

export needs torch, torchvision, timm and transformers; run needs onnx and onnxruntime, and takes
OpenVINO where it is there. Nothing is downloaded.
"""
import argparse
import collections
import inspect
import json
import os
import subprocess
import sys
import tempfile
import time

import numpy as np

SAMPLES = 8
FORMS = ("fp32", "int8", "qdq")
# What quantize_static writes: file, format, activations, weights, a scale a channel. The first is measured by default.
STATIC = {"qdq": ("static", "QDQ", "QUInt8", "QInt8", True), "qdq_s8": ("s8", "QDQ", "QInt8", "QInt8", True),
          "qdq_u8": ("u8", "QDQ", "QUInt8", "QUInt8", False), "qoperator": ("qoperator", "QOperator", "QUInt8", "QInt8", True)}


def file_of(form):
    return f"model.{STATIC[form][0]}.onnx" if form in STATIC else "model.onnx"


# ---- exporting

def samples(shape, kind, rng):
    """Integers below a number, noise, or noise where what lies side by side is alike."""
    import torch
    from torch.nn import functional
    full = (SAMPLES, *shape)
    if isinstance(kind, int):
        return rng.integers(0, kind, full, dtype=np.int64)
    if kind == "any":
        return rng.normal(size=full).astype(np.float32)
    sizes = shape[1:] if len(shape) > 1 else shape
    coarse = torch.from_numpy(rng.normal(size=(SAMPLES, *(shape[:1] if len(shape) > 1 else (1,)),
                                               *(max(2, d // 16) for d in sizes))).astype(np.float32))
    mode = {1: "linear", 2: "bilinear", 3: "trilinear"}[len(sizes)]
    fine = functional.interpolate(coarse, size=sizes, mode=mode, align_corners=True).numpy().reshape(full)
    return (fine * 1.3 + rng.normal(size=full) * 0.1).astype(np.float32)


def settle(model, feed):
    """Scales, shifts and layer scales of a trained network's size; statistics of the samples."""
    import torch
    from torch import nn
    g = torch.Generator().manual_seed(11)
    norms = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    drawn = set()
    with torch.no_grad():
        for m in model.modules():
            if "norm" not in type(m).__name__.lower():
                continue
            for p in m.parameters(recurse=False):
                if p.ndim == 1:
                    centre, spread = (1, 0.15) if p is getattr(m, "weight", None) else (0, 0.2)
                    p.copy_(centre + torch.randn(p.shape, generator=g) * spread)
                    drawn.add(id(p))
        for p in model.parameters():
            if id(p) not in drawn and p.is_floating_point() and p.numel() and p.abs().max() < 2e-3:
                p.copy_(torch.rand(p.shape, generator=g) * 0.4 + 0.2 if p.ndim <= 1
                        else torch.randn(p.shape, generator=g) * 0.02)
        for m in norms:
            m.train()
            m.reset_running_stats()
            m.momentum = None
        if norms:
            model(*feed)
        for p in model.parameters():
            p.requires_grad_(False)
    model.eval()


def seeded(name, data):
    """The network, always with the same weights."""
    import torch
    from sweep_networks import NETWORKS
    torch.manual_seed(1)
    torch.set_num_threads(1)
    torch.backends.mha.set_fastpath_enabled(False)
    model = NETWORKS[name][0]().eval()
    settle(model, tuple(torch.from_numpy(v[:2]) for v in data.values()))
    return model


def export_one(folder, name):
    import torch
    from sweep_networks import NETWORKS
    _, inputs, options = NETWORKS[name]
    to = os.path.join(folder, name)
    os.makedirs(to, exist_ok=True)
    rng = np.random.default_rng(1)
    data = {n: samples(shape, kind, rng) for n, shape, kind in inputs}
    model = seeded(name, data)
    first = lambda n: tuple(torch.from_numpy(v[:n]) for v in data.values())
    if options.get("half"):
        model, data = model.half(), {n: v.astype(np.float16) if v.dtype == np.float32 else v for n, v in data.items()}
    file, fixed = os.path.join(to, "model.onnx"), options.get("fixed")
    more = dict(input_names=list(data), opset_version=options.get("opset", 17))
    with torch.no_grad():
        if options.get("dynamo"):
            shapes = tuple({0: torch.export.Dim.AUTO} for _ in data)
            together = any(p.kind is p.VAR_POSITIONAL for p in inspect.signature(model.forward).parameters.values())
            torch.onnx.export(model, first(1 if fixed else 2), file, dynamo=True, external_data=False,
                              dynamic_shapes=None if fixed else (shapes,) if together else shapes, **more)
        else:
            torch.onnx.export(model, first(1), file, dynamo=False,
                              dynamic_axes=None if fixed else {n: {0: "N", **options.get("open", {})} for n in data}, **more)
    np.savez(os.path.join(to, "data.npz"), **data)


def export(a):
    """Each network in a process of its own: exporters leave much behind, and some do not end."""
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    from sweep_networks import NETWORKS
    for name in a.names or NETWORKS:
        to = os.path.join(a.folder, name)
        if not a.again and (os.path.exists(f"{to}/data.npz") or os.path.exists(f"{to}/refused.txt")):
            continue
        start, code = time.time(), f"import sweep; sweep.export_one({a.folder!r}, {name!r})"
        try:
            r = subprocess.run([sys.executable, "-W", "ignore", "-c", code], cwd=sys.path[0], capture_output=True, text=True,
                               timeout=a.timeout)
            problem = (r.stderr.strip().splitlines() or ["ended early"])[-1] if r.returncode else ""
        except subprocess.TimeoutExpired:
            problem = "too slow"
        if problem:
            os.makedirs(to, exist_ok=True)
            with open(f"{to}/refused.txt", "w") as f:
                f.write(problem + "\n")
        print(f"{name} {time.time() - start:.0f} s {problem[:200]}", flush=True)


# ---- measuring

class Qbench:
    def __init__(self, program, folder, threads, feed):
        self.program, self.folder, self.threads = program, folder, threads
        self.shapes = ",".join(f"{n}:{'x'.join(map(str, v.shape))}" for n, v in feed.items())

    def call(self, *arguments):
        r = subprocess.run([self.program, *arguments], cwd=self.folder, capture_output=True, text=True, timeout=600)
        if r.returncode:
            raise RuntimeError(f"{arguments[0]}: {(r.stderr or r.stdout).strip()[-300:]}")
        return r.stdout

    def bench(self, form, *more):
        return json.loads(self.call("bench", "--model", file_of(form), *(["--int8"] if form == "int8" else []), "--shapes", self.shapes,
                                    "--threads", str(self.threads), "--json", "-", "-q", *more))

    def turn(self, form, seconds):
        return self.bench(form, "--duration", str(seconds), "--warmUp", "50", "--iterations", "3")["summary"]["min_ms"]

    def outputs(self, form, feed):
        """Outputs of one sample, and the steps with their times."""
        with tempfile.TemporaryDirectory() as t:
            for name, value in feed.items():
                value.tofile(f"{t}/{name}.raw")
            self.bench(form, "--loadInputs", ",".join(f"{n}:{t}/{n}.raw" for n in feed), "--iterations", "3", "--duration", "0",
                       "--warmUp", "0", "--exportOutput", f"{t}/o", "--exportProfile", f"{t}/p", "--exportLayerInfo", f"{t}/l")
            o, p, l = (json.load(open(f"{t}/{f}")) for f in "opl")
        number = lambda v: v if isinstance(v, (int, float)) else float("nan")
        return [np.array([number(v) for v in x["values"]]) for x in o], [dict(s, ms=m["medianMs"]) for s, m in zip(l, p[1:])]


def sessions(path, a, feed):
    """Peers that take the file: name -> call with a feed."""
    import onnxruntime as ort
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = a.threads, 4
    options.add_session_config_entry("session.force_spinning_stop", "1")  # between turns
    s = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    peers = {"onnxruntime": lambda feed: s.run(None, feed)}
    if a.no_openvino:
        return peers
    try:
        import openvino
        core = openvino.Core()
        model = core.read_model(path)
        model.reshape({i: list(feed[i.any_name].shape) for i in model.inputs})
        compiled = core.compile_model(model, "CPU", {"INFERENCE_NUM_THREADS": a.threads, "PERFORMANCE_HINT": "LATENCY",
                                                     "INFERENCE_PRECISION_HINT": "f32"})
        request = compiled.create_infer_request()
        peers["openvino"] = lambda feed: request.infer(dict(zip(compiled.inputs, feed.values())))
    except Exception as e:  # it is not there, or does not take the file
        print("  openvino:", str(e).strip().splitlines()[0][:120], file=sys.stderr)
    return peers


def plain_outputs(path, feed):
    """What onnxruntime makes of the file without its optimizer: how far rounding alone carries."""
    import onnxruntime as ort
    options = ort.SessionOptions()
    options.graph_optimization_level, options.log_severity_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL, 4
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"]).run(None, feed)


def best_of(call, feed, seconds):
    call(feed)
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end or best == float("inf"):
        start = time.perf_counter()
        call(feed)
        best = min(best, (time.perf_counter() - start) * 1e3)
    return best


def error(expected, got):
    """Largest difference over the range, worst output."""
    worst = 0.0
    for e, g in zip(expected, got):
        e = np.asarray(e, np.float64).ravel()
        span = max(np.ptp(e), np.abs(e).max(), 1e-12) if e.size else 1
        worst = max(worst, float(np.nanmax(np.abs(e - g.ravel()), initial=0) / span))
    return worst


def sqnr(expected, got):
    signal = sum(float((np.asarray(e, np.float64) ** 2).sum()) for e in expected)
    noise = sum(float(((np.asarray(e, np.float64).ravel() - g.ravel()) ** 2).sum()) for e, g in zip(expected, got))
    return round(10 * np.log10(max(signal, 1e-300) / max(noise, 1e-300)), 1)


def write_static(file, data, form):
    """The quantized file of onnxruntime's tool."""
    import logging
    logging.disable(logging.WARNING)
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    class Reader(CalibrationDataReader):
        def __init__(self):
            self.left = iter([{k: v[i:i + 1] for k, v in data.items()} for i in range(SAMPLES)])

        def get_next(self):
            return next(self.left, None)

    name, style, activations, weights, per_channel = STATIC[form]
    quantize_static(file("model.onnx"), file(file_of(form)), Reader(), quant_format=QuantFormat[style], per_channel=per_channel,
                    activation_type=QuantType[activations], weight_type=QuantType[weights])


def plain_of(steps):
    """Share of time of plain steps, by operator and kernel."""
    total, plain = sum(s["ms"] for s in steps) or 1e-9, collections.Counter()
    for s in steps:
        if s["tactic"].split(".")[0] in ("node", "ref"):
            plain[f"{s['op']} {s['tactic']}"] += s["ms"] / total
    return {k: round(v, 4) for k, v in plain.most_common(6)}


def measure(a, name):
    folder = os.path.join(a.folder, name)
    file = lambda f: os.path.join(folder, f)
    row = {"name": name, "ms": {}, "plain": {}, "errors": {}}
    data = dict(np.load(file("data.npz")))
    feed = {k: np.ascontiguousarray(v[3:4] if a.batch == 1 else v[:a.batch]) for k, v in data.items()}
    q = Qbench(a.qbench, folder, a.threads, feed)
    peers = {}
    for form in a.forms:
        try:
            if form == "int8" and not os.path.exists(file("model.calib.h5")):
                q.call("calibrate", "--model", "model.onnx", "--data", "data.npz", "--method", "minmax", "-q")
            if form in STATIC and not os.path.exists(file(file_of(form))):
                write_static(file, data, form)
            if form != "int8":
                peers[form] = sessions(file(file_of(form)), a, feed)
            if form == "fp32":
                expected = peers[form]["onnxruntime"](feed)
            got, steps = q.outputs(form, feed)
            row["plain"][form] = plain_of(steps)
            row[form + "_quality"] = error(expected, got) if form == "fp32" else sqnr(expected, got)
            if form == "fp32" and row["fp32_quality"] > 1e-4:
                row["fp32_peer_quality"] = error(expected, [np.asarray(o) for o in plain_outputs(file("model.onnx"), feed)])
            if form in STATIC:
                peer = [np.asarray(o) for o in peers[form]["onnxruntime"](feed)]
                row[form + "_peer_quality"], row[form + "_agreement"] = sqnr(expected, peer), sqnr(peer, got)
        except Exception as e:
            row["errors"][form] = str(e).strip()[-300:]
    best = collections.defaultdict(lambda: float("inf"))
    for _ in range(a.turns):
        for form in a.forms:
            if form in row["plain"]:
                best[form] = min(best[form], q.turn(form, a.seconds))
            for peer, call in peers.get(form, {}).items():
                key = f"{peer} {form}"
                best[key] = min(best[key], best_of(call, feed, a.seconds))
    row["ms"] = {k: round(v, 4) for k, v in best.items()}
    return row


def measured(a, name):
    """The row of a network, in a process of its own: peers crash, too."""
    try:
        r = subprocess.run([sys.executable, "-W", "ignore", __file__, "row", a.folder, name, "--qbench", a.qbench, "--threads",
                            str(a.threads), "--turns", str(a.turns), "--seconds", str(a.seconds), "--batch", str(a.batch),
                            "--forms", *a.forms, *(["--no-openvino"] if a.no_openvino else [])],
                           capture_output=True, text=True, timeout=1200)
    except subprocess.TimeoutExpired:
        return {"name": name, "ms": {}, "plain": {}, "errors": {"all": "too slow"}}
    if r.returncode < 0 and (not a.no_openvino or set(a.forms) & set(STATIC)):
        forms = [f for f in a.forms if not a.no_openvino or f not in STATIC]
        print(f"  {name}: a peer ended with signal {-r.returncode}; once more without OpenVINO or its file", file=sys.stderr)
        return measured(argparse.Namespace(**{**vars(a), "no_openvino": True, "forms": forms}), name)
    if r.returncode:
        return {"name": name, "ms": {}, "plain": {}, "errors": {"all": r.stderr.strip()[-300:]}}
    return json.loads(r.stdout.splitlines()[-1])


def run(a):
    rows = {r["name"]: r for r in (json.load(open(a.rows))["rows"] if os.path.exists(a.rows) else [])}
    for name in a.names or sorted(os.listdir(a.folder)):
        if name in rows and not a.again or not os.path.exists(os.path.join(a.folder, name, "data.npz")):
            continue
        rows[name] = measured(a, name)
        with open(a.rows + ".new", "w") as f:
            json.dump({"threads": a.threads, "turns": a.turns, "seconds": a.seconds, "batch": a.batch,
                       "rows": list(rows.values())}, f, indent=1)
        os.replace(a.rows + ".new", a.rows)
        print(name, rows[name]["ms"], rows[name]["errors"] or "", flush=True)


# ---- reporting

def ratio(row, form):
    """qbench's time over that of the best peer on the same precision."""
    ms = row["ms"]
    peers = [v for k, v in ms.items() if k.endswith(" fp32" if form == "fp32" else " qdq")]
    return ms[form] / min(peers) if form in ms and peers else None


def table(record):
    rows = record["rows"]
    cell = lambda v, f="{:.2f}": "-" if v is None else f.format(v)
    lines = ["| network | FP32 ms | over peer | own INT8 ms | over peer | Q/DQ ms | over peer | error | plain steps (share of time) |",
             "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"]
    worst = lambda r: -max([ratio(r, f) or 0 for f in FORMS])
    for r in sorted(rows, key=worst):
        plain = {}
        for form in FORMS:
            for k, v in r["plain"].get(form, {}).items():
                plain[k] = max(plain.get(k, 0), v)
        plain = ", ".join(f"{k} {100 * v:.0f} %" for k, v in sorted(plain.items(), key=lambda x: -x[1])[:3] if v >= 0.01)
        forms = " | ".join(f"{cell(r['ms'].get(f))} | {cell(ratio(r, f))}" for f in FORMS)
        lines.append(f"| {r['name']} | {forms} | {cell(r.get('fp32_quality'), '{:.0e}')} | "
                     f"{plain}{'; '.join([''] + [k + ': ' + v[:60] for k, v in r['errors'].items()])} |")
    lines.append("")
    for form in FORMS:
        v = sorted(x for x in (ratio(r, form) for r in rows) if x)
        if v:
            lines.append(f"- {form}: {len(v)} networks, over the best peer: median {np.median(v):.2f}, "
                         f"nine in ten below {np.percentile(v, 90):.2f}, worst {v[-1]:.2f}")
    return "\n".join(lines)


def regressions(record, old, limit):
    """Networks that lost ground against their peers, and those that have plain steps now."""
    before, found = {r["name"]: r for r in old["rows"]}, []
    for r in record["rows"]:
        was = before.get(r["name"])
        for form in FORMS if was else ():
            now, then = ratio(r, form), ratio(was, form)
            if now and then and now > then * limit:
                found.append(f"{r['name']} {form}: {now:.2f} of the best peer's time, {then:.2f} before")
            more = sum(r["plain"].get(form, {}).values()) - sum(was["plain"].get(form, {}).values())
            if more > 0.02:
                found.append(f"{r['name']} {form}: plain steps take {100 * more:.0f} % more of the time: "
                             + ", ".join(r["plain"][form]))
            if form in r["errors"] and form not in was["errors"]:
                found.append(f"{r['name']} {form}: {r['errors'][form]}")
    return found


def report(a):
    record = json.load(open(a.rows))
    text = table(record)
    print(text)
    if a.markdown:
        with open(a.markdown) as f:
            head = f.read().split("<!-- table -->")[0]
        with open(a.markdown, "w") as f:
            f.write(f"{head}<!-- table -->\n\n{text}\n")
    if a.against:
        lost = regressions(record, json.load(open(a.against)), a.limit)
        print("\n".join(["", *lost]) if lost else "\nno regressions")
        return bool(lost)
    return False


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = p.add_subparsers(dest="verb", required=True)
    v = verbs.add_parser("export")
    v.add_argument("folder", type=os.path.abspath)
    v.add_argument("names", nargs="*")
    v.add_argument("--again", action="store_true", help="also networks that are there")
    v.add_argument("--timeout", type=float, default=300, help="seconds for a network")
    for verb in ("run", "row"):  # a row is what run starts for each network
        v = verbs.add_parser(verb)
        v.add_argument("folder", type=os.path.abspath)
        v.add_argument("names", nargs="*")
        v.add_argument("--qbench", default="qbench")
        v.add_argument("--threads", type=int, default=2)
        v.add_argument("--batch", type=int, default=1)
        v.add_argument("--turns", type=int, default=3)
        v.add_argument("--seconds", type=float, default=0.3, help="of a turn")
        v.add_argument("--forms", nargs="+", default=FORMS, choices=(*FORMS, *list(STATIC)[1:]))
        v.add_argument("--no-openvino", action="store_true")
        v.add_argument("--rows", default="rows.json")
        v.add_argument("--again", action="store_true", help="also networks that have a row")
    v = verbs.add_parser("report")
    v.add_argument("rows")
    v.add_argument("--against", help="rows of another build: exit 1 where this one lost ground")
    v.add_argument("--limit", type=float, default=1.25, help="times its former ratio")
    v.add_argument("--markdown", help="page whose table is written anew")
    a = p.parse_args()
    if a.verb == "row":
        return print(json.dumps(measure(a, a.names[0])))
    if a.verb == "report":
        return sys.exit(report(a))
    return export(a) if a.verb == "export" else run(a)


if __name__ == "__main__":
    main()
