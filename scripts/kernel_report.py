#!/usr/bin/env python3
"""What each CUDA kernel takes on sm_90a: registers, spills, shared memory, code; as a Markdown table.

  scripts/kernel_report.py build/release/libqb_cuda.a > docs/benchmarks/cuda_kernels.md

Needs cuobjdump (CUDA toolkit) and c++filt. A kernel whose stack frame or local memory is not empty
spills registers: exit status 1, and its name on standard error. 77: cuobjdump is missing."""
import re
import shutil
import subprocess
import sys

MODES = ("plain", "plain, zero", "residual", "residual, zero", "border classes", "general", "real",
         "SiLU", "float bias", "float bias, residual", "to half", "to half, residual", "GELU",
         "ragged", "half", "half, residual", "half, general", "half, real", "half, GELU",
         "half, SiLU", "half, ragged")
STAGED = [MODES.index(m) for m in ("general", "ragged", "half, general", "half, ragged")]
MOST_SHARED = 232448  # bytes a block may have


def dynamic_shared(name):
    """Bytes that the launcher asks for, for the kernels that fill the multiprocessor (see there)."""
    name = name.removeprefix("void ")
    tile = re.match(r"qb_conv_wgmma<(\d+), (\d+), (\d+), (\d+), \w+, (\d+)>", name)
    if tile:
        rows, columns, depth, groups, mode = map(int, tile.groups())
        staging = groups * 128 * 64 if mode in STAGED else 0
        stage = (rows + columns) * depth
        stages = min((MOST_SHARED - 1024 - 256 - staging) // stage, 12)
        return 1024 + stages * stage + 256 + staging
    resident = re.match(r"qb_conv_resident<(\d+), (\d+), (\d+), \d+>", name)
    if resident:  # of a weight with one step of K; with more there are fewer places
        columns, depth, groups = map(int, resident.groups())
        fixed, place = 1024 + columns * depth + 128, groups * (64 * max(columns, depth) + 16)
        return fixed + place * min((MOST_SHARED - fixed) // place, 12)
    if name.startswith("qb_conv_window<"):
        return MOST_SHARED  # as many places as fit, up to 12; the problem says how large they are
    keys = re.match(r"attention<(\d+), \d+, [234], (?:true|false)>\(.*wgmma", name)
    if keys:
        n = int(keys.group(1))
        return 1024 + (64 + n + (n + 15) // 16 * 16) * 128
    return 0


def readable(name):
    name = re.sub(r"^void ", "", re.sub(r"\(.*\)$", "", name))
    mode = re.match(r"(qb_conv_(?:wgmma|resident|window)<.*), (\d+)>$", name)
    return f"{mode.group(1)}>, {MODES[int(mode.group(2))]}" if mode else name


def dumped(library, *options):
    """cuobjdump's lines, each with the member of the library that it is of."""
    text = subprocess.run(["cuobjdump", *options, "--gpu-architecture", "sm_90a", library],
                          capture_output=True, text=True, check=True).stdout
    member = ""
    for line in text.splitlines():
        if line.startswith("member "):
            member = line.strip().rstrip(":").split(":")[-1].removesuffix(".o")
        else:
            yield member, line


def demangled(names):
    text = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True,
                          check=True).stdout
    return dict(zip(names, text.splitlines()))


def kernels_of(library):
    """{(file, mangled name): registers, stack, local, static shared, code} of each kernel."""
    found, name = {}, None
    for member, line in dumped(library, "--dump-resource-usage"):
        if line.strip().startswith("Function "):
            name = line.strip()[len("Function "):].rstrip(":")
        elif name and "REG:" in line:
            found[member, name] = {k: int(v) for k, v in
                                   re.findall(r"(REG|STACK|SHARED|LOCAL):(\d+)", line)}
            name = None
    for member, line in dumped(library, "--dump-elf"):
        section = re.match(r"\s*\w+\s+\w+\s+(\w+)\s.*PROGBITS.*\s\.text\.(\S+)$", line)
        if section and (member, section.group(2)) in found:
            found[member, section.group(2)]["CODE"] = int(section.group(1), 16)
    return found


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    if not shutil.which("cuobjdump") or not shutil.which("c++filt"):
        print("skipped: cuobjdump or c++filt is not there")
        return 77
    found = kernels_of(sys.argv[1])
    if not found:
        print(f"{sys.argv[1]}: expected kernels for sm_90a, got none", file=sys.stderr)
        return 1
    print("# What the CUDA kernels take\n\nOn sm_90a, by `scripts/kernel_report.py` (`cuobjdump "
          "--dump-resource-usage`). Shared memory is static, and what the\nlauncher adds; for "
          "`qb_conv_window` the most that it adds: the problem says how large the ring's places "
          "are, and as many\nas fit are taken, up to 12. A multiprocessor has 65,536 registers and "
          "227 KiB; wgmma kernels shift registers from\nthe copying warps to the others "
          "(`setmaxnreg`), up to 240. Code is in KiB: what is longer than its caches is fetched\n"
          "again and again, so that the ends of products that models are made of have kernels of "
          "their own.\n\n"
          "| file | kernel | registers | spills | shared | code |\n"
          "| --- | --- | --- | --- | --- | --- |")
    spilled = 0
    plain = demangled(sorted({name for _, name in found}))
    for member, name, use in sorted((m, plain[n], use) for (m, n), use in found.items()):
        spills = use["STACK"] + use["LOCAL"]
        dynamic = dynamic_shared(name if "wgmma" not in member else name + "wgmma")
        shared = f"{use['SHARED']} + {dynamic}" if dynamic else str(use["SHARED"])
        print(f"| {member} | `{readable(name)}` | {use['REG']} | {spills or 'none'} | {shared} | "
              f"{use.get('CODE', 0) / 1024:.0f} |")
        if spills:
            print(f"{member}: {readable(name)}: {spills} bytes of stack", file=sys.stderr)
            spilled += 1
    print(f"\n{len(found)} kernels, {spilled} with spills.")
    return 1 if spilled else 0


if __name__ == "__main__":
    sys.exit(main())
