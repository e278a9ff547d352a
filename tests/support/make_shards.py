"""make_shards.py FOLDER OUT: the class folders of FOLDER as tar shards, TFRecord, LMDB and CSV below OUT,
in the same order and with the same labels. With --damage, one member of each is damaged."""
import io
import os
import struct
import sys
import tarfile

sys.dont_write_bytecode = True  # the sources stay as they are
from protobuf_fields import field, varint  # noqa: E402

folder, out = sys.argv[1:3]
samples = []
for label, name in enumerate(sorted(os.listdir(folder))):
    for file in sorted(os.listdir(os.path.join(folder, name))):
        samples.append((name, file, label, open(os.path.join(folder, name, file), "rb").read()))
os.makedirs(out, exist_ok=True)
if "--damage" in sys.argv:
    name, file, label, data = samples[3]
    samples[3] = (name, file, label, data[: len(data) // 2])


def tar_shards():
    os.makedirs(os.path.join(out, "tar"), exist_ok=True)
    half = len(samples) // 2
    for k, part in enumerate((samples[:half], samples[half:])):
        form = tarfile.PAX_FORMAT if k else tarfile.GNU_FORMAT
        with tarfile.open(os.path.join(out, "tar", "set-%02d.tar" % k), "w", format=form) as tar:
            for i, (name, file, label, data) in enumerate(part):
                # One name is longer than a header has room for.
                key = "%s/%s%s" % (name, "x" * 120 if i == 1 else "", file.split(".")[0])
                for ending, content in (("png", data), ("cls", str(label).encode()), ("json", b"{}")):
                    info = tarfile.TarInfo("%s.%s" % (key, ending))
                    info.size = len(content)
                    tar.addfile(info, io.BytesIO(content))


def crc(data):
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    value ^= 0xFFFFFFFF
    return struct.pack("<I", ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def feature(key, value):
    if isinstance(value, int):
        value = field(3, field(1, varint(value)))
    else:
        value = field(1, field(1, value))
    return field(1, field(1, key.encode()) + field(2, value))


def tfrecord():
    with open(os.path.join(out, "set.tfrecord"), "wb") as file:
        for name, _, label, data in samples:
            record = field(1, feature("image/class/label", label) + feature("image/class/text", name.encode())
                           + feature("image/encoded", data))
            length = struct.pack("<Q", len(record))
            file.write(length + crc(length) + record + crc(record))


PAGE, NONE = 4096, 0xFFFFFFFFFFFFFFFF


def page(number, flags, nodes):
    """Node pointers grow up, nodes grow down."""
    pointers, body, at = b"", b"", PAGE
    for node in nodes:
        at -= len(node) + len(node) % 2
        body = node + b"\0" * (len(node) % 2) + body
        pointers += struct.pack("<H", at)
    lower = 16 + len(pointers)
    head = struct.pack("<QHHHH", number, 0, flags, lower, at)
    return head + pointers + b"\0" * (at - lower) + body


def lmdb_set(kind):
    """A tree of leaves below one branch, as liblmdb lays it out (mdb.c of 0.9)."""
    pages, nodes, leaves, room = [None, None], [], [], 0

    def flush():
        leaves.append((nodes[0][8:16], len(pages)))
        pages.append(page(len(pages), 2, nodes))

    for i, (_, _, label, data) in enumerate(samples):
        if kind == "datum":
            data = field(4, data) + varint(5 << 3) + varint(label) + varint(7 << 3) + varint(1)
        big = len(data) > 1800
        if big:
            n = (16 + len(data) + PAGE - 1) // PAGE
            place = struct.pack("<Q", len(pages))
            text = struct.pack("<QHHI", len(pages), 0, 4, n) + data
            pages.extend([text.ljust(n * PAGE, b"\0")] + [b""] * (n - 1))
        node = struct.pack("<IHH", len(data), int(big), 8) + b"%08d" % i + (place if big else data)
        if room + len(node) + 4 > PAGE - 64:
            flush()
            nodes, room = [], 0
        nodes.append(node)
        room += len(node) + 4
    flush()
    branch = [struct.pack("<HHHH", n & 0xFFFF, n >> 16, 0, 8 if k else 0) + (key if k else b"")
              for k, (key, n) in enumerate(leaves)]
    root = leaves[0][1]
    if len(leaves) > 1:
        root = len(pages)
        pages.append(page(root, 1, branch))
    free = struct.pack("<IHHQQQQQ", PAGE, 0, 0, 0, 0, 0, 0, NONE)
    main = struct.pack("<IHHQQQQQ", 0, 0, min(len(leaves), 2), int(len(leaves) > 1), len(leaves), 0, len(samples), root)
    for k in range(2):
        meta = struct.pack("<QHHHH", k, 0, 8, 0, 0)
        meta += struct.pack("<IIQQ", 0xBEEFC0DE, 1, 0, 1 << 26) + free + main
        meta += struct.pack("<QQ", len(pages) - 1, k)
        pages[k] = meta.ljust(PAGE, b"\0")
    os.makedirs(os.path.join(out, kind), exist_ok=True)
    with open(os.path.join(out, kind, "data.mdb"), "wb") as file:
        file.write(b"".join(pages))


def csv():
    with open(os.path.join(out, "labels.csv"), "w") as file:
        file.write("id;\"class\"\r\n")
        for name, base, _, _ in samples:
            file.write("\"%s/%s\";%s\r\n" % (name, base.split(".")[0], name))


tar_shards()
tfrecord()
csv()
lmdb_set("plain")
lmdb_set("datum")
