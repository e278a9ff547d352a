#!/usr/bin/env bash
# Writes corpus/part: a whole part of the demo, and what parts of several tasks measured. Needs
# qbench (the first argument) and QB_SHARED.
set -e
corpus=$(cd "$(dirname "$0")" && pwd)/corpus/part
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
common="--duration 0.01 --no-figures --thumbnails 0 --shard 1/1"
results() { python3 -c 'import base64,json,sys
sys.stdout.buffer.write(base64.b64decode(json.load(open(sys.argv[1]))["results"]))' part.json; }
"$1" demo --calibration-images 8 --test-images 8 -o demo >/dev/null
(cd demo && "$1" compare fp32 int8 --data test --samples 3 $common -o ../part.json)
python3 -c 'import json
d = json.load(open("part.json"))
for row in d["record"]["rows"]:
    for key in ("steps", "layer_errors"):
        row.pop(key, None)
    row["latency_ms"].pop("rounds", None)
d["record"]["warnings"] = []
json.dump(d, open("small.json", "w"))'
cp small.json "$corpus/classify.json"
results >"$corpus/classify"
for name in FastestDet selfie_segmentation; do
    cp "$QB_SHARED/tasks/models/$name".{onnx,json} .
    "$1" compare fp32 fp16 --model $name.onnx --data "$QB_SHARED/tasks/coco-sample/instances_val.json" \
        --samples 2 $common -o part.json
    results >"$corpus/$name"
done
