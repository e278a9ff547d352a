#!/usr/bin/env bash
# ctest-timeout: 300, ctest-cost: 20, ctest-labels: slow
# A comparison in parts is that of one machine, byte for byte but for latency; parts of something
# else are refused by name.
. "$1/tests/support/cli.sh"

# What parts make: all but times, when and how it was made, and what times give rise to.
cat >strip.py <<'PY'
import json, sys
d = json.load(open(sys.argv[1]))
for key in ("made", "command", "disturbance"):
    d.pop(key, None)
latency = ("contention", "unstable", "few-runs", "single-runs", "int8-slower", "no-kernel")
d["warnings"] = [w for w in d.get("warnings", []) if w["name"] not in latency]
for row in d["rows"]:
    for key in ("latency_ms", "throughput", "speedup", "speedup_minima", "time", "steps", "batches"):
        row.pop(key, None)
print(json.dumps(d, indent=1))
PY
same_record() { # A.json B.json
    python3 strip.py "$1" >a.stripped && python3 strip.py "$2" >b.stripped
    same_bytes a.stripped b.stripped
}

demo 5 20
cd demo
mv ../strip.py .
few="--samples 50 --duration 0.02 --no-figures --data test --thumbnails 16"
expect 0 "$QBENCH" compare fp32 int8 $few -o whole.json
for i in 3 1 2; do
    expect 0 "$QBENCH" compare fp32 int8 $few --shard $i/3 -o part_$i.json
    says "^part_$i.json: part $i/3, 1[67] samples$"
done
expect 0 "$QBENCH" merge part_*.json --no-figures -o merged.json
says '^fp32 '
same_record whole.json merged.json
expect 0 "$QBENCH" merge part_2.json part_3.json part_1.json --no-figures -o other.json
same_record whole.json other.json

# What does not belong together.
expect 1 "$QBENCH" merge part_1.json part_3.json
complains 'part 2/3 is missing'
expect 1 "$QBENCH" merge part_1.json part_2.json part_2.json part_3.json
complains 'part_2.json and part_2.json are both part 2/3'
expect 0 "$QBENCH" compare fp32 int8 ${few/50/49} --shard 2/3 -o data.json
expect 1 "$QBENCH" merge part_1.json data.json part_3.json
complains 'part_1.json and data.json differ in data: 50 samples [0-9a-f]+, and 49 samples'
expect 0 "$QBENCH" compare fp32 int8:minmax $few --shard 2/3 -o rows.json
expect 1 "$QBENCH" merge part_1.json rows.json part_3.json
complains 'differ in rows: fp32, int8 [0-9a-f]+, and fp32, int8:minmax'
expect 0 "$QBENCH" compare fp32 int8 $few --per-tensor-weights --shard 2/3 -o options.json
expect 1 "$QBENCH" merge part_1.json options.json part_3.json
complains 'differ in options: '
sed 's/"version": "[^"]*"/"version": "0.0.1"/' part_2.json >version.json
expect 1 "$QBENCH" merge part_1.json version.json part_3.json
complains 'differ in version: .*, and 0.0.1'
sed 's/"model": "model.onnx [0-9a-f]*"/"model": "other.onnx 12"/' part_2.json >renamed.json
expect 1 "$QBENCH" merge part_1.json renamed.json part_3.json
complains 'differ in model: .*, and other.onnx 12'
python3 - <<'PY'
import base64, json
part = json.load(open("part_2.json"))
results = bytearray(base64.b64decode(part["results"]))
results[-5] ^= 1
part["results"] = base64.b64encode(results).decode()
json.dump(part, open("flipped.json", "w"))
PY
expect 1 "$QBENCH" merge part_1.json flipped.json part_3.json
complains 'flipped.json: results: damaged: they have not the hash'
cp part_1.json kept.json
expect 2 "$QBENCH" merge part_1.json part_2.json part_3.json -o part_1.json
complains '-o part_1.json: would replace part_1.json'
same_bytes kept.json part_1.json
expect 1 "$QBENCH" merge whole.json
complains 'whole.json: schema: expected qbench.part/1'
sed 's/\("results": "[^"]\{4000\}\)[^"]*/\1/' part_2.json >cut.json
expect 1 "$QBENCH" merge part_1.json cut.json part_3.json
complains 'cut.json: results: damaged'
expect 1 "$QBENCH" compare fp32 int8 --data test --samples 2 --shard 1/3
complains '3 parts of 2 samples: a part would be empty'
expect 2 "$QBENCH" compare fp32 int8 $few --shard 4/3
complains 'shard 4/3: expected I/N'
expect 2 "$QBENCH" compare fp32 int8 $few --shard 1/3 --layers
complains 'layers is measured on one machine'

# Ranges of the same samples, prepared otherwise.
mkdir bgr && cp model.onnx bgr && sed 's/"RGB"/"BGR"/' model.json >bgr/model.json
expect 0 "$QBENCH" calibrate bgr/model.onnx --data calib -o bgr
cp model.json bgr
(cd bgr && expect 0 "$QBENCH" compare fp32 int8 --samples 50 --duration 0.02 --no-figures --data ../test --thumbnails 16 --shard 2/3 -o part_2.json)
expect 1 "$QBENCH" merge part_1.json bgr/part_2.json part_3.json
complains 'differ in rows: fp32, int8 [0-9a-f]+, and fp32, int8 [0-9a-f]+'

# What only the samples of all parts tell: copies, the calibration's samples, an engine file's set,
# folders that are not the model's classes.
mkdir -p mixed own/more
cp -r test/circle test/cross mixed
cp calib/circle/0000.png mixed/circle/z0.png
cp calib/circle/0001.png mixed/cross/z1.png
cp test/circle/0000.png mixed/cross/z2.png
cp model.onnx model.calib.h5 own
python3 -c 'import json
d = json.load(open("model.json"))
del d["labels"]
json.dump(d, open("own/model.json", "w"))'
few="--duration 0.02 --no-figures --thumbnails 16"
expect 0 "$QBENCH" build --precision int8 -o calibrated.qbe
same_warnings() { # DATA MODEL ROW
    expect 0 "$QBENCH" compare fp32 $3 $few --data $1 --model $2 -o whole.json
    for i in 1 2 3; do
        expect 0 "$QBENCH" compare fp32 $3 $few --data $1 --model $2 --shard $i/3 -o part_$i.json
    done
    expect 0 "$QBENCH" merge part_*.json --no-figures -o merged.json
    same_record whole.json merged.json
}
same_warnings mixed own/model.onnx int8
for said in '2 of 43 samples are among those that the ranges were chosen on' '1 of 43 samples are copies' \
    '2 folders, 10 outputs of the model'; do
    checks=$((checks + 1))
    grep -q "$said" merged.json || fail "merged.json lacks: $said"
done
expect 3 "$QBENCH" gate merged.json --max-drop 100 --allow class-numbers --allow chance
says 'allow calibration-data'
same_warnings calib model.onnx calibrated.qbe
expect 3 "$QBENCH" gate merged.json --max-drop 100
says 'calibrated.qbe: scored on calib, the samples that its ranges were chosen on'
few="--samples 50 --duration 0.02 --no-figures --data test --thumbnails 16"
for damage in 'd["calibrated"] = ""' 'd["calibrated"] = []' 'd["calibrated"].pop()' 'd["calibrated"][0] = "x"'; do
    python3 -c 'import json, sys
d = json.load(open("part_1.json"))
exec(sys.argv[1])
json.dump(d, open("odd.json", "w"))' "$damage"
    expect 1 "$QBENCH" merge odd.json part_2.json part_3.json
    complains 'odd.json: calibrated: expected '
done

if [ -e "$QB_BUILD/qbench_mpi.so" ] && command -v mpirun >/dev/null; then
    expect 0 env ASAN_OPTIONS=detect_leaks=0 mpirun --allow-run-as-root --oversubscribe -n 3 \
        "$QBENCH" compare fp32 int8 $few -o ranks.json --threads 1
    says '^int8 '
    expect 0 "$QBENCH" compare fp32 int8 $few -o one.json --threads 1
    same_record one.json ranks.json
fi
cd ..

# Detectors, segmentation, several labels: their tasks' scores and intervals too.
sample=$QB_SHARED/tasks/coco-sample models=$QB_SHARED/tasks/models
if [ -e "$models/FastestDet.onnx" ]; then
    cp demo/strip.py "$models"/FastestDet.onnx "$models"/FastestDet.json .
    cp "$models"/selfie_segmentation.onnx "$models"/selfie_segmentation.json .
    few="--samples 12 --duration 0.02 --no-figures --data $sample/instances_val.json"
    for model in FastestDet selfie_segmentation; do
        expect 0 "$QBENCH" compare fp32 bf16 --model $model.onnx $few -o whole.json
        for i in 1 2; do
            expect 0 "$QBENCH" compare fp32 bf16 --model $model.onnx $few --shard $i/2 -o part_$i.json
        done
        expect 0 "$QBENCH" merge part_1.json part_2.json --no-figures -o merged.json
        says '^fp32 +[0-9.]+ +[0-9.]+ to [0-9.]+ '
        same_record whole.json merged.json
    done
fi
done_testing
