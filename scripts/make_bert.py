#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes an encoder of BERT's form with random weights, as exporters spell it: a model to measure and to test with.

  make_bert.py OUT.onnx [--layers 12] [--width 768] [--heads 12] [--inner 3072] [--words 1000] [--spelled-norms]

Inputs: input_ids i64[batch, sequence], attention_mask i64[batch, sequence]; output: last_hidden_state f32[batch, sequence, width]. Attention is
spelled out (MatMul, Div, Add of the mask, Softmax, MatMul between reshapes and transposes); LayerNormalization is one op, or with
--spelled-norms the chain of ReduceMean, Sub, Pow, Sqrt, Div. The weights are the same in every run.
"""
import argparse

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Maker:
    def __init__(self, options):
        self.options, self.nodes, self.weights = options, [], []
        self.rng = np.random.default_rng(1)

    def weight(self, name, *extents, scale=0.02, shift=0.0):
        self.constant(name, (self.rng.standard_normal(extents) * scale + shift).astype(np.float32))
        return name

    def constant(self, name, array):
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def op(self, kind, inputs, name, **attributes):
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name + "_node", **attributes))
        return name

    def linear(self, x, prefix, rows, columns):
        product = self.op("MatMul", [x, self.weight(prefix + "_w", rows, columns)], prefix + "_product")
        return self.op("Add", [product, self.weight(prefix + "_b", columns)], prefix + "_out")

    def norm(self, x, prefix):
        width = self.options.width
        scale, bias = self.weight(prefix + "_g", width, shift=1.0), self.weight(prefix + "_beta", width)
        if not self.options.spelled_norms:
            return self.op("LayerNormalization", [x, scale, bias], prefix, axis=-1, epsilon=1e-12)
        mean = self.op("ReduceMean", [x], prefix + "_mean", axes=[-1])
        d = self.op("Sub", [x, mean], prefix + "_d")
        square = self.op("Pow", [d, "two"], prefix + "_square")
        variance = self.op("ReduceMean", [square], prefix + "_variance", axes=[-1])
        deviation = self.op("Sqrt", [self.op("Add", [variance, "epsilon"], prefix + "_shifted")], prefix + "_deviation")
        y = self.op("Div", [d, deviation], prefix + "_unit")
        return self.op("Add", [self.op("Mul", [y, scale], prefix + "_scaled"), bias], prefix)

    def attention(self, x, mask, p):
        width, heads = self.options.width, self.options.heads
        size = width // heads
        split = self.constant(p + "_split", np.array([0, 0, heads, size], np.int64))
        join = self.constant(p + "_join", np.array([0, 0, width], np.int64))

        def head(name, perm):
            view = self.op("Reshape", [self.linear(x, f"{p}_{name}", width, width), split], f"{p}_{name}_split")
            return self.op("Transpose", [view], f"{p}_{name}_heads", perm=perm)

        q, k, v = head("q", [0, 2, 1, 3]), head("k", [0, 2, 3, 1]), head("v", [0, 2, 1, 3])
        scores = self.op("Div", [self.op("MatMul", [q, k], p + "_qk"), "root"], p + "_scores")
        weights = self.op("Softmax", [self.op("Add", [scores, mask], p + "_masked")], p + "_weights", axis=-1)
        context = self.op("Transpose", [self.op("MatMul", [weights, v], p + "_context")], p + "_back", perm=[0, 2, 1, 3])
        return self.linear(self.op("Reshape", [context, join], p + "_joined"), p + "_o", width, width)

    def gelu(self, x, p):
        e = self.op("Erf", [self.op("Div", [x, "root_two"], p + "_scaled")], p + "_erf")
        return self.op("Mul", [self.op("Mul", [x, self.op("Add", [e, "one"], p + "_shifted")], p + "_product"), "half"], p)

    def model(self):
        o = self.options
        for name, value in {"two": 2.0, "epsilon": 1e-12, "one": 1.0, "half": 0.5, "root_two": 2**0.5,
                            "root": (o.width / o.heads) ** 0.5, "lowest": -10000.0}.items():
            self.constant(name, np.float32(value))
        self.constant("axes", np.array([1, 2], np.int64))
        wide = self.op("Cast", [self.op("Unsqueeze", ["attention_mask", "axes"], "mask_4d")], "mask_float", to=TensorProto.FLOAT)
        mask = self.op("Mul", [self.op("Sub", ["one", wide], "mask_inverse"), "lowest"], "mask")
        x = self.op("Gather", [self.weight("words", o.words, o.width, scale=1.0), "input_ids"], "embedded")
        x = self.norm(x, "embedding_norm")
        for layer in range(o.layers):
            p = f"l{layer}"
            x = self.norm(self.op("Add", [self.attention(x, mask, p), x], p + "_sum1"), p + "_norm1")
            inner = self.gelu(self.linear(x, p + "_up", o.width, o.inner), p + "_gelu")
            x = self.norm(self.op("Add", [self.linear(inner, p + "_down", o.inner, o.width), x], p + "_sum2"), p + "_norm2")
        self.nodes[-1].output[0] = "last_hidden_state"
        ids = [helper.make_tensor_value_info(n, TensorProto.INT64, ["batch", "sequence"]) for n in ("input_ids", "attention_mask")]
        out = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["batch", "sequence", o.width])
        graph = helper.make_graph(self.nodes, "encoder", ids, [out], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    for name, default in {"layers": 12, "width": 768, "heads": 12, "inner": 3072, "words": 1000}.items():
        parser.add_argument("--" + name, type=int, default=default)
    parser.add_argument("--spelled-norms", action="store_true")
    options = parser.parse_args()
    onnx.save(Maker(options).model(), options.out)


if __name__ == "__main__":
    main()
