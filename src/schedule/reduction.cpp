// SPDX-License-Identifier: Apache-2.0
// Reductions. Two forms, told apart by what is contiguous in memory:
//   inner   the last reduction axis is: its loop runs in lanes, and the lanes are combined at the end of a row;
//   outer   the last result axis is (or neither): a strip of results is kept in registers while the reduction loops run over it.
#include "schedule/schedule.h"
#include "schedule/step_list.h"

namespace stax::schedule {
namespace {
constexpr int64_t kStrip = 64;  // results of one strip: four vectors of accumulators
}  // namespace

Versions schedule_reduction(const loop::Kernel& kernel, const NestForm& form) {
  if (form.reductions.empty() || form.accumulators != 1 || form.has_if) return {};
  StepList steps(names_of(form.outer));
  const loop::For& last_reduction = form.reductions.back();
  int along_reduction = 0, along_row = 0;  // loads with unit stride
  for (ir::Scalar load : form.inner_loads) {
    if (auto s = stride_of(kernel, load, last_reduction.var); s && s->is_constant(1)) ++along_reduction;
    if (!form.outer.empty())
      if (auto s = stride_of(kernel, load, form.outer.back().var); s && s->is_constant(1)) ++along_row;
  }
  std::string lanes = std::to_string(lanes_of(kernel));
  bool tiny_reduction = last_reduction.extent.is_constant() && last_reduction.extent.constant() < 8;
  bool tiny_row =
      form.outer.empty() || (form.outer.back().extent.is_constant() && form.outer.back().extent.constant() < 8);
  bool inner = form.outer.empty() || tiny_row || (along_reduction > 0 && along_row == 0 && !tiny_reduction);
  if (inner) {
    steps.step("vectorize " + last_reduction.var.symbol().name + " " + lanes);
    steps.parallelize_first(form.outer.size());
    return {{steps.str(), {}}};
  }
  std::string row = form.outer.back().var.symbol().name;
  bool exact = form.outer.back().extent.is_constant() && form.outer.back().extent.constant() <= kStrip;
  if (exact) {
    steps.step("sink " + row);
    steps.step("vectorize " + row + " " + lanes);
    steps.parallelize_first(form.outer.size() - 1);
  } else {
    steps.split(row, kStrip, "bounded");
    steps.step("sink " + row + "i");
    steps.step("vectorize " + row + "i " + lanes);
    steps.parallelize_first(form.outer.size());
  }
  return {{steps.str(), {}}};
}

}  // namespace stax::schedule
