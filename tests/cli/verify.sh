#!/usr/bin/env bash
# qbench verify: outcomes, tolerances, JSON and exit codes on the ONNX node cases.
. "$1/tests/support/cli.sh"

cases=$QB_SHARED/onnx-node-tests
[ -d "$cases" ] || skip "no onnx-node-tests in $QB_SHARED"

# One case, a folder of cases, several backends.
expect 0 "$QBENCH" verify "$cases/test_add"
says '^passed +test_add +error 0$'
says '^1 passed, 0 failed, 0 unsupported'
mkdir some && cp -r "$cases"/test_add "$cases"/test_softmax_example "$cases"/test_not_2d some
expect 0 "$QBENCH" verify some --backends eval --backends ref --json result.json
says '^unsupported +test_not_2d .*opset'
says '^2 passed, 0 failed, 1 unsupported \(eval\)'
says '^2 passed, 0 failed, 1 unsupported \(ref\)'
expect 0 cat result.json
says '"schema": "qbench.verify/1"'
says '"passed": 4'
says '"outcome": "unsupported"'
expect 0 "$QBENCH" verify some -q --json -
says '"unsupported": 1'

# A wrong output fails with exit code 3 until the tolerance allows it.
cp -r "$cases/test_add" wrong
cp "$cases/test_add/test_data_set_0/input_0.pb" wrong/test_data_set_0/output_0.pb
expect 3 "$QBENCH" verify wrong
says '^failed +wrong +output .* elements differ'
says '^0 passed, 1 failed, 0 unsupported'
expect 0 "$QBENCH" verify wrong --atol 100

# What is missing is a failure of the case, not of the program; what was never a case is an error.
cp -r "$cases/test_add" cut && rm cut/test_data_set_0/output_0.pb
expect 3 "$QBENCH" verify cut
says 'output_0.pb'
# A file that somebody emptied holds a tensor of no type, which is no type that is not supported.
: >cut/test_data_set_0/output_0.pb
expect 3 "$QBENCH" verify cut
says '^failed +cut +.*output_0.pb: a tensor without the type of its elements'
# Nothing but what is not supported is no success.
expect 3 "$QBENCH" verify "$cases/test_not_2d"
complains 'verify: none of the cases is supported'
expect 1 "$QBENCH" verify nowhere
complains 'nowhere'
mkdir empty
expect 1 "$QBENCH" verify empty
complains 'no folder with a model.onnx'
expect 2 "$QBENCH" verify
expect 3 "$QBENCH" verify "$cases/test_add" --backends nonsense
says 'nonsense'

done_testing
