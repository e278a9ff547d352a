#!/usr/bin/env bash
# Output that cannot be written: a clear error naming the file, exit code 1, old files as they were.
# A file size limit stands for a full disk everywhere; a small tmpfs where mounting is permitted.
# ctest-timeout: 120, ctest-cost: 30
. "$1/tests/support/cli.sh"

"$QBENCH" demo -o demo --test-images 2 --calibration-images 2 >/dev/null 2>&1 || fail demo
cd demo || exit 1
"$QBENCH" quantize >/dev/null 2>&1 || fail quantize
"$QBENCH" init --model model.onnx --data calib >/dev/null 2>&1 || fail init
find . -type f ! -name '*.tsv' ! -name '*.gp' -exec sha256sum {} + >"$work/before.sum"

unchanged() {
    checks=$((checks + 1))
    sha256sum --quiet -c "$work/before.sum" >"$work/.out" 2>&1 || fail "old files changed: $*"
    local odd
    odd=$(find . -name '*.tmp*' | head -3)
    [ -z "$odd" ] || fail "left over after $*: $odd"
}
limited() { # limited BLOCKS COMMAND...: no file may grow beyond that many KiB
    local blocks=$1
    shift
    checks=$((checks + 1))
    # The limit holds for files of the shell as well: messages take a pipe.
    (ulimit -f "$blocks" && exec "$@") 2>&1 >/dev/null | cat >"$work/.err"
    local code=${PIPESTATUS[0]}
    [ $code = 1 ] || fail "exit $code, expected 1: $*"
    unchanged "$*"
}
limited 4 "$QBENCH" calibrate
complains 'write .*model.calib.h5'
limited 4 "$QBENCH" quantize
complains 'model.qdq.onnx: write: File too large'
limited 0 "$QBENCH" init --force
complains 'write .*qbench.yaml'
limited 1 "$QBENCH" compare --duration 0.01
complains 'write .*compare(\.[0-9]+)?\.json'
limited 4 "$QBENCH" report
complains 'figure|latency'
limited 0 "$QBENCH" gate --max-drop 100 --precision int8 --json gate.json
complains 'write .*gate.json'
absent gate.json
limited 100 "$QBENCH" demo -o ../second
complains 'write .*second/model.onnx'
limited 4 "$QBENCH" zoo squeezenet1_1
complains 'squeezenet1_1.onnx: write: File too large'
absent squeezenet1_1.onnx

# Folders that nobody can write to.
for command in calibrate quantize 'compare --duration 0.01' report 'init --force' 'zoo resnet18'; do
    # shellcheck disable=SC2086
    expect 1 "$QBENCH" $command -o /proc/nowhere
    complains '/proc/nowhere'
    expect 1 "$QBENCH" $command -o model.onnx/below
    complains 'model.onnx'
done
unchanged 'unwritable folders'

# A disk that is really full.
mkdir "$work/disk"
if mount -t tmpfs -o size=48k none "$work/disk" 2>/dev/null; then
    trap 'cd /; umount "$work/disk" 2>/dev/null; rm -rf "$work"' EXIT
    expect 1 "$QBENCH" calibrate -o "$work/disk"
    complains 'No space left'
    expect 1 "$QBENCH" report -o "$work/disk"
    complains 'latency|accuracy'
    checks=$((checks + 1))
    odd=$(find "$work/disk" -name '*.tmp*' -o -name '*.h5' -o -name '*.png' -size 0 | head -3)
    [ -z "$odd" ] || fail "left over: $odd"
    # Room for an engine file, none for its signature: no file is left without.
    umount "$work/disk"
    if openssl genpkey -algorithm ed25519 -out "$work/key.pem" 2>/dev/null &&
        mount -t tmpfs -o size=4m,nr_inodes=2 none "$work/disk"; then
        expect 1 "$QBENCH" build model.onnx --precision fp32 -o "$work/disk/net.qbe" --sign "$work/key.pem"
        complains 'net.qbe.sig: No space left|built without OpenSSL'
        absent "$work/disk/net.qbe"
    fi
fi
done_testing
