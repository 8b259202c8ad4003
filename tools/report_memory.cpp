// SPDX-License-Identifier: Apache-2.0
#include "program/at_shape.h"
#include "program/steps.h"
#include "report_page.h"

namespace stax::tool {

std::vector<double> live_bytes(const program::Program& program, const Extents& dims) {
  using namespace program;
  const AtShape at(program, dims);
  const BlockSpec& block = program.blocks[0];
  const size_t steps = block.steps.size();
  std::vector<size_t> first(program.values.size(), steps), last(program.values.size(), 0);
  for (size_t s = 0; s < steps; ++s) {
    const auto touch = [&](ValueRef v) {
      const ValueRef root = root_of(program, v);
      first[root] = std::min(first[root], s);
      last[root] = std::max(last[root], s);
    };
    for_each_operand(block.steps[s], touch);
    for_each_result(block.steps[s], touch);
  }
  for (const ValueRef v : block.outputs)
    if (steps > 0) last[root_of(program, v)] = steps - 1;
  std::vector<double> live(steps, 0.0);
  for (size_t v = 0; v < program.values.size(); ++v) {
    const Storage storage = program.values[v].storage;
    if (storage != Storage::kArena && storage != Storage::kOwned) continue;
    const double bytes = static_cast<double>(at.value(program.values[v].bytes).value_or(0));
    for (size_t s = first[v]; s <= last[v] && s < steps; ++s) live[s] += bytes;
  }
  return live;
}

}  // namespace stax::tool
