# SPDX-License-Identifier: Apache-2.0
"""Few results of long reductions on GPUs: parts of them are spread over the grid, and a second kernel combines these. Which shapes get that, and what comes out."""
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import harness as h
import numpy as np

FAKE = Path(h.STAX).resolve().parent / "fake_cuda"
SEED = int(np.random.SeedSequence().entropy % 10**6)
RNG = np.random.default_rng(SEED)


def devices():
    yield "sim", None
    if (FAKE / "libcuda.so.1").exists():
        yield "cuda", {"LD_LIBRARY_PATH": str(FAKE)}


def agree(folder, model, feeds, want, launches, **tolerance):
    """launches: of each feed's call."""
    for device, env in devices():
        session = h.run(folder, model, feeds, "--device", device, env=env)
        for feed, got, about, count in zip(feeds, session.outputs, session.stats["inputs"], launches):
            where = f"{device}, seed {SEED}, {({k: v.shape for k, v in feed.items()})}"
            h.same(got["y"], want(feed), where, **tolerance)
            assert about["launches_per_call"] == count, (where, about["launches_per_call"])


def reduction(op, axes, dims, kind=h.FLOAT, **attributes):
    return h.model([h.node(op, "x axes", "y", keepdims=0, **attributes)], {"x": (kind, dims)}, ["y"], {"axes": np.array(axes)})


def test_everything_to_one_number(folder):
    shapes = [(1, 1), (300, 400), (1, 40000), (40001, 1), (1000, 131), (0, 5)]
    feeds = [{"x": h.normal(RNG, *s)} for s in shapes]
    launches = [1, 2, 2, 2, 2, 1]
    wide = lambda f: f["x"].astype(np.float64)
    agree(folder, reduction("ReduceSum", [0, 1], ["n", "m"]), feeds, lambda f: wide(f).sum().astype(np.float32), launches, rtol=1e-4, atol=1e-2)
    agree(folder, reduction("ReduceL2", [0, 1], ["n", "m"]), feeds, lambda f: np.sqrt((wide(f) ** 2).sum()).astype(np.float32), launches, rtol=1e-4, atol=1e-4)
    agree(folder, reduction("ReduceMean", [0, 1], ["n", "m"]), feeds[:-1], lambda f: wide(f).mean().astype(np.float32), launches[:-1], rtol=1e-4, atol=1e-4)
    with_nan = [dict(f) for f in feeds[:-1]]
    with_nan[1]["x"][299, 399] = np.nan
    agree(folder, reduction("ReduceMax", [0, 1], ["n", "m"]), with_nan, lambda f: f["x"].max(), launches[:-1], rtol=0, atol=0)
    whole = [{"x": RNG.integers(-1000, 1000, s)} for s in shapes]
    agree(folder, reduction("ReduceSum", [0, 1], ["n", "m"], h.INT64), whole, lambda f: f["x"].sum(), launches, rtol=0, atol=0)


def test_few_rows_and_few_columns(folder):
    feeds = [{"x": h.normal(RNG, *s)} for s in ((3, 33001), (3, 1000), (200, 64), (2, 65536))]
    agree(folder, reduction("ReduceSum", [1], ["n", "m"]), feeds, lambda f: f["x"].astype(np.float64).sum(1).astype(np.float32), [2, 1, 1, 2], rtol=1e-4, atol=1e-2)
    feeds = [{"x": h.normal(RNG, *s)} for s in ((1000, 3), (100, 3), (513, 130), (4096, 1), (0, 4))]
    agree(folder, reduction("ReduceMin", [0], ["n", "m"]), feeds, lambda f: f["x"].min(0, initial=np.inf), [2, 1, 2, 2, 1], rtol=0, atol=0)


def product(kind=h.FLOAT, turned=False, dims=("m", "k", "n")):
    m, k, n = dims
    nodes = [h.node("Gemm", "a b c", "t", transB=1)] if turned else [h.node("MatMul", "a b", "u"), h.node("Add", "u c", "t")]
    return h.model([*nodes, h.node("Relu", "t", "y")], {"a": (kind, [m, k]), "b": (kind, [n, k] if turned else [k, n]), "c": (kind, [n])}, ["y"])


def test_few_tiles_of_a_product(folder):
    for turned in (False, True):
        feeds = [{"a": h.normal(RNG, m, k), "b": h.normal(RNG, *((n, k) if turned else (k, n))), "c": h.normal(RNG, n)}
                 for m, n, k in ((33, 40, 2048), (16, 68, 1027), (64, 64, 512), (40, 16, 1024), (2, 24, 1500))]

        def want(f):
            a, b = f["a"].astype(np.float64), f["b"].astype(np.float64)
            return np.maximum(a @ (b.T if turned else b) + f["c"], 0).astype(np.float32)
        agree(folder, product(turned=turned), feeds, want, [turned + n for n in (2, 2, 1, 2, 2)], rtol=1e-3, atol=1e-3)  # turned: it is turned back first


def test_few_tiles_by_matrix_instructions(folder):
    feeds = [{"a": h.normal(RNG, m, k).astype(np.float16), "b": h.normal(RNG, k, n).astype(np.float16), "c": h.normal(RNG, n).astype(np.float16)}
             for m, n, k in ((33, 40, 1032), (16, 128, 1024), (7, 24, 1111))]
    want = lambda f: np.maximum(f["a"].astype(np.float64) @ f["b"].astype(np.float64) + f["c"], 0).astype(np.float16)
    agree(folder, product(h.HALF), feeds, want, [2, 2, 2], rtol=1e-2, atol=1e-2)


def test_one_row_of_a_product(folder):
    """One row and weights either way around; sums long and short."""
    for turned in (False, True):
        feeds = [{"a": h.normal(RNG, 1, k), "b": h.normal(RNG, *((n, k) if turned else (k, n))), "c": h.normal(RNG, n)} for n, k in ((40, 2052), (5, 300), (260, 64), (4, 1), (3, 0), (12, 4096))]

        def want(f):
            a, b = f["a"].astype(np.float64), f["b"].astype(np.float64)
            return np.maximum(a @ (b.T if turned else b) + f["c"], 0).astype(np.float32)
        agree(folder, product(turned=turned, dims=(1, "k", "n")), feeds, want, [2, 1 if turned else 2, 1, 1, 1, 2], rtol=1e-3, atol=1e-3)


def test_one_long_row_is_scanned_in_parts(folder):
    for kind, dtype in ((h.FLOAT, np.float32), (h.INT32, np.int32)):
        for exclusive, reverse in ((0, 0), (1, 0), (1, 1)):
            model = h.model([h.node("CumSum", "x axis", "y", exclusive=exclusive, reverse=reverse)], {"x": (kind, ["n", "m"])}, ["y"], {"axis": np.array(1)})
            feeds = [{"x": (9 * RNG.standard_normal(s)).astype(dtype)} for s in ((1, 17001), (2, 20480), (1, 16383), (0, 40000))]

            def want(f):
                x = f["x"][:, ::-1] if reverse else f["x"]
                y = np.cumsum(x, 1, dtype=dtype if kind == h.INT32 else np.float64)
                y = y - x if exclusive else y
                return (y[:, ::-1] if reverse else y).astype(dtype)
            agree(folder, model, feeds, want, [3, 3, 1, 0], rtol=1e-5, atol=1e-3)


def test_equal_bits_in_every_run(folder):
    """Sums of floats do not depend on which block was first."""
    model = reduction("ReduceSum", [0, 1], ["n", "m"])
    x = {"x": (RNG.standard_normal((250, 300)) * 10.0 ** RNG.integers(-8, 8, (250, 300))).astype(np.float32)}
    for device, env in devices():
        first, second = h.run(folder, model, [x, x], "--device", device, env=env).outputs
        h.equal_bits(first, second)


def test_many_results_stay_one_kernel(folder):
    model = h.save(h.model([h.node("MatMul", "a b", "y")], {"a": (h.FLOAT, ["m", 64]), "b": (h.FLOAT, [64, "n"])}, ["y"]), folder / "short.onnx")
    assert "_parts" not in h.stax("dump", model, "--stage", "plan", "--target", "cuda:sm_80").expect(0).out


if __name__ == "__main__":
    h.main()
