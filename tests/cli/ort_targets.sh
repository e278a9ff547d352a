#!/usr/bin/env bash
# What `quantize --for` writes, in onnxruntime: every file loads, the one for its CPU provider keeps no
# float convolution, and its answers are those of qbench's engine on the same file. Where Python has
# onnxruntime (QB_PYTHON names the interpreter).
# ctest-labels: plain
. "$1/tests/support/cli.sh"
python=${QB_PYTHON:-python3}
"$python" -c 'import numpy, onnx, onnxruntime' 2>/dev/null || skip "no onnxruntime for $python"
own=$QB_BUILD/tests/bench_engine

demo 5 5
expect 0 "$QBENCH" zoo mobilenet_v2 -o mobilenet.onnx
cp -r demo/calib images
# Rounding alone parts them: a little in a trained network, more in one of random weights.
for job in demo/model:30 mobilenet:10; do
    model=${job%:*}
    name=$(basename "$model")
    expect 0 "$QBENCH" calibrate -m "$model.onnx" --data images --samples 4 --method minmax -o "$name.calib.h5"
    for target in trt ort-cpu ort-cuda; do
        expect 0 "$QBENCH" quantize -m "$model.onnx" --for "$target" -o "$name.$target.onnx"
        expect 0 "$python" "$1/tests/cli/ort_answers.py" "$own" "$target" "$name.$target.onnx" "${job#*:}"
    done
done

# Its own readers take the calibrations that qbench writes for it.
expect 0 "$QBENCH" calib export model.calib.h5 -m demo/model.onnx --format ort-json -o r.json
expect 0 "$QBENCH" calib export model.calib.h5 -m demo/model.onnx --format ort-flatbuffers -o r.flatbuffers
expect 0 "$QBENCH" optimize demo/model.onnx -o folded.onnx # it has batch normalization
expect 0 "$python" "$1/tests/cli/ort_formats.py" r.json r.flatbuffers folded.onnx r.qdq.onnx
done_testing
