"""Writes the seeds of fuzz_image into corpus/image: small files of every kind that the decoders know
apart, each after two bytes that choose the preprocessing. Needs Pillow: python3 make_image_seeds.py"""
import io
import os
import struct
import zlib

from PIL import Image

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus", "image")


def picture(mode, width=13, height=9):
    image = Image.new(mode, (width, height))
    bands = len(image.getbands())
    for y in range(height):
        for x in range(width):
            value = [(x * 19 + y * 23 * (b + 1)) % 256 for b in range(bands)]
            image.putpixel((x, y), tuple(value) if bands > 1 else value[0])
    return image


def save(name, data, choice):
    with open(os.path.join(FOLDER, name), "wb") as file:
        file.write(struct.pack("<H", choice) + data)


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]


def png(depth, color, channels, interlace=0, extra=b""):
    width, height = 5, 4
    rows = b""
    for x, y, dx, dy in ADAM7 if interlace else [(0, 0, 1, 1)]:
        columns = (width - x + dx - 1) // dx
        row = b"\1" + bytes(range(7, 7 + (columns * depth * channels + 7) // 8))
        rows += row * ((height - y + dy - 1) // dy) if columns > 0 else b""
    header = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, interlace)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + extra
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


os.makedirs(FOLDER, exist_ok=True)
jpegs = {
    "grey": ("L", {}), "420": ("RGB", {}), "444": ("RGB", {"subsampling": 0}),
    "progressive": ("RGB", {"progressive": True}), "cmyk": ("CMYK", {}),
    "rgb": ("RGB", {"keep_rgb": True}), "restart": ("RGB", {"restart_marker_blocks": 1}),
}
for number, (name, (mode, options)) in enumerate(jpegs.items()):
    stream = io.BytesIO()
    picture(mode).save(stream, "JPEG", quality=50, optimize=True, **options)
    save(f"jpeg_{name}", stream.getvalue(), 37 * number)
    save(f"jpeg_{name}_cut", stream.getvalue()[: -20 - number], 37 * number)
palette = chunk(b"PLTE", bytes(range(3 * 16)))
for depth in (1, 2, 4, 8, 16):
    save(f"png_grey_{depth}", png(depth, 0, 1), depth)
save("png_palette", png(4, 3, 1, extra=palette), 2)
save("png_palette_alpha", png(4, 3, 1, extra=palette + chunk(b"tRNS", bytes([9, 200, 0]))), 33)
for depth in (8, 16):
    save(f"png_rgb_{depth}", png(depth, 2, 3), 16 + depth)
    save(f"png_grey_alpha_{depth}", png(depth, 4, 2), 32 + depth)
    save(f"png_rgba_{depth}", png(depth, 6, 4), 48 + depth)
save("png_interlaced", png(8, 2, 3, interlace=1), 5)
stream = io.BytesIO()
picture("RGB", 40, 3).save(stream, "PNG")
save("png_wide", stream.getvalue(), 7)
save("empty", b"", 0)
