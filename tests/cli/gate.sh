#!/usr/bin/env bash
# The gate on planted records: what it judges, what it refuses, what cannot be measured.
. "$1/tests/support/cli.sh"
golden=$1/tests/golden/reports/compare.json

# Anybody's record, by name: neither model nor settings are needed.
cp "$golden" there.json
expect 0 "$QBENCH" gate there.json --max-drop 1 --precision int8
says '^there.json: model model.onnx, data d/test, 1000 samples \(3 skipped\)$'
says '^PASS int8 max-drop: 0.2 points, limit 1 points \(margin 0.8\)$'
expect 3 "$QBENCH" gate there.json --max-drop 1
says '^FAIL int8:minmax\+s8-symmetric\+per-tensor max-drop: 6.2 points, limit 1 points \(over by 5.2\)$'
says '^FAIL int8:minmax max-drop: could not be measured'
complains '2 of 4 checks did not hold'
expect 3 "$QBENCH" gate there.json --max-drop 1 --precision int8:minmax+s8-symmetric+per-tensor
expect 3 "$QBENCH" gate there.json --max-latency-ratio 2 --precision int8:minmax
says 'could not be measured'
expect 0 "$QBENCH" gate there.json --max-latency-ratio 0.5 --precision int8
expect 2 "$QBENCH" gate there.json --max-drop 1 --precision int4
complains "no row 'int4'"
expect 2 "$QBENCH" gate there.json --max-drop 1 --precision fp32
expect 2 "$QBENCH" gate there.json
complains 'no limit'
expect 2 "$QBENCH" gate there.json --max-drop nan
expect 3 "$QBENCH" gate there.json --max-drop 1 --json -
says '"held": false'
says '"model": "model.onnx"'
says '"samples": 1000'
says '"value": null'

# A folder with nothing but its record.
cp "$golden" compare.json
expect 0 "$QBENCH" gate --max-drop 1 --precision int8
says '^compare.json: '
expect 2 "$QBENCH" gate
complains 'no model'

# Values that would let anything pass are no values.
plant() { # plant FROM TO: the record with one text replaced
    checks=$((checks + 1))
    sed "s/$1/$2/" "$golden" >planted.json
    cmp -s "$golden" planted.json && fail "nothing was planted for $1"
}
for value in '"-inf"' '"inf"' '"-100"' 'true' '[]' 'NaN' '-Infinity'; do
    plant '"drop": 0.2[0-9]*' "\"drop\": $value"
    expect 1 "$QBENCH" gate planted.json --max-drop 1 --precision int8
    complains 'planted.json'
done
plant '"drop": 0.2[0-9]*' '"drop": null'
expect 3 "$QBENCH" gate planted.json --max-drop 1 --precision int8
plant '"sqnr_db": 21.68[0-9]*' '"sqnr_db": "-inf"'
expect 3 "$QBENCH" gate planted.json --min-sqnr 10 --precision int8
says 'FAIL int8 min-sqnr: -inf dB'
plant '"sqnr_db": 21.68[0-9]*' '"sqnr_db": "inf"'
expect 0 "$QBENCH" gate planted.json --min-sqnr 300 --precision int8
plant '"rows": \[' '"rows": [], "old": ['
expect 1 "$QBENCH" gate planted.json --max-drop 1
plant 'qbench.compare\/1' 'qbench.compare\/2'
expect 1 "$QBENCH" gate planted.json --max-drop 1
complains 'schema'

# The record of another model than the one in the folder does not speak for it.
demo 1 1
cd demo || exit 1
expect 0 "$QBENCH" gate --max-drop 100 --precision int8
cp "$golden" compare.json
sed -i 's/"hash": "[0-9a-f]*"/"hash": "0123456789abcdef0123456789abcdef"/' compare.json
expect 1 "$QBENCH" gate --max-drop 100 --precision int8
complains "compare.json was made from another model"
complains "run 'qbench compare' again"
expect 0 "$QBENCH" gate compare.json --max-drop 100 --precision int8
# A wrong limit in the settings is an error, whether the command line has one or not.
printf 'gate:\n  max_drop: lots\n' >qbench.yaml
expect 1 "$QBENCH" gate compare.json --max-drop 100 --precision int8
complains 'qbench.yaml:2:13: gate.max_drop: expected a'
printf 'gate:\n  max_drop: 500\n' >qbench.yaml
expect 1 "$QBENCH" gate compare.json --max-drop 100 --precision int8
complains 'qbench.yaml:2:13: gate.max_drop: expected -100 to 100, got 500'
done_testing
