#!/usr/bin/env bash
# Outputs that are no answer (NaN, several infinities), answers that are always the same, samples of one
# class: the numbers say so, and a gate does not pass on them.
. "$1/tests/support/cli.sh"
. "$1/tests/support/onnx.sh"

black_image black.png
python3 - <<'PY'
import struct, zlib
def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
def png(name, kind, row):
    open(name, "wb").write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 32, 32, 8, kind, 0, 0, 0))
                           + chunk(b"IDAT", zlib.compress((b"\0" + row) * 32)) + chunk(b"IEND", b""))
png("white.png", 2, b"\xff" * 96)
png("class0.png", 0, b"\0" * 32)
png("class1.png", 0, b"\1" * 32)
PY
# What one network makes of pixels -2 and 2 (mean 128, std 64).
make() { # NAME OUTPUT_DIMENSIONS NODES [MORE OUTPUTS]
    model "$1.onnx" "$3$(text 12 "$1")$(field 5a "$(port x '1 3 32 32')")$(field 62 "$(port y "$2")")${4:-}"
    echo '{"layout": "NCHW", "color": "RGB", "mean": [128, 128, 128], "std": [64, 64, 64]}' >"$1.json"
}
means=$(field 0a "$(node GlobalAveragePool pool p x)")$(field 0a "$(node Flatten flat f p)")
make same '1 3' "$means$(field 0a "$(node Relu last y f)")"
make roots '1 3' "$means$(field 0a "$(node Sqrt last y f)")"
powers=$(for i in 1 2 3 4 5 6; do field 0a "$(node Add "a$i" "v$i" "v$((i - 1))" "v$((i - 1))")"; done)
make powers '1 3' "$means$(field 0a "$(node Relu first v0 f)")$powers$(field 0a "$(node Exp last y v6)")"
make logs '1 3' "$means$(field 0a "$(node Relu first r f)")$(field 0a "$(node Log last y r)")"
make mask '1 3 32 32' "$(field 0a "$(node Relu last y x)")"
make roots_mask '1 3 32 32' "$(field 0a "$(node Sqrt last y x)")"
make beside '1 3 32 32' "$(field 0a "$(node Relu last y x)")$(field 0a "$(node Sqrt other z x)")" \
    "$(field 62 "$(port z '1 3 32 32')")"

compared() { # MODEL DATA [OPTIONS]: one row against itself, so that no limit on a drop could break
    local model=$1 data=$2
    shift 2
    expect 0 "$QBENCH" compare fp32 "./$model.onnx" --model "$model.onnx" --data "$data" --duration 0.01 \
        --no-figures --thumbnails 0 "$@"
}
top1() { python3 -c 'import json; print(json.load(open("compare.json"))["rows"][0]["top1"])'; }
metric() { python3 -c 'import json, sys
print([m["value"] for m in json.load(open("compare.json"))["rows"][0]["metrics"] if m["name"] == sys.argv[1]][0])' "$1"; }
is() { # WANTED GOT
    checks=$((checks + 1))
    [ "$1" = "$2" ] || fail "expected $1, got $2"
}

# Labels 0, which is what ties and NaN are taken for elsewhere.
printf 'black.png\t0\nwhite.png\t0\n' >zeros.txt
compared same zeros.txt
is 100.0 "$(top1)"
says 'warning: all samples are of one class, and all are right'
expect 0 "$QBENCH" gate --max-drop 1
compared roots zeros.txt
is 50.0 "$(top1)"
complains 'fp32: the output of 1 of 2 samples holds NaN, several infinities or a class below 0: counted as wrong'
expect 3 "$QBENCH" gate --max-drop 1
says '^BLOCKED .*holds NaN, several infinities.*--allow nan'
compared powers zeros.txt
is 50.0 "$(top1)"
complains 'fp32: the output of 1 of 2 samples holds NaN, several infinities'
expect 3 "$QBENCH" gate --max-drop 1
compared logs zeros.txt # -infinity is behind all others: no doubt about the answer
is 100.0 "$(top1)"
says 'warning: fp32: the output of 1 of 2 samples holds an infinity: it has no signal-to-noise ratio'
expect 0 "$QBENCH" gate --max-drop 1
printf 'black.png\t1\nwhite.png\t1\n' >ones.txt
compared same ones.txt
is 0.0 "$(top1)"
expect 3 "$QBENCH" gate --max-drop 1
says '^BLOCKED .*top-1 0.00 % over 2 classes is no more than chance'

# Masks: pixels without an answer are not background.
mkdir -p set/images set/masks
cp black.png white.png set/images/
cp class0.png set/masks/black.png
cp class1.png set/masks/white.png
compared mask set --task segment
is 50.0 "$(metric pixel_accuracy)"
expect 3 "$QBENCH" gate --max-drop 1
says '^BLOCKED .*one class alone is found'
compared roots_mask set --task segment
is 0.0 "$(metric pixel_accuracy)"
is 50.0 "$(metric same_pixels)"
complains 'fp32: the output of 1 of 2 samples holds NaN'
expect 3 "$QBENCH" gate --max-drop 1
compared beside set --task segment # another output than the one that is scored
complains 'fp32: the output of 1 of 2 samples holds NaN'
cp class0.png set/masks/white.png # one class is all there is
compared mask set --task segment
is 100.0 "$(metric pixel_accuracy)"
expect 0 "$QBENCH" gate --max-drop 1
done_testing
