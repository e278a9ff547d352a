#!/usr/bin/env bash
# The Debian package that cpack makes: what it needs, what is in it, and that it runs from where it lies.
# ctest-timeout: 300, ctest-cost: 40, ctest-labels: plain
. "$1/tests/support/cli.sh"
for tool in cpack dpkg-deb dpkg-shlibdeps file; do
    command -v $tool >/dev/null || skip "no $tool"
done
[ "$(nm -D "$QB_BUILD/libqbench.so.0" | grep -c __asan_init)" = 0 ] || skip 'sanitizers are not packed'

expect 0 cpack -G DEB --config "$QB_BUILD/CPackConfig.cmake" -B "$work/made"
version=$("$QBENCH" version | sed 's/^qbench \([^ ]*\).*/\1/')
machine=$(dpkg --print-architecture)
package=made/qbench_${version}_$machine.deb
[ -s "$package" ] || fail "no $package: $(ls made)"
expect 0 dpkg-deb -f "$package"
says "^Architecture: $machine$"
says "^Version: $version$"
says '^Depends: .*libdnnl'
says '^Recommends: gnuplot-nox$'
checks=$((checks + 1))
grep -Eq '^Depends: .*mpi' "$work/.out" && fail 'the package forces MPI'
expect 0 dpkg-deb -x "$package" root
expect 0 env LD_LIBRARY_PATH="$work/root/usr/lib" root/usr/bin/qbench version
says "^qbench $version"
for file in include/qbench/qbench.h lib/libqbench.so.0 lib/libqbench.a share/man/man1/qbench.1 \
    share/bash-completion/completions/qbench share/doc/qbench/copyright; do
    checks=$((checks + 1))
    [ -s root/usr/$file ] || [ -s root/usr/$file.gz ] || fail "the package lacks $file"
done
if command -v lintian >/dev/null; then
    # It has a limit of its own: on a loaded machine the checks above still count. A static build with
    # CUDA names its folder, which no package has.
    linted=0
    timeout 120 lintian --allow-root --suppress-tags pkg-config-bad-directive \
        --fail-on error,warning made/*.deb >lintian.out 2>&1 || linted=$?
    checks=$((checks + 1))
    case $linted in
    0) ;;
    124) echo 'lintian took more than 120 s: the package is not linted' ;;
    *) fail "lintian: $(cat lintian.out)" ;;
    esac
else
    echo 'no lintian: the package is not linted'
fi
done_testing
