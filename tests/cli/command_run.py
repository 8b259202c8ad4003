# SPDX-License-Identifier: Apache-2.0
"""stax run: one session over the input files, what it writes, what it says, and how it ends."""
import json
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import harness as h
import numpy as np


def project():
    """result = (pixels + offsets) @ w, over batch"""
    return h.model([h.node("Add", "pixels offsets", "t", name="sum"), h.node("MatMul", "t w", "result", name="project")],
                   {"pixels": (h.FLOAT, ["batch", 4]), "offsets": (h.FLOAT, ["batch", 4])}, {"result": (h.FLOAT, ["batch", 3])},
                   {"w": np.arange(12, dtype=np.float32).reshape(4, 3)})


def feed(batch, value=1.0):
    return {"pixels": np.full((batch, 4), value, np.float32), "offsets": np.arange(batch * 4, dtype=np.float32).reshape(batch, 4)}


def want(f):
    return {"result": (f["pixels"] + f["offsets"]) @ np.arange(12, dtype=np.float32).reshape(4, 3)}


def files(folder, feeds):
    paths = []
    for name, f in feeds.items():
        paths.append(folder / f"{name}.npz")
        np.savez(paths[-1], **f)
    return paths


def test_results_go_to_a_file_of_the_inputs_name(folder):
    m = h.save(project(), folder / "m.onnx")
    paths = files(folder, {"small": feed(2), "none": feed(0), "large": feed(129)})
    h.stax("run", m, "--inputs", *paths, "--outputs", folder / "deep" / "out").expect(0)
    assert sorted(p.name for p in (folder / "deep" / "out").iterdir()) == ["large.npz", "none.npz", "small.npz"]
    for name, batch in (("small", 2), ("none", 0), ("large", 129)):
        h.same(h.load(folder / "deep" / "out" / f"{name}.npz"), want(feed(batch)), name)


def test_every_device_gives_the_same(folder):
    for device, launches in (("cpu", None), ("loop", None), ("reference", None)):
        session = h.run(folder, project(), [feed(3), feed(17)], "--device", device)
        assert session.stats["device"]["kind"] == device and session.stats["device"]["name"]
        assert session.stats["launches"] >= 2, session.stats["launches"]
        for got, f in zip(session.outputs, [feed(3), feed(17)]):
            h.same(got, want(f), device)


def test_statistics(folder):
    session = h.run(folder, project(), [feed(2), feed(0), feed(64)], "--repeat", "5", "--warmup", "2", "--threads", "2")
    s = session.stats
    for name, kind in [("launches", int), ("resident_bytes", int), ("compile_ms", float), ("load_ms", float), ("compiles_after_load", int),
                       ("kernels", int), ("versions", int), ("peak_bytes", int), ("inputs", list), ("device", dict)]:
        assert isinstance(s[name], kind), f"{name}: {s[name]!r}"
    assert s["device"]["kind"] == "cpu" and isinstance(s["device"]["name"], str)
    assert s["compiles_after_load"] == 0 and s["compile_ms"] > 0
    assert 1 <= s["kernels"] <= 3 and s["versions"] >= s["kernels"]
    assert s["resident_bytes"] > 1 << 20 and 12 * 4 <= s["peak_bytes"] < 1 << 20, s["peak_bytes"]
    assert len(s["inputs"]) == 3
    for entry, batch in zip(s["inputs"], (2, 0, 64)):
        assert entry["shapes"] == {"pixels": [batch, 4], "offsets": [batch, 4]}
        assert len(entry["latency_us"]) == 5 and all(t >= 0 for t in entry["latency_us"])
        assert isinstance(entry["dispatch_ns"], int) and entry["dispatch_ns"] >= 0
        assert isinstance(entry["versions_used"], dict) and isinstance(entry["launches_per_call"], int)
    assert s["inputs"][1]["launches_per_call"] == 0, "empty extents launch nothing"
    per_call = [e["launches_per_call"] for e in s["inputs"]]
    assert per_call[0] == per_call[2] > 0 and s["launches"] == 7 * sum(per_call), (s["launches"], per_call)


def test_one_call_is_timed_without_flags(folder):
    assert [len(e["latency_us"]) for e in h.run(folder, project(), [feed(2)]).stats["inputs"]] == [1]


def test_a_wrong_file_among_good_ones(folder):
    m = h.save(project(), folder / "m.onnx")
    paths = files(folder, {"a": feed(2), "lacks": {"pixels": feed(2)["pixels"]}, "b": feed(5), "rank": {**feed(2), "offsets": np.ones(4, np.float32)}, "c": feed(1)})
    paths.insert(3, folder / "absent.npz")
    done = h.stax("run", m, "--inputs", *paths, "--outputs", folder / "out", "--json", folder / "s.json", "--quiet")
    done.expect(1, "lacks.npz", "offsets", "absent.npz", "rank.npz")
    assert sorted(p.name for p in (folder / "out").iterdir()) == ["a.npz", "b.npz", "c.npz"]
    for name, batch in (("a", 2), ("b", 5), ("c", 1)):
        h.same(h.load(folder / "out" / f"{name}.npz"), want(feed(batch)), name)
    entries = json.loads((folder / "s.json").read_text())["inputs"]
    assert len(entries) == 6 and sum("latency_us" in e for e in entries) == 3, "one entry for each file"


def test_nothing_of_an_earlier_run_stays_for_a_file_that_fails(folder):
    m = h.save(project(), folder / "m.onnx")
    [a] = files(folder, {"a": feed(2)})
    h.stax("run", m, "--inputs", a, "--outputs", folder / "out").expect(0)
    files(folder, {"a": {"pixels": feed(2)["pixels"]}})
    h.stax("run", m, "--inputs", a, "--outputs", folder / "out").expect(1, "offsets")
    assert not (folder / "out" / "a.npz").exists(), "the results of the earlier run look like those of this one"


def test_inputs_are_never_overwritten(folder):
    m = h.save(project(), folder / "m.onnx")
    [a] = files(folder, {"a": feed(2)})
    before = a.read_bytes()
    h.stax("run", m, "--inputs", a, "--outputs", folder).expect(1, "a.npz", "input")
    assert a.read_bytes() == before


def test_two_inputs_of_one_name(folder):
    m = h.save(project(), folder / "m.onnx")
    for sub in ("one", "two"):
        (folder / sub).mkdir()
        files(folder / sub, {"a": feed(2)})
    h.stax("run", m, "--inputs", folder / "one" / "a.npz", folder / "two" / "a.npz", "--outputs", folder / "out").expect(1, "a.npz", "one", "two")


def test_no_trace_of_temporary_files(folder):
    m = h.save(project(), folder / "m.onnx")
    [a] = files(folder, {"a": feed(2)})
    h.stax("run", m, "--inputs", a, "--outputs", folder / "out", "--json", folder / "json" / "s.json").expect(0)
    assert [p.name for p in (folder / "out").iterdir()] == ["a.npz"] and [p.name for p in (folder / "json").iterdir()] == ["s.json"]


def test_quiet_says_nothing(folder):
    declared_wrong = h.model([h.node("Relu", "x", "y")], {"x": (h.FLOAT, ["n", 4])}, {"y": (h.FLOAT, ["n"])})
    m = h.save(declared_wrong, folder / "m.onnx")
    [a] = files(folder, {"a": {"x": np.ones((2, 4), np.float32)}})
    loud = h.stax("run", m, "--inputs", a)
    loud.expect(0, "warning", "'y'")
    assert "y" in loud.out and "[2, 4]" in loud.out, loud.out
    quiet = h.stax("run", m, "--inputs", a, "--quiet", "--outputs", folder / "out").expect(0)
    assert quiet.out == "" and quiet.err == "", f"{quiet.out}{quiet.err}"


def test_profile_names_kernels(folder):
    m = h.save(project(), folder / "m.onnx")
    [a] = files(folder, {"a": feed(64)})
    done = h.stax("run", m, "--inputs", a, "--profile").expect(0)
    assert "contraction" in done.out and "project" in done.out and "%" in done.out, done.out


def test_usage(folder):
    m = h.save(project(), folder / "m.onnx")
    [a] = files(folder, {"a": feed(2)})
    h.stax().expect(2)
    h.stax("rum").expect(2, "rum", "run")
    h.stax("run", m, "--inputs", a, "--fast").expect(2, "--fast")
    h.stax("run").expect(2, "model")
    h.stax("run", m, "--inputs", a, "--threads", "many").expect(2, "many")
    assert "run" in h.stax("--help").expect(0).out
    assert "--inputs" in h.stax("run", "--help").expect(0).out


def test_faults_of_the_caller(folder):
    m = h.save(project(), folder / "m.onnx")
    [a] = files(folder, {"a": feed(2)})
    h.stax("run", m).expect(1, "--inputs")
    h.stax("run", folder / "no.onnx", "--inputs", a).expect(1, "no.onnx")
    h.stax("run", folder, "--inputs", a).expect(1, folder.name)
    h.stax("run", m, "--inputs", folder / "no.npz").expect(1, "no.npz")
    h.stax("run", m, "--inputs", folder).expect(1, folder.name)
    h.stax("run", m, "--inputs", m).expect(1, "m.onnx")
    h.stax("run", a, "--inputs", a).expect(1, "a.npz")
    h.stax("run", m, "--inputs", a, "--outputs", "/proc/none/out").expect(1, "/proc/none/out")
    h.stax("run", m, "--inputs", a, "--json", "/proc/none/s.json").expect(1, "/proc/none")
    h.stax("run", m, "--inputs", a, "--repeat", "0").expect(1, "--repeat")
    h.stax("run", m, "--inputs", a, "--warmup", "-1").expect(1, "--warmup")
    h.stax("run", m, "--inputs", a, "--threads", "-2").expect(1, "--threads")
    h.stax("run", m, "--inputs", a, "--device", "abacus").expect(1, "abacus", "cpu")


def test_a_file_in_the_way_of_the_output_folder(folder):
    m = h.save(project(), folder / "m.onnx")
    [a] = files(folder, {"a": feed(2)})
    (folder / "out").write_text("mine")
    h.stax("run", m, "--inputs", a, "--outputs", folder / "out").expect(1, "out")
    assert (folder / "out").read_text() == "mine"


def test_runs_in_a_folder_that_cannot_be_written(folder):
    m = h.save(project(), folder / "m.onnx")
    [a] = files(folder, {"a": feed(2)})
    (folder / "here").mkdir()
    (folder / "here").chmod(0o555)
    command = [h.STAX, "run", str(m), "--inputs", str(a), "--outputs", str(folder / "out"), "--quiet"]
    (folder / "out").mkdir()
    for path in (folder, folder / "out"):
        path.chmod(0o777)
    drop = (lambda: os.setuid(65534)) if os.geteuid() == 0 else None       # root writes anywhere
    done = subprocess.run(command, cwd=folder / "here", preexec_fn=drop, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    h.same(h.load(folder / "out" / "a.npz"), want(feed(2)))
    assert not list((folder / "here").iterdir())


def test_runs_without_a_home_or_temporary_folder(folder):
    m = h.save(project(), folder / "m.onnx")
    [a] = files(folder, {"a": feed(2)})
    done = subprocess.run([h.STAX, "run", str(m), "--inputs", str(a), "--outputs", str(folder / "out")], env={"TMPDIR": "/nonexistent"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_one_thread_and_several_give_the_same_bits(folder):
    rng = np.random.default_rng(1)
    feeds = [{"pixels": h.normal(rng, n, 4), "offsets": h.normal(rng, n, 4)} for n in (1, 1000, 65537, 0)]
    one = h.run(folder, project(), feeds, "--threads", "1")
    for threads in ("2", "3", "16"):
        for k, got in enumerate(h.run(folder, project(), feeds, "--threads", threads).outputs):
            h.equal_bits(got, one.outputs[k], f"{threads} threads, call {k}")


if __name__ == "__main__":
    h.main()
