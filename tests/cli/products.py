# SPDX-License-Identifier: Apache-2.0
"""Products and convolutions of every number of rows that a tile has or leaves a part of, by weights of one panel and of several, in one session each."""
import secrets
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import harness as h
import numpy as np

ROWS = [*range(0, 27), 36, 63]
COLUMNS = (40, 64, 96, 100, 256)


def generator():
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    return np.random.default_rng(seed)


def check(folder, columns, make, tolerance):
    """make(columns) -> the model and a function from rows to feed and the results wanted."""
    for n in columns:
        model, problem = make(n)
        problems = [problem(m) for m in ROWS]
        got = h.run(folder, model, [feed for feed, _ in problems])
        for m, (_, want), outputs in zip(ROWS, problems, got.outputs):
            assert outputs["y"].shape == want.shape, f"{m} rows of {n}: {outputs['y'].shape}, expected {want.shape}"
            worst = np.abs(outputs["y"].astype(np.float64) - want).max(initial=0)
            assert worst <= tolerance, f"{m} rows of {n}: off by {worst}"


def test_floats_with_a_costly_epilogue(folder):
    rng = generator()

    def make(n):
        k = int(rng.integers(1, 70))
        w, bias = h.normal(rng, k, n), h.normal(rng, n)
        model = h.model([h.node("Gemm", "x w b", "t"), h.node("Tanh", "t", "u"), h.node("Mul", "u t", "y")], {"x": (h.FLOAT, ["m", k])}, ["y"],
                        {"w": w, "b": bias})

        def problem(m):
            x = h.normal(rng, m, k)
            t = x.astype(np.float64) @ w.astype(np.float64) + bias
            return {"x": x}, np.tanh(t) * t
        return model, problem
    check(folder, COLUMNS, make, 1e-4)


def test_bytes(folder):
    rng = generator()

    def make(n):
        k = 4 * int(rng.integers(1, 20))
        w = rng.integers(-128, 128, (k, n)).astype(np.int8)
        model = h.model([h.node("MatMulInteger", "x w", "y")], {"x": (h.UINT8, ["m", k])}, ["y"], {"w": w})

        def problem(m):
            x = rng.integers(0, 256, (m, k)).astype(np.uint8)
            return {"x": x}, x.astype(np.int64) @ w.astype(np.int64)
        return model, problem
    check(folder, COLUMNS, make, 0)


def test_batches_by_one_weight(folder):
    rng = generator()

    def make(n):
        w = h.normal(rng, 33, n)
        model = h.model([h.node("MatMul", "x w", "y")], {"x": (h.FLOAT, ["b", "m", 33])}, ["y"], {"w": w})

        def problem(m):
            x = h.normal(rng, int(rng.integers(1, 4)), m, 33)
            return {"x": x}, x.astype(np.float64) @ w.astype(np.float64)
        return model, problem
    check(folder, (64, 128), make, 1e-4)


def test_convolutions_of_channels_that_fill_half_a_panel(folder):
    rng = generator()
    for channels in (8, 40, 48, 80, 112):
        w, bias = h.normal(rng, channels, 5, 3, 3) / 7, h.normal(rng, channels)
        model = h.model([h.node("Conv", "x w b", "c", pads=[1, 1, 1, 1], strides=[1, 1]), h.node("Relu", "c", "y")],
                        {"x": (h.FLOAT, ["n", 5, "height", "width"])}, ["y"], {"w": w, "b": bias})
        feeds = [{"x": h.normal(rng, n, 5, height, width)} for n, height, width in ((1, 1, 1), (2, 3, 5), (1, 7, 7), (3, 9, 14), (1, 20, 31), (0, 4, 4))]
        for feed, got in zip(feeds, h.run(folder, model, feeds).outputs):
            padded = np.pad(feed["x"].astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
            height, width = feed["x"].shape[2:]
            want = bias.astype(np.float64)[None, :, None, None] + sum(
                np.einsum("nchw,oc->nohw", padded[:, :, i:i + height, j:j + width], w[:, :, i, j].astype(np.float64)) for i in range(3) for j in range(3))
            worst = np.abs(got["y"] - np.maximum(want, 0)).max(initial=0)
            assert got["y"].shape == want.shape and worst < 1e-5, f"{channels} channels of {feed['x'].shape}: off by {worst}"


h.main()
