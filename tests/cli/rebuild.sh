#!/usr/bin/env bash
# The command that inspect and errors name builds the same file, byte for byte.
. "$1/tests/support/cli.sh"

demo 3 2
cd demo || exit 1

rebuilt() { # OPTION...: build so, then as the file says
    expect 0 "$QBENCH" build "$@" -o first.qbe
    expect 0 "$QBENCH" inspect first.qbe
    local command
    command=$(sed -n 's/^built with  qbench //p' "$work/.out")
    [ -n "$command" ] || fail "no command for $*"
    cp first.qbe kept.qbe
    rm first.qbe
    eval "expect 0 \"\$QBENCH\" $command"
    same_bytes first.qbe kept.qbe
}

# A name of any ending.
expect 0 "$QBENCH" build --precision fp32 --saveEngine=any.trt
expect 0 "$QBENCH" inspect any.trt
says '^built with  qbench build .* --saveEngine=any.trt$'
command=$(sed -n 's/^built with  qbench //p' "$work/.out")
mv any.trt kept.qbe
eval "expect 0 \"\$QBENCH\" $command"
same_bytes any.trt kept.qbe

input=image side=$(sed -n 's/^inputs .*x\([0-9]*\)x.*/\1/p' <("$QBENCH" inspect model.onnx))
shape=3x${side}x$side
node=$("$QBENCH" inspect model.onnx --steps | awk '$3 ~ /^Conv/ {print $2; exit}')
[ -n "$node" ] || fail 'no node'
rebuilt --precision fp32
rebuilt --precision fp32 --threads 1 --batch 4
rebuilt --precision fp32 --backends dnnl,ref --disable-pass fold-batch-norm
rebuilt --precision fp32 --providers cpu --memPoolSize=workspace:1
rebuilt --precision fp32 --shapes=$input:2x$shape --version-compatible
rebuilt --precision int8
rebuilt --precision int8:minmax --activations s8-symmetric --per-tensor-weights
rebuilt --precision int8+s8-affine --weights mse --keep-float "$node" --keep-float "no such*" --threads 3
rebuilt --precision int8 --minShapes=$input:1x$shape --optShapes=$input:2x$shape --maxShapes=$input:4x$shape --hardware-compatible

# Settings are in it, too: the file does not need them again.
printf 'quantization:\n  activations: s8-symmetric\n  per_tensor_weights: true\n' >careless.yaml
rebuilt --precision int8 --config careless.yaml --model model.onnx
"$QBENCH" inspect first.qbe | grep -q -- '--activations=s8-symmetric --per-tensor-weights' ||
    fail 'settings are not in the command'

done_testing
