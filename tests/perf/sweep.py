#!/usr/bin/env python3
"""Networks that nobody tuned for, on the processor: qbench beside onnxruntime and OpenVINO.

    sweep.py export FOLDER [NAME...]     architectures with seeded random weights as ONNX
    sweep.py run FOLDER [NAME...] --qbench PROGRAM --rows rows.json
    sweep.py report rows.json [--against OLD.json] [--markdown docs/benchmarks/sweep.md]

Each network has a folder with model.onnx and data.npz (eight samples of each input); others than
those exported here may lie beside them. Engines take turns, a fraction of a second each, and the
best time of each counts, so that what else runs on the machine meets all of them. Three forms are
measured: FP32, qbench's own INT8, and the Q/DQ file of onnxruntime's quantize_static. A step is
plain where its kernel is a scalar loop (ref.*) or the operator's definition (node).

export needs torch, torchvision, timm and transformers; run needs onnx and onnxruntime, and takes
OpenVINO where it is there. Nothing is downloaded.
"""
import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile
import time

import numpy as np

SAMPLES = 8
FORMS = ("fp32", "int8", "qdq")

# ---- architectures: name -> (library, its name, shape of a sample)

IMAGE = (3, 224, 224)
ARCHITECTURES = {n: ("torchvision", n, IMAGE) for n in (
    "resnet18 resnext50_32x4d shufflenet_v2_x1_0 mobilenet_v3_small mobilenet_v3_large mnasnet1_0 regnet_y_400mf "
    "efficientnet_v2_s convnext_tiny swin_t vit_b_32").split()}
ARCHITECTURES.update({n: ("segmentation", n, (3, 256, 256)) for n in
                      "lraspp_mobilenet_v3_large deeplabv3_mobilenet_v3_large fcn_resnet50".split()})
ARCHITECTURES.update({n: ("timm", n, IMAGE) for n in (
    "efficientnet_b0 tinynet_a ghostnet_100 lcnet_100 rexnet_100 hardcorenas_a mobilenetv4_conv_small efficientvit_b0 "
    "fastvit_t8 edgenext_small mobilevit_s efficientformer_l1 levit_128s cait_xxs24_224 mixer_s16_224 resmlp_12_224 "
    "poolformer_s12 pvt_v2_b0 twins_svt_small tiny_vit_5m_224 convnextv2_atto focalnet_tiny_srf res2net50_26w_4s "
    "dla34 hrnet_w18_small cspdarknet53 repvgg_a0 coatnet_0_rw_224").split()})
ARCHITECTURES.update({n: ("transformers", n, (64,)) for n in "bert gpt2 t5 roberta".split()})
ARCHITECTURES.update({n: ("own", n, s) for n, s in dict(
    unet_transposed=(3, 128, 128), unet_resize=(3, 128, 128), style_instance=IMAGE, style_group=IMAGE,
    face_prelu=(3, 112, 112), super_resolution=(1, 128, 128), detector_leaky=(3, 224, 224), lstm=(50, 40), tcn=(40, 300),
    volumes=(1, 16, 48, 48)).items()})


def own(name):
    """Small networks of what the libraries have little of."""
    import torch
    from torch import nn
    conv = lambda i, o, k=3, s=1: nn.Conv2d(i, o, k, s, k // 2)
    norm = {"style_instance": lambda c: nn.InstanceNorm2d(c, affine=True), "style_group": lambda c: nn.GroupNorm(8, c)}

    class Lstm(nn.Module):
        def __init__(self):
            super().__init__()
            self.cells, self.head = nn.LSTM(40, 64, 2, batch_first=True, bidirectional=True), nn.Linear(128, 10)

        def forward(self, x):
            return self.head(self.cells(x)[0][:, -1])

    if name.startswith("unet"):
        up = (lambda i, o: nn.ConvTranspose2d(i, o, 2, 2)) if name == "unet_transposed" else (
            lambda i, o: nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear"), conv(i, o)))
        layers = [conv(3, 24), nn.ReLU(), conv(24, 48, s=2), nn.ReLU(), conv(48, 96, s=2), nn.ReLU(), up(96, 48), nn.ReLU(),
                  up(48, 24), nn.ReLU(), conv(24, 4)]
    elif name.startswith("style"):
        block = lambda i, o, s=1: [nn.ReflectionPad2d(1), nn.Conv2d(i, o, 3, s), norm[name](o), nn.ReLU()]
        layers = block(3, 32) + block(32, 64, 2) + block(64, 64) + [nn.Upsample(scale_factor=2)] + block(64, 32) + [conv(32, 3)]
    elif name == "face_prelu":
        block = lambda i, o, s: [conv(i, o, s=s), nn.BatchNorm2d(o), nn.PReLU(o)]
        layers = block(3, 32, 2) + block(32, 64, 1) + block(64, 64, 2) + block(64, 128, 2) + [nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    elif name == "super_resolution":
        layers = [conv(1, 32, 5), nn.Tanh(), conv(32, 16), nn.Tanh(), conv(16, 9), nn.PixelShuffle(3)]
    elif name == "detector_leaky":
        layers = []
        for i, o in ((3, 16), (16, 32), (32, 64), (64, 128)):
            layers += [conv(i, o), nn.BatchNorm2d(o), nn.LeakyReLU(0.1), nn.MaxPool2d(2)]
        layers += [nn.Upsample(scale_factor=2), conv(128, 64, 1), nn.Mish(), conv(64, 18, 1)]
    elif name == "tcn":
        layers = []
        for d in (1, 2, 4, 8):
            layers += [nn.Conv1d(40, 40, 3, padding=d, dilation=d, groups=4), nn.GELU(), nn.Conv1d(40, 40, 1)]
    elif name == "volumes":
        layers = [nn.Conv3d(1, 16, 3, 2, 1), nn.ReLU(), nn.Conv3d(16, 32, 3, 1, 1), nn.InstanceNorm3d(32), nn.SiLU(),
                  nn.ConvTranspose3d(32, 8, 2, 2)]
    else:
        return Lstm()
    return nn.Sequential(*layers)


def build(library, name):
    import torch

    class Pick(torch.nn.Module):
        """One tensor of what a model returns."""

        def __init__(self, model, key):
            super().__init__()
            self.model, self.key = model, key

        def forward(self, x):
            return self.model(x)[self.key]

    if library == "torchvision":
        import torchvision
        return torchvision.models.get_model(name, weights=None)
    if library == "segmentation":
        import torchvision
        return Pick(torchvision.models.get_model(name, weights=None, weights_backbone=None), "out")
    if library == "timm":
        import timm
        return timm.create_model(name, pretrained=False, exportable=True)
    if library == "own":
        return own(name)
    import transformers as t
    small = dict(hidden_size=256, num_hidden_layers=3, num_attention_heads=4, intermediate_size=1024, vocab_size=4000,
                 attn_implementation="eager")
    if name == "bert":
        return Pick(t.BertModel(t.BertConfig(**small)), "last_hidden_state")
    if name == "roberta":
        return Pick(t.RobertaModel(t.RobertaConfig(**small)), "last_hidden_state")
    if name == "gpt2":
        return Pick(t.GPT2Model(t.GPT2Config(n_layer=3, n_embd=256, n_head=4, vocab_size=4000, use_cache=False,
                                             attn_implementation="eager")), "last_hidden_state")
    return Pick(t.T5EncoderModel(t.T5Config(num_layers=3, d_model=256, d_ff=1024, num_heads=4, vocab_size=4000)),
                "last_hidden_state")


def samples(shape, rng):
    if len(shape) == 1:
        return rng.integers(0, 4000, (SAMPLES, *shape), dtype=np.int64)
    fine = rng.normal(size=(SAMPLES, *shape)).astype(np.float32)
    for axis in range(2, len(shape) + 1):  # pixels are like their neighbours
        fine = (fine + np.roll(fine, 1, axis) + np.roll(fine, 2, axis) + np.roll(fine, 3, axis)) / 2
    return fine


def export(folder, names):
    import torch
    for name in names or ARCHITECTURES:
        library, own_name, shape = ARCHITECTURES[name]
        to = os.path.join(folder, name)
        os.makedirs(to, exist_ok=True)
        torch.manual_seed(1)
        x = samples(shape, np.random.default_rng(1))
        model = build(library, own_name)
        for m in model.modules():  # statistics of the samples
            if isinstance(m, torch.nn.modules.batchnorm._BatchNorm):
                m.momentum = None
        with torch.no_grad():
            model.train()(torch.from_numpy(x))
        torch.onnx.export(model.eval(), torch.from_numpy(x[:1]), os.path.join(to, "model.onnx"), opset_version=17,
                          input_names=["x"], dynamic_axes={"x": {0: "N"}}, dynamo=False)
        np.savez(os.path.join(to, "data.npz"), x=x)
        print(name, flush=True)


# ---- measuring

class Qbench:
    def __init__(self, program, folder, threads):
        self.program, self.folder, self.threads = program, folder, threads

    def call(self, *arguments):
        r = subprocess.run([self.program, *arguments], cwd=self.folder, capture_output=True, text=True, timeout=600)
        if r.returncode:
            raise RuntimeError(f"{arguments[0]}: {(r.stderr or r.stdout).strip()[-300:]}")
        return r.stdout

    def bench(self, form, *more):
        model = "model.static.onnx" if form == "qdq" else "model.onnx"
        return json.loads(self.call("bench", "--model", model, *(["--int8"] if form == "int8" else []), "--batch", "1",
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


def sessions(path, threads):
    """Peers that take the file: name -> call with a feed."""
    import onnxruntime as ort
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 4
    options.add_session_config_entry("session.force_spinning_stop", "1")  # between turns
    s = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    peers = {"onnxruntime": lambda feed: s.run(None, feed)}
    try:
        import openvino
        core = openvino.Core()
        model = core.read_model(path)
        one = {i: [1, *list(i.partial_shape)[1:]] for i in model.inputs}
        model.reshape(one)
        compiled = core.compile_model(model, "CPU", {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY"})
        request = compiled.create_infer_request()
        peers["openvino"] = lambda feed: request.infer(dict(zip(compiled.inputs, feed.values())))
    except Exception as e:  # it is not there, or does not take the file
        print("  openvino:", str(e).strip().splitlines()[0][:120], file=sys.stderr)
    return peers


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


def write_static(file, data):
    """The Q/DQ file of onnxruntime's tool."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    class Reader(CalibrationDataReader):
        def __init__(self):
            self.left = iter([{k: v[i:i + 1] for k, v in data.items()} for i in range(SAMPLES)])

        def get_next(self):
            return next(self.left, None)

    quantize_static(file("model.onnx"), file("model.static.onnx"), Reader(), quant_format=QuantFormat.QDQ, per_channel=True,
                    activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8)


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
    q, row = Qbench(a.qbench, folder, a.threads), {"name": name, "ms": {}, "plain": {}, "errors": {}}
    data = dict(np.load(file("data.npz")))
    feed = {k: np.ascontiguousarray(v[3:4]) for k, v in data.items()}
    peers = {}
    for form in FORMS:
        try:
            if form == "int8" and not os.path.exists(file("model.calib.h5")):
                q.call("calibrate", "--model", "model.onnx", "--data", "data.npz", "--method", "minmax", "-q")
            if form == "qdq" and not os.path.exists(file("model.static.onnx")):
                write_static(file, data)
            if form != "int8":
                peers[form] = sessions(file("model.static.onnx" if form == "qdq" else "model.onnx"), a.threads)
            if form == "fp32":
                expected = peers[form]["onnxruntime"](feed)
            got, steps = q.outputs(form, feed)
            row["plain"][form] = plain_of(steps)
            row[form + "_quality"] = error(expected, got) if form == "fp32" else sqnr(expected, got)
            if form == "qdq":
                row["qdq_peer_quality"] = sqnr(expected, [np.asarray(o) for o in peers[form]["onnxruntime"](feed)])
        except Exception as e:
            row["errors"][form] = str(e).strip()[-300:]
    best = collections.defaultdict(lambda: float("inf"))
    for _ in range(a.turns):
        for form in FORMS:
            if form in row["plain"]:
                best[form] = min(best[form], q.turn(form, a.seconds))
            for peer, call in peers.get(form, {}).items():
                key = f"{peer} {form}"
                best[key] = min(best[key], best_of(call, feed, a.seconds))
    row["ms"] = {k: round(v, 4) for k, v in best.items()}
    return row


def run(a):
    rows = {r["name"]: r for r in (json.load(open(a.rows))["rows"] if os.path.exists(a.rows) else [])}
    for name in a.names or sorted(os.listdir(a.folder)):
        if name in rows and not a.again or not os.path.exists(os.path.join(a.folder, name, "data.npz")):
            continue
        rows[name] = measure(a, name)
        with open(a.rows + ".new", "w") as f:
            json.dump({"threads": a.threads, "turns": a.turns, "seconds": a.seconds, "rows": list(rows.values())}, f, indent=1)
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
    for verb in ("export", "run"):
        v = verbs.add_parser(verb)
        v.add_argument("folder")
        v.add_argument("names", nargs="*")
    v.add_argument("--qbench", default="qbench")
    v.add_argument("--rows", default="rows.json")
    v.add_argument("--threads", type=int, default=2)
    v.add_argument("--turns", type=int, default=3)
    v.add_argument("--seconds", type=float, default=0.3, help="of a turn")
    v.add_argument("--again", action="store_true", help="also networks that have a row")
    v = verbs.add_parser("report")
    v.add_argument("rows")
    v.add_argument("--against", help="rows of another build: exit 1 where this one lost ground")
    v.add_argument("--limit", type=float, default=1.25, help="times its former ratio")
    v.add_argument("--markdown", help="page whose table is written anew")
    a = p.parse_args()
    if a.verb == "export":
        return export(a.folder, a.names)
    return sys.exit(report(a)) if a.verb == "report" else run(a)


if __name__ == "__main__":
    main()
