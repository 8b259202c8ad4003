// SPDX-License-Identifier: Apache-2.0
// Contractions and convolutions: sums of products of two loads.
//
// One axis of the result, n, appears in one operand alone, contiguously: it runs in vector lanes. Another, m, appears only in the other
// operand: its elements are broadcast. A tile of rows x kColumns accumulators lives in registers while the reduction loops run; each step of
// them loads the columns once and each row's element once. Rows past the end repeat the last row and are not stored; columns past the end are masked.
// Everything else is one parallel loop, rows of tiles innermost, so that the columns' operand stays in cache.
#include "schedule/schedule.h"
#include "schedule/step_list.h"

namespace stax::schedule {

using symbolic::Expr;

namespace {

constexpr int64_t kColumns = 32;
// Rows of the tile, smallest first: a few rows do not pay for a large tile's. Tiles of 6 are for row counts that leave much of the last tile
// of 8 empty.
constexpr int64_t kRows[] = {1, 4, 6, 8};
constexpr int64_t kMostRows = 8;
// By how much of a tile of 8 the shorter one is the better one, in ninths of the rows computed.
constexpr int64_t kShortGain = 8, kShortCost = 9;

/// Where a tile of `rows` is the one to take; null: anywhere that no smaller one is.
Expr row_guard(Expr extent, int64_t rows) {
  if (rows == kMostRows) return {};
  const Expr one_tile = symbolic::less_equal(extent, extent.table().constant(rows));
  if (rows < 6) return one_tile;
  const Expr computed = symbolic::ceildiv(extent, rows) * (rows * kShortCost),
             otherwise = symbolic::ceildiv(extent, kMostRows) * (kMostRows * kShortGain);
  return symbolic::less_equal(computed, otherwise);
}

// How an operand lies in memory along the columns.
enum class Columns : uint8_t {
  kPlain,   // neighbours
  kPanels,  // [var / kColumns, .., var mod kColumns], the last panel filled up
  kGroups,  // [var / kColumns, .., k / kGroup, var mod kColumns, k mod kGroup]: bytes, kGroup of the innermost reduction k to a lane
};
constexpr int64_t kGroup = 4;

Columns columns_of(const loop::Kernel& kernel, const NestForm& form, ir::Scalar load, const loop::For& axis) {
  const std::vector<Expr>& extents = kernel.buffers[load->slot].extents;
  const size_t rank = load->args.size();
  const auto index = [&](size_t from_end) { return ir::as_expr(load->args[rank - 1 - from_end]); };
  const Expr var = axis.var;
  // Of a single panel nothing is left but its width.
  const bool single = axis.extent.is_constant() && axis.extent.constant() <= kColumns;
  const auto is_panel = [&](size_t from_end) {
    if (rank <= from_end || !extents[rank - 1 - from_end].is_constant(kColumns)) return false;
    if (single) return index(from_end) == var;
    return rank > from_end + 1 && index(from_end) == symbolic::mod(var, kColumns) &&
           ir::as_expr(load->args.front()) == symbolic::floordiv(var, kColumns);
  };
  if (is_panel(0)) return Columns::kPanels;
  const Expr k = form.reductions.back().var;
  const bool whole_groups = form.reductions.back().extent.multiple() % kGroup == 0;
  const bool grouped = whole_groups && load->dtype == ir::DType::kI8 && rank > 2 &&
                       extents.back().is_constant(kGroup) && is_panel(1) && index(0) == symbolic::mod(k, kGroup) &&
                       index(2) == symbolic::floordiv(k, kGroup);
  return grouped ? Columns::kGroups : Columns::kPlain;
}

// Of the loops over a result, the one whose elements run in lanes.
struct Lanes {
  int axis = -1;
  ir::Scalar columns;  // the load that moves along it
  Columns layout = Columns::kPlain;
};

// Iterations between a hint for the nearest cache and its use.
constexpr int64_t kAhead = 8;

/// Panels of weights come from far away once for each call.
void prefetch_panels(StepList& steps, const NestForm& form, int slot, const std::string& column,
                     const std::string& row_tiles) {
  const std::string what = "prefetch " + std::to_string(slot) + " " + form.reductions.back().var.symbol().name;
  steps.step(what + " " + std::to_string(kAhead));
  steps.step(what + " next " + column + "o" + (row_tiles.empty() ? "" : " over " + row_tiles));
}

/// Panels that one row is multiplied with at a time. The two vectors of a single one would wait for each other's additions; where weights come from
/// far away, that is not what takes the time.
int64_t panels_at_once(const NestForm& form, const Lanes& columns) {
  constexpr int64_t kNearWeights = int64_t{1} << 18;
  const Expr extent = form.outer[columns.axis].extent;
  if (columns.layout != Columns::kPanels || form.reductions.size() != 1 || !extent.is_constant()) return 1;
  const Expr sum = form.reductions[0].extent;
  if (!sum.is_constant() || sum.constant() * extent.constant() > kNearWeights) return 1;
  const int64_t panels = (extent.constant() + kColumns - 1) / kColumns;
  return panels % 4 == 0 ? 4 : panels % 2 == 0 ? 2 : 1;
}

std::string schedule_tile(const loop::Kernel& kernel, const NestForm& form, const Lanes& columns, int m, int64_t rows) {
  const int n = columns.axis;
  const Columns layout = columns.layout;
  StepList steps(names_of(form.outer));
  // That panels go on for whole tiles is known where their number is.
  const bool packed = layout != Columns::kPlain && form.outer[n].extent.is_constant();
  const std::string group = layout == Columns::kGroups ? form.reductions.back().var.symbol().name : "";
  // The loop over a group goes innermost, where it is one instruction.
  const auto split_group = [&] {
    if (!group.empty())
      steps.step("split " + group + " " + std::to_string(kGroup) + " -> " + group + "o " + group + "i exact");
  };
  const auto move_group_inside = [&](const std::vector<std::string>& loops) {
    if (group.empty()) return;
    for (const std::string& loop : loops) steps.step("interchange " + group + "i " + loop);
    steps.step("unroll " + group + "i");
  };
  size_t count = form.outer.size();
  std::string lanes = std::to_string(lanes_of(kernel));
  std::string column = form.outer[n].var.symbol().name;
  bool whole = form.outer[n].extent.is_constant() && form.outer[n].extent.constant() % kColumns == 0;
  const char* mode = whole ? "exact" : packed ? "padded" : "guard";
  const bool single = form.outer[n].extent.is_constant() && form.outer[n].extent.constant() <= kColumns;
  const bool streams = layout == Columns::kPanels && form.reductions.size() == 1 && !single;
  split_group();
  if (rows == 1) {
    steps.move(column, count - 1);
    steps.split(column, kColumns, mode);
    if (const int64_t panels = panels_at_once(form, columns); panels > 1) {
      steps.split(column + "o", panels, "exact");
      steps.step("sink " + column + "oi");
      steps.step("sink " + column + "i");
      steps.step("vectorize " + column + "i " + lanes);
      steps.step("unroll " + column + "oi");
      steps.parallelize_first(count);
      return steps.str();
    }
    steps.step("sink " + column + "i");
    move_group_inside({column + "i"});
    steps.step("vectorize " + column + "i " + lanes);
    if (streams) prefetch_panels(steps, form, columns.columns->slot, column, "");
    steps.parallelize_first(count);
    return steps.str();
  }
  std::string row = form.outer[m].var.symbol().name;
  steps.move(row, count - 1);
  steps.move(column, count - 1);
  // .., row, column -> .., column tiles, row tiles, rows, columns
  steps.split(row, rows, "clamped");
  steps.split(column, kColumns, mode);
  steps.move(row + "i", count);
  steps.move(row + "o", count - 1);
  steps.step("sink " + row + "i");
  steps.step("sink " + column + "i");
  move_group_inside({row + "i", column + "i"});
  steps.step("vectorize " + column + "i " + lanes);
  steps.step("unroll " + row + "i");
  if (streams) prefetch_panels(steps, form, columns.columns->slot, column, row + "o");
  steps.parallelize_first(count);
  return steps.str();
}

/// `axis` as lanes, if it moves one load only, and that one contiguously.
Lanes lanes_along(const loop::Kernel& kernel, const NestForm& form, int axis) {
  Lanes lanes;
  const Expr var = form.outer[axis].var;
  for (ir::Scalar load : form.inner_loads) {
    const auto s = stride_of(kernel, load, var);
    if (s && s->is_constant(0)) continue;
    if (lanes.columns) return {};
    lanes.columns = load;
    lanes.layout = columns_of(kernel, form, load, form.outer[axis]);
    if (lanes.layout == Columns::kPlain && !(s && s->is_constant(1))) return {};
  }
  if (lanes.columns) lanes.axis = axis;
  return lanes;
}

// Cycles, as far as they are known: a full tile's step of the reduction; its stores, where they are not side by side; and the addresses of
// rows that are numbered through several axes.
constexpr double kStepCycles = 8, kScatteredStoreCycles = 320, kRowAddressCycles = 640;

double steps_of(const NestForm& form) {
  double steps = 1;
  for (const loop::For& r : form.reductions)
    steps *= r.extent.is_constant() ? static_cast<double>(r.extent.constant()) : 64;
  return steps;
}

// Tiles whose rows are all points of the other axes, numbered through: for images of few pixels, whose rows are shorter than
// the lanes. Each point is one row, whichever picture it is of.
std::string schedule_points(const loop::Kernel& kernel, const NestForm& form, const Lanes& lanes, int64_t rows) {
  StepList steps(names_of(form.outer));
  const std::string column = form.outer[lanes.axis].var.symbol().name;
  const bool whole = form.outer[lanes.axis].extent.constant() % kColumns == 0;
  steps.move(column, form.outer.size() - 1);
  steps.fuse(0, form.outer.size() - 1, "q");
  steps.split("q", rows, "clamped");
  steps.split(column, kColumns, whole ? "exact" : lanes.layout == Columns::kPlain ? "guard" : "padded");
  // row tiles, rows, column tiles, columns -> column tiles, row tiles, rows, columns
  steps.move("qi", 2);
  steps.move("qo", 1);
  steps.step("sink qi");
  steps.step("sink " + column + "i");
  steps.step("vectorize " + column + "i " + std::to_string(lanes_of(kernel)));
  steps.step("unroll qi");
  steps.parallelize_first(2);
  return steps.str();
}

/// Versions for few pixels, in front of those with `lanes`: where another axis of known extent could run in lanes and all others are rows.
void add_versions_by_points(const loop::Kernel& kernel, const NestForm& form, const Lanes& lanes, Versions& versions) {
  const Expr across = form.outer[lanes.axis].extent;
  if (across.is_constant() || form.outer.size() < 3 || lanes.layout != Columns::kPlain) return;
  Lanes other;
  int64_t widest = 15;
  for (int k = 0; k < static_cast<int>(form.outer.size()); ++k) {
    const Expr extent = form.outer[k].extent;
    if (k == lanes.axis || !extent.is_constant() || extent.constant() <= widest) continue;
    if (const Lanes found = lanes_along(kernel, form, k); found.axis >= 0) other = found, widest = extent.constant();
  }
  if (other.axis < 0 || other.layout == Columns::kGroups) return;
  Expr points = kernel.context->exprs.constant(1), lines = points;
  for (int k = 0; k < static_cast<int>(form.outer.size()); ++k) {
    if (k == other.axis) continue;
    const auto s = stride_of(kernel, other.columns, form.outer[k].var);
    if (!s || !s->is_constant(0)) return;
    points = points * form.outer[k].extent;
    if (k != lanes.axis) lines = lines * form.outer[k].extent;
  }
  const double steps = steps_of(form) * kStepCycles;
  const auto as_lanes = static_cast<int64_t>(steps) * ((widest + kMostRows - 1) / kMostRows);
  const auto as_points =
      static_cast<int64_t>(steps + kScatteredStoreCycles + kRowAddressCycles) * ((widest + kColumns - 1) / kColumns);
  const Expr better = symbolic::less(symbolic::ceildiv(points, kMostRows) * as_points,
                                     lines * symbolic::ceildiv(across, kColumns) * as_lanes);
  if (better.is_constant(0)) return;
  versions.push_back({schedule_points(kernel, form, other, kMostRows), better.is_constant(1) ? Expr() : better});
}

/// A version for pictures whose rows along axis `m` leave much of a tile empty, in front of those with tiles along it: `lanes` as they are, all
/// other axes as rows.
void add_version_for_short_rows(const loop::Kernel& kernel, const NestForm& form, const Lanes& lanes, int m,
                                Versions& versions) {
  const Expr across = form.outer[lanes.axis].extent;
  if (!across.is_constant() || form.outer.size() < 3 || lanes.layout == Columns::kGroups) return;
  Expr lines = kernel.context->exprs.constant(1);
  for (int k = 0; k < static_cast<int>(form.outer.size()); ++k) {
    if (k == lanes.axis) continue;
    const auto s = stride_of(kernel, lanes.columns, form.outer[k].var);
    if (!s || !s->is_constant(0)) return;
    if (k != m) lines = lines * form.outer[k].extent;
  }
  const Expr row = form.outer[m].extent;
  const auto steps = static_cast<int64_t>(steps_of(form) * kStepCycles);
  // A tile of four rows takes about half the time of one of eight.
  const Expr halves =
      symbolic::ceildiv(row, kMostRows) * 2 - symbolic::less_equal(row, row.table().constant(kMostRows / 2));
  const Expr better = symbolic::less(
      symbolic::ceildiv(lines * row, kMostRows) * (2 * steps + 2 * static_cast<int64_t>(kRowAddressCycles)),
      lines * halves * steps);
  if (better.is_constant(0)) return;
  versions.push_back({schedule_points(kernel, form, lanes, kMostRows), better.is_constant(1) ? Expr() : better});
}

}  // namespace

Versions schedule_contraction(const loop::Kernel& kernel, const NestForm& form) {
  if (kernel.kernel_class != "contraction" || form.reductions.empty() || form.inner_loads.size() < 2 || form.has_if)
    return {};
  Lanes lanes;
  const double steps = steps_of(form) * kStepCycles;
  double best_columns = 0;
  for (int k = static_cast<int>(form.outer.size()) - 1; k >= 0; --k) {
    const Expr extent = form.outer[k].extent;
    if (extent.is_constant() && extent.constant() < 8) continue;
    const Lanes found = lanes_along(kernel, form, k);
    if (found.axis < 0) continue;
    double fill = 0.85;
    if (extent.is_constant())
      fill = static_cast<double>(extent.constant()) /
             (static_cast<double>((extent.constant() + kColumns - 1) / kColumns) * kColumns);
    if (k + 1 != static_cast<int>(form.outer.size())) fill *= steps / (steps + kScatteredStoreCycles);
    if (fill > best_columns * 1.05) best_columns = fill, lanes = found;
  }
  if (lanes.axis < 0) return {};
  const int n = lanes.axis;
  int m = -1;
  // Rows: of the axes that do not move the columns, the one that fills tiles best; the inner one of several.
  double best = 0;
  for (int k = static_cast<int>(form.outer.size()) - 1; k >= 0; --k) {
    const Expr extent = form.outer[k].extent;
    if (k == n || extent.is_constant(1)) continue;
    auto s = stride_of(kernel, lanes.columns, form.outer[k].var);
    if (!s || !s->is_constant(0)) continue;
    constexpr int64_t kMost = kMostRows;
    const double rows = extent.is_constant() ? static_cast<double>(extent.constant()) : 0;
    const double fill =
        extent.is_constant() ? rows / (static_cast<double>((extent.constant() + kMost - 1) / kMost) * kMost) : 0.8;
    if (fill > best * 1.2) best = fill, m = k;
  }
  if (m < 0) return {{schedule_tile(kernel, form, lanes, m, 1), {}}};
  Expr extent = form.outer[m].extent;
  Versions versions;
  add_versions_by_points(kernel, form, lanes, versions);
  add_version_for_short_rows(kernel, form, lanes, m, versions);
  if (!versions.empty() && !versions.back().guard) return versions;
  for (int64_t rows : kRows) {
    Expr guard = row_guard(extent, rows);
    bool last = !guard;
    if (guard && guard.is_constant(0)) continue;
    bool always = last || guard.is_constant(1);
    versions.push_back({schedule_tile(kernel, form, lanes, m, rows), always ? Expr() : guard});
    if (always) break;
  }
  return versions;
}

}  // namespace stax::schedule
