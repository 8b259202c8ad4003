// SPDX-License-Identifier: Apache-2.0
// Pointwise nests: the innermost axis in vector lanes, in chunks long enough to be worth a hand-over to another thread; all axes around it and the
// chunks are one parallel loop. Where the innermost axis may be short, an iteration of that loop has several rows, since finding out where
// an iteration is takes a division for each axis.
#include "schedule/schedule.h"
#include "schedule/step_list.h"

namespace stax::schedule {
namespace {
// Elements of a row that one parallel iteration works on.
constexpr int64_t kChunk = 2048;
// Rows of an iteration, where they may be shorter than kLongRow.
constexpr int64_t kRows = 8, kLongRow = 512;
}  // namespace

Versions schedule_map(const loop::Kernel& kernel, const NestForm& form) {
  if (!form.reductions.empty() || form.outer.empty() || form.has_if) return {};
  StepList steps(names_of(form.outer));
  const loop::For& last = form.outer.back();
  std::string row = last.var.symbol().name;
  bool short_row = last.extent.is_constant() && last.extent.constant() <= kChunk;
  const bool long_row = last.extent.is_constant() && last.extent.constant() >= kLongRow;
  const size_t rows = form.outer.size() - 2;  // number of the loop around the last one
  const bool grouped = form.outer.size() > 2 && !long_row &&
                       !(form.outer[rows].extent.is_constant() && form.outer[rows].extent.constant() <= kRows);
  if (grouped) steps.split(form.outer[rows].var.symbol().name, kRows, "bounded");
  if (!short_row) {
    steps.split(row, kChunk, "bounded");
    steps.step("vectorize " + row + "i " + std::to_string(lanes_of(kernel)));
  } else {
    steps.step("vectorize " + row + " " + std::to_string(lanes_of(kernel)));
  }
  size_t around = steps.order().size() - 1;
  if (grouped) steps.move(form.outer[rows].var.symbol().name + "i", --around);
  steps.parallelize_first(around);
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
