#!/usr/bin/env bash
# Plugins through the whole flow: a model with a custom operator is calibrated, quantized, compared,
# built and measured; what is missing is named; the skeleton compiles.
. "$1/tests/support/cli.sh"
source=$1
gate=$QB_BUILD/plugins/gate.so

demo 3 2
cd demo || exit 1
mv model.json gate.json
rm -f -- *.onnx *.h5 *.yaml compare.json
expect 0 "$QB_BUILD/tests/plugin_model" gate gate.onnx

# Without the plugin.
expect 1 "$QBENCH" inspect gate.onnx
complains 'HardSigmoidGate \(com.example opset 1\): unknown operator; is its plugin loaded'
expect 1 "$QBENCH" inspect gate.onnx --plugin nothing.so
complains 'nothing.so: plugin: '
expect 1 "$QBENCH" inspect gate.onnx --plugin gate.onnx
complains 'gate.onnx: plugin: '

# With it.
expect 0 "$QBENCH" inspect gate.onnx --plugin "$gate" --steps
says 'operators .*HardSigmoidGate 1'
says 'gate +HardSigmoidGa +f32 .* cpu$'
says '^ +plugin.gate 1.0'
expect 0 "$QBENCH" calibrate --data calib --method minmax --plugin "$gate"
expect 0 "$QBENCH" calib show gate.calib.h5 --tensor gate
says '^gate: [0-9]+ values'
expect 0 "$QBENCH" quantize --plugin "$gate"
expect 0 "$QBENCH" inspect gate.qdq.onnx --plugin "$gate" --steps
says 'gate +HardSigmoidGa +s8 .* cpu$'
says '^ +plugin.gate 1.0'
expect 0 "$QBENCH" compare fp32 int8 --data test --plugin "$gate" --duration 0.05
says '^int8 '
expect 0 "$QBENCH" gate --min-agreement 80 --allow chance --precision int8 --plugin "$gate"
expect 0 "$QBENCH" bench --precision int8 --plugin "$gate" --duration=0.02 --warmUp=1 --iterations=2 --dumpProfile
says 'HardSigmoidGate|plugin.gate'

mkdir plain && "$QB_BUILD/tests/plugin_model" plain plain/gate.onnx
short=(--duration=0.01 --warmUp=0 --iterations=1)

# Settings instead of the option; run sees a plugin that changed.
printf 'model: gate.onnx\nplugins: [gate.so]\ndata:\n  calibration: calib\n  evaluation: test\ncompare:\n  duration: 0.05\n' >qbench.yaml
cp "$gate" gate.so
expect 0 "$QBENCH" run fp32 int8
expect 0 "$QBENCH" run fp32 int8 --dry-run
complains 'calibrate: up to date'
printf 'x' >>gate.so
expect 0 "$QBENCH" run fp32 int8 --dry-run
complains 'calibrate: would run'
rm qbench.yaml

# Engine files know their plugins.
expect 0 "$QBENCH" build --precision int8 --plugin "$gate"
expect 0 "$QBENCH" inspect gate.int8.qbe
says '^plugins +gate 1.0, ABI 1$'
expect 0 "$QBENCH" bench --loadEngine=gate.int8.qbe --plugin "$gate" "${short[@]}"
expect 1 "$QBENCH" bench --loadEngine=gate.int8.qbe "${short[@]}"
complains "HardSigmoidGate 'gate' needs plugin gate 1.0, which is not loaded: give its library with --plugin"

# What plugins say of themselves.
expect 0 "$QBENCH" plugin list "$gate" "$QB_BUILD/plugins/sampler.so"
says '^gate +1.0 +com.example.HardSigmoidGate cpu$'
says '^sampler +1.0 +com.example.BilinearSampler cpu'
expect 0 "$QBENCH" plugin inspect "$gate" --json plugins.json
says 'attribute +alpha float, default 0.2'
says 'format +cpu: u8 channels-last, u8 channels-last -> u8 channels-last'
grep -q '"schema": "qbench.plugins/1"' plugins.json || fail 'no JSON'
expect 1 "$QBENCH" plugin inspect "$QB_BUILD/plugins/no_entry.so"
complains 'exports no function qbench_plugin_entry'
QB_FAULT=abi expect 1 "$QBENCH" plugin inspect "$QB_BUILD/plugins/kit.so"
complains 'plugin of ABI 2, this qbench has ABI 1: compile it again'
expect 2 "$QBENCH" plugin inspect
complains 'which library'

# The skeleton compiles, loads and runs its model.
mkdir new && cd new || exit 1
expect 2 "$QBENCH" plugin new 'Bad name'
expect 0 "$QBENCH" plugin new grid_sampler
expect 1 "$QBENCH" plugin new grid_sampler
complains 'grid_sampler is there already: remove it, or choose another name'
if command -v cmake >/dev/null; then
    expect 0 cmake -S grid_sampler -B build -DQBENCH_INCLUDE="$source/include" -DCMAKE_C_COMPILER="${CC:-cc}"
    expect 0 cmake --build build
else
    expect 0 "${CC:-cc}" -shared -fPIC -I "$source/include" grid_sampler/grid_sampler.c -o build/grid_sampler.so
fi
expect 0 "$QBENCH" plugin list build/grid_sampler.so
says '^grid_sampler +0.1 +com.example.grid_sampler.GridSampler cpu$'
expect 0 "$QBENCH" bench --onnx=grid_sampler/test.onnx --plugin build/grid_sampler.so --precision fp32 "${short[@]}"
says 'Throughput'

# With a kernel: it compiles where there is a CUDA compiler, and runs where there is a GPU.
expect 0 "$QBENCH" plugin new --cuda scaler
says 'scaler: scaler.c, scaler.cu, CMakeLists.txt, test.onnx'
says '--plugin scaler/build/scaler.so --providers cuda,cpu'
nvcc=$(command -v nvcc || command -v /usr/local/cuda/bin/nvcc)
if command -v cmake >/dev/null && [ -n "$nvcc" ]; then
    expect 0 cmake -S scaler -B scaler/build -DQBENCH_INCLUDE="$source/include" \
        -DCMAKE_C_COMPILER="${CC:-cc}" -DCMAKE_CUDA_COMPILER="$nvcc"
    expect 0 cmake --build scaler/build
    expect 0 "$QBENCH" plugin list scaler/build/scaler.so
    says '^scaler +0.1 +com.example.scaler.Scaler cpu,cuda$'
    expect 0 "$QBENCH" bench --onnx=scaler/test.onnx --plugin scaler/build/scaler.so --precision fp32 "${short[@]}"
fi

# The C library and Python.
cd .. || exit 1
instrumented=$(nm -D "$QB_BUILD/libqbench.so.0" | grep -c __asan_init)
python=${QB_PYTHON:-python3}
if [ "$instrumented" != 0 ] || ! "$python" -c 'import numpy' 2>/dev/null; then
    echo 'the Python module is not tried: no numpy, or a sanitizer'
    done_testing
    exit
fi
export PYTHONPATH=$source/python QBENCH_LIBRARY=$QB_BUILD/libqbench.so.0
expect 0 "$python" - "$gate" <<'PYTHON'
import sys
import numpy as np
import qbench

x = np.random.default_rng(0).standard_normal((1, 3, 32, 32), dtype=np.float32)
fused = qbench.Engine.build("gate.onnx", plugins=[sys.argv[1]])
plain = qbench.Engine.build("plain/gate.onnx")
assert np.allclose(fused.run(x)[0], plain.run(x)[0], atol=1e-6)
fused.save("python.qbe")
assert np.array_equal(qbench.Engine.load("python.qbe", plugins=[sys.argv[1]]).run(x)[0], fused.run(x)[0])
for call in [lambda: qbench.Engine.build("gate.onnx"), lambda: qbench.Engine.load("python.qbe"),
             lambda: qbench.Engine.load("python.qbe", plugins=["nothing.so"])]:
    try:
        call()
    except qbench.Error as e:
        assert "plugin" in str(e), e
    else:
        raise AssertionError("no error")
PYTHON
done_testing
