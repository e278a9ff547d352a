#!/usr/bin/env bash
# Builds qbench and runs its tests:
#   scripts/test.sh [--sanitize] [--werror] [--no-install] [-DNAME=VALUE...] [CTEST ARGUMENT...]
# Installs the missing packages of scripts/packages.txt first (as root, or with sudo). --sanitize
# runs the tests under the address and undefined-behaviour sanitizers as well, without those that
# say nothing new there (lint, plain) or take too long (e2e, perf, slow). -D goes to cmake, what else
# is given to ctest: scripts/test.sh -L unit. JOBS: parallel jobs, 2 when not set.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
jobs=${JOBS:-2}
sanitize=0
install=1
settings=() # unless told those of a build that is there, such as demo.sh's, stay
arguments=()
for argument in "$@"; do
    case $argument in
    --sanitize) sanitize=1 ;;
    --no-install) install=0 ;;
    --werror) settings+=(-DQB_WERROR=ON) ;;
    -D*) settings+=("$argument") ;;
    -h | --help) sed -n '2,/^set /{s/^# \{0,1\}//;/^set /d;p}' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) arguments+=("$argument") ;;
    esac
done

# Where ccache is installed, another checkout's objects are as good as this one's.
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1

say() { printf '\n== %s\n' "$*"; }

# build_and_test PRESET CTEST_ARGUMENT... (-e does not hold inside `f || ...`, so steps are chained)
build_and_test() {
    local preset=$1
    shift
    say "$preset: configure"
    (cd "$root" && cmake --preset "$preset" "${settings[@]}") &&
        say "$preset: build" &&
        cmake --build "$root/build/$preset" --parallel "$jobs" &&
        say "$preset: test" &&
        ctest --test-dir "$root/build/$preset" --parallel "$jobs" --output-on-failure \
            --no-tests=error "$@"
    local status=$?
    list_skipped "$root/build/$preset/Testing/Temporary/LastTest.log"
    return $status
}

# What was skipped, and why: "skipped: ..." of each test's output.
list_skipped() {
    [ -f "$1" ] || return 0
    awk '/^[0-9]+\/[0-9]+ Testing: /{name = $3; why = ""}
        /skipped: /{if (why == "") {why = $0; sub(/^.*skipped: /, "", why)}}
        /^Test Skipped/{printf "%s%s: %s\n", n++ ? "" : "\nskipped:\n", "  " name,
            why == "" ? "no reason given" : why}' "$1"
}

[ "$install" = 0 ] || "$root/scripts/install_packages.sh"
failed=0
build_and_test release "${arguments[@]}" || failed=1
if [ "$sanitize" = 1 ]; then
    build_and_test asan -LE '^(lint|e2e|perf|slow|plain)$' "${arguments[@]}" || failed=1
fi
if [ "$failed" = 0 ]; then say "all tests passed"; else say "FAILED"; fi
exit "$failed"
