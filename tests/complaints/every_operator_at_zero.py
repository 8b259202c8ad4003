# SPDX-License-Identifier: Apache-2.0
"""Each operator with each of its extents at 0: what ONNX's reference gives, where it can; never a crash, never uninitialized memory.

All dims are unknown to the compiler. Extents of one size are one extent: they become 0 together.
"""
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import harness as h
import numpy as np

RNG = np.random.default_rng(24)
CASES = []


def case(name, inputs, *shapes, outputs=1, opset=21, **attributes):
    """inputs: names whose first letter says what they hold (VALUES), or NAME=literal."""
    CASES.append((name, inputs.split(), list(shapes), outputs, opset, attributes))


VALUES = {"a": lambda s: (np.abs(RNG.standard_normal(s)) / 2 + 0.1).astype(np.float32), "c": lambda s: RNG.random(s) < 0.5, "i": lambda s: RNG.integers(0, 2, s), "u": lambda s: RNG.integers(0, 5, s).astype(np.uint8), "l": lambda s: np.ones(s, np.int64)}

for unary in ("Abs Acos Acosh Asin Asinh Atan Atanh Ceil Celu Cos Cosh Elu Erf Exp Floor Gelu HardSigmoid HardSwish Identity IsInf IsNaN LeakyRelu Log Mish Neg Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus "
              "Softsign Sqrt Tan Tanh ThresholdedRelu").split():
    case(unary, "a", (3, 4))
for binary in "Add Sub Mul Div Pow Max Min Sum Equal Greater Less GreaterOrEqual LessOrEqual".split():
    case(binary, "a a2", (3, 1, 4), (5, 1))
case("Mod", "a a2", (3, 1, 4), (5, 1), fmod=1)
for logical in "And Or Xor".split():
    case(logical, "c c2", (3, 4), (4,))
for reduction in "ReduceSum ReduceMean ReduceProd ReduceMax ReduceMin ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceSumSquare".split():
    case(reduction, "a axes=[1]", (3, 4, 2), keepdims=0)
    case(reduction, "a", (3, 4))
case("Softmax", "a", (3, 4), axis=0)
case("LogSoftmax", "a", (3, 4), axis=-1)
case("Hardmax", "a", (3, 4), axis=1)
case("MatMul", "a a2", (2, 3, 4), (4, 5))
case("MatMul", "a a2", (4,), (4, 5))
case("Gemm", "a a2 a3", (3, 4), (4, 5), (5,))
case("Gemm", "a a2", (4, 3), (5, 4), transA=1, transB=1)
case("Einsum", "a a2", (2, 3, 4), (2, 4, 5), equation="bij,bjk->bik")
case("Einsum", "a", (3, 3), equation="ii->i")
case("Einsum", "a a2", (3, 4), (5, 4), equation="ij,kj->ki")
case("MatMulInteger", "u u2", (3, 4), (4, 5))
case("Concat", "a a2", (3, 4), (3, 5), axis=1)
case("Transpose", "a", (3, 4, 5), perm=[2, 0, 1])
case("Squeeze", "a", (3, 1, 4))
case("Shape", "a", (3, 4))
case("Size", "a", (3, 4))
case("Gather", "a i", (5, 4), (2, 3), axis=1)
case("GatherElements", "a i", (5, 4), (5, 7), axis=1)
case("GatherND", "a i", (3, 4, 5), (6, 2))
case("ScatterElements", "a i a2", (5, 4), (2, 3), (2, 3), axis=0)
case("ScatterND", "a i a2", (3, 4), (6, 2), (6,), reduction="add")
case("CumSum", "a k=1", (3, 4), exclusive=1, reverse=1)
case("Trilu", "a", (2, 3, 5), upper=0)
case("OneHot", "i k=6 a", (3, 4), (2,))
case("EyeLike", "a", (3, 5))
case("LayerNormalization", "a a2", (3, 4), (4,))
case("InstanceNormalization", "a a2 a3", (2, 3, 5), (3,), (3,))
case("BatchNormalization", "a a2 a3 a4 a5", (2, 3, 5), (3,), (3,), (3,), (3,))
case("MeanVarianceNormalization", "a", (2, 3, 4, 5))
case("RMSNormalization", "a a2", (3, 4), (4,), opset=23)
case("LpNormalization", "a", (3, 4))
case("Conv", "a a2", (2, 3, 9), (4, 3, 5))
case("Conv", "a a2", (2, 3, 9, 8), (4, 3, 2, 7), pads=[1, 1, 1, 1], strides=[2, 1])
case("ConvTranspose", "a a2", (2, 3, 9), (3, 4, 5))
case("MaxPool", "a", (2, 3, 9), kernel_shape=[4])
case("AveragePool", "a", (2, 3, 9), kernel_shape=[3], pads=[1, 1])
case("GlobalAveragePool", "a", (2, 3, 4, 5))
case("GlobalMaxPool", "a", (2, 3, 4, 5))
case("DepthToSpace", "a", (2, 8, 3, 5), blocksize=2)
case("SpaceToDepth", "a", (2, 1, 4, 6), blocksize=2)
case("PRelu", "a a2", (2, 3, 5), (3, 1))
case("Where", "c a a2", (3, 1), (1, 4), (5, 1, 1))
case("NonZero", "a", (3, 4))
case("Compress", "a c", (3, 4), (3,), axis=0)
case("Unique", "a", (3, 4), outputs=4)
case("TopK", "a k=[0]", (3, 4), outputs=2)
case("Expand", "a s=[2,3,4]", (3, 1))
case("Tile", "a s=[2,3]", (3, 4))
case("Cast", "a", (3, 4), to=h.INT32)
case("BitShift", "u u2", (3, 4), (3, 4), direction="LEFT")
case("Not", "c", (3, 4))
case("ReverseSequence", "a l", (4, 3), (3,))
case("Det", "a", (2, 3, 3))
case("GridSample", "a a2", (1, 2, 3, 4), (1, 5, 6, 2))
case("Split", "a", (6, 4), outputs=2, num_outputs=2)
case("LSTM", "a a2 a3", (3, 2, 4), (1, 20, 4), (1, 20, 5), outputs=3, hidden_size=5)
case("GRU", "a a2 a3", (3, 2, 4), (1, 15, 4), (1, 15, 5), outputs=2, hidden_size=5)
case("SoftmaxCrossEntropyLoss", "a i", (3, 5), (3,))
case("Attention", "a a2 a3", (2, 3, 4, 8), (2, 3, 5, 8), (2, 3, 5, 8), opset=23)

# Where the model cannot take the extent: the weights of a recurrent layer have the rows that its attribute says, a depth is a multiple of the
# block, a matrix of 0 columns has no determinant's batch, an index tuple of length 0 is no index.
REFUSED = {"GRU": {15, 5}, "LSTM": {20, 5}, "GridSample": {2}, "GatherND": {2}, "ScatterND": {2}, "Split": set()}


def draw(names, shapes):
    feed, shapes = {}, list(shapes)
    for name in names:
        literal = name.partition("=")[2]
        feed[name.partition("=")[0]] = np.array(eval(literal)) if literal else VALUES[name[0]](shapes.pop(0))
    return feed


def test_each_extent_at_zero_in_turn(folder):
    from onnx.reference import ReferenceEvaluator
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    wrong, compared = [], 0
    for name, inputs, shapes, outputs, opset, attributes in CASES:
        sizes = sorted({e for s in shapes for e in s})
        feeds = [draw(inputs, shapes)] + [draw(inputs, [tuple(0 if x == e else x for x in s) for s in shapes]) for e in sizes]
        made = [f"y{k}" for k in range(outputs)]
        types = {k: (h.helper.np_dtype_to_tensor_dtype(v.dtype), [None] * v.ndim) for k, v in feeds[0].items()}
        model = h.model([h.helper.make_node(name, list(feeds[0]), made, **attributes)], types, made, opset=opset)
        session = h.run(folder, model, feeds, status=None)
        if session.done.status not in (0, 1):
            wrong.append(f"{name}: exit {session.done.status}: {session.done.err[-300:]}")
            continue
        reference = ReferenceEvaluator(model)
        for k, feed in enumerate(feeds):
            zero = sizes[k - 1] if k else None
            try:
                want = reference.run(None, feed)
            except Exception:
                want = None
            got, shown = session.outputs[k], f"{name} {attributes} at {[v.shape for v in feed.values()]}"
            if got is None:
                if zero not in REFUSED.get(name, ()) and (want is not None or zero is None):
                    wrong.append(f"{shown} is refused: {session.done.err[-300:]}")
            elif want is not None:
                compared += 1
                for o, w in zip(made, want):
                    why = h.differs(got[o], np.asarray(w), rtol=1e-3, atol=1e-4)
                    if why:
                        wrong.append(f"{shown}, {o}: {why}")
    assert not wrong, "\n".join(wrong)
    assert compared > 200, compared


if __name__ == "__main__":
    h.main()
