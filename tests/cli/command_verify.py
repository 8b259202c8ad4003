# SPDX-License-Identifier: Apache-2.0
"""stax verify: the levels of a model against each other; it ends with 0 where they agree."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import harness as h
import numpy as np


def encoder():
    rng = np.random.default_rng(2)
    nodes = [h.node("MatMul", "x q", "xq"), h.node("Transpose", "x", "xt", perm=[0, 2, 1]), h.node("MatMul", "xq xt", "s"), h.node("Softmax", "s", "p", axis=-1),
             h.node("MatMul", "p x", "c"), h.node("Add", "c x", "r"), h.node("LayerNormalization", "r g b", "y", axis=-1)]
    return h.model(nodes, {"x": (h.FLOAT, ["batch", "length", 16])}, ["y"],
                   {"q": h.normal(rng, 16, 16), "g": np.ones(16, np.float32), "b": np.zeros(16, np.float32)})


def test_levels_agree_on_given_inputs(folder):
    m = h.save(encoder(), folder / "m.onnx")
    rng = np.random.default_rng(1)
    files = []
    for b, n in [(1, 1), (2, 7), (0, 3), (3, 0), (1, 33)]:
        files.append(folder / f"{b}-{n}.npz")
        np.savez(files[-1], x=h.normal(rng, b, n, 16))
    done = h.stax("verify", m, "--inputs", *files).expect(0)
    assert done.err == "" and all(f.name in done.out for f in files), done.out + done.err


def test_levels_agree_on_random_inputs(folder):
    m = h.save(encoder(), folder / "m.onnx")
    done = h.stax("verify", m).expect(0)
    assert "seed" in done.out and "agree" in done.out, done.out
    seed = done.out.split("seed ")[1].split()[0]
    assert h.stax("verify", m, "--seed", seed).expect(0).out == done.out, "a seed gives the same run again"


def test_random_inputs_keep_to_ranges(folder):
    m = h.save(encoder(), folder / "m.onnx")
    h.stax("verify", m, "--dim", "batch=2", "--dim", "length=5..6", "--threads", "1").expect(0)


def test_a_model_with_sequences_and_integers(folder):
    m = h.model([h.node("SplitToSequence", "x", "parts", axis=0, keepdims=1), h.node("SequenceLength", "parts", "n"), h.node("ArgMax", "x", "best", axis=1),
                 h.node("Mod", "k three", "rest")], {"x": (h.FLOAT, ["n", 4]), "k": (h.INT64, ["m"])}, ["parts", "n", "best", "rest"], {"three": np.array(3)})
    h.stax("verify", h.save(m, folder / "m.onnx")).expect(0)


def test_random_inputs_find_shapes_that_the_model_takes(folder):
    """Two dims that are related: only some random extents are legal."""
    m = h.model([h.node("Add", "a b", "y"), h.node("Reshape", "y pairs", "z")], {"a": (h.FLOAT, ["n"]), "b": (h.FLOAT, ["m"])}, ["z"], {"pairs": np.array([-1, 2])})
    h.stax("verify", h.save(m, folder / "m.onnx"), "--dim", "n=0..6", "--dim", "m=0..6").expect(0)


def test_faults(folder):
    m = h.save(encoder(), folder / "m.onnx")
    np.savez(folder / "bad.npz", y=np.ones(3))
    np.savez(folder / "good.npz", x=np.ones((1, 2, 16), np.float32))
    h.stax("verify").expect(2, "model")
    h.stax("verify", m, "--inputs", folder / "bad.npz").expect(1, "bad.npz", "'x'")
    h.stax("verify", m, "--inputs", folder / "no.npz").expect(1, "no.npz")
    h.stax("compile", m, "-o", folder / "m.stax", "--target", "cpu:native").expect(0)
    h.stax("verify", folder / "m.stax", "--inputs", folder / "good.npz").expect(1, "m.stax")


if __name__ == "__main__":
    h.main()
