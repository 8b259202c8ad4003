# SPDX-License-Identifier: Apache-2.0
"""What one session may not remember of a call: shapes in any order, sizes that come and go."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import harness as h
import numpy as np

n = h.node
RNG = np.random.default_rng(20)


def encoder(width=32, heads=4):
    """Attention, feed-forward, residuals and norms: x [?, ?, width], mask [?, ?]. No dim has a name."""
    w = lambda *s: (RNG.standard_normal(s) / np.sqrt(s[0])).astype(np.float32)
    constants = {f"w{p}": w(width, width) for p in "qkvo"} | {"w1": w(width, 3 * width), "w2": w(3 * width, width), "g": w(width) + 1, "b": w(width), "split": np.array([0, 0, heads, width // heads]),
                 "join": np.array([0, 0, width]), "scale": np.float32((width // heads) ** -0.5), "low": np.float32(-1e9), "zero": np.float32(0), "axes": np.array([1, 2])}
    nodes = []
    for p in "qkv":
        nodes += [n("MatMul", f"x w{p}", f"{p}0"), n("Reshape", f"{p}0 split", f"{p}1"), n("Transpose", f"{p}1", f"{p}2", perm=[0, 2, 3, 1] if p == "k" else [0, 2, 1, 3])]
    nodes += [n("MatMul", "q2 k2", "s0"), n("Mul", "s0 scale", "s1"), n("Cast", "mask", "m", to=h.BOOL), n("Where", "m zero low", "m1"), n("Unsqueeze", "m1 axes", "m2"), n("Add", "s1 m2", "s2"), n("Softmax", "s2", "p0", axis=-1),
              n("MatMul", "p0 v2", "c0"), n("Transpose", "c0", "c1", perm=[0, 2, 1, 3]), n("Reshape", "c1 join", "c2"), n("MatMul", "c2 wo", "c3"), n("Add", "x c3", "r0"), n("LayerNormalization", "r0 g b", "n0", axis=-1),
              n("MatMul", "n0 w1", "h0"), n("Relu", "h0", "h1"), n("MatMul", "h1 w2", "h2"), n("Add", "n0 h2", "y")]
    return h.model(nodes, {"x": (h.FLOAT, [None, None, width]), "mask": (h.INT64, [None, None])}, ["y"], constants)


def feed(batch, length, width=32):
    mask = np.ones((batch, length), np.int64)
    for row in range(1, batch):
        mask[row, max(1, length - row):] = 0
    return {"x": h.normal(RNG, batch, length, width), "mask": mask}


def test_results_are_not_garbled_when_the_batch_changes_between_calls(folder):
    model, rows = encoder(), feed(8, 21)
    batches = [1, 8, 1, 8] + [int(b) for b in RNG.integers(1, 9, 36)]
    picks = [RNG.choice(8, b, replace=False) for b in batches]
    single = h.run(folder, model, [{k: v[r:r + 1] for k, v in rows.items()} for r in range(8)]).outputs
    session = h.run(folder, model, [{k: v[p] for k, v in rows.items()} for p in picks])
    for call, (pick, got) in enumerate(zip(picks, session.outputs)):
        for at, row in enumerate(pick):
            h.same(got["y"][at], single[row]["y"][0], f"call {call} of batch {len(pick)}, row {row}", rtol=1e-5, atol=1e-6)
    assert session.stats["compiles_after_load"] == 0


def test_equal_rows_give_equal_bits_whatever_the_version(folder):
    model, row = encoder(), feed(1, 13)
    path = h.save(model, folder / "m.onnx")
    feeds = [{k: np.repeat(v, b, 0) for k, v in row.items()} for b in (1, 2, 3, 4, 5, 8, 17)]
    for flags in ((), ("--force", "*=0"), ("--force", "*=1"), ("--force", "*=2"), ("--force", "*=9"), ("--threads", "1")):
        for got, f in zip(h.run(folder, path, feeds, *flags).outputs, feeds):
            for r in range(1, len(f["x"])):
                assert got["y"][r].tobytes() == got["y"][0].tobytes(), f"row {r} of {len(f['x'])} under {flags}"


def test_a_long_call_does_not_break_the_short_one_behind_it(folder):
    model = encoder()
    feeds = [feed(2, k) for k in (32, 1, 32, 7, 1, 1, 33, 0, 5)]
    before = [{k: v.copy() for k, v in f.items()} for f in feeds]
    session = h.run(folder, model, feeds)
    for got, f, b in zip(session.outputs, feeds, before):
        want = h.oracle(model, f) if f["x"].size else {"y": np.empty((2, 0, 32), np.float32)}
        h.same(got, want, f"length {f['x'].shape[1]}", rtol=1e-4, atol=2e-5)
        h.equal_bits(f, b, "inputs")


def test_sizes_of_0_and_1_compile_nothing_and_multiply_nothing(folder):
    nodes = [n("Add", "a b", "t0"), n("Mul", "t0 c", "t1"), n("Concat", "t1 d", "t2", axis=0), n("Relu", "t2", "t3"), n("Concat", "e f", "t4", axis=0), n("ReduceSum", "t4 axis", "t5", keepdims=1), n("Add", "t3 t5", "y")]
    model = h.model(nodes, {k: (h.FLOAT, [None, 5]) for k in "abcdef"}, ["y"], {"axis": np.array([0])})
    feeds = []
    for _ in range(60):
        size, d, e, f = (int(x) for x in RNG.choice([0, 1, 2, 17], 4))
        feeds.append({"a": h.normal(RNG, size, 5), "b": h.normal(RNG, size if RNG.random() < 0.5 else 1, 5), "c": h.normal(RNG, size, 5), "d": h.normal(RNG, d, 5), "e": h.normal(RNG, e, 5), "f": h.normal(RNG, f, 5)})
    session = h.run(folder, model, feeds)
    assert session.stats["compiles_after_load"] == 0 and session.stats["kernels"] <= 7, session.stats["kernels"]
    few = h.run(folder, model, feeds[:1])
    assert few.stats["kernels"] == session.stats["kernels"] and few.stats["versions"] == session.stats["versions"]
    for got, f in zip(session.outputs, feeds):
        t = np.maximum(np.concatenate([(f["a"] + f["b"]) * f["c"], f["d"]]), 0)
        h.same(got, {"y": t + np.concatenate([f["e"], f["f"]]).sum(0, keepdims=True)}, str([v.shape for v in f.values()]))


def test_an_output_never_keeps_the_shape_of_an_earlier_call(folder):
    nodes = [n("Transpose", "x", "t", perm=[1, 0]), n("MatMul", "t x", "y"), n("Reshape", "x flat", "z"), n("ReduceMax", "x", "top", keepdims=1), n("Shape", "x", "s"), n("Expand", "one s", "e")]
    model = h.model(nodes, {"x": (h.FLOAT, [None, None])}, ["y", "z", "top", "s", "e"], {"flat": np.array([-1]), "one": np.float32(1)})
    shapes = [(int(a), int(b)) for a, b in RNG.integers(1, 40, (40, 2))]
    feeds = [{"x": h.normal(RNG, *s)} for s in shapes for _ in range(3)]
    for got, f in zip(h.run(folder, model, feeds).outputs, feeds):
        x = f["x"]
        h.same(got, {"y": x.T @ x, "z": x.reshape(-1), "top": x.max(keepdims=True), "s": np.array(x.shape), "e": np.ones(x.shape, np.float32)}, str(x.shape), atol=1e-4)


def test_more_shapes_than_any_cache_holds(folder):
    """The first shapes come back after hundreds of others: the same bits, nothing compiled, memory as before."""
    model = encoder(width=8, heads=2)
    first = [feed(1, k, 8) for k in (3, 4, 5)]
    session = h.run(folder, model, [*first, *(feed(1 + k % 9, 6 + k // 9, 8) for k in range(600)), *first])
    for k in range(3):
        h.equal_bits(session.outputs[k], session.outputs[k - 3], f"length {3 + k}")
    assert session.stats["compiles_after_load"] == 0
    largest = h.run(folder, model, [feed(9, 72, 8)])
    assert session.stats["peak_bytes"] <= 1.25 * largest.stats["peak_bytes"] + (1 << 20), (session.stats["peak_bytes"], largest.stats["peak_bytes"])


def test_no_operator_ties_two_dims_that_it_does_not_have_to(folder):
    """Every input has unnamed dims of sizes that differ: an equality from nowhere would refuse them, or compute with the wrong one."""
    rules = [("MatMul", "a b", [(3, 4), (4, 5)], {}), ("Gemm", "a b", [(3, 4), (5, 4)], {"transB": 1}), ("Add", "a b", [(3, 1, 4), (5, 1)], {}), ("Where", "c a b", [(3, 1), (1, 4), (5, 1, 1)], {}), ("Concat", "a b", [(3, 4), (3, 5)], {"axis": 1}),
             ("Gather", "a i", [(5, 4), (2, 3)], {"axis": 1}), ("GatherElements", "a i", [(5, 4), (5, 7)], {"axis": 1}), ("GatherND", "a i", [(3, 4, 5), (6, 1)], {}), ("Softmax", "a", [(3, 4)], {"axis": 0}), ("Transpose", "a", [(3, 4, 5)], {"perm": [2, 0, 1]}),
             ("ReduceSum", "a", [(3, 4)], {}), ("Conv", "a b", [(2, 3, 9), (4, 3, 5)], {}), ("ConvTranspose", "a b", [(2, 3, 9), (3, 4, 5)], {}), ("MaxPool", "a", [(2, 3, 9)], {"kernel_shape": [4]}), ("Einsum", "a b", [(2, 3, 4), (2, 4, 5)], {"equation": "bij,bjk->bik"}),
             ("LayerNormalization", "a b", [(3, 4), (4,)], {}), ("PRelu", "a b", [(2, 3, 5), (3, 1)], {}), ("Squeeze", "a", [(3, 1, 4)], {}), ("Flatten", "a", [(3, 4, 5)], {"axis": 2}), ("CumSum", "a k", [(3, 4), ()], {}), ("OneHot", "i k v", [(3, 4), (), (2,)], {}),
             ("DepthToSpace", "a", [(2, 8, 3, 5)], {"blocksize": 2}), ("Trilu", "a", [(3, 5)], {}), ("InstanceNormalization", "a b b2", [(2, 3, 5), (3,), (3,)], {}), ("BatchNormalization", "a b b2 b3 b4", [(2, 3, 5), (3,), (3,), (3,), (3,)], {}),
             ("GlobalAveragePool", "a", [(2, 3, 4, 5)], {}), ("ArgMax", "a", [(3, 4)], {"axis": 1}), ("Min", "a b b2", [(3, 1), (1, 4), (2, 1, 1)], {}), ("ScatterElements", "a i b", [(5, 4), (2, 3), (2, 3)], {"axis": 0})]
    for op, names, shapes, attributes in rules:
        kinds = {"i": h.INT64, "k": h.INT64, "c": h.BOOL}
        names = names.split()
        inputs = {name: (kinds.get(name[0], h.FLOAT), [None] * len(s)) for name, s in zip(names, shapes)}
        f = {}
        for name, s in zip(names, shapes):
            f[name] = (RNG.integers(0, 2, s) if name[0] in "ik" else RNG.random(s) < 0.5 if name[0] == "c" else np.abs(h.normal(RNG, *s)) + np.float32(0.1))
            if name == "k":
                f[name] = np.array(1 if op == "CumSum" else 6)
        model = h.model([h.helper.make_node(op, names, ["y"], **attributes)], inputs, ["y"])
        h.same(h.run_one(folder, model, f), h.oracle(model, f), op, atol=1e-4)


def causal_stages(count):
    """Stages y = x + tail of pad(x, 2 in front, e behind), where e, always 0, is computed in floats: ceil((n - 3) / 1 + 1) + 2 - n, as exporters write the padding of causal convolutions."""
    constants = {"three": np.int64(3), "one": np.float32(1), "two": np.int64(2), "at": np.int64(1), "first": np.array([0, 2, 0]), "axis0": np.array([0]), "axis1": np.array([1]), "from": np.array([1]), "to": np.array([-1])}
    nodes, x = [], "x"
    for k in range(count):
        t = lambda name: f"{name}{k}"
        nodes += [n("Shape", x, t("s")), n("Gather", f"{t('s')} at", t("n")), n("Sub", f"{t('n')} three", t("a")), n("Cast", t("a"), t("b"), to=h.FLOAT), n("Div", f"{t('b')} one", t("c")), n("Add", f"{t('c')} one", t("d")),
                  n("Ceil", t("d"), t("e")), n("Cast", t("e"), t("f"), to=h.INT64), n("Add", f"{t('f')} two", t("g")), n("Sub", f"{t('g')} {t('n')}", t("i")), n("Unsqueeze", f"{t('i')} axis0", t("j")), n("Concat", f"first {t('j')}", t("k"), axis=0),
                  n("Pad", f"{x} {t('k')}", t("p"), mode="reflect"), n("Slice", f"{t('p')} from to axis1", t("q")), n("Add", f"{x} {t('q')}", t("y"))]
        x = t("y")
    return h.model(nodes, {"x": (h.FLOAT, [None, None])}, [x], constants), x


def test_sizes_computed_in_floats_in_every_layer(folder):
    model, last = causal_stages(24)
    feeds = [{"x": h.normal(RNG, b, k)} for b, k in ((2, 9), (1, 3), (3, 40), (1, 1000), (5, 4))]
    for got, f in zip(h.run(folder, model, feeds).outputs, feeds):
        x = f["x"].astype(np.float64)
        for _ in range(24):
            x = x + np.pad(x, ((0, 0), (2, 0)), "reflect")[:, 1:-1]
        h.same(got[last], x.astype(np.float32), f"shape {x.shape}", rtol=1e-4, atol=1e-4 * np.abs(x).max())


if __name__ == "__main__":
    h.main()
