# SPDX-License-Identifier: Apache-2.0
"""What kernels of each class do to memory and warps, counted by the simulator at extents that are whole vectors: no bank conflicts, sectors of memory at most
1.05 of the least, threads that idle in a warp below 5 %."""
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import harness as h

sys.path.insert(0, str(h.ROOT / "scripts"))

ROWS = [{"n": 512, "m": 1024}, {"n": 4096, "m": 128}]
PRODUCTS = [{"m": 1024, "n": 1536, "k": 64}, {"m": 256, "n": 256, "k": 64}, {"m": 16, "n": 256, "k": 64}]
SHAPES = {"pointwise": ROWS, "row_sum": ROWS, "column_max": ROWS, "softmax": ROWS, "layer_norm": ROWS, "transpose": ROWS, "matmul": PRODUCTS, "matmul_f16": PRODUCTS}


def diagnosis(case, shape, target, folder):
    path, report = folder / f"{case.name}.onnx", folder / "doctor.json"
    path.write_bytes(case.model.SerializeToString())
    at = ",".join(f"{a}={b}" for a, b in shape.items())
    h.stax("doctor", path, "--at", at, "--target", target, "--json", report).expect(0)
    return json.loads(report.read_text())["kernels"]


def check(target, folder):
    import gpu_cases

    found = set()
    for case in gpu_cases.cases():
        for shape in SHAPES.get(case.name, []):
            kernels = diagnosis(case, shape, target, folder)
            assert kernels, (case.name, shape)
            found.add(case.name)
            for k in kernels:
                where = (case.name, shape, target, k["name"], k["version"])
                assert k["bank_conflicts"] == 0, (*where, k["bank_conflicts"])
                # Matrix instructions leave results that are stored in halves of sectors.
                if case.name != "matmul_f16":
                    assert k["coalescing"] >= 1 / 1.05, (*where, k["coalescing"])
                assert k["divergence"] <= 0.05, (*where, k["divergence"])
    assert found == set(SHAPES), found


def test_kernels_in_ptx(folder):
    check("cuda:sm_80", folder)


if __name__ == "__main__":
    h.main()
