# SPDX-License-Identifier: Apache-2.0
"""Devices that run thread IR and texts for GPUs: `sim`; `cuda` on a driver that stands in for NVIDIA's and runs PTX on this machine; `hip` on a runtime
that stands in for AMD's and compiles HIP C++ for this machine."""
import ctypes
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import harness as h
import numpy as np

FAKE = Path(os.environ["STAX"]).resolve().parent / "fake_cuda" if "STAX" in os.environ else Path("fake_cuda")
FAKE_HIP = FAKE.parent / "fake_hip"
RNG = np.random.default_rng()


def on_cuda(**settings):
    return {"LD_LIBRARY_PATH": str(FAKE)} | {f"FAKE_CUDA_{k.upper()}": str(v) for k, v in settings.items()}


def on_hip(**settings):
    return {"LD_LIBRARY_PATH": str(FAKE_HIP), "STAX_CACHE": "off"} | {f"FAKE_HIP_{k.upper()}": str(v) for k, v in settings.items()}


HAS_CLANG = shutil.which("clang++-22") is not None


def layer():
    """A product, its bias, softmax over rows, and the rows with a positive first element."""
    return h.model(
        [h.node("MatMul", "x w", "t"), h.node("Add", "t b", "u"), h.node("Softmax", "u", "y", axis=-1), h.node("ReduceSum", "y axis", "s", keepdims=0),
         h.node("Transpose", "u", "z", perm=[1, 0])],
        {"x": (h.FLOAT, ["n", "k"]), "w": (h.FLOAT, ["k", "m"]), "b": (h.FLOAT, ["m"])}, ["y", "s", "z"], {"axis": np.array([1])})


def feeds():
    return [{"x": h.normal(RNG, n, k), "w": h.normal(RNG, k, m), "b": h.normal(RNG, m)}
            for n, k, m in ((1, 1, 1), (3, 5, 7), (40, 33, 68), (64, 16, 130), (0, 3, 2), (2, 0, 5), (1, 257, 300))]


def wanted(feed):
    u = feed["x"].astype(np.float64) @ feed["w"].astype(np.float64) + feed["b"]
    e = np.exp(u - u.max(-1, keepdims=True, initial=-np.inf))
    y = e / e.sum(-1, keepdims=True)
    return {"y": y.astype(np.float32), "s": y.sum(1).astype(np.float32), "z": u.T.astype(np.float32)}


def test_rows_that_data_picks_on_the_simulator(folder):
    model = h.model([h.node("Gather", "x i", "g", axis=0), h.node("Softmax", "g", "y", axis=-1)], {"x": (h.FLOAT, ["n", "m"]), "i": (h.INT64, ["k"])}, ["y"])
    data = [{"x": h.normal(RNG, n, m), "i": RNG.integers(0, n, k)} for n, m, k in ((1, 1, 1), (5, 37, 9), (3, 64, 2), (7, 300, 4))]
    for feed, got in zip(data, h.run(folder, model, data, "--device", "sim").outputs):
        e = np.exp(feed["x"].astype(np.float64)[feed["i"]])
        h.same(got, {"y": (e / e.sum(-1, keepdims=True)).astype(np.float32)}, f"{feed['x'].shape}", rtol=1e-4, atol=1e-6)


def attention_agrees(folder, device):
    """Tiles of many, some and few queries, and rows; keys that fill no tile; a head width that is none of 16."""
    model = h.model([h.node("Transpose", "k", "kt", perm=[0, 1, 3, 2]), h.node("MatMul", "q kt", "s"), h.node("Add", "s mask", "t"), h.node("Softmax", "t", "p", axis=-1),
                     h.node("MatMul", "p v", "y")],
                    {"q": (h.FLOAT, ["b", 6, "s", 40]), "k": (h.FLOAT, ["b", 6, "t", 40]), "v": (h.FLOAT, ["b", 6, "t", 40]), "mask": (h.FLOAT, ["s", "t"])}, ["y"])
    data = []
    for b, s, t in ((1, 1, 1), (12, 1, 70), (12, 3, 300), (2, 17, 33), (12, 33, 64), (10, 12, 129), (1, 64, 100), (0, 3, 5), (2, 0, 5)):
        data.append({"q": h.normal(RNG, b, 6, s, 40) / 6, "k": h.normal(RNG, b, 6, t, 40), "v": h.normal(RNG, b, 6, t, 40), "mask": h.normal(RNG, s, t)})
    for feed, got in zip(data, h.run(folder, model, data, "--device", device).outputs):
        q, k, v = (feed[n].astype(np.float64) for n in "qkv")
        e = np.exp(q @ k.transpose(0, 1, 3, 2) + feed["mask"])
        h.same(got, {"y": (e / e.sum(-1, keepdims=True) @ v).astype(np.float32)}, f"{device} at {feed['q'].shape}, {k.shape}", rtol=1e-4, atol=1e-5)


def test_attention_on_the_simulator(folder):
    attention_agrees(folder, "sim")


def column_sums_agree(folder, device, env=None):
    """A mean and a square norm of columns, and one between two other axes, each version: whole blocks, what is left of one, rows of any length, no rows."""
    for op, axis, dims in (("ReduceMean", 0, ["n", "m"]), ("ReduceSumSquare", 1, ["b", "n", "m"])):
        model = h.model([h.node(op, "x axes", "y", keepdims=0)], {"x": (h.FLOAT, dims)}, ["y"], {"axes": np.array([axis])})
        shapes = [(1, 1), (9, 513), (35, 1031), (8, 2048), (int(RNG.integers(1, 40)), int(RNG.integers(500, 1700)))]
        data = [{"x": h.normal(RNG, *([3] if axis else []), *s)} for s in shapes]
        for version in range(4):
            for feed, got in zip(data, h.run(folder, model, data, "--device", device, "--force", f"*={version}", env=env).outputs):
                x = feed["x"].astype(np.float64)
                want = (x ** 2).sum(1) if axis else x.mean(0)
                h.same(got, {"y": want.astype(np.float32)}, f"{device}, {op}, version {version} at {x.shape}", rtol=1e-5, atol=1e-6)


def test_column_sums_on_each_device(folder):
    column_sums_agree(folder, "sim")
    column_sums_agree(folder, "cuda", on_cuda())
    if HAS_CLANG:
        column_sums_agree(folder, "hip", on_hip())


def agrees(folder, device, env=None, model=None):
    data = feeds()
    session = h.run(folder, model or layer(), data, "--device", device, env=env)
    for feed, got in zip(data, session.outputs):
        # Sums of k products of about 1 that may cancel: what they may be off by grows with k.
        h.same(got, wanted(feed), f"{device} at {feed['x'].shape}", rtol=1e-4, atol=max(1e-5, 3e-7 * feed["x"].shape[1]))
    return session


def test_sim_agrees_at_every_shape(folder):
    agrees(folder, "sim")


def test_cuda_agrees_at_every_shape(folder):
    log = folder / "log"
    agrees(folder, "cuda", on_cuda(log=log))
    calls = log.read_text().splitlines()
    loads = [k for k, c in enumerate(calls) if c.startswith("load ")]
    launches = [k for k, c in enumerate(calls) if c.startswith("launch ")]
    assert loads and launches and max(loads) < min(launches), "code is loaded before the first launch, and never again"
    assert calls.count("init") >= 1 and calls[-1] == "release", calls[-1]
    assert sum(c.startswith("allocate ") for c in calls) == sum(c.startswith("free ") for c in calls), "memory is given back"


def test_hip_agrees_at_every_shape(folder):
    """Warps of 64 and of 32."""
    if not HAS_CLANG:
        return "there is no clang++-22"
    for arch in ("gfx90a:sramecc+:xnack-", "gfx1100"):
        log = folder / arch[:6]
        agrees(folder, "hip", on_hip(log=log, arch=arch))
        calls = log.read_text().splitlines()
        compiled = [c for c in calls if c.startswith("compile ")]
        assert compiled and all(f"--offload-arch={arch.split(':')[0]} " in c for c in compiled), compiled[:1]
        assert len(compiled) == calls.count("load")
        loads, launches = ([k for k, c in enumerate(calls) if c.startswith(what)] for what in ("load", "launch "))
        assert launches and max(loads) < min(launches), "code is loaded before the first launch, and never again"
        assert calls[-1] == "stream destroyed", calls[-1]
        assert sum(c.startswith("allocate ") for c in calls) == sum(c.startswith("free ") for c in calls), "memory is given back"


def test_hip_products_by_matrix_instructions(folder):
    """Each version at extents that are multiples of its vectors and at odd ones; instructions of both machines; the right factor across and along the depth."""
    if not HAS_CLANG:
        return "there is no clang++-22"
    for arch, transposed in (("gfx90a:sramecc+:xnack-", True), ("gfx1100", False)):
        nodes = [h.node("Transpose", "w", "v", perm=[1, 0]), h.node("MatMul", "x v", "y")] if transposed else [h.node("MatMul", "x w", "y")]
        w = (h.HALF, ["n", "k"] if transposed else ["k", "n"])
        model = h.model(nodes, {"x": (h.HALF, ["m", "k"]), "w": w}, ["y"])
        data = []
        for m, k, n in ((136, 40, 152), (129, 35, 131), (int(RNG.integers(1, 200)), int(RNG.integers(1, 9)) * 8, int(RNG.integers(1, 20)) * 8), (17, 1, 130)):
            v = h.normal(RNG, k, n).astype(np.float16)
            data.append({"x": h.normal(RNG, m, k).astype(np.float16), "w": np.ascontiguousarray(v.T) if transposed else v})
        env = on_hip(arch=arch) | {"STAX_CACHE": str(folder / "cache")}
        for version in range(6):
            for feed, got in zip(data, h.run(folder, model, data, "--device", "hip", "--force", f"*={version}", env=env).outputs):
                x, v = feed["x"].astype(np.float64), feed["w"].astype(np.float64)
                h.same(got, {"y": (x @ (v.T if transposed else v)).astype(np.float16)}, f"{arch}, version {version} at {x.shape}, {v.shape}", rtol=2e-3, atol=2e-3)


def test_code_made_by_hiprtc_is_kept(folder):
    if not HAS_CLANG:
        return "there is no clang++-22"
    model = h.model([h.node("Tanh", "x", "y")], {"x": (h.FLOAT, ["n"])}, ["y"])
    feed = {"x": h.normal(RNG, 37)}
    for k in range(2):
        log = folder / f"log{k}"
        session = h.run(folder, model, [feed], "--device", "hip", env=on_hip(log=log) | {"STAX_CACHE": str(folder / "cache")})
        h.same(session.outputs[0]["y"], np.tanh(feed["x"].astype(np.float64)).astype(np.float32), "hip", rtol=1e-5)
        assert ("compile " in log.read_text()) == (k == 0)


def test_a_compiled_file_needs_no_compiler_and_says_what_it_is_for(folder):
    model = h.save(layer(), folder / "m.onnx")
    h.stax("compile", model, "-o", folder / "m.stax", "--target", "cuda:sm_80").expect(0)
    agrees(folder, "cuda", on_cuda(), folder / "m.stax")
    np.savez(folder / "a.npz", **feeds()[1])
    h.stax("run", folder / "m.stax", "--inputs", folder / "a.npz").expect(1, "cuda:sm_80", "--target cpu")


def test_a_wrong_index_is_an_error_and_the_session_goes_on(folder):
    model = h.model([h.node("Gather", "x i", "y", axis=0)], {"x": (h.FLOAT, ["n", "m"]), "i": (h.INT64, ["k"])}, ["y"])
    h.save(model, folder / "m.onnx")
    x = h.normal(RNG, 5, 3)
    paths = []
    for k, i in enumerate(([0, -1], [2, 5], [4])):
        np.savez(folder / f"{k}.npz", x=x, i=np.array(i))
        paths.append(folder / f"{k}.npz")
    for device, env in (("sim", None), ("cuda", on_cuda())):
        out = folder / device
        done = h.stax("run", folder / "m.onnx", "--inputs", *paths, "--outputs", out, "--device", device, env=env)
        done.expect(1, "1.npz", "5")
        h.same(h.load(out / "0.npz")["y"], x[[0, -1]], device)
        h.same(h.load(out / "2.npz")["y"], x[[4]], device)
        assert not (out / "1.npz").exists()


def test_addresses_made_of_data_are_not_read_past_the_end(folder):
    """One element, so that of each block one thread alone may read."""
    model = h.model([h.node("ReverseSequence", "x l", "r", batch_axis=1, time_axis=0), h.node("GatherElements", "r i", "y", axis=0)],
                    {"x": (h.INT64, ["t", "b"]), "l": (h.INT64, ["b"]), "i": (h.INT64, ["t", "b"])}, ["y"])
    data = []
    for t, b in ((1, 1), (2, 1), (5, 3)):
        data.append({"x": RNG.integers(-9, 9, (t, b)), "l": RNG.integers(1, t + 1, b), "i": RNG.integers(-t, t, (t, b))})
    for device, env in (("sim", None), ("cuda", on_cuda())):
        for feed, got in zip(data, h.run(folder, model, data, "--device", device, env=env).outputs):
            turned = feed["x"].copy()
            for k, n in enumerate(feed["l"]):
                turned[:n, k] = turned[:n, k][::-1]
            h.same(got["y"], np.take_along_axis(turned, feed["i"] % len(turned), 0), device)


def test_extents_that_depend_on_data(folder):
    model = h.model([h.node("NonZero", "x", "i"), h.node("Transpose", "i", "t", perm=[1, 0]), h.node("GatherND", "x t", "v"), h.node("Mul", "v v", "y")],
                    {"x": (h.FLOAT, ["n", "m"])}, ["y"])
    data = [{"x": (h.normal(RNG, n, m) * (RNG.random((n, m)) < share)).astype(np.float32)} for n, m, share in ((4, 6, .5), (1, 1, 0), (30, 20, .1))]
    for device, env in (("sim", None), ("cuda", on_cuda())):
        for feed, got in zip(data, h.run(folder, model, data, "--device", device, env=env).outputs):
            h.same(got["y"], feed["x"][feed["x"] != 0] ** 2, device)


def test_what_is_missing_is_said(folder):
    model = h.save(layer(), folder / "m.onnx")
    np.savez(folder / "a.npz", **feeds()[2])
    run = lambda env: h.stax("run", model, "--inputs", folder / "a.npz", "--device", "cuda", env=env)
    run({"LD_LIBRARY_PATH": str(folder)}).expect(1, "no CUDA driver", "install")
    run(on_cuda(devices=0)).expect(1, "no GPU")
    run(on_cuda(capability=61)).expect(1, "6.1", "7.5")
    run(on_cuda(memory=4096)).expect(1, "bytes")
    run = lambda env: h.stax("run", model, "--inputs", folder / "a.npz", "--device", "hip", env=env)
    run({"LD_LIBRARY_PATH": str(folder)}).expect(1, "no HIP runtime", "install ROCm")
    run(on_hip(devices=0)).expect(1, "no GPU")
    run(on_hip(arch="gfx803")).expect(1, "gfx803", "gfx90a")
    h.stax("compile", model, "-o", folder / "m.stax", "--target", "hip:gfx942").expect(0)
    h.stax("run", folder / "m.stax", "--inputs", folder / "a.npz", "--device", "hip", env=on_hip()).expect(1, "gfx942", "gfx90a")


def replay(folder, cuda):
    """Does what a launch log says on a fresh driver: buffers as they were before, the writes, copies and launches in order. What is in them then, by number."""
    handle = lambda: ctypes.c_void_p()
    memory, functions = {}, {}

    def at(place):
        if place["buffer"] is None:
            return 0
        if place["buffer"] not in memory:
            data = (folder / "buffers" / f"{place['buffer']}.before").read_bytes()
            address = ctypes.c_uint64()
            assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(len(data))) == 0
            assert cuda.cuMemcpyHtoDAsync_v2(address, data, ctypes.c_size_t(len(data)), None) == 0
            memory[place["buffer"]] = (address.value, len(data))
        return memory[place["buffer"]][0] + place["offset"]

    for line in map(json.loads, (folder / "launches.jsonl").read_text().splitlines()):
        if "write" in line:
            data = (folder / line["file"]).read_bytes()
            assert cuda.cuMemcpyHtoDAsync_v2(ctypes.c_uint64(at(line["write"])), data, ctypes.c_size_t(len(data)), None) == 0
            continue
        if "copy" in line:
            assert cuda.cuMemcpyDtoDAsync_v2(ctypes.c_uint64(at(line["to"])), ctypes.c_uint64(at(line["copy"])), ctypes.c_size_t(line["bytes"]), None) == 0
            continue
        if line["file"] not in functions:
            module, function = handle(), handle()
            assert cuda.cuModuleLoadDataEx(ctypes.byref(module), (folder / line["file"]).read_bytes() + b"\0", 0, None, None) == 0
            assert cuda.cuModuleGetFunction(ctypes.byref(function), module, line["entry"].encode()) == 0
            functions[line["file"]] = function
        values = [ctypes.c_uint64(at(a) if "buffer" in a else a["value"] & (2 ** 64 - 1)) for a in line["arguments"]]
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
        assert cuda.cuLaunchKernel(functions[line["file"]], *line["grid"], line["block"], 1, 1, line["shared_bytes"], None, pointers, None) == 0, line
    result = {}
    for number, (address, size) in memory.items():
        data = ctypes.create_string_buffer(size)
        assert cuda.cuMemcpyDtoHAsync_v2(data, ctypes.c_uint64(address), ctypes.c_size_t(size), None) == 0
        result[number] = data.raw
    return result


def test_a_launch_log_replays(folder):
    model, data = layer(), feeds()[2:4]
    for device, env in (("cuda", on_cuda()), ("sim", None)):
        log = folder / device
        h.run(folder, model, data, "--device", device, "--launch-log", log, env=env)
        lines = [json.loads(l) for l in (log / "launches.jsonl").read_text().splitlines()]
        launches = [l for l in lines if "kernel" in l]
        assert launches and all((log / l["file"]).exists() for l in launches)
        assert all(set(l) == {"kernel", "version", "file", "entry", "grid", "block", "shared_bytes", "arguments"} for l in launches)
    cuda = ctypes.CDLL(str(FAKE / "libcuda.so.1"))
    got = replay(folder / "cuda", cuda)
    assert got
    changed = 0
    for number, content in got.items():
        before, after = ((folder / "cuda" / "buffers" / f"{number}.{when}").read_bytes() for when in ("before", "after"))
        assert content == after, f"buffer {number} of {len(after)} bytes differs"
        changed += before != after
    assert changed, "the launches write something"
    np.savez(folder / "a.npz", **data[0])
    h.stax("run", h.save(model, folder / "m.onnx"), "--inputs", folder / "a.npz", "--launch-log", folder / "x").expect(1, "--launch-log", "cuda")


def test_a_bundle_is_checked_without_a_compiler(folder):
    cases = folder / "cases"
    scripts = Path(__file__).resolve().parents[2] / "scripts"
    subprocess.run([sys.executable, scripts / "gpu_cases.py", cases], check=True)
    names = ["softmax", "matmul", "gather", "transpose", "encoder", "top_k"]
    for name in names:
        h.stax("compile", cases / f"{name}.onnx", "-o", cases / f"{name}.cuda.stax", "--target", "cuda:sm_80").expect(0)
        h.stax("compile", cases / f"{name}.onnx", "-o", cases / f"{name}.cpu.stax").expect(0)
    program = FAKE.parent / "gpu_check"
    run = lambda *flags: subprocess.run([program, cases, "--only", f"^({'|'.join(names)})$", "--seconds", "0", "--json", folder / "r.json", *flags],
                                        capture_output=True, text=True, env=os.environ | on_cuda())
    done = run()
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == f"{len(names)} passed, 0 failed", done.stdout + done.stderr
    results = json.loads((folder / "r.json").read_text())
    assert {c["name"] for c in results["cases"]} == set(names) and all(s["fault"] == "" for c in results["cases"] for s in c["shapes"])
    # Code of another kernel is found out.
    (cases / "softmax.cuda.stax").write_bytes((cases / "transpose.cuda.stax").read_bytes())
    done = run()
    assert done.returncode == 1 and "FAIL" in done.stdout, done.stdout


if __name__ == "__main__":
    for library in (FAKE / "libcuda.so.1", FAKE_HIP / "libamdhip64.so.6"):
        if not library.exists():
            print(f"there is no {library}")
            sys.exit(77)
    h.main()
