#!/usr/bin/env bash
# What an operator is stands in its row (traits, kernel, qrule, attributes), not in lists of names
# elsewhere: a new operator would be missed there. So nothing compares operators by name outside
# graph/ops (the rows), graph/onnx (files) and the pattern files below; and no file at all but these
# two folders and graph/zoo, which writes models, holds a list of operators' names.
#
# Pattern files look for a structure: this operator behind that one, with these constants. They name
# the operators of the structure, and what they conclude holds for no other operator.
source "$(dirname "${BASH_SOURCE[0]}")/../support/lint.sh"

patterns="
graph/passes/*             # each rewrites one structure of nodes
graph/fusion*.c            # which nodes behind an anchor run as one step
graph/rewrite_affine.c     # which layers take a factor or an offset of a channel into their weights
graph/rewrite_read.c       # a ReduceMean over all pixels is a pool
graph/sizes.c              # the arithmetic on shapes that exporters write, on symbols
quant/check.c              # pairs of QuantizeLinear and DequantizeLinear
quant/rules/*              # structures that a target does not fuse
engine/*                   # steps that run as one: a sum, a resize into its Concat, a pool
calib/formats/ncnn.c       # the two layers that its table knows
"

# Operators as the rows call them.
operators() {
    find "$1/graph/ops" -name '*.c' -exec cat {} + |
        sed -E -n -e 's/^[A-Z_]+\([a-z_0-9]+, "([A-Z][A-Za-z0-9]*)".*/\1/p' \
            -e 's/.*\.name = "([A-Z][A-Za-z0-9]*)".*/\1/p' | sort -u
}

is_pattern() {
    local glob why
    while read -r glob why; do
        # shellcheck disable=SC2254
        case "$1" in ${glob:-/}) return 0 ;; esac
    done <<<"$patterns"
    return 1
}

check() {
    local base=$1 file names lists failed=0
    names=$(operators "$base" | paste -sd'|')
    [ -n "$names" ] || { echo "graph/ops: no operators found"; return 1; }
    lists="\"($names)\",[[:space:]]*\"($names)\""
    for file in $(source_files "$base" '*.c' '*.h' '*.cu' '*.cuh'); do
        case "$file" in graph/ops/* | graph/onnx/* | graph/zoo/* | examples/*) continue ;; esac
        if tr '\n' ' ' <"$base/$file" | grep -E -q "$lists"; then
            echo "$file: a list of operators' names: say it with a trait in their rows"
            failed=1
        fi
        is_pattern "$file" && continue
        # a name is compared when it is the last argument of a test, or looked up in a table of names
        if grep -n -E "(cmp|is|_from|behind|inner)\(([^\"]*, *)?\"($names)\"(, *[0-9n]+)?\)" "$base/$file"; then
            echo "$file: compares an operator's name and is no pattern file"
            failed=1
        fi
    done
    return $failed
}

tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree"/{graph/ops,graph/passes,eval}
echo 'QB_OP_SIMPLE(relu, "Relu", 7);' >"$tree/graph/ops/a.c"
echo '    .name = "Conv",' >"$tree/graph/ops/b.c"
echo 'return qb_node_is(node, "Conv") && qb_op_find("Relu", "");' >"$tree/graph/passes/p.c"
echo 'add(cx, qb_op_find("Relu", ""), "conv");' >"$tree/eval/e.c"
check "$tree"
try() { # description, file, line: refused?
    printf '%s\n' "$3" >"$tree/$2"
    self_check "$1" check "$tree"
    rm "$tree/$2"
}
try "a comparison" eval/a.c 'if (strcmp(node->op->name, "Relu") == 0) return;'
try "a comparison by a helper" eval/a.c 'if (is(node, "Conv")) return;'
try "a list in a pattern file" graph/passes/a.c '{"Relu",
    "Conv"}'
check "$tree"

check "$root"
