# SPDX-License-Identifier: Apache-2.0
"""What the Python tests share: small ONNX models, the command line, comparison.

A test file imports this, has functions test_*(folder), and ends with `harness.main()`: each function runs in a folder of its own.
  python tests/cli/run.py [--only WORD] [--keep]
The environment variable STAX names the program; the default is build/stax.
"""
import argparse
import contextlib
import inspect
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
import zlib
from dataclasses import dataclass, field
from pathlib import Path

SKIP = 77
try:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError as missing:
    print(f"skipped: {missing}; scripts/setup installs it")
    sys.exit(SKIP)

ROOT = Path(__file__).resolve().parent.parent
STAX = os.environ.get("STAX", str(ROOT / "build" / "stax"))
FLOAT, DOUBLE, HALF, BFLOAT16 = TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16
INT8, INT32, INT64, UINT8, BOOL = TensorProto.INT8, TensorProto.INT32, TensorProto.INT64, TensorProto.UINT8, TensorProto.BOOL


# ---- models

def node(op, inputs, outputs, **attributes):
    """node("Add", "a b", "y"): names are parted by blanks; a `-` is an absent input. Lists of names may hold any text."""
    names = lambda value: ["" if n == "-" else n for n in value.split()] if isinstance(value, str) else list(value)
    return helper.make_node(op, names(inputs), names(outputs), **attributes)


def model(nodes, inputs, outputs, constants=None, opset=18, functions=(), domains=()):
    """inputs: {name: (type, dims)}, a dim being an extent, a name, or None; outputs the same, or a list of names without a declaration."""
    info = lambda name, spec: helper.make_tensor_value_info(name, *spec)
    made = [info(n, s) for n, s in outputs.items()] if isinstance(outputs, dict) else [onnx.ValueInfoProto(name=n) for n in outputs]
    graph = helper.make_graph(nodes, "g", [info(n, s) for n, s in inputs.items()], made,
                              [numpy_helper.from_array(np.asarray(v), n) for n, v in (constants or {}).items()])
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10, functions=list(functions))


def body(nodes, inputs, outputs, constants=None):
    """A graph for If, Loop or Scan; inputs {name: (type, dims)}, outputs likewise."""
    info = lambda name, spec: helper.make_tensor_value_info(name, *spec)
    return helper.make_graph(nodes, "body", [info(n, s) for n, s in inputs.items()], [info(n, s) for n, s in outputs.items()],
                             [numpy_helper.from_array(np.asarray(v), n) for n, v in (constants or {}).items()])


def save(model, path):
    path.write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
    return path


def oracle(model, feed):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, feed)))


def normal(rng, *shape):
    return rng.standard_normal(shape, dtype=np.float32)


# ---- the command line

@dataclass
class Done:
    status: int
    out: str
    err: str

    def expect(self, status, *words):
        """Ends with this status and says all of these words (in any case) on standard error."""
        assert self.status == status, f"exit {self.status}, expected {status}\n{self.err[-2000:]}{self.out[-1000:]}"
        lacking = [w for w in words if w.lower() not in self.err.lower()]
        assert not lacking, f"the message lacks {lacking}:\n{self.err}"
        return self


def stax(*arguments, cwd=None, env=None, timeout=300, program=STAX):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("STAX_")} | {"STAX_CACHE": "off"} | (env or {})
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, errors="replace", timeout=timeout, cwd=cwd, env=environment, stdin=subprocess.DEVNULL)
    return Done(done.returncode, done.stdout, done.stderr)


def load(path):
    with np.load(path) as data:
        return {name: data[name] for name in data.files}


@dataclass
class Session:
    done: Done
    outputs: list = field(default_factory=list)      # for each feed a dict name -> array; None where there is no file
    stats: dict = field(default_factory=dict)


def run(folder, model, feeds, *flags, status=0, env=None, cwd=None):
    """One session of `stax run` over feeds (dicts name -> array), in order. `model`: an ONNX model, or a file."""
    work = Path(tempfile.mkdtemp(dir=folder))
    path = model if isinstance(model, Path) else save(model, work / "m.onnx")
    inputs = []
    for k, feed in enumerate(feeds):
        inputs.append(work / f"in{k:04d}.npz")
        np.savez(inputs[-1], **feed)
    done = stax("run", path, "--inputs", *inputs, "--outputs", work / "out", "--json", work / "stats.json", "--quiet", *flags, env=env, cwd=cwd)
    if status is not None:
        done.expect(status)
    session = Session(done)
    for path in inputs:
        made = work / "out" / path.name
        session.outputs.append(load(made) if made.exists() else None)
    if (work / "stats.json").exists():
        session.stats = json.loads((work / "stats.json").read_text())
    return session


def run_one(folder, model, feed, *flags, **options):
    return run(folder, model, [feed], *flags, **options).outputs[0]


# ---- comparison

def differs(got, want, rtol=1e-4, atol=1e-5):
    got, want = np.asarray(got), np.asarray(want)
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{list(got.shape)} instead of {want.dtype}{list(want.shape)}"
    if want.dtype.kind not in "fc":
        wrong = got != want
    else:
        a, b = got.astype(np.float64), want.astype(np.float64)
        with np.errstate(all="ignore"):
            wrong = ~((a == b) | (np.isnan(a) & np.isnan(b)) | (np.isfinite(b) & (np.abs(a - b) <= atol + rtol * np.abs(b))))
    if not wrong.any():
        return None
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    return f"{wrong.sum()} of {wrong.size} differ, first at {list(at)}: {got[at]} instead of {want[at]}"


def same(got, want, what="", **tolerance):
    """Arrays, or dicts of them."""
    if isinstance(want, dict):
        assert got is not None, f"{what}: there is no output"
        assert sorted(got) == sorted(want), f"{what}: outputs {sorted(got)} instead of {sorted(want)}"
        for name in want:
            same(got[name], want[name], f"{what} {name}", **tolerance)
        return
    why = differs(got, want, **tolerance)
    assert why is None, f"{what}: {why}"


def equal_bits(got, want, what=""):
    assert sorted(got) == sorted(want), f"{what}: outputs {sorted(got)} instead of {sorted(want)}"
    for name in want:
        a, b = np.ascontiguousarray(got[name]), np.ascontiguousarray(want[name])
        assert a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes(), f"{what} {name}: other bits"


# ---- the runner

def seed_of(name):
    return zlib.crc32(name.encode())


def known_fault(why):
    """Marks a test of behaviour that is specified and not there yet: it has to fail, and its mark goes when it no longer does."""
    def mark(test):
        def inverted(folder):
            try:
                test(folder)
            except AssertionError:
                return f"not yet: {why}"
            raise AssertionError("holds now: take the mark of a known fault away")
        return inverted
    return mark


def main():
    file = inspect.stack()[1].frame.f_globals
    tests = {k: v for k, v in file.items() if k.startswith("test_") and callable(v)}
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="tests whose name has this word")
    parser.add_argument("--keep", action="store_true", help="keep the folders")
    options = parser.parse_args()
    failed = passed = 0
    for name, test in tests.items():
        if options.only not in name:
            continue
        folder = Path(tempfile.mkdtemp(prefix=f"stax-{name}-"))
        start = time.time()
        try:
            note = test(folder)
            passed += 1
            print(f"ok    {name} ({time.time() - start:.1f} s){f', {note}' if note else ''}", flush=True)
        except Exception as fault:
            failed += 1
            text = "".join(traceback.format_exception(fault)[-3:]) if not isinstance(fault, AssertionError) else str(fault)
            print(f"FAIL  {name}: {text}", flush=True)
        finally:
            if not options.keep:
                with contextlib.suppress(OSError):
                    for path in [folder, *folder.rglob("*")]:
                        if path.is_dir():
                            path.chmod(0o755)
                shutil.rmtree(folder, ignore_errors=True)
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed or not passed else 0)
