# SPDX-License-Identifier: Apache-2.0
"""The rows of docs/semantics.md as tiny models with their exact results. test_semantics.py runs them."""
from dataclasses import dataclass, field

import numpy as np

INF, NAN = np.inf, np.nan
DEVICES = ("reference", "loop", "cpu")
CASES = []


@dataclass
class Case:
    row: str                    # of docs/semantics.md
    signature: str              # "float[n] x => float[n] y"
    nodes: str                  # of onnx.parser
    feed: dict
    want: dict = None           # by output; None: the call is an error
    words: str = ""             # that the error says
    on: dict = field(default_factory=dict)      # device -> what is different there: a dict of outputs, or words
    opset: int = 24
    flags: tuple = ()
    alone: bool = False         # not to be put into one model with others


def case(*arguments, **keywords):
    CASES.append(Case(*arguments, **keywords))


def f(*v):
    return np.array(v, np.float32)


def half(*v):
    return np.array(v, np.float16)


def i(*v):
    return np.array(v, np.int64)


def of(dtype, *v):
    return np.array(v, dtype)


def none(*extents, dtype=np.float32):
    return np.zeros(extents, dtype)


# ---- nothing to combine

for op, value in [("ReduceSum", 0), ("ReduceProd", 1), ("ReduceMax", -INF), ("ReduceMin", INF), ("ReduceMean", NAN), ("ReduceL1", 0), ("ReduceL2", 0),
                  ("ReduceSumSquare", 0), ("ReduceLogSum", -INF), ("ReduceLogSumExp", -INF)]:
    case("reduce-nothing", "float[n, k] x => float[n] y", f"a = Constant<value_ints=[1]>()\ny = {op}<keepdims=0>(x, a)", {"x": none(2, 0)}, {"y": f(value, value)})
for op, value in [("ReduceSum", 0), ("ReduceProd", 1), ("ReduceMax", -2**63), ("ReduceMin", 2**63 - 1), ("ReduceMean", 0)]:
    case("reduce-nothing-integers", "int64[n, k] x => int64[n] y", f"a = Constant<value_ints=[1]>()\ny = {op}<keepdims=0>(x, a)",
         {"x": none(2, 0, dtype=np.int64)}, {"y": i(value, value)})
for op, value in [("ReduceMax", False), ("ReduceMin", True)]:
    case("reduce-nothing-integers", "bool[n, k] x => bool[n] y", f"a = Constant<value_ints=[1]>()\ny = {op}<keepdims=0>(x, a)",
         {"x": none(2, 0, dtype=bool)}, {"y": of(bool, value, value)})
for op in ("ArgMax", "ArgMin"):
    case("arg-of-nothing", "float[n, k] x => int64[n] y", f"y = {op}<axis=1, keepdims=0>(x)", {"x": none(2, 0)}, {"y": i(0, 0)})
case("product-of-nothing", "float[n, k] x, float[k, m] w, float[m] b => float[n, m] y, float[n, m] z", "y = MatMul(x, w)\nz = Gemm(x, w, b)",
     {"x": none(1, 0), "w": none(0, 2), "b": f(1, 2)}, {"y": f([0, 0]), "z": f([1, 2])})
case("product-of-nothing", "int8[n, k] x, int8[k, m] w => int32[n, m] y", "y = MatMulInteger(x, w)",
     {"x": none(1, 0, dtype=np.int8), "w": none(0, 2, dtype=np.int8)}, {"y": of(np.int32, [0, 0])})
case("product-of-nothing", "float[i, j] x, float[k, j] w => float[k, i] y", 'y = Einsum<equation="ij,kj->ki">(x, w)', {"x": none(1, 0), "w": none(2, 0)}, {"y": f([0], [0])})
case("softmax-of-nothing", "float[n, k] x => float[n, k] y", "y = Softmax(x)", {"x": none(3, 0)}, {"y": none(3, 0)})
case("norm-of-nothing", "float[n, k] x, float[k] s => float[n, k] y", "y = LayerNormalization(x, s)", {"x": none(2, 0), "s": none(0)}, {"y": none(2, 0)})
case("pool-of-nothing", "float[n, c, k] x => float[n, c, l] y, float[n, c, l] z", "y = GlobalAveragePool(x)\nz = GlobalMaxPool(x)",
     {"x": none(1, 1, 0)}, {"y": f([[NAN]]), "z": f([[-INF]])})
case("no-window", "float[n, c, k] x => float[n, c, l] y", "y = MaxPool<kernel_shape=[2]>(x)", {"x": none(1, 1, 1)}, {"y": none(1, 1, 0)})
case("det-of-nothing", "float[b, n, n] x => float[b] y", "y = Det(x)", {"x": none(2, 0, 0)}, {"y": f(1, 1)})
for op in ("HannWindow", "HammingWindow", "BlackmanWindow"):
    case("window-of-one", "int64 n => float[k] y", f"y = {op}<periodic=0>(n)", {"n": of(np.int64, 1).reshape(())}, {"y": f(1)})
for op, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4)):
    ones = ", ".join(["1"] * gates)
    case("recurrence-of-nothing", "float[t, b, 1] x, int32[b] l, float[1, b, 1] h => float[t, d, b, u] y, float[d, b, u] z",
         f"w = Constant<value = float[1, {gates}, 1] {{{ones}}}>()\ny, z = {op}<hidden_size=1>(x, w, w, , l, h)",
         {"x": none(2, 1, 1), "l": of(np.int32, 0), "h": f([[3]])}, {"y": none(2, 1, 1, 1), "z": f([[3]])})
case("no-trips", "int64 t, bool c, float[n] x => float[n] y, float[k, n] z",
     "y, z = Loop(t, c, x) <body = b (int64 i, bool ci, float[n] v) => (bool co, float[n] vo, float[n] so) {\n"
     "co = Identity(ci)\nvo = Add(v, v)\nso = Identity(vo) }>",
     {"t": np.array(0), "c": np.array(True), "x": f(1, 2)}, {"y": f(1, 2), "z": none(0, 2)})

# ---- NaN, infinities, zeros

case("minmax-nan", "float[n] x, float[n] w => float[n] y, float[n] z", "y = Max(x, w)\nz = Min(x, w)",
     {"x": f(1, NAN, INF), "w": f(NAN, 1, NAN)}, {"y": f(NAN, NAN, NAN), "z": f(NAN, NAN, NAN)})
case("minmax-nan", "float[n, k] x => float[n] y, float[n] z", "a = Constant<value_ints=[1]>()\ny = ReduceMax<keepdims=0>(x, a)\nz = ReduceMin<keepdims=0>(x, a)",
     {"x": f([1, NAN, 3], [-INF, 1, INF])}, {"y": f(NAN, INF), "z": f(NAN, -INF)})
case("max-pool-nan", "float[n, c, k] x => float[n, c, l] y", "y = MaxPool<kernel_shape=[2]>(x)", {"x": f([[1, NAN, -INF, -INF]])}, {"y": f([[1, NAN, -INF]])})
case("minmax-nan", "float[n] x => float[n] y", "y = Relu(x)", {"x": f(NAN, -1, 2)}, {"y": f(NAN, 0, 2)})
case("minmax-zeros", "float[n] x, float[n] w => float[n] y, float[n] z", "y = Max(x, w)\nz = Min(x, w)", {"x": f(0.0, -0.0), "w": f(-0.0, 0.0)},
     {"y": f(0, 0), "z": f(0, 0)})
case("clip", "float[n] x, float lo, float hi => float[n] y", "y = Clip(x, lo, hi)", {"x": f(NAN, -1, 2, INF), "lo": np.float32(0), "hi": np.float32(1)}, {"y": f(NAN, 0, 1, 1)})
case("clip", "float[n] x, float lo, float hi => float[n] y", "y = Clip(x, lo, hi)", {"x": f(NAN, -1, 9), "lo": np.float32(2), "hi": np.float32(1)}, {"y": f(NAN, 1, 1)})
case("arg-nan", "float[n, k] x => int64[n] y, int64[n] z, int64[n] u, int64[n] v",
     "y = ArgMax<axis=1, keepdims=0>(x)\nz = ArgMax<axis=1, keepdims=0, select_last_index=1>(x)\n"
     "u = ArgMin<axis=1, keepdims=0>(x)\nv = ArgMin<axis=1, keepdims=0, select_last_index=1>(x)",
     {"x": f([1, NAN, 3, NAN], [3, 1, 3, 1], [-0.0, 0.0, 0.0, -0.0])}, {"y": i(1, 0, 0), "z": i(3, 2, 3), "u": i(1, 1, 0), "v": i(3, 3, 3)})
case("compare-nan", "float[n] x, float[n] w => bool[n] a, bool[n] b, bool[n] c, bool[n] d", "a = Equal(x, w)\nb = Less(x, w)\nc = GreaterOrEqual(x, w)\nd = Not(a)",
     {"x": f(NAN, NAN, 0.0), "w": f(NAN, 1, -0.0)},
     {"a": of(bool, 0, 0, 1), "b": of(bool, 0, 0, 0), "c": of(bool, 0, 0, 1), "d": of(bool, 1, 1, 0)})
case("sort-nan", "float[n, k] x => float[n, q] y, int64[n, q] j, float[n, q] z, int64[n, q] l",
     "q = Constant<value_ints=[4]>()\ny, j = TopK(x, q)\nz, l = TopK<largest=0>(x, q)", {"x": f([1, NAN, 3, 3], [0.0, -0.0, NAN, INF])},
     {"y": f([NAN, 3, 3, 1], [NAN, INF, 0.0, 0.0]), "j": i([1, 2, 3, 0], [2, 3, 0, 1]), "z": f([1, 3, 3, NAN], [0.0, 0.0, INF, NAN]), "l": i([0, 2, 3, 1], [0, 1, 3, 2])})
case("unique-nan", "float[k] x => float[q] y, int64[q] a, int64[r] b, int64[q] c", "y, a, b, c = Unique(x)", {"x": f(1, NAN, 0.0, -0.0, NAN)},
     {"y": f(0, 1, NAN), "a": i(2, 0, 1), "b": i(1, 2, 0, 0, 2), "c": i(2, 1, 2)})
case("nonzero-nan", "float[n] x => int64[r, m] y", "y = NonZero(x)", {"x": f(0, -0.0, NAN, 1e-45)}, {"y": i([2, 3])})
case("ieee", "float[n] x, float[n] w => float[n] y, float[n] z", "y = Div(x, w)\nz = Mul(x, w)", {"x": f(1, -1, 0, 1, INF), "w": f(0, 0, 0, -0.0, 0)},
     {"y": f(INF, -INF, NAN, -INF, INF), "z": f(0, 0, 0, 0, NAN)})
case("ieee", "float[n] x => float[n] a, float[n] b, float[n] c", "a = Sqrt(x)\nb = Log(x)\nc = Sign(x)", {"x": f(-1, 0, INF, NAN)},
     {"a": f(NAN, 0, INF, NAN), "b": f(NAN, -INF, INF, NAN), "c": f(-1, 0, 1, NAN)})
case("ieee", "float[n] x, float[n] w => float[n] y", "y = Pow(x, w)", {"x": f(0, 0, -8, NAN, 1), "w": f(0, -1, 0.5, 0, NAN)}, {"y": f(1, INF, NAN, 1, 1)})
case("where-nan", "bool[n] c, float[n] x, float[n] w => float[n] y", "y = Where(c, x, w)", {"c": of(bool, 1, 0), "x": f(NAN, NAN), "w": f(1, 1)}, {"y": f(NAN, 1)})
case("where-nan", "float[n, k] x, float[k, m] w => float[n, m] y", "y = MatMul(x, w)", {"x": f([INF, 1]), "w": f([0], [1])}, {"y": f([NAN])})

# ---- softmax and attention

case("softmax-minus-inf", "float[n, k] x => float[n, k] y, float[n, k] z", "y = Softmax(x)\nz = LogSoftmax(x)", {"x": f([-INF, -INF], [-INF, 0])},
     {"y": f([NAN, NAN], [0, 1]), "z": f([NAN, NAN], [-INF, 0])})
case("softmax-inf", "float[n, k] x => float[n, k] y", "y = Softmax(x)", {"x": f([INF, 0], [NAN, 0])}, {"y": f([NAN, NAN], [NAN, NAN])})
case("softmax-large", "float[n, k] x => float[n, k] y", "y = Softmax(x)", {"x": f([1e14, -1e14, 0], [3e38, 3e38, -3e38])}, {"y": f([1, 0, 0], [0.5, 0.5, 0])})
case("softmax-flattened", "float[a, b, c] x => float[a, b, c] y", "y = Softmax<axis=1>(x)", {"x": none(1, 2, 2)}, {"y": np.full((1, 2, 2), 0.25, np.float32)}, opset=11)
case("softmax-flattened", "float[a, b, c] x => float[a, b, c] y", "y = Softmax<axis=1>(x)", {"x": none(1, 2, 2)}, {"y": np.full((1, 2, 2), 0.5, np.float32)})
_qkv = {"q": np.ones((1, 1, 2, 4), np.float32), "k": np.ones((1, 1, 3, 4), np.float32), "v": np.ones((1, 1, 3, 4), np.float32)}
_attended = {"y": np.array([[[[0] * 4, [1] * 4]]], np.float32)}
case("attention-masked", "float[b, h, s, d] q, float[b, h, t, d] k, float[b, h, t, d] v, bool[s, t] m => float[b, h, s, d] y", "y = Attention(q, k, v, m)",
     {**_qkv, "m": of(bool, [0, 0, 0], [1, 0, 1])}, _attended)
case("attention-masked", "float[b, h, s, d] q, float[b, h, t, d] k, float[b, h, t, d] v, float[s, t] m => float[b, h, s, d] y", "y = Attention(q, k, v, m)",
     {**_qkv, "m": f([-INF] * 3, [0, -INF, 0])}, _attended)
case("attention-no-keys", "float[b, h, s, d] q, float[b, h, t, d] k, float[b, h, t, d] v => float[b, h, s, d] y", "y = Attention(q, k, v)",
     {"q": _qkv["q"], "k": none(1, 1, 0, 4), "v": none(1, 1, 0, 4)}, {"y": none(1, 1, 2, 4)})

# ---- integers

for name, dtype in [("int8", np.int8), ("uint8", np.uint8), ("int32", np.int32), ("int64", np.int64)]:
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    case("integers-wrap", f"{name}[n] x, {name}[n] w => {name}[n] a, {name}[n] b", "a = Add(x, w)\nb = Sub(w, x)", {"x": of(dtype, most, least), "w": of(dtype, 1, 0)},
         {"a": of(dtype, least, least), "b": of(dtype, 2 if least == 0 else least + 2, 0 if least == 0 else least)})
case("integers-wrap", "int8[n] x => int8[n] a, int8[n] b", "a = Abs(x)\nb = Neg(x)", {"x": of(np.int8, -128, 5)}, {"a": of(np.int8, -128, 5), "b": of(np.int8, -128, -5)})
case("integers-wrap", "int32[n] x => int32[m] y", "y = ReduceSum(x)", {"x": of(np.int32, 2**31 - 1, 1)}, {"y": of(np.int32, -2**31)})
case("integers-wrap", "int32[n, k] x, int32[k, m] w => int32[n, m] y", "y = MatMul(x, w)", {"x": of(np.int32, [2**30, 2**30]), "w": of(np.int32, [2], [3])},
     {"y": of(np.int32, [2**30])})
case("integer-division", "int32[n] x, int32[n] w => int32[n] y", "y = Div(x, w)", {"x": of(np.int32, 7, -7, 7, -7), "w": of(np.int32, 2, 2, -2, -2)}, {"y": of(np.int32, 3, -3, -3, 3)})
case("integer-division", "int64[n] x, int64[n] w => int64[n] y", "y = Div(x, w)", {"x": i(2**40), "w": i(3)}, {"y": i(366503875925)})
case("integer-division", "int32[n] x => int32[m] y", "y = ReduceMean(x)", {"x": of(np.int32, -1, -2)}, {"y": of(np.int32, -1)})
case("division-by-zero", "int32[n] x, int32[n] w => int32[n] a, int32[n] b, int32[n] c", "a = Div(x, w)\nb = Mod(x, w)\nc = Mod<fmod=1>(x, w)",
     {"x": of(np.int32, 5, 0, -2**31), "w": of(np.int32, 0, 0, -1)}, {"a": of(np.int32, 0, 0, -2**31), "b": of(np.int32, 0, 0, 0), "c": of(np.int32, 0, 0, 0)})
case("modulo", "int32[n] x, int32[n] w => int32[n] a, int32[n] b", "a = Mod(x, w)\nb = Mod<fmod=1>(x, w)", {"x": of(np.int32, 7, -7, 7, -7), "w": of(np.int32, 2, 2, -2, -2)},
     {"a": of(np.int32, 1, 1, -1, -1), "b": of(np.int32, 1, -1, 1, -1)})
case("modulo", "float[n] x, float[n] w => float[n] y", "y = Mod<fmod=1>(x, w)", {"x": f(7, -7, 5, INF, 1), "w": f(2.5, -2.5, 0, 1, INF)}, {"y": f(2, -2, NAN, NAN, 1)})
case("shift", "uint8[n] x, uint8[n] w => uint8[n] a, uint8[n] b", 'a = BitShift<direction="LEFT">(x, w)\nb = BitShift<direction="RIGHT">(x, w)',
     {"x": of(np.uint8, 255, 255, 255), "w": of(np.uint8, 1, 8, 200)}, {"a": of(np.uint8, 254, 0, 0), "b": of(np.uint8, 127, 0, 0)})
case("shift", "int32[n] x, int32[n] w => int32[n] a, int32[n] b", 'a = BitShift<direction="LEFT">(x, w)\nb = BitShift<direction="RIGHT">(x, w)',
     {"x": of(np.int32, -8, -8, 8), "w": of(np.int32, 1, 40, -1)}, {"a": of(np.int32, -16, 0, 0), "b": of(np.int32, -4, -1, 0)}, opset=28)
case("integer-power", "int32[n] x, int32[n] w => int32[n] y", "y = Pow(x, w)", {"x": of(np.int32, 2, 3, 2, -1), "w": of(np.int32, 31, 40, -1, -3)},
     {"y": of(np.int32, -2**31, 689956897, 0, -1)})
case("integer-power", "int32[n] x, float[n] w => int32[n] y", "y = Pow(x, w)", {"x": of(np.int32, 4, 2, 9), "w": f(0.5, 3, -1)}, {"y": of(np.int32, 2, 8, 0)})
case("integers-64", "int64[n] x => int64[m] y", "y = ReduceSum(x)", {"x": i(2**53, 1)}, {"y": i(2**53 + 1)})
case("integers-64", "int64 a, int64 b, int64 c => int64[n] y", "y = Range(a, b, c)", {"a": np.array(2**33), "b": np.array(2**33 + 2), "c": np.array(1)}, {"y": i(2**33, 2**33 + 1)})

# ---- casts and rounding

case("cast-to-integer", "float[n] x => int32[n] a, uint8[n] b, bool[n] c", "a = Cast<to=6>(x)\nb = Cast<to=2>(x)\nc = Cast<to=9>(x)", {"x": f(1.9, -1.9, 300, 0.4, -0.0)},
     {"a": of(np.int32, 1, -1, 300, 0, 0), "b": of(np.uint8, 1, 255, 44, 0, 0), "c": of(bool, 1, 1, 1, 1, 0)})
case("cast-out-of-range", "float[n] x => int64[n] a, int32[n] b", "a = Cast<to=7>(x)\nb = Cast<to=6>(x)", {"x": f(1e30, -1e30, INF, NAN)},
     {"a": i(2**63 - 1, -2**63, 2**63 - 1, -2**63), "b": of(np.int32, -1, 0, -1, 0)})
case("cast-out-of-range", "float[n] x => uint64[n] y", "y = Cast<to=13>(x)", {"x": f(3e9, -1, 1e19)}, {"y": of(np.uint64, 3000000000, 2**64 - 1, 2**63 - 1)})
case("cast-integers", "int64[n] x => int32[n] a, int8[n] b, bool[n] c", "a = Cast<to=6>(x)\nb = Cast<to=3>(x)\nc = Cast<to=9>(x)", {"x": i(2**32 + 5, -1, 300)},
     {"a": of(np.int32, 5, -1, 300), "b": of(np.int8, 5, -1, 44), "c": of(bool, 1, 1, 1)})
case("cast-to-half", "float[n] x => float16[n] a, bfloat16[n] b", "a = Cast<to=10>(x)\nb = Cast<to=16>(x)", {"x": f(65519, 65520, 2.0**-25, 1.00390625)},
     {"a": half(65504, INF, 0, 1.00390625), "b": of(np.uint16, 0x4780, 0x4780, 0x3300, 0x3F80)})
case("round", "float[n] x => float[n] y", "y = Round(x)", {"x": f(0.5, 1.5, 2.5, -0.5, NAN, INF)}, {"y": f(0, 2, 2, -0.0, NAN, INF)})
case("quantize", "float[n] x => int8[n] y", "s = Constant<value_float=0.5>()\nz = Constant<value = int8 {3}>()\ny = QuantizeLinear(x, s, z)",
     {"x": f(0.25, 0.75, -0.25, 1000, -INF, NAN)}, {"y": of(np.int8, 3, 5, 3, 127, -128, -128)})
case("quantize", "float[n] x => uint8[n] y", "s = Constant<value_float=0.1>()\nz = Constant<value = uint8 {0}>()\ny = QuantizeLinear(x, s, z)", {"x": f(0.25, 0.05, 0.15, 0.35)},
     {"y": of(np.uint8, 2, 0, 2, 4)})
case("quantize-constant", "float[n] x => uint8[n] y, float s, uint8 z", "y, s, z = DynamicQuantizeLinear(x)", {"x": f(0, 0)},
     {"y": of(np.uint8, 0, 0), "s": np.float32(1), "z": np.uint8(0)})
case("quantize-infinite", "float[n] x => uint8[n] y, float s, uint8 z", "y, s, z = DynamicQuantizeLinear(x)", {"x": f(INF, -INF, 1)},
     {"y": of(np.uint8, 0, 0, 255), "s": np.float32(INF), "z": np.array(255, np.uint8)})
case("quantize-infinite", "float[n] x => uint8[n] y, float s, uint8 z", "y, s, z = DynamicQuantizeLinear(x)", {"x": f(INF, -3, 1)},
     {"y": of(np.uint8, 0, 0, 0), "s": np.float32(INF), "z": np.array(0, np.uint8)})
case("quantize-infinite", "float[n] x => uint8[n] y, float s, uint8 z", "y, s, z = DynamicQuantizeLinear(x)", {"x": f(NAN, -3, 1)},
     {"y": of(np.uint8, 0, 0, 0), "s": np.float32(NAN), "z": np.array(255, np.uint8)})
case("half-chain", "float16[n] x, float16[n] w => float16[n] y", "t = Add(x, w)\ny = Sub(t, x)", {"x": half(2048), "w": half(1)}, {"y": half(1)}, on={"reference": {"y": half(0)}})
case("float-chain", "float[n] x => int32[n] y", "h = Constant<value_float=0.1>()\nq = Div(x, h)\ny = Cast<to=6>(q)", {"x": f(0.7)}, {"y": of(np.int32, 7)})

# ---- denormals and accumulation

case("denormals-kept", "float[n] x => float[n] y, float[n] z", "h = Constant<value_float=0.5>()\ny = Mul(x, h)\nz = Exp(x)", {"x": f(2.0**-140, -100)},
     {"y": f(2.0**-141, -50), "z": f(1, np.exp(-100.0))})
case("denormals-kept", "float[n, k] x => float[n] y", "a = Constant<value_ints=[1]>()\ny = ReduceSum<keepdims=0>(x, a)", {"x": f([2.0**-140] * 4)}, {"y": f(2.0**-138)})
case("denormals-flushed", "float[n, k] x, float[k, m] w => float[n, m] y", "y = MatMul(x, w)", {"x": f([2.0**-140, 1]), "w": f([1], [0])}, {"y": f([0])},
     on={"reference": {"y": f([2.0**-140])}})
case("denormals-flushed", "float[n, c, k] x, float[m, c, 2] w => float[n, m, q] y", "y = Conv(x, w)", {"x": np.full((1, 2, 2), 2.0**-140, np.float32), "w": np.ones((1, 2, 2), np.float32)},
     {"y": f([[0]])}, on={"reference": {"y": f([[2.0**-138]])}})
case("accumulate-sum", "float[n] x => float[m] y", "y = ReduceSum(x)", {"x": f(2**24, 1, 1, 1)}, {"y": f(2**24 + 4)})
case("accumulate-sum", "float[n] x => float[m] y", "y = ReduceL2(x)", {"x": f(2e19, 0)}, {"y": f(2e19)})
case("accumulate-sum", "float[n] x => float[n] y", "a = Constant<value_int=0>()\ny = CumSum(x, a)", {"x": f(2**24, 1, 1)}, {"y": f(2**24, 2**24, 2**24 + 2)})
case("accumulate-half", "float16[n] x => float16[m] y, float16[m] z", "y = ReduceSum(x)\nz = ReduceMean(x)", {"x": np.ones(5000, np.float16)}, {"y": half(5000), "z": half(1)})
case("accumulate-half", "float16[n] x => float16[m] y", "y = ReduceMean(x)", {"x": half(60000, 60000, 60000)}, {"y": half(60000)})
case("accumulate-half", "float16[n, k] x, float16[k, m] w => float16[n, m] y", "y = MatMul(x, w)", {"x": np.ones((1, 4000), np.float16), "w": np.ones((4000, 1), np.float16)}, {"y": half([4000])})
case("accumulate-product", "float[n, k] x, float[k, m] w => float[n, m] y", "y = MatMul(x, w)", {"x": f([2**24, 1, 1]), "w": f([1], [1], [1])}, {"y": f([2**24])},
     on={"reference": {"y": f([2**24 + 2])}})
case("norm-large-mean", "float[n, k] x, float[k] s => float[n, k] y", "y = LayerNormalization<epsilon=0.0>(x, s)", {"x": f([10000.0, 10000.001953125]), "s": f(1, 1)}, {"y": f([-1, 1])})
case("norm-large-mean", "float[n, k] x, float[k] s => float[n, k] y", "y = LayerNormalization(x, s)", {"x": f([1e7, 1e7]), "s": f(1, 1)}, {"y": f([0, 0])})

# ---- indices

case("index-negative", "float[n] x, int32[m] j => float[m] y", "y = Gather(x, j)", {"x": f(1, 2, 3), "j": of(np.int32, 0, -3, -1)}, {"y": f(1, 1, 3)})
for index in (3, -4):
    case("index-out-of-range", "float[n] x, int64[m] j => float[m] y", "y = Gather(x, j)", {"x": f(1, 2, 3), "j": i(index)}, words=f"index {index} is out of range for an extent of 3")
case("index-out-of-range", "float[n] x, int64[m] j => float[m] y", "y = Gather(x, j)", {"x": none(0), "j": i(0)}, words="index 0 is out of range for an extent of 0")
case("index-out-of-range", "float[n] x, int64[m] j, float[m] u => float[n] y", "y = ScatterElements(x, j, u)", {"x": f(0, 0), "j": i(2), "u": f(5)}, words="index 2 is out of range")
case("index-out-of-range", "float[n] x, int64 j => float[m] y", "s = SequenceConstruct(x, x)\ny = SequenceAt(s, j)", {"x": f(1), "j": np.array(2)}, words="position 2")
case("index-unused", "bool[m] c, float[n] x, int64[m] j => float[m] y", "g = Gather(x, j)\nz = Constant<value_float=0.0>()\ny = Where(c, g, z)",
     {"c": of(bool, 0, 1), "x": f(1, 2), "j": i(9, 1)}, {"y": f(0, 2)}, on={"reference": "index 9 is out of range"}, alone=True)
case("one-hot", "int64[m] j => float[m, k] y", "d = Constant<value_int=2>()\nv = Constant<value_floats=[0.0, 1.0]>()\ny = OneHot(j, d, v)", {"j": i(0, -1, 2, -3)},
     {"y": f([1, 0], [0, 1], [0, 0], [0, 0])})
case("scatter-twice", "float[n] x, int64[m] j, float[m] u => float[n] y, float[n] z", 'y = ScatterElements(x, j, u)\nz = ScatterElements<reduction="add">(x, j, u)',
     {"x": f(0, 0), "j": i(1, 1), "u": f(5, 6)}, {"y": f(0, 6), "z": f(0, 11)})
case("scatter-nan", "float[n] x, int64[m, 1] j, float[m] u => float[n] y, float[n] z", 'y = ScatterND<reduction="max">(x, j, u)\nz = ScatterND<reduction="min">(x, j, u)',
     {"x": f(0, 0, NAN), "j": i([1], [1], [2]), "u": f(5, NAN, 1)}, {"y": f(0, NAN, NAN), "z": f(0, NAN, NAN)})
case("scatter-nan", "float[n] x, int64[m] j, float[m] u => float[n] y, float[n] z", 'y = ScatterElements<reduction="max">(x, j, u)\nz = ScatterElements<reduction="min">(x, j, u)',
     {"x": f(0, 0, NAN, 7), "j": i(1, 1, 1, 2, 3), "u": f(5, NAN, -2, 1, NAN)}, {"y": f(0, 5, NAN, 7), "z": f(0, -2, NAN, 7)})

# ---- shapes that arrive with the call

_x = np.arange(6, dtype=np.float32).reshape(2, 3)
for shape, x, zero, made in [((3, -1), _x, 0, (3, 2)), ((0, -1), _x, 0, (2, 3)), ((-1, 0), _x, 0, (2, 3)), ((0, 3), none(0, 3), 1, (0, 3)), ((-1, 3), none(0, 3), 0, (0, 3)),
                             ((0, -1), none(2, 0), 0, (2, 0)), ((-1,), none(0, 3), 0, (0,))]:
    case("reshape", f"float[a, b] x, int64[{len(shape)}] s => float y", f"y = Reshape<allowzero={zero}>(x, s)", {"x": x, "s": i(*shape)}, {"y": x.reshape(made)})
for zero in (0, 1):
    case("reshape-zero-and-infer", "float[a, b] x, int64[2] s => float y", f"y = Reshape<allowzero={zero}>(x, s)", {"x": none(0, 3), "s": i(0, -1)}, {"y": none(0, 0)})
for shape, zero in [((4,), 0), ((-2, 3), 0), ((-1, -1), 0), ((0, 3), 1), ((2, 3, 0), 0)]:
    case("reshape-impossible", f"float[a, b] x, int64[{len(shape)}] s => float y", f"y = Reshape<allowzero={zero}>(x, s)", {"x": _x, "s": i(*shape)}, words="cannot reshape the 6 elements of 'x'")
for a, b, c, made in [(10, 1, -4, (10, 6, 2)), (10, 1, 4, ()), (0, 0, 1, ())]:
    case("range", "int64 a, int64 b, int64 c => int64[n] y", "y = Range(a, b, c)", {"a": np.array(a), "b": np.array(b), "c": np.array(c)}, {"y": i(*made)})
case("range", "float a, float b, float c => float[n] y", "y = Range(a, b, c)", {"a": np.float32(0), "b": np.float32(1), "c": np.float32(0.25)}, {"y": f(0, 0.25, 0.5, 0.75)})
case("range-zero-step", "int64 a, int64 b, int64 c => int64[n] y", "y = Range(a, b, c)", {"a": np.array(0), "b": np.array(1), "c": np.array(0)}, words="a step of 0")
case("range-zero-step", "float a, float b, float c => float[n] y", "y = Range(a, b, c)", {"a": np.float32(0), "b": np.float32(1), "c": np.float32(0)}, words="cannot allocate")
case("range-zero-step", "float a, float b, float c => float[n] y", "y = Range(a, b, c)", {"a": np.float32(0), "b": np.float32(NAN), "c": np.float32(1)}, words="-9223372036854775808")
for op in ("ConstantOfShape(s)", "Tile(x, s)"):
    case("negative-size", "float[n] x, int64[1] s => float y", f"y = {op}", {"x": f(1, 2), "s": i(-1)}, words="-1")
case("expand-minus-one", "float[n] x, int64[1] s => float[m] y", "y = Expand(x, s)", {"x": f(1, 2), "s": i(-1)}, {"y": f(1, 2)})
case("expand-minus-one", "float[n] x, int64[1] s => float[m] y", "y = Expand(x, s)", {"x": f(1, 2), "s": i(-2)}, words="-2")
case("negative-size", "float[n] x, int64[2] s => float[a] y, float[b] z", "y, z = Split<axis=0>(x, s)", {"x": f(1, 2, 3), "s": i(4, -1)}, words="-1")
case("negative-size", "float[n] x, int64[1] q => float[m] y, int64[m] j", "y, j = TopK(x, q)", {"x": f(1, 2), "q": i(-1)}, words="-1")
case("too-much", "int64[2] s => float y", "y = ConstantOfShape(s)", {"s": i(2**40, 2**30)}, words="cannot allocate")
case("top-k-count", "float[n] x, int64[1] q => float[m] y, int64[m] j", "y, j = TopK(x, q)", {"x": f(1, 2), "q": i(0)}, {"y": none(0), "j": i()})
case("top-k-count", "float[n] x, int64[1] q => float[m] y, int64[m] j", "y, j = TopK(x, q)", {"x": f(1, 2), "q": i(3)}, words="the 3 greatest of 2 elements")
_far = 2**63 - 1
for n, start, end, step, made in [(5, -100, 100, 2, (0, 2, 4)), (5, 100, -100, -2, (4, 2, 0)), (5, -100, -100, -1, (0,)), (5, 2, _far, 1, (2, 3, 4)), (5, -1, -_far - 1, -1, (4, 3, 2, 1, 0)),
                                  (5, 3, 1, 1, ()), (0, 0, 3, 1, ())]:
    case("slice", "float[n] x, int64[1] s, int64[1] e, int64[1] p => float[m] y", "a = Constant<value_ints=[0]>()\ny = Slice(x, s, e, a, p)",
         {"x": np.arange(n, dtype=np.float32), "s": i(start), "e": i(end), "p": i(step)}, {"y": f(*made)})
case("slice", "float[n] x, int64[1] s, int64[1] e, int64[1] p => float[m] y", "a = Constant<value_ints=[0]>()\ny = Slice(x, s, e, a, p)",
     {"x": f(1), "s": i(0), "e": i(5), "p": i(0)}, words="a step of 0")
for x, pads, mode, made in [(f(1, 2, 3), (-1, 1), "constant", f(2, 3, 0)), (none(0), (1, 1), "constant", f(0, 0)), (f(1, 2, 3), (3, 0), "reflect", f(2, 3, 2, 1, 2, 3)),
                            (f(1), (1, 1), "reflect", f(1, 1, 1)), (f(1, 2), (3, 1), "wrap", f(2, 1, 2, 1, 2, 1)), (f(1, 2), (1, 2), "edge", f(1, 1, 2, 2, 2))]:
    case("pad", "float[n] x, int64[2] p => float[m] y", f'y = Pad<mode="{mode}">(x, p)', {"x": x, "p": i(*pads)}, {"y": made})
for x, pads, mode, words in [(f(1, 2, 3), (-2, -2), "constant", "take more than the extent 3"), (none(0), (1, 1), "edge", "whose extent is 0")]:
    case("pad-impossible", "float[n] x, int64[2] p => float[m] y", f'y = Pad<mode="{mode}">(x, p)', {"x": x, "p": i(*pads)}, words=words)
case("broadcast", "float[n] x, float[m] w => float[k] y", "y = Add(x, w)", {"x": none(0), "w": f(1)}, {"y": none(0)})
case("broadcast", "float[a, b] x, int64[2] s => float y", "y = Expand(x, s)", {"x": np.ones((3, 2), np.float32), "s": i(1, 1)}, {"y": np.ones((3, 2), np.float32)})
for x, w in [(f(1, 2), f(1, 2, 3)), (none(0), f(1, 2))]:
    case("broadcast-impossible", "float[n] x, float[m] w => float[k] y", "y = Add(x, w)", {"x": x, "w": w}, words=f"cannot broadcast extent {len(x)} of 'x' with {len(w)} of 'w'")
case("split", "float[n] x, int64[2] s => float[a] y, float[b] z", "y, z = Split<axis=0>(x, s)", {"x": f(1, 2), "s": i(2, 0)}, {"y": f(1, 2), "z": none(0)})
case("split", "float[n] x, int64[2] s => float[a] y, float[b] z", "y, z = Split<axis=0>(x, s)", {"x": f(1, 2, 3), "s": i(1, 1)}, words="add up to 2")
case("squeeze", "float[n, k] x => float[k] y", "a = Constant<value_ints=[0]>()\ny = Squeeze(x, a)", {"x": np.ones((2, 3), np.float32)}, words="has extent 2, not 1")
for scale, attributes, made in [(0.7, "", (1, 3, 4, 5, 7, 8, 10)), (0.5, "", (1, 3, 5, 7, 9)), (0.5, ', nearest_mode="round_prefer_ceil"', (2, 4, 6, 8, 10))]:
    case("resize-nearest", "float[n] x, float[1] s => float[m] y", f'y = Resize<mode="nearest"{attributes}>(x, , s)', {"x": np.arange(1, 11, dtype=np.float32), "s": f(scale)}, {"y": f(*made)})
case("resize-empty", "float[n] x, int64[1] s => float[m] y", "y = Resize(x, , , s)", {"x": f(1, 2), "s": i(0)}, {"y": none(0)})
case("resize-empty", "float[n] x, int64[1] s => float[m] y", "y = Resize(x, , , s)", {"x": none(0), "s": i(3)}, words="without elements cannot be resized to 3")
for n, size, made in [(3, 1, (1,)), (1, 3, (1, 1, 1)), (3, 5, (1, 1.5, 2, 2.5, 3))]:
    case("resize-align-corners", "float[n] x, int64[1] s => float[m] y", 'y = Resize<mode="linear", coordinate_transformation_mode="align_corners">(x, , , s)',
         {"x": np.arange(1, n + 1, dtype=np.float32), "s": i(size)}, {"y": f(*made)})
case("reduce-axes", "float[n, k] x, int64[q] a => float y, float[n, k] z", "y = ReduceSum<keepdims=0>(x, a)\nz = ReduceSum<noop_with_empty_axes=1>(x, a)", {"x": np.ones((2, 3), np.float32), "a": i()},
     {"y": np.float32(6), "z": np.ones((2, 3), np.float32)})
case("reduce-axes", "float[n, k] x, int64[2] a => float y", "y = ReduceSum<keepdims=0>(x, a)", {"x": np.ones((2, 3), np.float32), "a": i(1, -1)}, words="an axis is named twice")

# ---- the caller's inputs

case("dims-shared", "float[n] x, float[n] w => float[n] y", "y = Add(x, w)", {"x": f(1, 2), "w": f(1)}, words="dim 'n'")
case("dim-range", "float[n] x => float[n] y", "y = Neg(x)", {"x": f(1, 2, 3)}, words="range 0..2", on={"reference": "range 0 .. 2"}, flags=("--dim", "n=0..2"))
case("input-type", "float[n] x => float[n] y", "y = Neg(x)", {"x": i(1)}, words="has type int64, expected float32")
case("random", "float[n] x => float[n] y", "y = RandomUniformLike(x)", {"x": f(0, 0)}, {"y": f(0.89025915, 0.67199826)}, alone=True)
