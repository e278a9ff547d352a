"""Writes pillow_*.h into the current folder: what Pillow makes of images that the tests can make
themselves. Run once, by hand, with Pillow and numpy: python3 make_pillow_reference.py"""
import io
import sys

import numpy as np
import PIL
from PIL import Image, features

FILTERS = ["BILINEAR", "BICUBIC", "LANCZOS", "BOX", "NEAREST"]

# width, height, channels, new width, new height; the small ones are stored whole.
SMALL = [(5, 4, 1, 3, 2), (4, 3, 1, 7, 5), (6, 6, 3, 2, 3), (3, 2, 3, 5, 4), (2, 9, 1, 4, 3)]
LARGE = [
    (97, 61, 3, 53, 47), (97, 61, 3, 211, 150), (61, 97, 3, 47, 31), (64, 64, 1, 16, 80),
    (64, 64, 3, 80, 16), (33, 200, 3, 33, 17), (200, 33, 1, 17, 33), (130, 130, 3, 1, 1),
    (1, 1, 3, 40, 30), (300, 7, 3, 64, 64), (7, 300, 1, 64, 64), (40, 30, 3, 40, 30),
]


def pattern(width, height, channels):
    """The same as fixture_pattern() in fixture.c."""
    y, x, c = np.mgrid[0:height, 0:width, 0:channels]
    value = (x * 37 + y * 91 + c * 53 + ((x * y) ^ (x + 3 * y)) * 13) & 255
    value = value.astype(np.uint8)
    return value[:, :, 0] if channels == 1 else value


def smooth(width, height, channels):
    y, x, c = np.mgrid[0:height, 0:width, 0:channels]
    value = ((x * (c + 1) * 255) // (2 * width) + (y * (3 - c) * 255) // (3 * height)) & 255
    value = value.astype(np.uint8)
    return value[:, :, 0] if channels == 1 else value


def fnv(data):
    h = 0xCBF29CE484222325
    for byte in data:
        h = ((h ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return h


def array(name, data):
    print(f"static const uint8_t {name}[] = {{")
    for i in range(0, len(data), 16):
        print("    " + ", ".join(f"{b}" for b in data[i : i + 16]) + ",")
    print("};")


def resized(case, name):
    w, h, c, nw, nh = case
    image = Image.fromarray(pattern(w, h, c))
    return np.asarray(image.resize((nw, nh), getattr(Image, name))).tobytes()


def header(name):
    """Prints into pillow_NAME.h from here on."""
    sys.stdout = open(f"pillow_{name}.h", "w")
    print("/* Made by make_pillow_reference.py with Pillow", PIL.__version__, "(libjpeg-turbo",
          features.version("libjpeg_turbo") + "). */")
    print(f"#ifndef QB_TEST_PILLOW_{name.upper()}_H\n#define QB_TEST_PILLOW_{name.upper()}_H\n")
    print('#include <stdint.h>\n\n#include "datasets/loader.h"\n')
    print("/* clang-format off */")


def end():
    print("/* clang-format on */\n#endif")
    sys.stdout.close()
    sys.stdout = sys.__stdout__


header("resize")
for i, case in enumerate(SMALL):
    for name in FILTERS:
        array(f"small_{i}_{name.lower()}", resized(case, name))
print("\ntypedef struct resize_case {\n    int32_t width, height, channels, new_width, new_height;")
print("    qb_filter filter;\n    uint64_t digest; /* FNV-1a of the pixels */")
print("    const uint8_t *pixel; /* NULL: not stored */\n} resize_case;\n")
print("static const resize_case resize_cases[] = {")
for i, case in enumerate(SMALL + LARGE):
    for name in FILTERS:
        numbers = ", ".join(str(n) for n in case)
        digest = fnv(resized(case, name))
        pixel = f"small_{i}_{name.lower()}" if i < len(SMALL) else "NULL"
        print(f"    {{{numbers}, QB_FILTER_{name}, UINT64_C({digest:#018x}), {pixel}}},")
print("};")
end()

header("decode")
print("/* 18 x 10 pixels: 4:2:0, and progressive. */")
for label, options in {"420": {"subsampling": 2}, "progressive": {"progressive": True}}.items():
    stream = io.BytesIO()
    Image.fromarray(smooth(18, 10, 3)).save(stream, "JPEG", quality=75, optimize=True, **options)
    array(f"jpeg_{label}", stream.getvalue())
    array(f"jpeg_{label}_pixels", np.asarray(Image.open(stream)).tobytes())
ink = np.stack([smooth(12, 8, 3)[:, :, k] for k in (0, 1, 2, 1)], -1)
stream = io.BytesIO()
Image.fromarray(np.ascontiguousarray(ink), "CMYK").save(stream, "JPEG", quality=90, optimize=True)
print("\n/* 12 x 8 pixels, CMYK as Adobe stores it, and convert('RGB'). */")
array("jpeg_cmyk", stream.getvalue())
array("jpeg_cmyk_pixels", np.asarray(Image.open(stream).convert("RGB")).tobytes())
end()

header("color")
print("/* convert('L') of the pattern of 16 x 4 pixels. */")
array("luma_16x4", np.asarray(Image.fromarray(pattern(16, 4, 3)).convert("L")).tobytes())
end()
