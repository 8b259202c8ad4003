# SPDX-License-Identifier: Apache-2.0
"""Device `opencl`, on whatever driver this machine has."""
import ctypes
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import gpu_devices
import harness as h
import numpy as np

RNG = np.random.default_rng()


def has_driver():
    try:
        count = ctypes.c_uint()
        return ctypes.CDLL("libOpenCL.so.1").clGetPlatformIDs(0, None, ctypes.byref(count)) == 0 and count.value > 0
    except OSError:
        return False


def test_agrees_at_every_shape(folder):
    session = gpu_devices.agrees(folder, "opencl")
    assert session.stats["device"]["kind"] == "opencl" and session.stats["device"]["name"], session.stats["device"]


def test_a_compiled_file_runs(folder):
    model = h.save(gpu_devices.layer(), folder / "m.onnx")
    h.stax("compile", model, "-o", folder / "m.stax", "--target", "opencl").expect(0)
    gpu_devices.agrees(folder, "opencl", None, folder / "m.stax")


def test_attention_at_every_shape(folder):
    gpu_devices.attention_agrees(folder, "opencl")


def test_column_sums(folder):
    gpu_devices.column_sums_agree(folder, "opencl")


def test_half_precision_is_stored_and_computed_in_float(folder):
    model = h.model([h.node("Add", "x y", "z")], {"x": (10, ["n"]), "y": (10, ["n"])}, ["z"])
    data = [{k: RNG.standard_normal(n).astype(np.float16) for k in "xy"} for n in (1, 7, 1000)]
    for feed, got in zip(data, h.run(folder, model, data, "--device", "opencl").outputs):
        h.same(got["z"], feed["x"] + feed["y"], "float16")


def test_a_wrong_index_is_an_error_and_the_session_goes_on(folder):
    h.save(h.model([h.node("Gather", "x i", "y", axis=0)], {"x": (h.FLOAT, ["n", "m"]), "i": (h.INT64, ["k"])}, ["y"]), folder / "m.onnx")
    x = h.normal(RNG, 5, 3)
    paths = []
    for k, (rows, i) in enumerate(((x, [0, -1]), (x, [2, 5]), (x[:0], [0]), (x, [4]))):
        np.savez(folder / f"{k}.npz", x=rows, i=np.array(i))
        paths.append(folder / f"{k}.npz")
    done = h.stax("run", folder / "m.onnx", "--inputs", *paths, "--outputs", folder / "out", "--device", "opencl")
    done.expect(1, "1.npz", "2.npz", "5")
    h.same(h.load(folder / "out" / "0.npz")["y"], x[[0, -1]], "before")
    h.same(h.load(folder / "out" / "3.npz")["y"], x[[4]], "after")
    assert not (folder / "out" / "1.npz").exists() and not (folder / "out" / "2.npz").exists()


def test_without_a_driver_it_says_what_to_install(folder):
    model = h.save(gpu_devices.layer(), folder / "m.onnx")
    np.savez(folder / "a.npz", **gpu_devices.feeds()[1])
    (folder / "none").mkdir()
    h.stax("run", model, "--inputs", folder / "a.npz", "--device", "opencl", env={"OCL_ICD_VENDORS": str(folder / "none")}).expect(
        1, "no OpenCL device", "apt-get install", "OCL_ICD_VENDORS")


if __name__ == "__main__":
    if not has_driver():
        print("there is no OpenCL driver")
        sys.exit(77)
    h.main()
