#!/usr/bin/env bash
# report: every form, to files, folders and standard output, and what it says where a tool is missing.
. "$1/tests/support/cli.sh"
cp "$1/tests/golden/reports/full.json" compare.json

expect 0 "$QBENCH" report --no-figures
says '^int8 +95.60'
expect 0 "$QBENCH" report --format md
says '^\| int8 \| 95.60 \|'
expect 0 "$QBENCH" report --format tsv -o table.tsv
[ "$(wc -l <table.tsv)" = 4 ] || fail 'table.tsv has not a header and three rows'
expect 0 "$QBENCH" report --format json
says '"schema": "qbench.compare/1"'
expect 0 "$QBENCH" report -o page.html --no-figures
grep -q '</html>' page.html || fail 'page.html is not whole'
[ "$(stat -c %s page.html)" -lt 2000000 ] || fail 'page.html is 2 MB or more'
absent figures
expect 0 "$QBENCH" report --format html -o sub/folder --no-figures
[ -s sub/folder/report.html ] || fail 'no report.html in the folder'
expect 2 "$QBENCH" report --format docx
complains "expected text, html, pdf, md, json or tsv, got 'docx'"
expect 1 "$QBENCH" report nowhere.json --format html
absent report.html

# Records of steps that did nothing, or took no time: their figures are left out.
if command -v gnuplot >/dev/null; then
    for edit in 's["flops"] = 0' 's["ms"] = 0' 's["bytes"] = 0'; do
        python3 - "$edit" <<'PY' || fail 'a record'
import json, sys
record = json.load(open("compare.json"))
for row in record["rows"]:
    for s in row.get("steps") or []:
        exec(sys.argv[1])
json.dump(record, open("idle.json", "w"))
PY
        expect 0 "$QBENCH" report idle.json --format html -o idle
        [ -s idle/report.html ] || fail "no page: $edit"
        absent idle/figures/roofline.png
        rm -r idle
    done
fi

# Without gnuplot the page comes without figures, and says so; without Chromium there is no PDF.
mkdir empty
PATH=$work/empty expect 0 "$QBENCH" report -o bare.html
complains 'gnuplot is not installed'
PATH=$work/empty expect 1 "$QBENCH" report --format pdf --no-figures
complains 'Chromium, which is not installed'
absent report.pdf
if command -v chromium >/dev/null; then
    expect 0 "$QBENCH" report --format pdf --no-figures -o out.pdf
    head -c 5 out.pdf | grep -q '%PDF-' || fail 'out.pdf is no PDF'
fi
done_testing
