# SPDX-License-Identifier: Apache-2.0
"""What is in ONNX files: wrong declarations, defaults, external data, functions, unsupported parts, mistakes."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import harness as h
import numpy as np
import onnx
from onnx import helper, numpy_helper

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def loud(folder, model, feed, *flags):
    path = h.save(model, folder / "m.onnx")
    np.savez(folder / "a.npz", **feed)
    done = h.stax("run", path, "--inputs", folder / "a.npz", "--outputs", folder / "out", *flags)
    return done, (h.load(folder / "out" / "a.npz") if (folder / "out" / "a.npz").exists() else None)


def test_declared_output_shapes_are_hints(folder):
    want = {"y": X.T.copy()}
    for dims, words in ((["n"], ["'y'", "rank 1", "rank 2"]), ([3, 5, 1], ["'y'", "rank 3"]), ([4, "n"], ["'y'", "4", "3"])):
        done, got = loud(folder, h.model([h.node("Transpose", "x", "y", perm=[1, 0])], {"x": (h.FLOAT, ["n", 3])}, {"y": (h.FLOAT, dims)}), {"x": X})
        done.expect(0, "warning", *words)
        h.same(got, want, str(dims))
    done, got = loud(folder, h.model([h.node("Transpose", "x", "y", perm=[1, 0])], {"x": (h.FLOAT, ["n", 3])}, {"y": (h.INT64, [3, "n"])}), {"x": X})
    done.expect(0, "warning", "'y'", "int64", "float32")
    h.same(got, want)


def test_right_declarations_say_nothing(folder):
    for dims in ([3, "n"], [None, None], ["a", "b"], [3, None]):
        done, _ = loud(folder, h.model([h.node("Transpose", "x", "y", perm=[1, 0])], {"x": (h.FLOAT, ["n", 3])}, {"y": (h.FLOAT, dims)}), {"x": X})
        assert done.expect(0).err == "", done.err


def test_an_initializer_that_is_an_input_too(folder):
    """Old files list their weights among the inputs: a default, which no caller has to give."""
    m = h.model([h.node("Add", "x w", "y")], {"x": (h.FLOAT, ["n", 3]), "w": (h.FLOAT, [3])}, ["y"], {"w": np.array([1, 2, 3], np.float32)})
    h.same(h.run_one(folder, m, {"x": X}), {"y": X + np.array([1, 2, 3], np.float32)})


def test_external_data(folder):
    w, b = np.random.default_rng(1).standard_normal((3, 500)).astype(np.float32), np.arange(500, dtype=np.float32)
    m = h.model([h.node("MatMul", "x w", "t"), h.node("Add", "t b", "y")], {"x": (h.FLOAT, ["n", 3])}, ["y"], {"w": w, "b": b})
    (folder / "model").mkdir()
    onnx.save_model(m, folder / "model" / "m.onnx", save_as_external_data=True, all_tensors_to_one_file=True, location="sub weights.bin", size_threshold=0)
    assert (folder / "model" / "sub weights.bin").stat().st_size >= w.nbytes + b.nbytes
    h.same(h.run_one(folder, folder / "model" / "m.onnx", {"x": X}), {"y": X @ w + b})
    h.same(h.run_one(folder, Path("m.onnx"), {"x": X}, cwd=folder / "model"), {"y": X @ w + b}, "from the model's own folder")
    (folder / "model" / "sub weights.bin").write_bytes(b"short")
    np.savez(folder / "a.npz", x=X)
    h.stax("run", folder / "model" / "m.onnx", "--inputs", folder / "a.npz").expect(1, "sub weights.bin")
    (folder / "model" / "sub weights.bin").unlink()
    h.stax("run", folder / "model" / "m.onnx", "--inputs", folder / "a.npz").expect(1, "sub weights.bin")


def test_external_data_stays_in_the_models_folder(folder):
    (folder / "secret").write_bytes(np.ones(3, np.float32).tobytes())
    (folder / "model").mkdir()
    for location in ("../secret", str(folder / "secret"), "x/../../secret"):
        m = h.model([h.node("Add", "x w", "y")], {"x": (h.FLOAT, ["n", 3])}, ["y"], {"w": np.ones(3, np.float32)})
        tensor = m.graph.initializer[0]
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        for key, value in (("location", location), ("offset", "0"), ("length", "12")):
            entry = tensor.external_data.add()
            entry.key, entry.value = key, value
        np.savez(folder / "a.npz", x=X)
        h.stax("run", h.save(m, folder / "model" / "m.onnx"), "--inputs", folder / "a.npz").expect(1, location)


def test_local_functions(folder):
    scale = helper.make_function("mine", "ScaleShift", ["v", "s"], ["r"], [h.node("Mul", "v s", "t"), helper.make_node("Constant", [], ["c"], value_float=1.0), h.node("Add", "t c", "r")], [helper.make_opsetid("", 18)])
    twice = helper.make_function("mine", "Twice", ["v"], ["r"], [helper.make_node("ScaleShift", ["v", "v"], ["t"], domain="mine"), helper.make_node("ScaleShift", ["t", "t"], ["r"], domain="mine")],
                                 [helper.make_opsetid("", 18), helper.make_opsetid("mine", 1)])
    m = h.model([h.node("Twice", "x", "y", domain="mine")], {"x": (h.FLOAT, ["n", 3])}, ["y"], functions=[scale, twice], domains=["mine"])
    t = X * X + 1
    h.same(h.run_one(folder, m, {"x": X}), {"y": t * t + 1})


def test_a_function_with_attributes(folder):
    leaky = helper.make_function("mine", "Leaky", ["v"], ["r"], [helper.make_node("LeakyRelu", ["v"], ["r"])], [helper.make_opsetid("", 18)], ["slope"])
    attribute = leaky.node[0].attribute.add()
    attribute.name, attribute.ref_attr_name, attribute.type = "alpha", "slope", onnx.AttributeProto.FLOAT
    m = h.model([h.node("Leaky", "x", "y", domain="mine", slope=0.5)], {"x": (h.FLOAT, ["n"])}, ["y"], functions=[leaky], domains=["mine"])
    h.same(h.run_one(folder, m, {"x": np.array([-2, 2], np.float32)}), {"y": np.array([-1, 2], np.float32)})


def test_all_that_is_unsupported_is_listed_at_once(folder):
    inside = h.body([h.node("Whirl", "x", "b", domain="acme")], {}, {"b": (h.FLOAT, None)})
    other = h.body([h.node("Identity", "x", "b")], {}, {"b": (h.FLOAT, None)})
    nodes = [h.node("Frobnicate", "x", "t", domain="acme", name="first"), h.node("Frobnicate", "t", "t2", domain="acme", name="second"),
             h.node("If", "c", "u", then_branch=inside, else_branch=other), h.node("Add", "t2 u", "y"), h.node("Cast", "x", "text", to=h.TensorProto.STRING)]
    m = h.model(nodes, {"x": (h.FLOAT, ["n"]), "c": (h.BOOL, [])}, ["y", "text"], domains=["acme"])
    done, got = loud(folder, m, {"x": X[0], "c": np.array(True)})
    done.expect(1, "Frobnicate", "first", "second", "Whirl", "string")
    assert done.err.split(": ", 1)[1].startswith("unsupported:"), done.err
    assert got is None and len(done.err.splitlines()) <= 40


@h.known_fault("unsupported inputs are reported before the nodes are looked at")
def test_unsupported_inputs_are_listed_with_the_nodes(folder):
    m = h.model([h.node("Frobnicate", "x", "y", domain="acme")], {"x": (h.FLOAT, ["n"]), "s": (h.TensorProto.STRING, ["m"])}, ["y"], domains=["acme"])
    loud(folder, m, {"x": X[0]})[0].expect(1, "Frobnicate", "'s'")


def test_versions(folder):
    for change, word in ((dict(opset=99), "99"), (dict(opset=13), "Gelu")):
        done, _ = loud(folder, h.model([h.node("Gelu", "x", "y")], {"x": (h.FLOAT, ["n", 3])}, ["y"], **change), {"x": X})
        done.expect(1, word)
    m = h.model([h.node("Neg", "x", "y")], {"x": (h.FLOAT, ["n", 3])}, ["y"])
    m.ir_version = 99
    loud(folder, m, {"x": X})[0].expect(1, "99")


def test_mistakes_in_graphs_name_the_culprit(folder):
    x = {"x": (h.FLOAT, ["n", 3])}
    cases = [([h.node("Add", "x ghost", "y")], "ghost"), ([h.node("Add", "x b", "a", name="left"), h.node("Add", "a x", "b"), h.node("Neg", "b", "y")], "'b'"),
             ([h.node("Neg", "x", "y"), h.node("Exp", "x", "y")], "'y'"), ([h.node("Neg", "x", "t")], "'y'"), ([h.node("Softmax", "x", "y", axis=7, name="scores")], "scores"),
             ([h.node("Transpose", "x", "y", perm=[0, 0], name="turn")], "turn"), ([h.node("Concat", "x", "y", name="lacks")], "axis"),
             ([h.node("Cast", "x", "y", to=4711)], "4711")]
    for nodes, word in cases:
        done, got = loud(folder, h.model(nodes, x, ["y"]), {"x": X})
        done.expect(1, word)
        assert got is None and 15 < len(done.err) < 4000


@h.known_fault("inputs past those of the operator are ignored")
def test_a_node_with_too_many_inputs(folder):
    loud(folder, h.model([h.node("Neg", "x x", "y", name="two")], {"x": (h.FLOAT, ["n", 3])}, ["y"]), {"x": X})[0].expect(1, "two")


def test_outputs_that_are_inputs_constants_or_the_same_value(folder):
    nodes = [h.node("Identity", "x", "same"), h.node("Neg", "x", "y"), h.node("Identity", "y", "y2"), h.node("Identity", "w", "w2"), h.node("Reshape", "x flat", "view")]
    m = h.model(nodes, {"x": (h.FLOAT, ["n", 3])}, ["same", "y", "y2", "w2", "x", "w", "view"], {"w": np.arange(3, dtype=np.int32), "flat": np.array([-1])})
    w = np.arange(3, dtype=np.int32)
    h.same(h.run_one(folder, m, {"x": X}), {"same": X, "y": -X, "y2": -X, "w2": w, "x": X, "w": w, "view": X.reshape(-1)})


def test_unused_inputs_are_checked_all_the_same(folder):
    m = h.model([h.node("Neg", "x", "y")], {"x": (h.FLOAT, ["n"]), "unused": (h.INT64, ["n", 2])}, ["y"])
    h.same(h.run_one(folder, m, {"x": X[0], "unused": np.zeros((3, 2), np.int64)}), {"y": -X[0]})
    for wrong in (np.zeros((4, 2), np.int64), np.zeros((3, 2), np.int32), np.zeros(3, np.int64)):
        h.run(folder, m, [{"x": X[0], "unused": wrong}], status=1).done.expect(1, "'unused'")


def test_a_scalar_and_an_optional_that_is_absent(folder):
    m = h.model([h.node("Clip", "x - high", "y")], {"x": (h.FLOAT, ["n"]), "high": (h.FLOAT, [])}, ["y"])
    h.same(h.run_one(folder, m, {"x": X[0], "high": np.float32(1)}), {"y": np.minimum(X[0], 1)})


def test_typed_and_raw_initializers(folder):
    m = h.model([h.node("Add", "x a", "t"), h.node("Mul", "t b", "y")], {"x": (h.FLOAT, ["n", 3])}, ["y"])
    m.graph.initializer.append(helper.make_tensor("a", h.FLOAT, [3], [1.0, 2.0, 3.0]))
    m.graph.initializer.append(numpy_helper.from_array(np.float32(2), "b"))
    h.same(h.run_one(folder, m, {"x": X}), {"y": (X + np.array([1, 2, 3], np.float32)) * 2})
    m.graph.initializer[0].float_data.append(4.0)
    loud(folder, m, {"x": X})[0].expect(1, "'a'")


if __name__ == "__main__":
    h.main()
