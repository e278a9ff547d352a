#!/usr/bin/env bash
# Ctrl-C in every stage: exit code 130, a message, old artifacts as they were, nothing half-written.
# ctest-timeout: 180, ctest-cost: 100, ctest-labels: slow
. "$1/tests/support/cli.sh"

demo 5 20
cd demo || exit 1

# interrupted WAIT COMMAND...: starts it, sends SIGINT once stderr or a file shows that the stage is on.
interrupted() {
    local pid code until=$1
    shift
    checks=$((checks + 1))
    "$@" >"$work/.out" 2>"$work/.err" &
    pid=$!
    for _ in $(seq 400); do
        eval "$until" && break
        kill -0 $pid 2>/dev/null || break
        sleep 0.02
    done
    for _ in $(seq 400); do # bash has its background jobs ignore it until they catch it
        [ $((0x$(sed -n 's/^SigCgt:[[:space:]]*//p' /proc/$pid/status 2>/dev/null || echo 0) & 2)) = 0 ] ||
            break
        kill -0 $pid 2>/dev/null || break
        sleep 0.02
    done
    kill -INT $pid 2>/dev/null
    code=0
    wait $pid || code=$?
    [ "$code" = 130 ] || fail "exit $code, expected 130: $*"
    complains 'interrupted'
    checks=$((checks + 1))
    local odd
    odd=$(find . -name '*.tmp*' | head -3)
    [ -z "$odd" ] || fail "left over: $odd"
}

sha256sum model.calib.h5 compare.json figures/* >before.sum
# A data set that takes a while: the same images many times.
find "$PWD/test" -name '*.png' | sort >some.txt
for _ in $(seq 200); do cat some.txt; done >many.txt
started='sleep 0.4'
interrupted "$started" "$QBENCH" calibrate model.onnx --data many.txt
interrupted "$started" "$QBENCH" compare fp32 int8 --model model.onnx --data many.txt
# by one who blocks signals for itself, or has no use for the ends of its children
if env --block-signal=INT --ignore-signal=CHLD true 2>/dev/null; then
    interrupted "$started" env --block-signal=INT,TERM,ALRM,CHLD --ignore-signal=CHLD "$QBENCH" calibrate model.onnx --data many.txt
    expect 0 env --ignore-signal=CHLD "$QBENCH" report -f html -o ignored.html
    ! grep -q gnuplot "$work/.err" || fail 'charts were not drawn'
    rm -rf ignored.html
fi
interrupted "grep -q '^evaluate' '$work/.err'" \
    "$QBENCH" compare fp32 int8 --model model.onnx --data some.txt --duration 60
interrupted "$started" "$QBENCH" demo -o other --test-images 10000
interrupted "grep -c '^draw' '$work/.err' | grep -q 2" "$QBENCH" demo -o third --calibration-images 1 --test-images 400
checks=$((checks + 1))
sha256sum --quiet -c before.sum || fail 'an interrupted command changed artifacts'
for folder in other third; do
    absent $folder/compare.json
    absent $folder/figures
done
done_testing
