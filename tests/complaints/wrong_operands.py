# SPDX-License-Identifier: Apache-2.0
"""Operators whose inputs have a type or a rank that they do not take: a message about the model, never a fault of Stax's.

The cases are ONNX's own, one of each operator, with one input changed at a time.
"""
import os
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import harness as h
import onnx

TYPES = (h.FLOAT, h.DOUBLE, h.HALF, h.INT64, h.INT8, h.UINT8, h.BOOL)


def cases():
    warnings.simplefilter("ignore")
    from onnx.backend.test.case import node
    seen = set()
    for case in node.collect_testcases(None):
        nodes = case.model.graph.node
        if len(nodes) == 1 and nodes[0].op_type not in seen:
            seen.add(nodes[0].op_type)
            yield nodes[0].op_type, case.model


def variants(model):
    """(what was changed, model)"""
    for k, given in enumerate(model.graph.input):
        if not given.type.HasField("tensor_type"):
            continue
        for change in [("type", t) for t in TYPES if t != given.type.tensor_type.elem_type] + [("rank", 0), ("rank", 1)]:
            copy = onnx.ModelProto.FromString(model.SerializeToString())
            for out in copy.graph.output:
                if out.type.HasField("tensor_type"):
                    out.type.tensor_type.ClearField("shape")
            tensor = copy.graph.input[k].type.tensor_type
            if change[0] == "type":
                tensor.elem_type = change[1]
            else:
                tensor.shape.ClearField("dim")
                for _ in range(change[1]):
                    tensor.shape.dim.add().dim_value = 2
            yield f"input {k}: {change[0]} {change[1]}", copy


def test_operands_of_the_wrong_kind(folder):
    jobs = [(op, what, model) for op, given in cases() for what, model in variants(given)]
    assert len(jobs) > 1500, len(jobs)

    def run(numbered):
        number, (op, what, model) = numbered
        path = Path(folder) / f"{number}.onnx"
        path.write_bytes(model.SerializeToString())
        done = subprocess.run([h.STAX, "dump", str(path), "--stage", "plan", "--quiet"], capture_output=True, text=True, cwd=folder)
        path.unlink()
        return f"{op}, {what}: exit {done.returncode}: {done.stderr.strip()[:200]}" if done.returncode not in (0, 1) else None

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        wrong = [w for w in pool.map(run, enumerate(jobs)) if w]
    assert not wrong, f"{len(wrong)} of {len(jobs)}:\n" + "\n".join(wrong[:20])


h.main()
