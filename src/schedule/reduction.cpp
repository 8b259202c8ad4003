// SPDX-License-Identifier: Apache-2.0
// Reductions. Two forms, told apart by what is contiguous in memory:
//   inner   the last reduction axis is: its loop runs in lanes, and the lanes are combined at the end of a row;
//   outer   a result axis is (the last one, if none): a strip of results along it is kept in registers while the reduction loops run over it.
#include <algorithm>

#include "schedule/schedule.h"
#include "schedule/step_list.h"

namespace stax::schedule {
namespace {
constexpr int64_t kTiny = 8;  // elements that are no work for lanes
}  // namespace

Versions schedule_reduction(const loop::Kernel& kernel, const NestForm& form) {
  if (form.reductions.empty() || form.accumulators != 1 || form.has_if) return {};
  StepList steps(names_of(form.outer));
  const auto contiguous_loads = [&](symbolic::Expr var) {
    return std::count_if(form.inner_loads.begin(), form.inner_loads.end(), [&](ir::Scalar load) {
      const auto s = stride_of(kernel, load, var);
      return s && s->is_constant(1);
    });
  };
  const loop::For& last_reduction = form.reductions.back();
  const auto along_reduction = contiguous_loads(last_reduction.var);
  const bool tiny_reduction = last_reduction.extent.is_constant() && last_reduction.extent.constant() < kTiny;
  // The axis of the strips: the last one, where results are neighbours, unless elements are neighbours along another one only.
  size_t strips = form.outer.size() - 1;
  if (!form.outer.empty() && contiguous_loads(form.outer.back().var) == 0 && (along_reduction == 0 || tiny_reduction))
    for (size_t k = 0; k + 1 < form.outer.size(); ++k) {
      const symbolic::Expr extent = form.outer[k].extent;
      if (extent.is_constant() && extent.constant() >= kTiny && contiguous_loads(form.outer[k].var) > 0) strips = k;
    }
  std::string lanes = std::to_string(lanes_of(kernel));
  const bool tiny_row =
      form.outer.empty() || (form.outer[strips].extent.is_constant() && form.outer[strips].extent.constant() < kTiny);
  const bool inner =
      tiny_row || (along_reduction > 0 && contiguous_loads(form.outer[strips].var) == 0 && !tiny_reduction);
  if (inner) {
    steps.step("vectorize " + last_reduction.var.symbol().name + " " + lanes);
    steps.parallelize_first(form.outer.size());
    return {{steps.str(), {}}};
  }
  const std::string row = form.outer[strips].var.symbol().name;
  if (strips + 1 != form.outer.size()) steps.move(row, form.outer.size() - 1);
  steps.sink_strips(row, form.outer[strips].extent, lanes);
  return {{steps.str(), {}}};
}

}  // namespace stax::schedule
