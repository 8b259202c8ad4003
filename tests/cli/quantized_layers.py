# SPDX-License-Identifier: Apache-2.0
"""Layers that differ in scales and zero points only: they share kernels, and each keeps its own numbers."""
import secrets
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import harness as h
import numpy as np


class Layers:
    """Nodes with fresh numbers in each layer."""

    def __init__(self):
        seed = secrets.randbits(32)
        print(f"seed {seed}")
        self.rng = np.random.default_rng(seed)
        self.nodes, self.constants, self.at = [], {}, "x"

    def constant(self, value):
        name = f"k{len(self.constants)}"
        self.constants[name] = np.asarray(value)
        return name

    def add(self, op, inputs, **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(h.node(op, inputs, name, **attributes))
        return name

    def quantized(self, x, least=0.02, most=0.05):
        grid = f"{self.constant(np.float32(self.rng.uniform(least, most)))} {self.constant(np.uint8(self.rng.integers(100, 150)))}"
        return self.add("DequantizeLinear", f"{self.add('QuantizeLinear', f'{x} {grid}')} {grid}")


def compare(folder, layers, count, outputs=()):
    outputs = list(outputs) or [layers.at]
    model = h.model(layers.nodes, {"x": (h.FLOAT, ["n", 40])}, outputs, layers.constants)
    feeds = [{"x": h.normal(layers.rng, n, 40)} for n in (3, 1, 0, 17)]
    apart = h.run(folder, model, feeds, env={"STAX_DISABLE": "hoist_literals"})
    shared = h.run(folder, model, feeds)
    for feed, one, other in zip(feeds, shared.outputs, apart.outputs):
        h.equal_bits(one, other, f"{feed['x'].shape}")
        # A value at the edge of two quanta may fall to either side.
        want = h.oracle(model, feed) if feed["x"].size else {}
        for name, values in want.items():
            far = np.abs(one[name] - values) > 1e-4
            assert far.mean() < 0.05, f"{feed['x'].shape} {name}: {far.sum()} of {far.size} differ"
    assert shared.stats["kernels"] == count and apart.stats["kernels"] > count, (shared.stats["kernels"], apart.stats["kernels"])


def test_maps(folder):
    layers, outputs = Layers(), []
    for _ in range(3):
        # With a factor for each column it is no function of the byte alone, which would be a table.
        scaled = layers.add("Mul", f"{layers.at} {layers.constant(h.normal(layers.rng, 40))}")
        layers.at = layers.quantized(layers.add("Tanh", scaled))
        outputs.append(layers.at)
    compare(folder, layers, 1, outputs)


def test_rows(folder):
    layers = Layers()
    for _ in range(3):
        weight, bias = (layers.constant(h.normal(layers.rng, 40)) for _ in range(2))
        layers.at = layers.quantized(layers.add("LayerNormalization", f"{layers.at} {weight} {bias}", axis=-1))
    compare(folder, layers, 1)


def test_products(folder):
    layers = Layers()
    for _ in range(3):
        weight = layers.constant(h.normal(layers.rng, 40, 40) / np.float32(8))
        layers.at = layers.quantized(layers.add("MatMul", f"{layers.at} {weight}"))
    compare(folder, layers, 1)


def test_literals_with_cases_of_their_own_stay(folder):
    layers = Layers()
    for exponent, divisor in ((2, 3), (3, 7), (0.5, 5)):
        size = layers.add("Abs", layers.at)
        power = layers.add("Pow", f"{size} {layers.constant(np.float32(exponent))}")
        layers.at = layers.add("Div", f"{layers.add('Tanh', power)} {layers.constant(np.float32(divisor))}")
    model = h.model(layers.nodes, {"x": (h.FLOAT, ["n", 40])}, [layers.at], layers.constants)
    feed = {"x": h.normal(layers.rng, 5, 40)}
    h.same(h.run_one(folder, model, feed), h.oracle(model, feed), "powers and quotients")


h.main()
