#!/usr/bin/env python3
"""The structure of the product: how many lines each folder has, which files use each other in a
circle, structs with many members, and the longest chain of includes.

    python3 scripts/structure.py [ROOT]            prints all of it
    python3 scripts/structure.py ROOT --check      fails where a folder is beyond its limits

A file is its .c with the header of the same name. It uses another where it calls a function that
the other defines; pointers to functions do not count."""
import collections
import os
import re
import sys

FOLDERS = "base kernels graph datasets engine stream calib quant eval search reports demo cli api".split()
# folder: (files in a circle, members of a struct, lines)
LIMITS = {"engine": (3, 25, 13100)}
CHAIN = 16  # headers that include each other, one after the other

COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"", re.S)
DEFINED = re.compile(r"^(?!static\b|typedef\b|#)[A-Za-z_][\w \t*]*?[ *](\w+)\([^;{}]*\)\s*\{", re.M)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.M)
STRUCT = re.compile(r"\bstruct(?: (\w+))? \{")


def sources(root):
    for folder in FOLDERS:
        for path, _, names in os.walk(os.path.join(root, folder)):
            for name in sorted(names):
                if re.search(r"\.(c|h|cu|cuh|def)$", name):
                    yield os.path.relpath(os.path.join(path, name), root)


def unit(path):
    return re.sub(r"(_internal)?\.(c|h|cu|cuh)$", "", path)


def components(graph):
    """Tarjan's strongly connected components, those of one file left out."""
    index, low, stack, on, found = {}, {}, [], set(), []

    def visit(v):
        index[v] = low[v] = len(index)
        stack.append(v)
        on.add(v)
        for w in graph[v]:
            if w not in index:
                visit(w)
                low[v] = min(low[v], low[w])
            elif w in on:
                low[v] = min(low[v], index[w])
        if low[v] == index[v]:
            circle = []
            while not circle or circle[-1] != v:
                circle.append(stack.pop())
                on.discard(circle[-1])
            if len(circle) > 1:
                found.append(sorted(circle))

    sys.setrecursionlimit(100000)
    for v in sorted(graph):
        if v not in index:
            visit(v)
    return sorted(found, key=lambda c: (-len(c), c))


def circles(text):
    home = {}
    for path in text:
        if path.endswith(".c"):
            for name in DEFINED.findall(text[path]):
                home[name] = unit(path)
    graph = collections.defaultdict(set)
    for path in text:
        if not path.endswith(".c"):
            continue
        graph[unit(path)]
        for name in set(re.findall(r"\b(\w+)\(", text[path])):
            if name in home and home[name] != unit(path):
                graph[unit(path)].add(home[name])
                graph[home[name]]
    return components(graph)


def members(body):
    """Declarators at the top level of a struct's body; a struct inside counts as one member."""
    flat, depth = [], 0
    for c in body:
        depth += c in "{(["
        if depth == 0:
            flat.append(c)
        depth -= c in "})]"
    return sum(d.count(",") + 1 for d in "".join(flat).split(";") if d.strip())


def structs(text):
    for path in sorted(text):
        for found in STRUCT.finditer(text[path]):
            at, depth = found.end(), 1
            while depth and at < len(text[path]):
                depth += {"{": 1, "}": -1}.get(text[path][at], 0)
                at += 1
            name = found.group(1) or re.match(r"\s*(\w*)", text[path][at:]).group(1)
            yield members(text[path][found.end() : at - 1]), name, path


def longest_chain(text):
    known = {}

    def chain(path):
        if path not in known:
            known[path] = [path]  # also where headers include each other
            below = []
            for name in INCLUDE.findall(text[path]):
                own = os.path.join(os.path.dirname(path), name)
                below.append(chain(own if own in text else name) if own in text or name in text else [])
            known[path] = [path] + max(below, key=len, default=[])
        return known[path]

    return max((chain(path) for path in sorted(text)), key=len)


def main():
    arguments = [a for a in sys.argv[1:] if a != "--check"]
    root = arguments[0] if arguments else os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    raw = {path: open(os.path.join(root, path), encoding="utf-8").read() for path in sources(root)}
    # A comment goes; of a string the quotes stay, for includes are read from the text as it is.
    text = {path: COMMENT.sub(" ", t) for path, t in raw.items()}
    beyond = []
    print("lines of code, comments and blank ones included")
    for folder in FOLDERS:
        lines = collections.Counter()
        for path in raw:
            if path.startswith(folder + "/"):
                lines[os.path.dirname(path)] += raw[path].count("\n")
        total = sum(lines.values())
        print(f"{total:8} {folder}")
        for part in sorted(lines):
            if len(lines) > 1:
                print(f"{lines[part]:16} {part}")
        if folder in LIMITS and total > LIMITS[folder][2]:
            beyond.append(f"{folder}: {total} lines, at most {LIMITS[folder][2]}")
    print("\nfiles that use each other")
    for circle in circles(text):
        print(f"{len(circle):8} {' '.join(circle)}")
        for folder, limit in LIMITS.items():
            if len(circle) > limit[0] and any(c.startswith(folder + "/") for c in circle):
                beyond.append(f"{folder}: {len(circle)} files in a circle: {' '.join(circle)}")
    print("\nstructs with the most members")
    ranked = sorted(structs(text), key=lambda s: (-s[0], s[1]))
    for count, name, path in ranked[:12]:
        print(f"{count:8} {name} ({path})")
    for count, name, path in ranked:
        limit = LIMITS.get(path.split("/")[0])
        if limit and count > limit[1]:
            beyond.append(f"{path}: {name} has {count} members, at most {limit[1]}")
    chain = longest_chain(raw)
    print(f"\nlongest chain of includes: {len(chain)}\n         " + "\n         ".join(chain))
    if len(chain) > CHAIN:
        beyond.append(f"a chain of {len(chain)} includes, at most {CHAIN}")
    if "--check" in sys.argv:
        print("".join(f"beyond its limit: {line}\n" for line in beyond), end="")
        sys.exit(1 if beyond else 0)


main()
