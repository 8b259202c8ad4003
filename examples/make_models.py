#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The models of the examples, with random weights: make_models.py FOLDER"""
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Graph:
    """Nodes and weights as they are written down."""

    def __init__(self, seed):
        self.nodes, self.weights, self.random = [], [], np.random.default_rng(seed)

    def weight(self, *shape, scale=None):
        scale = np.sqrt(2 / np.prod(shape[1:])) if scale is None else scale
        return self.constant(self.random.normal(0, scale, shape).astype(np.float32))

    def constant(self, value):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def __call__(self, op, *inputs, **attributes):
        name = f"{op.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], name, **attributes))
        return name

    def save(self, path, inputs, outputs):
        for name, made in outputs.items():
            self.nodes.append(helper.make_node("Identity", [made], [name]))
        declared = [helper.make_tensor_value_info(n, t, s) for n, (t, s) in inputs.items()]
        graph = helper.make_graph(self.nodes, path.stem, declared, [onnx.ValueInfoProto(name=n) for n in outputs], self.weights)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)


def classify(path, classes=10):
    """Pictures [batch, 3, height, width] of any size -> probabilities [batch, classes]: inverted residuals, as in MobileNet."""
    g = Graph(1)

    def convolution(x, source, target, kernel, stride=1, groups=1):
        pad = kernel // 2
        y = g("Conv", x, g.weight(target, source // groups, kernel, kernel), g.weight(target, scale=0.1),
              strides=[stride, stride], pads=[pad] * 4, group=groups)
        return y

    def block(x, source, target, stride, expand=3):
        wide = source * expand
        y = g("Clip", convolution(x, source, wide, 1), g.constant(np.float32(0)), g.constant(np.float32(6)))
        y = g("Clip", convolution(y, wide, wide, 3, stride, wide), g.constant(np.float32(0)), g.constant(np.float32(6)))
        y = convolution(y, wide, target, 1)
        return g("Add", x, y) if stride == 1 and source == target else y

    x = g("Relu", convolution("pixels", 3, 8, 3, 2))
    for source, target, stride in ((8, 8, 1), (8, 12, 2), (12, 12, 1), (12, 16, 2)):
        x = block(x, source, target, stride)
    x = g("Flatten", g("GlobalAveragePool", x))
    x = g("Gemm", x, g.weight(classes, 16), g.weight(classes, scale=0.1), transB=1)
    g.save(path, {"pixels": (TensorProto.FLOAT, ["batch", 3, "height", "width"])}, {"probabilities": g("Softmax", x, axis=-1)})


def read_text(path, letters=27):
    """Lines of text [batch, 1, 16, width] -> letters [batch, width / 4, letters + 1] as scores; letter 0 is the gap of CTC."""
    g = Graph(2)
    x = "line"
    for source, target in ((1, 8), (8, 16)):
        x = g("Relu", g("Conv", x, g.weight(target, source, 3, 3), g.weight(target, scale=0.1), pads=[1] * 4))
        x = g("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = g("ReduceMax", x, g.constant(np.array([2])), keepdims=0)          # [batch, 16, width / 4]
    x = g("Transpose", x, perm=[0, 2, 1])
    x = g("Add", g("MatMul", x, g.weight(16, letters + 1, scale=0.8)), g.weight(letters + 1, scale=0.3))
    g.save(path, {"line": (TensorProto.FLOAT, ["batch", 1, 16, "width"])}, {"scores": g("LogSoftmax", x, axis=-1)})


def decoder(path, words=50, width=32, heads=4):
    """tokens [1, new], keys and values [heads, past, width / heads] -> scores [new, words] and keys and values [heads, past + new, ..]."""
    g = Graph(3)
    size = width // heads
    x = g("Squeeze", g("Gather", g.weight(words, width, scale=1), "tokens"), g.constant(np.array([0])))
    new = g("Shape", x, start=0, end=1)
    past = g("Shape", "keys", start=1, end=2)
    total = g("Add", new, past)

    def split(name):
        y = g("Reshape", g("MatMul", x, g.weight(width, width, scale=0.2)), g.constant(np.array([-1, heads, size])))
        return g("Transpose", y, perm=[1, 0, 2])

    query = split("query")
    keys = g("Concat", "keys", split("key"), axis=1)
    values = g("Concat", "values", split("value"), axis=1)
    scores = g("Mul", g("MatMul", query, g("Transpose", keys, perm=[0, 2, 1])), g.constant(np.float32(size ** -0.5)))

    def counting(end):
        return g("Range", g.constant(np.int64(0)), g("Squeeze", end), g.constant(np.int64(1)))

    row = g("Unsqueeze", g("Add", counting(new), past), g.constant(np.array([1])))
    seen = g("LessOrEqual", g("Unsqueeze", counting(total), g.constant(np.array([0]))), row)
    scores = g("Where", seen, scores, g.constant(np.float32(-np.inf)))
    mixed = g("Transpose", g("MatMul", g("Softmax", scores, axis=-1), values), perm=[1, 0, 2])
    x = g("Add", x, g("Reshape", mixed, g.constant(np.array([-1, width]))))
    cache = (TensorProto.FLOAT, [heads, "past", size])
    g.save(path, {"tokens": (TensorProto.INT64, [1, "new"]), "keys": cache, "values": cache},
           {"scores": g("MatMul", x, g.weight(width, words, scale=0.5)), "new_keys": keys, "new_values": values})


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    classify(folder / "classify.onnx")
    read_text(folder / "read_text.onnx")
    decoder(folder / "decoder.onnx")
