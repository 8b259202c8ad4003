# SPDX-License-Identifier: Apache-2.0
"""--dim: ranges of named dims and of unnamed ones, and what violates them."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import harness as h
import numpy as np


def model():
    """pixels [batch, ?, 3, channels], offsets [?]"""
    return h.model([h.node("Neg", "pixels", "y"), h.node("Exp", "offsets", "z")], {"pixels": (h.FLOAT, ["batch", None, 3, "channels"]), "offsets": (h.FLOAT, [None])}, ["y", "z"])


def feed(batch, height, channels, offsets):
    return {"pixels": np.ones((batch, height, 3, channels), np.float32), "offsets": np.zeros(offsets, np.float32)}


def test_forms(folder):
    for flags in (["batch=2"], ["batch=1..8"], ["batch=2..2"], ["batch=0..2147483647"], ["batch=2", "--dim", "channels=4..5"], ["pixels[1]=7"], ["pixels[1]=1..7", "--dim", "offsets[0]=3"]):
        got = h.run_one(folder, model(), feed(2, 7, 4, 3), "--dim", *flags)
        h.same(got, {"y": -np.ones((2, 7, 3, 4), np.float32), "z": np.ones(3, np.float32)}, str(flags))


def test_outside_of_a_range(folder):
    for flag, words in (("batch=3", ["'batch'", "2", "3"]), ("batch=3..8", ["'batch'", "2", "3..8"]), ("pixels[1]=1..6", ["pixels[1]", "7", "1..6"]), ("offsets[0]=4..9", ["offsets[0]", "3", "4..9"])):
        session = h.run(folder, model(), [feed(2, 7, 4, 3)], "--dim", flag, status=1)
        session.done.expect(1, *words)
        assert session.outputs == [None]


def test_range_and_good_calls_after_a_bad_one(folder):
    feeds = [feed(b, 2, 1, 1) for b in (1, 9, 0, 8, 3)]
    session = h.run(folder, model(), feeds, "--dim", "batch=1..8", status=1)
    assert [o is not None for o in session.outputs] == [True, False, False, True, True]


def test_malformed(folder):
    m = h.save(model(), folder / "m.onnx")
    np.savez(folder / "a.npz", **feed(2, 7, 4, 3))
    for text, words in (("batch", ["batch", "="]), ("batch=", ["batch="]), ("=3", ["=3"]), ("batch=eight", ["eight"]), ("batch=1..", ["batch=1.."]), ("batch=..3", ["batch=..3"]),
                        ("batch=9..2", ["batch", "9", "2"]), ("batch=-1", ["-1"]), ("batch=1.5", ["1.5"]), ("batch=1...3", ["1...3"]), ("batch=99999999999999999999", ["99999999999999999999"]),
                        ("batch=0..4294967296000000000000", ["batch"]), ("batch=1..2147483648", ["2147483648", "2147483647"]), ("length=1..4", ["length", "batch", "channels", "pixels[1]"]), ("pixels[0]=1..4", ["pixels[0]", "batch"]),
                        ("pixels[2]=1..4", ["pixels[2]", "3"]), ("pixels[4]=1..4", ["pixels[4]"])):
        done = h.stax("run", m, "--inputs", folder / "a.npz", "--dim", text)
        assert done.status in (1, 2), f"{text}: exit {done.status}"
        done.expect(done.status, *words)
    h.stax("run", m, "--inputs", folder / "a.npz", "--dim", "batch=1", "--dim", "batch=2").expect(1, "batch", "twice")


def test_a_name_with_an_equals_sign_and_dots(folder):
    m = h.model([h.node("Neg", "x", "y")], {"x": (h.FLOAT, ["a=b..c", "é, 'quoted'"])}, ["y"])
    got = h.run_one(folder, m, {"x": np.ones((2, 3), np.float32)}, "--dim", "a=b..c=1..4", "--dim", "é, 'quoted'=3")
    h.same(got, {"y": -np.ones((2, 3), np.float32)})
    h.run(folder, m, [{"x": np.ones((2, 3), np.float32)}], "--dim", "a=b..c=3..4", status=1).done.expect(1, "'a=b..c'", "2", "3..4")


def test_a_dim_of_several_inputs_is_one_dim(folder):
    m = h.model([h.node("ReduceSum", "left axis", "l", keepdims=1), h.node("ReduceSum", "right axis", "r", keepdims=1), h.node("Add", "l r", "y")],
                {"left": (h.FLOAT, ["batch", 3]), "right": (h.FLOAT, ["batch", 4])}, ["y"], {"axis": np.array([1])})
    session = h.run(folder, m, [{"left": np.ones((2, 3), np.float32), "right": np.ones((1, 4), np.float32)}, {"left": np.ones((2, 3), np.float32), "right": np.ones((2, 4), np.float32)}], status=1)
    session.done.expect(1, "'batch'", "'left'", "'right'", "2", "1")
    assert session.outputs[0] is None
    h.same(session.outputs[1], {"y": np.full((2, 1), 7, np.float32)})


def fixed_width(folder):
    m = h.model([h.node("MatMul", "x w", "y", name="project")], {"x": (h.FLOAT, ["batch", "width"])}, ["y"], {"w": np.ones((4, 3), np.float32)})
    np.savez(folder / "a.npz", x=np.ones((2, 4), np.float32))
    return h.save(m, folder / "m.onnx")


def test_a_size_that_the_graph_cannot_use_is_refused_at_the_call(folder):
    session = h.run(folder, fixed_width(folder), [{"x": np.ones((2, n), np.float32)} for n in (4, 5, 0, 4)], status=1)
    assert [o is not None for o in session.outputs] == [True, False, False, True]
    h.same(session.outputs[3], {"y": np.full((2, 3), 4, np.float32)})
    session.done.expect(1, "project", "'x'", "5", "4")


def test_a_dim_that_the_graph_can_use_at_one_size_only_is_said_at_once(folder):
    h.stax("run", fixed_width(folder), "--inputs", folder / "a.npz").expect(0, "warning", "width", "project", "4")


def test_declaring_that_dim_dynamic_is_an_error(folder):
    m = fixed_width(folder)
    h.stax("run", m, "--inputs", folder / "a.npz", "--dim", "width=4").expect(0)
    h.stax("run", m, "--inputs", folder / "a.npz", "--dim", "width=1..8").expect(1, "width", "project", "4")


if __name__ == "__main__":
    h.main()
