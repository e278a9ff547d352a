#!/usr/bin/env bash
# The sums of the mma.sync tiles, device code compiled for the host. Skips without a C++ compiler.
# ctest-labels: plain
set -euo pipefail
cxx=${CXX:-c++}
if ! command -v "$cxx" >/dev/null; then echo 'skipped: no C++ compiler'; exit 77; fi
program=$(mktemp)
trap 'rm -f "$program"' EXIT
"$cxx" -std=c++17 -O2 -Wall -Wextra -Wno-unknown-pragmas -I"$1" -o "$program" "$1/tests/device/mma_tiles.cpp"
"$program"
