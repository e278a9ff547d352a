#!/usr/bin/env bash
# Models that would be read for long, or that lack what each node has: an error that names the file, within
# seconds of processor time.
# ctest-timeout: 60, ctest-cost: 3
. "$1/tests/support/cli.sh"
. "$1/tests/support/onnx.sh"

# refused TEXT COMMAND...
refused() {
    local text=$1
    shift
    expect 1 bash -c 'ulimit -t 3; exec timeout -s KILL 60 "$@"' - "$@"
    complains "$text"
}

# ---- nodes without an operator, in branches that are looked at before they are read ----

truth="$(text 0a c)$(field 12 "$(field 0a 08091200)")" # an input: a scalar of bools
nameless="$(text 0a x)$(text 12 t)"                    # a node: no operator, no name
branch() {                                            # NAME NODE: a body that gives t
    field 2a "$(text 0a "$1")$(field 32 "$(field 0a "$2")$(text 12 b)$(field 62 "$(text 0a t)")")a00105"
}
choice() { # FILE THEN ELSE
    model "$1" "$(field 0a "$(node If pick y c)$(branch then_branch "$2")$(branch else_branch "$3")")$(text 12 g)$(
        field 5a "$truth")$(field 5a "$(port x 4)")$(field 62 "$(port y 4)")"
}
nothing="$(node Constant none t)$(field 2a "$(text 0a value)$(field 2a 080010014a00)a00104")" # of no elements
choice good.onnx "$nothing" "$(node Neg '' t x)"
expect 0 "$QBENCH" inspect good.onnx
choice then.onnx "$nameless" "$(node Neg '' t x)"
choice else.onnx "$nothing" "$nameless"
# The branch is read when the condition is known, or not at all.
refused "then.onnx: step 0 If 'pick' .*a node without an operator" "$QBENCH" bench --iterations 1 --warmUp 0 --duration 0 --onnx=then.onnx
expect 0 "$QBENCH" inspect else.onnx
# One that makes what a condition is sought in.
model maker.onnx "$(field 0a "$(text 0a c)$(text 12 d)")$(field 0a "$(node If pick y d)$(branch then_branch "$nothing")$(
    branch else_branch "$(node NonMaxSuppression '' t x x)")")$(text 12 g)$(field 5a "$truth")$(field 5a "$(port x 4)")$(
    field 62 "$(port y 4)")"
refused 'maker.onnx: .*node 0 .*a node without an operator' "$QBENCH" inspect maker.onnx

# ---- opsets and functions by the thousand ----

relu="$(field 0a "$(node Relu r y x)")$(text 12 g)$(field 5a "$(port x 4)")$(field 62 "$(port y 4)")"
opset() { field 42 "$(text 0a "d$1")1001"; } # of a domain of its own
opsets=''
for i in $(seq 255); do opsets+=$(opset "$i"); done
model many.onnx "$relu" "$opsets"
expect 0 "$QBENCH" inspect many.onnx
model more.onnx "$relu" "$opsets$(opset 256)"
refused 'more.onnx: 257 opsets are imported, at most 256' "$QBENCH" inspect more.onnx
model names.onnx "$relu" "$(field 42 "$(text 0a ai.onnx)1007")"
refused "names.onnx: opset of domain '': version 17 and 7" "$QBENCH" inspect names.onnx
own() { # NAME [FIELDS]
    field ca01 "$(text 0a "$1")$(text 22 a)$(text 2a b)$(field 3a "$(node Neg '' b a)")$(field 4a 1011)$(text 52 own)${2:-}"
}
model imports.onnx "$relu" "$(own f "$(field 4a 1007)")"
refused "imports.onnx: function 'f': opset of domain '': version 17 and 7" "$QBENCH" inspect imports.onnx

# Each call looks for its function: 50,000 of each took half a minute.
python3 - <<'PY' || fail 'a model of many functions'
def varint(n):
    return bytes([n]) if n < 128 else bytes([n % 128 + 128]) + varint(n // 128)
def field(tag, data):
    data = data if isinstance(data, bytes) else data.encode()
    return tag + varint(len(data)) + data
def node(op, to, of, domain):
    return field(b"\x0a", of) + field(b"\x12", to) + field(b"\x22", op) + field(b"\x3a", domain)
def port(name):
    return field(b"\x0a", name) + field(b"\x12", field(b"\x0a", b"\x08\x01" + field(b"\x12", field(b"\x0a", b"\x08\x04"))))
N = 50000
graph = b"".join(field(b"\x0a", node(f"f{i}", f"t{i + 1}", f"t{i}", "own")) for i in range(N))
graph += field(b"\x12", "g") + field(b"\x5a", port("t0")) + field(b"\x62", port(f"t{N}"))
body = field(b"\x3a", node("Neg", "b", "a", "")) + field(b"\x4a", b"\x10\x11") + field(b"\x52", "own")
functions = b"".join(field(b"\xca\x01", field(b"\x0a", f"f{i}") + field(b"\x22", "a") + field(b"\x2a", "b") + body)
                     for i in range(N))
open("calls.onnx", "wb").write(b"\x08\x08" + field(b"\x3a", graph) + field(b"\x42", b"\x10\x11") + functions +
                               b"\x7a\x80\x80\x80\x20" + bytes(1 << 26))  # an unknown field: what copies may take
PY
expect 0 bash -c 'ulimit -t 10; exec "$@"' - "$QBENCH" inspect calls.onnx
done_testing
