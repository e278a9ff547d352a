#!/usr/bin/env bash
# Memory runs out at one allocation after the other, in libraries as well: an error with a message, or
# the same result without it (a stream's buffer); no signal, nothing half-written.
# ctest-timeout: 240, ctest-cost: 20
. "$1/tests/support/cli.sh"

[ -z "${QB_SANITIZE:-}" ] || skip 'sanitizers have an allocator of their own'
library=$QB_BUILD/tests/libfailing_malloc.so
large=$QB_BUILD/tests/large_model

# failing TRIES COMMAND...: so many of its allocations, evenly, each in a run of its own.
failing() {
    local most=$1 total n code
    shift
    FAIL_COUNT=count LD_PRELOAD=$library "$@" >"$work/.out" 2>"$work/.err" || fail "without a failure: $*"
    total=$(cat count)
    checks=$((checks + 1))
    [ "$total" -gt 100 ] || fail "$total allocations counted: $*"
    for ((n = 1; n <= total; n += total / most + 1)); do
        code=0
        FAIL_AT=$n LD_PRELOAD=$library "$@" >"$work/.out" 2>"$work/.err" || code=$?
        checks=$((checks + 1))
        [ $code -le 1 ] || fail "exit $code, allocation $n of $total: $*"
        [ $code = 0 ] || complains 'error: '
    done
    checks=$((checks + 1))
    [ -z "$(find . -name '*.tmp*')" ] || fail "left over: $(find . -name '*.tmp*' | head -3)"
}

"$large" conv_norm 9 model.onnx || fail large_model
failing 60 "$QBENCH" inspect model.onnx
failing 40 "$QBENCH" optimize model.onnx -o opt.onnx
failing 60 "$QBENCH" build model.onnx --precision fp32 --saveEngine model.qbe
failing 40 "$QBENCH" inspect model.qbe
failing 40 "$QBENCH" bench --loadEngine=model.qbe --duration 0.001 --warmUp 0
demo 2 2
cd demo || exit 1
failing 40 "$QBENCH" gate --max-drop 100 --allow calibration-data
failing 40 "$QBENCH" report -o report --no-figures
done_testing
