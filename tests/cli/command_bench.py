# SPDX-License-Identifier: Apache-2.0
"""stax bench: shapes of a sweep, what is counted, and mistakes."""
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import harness as h
import numpy as np


def model(folder):
    return h.save(h.model([h.node("MatMul", "x w", "t"), h.node("Relu", "t", "y")], {"x": (h.FLOAT, ["rows", "n"])}, ["y"],
                          {"w": h.normal(np.random.default_rng(5), 24, 40)}), folder / "m.onnx")


def bench(folder, *flags):
    h.stax("bench", model(folder), "--threads", "1", "--repeat", "3", "--json", folder / "b.json", *flags).expect(0)
    return json.loads((folder / "b.json").read_text())


def test_a_sweep_is_its_shapes(folder):
    rows = lambda *flags: [p["shapes"]["x"][0] for p in bench(folder, *flags)["points"]]
    assert rows("--sweep", "rows=3..20:log") == [3, 4, 8, 16, 20]
    assert rows("--sweep", "rows=8..16") == [8, 9, 10, 11, 12, 13, 14, 15, 16]
    assert rows("--sweep", "rows=7") == [7]
    assert rows("--sweep", "rows=5..5:log") == [5]


def test_dims_without_a_sweep_are_the_same_at_all_shapes_and_named(folder):
    m = h.save(h.model([h.node("Add", "x y", "s"), h.node("Relu", "s", "z")], {"x": (h.FLOAT, ["rows", "n"]), "y": (h.FLOAT, ["many", 1, "n"])}, ["z"]),
               folder / "m.onnx")
    done = h.stax("bench", m, "--repeat", "1", "--json", folder / "b.json", "--sweep", "rows=1..64:log").expect(0)
    points = [p["shapes"] for p in json.loads((folder / "b.json").read_text())["points"]]
    assert len({(p["x"][1], *p["y"]) for p in points}) == 1 and [p["x"][0] for p in points] == [1, 2, 4, 8, 16, 32, 64], points
    for p in points:
        assert f"many={p['y'][0]},n={p['x'][1]},rows={p['x'][0]}: " in done.out, done.out


def test_bytes_and_operations_are_counted(folder):
    np.savez(folder / "x.npz", x=h.normal(np.random.default_rng(1), 10, 24))
    (point,) = bench(folder, "--inputs", folder / "x.npz")["points"]
    (kernel,) = point["kernels"]
    # A multiplication and an addition for each of 10 x 40 x 24 products, a maximum for each result. Weights are packed in panels of 32 columns.
    assert kernel["operations"] == 10 * 40 * 24 * 2 + 10 * 40, kernel
    assert kernel["bytes"] == 4 * (10 * 24 + 24 * 64 + 10 * 40), kernel
    assert kernel["launches"] == 1 and kernel["us"] > 0 and point["call_us"] > 0
    assert kernel["share_of_roof"] > 0 and abs(kernel["goperations_per_s"] - kernel["operations"] / kernel["us"] / 1e3) < 1e-3 * kernel["goperations_per_s"]


def test_the_roof_is_one(folder):
    roof = bench(folder, "--sweep", "rows=1")["roof"]
    rates = [rate for _, rate in sorted((int(size), rate) for size, rate in roof["gbytes_per_s"].items())]
    assert roof["goperations_per_s"] > 1 and min(rates) > 0.1 and len(rates) == 4, roof


def test_mistakes(folder):
    m = model(folder)
    h.stax("bench", m, "--sweep", "row=1..4").expect(1, "row", "rows")
    h.stax("bench", m, "--sweep", "rows").expect(1, "rows", "NAME=LOW..HIGH")
    h.stax("bench", m, "--sweep", "rows=9..3").expect(1, "9", "3")
    h.stax("bench", m, "--sweep", "rows=1..4", "--sweep", "rows=2").expect(1, "twice")
    h.stax("bench", m, "--sweep", "rows=1", "--inputs", "a.npz").expect(1, "--inputs")
    h.stax("bench", m, "--device", "cuda").expect(1, "unsupported", "doctor")


h.main()
