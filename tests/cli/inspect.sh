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

# A branch that follows from a size which the file leaves open: x of N x L, Relu where L is 2, else Neg.
. "$1/tests/support/onnx.sh"
branch() { # NAME OPERATOR
    field 2a "$(text 0a "$1")$(field 32 "$(field 0a "$(node "$2" '' made x)")$(field 62 "$(text 0a made)")")a00105"
}
number() { field 2a "1007380$2$(text 42 "$1")"; } # NAME DIGIT: an s64
open_size=$(field 0a "$(text 12 N)")$(field 0a "$(text 12 L)")
graph=$(field 0a "$(node Shape '' sizes x)")$(field 0a "$(node Gather '' length sizes one)")
graph+=$(field 0a "$(node Equal '' is_two length two)")
graph+=$(field 0a "$(node If choice y is_two)$(branch then_branch Relu)$(branch else_branch Neg)")
graph+=$(text 12 g)$(number one 1)$(number two 2)
graph+=$(field 5a "$(text 0a x)$(field 12 "$(field 0a "0801$(field 12 "$open_size")")")")$(field 62 "$(text 0a y)")
model branches.onnx "$graph"
expect 0 "$QBENCH" inspect branches.onnx
says '^operators +.*If 1'
expect 0 "$QBENCH" inspect branches.onnx --shapes x:1x2
says '^operators +Relu 1$'
expect 0 "$QBENCH" bench branches.onnx --shapes x:1x3 --duration=0 --iterations=1 --warmUp=0 --dumpLayerInfo
says 'Neg'
expect 2 "$QBENCH" bench branches.onnx --duration=0 --iterations=1 --warmUp=0
complains 'give its sizes with --shapes'

done_testing
