# SPDX-License-Identifier: Apache-2.0
"""Names of values, nodes, dims and files: any text works everywhere."""
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import harness as h
import numpy as np

NAMES = ["serving_default_input_2:0", "onnx::Flatten_0", "a, b", "it's", 'say "hi"', "back\\slash", "ünïcode 日本語 🙂", "with space ", "a/b/c", "{0} {name} %s %d", "tab\there", "x[0]", "return", "%y",
         "// comment", "n" * 300, "-", "*", "..", "new\nline", "{curly} {9} {}"]


def model(inside, outside, node_name, dim):
    nodes = [h.helper.make_node("Exp", [inside], ["t: " + outside], name=node_name), h.helper.make_node("Softmax", ["t: " + outside], [outside], axis=-1, name=node_name)]
    return h.model(nodes, {inside: (h.FLOAT, [dim, 3])}, {outside: (h.FLOAT, [dim, 3])})


def softmax(x):
    e = np.exp(np.exp(x))
    return (e / e.sum(1, keepdims=True)).astype(np.float32)


def test_any_name_of_inputs_outputs_nodes_and_dims(folder):
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    for k, name in enumerate(NAMES):
        m = model(name, "out " + name, name, name)
        session = h.run(folder, m, [{name: x}])
        h.same(session.outputs[0], {"out " + name: softmax(x)}, repr(name), rtol=1e-5)
        assert session.stats["inputs"][0]["shapes"] == {name: [2, 3]}, session.stats["inputs"]
        if k % 4 == 0:          # every level prints and reads it
            path = h.save(m, folder / "m.onnx")
            text = h.stax("dump", path, "--stage", "tensor,loop,llvm,plan").expect(0).out
            h.stax("dump", path, "--stage", "import").expect(0)
            (folder / "t.stax").write_text(h.stax("dump", path, "--stage", "import").out)
            h.same(h.run_one(folder, folder / "t.stax", {name: x}), {"out " + name: softmax(x)}, f"IR text of {name!r}", rtol=1e-5)
            h.stax("compile", path, "-o", folder / "c.stax", "--target", "cpu:native").expect(0)
            h.same(h.run_one(folder, folder / "c.stax", {name: x}, "--device", "loop"), {"out " + name: softmax(x)}, f"compiled {name!r}", rtol=1e-4)
            assert text.strip()


def test_messages_hold_the_name_as_it_is(folder):
    for name in [n for n in NAMES if "{0}" not in n]:
        m = h.model([h.helper.make_node("Reshape", [name, "shape"], ["y"], name=name)], {name: (h.FLOAT, ["n"]), "shape": (h.INT64, [2])}, ["y"])
        h.run(folder, m, [{name: np.ones(6, np.float32), "shape": np.array([4, 2])}], status=1).done.expect(1, name, "6", "[4, 2]")


@h.known_fault("in the messages of run-time checks, {0} and {1} in a name are taken for their arguments")
def test_messages_hold_a_name_that_looks_like_an_argument(folder):
    m = h.model([h.helper.make_node("Reshape", ["x{0}", "shape"], ["y"])], {"x{0}": (h.FLOAT, ["n"]), "shape": (h.INT64, [2])}, ["y"])
    h.run(folder, m, [{"x{0}": np.ones(6, np.float32), "shape": np.array([4, 2])}], status=1).done.expect(1, "'x{0}'")


def test_names_that_differ_only_where_identifiers_would_not(folder):
    """a:b, a.b, a_b and 'a b' are four inputs."""
    names = ["a:b", "a.b", "a_b", "a b", "a/b", "A:b"]
    nodes = [h.helper.make_node("Sum", names, ["y"])]
    feed = {n: np.full(2, 10.0**k, np.float32) for k, n in enumerate(names)}
    h.same(h.run_one(folder, h.model(nodes, {n: (h.FLOAT, ["n"]) for n in names}, ["y"]), feed), {"y": np.full(2, 111111, np.float32)})


def test_dims_of_one_name_in_different_case(folder):
    m = h.model([h.node("Add", "a b", "y")], {"a": (h.FLOAT, ["N"]), "b": (h.FLOAT, ["n"])}, ["y"])
    h.same(h.run_one(folder, m, {"a": np.ones(3, np.float32), "b": np.ones(1, np.float32)}), {"y": np.full(3, 2, np.float32)})


def test_nodes_without_a_name_and_with_one_name(folder):
    nodes = [h.node("Neg", "x", "a"), h.node("Neg", "a", "b", name=""), h.node("Neg", "b", "c", name="same"), h.node("Abs", "c", "y", name="same")]
    x = np.array([-1, 2], np.float32)
    h.same(h.run_one(folder, h.model(nodes, {"x": (h.FLOAT, ["n"])}, ["y"]), {"x": x}), {"y": np.abs(x)})


def test_names_of_files(folder):
    x = np.ones((2, 3), np.float32)
    odd = folder / "a, b's \"ünï\" {0} %s"
    odd.mkdir()
    m = h.save(model("x", "y", "n", "d"), odd / "the model.onnx")
    np.savez(odd / "in put.npz", x=x)
    np.savez(odd / "-dash.npz", x=x)
    h.stax("run", m, "--inputs", odd / "in put.npz", odd / "-dash.npz", "--outputs", odd / "out put", "--json", odd / "s {}.json").expect(0)
    for name in ("in put.npz", "-dash.npz"):
        h.same(h.load(odd / "out put" / name), {"y": softmax(x)}, rtol=1e-5)
    assert len(json.loads((odd / "s {}.json").read_text())["inputs"]) == 2
    h.stax("run", odd / "no {0} model.onnx", "--inputs", odd / "in put.npz").expect(1, "no {0} model.onnx")
    h.stax("compile", m, "-o", odd / "c d.stax", "--target", "cpu:native").expect(0)
    h.stax("run", odd / "c d.stax", "--inputs", odd / "in put.npz").expect(0)
    by_bytes = str(odd).encode() + b"/\xff\xfe.npz"         # a name that is no UTF-8
    Path(odd / "in put.npz").rename(by_bytes.decode("utf-8", "surrogateescape"))
    h.stax("run", m, "--inputs", by_bytes.decode("utf-8", "surrogateescape"), "--json", odd / "b.json", "--outputs", odd / "o").expect(0)
    json.loads((odd / "b.json").read_bytes())


def test_outputs_with_names_that_are_paths(folder):
    """Names of results are entries of an archive, never files."""
    m = h.model([h.node("Neg", ["x"], ["../../y"]), h.node("Abs", ["x"], ["/tmp/z"])], {"x": (h.FLOAT, ["n"])}, ["../../y", "/tmp/z"])
    got = h.run_one(folder, m, {"x": np.ones(2, np.float32)})
    h.same(got, {"../../y": -np.ones(2, np.float32), "/tmp/z": np.ones(2, np.float32)})


if __name__ == "__main__":
    h.main()
