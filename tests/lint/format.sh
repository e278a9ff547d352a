#!/usr/bin/env bash
# ctest-timeout: 300
# All C and C++ sources look as .clang-format says.
source "$(dirname "${BASH_SOURCE[0]}")/../support/lint.sh"

command -v clang-format >/dev/null || skip "clang-format is not installed"
# Releases format differently; the reference is Debian 12's.
version=$(clang-format --version | sed -n 's/.*version \([0-9]*\).*/\1/p')
[ "$version" = 14 ] || skip "clang-format is version $version, the sources follow 14"

cd "$root"
{
    source_files . '*.c' '*.h' '*.cu' '*.cuh'
    find tests -name '*.[ch]' | sort
} | xargs clang-format --dry-run -Werror --style=file
