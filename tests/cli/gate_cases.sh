#!/usr/bin/env bash
# The table of docs/gate.md: each case is planted into a record and must be judged as the table says.
# int8 of the record: 1,000 samples, top-1 95.6 against 95.8, 10 lost and 8 gained (drop 0.2, interval
# -0.70 to 1.13), 98.2 % agreement, 21.7 dB, 0.1 ms (0.099 to 0.101) against 0.2, 0.15 MiB.
. "$1/tests/support/cli.sh"
full=$1/tests/golden/reports/full.json
unset GITHUB_ACTIONS

plant() { # plant FILE PYTHON-LIKE-SED...: the record with one text replaced
    local file=$1
    shift
    sed "$@" "$full" >"$file"
    checks=$((checks + 1))
    cmp -s "$full" "$file" && fail "nothing was planted in $file"
}
gate() { # gate CODE RECORD OPTIONS...
    local code=$1
    shift
    expect "$code" "$QBENCH" gate "$@" --precision int8
}
cp "$full" now.json

# 1 within the limit
gate 0 now.json --max-drop 1
says '^PASS int8 max-drop: 0.2 points, limit 1 points \(margin 0.8\)$'
says '^PASS: 1 of 1 checks held; the closest is int8 max-drop: 0.2 points, limit 1 points \(margin 0.8\)$'
# 2 beyond it
gate 3 now.json --max-drop 0.1
says '^FAIL: 1 of 1 checks did not hold; int8 max-drop: 0.2 points, limit 0.1 points \(over by 0.1\)$'
# 3 the number keeps the limit, the interval does not
gate 3 now.json --max-drop 1 --confidence pass
says '^FAIL int8 max-drop: 0.2 points, limit 1 points \(margin 0.8\): the interval from -0.6954 to 1.128 decides$'
gate 0 now.json --max-drop 1.2 --confidence pass
# 4 the number breaks the limit, the interval reaches into it
gate 0 now.json --max-drop 0.1 --confidence fail
says 'PASS int8 max-drop: 0.2 points, limit 0.1 points \(over by 0.1\): the interval .* decides$'
gate 3 now.json --max-drop -0.7 --confidence fail
# a limit that allows less than one of the 1,000 samples
plant even.json 's/"top1": 95.6,/"top1": 95.8,/; s/"value": 95.6,/"value": 95.8,/; s/"drop": 0.2,/"drop": 0,/'
gate 0 even.json --max-drop 0.05
says '^PASS int8 max-drop: 0 points, limit 0.05 points \(margin 0.05\): one of 1000 samples is 0.1, so less than that cannot be told from none; 2000 samples could$'
gate 3 even.json --max-drop 0.05 --confidence pass
gate 0 even.json --max-drop 0.1
says '\(margin 0.1\)$'
gate 0 even.json --max-drop 0
gate 3 now.json --max-drop 0.05
says '^FAIL int8 max-drop: 0.2 points, limit 0.05 points \(over by 0.15\)$'
# 5 relative: 0.2 points of 95.8 are 0.209 percent
gate 3 now.json --max-drop 0.205 --relative
gate 0 now.json --max-drop 0.205
# 6 the 99 % rule: 95.6 / 95.8 holds, 89.6 / 95.8 does not
gate 0 now.json --mlperf
says '^PASS int8 mlperf: 99.791 %, limit 99 % \(margin 0.791\)$'
expect 3 "$QBENCH" gate now.json --mlperf --precision int8:minmax+s8-symmetric+per-tensor
# 7 latency and size
gate 0 now.json --max-latency 0.1 --max-latency-ratio 0.5 --max-engine-size 0.15
gate 3 now.json --max-latency 0.1 --confidence pass
gate 3 now.json --max-latency-ratio 0.49
gate 3 now.json --max-engine-size 0.14
# 8 regression against the last release
plant last.json 's/"top1": 95.6,/"top1": 95.7,/; s/"value": 95.6,/"value": 95.7,/; s/"drop": 0.2,/"drop": 0.1,/'
gate 3 now.json --baseline last.json
says '^FAIL int8 baseline-drop: 0.1 points, limit 0 points \(over by 0.1\)$'
gate 0 now.json --baseline last.json --baseline-drop 0.1
gate 0 now.json --baseline now.json
says '^PASS int8 baseline-latency: 1x, limit 1.1x'
plant slow.json 's/"median": 0.1,/"median": 0.12,/'
gate 3 slow.json --baseline now.json
says '^FAIL int8 baseline-latency: 1.2x, limit 1.1x'
plant other.json 's/"cpu": "a processor"/"cpu": "another"/'
gate 3 other.json --baseline now.json
says 'baseline-latency: could not be measured .*another processor'
sed '/"path": "d.test"/,/"hash"/s/"hash": "....../"hash": "000000/' "$full" >data.json
gate 3 data.json --baseline now.json
says 'baseline-drop: could not be measured .*other data'
gate 1 now.json --baseline nowhere.json
complains 'nowhere.json'
# 9 what could not be measured
plant nan.json 's/"top1": 95.6,/"top1": null,/; s/"value": 95.6,/"value": null,/; s/"drop": 0.2[0-9]*/"drop": null/'
gate 3 nan.json --max-drop 50
says 'could not be measured \(limit 50 points\): the data has no labels \(--min-sqnr needs none\)$'
plant old.json 's/"drop_high"/"was_high"/'
gate 3 old.json --max-drop 50 --confidence pass
says 'the record has no interval: compare again$'
gate 1 nowhere.json --max-drop 1 --junit broken.xml
grep -q '<error message="[^"]*nowhere.json' broken.xml || fail 'broken.xml does not name the file'
# 10 too few samples
gate 3 now.json --max-drop 1 --min-samples 2000
says '^FAIL int8 min-samples: 1000 samples, limit 2000 samples \(short by 1000\)$'
plant none.json -E 's/"samples": 1000/"samples": 0/; s/"(both_right|lost|gained|both_wrong)": [0-9]+/"\1": 0/'
gate 3 none.json --max-drop 1
says 'no sample was scored'

# Machines that differ: of the baseline only its accuracy.
plant other.json 's/"cpu": "[^"]*"/"cpu": "another"/'
gate 3 now.json --baseline other.json
says 'baseline-latency: could not be measured .*: the baseline was measured on another processor'
gate 0 now.json --baseline other.json --baseline-accuracy
says '^PASS: 1 of 1 checks held; .*baseline-drop'
printf 'gate:\n  baseline: other.json\n  baseline_accuracy: true\n' >qbench.yaml
gate 0 now.json
gate 3 now.json --no-baseline-accuracy
rm qbench.yaml
gate 1 now.json --baseline nowhere.json
complains 'baseline: there is no nowhere.json: it is the compare.json of the last release; leave the baseline out'

# The policy in qbench.yaml; flags win one by one.
printf 'gate:\n  max_drop: 0.1\n  min_agreement: 99\n' >qbench.yaml
gate 3 now.json
says 'FAIL: 2 of 2 checks'
gate 3 now.json --max-drop 1
says 'FAIL: 1 of 2 checks did not hold; int8 min-agreement'
gate 0 now.json --max-drop 1 --min-agreement 98
printf 'gate:\n  mlperf: true\n  confidence: fail\n  max_drop: 2\n  precision: int8\n  baseline: now.json\n' >qbench.yaml
expect 0 "$QBENCH" gate now.json
says 'PASS: 5 of 5'
mkdir sub && cp now.json sub/
expect 0 "$QBENCH" gate sub/now.json --config qbench.yaml
printf 'gate:\n  max_dorp: 1\n' >qbench.yaml
expect 1 "$QBENCH" gate now.json
complains 'max_dorp'
printf 'gate:\n  confidence: maybe\n  max_drop: 1\n' >qbench.yaml
expect 1 "$QBENCH" gate now.json
complains "expected point, fail or pass, got 'maybe'"
rm qbench.yaml
expect 2 "$QBENCH" gate now.json --max-drop 1 --confidence maybe

# Forms for machines.
expect 3 "$QBENCH" gate now.json --max-drop 1 --min-sqnr 20 --junit gate.xml --github
says '^::error title=qbench gate::int8:minmax.* max-drop: 6.2 points, limit 1 points \(over by 5.2\)$'
says '^::notice title=qbench gate::int8 max-drop: 0.2 points, limit 1 points \(margin 0.8\)$'
grep -q '<testsuite name="qbench gate" tests="4" failures="2" errors="0">' gate.xml || fail 'gate.xml: counts'
grep -q '<testcase classname="int8" name="max-drop"><system-out>' gate.xml || fail 'gate.xml: case'
if command -v python3 >/dev/null; then
    expect 0 python3 -c 'import sys, xml.dom.minidom as m; [m.parse(f) for f in sys.argv[1:]]' gate.xml broken.xml
fi
GITHUB_ACTIONS=true expect 0 "$QBENCH" gate now.json --max-drop 1 --precision int8
says '^::notice title=qbench gate::'
expect 3 "$QBENCH" gate now.json --max-drop 1 --json -
says '"verdict": "FAIL: 1 of 2 checks did not hold; int8:minmax'
done_testing
