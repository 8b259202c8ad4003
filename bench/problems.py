# SPDX-License-Identifier: Apache-2.0
"""Problems of kernel_bench: for each a model of dynamic extents, inputs, and ONNX Runtime's results and times.

Started by kernel_bench, which writes one JSON object a line and reads one a line:

  {"make": KIND, "parameters": {...}}   -> {"id": n, "model": PATH, "inputs": [ARRAY], "constants": [ARRAY], "output": ARRAY}
  {"time": n, "calls": k}               -> {"seconds": s}                       of one call, the mean of k

An ARRAY has "type" (as numpy names it), "shape" and "file": its elements, row-major. What a kind's parameters are: see its function. All of them are extents
of inputs that the model leaves open but for those of constants.
"""
import json
import sys
import time
from pathlib import Path

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

rng = np.random.default_rng(7)


def floats(*shape, scale=1.0):
    return (rng.standard_normal(shape) * scale).astype(np.float32)


def one(op, inputs, constants, output=TensorProto.FLOAT, domain="", **attributes):
    """A model of one operator: every extent of its inputs open, its constants inside."""
    name_of = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.uint8): TensorProto.UINT8, np.dtype(np.int64): TensorProto.INT64}
    values = [helper.make_tensor_value_info(name, name_of[array.dtype], [f"{name}_{axis}" for axis in range(array.ndim)]) for name, array in inputs.items()]
    order = attributes.pop("order", [*inputs, *constants])
    node = helper.make_node(op, order, ["y"], domain=domain, **attributes)
    graph = helper.make_graph([node], op, values, [helper.make_tensor_value_info("y", output, None)],
                              [numpy_helper.from_array(array, name) for name, array in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), inputs, constants


def matmul(m, k, n):
    """[m, k] by a constant [k, n]."""
    return one("MatMul", {"a": floats(m, k)}, {"b": floats(k, n, scale=k ** -0.5)})


def batched_matmul(batch, m, k, n):
    """[batch, m, k] by [batch, k, n], both inputs."""
    return one("MatMul", {"a": floats(batch, m, k), "b": floats(batch, k, n, scale=k ** -0.5)}, {})


def matmul_int8(m, k, n):
    """u8 [m, k] by a constant i8 [k, n] without zero points, i32."""
    a = rng.integers(0, 256, (m, k)).astype(np.uint8)
    return one("MatMulInteger", {"a": a}, {"b": rng.integers(-64, 64, (k, n)).astype(np.int8)}, TensorProto.INT32)


def convolution(batch, inputs, outputs, height, width, window, stride=1, groups=1):
    """A square window with padding of window / 2 and a bias, constants both."""
    pad = window // 2
    weights = floats(outputs, inputs // groups, window, window, scale=(inputs // groups * window * window) ** -0.5)
    return one("Conv", {"x": floats(batch, inputs, height, width)}, {"w": weights, "bias": floats(outputs)}, strides=[stride, stride],
               pads=[pad] * 4, group=groups)


def softmax(rows, columns):
    return one("Softmax", {"x": floats(rows, columns)}, {}, axis=-1)


def layer_norm(rows, columns):
    return one("LayerNormalization", {"x": floats(rows, columns)}, {"scale": floats(columns), "bias": floats(columns)}, axis=-1, epsilon=1e-5)


def gelu(rows, columns):
    """With erf."""
    return one("Gelu", {"x": floats(rows, columns)}, {})


def unary(op, rows, columns):
    return one(op, {"x": floats(rows, columns)}, {})


def exp(rows, columns):
    return unary("Exp", rows, columns)


def tanh(rows, columns):
    return unary("Tanh", rows, columns)


def add(rows, columns):
    """A bias of the columns."""
    return one("Add", {"x": floats(rows, columns)}, {"bias": floats(columns)})


def row_sums(rows, columns):
    return one("ReduceSum", {"x": floats(rows, columns)}, {"axes": np.array([1])}, keepdims=0)


def column_sums(rows, columns):
    return one("ReduceSum", {"x": floats(rows, columns)}, {"axes": np.array([0])}, keepdims=0)


def transpose(rows, columns):
    return one("Transpose", {"x": floats(rows, columns)}, {}, perm=[1, 0])


def heads(length, count, width):
    """[1, length, count, width] to [1, count, length, width]."""
    return one("Transpose", {"x": floats(1, length, count, width)}, {}, perm=[0, 2, 1, 3])


def gather(table, width, count):
    """`count` rows out of a constant table."""
    return one("Gather", {"ids": rng.integers(0, table, (count,))}, {"table": floats(table, width)}, order=["table", "ids"])


def lstm(length, batch, inputs, hidden):
    """One direction, from a state of zeros; all hidden states."""
    scale = hidden ** -0.5
    return one("LSTM", {"x": floats(length, batch, inputs)},
               {"w": floats(1, 4 * hidden, inputs, scale=scale), "r": floats(1, 4 * hidden, hidden, scale=scale), "b": floats(1, 8 * hidden, scale=scale)},
               hidden_size=hidden)


KINDS = {f.__name__: f for f in (matmul, batched_matmul, matmul_int8, convolution, softmax, layer_norm, gelu, exp, tanh, add, row_sums, column_sums, transpose,
                                 heads, gather, lstm)}


class Worker:
    def __init__(self, threads, folder):
        self.threads, self.folder, self.made = threads, Path(folder), []

    def save(self, array, name):
        path = self.folder / f"{name}.raw"
        np.ascontiguousarray(array).tofile(path)
        return {"type": str(array.dtype), "shape": list(array.shape), "file": str(path)}

    def make(self, kind, parameters):
        model, inputs, constants = KINDS[kind](**parameters)
        number = len(self.made)
        path = self.folder / f"{number}.onnx"
        path.write_bytes(model.SerializeToString())
        options = onnxruntime.SessionOptions()
        options.log_severity_level, options.intra_op_num_threads, options.inter_op_num_threads = 4, self.threads, 1
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        output, = session.run(None, inputs)
        self.made.append((session, inputs))
        return {"id": number, "model": str(path), "output": self.save(output, f"{number}.y"),
                "inputs": [self.save(array, f"{number}.{name}") for name, array in inputs.items()],
                "constants": [self.save(array, f"{number}.{name}") for name, array in constants.items()]}

    def time(self, number, calls):
        session, inputs = self.made[number]
        start = time.perf_counter()
        for _ in range(calls):
            session.run(None, inputs)
        return {"seconds": (time.perf_counter() - start) / calls}


def main():
    worker = Worker(int(sys.argv[1]), sys.argv[2])
    for line in sys.stdin:
        request = json.loads(line)
        answer = worker.make(request["make"], request["parameters"]) if "make" in request else worker.time(request["time"], request["calls"])
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
