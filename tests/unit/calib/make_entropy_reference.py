"""Writes entropy_reference.h: thresholds of other tools' entropy calibration on seeded histograms.

ort: computed by onnxruntime itself (HistogramCollector.get_entropy_threshold). nvidia, ncnn, ppq: by the
transcriptions below of what the tools' sources do, step by step in their own element types; they share
nothing with the C code but the histograms. Needs onnxruntime, numpy and scipy:
python3 make_entropy_reference.py"""
import math
import os

import numpy as np
from onnxruntime.quantization.calibrate import HistogramCollector
from scipy.stats import entropy

N = 1024  # bins a side


def histogram(kind):
    """Counts left and right of zero; test_entropy_peers.c makes the same ones."""
    i = np.arange(N, dtype=np.int64)
    if kind == 0:  # one-sided, falling by a power, a spike at zero
        return np.zeros(N, np.int64), 3000000 // (i + 12) ** 2 * (i < 900) + 20000 * (i == 0) + (i == N - 1)
    if kind == 1:  # two-sided, ragged
        right = (1 << 20) // (i * i // 64 + 8) + (i * 7919) % 13
        return right // 3 + (i * 104729) % 5, right
    if kind == 2:  # a dense body and a lone outlier
        return np.zeros(N, np.int64), np.where(i < 300, 5000 - 16 * i, 0) + 3 * (i == N - 1)
    if kind == 3:  # a few spikes
        return np.zeros(N, np.int64), np.where(i % 37 == 5, 900000 // (i + 3), 0) + 2 * (i == N - 1)
    # two humps, empty bins between
    return np.where((i > 500) & (i % 3 == 0), 40, 0), np.maximum(0, 800 - abs(i - 250) * 5) + (i == N - 1)


def ort(left, right):
    counts = np.concatenate([left[::-1], right])
    edges = np.arange(-N, N + 1).astype(np.float32)
    collector = HistogramCollector("entropy", True, 2 * N, 128, 99.9, "same")
    low, high = collector.get_entropy_threshold((counts, edges, np.float32(-N), np.float32(N)), 128)
    return float(low), float(high)


def nvidia(left, right):
    bins = (left + right).astype(np.int64)
    bins[0] = bins[1]
    divergences = []
    for i in range(128, len(bins) + 1):
        part = np.digitize(range(i), np.linspace(0, i, 129)) - 1
        part[bins[:i] == 0] = -1
        density = np.zeros(i)
        for code in range(128):
            mine = part == code
            if mine.any():
                density[mine] = bins[:i][mine].sum() / mine.sum()
        reference = bins[:i].astype(np.float64)
        reference[-1] += bins[i:].sum()
        divergences.append(entropy(reference, density))
    divergences = np.array(divergences)
    return float(128 + len(divergences) - 1 - np.argmin(divergences[::-1]))


def ncnn(left, right, zeros):
    counts = (left + right).astype(np.int64)
    counts[0] -= zeros
    h = (counts / counts.sum()).astype(np.float32)
    f, eps = np.float32, np.float32(0.0001)
    best, at = f(3e38), 128
    for t in range(128, len(h)):
        p = np.full(t, eps, f)
        p += h[:t]
        for value in h[t:]:
            p[t - 1] += value
        q = np.full(t, eps, f)
        width = f(t) / f(128)
        for code in range(128):
            start, end = f(code) * width, f(code + 1) * width
            first, last = math.ceil(start), math.floor(end)
            left_part, right_part = f(first) - start, end - f(last)
            mean = f(0)
            if left_part > 0:
                mean += left_part * h[first - 1]
            if right_part > 0:
                mean += right_part * h[last]
            for k in range(first, last):
                mean += h[k]
            mean /= f(last - first) + left_part + right_part
            if left_part > 0:
                q[first - 1] += left_part * mean
            if right_part > 0:
                q[last] += right_part * mean
            q[first:last] += mean
        kl = f(0)
        for term in p * np.log(p / q):
            kl += term
        if kl < best:
            best, at = kl, t
    return at + 0.5


def ppq(left, right):
    counts = (left + right).astype(np.float32)
    n = len(counts)
    counts[:int(n * 0.002)] = 0
    counts[int(n * 0.002)] = 1
    losses = []
    for i in range(128, n + 127, 128):
        p = counts[:i].copy()
        p[i - 1] += counts[i:].sum()
        p /= counts.sum()
        q = counts[:i].reshape(128, -1).copy()
        used = q > 0
        number = np.maximum(used.sum(axis=1, keepdims=True), 1)
        q = np.repeat(q.sum(axis=1, keepdims=True) / number, i // 128, axis=1) * used
        q = (q / q.sum()).flatten()
        p, q = p.astype(np.float64), q.astype(np.float64)
        losses.append((np.dot(p, np.log10(p + 1e-30) - np.log10(q + 1e-30)), i))
    return float(sorted(losses, key=lambda x: x[0])[0][1])


rows = []
for kind in range(5):
    left, right = histogram(kind)
    low, high = ort(left, right)
    zeros = 15000 if kind == 0 else 0
    rows.append((zeros, nvidia(left, right), low, high, ncnn(left, right, zeros), ppq(left, right)))
    print(rows[-1])
path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "entropy_reference.h")
with open(path, "w") as out:
    out.write("/* Written by make_entropy_reference.py. Thresholds in bins. */\n"
              "static const struct {\n    unsigned zeros;\n"
              "    double nvidia, ort_low, ort_high, ncnn, ppq;\n} entropy_reference[] = {\n")
    for row in rows:
        out.write("    {%d, %.10g, %.10g, %.10g, %.10g, %.10g},\n" % row)
    out.write("};\n")
