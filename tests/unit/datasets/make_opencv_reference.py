"""Writes opencv_resize.h into the current folder: what OpenCV makes of the patterns of
make_pillow_reference.py. Run once, by hand, with OpenCV and numpy: python3 make_opencv_reference.py"""
import sys

import cv2
import numpy as np

FILTERS = ["LINEAR", "CUBIC", "AREA"]
# width, height, channels, new width, new height
CASES = [(5, 4, 1, 3, 2), (4, 3, 1, 7, 5), (6, 6, 3, 2, 3), (3, 2, 3, 5, 4), (20, 15, 1, 13, 9),
         (12, 9, 3, 5, 9), (16, 4, 1, 5, 9), (4, 16, 1, 11, 7), (1, 1, 1, 3, 2), (30, 1, 1, 7, 1)]


def pattern(width, height, channels):
    """The same as fixture_pattern() in fixture.c."""
    y, x, c = np.mgrid[0:height, 0:width, 0:channels]
    value = (x * 37 + y * 91 + c * 53 + ((x * y) ^ (x + 3 * y)) * 13) & 255
    value = value.astype(np.uint8)
    return value[:, :, 0] if channels == 1 else value


sys.stdout = open("opencv_resize.h", "w")
print("/* Made by make_opencv_reference.py with OpenCV", cv2.__version__ + ". */")
print("#ifndef QB_TEST_OPENCV_RESIZE_H\n#define QB_TEST_OPENCV_RESIZE_H\n")
print('#include <stdint.h>\n\n#include "datasets/loader.h"\n')
print("/* clang-format off */")
rows = []
for i, (w, h, c, nw, nh) in enumerate(CASES):
    for name in FILTERS:
        out = cv2.resize(pattern(w, h, c), (nw, nh), interpolation=getattr(cv2, "INTER_" + name))
        data = np.ascontiguousarray(out).tobytes()
        label = f"{name.lower()}_{i}"
        print(f"static const uint8_t {label}[] = {{")
        for k in range(0, len(data), 16):
            print("    " + ", ".join(f"{b}" for b in data[k : k + 16]) + ",")
        print("};")
        rows.append(f"    {{{w}, {h}, {c}, {nw}, {nh}, QB_FILTER_{name}, {label}}},")
print("\ntypedef struct opencv_case {\n    int32_t width, height, channels, new_width, new_height;")
print("    qb_filter filter;\n    const uint8_t *pixel;\n} opencv_case;\n")
print("static const opencv_case opencv_cases[] = {")
print("\n".join(rows))
print("};\n/* clang-format on */\n#endif")
