#!/usr/bin/env bash
# What a reader of the documents relies on: relative links lead somewhere, the README stays short,
# decisions are numbered without gaps, and each decision and benchmark stands in its index.
source "$(dirname "${BASH_SOURCE[0]}")/../support/lint.sh"

readme_lines=110
cell_characters=200

check() (
    cd "$1"
    failed=0
    bad() { echo "$*"; failed=1; }
    while read -r file; do
        while read -r link; do
            case $link in http* | '') continue ;; esac
            [ -e "$(dirname "$file")/$link" ] || bad "$file: the link to $link leads nowhere"
        done < <(grep -oE '\]\([^)#[:space:]]+' "$file" | cut -c3-)
    done < <(find . -maxdepth 1 -name '*.md'; find docs -name '*.md' | sort)
    lines=$(wc -l < README.md)
    [ "$lines" -le "$readme_lines" ] || bad "README.md: $lines lines, at most $readme_lines"
    while read -r row; do
        bad "README.md: a cell of more than $cell_characters characters: ${row:0:60}..."
    done < <(grep -E "^\|(.*\|)?[^|]{$((cell_characters + 1)),}\|" README.md)
    number=0
    for page in docs/adr/0*.md; do
        number=$((number + 1))
        head -1 "$page" | grep -qE "^# $number\. " && [[ $page == docs/adr/$(printf %04d $number)-* ]] ||
            bad "$page: expected decision $number and the heading '# $number. ...'"
    done
    for page in docs/adr/0*.md docs/benchmarks/*.md; do
        name=$(basename "$page")
        [ "$name" = README.md ] || grep -qF "($name)" "$(dirname "$page")/README.md" ||
            bad "$page: is not in the README.md beside it"
    done
    return $failed
)

tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
# tree_with COMMAND: a tree that holds to the rules but for what the command does.
tree_with() {
    rm -rf "${tree:?}"/*
    mkdir -p "$tree/docs/adr" "$tree/docs/benchmarks"
    echo '[page](docs/adr/README.md)' > "$tree/README.md"
    echo '# 1. One' > "$tree/docs/adr/0001-one.md"
    echo '[1](0001-one.md)' > "$tree/docs/adr/README.md"
    echo > "$tree/docs/benchmarks/README.md"
    (cd "$tree" && eval "$1")
}
tree_with true
check "$tree" || { echo "the check refuses a tree without fault" >&2; exit 1; }
tree_with 'echo "[x](gone.md)" >> docs/adr/0001-one.md'
self_check 'a dead link' check "$tree"
tree_with 'printf "%0200d" 0 | tr 0 "\n" >> README.md'
self_check 'a long README' check "$tree"
tree_with 'printf "| a | %0250d |\n" 1 >> README.md'
self_check 'a long cell' check "$tree"
tree_with 'mv docs/adr/0001-one.md docs/adr/0002-one.md; sed -i s/0001/0002/ docs/adr/README.md'
self_check 'a gap between decisions' check "$tree"
tree_with 'echo > docs/benchmarks/x.md'
self_check 'a page that no index names' check "$tree"

check "$root"
