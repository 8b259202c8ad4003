#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gpu_rivals.py CASES.json RESULTS.json: times of torch (cuBLAS, cuDNN) for the cases that are one operator, beside Stax's kernels."""
import json
import statistics
import sys
import time

import torch

OPERATORS = {
    "matmul": lambda a, b, c: torch.relu(a @ b + c),
    "matmul_f16": lambda a, b: a @ b,
    "batched_matmul": lambda a, b: a @ b,
    "softmax": lambda a: torch.softmax(a, -1),
    "layer_norm": lambda a, g, h: torch.nn.functional.layer_norm(a, a.shape[-1:], g, h),
    "row_sum": lambda a: a.sum(1),
    "column_max": lambda a: a.amax(0),
    "full_mean": lambda a: a.mean(),
    "transpose": lambda a: a.t().contiguous(),
    "pointwise": lambda a, b, c: torch.tanh(a * b + c),
    "convolution": lambda a, k: torch.relu(torch.nn.functional.conv2d(a, k, padding=1)),
    "attention": lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v),
}
TYPES = {"f32": torch.float32, "f16": torch.float16}


def microseconds(f):
    for _ in range(3):
        f()
    torch.cuda.synchronize()
    times = []
    for _ in range(20):
        start = time.perf_counter()
        f()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) * 1e6)
    return statistics.median(times)


def main():
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    cases = {c["name"]: c for c in json.load(open(sys.argv[1]))}
    results = json.load(open(sys.argv[2]))
    print(f"{'case':18s} {'shape':26s} {'Stax us':>10s} {'torch us':>10s} {'torch / Stax':>12s}")
    for case in results.get("cases", []):
        operator = OPERATORS.get(case["name"])
        if not operator or "shapes" not in case:
            continue
        for spec, got in zip(cases[case["name"]]["shapes"], case["shapes"]):
            inputs = [torch.randn(i["extents"], device="cuda").to(TYPES[i["dtype"]]) for i in spec["inputs"].values()]
            got["torch_us"] = microseconds(lambda: operator(*inputs))
            print(f"{case['name']:18s} {spec['label']:26s} {got['kernels_us']:10.1f} {got['torch_us']:10.1f} {got['torch_us'] / got['kernels_us']:12.2f}")
    json.dump(results, open(sys.argv[2], "w"), indent=1)


if __name__ == "__main__":
    main()
