"""Writes corpus/data: small files of each kind that fuzz_data reads. Needs numpy, h5py and onnx."""
import io
import os
import sys
import zipfile

import h5py
import numpy as np
from onnx import numpy_helper

folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "corpus", "data")
os.makedirs(folder, exist_ok=True)
x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
ids = np.arange(6, dtype=np.int64).reshape(2, 3)


def put(name, data):
    with open(os.path.join(folder, name), "wb") as f:
        f.write(data)


def saved(function, *args, **arrays):
    stream = io.BytesIO()
    function(stream, *args, **arrays)
    return stream.getvalue()


put("float.npy", saved(np.save, x))
put("half.npy", saved(np.save, x.astype(np.float16)))
put("fortran.npy", saved(np.save, np.asfortranarray(x)))
put("big_endian.npy", saved(np.save, x.astype(">f4")))
put("scalar.npy", saved(np.save, np.int64(7)))
put("stored.npz", saved(np.savez, x=x, ids=ids, labels=np.array([1, 2])))
put("deflated.npz", saved(np.savez_compressed, x=x, ids=ids, labels=np.array([1, 2], np.uint8)))
put("uneven.npz", saved(np.savez, x=x, ids=ids[:1]))
stream = io.BytesIO()
with zipfile.ZipFile(stream, "w") as archive:
    archive.writestr("readme.txt", "no array")
put("no_array.npz", stream.getvalue())
for name, columns in {"tensors": {"x": x, "ids": ids, "labels": [0, 1]},
                      "images": {"images": np.zeros((2, 4, 4, 3), np.uint8), "labels": [0, 1]},
                      "uneven": {"x": x, "ids": ids[:1]}}.items():
    path = os.path.join(folder, name + ".h5")
    with h5py.File(path, "w", libver=("earliest", "v110")) as f:
        for key, value in columns.items():
            f.create_dataset(key, data=value, track_times=False)
put("list.txt", b"\xef\xbb\xbf# names\na.npy\t3\nb c.npz 4\n\nd.npy\t5\n")
put("mixed.txt", b"a.jpg\nb.npy\n")
put("tensor.pb", numpy_helper.from_array(x, "x").SerializeToString())
