# SPDX-License-Identifier: Apache-2.0
"""stax compile: a file that runs as the model does, and is never trusted."""
import os
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import harness as h
import numpy as np


def attention():
    """Matrix products, a softmax over a mask, a run-time reshape, a data-dependent extent, a loop: every kind of step."""
    rng = np.random.default_rng(7)
    step = h.body([h.node("MatMul", "state r", "a"), h.node("Tanh", "a", "next"), h.node("Identity", "go", "go_on"), h.node("ReduceSum", "next", "sum", keepdims=0)],
                  {"i": (h.INT64, []), "go": (h.BOOL, []), "state": (h.FLOAT, ["n", 8])}, {"go_on": (h.BOOL, []), "next": (h.FLOAT, ["n", 8]), "sum": (h.FLOAT, [])})
    nodes = [h.node("MatMul", "x w", "s"), h.node("Add", "s mask", "sm"), h.node("Softmax", "sm", "p", axis=-1), h.node("MatMul", "p w2", "o"),
             h.node("Loop", "trips - o", "final sums", body=step), h.node("Reshape", "final shape", "y"), h.node("Greater", "final zero", "positive"),
             h.node("NonZero", "positive", "where"), h.node("SequenceConstruct", "x o", "both")]
    constants = {"w": h.normal(rng, 8, 8), "w2": h.normal(rng, 8, 8), "r": h.normal(rng, 8, 8) / 3, "zero": np.float32(0)}
    model = h.model(nodes, {"x": (h.FLOAT, ["n", 8]), "mask": (h.FLOAT, [8]), "trips": (h.INT64, []), "shape": (h.INT64, [None])},
                    ["y", "sums", "where", "both"], constants)
    return model


def feeds():
    rng = np.random.default_rng(8)
    return [{"x": h.normal(rng, n, 8), "mask": np.where(rng.random(8) < 0.3, -np.inf, 0).astype(np.float32), "trips": np.array(t), "shape": np.array(s)}
            for n, t, s in [(3, 2, [-1]), (1, 0, [2, 4]), (0, 3, [0, 8]), (37, 5, [37, 2, 4])]]


def test_a_compiled_file_runs_as_the_model(folder):
    path = h.save(attention(), folder / "m.onnx")
    done = h.stax("compile", path, "-o", folder / "sub" / "m.stax").expect(0)
    assert done.out == "" and done.err == "", done.out + done.err
    direct, shipped = h.run(folder, path, feeds()), h.run(folder, folder / "sub" / "m.stax", feeds())
    for k, (a, b) in enumerate(zip(shipped.outputs, direct.outputs)):
        h.same(a, b, f"call {k}", rtol=1e-5)
    assert shipped.stats["compile_ms"] == 0 and shipped.stats["load_ms"] > 0 and shipped.stats["kernels"] == direct.stats["kernels"]
    by_loops = h.run(folder, folder / "sub" / "m.stax", feeds(), "--device", "loop")
    for k, (a, b) in enumerate(zip(by_loops.outputs, direct.outputs)):
        h.same(a, b, f"loop device, call {k}", rtol=1e-4)


def test_native_target(folder):
    path = h.save(attention(), folder / "m.onnx")
    h.stax("compile", path, "-o", folder / "m.stax", "--target", "cpu:native").expect(0)
    for got, want in zip(h.run(folder, folder / "m.stax", feeds()).outputs, h.run(folder, path, feeds()).outputs):
        h.equal_bits(got, want)


def test_compiling_twice_gives_the_same_bytes(folder):
    path = h.save(attention(), folder / "m.onnx")
    for name in ("a", "b"):
        h.stax("compile", path, "-o", folder / f"{name}.stax").expect(0)
    assert (folder / "a.stax").read_bytes() == (folder / "b.stax").read_bytes()


def test_ranges_travel_with_the_file(folder):
    path = h.save(attention(), folder / "m.onnx")
    h.stax("compile", path, "-o", folder / "m.stax", "--dim", "n=1..5").expect(0)
    session = h.run(folder, folder / "m.stax", feeds(), status=1)
    assert [o is not None for o in session.outputs] == [True, True, False, False]
    session.done.expect(1, "'n'", "37", "1..5")
    h.run(folder, folder / "m.stax", feeds()[:1], "--dim", "n=1..9", status=1).done.expect(1, "--dim", "m.stax")


def test_damaged_files_are_the_users_fault(folder):
    path = h.save(attention(), folder / "m.onnx")
    h.stax("compile", path, "-o", folder / "m.stax", "--target", "cpu:native").expect(0)
    good = (folder / "m.stax").read_bytes()
    np.savez(folder / "a.npz", **feeds()[0])
    rng = np.random.default_rng(3)
    damaged = {"half": good[: len(good) // 2], "head": good[:8], "nothing after the description": good[:4000], "longer": good + b"x",
               "another version": good[:8] + b"\x63" + good[9:]}
    for k in range(12):
        data = bytearray(good)
        data[int(rng.integers(8, len(good)))] ^= 1 << int(rng.integers(8))
        damaged[f"flip {k}"] = bytes(data)
    for name, data in damaged.items():
        bad = folder / "bad.stax"
        bad.write_bytes(data)
        done = h.stax("run", bad, "--inputs", folder / "a.npz", "--outputs", folder / "out")
        assert done.status == 1 and "bad.stax" in done.err, f"{name}: exit {done.status}: {done.err}"
        assert not (folder / "out" / "a.npz").exists()


def test_what_no_compiled_file_can_do(folder):
    path = h.save(attention(), folder / "m.onnx")
    h.stax("compile", path, "-o", folder / "m.stax", "--target", "cpu:native").expect(0)
    np.savez(folder / "a.npz", **feeds()[0])
    h.stax("run", folder / "m.stax", "--inputs", folder / "a.npz", "--device", "reference").expect(1, "reference", "m.stax")
    h.stax("compile", folder / "m.stax", "-o", folder / "n.stax").expect(1, "m.stax", "compiled program")
    h.stax("dump", folder / "m.stax", "--stage", "tensor").expect(1, "m.stax", "compiled program")


def test_nothing_is_left_where_compiling_fails(folder):
    bad = h.save(h.model([h.node("Frobnicate", "x", "y", domain="acme")], {"x": (h.FLOAT, ["n"])}, ["y"], domains=["acme"]), folder / "bad.onnx")
    h.stax("compile", bad, "-o", folder / "out.stax").expect(1, "unsupported:", "Frobnicate")
    good = h.save(attention(), folder / "m.onnx")
    h.stax("compile", good).expect(2, "--output")
    h.stax("compile", good, "-o", folder / "out.stax", "--target", "cuda:sm_90b").expect(1, "no target", "cuda:sm_90b", "did you mean")
    h.stax("compile", good, "-o", folder / "out.stax", "--dim", "m=1..2").expect(1, "'m'", "n")
    h.stax("compile", good, "-o", "/proc/none/out.stax").expect(1, "/proc/none")
    assert sorted(p.name for p in folder.iterdir()) == ["bad.onnx", "m.onnx"]


def test_no_file_that_is_read_is_overwritten(folder):
    model = h.save(h.model([h.node("Relu", "x", "y")], {"x": (h.FLOAT, ["n"])}, ["y"]), folder / "m.onnx")
    before = model.read_bytes()
    np.savez(folder / "a.npz", x=np.ones(3, np.float32))
    (folder / "link").symlink_to(model)
    for command in (["compile", model, "-o", model], ["compile", model, "-o", folder / "link"], ["run", model, "--inputs", folder / "a.npz", "--json", model],
                    ["bench", model, "--json", model], ["report", model, "-o", model], ["doctor", model, "--at", "n=4", "--json", model]):
        h.stax(*command).expect(1, "would overwrite", "m.onnx")
        assert model.read_bytes() == before


def test_links_are_followed_and_pipes_written_into(folder):
    model = h.save(h.model([h.node("Relu", "x", "y")], {"x": (h.FLOAT, ["n"])}, ["y"]), folder / "m.onnx")
    (folder / "there").mkdir()
    (folder / "link.stax").symlink_to("there/m.stax")
    h.stax("compile", model, "-o", folder / "link.stax").expect(0)
    assert (folder / "link.stax").is_symlink() and (folder / "there" / "m.stax").is_file()
    # No file takes the place of a pipe: who reads it gets the bytes.
    os.mkfifo(folder / "pipe")
    got = []
    reader = threading.Thread(target=lambda: got.append((folder / "pipe").read_bytes()))
    reader.start()
    h.stax("compile", model, "-o", folder / "pipe").expect(0)
    reader.join(60)
    assert got == [(folder / "there" / "m.stax").read_bytes()] and (folder / "pipe").is_fifo()


def test_text_of_the_tensor_ir_is_a_model(folder):
    m = h.model([h.node("MatMul", "x w", "t"), h.node("Softmax", "t", "y", axis=-1), h.node("Shape", "y", "s"), h.node("ReduceProd", "s", "count", keepdims=0)],
                {"x": (h.FLOAT, ["n", 4])}, ["y", "count"], {"w": np.arange(12, dtype=np.float32).reshape(4, 3) / 5})
    path = h.save(m, folder / "m.onnx")
    given = [{"x": np.arange(4 * n, dtype=np.float32).reshape(n, 4) / 7} for n in (3, 0, 1)]
    for stage in ("import", "tensor"):
        text = h.stax("dump", path, "--stage", stage).expect(0).out
        (folder / "m.stax").write_text(text)
        for device in ("cpu", "reference"):
            for got, want in zip(h.run(folder, folder / "m.stax", given, "--device", device).outputs, h.run(folder, path, given).outputs):
                h.same(got, want, stage)
    h.run(folder, folder / "m.stax", given[:1], "--dim", "n=1..9", status=1).done.expect(1, "--dim")
    (folder / "bad.stax").write_text(text.replace("= compute", "= compote", 1))
    h.run(folder, folder / "bad.stax", given[:1], status=1).done.expect(1, "bad.stax", "compote")
    (folder / "empty.stax").write_text("")
    h.run(folder, folder / "empty.stax", given[:1], status=1).done.expect(1, "empty.stax")
    h.run(folder, h.save(attention(), folder / "large.onnx"), feeds())
    (folder / "large.stax").write_text(h.stax("dump", folder / "large.onnx", "--stage", "import").expect(0).out)
    h.run(folder, folder / "large.stax", feeds()[:1], status=1).done.expect(1, "large.stax", "checksum")


if __name__ == "__main__":
    h.main()
