"""Random cases of operators on regions, sequences and spectra for random_cases.py."""
import numpy as np


def roi_align(d):
    d.opset = max(d.opset, 10)
    n, channels, height, width = d.int(1, 3), d.int(1, 3), d.int(1, 9), d.int(1, 9)
    d.tensor([n, channels, height, width], constant=False)
    rois = d.int(1, 4)
    corners = np.sort(d.rng.random((rois, 2, 2)) * 14 - 2, axis=1)
    d.give(corners.reshape(rois, 4).astype(np.float32))
    d.give(d.rng.integers(0, n, rois).astype(np.int64))
    d.attrs.update(output_height=d.int(1, 4), output_width=d.int(1, 4))
    d.maybe(sampling_ratio=d.int(0, 3), spatial_scale=0.75, mode=d.pick(["avg", "max"]))
    if d.opset >= 16:
        d.maybe(coordinate_transformation_mode=d.pick(["half_pixel", "output_half_pixel"]))


def reverse_sequence(d):
    d.opset = max(d.opset, 10)
    shape = d.shape(2, 4, 5, 0)
    batch = d.int(0, 1)
    d.attrs.update(batch_axis=batch, time_axis=1 - batch)
    d.tensor(shape, d.pick([np.float32, np.int64, np.bool_]), constant=False)
    d.give(d.rng.integers(1, shape[1 - batch] + 1, shape[batch]).astype(np.int64))


def tensor_scatter(d):
    d.opset = max(d.opset, 24)
    shape = d.shape(3, 4, 5, 0)
    axis = d.int(1, len(shape) - 1)
    d.attrs["axis"] = axis - len(shape) * d.int(0, 1)
    update = list(shape)
    update[axis] = d.int(1, shape[axis])
    d.maybe(mode=d.pick(["linear", "circular"]))
    d.tensor(shape, constant=False)
    d.tensor(update)
    if d.chance(0.7):
        most = shape[axis] - (0 if d.attrs.get("mode") == "circular" else update[axis])
        d.give(d.rng.integers(0, most + 1, shape[0]).astype(np.int64))


def compress(d):
    d.opset = max(d.opset, 9)
    shape = d.shape(1, 3, 5, 0)
    n = int(np.prod(shape))
    if d.chance(0.6):
        axis = d.int(0, len(shape) - 1)
        n = shape[axis]
        d.attrs["axis"] = axis - len(shape) * (d.opset >= 11 and d.chance(0.5))
    d.tensor(shape, d.pick([np.float32, np.int32, np.bool_]), constant=False)
    d.tensor([d.int(1, n)], np.bool_)


def unique(d):
    d.opset = max(d.opset, 11)
    shape = d.shape(1, 3, 5, 0)
    d.give(d.rng.integers(0, 3, shape).astype(d.pick([np.float32, np.int64, np.int8])), False)
    d.n_out = 4
    d.maybe(sorted=d.int(0, 1), axis=d.axis(len(shape)))


def dft(d):
    d.opset = max(d.opset, 17)
    shape = d.shape(2, 3, 9, 0)
    axis = d.int(0, len(shape) - 1)
    inverse, onesided = d.int(0, 1), d.int(0, 1)
    onesided *= 1 - inverse  # onnxruntime refuses both
    d.attrs.update(inverse=inverse, onesided=onesided)
    # small numbers: where a sum is 0, onnxruntime leaves 1e-5 of its largest term
    d.tensor(shape + [1 if onesided else d.int(1, 2)], d.pick([np.float32, np.float64]), 0.3, False)
    length = d.chance(0.5)
    if length:
        d.give(np.int64(d.int(1, 12)), True)
    if d.opset < 20:
        d.attrs["axis"] = axis
        return
    if not length:
        d.absent()
    d.give(np.int64(axis), True)


def stft(d):
    d.opset = max(d.opset, 17)
    batch, length, frame = d.int(1, 2), d.int(8, 20), d.int(2, 8)
    onesided = d.int(0, 1)
    d.attrs["onesided"] = onesided
    d.tensor([batch, length, 1 if onesided else d.int(1, 2)], spread=0.3, constant=False)
    d.give(np.int64(d.int(1, 4)), True)
    window = d.chance(0.6)
    if window:
        d.tensor([frame], spread=1.0)
    else:
        d.absent()
    if not window or d.chance(0.5):
        d.give(np.int64(frame), True)


def window(d):
    d.opset = max(d.opset, 17)
    d.give(np.int64(d.int(2, 12)), True)
    d.maybe(periodic=d.int(0, 1), output_datatype=d.pick([1, 11]))


def mel(d):
    d.opset = max(d.opset, 17)
    d.give(np.int64(d.int(1, 12)), True)
    d.give(np.int64(d.int(8, 40)), True)
    d.give(np.int64(8192), True)
    d.give(np.float32(d.int(0, 100)), True)
    d.give(np.float32(d.int(1000, 4096)), True)
    d.maybe(output_datatype=d.pick([1, 11]))


MAKERS = {
    "RoiAlign": roi_align, "ReverseSequence": reverse_sequence, "TensorScatter": tensor_scatter,
    "Compress": compress, "Unique": unique, "DFT": dft, "STFT": stft,
    **{name: window for name in "HannWindow HammingWindow BlackmanWindow".split()}, "MelWeightMatrix": mel,
}
