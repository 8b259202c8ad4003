# SPDX-License-Identifier: Apache-2.0
"""Small models under many configurations: no pass that may be left out changes a result."""
import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import harness as h
import numpy as np

n = h.node


def passes():
    """What the compiler can leave out."""
    sources = "".join((h.ROOT / "src" / "compile" / f).read_text() for f in ("pipeline.cpp", "build_program.cpp", "kernel_stages.cpp"))
    names = re.findall(r'(?:run_pass|is_disabled)\("(\w+)"', sources)
    assert len(names) >= 8, names
    return sorted(set(names))


def models():
    rng = np.random.default_rng(11)
    w = lambda *shape: h.normal(rng, *shape) / 2
    make = lambda nodes, inputs, outputs, **constants: h.model(nodes, inputs, outputs.split(), constants, opset=20)
    one_more = h.body([n("Add", "v one", "next"), n("ReduceSum", "next", "total", keepdims=0), n("Identity", "go", "on")],
                      {"i": (h.INT64, []), "go": (h.BOOL, []), "v": (h.FLOAT, ["n", 4])}, {"on": (h.BOOL, []), "next": (h.FLOAT, ["n", 4]), "total": (h.FLOAT, [])}, {"one": np.float32(1)})
    twice = h.body([n("Add", "x x", "t")], {}, {"t": (h.FLOAT, None)})
    plain = h.body([n("Exp", "x", "t")], {}, {"t": (h.FLOAT, None)})
    x4 = {"x": (h.FLOAT, ["n", 4])}
    yield "pointwise", make([n("Mul", "x x", "a"), n("Add", "a b", "c"), n("Tanh", "c", "d"), n("Sub", "d a", "y"), n("Sigmoid", "a", "z")], x4 | {"b": (h.FLOAT, ["n", 1])}, "y z"), \
        lambda k: {"x": w(k, 4), "b": w(k, 1)}
    yield "softmax", make([n("Add", "x m", "t"), n("Softmax", "t", "y", axis=-1)], {"x": (h.FLOAT, ["a", "n"]), "m": (h.FLOAT, ["n"])}, "y"), lambda k: {"x": w(3, k), "m": w(k)}
    yield "norm", make([n("LayerNormalization", "x g b", "y", axis=-1), n("Relu", "y", "z")], {"x": (h.FLOAT, ["n", 24])}, "y z", g=w(24), b=w(24)), lambda k: {"x": w(k, 24)}
    yield "perceptron", make([n("MatMul", "x w", "a"), n("Add", "a b", "c"), n("Gelu", "c", "d"), n("MatMul", "d v", "y")], {"x": (h.FLOAT, ["n", 16])}, "y", w=w(16, 40), b=w(40), v=w(40, 5)) , \
        lambda k: {"x": w(k, 16)}
    yield "transposed products", make([n("Transpose", "y", "yt", perm=[1, 0]), n("MatMul", "x yt", "z"), n("Gemm", "x y", "g", transB=1, alpha=0.5)], {"x": (h.FLOAT, ["n", "k"]), "y": (h.FLOAT, ["m", "k"])}, "z g"), \
        lambda k: {"x": w(k, 7), "y": w(9, 7)}
    yield "attention", make([n("Transpose", "x", "xt", perm=[0, 2, 1]), n("MatMul", "x xt", "s"), n("Div", "s c", "sc"), n("Softmax", "sc", "p", axis=-1), n("MatMul", "p x", "y")], {"x": (h.FLOAT, ["b", "n", 8])}, "y", c=np.float32(3)), \
        lambda k: {"x": w(2, k, 8)}
    yield "convolution", make([n("Conv", "x w b", "a", pads=[1, 1, 1, 1]), n("Relu", "a", "r"), n("MaxPool", "r", "y", kernel_shape=[2, 2], strides=[2, 2]), n("GlobalAveragePool", "r", "z")],
                              {"x": (h.FLOAT, ["n", 3, "h", "w"])}, "y z", w=w(5, 3, 3, 3), b=w(5)), lambda k: {"x": w(2, 3, k + 2, 9)}
    yield "indices", make([n("Gather", "x i", "a", axis=0), n("ScatterElements", "x j u", "b", axis=0), n("Concat", "a b", "c", axis=0), n("Slice", "c one big zero", "y")], x4 | {"i": (h.INT64, ["m"]), "j": (h.INT64, ["p", 4]), "u": (h.FLOAT, ["p", 4])},
                          "y", one=np.array([1]), big=np.array([1 << 40]), zero=np.array([0])), lambda k: {"x": w(k + 1, 4), "i": np.array([0, -1, k]), "j": np.zeros((1, 4), np.int64) + k, "u": w(1, 4)}
    yield "shape arithmetic", make([n("Shape", "x", "s"), n("Slice", "s zero one", "s0"), n("Concat", "s0 minus", "t", axis=0), n("Reshape", "x t", "r"), n("ReduceSum", "r one", "y", keepdims=0), n("Expand", "y s0", "z")],
                                   {"x": (h.FLOAT, ["n", 2, 3])}, "y", zero=np.array([0]), one=np.array([1]), minus=np.array([6])), lambda k: {"x": w(k, 2, 3)}
    yield "data-dependent", make([n("Greater", "x zero", "c"), n("Compress", "x f", "kept"), n("NonZero", "c", "at"), n("ReduceSum", "kept", "y", keepdims=0), n("Exp", "kept", "e"), n("CumSum", "e axis", "z")],
                                 x4 | {"f": (h.BOOL, ["m"])}, "at y z", zero=np.float32(0), axis=np.array(0)), lambda k: {"x": w(k, 4), "f": rng.random(4 * k) < 0.5}
    yield "control flow", make([n("Loop", "trips - x", "last totals", body=one_more), n("If", "c", "y", then_branch=twice, else_branch=plain), n("Mul", "last y", "z")],
                               x4 | {"trips": (h.INT64, []), "c": (h.BOOL, [])}, "z totals"), lambda k: {"x": w(k, 4), "trips": np.array(k % 4), "c": np.array(k % 2 == 0)}
    yield "integers", make([n("Mul", "i i", "s"), n("Mod", "s seven", "m"), n("Cast", "m", "f", to=h.FLOAT), n("ReduceMax", "m", "y", keepdims=0), n("ArgMin", "f", "z", axis=-1), n("TopK", "f two", "v at", axis=-1)],
                           {"i": (h.INT64, ["n", 5])}, "y z v at", seven=np.array(7), two=np.array([2])), lambda k: {"i": rng.integers(-99, 99, (k, 5))}
    yield "quantized", make([n("DynamicQuantizeLinear", "x", "q s z"), n("MatMulInteger", "q w z", "p"), n("Cast", "p", "f", to=h.FLOAT), n("Mul", "f s", "y")], {"x": (h.FLOAT, ["n", 8])}, "y", w=rng.integers(-9, 9, (8, 6)).astype(np.int8)), \
        lambda k: {"x": w(k, 8)}


def check(folder, name, model, feeds, want, environment, flags=()):
    session = h.run(folder, model, feeds, *flags, env=environment)
    for k, got in enumerate(session.outputs):
        h.same(got, want[k], f"{name} under {environment} {' '.join(flags)}, call {k},", rtol=1e-4, atol=2e-5)


def test_every_pass_left_out_in_turn(folder):
    sizes = (3, 0, 1, 17, 33)
    jobs = []
    with ThreadPoolExecutor(max(1, min(4, os.cpu_count() or 1))) as pool:
        for name, model, feed in models():
            feeds = [feed(k) for k in sizes if k or name not in ("integers", "data-dependent")]
            path = h.save(model, folder / f"{name}.onnx")
            want = h.run(folder, path, feeds, "--device", "reference").outputs
            configurations = [({}, ())] + [({"STAX_DISABLE": p}, ()) for p in passes()]
            configurations += [({"STAX_DISABLE": ",".join(passes())}, ()), ({"STAX_VERIFY": "1"}, ("--threads", "1")), ({"STAX_DISABLE": ",".join(passes())}, ("--device", "loop"))]
            configurations += [({}, ("--force", f"*={k}")) for k in (0, 1, 2)]
            jobs += [pool.submit(check, folder, name, path, feeds, want, *c) for c in configurations]
        for job in jobs:
            job.result()


def test_the_reference_is_right(folder):
    for name, model, feed in models():
        feeds = [feed(k) for k in (3, 17)]
        for got, f in zip(h.run(folder, model, feeds, "--device", "reference").outputs, feeds):
            h.same(got, h.oracle(model, f), name, rtol=1e-4, atol=2e-5)


if __name__ == "__main__":
    h.main()
