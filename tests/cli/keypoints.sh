#!/usr/bin/env bash
# A pose model whose answer is the same for every image: AP by similarities that are counted here.
. "$1/tests/support/cli.sh"
export PYTHONPATH=$1/tests/support PYTHONDONTWRITEBYTECODE=1

cat >make.py <<'PY'
import json, os, struct, zlib
from protobuf_fields import field

def value(name, dims):
    shape = b"".join(field(1, field(1, d)) for d in dims)
    return field(1, name) + field(2, field(1, field(1, 1) + field(2, shape)))

def tensor(name, dims, values):
    return (b"".join(field(1, d) for d in dims) + field(2, 1) + field(8, name)
            + field(9, struct.pack("<%df" % len(values), *values)))

def node(op, inputs, output):
    return b"".join(field(1, i) for i in inputs) + field(2, output) + field(3, output) + field(4, op)

# Centre, size, score, two points; the second one is suppressed, the third has no score.
rows = [[20, 20, 10, 10, 0.9, 18, 18, 1, 25, 26, 1], [21, 20, 10, 10, 0.8, 0, 0, 1, 0, 0, 1],
        [50, 50, 10, 10, 0.0005, 0, 0, 1, 0, 0, 1]]

def answer(name, dims, values):
    """Nodes and constants of an output that is the same for every image."""
    nodes = (field(1, node("MatMul", ["flat", name + "_zero"], name + "_nothing"))
             + field(1, node("Reshape", [name + "_nothing", name + "_form"], name + "_still"))
             + field(1, node("Add", [name + "_still", name + "_answer"], name)))
    constants = (field(5, tensor(name + "_zero", [3, len(values)], [0.0] * 3 * len(values)))
                 + field(5, tensor(name + "_answer", dims, values))
                 + field(5, field(1, len(dims)) + field(2, 7) + field(8, name + "_form")
                         + field(9, struct.pack("<%dq" % len(dims), *dims))))
    return nodes, constants, field(12, value(name, dims))

def model(path, *outputs):
    parts = [b"".join(part) for part in zip(*(answer(*o) for o in outputs))]
    graph = (field(1, node("GlobalAveragePool", ["image"], "mean")) + field(1, node("Flatten", ["mean"], "flat"))
             + parts[0] + field(2, "pose") + parts[1] + field(11, value("image", [1, 3, 64, 64])) + parts[2])
    open(path, "wb").write(field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 13)))

model("pose.onnx", ("poses", [1, 11, 3], [rows[i][k] for k in range(11) for i in range(3)]))
# Top-down models with the same two points: peaks of maps, and of bins of half a pixel.
def peaks(n, *at):
    return [float(i == a) for a in at for i in range(n)]
model("maps.onnx", ("maps", [1, 2, 64, 64], peaks(64 * 64, 18 * 64 + 18, 26 * 64 + 25)))
model("bins.onnx", ("x", [1, 2, 128], peaks(128, 36, 50)), ("y", [1, 2, 128], peaks(128, 36, 52)))

def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

os.makedirs("images")
for i in range(2):
    pixels = b"".join(b"\0" + bytes((x * 3 + y * i) % 256 for x in range(192)) for y in range(64))
    open("images/%d.png" % i, "wb").write(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 64, 64, 8, 2, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(pixels)) + chunk(b"IEND", b""))
# One point (3, 4) off, similarity 0.941; both off, 0.882.
points = [[18, 18, 2, 22, 22, 2], [15, 14, 2, 22, 22, 2]]
json.dump({"images": [{"id": i, "file_name": "%d.png" % i, "width": 64, "height": 64} for i in range(2)],
           "categories": [{"id": 1, "name": "arrow"}],
           "annotations": [{"id": i, "image_id": i, "category_id": 1, "bbox": [15, 15, 10, 10], "area": 100,
                            "keypoints": points[i], "num_keypoints": 2} for i in range(2)]}, open("gt.json", "w"))
PY
python3 make.py
expect 0 "$QBENCH" init pose.onnx --data gt.json
says '^task keypoints: named points of objects$'
rm qbench.yaml
# Both are found at 0.5 to 0.85, the first alone at 0.9: (8 + 51 / 101) / 10.
expect 0 "$QBENCH" compare fp32 fp32@ref --model pose.onnx --data gt.json --duration 0.01 --no-figures
complains '^task keypoints '
says '^fp32 +85.05 '
expect 0 cat compare.json
says '^ "task": "keypoints",$'
says '^   "ap": 85.0495[0-9]*,$'
says '^   "ap50": 100.0,$'
says '^   "ar20": 85.0,$'
says '^   "point_shift": 0.0'
expect 0 "$QBENCH" gate --max-drop 0.5 --precision fp32@ref --allow contention
says '^PASS fp32@ref max-drop of AP: 0 points'
for model in maps bins; do
    expect 0 "$QBENCH" compare fp32 fp32@ref --model $model.onnx --data gt.json --duration 0.01 --no-figures -o $model.record.json
    complains '^task keypoints '
    says '^fp32 +85.05 '
done
for i in 1 2; do
    expect 0 "$QBENCH" compare fp32 fp32@ref --model pose.onnx --data gt.json --duration 0.01 --shard $i/2
done
expect 0 "$QBENCH" merge part_1.json part_2.json --no-figures
says '^fp32 +85.05 '
if command -v gnuplot >/dev/null; then
    expect 0 "$QBENCH" report -o page.html
fi
sed 's/"keypoints": \[[^]]*\], //g' gt.json >none.json
expect 1 "$QBENCH" compare fp32 --model pose.onnx --data none.json --task keypoints --images images
complains "task keypoints: expected COCO's ground truth with keypoints"
done_testing
