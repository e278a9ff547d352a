#!/usr/bin/env bash
# Bad input: every case ends with a clear error naming the file, exit code 1, old files intact and no
# half-written ones.
# ctest-timeout: 300, ctest-cost: 30
. "$1/tests/support/cli.sh"

demo 3 4
cp demo/model.onnx demo/model.json . && cp -r demo/calib data

no_leftovers() { # only files that we know
    checks=$((checks + 1))
    local odd
    odd=$(find . -name '.*.tmp*' -o -name '*.tmp*' | head -3)
    [ -z "$odd" ] || fail "left over: $odd"
}

# Models.
for bytes in 0 1 100 5000; do
    head -c "$bytes" model.onnx >cut.onnx
    expect 1 "$QBENCH" inspect cut.onnx
    complains 'cut.onnx'
done
head -c 4096 /dev/urandom >noise.onnx
expect 1 "$QBENCH" inspect noise.onnx
complains 'noise.onnx'
expect 1 "$QBENCH" inspect missing.onnx
complains 'missing.onnx: No such file'
expect 1 "$QBENCH" inspect data
complains 'data'

# Files of other tools, by what is in them.
printf '\34\0\0\0TFL3\24\0' >net.tflite
expect 1 "$QBENCH" inspect net.tflite
complains 'net.tflite: not an ONNX model: it is a TensorFlow Lite model: convert it: '
gzip -c model.onnx >model.onnx.gz
expect 1 "$QBENCH" calibrate model.onnx.gz --data data
complains 'model.onnx.gz: not an ONNX model: it is compressed with gzip: unpack it'
echo 'version https://git-lfs.github.com/spec/v1' >pointer.onnx
expect 1 "$QBENCH" bench --onnx=pointer.onnx
complains 'pointer.onnx: not an ONNX model: it is a pointer of Git LFS .*git lfs pull'
expect 1 "$QBENCH" migrate model.onnx net.tflite
complains 'net.tflite: not a calibration in a format that is known: it is a TensorFlow Lite model'

# Data.
expect 1 "$QBENCH" calibrate model.onnx --data nowhere
complains 'nowhere'
mkdir empty
expect 1 "$QBENCH" calibrate model.onnx --data empty
complains 'empty'
expect 2 "$QBENCH" calibrate model.onnx --data data --decoder gpu
complains "decoder 'gpu': expected cpu or nvjpeg"
if [ ! -e /dev/nvidiactl ]; then # no GPU: one line says why
    expect 1 "$QBENCH" calibrate model.onnx --data data --decoder nvjpeg
    complains 'decoder nvjpeg: '
    absent model.calib.h5
fi
expect 2 "$QBENCH" calibrate model.onnx --data data --devices=0,1
complains '--devices chooses among GPUs, and nothing here runs on one'
expect 2 "$QBENCH" data doctor data --model model.onnx --devices=0,1
complains '--devices chooses among GPUs, and nothing here runs on one'
expect 2 "$QBENCH" compare fp32 fp32 --model model.onnx --data data --devices=1
complains '--devices chooses among GPUs, and nothing here runs on one'
expect 2 "$QBENCH" run --model model.onnx --devices=0,one
complains "--devices: expected numbers like 0,1, each once, got '0,one'"
absent model.calib.h5
cp -r data broken
first=$(find broken -name '*.png' | sort | head -1)
head -c 40 "$first" >"$first.cut" && mv "$first.cut" "$first"
expect 0 "$QBENCH" calibrate model.onnx --data broken -o broken.calib.h5
complains "$(basename "$first")"
says '29 samples'
expect 1 "$QBENCH" calibrate model.onnx --data broken --strict -o strict.calib.h5
complains "$(basename "$first")"
absent strict.calib.h5
for image in $(find broken -name '*.png'); do echo no image >"$image"; done
expect 1 "$QBENCH" calibrate model.onnx --data broken -o none.calib.h5
complains 'broken'
absent none.calib.h5

# Class folders whose classes only a file of labels could tell, and it is not there.
mkdir lost && cp model.onnx lost/ && tr -d '\n' <model.json |
    sed 's/"labels": *\[[^]]*\]/"labels": "gone.txt"/' >lost/model.json
expect 1 "$QBENCH" compare fp32 --model lost/model.onnx --data demo/test
complains 'lost/gone.txt, which the model.s sidecar names for its labels, does not exist'

# Calibration files.
expect 0 "$QBENCH" calibrate model.onnx --data data
head -c 1000 model.calib.h5 >cut.calib.h5
cp model.onnx cut.onnx
expect 1 "$QBENCH" quantize cut.onnx
complains 'cut.calib.h5'

# Output that cannot be written: the old file stays.
cp model.calib.h5 before.h5
expect 1 "$QBENCH" calibrate model.onnx --data data -o /proc/nowhere/x.calib.h5
complains '/proc/nowhere'
(
    ulimit -f 4 # 4 KiB: as good as a full disk
    trap '' XFSZ
    expect 1 "$QBENCH" calibrate model.onnx --data data
    [ "$failures" = 0 ]
) || fail 'a full disk was not reported'
same_bytes model.calib.h5 before.h5
no_leftovers

# Interrupted: exit code 130, old file intact.
for _ in $(seq 200); do find "$PWD/data" -name '*.png'; done >many.txt
"$QBENCH" calibrate model.onnx --data many.txt >.out 2>.err &
sleep 0.3
kill -INT $!
wait $!
code=$?
[ "$code" = 130 ] || [ "$code" = 0 ] || fail "interrupted: exit $code"
if [ "$code" = 130 ]; then same_bytes model.calib.h5 before.h5; fi
no_leftovers

# Records and settings.
echo '{' >compare.json
expect 1 "$QBENCH" gate compare.json --max-drop 1
complains 'compare.json'
printf 'model: [unclosed\n' >qbench.yaml
expect 1 "$QBENCH" calibrate --data data
complains 'qbench.yaml:[0-9]+'

# Values that a setting cannot have are found with line and column.
mistake() { # mistake YAML-LINES WANTED
    printf 'model: model.onnx\n'"$1" >qbench.yaml
    expect 1 "$QBENCH" gate
    complains "^qbench: error: qbench.yaml:$2"
}
rm -f compare.json
mistake 'preprocess:\n  color: RBG\n' "3:10: preprocess.color: expected RGB, BGR, GRAY or Y, got 'RBG' \(did you mean 'RGB'\?\)"
mistake 'preprocess:\n  mean: [1, 2]\n' '3:9: preprocess.mean: expected 1 or 3 numbers, got 2'
mistake 'preprocess:\n  color: GRAY\n  std: [1, 2, 3]\n' '4:8: preprocess.std: expected 1 number, got 3'
mistake 'preprocess:\n  resize:\n    mode: none\n    size: [0, 2]\n' '5:11: preprocess.resize.size: expected 1 to 65535, got 0'
mistake 'preprocess:\n  std: [0]\n' '3:3: preprocess: .*std'
mistake 'compare:\n  batch: 0\n' '3:10: compare.batch: expected 1 to 65536, got 0'
mistake 'compare:\n\n  duration: -1\n' '4:13: compare.duration: expected 0 to 86400, got -1'
mistake 'quantization:\n  activations: u4\n' "3:16: quantization.activations: unknown value 'u4'"
mistake 'quantization:\n  keep_float: [[a]]\n' '3:15: quantization.keep_float: expected a list of names of nodes'
mistake 'gate:\n  confidence: maybe\n' '3:15: gate.confidence: expected point, fail or pass'
mistake 'gate:\n  max_drop: 2000\n' '3:13: gate.max_drop: expected -100 to 100, got 2000'
mistake 'gate:\n  max_dorp: 1\n' "3:3: unknown key 'gate.max_dorp'; did you mean 'gate.max_drop'"
rm qbench.yaml
expect 2 "$QBENCH" help exit-code
complains "no help on 'exit-code'; did you mean 'exit-codes'"
# What is not qbench's own is not replaced by names that nobody chose.
mkdir theirs
echo theirs | tee theirs/model.onnx >theirs/squeezenet1_1.onnx
for folder in theirs data; do
    expect 1 "$QBENCH" demo -o $folder --calibration-images 1 --test-images 1
    complains "$folder holds files that are not the demo's: name a new folder"
done
absent theirs/calib
expect 1 "$QBENCH" zoo squeezenet1_1 -o theirs
complains 'theirs/squeezenet1_1.onnx is there already: name the file'
same_bytes theirs/model.onnx theirs/squeezenet1_1.onnx
expect 0 "$QBENCH" zoo squeezenet1_1 -o theirs/squeezenet1_1.onnx
expect 0 "$QBENCH" demo -o again --calibration-images 1 --test-images 1
expect 0 "$QBENCH" demo -o again --calibration-images 1 --test-images 1

done_testing
