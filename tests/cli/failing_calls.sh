#!/usr/bin/env bash
# System calls on files fail, one after the other: an error with a message and the old file, or the
# same result as without. Reads and writes that move half of what they should lose nothing; a clock
# that goes backwards stops nothing; two writers of one file leave one whole file.
# ctest-timeout: 240, ctest-cost: 15
. "$1/tests/support/cli.sh"

[ -z "${QB_SANITIZE:-}" ] || skip 'sanitizers do not work under a tracer'
tracer=$QB_BUILD/tests/failing_calls
code=0
"$tracer" count "$QBENCH" version >/dev/null 2>&1 || code=$?
[ $code != 77 ] || skip 'programs cannot be traced here'

# failing TRIES ERRNO OUTPUT COMMAND...: so many of its calls, evenly, each in a run of its own.
failing() {
    local most=$1 error=$2 output=$3 total n
    shift 3
    rm -rf "$output"
    expect 0 env FAIL_COUNT="$work/count" "$tracer" count "$@"
    total=$(cat "$work/count")
    checks=$((checks + 1))
    [ "$total" -gt 10 ] || fail "$total calls counted: $*"
    [ "$output" = - ] || cp "$output" "$work/good"
    for ((n = 1; n <= total; n += total / most + 1)); do
        [ "$output" = - ] || echo old >"$output"
        code=0
        "$tracer" "$n:$error" "$@" >"$work/.out" 2>"$work/.err" || code=$?
        checks=$((checks + 1))
        [ $code -le 1 ] || fail "exit $code, call $n of $total: $*"
        [ $code = 0 ] || complains 'error: '
        [ "$output" = - ] || cmp -s "$output" "$work/good" ||
            { [ $code != 0 ] && [ "$(cat "$output")" = old ]; } ||
            fail "exit $code and neither the old nor the new $output, call $n of $total: $*"
    done
    [ "$output" = - ] || cp "$work/good" "$output" # the last try may have left the old one
    checks=$((checks + 1))
    [ -z "$(find . -name '*.tmp')" ] || fail "left over: $(find . -name '*.tmp' | head -3)"
}

# halved OUTPUT COMMAND...: the same bytes from reads and writes that are cut short.
halved() {
    local output=$1
    shift
    rm -f "$output"
    expect 0 "$@"
    mv "$output" "$work/good"
    expect 0 "$tracer" short "$@"
    same_bytes "$output" "$work/good"
}

demo 2 2
cd demo || exit 1
eio=5 stale=116
failing 8 $eio - "$QBENCH" inspect model.onnx
failing 12 $eio out.onnx "$QBENCH" optimize model.onnx -o out.onnx
failing 16 $eio out.onnx "$QBENCH" quantize model.onnx -o out.onnx
failing 12 $stale out.onnx "$QBENCH" quantize model.onnx -o out.onnx
failing 16 $eio out.qbe "$QBENCH" build model.onnx --precision int8 --saveEngine out.qbe
failing 8 $eio - "$QBENCH" bench --loadEngine=out.qbe --duration 0.001 --warmUp 0
failing 14 $eio out.calib.h5 "$QBENCH" calibrate model.onnx --data calib -n 2 -j 1 --strict -o out.calib.h5
failing 100 $eio verdict.json "$QBENCH" gate --max-drop 100 --allow calibration-data --json verdict.json
failing 6 $eio - "$QBENCH" report -o page --no-figures

halved out.onnx "$QBENCH" optimize model.onnx -o out.onnx
halved out.calib.h5 "$QBENCH" calibrate model.onnx --data calib -n 2 -j 1 --strict -o out.calib.h5
halved out.qbe "$QBENCH" build model.onnx --precision int8 --saveEngine out.qbe

# Two of each writer at once, in one folder.
two() { # OUTPUT COMMAND...
    local output=$1 first=0 second=0
    shift
    rm -f "$output"
    expect 0 "$@"
    mv "$output" "$work/good"
    for _ in 1 2; do
        "$@" >/dev/null 2>"$work/.err" &
        local pid=$!
        "$@" >/dev/null 2>"$work/.err.2" || second=$?
        wait $pid || first=$?
        checks=$((checks + 1))
        [ $first = 0 ] && [ $second = 0 ] || fail "exit $first and $second: two of $*"
        same_bytes "$output" "$work/good"
    done
    absent ".$output.qbench-0.tmp"
    absent ".$output.qbench-1.tmp"
}
two out.onnx "$QBENCH" quantize model.onnx -o out.onnx
two out.qbe "$QBENCH" build model.onnx --precision int8 --saveEngine out.qbe
two out.calib.h5 "$QBENCH" calibrate model.onnx --data calib -n 2 -o out.calib.h5

# The date is an hour earlier each time that somebody looks.
clock=$QB_BUILD/tests/libbackward_clock.so
backward() {
    expect 0 env LD_PRELOAD="$clock" timeout -s KILL 60 "$@"
}
backward "$QBENCH" calibrate model.onnx --data calib -n 2 -o back.calib.h5
backward "$QBENCH" build model.onnx --precision int8 --saveEngine back.qbe
backward "$QBENCH" bench model.onnx --precision fp32 --duration 0.01 --warmUp 1 --iterations 3
backward "$QBENCH" compare fp32 int8 --model model.onnx --data test --duration 0.01 --no-figures -o back.json
backward "$QBENCH" gate back.json --max-drop 100 --allow calibration-data
same_bytes back.calib.h5 out.calib.h5
done_testing
