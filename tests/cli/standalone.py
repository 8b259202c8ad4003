# SPDX-License-Identifier: Apache-2.0
"""dump --stage standalone: files that run one kernel by itself. Those for OpenCL are compiled and run on PoCL, and say whether the numbers are right; those
for CUDA and HIP are compiled where there are compilers for them."""
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import harness as h
import numpy as np

NVCC = shutil.which("nvcc") or shutil.which("nvcc", path=os.environ.get("CUDA_HOME", "/usr/local/cuda") + "/bin")
CLANG = shutil.which("clang-22")


def models():
    yield "pointwise", h.model([h.node("Mul", "a b", "t"), h.node("Tanh", "t", "y")], {"a": (h.FLOAT, ["n", "m"]), "b": (h.FLOAT, ["m"])}, ["y"])
    yield "softmax", h.model([h.node("Softmax", "a", "y", axis=-1)], {"a": (h.FLOAT, ["n", "m"])}, ["y"])
    yield "product", h.model([h.node("MatMul", "a b", "t"), h.node("Add", "t c", "y")], {"a": (h.FLOAT, ["n", "k"]), "b": (h.FLOAT, ["k", "m"]), "c": (h.FLOAT, ["m"])}, ["y"])
    yield "half", h.model([h.node("Exp", "a", "t"), h.node("ReduceSum", "t axis", "y", keepdims=0)], {"a": (h.HALF, ["n", "m"])}, ["y"], {"axis": np.array([1])})
    yield "gather", h.model([h.node("Gather", "a i", "y", axis=0)], {"a": (h.FLOAT, ["n", "m"]), "i": (h.INT64, ["k"])}, ["y"])
    yield "bytes", h.model([h.node("Cast", "a", "t", to=h.INT32), h.node("ReduceMax", "t axis", "y", keepdims=0)], {"a": (h.INT8, ["n", "m"])}, ["y"], {"axis": np.array([0])})


def files(folder, name, model, target, *flags):
    folder.mkdir(exist_ok=True)
    out = folder / name
    h.stax("dump", h.save(model, folder / f"{name}.onnx"), "--stage", "standalone", "--target", target, "--outputs", out, "--quiet", *flags).expect(0)
    kernels = json.loads((out / "kernels.json").read_text())
    assert kernels
    return [out / k["file"] for k in kernels]


def built(path):
    program = path.with_suffix(".run")
    done = subprocess.run(["c++", "-std=c++17", "-O1", "-Wall", "-Werror", "-Wno-unused-function", path, "-o", program, "-l:libOpenCL.so.1"], capture_output=True, text=True)
    assert done.returncode == 0, f"{path.name}: {done.stderr[:1000]}"
    return program


def test_each_version_is_right_on_opencl(folder):
    count = 0
    for name, model in models():
        for path in files(folder, name, model, "opencl"):
            done = subprocess.run([built(path)], capture_output=True, text=True, timeout=300)
            assert done.returncode == 0 and done.stdout.splitlines()[-1] == "right", f"{path}: {done.stdout}{done.stderr}"
            assert "agree" in done.stdout or "these inputs are no inputs" in done.stdout, done.stdout
            count += 1
    assert count >= 8
    return f"{count} kernels"


def test_parameters_come_from_the_shape_or_the_command_line(folder):
    [path] = files(folder, "pointwise", dict(models())["pointwise"], "opencl", "--at", "n=5,m=7")
    program = built(path)
    assert re.search(r"out: 35 elements agree", subprocess.run([program], capture_output=True, text=True).stdout)
    count = sum(line.startswith("//   p") for line in path.read_text().splitlines())
    zero = subprocess.run([program, *["0"] * count], capture_output=True, text=True)
    assert zero.returncode == 0 and "nothing to do" in zero.stdout, zero.stdout
    h.stax("dump", folder / "pointwise.onnx", "--stage", "standalone", "--target", "opencl", "--at", "n=5").expect(1, "--at", "name all dims")


def test_a_wrong_kernel_is_found_out(folder):
    [path, *_] = files(folder, "softmax", dict(models())["softmax"], "opencl")
    text = path.read_text()
    kernel = text.index("__kernel")
    broken = re.sub(r"(const int block_x = \(int\)get_group_id\(0\))", r"\1 / 2", text[kernel:], count=1)
    assert broken != text[kernel:]
    path.write_text(text[:kernel] + broken)
    done = subprocess.run([built(path)], capture_output=True, text=True)
    assert done.returncode == 1 and done.stdout.splitlines()[-1] == "WRONG" and "differ, first at" in done.stdout, done.stdout


def test_cuda_and_hip_files_compile(folder):
    said = []
    for name, model in models():
        for path in files(folder / "hip", name, model, "hip:gfx90a")[:2] if CLANG else []:
            done = subprocess.run([CLANG, "-x", "hip", "--cuda-device-only", "-nogpulib", "-nogpuinc", "--offload-arch=gfx90a", "-std=c++17", "-c", path, "-o", folder / "x.o"],
                                  capture_output=True, text=True)
            assert done.returncode == 0, f"{path.name}: {done.stderr[:1000]}"
    if not CLANG:
        said.append("there is no clang-22")
    if NVCC:
        for name in ("half", "gather"):
            path = files(folder / "cuda", name, dict(models())[name], "cuda:sm_80")[0]
            done = subprocess.run([NVCC, "-arch=sm_80", "-std=c++17", path, "-o", folder / "x"], capture_output=True, text=True)
            assert done.returncode == 0, f"{path.name}: {(done.stderr + done.stdout)[:1000]}"
            ran = subprocess.run([folder / "x"], capture_output=True, text=True)
            assert ran.returncode in (0, 2), f"right, or no driver: {ran.stdout}"
    else:
        said.append("there is no nvcc")
    return "; ".join(said)


def test_what_is_no_target_of_the_stage_is_said(folder):
    model = h.save(dict(models())["pointwise"], folder / "m.onnx")
    for target in ("sim", "cpu"):
        h.stax("dump", model, "--stage", "standalone", "--target", target).expect(1, "standalone", target)


if __name__ == "__main__":
    probe = subprocess.run([sys.executable, "-c", "import ctypes; cl = ctypes.CDLL('libOpenCL.so.1'); n = ctypes.c_uint(); exit(cl.clGetPlatformIDs(0, None, ctypes.byref(n)) or n.value == 0)"],
                           capture_output=True)
    if probe.returncode != 0 or shutil.which("c++") is None:
        print("there is no OpenCL device, or no c++")
        sys.exit(h.SKIP)
    h.main()
