#!/usr/bin/env bash
# The skeleton of `qbench plugin new --cuda` on a GPU, built as its user builds it (or $QB_SCALER, its
# library built elsewhere): inspected, calibrated, built, loaded, and run as on the processor.
# Skips without a GPU or a CUDA compiler. ctest-labels: gpu
. "$1/tests/support/cli.sh"
source=$1

expect 0 "$QBENCH" plugin new --cuda scaler
library=${QB_SCALER:-scaler/build/scaler.so}
nvcc=$(command -v nvcc || command -v /usr/local/cuda/bin/nvcc)
if ! "$QBENCH" doctor >.out 2>&1 && [ ! -s .out ]; then fail 'doctor says nothing'; fi
if ! grep -Eq '^good +gpu' .out; then
    grep -E ' gpu ' .out
    exit 77
fi
if [ ! -e "$library" ]; then
    if [ -z "$nvcc" ] || ! command -v cmake >/dev/null; then exit 77; fi
    expect 0 cmake -S scaler -B scaler/build -DQBENCH_INCLUDE="$source/include" -DCMAKE_CUDA_COMPILER="$nvcc"
    expect 0 cmake --build scaler/build
fi
plugin=(--plugin "$library")

demo 3 2
model=scaler/test.onnx
expect 0 "$QBENCH" inspect $model --steps --providers cuda,cpu "${plugin[@]}"
says ' cuda$'
says '^ +plugin.scaler 0.1'
expect 0 "$QBENCH" calibrate $model -o . --data demo/calib --method minmax --backend cuda "${plugin[@]}"
says 'test.calib.h5: 2 tensors, 30 samples'
"$QBENCH" calib show test.calib.h5 --tensor y | grep -A2 '^y:' >range.cuda
expect 0 "$QBENCH" calibrate $model -o . --data demo/calib --method minmax "${plugin[@]}"
"$QBENCH" calib show test.calib.h5 --tensor y | grep -A2 '^y:' >range.cpu
same_bytes range.cpu range.cuda
for precision in fp32 int8; do
    for backend in cpu cuda; do
        expect 0 "$QBENCH" build $model --precision $precision --backend $backend -o . "${plugin[@]}"
        expect 0 "$QBENCH" bench --loadEngine=test.$precision.qbe --duration=0.05 --dumpOutput \
            --iterations=2 --warmUp=1 "${plugin[@]}"
        says 'Throughput'
        sed -n '/=== Outputs/,$p' .out >$precision.$backend
    done
    same_bytes $precision.cpu $precision.cuda
    grep -q '"y"' $precision.cuda || fail 'no outputs'
done
done_testing
