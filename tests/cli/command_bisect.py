# SPDX-License-Identifier: Apache-2.0
"""stax bisect and stax replay on models that are right; tests/unit/bisect plants faults."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import harness as h
import numpy as np

GRAPH = """tensor_ir 1
symbol n: dim [0, 2147483647]
graph(%x: f32[n, 4]) {
  %y: f32[n, 4] = compute [i0: n, i1_4: 4] { mul(load0[i0, i1_4], 2.0:f32) } (%x) from "Mul node 'twice'"
  %z: f32[n] = compute [i0: n] sum<f64> [r0_4: 4] { cast<f64>(load0[i0, r0_4]) } epilogue { cast<f32>(acc:f64) } (%y) from "ReduceSum node 'all'"
  return %z as "z"
}
"""
INPUTS = """tensor_ir 1
graph() {
  %0: f32[2, 4] = constant {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0}
  return %0 as "x"
}
"""


def model(folder):
    rng = np.random.default_rng(2)
    nodes = [h.node("MatMul", "x q", "xq"), h.node("Transpose", "x", "xt", perm=[0, 2, 1]), h.node("MatMul", "xq xt", "s"), h.node("Softmax", "s", "p", axis=-1),
             h.node("MatMul", "p x", "c"), h.node("NonZero", "c", "where"), h.node("LayerNormalization", "c g b", "y", axis=-1)]
    return h.save(h.model(nodes, {"x": (h.FLOAT, ["batch", "length", 16])}, ["y", "where"],
                          {"q": h.normal(rng, 16, 16), "g": np.ones(16, np.float32), "b": np.zeros(16, np.float32)}), folder / "m.onnx")


def repro(folder, head, inputs=INPUTS, graph=GRAPH):
    path = folder / "crash.stax"
    path.write_text(f"stax_repro 1\n{head}\nfault \"it was\"\n" + (f"inputs\n{inputs}" if inputs else "") + f"model\n{graph}")
    return path


def test_levels_that_agree(folder):
    m = model(folder)
    rng = np.random.default_rng(1)
    files = []
    for b, n in [(1, 1), (2, 7), (0, 3), (3, 0), (1, 33)]:
        files.append(folder / f"{b}-{n}.npz")
        np.savez(files[-1], x=h.normal(rng, b, n, 16))
    done = h.stax("bisect", m, "--inputs", *files, "--threads", "2").expect(0)
    assert done.out.count("all levels agree") == len(files) and done.err == "", done.out + done.err
    assert not list(folder.glob("stax-repro*"))


def test_convolutions_of_equal_extents(folder):
    """Where channels, rows and columns are as many, a value that is laid out otherwise has the same type, and is another value all the same."""
    rng = np.random.default_rng(4)
    nodes, last = [], "x"
    for k in range(3):
        nodes += [h.node("Conv", f"{last} w{k}", f"c{k}", pads=[1, 1, 1, 1]), h.node("Relu", f"c{k}", f"r{k}")]
        last = f"r{k}"
    nodes.append(h.node("GlobalAveragePool", last, "y"))
    m = h.save(h.model(nodes, {"x": (h.FLOAT, ["n", 16, 16, 16])}, ["y", "r1"], {f"w{k}": h.normal(rng, 16, 16, 3, 3) for k in range(3)}), folder / "m.onnx")
    np.savez(folder / "a.npz", x=h.normal(rng, 2, 16, 16, 16))
    h.stax("bisect", m, "--inputs", folder / "a.npz").expect(0)


def test_control_flow_and_sequences(folder):
    m = h.model([h.node("SplitToSequence", "x", "parts", axis=0, keepdims=1), h.node("SequenceLength", "parts", "n"), h.node("ConcatFromSequence", "parts", "y", axis=0)],
                {"x": (h.FLOAT, ["n", 4])}, ["parts", "n", "y"])
    np.savez(folder / "a.npz", x=np.arange(12, dtype=np.float32).reshape(3, 4))
    h.stax("bisect", h.save(m, folder / "m.onnx"), "--inputs", folder / "a.npz").expect(0)


def test_a_repro_of_what_is_mended(folder):
    for head in ("pass fuse_ops", "pass canonicalize", "kernel simplify version 0"):
        out = h.stax("replay", repro(folder, head)).expect(0).out
        assert "it was" in out and "gone" in out, out
    assert "gone" in h.stax("replay", repro(folder, "pass fuse_ops", inputs=None)).expect(0).out


def test_a_repro_is_a_model(folder):
    path = repro(folder, "pass fuse_ops")
    assert "compute" in h.stax("dump", path, "--stage", "tensor").expect(0).out
    np.savez(folder / "a.npz", x=np.ones((3, 4), np.float32))
    h.stax("run", path, "--inputs", folder / "a.npz", "--outputs", folder / "out").expect(0)
    assert np.load(folder / "out" / "a.npz")["z"].tolist() == [8, 8, 8]


def test_faults(folder):
    m = model(folder)
    np.savez(folder / "bad.npz", x=np.ones(3, np.float32))
    h.stax("bisect", m).expect(1, "--inputs")
    h.stax("bisect", m, "--inputs", folder / "bad.npz").expect(1, "rank")
    h.stax("bisect", m, "--inputs", folder / "no.npz").expect(1, "no.npz")
    h.stax("bisect", m, "--inputs", folder / "bad.npz", "--emit", "hip").expect(2, "--emit")
    h.stax("bisect", m, "--inputs", folder / "bad.npz", "--emit", "cuda").expect(1, "--emit is for --device cuda")
    h.stax("replay").expect(2, "repro")
    h.stax("replay", m).expect(1, "stax_repro")
    h.stax("replay", repro(folder, "pass no_such_pass")).expect(1, "no_such_pass")
    h.stax("replay", repro(folder, "pass fuse_ops", graph="tensor_ir 1\nwhat?\n")).expect(1, "crash.stax")
    h.stax("replay", repro(folder, "hello")).expect(1, "crash.stax", "pass")
    (folder / "empty.stax").write_text("stax_repro 1\npass fuse_ops\nfault \"\"\n")
    h.stax("replay", folder / "empty.stax").expect(1, "model")


if __name__ == "__main__":
    h.main()
