# Sourced by the scripts in tests/cli: a temporary folder to work in and checks that say what they saw.
# $QBENCH is the program, $QB_SHARED the folder of shared data (may be absent).
set -uo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
checks=0
failures=0

fail() {
    failures=$((failures + 1))
    printf 'FAILED: %s\n' "$*"
    [ ! -s "$work/.out" ] || { printf -- '-- stdout\n'; head -20 "$work/.out"; }
    [ ! -s "$work/.err" ] || { printf -- '-- stderr\n'; head -20 "$work/.err"; }
}

# expect CODE COMMAND...: runs it, output in .out and .err, and compares the exit code.
expect() {
    local wanted=$1 got=0
    shift
    checks=$((checks + 1))
    "$@" >"$work/.out" 2>"$work/.err" || got=$?
    [ "$got" = "$wanted" ] || fail "exit $got, expected $wanted: $*"
}

# demo CALIBRATION_IMAGES TEST_IMAGES: the folder that `qbench demo -o demo` makes, what it printed in
# .out and .err. The tests of a build share one for each pair of numbers: it takes seconds to make.
demo() {
    local cache=$QB_BUILD/tests/demo key
    key=$1-$2-$(stat -c %Y-%s "$QBENCH")
    mkdir -p "$cache"
    (
        flock 9
        [ ! -e "$cache/$key/done" ] || exit 0
        rm -rf "${cache:?}/$1-$2-"*
        mkdir "$cache/$key"
        cd "$cache/$key" || exit 1
        "$QBENCH" demo -o demo --calibration-images "$1" --test-images "$2" >out 2>err && touch done
    ) 9>"$cache/lock-$1-$2"
    checks=$((checks + 1))
    cp "$cache/$key/out" "$work/.out"
    cp "$cache/$key/err" "$work/.err"
    if [ -e "$cache/$key/done" ]; then cp -a "$cache/$key/demo" demo; else fail "qbench demo"; fi
}

says() { # stdout has a line that matches the extended regular expression
    checks=$((checks + 1))
    grep -Eq -- "$1" "$work/.out" || fail "stdout lacks: $1"
}

complains() { # stderr has a line that matches
    checks=$((checks + 1))
    grep -Eq -- "$1" "$work/.err" || fail "stderr lacks: $1"
}

same_bytes() {
    checks=$((checks + 1))
    cmp -s "$1" "$2" || fail "$1 and $2 differ"
}

absent() {
    checks=$((checks + 1))
    [ ! -e "$1" ] || fail "$1 should not be there"
}

skip() {
    echo "skipped: $*"
    exit 77
}

done_testing() {
    echo "$((checks - failures)) of $checks checks held"
    [ "$failures" = 0 ]
}

# black_image FILE: a black PNG, 32 x 32 RGB.
black_image() {
    base64 -d >"$1" <<'PNG'
iVBORw0KGgoAAAANSUhEUgAAACAAAAAgCAIAAAD8GO2jAAAAGUlEQVR4nO3BMQEAAADCoPVP7WENoAAAAG4MIAABt9NlCQAAAABJRU5ErkJggg==
PNG
}
