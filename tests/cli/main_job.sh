#!/usr/bin/env bash
# The main job, verbatim, on the demo's model and images: init, calibrate, quantize, compare, gate,
# report, and what they say of wrong or missing artifacts.
# ctest-timeout: 300, ctest-cost: 40, ctest-labels: plain
. "$1/tests/support/cli.sh"

demo 5 20
says '^fp32 +[0-9.]+'
says '^int8 +[0-9.]+'
for file in model.onnx model.calib.h5 compare.json figures/latency.svg figures/accuracy.png; do
    [ -s "demo/$file" ] || fail "demo/$file is missing or empty"
done

mkdir job && cp demo/model.onnx demo/model.json job/ && cp -r demo/calib job/imagenet_val && cd job || exit 1
expect 0 "$QBENCH" calibrate --data imagenet_val/ --method entropy
says 'model.calib.h5: [0-9]+ tensors, 50 samples, entropy'
expect 0 "$QBENCH" quantize
says 'model.qdq.onnx: [0-9]+ layers in int8'
expect 0 "$QBENCH" compare fp32 int8 --duration 0.1
says '^model model.onnx, data imagenet_val: 50 samples'
# The images are those that the ranges were chosen on: no verdict unless that is allowed.
expect 3 "$QBENCH" gate --max-drop 50
says '^warning: scored on imagenet_val, the data that the ranges were chosen on'
says '^BLOCKED int8 max-drop: .*\(--allow calibration-data\)$'
expect 0 "$QBENCH" gate --max-drop 50 --allow calibration-data
says '^PASS int8 max-drop'
expect 3 "$QBENCH" gate --min-sqnr 200 --allow calibration-data
says '^FAIL int8 min-sqnr'
expect 3 "$QBENCH" gate compare.json --max-drop -100
expect 2 "$QBENCH" gate compare.json
complains 'no limit'
expect 0 "$QBENCH" gate --max-drop 50 --allow calibration-data --json -
says '"held": true'
rm -r figures
expect 0 "$QBENCH" report
[ -s figures/latency.png ] || fail 'report drew no chart'

# Settings: init writes them, they win over nothing and lose against flags.
rm -f compare.json
expect 0 "$QBENCH" init --model model.onnx --data imagenet_val
says 'wrote qbench.yaml'
expect 1 "$QBENCH" init --model model.onnx
complains 'already'
expect 0 "$QBENCH" calibrate
says 'entropy$'
expect 0 "$QBENCH" calibrate --method minmax
says 'minmax$'
sed -i 's/method: entropy/method: percentile:99.9/' qbench.yaml
expect 0 "$QBENCH" calibrate
says 'percentile:99.9$'
sed -i 's/  samples: 0/  sampels: 0/' qbench.yaml
expect 1 "$QBENCH" calibrate
complains 'qbench.yaml:[0-9]+:[0-9]+'
complains 'samples'
rm qbench.yaml

# The gate measures by itself when nothing was compared yet.
expect 0 "$QBENCH" gate --max-drop 50 --allow calibration-data --data imagenet_val

# Same bytes for any batch and thread count.
for batch in 1 8 32; do
    for threads in 1 2; do
        expect 0 "$QBENCH" calibrate --data imagenet_val/ -b $batch -j $threads -o "b$batch.t$threads.calib.h5"
        same_bytes b1.t1.calib.h5 "b$batch.t$threads.calib.h5"
    done
done
expect 0 "$QBENCH" quantize -j 1 -o one.qdq.onnx
expect 0 "$QBENCH" quantize -j 2 -o two.qdq.onnx
same_bytes one.qdq.onnx two.qdq.onnx

# Artifacts that do not belong together.
expect 0 "$QBENCH" zoo squeezenet1_1 -o other.onnx
cp b1.t1.calib.h5 other.calib.h5
expect 1 "$QBENCH" quantize other.onnx
complains 'do not belong together|other.onnx'
expect 1 "$QBENCH" compare fp32 int8 --model model.onnx --data nowhere
complains 'nowhere'
rm model.calib.h5
expect 1 "$QBENCH" compare fp32 int8 --model model.onnx --data imagenet_val
complains "run 'qbench calibrate"
expect 2 "$QBENCH" compare fp32 int4 --model model.onnx --data imagenet_val
complains "unknown precision 'int4'"
done_testing
