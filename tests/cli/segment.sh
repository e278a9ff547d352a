#!/usr/bin/env bash
# ctest-timeout: 400, ctest-labels: plain
# ctest-cost: 40
# A real segmentation network on COCO images: FP32 has the reference's mIoU; masks from files.
. "$1/tests/support/cli.sh"

sample=$QB_SHARED/tasks/coco-sample models=$QB_SHARED/tasks/models
[ -d "$sample" ] && [ -e "$models/selfie_segmentation.onnx" ] || skip "no coco-sample in $QB_SHARED"
cp "$models"/selfie_segmentation.onnx "$models"/selfie_segmentation.json .
expect 0 "$QBENCH" compare fp32 --data "$sample/instances_val.json" --duration 0.1 --no-figures
says '^fp32 +71.1[0-9] .* 89.5[0-9] '
expect 0 cat compare.json
says '^ "task": "segment",$'
says '^   "miou": 71.17[0-9]+,$'
says '"name": "person",$'

# INT8 on a few, and the gate.
expect 0 "$QBENCH" calibrate --data "$sample/instances_calib.json" --samples 24
expect 0 "$QBENCH" compare fp32 int8 --data "$sample/instances_val.json" --samples 24 \
    --duration 0.1 --no-figures
expect 0 "$QBENCH" gate --max-drop 20
says '^PASS int8 max-drop of mIoU: '
expect 3 "$QBENCH" gate --max-drop -90 --metric boundary_f
says '^FAIL int8 max-drop of boundary F: '

# Masks as PNG: black everywhere but for the upper half (white: the only class beside background).
mkdir -p set/images set/masks
for name in $(ls "$sample/images" | sed -n '1,4p'); do
    cp "$sample/images/$name" set/images/
    python3 - "set/images/$name" "set/masks/${name%.jpg}.png" <<'PY'
import struct, sys, zlib
data, at = open(sys.argv[1], "rb").read(), 2
while data[at + 1] not in (0xC0, 0xC1, 0xC2):
    at += 2 + struct.unpack(">H", data[at + 2:at + 4])[0]
h, w = struct.unpack(">HH", data[at + 5:at + 9])
rows = b"".join(b"\0" + bytes([255 if y < h // 2 else 0]) * w for y in range(h))
def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
open(sys.argv[2], "wb").write(
    b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, 8, 0, 0, 0, 0))
    + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
PY
done
expect 0 "$QBENCH" compare fp32 --data set --duration 0.1 --no-figures -o masks
says '4 samples'
says '^fp32 +[0-9.]+ '
expect 0 grep -c '"n"' masks/compare.json
says '^2$' # background and person
! grep -q 'classes that the model has not' "$work/.err" || fail 'warns of masks that are right'
cp -r set odd
python3 - odd/masks/*.png <<'PY' # what is white is of class 7
import struct, sys, zlib
for path in sys.argv[1:]:
    data = open(path, "rb").read()
    n = struct.unpack(">I", data[33:37])[0]
    rows = zlib.compress(zlib.decompress(data[41:41 + n]).replace(b"\xff", b"\7"))
    chunk = b"IDAT" + rows
    open(path, "wb").write(data[:33] + struct.pack(">I", len(rows)) + chunk + struct.pack(">I", zlib.crc32(chunk))
                           + data[45 + n:])
PY
expect 0 "$QBENCH" compare fp32 --data odd --duration 0.1 --no-figures -o masks
complains 'task segment: [0-9]+ true pixels are of classes that the model has not .7; it has 0 to 1, 255 is ignored'
"$QBENCH" data doctor --data set >.out 2>.err
says '^good  truth .*set: 1 classes in 4 masks, [0-9.]+ % of the pixels do not count$'
cp "set/masks/$(ls set/masks | sed -n 1p)" "set/masks/$(ls set/masks | sed -n 2p)"
"$QBENCH" data doctor --data set >.out 2>.err
says '^bad   truth .*set: 1 masks have another size than their image: 0'
rm "set/masks/$(ls set/masks | sed -n 1p)"
expect 1 "$QBENCH" compare fp32 --data set
complains 'has no mask set/masks/'

# Wrong settings are named.
echo 'segmentation: {classes: [background, persson]}' >qbench.yaml
expect 1 "$QBENCH" compare fp32 --data "$sample/instances_val.json"
complains "no category of the data is called as one of the model's 2 classes"
echo 'segmentation: {threshold: 2}' >qbench.yaml
expect 1 "$QBENCH" compare fp32 --data "$sample/instances_val.json"
complains "key 'segmentation.threshold': expected a number between 0 and 1"
done_testing
