# SPDX-License-Identifier: Apache-2.0
"""0 is an ordinary size: no crash, no uninitialized memory, the neutral element where nothing is reduced."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import harness as h
import numpy as np

n = h.node
F, I = h.FLOAT, h.INT64
RNG = np.random.default_rng(22)
SHAPES = [(3, 4), (0, 4), (3, 0), (0, 0), (1, 1), (1, 0), (0, 1), (33, 65), (3, 4)]


def test_elementwise_views_reductions_and_products(folder):
    inf = np.float32(np.inf)
    ops = [  # node, result for x [a, b], w [b, 3] in double precision
        ([n("Exp", "x", "-")], lambda x, w: np.exp(x)), ([n("Add", "x row", "-")], lambda x, w: x + 1.5), ([n("Where", "c x row", "-")], lambda x, w: np.where(x > 0, x, 1.5)),
        ([n("Transpose", "x", "-", perm=[1, 0])], lambda x, w: x.T), ([n("Reshape", "x flat", "-")], lambda x, w: x.reshape(-1)), ([n("Unsqueeze", "x first", "-")], lambda x, w: x[None]), ([n("Flatten", "x", "-", axis=1)], lambda x, w: x),
        ([n("Concat", "x x", "-", axis=0)], lambda x, w: np.concatenate([x, x])), ([n("Concat", "x x", "-", axis=1)], lambda x, w: np.concatenate([x, x], 1)), ([n("Slice", "x one big ax1", "-")], lambda x, w: x[:, 1:]),
        ([n("Slice", "x minus least ax1 minus", "-")], lambda x, w: x[:, ::-1]), ([n("Pad", "x pads", "-")], lambda x, w: np.pad(x, ((0, 1), (1, 2)))), ([n("Tile", "x reps", "-")], lambda x, w: np.tile(x, (2, 3))),
        ([n("ReduceSum", "x ax1", "-", keepdims=0)], lambda x, w: x.sum(1)), ([n("ReduceSum", "x ax0", "-", keepdims=1)], lambda x, w: x.sum(0, keepdims=True)), ([n("ReduceSum", "x", "-", keepdims=0)], lambda x, w: x.sum()),
        ([n("ReduceProd", "x ax1", "-", keepdims=0)], lambda x, w: x.prod(1)), ([n("ReduceMax", "x ax1", "-", keepdims=0)], lambda x, w: x.max(1, initial=-np.inf)), ([n("ReduceMin", "x ax0", "-", keepdims=0)], lambda x, w: x.min(0, initial=np.inf)),
        ([n("ReduceMean", "x ax1", "-", keepdims=0)], lambda x, w: x.sum(1) / np.float64(x.shape[1])), ([n("ReduceL1", "x ax1", "-", keepdims=0)], lambda x, w: np.abs(x).sum(1)), ([n("ReduceL2", "x ax1", "-", keepdims=0)], lambda x, w: np.sqrt((x * x).sum(1))),
        ([n("ReduceSumSquare", "x ax0", "-", keepdims=0)], lambda x, w: (x * x).sum(0)), ([n("ReduceLogSumExp", "x ax1", "-", keepdims=0)], lambda x, w: np.log(np.exp(x).sum(1))), ([n("ReduceLogSum", "xx ax1", "-", keepdims=0)], lambda x, w: np.log((x * x).sum(1))),
        ([n("MatMul", "x w", "-")], lambda x, w: x @ w), ([n("Gemm", "x w bias", "-")], lambda x, w: x @ w + 0.5), ([n("MatMul", "xt x", "-")], lambda x, w: x.T @ x), ([n("Einsum", "x x", "-", equation="ij,kj->ki")], lambda x, w: x @ x.T),
        ([n("Einsum", "x w", "-", equation="ij,jk->i")], lambda x, w: (x @ w).sum(1)), ([n("Softmax", "x", "-", axis=1)], lambda x, w: np.exp(x) / np.exp(x).sum(1, keepdims=True)), ([n("LogSoftmax", "x", "-", axis=0)], lambda x, w: x - np.log(np.exp(x).sum(0, keepdims=True))),
        ([n("CumSum", "x zero", "-")], lambda x, w: np.cumsum(x, 0)), ([n("CumSum", "x one0", "-", exclusive=1, reverse=1)], lambda x, w: np.cumsum(x[:, ::-1], 1)[:, ::-1] - x), ([n("Expand", "x shape3", "-")], lambda x, w: np.broadcast_to(x, (2, *x.shape))),
        ([n("Gather", "x none", "-", axis=0)], lambda x, w: x[:0]), ([n("Gather", "x none", "-", axis=1)], lambda x, w: x[:, :0]), ([n("GatherElements", "x none2", "-", axis=1)], lambda x, w: np.empty((0, 4))), ([n("Trilu", "x", "-")], lambda x, w: np.triu(x)),
        ([n("ScatterND", "x none2 nonerow", "-")], lambda x, w: x), ([n("Mean", "x x", "-")], lambda x, w: x), ([n("Sum", "x row x", "-")], lambda x, w: 2 * x + 1.5), ([n("Relu", "p0", "-")], lambda x, w: np.maximum(x @ w, 0)),
        ([n("Hardmax", "x", "-", axis=1)], lambda x, w: (np.arange(x.shape[1])[None] == (x.argmax(1)[:, None] if x.shape[1] else 0)).astype(np.float64).reshape(x.shape)), ([n("LpNormalization", "x", "-", axis=1, p=1)], lambda x, w: x / np.abs(x).sum(1, keepdims=True)),
        ([n("EyeLike", "x", "-")], lambda x, w: np.eye(*x.shape)), ([n("ReverseSequence", "x lengths", "-", time_axis=1, batch_axis=0)], lambda x, w: x)]
    nodes = [n("Greater", "x zerof", "c"), n("Transpose", "x", "xt", perm=[1, 0]), n("Mul", "x x", "xx"), n("MatMul", "x w", "p0"), n("Shape", "x", "xs"), n("Concat", "two xs", "shape3", axis=0), n("Shape", "x", "rows", start=0, end=1), n("Expand", "zero rows", "z0"), n("Add", "z0 one", "lengths0"), n("Identity", "lengths0", "lengths")]
    names = []
    for k, ([node], _) in enumerate(ops):
        names.append(f"{node.op_type}_{k}")
        node.output[0] = names[-1]
        nodes.append(node)
    constants = {"row": np.float32(1.5), "bias": np.float32([0.5]), "zerof": np.float32(0), "flat": np.array([-1]), "first": np.array([0]), "one": np.array([1]), "big": np.array([1 << 40]), "least": np.array([-(1 << 40)]), "minus": np.array([-1]), "ax0": np.array([0]), "ax1": np.array([1]),
                 "pads": np.array([0, 1, 1, 2]), "reps": np.array([2, 3]), "zero": np.array(0), "one0": np.array(1), "two": np.array([2]), "none": np.empty(0, np.int64), "none2": np.empty((0, 4), np.int64), "nonerow": np.empty((0,), np.float32)}
    for k, ([node], _) in enumerate(ops):      # what only fits some shapes is left to the tests of its operator
        if node.op_type in ("ScatterND", "GatherElements", "ReverseSequence"):
            nodes.remove(node)
            names[k] = None
    model = h.model(nodes, {"x": (F, [None, None]), "w": (F, [None, 3])}, [name for name in names if name], constants)
    feeds = [{"x": np.abs(h.normal(RNG, a, b)) + np.float32(0.1), "w": h.normal(RNG, b, 3)} for a, b in SHAPES]
    for device in ("cpu", "loop", "reference"):
        for got, f in zip(h.run(folder, model, feeds, "--device", device).outputs, feeds):
            for name, (_, want) in zip(names, ops):
                if name is None:
                    continue
                with np.errstate(all="ignore"):
                    expected = np.asarray(want(f["x"].astype(np.float64), f["w"].astype(np.float64))).astype(np.float32)
                h.same(got[name], expected, f"{device}, {name} at {f['x'].shape}", rtol=2e-4, atol=2e-5)
    assert inf > 0


def test_integers_bools_and_arguments(folder):
    nodes = [n("ReduceSum", "i ax", "sum", keepdims=0), n("ReduceProd", "i ax", "prod", keepdims=0), n("Cast", "i", "b", to=h.BOOL), n("ReduceMax", "b ax", "any", keepdims=0), n("ReduceMin", "b ax", "all", keepdims=0), n("MatMulInteger", "q w", "p"), n("NonZero", "i", "where"),
             n("Compress", "i none", "kept"), n("Unique", "flat", "u first inverse counts"), n("Reshape", "i minus", "flat"), n("TopK", "i k0", "v at", axis=0), n("Size", "i", "size"), n("Shape", "i", "shape"), n("OneHot", "flat depth onoff", "hot")]
    nodes = [nodes[9], *nodes[:9], *nodes[10:]]
    model = h.model(nodes, {"i": (I, [None, None]), "q": (h.UINT8, [None, None]), "w": (h.UINT8, [None, 2])}, ["sum", "prod", "any", "all", "p", "where", "kept", "u", "inverse", "counts", "v", "at", "size", "shape", "hot"],
                    {"ax": np.array([1]), "none": np.empty(0, bool), "minus": np.array([-1]), "k0": np.array([0]), "depth": np.array(3), "onoff": np.array([0, 1])})
    for a, b in SHAPES[:7]:
        f = {"i": RNG.integers(0, 3, (a, b)), "q": RNG.integers(0, 9, (a, b)).astype(np.uint8), "w": RNG.integers(0, 9, (b, 2)).astype(np.uint8)}
        i = f["i"]
        u, inverse, counts = np.unique(i.reshape(-1), return_inverse=True, return_counts=True)
        want = {"sum": i.sum(1), "prod": i.prod(1), "any": i.astype(bool).any(1), "all": i.astype(bool).all(1), "p": f["q"].astype(np.int32) @ f["w"].astype(np.int32), "where": np.array(np.nonzero(i)), "kept": np.empty(0, np.int64), "u": u, "inverse": inverse.reshape(-1), "counts": counts, "v": i[:0],
                "at": np.empty((0, b), np.int64), "size": np.array(i.size), "shape": np.array(i.shape), "hot": np.eye(3, dtype=np.int64)[i.reshape(-1)]}
        for device in ("cpu", "reference"):
            h.same(h.run_one(folder, model, f, "--device", device), want, f"{device} at {(a, b)}")


def test_the_least_and_greatest_of_nothing(folder):
    for t, dtype in ((h.INT32, np.int32), (h.INT64, np.int64), (h.UINT8, np.uint8), (h.INT8, np.int8)):
        model = h.model([n("ReduceMax", "x ax", "most", keepdims=0), n("ReduceMin", "x ax", "least", keepdims=0)], {"x": (t, [None, None])}, ["most", "least"], {"ax": np.array([1])})
        info = np.iinfo(dtype)
        h.same(h.run_one(folder, model, {"x": np.empty((2, 0), dtype)}), {"most": np.full(2, info.min, dtype), "least": np.full(2, info.max, dtype)}, str(dtype))


def test_recurrent_layers_without_batch_or_steps(folder):
    size, width = 5, 3
    for op, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4)):
        w, r = h.normal(RNG, 1, gates * size, width), h.normal(RNG, 1, gates * size, size) / 3
        outputs = "y h c" if op == "LSTM" else "y h"
        model = h.model([n(op, "x w r", outputs, hidden_size=size)], {"x": (F, [None, None, width])}, outputs.split(), {"w": w, "r": r})
        feeds = [{"x": h.normal(RNG, steps, batch, width)} for steps, batch in ((3, 2), (5, 0), (0, 2), (0, 0), (1, 1), (4, 0), (3, 2))]
        for got, f in zip(h.run(folder, model, feeds).outputs, feeds):
            steps, batch, _ = f["x"].shape
            if steps and batch:
                want = h.oracle(model, f)
            else:
                want = {"y": np.zeros((steps, 1, batch, size), np.float32)} | {k: np.zeros((1, batch, size), np.float32) for k in outputs.split()[1:]}
            h.same(got, want, f"{op} over {steps} steps, batch {batch}")


def test_convolutions_and_pools_of_nothing(folder):
    nodes = [n("Conv", "x w b", "c", pads=[1, 1, 1, 1]), n("Relu", "c", "r"), n("MaxPool", "x", "m", kernel_shape=[2, 2]), n("AveragePool", "x", "a", kernel_shape=[2, 2], pads=[1, 1, 1, 1]), n("GlobalMaxPool", "x", "g"), n("ConvTranspose", "x t", "u", strides=[2, 2]), n("Resize", "x - scales", "z", mode="nearest"),
             n("BatchNormalization", "x s s s s", "bn"), n("DepthToSpace", "x4", "d", blocksize=2), n("Concat", "x x x x", "x4", axis=1)]
    constants = {"w": h.normal(RNG, 5, 2, 3, 3), "b": h.normal(RNG, 5), "t": h.normal(RNG, 2, 3, 2, 2), "scales": np.float32([1, 1, 2, 2]), "s": np.ones(2, np.float32)}
    model = h.model([*nodes[:-2], nodes[-1], nodes[-2]], {"x": (F, [None, 2, None, None])}, ["r", "m", "a", "u", "z", "bn", "d"], constants)
    feeds = [{"x": h.normal(RNG, batch, 2, height, width)} for batch, height, width in ((2, 5, 6), (0, 5, 6), (1, 2, 2), (0, 2, 9), (2, 5, 6))]
    for got, f in zip(h.run(folder, model, feeds).outputs, feeds):
        if len(f["x"]):
            h.same(got, h.oracle(model, f), str(f["x"].shape), atol=1e-4)
        else:
            _, _, height, width = f["x"].shape
            shapes = {"r": (5, height, width), "m": (2, height - 1, width - 1), "a": (2, height + 1, width + 1), "u": (3, 2 * height, 2 * width), "z": (2, 2 * height, 2 * width), "bn": (2, height, width), "d": (2, 2 * height, 2 * width)}
            h.same(got, {k: np.empty((0, *s), np.float32) for k, s in shapes.items()}, str(f["x"].shape))


def test_nothing_is_launched_for_nothing(folder):
    model = h.model([n("Exp", "x", "a"), n("MatMul", "a w", "b"), n("Softmax", "b", "y", axis=-1), n("ReduceSum", "w", "z", keepdims=0)], {"x": (F, [None, 4]), "w": (F, [4, None])}, ["y"])
    session = h.run(folder, model, [{"x": np.empty((0, 4), np.float32), "w": np.ones((4, 5), np.float32)}, {"x": np.ones((2, 4), np.float32), "w": np.ones((4, 5), np.float32)}])
    assert session.stats["inputs"][0]["launches_per_call"] == 0 and session.stats["inputs"][1]["launches_per_call"] > 0, session.stats["inputs"]


if __name__ == "__main__":
    h.main()
