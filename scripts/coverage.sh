#!/usr/bin/env bash
# Branches that tests take in what reads files, one row a reader:
#   scripts/coverage.sh [CTEST ARGUMENT...]
# Builds the preset `coverage`, runs the unit tests and the replays of the fuzz targets' corpora (or
# what ctest is given), and prints branches, how many of them were taken, the share and the file, the
# least share first. A branch of a condition counts once for each way it can go. JOBS: parallel jobs.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build/coverage
jobs=${JOBS:-2}
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1
[ $# -gt 0 ] || set -- -L '^(unit|fuzz)$'

(cd "$root" && cmake --preset coverage >/dev/null)
cmake --build "$build" --parallel "$jobs" >/dev/null
find "$build" -name '*.gcda' -delete
ctest --test-dir "$build" --parallel "$jobs" "$@" >"$build/coverage.log" || tail -n 20 "$build/coverage.log" >&2

# gcov prints of each file "File '...'", and after it "Branches executed:..." and "Taken at least once:P% of N".
counts=$(find "$build/CMakeFiles" -name '*.gcda' -print0 | xargs -0 -r -n 1 gcov -n -b 2>/dev/null |
    awk -v root="$root/" -v quote="'" -F '[:%]' '
        /^File / {file = $0; sub("^File " quote, "", file); sub(quote "$", "", file); sub(".*" root, "", file); sub("^([.][.]/)+", "", file)}
        /^Taken at least once/ {
            n = $3; sub(/^ of /, "", n)
            taken = int($2 * n / 100 + 0.5)
            if (file ~ /\.c$/ && file !~ /^\//) printf "%6d %6d %6.1f%%  %s\n", n, taken, $2, file
        }')
[ -n "$counts" ] || { echo "coverage: no reader ran" >&2; exit 1; }
sort -k 3n <<<"$counts"
awk '{n += $1; taken += $2} END {printf "%6d %6d %6.1f%%  all\n", n, taken, 100 * taken / n}' <<<"$counts"
