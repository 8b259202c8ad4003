#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the small models that the tests of tests/api load: make_models.py FOLDER"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import harness as h
import numpy as np

FOLDER = Path(sys.argv[1])
FOLDER.mkdir(parents=True, exist_ok=True)


def save(name, model):
    h.save(model, FOLDER / f"{name}.onnx")


weights = (np.arange(12, dtype=np.float32).reshape(4, 3) - 5) / 8
bias = np.array([0.5, -1, 0.25], np.float32)
save("dense", h.model([h.node("MatMul", "x w", "m"), h.node("Add", "m b", "a"), h.node("Relu", "a", "y")],
                      {"x": (h.FLOAT, ["batch", 4])}, {"y": (h.FLOAT, ["batch", 3])}, {"w": weights, "b": bias}))

# How many there are depends on the data.
save("nonzero", h.model([h.node("NonZero", "x", "where"), h.node("Add", "x one", "more")],
                        {"x": (h.FLOAT, ["n"])}, {"where": (h.INT64, [1, None]), "more": (h.FLOAT, ["n"])}, {"one": np.float32(1)}))

# A view of another output's data, an input as it is, and one value twice.
save("views", h.model([h.node("Relu", "x", "positive"), h.node("Reshape", "positive open", "flat"), h.node("Identity", "x", "same"),
                       h.node("Identity", "positive", "again"), h.node("Neg", "x", "last"), h.node("Reshape", "last open", "line")],
                      {"x": (h.FLOAT, ["n", 2])}, ["flat", "same", "positive", "again", "line"], {"open": np.array([-1])}))

sequence_input = h.helper.make_tensor_sequence_value_info("s", h.FLOAT, ["rows", 2])
sequence = h.model([h.node("SequenceInsert", "s x", "more"), h.node("SequenceLength", "more", "length")],
                   {"x": (h.FLOAT, ["n", 2])}, ["more", "length"])
sequence.graph.input.insert(0, sequence_input)
save("sequence", sequence)

save("relation", h.model([h.node("Add", "a b", "y")], {"a": (h.FLOAT, ["n"]), "b": (h.FLOAT, ["n"])}, {"y": (h.FLOAT, ["n"])}))
save("pick", h.model([h.node("Gather", "table i", "y")], {"i": (h.INT64, ["n"])}, {"y": (h.FLOAT, ["n"])}, {"table": np.arange(5, dtype=np.float32)}))
save("unsupported", h.model([h.node("Frobnicate", "x", "y", domain="acme"), h.node("Twiddle", "y", "z", domain="acme")],
                            {"x": (h.FLOAT, ["n"])}, ["z"], domains=["acme"]))
(FOLDER / "damaged.onnx").write_bytes(b"no model at all")
