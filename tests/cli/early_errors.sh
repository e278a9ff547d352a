#!/usr/bin/env bash
# What the end of a command would refuse is refused at its beginning, and leaves nothing.
# ctest-timeout: 60, ctest-cost: 5
. "$1/tests/support/cli.sh"

demo 3 4
cp -r demo/model.onnx demo/model.json demo/calib .

# ---- run: the settings of its last stages ----

nothing() { # MESSAGE COMMAND...: no stage runs
    local text=$1
    shift
    "$@" >.out 2>.err
    [ $? -ne 0 ] || fail "taken: $*"
    complains "$text"
    checks=$((checks + 1))
    ! grep -q 'running' .err || fail "a stage ran: $*"
    absent out/model.calib.h5
}
settings() { printf 'model: model.onnx\ndata: {calibration: calib, evaluation: calib}\n%s\n' "$1" >qbench.yaml; }
while IFS='|' read -r wanted text; do
    settings "$text"
    nothing "$wanted" "$QBENCH" run -o out
    nothing "$wanted" "$QBENCH" run -o out --dry-run
done <<'CASES'
qbench.yaml:3:18: gate.max_drop: expected a finite number, got 'abc'|gate: {max_drop: abc}
qbench.yaml:3:18: gate.max_drop: expected a finite number, got '1:30'|gate: {max_drop: 1:30}
gate.confidence: expected point, fail or pass|gate: {max_drop: 1, confidence: sure}
qbench.yaml: --min top1: expected METRIC=V|gate: {min: [top1]}
baseline: there is no .*gone.json|gate: {baseline: gone.json}
gate: no limit|gate: {confidence: pass}
CASES
settings 'gate: {max_drop: 100}'
nothing "unknown precision 'int9'" "$QBENCH" run fp32 int9 -o out
nothing 'open gone.qbe: No such file' "$QBENCH" run fp32 gone.qbe -o out
nothing 'open gone.onnx: No such file' "$QBENCH" run fp32 gone.onnx -o out
expect 0 "$QBENCH" run fp32 int8 -o out --dry-run
complains '^gate: would run'
rm qbench.yaml

# ---- bench, calibrate: where they write ----

for option in exportTimes exportProfile exportLayerInfo exportOutput saveEngine; do
    expect 1 bash -c 'ulimit -t 5; exec timeout 30 "$@"' - "$QBENCH" bench model.onnx --duration=60 --$option=gone/x.json
    complains 'write gone/x.json: No such file'
done
long=$(printf '%0250d' 0) # a name that its model has room for, but not MODEL.calib.h5
cp model.onnx "$long.onnx"
expect 1 "$QBENCH" calibrate "$long.onnx" --data calib
complains '0.calib.h5: File name too long'
checks=$((checks + 1))
! grep -q 'samples in' .err || fail 'calibrated for a file that cannot be'
rm "$long.onnx"

# ---- build: the key that the file is to be signed with ----

if ! command -v openssl >/dev/null || "$QBENCH" build model.onnx -o net.qbe --sign . 2>&1 | grep -q 'built without OpenSSL'; then
    done_testing
    exit
fi
openssl genpkey -algorithm ed25519 -out right.pem 2>/dev/null && openssl genpkey -algorithm x25519 -out other.pem 2>/dev/null ||
    fail 'keys'
openssl pkey -in right.pem -pubout -out public.pem
for key in model.json other.pem public.pem gone.pem .; do
    expect 1 "$QBENCH" build model.onnx --precision fp32 -o net.qbe --sign $key
    complains 'expected a private Ed25519 key|gone.pem: No such file|open .: expected a regular file'
    absent net.qbe
    absent net.qbe.sig
done
mkdir net.qbe.sig
expect 1 "$QBENCH" build model.onnx --precision fp32 -o net.qbe --sign right.pem
complains 'net.qbe.sig: expected a file, got a directory'
absent net.qbe
rmdir net.qbe.sig
expect 0 "$QBENCH" build model.onnx --precision fp32 -o net.qbe --sign right.pem
expect 0 "$QBENCH" inspect net.qbe --verify public.pem
done_testing
