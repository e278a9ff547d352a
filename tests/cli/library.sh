#!/usr/bin/env bash
# libqbench: the example program and the Python module give what the command line gives.
. "$1/tests/support/cli.sh"
source=$1
build=$QB_BUILD

demo 3 2
cd demo || exit 1
expect 0 "$QBENCH" build --precision int8
image=$(find test -name '*.png' | sort | head -1)
expect 0 "$build/tests/example_classify" model.int8.qbe model.json "$image"
says "^$image: [0-9]+ [a-z]+ \([0-9.-]+\)$"
cp "$work/.out" example.out
expect 1 "$build/tests/example_classify" nothing.qbe model.json "$image"
complains 'classify: .*nothing.qbe'
expect 1 "$build/tests/example_classify" model.int8.qbe model.json model.onnx
complains 'model.onnx'

# What qbench.yaml says of images reaches the library by `init --sidecar`.
mv model.json told.json
expect 0 "$QBENCH" init --model model.onnx --data calib
expect 1 "$QBENCH" init --sidecar --model nothing.onnx
sed -i 's/^  mean: .*/  mean: [1, 2, 3]/; s/^  std: .*/  std: [50, 60, 70]/' qbench.yaml
expect 0 "$QBENCH" init --sidecar
says '^wrote .*model.json$'
expect 1 "$QBENCH" init --sidecar
complains 'model.json is there already: use --force'
expect 0 "$QBENCH" init --sidecar -o other.json
same_bytes model.json other.json
expect 0 "$QBENCH" compare fp32 int8 --data test -o by_settings.json --duration 0.05
rm qbench.yaml
expect 0 "$QBENCH" compare fp32 int8 --data test -o by_sidecar.json --duration 0.05
scores() { grep -E '"(top1|sqnr_db|agreement_top1)"' "$1"; }
scores by_settings.json >a.txt
scores by_sidecar.json >b.txt
same_bytes a.txt b.txt
expect 0 "$build/tests/example_classify" model.int8.qbe model.json "$image"
rm model.json
expect 0 "$QBENCH" init --sidecar --model model.onnx
complains 'GUESSED from the model'
mv told.json model.json

# Only qbench_* can be seen from outside, with a version.
library=$build/libqbench.so.0
checks=$((checks + 1))
nm -D "$library" >"$work/.symbols"
instrumented=$(grep -c __asan_init "$work/.symbols")
others=$(nm -D --defined-only "$library" | awk '$3 !~ /^qbench_|^QBENCH_1$|__asan|__ubsan|__odr/ {print $3}')
[ -z "$others" ] || fail "visible: $others"
grep -q ' qbench_engine_load@@QBENCH_1$' "$work/.symbols" || fail 'no symbol version'

# Nothing in it can be written by two threads at once: locks (HDF5 and plans of cuDNN are not safe for threads),
# what they guard (cuDNN's handles, streams), the entry points of cuBLASLt and cuDNN behind a pthread_once, an atomic number
# that all threads find to be the same, one that forks change, the limits of a forked process (it has one thread), what
# nvcc makes for each kernel, and the default text of protobuf-c, which nobody writes.
checks=$((checks + 1))
globals=$(objdump -t "$build/libqbench.a" | awk '($3 == "O" && ($4 == ".data" || $4 == ".bss")) {print $NF}' |
    grep -Ev '^onnx__node_proto__op_type__default_value$|__device_stub_|__cudaFatCubinHandle|__fatDeviceText|^_ZGVZ|^(library_lock|plan_lock|handles_lock|handles|streams_lock|streams|limits|forks|lt|cudnn|(once|vector_bytes)(\.[0-9]+)?)$')
[ "$instrumented" != 0 ] || [ -z "$globals" ] || fail "mutable globals: $globals"

# A program that uses the shared library needs no package of what qbench itself is made of.
checks=$((checks + 1))
if grep -q '^Requires' "$build/qbench.pc"; then fail 'qbench.pc requires other packages'; fi

# The static archive is complete.
if [ "$instrumented" = 0 ]; then
    read -ra libs < <(PKG_CONFIG_PATH=$build pkg-config --static --libs qbench | sed "s|-lqbench||")
    expect 0 "${CC:-cc}" -I "$source/include" "$source/examples/classify.c" "$build/libqbench.a" "${libs[@]}" -o static
    expect 0 ./static model.int8.qbe model.json "$image"
    same_bytes "$work/.out" example.out
fi

# The Python module, which is tried below, has all of the header.
checks=$((checks + 1))
missing=$(grep -ho '\bqbench_[a-z_]*(' "$source/include/qbench/qbench.h" | tr -d '(' | sort -u |
    while read -r f; do grep -qw "$f" "$source/python/qbench.py" || echo "$f"; done)
[ -z "$missing" ] || fail "not in python/qbench.py: $missing"

python=${QB_PYTHON:-python3}
if [ "$instrumented" != 0 ] || ! "$python" -c 'import numpy' 2>/dev/null; then
    echo 'the Python module is not tried: no numpy, or a sanitizer'
    done_testing
    exit
fi
export PYTHONPATH=$source/python QBENCH_LIBRARY=$library
expect 0 "$QBENCH" bench --loadEngine=model.int8.qbe --duration=0.01 --warmUp=0 --iterations=1 --exportOutput=zero.json
expect 0 "$python" - "$image" "$(cut -d' ' -f2 example.out)" <<'PYTHON'
import copy, os, pickle, signal, sys, threading
import numpy as np
import qbench

engine = qbench.Engine.load("model.int8.qbe")
shape = engine.inputs[0].shape
inputs = qbench.Inputs("model.json")
scores, = engine.run(inputs.image(sys.argv[1], shape))
assert scores.shape == engine.outputs[0].shape and scores.dtype == np.float32
assert scores.argmax() == int(sys.argv[2]), (scores, sys.argv)
assert inputs.label(scores.argmax()) and inputs.label(10 ** 6) is None

built = qbench.Engine.build("model.onnx", batch=3, threads=1)
x = np.random.default_rng(0).standard_normal((3,) + shape[1:], dtype=np.float32)
whole, = built.run({built.inputs[0].name: x})
one = qbench.Engine.build("model.onnx", threads=1)
for i in range(3):
    assert np.array_equal(one.run(x[i:i + 1])[0][0], whole[i])
built.save("saved.qbe")
assert np.array_equal(qbench.Engine.load("saved.qbe").run(x)[0], whole)

ranges = {built.inputs[0].name: ((1,) + shape[1:], (2,) + shape[1:], (5,) + shape[1:])}
open_ = qbench.Engine.build("model.onnx", threads=1, profiles=[ranges], workspace=64)
assert open_.profiles == [ranges] and open_.inputs[0].shape[0] == 2
five = np.concatenate([x, x[:2]])
for again in range(2):
    assert np.array_equal(open_.run(five)[0][:3], whole) and open_.outputs[0].shape[0] == 5
    for i in range(3):
        assert np.array_equal(open_.run(x[i:i + 1])[0][0], whole[i])
open_.save("open.qbe")
loaded = qbench.Engine.load("open.qbe")
assert loaded.profiles == [ranges] and np.array_equal(loaded.run(x)[0], whole)
try:
    loaded.run(np.concatenate([five, x]))
except qbench.Error as e:
    assert "axis 0: 8 is outside of 1 to 5" in str(e), e
else:
    raise AssertionError("no error")

for call, error in [(lambda: qbench.Engine.load("nothing.qbe"), qbench.Error),
                    (lambda: qbench.Engine.load("model.int8.qbe\0.txt"), ValueError),
                    (lambda: engine.run(x.astype(">f4")), ValueError),
                    (lambda: engine.run(x), ValueError),
                    (lambda: engine.run(wrong=x), ValueError),
                    (lambda: engine.run(np.ma.masked_array(x[:1], mask=True)), ValueError),
                    (lambda: engine.run(x[0, 0, 0, 0]), ValueError),
                    (lambda: qbench.Engine.build("model.onnx", batch=2 ** 64 + 1), ValueError),
                    (lambda: qbench.Engine.build("model.onnx", threads=2 ** 32), ValueError),
                    (lambda: inputs.label(2 ** 32), ValueError),
                    (lambda: inputs.label(1.5), TypeError),
                    (lambda: inputs.image(sys.argv[1], (8,)), ValueError),
                    (lambda: inputs.image(sys.argv[1], (1, 1, 8, 8)), qbench.Error)]:
    try:
        call()
    except error as e:
        assert str(e)
    else:
        raise AssertionError("no error")

for odd in (np.asfortranarray(x[:1]), x[:1, :, ::-1][:, :, ::-1], x[:1].view(np.ndarray)):
    assert np.array_equal(one.run(odd)[0][0], whole[0])

for copied in (copy.copy, copy.deepcopy, pickle.dumps):  # would be freed twice
    for thing in (one, inputs):
        try:
            copied(thing)
        except TypeError as e:
            assert "neither copied nor pickled" in str(e), e
        else:
            raise AssertionError("no error")

def in_child(body):  # what it says, of a process that has none of this one's threads
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            body()
            said = "done"
        except Exception as e:
            said = str(e)
        os.write(theirs, said.encode())
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours) as f:
        said = f.read()
    assert os.waitpid(child, 0)[1] == 0, "the child ended by a signal"
    return said

two = qbench.Engine.build("model.onnx", threads=2, backends="cpu,ref")
teams = qbench.Engine.build("model.onnx", threads=2, backends="dnnl,ref")
results = {e: e.run(x[:1])[0] for e in (two, teams)}

def again():
    assert np.array_equal(two.run(x[:1])[0], results[two])
    two.__del__()
    fresh = qbench.Engine.build("model.onnx", threads=2, backends="dnnl,ref")
    assert np.allclose(fresh.run(x[:1])[0], results[teams], atol=1e-4)

assert in_child(again) == "done"
assert "of the process that forked this one" in in_child(lambda: teams.run(x[:1]))

errors = []
def hammer(n):
    for _ in range(300):
        try:
            assert open_.run(five[:n])[0].shape[0] == n
        except qbench.Error as e:
            errors.append(str(e))
threads = [threading.Thread(target=hammer, args=(n,)) for n in (1, 5)]
[t.start() for t in threads]
[t.join() for t in threads]
assert all("another thread" in e for e in errors), errors
one.__del__()  # what is gone is an error, not a fault
try:
    one.run(x[:1])
except qbench.Error as e:
    assert "context" in str(e), e
else:
    raise AssertionError("no error")
PYTHON

# A scalar input takes a scalar.
expect 0 "$python" - <<'PYTHON' # y = x * s
def field(tag, content):
    return bytes([tag, len(content)]) + content
def port(name, dims):
    return field(0x0a, name) + field(0x12, field(0x0a, b"\x08\x01" + field(0x12, b"".join(field(0x0a, bytes([8, d])) for d in dims))))
node = b"".join(field(t, v) for t, v in ((0x0a, b"x"), (0x0a, b"s"), (0x12, b"y"), (0x22, b"Mul")))
graph = field(0x0a, node) + field(0x12, b"g") + field(0x5a, port(b"x", [2])) + field(0x5a, port(b"s", [])) + field(0x62, port(b"y", [2]))
open("scalar.onnx", "wb").write(b"\x08\x08" + field(0x3a, graph) + field(0x42, b"\x10\x11"))
import numpy as np
import qbench
y, = qbench.Engine.build("scalar.onnx", threads=1).run(np.array([1, 2], np.float32), np.float32(3))
assert y.tolist() == [3, 6], y
PYTHON

# py.typed promises types: of all that is public here, and of every line where mypy is installed.
expect 0 "$python" - <<'PYTHON'
import inspect
import qbench

for name in qbench.__all__:
    thing = getattr(qbench, name)
    members = {f"{name}.{k}": v for k, v in vars(thing).items()} if inspect.isclass(thing) else {name: thing}
    for where, m in members.items():
        m = m.fget if isinstance(m, property) else getattr(m, "__func__", m)
        if not inspect.isfunction(m) or m.__module__ != "qbench":
            continue
        lacks = set(inspect.signature(m).parameters) | {"return"}
        lacks -= set(m.__annotations__) | {"self", "cls"}
        assert not lacks, f"{where} lacks the types of {lacks}"
PYTHON
! "$python" -c 'import mypy' 2>/dev/null || expect 0 "$python" -m mypy --strict --cache-dir=none "$source/python/qbench.py"

# The commands, from the wheel: the module finds program and library beside itself.
checks=$((checks + 1))
wheel=$("$python" "$source/python/make_wheel.py" 9.9 "$QBENCH" "$library" .) || fail 'no wheel'
cp "$wheel" first.whl
"$python" "$source/python/make_wheel.py" 9.9 "$QBENCH" "$library" . >/dev/null
same_bytes "$wheel" first.whl
"$python" - "$wheel" <<'PYTHON' # as an installer unpacks it
import os, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as z:
    for entry in z.infolist():
        os.chmod(z.extract(entry, "site"), entry.external_attr >> 16)
PYTHON
unset QBENCH_LIBRARY
expect 0 env PYTHONPATH="$PWD/site" "$python" - <<'PYTHON'
import os
import qbench

assert os.path.dirname(qbench.__file__).endswith("site/qbench"), qbench.__file__
made = qbench.calibrate("model.onnx", "calib", method="minmax", out="py", samples=16)
assert os.path.exists("py/model.calib.h5") and made["schema"].startswith("qbench.")
compared = qbench.compare("model.onnx", "test", "fp32", "int8", out="py", duration=0.01, no_figures=True, samples=20)
assert [r["precision"] for r in compared.rows] == ["fp32", "int8"], compared.rows
assert qbench.gate(compared, max_drop=100.0, min_samples=1, allow=["calibration-data", "chance"]).record["checks"]
assert not qbench.gate(compared.path, min_samples=10 ** 6)
assert "<iframe" in compared._repr_html_() and "int8" in compared._repr_html_()
for call, word in [(lambda: qbench.calibrate("nothing.onnx", "calib"), "nothing.onnx"),
                   (lambda: qbench.compare("model.onnx", "test", "int7"), "int7"),
                   (lambda: qbench.gate(compared, min_top1=101.0), "min-top1")]:
    try:
        call()
    except qbench.Error as e:
        assert word in str(e), e
    else:
        raise AssertionError("no error")
PYTHON
expect 0 env PYTHONPATH="$PWD/site" "$python" -m qbench --version
done_testing
