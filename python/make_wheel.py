#!/usr/bin/env python3
"""The wheel: qbench.py with the program and the library of this build, for the machine's kind.

    make_wheel.py VERSION PROGRAM LIBRARY FOLDER

The libraries that they are linked with stay the system's: install what scripts/packages.txt lists.
"""
import base64
import hashlib
import os
import sys
import sysconfig
import zipfile

METADATA = """Metadata-Version: 2.1
Name: qbench
Version: {version}
Summary: Quantization and calibration workbench for INT8 models
License: Apache-2.0
Requires-Python: >=3.9
Requires-Dist: numpy
"""
WHEEL = """Wheel-Version: 1.0
Generator: qbench
Root-Is-Purelib: false
Tag: {tag}
"""
ENTRY = """[console_scripts]
qbench = qbench.__main__:main
"""
MAIN = """import os
import sys

from qbench import _program


def main():
    os.execv(_program(), ["qbench", *sys.argv[1:]])


if __name__ == "__main__":
    main()
"""


def contents(version, tag, program, library):
    """Names and bytes, and whether it is a program."""
    def read(path):
        with open(path, "rb") as f:
            return f.read()
    info = f"qbench-{version}.dist-info"
    module = os.path.join(os.path.dirname(os.path.abspath(__file__)), "qbench.py")
    yield "qbench/__init__.py", read(module), False
    yield "qbench/__main__.py", MAIN.encode(), False
    yield "qbench/py.typed", b"", False
    yield "qbench/qbench", read(program), True
    yield "qbench/libqbench.so.0", read(library), False
    yield f"{info}/METADATA", METADATA.format(version=version).encode(), False
    yield f"{info}/WHEEL", WHEEL.format(tag=tag).encode(), False
    yield f"{info}/entry_points.txt", ENTRY.encode(), False


def main():
    version, program, library, folder = sys.argv[1:]
    tag = "py3-none-" + sysconfig.get_platform().replace("-", "_").replace(".", "_")
    path, rows = os.path.join(folder, f"qbench-{version}-{tag}.whl"), []
    with zipfile.ZipFile(path + ".new", "w", zipfile.ZIP_DEFLATED) as z:
        def add(name, data, runs=False):
            entry = zipfile.ZipInfo(name)  # of 1980: the same build gives the same bytes
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, (0o100755 if runs else 0o100644) << 16
            z.writestr(entry, data)
        for name, data, runs in contents(version, tag, program, library):
            add(name, data, runs)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            rows.append(f"{name},sha256={digest},{len(data)}")
        record = f"qbench-{version}.dist-info/RECORD"
        add(record, "\n".join([*rows, f"{record},,", ""]).encode())
    os.replace(path + ".new", path)
    print(path)


if __name__ == "__main__":
    main()
