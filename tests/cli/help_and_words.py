# SPDX-License-Identifier: Apache-2.0
"""What the command line says about itself: help, words that were meant, completion; and what is left of files when it is killed."""
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import harness as h
import numpy as np

COMMANDS = ["run", "bench", "report", "doctor", "compile", "dump", "verify", "bisect", "replay", "completion"]


def model(folder):
    rng = np.random.default_rng(5)
    return h.save(h.model([h.node("MatMul", "x w", "t"), h.node("Relu", "t", "u"), h.node("Softmax", "u", "y", axis=-1)],
                          {"x": (h.FLOAT, ["rows", 8])}, ["y"], {"w": h.normal(rng, 8, 64)}), folder / "m.onnx")


def test_help_names_every_command_and_option(folder):
    text = h.stax("--help").expect(0).out
    assert all(c in text for c in COMMANDS), text
    for command in COMMANDS:
        text = h.stax(command, "--help").expect(0).out
        assert len(text.splitlines()) > 5, text
    assert "--repeat" in h.stax("run", "--help").out and "stax run m.onnx" in h.stax("run", "--help").out


def test_version_names_the_build(folder):
    text = h.stax("--version").expect(0).out
    note = subprocess.run(["readelf", "-n", h.STAX], check=True, capture_output=True, text=True).stdout
    assert re.fullmatch(r"stax \d+\.\d+\.\d+, build [0-9a-f]+\n", text) and text.split()[-1] in note, text


def test_words_that_were_meant(folder):
    m = model(folder)
    h.stax("bisec", m).expect(2, "bisect")
    h.stax("run", m, "--input", "a.npz").expect(2, "--input'", "--inputs")
    h.stax("dump", m, "--stage", "tensro").expect(1, "tensor")
    h.stax("dump", m, "--stage", "plan", "--at", "row=4").expect(1, "row", "rows")
    h.stax("dump", m, "--stage", "loop", "--kernel", "contraction_0_v9").expect(1, "contraction_0_v")
    h.stax("run", m, "--inputs", "a.npz", "--dim", "rosw=4").expect(1, "rosw", "rows")


def test_empty_values(folder):
    m = model(folder)
    h.stax("bench", m, "--json", "").expect(2, "--json is empty")
    h.stax("dump", m, "--stage", "plan", "--at", "").expect(2, "--at is empty")
    h.stax("compile", "", "-o", folder / "m.stax").expect(2, "model is empty")


def test_completion_is_shell(folder):
    for shell in ("bash", "zsh"):
        text = h.stax("completion", shell).expect(0).out
        assert all(c in text for c in COMMANDS) and "--inputs" in text
    h.stax("completion", "fish").expect(1, "bash", "zsh")
    script = h.stax("completion", "bash").out + """
COMP_WORDS=(stax ru); COMP_CWORD=1; _stax; echo "${COMPREPLY[@]}"
COMP_WORDS=(stax run --rep); COMP_CWORD=2; _stax; echo "${COMPREPLY[@]}"
"""
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert done.stdout.split() == ["run", "--repeat"], done.stdout + done.stderr


def test_a_plan_at_a_shape_has_numbers(folder):
    m = model(folder)
    plan = h.stax("dump", m, "--stage", "plan", "--at", "rows=3").expect(0).out
    assert "f32[3, 64]" in plan and "bytes" in plan and " else " not in plan, plan
    assert "launch nothing" in h.stax("dump", m, "--stage", "plan", "--at", "rows=0").expect(0).out
    one = h.stax("dump", m, "--stage", "loop", "--at", "rows=1").expect(0).out
    many = h.stax("dump", m, "--stage", "loop", "--at", "rows=1000").expect(0).out
    assert "contraction_0_v0" in one and "contraction_0_v0" not in many and "at this shape" in many
    h.stax("dump", m, "--stage", "plan", "--at", "rows").expect(1, "=")


def test_kernels_json_says_how_a_kernel_is_launched(folder):
    h.stax("dump", model(folder), "--stage", "loop,llvm,asm", "--outputs", folder / "d", "--quiet").expect(0)
    kernels = json.loads((folder / "d" / "kernels.json").read_text())
    products = [k for k in kernels if k["class"] == "contraction" and k["file"].endswith(".loop")]
    assert [k["version"] for k in products] == list(range(len(products))) and len(products) > 1
    assert products[-1]["guard"] == "true" and all("rows" in k["guard"] for k in products[:-1]), products
    for k in kernels:
        assert all(isinstance(k[f], (int, str)) for f in ("block", "static_shared_bytes", "dynamic_shared_bytes")), k
        assert isinstance(k["predicted_registers"], (int, float)) and k["predicted_registers"] >= 1, k


def test_the_tensor_stage_says_what_each_pass_changed(folder):
    text = h.stax("dump", model(folder), "--stage", "tensor").expect(0).out
    change = {line.split(": ")[0]: line.split(": ", 1)[1] for line in text.splitlines() if line.startswith("// pass ")}
    assert "rewritten" in change["// pass fuse_ops"] and "->" in change["// pass pack_weights"], text[:800]


def test_disabled_passes_leave_the_answer(folder):
    m = model(folder)
    np.savez(folder / "a.npz", x=np.linspace(-1, 1, 24).reshape(3, 8).astype(np.float32))
    h.stax("run", m, "--inputs", folder / "a.npz", "--outputs", folder / "want").expect(0)
    for passes in ("fuse_ops", "schedule,simplify", "fold_constants,assign_layouts"):
        h.stax("run", m, "--inputs", folder / "a.npz", "--outputs", folder / "got", env={"STAX_DISABLE": passes}).expect(0)
        h.same(dict(np.load(folder / "got" / "a.npz")), dict(np.load(folder / "want" / "a.npz")), passes, rtol=1e-5, atol=1e-6)


def test_names_of_no_pass_are_said(folder):
    m = model(folder)
    np.savez(folder / "a.npz", x=np.ones((3, 8), np.float32))
    for variable in ("STAX_DUMP", "STAX_DISABLE"):
        told = h.stax("run", m, "--inputs", folder / "a.npz", "--quiet", env={variable: "fuse_opps,fuse_ops"}).expect(0).err
        assert f"{variable} names 'fuse_opps', which is no pass" in told and "'fuse_ops'" not in told, told


def test_killed_at_any_moment_leaves_whole_files_or_none(folder):
    m = model(folder)
    np.savez(folder / "a.npz", x=np.ones((20000, 8), np.float32))
    draw = random.Random(h.seed_of("kill"))
    command = os.environ.get("STAX", "build/stax")
    seen = set()
    for k in range(12):
        out = folder / f"out{k}"
        compiled = folder / f"m{k}.stax"
        for words, result in ([["run", m, "--inputs", folder / "a.npz", "--outputs", out, "--quiet"], out / "a.npz"],
                              [["compile", m, "-o", compiled, "--target", "cpu:native"], compiled]):
            child = subprocess.Popen([command, *map(str, words)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(draw.uniform(0, 0.6))
            child.send_signal(signal.SIGKILL)
            child.wait()
            seen.add(result.exists())
            if result.suffix == ".npz" and result.exists():
                assert np.load(result)["y"].shape == (20000, 64)
            if result.suffix == ".stax" and result.exists():
                h.stax("run", result, "--inputs", folder / "a.npz", "--quiet").expect(0)
    return f"results were there: {sorted(seen)}"


if __name__ == "__main__":
    h.main()
