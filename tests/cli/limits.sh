#!/usr/bin/env bash
# Budgets of memory, archives that unpack to much, and commands that are asked to stop.
. "$1/tests/support/cli.sh"

large=$QB_BUILD/tests/large_model

# --max-memory: refused before it is allocated, with what wanted it.
"$large" wide_input 100000000 wide.onnx || fail large_model
[ -n "${QB_SANITIZE:-}" ] || {
    expect 1 "$QBENCH" bench wide.onnx --precision fp32 --duration 0.01 --max-memory 300M
    complains 'MB wanted beside .* MB in use, the limit is 314.6 MB \(--max-memory\)'
}
expect 0 "$QBENCH" inspect wide.onnx --max-memory 300M
expect 2 "$QBENCH" inspect wide.onnx --max-memory some
complains "max-memory: expected 800M, 4G or MiB, got 'some'"

# An archive of 200 kB with an array of 200 MB: looked at first, unpacked once.
if command -v python3 >/dev/null && [ -z "${QB_SANITIZE:-}" ]; then
    python3 - <<'PY'
import zipfile
header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 3, 4000, 4096), }"
header += ' ' * ((64 - (10 + len(header) + 1) % 64) % 64) + '\n'
start = b'\x93NUMPY\x01\x00' + len(header).to_bytes(2, 'little') + header.encode()
with zipfile.ZipFile('bomb.npz', 'w', zipfile.ZIP_DEFLATED) as z:
    z.writestr('x.npy', start + bytes(4 * 3 * 4000 * 4096))
with zipfile.ZipFile('liar.npz', 'w', zipfile.ZIP_DEFLATED) as z:
    z.writestr('x.npy', start + bytes(100000000))
PY
    "$large" relu 3 small.onnx
    expect 1 "$QB_BUILD/tests/peak_memory" .peak "$QBENCH" calibrate small.onnx --data bomb.npz
    complains "input 'x': expected shape 1x4x8x8, got 1x3x4000x4096"
    checks=$((checks + 1))
    [ "$(cat .peak)" -le 460 ] || fail "$(cat .peak) MiB for bomb.npz"
    expect 1 "$QBENCH" calibrate small.onnx --data bomb.npz --max-memory 100M
    complains "bomb.npz: array 'x': out of memory: 196.6 MB wanted"
    expect 1 "$QB_BUILD/tests/peak_memory" .peak "$QBENCH" calibrate small.onnx --data liar.npz
    complains 'shape 1x3x4000x4096: expected 196608000 bytes, got 100000000'
    checks=$((checks + 1))
    [ "$(cat .peak)" -le 60 ] || fail "$(cat .peak) MiB for liar.npz"
fi

# Asked to stop, every command answers: those that look around on their own, the others after 0.8 s.
"$large" relu 1000000 long.onnx
for signal in TERM INT; do
    checks=$((checks + 1))
    code=0
    "$QBENCH" inspect long.onnx >"$work/.out" 2>"$work/.err" &
    pid=$!
    sleep 0.3
    kill -$signal $pid
    before=$(date +%s%N)
    wait $pid || code=$?
    took=$((($(date +%s%N) - before) / 1000000))
    [ $code = 130 ] || fail "exit $code, expected 130 after SIG$signal"
    [ $took -le 3000 ] || fail "$took ms until SIG$signal was answered"
    complains interrupted
done
done_testing
