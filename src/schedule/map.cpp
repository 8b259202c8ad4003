// SPDX-License-Identifier: Apache-2.0
// Pointwise nests: the innermost axis in vector lanes, in chunks long enough to be worth a hand-over to another thread; all axes around it and the
// chunks are one parallel loop.
#include "schedule/schedule.h"
#include "schedule/step_list.h"

namespace stax::schedule {
namespace {
// Elements of a row that one parallel iteration works on.
constexpr int64_t kChunk = 2048;
}  // namespace

Versions schedule_map(const loop::Kernel& kernel, const NestForm& form) {
  if (!form.reductions.empty() || form.outer.empty() || form.has_if) return {};
  StepList steps(names_of(form.outer));
  const loop::For& last = form.outer.back();
  std::string row = last.var.symbol().name;
  bool short_row = last.extent.is_constant() && last.extent.constant() <= kChunk;
  if (!short_row) {
    steps.split(row, kChunk, "bounded");
    steps.step("vectorize " + row + "i " + std::to_string(lanes_of(kernel)));
  } else {
    steps.step("vectorize " + row + " " + std::to_string(lanes_of(kernel)));
  }
  steps.parallelize_first(steps.order().size() - 1);
  return {{steps.str(), {}}};
}

Versions schedule_fallback(const loop::Kernel& kernel, const NestForm& form) {
  // Serial, but for the outer loops of a nest with independent iterations around reductions of any kind.
  if (form.outer.empty()) return {{"", {}}};
  StepList steps(names_of(form.outer));
  steps.parallelize_first(form.outer.size());
  return {{steps.str(), {}}};
}

}  // namespace stax::schedule
