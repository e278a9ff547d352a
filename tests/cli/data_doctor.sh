#!/usr/bin/env bash
# `qbench data doctor`: a clean set is clean, and each planted fault is found.
# ctest-cost: 70, ctest-labels: slow
. "$1/tests/support/cli.sh"

expect 0 "$QBENCH" demo -o demo --test-images 20 --calibration-images 20
cd demo || exit 1
expect 0 "$QBENCH" data doctor calib --evaluation test
says '^good  samples +calib: 200 samples \(class_folder\), all readable$'
says '^good  duplicates calibration and evaluation share no sample$'
says '^good  blank +test: every image shows something$'
says '^good  classes +calib: samples in 10 of 10 classes, 20 in each$'
says '^good  ranges +200 samples, drawn again in 10 shards: the range from minimum to maximum moves by more than 20 % in [0-7] of [0-9]+ tensors$'
says '^good  drift +samples of both sets reach alike in ([0-9]+) of \1 tensors \(100 and 100 samples\)$'
says '^good  preprocess FP32 top-1 is 9[0-9.]+ % on 200 samples; '
grep -Eq '^(note|bad)' "$work/.out" && fail "a clean set has findings"

# Before there is a calibration some samples are run for that; calibrate and `calib show` tell the
# same of theirs. Nine are too few to tell; the demo's drawings are so alike that ten would do.
rm model.calib.h5
expect 0 "$QBENCH" data doctor calib
says '^good  ranges +200 samples, drawn again'
expect 0 "$QBENCH" calibrate --data calib
grep -Eq '^(good|note|bad)' "$work/.out" && fail "calibrate tells what is good, or finds faults"
expect 0 "$QBENCH" calibrate --data calib --samples 9 -o few.calib.h5
says '^note  ranges +9 samples are too few to tell whether ranges hold$'
says '-> add samples, or choose a method that clips'
expect 0 "$QBENCH" calib show few.calib.h5
says '^good  duplicates no sample is there twice$'
says '^note  ranges +9 samples are too few to tell'
expect 0 "$QBENCH" calib show few.calib.h5 --json -
says '"check": "ranges"'
expect 0 "$QBENCH" calibrate --data calib --samples 10 -o few.calib.h5
expect 0 "$QBENCH" calib show few.calib.h5
says '^good  ranges +10 samples, drawn again in 10 shards: '

# No settings: the same from qbench.yaml, and as JSON.
cat >qbench.yaml <<'YAML'
model: model.onnx
data:
  calibration: calib
  evaluation: test
YAML
expect 0 "$QBENCH" data doctor --json -
says '"schema": "qbench.data-doctor/1"'
says '"check": "duplicates"'
grep -q '"kind": "bad"' "$work/.out" && fail "a clean set is bad in JSON"

# calibrate --doctor says the same first and keeps it, also where other methods are chosen later.
# An earlier calibration, here of few samples, is not asked.
expect 0 "$QBENCH" data doctor
cp "$work/.out" findings
expect 0 "$QBENCH" calibrate --doctor -o kept.calib.h5
mv kept.calib.h5 first.calib.h5
expect 0 "$QBENCH" calibrate --samples 9
expect 0 "$QBENCH" calibrate --doctor -o kept.calib.h5
same_bytes first.calib.h5 kept.calib.h5
rm first.calib.h5 model.calib.h5
head -n "$(wc -l <findings)" "$work/.out" >first
same_bytes findings first
expect 0 "$QBENCH" calibrate --from kept.calib.h5 --method mse -o kept.calib.h5
expect 0 "$QBENCH" calib show kept.calib.h5
says '^before the run:$'
sed -n '/^before the run:/,/^in the run:/p' "$work/.out" | sed '1d;$d' >first
same_bytes findings first
expect 0 "$QBENCH" calib show kept.calib.h5 --json -
says '"check": "preprocess"'
expect 0 "$QBENCH" calib show few.calib.h5 --json -
says '"doctor": null'
expect 2 "$QBENCH" calibrate --from kept.calib.h5 --method mse --doctor
rm kept.calib.h5 few.calib.h5 findings first

# Copies, under the right label and under another one; a sample of the other set.
cp calib/circle/0003.png calib/circle/copy.png
expect 0 "$QBENCH" data doctor
says '^note  duplicates calib: 1 samples are copies of others: circle/0003.png = circle/copy.png$'
mv calib/circle/copy.png calib/ring/copy.png
expect 3 "$QBENCH" data doctor
says '^bad   duplicates calib: 1 samples are there under two labels: circle/0003.png = ring/copy.png$'
mv calib/ring/copy.png test/circle/copy.png
expect 3 "$QBENCH" data doctor
says '^bad   duplicates 1 of 201 evaluation samples are calibration samples too: circle/copy.png$'
complains '1 check is bad'
expect 0 "$QBENCH" data doctor -e calib # one and the same set shares nothing with itself
grep -q 'score flatters' "$work/.out" && fail 'a set that was asked for is complained of'
sed 's/evaluation: test/evaluation: calib/' qbench.yaml >one.yaml
expect 0 "$QBENCH" data doctor --config one.yaml
says '^note  duplicates ./calib is calibration and evaluation data: the score flatters$'
expect 0 "$QBENCH" compare fp32 --config one.yaml --samples 20 --duration 0.01 --no-figures
complains 'scoring on ./calib, the calibration data: give --data for a held-out set'
rm test/circle/copy.png

black_image calib/heart/black.png
expect 0 "$QBENCH" data doctor
says '^note  blank +calib: 1 of 201 images are of one colour or near-black: heart/black.png$'
expect 0 "$QBENCH" calibrate --data calib -o few.calib.h5 --json -
says '"text": "1 of 201 images are of one colour or near-black'
for i in 1 2 3; do cp calib/heart/black.png "calib/heart/black$i.png"; done
expect 3 "$QBENCH" data doctor
says '^bad   blank +calib: 4 of 204 images .*: heart/black.png, heart/black1.png, heart/black2.png \.\.\.$'
expect 0 "$QBENCH" calibrate --data calib -o few.calib.h5
says '^note  duplicates 3 of 204 samples are copies of others '
says '^note  blank +4 of 204 images are of one colour or near-black '
rm calib/heart/black*.png few.calib.h5

# A damaged image; a class that was forgotten.
head -c 200 calib/star/0000.png >calib/star/half.png
expect 3 "$QBENCH" data doctor
says '^bad   samples +calib: 1 of 201 samples cannot be read: star/half.png$'
expect 0 "$QBENCH" calibrate --data calib -o few.calib.h5
says '^note  samples +1 of 201 samples could not be read$'
rm few.calib.h5
rm calib/star/half.png
mv calib/spiral .
expect 3 "$QBENCH" data doctor
says '^bad   classes +calib: 1 of 10 classes have no sample: spiral$'
mv spiral calib/
mkdir few && cp -r calib/star calib/ring few && rm few/star/00[01]*.png && cp calib/star/0000.png few/star
expect 0 "$QBENCH" data doctor few
says '^note  classes +few: samples in 2 of 10 classes, from 1 \(star\) to 20 \(ring\)$'
mv few ..

# Classes that only a file of labels could tell, and it is not there: compare refuses to score, too.
mkdir ../lost && cp model.onnx ../lost/ && tr -d '\n' <model.json |
    sed 's/"labels": *\[[^]]*\]/"labels": "gone.txt"/' >../lost/model.json
expect 3 "$QBENCH" data doctor calib --model ../lost/model.onnx --config ''
says '^bad   classes +calib: ../lost/gone.txt, which the model.s sidecar names for its labels, does not exist: '
says '-> put it there, or name a file: --labels$'
grep -Eq 'preprocess|classes, ' "$work/.out" && fail 'classes without labels are counted or scored'

# Labels that are not the model's: every image is under the next class.
mkdir ../turned && classes=(calib/*/) && for i in "${!classes[@]}"; do
    cp -r "${classes[i]}" "../turned/$(basename "${classes[(i + 1) % ${#classes[@]}]}")"
done
expect 3 "$QBENCH" data doctor ../turned --model model.onnx --config ''
says '^bad   preprocess FP32 top-1 is 0.0 % on 200 samples: no better than guessing among 10 classes, however prepared$'

# Wrong mean and std: as if pixels were in 0..1, and none at all.
cp qbench.yaml ../plain.yaml
printf 'preprocess:\n  mean: 0.502\n  std: 0.251\n' >>qbench.yaml
expect 3 "$QBENCH" data doctor
says '^bad   preprocess (mean and std times 255|ImageNet.s mean and std): FP32 top-1 9[0-9.]+ % on 200 samples, as configured [67][0-9.]+ %$'
says '-> check preprocess.mean'
sed 's/mean: .*/crop: 16/; /std:/d' qbench.yaml >crop.yaml # does not fit the model
expect 3 "$QBENCH" data doctor --config crop.yaml
says '^bad   preprocess the samples cannot be scored: .*16'
cp ../plain.yaml qbench.yaml
expect 1 "$QBENCH" data doctor --model missing.onnx
expect 1 "$QBENCH" data doctor missing
cd "$work" || exit 1
expect 2 "$QBENCH" data doctor --model demo/model.onnx
complains 'no data to look at'

# Tensors: what makes sense of them.
mkdir -p raw && head -c 64 /dev/zero >raw/a.bin && cp raw/a.bin raw/b.bin && head -c 32 /dev/zero >raw/c.bin
expect 0 "$QBENCH" data doctor raw --model demo/model.onnx
says '^note  duplicates raw: 1 samples are copies of others: a.bin = b.bin$'
says '^note  shapes +raw: 1 of 3 samples differ in types or shapes from a.bin: c.bin$'

# Wrong colour order: a model that tells red, green and blue images by their mean colour, trained on
# RGB (the demo's drawings have the same shapes in any colour).
command -v python3 >/dev/null || { done_testing; exit; }
expect 0 python3 - <<'PY'
import os, random, struct, zlib

def png(pixels, side):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + pixels[i * side * 3:(i + 1) * side * 3] for i in range(side))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))

def field(number, data):  # protobuf: bytes below 128 long, or a small number
    if isinstance(data, int):
        return bytes([number << 3, data])
    data = data.encode() if isinstance(data, str) else data
    assert len(data) < 16384
    size = [len(data)] if len(data) < 128 else [len(data) & 127 | 128, len(data) >> 7]
    return bytes([number << 3 | 2] + size) + data

def value(name, *dims, kind=1):
    shape = b"".join(field(1, field(1, d)) for d in dims)
    return field(1, name) + field(2, field(1, field(1, kind) + field(2, shape)))

def node(op, source, result):
    return field(1, source) + field(2, result) + field(4, op)

graph = (field(1, node("GlobalAveragePool", "image", "mean")) + field(1, node("Flatten", "mean", "scores"))
         + field(2, "colors") + field(11, value("image", 1, 3, 8, 8)) + field(12, value("scores", 1, 3)))
open("colors.onnx", "wb").write(field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 13)))
for kind, name in [(6, "s32"), (9, "bool")]:
    graph = (field(1, node("Flatten", "image", "scores")) + field(2, name)
             + field(11, value("image", 1, 3, 8, 8, kind=kind)) + field(12, value("scores", 1, 112, kind=kind)))
    open(name + ".onnx", "wb").write(field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 13)))
random.seed(1)
for folder, dim in [("colors", 1), ("dim", 6)]:
    for c, name in enumerate(["0red", "1green", "2blue"]):
        os.makedirs(f"{folder}/{name}")
        for i in range(20):
            pixels = bytes((random.randrange(60, 256) if k % 3 == c else random.randrange(140)) // dim
                           for k in range(192))
            open(f"{folder}/{name}/{i}.png", "wb").write(png(pixels, 8))
PY
cat >colors.yaml <<'YAML'
model: colors.onnx
data:
  calibration: colors
preprocess:
  color: RGB
YAML
expect 0 "$QBENCH" data doctor --config colors.yaml
says '^good  preprocess FP32 top-1 is 100.0 % on 60 samples; '
expect 3 "$QBENCH" data doctor --config colors.yaml --evaluation dim
says "^bad   drift +samples of the two sets reach differently in 3 of 3 tensors, most in '"
says '-> calibrate with data like those to evaluate$'
# Data that show a few of the model's classes: what there is to guess among is the model's.
printf '%s\n' colors/0red/*.png | sed 's/$/ 1/' >two.txt
printf '%s\n' colors/1green/*.png | sed 's/$/ 0/' >>two.txt
expect 3 "$QBENCH" data doctor two.txt --config colors.yaml
says '^bad   preprocess FP32 top-1 is 0.0 % on 40 samples: no better than guessing among 3 classes, however prepared$'
printf '%s\n' colors/0red/*.png | sed 's/$/ 0/' >one.txt
expect 0 "$QBENCH" data doctor one.txt --config colors.yaml
says '^good  preprocess FP32 top-1 is 100.0 % on 20 samples; '
sed -i 's/RGB/BGR/' colors.yaml
expect 3 "$QBENCH" data doctor one.txt --config colors.yaml
says '^bad   preprocess RGB input: FP32 top-1 100.0 % on 20 samples, as configured 0.0 %$'
expect 3 "$QBENCH" data doctor --config colors.yaml
says '^bad   preprocess RGB input: FP32 top-1 100.0 % on 60 samples, as configured 33.3 %$'
says '-> write into qbench.yaml: preprocess: \{color: RGB\}$'

# Inputs that images cannot feed, on whatever the model is to run.
for kind in s32 bool; do
    expect 1 "$QBENCH" calibrate --model $kind.onnx --data colors --config ''
    complains "$kind.onnx: input 'image' takes $kind; images feed inputs in f32, f16, bf16, u8 or s8: give tensors"
done
done_testing
