#!/usr/bin/env bash
# Builds qbench and runs its tests:
#   scripts/test.sh [--sanitize] [--no-install] [CTEST ARGUMENT...]
# Installs the missing packages of scripts/packages.txt first (as root, or with sudo). --sanitize
# runs the tests under the address and undefined-behaviour sanitizers as well, without those that
# say nothing new there (lint) or take too long (e2e, perf, slow). What else is given goes to
# ctest: scripts/test.sh -L unit. JOBS: parallel jobs, 2 when not set.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
jobs=${JOBS:-2}
sanitize=0
install=1
arguments=()
for argument in "$@"; do
    case $argument in
    --sanitize) sanitize=1 ;;
    --no-install) install=0 ;;
    -h | --help) sed -n '2,/^set /{s/^# \{0,1\}//;/^set /d;p}' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) arguments+=("$argument") ;;
    esac
done

say() { printf '\n== %s\n' "$*"; }

# build_and_test PRESET CTEST_ARGUMENT... (-e does not hold inside `f || ...`, so steps are chained)
build_and_test() {
    local preset=$1
    shift
    say "$preset: configure"
    (cd "$root" && cmake --preset "$preset" -DQB_WERROR=ON) &&
        say "$preset: build" &&
        cmake --build "$root/build/$preset" --parallel "$jobs" &&
        say "$preset: test" &&
        ctest --test-dir "$root/build/$preset" --parallel "$jobs" --output-on-failure \
            --no-tests=error "$@"
}

[ "$install" = 0 ] || "$root/scripts/install_packages.sh"
failed=0
build_and_test release "${arguments[@]}" || failed=1
if [ "$sanitize" = 1 ]; then
    build_and_test asan -LE '^(lint|e2e|perf|slow)$' "${arguments[@]}" || failed=1
fi
if [ "$failed" = 0 ]; then say "all tests passed"; else say "FAILED"; fi
exit "$failed"
