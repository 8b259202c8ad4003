# SPDX-License-Identifier: Apache-2.0
"""Running sums and scatters on GPUs: many threads, and the result of the order that the operator asks for."""
import json
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


def agree(folder, model, feeds, want, disable="", **tolerance):
    for device, env in devices():
        env = (env or {}) | ({"STAX_DISABLE": disable} if disable else {})
        for feed, got in zip(feeds, h.run(folder, model, feeds, "--device", device, env=env).outputs):
            h.same(got["y"], want(feed), f"{device}, seed {SEED}, {({k: v.shape for k, v in feed.items()})}", **tolerance)


def kernels_of(folder, model, target):
    done = h.stax("dump", h.save(model, folder / "k.onnx"), "--stage", "mapping", "--target", target).expect(0)
    return done.out


def running(x, axis, exclusive, reverse):
    x = np.flip(x, axis) if reverse else x
    y = np.cumsum(x, axis, dtype=x.dtype if x.dtype.kind in "iu" else np.float64)
    y = y - x if exclusive else y
    return (np.flip(y, axis) if reverse else y).astype(x.dtype)


def test_running_sums(folder):
    for kind, dtype in ((h.FLOAT, np.float32), (h.INT32, np.int32), (h.DOUBLE, np.float64)):
        for axis, exclusive, reverse in ((1, 0, 0), (1, 1, 1), (0, 0, 1), (0, 1, 0)):
            model = h.model([h.node("CumSum", "x axis", "y", exclusive=exclusive, reverse=reverse)], {"x": (kind, ["n", "m"])}, ["y"], {"axis": np.array(axis)})
            feeds = [{"x": (5 * RNG.standard_normal(s)).astype(dtype)} for s in ((1, 1), (3, 127), (2, 128), (1, 1024), (2, 1025), (130, 3), (5000, 1), (1, 2300), (0, 4), (3, 0))]
            agree(folder, model, feeds, lambda f: running(f["x"], axis, exclusive, reverse), rtol=1e-5, atol=1e-4)


def test_one_row_is_one_block(folder):
    model = h.model([h.node("CumSum", "x axis", "y")], {"x": (h.FLOAT, ["n"])}, ["y"], {"axis": np.array(0)})
    feeds = [{"x": RNG.standard_normal(n, dtype=np.float32)} for n in (0, 1, 255, 1024, 4097)]
    agree(folder, model, feeds, lambda f: running(f["x"], 0, 0, 0), rtol=1e-5, atol=1e-4)
    h.stax("dump", h.save(model, folder / "k.onnx"), "--stage", "ptx", "--target", "cuda:sm_80", "--outputs", folder / "kernels", "--quiet").expect(0)
    scans = [k for k in json.loads((folder / "kernels" / "kernels.json").read_text()) if k["class"] == "scan" and k["version"] == 0]
    assert scans and all(k["block"] == 256 for k in scans), scans


def ranked(x, axis, k, largest):
    """The first k in a stable sort, NaN being the greatest."""
    keys = np.where(np.isnan(x), np.inf, x) if x.dtype.kind == "f" else x.astype(np.int64)
    order = np.lexsort((np.broadcast_to(np.arange(x.shape[axis]).reshape([-1 if d == axis else 1 for d in range(x.ndim)]), x.shape),
                        -keys if largest else keys), axis=axis)
    places = np.take(order, np.arange(k), axis=axis)
    return {"y": np.take_along_axis(x, places, axis), "at": places}


def test_the_greatest_of_rows(folder):
    for kind, dtype in ((h.FLOAT, np.float32), (h.HALF, np.float16), (h.INT64, np.int64), (h.UINT8, np.uint8)):
        for axis, largest in ((1, 1), (1, 0), (0, 1)):
            model = h.model([h.node("TopK", "x k", "y at", axis=axis, largest=largest)], {"x": (kind, ["n", "m"]), "k": (h.INT64, [1])}, ["y", "at"])
            feeds = []
            for shape, k in (((1, 1), 1), ((3, 130), 5), ((2, 300), 300), ((130, 3), 3), ((5, 7), 0), ((0, 4), 0), ((4, 0), 0)):
                x = RNG.integers(0, 50, shape).astype(dtype)
                feeds.append({"x": x, "k": np.array([min(k, shape[axis])])})
            for device, env in devices():
                for feed, got in zip(feeds, h.run(folder, model, feeds, "--device", device, env=env).outputs):
                    want = ranked(feed["x"], axis, int(feed["k"][0]), largest)
                    h.same(got, want, f"{device}, seed {SEED}, {feed['x'].shape} {feed['x'].dtype} {feed['k']}")
    model = h.model([h.node("TopK", "x k", "y at", axis=1)], {"x": (h.FLOAT, ["n", "m"]), "k": (h.INT64, [1])}, ["y", "at"])
    assert "kernel @" in h.stax("dump", h.save(model, folder / "k.onnx"), "--stage", "thread", "--target", "cuda:sm_80").expect(0).out


def test_equal_sums_in_every_run(folder):
    """Sums of floats do not depend on which thread was first."""
    model = h.model([h.node("CumSum", "x axis", "y")], {"x": (h.DOUBLE, ["n", "m"])}, ["y"], {"axis": np.array(1)})
    x = {"x": RNG.standard_normal((2, 3000)) * 10.0 ** RNG.integers(-8, 8, (2, 3000))}
    for device, env in devices():
        first, second = h.run(folder, model, [x, x], "--device", device, env=env).outputs
        h.equal_bits(first, second)


def test_scatters_keep_their_order(folder):
    """Points that meet: the last one stays; sums are of one order where threads go through the points."""
    for reduction in ("none", "add", "mul", "max"):
        model = h.model([h.node("ScatterElements", "x i u", "y", axis=1, reduction=reduction)],
                        {"x": (h.FLOAT, ["a", "n", "c"]), "i": (h.INT64, ["b", "k", "d"]), "u": (h.FLOAT, ["b", "k", "d"])}, ["y"])
        feeds = []
        for a, n, c, b, k, d in ((3, 5, 7, 3, 9, 7), (1, 1, 1, 1, 1, 1), (9, 4, 40, 5, 6, 33), (2, 3, 4, 0, 3, 4)):
            feeds.append({"x": h.normal(RNG, a, n, c), "i": RNG.integers(-n, n, (b, k, d)), "u": h.normal(RNG, b, k, d)})

        def want(f):
            y = f["x"].copy()
            for at in np.ndindex(f["i"].shape):
                to, u = (at[0], f["i"][at], at[2]), f["u"][at]
                y[to] = {"none": u, "add": y[to] + u, "mul": y[to] * u, "max": max(y[to], u)}[reduction]
            return y
        agree(folder, model, feeds, want, rtol=1e-5, atol=1e-6)
        agree(folder, model, feeds, want, disable="gather_scatters", rtol=0, atol=0)
    assert "the points that may meet, in their order" in kernels_of(folder, model, "cuda:sm_80")


def test_rows_are_scattered_side_by_side(folder):
    for reduction in ("none", "add"):
        model = h.model([h.node("ScatterND", "x i u", "y", reduction=reduction)], {"x": (h.FLOAT, ["n", "m"]), "i": (h.INT64, ["k", 1]), "u": (h.FLOAT, ["k", "m"])}, ["y"])
        feeds = [{"x": h.normal(RNG, n, m), "i": RNG.integers(0, n, (k, 1)), "u": h.normal(RNG, k, m)} for n, m, k in ((4, 3, 9), (1, 1, 2), (6, 300, 5), (3, 2, 0))]

        def want(f):
            y = f["x"].copy()
            for k, [row] in enumerate(f["i"]):
                y[row] = f["u"][k] if reduction == "none" else y[row] + f["u"][k]
            return y
        agree(folder, model, feeds, want, rtol=1e-5, atol=1e-6)
        agree(folder, model, feeds, want, disable="gather_scatters", rtol=0, atol=0)
    assert "the points that may meet, in their order" in kernels_of(folder, model, "hip:gfx90a")


def test_an_index_out_of_range_is_an_error(folder):
    model = h.save(h.model([h.node("ScatterND", "x i u", "y")], {"x": (h.FLOAT, ["n", "m"]), "i": (h.INT64, ["k", 1]), "u": (h.FLOAT, ["k", "m"])}, ["y"]), folder / "m.onnx")
    np.savez(folder / "a.npz", x=h.normal(RNG, 3, 4), i=np.array([[1], [3]]), u=h.normal(RNG, 2, 4))
    for device, env in devices():
        h.stax("run", model, "--inputs", folder / "a.npz", "--device", device, env=env).expect(1, "3")


if __name__ == "__main__":
    h.main()
