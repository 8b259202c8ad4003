#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ONNX's own cases of operators, those of tests/data/node_ops_passing.txt: what docs/operators.md counts does pass.

Some are drawn each time, as they are and with no extent known. STAX_CASES=WORD takes all whose name has the word (mish; `test` is all of them), STAX_SEED
draws the same again.
"""
import os
import random
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import harness
from harness import ROOT, np, onnx

PASSING = ROOT / "tests" / "data" / "node_ops_passing.txt"
DRAWN = 60
RANDOM_VALUES = ("test_bernoulli", "test_training_dropout")


def array_of(value):
    """As a .npz holds it: bfloat16 as its bits."""
    array = np.asarray(onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value)
    return array.view(np.uint16) if array.dtype.name == "bfloat16" else array


def arrays(infos, values):
    """name -> array; a sequence `s` is `s[0]`, `s[1]`, .., or `s[]` where it is empty."""
    named = {}
    for info, value in zip(infos, values):
        if isinstance(value, (list, tuple)):
            named |= {f"{info.name}[{i}]": array_of(item) for i, item in enumerate(value)} or {f"{info.name}[]": np.zeros(0, np.float32)}
        elif value is not None:
            named[info.name] = array_of(value)
    return named


def without_extents(model):
    copy = onnx.ModelProto.FromString(model.SerializeToString())
    for value in copy.graph.input:
        for dim in value.type.tensor_type.shape.dim if value.type.HasField("tensor_type") else ():
            dim.Clear()
    for value in copy.graph.output:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    del copy.graph.value_info[:]
    return copy


def fault_of(folder, case, model):
    """Why the case does not pass; null if it does."""
    graph = case.model.graph
    types = {value.name: value.type.tensor_type.elem_type for value in graph.output}
    session = harness.run(folder, model, [arrays(graph.input, given) for given, _ in case.data_sets], status=None)
    if session.done.status != 0:
        return f"exit {session.done.status}: {session.done.err[-300:]}"
    for got, (_, wanted) in zip(session.outputs, case.data_sets):
        want = arrays(graph.output, wanted)
        if sorted(got) != sorted(want):
            return f"outputs {sorted(got)} instead of {sorted(want)}"
        for name in want:
            a, b, least = got[name], want[name], 2e-3 if want[name].dtype == np.float16 else 0
            if types.get(name) == harness.BFLOAT16:
                (a, b), least = ((bits.astype(np.uint32) << 16).view(np.float32) for bits in (a, b)), 2e-2
            if case.name.startswith(RANDOM_VALUES) and b.dtype.kind == "f":
                a, b = np.zeros(a.shape), np.zeros(b.shape)      # other numbers are as good
            if why := harness.differs(a, b, rtol=max(case.rtol, least), atol=max(case.atol, 1e-6, least / 10)):
                return f"{name}: {why}"
    return None


def test_cases_that_pass(folder):
    warnings.simplefilter("ignore")
    from onnx.backend.test.case import node
    passing, word = PASSING.read_text().split(), os.environ.get("STAX_CASES", "")
    seed = int(os.environ.get("STAX_SEED", random.randrange(1 << 32)))
    cases = {case.name: case for case in node.collect_testcases(None)}
    unknown = [name for name in passing if name not in cases]
    assert not unknown, f"{PASSING.name} names what onnx {onnx.__version__} does not have: {unknown[:5]}"
    assert sorted(set(passing)) == passing, f"{PASSING.name}: a name on each line, in order"
    chosen = [name for name in passing if word in name] if word else random.Random(seed).sample(passing, DRAWN)
    assert chosen, f"no case that passes has '{word}' in its name"
    jobs = [(name, how, change) for name in chosen for how, change in (("as it is", lambda m: m), ("without extents", without_extents))]

    def run(job):
        name, how, change = job
        why = fault_of(folder, cases[name], change(cases[name].model))
        return why and f"{name} {how}: {why}"
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        faults = [why for why in pool.map(run, jobs) if why]
    assert not faults, f"{len(faults)} of {len(jobs)}, seed {seed}\n" + "\n".join(faults[:10])
    return f"{len(jobs)} runs, seed {seed}"


if __name__ == "__main__":
    harness.main()
