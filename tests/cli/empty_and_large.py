# SPDX-License-Identifier: Apache-2.0
"""Extents of 0 and 1 in every place of every class of kernel, and iteration spaces that are larger than any memory."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import harness as h
import numpy as np

n = h.node
F, I, B = h.FLOAT, h.INT64, h.BOOL
SEED = int(np.random.SeedSequence().entropy % 2**32)
draw = np.random.default_rng(SEED)
print(f"seed {SEED}")


def reals(shape):
    return draw.standard_normal(shape).astype(np.float32)


def check(folder, model, feeds, want=None, devices=("cpu", "loop", "reference", "sim")):
    path = h.save(model, folder / "m.onnx")
    expected = [want(f) if want else h.oracle(model, f) for f in feeds]
    for device in devices:
        session = h.run(folder, path, feeds, "--device", device)
        for k, got in enumerate(session.outputs):
            h.same(got, expected[k], f"{device}, call {k}: {({a: v.shape for a, v in feeds[k].items()})}", rtol=1e-4, atol=1e-5)


def test_matmul(folder):
    m = h.model([n("MatMul", "a b", "c"), n("Relu", "c", "y")], {"a": (F, ["g", "m", "k"]), "b": (F, ["g", "k", "n"])}, ["y"])
    sizes = [(g, m_, k, n_) for g in (0, 1, 3) for m_ in (0, 1, 5) for k in (0, 1, 40) for n_ in (0, 1, 33)]
    check(folder, m, [{"a": reals((g, m_, k)), "b": reals((g, k, n_))} for g, m_, k, n_ in sizes],
          lambda f: {"y": np.maximum(f["a"] @ f["b"], 0)})


def test_gemm_with_bias_of_no_products(folder):
    m = h.model([n("Gemm", "a b c", "y", alpha=0.5, beta=2.0, transB=1)], {"a": (F, ["m", "k"]), "b": (F, ["n", "k"]), "c": (F, ["n"])}, ["y"])
    check(folder, m, [{"a": reals((m_, k)), "b": reals((4, k)), "c": reals((4,))} for m_ in (0, 1, 7) for k in (0, 1, 19)],
          lambda f: {"y": (np.float32(0.5) * (f["a"] @ f["b"].T) + 2 * f["c"]).astype(np.float32)})


def test_convolution_and_pooling(folder):
    weight = reals((6, 4, 3, 3))
    m = h.model([n("Conv", "x w", "c", pads=[1, 1, 1, 1]), n("Relu", "c", "r"), n("MaxPool", "r", "p", kernel_shape=[2, 2], pads=[0, 0, 1, 1]), n("GlobalAveragePool", "p", "y")],
                {"x": (F, ["n", 4, "h", "w_"])}, ["y"], {"w": weight})
    check(folder, m, [{"x": reals((b, 4, hh, ww))} for b, hh, ww in [(0, 5, 5), (1, 1, 1), (2, 1, 9), (1, 7, 2), (3, 4, 4)]], None)


def test_rows(folder):
    m = h.model([n("Softmax", "x", "s", axis=-1), n("LayerNormalization", "x g b", "l", axis=-1), n("Add", "s l", "y")],
                {"x": (F, ["r", "c"]), "g": (F, ["c"]), "b": (F, ["c"])}, ["y"])
    sizes = [(0, 0), (0, 4), (3, 0), (1, 1), (5, 1), (1, 130), (4, 33)]
    feeds = [{"x": reals((r, c)), "g": reals((c,)), "b": reals((c,))} for r, c in sizes]

    def want(f):
        x = f["x"].astype(np.float64)
        if x.size == 0:
            return {"y": np.zeros(x.shape, np.float32)}
        e = np.exp(x - x.max(1, keepdims=True))
        norm = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
        return {"y": (e / e.sum(1, keepdims=True) + norm * f["g"] + f["b"]).astype(np.float32)}
    check(folder, m, feeds, want)


def test_reductions_over_nothing_give_the_neutral_element(folder):
    m = h.model([n("ReduceSum", "x axes", "s", keepdims=0), n("ReduceProd", "x axes", "p", keepdims=0), n("ReduceL2", "x axes", "l", keepdims=0)],
                {"x": (F, ["r", "c"])}, ["s", "p", "l"], {"axes": np.array([1])})
    check(folder, m, [{"x": reals(s)} for s in [(0, 0), (3, 0), (0, 3), (2, 5), (1, 1)]],
          lambda f: {"s": f["x"].sum(1), "p": f["x"].prod(1), "l": np.sqrt((f["x"] ** 2).sum(1))})


def test_ones_broadcast_in_any_place(folder):
    m = h.model([n("Mul", "a b", "t"), n("Where", "k t a", "u"), n("Sub", "u c", "y")],
                {"a": (F, ["p", "q", "r"]), "b": (F, ["s", "t", "u"]), "c": (F, ["v"]), "k": (B, ["w", 1])}, ["y"])
    sizes = [((2, 3, 4), (2, 1, 4), (4,), 3), ((1, 3, 1), (5, 1, 4), (1,), 1), ((1, 1, 1), (1, 1, 1), (7,), 1), ((2, 1, 4), (1, 6, 1), (4,), 6),
             ((0, 1, 4), (1, 2, 1), (1,), 2), ((1, 1, 1), (2, 0, 3), (3,), 1)]
    feeds = [{"a": reals(a), "b": reals(b), "c": reals(c), "k": draw.integers(0, 2, (k, 1)).astype(bool)} for a, b, c, k in sizes]
    check(folder, m, feeds, lambda f: {"y": np.where(f["k"], f["a"] * f["b"], f["a"]) - f["c"]})


def test_joining_and_taking_apart_with_empty_parts(folder):
    m = h.model([n("Concat", "a b", "c", axis=0), n("Slice", "c from to", "s"), n("Gather", "c at", "g", axis=0), n("Transpose", "s", "t", perm=[1, 0]), n("ReduceSum", "g", "r", keepdims=0)],
                {"a": (F, ["p", "w"]), "b": (F, ["q", "w"]), "from": (I, [1]), "to": (I, [1]), "at": (I, ["k"])}, ["t", "g", "r"])
    feeds = [{"a": reals((p, w)), "b": reals((q, w)), "from": np.array([f]), "to": np.array([t]), "at": np.array(at, np.int64)}
             for p, q, w, f, t, at in [(0, 3, 4, 0, 2, [1, 2, -1]), (2, 0, 4, 1, 1, []), (2, 2, 0, 0, 9, [0]), (0, 0, 3, 0, 0, []), (1, 1, 1, -1, 9, [0, 0])]]

    def want(f):
        c = np.concatenate([f["a"], f["b"]])
        g = c[f["at"]]
        return {"t": c[int(f["from"][0]):int(f["to"][0])].T, "g": g, "r": np.asarray(g.sum(), np.float32)}
    check(folder, m, feeds, want)


def test_a_fused_loop_over_more_than_any_memory_holds(folder):
    """65536 x 65537 products exist in no buffer: they are made and summed in one loop."""
    rows, columns = 1 << 16, (1 << 16) + 1
    m = h.model([n("Mul", "a b", "t"), n("Greater", "t zero", "p"), n("Cast", "p", "i", to=h.INT64), n("ReduceSum", "i", "y", keepdims=0)],
                {"a": (F, ["r", 1]), "b": (F, ["c"])}, ["y"], {"zero": np.float32(0)})
    a, b = reals((rows, 1)), reals((columns,))
    want = int((a > 0).sum()) * int((b > 0).sum()) + int((a < 0).sum()) * int((b < 0).sum())
    got = h.run(folder, h.save(m, folder / "m.onnx"), [{"a": a, "b": b}, {"a": a[:3], "b": b[:5]}])
    assert int(got.outputs[0]["y"]) == want, (int(got.outputs[0]["y"]), want)
    assert int(got.outputs[1]["y"]) == int((a[:3] * b[:5] > 0).sum())


if __name__ == "__main__":
    h.main()
