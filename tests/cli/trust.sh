#!/usr/bin/env bash
# Numbers that mean nothing are no verdict: a reference at chance, the calibration data as evaluation
# data, a row against itself, a short measurement in the place of a long one.
# ctest-timeout: 200, ctest-cost: 20, ctest-labels: plain
. "$1/tests/support/cli.sh"
unset GITHUB_ACTIONS

demo 5 20
cd demo || exit 1
cp compare.json wide.json

# Every image under the next class's name: FP32 is right no more often than by guessing.
mkdir ../turned && classes=(test/*/) && for i in "${!classes[@]}"; do
    cp -r "${classes[i]}" "../turned/$(basename "${classes[(i + 1) % ${#classes[@]}]}")"
done
expect 0 "$QBENCH" compare fp32 int8 --data ../turned --duration 0.05 -o turned.json --no-figures
says '^warning: fp32: top-1 [0-9.]+ % over 10 classes is no more than chance'
grep -q '"name": "chance"' turned.json || fail 'the record does not carry its warning'
grep -q '"touches": "accuracy"' turned.json || fail 'the warning does not say what it touches'
for limit in '--max-drop 1' --mlperf '--min-agreement 1' '--min-top1 0' '--min-sqnr 1' '--min top5=0'; do
    # shellcheck disable=SC2086
    expect 3 "$QBENCH" gate turned.json $limit
    says '^BLOCKED int8 .*no more than chance.*\(--allow chance\)$'
    says '^BLOCKED: 1 of 1 checks did not hold; int8 .*: a warning touches it \(--allow chance\)$'
done
expect 3 "$QBENCH" gate turned.json --max-drop 1 --junit gate.xml --github --json gate.json
says '^::warning title=qbench gate::fp32: top-1 '
grep -Eq '^ *(<system-out>)?warning: fp32: top-1 ' gate.xml || fail 'JUnit lacks the warning'
grep -q '"blocked": "chance"' gate.json || fail 'gate.json does not say what blocked'
grep -q '"name": "chance"' gate.json || fail 'gate.json lacks the warnings'
expect 0 "$QBENCH" report turned.json --format md
says '^> \*\*Warning:\*\* fp32: top-1'
# what is not about accuracy is judged, and so is all of it where the user says so
expect 0 "$QBENCH" gate turned.json --max-engine-size 64 --min-samples 10
expect 0 "$QBENCH" gate turned.json --max-drop 60 --allow chance
expect 2 "$QBENCH" gate turned.json --max-drop 60 --allow chances
complains "chance"
printf 'gate:\n  max_drop: 60\n  allow: [chance]\n' >policy.yaml
expect 0 "$QBENCH" gate turned.json --config policy.yaml
expect 3 "$QBENCH" data doctor ../turned --model model.onnx
says '^bad   preprocess FP32 top-1 is .*no better than guessing among 10 classes'

# Fewer folders than the model has outputs, and nothing says which is which.
mkdir ../some && cp -r test/star test/ring ../some && mkdir ../bare && cp model.onnx ../bare
expect 3 "$QBENCH" data doctor ../some --model ../bare/model.onnx
says '^bad   classes +../some: 2 folders, 10 outputs of the model'

# Scored on what the ranges were chosen on: by the place, and by the samples themselves.
cp -r calib ../copy
for data in calib ../copy; do
    expect 0 "$QBENCH" compare fp32 int8 --data "$data" --duration 0.05 -o same.json --no-figures
    expect 3 "$QBENCH" gate same.json --max-drop 100
    says '^BLOCKED int8 max-drop: .*\(--allow calibration-data\)$'
    expect 0 "$QBENCH" gate same.json --max-drop 100 --allow calibration-data
done
expect 0 "$QBENCH" gate wide.json --max-drop 100 --precision int8
python3 - <<'END' # the same pixels in other bytes
import os, struct, zlib
for folder, _, files in os.walk("calib"):
    for name in files:
        data, out, packed, at = open(os.path.join(folder, name), "rb").read(), b"", b"", 8
        while at < len(data):
            size, kind = struct.unpack(">I4s", data[at:at + 8])
            if kind == b"IDAT": packed += data[at + 8:at + 8 + size]
            elif kind == b"IHDR": header = data[at:at + 12 + size]
            at += 12 + size
        body = b"IDAT" + zlib.compress(zlib.decompress(packed), 0)
        out = data[:8] + header + struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))
        out += struct.pack(">I4sI", 0, b"IEND", zlib.crc32(b"IEND"))
        os.makedirs("../packed" + folder[5:], exist_ok=True)
        open(os.path.join("../packed" + folder[5:], "x" + name), "wb").write(out)
END
expect 0 "$QBENCH" compare fp32 int8 --data ../packed --duration 0.05 -o same.json --no-figures
expect 3 "$QBENCH" gate same.json --max-drop 100
says '^BLOCKED int8 max-drop: .* samples are among .*\(--allow calibration-data\)$'

# Some of them among others, under other names; and samples that are there twice.
cp -r test ../mixed
for class in calib/*; do cp "$(find "$class" -name '*.png' | sort | head -1)" "../mixed/${class#calib/}/also.png"; done
expect 0 "$QBENCH" compare fp32 int8 --data ../mixed --duration 0.05 -o mixed.json --no-figures
says '^warning: 10 of 210 samples are among those that the ranges were chosen on'
expect 3 "$QBENCH" gate mixed.json --max-drop 100
says '^BLOCKED int8 max-drop: .*10 of 210 samples .*\(--allow calibration-data\)$'
rm ../mixed/{checker,circle,cross,heart,ring,spiral,square,star}/also.png
expect 0 "$QBENCH" compare fp32 int8 --data ../mixed --duration 0.05 -o mixed.json --no-figures
says '^warning: 2 of 202 samples are among'
expect 0 "$QBENCH" gate mixed.json --max-drop 100
cp ../mixed/star/0000.png ../mixed/star/again.png
cp ../mixed/star/0000.png ../mixed/ring/star.png
expect 0 "$QBENCH" compare fp32 int8 --data ../mixed --duration 0.05 -o mixed.json --no-figures
says '^warning: 2 of 204 samples are copies of others'
expect 0 "$QBENCH" gate mixed.json --max-drop 100
cp -r test ../repeated
for class in ../repeated/*; do
    for file in "$class"/*; do for i in 1 2; do cp "$class/0000.png" "${file%.png}-$i.png"; done; done
done
expect 0 "$QBENCH" compare fp32 int8 --data ../repeated --duration 0.05 -o repeated.json --no-figures
expect 3 "$QBENCH" gate repeated.json --max-drop 100
says '^BLOCKED int8 max-drop: .*400 of 600 samples are copies of others.*\(--allow copies\)$'
expect 0 "$QBENCH" gate repeated.json --max-drop 100 --allow copies

# Ranges of images that were prepared otherwise than those that are scored: the calibration, and an
# engine file, which knows by itself.
expect 0 "$QBENCH" build --precision int8 -o before
expect 0 "$QBENCH" inspect before/model.int8.qbe
says '^prepared +RGB, .*mean '
cp model.json right.json
sed -i 's/128\.0/100.0/; s/"RGB"/"BGR"/' model.json
cmp -s model.json right.json && fail 'the sidecar is as before'
expect 0 "$QBENCH" compare fp32 int8 int8:minmax before/model.int8.qbe --data test --duration 0.05 -o other.json --no-figures
says '^warning: int8: its ranges were chosen on images prepared otherwise: .*mean [0-9. ]+, now 100 100 100.*; likewise int8:minmax, model.int8.qbe'
for row in int8 int8:minmax model.int8.qbe; do
    expect 3 "$QBENCH" gate other.json --max-drop 100 --precision "$row" --allow chance
    says "^BLOCKED $row max-drop: .*\(--allow calibration-preprocess\)\$"
done
expect 0 "$QBENCH" gate other.json --max-drop 100 --precision int8 --allow chance --allow calibration-preprocess
expect 3 "$QBENCH" gate other.json --max-drop 100 --github --junit other.xml --allow chance
says '^::warning title=qbench gate::int8: its ranges'
grep -q 'warning: int8: its ranges' other.xml || fail 'JUnit lacks the warning'
expect 0 "$QBENCH" report other.json --format md
says '^> \*\*Warning:\*\* int8: its ranges'
for shard in 1 2; do
    expect 0 "$QBENCH" compare fp32 int8 --data test --duration 0.05 --no-figures --shard $shard/2 -o "other.$shard.json"
done
expect 0 "$QBENCH" merge other.1.json other.2.json -o other.json
expect 3 "$QBENCH" gate other.json --max-drop 100 --allow chance
says 'allow calibration-preprocess'
for command in 'quantize -o other' 'build --precision int8 -o other' 'bench --precision int8 --duration 0 --warmUp 0 --iterations 1'; do
    # shellcheck disable=SC2086
    expect 0 "$QBENCH" $command
    complains 'warning: the ranges were chosen on images prepared otherwise: .*mean [0-9. ]+, now 100 100 100'
done
expect 0 "$QBENCH" calibrate --data calib -o other
expect 0 "$QBENCH" compare fp32 int8 --data test --duration 0.05 -o other --no-figures
grep -q calibration-preprocess other/compare.json && fail 'it is told of what was prepared alike'
mv right.json model.json

# Limits of the row itself.
expect 0 "$QBENCH" gate wide.json --min-top1 50 --min top5=50 --precision int8
says '^PASS int8 min-top1: [0-9.]+ %, limit 50 % '
says '^PASS int8 min of top-5: [0-9.]+ %, limit 50 % '
expect 3 "$QBENCH" gate wide.json --min-top1 100 --precision int8:minmax+s8-symmetric+per-tensor
expect 2 "$QBENCH" gate wide.json --min ap=1
complains 'ap'
expect 2 "$QBENCH" gate wide.json --min top5
complains 'METRIC=V'

# One precision alone has nothing to be measured against; a narrower record keeps the wider one.
rm -f compare.*.json
expect 0 "$QBENCH" compare int8 --data test --duration 0.05 --no-figures
says '^fp32 '
complains 'int8 alone: fp32 is added'
complains 'kept the record of other rows as compare.1.json'
grep -q 's8-symmetric' compare.1.json || fail 'compare.1.json is not the wider record'
expect 0 "$QBENCH" compare fp32 int8 --data test --duration 0.05 --no-figures
absent compare.2.json
cp wide.json compare.json
expect 0 "$QBENCH" compare fp32 --data test --duration 0.05 --no-figures
[ -s compare.2.json ] || fail 'the second record is not kept'

# One set for both: init splits it, calibration and scores share no sample, and the record says so.
mkdir ../one && cp model.onnx model.json ../one && cp -r test ../one/all && cd ../one || exit 1
expect 0 "$QBENCH" init --model model.onnx --data all
complains 'no --evaluation: 50 % of all, drawn with seed 1, are for calibration'
grep -q '^  split: 50 ' qbench.yaml || fail 'qbench.yaml says nothing of a split'
expect 0 "$QBENCH" calibrate
says ' 100 samples, entropy'
expect 0 "$QBENCH" calib show model.calib.h5
says 'all \[50 % by seed 1\]'
expect 0 "$QBENCH" compare --duration 0.05 --no-figures
says ': 100 samples, the 50 % that a draw with seed 1 held out from calibration$'
grep -q '"part": "the 50 % that a draw' compare.json || fail 'the record does not name the part'
grep -q '"plan": "[0-9a-f]*"' compare.json || fail 'rows do not name their plan'
expect 0 "$QBENCH" gate --max-drop 90
cp compare.json one.json
sed -i 's/split: 50/split: 25/' qbench.yaml
expect 0 "$QBENCH" compare --duration 0.05 --no-figures
says ': 150 samples, the 75 %'
expect 3 "$QBENCH" gate --max-drop 90 # the calibration is that of another part
says 'allow calibration-data'
expect 0 "$QBENCH" calibrate
says ' 50 samples, entropy'
expect 0 "$QBENCH" compare --duration 0.05 --no-figures
expect 0 "$QBENCH" gate --max-drop 90
sed -i 's/split: 25/split: 100/' qbench.yaml
expect 1 "$QBENCH" calibrate
complains 'data.split: expected 0 to 99 percent, got 100'
cd ../demo || exit 1

# migrate leaves what quantize and run made.
expect 0 "$QBENCH" quantize model.onnx
cp model.qdq.onnx mine.onnx
expect 0 "$QBENCH" calib export -m model.onnx --format trt -o old.cache
expect 0 "$QBENCH" migrate model.onnx old.cache
says '^model.trt.qdq.onnx: '
same_bytes mine.onnx model.qdq.onnx
done_testing
