#!/usr/bin/env bash
# What goes where: JSON alone on standard output, silence with --quiet, readers that go away, streams
# that are closed or full, progress on and off a terminal, names that are not UTF-8.
# ctest-timeout: 180, ctest-cost: 30
. "$1/tests/support/cli.sh"

demo 3 4
cp demo/model.onnx demo/model.json . && cp -r demo/calib data

is_json() { # the last command printed one JSON value of this schema and nothing else
    checks=$((checks + 1))
    python3 -c 'import json, sys; sys.exit(json.load(open(sys.argv[1]))["schema"] != sys.argv[2])' \
        "$work/.out" "$1" || fail "stdout is not one JSON value of $1"
}
silent() {
    checks=$((checks + 1))
    [ ! -s "$work/.err" ] || fail 'stderr is not empty'
}

# Every command: --json - prints JSON only, --quiet leaves results only.
if command -v python3 >/dev/null; then
    expect 0 "$QBENCH" inspect model.onnx --graph --steps --json - --quiet
    is_json qbench.inspect/1
    silent
    expect 0 "$QBENCH" init --model model.onnx --data data -o made.yaml --json - --quiet
    is_json qbench.init/1
    silent
    expect 0 "$QBENCH" calibrate model.onnx --data data --json - --quiet
    is_json qbench.calibrate/1
    silent
    expect 0 "$QBENCH" quantize model.onnx --json - --quiet
    is_json qbench.quantize/1
    silent
    expect 0 "$QBENCH" compare --model model.onnx --duration 0.01 --json - --quiet
    is_json qbench.compare/1
    silent
    expect 0 "$QBENCH" gate --max-drop 100 --allow calibration-data --json - --quiet
    is_json qbench.gate/1
    silent
    expect 0 "$QBENCH" report --json - --quiet
    is_json qbench.compare/1
    silent
    expect 0 "$QBENCH" zoo --json - --quiet
    is_json qbench.zoo/1
    silent
    expect 0 "$QBENCH" version --json - --quiet
    is_json qbench.version/1
    silent
    expect 0 "$QBENCH" demo -o quiet --test-images 1 --calibration-images 1 --json - --quiet
    is_json qbench.compare/1
    silent
fi
expect 0 "$QBENCH" report --json table.json
says '^fp32 '
checks=$((checks + 1))
cmp -s table.json compare.json || fail '--json FILE and compare.json differ'

# A reader that has seen enough is no failure; a full or closed standard output is one.
for command in 'help' 'inspect model.onnx --steps' 'report'; do
    checks=$((checks + 1))
    # shellcheck disable=SC2086
    "$QBENCH" $command 2>"$work/.err" | head -1 >/dev/null
    [ "${PIPESTATUS[0]}" = 0 ] || fail "$command | head: exit ${PIPESTATUS[0]}"
    grep -q error "$work/.err" && fail "$command | head complains"
done
if [ -w /dev/full ]; then
    checks=$((checks + 1))
    "$QBENCH" help >/dev/full 2>"$work/.err" && fail 'a full standard output was not noticed'
    complains 'standard output'
fi
cp model.calib.h5 before.h5
checks=$((checks + 1))
"$QBENCH" calibrate model.onnx --data data >&- 2>"$work/.err" && fail 'a closed standard output was not noticed'
same_bytes model.calib.h5 before.h5 # and nothing was printed into it
checks=$((checks + 1))
"$QBENCH" calibrate model.onnx --data data 2>&- >/dev/null || fail "without stderr: exit $?"
same_bytes model.calib.h5 before.h5

# Off a terminal a short run says one line a stage, without control characters.
expect 0 "$QBENCH" calibrate model.onnx --data data
checks=$((checks + 1))
[ "$(grep -c '^calibrate: .* samples in' "$work/.err")" = 1 ] || fail 'progress is not one line'
checks=$((checks + 1))
grep -q "$(printf '[\r\033]')" "$work/.err" && fail 'control characters off a terminal'

# On a terminal the bar is gone when the work is done.
if command -v tmux >/dev/null && tmux -L "qb$$" -f /dev/null new-session -d -x 100 -y 20 2>/dev/null; then
    tmux -L "qb$$" send-keys "cd '$work' && '$QBENCH' calibrate model.onnx --data demo/test; echo END" Enter
    for _ in $(seq 50); do
        sleep 0.2
        tmux -L "qb$$" capture-pane -p >"$work/.out"
        grep -q '^END' "$work/.out" && break
    done
    tmux -L "qb$$" kill-server
    says '^calibrate: 40 samples in [0-9.]+ s'
    says '^model.calib.h5: '
    checks=$((checks + 1))
    grep -q '\[=*>' "$work/.out" && fail 'the bar is left on the screen'
fi

# File names are bytes: results that hold them are made all the same.
odd=$(printf 'caf\351')
cp -r data "$odd"
expect 0 "$QBENCH" calibrate model.onnx --data "$odd" --json -
says '"dataset": "caf\\\\xe9"'
expect 0 "$QBENCH" compare --model model.onnx --data "$odd" --duration 0.01 --no-figures
says 'data caf\\xe9'
done_testing
