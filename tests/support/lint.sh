# Sourced by the checks beside it.
set -euo pipefail
export LC_ALL=C

root=${1:-$(cd "$(dirname "${BASH_SOURCE[1]}")/../.." && pwd)}
# In the legal include order.
folders="base kernels graph datasets engine include api stream calib quant eval search reports demo cli examples"

# source_files ROOT PATTERN... : paths below the code folders, relative to ROOT.
source_files() {
    local base=$1 f
    shift
    for f in $folders; do
        [ -d "$base/$f" ] || continue
        (cd "$base" && find "$f" -type f \( -false $(printf ' -o -name %s' "$@") \))
    done | sort
}

skip() {
    echo "skipped: $1"
    exit 77
}

# self_check NAME FUNCTION TREE: the check has to refuse a tree that breaks its rule.
self_check() {
    if "$2" "$3" >/dev/null 2>&1; then
        echo "the check does not notice: $1" >&2
        exit 1
    fi
}
