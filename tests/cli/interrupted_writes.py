# SPDX-License-Identifier: Apache-2.0
"""A process that ends while it writes, at any byte: files are whole or not there, and the next process is right.

A limit on the size of files stops the writer at a chosen byte: by a signal that kills it, as a crash would, or, where the signal is ignored, by an
error of the file system, as a full disk would.
"""
import os
import random
import resource
import signal
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import harness as h
import numpy as np

POINTS = 12
# The code's parts, while it is linked, and its image are files in memory, to which the limit applies as well. They are smaller than this.
LEAST = 500_000


def model(folder, columns=900):
    rng = np.random.default_rng(5)
    return h.save(h.model([h.node("MatMul", "x w", "t"), h.node("Softmax", "t", "y", axis=-1)], {"x": (h.FLOAT, ["rows", 16])}, ["y"],
                          {"w": h.normal(rng, 16, columns)}), folder / "m.onnx")


def limited(most_bytes, killed, *words, env=None):
    """The status of `stax` that may write files of so many bytes."""
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL if killed else signal.SIG_IGN)
    done = subprocess.run([h.STAX, *map(str, words)], preexec_fn=limit, capture_output=True, text=True, env=os.environ | (env or {}), timeout=300)
    if killed:
        assert done.returncode == -signal.SIGXFSZ, f"{most_bytes} bytes: {done.returncode} {done.stderr}"
    return done


def points(name, least, size):
    """Where to stop in a file of that size, beginning with byte `least`."""
    draw = random.Random(h.seed_of(name))
    return sorted({least, size - 1, *(draw.randrange(least, size) for _ in range(POINTS - 2))})


def test_a_compiled_program(folder):
    m, out = model(folder, 20_000), folder / "m.stax"
    np.savez(folder / "a.npz", x=np.ones((3, 16), np.float32))
    compile = ["compile", m, "-o", out, "--target", "cpu:native"]
    h.stax(*compile).expect(0)
    whole = out.read_bytes()
    assert len(whole) > LEAST + 100_000, len(whole)
    for killed in (True, False):
        for before in (None, whole):
            for at in points(f"program {killed}", LEAST, len(whole)):
                out.unlink(missing_ok=True)
                if before:
                    out.write_bytes(before)
                done = limited(at, killed, *compile)
                if not killed:
                    assert done.returncode == 1 and "m.stax" in done.stderr, f"{at} bytes: {done.returncode} {done.stderr}"
                    assert not list(folder.glob("*.part")), "what is not finished is removed"
                assert (out.read_bytes() if out.exists() else None) == before, f"after {at} bytes"
            for left in folder.glob("*.part"):
                left.unlink()
    h.stax("run", out, "--inputs", folder / "a.npz", "--outputs", folder / "got", "--quiet").expect(0)


def test_results(folder):
    m, out = model(folder), folder / "out"
    np.savez(folder / "a.npz", x=np.ones((400, 16), np.float32))
    run = ["run", m, "--inputs", folder / "a.npz", "--outputs", out, "--quiet"]
    off = {"STAX_CACHE": "off"}
    h.stax(*run, env=off).expect(0)
    size = (out / "a.npz").stat().st_size
    assert size > LEAST + 100_000, size
    for killed in (True, False):
        for at in points(f"results {killed}", LEAST, size):
            (out / "a.npz").unlink(missing_ok=True)
            done = limited(at, killed, *run, env=off)
            if not killed:
                assert done.returncode == 1 and "a.npz" in done.stderr, done.stderr
            assert not (out / "a.npz").exists()


def test_an_entry_of_the_cache(folder):
    m, cache = model(folder), folder / "cache"
    np.savez(folder / "a.npz", x=np.ones((3, 16), np.float32))
    environment = {"STAX_CACHE": str(cache)}
    run = ["run", m, "--inputs", folder / "a.npz", "--outputs", folder / "want", "--quiet"]
    h.stax(*run, env=environment).expect(0)
    want = h.load(folder / "want" / "a.npz")
    entries = {entry.name: entry.read_bytes() for entry in cache.iterdir()}
    for at in [0, 1, 31, 32, *points("cache", 64, max(map(len, entries.values())))]:
        for entry in cache.iterdir():
            entry.unlink()
        limited(at, True, *run[:-1], "--quiet", env=environment)
        for entry in cache.iterdir():
            assert not entry.name.endswith(".kept") or entry.read_bytes() == entries[entry.name], f"after {at} bytes"
        h.stax(*run[:5], folder / "got", "--quiet", env=environment).expect(0)
        h.equal_bits(h.load(folder / "got" / "a.npz"), want, f"after {at} bytes")
        assert {e.name: e.read_bytes() for e in cache.iterdir() if e.name.endswith(".kept")} == entries


h.main()
