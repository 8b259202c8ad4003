// SPDX-License-Identifier: Apache-2.0
// Pointwise nests: the innermost axis in vector lanes, in chunks long enough to be worth a hand-over to another thread; all axes around it and the
// chunks are one parallel loop. Where the innermost axis may be short, an iteration of that loop has several rows, since finding out where
// an iteration is takes a division for each axis.
#include <fmt/format.h>

#include "loop/transform.h"
#include "schedule/schedule.h"
#include "schedule/step_list.h"

namespace stax::schedule {
using ir::Scalar;
using symbolic::Expr;

namespace {

// Elements of a row that one parallel iteration works on.
constexpr int64_t kChunk = 2048;
// Rows of an iteration, where they may be shorter than kLongRow.
constexpr int64_t kRows = 8, kLongRow = 512;
// Of a transposed operand, blocks of as many rows as there are lanes: both sides of a block are read and written as vectors, by an exchange of rows and
// columns in registers. Of an iteration's rows all blocks are worked on one after the other, so that lines of the operand are used up while they are near.
constexpr int64_t kTurnedChunk = 64;

/// The loop along which an operand is contiguous that is not along the last one; null: there is none, or too short a one.
const loop::For* turned_loop(const loop::Kernel& kernel, const NestForm& form) {
  const Expr row = form.outer.back().var;
  for (Scalar load : form.loads) {
    const auto along = stride_of(kernel, load, row);
    if (!along || along->is_constant(0) || along->is_constant(1) || along->is_constant(-1)) continue;
    for (size_t k = 0; k + 1 < form.outer.size(); ++k) {
      const loop::For& other = form.outer[k];
      const auto across = stride_of(kernel, load, other.var);
      if (!across || !across->is_constant(1)) continue;
      return other.extent.range().hi >= lanes_of(kernel) / 2 ? &other : nullptr;
    }
  }
  return nullptr;
}

std::string turned_steps(const loop::Kernel& kernel, const NestForm& form, const loop::For& turned) {
  const int64_t lanes = lanes_of(kernel);
  StepList steps(names_of(form.outer));
  const std::string row = loop::loop_name(form.outer.back().var), across = loop::loop_name(turned.var);
  std::string inside = row;
  size_t around = form.outer.size() - 2;  // where `across` goes: in front of the last loop
  if (!(form.outer.back().extent.is_constant() && form.outer.back().extent.constant() <= kTurnedChunk)) {
    steps.split(row, kTurnedChunk, "bounded");
    inside = row + "i";
    ++around;
  }
  steps.move(across, around);
  const bool whole = turned.extent.is_constant() && turned.extent.constant() <= lanes;
  const bool exact = symbolic::mod(turned.extent, lanes).is_constant(0);
  if (!whole) steps.split(across, lanes, exact ? "exact" : "cases " + across + "l");
  const std::string block = whole ? across : across + "i";
  steps.step("sink " + block);
  steps.step("unroll " + block);
  steps.step(fmt::format("vectorize {} {}", inside, lanes));
  if (!whole && !exact) steps.step(fmt::format("vectorize {}_t {}", inside, lanes));
  steps.parallelize_first(whole ? around : around + 1);
  return steps.str();
}

std::string plain_steps(const loop::Kernel& kernel, const NestForm& form) {
  StepList steps(names_of(form.outer));
  const loop::For& last = form.outer.back();
  const std::string row = loop::loop_name(last.var), lanes = std::to_string(lanes_of(kernel));
  const bool short_row = last.extent.is_constant() && last.extent.constant() <= kChunk;
  const bool long_row = last.extent.is_constant() && last.extent.constant() >= kLongRow;
  const size_t rows = form.outer.size() - 2;  // number of the loop around the last one
  const bool grouped = form.outer.size() > 2 && !long_row &&
                       !(form.outer[rows].extent.is_constant() && form.outer[rows].extent.constant() <= kRows);
  if (grouped) steps.split(loop::loop_name(form.outer[rows].var), kRows, "bounded");
  if (!short_row) steps.split(row, kChunk, "bounded");
  steps.step("vectorize " + row + (short_row ? "" : "i") + " " + lanes);
  size_t around = steps.order().size() - 1;
  if (grouped) steps.move(loop::loop_name(form.outer[rows].var) + "i", --around);
  steps.parallelize_first(around);
  return steps.str();
}

}  // namespace

Versions schedule_map(const loop::Kernel& kernel, const NestForm& form) {
  if (!form.reductions.empty() || form.outer.empty() || form.has_if) return {};
  const std::string plain = plain_steps(kernel, form);
  if (const loop::For* turned = turned_loop(kernel, form))
    return {{turned_steps(kernel, form, *turned), {}}, {plain, {}}};
  return {{plain, {}}};
}

Versions schedule_fallback(const NestForm& form) {
  // Serial, but for the outer loops of a nest with independent iterations around reductions of any kind.
  if (form.outer.empty()) return {{"", {}}};
  StepList steps(names_of(form.outer));
  steps.parallelize_first(form.outer.size());
  return {{steps.str(), {}}};
}

}  // namespace stax::schedule
