#!/usr/bin/env bash
# build, bench and inspect on engine files: real weights, loaded as built.
. "$1/tests/support/cli.sh"

expect 0 "$QBENCH" demo -o demo --calibration-images 3 --test-images 2
cd demo || exit 1
short=(--duration=0.02 --warmUp=1 --iterations=2)
for precision in fp32 int8 int8:minmax+per-tensor; do
    file=model.$(tr ':+' '--' <<<"$precision").qbe
    expect 0 "$QBENCH" build --precision "$precision"
    says "^$file: [0-9]+ steps"
    expect 0 "$QBENCH" build --precision "$precision" -o again.qbe
    same_bytes "$file" again.qbe
    expect 0 "$QBENCH" bench --loadEngine="$file" "${short[@]}" --exportOutput=loaded.json
    expect 0 "$QBENCH" bench --precision "$precision" "${short[@]}" --exportOutput=built.json
    same_bytes loaded.json built.json
done

expect 0 "$QBENCH" inspect model.int8.qbe --steps --json tags.json
says '^engine +int8 of model.onnx'
says '^ *[0-9]+ s8 +[a-z]+\.conv_s8'
grep -q '"schema": "qbench.engine/1"' tags.json || fail 'no tags'

expect 0 "$QBENCH" build --precision fp32 --batch 4 -o batch.qbe
expect 0 "$QBENCH" bench --loadEngine=batch.qbe "${short[@]}" --json -
says '"batch": 4'
expect 0 "$QBENCH" bench --precision fp32 "${short[@]}" --saveEngine=saved.qbe
expect 0 "$QBENCH" bench --loadEngine=saved.qbe "${short[@]}" --infStreams=2

head -c 5000 model.int8.qbe >cut.qbe
expect 1 "$QBENCH" bench --loadEngine=cut.qbe
complains 'cut.qbe: damaged engine file: 5000 bytes, the header says'
expect 1 "$QBENCH" inspect cut.qbe
expect 1 "$QBENCH" bench --loadEngine=model.onnx
complains 'model.onnx: not a qbench engine file'
expect 1 "$QBENCH" bench --loadEngine=nothing.qbe
complains 'nothing.qbe'
expect 2 "$QBENCH" bench --loadEngine=model.int8.qbe --shapes=input:1x3x8x8
expect 1 "$QBENCH" build --precision int8:median
complains "no method 'median'"
[ "$(id -u)" = 0 ] || { expect 1 "$QBENCH" build -o /model.qbe; absent /model.qbe; }
done_testing
