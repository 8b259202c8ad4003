#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The cases of a GPU bundle: gpu_cases.py FOLDER writes NAME.onnx for each, and cases.json.

A case is a model without large constants: weights are inputs, drawn from a seed where the bundle runs. For each shape cases.json has the
inputs' extents, how they are drawn, the arithmetic operations and the least bytes that have to move.
"""
import json
import sys
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper

F32, F16, I64 = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT64
NAMES = {F32: "f32", F16: "f16", I64: "i64"}
SIZES = {F32: 4, F16: 2, I64: 8}


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


class Case:
    """inputs: {name: (type, dims as text, [draw])}, such as ("n", "k"); shapes: dicts of the names in dims; flops: text over them."""

    def __init__(self, name, nodes, inputs, outputs, shapes, flops="0", constants=None, tolerance=1e-4):
        self.name, self.inputs, self.shapes, self.flops, self.tolerance = name, inputs, shapes, flops, tolerance
        self.outputs = outputs
        infos = [helper.make_tensor_value_info(n, t, [d if not d.isdigit() else int(d) for d in dims.split()]) for n, (t, dims, *_) in inputs.items()]
        outs = [helper.make_tensor_value_info(n, t, None) for n, (t, _) in outputs.items()]
        consts = [numpy_helper.from_array(np.asarray(v), n) for n, v in (constants or {}).items()]
        graph = helper.make_graph(nodes, name, infos, outs, consts)
        self.model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)

    def spec(self):
        shapes = []
        for k, shape in enumerate(self.shapes):
            extents = lambda dims: [eval(d, {}, shape) for d in dims.split()]
            inputs = {n: {"dtype": NAMES[t], "extents": extents(dims), "draw": more[0] if more else "normal", "scale": more[1] if len(more) > 1 else 1.0}
                      for n, (t, dims, *more) in self.inputs.items()}
            size = lambda t, dims: SIZES[t] * int(np.prod(extents(dims), dtype=np.int64))
            moved = sum(size(t, dims) for t, dims, *_ in self.inputs.values()) + sum(size(t, dims) for t, dims in self.outputs.values())
            shapes.append({"label": " ".join(f"{a}={b}" for a, b in shape.items()), "seed": 1000 + k, "inputs": inputs,
                           "flops": float(eval(self.flops, {}, shape)), "bytes": float(moved)})
        return {"name": self.name, "tolerance": self.tolerance, "shapes": shapes}


def encoder_layer(i):
    """A transformer encoder layer with weights w<i>_*; x<i> -> x<i+1>."""
    p = f"l{i}_"
    nodes = []
    for q in "qkv":
        nodes += [node("MatMul", f"x{i} {p}w{q}", p + q + "0"), node("Add", f"{p}{q}0 {p}b{q}", p + q + "1"),
                  node("Reshape", f"{p}{q}1 heads", p + q + "2"), node("Transpose", f"{p}{q}2", p + q, perm=[0, 2, 3, 1] if q == "k" else [0, 2, 1, 3])]
    nodes += [node("MatMul", f"{p}q {p}k", p + "s"), node("Mul", f"{p}s scale", p + "s1"), node("Softmax", p + "s1", p + "p", axis=-1),
              node("MatMul", f"{p}p {p}v", p + "c"), node("Transpose", p + "c", p + "c1", perm=[0, 2, 1, 3]), node("Reshape", f"{p}c1 flat", p + "c2"),
              node("MatMul", f"{p}c2 {p}wo", p + "o"), node("Add", f"{p}o x{i}", p + "r"), node("LayerNormalization", f"{p}r {p}g1 {p}h1", p + "n", axis=-1),
              node("MatMul", f"{p}n {p}w1", p + "f"), node("Add", f"{p}f {p}b1", p + "f1"), node("Gelu", p + "f1", p + "f2"), node("MatMul", f"{p}f2 {p}w2", p + "f3"),
              node("Add", f"{p}f3 {p}n", p + "f4"), node("LayerNormalization", f"{p}f4 {p}g2 {p}h2", f"x{i + 1}", axis=-1)]
    weights = {p + "w" + q: (F32, "256 256", "normal", 0.06) for q in "qkvo"}
    weights |= {p + "b" + q: (F32, "256", "normal", 0.1) for q in "qkv"}
    weights |= {p + "w1": (F32, "256 1024", "normal", 0.06), p + "b1": (F32, "1024", "normal", 0.1), p + "w2": (F32, "1024 256", "normal", 0.03)}
    weights |= {p + v: (F32, "256") for v in ("g1", "h1", "g2", "h2")}
    return nodes, weights


def cases():
    odd = [{"n": 1, "m": 1}, {"n": 3, "m": 257}, {"n": 127, "m": 1000}]
    big = [{"n": 4096, "m": 4096}, {"n": 4095, "m": 4097}]
    yield Case("pointwise", [node("Mul", "a b", "t"), node("Add", "t c", "u"), node("Tanh", "u", "y")],
               {"a": (F32, "n m"), "b": (F32, "n m"), "c": (F32, "m")}, {"y": (F32, "n m")}, odd + big)
    yield Case("row_sum", [node("ReduceSum", "a axis", "y", keepdims=0)], {"a": (F32, "n m")}, {"y": (F32, "n")}, odd + big, constants={"axis": np.array([1])})
    yield Case("column_max", [node("ReduceMax", "a axis", "y", keepdims=0)], {"a": (F32, "n m")}, {"y": (F32, "m")}, odd + big, constants={"axis": np.array([0])})
    yield Case("full_mean", [node("ReduceMean", "a axes", "y", keepdims=0)], {"a": (F32, "n m")}, {"y": (F32, "")}, odd + big, constants={"axes": np.array([0, 1])})
    yield Case("softmax", [node("Softmax", "a", "y", axis=-1)], {"a": (F32, "n m")}, {"y": (F32, "n m")}, odd + big + [{"n": 64, "m": 65536}])
    yield Case("layer_norm", [node("LayerNormalization", "a g h", "y", axis=-1)], {"a": (F32, "n m"), "g": (F32, "m"), "h": (F32, "m")}, {"y": (F32, "n m")}, odd + big, tolerance=1e-3)
    yield Case("transpose", [node("Transpose", "a", "y", perm=[1, 0])], {"a": (F32, "n m")}, {"y": (F32, "m n")}, odd + big, tolerance=0)
    matmul = [{"m": 1, "n": 1, "k": 1}, {"m": 17, "n": 33, "k": 65}, {"m": 1, "n": 4096, "k": 4096}, {"m": 16, "n": 4096, "k": 1024}, {"m": 512, "n": 512, "k": 512},
              {"m": 1000, "n": 1001, "k": 999}, {"m": 2048, "n": 2048, "k": 2048}]
    yield Case("matmul", [node("MatMul", "a b", "t"), node("Add", "t c", "u"), node("Relu", "u", "y")], {"a": (F32, "m k"), "b": (F32, "k n"), "c": (F32, "n")}, {"y": (F32, "m n")},
               matmul, "2*m*n*k")
    yield Case("matmul_f16", [node("MatMul", "a b", "y")], {"a": (F16, "m k"), "b": (F16, "k n")}, {"y": (F16, "m n")}, matmul[:6], "2*m*n*k", tolerance=1e-2)
    yield Case("batched_matmul", [node("MatMul", "a b", "y")], {"a": (F32, "b m k"), "b": (F32, "b k n")}, {"y": (F32, "b m n")},
               [{"b": 3, "m": 5, "n": 7, "k": 9}, {"b": 96, "m": 128, "n": 128, "k": 64}], "2*b*m*n*k")
    image = [{"b": 1, "c": 3, "o": 5, "h": 7, "w": 9}, {"b": 2, "c": 64, "o": 64, "h": 56, "w": 56}, {"b": 1, "c": 32, "o": 96, "h": 111, "w": 57}]
    yield Case("convolution", [node("Conv", "a k", "t", pads=[1, 1, 1, 1]), node("Relu", "t", "y")], {"a": (F32, "b c h w"), "k": (F32, "o c 3 3")}, {"y": (F32, "b o h w")},
               image, "18*b*o*c*h*w")
    yield Case("strided_convolution", [node("Conv", "a k", "y", pads=[1, 1, 1, 1], strides=[2, 2])], {"a": (F32, "b c h w"), "k": (F32, "o c 3 3")},
               {"y": (F32, "b o (h+1)//2 (w+1)//2")}, image, "18*b*o*c*((h+1)//2)*((w+1)//2)")
    yield Case("depthwise", [node("Conv", "a k", "y", pads=[1, 1, 1, 1], group=32)], {"a": (F32, "b 32 h w"), "k": (F32, "32 1 3 3")}, {"y": (F32, "b 32 h w")},
               [{"b": 1, "h": 7, "w": 9}, {"b": 4, "h": 112, "w": 112}], "18*b*32*h*w")
    yield Case("attention", [node("Transpose", "k", "kt", perm=[0, 1, 3, 2]), node("MatMul", "q kt", "s"), node("Mul", "s f", "s1"), node("Softmax", "s1", "p", axis=-1), node("MatMul", "p v", "y")],
               {"q": (F32, "b 8 s 64"), "k": (F32, "b 8 t 64"), "v": (F32, "b 8 t 64")}, {"y": (F32, "b 8 s 64")},
               [{"b": 1, "s": 1, "t": 1}, {"b": 2, "s": 17, "t": 33}, {"b": 1, "s": 1, "t": 2048}, {"b": 2, "s": 512, "t": 512}], "4*b*8*s*t*64", {"f": np.float32(0.125)}, 1e-3)
    yield Case("gather", [node("Gather", "a i", "y", axis=0)], {"a": (F32, "n m"), "i": (I64, "k", "below 3")}, {"y": (F32, "k m")},
               [{"n": 3, "m": 5, "k": 7}, {"n": 4096, "m": 1024, "k": 4096}], tolerance=0)
    yield Case("running_sum", [node("CumSum", "a axis", "y")], {"a": (F32, "n m")}, {"y": (F32, "n m")}, odd + [{"n": 4096, "m": 512}], constants={"axis": np.array(1)})
    yield Case("top_k", [node("TopK", "a k", "v i", axis=-1)], {"a": (F32, "n m")}, {"v": (F32, "n 5"), "i": (I64, "n 5")}, [{"n": 3, "m": 7}, {"n": 64, "m": 1000}],
               constants={"k": np.array([5])}, tolerance=0)
    yield Case("lstm", [node("LSTM", "x w r b", "y h c", hidden_size=64)], {"x": (F32, "s b 32"), "w": (F32, "1 256 32", "normal", 0.1), "r": (F32, "1 256 64", "normal", 0.1), "b": (F32, "1 512", "normal", 0.1)},
               {"y": (F32, "s 1 b 64"), "h": (F32, "1 b 64"), "c": (F32, "1 b 64")}, [{"s": 1, "b": 1}, {"s": 40, "b": 5}], "2*s*b*256*96", tolerance=1e-3)
    nodes, inputs = [], {"x0": (F32, "b s 256")}
    for i in range(4):
        more, weights = encoder_layer(i)
        nodes += more
        inputs |= weights
    for n in nodes:
        if n.op_type == "Gelu":   # opset 18 has none: as exporters spell it
            x, y = n.input[0], n.output[0]
            n.op_type, n.output[0] = "Div", y + "_d"
            n.input.append("root2")
            at = [k for k, other in enumerate(nodes) if other is n][0]
            nodes[at + 1:at + 1] = [node("Erf", y + "_d", y + "_e"), node("Add", y + "_e one", y + "_f"), node("Mul", f"{x} {y}_f", y + "_g"), node("Mul", y + "_g half", y)]
    one = lambda v: np.float32(v)
    yield Case("encoder", nodes, inputs, {"x4": (F32, "b s 256")}, [{"b": 1, "s": 1}, {"b": 1, "s": 17}, {"b": 2, "s": 128}, {"b": 8, "s": 384}],
               "4*(2*b*s*256*256*4 + 4*b*s*s*256 + 4*b*s*256*1024)",
               {"heads": np.array([0, 0, 4, 64]), "flat": np.array([0, 0, 256]), "scale": one(0.125), "root2": one(2 ** .5), "one": one(1), "half": one(.5)}, 1e-3)


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    specs = []
    for case in cases():
        (folder / f"{case.name}.onnx").write_bytes(case.model.SerializeToString())
        specs.append(case.spec())
    (folder / "cases.json").write_text(json.dumps(specs))


if __name__ == "__main__":
    main()
