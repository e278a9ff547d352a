#!/usr/bin/env python3
"""What each CUDA kernel takes on sm_90a: registers, spills, shared memory, code; as a Markdown table.

  scripts/kernel_report.py build/release/libqb_cuda.a > docs/benchmarks/cuda_kernels.md
  scripts/kernel_report.py build/release/libqb_cuda.a --against build/before/libqb_cuda.a

Reads the machine code in the library itself; needs ar and c++filt, and no CUDA. A kernel with a
stack frame spills registers: exit status 1, and its name on standard error. With --against it
compares two builds: how many kernels have the same code, the same but for where their parameters
lie, and what the others took and take (exit status 0)."""
import collections
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
EPILOGUES = re.findall(r"^QB_CUDA_EPILOGUE\((\w+), \w+, \w+, \w+, \w+, (\w+)",
                       (ROOT / "kernels/cuda/conv/epilogues.def").read_text(), re.M)
STAGED = [i for i, (_, store) in enumerate(EPILOGUES) if store in ("UNALIGNED", "ELEMENT")]
MOST_SHARED = 232448  # bytes a block may have
FATBIN, CUBIN = struct.pack("<I", 0xBA55ED50), 2
REGISTERS, FRAME = 0x2F, 0x11  # attributes of .nv.info


def dynamic_shared(name):
    """Bytes that the launcher asks for, for the kernels that fill the multiprocessor (see there)."""
    tile = re.match(r"qb_conv_wgmma<(\d+), (\d+), (\d+), (\d+), \w+, (\d+)>", name)
    if tile:
        rows, columns, depth, groups, epilogue = map(int, tile.groups())
        staging = groups * 128 * 64 if epilogue in STAGED else 0
        stage = (rows + columns) * depth
        stages = min((MOST_SHARED - 1024 - 256 - staging) // stage, 12)
        return 1024 + stages * stage + 256 + staging
    stationary = re.match(r"qb_conv_stationary<(\d+), (\d+), (\d+), \d+>", name)
    if stationary:  # of a weight with one step of K; with more there are fewer stages
        columns, depth, groups = map(int, stationary.groups())
        fixed, stage = 1024 + columns * depth + 128, groups * (64 * max(columns, depth) + 16)
        return fixed + stage * min((MOST_SHARED - fixed) // stage, 12)
    if name.startswith("qb_conv_halo<"):
        return MOST_SHARED  # as many stages as fit, up to 12; the problem says how large they are
    keys = re.match(r"attention<(\d+), \d+, [234], (?:true|false)>\(.*wgmma", name)
    if keys:
        n = int(keys.group(1))
        return 1024 + (64 + n + (n + 15) // 16 * 16) * 128
    return 0


def readable(name):
    epilogue = re.match(r"(.*<.*?)(?:, )?\(qb_cuda_epilogue\)(\d+)>", name)
    if epilogue:
        return f"{epilogue.group(1)}>, {EPILOGUES[int(epilogue.group(2))][0]}".replace("<>", "")
    return re.sub(r"\(.*\)$", "", name)


def cubins(data):
    """The ELF files for GPUs in an object file."""
    at = data.find(FATBIN)
    while at >= 0:
        head, size = struct.unpack_from("<HQ", data, at + 6)
        entry, end = at + head, at + head + size
        while entry < end:
            kind, _, head, size = struct.unpack_from("<HHIQ", data, entry)
            if kind == CUBIN and data[entry + head:entry + head + 4] == b"\x7fELF":
                yield data[entry + head:entry + head + size]
            entry += head + size
        at = data.find(FATBIN, end)


def string_at(table, at):
    return table[at:table.index(b"\0", at)].decode()


def sections(elf):
    """{name: bytes, size} of an ELF file."""
    start, = struct.unpack_from("<Q", elf, 40)
    count, names = struct.unpack_from("<HH", elf, 60)
    heads = [struct.unpack_from("<IIQQQQ", elf, start + 64 * i) for i in range(count)]
    table = elf[heads[names][4]:][:heads[names][5]]
    return {string_at(table, name): (b"" if kind == 8 else elf[at:at + size], size)
            for name, kind, _, _, at, size in heads}


def attributes(found):
    """{kernel: {attribute: value}} of .nv.info."""
    info, symbols, names = (found[n][0] for n in (".nv.info", ".symtab", ".strtab"))
    at, out = 0, collections.defaultdict(dict)
    while at < len(info):
        form, attribute, size = struct.unpack_from("<BBH", info, at)
        if form == 4 and attribute in (REGISTERS, FRAME):
            symbol, value = struct.unpack_from("<II", info, at + 4)
            name, = struct.unpack_from("<I", symbols, 24 * symbol)
            out[string_at(names, name)][attribute] = value
        at += 4 + (size if form == 4 else 0)
    return out


def kernels_of(library):
    """[file, mangled name, registers, frame, static shared memory, code] of each kernel."""
    found = []
    with tempfile.TemporaryDirectory() as tree:
        subprocess.run(["ar", "x", str(pathlib.Path(library).resolve())], cwd=tree, check=True)
        for path in sorted(pathlib.Path(tree).glob("*.cu.o")):
            for elf in cubins(path.read_bytes()):
                has = sections(elf)
                uses = attributes(has)
                for name in (n[6:] for n in has if n.startswith(".text.")):
                    if uses[name].get(REGISTERS):
                        found.append((path.stem, name, uses[name][REGISTERS],
                                      uses[name].get(FRAME, 0),
                                      has.get(".nv.shared." + name, (b"", 0))[1],
                                      has[".text." + name][0]))
    return found


def demangled(names):
    text = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True,
                          check=True).stdout
    plain = (re.sub(r"^void ", "", line) for line in text.splitlines())
    return dict(zip(names, plain))


def same_but_parameters(a, b):
    """Do instructions differ in the offset of a constant alone, if at all?"""
    field = ((1 << 54) - 1) ^ ((1 << 38) - 1)
    return len(a) == len(b) and all(
        (int.from_bytes(a[i:i + 16], "little") ^ int.from_bytes(b[i:i + 16], "little")) & ~field == 0
        for i in range(0, len(a), 16))


def compare(now, before):
    plain = demangled([k[1] for k in now + before])
    left = collections.Counter(k[2:] for k in before)
    changed = []
    for kernel in now:
        if left[kernel[2:]] > 0:
            left[kernel[2:]] -= 1
        else:
            changed.append(kernel)
    same, old = len(now) - len(changed), []
    for kernel in before:
        if left[kernel[2:]] > 0:
            left[kernel[2:]] -= 1
            old.append(kernel)
    moved = 0
    for kernel in list(changed):
        twin = next((k for k in old if k[2:5] == kernel[2:5] and
                     same_but_parameters(k[5], kernel[5])), None)
        if twin:
            old.remove(twin)
            changed.remove(kernel)
            moved += 1
    print(f"{len(before)} kernels before, {len(now)} now: {same} with the same code, {moved} but for "
          "where parameters lie")
    for sign, kernels in (("-", old), ("+", changed)):
        for file, name, registers, frame, shared, code in kernels:
            print(f"{sign} {file}: {readable(plain[name])}: {registers} registers, {frame} bytes of "
                  f"stack, {shared} of shared memory, {len(code)} of code")


def main():
    if len(sys.argv) not in (2, 4) or (len(sys.argv) == 4 and sys.argv[2] != "--against"):
        print(__doc__, file=sys.stderr)
        return 2
    found = kernels_of(sys.argv[1])
    if not found:
        print(f"{sys.argv[1]}: expected kernels for sm_90a, got none", file=sys.stderr)
        return 1
    if len(sys.argv) == 4:
        compare(found, kernels_of(sys.argv[3]))
        return 0
    print("# What the CUDA kernels take\n\nOn sm_90a, by `scripts/kernel_report.py`. Shared memory is "
          "static, and what the launcher adds; for\n`qb_conv_halo` the most that it adds: the problem "
          "says how large the stages of its ring are, and as many\nas fit are taken, up to 12. A "
          "multiprocessor has 65,536 registers and 227 KiB; wgmma kernels shift registers from\nthe "
          "producer's warps to the consumers' (`setmaxnreg`), up to 240. Code is in KiB: what is "
          "longer than its caches is fetched\nagain and again, so that frequent epilogues have kernels "
          "of their own.\n\n"
          "| file | kernel | registers | spills | shared | code |\n"
          "| --- | --- | --- | --- | --- | --- |")
    spilled = 0
    plain = demangled([k[1] for k in found])
    for file, name, registers, frame, static, code in sorted(found, key=lambda k: (k[0], plain[k[1]])):
        label = readable(plain[name])
        short = re.sub(r"\(qb_cuda_epilogue\)", "", plain[name])
        dynamic = dynamic_shared(short if "wgmma" not in file else short + "wgmma")
        shared = f"{static} + {dynamic}" if dynamic else str(static)
        print(f"| {file} | `{label}` | {registers} | {frame or 'none'} | {shared} | "
              f"{len(code) / 1024:.0f} |")
        if frame:
            print(f"{file}: {label}: {frame} bytes of stack", file=sys.stderr)
            spilled += 1
    print(f"\n{len(found)} kernels, {spilled} with spills.")
    return 1 if spilled else 0


if __name__ == "__main__":
    sys.exit(main())
