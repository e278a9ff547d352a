#!/usr/bin/env bash
# compare --targets: PSNR of a super-resolution model against the true images, by hand from what
# `bench` puts out.
. "$1/tests/support/cli.sh"
model=$QB_SHARED/models/super_resolution_core.onnx
[ -f "$model" ] || skip "no super_resolution_core.onnx in $QB_SHARED"

# Grey images of 48 x 48, and their 3 x 3 means as the model's input, also as raw floats.
cat >make.py <<'END'
import math, os, struct, zlib
def png(path, rows):
    raw = b''.join(b'\0' + bytes(row) for row in rows)
    chunk = lambda name, data: struct.pack('>I', len(data)) + name + data + struct.pack('>I', zlib.crc32(name + data))
    head = struct.pack('>IIBBBBB', len(rows[0]), len(rows), 8, 0, 0, 0, 0)
    open(path, 'wb').write(b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', head) + chunk(b'IDAT', zlib.compress(raw)) + chunk(b'IEND', b''))
for folder in ('lr', 'hr'): os.mkdir(folder)
for k in range(3):
    hr = [[int(127.5 + 127.5 * math.sin(0.1 * (k + 1) * x + 0.17 * y) * math.cos(0.05 * y)) for x in range(48)] for y in range(48)]
    lr = [[round(sum(hr[3 * y + j][3 * x + i] for j in range(3) for i in range(3)) / 9) for x in range(16)] for y in range(16)]
    png(f'hr/{k}.png', hr), png(f'lr/{k}.png', lr)
    open(f'{k}.bin', 'wb').write(b''.join(struct.pack('<f', v / 255) for row in lr for v in row))
    open(f'{k}.txt', 'w').write(' '.join(str(v) for row in hr for v in row))
END
python3 make.py
common=(--model "$model" --data lr --duration 0.01 --no-figures)
expect 0 "$QBENCH" calibrate --model "$model" --data lr
expect 0 "$QBENCH" compare fp32 int8 "${common[@]}" --targets hr --layers
says 'PSNR to target dB'
for k in 0 1 2; do
    expect 0 "$QBENCH" bench "$model" --shapes=input:1x1x16x16 --loadInputs=input:$k.bin --exportOutput=$k.json \
        --iterations=1 --duration=0 --warmUp=0
done
cat >compare.py <<'END'
import json, math
rows = json.load(open('compare.json'))['rows']
metric = lambda row: next(m for m in row['metrics'] if m['name'] == 'target_psnr')
wanted = []
for k in range(3):
    truth = [int(v) for v in open(f'{k}.txt').read().split()]
    pixels = [min(max(255 * v, 0), 255) for v in json.load(open(f'{k}.json'))[0]['values']]
    assert len(pixels) == len(truth) == 48 * 48
    wanted.append(10 * math.log10(255 ** 2 / (sum((p - t) ** 2 for p, t in zip(pixels, truth)) / len(truth))))
mean = sum(wanted) / 3
got = metric(rows[0])
assert abs(got['value'] - mean) < 1e-3, (got, wanted)
half = 1.959964 * math.sqrt(sum((w - mean) ** 2 for w in wanted) / 2 / 3)
assert abs(got['high'] - got['value'] - half) < 1e-3, (got, half)
assert 15 < metric(rows[1])['value'] < got['value'], 'int8 should be a little worse'
assert len(rows[1]['layer_errors']) > 0
END
expect 0 python3 compare.py

# The same by qbench.yaml; without targets there is no such number.
printf 'model: %s\ndata: {calibration: lr, evaluation: lr, targets: hr}\ncompare: {duration: 0.01}\n' "$model" >qbench.yaml
cp compare.json first.json
expect 0 "$QBENCH" compare fp32 int8 --no-figures
says 'PSNR to target dB'
expect 0 "$QBENCH" run --dry-run
expect 0 "$QBENCH" compare fp32 int8 "${common[@]}" --config /dev/null
grep -q 'PSNR to target' "$work/.out" && fail 'PSNR without targets'

# What does not pair up.
expect 1 "$QBENCH" compare fp32 int8 "${common[@]}" --config /dev/null --targets lr -j 1
complains "target '0.png' is 16x16 pixels, the model's output 48x48"
rm hr/2.png
expect 1 "$QBENCH" compare fp32 int8 "${common[@]}" --config /dev/null --targets hr
complains 'targets: expected 3 as the data has, got 2'
mv hr/1.png hr/3.png && cp hr/0.png hr/4.png && mv hr/0.png hr/1.png
expect 0 "$QBENCH" compare fp32 int8 "${common[@]}" --config /dev/null --targets hr
complains "targets are taken in order: '0.png' should become '1.png'"
done_testing
