#!/usr/bin/env bash
# --providers: the same command on every machine. Where there is no GPU, it says so once and runs on
# the CPU; results name what really ran.
. "$1/tests/support/cli.sh"
source=$1

demo 3 2
cd demo || exit 1
short=(--duration=0.01 --warmUp=0 --iterations=1)
"$QBENCH" inspect model.onnx --providers cuda,cpu 2>/dev/null | grep -q '^device' && skip 'this machine has a GPU'

expect 0 "$QBENCH" inspect model.onnx --providers cuda,cpu --steps
complains '^qbench: warning: provider cuda: .*: all nodes run on the CPU$'
says '^providers +cuda 0, cpu [0-9]+, copies between them 0; not there: cuda: '
says '^[0-9]+ .* Conv.* cpu$'
says '^ +cpu\.conv_f32'
[ "$(wc -l <"$work/.err")" = 1 ] || fail 'more than one line about the missing provider'
expect 0 "$QBENCH" inspect model.onnx --providers cpu --json -
says '"missing": null'
says '"provider": "cpu"'
[ ! -s "$work/.err" ] || fail 'a warning about nothing'

expect 0 "$QBENCH" compare fp32 int8 --providers cuda,cpu --data test --duration 0.01 --no-figures
says '^int8 '
[ "$(grep -c '"backend": "cpu"' compare.json)" = 2 ] || fail 'compare.json does not name what ran'
expect 0 "$QBENCH" bench --providers cuda "${short[@]}" --precision int8
expect 0 "$QBENCH" build --providers cuda,cpu --precision int8
expect 0 "$QBENCH" build --precision int8 -o plain.qbe
same_bytes model.int8.qbe plain.qbe
printf 'model: model.onnx\ndata: {calibration: calib, evaluation: test}\ncompare: {duration: 0.01}\n' >qbench.yaml
expect 0 "$QBENCH" run fp32 int8 --providers cuda,cpu
expect 0 "$QBENCH" run fp32 int8 --dry-run # what ran is what runs without the option
complains 'compare: up to date'
rm qbench.yaml

expect 2 "$QBENCH" inspect model.onnx --providers gpu
complains "provider 'gpu': expected cuda or cpu"
expect 2 "$QBENCH" inspect model.onnx --providers cdua,cpu
complains "did you mean 'cuda'"
expect 2 "$QBENCH" inspect model.onnx --providers cpu --backends ref
complains 'give one'
expect 2 "$QBENCH" bench --loadEngine=model.int8.qbe --providers cpu
expect 0 "$QBENCH" help providers

instrumented=$(nm -D "$QB_BUILD/libqbench.so.0" | grep -c __asan_init)
python=${QB_PYTHON:-python3}
if [ "$instrumented" = 0 ] && "$python" -c 'import numpy' 2>/dev/null; then
    export PYTHONPATH=$source/python QBENCH_LIBRARY=$QB_BUILD/libqbench.so.0
    expect 0 "$python" -c '
import qbench
assert qbench.Engine.build("model.onnx", providers=["cuda", "cpu"]).provider == "cpu"
try:
    qbench.Engine.build("model.onnx", providers=["cpu"], backends="ref")
except qbench.Error as e:
    assert "give one" in str(e)
else:
    raise AssertionError("no error")'
fi
done_testing
