# SPDX-License-Identifier: Apache-2.0
"""stax dump: every level of a model as text, to standard output or one file a kernel."""
import json
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import harness as h
import numpy as np


def perceptron(folder):
    rng = np.random.default_rng(5)
    return h.save(h.model([h.node("MatMul", "x w", "t", name="first"), h.node("Relu", "t", "u", name="clamp"), h.node("Softmax", "u", "y", axis=-1, name="scores")],
                          {"x": (h.FLOAT, ["n", 8])}, ["y"], {"w": h.normal(rng, 8, 64)}), folder / "m.onnx")


def test_every_stage_says_what_it_is(folder):
    m = perceptron(folder)
    marks = {"import": "tensor_ir", "tensor": "compute", "loop": "parallel", "llvm": "define", "asm": "ret", "plan": "launch"}
    for stage, mark in marks.items():
        done = h.stax("dump", m, "--stage", stage).expect(0)
        assert mark in done.out and done.err == "", f"{stage}: {done.out[:200]}{done.err}"
    both = h.stax("dump", m, "--stage", "tensor,plan").expect(0).out
    assert both.index("// stage tensor") < both.index("// stage plan")


def test_dumps_do_not_depend_on_the_run(folder):
    m = perceptron(folder)
    for stage in ("tensor", "loop", "asm", "plan"):
        assert h.stax("dump", m, "--stage", stage).out == h.stax("dump", m, "--stage", stage).out, stage


def test_what_extents_share_is_written_once(folder):
    """Each level's extent is made of two parts of the one before: spelt out, the last would have thousands of terms."""
    nodes, at = [], "x"
    for k in range(14):
        nodes += [h.node("Shape", at, f"s{k}"), h.node("Div", f"s{k} two", f"a{k}"), h.node("Div", f"s{k} three", f"b{k}"),
                  h.node("Slice", f"{at} zero a{k}", f"p{k}"), h.node("Slice", f"{at} zero b{k}", f"q{k}"), h.node("Concat", f"p{k} q{k} x", f"y{k}", axis=0)]
        at = f"y{k}"
    m = h.model(nodes, {"x": (h.FLOAT, ["n"])}, [at], {"zero": np.array([0]), "two": np.array([2]), "three": np.array([3])})
    text = h.stax("dump", h.save(m, folder / "m.onnx"), "--stage", "plan").expect(0).out
    assert len(text) < 100_000, len(text)
    names = re.findall(r"^ *(e\d+) = ", text, re.M)
    assert names and len(set(names)) == len(names), names
    used = set(re.findall(r"\be\d+\b", re.sub(r'"[^"]*"', "", text)))
    assert used == set(names), used ^ set(names)


def test_one_file_for_each_kernel(folder):
    m = perceptron(folder)
    out = folder / "kernels"
    done = h.stax("dump", m, "--stage", "loop", "--outputs", out, "--quiet").expect(0)
    assert done.out == "" and done.err == ""
    kernels = json.loads((out / "kernels.json").read_text())
    assert len(kernels) >= 2
    assert sorted(p.name for p in out.iterdir()) == sorted([*(k["file"] for k in kernels), "kernels.json"])
    for k in kernels:
        for field, kind in [("name", str), ("version", int), ("class", str), ("guard", str), ("file", str), ("entry", str), ("parameters", list)]:
            assert isinstance(k[field], kind), f"{field}: {k.get(field)!r}"
        assert re.fullmatch(r"[A-Za-z_]\w*", k["name"]) and re.fullmatch(r"[A-Za-z_]\w*", k["entry"])
        text = (out / k["file"]).read_text()
        assert k["class"] in text
    assert {k["class"] for k in kernels} >= {"contraction", "rows"}, kernels
    assert len({(k["name"], k["version"]) for k in kernels}) == len(kernels) == len({k["file"] for k in kernels})


def test_stages_side_by_side(folder):
    out = folder / "all"
    h.stax("dump", perceptron(folder), "--stage", "tensor,loop,llvm,asm,plan", "--outputs", out).expect(0)
    kernels = json.loads((out / "kernels.json").read_text())
    listed = {k["file"] for k in kernels}
    assert {Path(f).suffix for f in listed} == {".loop", ".ll", ".s"}, listed
    assert all((out / f).exists() for f in listed) and (out / "tensor.txt").exists() and (out / "plan.txt").exists()


def test_one_kernel(folder):
    m = perceptron(folder)
    names = re.findall(r"^// (\w+): ", h.stax("dump", m, "--stage", "loop").out, re.M)
    text = h.stax("dump", m, "--stage", "loop", "--kernel", names[1]).expect(0).out
    assert re.findall(r"^// (\w+): ", text, re.M) == [names[1]]
    h.stax("dump", m, "--stage", "loop", "--kernel", "nobody").expect(1, "nobody", names[0])
    h.stax("dump", m, "--stage", "import,tensor", "--kernel", names[1]).expect(1, "--kernel " + names[1], "loop")


def test_kernels_name_the_node_they_come_from(folder):
    text = h.stax("dump", perceptron(folder), "--stage", "loop").out
    assert "clamp" in text and "scores" in text


@h.known_fault("a fused kernel names the last of its nodes only")
def test_kernels_name_all_nodes_they_come_from(folder):
    assert "first" in h.stax("dump", perceptron(folder), "--stage", "loop").out, "the product that the clamp was fused into"


def test_faults(folder):
    m = perceptron(folder)
    h.stax("dump", m).expect(2, "--stage")
    h.stax("dump", m, "--stage", "tensro").expect(1, "tensro", "tensor")
    for stage in ("mapping", "thread", "ptx", "cuda", "hip", "opencl"):
        h.stax("dump", m, "--stage", stage, "--target", "cpu").expect(1, stage, "--target")
    h.stax("dump", m, "--stage", "loop", "--target", "vax").expect(1, "vax")
    h.stax("dump", folder / "no.onnx", "--stage", "loop").expect(1, "no.onnx")
    h.stax("dump", m, "--stage", "loop", "--outputs", "/proc/none").expect(1, "/proc/none")


def test_environment_variables_do_the_same_inside_a_run(folder):
    m = perceptron(folder)
    np.savez(folder / "a.npz", x=np.ones((2, 8), np.float32))
    done = h.stax("run", m, "--inputs", folder / "a.npz", "--quiet", env={"STAX_DUMP": "fuse_ops"}).expect(0)
    assert "after fuse_ops" in done.err and "compute" in done.err
    done = h.stax("run", m, "--inputs", folder / "a.npz", "--quiet", env={"STAX_TIME": "1"}).expect(0)
    assert all(name in done.err for name in ("fuse_ops", "plan_memory", "emit_native")) and " ms" in done.err, done.err
    h.stax("run", m, "--inputs", folder / "a.npz", "--quiet", env={"STAX_VERIFY": "1"}).expect(0)


if __name__ == "__main__":
    h.main()
