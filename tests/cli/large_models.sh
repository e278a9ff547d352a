#!/usr/bin/env bash
# Time and memory grow with the model, not with its square, whatever its shape; and small files that ask
# for much get it nowhere. The limits are several times what an idle machine takes.
# ctest-timeout: 400, ctest-cost: 40
. "$1/tests/support/cli.sh"

[ -z "${QB_SANITIZE:-}" ] || skip 'sanitizers take their own time and memory'
large=$QB_BUILD/tests/large_model

# within SECONDS MIB CODE COMMAND...: in that much processor time, resident memory at most MIB. Address
# space is no measure: threads and allocators reserve more than they use.
within() {
    local seconds=$1 mib=$2 wanted=$3 code=0
    shift 3
    checks=$((checks + 1))
    (
        ulimit -t "$seconds"
        exec "$QB_BUILD/tests/peak_memory" "$work/.peak" "$@"
    ) >"$work/.out" 2>"$work/.err" || code=$?
    [ "$code" = "$wanted" ] || fail "exit $code, expected $wanted within $seconds s: $*"
    [ "$(cat "$work/.peak")" -le "$mib" ] || fail "$(cat "$work/.peak") MiB, expected $mib: $*"
}

# Many nodes, values, weights or ports: twice as many as would take minutes by any pass of n steps for
# each of n.
for kind in relu identity same_name add scale qdq reshape transpose shapes constants common \
    initializers dead gelu fan; do
    "$large" "$kind" 100000 m.onnx || fail "large_model $kind"
    within 20 900 0 "$QBENCH" inspect m.onnx
done
for kind in conv_norm matmul inputs outputs concat sum; do # with kernels or ports of their own
    "$large" "$kind" 30000 m.onnx || fail "large_model $kind"
    within 20 900 0 "$QBENCH" inspect m.onnx
done
"$large" relu 100000 m.onnx
within 20 900 0 "$QBENCH" optimize m.onnx -o opt.onnx
within 25 900 0 "$QBENCH" build m.onnx --precision fp32 --saveEngine m.qbe
within 25 900 0 "$QBENCH" inspect m.qbe
"$large" outputs 100000 m.onnx
within 20 900 0 "$QBENCH" build m.onnx --precision fp32 --saveEngine m.qbe

# A few hundred bytes that ask for gigabytes of constants: not folded, or refused.
for kind in constant_of_shape expand tile range pad resize one_hot gather doubling runtime_tile \
    wide_input; do
    "$large" "$kind" 500000000 m.onnx || fail "large_model $kind"
    within 10 400 0 "$QBENCH" inspect m.onnx
    within 10 400 0 "$QBENCH" optimize m.onnx -o opt.onnx
    within 10 400 0 "$QBENCH" build m.onnx --precision fp32 --saveEngine m.qbe
done
"$large" matmul_outer 20000 m.onnx
within 10 400 0 "$QBENCH" inspect m.onnx
# Bodies in bodies, calls of calls: what they expand to is bounded by the file.
for kind in nested_if:16 functions_twice:60 function_wide:100000 function_calls:100000 loop:100000000 \
    function_list:20000; do
    "$large" "${kind%:*}" "${kind#*:}" m.onnx || fail "large_model $kind"
    code=0
    (ulimit -t 30 && exec "$QBENCH" inspect m.onnx) >"$work/.out" 2>"$work/.err" || code=$?
    checks=$((checks + 1))
    [ "$code" -le 1 ] || fail "exit $code, expected 0 or 1: $kind"
done
"$large" long_name 100000 m.onnx
within 10 400 0 "$QBENCH" inspect m.onnx
done_testing
