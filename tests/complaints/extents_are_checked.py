# SPDX-License-Identifier: Apache-2.0
"""Extents that the graph relates: computed where they can be, checked at the call, refused with the numbers, and the session goes on."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import harness as h
import numpy as np

n = h.node
F, I = h.FLOAT, h.INT64
RNG = np.random.default_rng(23)


def test_a_reshape_whose_shape_is_made_at_run_time(folder):
    nodes = [n("Shape", "x", "s"), n("Gather", "s zero", "b"), n("Gather", "s one", "m"), n("Mul", "b m", "bm"), n("Concat", "bm minus", "t", axis=0), n("Reshape", "x t", "y"), n("Reshape", "x keep", "z"), n("Reshape", "x given", "u"), n("Reshape", "x given", "v", allowzero=1)]
    constants = {"zero": np.array([0]), "one": np.array([1]), "minus": np.array([-1]), "keep": np.array([0, -1, 2])}
    model = h.model(nodes, {"x": (F, [None, None, 6]), "given": (I, [None])}, ["y", "z", "u", "v"], constants)
    cases = [(1, 1, [6]), (2, 3, [-1]), (2, 3, [3, 2, 6]), (5, 7, [2, 3, 5, 7]), (1, 4, [4, -1, 3]), (3, 1, [18, 1])]
    for device in ("cpu", "loop", "reference"):
        feeds = [{"x": h.normal(RNG, b, m, 6), "given": np.array(g)} for b, m, g in cases]
        for got, f in zip(h.run(folder, model, feeds, "--device", device).outputs, feeds):
            x, g = f["x"], f["given"]
            h.same(got, {"y": x.reshape(-1, 6), "z": x.reshape(x.shape[0], -1, 2), "u": x.reshape(g), "v": x.reshape(g)}, f"{x.shape} to {g}")


def test_a_zero_in_a_shape_copies_or_is_a_zero(folder):
    for allow in (0, 1):
        model = h.model([n("Reshape", "x given", "y", allowzero=allow)], {"x": (F, [None, None]), "given": (I, [None])}, ["y"])
        good = [((2, 3), [0, 3], (2, 3)), ((2, 3), [0, 0], (2, 3)), ((2, 3), [0, -1, 1], (2, 3, 1)), ((0, 3), [0, 3], (0, 3)), ((0, 3), [0, 0], (0, 3))] if allow == 0 else [((0, 3), [0, 3], (0, 3)), ((0, 3), [3, 0], (3, 0)), ((0, 3), [5, 0, 7], (5, 0, 7)), ((2, 3), [3, 2], (3, 2))]
        bad = [((2, 3), [0, 4]), ((2, 3), [1, 1, 0])] if allow == 0 else [((2, 3), [0, 3]), ((2, 3), [0, 6])]
        feeds = [{"x": h.normal(RNG, *shape), "given": np.array(g)} for shape, g, _ in good] + [{"x": h.normal(RNG, *shape), "given": np.array(g)} for shape, g in bad]
        for device in ("cpu", "reference"):
            session = h.run(folder, model, feeds, "--device", device, status=1)
            for k, (shape, g, want) in enumerate(good):
                h.same(session.outputs[k], {"y": feeds[k]["x"].reshape(want)}, f"allowzero={allow}: {shape} to {g}")
            assert session.outputs[len(good):] == [None] * len(bad), f"allowzero={allow}"


def test_two_inputs_of_one_dim_are_not_accepted_with_different_sizes(folder):
    model = h.model([n("ReduceSum", "left axis", "l", keepdims=1), n("ReduceSum", "right axis", "r", keepdims=1), n("Add", "l r", "y")], {"left": (F, ["batch", 3]), "right": (F, ["batch", 4])}, ["y"], {"axis": np.array([1])})
    for device in ("cpu", "loop", "reference"):
        session = h.run(folder, model, [{"left": h.normal(RNG, 2, 3), "right": h.normal(RNG, 1, 4)}], "--device", device, status=1)
        session.done.expect(1, "batch", "left", "right", "2", "1")
        assert session.outputs == [None]


def test_integers_of_another_width_are_refused_and_not_reinterpreted(folder):
    model = h.model([n("Gather", "table at", "y", axis=0)], {"table": (F, [None, 2]), "at": (I, [None])}, ["y"])
    table = h.normal(RNG, 5, 2)
    for wrong in (np.int32, np.uint64, np.float64, np.int16):
        h.run(folder, model, [{"table": table, "at": np.array([1, 2], wrong)}], status=1).done.expect(1, "'at'", "int64", np.dtype(wrong).name)
    h.same(h.run_one(folder, model, {"table": table, "at": np.array([1, -1])}), {"y": table[[1, 4]]})


def test_wrong_declarations_of_outputs_decide_nothing(folder):
    """[1, n] for [n, 1, 7], and a rank that depends on the batch."""
    model = h.model([n("Reshape", "x s", "y"), n("Squeeze", "y", "z")], {"x": (F, ["n", 7])}, {"y": (F, [1, "n"]), "z": (F, ["n", 7])}, {"s": np.array([-1, 1, 7])})
    path = h.save(model, folder / "m.onnx")
    for batch in (3, 1, 4):
        x = h.normal(RNG, batch, 7)
        h.same(h.run_one(folder, path, {"x": x}), {"y": x.reshape(-1, 1, 7), "z": np.squeeze(x)}, f"batch {batch}")
    np.savez(folder / "a.npz", x=x)
    h.stax("run", path, "--inputs", folder / "a.npz").expect(0, "warning", "'y'", "rank 2", "rank 3")


def test_heights_that_do_not_fit_name_their_numbers_and_the_others_run(folder):
    """A skip connection over a pool and an upsampling: even heights run, odd ones cannot."""
    nodes = [n("MaxPool", "x", "p", kernel_shape=[2, 2], strides=[2, 2], name="down"), n("Resize", "p - scales", "u", mode="nearest", name="up"), n("Concat", "x u", "y", axis=1, name="skip")]
    model = h.model(nodes, {"x": (F, [1, 2, None, None])}, ["y"], {"scales": np.float32([1, 1, 2, 2])})
    heights = [32, 33, 64, 48, 31, 2, 3, 32]
    for device in ("cpu", "reference"):
        session = h.run(folder, model, [{"x": h.normal(RNG, 1, 2, height, 4)} for height in heights], "--device", device, status=1)
        assert [o is not None for o in session.outputs] == [height % 2 == 0 for height in heights], device
        session.done.expect(1, "skip", "33", "32", "31", "30", "axis 2")


def test_extents_of_different_dims_are_not_taken_as_equal(folder):
    model = h.model([n("Add", "a b", "y"), n("Mul", "a b", "z")], {"a": (F, [None, None]), "b": (F, [None, None])}, ["y", "z"])
    shapes = [((3, 1), (1, 4)), ((3, 4), (3, 4)), ((1, 1), (3, 4)), ((3, 4), (2, 4)), ((3, 4), (1, 4)), ((2, 4), (3, 4)), ((0, 4), (1, 4)), ((1, 4), (0, 1)), ((0, 4), (2, 4)), ((3, 1), (1, 4))]
    for device in ("cpu", "loop", "reference"):
        feeds = [{"a": h.normal(RNG, *a), "b": h.normal(RNG, *b)} for a, b in shapes]
        session = h.run(folder, model, feeds, "--device", device, status=1)
        for got, f, (a, b) in zip(session.outputs, feeds, shapes):
            try:
                want = {"y": f["a"] + f["b"], "z": f["a"] * f["b"]}
            except ValueError:
                assert got is None, f"{a} + {b} was accepted"
                continue
            h.same(got, want, f"{a} + {b}")


def test_after_a_failed_call_there_is_no_output_and_the_next_is_right(folder):
    """With one thread, too: no error is swallowed, nothing of the call before comes back."""
    model = h.model([n("Gather", "x at", "g", axis=0), n("Relu", "g", "r"), n("MatMul", "r w", "y")], {"x": (F, [None, 4]), "at": (I, [None]), "w": (F, [None, None])}, ["y"])
    w = h.normal(RNG, 4, 3)
    feed = lambda rows, at, w=w: {"x": h.normal(RNG, rows, 4), "at": np.array(at, np.int64), "w": w}
    feeds = [feed(5, [0, 4]), feed(5, [5]), feed(3, [2, 1, 0]), feed(3, [-4]), feed(3, [0], h.normal(RNG, 5, 3)), feed(0, [0]), feed(2, [1] * 40), feed(5, [0, 4])]
    for threads in ("1", "2"):
        session = h.run(folder, model, feeds, "--threads", threads, status=1)
        assert [o is not None for o in session.outputs] == [True, False, True, False, False, False, True, True]
        for got, f in zip(session.outputs, feeds):
            if got is not None:
                h.same(got, {"y": np.maximum(f["x"][f["at"]], 0) @ f["w"]}, atol=1e-5)
        session.done.expect(1, "index 5", "index -4", "'w'", "5", "4")


if __name__ == "__main__":
    h.main()
