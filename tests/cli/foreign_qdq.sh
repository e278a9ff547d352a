#!/usr/bin/env bash
# Q/DQ models that onnxruntime's quantize_static wrote, as INT8 engines: top-1 beside the one that
# onnxruntime itself reaches on the same images (the data's README has its figures). At most 0.3 points
# apart, but for the entropy file of squeezenet1.1: its scales are so coarse that top-1 is decided by
# ties of 8-bit outputs. onnxruntime runs 24 of its 26 convolutions in float, where the order of summing
# settles ties; with integer sums and one rounding a QuantizeLinear, all in double precision, the file
# reaches 44.8, as here, where onnxruntime has 45.2 (docs/onnx.md).
# ctest-timeout: 600, ctest-cost: 50
# ctest-labels: e2e slow
. "$1/tests/support/cli.sh"
[ -d "${QB_SHARED:-}/imagenet1k-sample/val" ] || skip "no shared data in '${QB_SHARED:-}'"
[ -z "${QB_SANITIZE:-}" ] || skip "cli.real_main_job runs the same kernels on these images"

# job MODEL DATA CALIBRATION_DATA METHOD:TOP1:POINTS...
job() {
    local model=$1 data=$2 calib=$3 row method top1 points
    shift 3
    rm -f qbench.yaml
    expect 0 "$QBENCH" init --model "$QB_SHARED/models/$model.onnx" --data "$calib" --evaluation "$data"
    for row in "$@"; do
        IFS=: read -r method top1 points <<<"$row"
        expect 0 "$QBENCH" compare "$QB_SHARED/models/${model}_ort_qdq_$method.onnx" --data "$data" \
            --duration 0.1 --no-figures
        grep "ort_qdq_$method" .out | head -1
        awk -v name="${model}_ort_qdq_$method.onnx" -v t="$top1" -v p="$points" '
            $1 == name && !seen {seen = 1; ok = $2 >= t - p - 1e-6 && $2 <= t + p + 1e-6}
            END {exit !ok}' .out || fail "top-1 of $model $method is not within $points of $top1"
    done
}
job squeezenet1.1 "$QB_SHARED/imagenet1k-sample/val" "$QB_SHARED/imagenet1k-sample/calib" minmax:60.4:0.3 entropy:44.8:0.3
job resnet8_cifar10 "$QB_SHARED/cifar10/test" "$QB_SHARED/cifar10/train" minmax:75.49:0.3 entropy:73.56:0.3
done_testing
