# SPDX-License-Identifier: Apache-2.0
"""Wrong numbers that users found elsewhere: tails, masks, large means, short accumulators, integers that are not 64 bits."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import harness as h
import numpy as np

n = h.node
RNG = np.random.default_rng(21)


def softmax(t, axis=-1):
    t = np.asarray(t, np.float64)
    with np.errstate(invalid="ignore"):
        e = np.exp(t - t.max(axis, keepdims=True))
        return (e / e.sum(axis, keepdims=True)).astype(np.float32)


def test_no_length_gives_nan_in_a_masked_softmax(folder):
    model = h.model([n("Add", "x m", "t"), n("Softmax", "t", "y", axis=-1)], {"x": (h.FLOAT, [None, None]), "m": (h.FLOAT, [None, None])}, ["y"])
    feeds = []
    for size in range(1, 1101):
        mask = np.where(RNG.random((2, size)) < 0.5, -np.inf, 0).astype(np.float32)
        mask[:, size // 2] = 0
        feeds.append({"x": 10 * h.normal(RNG, 2, size), "m": mask})
    for got, f in zip(h.run(folder, model, feeds).outputs, feeds):
        h.same(got, {"y": softmax(f["x"].astype(np.float64) + f["m"])}, f"length {f['x'].shape[1]}", rtol=2e-5, atol=1e-7)


def test_a_fully_masked_row_is_what_the_graph_says(folder):
    """Softmax of nothing but -inf is NaN; ONNX's Attention gives 0 there; infinities and NaN stay in their row."""
    soft = h.model([n("Softmax", "x", "y", axis=-1), n("LogSoftmax", "x", "z", axis=-1)], {"x": (h.FLOAT, [None, None])}, ["y", "z"])
    for size in (1, 2, 7, 8, 16, 17, 65):
        x = h.normal(RNG, 6, size)
        x[1] = -np.inf
        x[2, 0] = np.inf
        x[3, -1] = np.nan
        x[4, : size // 2] = -np.inf
        for flags in ((), ("--device", "loop"), ("--device", "reference")):
            got = h.run_one(folder, soft, {"x": x}, *flags)
            h.same(got["y"], softmax(x), f"{size} wide", rtol=2e-5, atol=1e-7)
            assert np.isnan(got["z"][1]).all()
    attention = h.model([n("Attention", "q k v mask", "y")], {"q": (h.FLOAT, [1, 2, None, 8]), "k": (h.FLOAT, [1, 2, None, 8]), "v": (h.FLOAT, [1, 2, None, 8]), "mask": (h.BOOL, [None, None])}, ["y"], opset=23)
    for queries, keys in ((3, 5), (1, 17), (4, 64)):
        f = {"q": h.normal(RNG, 1, 2, queries, 8), "k": h.normal(RNG, 1, 2, keys, 8), "v": h.normal(RNG, 1, 2, keys, 8), "mask": RNG.random((queries, keys)) < 0.5}
        f["mask"][0] = False
        f["mask"][1:, 0] = True
        got = h.run_one(folder, attention, f)["y"]
        assert (got[:, :, 0] == 0).all(), got[:, :, 0]
        scores = np.where(f["mask"], f["q"].astype(np.float64) @ f["k"].transpose(0, 1, 3, 2) / np.sqrt(8), -np.inf)
        h.same(got[:, :, 1:], (softmax(scores[:, :, 1:]).astype(np.float64) @ f["v"]).astype(np.float32), "rows that are not masked")


def test_rows_of_a_softmax_add_up_to_1_at_any_scale(folder):
    model = h.model([n("Mul", "x s", "t"), n("Softmax", "t", "y", axis=-1), n("Div", "x d", "u"), n("Softmax", "u", "z", axis=-1)], {"x": (h.FLOAT, [None, None]), "s": (h.FLOAT, []), "d": (h.FLOAT, [])}, ["y", "z"])
    feeds = [{"x": h.normal(RNG, 4, size), "s": np.float32(s), "d": np.float32(d)} for size in (1, 5, 64, 129) for s, d in ((1e14, 1e-6), (-1e14, -1e-6), (1e6, 1e-14), (0.0, 1e6), (1.0, 1.0))]
    for got, f in zip(h.run(folder, model, feeds).outputs, feeds):
        for name, t in (("y", f["x"] * f["s"]), ("z", f["x"] / f["d"])):
            h.same(got[name], softmax(t), f"{name} at {f['s']}, {f['d']}", rtol=1e-4, atol=1e-6)
            h.same(got[name].sum(-1, dtype=np.float64), np.ones(4), "sums", rtol=1e-5)


def test_variances_are_neither_negative_nor_nan_with_a_large_mean(folder):
    width = 96
    nodes = [n("ReduceMean", "x axes", "m"), n("Sub", "x m", "d"), n("Mul", "d d", "d2"), n("ReduceMean", "d2 axes", "v"), n("Add", "v eps", "v1"), n("Sqrt", "v1", "r"), n("Div", "d r", "y"), n("LayerNormalization", "x g", "z", axis=-1, epsilon=1e-12),
             n("InstanceNormalization", "x3 g1 b1", "i", epsilon=1e-12), n("Unsqueeze", "x one", "x3")]
    model = h.model(nodes[:-2] + nodes[:-3:-1], {"x": (h.FLOAT, [None, width])}, ["y", "z", "v", "i"], {"axes": np.array([-1]), "eps": np.float32(1e-12), "g": np.ones(width, np.float32), "one": np.array([1]), "g1": np.ones(1, np.float32), "b1": np.zeros(1, np.float32)})
    for mean in (0.0, 1e2, 1e4, 1e7):
        for x in ((mean + 1e-3 * RNG.standard_normal((3, width))).astype(np.float32), np.full((2, width), mean, np.float32)):
            got = h.run_one(folder, model, {"x": x})
            exact = x.astype(np.float64)
            d = exact - exact.mean(1, keepdims=True)
            v = (d * d).mean(1, keepdims=True)
            assert (got["v"] >= 0).all() and all(np.isfinite(a).all() for a in got.values()), f"mean {mean}"
            spread = np.spacing(np.float32(mean)).astype(np.float64) if mean else 1e-9      # the mean itself is rounded to f32
            h.same(got["v"].astype(np.float64), v, f"variance at mean {mean}", rtol=1e-3, atol=spread**2 + 1e-16)
            if mean <= 1e4 and v.max() > 0:
                for name in ("z", "i"):
                    h.same(got[name].reshape(x.shape), (d / np.sqrt(v + 1e-12)).astype(np.float32), f"{name} at mean {mean}", rtol=1e-3, atol=1e-3)


def test_long_sums_are_not_taken_in_16_bits(folder):
    """A sum of ones that sticks at 256 or 2048; a mean of a million numbers that is off in the fourth digit."""
    for t, bits in ((h.BFLOAT16, lambda a: (a.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)), (h.HALF, lambda a: a.astype(np.float16))):
        value = lambda a: (a.astype(np.uint32) << 16).view(np.float32) if a.dtype == np.uint16 else a.astype(np.float32)
        model = h.model([n("ReduceSum", "x axis", "s", keepdims=0), n("ReduceMean", "x axis", "m", keepdims=0), n("MatMul", "x w", "p"), n("ReduceSum", "x last", "t", keepdims=0), n("GlobalAveragePool", "x4", "g"), n("Unsqueeze", "x lead", "x4")][:4],
                        {"x": (t, [None, None]), "w": (t, [None, 2])}, ["s", "m", "p", "t"], {"axis": np.array([0]), "last": np.array([1])})
        for rows, columns in ((4096, 3), (3, 5000), (20000, 1)):
            f = {"x": bits(np.ones((rows, columns))), "w": bits(np.ones((columns, 2)))}
            got = h.run_one(folder, model, f)
            for name, want in (("s", np.full(columns, rows)), ("m", np.ones(columns)), ("p", np.full((rows, 2), columns)), ("t", np.full(rows, columns))):
                h.same(value(got[name]), value(bits(want.astype(np.float32))), f"{name} of {rows} x {columns}", rtol=1e-6)
    model = h.model([n("ReduceMean", "x axis", "m", keepdims=0), n("ReduceSum", "x axis", "s", keepdims=0), n("ReduceL2", "x axis", "l", keepdims=0)], {"x": (h.FLOAT, [None])}, ["m", "s", "l"], {"axis": np.array([0])})
    for size in (1_000_003, 1, 999):
        x = (1000 + RNG.random(size)).astype(np.float32)
        exact = x.astype(np.float64)
        h.same(h.run_one(folder, model, {"x": x}), {"m": np.float32(exact.mean()), "s": np.float32(exact.sum()), "l": np.float32(np.sqrt((exact * exact).sum()))}, f"{size} numbers", rtol=2e-6)


def test_what_lies_past_the_end_never_counts(folder):
    """Lanes behind the end of a row went through the function before they were added: 0.5 each from a sigmoid, 1 from an exp or a cosine."""
    nodes = [n("Sigmoid", "x", "a"), n("ReduceSum", "a axis", "s", keepdims=0), n("Exp", "x", "b"), n("ReduceSum", "b axis", "e", keepdims=0), n("Cos", "x", "c"), n("ReduceProd", "c axis", "p", keepdims=0), n("ReduceMin", "b axis", "least", keepdims=0),
             n("Neg", "b", "nb"), n("ReduceMax", "nb axis", "most", keepdims=0), n("ReduceLogSumExp", "x axis", "l", keepdims=0), n("Relu", "s", "r"), n("ReduceSum", "a first", "s0", keepdims=0), n("ReduceMean", "a axis", "mean", keepdims=0)]
    names = ["s", "e", "p", "least", "most", "l", "r", "s0", "mean"]
    model = h.model(nodes, {"x": (h.FLOAT, [None, None])}, names, {"axis": np.array([1]), "first": np.array([0])})
    feeds = [{"x": (h.normal(RNG, rows, size) / 4).astype(np.float32)} for size in [*range(1, 70), 127, 128, 129, 2047, 2049] for rows in (1, 3)]
    for got, f in zip(h.run(folder, model, feeds).outputs, feeds):
        x = f["x"].astype(np.float64)
        a, b = 1 / (1 + np.exp(-x)), np.exp(x)
        want = {"s": a.sum(1), "e": b.sum(1), "p": np.cos(x).prod(1), "least": b.min(1), "most": (-b).max(1), "l": np.log(b.sum(1)), "r": a.sum(1), "s0": a.sum(0), "mean": a.mean(1)}
        h.same(got, {k: v.astype(np.float32) for k, v in want.items()}, str(x.shape), rtol=1e-4, atol=1e-6)


def test_windows_with_same_padding_do_not_forget_the_dilation(folder):
    for dims, kernel, dilation, stride in (((1, 2, 11), [3], [2], [1]), ((2, 1, 9, 10), [2, 3], [3, 2], [1, 1]), ((1, 1, 13), [3], [2], [2])):
        model = h.model([n("MaxPool", "x", "y", kernel_shape=kernel, dilations=dilation, strides=stride, auto_pad="SAME_UPPER")], {"x": (h.FLOAT, [None] * len(dims))}, ["y"])
        x = h.normal(RNG, *dims)
        spatial = dims[2:]
        out = [-(-s // t) for s, t in zip(spatial, stride)]
        total = [max(0, (o - 1) * t + (k - 1) * d + 1 - s) for o, t, k, d, s in zip(out, stride, kernel, dilation, spatial)]
        padded = np.pad(x, [(0, 0), (0, 0)] + [(p // 2, p - p // 2) for p in total], constant_values=-np.inf)
        want = np.full(dims[:2] + tuple(out), -np.inf, np.float32)
        for at in np.ndindex(*out):
            for k in np.ndindex(*kernel):
                position = tuple(a * t + i * d for a, t, i, d in zip(at, stride, k, dilation))
                want[(slice(None), slice(None), *at)] = np.maximum(want[(slice(None), slice(None), *at)], padded[(slice(None), slice(None), *position)])
        h.same(h.run_one(folder, model, {"x": x}), {"y": want}, f"{dims}, dilation {dilation}")


def test_relu_and_clip_work_on_doubles_and_integers(folder):
    for t, dtype in ((h.DOUBLE, np.float64), (h.INT32, np.int32), (h.INT64, np.int64), (h.INT8, np.int8)):
        model = h.model([n("Relu", "x", "r"), n("Clip", "r low high", "y")], {"x": (t, ["n"])}, ["y"], {"low": dtype(1), "high": dtype(5)})
        h.same(h.run_one(folder, model, {"x": np.arange(-4, 9).astype(dtype)}), {"y": np.clip(np.maximum(np.arange(-4, 9), 0), 1, 5).astype(dtype)}, str(dtype))


def test_64_bit_integers_are_64_bits(folder):
    big = np.array([2**40, 2**53 + 1, -(2**62), 2**31, -(2**31) - 1, 2**63 - 1, -(2**63), 3], np.int64)
    nodes = [n("Div", "x three", "d"), n("Mul", "x three", "m"), n("Add", "x one", "a"), n("Sub", "x one", "s"), n("Mod", "x seven", "r"), n("Neg", "x", "neg"), n("Abs", "x", "abs"), n("ReduceSum", "x", "sum", keepdims=0), n("ReduceMax", "x", "max", keepdims=0),
             n("ReduceMin", "x", "min", keepdims=0), n("Cast", "x", "f", to=h.DOUBLE), n("Equal", "x one", "eq"), n("Less", "x big", "lt"), n("Concat", "x x", "cat", axis=0), n("Gather", "x at", "g"), n("Where", "eq one x", "w"), n("CumSum", "small axis", "cum"),
             n("MatMul", "row column", "p"), n("Max", "x three", "mx"), n("Sign", "x", "sg"), n("TopK", "x k", "top where"), n("Sum", "x x", "xx")]
    names = ["d", "m", "a", "s", "r", "neg", "abs", "sum", "max", "min", "f", "eq", "lt", "cat", "g", "w", "cum", "p", "mx", "sg", "top", "where", "xx"]
    small = np.array([2**53, 1, 1, -(2**40)], np.int64)
    row, column = np.array([[2**40, 3]], np.int64), np.array([[2**20], [2**53 + 1]], np.int64)
    model = h.model(nodes, {"x": (h.INT64, ["n"]), "small": (h.INT64, ["m"]), "row": (h.INT64, [1, "k"]), "column": (h.INT64, ["k", 1])}, names,
                    {"three": np.array(3), "one": np.array(1), "seven": np.array(7), "big": np.array(2**40), "at": np.array([1, 0]), "axis": np.array(0), "k": np.array([3])})
    with np.errstate(over="ignore"):
        trunc = np.array([int(abs(int(v)) // 3) * (1 if v >= 0 else -1) for v in big], np.int64)
        order = np.argsort(-big.astype(object), kind="stable")[:3].astype(np.int64)
        want = {"d": trunc, "m": big * np.int64(3), "a": big + np.int64(1), "s": big - np.int64(1), "r": big % 7, "neg": -big, "abs": np.abs(big), "sum": big.sum(), "max": big.max(), "min": big.min(), "f": big.astype(np.float64), "eq": big == 1, "lt": big < 2**40, "cat": np.concatenate([big, big]),
                "g": big[[1, 0]], "w": big, "cum": np.cumsum(small), "p": row @ column, "mx": np.maximum(big, 3), "sg": np.sign(big), "top": big[order], "where": order, "xx": big + big}
    for device in ("cpu", "loop", "reference"):
        h.same(h.run_one(folder, model, {"x": big, "small": small, "row": row, "column": column}, "--device", device), want, device)
    unsigned = h.model([n("Div", "x three", "d"), n("Cast", "x", "f", to=h.DOUBLE), n("Less", "x three", "lt"), n("ReduceMax", "x", "max", keepdims=0)], {"x": (h.TensorProto.UINT64, ["n"])}, ["d", "f", "lt", "max"], {"three": np.array(3, np.uint64)})
    x = np.array([2**63 + 1, 2**64 - 1, 1], np.uint64)
    h.same(h.run_one(folder, unsigned, {"x": x}), {"d": x // 3, "f": x.astype(np.float64), "lt": x < 3, "max": x.max()})


def test_every_base_and_row_stride_is_read_as_well(folder):
    """Vector loads from places that no vector starts at: slices of every offset, rows of odd lengths."""
    nodes = []
    for k in range(17):
        nodes += [n("Slice", f"x from{k} big axis", f"c{k}"), n("Exp", f"c{k}", f"e{k}"), n("MatMul", f"c{k} w{k}", f"p{k}"), n("ReduceSum", f"c{k} axis", f"s{k}", keepdims=0)]
    constants = {f"from{k}": np.array([k]) for k in range(17)} | {"big": np.array([1 << 40]), "axis": np.array([1])}
    model = h.model(nodes, {"x": (h.FLOAT, [None, None])} | {f"w{k}": (h.FLOAT, [None, None]) for k in range(17)}, [f"{r}{k}" for k in range(17) for r in "eps"], constants)
    for rows, columns, out in ((3, 37, 5), (8, 64, 33), (5, 19, 17)):
        f = {"x": h.normal(RNG, rows, columns) / 2} | {f"w{k}": h.normal(RNG, columns - k, out) for k in range(17)}
        got = h.run_one(folder, model, f)
        for k in range(17):
            c = f["x"][:, k:]
            for name, want in (("e", np.exp(c)), ("p", c @ f[f"w{k}"]), ("s", c.sum(1))):
                h.same(got[f"{name}{k}"], want, f"{name} at offset {k} of {rows} x {columns}", atol=2e-5)


if __name__ == "__main__":
    h.main()
