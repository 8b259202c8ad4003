# SPDX-License-Identifier: Apache-2.0
"""STAX_CACHE: compiled code on disk, taken where it fits, made again where it does not."""
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import harness as h
import numpy as np


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
    assert len(entries) == 1, entries
    second = h.run(folder, model(), [FEED], env={"STAX_CACHE": str(cache)}).outputs[0]
    h.equal_bits(second, first)
    h.same(first["y"], np.tanh(FEED["x"] @ h.normal(np.random.default_rng(3), 8, 8)))
    assert kept(cache) == entries
    h.run(folder, model("Exp"), [FEED], env={"STAX_CACHE": str(cache)})
    assert len(kept(cache)) == 2, "other kernels are another entry"


def test_an_entry_of_another_key_is_none(folder):
    # The image of exp under the key of tanh: what comes out says which one was run.
    cache = folder / "cache"
    h.run(folder, model("Exp"), [FEED], env={"STAX_CACHE": str(cache)})
    (exp,) = kept(cache)
    h.run(folder, model("Tanh"), [FEED], env={"STAX_CACHE": str(cache)})
    (tanh,) = [e for e in kept(cache) if e != exp]
    os.replace(exp, tanh)
    got = h.run(folder, model("Tanh"), [FEED], env={"STAX_CACHE": str(cache)}).outputs[0]
    h.same(got["y"], np.tanh(FEED["x"] @ h.normal(np.random.default_rng(3), 8, 8)), "an entry of another key is none")


def test_damage_is_made_good(folder):
    cache = folder / "cache"
    want = h.run(folder, model(), [FEED], env={"STAX_CACHE": str(cache)}).outputs[0]
    (entry,) = kept(cache)
    whole = entry.read_bytes()
    for damage in (b"", whole[:100], whole[:-1], whole[: len(whole) // 2] + b"\0\1\2\3" + whole[len(whole) // 2 + 4:]):
        entry.write_bytes(damage)
        h.equal_bits(h.run(folder, model(), [FEED], env={"STAX_CACHE": str(cache)}).outputs[0], want)
        assert entry.read_bytes() == whole


def test_off_and_unusable(folder):
    home = folder / "home"
    home.mkdir()
    h.run(folder, model(), [FEED], env={"STAX_CACHE": "off", "HOME": str(home), "XDG_CACHE_HOME": ""})
    assert not list(home.iterdir())
    h.run(folder, model(), [FEED], env={"STAX_CACHE": "", "HOME": str(home), "XDG_CACHE_HOME": ""})
    assert len(kept(home / ".cache" / "stax")) == 1
    done = h.run(folder, model(), [FEED], env={"STAX_CACHE": "/proc/no/such/place"}).done
    assert done.err == "", done.err


def test_processes_side_by_side(folder):
    path = h.save(model(), folder / "m.onnx")
    np.savez(folder / "x.npz", **FEED)
    environment = os.environ | {"STAX_CACHE": str(folder / "cache")}
    started = [subprocess.Popen([h.STAX, "run", path, "--inputs", folder / "x.npz", "--outputs", folder / f"out{k}", "--quiet"], env=environment)
               for k in range(4)]
    assert [p.wait(300) for p in started] == [0] * 4
    for k in range(1, 4):
        h.equal_bits(h.load(folder / f"out{k}" / "x.npz"), h.load(folder / "out0" / "x.npz"))
    assert len(kept(folder / "cache")) == 1


h.main()
