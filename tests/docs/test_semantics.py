#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs every row of docs/semantics.md on the devices reference, loop and cpu.

  test_semantics.py [--only ROW] [--print]

The rows are the cases of semantics/cases.py: values that must come out exactly (NaN is NaN; the sign of zero does not count), or calls that must fail with
certain words. Cases with values are put side by side into one model of each opset, so that a device compiles few models. --print shows the models.
"""
import argparse
import re
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parent / "semantics")]
import harness as h
import numpy as np
import onnx.compose
import onnx.parser
from cases import CASES, DEVICES


def parse(case):
    inputs, outputs = case.signature.split("=>")
    text = f'<ir_version: 10, opset_import: ["": {case.opset}]>\nt ({inputs}) => ({outputs}) {{\n{case.nodes}\n}}'
    try:
        return onnx.parser.parse_model(text)
    except Exception as fault:
        raise SystemExit(f"{case.row}: {fault}\n{text}")


def prefixed(case, prefix):
    model = onnx.compose.add_prefix(parse(case), prefix)
    for value in [*model.graph.input, *model.graph.output]:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param:
                dim.dim_param = prefix + dim.dim_param
    return model


def joined(cases):
    """One model of all, and its feed."""
    model, feed = None, {}
    for number, case in cases:
        prefix = f"c{number}_"
        part = prefixed(case, prefix)
        feed |= {prefix + name: value for name, value in case.feed.items()}
        if model is None:
            model = part
            continue
        for field in ("node", "input", "output", "initializer"):
            getattr(model.graph, field).extend(getattr(part.graph, field))
    return model, feed


def wanted(case, device):
    """(outputs, words): one of the two."""
    other = case.on.get(device)
    if isinstance(other, str):
        return None, other
    want = other if other is not None else case.want
    return (want, None) if want is not None else (None, case.words)


def disagreement(got, want):
    for name, value in want.items():
        if name not in got:
            return f"{name} is missing"
        if why := h.differs(got[name], np.asarray(value), rtol=0, atol=0):
            return f"{name}: {why}\n  got  {got[name].tolist()}\n  want {np.asarray(value).tolist()}"
    return None


def run(folder, model, feed, device, flags=()):
    return h.run(folder, model, [feed], "--device", device, "--threads", "1", *flags, status=None)


def check_alone(folder, case, device):
    want, words = wanted(case, device)
    done = run(folder, parse(case), case.feed, device, case.flags)
    if words is None:
        if done.outputs[0] is None:
            return f"exit {done.done.status}: {done.done.err.strip()}"
        return disagreement(done.outputs[0], want)
    if done.done.status != 1 or words not in done.done.err:
        return f"exit {done.done.status}, expected 1 and '{words}': {done.done.err.strip() or done.outputs[0]}"
    return "an output in spite of the error" if done.outputs[0] is not None else None


def rows_of_docs():
    text = (h.ROOT / "docs" / "semantics.md").read_text()
    return re.findall(r"^\| `([a-z0-9-]+)` \|", text, re.M)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="rows whose name has this word")
    parser.add_argument("--print", action="store_true", help="show the models")
    options = parser.parse_args()
    failed = passed = 0

    def report(name, why):
        nonlocal failed, passed
        if why:
            failed += 1
            print(f"FAIL  {name}: {why}", flush=True)
        else:
            passed += 1

    documented, tested = rows_of_docs(), {c.row for c in CASES}
    report("rows", "; ".join([f"docs/semantics.md lacks {r}" for r in sorted(tested - set(documented))] + [f"no case for {r}" for r in documented if r not in tested]))
    report("row names", ", ".join(sorted({r for r in documented if documented.count(r) > 1})))
    chosen = [(k, c) for k, c in enumerate(CASES) if options.only in c.row]
    if options.print:
        for _, c in chosen:
            print(f"// {c.row}\n{c.signature}\n{c.nodes}\n{c.feed}\n")
    with tempfile.TemporaryDirectory() as folder:
        for device in DEVICES:
            together = [(k, c) for k, c in chosen if not c.alone and not c.flags and wanted(c, device)[1] is None]
            alone = [c for _, c in chosen if c.alone or c.flags or wanted(c, device)[1] is not None]
            for opset in sorted({c.opset for _, c in together}):
                group = [(k, c) for k, c in together if c.opset == opset]
                outputs = run(folder, *joined(group), device).outputs[0]
                for k, c in group:
                    if outputs is None:        # one of them fails: which?
                        alone.append(c)
                    else:
                        prefix = f"c{k}_"
                        own = {name.removeprefix(prefix): v for name, v in outputs.items() if name.startswith(prefix)}
                        report(f"{c.row} on {device}", disagreement(own, wanted(c, device)[0]))
            for c in alone:
                report(f"{c.row} on {device}", check_alone(folder, c, device))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
