#!/usr/bin/env bash
# --activations-16: named values in 16 bits, in files and in engines.
# ctest-timeout: 400, ctest-labels: plain
. "$1/tests/support/cli.sh"

demo 5 20
cd demo || exit 1
expect 0 "$QBENCH" quantize --model model.onnx --activations-16 '*' -o all16.onnx
says '24 layers in int8, 0 kept in float, 0 activation tensors, 25 of 16 bits'
expect 0 "$QBENCH" quantize --model model.onnx --for ort-cpu --activations-16 'block2*' -o some16.onnx
says ', [0-9]+ activation tensors, [0-9]+ of 16 bits'
expect 1 "$QBENCH" quantize --model model.onnx --activations-16 nobody -o none.onnx
complains "no quantized activation is called 'nobody'"
expect 2 "$QBENCH" quantize --model model.onnx --for trt --activations-16 '*' -o none.onnx
complains 'trt: it has no activations in 16 bits'

# The file and the engine have the same values, nearer to the float model's than those of 8 bits are.
printf 'model: model.onnx\ndata: {evaluation: test}\nquantization: {activations_16: ["*"]}\n' >qbench.yaml
expect 0 "$QBENCH" compare fp32 int8 all16.onnx --duration 0.01 --no-figures --json wide.json
complains 'activations in 16 bits: 25 are simulated'
expect 0 "$QBENCH" compare fp32 int8 --config /dev/null --model model.onnx --data test --duration 0.01 --no-figures --json narrow.json
python3 - <<'END' || fail 'no gain by 16 bits'
import json, sys
def sqnr(name):
    rows = json.load(open(name))['rows']
    return [next(float(m['value']) for m in row['metrics'] if m['name'] == 'sqnr') for row in rows]
wide, narrow = sqnr('wide.json'), sqnr('narrow.json')
sys.exit(not (wide[1] == wide[2] and wide[1] > narrow[1] + 10))
END
expect 0 "$QBENCH" build --precision int8 --saveEngine=wide.qbe
expect 0 "$QBENCH" inspect wide.qbe
says "activations-16='?\*"
done_testing
