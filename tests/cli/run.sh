#!/usr/bin/env bash
# ctest-timeout: 300, ctest-cost: 20, ctest-labels: plain
# run: the whole flow once, then only what a change makes stale.
. "$1/tests/support/cli.sh"

demo 3 5
cd demo || exit 1
rm -f ./*.calib.h5 ./*.qdq.onnx compare.json
expect 0 "$QBENCH" init --model model.onnx --data calib --force
sed -i "s|evaluation: .*|evaluation: test|; s|max_drop: .*|max_drop: 90|; s|duration: 2|duration: 0.05|" qbench.yaml

# stages NAME...: these ran in the last run; all others were up to date.
stages() {
    local want="$*"
    checks=$((checks + 1))
    got=$(sed -n 's/^\([a-z]*\): \(running\|would run\).*/\1/p' "$work/.err" | tr '\n' ' ')
    [ "$got" = "$want " ] || [ "$got" = "$want" ] || fail "ran '$got', expected '$want'"
}

expect 0 "$QBENCH" run --dry-run
stages calibrate quantize compare gate
absent compare.json
expect 0 "$QBENCH" run
stages calibrate quantize compare gate
says '^PASS int8 max-drop'
expect 0 "$QBENCH" run
stages gate
complains '^calibrate: up to date'

sed -i 's/max_drop: .*/max_drop: -100/' qbench.yaml
expect 3 "$QBENCH" run --json -
stages gate
says '"held": false'
sed -i 's/max_drop: .*/max_drop: 90/' qbench.yaml

sed -i 's/keep_float: .*/keep_float: [nothing]/' qbench.yaml
expect 0 "$QBENCH" run
stages quantize compare gate
touch -d '2001-01-01' "$(find test -name '*.png' | head -1)"
expect 0 "$QBENCH" run
stages compare gate
rm "$(find calib -name '*.png' | head -1)"
expect 0 "$QBENCH" run
stages calibrate quantize compare gate
expect 0 "$QBENCH" run fp32 int8:minmax
stages compare gate
# A file among the precisions counts by what is in it.
cp model.qdq.onnx other.onnx
expect 0 "$QBENCH" run fp32 other.onnx
stages compare gate
expect 0 "$QBENCH" run fp32 other.onnx
stages gate
cp model.onnx other.onnx
expect 0 "$QBENCH" run fp32 other.onnx
stages compare gate
rm other.onnx
expect 0 "$QBENCH" run fp32 int8:minmax
stages compare gate
printf 'x' >>model.qdq.onnx
expect 0 "$QBENCH" run fp32 int8:minmax
stages quantize gate
printf '{"schema": "qbench.run/1", "stages": [' >qbench.run.json
expect 0 "$QBENCH" run fp32 int8:minmax
stages calibrate quantize compare gate
expect 0 "$QBENCH" run --force
stages calibrate quantize compare gate
expect 0 "$QBENCH" run --force --disable-pass fold-constants --backends cpu,ref
stages calibrate quantize compare gate
sed -i '/^gate:/,$d' qbench.yaml
expect 0 "$QBENCH" run
complains 'gate: left out'

# A stage that fails is not taken for done.
mv calib gone
expect 1 "$QBENCH" run
mv gone calib
expect 0 "$QBENCH" run
complains '^calibrate: up to date'
done_testing
