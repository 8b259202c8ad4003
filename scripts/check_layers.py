#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks every include of src/ and tools/ against the layer table cmake/layers.txt.

  check_layers.py [ROOT]

Faults: a folder includes another that its line does not allow; a folder without a line; an include by relative path; LLVM or
lld headers anywhere but in src/native/; a public header that includes anything of src/.
"""
import re
import sys
from pathlib import Path

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
SOURCES = (".h", ".cpp", ".def", ".inc")
BACKEND_HEADERS = ("llvm/", "llvm-c/", "lld/", "clang/")


def read_table(path):
    """folder -> set of the folders it may include, itself among them."""
    allowed = {}
    for line in path.read_text().splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        folder, lower = line.split(":")
        allowed[folder] = {folder}.union(*(allowed[name] for name in lower.split()))
    return allowed


def includes(path):
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            yield number, match.group(1), match.group(2)


def sources(folder):
    return sorted(p for p in folder.rglob("*") if p.suffix in SOURCES) if folder.exists() else []


def check_source(root, path, allowed, folders):
    in_tools = path.is_relative_to(root / "tools")
    relative = path.relative_to(root if in_tools else root / "src")
    folder = relative.parts[0]
    shown = path.relative_to(root)
    if len(relative.parts) < 2 or folder not in allowed:
        yield f"{shown}: no line of cmake/layers.txt is about this folder"
        return
    for number, quote, name in includes(path):
        where = f"{shown}:{number}"
        first = name.split("/")[0]
        if name.startswith(BACKEND_HEADERS):
            if folder != "native":
                yield f"{where}: {name}: only src/native/ may include the headers of LLVM and lld"
        elif first in (".", ".."):
            yield f"{where}: {name}: write the path from src/"
        elif first in folders and "/" in name and first not in allowed[folder]:
            yield f"{where}: {name}: {folder} may not include {first}"
        elif quote == '"' and "/" not in name and not in_tools and (path.parent / name).exists():
            yield f"{where}: {name}: write the path from src/: {folder}/{name}"


def check_public(root, path, folders):
    for number, _, name in includes(path):
        if name.split("/")[0] in folders and "/" in name:
            yield f"{path.relative_to(root)}:{number}: {name}: public headers include nothing of src/"


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent).resolve()
    allowed = read_table(root / "cmake" / "layers.txt")
    folders = set(allowed) | {p.name for p in (root / "src").iterdir() if p.is_dir()}
    faults, files = [], 0
    for path in sources(root / "src") + sources(root / "tools"):
        files += 1
        faults += check_source(root, path, allowed, folders)
    for path in sources(root / "include"):
        files += 1
        faults += check_public(root, path, folders)
    for fault in faults:
        print(fault)
    print(f"{files} files, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
