#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the table of supported operators in docs/operators.md.

  gen_operators.py               rewrites the table from the rows of src/frontend/ops_*.cpp
  gen_operators.py --check       changes nothing; exit status 1 if the table is stale

Where tests/data/node_ops_passing.txt exists, which lists the cases of ONNX's operator tests that pass, each operator gets their number. The
file names cases, not operators: a case belongs to the operator whose name it begins with, in any spelling (test_reduce_sum_..:
ReduceSum), the longest one, or to what OTHER_NAMES says.
"""
import re
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
import gen_ir_reference as reference

PASSING = reference.ROOT / "tests" / "data" / "node_ops_passing.txt"
DOMAINS = ["", "com.microsoft", "ai.onnx.ml", "ai.onnx.preview.training"]       # in this order; others follow by name
# Beginnings of cases whose names do not say their operator.
OTHER_NAMES = {
    "constant_pad": "Pad", "edge_pad": "Pad", "reflect_pad": "Pad", "wrap_pad": "Pad",
    "greater_equal": "GreaterOrEqual", "less_equal": "LessOrEqual",
    "ai_onnx_ml_array_feature_extractor": "ArrayFeatureExtractor", "ai_onnx_ml_binarizer": "Binarizer",
    "batchnorm": "BatchNormalization", "instancenorm": "InstanceNormalization", "mvn": "MeanVarianceNormalization",
    "l1normalization": "LpNormalization", "l2normalization": "LpNormalization",
    "basic_conv": "Conv", "basic_deform_conv": "DeformConv", "training_dropout": "Dropout",
    "nesterov_momentum": "Momentum", "nllloss": "NegativeLogLikelihoodLoss", "sce": "SoftmaxCrossEntropyLoss",
    "simple_rnn": "RNN", "tril": "Trilu", "triu": "Trilu",
}


def rows():
    """(domain, name) -> [(since, file)], oldest first; of equal ones the first in the importer's order counts."""
    found = {}
    for path in sorted((reference.ROOT / "src" / "frontend").glob("ops_*.cpp")):
        for domain, name, since in re.findall(r'\{\s*"([^"]*)",\s*"(\w+)",\s*(\d+),\s', path.read_text()):
            found.setdefault((domain, name), {}).setdefault(int(since), path.name)
    if len(found) < 100:
        raise reference.Fault(f"only {len(found)} rows of operators were found in src/frontend/ops_*.cpp")
    return {key: sorted(since.items()) for key, since in found.items()}


def is_of_onnx(domain):
    """Whether ONNX's tests have cases of the domain's operators."""
    return domain == "" or domain.startswith("ai.onnx")


def operator_of(case, by_spelling):
    case = case.removeprefix("test_")
    for beginning, name in OTHER_NAMES.items():
        if f"{case}_".startswith(f"{beginning}_"):
            return by_spelling[name.lower()]
    words = case.split("_")
    for count in range(len(words), 0, -1):
        name = "".join(words[:count])
        if found := by_spelling.get(name) or by_spelling.get(re.sub(r"\d+d?$", "", name)):      # and4d, scan9
            return found
    return None


def passing(table):
    """(domain, name) -> number of passing cases; null without the file."""
    if not PASSING.exists():
        return None
    by_spelling = {name.lower(): (domain, name) for domain, name in sorted(table, reverse=True) if is_of_onnx(domain)}
    counts = {}
    for case in PASSING.read_text().split():
        key = operator_of(case, by_spelling)
        counts[key] = counts.get(key, 0) + 1
    return counts


def operators():
    table = rows()
    counts = passing(table)
    parts = []
    for domain in dict.fromkeys([*DOMAINS, *sorted(d for d, _ in table)]):
        lines, counted = [], counts is not None and is_of_onnx(domain)
        for name in sorted(name for d, name in table if d == domain):
            entry = table[domain, name]
            files = dict.fromkeys(file for _, file in entry)
            line = [reference.code(name), ", ".join(str(since) for since, _ in entry), ", ".join(f"[`{f}`](../src/frontend/{f})" for f in files)]
            if counted:
                line.append(str(counts.get((domain, name), 0) or "—"))
            lines.append(line)
        head = ["operator", "rows since opset", "file"] + (["passing ONNX cases"] if counted else [])
        parts.append(f"### {domain or 'ai.onnx'}: {len(lines)} operators\n\n" + reference.table(head, lines))
    if counts is not None:
        known, other = sum(n for k, n in counts.items() if k), counts.get(None, 0)
        parts.append(f"{known + other} cases pass" + (f"; {other} of them are named after an operator that is not in the tables and consist of others." if other else "."))
    return "\n\n".join(parts)


if __name__ == "__main__":
    sys.exit(reference.main({"docs/operators.md": [operators]}, Path(__file__).name))
