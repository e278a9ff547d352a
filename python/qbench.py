"""Engines of qbench on numpy arrays, and its commands: a thin layer over libqbench and the program.

    import qbench
    engine = qbench.Engine.load("squeezenet1.1.int8.qbe")
    scores, = engine.run(image)          # arrays in the order of engine.inputs, or a dict by name

    qbench.calibrate("model.onnx", "images/", method="entropy")
    comparison = qbench.compare("model.onnx", "val/", "fp32", "int8")    # a notebook shows its page
    assert qbench.gate(comparison, max_drop=1.0).passed

The library is looked for as $QBENCH_LIBRARY, beside this file and on the system; the program as
$QBENCH_PROGRAM, beside this file and on the path.
"""

from __future__ import annotations

import ctypes
import html
import json
import math
import operator
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn, Union

import numpy as np
import numpy.typing as npt

__all__ = ["Comparison", "Engine", "Error", "Inputs", "Tensor", "Verdict", "calibrate", "compare", "gate", "version"]

_MAX_RANK = 8
_DTYPES = {1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64",
           9: "bool", 10: "float16", 11: "float64", 12: "uint32", 13: "uint64"}

StrPath = Union[str, "os.PathLike[str]"]
Shape = tuple[int, ...]


class Tensor(NamedTuple):
    """An input or output of an engine."""

    name: str
    dtype: np.dtype[Any]
    shape: Shape


class Error(RuntimeError):
    """What libqbench says went wrong; `status` is its number."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class _Tensor(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("dtype", ctypes.c_int), ("rank", ctypes.c_int32),
                ("dim", ctypes.c_int64 * _MAX_RANK), ("bytes", ctypes.c_size_t)]


class _Range(ctypes.Structure):
    _fields_ = [("input", ctypes.c_char_p), ("profile", ctypes.c_int32), ("rank", ctypes.c_int32),
                ("min", ctypes.c_int64 * _MAX_RANK), ("opt", ctypes.c_int64 * _MAX_RANK),
                ("max", ctypes.c_int64 * _MAX_RANK)]


class _BuildOptions(ctypes.Structure):
    _fields_ = [("batch", ctypes.c_int64), ("threads", ctypes.c_int32),
                ("time_tactics", ctypes.c_int32), ("backends", ctypes.c_char_p),
                ("providers", ctypes.c_char_p), ("ranges", ctypes.POINTER(_Range)),
                ("n_ranges", ctypes.c_int32), ("workspace_limit", ctypes.c_size_t)]


def _open_library() -> Any:
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libqbench.so.0")
    name = os.environ.get("QBENCH_LIBRARY") or (beside if os.path.exists(beside) else "libqbench.so.0")
    lib = ctypes.CDLL(name)
    handle, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32
    slot = ctypes.POINTER(ctypes.c_void_p)
    signatures: dict[str, tuple[Any, ...]] = {
        "version": (text,), "session_create": (handle,), "session_free": (None, handle),
        "error": (text, handle), "plugin_load": (number, handle, text),
        "session_trust": (number, handle, text, ctypes.c_int),
        "engine_load": (number, handle, text, slot),
        "engine_build": (number, handle, text, ctypes.POINTER(_BuildOptions), slot),
        "engine_save": (number, handle, handle, text), "engine_free": (None, handle),
        "engine_provider": (text, handle),
        "engine_n_inputs": (number, handle), "engine_n_outputs": (number, handle),
        "engine_input": (number, handle, number, ctypes.POINTER(_Tensor)),
        "engine_output": (number, handle, number, ctypes.POINTER(_Tensor)),
        "engine_n_profiles": (number, handle),
        "engine_range": (number, handle, number, number, ctypes.POINTER(_Range)),
        "context_create": (number, handle, handle, slot), "context_free": (None, handle),
        "context_set_shapes": (number, handle, handle, ctypes.POINTER(ctypes.POINTER(ctypes.c_int64))),
        "context_input": (number, handle, number, ctypes.POINTER(_Tensor)),
        "context_output": (number, handle, number, ctypes.POINTER(_Tensor)),
        "context_result": (number, handle, number, ctypes.POINTER(_Tensor)),
        "context_run": (number, handle, handle, slot, slot),
        "inputs_load": (number, handle, text, slot), "inputs_free": (None, handle),
        "inputs_image": (number, handle, handle, text, number, number, handle, ctypes.c_size_t),
        "inputs_label": (text, handle, number),
    }
    for name, (result, *arguments) in signatures.items():
        function = getattr(lib, "qbench_" + name)
        function.restype, function.argtypes = result, arguments
    return lib


_lib = _open_library()


def version() -> str:
    return str(_lib.qbench_version().decode())


def _path(path: StrPath) -> bytes:
    """The path as C reads it, which ends at the first NUL."""
    text = os.fsencode(path)
    if b"\0" in text:
        raise ValueError(f"a path with a NUL byte: {text!r}")
    return text


def _whole(what: str, value: Any, bits: int) -> int:
    """A whole number that C can hold: ctypes takes others modulo its type."""
    number = operator.index(value)
    if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
        raise ValueError(f"{what}: expected a number of {bits} bits, got {number}")
    return number


class _Owner:
    """What frees a handle: a second one with the same handle would free it, too, and in another process
    it is an address of nothing."""

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(f"{type(self).__name__} objects are neither copied nor pickled: load it again where it is needed")


class _Session(_Owner):
    def __init__(self, plugins: Sequence[StrPath] = (), key: StrPath | None = None,
                 machine_code: bool = True) -> None:
        self.handle = _lib.qbench_session_create()
        if not self.handle:
            raise MemoryError("qbench_session_create")
        self.check(_lib.qbench_session_trust(self.handle, None if key is None else _path(key), not machine_code))
        for path in plugins:
            self.check(_lib.qbench_plugin_load(self.handle, _path(path)))

    def __del__(self) -> None:
        _lib.qbench_session_free(self.handle)

    def check(self, status: int) -> None:
        if status:
            text = _lib.qbench_error(self.handle).decode("utf-8", "replace")
            raise Error(status, text or "another thread is in a call with it: use one each")

    def make(self, function: Callable[..., int], *arguments: Any) -> int | None:
        """Calls a function whose last argument is the place of a new handle."""
        out = ctypes.c_void_p()
        self.check(function(self.handle, *arguments, ctypes.byref(out)))
        return out.value


def _pointers(arrays: Sequence[npt.NDArray[Any]]) -> Any:
    return (ctypes.c_void_p * max(1, len(arrays)))(*(a.ctypes.data for a in arrays))


def _range(profile: int, name: str, *shapes: Sequence[int]) -> _Range:
    r = _Range(name.encode(), profile, len(shapes[0]))
    for row, shape in zip((r.min, r.opt, r.max), shapes):
        row[:len(shape)] = [_whole(name, n, 64) for n in shape]
    return r


class Engine(_Owner):
    """An engine with one execution context. Not for several threads at once: use one each."""

    def __init__(self, session: _Session, handle: int | None) -> None:
        self._session, self._handle = session, handle
        self._context: int | None = None
        self._running = threading.Lock()
        self._context = session.make(_lib.qbench_context_create, handle)
        count = _lib.qbench_engine_n_inputs, _lib.qbench_engine_n_outputs
        self.inputs = [self._tensor(_lib.qbench_engine_input, i) for i in range(count[0](handle))]
        self.outputs = [self._tensor(_lib.qbench_engine_output, i) for i in range(count[1](handle))]
        self.profiles = [self._profile(p) for p in range(_lib.qbench_engine_n_profiles(handle))]

    @classmethod
    def load(cls, path: StrPath, plugins: Sequence[StrPath] = (), key: StrPath | None = None,
             machine_code: bool = True) -> Engine:
        """From an engine file; `plugins` are the libraries of its custom operators. `key`: the PEM file
        of the public key by which it must be signed (FILE.sig). `machine_code=False`: kernels for a
        GPU that the file holds are not run but compiled here."""
        session = _Session(plugins, key, machine_code)
        return cls(session, session.make(_lib.qbench_engine_load, _path(path)))

    @classmethod
    def build(cls, onnx_path: StrPath, batch: int = 1, threads: int = 0, time_tactics: bool = False,
              backends: str | None = None, plugins: Sequence[StrPath] = (), providers: Sequence[str] | None = None,
              profiles: Sequence[Mapping[str, Sequence[Sequence[int]]]] = (), workspace: float = 0) -> Engine:
        """From an ONNX model: FP32, or INT8 where it has Q/DQ nodes. `providers`: where nodes run,
        in order of preference, as ["cuda", "cpu"]; what is not there is passed over, see `provider`.
        Each of `profiles` gives every input's smallest, usual and largest shape:
        {"x": ((1, 3, 8, 8), (1, 3, 64, 64), (4, 3, 99, 99))}. `workspace`: most MiB of scratch memory
        of a kernel, 0 for no limit."""
        session = _Session(plugins)
        ranges = [_range(p, name, *shapes) for p, profile in enumerate(profiles)
                  for name, shapes in profile.items()]
        options = _BuildOptions(_whole("batch", batch, 64), _whole("threads", threads, 32), time_tactics, backends and backends.encode(),
                                providers and ",".join(providers).encode(),
                                (_Range * len(ranges))(*ranges), len(ranges),
                                _whole("workspace", int(workspace * (1 << 20)), 64))
        return cls(session, session.make(_lib.qbench_engine_build, _path(onnx_path),
                                         ctypes.byref(options)))

    def save(self, path: StrPath) -> None:
        self._session.check(
            _lib.qbench_engine_save(self._session.handle, self._handle, _path(path)))

    def run(self, *arrays: Any, **named: Any) -> list[npt.NDArray[Any]]:
        """Runs on arrays in the order of `inputs`, or given by name; returns a list of arrays. An
        engine with profiles takes every shape inside one of them. Outputs whose size comes with the
        data, such as boxes behind NonMaxSuppression, are as large as the run made them."""
        if len(arrays) == 1 and isinstance(arrays[0], dict):
            named, arrays = arrays[0], ()
        if named:
            missing = [t.name for t in self.inputs if t.name not in named]
            if arrays or missing or len(named) != len(self.inputs):
                raise ValueError(f"inputs are {[t.name for t in self.inputs]}, got {list(named)}")
            arrays = tuple(named[t.name] for t in self.inputs)
        if len(arrays) != len(self.inputs):
            raise ValueError(f"{len(self.inputs)} inputs, got {len(arrays)}")
        # Between the shapes and the run another thread could set others, for which results are too small.
        if not self._running.acquire(blocking=False):
            raise Error(5, "another thread runs this engine: use one each")
        try:
            return self._run(arrays)
        finally:
            self._running.release()

    def _run(self, given: Sequence[Any]) -> list[npt.NDArray[Any]]:
        if self.profiles:
            self._set_shapes([np.shape(a) for a in given])
        arrays = [self._checked(a, t) for a, t in zip(given, self.inputs)]
        results = [np.empty(t.shape, t.dtype) for t in self.outputs]
        self._session.check(_lib.qbench_context_run(self._session.handle, self._context,
                                                    _pointers(arrays), _pointers(results)))
        return [self._cut(r, i) for i, r in enumerate(results)]

    def _cut(self, result: npt.NDArray[Any], i: int) -> npt.NDArray[Any]:
        """What the last run left of it: sizes that come with the data are smaller than memory for them."""
        shape = self._tensor(_lib.qbench_context_result, i, self._context).shape
        return result if shape == result.shape else result.reshape(-1)[:math.prod(shape)].reshape(shape)

    @property
    def provider(self) -> str:
        """"cuda" when at least one step runs on a GPU, else "cpu"."""
        return str(_lib.qbench_engine_provider(self._handle).decode())

    def _set_shapes(self, shapes: Sequence[Shape]) -> None:
        """The next runs take inputs of these shapes; `inputs` and `outputs` say so."""
        if shapes == [t.shape for t in self.inputs]:
            return
        for shape, tensor in zip(shapes, self.inputs):
            if len(shape) != len(tensor.shape):
                raise ValueError(f"input '{tensor.name}' has {len(tensor.shape)} dimensions, got {shape}")
        rows = [(ctypes.c_int64 * max(1, len(s)))(*s) for s in shapes]
        pointer = ctypes.POINTER(ctypes.c_int64)
        dims = (pointer * max(1, len(rows)))(*(ctypes.cast(r, pointer) for r in rows))
        self._session.check(
            _lib.qbench_context_set_shapes(self._session.handle, self._context, dims))
        self.inputs = [self._tensor(_lib.qbench_context_input, i, self._context)
                       for i in range(len(self.inputs))]
        self.outputs = [self._tensor(_lib.qbench_context_output, i, self._context)
                        for i in range(len(self.outputs))]

    def _profile(self, p: int) -> dict[str, tuple[Shape, ...]]:
        """{input: (min, opt, max)}"""
        profile = {}
        for i in range(len(self.inputs)):
            r = _Range()
            self._session.check(_lib.qbench_engine_range(self._handle, p, i, ctypes.byref(r)))
            profile[r.input.decode()] = tuple(tuple(s[:r.rank]) for s in (r.min, r.opt, r.max))
        return profile

    def _tensor(self, function: Callable[..., int], i: int, handle: int | None = None) -> Tensor:
        t = _Tensor()
        self._session.check(function(handle or self._handle, i, ctypes.byref(t)))
        if t.dtype not in _DTYPES:
            raise Error(4, f"'{t.name.decode()}': numpy has no type for ONNX's {t.dtype}")
        return Tensor(t.name.decode(), np.dtype(_DTYPES[t.dtype]), tuple(t.dim[:t.rank]))

    @staticmethod
    def _checked(array: Any, tensor: Tensor) -> npt.NDArray[Any]:
        if np.ma.is_masked(array):
            raise ValueError(f"input '{tensor.name}': masked elements have no value")
        checked: npt.NDArray[Any] = np.asarray(array, order="C")
        if checked.dtype != tensor.dtype or checked.shape != tensor.shape:
            raise ValueError(f"input '{tensor.name}' is {tensor.dtype} {tensor.shape}, "
                             f"got {checked.dtype} {checked.shape}")
        return checked

    def __del__(self) -> None:
        _lib.qbench_context_free(self._context)
        _lib.qbench_engine_free(self._handle)
        self._context = self._handle = None


class Inputs(_Owner):
    """How images become inputs and what classes are called: a model's JSON sidecar."""

    def __init__(self, sidecar_path: StrPath) -> None:
        self._handle: int | None = None
        self._session = _Session()
        self._handle = self._session.make(_lib.qbench_inputs_load, _path(sidecar_path))

    def image(self, path: StrPath, shape: Sequence[int]) -> npt.NDArray[np.float32]:
        """A JPEG or PNG file as an array of shape (1, channels, height, width)."""
        if len(shape) < 2:
            raise ValueError(f"expected (1, channels, height, width), got {shape}")
        height, width = (_whole("shape", n, 32) for n in shape[-2:])
        out = np.empty(shape, np.float32)
        self._session.check(_lib.qbench_inputs_image(
            self._session.handle, self._handle, _path(path), height, width,
            out.ctypes.data, out.size))
        return out

    def label(self, index: int) -> str | None:
        name = _lib.qbench_inputs_label(self._handle, _whole("index", index, 32))
        return name.decode() if name else None

    def __del__(self) -> None:
        _lib.qbench_inputs_free(self._handle)
        self._handle = None


# ---- commands

def _program() -> str:
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "qbench")
    found = os.environ.get("QBENCH_PROGRAM") or (beside if os.path.isfile(beside) else shutil.which("qbench"))
    if not found:
        raise FileNotFoundError("the program qbench is not on the path; $QBENCH_PROGRAM names it")
    return found


def _words(options: dict[str, Any]) -> list[str]:
    """max_drop=1.0 as --max-drop=1.0, a list as the option several times, True as a flag."""
    words = []
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        for one in value if isinstance(value, (list, tuple)) else [value]:
            if one is True:
                words.append(option)
            elif one is not None and one is not False:
                words.append(f"{option}={os.fspath(one) if isinstance(one, os.PathLike) else one}")
    return words


def _command(*words: str, accepted: tuple[int, ...] = (0,), **options: Any) -> tuple[int, dict[str, Any]]:
    """Exit code and JSON of a command. Another code than those accepted raises Error with what it printed."""
    with tempfile.TemporaryDirectory() as folder:
        record = os.path.join(folder, "result.json")
        r = subprocess.run([_program(), *words, *_words(options), "--json", record, "--quiet"], stdout=subprocess.DEVNULL,
                           stderr=subprocess.PIPE, text=True, errors="replace")
        if r.returncode not in accepted:
            lines = [line for line in r.stderr.splitlines() if line.startswith("qbench: error: ")]
            raise Error(r.returncode, lines[-1][len("qbench: error: "):] if lines else r.stderr.strip())
        if not os.path.exists(record):
            return r.returncode, {}
        with open(record, encoding="utf-8") as f:
            return r.returncode, json.load(f)


def calibrate(model: StrPath, data: StrPath, method: str = "entropy",
              out: StrPath = ".", **options: Any) -> dict[str, Any]:
    """`qbench calibrate`: ranges from the data, kept as MODEL.calib.h5 in `out`. Other options of the
    command by name: calibrate(..., samples=500). Returns what its --json says."""
    return _command("calibrate", model=model, data=data, method=method, output=out, **options)[1]


class Comparison:
    """What `qbench compare` measured. `rows`: a dict for each engine; `record`: all of compare.json."""

    def __init__(self, path: StrPath) -> None:
        self.path = os.path.abspath(path)
        with open(self.path, encoding="utf-8") as f:
            self.record: dict[str, Any] = json.load(f)

    @property
    def rows(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.record["rows"]
        return rows

    def report(self, path: StrPath) -> None:
        """The page, which needs no other file."""
        words = [_program(), "report", self.path, "--format", "html", "-o", os.fspath(path), "--quiet"]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)

    def _repr_html_(self) -> str:
        with tempfile.TemporaryDirectory() as folder:
            page = os.path.join(folder, "report.html")
            self.report(page)
            with open(page, encoding="utf-8") as f:
                return f'<iframe srcdoc="{html.escape(f.read())}" width="100%" height="800"></iframe>'


def compare(model: StrPath, data: StrPath, *precisions: str,
            out: StrPath = ".", **options: Any) -> Comparison:
    """`qbench compare`: accuracy and latency of engines of these precisions (default: those of the
    command), kept as compare.json in `out`."""
    os.makedirs(out, exist_ok=True)
    _command("compare", *precisions, model=model, data=data, output=out, **options)
    return Comparison(os.path.join(out, "compare.json"))


class Verdict(NamedTuple):
    """passed: all limits hold. record: what `qbench gate --json` says of each."""

    passed: bool
    record: dict[str, Any]

    def __bool__(self) -> bool:
        return self.passed


def gate(comparison: Comparison | StrPath, **limits: Any) -> Verdict:
    """`qbench gate`: gate(comparison, max_drop=1.0, min_samples=200). A limit that is not kept, or
    that the record does not let anyone judge, is no error but a Verdict that is false."""
    path = comparison.path if isinstance(comparison, Comparison) else os.fspath(comparison)
    code, record = _command("gate", path, accepted=(0, 3), **limits)
    return Verdict(code == 0, record)
