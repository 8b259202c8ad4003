# SPDX-License-Identifier: Apache-2.0
"""Convolutional networks, whose inner values are laid out with the channels last: whatever reads them sees the same elements."""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import harness as h
import numpy as np

SIZES = [(1, 9, 7), (2, 16, 5), (3, 1, 1), (1, 33, 17), (0, 4, 4), (5, 2, 30)]


def check(folder, nodes, constants, outputs, channels=3, dims=("n", None, None), sizes=SIZES, opset=18, inputs=None, more=lambda rng, size: {}):
    rng = np.random.default_rng(11)
    model = h.model(nodes, {"x": (h.FLOAT, [dims[0], channels, *dims[1:]])} | (inputs or {}), outputs, constants, opset=opset)
    feeds = [{"x": h.normal(rng, size[0], channels, *size[1:])} | more(rng, size) for size in sizes]
    plain = h.run(folder, model, feeds, env={"STAX_DISABLE": "move_channels_last"}).outputs
    for feed, got, other in zip(feeds, h.run(folder, model, feeds).outputs, plain):
        if 0 not in feed["x"].shape:
            h.same(got, h.oracle(model, feed), f"{feed['x'].shape}", rtol=1e-3, atol=1e-4)
        h.same(got, other, f"{feed['x'].shape}, beside the order in the file", rtol=1e-3, atol=1e-4)


def weights(rng, *shape):
    return h.normal(rng, *shape) / np.float32(np.sqrt(np.prod(shape[1:])))


def test_a_block_of_every_kind_of_layer(folder):
    rng = np.random.default_rng(1)
    constants = {"w0": weights(rng, 16, 3, 3, 3), "b0": h.normal(rng, 16), "w1": weights(rng, 16, 1, 5, 5), "w2": weights(rng, 24, 16, 1, 1),
                 "w3": weights(rng, 40, 40, 3, 3), "s": h.normal(rng, 40), "b": h.normal(rng, 40), "m": h.normal(rng, 40),
                 "v": np.abs(h.normal(rng, 40)) + 1, "w4": weights(rng, 40, 20, 3, 3)}
    nodes = [h.node("Conv", "x w0 b0", "c0", pads=[1, 1, 1, 1]), h.node("Relu", "c0", "r0"),
             h.node("Conv", "r0 w1", "c1", group=16, pads=[2, 2, 2, 2]), h.node("Conv", "c1 w2", "c2"),
             h.node("Concat", "r0 c2", "cat", axis=1), h.node("Conv", "cat w3", "c3", pads=[1, 1, 1, 1], strides=[2, 2]),
             h.node("BatchNormalization", "c3 s b m v", "n3"), h.node("HardSwish", "n3", "a3"),
             h.node("Conv", "a3 w4", "c4", group=2, pads=[1, 1, 1, 1]), h.node("Add", "c4 a3", "sum"),
             h.node("MaxPool", "sum", "pool", kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2]),
             h.node("GlobalAveragePool", "sum", "mean"), h.node("Sigmoid", "mean", "gate"), h.node("Mul", "pool gate", "y")]
    check(folder, nodes, constants, ["y"])


def test_readers_in_one_piece(folder):
    # The same value is an output, reshaped, transposed, sliced, and read by channels.
    rng = np.random.default_rng(2)
    constants = {"w0": weights(rng, 16, 3, 1, 1), "w1": weights(rng, 32, 16, 3, 3), "flat": np.array([0, -1]), "merge": np.array([0, 16, -1]),
                 "from": np.array([3]), "to": np.array([15]), "axis": np.array([1]), "step": np.array([2]), "pick": np.array([5, 0, 15])}
    nodes = [h.node("Conv", "x w0", "c0"), h.node("Conv", "c0 w1", "c1", pads=[1, 1, 1, 1]), h.node("Reshape", "c0 flat", "flat0"),
             h.node("Reshape", "c0 merge", "rows"), h.node("Transpose", "rows", "sequence", perm=[0, 2, 1]),
             h.node("Slice", "c0 from to axis step", "part"), h.node("Gather", "c0 pick", "picked", axis=1),
             h.node("Transpose", "c1", "last", perm=[0, 2, 3, 1]), h.node("Softmax", "c1", "soft", axis=1),
             h.node("CumSum", "c1 axis", "running"), h.node("ArgMax", "c1", "best", axis=1, keepdims=0)]
    sizes = [s for s in SIZES if s[0]]
    check(folder, nodes, constants, ["c0", "flat0", "sequence", "part", "picked", "last", "soft", "running", "best"], sizes=sizes)


def test_one_dimension_and_three(folder):
    rng = np.random.default_rng(3)
    nodes = [h.node("Conv", "x w0", "c0", pads=[2, 1]), h.node("Elu", "c0", "e0"), h.node("Conv", "e0 w1", "c1", dilations=[2]),
             h.node("AveragePool", "c1", "y", kernel_shape=[2])]
    check(folder, nodes, {"w0": weights(rng, 20, 4, 3), "w1": weights(rng, 17, 20, 2)}, ["y"], channels=4, dims=("n", None), sizes=[(1, 9), (3, 40), (2, 5)])
    nodes = [h.node("Conv", "x w0", "c0", pads=[1] * 6), h.node("Conv", "c0 w1", "y")]
    check(folder, nodes, {"w0": weights(rng, 16, 2, 3, 3, 3), "w1": weights(rng, 16, 16, 1, 2, 1)}, ["y"], channels=2, dims=("n", None, None, None),
          sizes=[(1, 3, 4, 5), (2, 1, 2, 9)])


def test_padding_is_copied_for_its_reader(folder):
    # Images that come with their channels first: of one convolution, of two that share the padded copy, of one with holes and strides.
    rng = np.random.default_rng(7)
    nodes = [h.node("Conv", "x w0", "c0", pads=[1, 1, 1, 1]), h.node("Relu", "c0", "y")]
    check(folder, nodes, {"w0": weights(rng, 20, 24, 3, 3)}, ["y"], channels=24)
    nodes = [h.node("Conv", "x w0", "c0", pads=[1, 1, 1, 1]), h.node("Conv", "x w1", "c1", pads=[1, 1, 1, 1]), h.node("Add", "c0 c1", "y")]
    check(folder, nodes, {"w0": weights(rng, 16, 17, 3, 3), "w1": weights(rng, 16, 17, 3, 3)}, ["y"], channels=17)
    nodes = [h.node("Conv", "x w0", "c0", pads=[2, 0, 3, 4], strides=[2, 1], dilations=[1, 2]), h.node("Reshape", "c0 flat", "y")]
    check(folder, nodes, {"w0": weights(rng, 16, 33, 3, 2), "flat": np.array([0, 16, -1])}, ["y"], channels=33)


def test_windows_alone(folder):
    # No convolution asks for another order: pools of an input, of a value that is read otherwise as well, with edges, of one dimension.
    rng = np.random.default_rng(8)
    edges = {"kernel_shape": [3, 5], "pads": [1, 2, 1, 2]}
    nodes = [h.node("MaxPool", "x", "most", **edges), h.node("AveragePool", "x", "mean", count_include_pad=1, strides=[2, 1], **edges),
             h.node("AveragePool", "most", "both", **edges), h.node("Add", "most x", "sum"), h.node("LpPool", "sum", "norm", **edges)]
    for channels in (16, 19, 5):
        check(folder, nodes, {}, ["most", "mean", "both", "sum", "norm"], channels=channels, sizes=[s for s in SIZES if s[0]])
    nodes = [h.node("Transpose", "x", "t", perm=[0, 2, 1]), h.node("MaxPool", "t", "y", kernel_shape=[4], strides=[2])]
    check(folder, nodes, {}, ["y"], channels=30, dims=("n", None), sizes=[(2, 20), (1, 17)])


def test_places_that_depend_on_data(folder):
    # Regions of an input and of a convolution's result, at its edges and outside; points of both; elements that each channel picks for itself.
    rng = np.random.default_rng(10)
    inputs = {"rois": (h.FLOAT, ["count", 4]), "image": (h.INT64, ["count"]), "grid": (h.FLOAT, ["n", "a", "b", 2]), "rows": (h.INT64, ["k"]),
              "own": (h.INT64, ["n", 20, None, None])}

    def more(rng, size):
        n, height, width = size
        count = int(rng.integers(1, 9))
        corners = rng.uniform(-4, 2 * max(height, width) + 4, (count, 2, 2)).astype(np.float32)
        return {"rois": np.concatenate([corners.min(1), corners.max(1)], 1), "image": rng.integers(0, n, count),
                "grid": rng.uniform(-1.2, 1.2, (n, 5, 3, 2)).astype(np.float32), "rows": rng.integers(-height, height, 4),
                "own": rng.integers(0, height, (n, 20, 3, width))}

    regions = {"output_height": 3, "output_width": 5, "sampling_ratio": 2, "spatial_scale": 0.5}
    sizes = [s for s in SIZES if s[0]]
    for channels in (20, 16, 3):
        nodes = [h.node("RoiAlign", "x rois image", "mean", **regions),
                 h.node("RoiAlign", "x rois image", "any", output_height=2, output_width=4, sampling_ratio=0)]
        check(folder, nodes, {}, ["mean", "any"], channels=channels, sizes=sizes, inputs=inputs, more=more)
        nodes = [h.node("Conv", "x w0", "c0", pads=[1, 1, 1, 1]), h.node("RoiAlign", "c0 rois image", "mean", **regions), h.node("GridSample", "c0 grid", "points"),
                 h.node("GridSample", "x grid", "others"), h.node("Gather", "c0 rows", "lines", axis=2), h.node("GatherElements", "c0 own", "owned", axis=2),
                 h.node("Conv", "mean w1", "again")]
        check(folder, nodes, {"w0": weights(rng, 20, channels, 3, 3), "w1": weights(rng, 16, 20, 1, 1)}, ["mean", "points", "others", "lines", "owned", "again"],
              channels=channels, sizes=sizes, inputs=inputs, more=more)


def test_depthwise_at_every_width(folder):
    rng = np.random.default_rng(9)
    sizes = [(1, 2, width) for width in range(1, 34)] + [(2, 3, 56), (1, 1, 61)]
    for channels, taps, stride in ((16, 3, 1), (24, 5, 2), (33, 7, 1), (96, 7, 1)):
        constants = {"w0": weights(rng, channels, 3, 1, 1), "w1": weights(rng, channels, 1, taps, taps), "b1": h.normal(rng, channels), "w2": weights(rng, 16, channels, 1, 1)}
        nodes = [h.node("Conv", "x w0", "c0"), h.node("Conv", "c0 w1 b1", "c1", group=channels, pads=[taps // 2] * 4, strides=[stride] * 2), h.node("Relu", "c1", "r1"),
                 h.node("Conv", "r1 w2", "c2"), h.node("Relu", "c2", "y")]
        check(folder, nodes, constants, ["c1", "y"] if channels == 24 else ["y"], sizes=sizes)


def test_enlarged_again(folder):
    rng = np.random.default_rng(4)
    constants = {"w0": weights(rng, 16, 3, 3, 3), "w1": weights(rng, 16, 18, 2, 2), "w2": weights(rng, 4, 34, 1, 1), "scales": np.array([1, 1, 2, 2], np.float32)}
    nodes = [h.node("Conv", "x w0", "c0", pads=[1, 1, 1, 1]), h.node("MaxPool", "c0", "p0", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
             h.node("Resize", "p0 - scales", "up", mode="nearest"), h.node("Shape", "c0", "s0", start=2), h.node("Shape", "up", "s1", start=2),
             h.node("Sub", "s0 s1", "short"), h.node("Concat", "none short", "pads", axis=0), h.node("Pad", "up pads - axes", "fit"),
             h.node("Concat", "c0 fit", "both", axis=1), h.node("ConvTranspose", "both w1", "wide", strides=[2, 2]), h.node("Resize", "c0 - scales", "large", mode="linear"),
             h.node("Concat", "wide large", "all", axis=1), h.node("Conv", "all w2", "y")]
    constants |= {"none": np.array([0, 0]), "axes": np.array([2, 3]), "w1": weights(rng, 32, 18, 2, 2)}
    check(folder, nodes, constants, ["y"], sizes=[s for s in SIZES if s[0]])


def test_values_of_outer_blocks(folder):
    rng = np.random.default_rng(5)
    constants = {"w0": weights(rng, 16, 3, 3, 3), "w1": weights(rng, 16, 16, 1, 1), "zero": np.float32(0)}
    then = h.body([h.node("Relu", "c0", "t")], {}, {"t": (h.FLOAT, None)})
    other = h.body([h.node("Conv", "c0 w1", "u0"), h.node("Add", "u0 c0", "u")], {}, {"u": (h.FLOAT, None)})
    nodes = [h.node("Conv", "x w0", "c0", pads=[1, 1, 1, 1]), h.node("ReduceMean", "c0", "m", keepdims=0), h.node("Less", "m zero", "below"),
             h.node("If", "below", "branch", then_branch=then, else_branch=other), h.node("Conv", "branch w1", "y")]
    check(folder, nodes, constants, ["y"], sizes=[s for s in SIZES if s[0]])


def test_bytes(folder):
    # Scales are powers of two and sums below 2^24: no order of summation moves a rounding.
    rng = np.random.default_rng(6)
    byte = lambda *shape: rng.integers(-127, 128, shape).astype(np.int8)
    constants = {"sx": np.float32(1 / 64), "zx": np.uint8(120), "sw": np.float32(1 / 128), "zw": np.int8(0), "w0": byte(16, 3, 3, 3), "w1": byte(32, 16, 3, 3), "sy": np.float32(1 / 16)}
    nodes = [h.node("QuantizeLinear", "x sx zx", "q0"), h.node("DequantizeLinear", "q0 sx zx", "d0"), h.node("DequantizeLinear", "w0 sw zw", "f0"),
             h.node("Conv", "d0 f0", "c0", pads=[1, 1, 1, 1]), h.node("QuantizeLinear", "c0 sy zx", "q1"), h.node("DequantizeLinear", "q1 sy zx", "d1"),
             h.node("DequantizeLinear", "w1 sw zw", "f1"), h.node("Conv", "d1 f1", "c1", pads=[1, 1, 1, 1]), h.node("Relu", "c1", "y")]
    check(folder, nodes, constants, ["y"], sizes=[s for s in SIZES if s[0]])


h.main()
