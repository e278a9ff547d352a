#!/usr/bin/env bash
# The structure of the product stays within its limits (scripts/structure.py): files in circles, members
# of structs, lines of folders, chains of includes.
source "$(dirname "${BASH_SOURCE[0]}")/../support/lint.sh"

command -v python3 >/dev/null || skip "python3 is not installed"
check() {
    local out
    out=$(python3 "$root/scripts/structure.py" "$1" --check) && return 0
    grep '^beyond its limit' <<<"$out"
    return 1
}

# What is planted is found.
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree/engine/run"
try() { # description: refused?
    self_check "$1" check "$tree"
    rm -f "$tree"/engine/*.[ch]
}
echo 'struct few { int a, b; struct { int c, d, e; } more; };' >"$tree/engine/few.h"
check "$tree"
{ echo 'struct many {'; for i in {1..26}; do echo "    int m$i;"; done; echo '};'; } >"$tree/engine/many.h"
try "a struct of 26 members"
for i in 1 2 3 4; do
    echo "int f$i(void) { return f$((i % 4 + 1))(); }" >"$tree/engine/f$i.c"
done
try "four files in a circle"
for i in {1..99}; do echo "#include \"engine/h$((i + 1)).h\"" >"$tree/engine/h$i.h"; done
touch "$tree/engine/h100.h"
try "a long chain of includes"
seq 13300 | sed 's,.*,/* & */,' >"$tree/engine/long.c"
try "a folder with too many lines"

check "$root"
