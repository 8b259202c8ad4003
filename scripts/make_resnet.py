#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes an image classifier of ResNet-50's form with random weights: a model to measure and to test with.

  make_resnet.py OUT.onnx [--blocks 3,4,6,3] [--width 64] [--classes 1000] [--norms]

Input: image f32[batch, 3, height, width], any size from 32 x 32 on; output: logits f32[batch, classes]. Batch normalization is folded into the
convolutions, as exporters do, or with --norms an operator of its own behind each of them. The stride of a stage is in its 3x3 convolution. The
weights are the same in every run.
"""
import argparse

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Maker:
    def __init__(self, options):
        self.options, self.nodes, self.weights = options, [], []
        self.rng = np.random.default_rng(1)

    def constant(self, name, array):
        self.weights.append(numpy_helper.from_array(np.asarray(array, np.float32), name))
        return name

    def op(self, kind, inputs, name, **attributes):
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name + "_node", **attributes))
        return name

    def conv(self, x, name, taken, made, size, stride=1, relu=True, gain=1.0):
        # The deviation keeps the size of values over a convolution and a ReLU.
        deviation = gain * (2 / (taken * size * size)) ** 0.5
        inputs = [x, self.constant(name + "_w", self.rng.standard_normal((made, taken, size, size)) * deviation)]
        if not self.options.norms:
            inputs.append(self.constant(name + "_b", self.rng.standard_normal(made) * 0.1))
        x = self.op("Conv", inputs, name, kernel_shape=[size] * 2, strides=[stride] * 2, pads=[size // 2] * 4)
        if self.options.norms:
            of_channels = [self.constant(f"{name}_{part}", a) for part, a in {
                "scale": self.rng.uniform(0.5, 1.5, made), "shift": self.rng.standard_normal(made) * 0.1,
                "mean": self.rng.standard_normal(made) * 0.1, "variance": self.rng.uniform(0.5, 1.5, made)}.items()]
            x = self.op("BatchNormalization", [x, *of_channels], name + "_norm")
        return self.op("Relu", [x], name + "_relu") if relu else x

    def block(self, x, name, taken, inner, stride):
        made = 4 * inner
        y = self.conv(x, name + "_1", taken, inner, 1)
        y = self.conv(y, name + "_2", inner, inner, 3, stride)
        y = self.conv(y, name + "_3", inner, made, 1, relu=False, gain=0.5)
        if taken != made or stride != 1:
            x = self.conv(x, name + "_side", taken, made, 1, stride, relu=False)
        return self.op("Relu", [self.op("Add", [y, x], name + "_sum")], name), made

    def model(self):
        o = self.options
        x, channels = self.conv("image", "first", 3, o.width, 7, 2), o.width
        x = self.op("MaxPool", [x], "pooled", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
        for stage, count in enumerate(map(int, o.blocks.split(","))):
            for number in range(count):
                stride = 2 if stage > 0 and number == 0 else 1
                x, channels = self.block(x, f"stage{stage}_{number}", channels, o.width << stage, stride)
        x = self.op("Flatten", [self.op("GlobalAveragePool", [x], "mean")], "features")
        w = self.constant("classifier_w", self.rng.standard_normal((o.classes, channels)) * channels**-0.5)
        self.op("Gemm", [x, w, self.constant("classifier_b", np.zeros(o.classes))], "logits", transB=1)
        image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 3, "height", "width"])
        logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", o.classes])
        graph = helper.make_graph(self.nodes, "classifier", [image], [logits], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--blocks", default="3,4,6,3")
    for name, default in {"width": 64, "classes": 1000}.items():
        parser.add_argument("--" + name, type=int, default=default)
    parser.add_argument("--norms", action="store_true")
    options = parser.parse_args()
    onnx.save(Maker(options).model(), options.out)


if __name__ == "__main__":
    main()
