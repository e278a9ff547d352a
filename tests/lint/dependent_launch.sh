#!/usr/bin/env bash
# Kernels are launched by qb_launch, which lets each begin while the one before it ends: so each has
# to wait for those before (kernels/cuda/common/launch.cuh), itself or by qb_begin_pipeline, at the
# outer level of its body, ahead of every return. Kernels of plugins (examples/) are launched
# plainly.
source "$(dirname "${BASH_SOURCE[0]}")/../support/lint.sh"

check() {
    local base=$1
    source_files "$base" '*.cu' '*.cuh' | grep -v '^examples/' | (cd "$base" && awk '
        function bad(text) { printf "%s:%d: %s\n", file, n, text; failed = 1 }
        function read_kernels(   line, kernel, began, waits, parts) {
            n = kernel = 0
            while ((getline line < file) > 0) {
                n++
                sub(/\/\/.*/, "", line)
                if (line ~ /<<</) bad("launch it by qb_launch")
                if (line ~ /__global__/) {
                    kernel = 1
                    began = waits = 0
                }
                if (!kernel) continue
                if (line ~ /\{[[:space:]]*\}$/ && !began) { kernel = 0; continue } # does nothing
                if (line ~ /\{$/) began = 1
                if (line ~ /^ ? ? ? ?qb_(begin_pipeline|wait_for_dependencies)\(\);/) waits = 1
                if (line ~ /(^|[^a-z_])return[ ;]/ && !waits && line !~ /\[&\]/) bad("a kernel may return before it waits")
                if (line ~ /^\}/) {
                    if (!waits) bad("a kernel that does not wait for those before it")
                    kernel = 0
                }
            }
            close(file)
        }
        { file = $0; read_kernels() }
        END { exit failed }')
}

tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree/kernels"
kernel() { # its body
    printf 'static __global__ void k(const float *in, int n) {\n%s\n}\n' "$1" >"$tree/kernels/a.cu"
}
kernel '    int at = n;
    qb_wait_for_dependencies();
    if (at > n) return;'
check "$tree"
kernel '    int at = n;'
self_check "a kernel that does not wait" check "$tree"
kernel '    if (n > 0) return;
    qb_wait_for_dependencies();'
self_check "a return ahead of the wait" check "$tree"
kernel '    if (n > 0) {
        qb_wait_for_dependencies();
    }'
self_check "a wait under a condition" check "$tree"
kernel '    // qb_wait_for_dependencies();'
self_check "a wait in a comment" check "$tree"
kernel '    qb_wait_for_dependencies();
}
int run() {
    k<<<1, 1>>>(in, n);'
self_check "a launch without qb_launch" check "$tree"

check "$root"
