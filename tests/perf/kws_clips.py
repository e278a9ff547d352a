#!/usr/bin/env python3
"""Inputs for kws_dscnn: 49 x 10 MFCC of second-long clips, which are put together from stored chunks of speech.

    python3 tests/perf/kws_clips.py --shared ../shared FOLDER     writes calib.npz and val.npz

There are no recorded keywords beside the model: each clip is a run of 32 ms chunks of speech, spliced, louder or quieter.
They say how far INT8 is from the float model on speech, not how many words either gets right. Calibration has the first
five seconds, what is scored the last three: clips of two seconds alone overlap so much that those held back for judging
say nothing (recovery then looked 3 dB better and was 3.5 dB worse).
"""
import argparse
from pathlib import Path

import numpy as np

RATE, WINDOW, HOP, FFT, MELS, KEPT = 16000, 640, 320, 1024, 40, 10
SCORED = 96  # chunks at the end
CLIPS = {"calib": 200, "val": 500}


def mel(hertz):
    return 1127 * np.log1p(hertz / 700)


def mel_weights():
    edges = np.linspace(mel(20), mel(4000), MELS + 2)
    bins = mel(np.arange(FFT // 2 + 1) * RATE / FFT)[:, None]
    rise = (bins - edges[:-2]) / (edges[1:-1] - edges[:-2])
    fall = (edges[2:] - bins) / (edges[2:] - edges[1:-1])
    return np.maximum(0, np.minimum(rise, fall))


def mfcc(clip):
    frames = np.lib.stride_tricks.sliding_window_view(clip, WINDOW)[::HOP] * np.hanning(WINDOW + 1)[:-1]
    logs = np.log(np.abs(np.fft.rfft(frames, FFT)) @ mel_weights() + 1e-6)
    angles = np.pi / MELS * (np.arange(MELS)[:, None] + 0.5) * np.arange(KEPT)
    return (logs @ np.cos(angles) * np.sqrt(2 / MELS)).astype(np.float32)[None]


def write(shared, folder):
    draw = np.random.default_rng(20)
    files = [f for part in CLIPS for f in sorted((shared / "tasks/audio" / part).glob("*.npz"))]
    chunks = [np.load(f)["input"][0, 64:] for f in files]
    for part, n in CLIPS.items():
        speech = np.concatenate(chunks[:-SCORED] if part == "calib" else chunks[-SCORED:])
        starts = draw.integers(0, len(speech) - RATE, n)
        clips = [mfcc(speech[s:s + RATE] * g) for s, g in zip(starts, draw.uniform(0.2, 1, n))]
        np.savez(folder / f"{part}.npz", mfcc=np.stack(clips))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shared", type=Path, default="../shared")
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    write(options.shared, options.folder)


if __name__ == "__main__":
    main()
