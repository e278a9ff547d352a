#!/usr/bin/env bash
# Files above 8 MiB are mapped. Each kind of them is cut by somebody else right after it was mapped:
# an error that names the file and exit code 1, never a signal. Smaller ones are copied: see
# unit.base.file.
# ctest-timeout: 120, ctest-cost: 10
. "$1/tests/support/cli.sh"
. "$1/tests/support/onnx.sh"

[ -z "${QB_SANITIZE:-}" ] || skip 'sanitizers handle SIGBUS themselves'
library=$QB_BUILD/tests/libcutting_mmap.so
large=$QB_BUILD/tests/large_model
big=$((3072 * 1024)) # floats: 12 MiB

# cut FILE COMMAND...: FILE has its bytes again afterwards.
cut() {
    local file=$1
    shift
    checks=$((checks + 1))
    [ "$(stat -c %s "$file")" -gt 8388608 ] || fail "$file is not mapped"
    cp "$file" .whole
    CUT_FILE=/$file LD_PRELOAD=$library expect 1 "$@"
    complains "$file: (the file was cut short while it was read|not an ONNX model|cut short)"
    mv .whole "$file"
}

# y = x + w with w of 12 MiB, in the file or beside it.
external_model() { # FILE
    local graph
    graph=$(field 0a "$(node Add '' y x w)")$(text 12 g)
    graph+=$(field 2a "$(tensor w "1 $big" "$(pair location w.bin)7001")")
    graph+="$(field 5a "$(port x "1 $big")")$(field 62 "$(port y "1 $big")")"
    model "$1" "$graph"
}
head -c $((4 * big)) /dev/zero >w.bin
external_model external.onnx
cut w.bin "$QBENCH" inspect external.onnx
expect 0 "$QBENCH" optimize external.onnx -o whole.onnx
cut whole.onnx "$QBENCH" inspect whole.onnx
cut whole.onnx "$QBENCH" build whole.onnx --precision fp32 -o out
expect 0 "$QBENCH" build whole.onnx --precision fp32 --saveEngine whole.qbe
cut whole.qbe "$QBENCH" inspect whole.qbe
cut whole.qbe "$QBENCH" bench --loadEngine=whole.qbe --duration 0.001 --warmUp 0
cut w.bin "$QBENCH" bench whole.onnx --precision fp32 --loadInputs=x:w.bin --duration 0.001 --warmUp 0

# Tensors as samples: .npy, .npz (stored), .bin.
header="{'descr': '<f4', 'fortran_order': False, 'shape': (1, $big), }"
{
    printf '\x93NUMPY\x01\x00\x76\x00%-117s\n' "$header"
    cat w.bin
} >set.npy
cut set.npy "$QBENCH" calibrate whole.onnx --data set.npy -o out
mkdir samples && cp w.bin samples/a.bin
(
    cd samples || exit 1
    cut a.bin "$QBENCH" calibrate ../whole.onnx --data . -o ../out
    [ "$failures" = 0 ]
) || failures=$((failures + 1))
rm -r samples

# An image with much behind its end, and COCO's JSON with many blanks.
demo 2 2
mkdir images
image=$(find demo/calib -type f | sort | head -1)
cat "$image" w.bin >"images/large.${image##*.}"
(
    cd images || exit 1
    cut "large.${image##*.}" "$QBENCH" calibrate ../demo/model.onnx --data . -o ../out
    [ "$failures" = 0 ]
) || failures=$((failures + 1))
{
    printf '{"images":[{"id":1,"file_name":"a.png","width":8,"height":8}],'
    head -c $((4 * big)) /dev/zero | tr '\0' ' '
    printf '"categories":[],"annotations":[]}'
} >truth.json
printf '[]' >results.json
cut truth.json "$QBENCH" score --annotations truth.json --results results.json
cut truth.json "$QBENCH" calibrate demo/model.onnx --data truth.json -o out
done_testing
