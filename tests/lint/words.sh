#!/usr/bin/env bash
# The code speaks the field's words (docs/glossary.md). Words that it gave up do not come back: a line of
# `retired` is an identifier's part, the folders that it is kept out of, and the word to use.
source "$(dirname "${BASH_SOURCE[0]}")/../support/lint.sh"

retired='
finish      kernels/cpu,kernels/ref,kernels/dnnl  epilogue
codes       kernels,engine,quant,graph            quantized, q
real        kernels,graph,quant                   float, dequantized
reals       kernels,engine,graph,quant            floats, dequantized
pose        kernels,engine,graph                  lower
posed       kernels,engine,graph                  lower
draft       engine,graph                          candidate, pattern
drafts      engine,graph                          candidate, pattern
lend        kernels,engine,graph                  borrow
adopt       base,kernels,engine,graph             take
settled     kernels,engine                        finalized
settle      kernels,engine,calib,graph,cli        finalize
turned      kernels,engine,graph                  transposed
crew        calib,eval,stream,engine              workers
kitchen     calib,eval,stream,engine              evaluation_set
contender   calib,eval,engine,kernels             candidate
duel        eval,engine,search                    A/B comparison
lap         eval,engine,search,tests/perf         sample
race        eval,engine,search,quant              A/B comparison, interleaved
contest     eval,engine,search,quant              choice
rival       eval,engine,search                    candidate
lineup      eval,engine,search                    candidates
room        base,quant,kernels/cpu,kernels/dnnl,kernels/ref,engine,graph,datasets capacity, buffer, padding
bring       engine                                upload, lower
turn        base,kernels,engine,graph,calib,quant mutex, transpose, shift, slot
how         engine,kernels/cpu,kernels/ref        build spec, tuning
why_not     kernels,engine,graph                  fallback_reason, unsupported_reason
why_half    kernels,engine,graph                  f16_reason
'

# Identifiers of C and CUDA sources without comments and strings, a line each.
identifiers() {
    sed -E -e 's|//.*||' -e 's|"([^"\\]\|\\.)*"||g' -e 's|/\*.*\*/||g' -e '/^[[:space:]]*\/?\*/d' -e 's|/\*.*||' "$1" |
        grep -oE '[A-Za-z_][A-Za-z0-9_]*' | sort -u
}

check() {
    local base=$1 word folders instead folder file found failed=0
    while read -r word folders instead; do
        [ -n "$word" ] || continue
        for folder in ${folders//,/ }; do
            [ -d "$base/$folder" ] || continue
            while read -r file; do
                found=$(identifiers "$file" | grep -E "(^|_)$word(_|\$)" | head -3 | paste -sd' ') || true
                [ -z "$found" ] && continue
                echo "${file#"$base"/}: $found: say $instead"
                failed=1
            done < <(grep -rlE --include='*.c' --include='*.h' --include='*.inc' --include='*.cu' --include='*.cuh' \
                "(^|[^A-Za-z0-9])$word([^A-Za-z0-9]|\$)" "$base/$folder")
        done
    done <<<"$retired"
    return $failed
}

tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree/kernels/cpu"
echo '/* codes */ int a; const char *b = "codes";' >"$tree/kernels/cpu/a.c"
check "$tree"
echo 'int few_codes;' >"$tree/kernels/cpu/a.c"
self_check "a retired word" check "$tree"

check "$root"
