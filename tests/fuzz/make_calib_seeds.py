"""Writes the seeds of fuzz_calib into corpus/calib: calibration tables as qb_table_save lays them out,
whole and each with one thing wrong. The hash in the user block is left open: the target fills it in.
Needs h5py: python3 make_calib_seeds.py"""
import os

import h5py
import numpy as np

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus", "calib")
TITLE = b"qbench calibration table 1\nxxh3 " + b"0" * 32 + b"\n"
BINS = 8192
NAMES = [b"a", b"conv1/relu"]


def contents():
    bins = np.zeros((2, BINS), "<u8")
    bins[0, 4096], bins[0, 8191] = 3, 1  # 0, 0, 0 and 0.9999
    bins[1, 0], bins[1, 5000] = 2, 5
    n = len(NAMES)
    sets = {
        "method": np.array([b"entropy", b"minmax"], "S48"),
        "name": np.array(NAMES, "S11"),
        "exponent": np.array([0, 3], "<i4"),
        "min": np.array([0, -8], "<f4"),
        "max": np.array([0.9999, 1.766], "<f4"),
        "count": np.array([4, 7], "<u8"),
        "zeros": np.array([3, 0], "<u8"),
        "nan": np.zeros(n, "<u8"),
        "pos_inf": np.array([0, 1], "<u8"),
        "neg_inf": np.zeros(n, "<u8"),
        "range": np.array([[[0, 0.5], [0, 0.9999]], [[-4, 1], [-8, 1.766]]], "<f4"),
        "sample": np.array([0, 2], "<u8"),
        "sample_min": np.array([[0, 0], [-8, np.inf]], "<f4"),
        "sample_max": np.array([[0.9999, 0.5], [1.766, -np.inf]], "<f4"),
        "bins": bins,
    }
    attributes = {
        "magic": np.bytes_("qbench.calib"),
        "version": np.int64(1),
        "model": np.bytes_("net.onnx"),
        "dataset": np.bytes_("images"),
        "model_hash": np.bytes_("0123456789abcdef" * 2),
        "data_hash": np.bytes_("fedcba9876543210" * 2),
        "samples": np.int64(2),
        "skipped": np.int64(0),
        "preprocess": np.bytes_("tensors"),
        "shards": np.bytes_("1,3/4"),
        "data_sum": np.bytes_("0011223344556677" * 2),
    }
    return sets, attributes


def write(name, edit=lambda sets, attributes: None, after=lambda file: None):
    sets, attributes = contents()
    edit(sets, attributes)
    path = os.path.join(FOLDER, name)
    with h5py.File(path, "w", libver=("v108", "v108"), userblock_size=512) as file:
        for key, value in attributes.items():
            file.attrs[key] = value
        for key, value in sets.items():
            if key == "bins":
                file.create_dataset(key, data=value, chunks=(1, value.shape[1]), shuffle=True,
                                    compression="gzip", compression_opts=6)
            else:
                file.create_dataset(key, data=value)
        after(file)
    with open(path, "r+b") as file:
        file.write(TITLE)


def drop(key):
    return lambda sets, attributes: (sets if key in sets else attributes).pop(key)


def put(key, value):
    return lambda sets, attributes: sets.__setitem__(key, value)


def channels(counts, low, high):
    return lambda sets, attributes: sets.update(
        channels=np.array(counts, "<i4"), channel_min=np.array(low, "<f4"),
        channel_max=np.array(high, "<f4"))


os.makedirs(FOLDER, exist_ok=True)
write("whole")
write("no_bins", drop("bins"))
write("no_hash", drop("model_hash"))
write("text_as_numbers", put("name", np.array([1, 2], "<i4")))
write("narrow_bins", put("bins", np.zeros((2, 16), "<u8")))
write("many_methods", put("method", np.array([b"m"] * 17, "S48")))
write("unsorted", put("name", np.array(NAMES[::-1], "S11")))
write("range_is_nan", put("range", np.full((2, 2, 2), np.nan, "<f4")))
write("no_samples", drop("sample"))
write("sample_max_missing", drop("sample_max"))
write("many_samples", put("sample", np.arange(8192)))
write("shard_of_none", lambda sets, attributes: attributes.__setitem__("shards", np.bytes_("5/4")))
write("linked", drop("max"), lambda file: file.__setitem__("max", h5py.SoftLink("/min")))
write("channels", channels([2, -1], [0, np.inf], [0.9999, -np.inf]))
write("channels_unlike_min", channels([2, 0], [0, 0.5], [0.5, 0.75]))
write("channels_many", channels([65536, 65536], [0], [1]))
with open(os.path.join(FOLDER, "title_only"), "wb") as file:
    file.write(TITLE)
