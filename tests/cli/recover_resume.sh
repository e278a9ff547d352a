#!/usr/bin/env bash
# calibrate --recover that was killed goes on with --resume, and its files have the same bytes.
# ctest-timeout: 600, ctest-labels: plain
. "$1/tests/support/cli.sh"
demo 5 5
cd demo || exit 1
calibrate=("$QBENCH" calibrate --model model.onnx --data calib --method minmax)
recover=("${calibrate[@]}" --recover=equalize,rounding)
expect 0 "${recover[@]}" -o whole
absent whole/model.recovered.part

"${recover[@]}" -o killed >/dev/null 2>&1 &
for _ in $(seq 3000); do # until the first step is in the file: it holds the graph and its reference
    [ "$(stat -c %s killed/model.recovered.part 2>/dev/null || echo 0)" -lt 100000 ] || break
    sleep 0.05
done
kill -9 $! && wait $! 2>/dev/null
[ -e killed/model.recovered.part ] || fail 'no step was kept before the kill'
[ ! -e killed/model.recovered.onnx ] || fail 'it had ended before the kill'
printf 'half a record' >>killed/model.recovered.part
expect 1 "${calibrate[@]}" --recover=bias -o killed --resume
complains 'is of another recovery: without --resume it begins anew'
expect 0 "${recover[@]}" -o killed --resume
for file in onnx float.onnx calib.h5; do same_bytes whole/model.recovered.$file killed/model.recovered.$file; done
absent killed/model.recovered.part
done_testing
