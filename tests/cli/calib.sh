#!/usr/bin/env bash
# Calibration methods on the demo: one pass, other methods from the same statistics, auto, and the
# commands that look into the file.
# ctest-timeout: 300, ctest-cost: 20
. "$1/tests/support/cli.sh"

demo 5 10
cd demo || exit 1

expect 0 "$QBENCH" calibrate --data calib --method mse,moving-average,entropy:nvidia
complains '^statistics: [0-9]+ tensors x 64 KiB = [0-9.]+ MiB.*, extremes of 50 samples'
says '50 samples, mse$'

# The same ranges without data, also when asked for in another order, and from another file.
cp model.calib.h5 first.calib.h5
expect 0 "$QBENCH" calibrate --from first.calib.h5 --method percentile:99.9:one-sided,mse,aciq
says 'percentile:99.9:one-sided$'
expect 0 "$QBENCH" calib diff first.calib.h5 model.calib.h5 --method mse --max-change 0
expect 0 "$QBENCH" calibrate --from model.calib.h5 --method mse,moving-average,entropy:nvidia
same_bytes first.calib.h5 model.calib.h5
expect 0 "$QBENCH" compare fp32 int8:mse --data calib --duration 0.01 --no-figures

expect 2 "$QBENCH" calibrate --from first.calib.h5 --data calib
complains 'data would not be read'
expect 1 "$QBENCH" calibrate --from missing.calib.h5
complains 'missing.calib.h5'
expect 2 "$QBENCH" calibrate --from first.calib.h5 --method entropy:tensorrt
complains "expected amplitude, symmetric, nvidia, ort, ncnn, ppq after the colon, got 'tensorrt'"
expect 0 "$QBENCH" quantize
cp model.qdq.onnx minmax.qdq.onnx
expect 0 "$QBENCH" quantize --weights mse
cmp -s model.qdq.onnx minmax.qdq.onnx && fail '--weights mse changed nothing'
expect 0 "$QBENCH" quantize --weights minmax
same_bytes model.qdq.onnx minmax.qdq.onnx
expect 2 "$QBENCH" quantize --weights entropy
complains "unknown range of weights 'entropy': expected minmax, mse"
expect 1 "$QBENCH" calibrate --model model.qdq.onnx --from first.calib.h5
complains 'artifacts do not belong together'

# auto: by tensor and end to end.
expect 0 "$QBENCH" calibrate --data calib --method auto
says '^end to end on 10 held-back samples'
says '^auto, by tensor +[0-9.]+ +[0-9.]+'
says '^auto: '
says '50 samples, auto$'
expect 0 "$QBENCH" calibrate --data calib --method auto --json -
says '"end_to_end"'
says '"histogram_bytes": 65592'
complains '^statistics: [0-9]+ tensors x 64 KiB = [0-9.]+ MiB'
says '"chosen": "[a-z]'
expect 0 "$QBENCH" calibrate --data calib --method auto --samples 4
complains 'too few to hold some back'
expect 0 "$QBENCH" calibrate --from first.calib.h5 --method auto
says 'without data it is not compared end to end'

expect 0 "$QBENCH" calib show first.calib.h5 --tensor 'no such'
expect 0 "$QBENCH" calib show first.calib.h5 --symmetric
says '^  entropy:nvidia +[-0-9.e+]+ +[0-9.e+]+ +[0-9.]+ '
expect 0 "$QBENCH" calib show first.calib.h5 --json -
says '"schema": "qbench.calib-show/1"'
says '"unused_codes"'
expect 0 "$QBENCH" calibrate --data calib --per-channel --method minmax -o channels.calib.h5
complains '^extremes of [0-9]+ channels: [0-9.]+ KiB'
expect 0 "$QBENCH" calib show channels.calib.h5
says '^  3 channels: reach [0-9.]+ \(channel [0-2]\), median [0-9.]+, least'
expect 1 "$QBENCH" calib show model.onnx
complains 'is this a .calib.h5 file'
expect 3 "$QBENCH" calib diff first.calib.h5 model.calib.h5 --max-change 0
complains 'moved by'
expect 1 "$QBENCH" calib diff first.calib.h5 model.calib.h5 --method lp
complains "has no method 'lp'"
expect 0 "$QBENCH" calib diff first.calib.h5 model.calib.h5 --json -
says '"shape": 0'

if command -v gnuplot >/dev/null; then
    expect 0 "$QBENCH" calib plot first.calib.h5 --tensor image -o out
    says 'out/figures/histogram_[0-9]+_image.svg'
    for suffix in svg png tsv gp; do
        [ -s out/figures/histogram_*_image.$suffix ] || fail "no histogram .$suffix"
    done
fi
expect 1 "$QBENCH" calib plot first.calib.h5 --tensor 'no such'
complains 'no tensor is called'
done_testing
