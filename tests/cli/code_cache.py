# SPDX-License-Identifier: Apache-2.0
"""STAX_CACHE: programs and compiled code on disk, taken where they fit, made again where they do not."""
import os
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import harness as h
import numpy as np
import onnx


def model(op="Tanh"):
    return h.model([h.node("MatMul", "x w", "t"), h.node(op, "t", "y")], {"x": (h.FLOAT, ["n", 8])}, ["y"],
                   {"w": h.normal(np.random.default_rng(3), 8, 8)})


FEED = {"x": h.normal(np.random.default_rng(4), 5, 8)}


def kept(folder):
    return sorted(folder.iterdir()) if folder.exists() else []


def test_a_second_start_gives_the_same_bits(folder):
    cache = folder / "deep" / "cache"
    first = h.run(folder, model(), [FEED], env={"STAX_CACHE": str(cache)}).outputs[0]
    entries = kept(cache)
    assert len(entries) == 2, "a program and its code"
    second = h.run(folder, model(), [FEED], env={"STAX_CACHE": str(cache)}).outputs[0]
    h.equal_bits(second, first)
    h.same(first["y"], np.tanh(FEED["x"] @ h.normal(np.random.default_rng(3), 8, 8)))
    assert kept(cache) == entries
    h.run(folder, model("Exp"), [FEED], env={"STAX_CACHE": str(cache)})
    assert len(kept(cache)) == 4, "another model, other kernels"


def program_and_code(folder, name, model):
    """The two entries of a model in a cache of its own."""
    cache = folder / name
    h.run(folder, model, [FEED], env={"STAX_CACHE": str(cache)})
    code, program = sorted(kept(cache), key=lambda entry: b"STAXPROG" in entry.read_bytes())
    return program, code


def test_an_entry_of_another_key_is_none(folder):
    # Exp under the keys of tanh: what comes out says which one was run.
    want = np.tanh(FEED["x"] @ h.normal(np.random.default_rng(3), 8, 8))
    exp, tanh = program_and_code(folder, "exp", model("Exp")), program_and_code(folder, "tanh", model("Tanh"))
    for other, own in zip(exp, tanh):
        for entry in kept(folder / "tanh"):
            if entry != own:
                entry.unlink()  # so that nothing else answers
        os.replace(other, own)
        got = h.run(folder, model("Tanh"), [FEED], env={"STAX_CACHE": str(folder / "tanh")}).outputs[0]
        h.same(got["y"], want, "an entry of another key is none")


def test_damage_is_made_good(folder):
    program, code = program_and_code(folder, "cache", model())
    want = h.run(folder, model(), [FEED], env={"STAX_CACHE": str(folder / "cache")}).outputs[0]
    for entry in (program, code):
        whole = entry.read_bytes()
        for damage in (b"", whole[:100], whole[:-1], whole[: len(whole) // 2] + b"\0\1\2\3" + whole[len(whole) // 2 + 4:]):
            if entry == code:
                program.unlink()  # it would answer first
            entry.write_bytes(damage)
            h.equal_bits(h.run(folder, model(), [FEED], env={"STAX_CACHE": str(folder / "cache")}).outputs[0], want)
            assert entry.read_bytes() == whole


def test_a_program_is_of_its_files(folder):
    """Other weights beside the same model file, and other ranges of dims, are other programs."""
    rng, environment = np.random.default_rng(5), {"STAX_CACHE": str(folder / "cache")}
    for place in ("here", "there"):
        (folder / place).mkdir()
    weights = [h.normal(rng, 64, 64) for _ in range(2)]
    graph = h.model([h.node("MatMul", "x w", "y")], {"x": (h.FLOAT, ["n", 64])}, ["y"], {"w": weights[0]})
    onnx.save(graph, folder / "here" / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    shutil.copy(folder / "here" / "m.onnx", folder / "there" / "m.onnx")
    feed = {"x": h.normal(rng, 3, 64)}
    np.savez(folder / "x.npz", **feed)

    def check(place, w):
        (folder / place / "w.bin").write_bytes(w.tobytes())
        path = folder / place / "m.onnx"
        h.stax("run", path, "--inputs", folder / "x.npz", "--outputs", folder / "out", "--quiet", env=environment).expect(0)
        h.same(h.load(folder / "out" / "x.npz")["y"], feed["x"] @ w, rtol=1e-4)

    for turn in range(2):
        for place, w in (("here", weights[0]), ("there", weights[1]), ("here", weights[1]), ("there", weights[0])):
            check(place, w)
        if turn == 0:
            before = kept(folder / "cache")
    assert kept(folder / "cache") == before, "the second turn found all"
    run = ["run", folder / "here" / "m.onnx", "--inputs", folder / "x.npz"]
    h.stax(*run, "--dim", "n=8..9", env=environment).expect(1, "'n'", "8")
    (folder / "here" / "w.bin").unlink()
    h.stax(*run, env=environment).expect(1, "w.bin")


def test_warnings_come_again(folder):
    environment = {"STAX_CACHE": str(folder / "cache")}
    graph = h.model([h.node("Transpose", "x", "y", perm=[1, 0])], {"x": (h.FLOAT, ["n", 8])}, {"y": (h.FLOAT, ["n"])})
    path = h.save(graph, folder / "m.onnx")
    np.savez(folder / "x.npz", **FEED)
    run = ["run", path, "--inputs", folder / "x.npz", "--outputs", folder / "out"]
    first, second = (h.stax(*run, env=environment).expect(0, "warning", "rank 1").err for _ in range(2))
    assert first == second and len(kept(folder / "cache")) == 2


def test_off_and_unusable(folder):
    home = folder / "home"
    home.mkdir()
    h.run(folder, model(), [FEED], env={"STAX_CACHE": "off", "HOME": str(home), "XDG_CACHE_HOME": ""})
    assert not list(home.iterdir())
    h.run(folder, model(), [FEED], env={"STAX_CACHE": "", "HOME": str(home), "XDG_CACHE_HOME": ""})
    assert len(kept(home / ".cache" / "stax")) == 2
    done = h.run(folder, model(), [FEED], env={"STAX_CACHE": "/proc/no/such/place"}).done
    assert done.err == "", done.err


def test_llvm_is_loaded_to_compile_alone(folder):
    """With a file that is no library in LLVM's place, what the cache holds runs, and what has to be compiled is refused."""
    native = Path(h.STAX).parent / "libstax_llvm.so"
    [name] = [line.split()[0] for line in subprocess.run(["ldd", native], check=True, capture_output=True, text=True).stdout.splitlines() if "LLVM" in line]
    hidden = folder / "hidden"
    hidden.mkdir()
    (hidden / name).write_text("no library")
    cache = {"STAX_CACHE": str(folder / "cache")}
    first = h.run(folder, model(), [FEED], env=cache).outputs[0]
    cache["LD_LIBRARY_PATH"] = f"{hidden}:{os.environ.get('LD_LIBRARY_PATH', '')}"
    h.equal_bits(h.run(folder, model(), [FEED], env=cache).outputs[0], first)
    np.savez(folder / "x.npz", **FEED)
    new = h.save(model("Exp"), folder / "exp.onnx")
    h.stax("run", new, "--inputs", folder / "x.npz", env=os.environ | cache).expect(1, "cannot generate native code", name, "install LLVM 22")


def test_a_program_without_its_library(folder):
    """Copied alone, a program finds its library where it was built; without any it says what is missing, and nothing is kept."""
    alone = folder / "bin" / "stax"
    alone.parent.mkdir()
    shutil.copy(h.STAX, alone)
    path = h.save(model(), folder / "m.onnx")
    np.savez(folder / "x.npz", **FEED)
    run = ["run", path, "--inputs", folder / "x.npz", "--outputs", folder / "out"]
    h.stax(*run, program=alone).expect(0)
    shutil.rmtree(folder / "out")
    (folder / "hidden").mkdir()
    (folder / "hidden" / "libstax_llvm.so").write_text("no library")
    environment = os.environ | {"STAX_CACHE": str(folder / "cache"), "LD_LIBRARY_PATH": f"{folder / 'hidden'}:{os.environ.get('LD_LIBRARY_PATH', '')}"}
    h.stax(*run, env=environment, program=alone).expect(1, "cannot generate native code", f"neither in {folder / 'bin'} nor in {folder / 'lib'}")
    assert not list((folder / "out").glob("*")) and not list((folder / "cache").glob("*"))
    (folder / "lib").mkdir()
    shutil.copy(Path(h.STAX).parent / "libstax_llvm.so", folder / "lib")
    h.stax(*run, env=environment, program=alone).expect(0)
    assert len(kept(folder / "cache")) == 2


def test_processes_side_by_side(folder):
    path = h.save(model(), folder / "m.onnx")
    np.savez(folder / "x.npz", **FEED)
    environment = os.environ | {"STAX_CACHE": str(folder / "cache")}
    started = [subprocess.Popen([h.STAX, "run", path, "--inputs", folder / "x.npz", "--outputs", folder / f"out{k}", "--quiet"], env=environment)
               for k in range(4)]
    assert [p.wait(300) for p in started] == [0] * 4
    for k in range(1, 4):
        h.equal_bits(h.load(folder / f"out{k}" / "x.npz"), h.load(folder / "out0" / "x.npz"))
    assert len(kept(folder / "cache")) == 2


h.main()
