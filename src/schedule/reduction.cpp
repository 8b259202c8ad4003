// SPDX-License-Identifier: Apache-2.0
// Reductions. Two forms, told apart by what is contiguous in memory:
//   inner   the last reduction axis is: its loop runs in lanes, and the lanes are combined at the end of a row;
//   outer   a result axis is (the last one, if none): a strip of results along it is kept in registers while the reduction loops run over it.
// Sums of products over windows (depthwise convolutions) whose channels are contiguous keep several neighbouring pixels in registers: a tap's weights are
// loaded once for all of them, and a pixel once for the taps that it is under.
#include <fmt/format.h>

#include <algorithm>

#include "schedule/schedule.h"
#include "schedule/step_list.h"

namespace stax::schedule {
namespace {
constexpr int64_t kTiny = 8;  // elements that are no work for lanes
// Taps of a row that are written out, and those of a window that are many.
constexpr int64_t kMostTaps = 8, kManyTaps = 16;

/// The outer loop along which windows slide: an index goes with it and with a reduction; -1 if there is none.
int sliding_axis(const NestForm& form, size_t strips) {
  for (size_t k = form.outer.size(); k-- > 0;) {
    if (k == strips) continue;
    for (const ir::Scalar load : form.inner_loads)
      for (const ir::Scalar arg : load->args) {
        const symbolic::Expr index = ir::as_expr(arg);
        if (index && symbolic::depends_on(index, form.outer[k].var) &&
            symbolic::depends_on(index, form.reductions.back().var))
          return static_cast<int>(k);
      }
  }
  return -1;
}

/// Tiles of `pixels` results along the axis that windows slide over, and a vector of channels.
Version window_tile(const NestForm& form, size_t strips, size_t sliding, int64_t pixels, int64_t lanes) {
  StepList steps(names_of(form.outer));
  const std::string pixel = form.outer[sliding].var.symbol().name, channel = form.outer[strips].var.symbol().name;
  steps.move(pixel, form.outer.size() - 1);
  steps.move(channel, form.outer.size() - 2);
  const symbolic::Expr channels = form.outer[strips].extent;
  steps.split(channel, lanes, channels.multiple() % lanes == 0 ? "exact" : "clamped");
  steps.move(channel + "i", form.outer.size());
  steps.step(fmt::format("split {0} {1} -> {0}o {0}i cases {0}r", pixel, pixels));
  steps.rename(pixel, pixel + "o");
  steps.step("sink " + pixel + "i");
  const std::string vector = channel + "i", rest = vector + "_t";
  for (const std::string& loop : {vector, rest}) {
    steps.step("sink " + loop);
    steps.step("vectorize " + loop + " " + std::to_string(lanes));
  }
  steps.step("unroll " + pixel + "i");
  const loop::For& taps = form.reductions.back();
  if (taps.extent.is_constant() && taps.extent.constant() <= kMostTaps) steps.step("unroll " + taps.var.symbol().name);
  steps.parallelize_first(form.outer.size());
  return {steps.str(), {}};
}

/// By how many pixels there are, as those beyond whole tiles are done one by one. Empty where channels do not fill a vector.
Versions window_tiles(const loop::Kernel& kernel, const NestForm& form, size_t strips) {
  const int64_t lanes = lanes_of(kernel);
  const symbolic::Expr channels = form.outer[strips].extent;
  if (kernel.kernel_class != "contraction" || !channels.is_constant() || channels.constant() < lanes) return {};
  const int sliding = sliding_axis(form, strips);
  if (sliding < 0) return {};
  const symbolic::Expr pixels = form.outer[static_cast<size_t>(sliding)].extent;
  const auto at_least = [&](int64_t n) { return symbolic::less_equal(pixels.table().constant(n), pixels); };
  const auto whole = [&](int64_t tile) { return symbolic::equal(symbolic::mod(pixels, tile), 0); };
  std::vector<std::pair<int64_t, symbolic::Expr>> tiles{{8, at_least(24)}};
  symbolic::Expr taps = pixels.table().constant(1);
  for (const loop::For& r : form.reductions) taps = taps * r.extent;
  // Finding a tile's place takes as long as few taps do.
  if (taps.range().lo >= kManyTaps)
    tiles = {{8, symbolic::logical_or(whole(8), at_least(24))}, {7, whole(7)}, {4, at_least(4)}};
  Versions versions;
  for (const auto& [tile, guard] : tiles) {
    versions.push_back(window_tile(form, strips, static_cast<size_t>(sliding), tile, lanes));
    versions.back().guard = guard;
  }
  return versions;
}
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
  Versions versions = window_tiles(kernel, form, strips);
  const std::string row = form.outer[strips].var.symbol().name;
  if (strips + 1 != form.outer.size()) steps.move(row, form.outer.size() - 1);
  steps.sink_strips(row, form.outer[strips].extent, lanes);
  versions.push_back({steps.str(), {}});
  return versions;
}

}  // namespace stax::schedule
