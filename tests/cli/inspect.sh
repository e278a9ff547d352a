#!/usr/bin/env bash
# qbench inspect and optimize: passes, shapes, dot, what is written can be read again.
. "$1/tests/support/cli.sh"

demo 1 1
model=demo/model.onnx
expect 0 "$QBENCH" inspect "$model" --passes --dot model.dot
says '^inputs +[^ ]+ +f32 +'
says '^steps +'
says '^operators before and after'
expect 0 cat model.dot
says '^digraph '
says ' -> n[0-9]+ \[label="f32 '
checks=$((checks + 1))
[ "$(grep -c '{' model.dot)" = "$(grep -c '}' model.dot)" ] || fail 'braces of model.dot'
if command -v dot >/dev/null; then expect 0 dot -Tsvg model.dot -o model.svg; fi

expect 2 "$QBENCH" inspect "$model" --shapes nothing:1x3
complains "no input 'nothing'; it has [a-z]+"
expect 1 "$QBENCH" inspect "$model" --dot nowhere/model.dot
complains 'nowhere/model.dot'

# The optimized file is a fixed point: nothing is left to do, and its bytes stay.
expect 0 "$QBENCH" optimize "$model" -o first.onnx
says '^wrote first.onnx'
expect 0 "$QBENCH" optimize first.onnx -o second.onnx --json -
says '"schema": "qbench.optimize/1"'
expect 0 "$QBENCH" optimize second.onnx -o third.onnx -q
same_bytes second.onnx third.onnx
expect 0 "$QBENCH" optimize "$model"
says '^wrote .*model.opt.onnx'
expect 1 "$QBENCH" optimize missing.onnx
complains 'missing.onnx'

done_testing
