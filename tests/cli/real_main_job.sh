#!/usr/bin/env bash
# The main job on real models and images: accuracies of FP32 and INT8 by all methods, memory that does
# not grow with the number of samples.
# ctest-timeout: 900, ctest-cost: 90
# ctest-labels: e2e slow
. "$1/tests/support/cli.sh"
[ -d "${QB_SHARED:-}/imagenet1k-sample/val" ] || skip "no shared data in '${QB_SHARED:-}'"

peak_kib() { # of the command that ran last under `measured`
    awk '/Maximum resident/ {print $NF}' .time
}
measured() {
    if [ -z "${QB_SANITIZE:-}" ] && [ -x /usr/bin/time ]; then # sanitizers take memory of their own
        /usr/bin/time -v -o .time "$@"
    else
        "$@"
    fi
}

# squeezenet1.1 on 500 images: bars of accuracy, agreement with FP32 and output SQNR.
model=$QB_SHARED/models/squeezenet1.1.onnx
data=$QB_SHARED/imagenet1k-sample
expect 0 "$QBENCH" init --model "$model" --data "$data/calib" --evaluation "$data/val"
expect 0 measured "$QBENCH" calibrate --method entropy,percentile:99.99,minmax
[ ! -f .time ] || all=$(peak_kib)
expect 0 "$QBENCH" compare fp32 int8:minmax int8:percentile:99.99 int8:entropy --data "$data/val" --duration 0.5
cat .out
awk '$1 == "fp32" {exit !($2 >= 61.2 && $2 <= 62.0)}' .out || fail 'FP32 top-1 is not 61.6 +- 0.4'
gate() { expect 0 "$QBENCH" gate compare.json --precision "$@"; }
gate int8:minmax --max-drop 2 --min-agreement 94.0 --min-sqnr 32
gate int8:percentile:99.99 --max-drop 2 --min-agreement 95.0 --min-sqnr 29
gate int8:entropy --max-drop 2 --min-agreement 93.0 --min-sqnr 30
if [ -f .time ]; then
    measured "$QBENCH" calibrate --samples 100 -o small.calib.h5 >/dev/null 2>&1
    small=$(peak_kib)
    awk -v a="$all" -v s="$small" 'BEGIN {exit !(a < 500 * 1024 && a <= s * 1.05)}' ||
        fail "peak memory: $small KiB for 100 samples, $all KiB for 500"
fi

# resnet8 on the 10,000 test images.
rm -f qbench.yaml compare.json
model=$QB_SHARED/models/resnet8_cifar10.onnx
expect 0 "$QBENCH" init --model "$model" --data "$QB_SHARED/cifar10/train" --evaluation "$QB_SHARED/cifar10/test"
expect 0 "$QBENCH" calibrate --method entropy,percentile:99.99,minmax
expect 0 "$QBENCH" compare fp32 int8:minmax int8:percentile:99.99 int8:entropy --data "$QB_SHARED/cifar10/test" --duration 0.5
cat .out
awk '$1 == "fp32" {exit !($2 >= 75.3 && $2 <= 75.7)}' .out || fail 'FP32 top-1 is not 75.5 +- 0.2'
for row in int8:minmax int8:percentile:99.99 int8:entropy; do
    gate "$row" --max-drop 0.6 --min-agreement 95.5
done
done_testing
