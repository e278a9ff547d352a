#!/usr/bin/env bash
# build, bench and inspect on engine files: real weights, loaded as built.
. "$1/tests/support/cli.sh"

demo 3 2
cd demo || exit 1
short=(--duration=0.02 --warmUp=1 --iterations=2)
for precision in fp32 int8 int8:minmax+per-tensor; do
    file=model.$(tr ':+' '--' <<<"$precision").qbe
    expect 0 "$QBENCH" build --precision "$precision"
    says "^$file: [0-9]+ bytes, [0-9]+ steps"
    says '^types: [0-9]+ steps in '
    expect 0 "$QBENCH" build --model "$PWD/model.onnx" --precision "$precision" -o again.qbe
    same_bytes "$file" again.qbe
    expect 0 "$QBENCH" bench --loadEngine="$file" "${short[@]}" --exportOutput=loaded.json
    expect 0 "$QBENCH" bench --precision "$precision" "${short[@]}" --exportOutput=built.json
    same_bytes loaded.json built.json
done

# bf16: as built where the processor has it, else a reason; fp16 never on a processor.
if grep -q avx512_bf16 /proc/cpuinfo; then
    expect 0 "$QBENCH" build --precision bf16
    expect 0 "$QBENCH" bench --loadEngine=model.bf16.qbe "${short[@]}" --exportOutput=loaded.json
    expect 0 "$QBENCH" bench --bf16 "${short[@]}" --exportOutput=built.json
    same_bytes loaded.json built.json
    expect 0 "$QBENCH" inspect model.bf16.qbe --steps
    says '^engine +bf16 of model.onnx'
    says '^[0-9]+ .* bf16 .* cpu$'
    says '^ +cpu.conv_bf16.avx512bf16'
    expect 0 "$QBENCH" compare fp32 bf16 int8 fp16 --duration 0.05
    says '^bf16 +[0-9.]+ +[0-9.]+ to'
    complains 'fp16 is left out: .* this processor computes in bf16 \(--precision bf16\)'
    grep -q '"bf16": [1-9]' compare.json || fail 'no layers in bf16'
    expect 0 "$QBENCH" gate --max-drop 5 --precision bf16 --allow calibration-data
    expect 1 "$QBENCH" build --precision fp16
    complains 'fp16: .* \(--precision bf16\)'
else
    expect 1 "$QBENCH" build --precision bf16
    complains 'bf16: .* AVX512-BF16, which this one lacks'
fi
expect 1 "$QBENCH" build --precision bf16 --backends ref
complains 'bf16: .* backend cpu'

expect 0 "$QBENCH" build --precision int8 --steps --json built.json
says '^[0-9]+ .* s8 .* cpu$'
says '^ +[a-z]+\.conv_s8'
grep -A1 '^[0-9]\+ ' "$work/.out" >built.steps
expect 0 "$QBENCH" inspect model.int8.qbe --steps --json tags.json
grep -A1 '^[0-9]\+ ' "$work/.out" | cmp - built.steps || fail 'the file has other steps than the build said'
says '^engine +int8 of model.onnx'
says '^[0-9]+ .* s8 .* cpu$'
says '^ +[a-z]+\.conv_s8'
grep -q '"schema": "qbench.engine/1"' tags.json || fail 'no tags'

expect 0 "$QBENCH" build --precision fp32 --batch 4 -o batch.qbe
expect 0 "$QBENCH" bench --loadEngine=batch.qbe "${short[@]}" --json -
says '"batch": 4'
expect 0 "$QBENCH" bench --precision fp32 "${short[@]}" --saveEngine=saved.qbe
expect 0 "$QBENCH" bench --loadEngine=saved.qbe "${short[@]}" --infStreams=2

# What the file has decided is not changed by options beside it: a warning names them, and the record
# holds the file's precision.
expect 0 "$QBENCH" bench --loadEngine=model.int8.qbe --onnx=other.onnx --fp16 --batch=9 --threads=1 "${short[@]}" --json -
says '"precision": "int8"'
says '"batch": 1,'
complains 'model.int8.qbe holds model.onnx in int8 as it was built: without effect: --threads, --model \(--onnx\), --fp16, --batch$'
expect 0 "$QBENCH" bench model.onnx --loadEngine=model.fp32.qbe "${short[@]}" --json -
says '"precision": "fp32"'
complains 'model.fp32.qbe holds model.onnx in fp32 as it was built: without effect: model.onnx$'
expect 0 "$QBENCH" bench --loadEngine=model.int8.qbe --threads "${short[@]}" # trtexec's switch
grep -q 'without effect' "$work/.err" && fail 'a warning without a reason'

# trtexec's spellings, and engines of any name.
expect 0 "$QBENCH" build --onnx=model.onnx --int8 --saveEngine=model.trt
says '^model.trt: [0-9]+ bytes, [0-9]+ steps'
same_bytes model.int8.qbe model.trt
cp model.onnx kept.onnx
ln -s model.onnx link.onnx
for file in model.onnx ./link.onnx; do
    expect 2 "$QBENCH" build --onnx=model.onnx --precision fp32 --saveEngine=$file
    complains "$file is the model: the engine would replace it|--saveEngine $file: would replace model.onnx"
    expect 2 "$QBENCH" bench model.onnx "${short[@]}" --saveEngine=$file
done
same_bytes model.onnx kept.onnx
rm link.onnx kept.onnx
expect 2 "$QBENCH" build --precision fp32 -o a.qbe --saveEngine=b.qbe
complains '-o a.qbe and --saveEngine=b.qbe: name one file to write'
absent a.qbe
absent b.qbe
mkdir other && expect 0 "$QBENCH" build --model model.onnx --precision fp32 -o other --saveEngine=b.qbe
rm -r other b.qbe
expect 2 "$QBENCH" build --onnx=model.onnx --precision fp16 --int8 -o both.qbe
absent both.qbe
expect 0 "$QBENCH" inspect model.trt
says '^engine +int8 of model.onnx'
expect 0 "$QBENCH" compare fp32 ./model.trt --data test --duration 0.01 --no-figures
says '^model.trt +[0-9.]+ +[0-9.]+ to'
expect 2 "$QBENCH" compare fp32 model.trt@cpu --data test
complains "model.trt@cpu: an engine file runs on what it was built for: leave out '@cpu'"
head -c 5000 model.trt >int8 # a precision is one, whatever files there are
cp int8 int8@ref
expect 0 "$QBENCH" compare fp32 int8 int8@ref --data test --duration 0.01 --no-figures
expect 1 "$QBENCH" compare fp32 ./int8 --data test --duration 0.01 --no-figures
complains './int8: damaged engine file'
expect 1 "$QBENCH" inspect int8
complains 'int8: damaged engine file'
rm int8 int8@ref
cp model.trt net@2x.trt
expect 0 "$QBENCH" compare fp32 net@2x.trt --data test --duration 0.01 --no-figures
expect 1 "$QBENCH" bench model.trt
complains "load model.trt: not an ONNX model: it is an engine file of qbench: 'qbench bench --loadEngine=FILE' runs it"
expect 2 "$QBENCH" compare fp32 model.json --data test
complains "unknown precision 'model.json'"

head -c 5000 model.int8.qbe >cut.qbe
expect 1 "$QBENCH" bench --loadEngine=cut.qbe
complains 'cut.qbe: damaged engine file: 5000 bytes, the header says'
expect 1 "$QBENCH" inspect cut.qbe
expect 1 "$QBENCH" bench --loadEngine=model.onnx
complains "model.onnx: not a qbench engine file \\('qbench build' makes one of an ONNX model\\)$"
printf 'ftrt\0\0\0\0\0\0' >nvidia.engine
expect 1 "$QBENCH" bench --loadEngine=nvidia.engine
complains 'nvidia.engine: not a qbench engine file .*: it is an engine of TensorRT: .* give the ONNX model'
head -c 8 model.int8.qbe >header.qbe
expect 1 "$QBENCH" bench --loadEngine=header.qbe
complains 'header.qbe: damaged engine file: it ends in the header'
expect 1 "$QBENCH" bench --loadEngine=nothing.qbe
complains 'nothing.qbe'
expect 1 "$QBENCH" bench --loadEngine=model.int8.qbe --shapes=image:1x3x8x8
complains 'was built for .* alone'

# Ranges of batches: in build, inspect, bench; a fixed engine gives the same numbers.
input=image side=$(sed -n 's/^inputs .* 1x3x\([0-9]*\)x.*/\1/p' <("$QBENCH" inspect model.fp32.qbe))
ranges=(--minShapes=$input:1x3x${side}x$side --optShapes=$input:4x3x${side}x$side --maxShapes=$input:8x3x${side}x$side)
expect 0 "$QBENCH" build --precision int8 "${ranges[@]}" --profile=1 --maxShapes=$input:32x3x${side}x$side -o open.qbe
says '^open.qbe: [0-9]+ bytes, [0-9]+ steps, 2 profiles$'
says '^memory: [0-9.]+ MiB of weights, [0-9.]+ MiB of activations, .* MiB at the peak of this process$'
expect 0 "$QBENCH" inspect open.qbe
says "^profile   0 min $input:1x3x${side}x$side\$"
says "^          1 max $input:32x3x${side}x$side\$"
says '^planned  .*times the most that live at once'
for batch in 1 3 8 32; do
    expect 0 "$QBENCH" bench --loadEngine=open.qbe --shapes=$input:${batch}x3x${side}x$side "${short[@]}" --exportOutput=open.json
    expect 0 "$QBENCH" bench --precision int8 --batch $batch "${short[@]}" --exportOutput=fixed.json
    same_bytes open.json fixed.json
done
expect 0 "$QBENCH" bench --loadEngine=open.qbe --useProfile=1 "${short[@]}" --dumpOptimizationProfile --timeDeserialize
says "^1 $input: min 32x3"
says '^Engine deserialized in '
expect 1 "$QBENCH" bench --loadEngine=open.qbe --shapes=$input:9x3x${side}x$side
complains "input '$input': axis 0: 9 is outside of 1 to 8 \(profile 0\); .*: 9 is outside of 32 to 32 \(profile 1\)"
expect 2 "$QBENCH" build --precision fp32 --profile=2 "${ranges[@]}"
complains '--profile: expected 0 to 0 here'

# What is built for more than this machine loads here, too.
expect 0 "$QBENCH" build --precision int8 --version-compatible --hardware-compatible -o far.qbe
expect 0 "$QBENCH" inspect far.qbe
says '^loads on    other versions, other hardware$'
expect 0 "$QBENCH" bench --loadEngine=far.qbe "${short[@]}" --exportOutput=far.json
expect 0 "$QBENCH" bench --precision int8 "${short[@]}" --exportOutput=built.json
same_bytes far.json built.json

# The limit on scratch memory: what is left out is said.
expect 0 "$QBENCH" build --precision fp32 --memPoolSize=workspace:1K -o small.qbe
complains 'is left out: it wants .* MiB of workspace, the limit is 0.000977'
expect 2 "$QBENCH" build --precision fp32 --memPoolSize=dlaSRAM:1
complains 'there is no other pool'
expect 2 "$QBENCH" build --precision fp32 --memPoolSize=workspace:much
expect 1 "$QBENCH" build --precision int8:median
complains "no method 'median'"
[ "$(id -u)" = 0 ] || { expect 1 "$QBENCH" build -o /model.qbe; absent /model.qbe; }
done_testing
