# SPDX-License-Identifier: Apache-2.0
"""The text of every GPU kernel of a corpus (scripts/gpu_cases.py) is what it was: a change that is meant to leave kernels alone shows that it does.

  python tests/cli/gpu_corpus.py [--update]

tests/data/gpu_corpus.txt has one line a kernel: model, kernel, and the first digits of a hash of its PTX, CUDA C++, HIP C++ and OpenCL C. Texts that were
seen before lie beside the program (build/gpu_corpus), so that what changed is shown as a diff: run the test once before a change. --update takes what
is there now. Texts are also the same from run to run.
"""
import difflib
import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import harness as h

DATA = h.ROOT / "tests" / "data" / "gpu_corpus.txt"
SEEN = Path(h.STAX).resolve().parent / "gpu_corpus"
TARGETS = (("ptx", "cuda:sm_80"), ("cuda", "cuda:sm_90a"), ("hip", "hip:gfx90a"), ("opencl", "opencl"))
MOST_LINES = 40  # of one kernel's diff, and kernels shown


def texts_of(model, stage, target, folder):
    out = folder / stage
    h.stax("dump", model, "--stage", stage, "--target", target, "--outputs", out, "--quiet").expect(0)
    return {path.stem: path.read_text() for path in sorted(out.iterdir()) if path.suffix != ".json"}


def hash_of(text):
    digest = hashlib.sha256(text.encode()).hexdigest()[:10]
    SEEN.mkdir(exist_ok=True)
    (SEEN / digest).write_text(text)
    return digest


def corpus(folder):
    """{(model, kernel): [hash of each stage]}"""
    cases = folder / "cases"
    subprocess.run([sys.executable, h.ROOT / "scripts" / "gpu_cases.py", cases], check=True)
    found = {}
    for model in sorted(cases.glob("*.onnx")):
        for at, (stage, target) in enumerate(TARGETS):
            for kernel, text in texts_of(model, stage, target, folder / model.stem).items():
                found.setdefault((model.stem, kernel), ["-"] * len(TARGETS))[at] = hash_of(text)
    return found


def lines_of(found):
    return [" ".join([model, kernel, *hashes]) for (model, kernel), hashes in sorted(found.items())]


def shown(stage, kernel, old, new):
    """What became of one text, if the old one was seen here."""
    if "-" in (old, new):
        return [f"{'+' if old == '-' else '-'} {kernel} as {stage}"]
    if not (SEEN / old).exists():
        return [f"  {kernel} as {stage} differs; the old text was never made with this build folder"]
    before, after = ((SEEN / digest).read_text().splitlines() for digest in (old, new))
    diff = list(difflib.unified_diff(before, after, f"{kernel} as {stage}", "now", lineterm="", n=1))
    more = len(diff) - MOST_LINES
    return [line[:200] for line in diff[:MOST_LINES]] + ([f"  .. and {more} lines more"] if more > 0 else [])


def changes(wanted, found):
    out = []
    for key in sorted(wanted.keys() | found.keys()):
        old, new = wanted.get(key, ["-"] * len(TARGETS)), found.get(key, ["-"] * len(TARGETS))
        for (stage, _), a, b in zip(TARGETS, old, new):
            if a != b:
                out.append(shown(stage, " ".join(key), a, b))
    return out


def check(folder, update):
    found = corpus(folder)
    assert len(found) > 50, f"{len(found)} kernels"
    # Again, in a process of its own: nothing depends on addresses or on the order of a hash table.
    model = folder / "cases" / "encoder.onnx"
    for (stage, target), at in zip(TARGETS, range(len(TARGETS))):
        for kernel, text in texts_of(model, stage, target, folder / "again").items():
            assert hash_of(text) == found["encoder", kernel][at], f"{kernel} as {stage} is not the same in every run"
    if update:
        DATA.write_text("\n".join(lines_of(found)) + "\n")
    wanted = {tuple(line.split()[:2]): line.split()[2:] for line in DATA.read_text().splitlines()}
    different = changes(wanted, found)
    for lines in different[:MOST_LINES]:
        print("\n".join(lines))
    if different:
        print(f"{len(different)} texts differ; if that is meant: python tests/cli/gpu_corpus.py --update")
    return not different


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        fine = check(Path(scratch), "--update" in sys.argv)
    print("1 passed, 0 failed" if fine else "0 passed, 1 failed")
    sys.exit(0 if fine else 1)
