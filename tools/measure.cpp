// SPDX-License-Identifier: Apache-2.0
#include "measure.h"

#include <algorithm>
#include <chrono>

namespace stax::tool {
namespace {

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

}  // namespace

Cost measure(session::Session& session, const std::vector<runtime::Item>& inputs, int warmup, int repeat,
             const Roof& roof) {
  for (int k = 0; k < warmup; ++k) session.run(inputs, nullptr);
  std::vector<double> calls;
  for (int k = 0; k < repeat; ++k) {
    const auto start = std::chrono::steady_clock::now();
    session.run(inputs, nullptr);
    calls.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
  }
  const program::Program& program = *session.program();
  std::vector<runtime::KernelUse> uses;
  std::vector<std::vector<double>> times(program.kernels.size());
  for (int k = 0; k < (repeat + 1) / 2; ++k) {
    runtime::CallStatistics statistics;
    session.run(inputs, &statistics, true);
    uses = statistics.kernels;
    for (size_t n = 0; n < uses.size(); ++n) times[n].push_back(static_cast<double>(uses[n].ns));
  }
  Cost cost;
  cost.call_us = median(calls);
  for (size_t n = 0; n < uses.size(); ++n) {
    const runtime::KernelUse& use = uses[n];
    if (use.launches == 0) continue;
    const double ns = std::max(median(times[n]), 1.0);
    const double least =
        static_cast<double>(use.launches) * roof.least_ns(use.operations / use.launches, use.bytes / use.launches);
    cost.kernels_us += ns / 1e3;
    cost.roof_us += std::min(least, ns) / 1e3;  // what takes less than it could would hide the others
    cost.kernels.push_back({static_cast<uint32_t>(n), use.launches, ns, use.bytes, use.operations, least});
  }
  std::sort(cost.kernels.begin(), cost.kernels.end(),
            [](const KernelCost& a, const KernelCost& b) { return a.ns > b.ns; });
  return cost;
}

}  // namespace stax::tool
