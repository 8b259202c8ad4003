#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the documentation to the sources: generated tables are current, links resolve, files that are named exist.

  test_docs.py            exit status 1 if something is wrong; needs nothing but Python
"""
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "scripts"))
import gen_operators
GENERATORS = ("scripts/gen_ir_reference.py", "scripts/gen_operators.py")
# Paths of the repository as they stand in prose: src/loop/access.h, docs/ir.md, tests/unit/.., scripts/build. <name>, * and {..} stand for several.
PATH = re.compile(r"(?<![\w/.-])((?:src|docs|tests|scripts|tools|cmake|include)/[\w./<>*{},-]*)")
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")


def pages():
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]


def anchors(page):
    """The anchors of a page's headings, as GitHub makes them."""
    found, fenced = set(), False
    for line in page.read_text().splitlines():
        fenced ^= line.startswith("```")
        if not fenced and (heading := re.match(r"#+ (.*)", line)):
            text = re.sub(r"[`*]|\[|\]\([^)]*\)", "", heading.group(1)).strip().lower()
            found.add(re.sub(r"[^\w\- ]", "", text).replace(" ", "-"))
    return found


def check_links(page, text):
    for target in LINK.findall(text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists():
            yield f"the link {target} leads nowhere"
        elif not file.is_relative_to(ROOT):
            yield f"the link {target} leaves the repository"
        elif anchor and file.suffix == ".md" and anchor not in anchors(file):
            yield f"the link {target}: there is no such heading"


def check_paths(text):
    for name in sorted(set(PATH.findall(text))):
        name = name.rstrip(".,")
        if re.search(r"[<>{}]", name):
            continue
        exists = any(ROOT.glob(name)) if "*" in name else (ROOT / name).exists()
        if not exists:
            yield f"{name} does not exist"


def check_words(text):
    """The project speaks of itself alone."""
    for word in re.findall(r"\bTODO\b|\bFIXME\b", text):
        yield f"'{word}'"


def check_counts(text):
    """`41 of com.microsoft`: what README.md says of the operators that docs/operators.md lists."""
    domains = [domain for domain, _ in gen_operators.rows()]
    for count, domain in re.findall(r"\b(\d+) of (com\.\w+)", text):
        if int(count) != domains.count(domain):
            yield f"'{count} of {domain}': there are {domains.count(domain)} operators of that domain"


def main():
    faults = checks = 0
    for generator in GENERATORS:
        done = subprocess.run([sys.executable, "-B", str(ROOT / generator), "--check"], capture_output=True, text=True)
        checks += 1
        if done.returncode:
            faults += 1
            print(f"FAIL  {generator} --check: {(done.stdout + done.stderr).strip()}")
    for page in pages():
        text = page.read_text()
        checks += 1
        found = [*check_links(page, text), *check_paths(text), *check_words(text), *check_counts(text)]
        faults += bool(found)
        for fault in found:
            print(f"FAIL  {page.relative_to(ROOT)}: {fault}")
    linked = " ".join(p.read_text() for p in pages())
    checks += 1
    lost = [p.name for p in pages()[1:] if f"docs/{p.name}" not in (ROOT / "README.md").read_text() and p.name not in linked]
    if lost:
        faults += 1
        print(f"FAIL  no page links to {', '.join(lost)}")
    print(f"{checks - faults} passed, {faults} failed")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
