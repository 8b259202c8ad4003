# SPDX-License-Identifier: Apache-2.0
"""A process that ends while it writes, at any byte: files are whole or not there, and the next process is right.

A limit on the size of files stops the writer at a chosen byte: by a signal that kills it, as a crash would, or, where the signal is ignored, by an
error of the file system, as a full disk would.
"""
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
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


def compiled(folder):
    """A program for the loop interpreter, which writes no files but those that are asked for, and inputs of many shapes."""
    program = folder / "m.stax"
    h.stax("compile", model(folder, 20), "-o", program, "--target", "cpu:native").expect(0)
    files = [folder / f"{n}.npz" for n in range(60)]
    for n, path in enumerate(files):
        np.savez(path, x=np.ones((n, 16), np.float32))
    return ["run", program, "--inputs", *files, "--device", "loop", "--quiet"]


def test_a_record_and_statistics(folder):
    run = compiled(folder)
    for flag, name in (("--record", "h.json"), ("--json", "s.json")):
        out = folder / name
        h.stax(*run, flag, out).expect(0)
        size = out.stat().st_size
        json.loads(out.read_text())
        for killed in (True, False):
            for before in (None, b"{}"):
                for at in points(f"{flag} {killed}", 0, size * 3 // 4):      # times have more digits or fewer
                    out.unlink(missing_ok=True)
                    if before:
                        out.write_bytes(before)
                    done = limited(at, killed, *run, flag, out)
                    if not killed:
                        assert done.returncode == 1 and name in done.stderr, f"{at} bytes: {done.returncode} {done.stderr}"
                    assert (out.read_bytes() if out.exists() else None) == before, f"after {at} bytes"
                    assert killed or not list(folder.glob("*.part"))
                    for left in folder.glob("*.part"):
                        left.unlink()


def test_records_side_by_side(folder):
    """Processes that write one file at once leave what one of them wrote."""
    run = compiled(folder)
    inputs = run[3:-3]
    out = folder / "h.json"
    for _ in range(3):
        words = [[h.STAX, "run", run[1], "--inputs", *inputs[k:k + 40], "--device", "loop", "--quiet", "--record", out] for k in range(0, 20, 4)]
        children = [subprocess.Popen(list(map(str, w)), stderr=subprocess.PIPE, text=True) for w in words]
        for child in children:
            assert child.wait(timeout=300) == 0, child.stderr.read()
            child.stderr.close()
        rows = sorted(s["dims"]["rows"] for s in json.loads(out.read_text())["shapes"])
        assert rows in [list(range(k, k + 40)) for k in range(0, 20, 4)], rows
        assert not list(folder.glob("*.part"))


def test_a_report(folder):
    m, out = model(folder, 20), folder / "r.html"
    report = ["report", m, "-o", out, "--sweep", "rows=1..4:log", "--repeat", "1", "--threads", "1"]
    environment = {"STAX_CACHE": str(folder / "cache")}
    h.stax(*report, env=environment).expect(0)
    start = time.time()
    h.stax(*report, env=environment).expect(0)
    whole = time.time() - start
    draw, seen = random.Random(h.seed_of("report")), set()
    for k in range(10):
        before = [None, b"mine"][k % 2]
        out.unlink(missing_ok=True)
        if before:
            out.write_bytes(before)
        child = subprocess.Popen([h.STAX, *map(str, report)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ | environment)
        try:
            child.wait(timeout=draw.uniform(0.3, 1.4) * whole)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        now = out.read_bytes() if out.exists() else None
        assert now == before or now.endswith(b"</html>\n"), f"{len(now)} bytes"
        seen.add(now == before)
    return f"before it was written: {sorted(seen)}"


h.main()
