#!/usr/bin/env bash
# ctest-timeout: 300
# Every header compiles by itself, twice in one file, as C17 and (internal ones excepted) as C++17.
source "$(dirname "${BASH_SOURCE[0]}")/../support/lint.sh"

cc=${CC:-cc}
cxx=${CXX:-c++}
command -v "$cxx" >/dev/null || skip "no C++ compiler"
flags=(-fsyntax-only -D_GNU_SOURCE -Wall -Wextra -Wpedantic -Wshadow -Werror)
system=()
for package in hdf5-serial hdf5 yaml-0.1 jansson libprotobuf-c libpng; do
    read -ra more < <(pkg-config --cflags-only-I "$package" 2>/dev/null || true) || true
    system+=("${more[@]/#-I/-isystem}")
done
[ -d "${QB_BUILD:-}/generated" ] && system+=("-isystem$QB_BUILD/generated")

check() {
    local base=$1 failed=0 h text
    for h in $(source_files "$base" '*.h'); do
        case $h in */cuda/*) continue ;; esac # needs nvcc
        text=$(printf '#include "%s"\n#include "%s"\n' "$h" "$h")
        "$cc" -x c -std=c17 "${flags[@]}" -I"$base" "${system[@]}" - <<<"$text" ||
            { echo "$h does not compile alone as C17"; failed=1; }
        case $h in *_internal.h) continue ;; esac
        "$cxx" -x c++ -std=c++17 "${flags[@]}" -I"$base" "${system[@]}" - <<<"$text" ||
            { echo "$h does not compile alone as C++17"; failed=1; }
    done
    return $failed
}

tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir "$tree/base"
echo 'size_t f(void);' >"$tree/base/a.h"
self_check "a header that forgets an include" check "$tree"
echo 'struct a { int x; };' >"$tree/base/a.h"
self_check "a header without a guard" check "$tree"
printf '#ifndef A\n#define A\nint f(int class);\n#endif\n' >"$tree/base/a.h"
self_check "a header that is no C++" check "$tree"
printf '#ifndef A\n#define A\nint f(int x);\n#endif\n' >"$tree/base/a.h"
check "$tree"

check "$root"
