# SPDX-License-Identifier: Apache-2.0
"""Products of half floats as HIP, for each AMD machine that has an instruction for them: they assemble, and nothing of a thread is in memory."""
import os
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import harness as h


def test_half_floats_by_matrix_instructions(folder):
    if not shutil.which("clang-22"):
        return "skipped: clang-22 is not installed"
    nodes = [h.node("MatMul", "a b", "t"), h.node("Add", "t c", "u"), h.node("Relu", "u", "y")]
    model = h.model(nodes, {"a": (h.HALF, [None, None]), "b": (h.HALF, [None, None]), "c": (h.HALF, [None])}, {"y": (h.HALF, [None, None])})
    done = subprocess.run([sys.executable, h.ROOT / "scripts" / "assemble_kernels", "--stage", "hip", "--targets", "gfx90a,gfx942,gfx1100",
                           h.save(model, folder / "product.onnx")], capture_output=True, text=True, timeout=600, env=os.environ | {"STAX": h.STAX})
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout.strip().splitlines()[-1]


h.main()
