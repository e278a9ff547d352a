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


def affine_grid(d):
    d.opset = max(d.opset, 20)
    n, spatial = d.int(1, 2), d.int(2, 3)
    d.tensor([n, spatial, spatial + 1], spread=1.0, constant=False)
    d.give(np.asarray([n, 3] + [d.int(2, 5) for _ in range(spatial)], np.int64), True)
    d.maybe(align_corners=d.int(0, 1))


def center_crop_pad(d):
    d.opset = max(d.opset, 18)
    shape = d.shape(1, 4, 5, 0)
    d.tensor(shape, d.pick([np.float32, np.int64]), constant=False)
    count = len(shape)
    if d.chance(0.5):
        d.attrs["axes"] = d.axes(len(shape))
        count = len(d.attrs["axes"])
    d.give(np.asarray([d.int(1, 7) for _ in range(count)], np.int64), True)


def window_1d(d, size):
    """kernel, stride, dilation, pads and the number of windows along a dimension of this size"""
    kernel, stride, dilation, before, after = d.int(1, 3), d.int(1, 2), d.int(1, 2), d.int(0, 1), d.int(0, 1)
    return kernel, stride, dilation, before, after, (size + before + after - dilation * (kernel - 1) - 1) // stride + 1


def col2im(d):
    d.opset = max(d.opset, 18)
    n, c, image = d.int(1, 2), d.int(1, 3), [d.int(5, 7) for _ in range(d.int(2, 3))]
    each = list(zip(*(window_1d(d, size) for size in image)))
    d.tensor([n, c * int(np.prod(each[0])), int(np.prod(each[5]))], constant=False)
    d.ints(image)
    d.ints(each[0])
    d.attrs.update(strides=each[1], dilations=each[2], pads=each[3] + each[4])


def deform_conv(d):
    d.opset = max(d.opset, 19)
    n, group, offset_group, size = d.int(1, 2), d.int(1, 2), d.int(1, 2), [d.int(5, 7), d.int(5, 7)]
    c, m = group * offset_group * d.int(1, 2), group * d.int(1, 2)
    each = list(zip(*(window_1d(d, s) for s in size)))
    kernel, out = list(each[0]), list(each[5])
    d.attrs.update(strides=each[1], dilations=each[2], pads=each[3] + each[4], group=group, offset_group=offset_group)
    d.tensor([n, c] + size, constant=False)
    d.tensor([m, c // group] + kernel)
    d.tensor([n, 2 * offset_group * int(np.prod(kernel))] + out, spread=1.5)
    if d.chance(0.7):
        d.tensor([m]) if d.chance(0.5) else d.absent()
        d.tensor([n, offset_group * int(np.prod(kernel))] + out, spread=1.0)


def lp_pool(d):
    each = list(zip(*(window_1d(d, 6) for _ in range(d.int(1, 3)))))
    d.tensor([d.int(1, 2), d.int(1, 3)] + [6] * len(each[0]), constant=False)
    d.attrs.update(kernel_shape=each[0], strides=each[1], pads=each[3] + each[4])
    d.maybe(p=d.int(1, 3))
    if d.opset >= 18:
        d.maybe(dilations=each[2])


def global_lp_pool(d):
    d.tensor([d.int(1, 2), d.int(1, 4)] + [d.int(1, 5) for _ in range(d.int(1, 3))], constant=False)
    d.maybe(p=d.int(1, 3))


def max_unpool(d):
    d.opset = max(d.opset, 11)
    size, stride = [d.int(1, 3), d.int(1, 3)], d.int(1, 2)
    full = [(s - 1) * stride + 2 for s in size]
    planes = d.int(1, 3)
    d.attrs.update(kernel_shape=[2, 2], strides=[stride, stride])
    d.tensor([1, planes] + size, constant=False)
    places = [d.rng.permutation(int(np.prod(full)))[:int(np.prod(size))] + i * np.prod(full) for i in range(planes)]
    d.give(np.asarray(places, np.int64).reshape([1, planes] + size))


MAKERS = {
    "AffineGrid": affine_grid, "CenterCropPad": center_crop_pad, "Col2Im": col2im, "DeformConv": deform_conv,
    "LpPool": lp_pool, "GlobalLpPool": global_lp_pool, "MaxUnpool": max_unpool,
    "RoiAlign": roi_align, "ReverseSequence": reverse_sequence, "TensorScatter": tensor_scatter,
    "Compress": compress, "Unique": unique, "DFT": dft, "STFT": stft,
    **{name: window for name in "HannWindow HammingWindow BlackmanWindow".split()}, "MelWeightMatrix": mel,
}
