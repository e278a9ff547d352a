#!/usr/bin/env bash
# Every command that writes a file, in surroundings that are not kind to it: no rights, no room, a
# folder or a link in the file's place, what a killed run left, little memory, few descriptors, no
# environment, a reader that went away, another writer of the same file.
# ctest-timeout: 120, ctest-cost: 20
. "$1/tests/support/cli.sh"

demo 3 4
cd demo || exit 1
cp "$QBENCH" "$work/qbench" 2>/dev/null # a user without rights may not reach the build folder
"$QBENCH" quantize >/dev/null && "$QBENCH" calib export model.calib.h5 --format trt -o trt.calib >/dev/null ||
    fail 'preparations'
chmod -R a+rX "$work"

# COMMAND with @ in the place of its output; the output's name.
table=(
    'init --force --model model.onnx --data calib -o @|q.yaml'
    'optimize model.onnx -o @|o.onnx'
    'calibrate model.onnx --data calib -o @|c.calib.h5'
    'calib import trt.calib --model model.onnx -o @|i.calib.h5'
    'calib export model.calib.h5 --format ort-json -o @|t.json'
    'calib show model.calib.h5 --json @|s.json'
    'quantize model.onnx -o @|q.onnx'
    'gate --max-drop 100 --precision int8 --junit @|g.xml'
    'report --format json -o @|r.json'
    'report --format md -o @|r.md'
    'build model.onnx --precision int8 -o @|e.qbe'
    'bench model.onnx --iterations 1 --warmUp 0 --duration 0 --exportOutput=@|b.json'
    'inspect model.onnx --dot @|g.dot'
    'data doctor calib --model model.onnx --json @|d.json'
    'zoo squeezenet1_1 -o @|z.onnx'
)

# each FUNCTION: FUNCTION NAME COMMAND..., with the output at $place/NAME.
each() {
    local row words
    for row in "${table[@]}"; do
        read -ra words <<<"${row%|*}"
        "$1" "${row##*|}" "${words[@]//@/$place/${row##*|}}"
    done
}
tidy() { # tidy NAME: nothing but NAME is in the folder
    checks=$((checks + 1))
    [ "$(ls -A "$place")" = "$1" ] || fail "$command: in the folder: $(ls -A "$place"), expected: $1"
}

as_nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups)
no_rights() {
    command="${*:2}"
    expect 1 "${as_nobody[@]}" "$work/qbench" "${@:2}"
    complains "$place/$1: Permission denied"
    tidy ''
}
no_room() {
    command="${*:2}"
    expect 1 "$QBENCH" "${@:2}"
    complains 'No space left on device'
    tidy full
}
# What lies there is a link: it is replaced, and what it leads to stays as it is. Beside it lies what
# killed runs left.
links_and_left_overs() {
    command="${*:2}"
    mkdir "$place/there"
    echo another >"$place/there/$1"
    ln -s "there/$1" "$place/$1"
    echo half | tee "$place/.$1.qbench-0.tmp" >"$place/.$1.qbench-1.tmp"
    expect 0 "$QBENCH" "${@:2}"
    checks=$((checks + 1))
    [ ! -L "$place/$1" ] && [ "$(cat "$place/there/$1")" = another ] ||
        fail "$command: written through a link"
    rm -r "$place/there"
    tidy "$1"
    rm "${place:?}/$1"
}

place=$work/place
mkdir "$place"
each links_and_left_overs

if [ "$(id -u)" = 0 ] && "${as_nobody[@]}" "$work/qbench" version >/dev/null 2>&1; then
    each no_rights
fi
mkdir "$work/disk"
if mount -t tmpfs -o size=4k none "$work/disk" 2>/dev/null; then
    trap 'cd /; umount "$work/disk"; rm -rf "$work"' EXIT
    place=$work/disk
    dd if=/dev/zero of="$place/full" bs=4k count=1 2>/dev/null
    each no_room
fi

# A folder in the file's place; a file in the folder's.
expect 1 "$QBENCH" calibrate model.onnx --data nowhere --json "$work"
complains "write $work: expected a file, got a directory"
expect 1 "$QBENCH" quantize -o model.json/below
complains 'make folder model.json: there is a file of that name'

# What would fail at the end fails at the start.
if [ "$(id -u)" = 0 ] && "${as_nobody[@]}" true 2>/dev/null; then
    expect 1 "${as_nobody[@]}" "$work/qbench" compare fp32 --data nowhere -o "$work/place"
    complains 'write to folder .*/place: Permission denied'
fi

expect 1 "$QBENCH" build model.onnx --precision fp32 -o nowhere/net.qbe
complains 'nowhere/.*: No such file'
! grep -q 'Engine built' "$work/.err" || fail 'an engine was built for a file that cannot be'
expect 1 "$QBENCH" build model.onnx --precision fp32 --saveEngine=nowhere/net.qbe
complains 'nowhere/.*: No such file'
! grep -q 'Engine built' "$work/.err" || fail 'an engine was built for --saveEngine'

# A reader that has seen enough, and none at all.
checks=$((checks + 1))
"$QBENCH" report --format json 2>"$work/.err" | head -c 1 >/dev/null
[ "${PIPESTATUS[0]}" = 0 ] && [ ! -s "$work/.err" ] || fail 'report --format json | head'
expect 1 sh -c '"$1" version >&-' sh "$QBENCH"
complains 'standard output: Bad file descriptor'

# An own output is written to, wherever it leads, and not replaced.
checks=$((checks + 1))
# shellcheck disable=SC2016
sh -c 'echo first; "$1" version --json /proc/self/fd/1; echo last' sh "$QBENCH" >"$work/own.txt"
head -1 "$work/own.txt" | grep -qx first && tail -1 "$work/own.txt" | grep -qx last &&
    grep -q '"schema"' "$work/own.txt" || fail 'an own output'

# A folder that is not there is noticed before the work.
expect 1 "$QBENCH" calibrate -o nosuch/c.calib.h5
complains 'write nosuch/c.calib.h5: No such file'
checks=$((checks + 1))
! grep -q samples "$work/.err" || fail 'calibrated for a folder that is not there'

# In a URL these letters mean something else, and a URL has no current folder.
if command -v chromium >/dev/null; then
    mkdir 'odd #%?'
    expect 0 env TMPDIR='odd #%?' "$QBENCH" report --format pdf -o "$work/odd.pdf"
fi

# Little memory, few descriptors, no environment.
"$QBENCH" report --format tsv -o "$work/expected.tsv" 2>/dev/null
for limit in '-v 180000' '-n 8'; do
    # shellcheck disable=SC2016,SC2086
    sh -c 'ulimit $1 $2; "$3" version' sh $limit "$QBENCH" >/dev/null 2>&1 || continue # sanitizers
    # shellcheck disable=SC2016,SC2086
    expect 0 sh -c 'ulimit $1 $2; shift 2; "$@"' sh $limit "$QBENCH" quantize -o "$work/limited.onnx"
    same_bytes "$work/limited.onnx" model.qdq.onnx
done
expect 0 env -i "$QBENCH" report --format tsv -o "$work/bare.tsv"
same_bytes "$work/bare.tsv" "$work/expected.tsv"
expect 1 env TMPDIR=/proc/nowhere "$QBENCH" report --format pdf -o "$work/page.pdf"
complains '/proc/nowhere/|chromium'

# Numbers in files are no matter of language.
if [ -e /usr/share/i18n/locales/de_DE ] && localedef -i de_DE -f UTF-8 "$work/de_DE.UTF-8" 2>/dev/null; then
    # the C library does not free what it made of LOCPATH
    expect 0 env ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0" LOCPATH="$work" \
        LC_ALL=de_DE.UTF-8 "$QBENCH" report --format tsv -o "$work/german.tsv"
    same_bytes "$work/german.tsv" "$work/expected.tsv"
fi

# Names with all that a name can have.
name=$'a \'b\' "c" \\d\n%s $(e) é'
mkdir "$work/$name"
cp model.onnx "$work/$name/$name.onnx"
cp model.json "$work/$name/$name.json"
(
    cd "$work/$name" || exit 1
    cp -r "$work/demo/calib" "$name"
    expect 0 "$QBENCH" init --data "$name"
    expect 0 "$QBENCH" compare fp32 --duration 0.01 --no-figures
    expect 0 "$QBENCH" report -o page.html --no-figures
    expect 0 "$QBENCH" calibrate
    expect 0 "$QBENCH" quantize -o "$name/$name.onnx"
    [ "$failures" = 0 ]
) || fail 'odd names'
checks=$((checks + 1))
cp -r "$work/$name" "$work/latin"
(cd "$work/latin" && rm ./*.yaml && "$QBENCH" init --model ./*.onnx --data $'\xe9' --force 2>"$work/.err")
complains 'a path that a settings file cannot hold|No such file'

# Several writers of one file at once: all succeed, one of them is last.
for i in 1 2 3 4; do "$QBENCH" quantize -o "$work/both.onnx" >/dev/null 2>"$work/.err.$i" || echo "$i"; done >"$work/.out" &
for i in 5 6 7 8; do "$QBENCH" quantize -o "$work/both.onnx" >/dev/null 2>"$work/.err.$i" || echo "$i"; done >"$work/.out2"
wait $!
checks=$((checks + 1))
[ ! -s "$work/.out" ] && [ ! -s "$work/.out2" ] || fail 'two writers at once'
same_bytes "$work/both.onnx" model.qdq.onnx
done_testing
