// SPDX-License-Identifier: Apache-2.0
// Contractions and convolutions: sums of products of two loads.
//
// One axis of the result, n, appears in one operand alone, contiguously: it runs in vector lanes. Another, m, appears only in the other
// operand: its elements are broadcast. A tile of rows x kColumns accumulators lives in registers while the reduction loops run; each step of
// them loads the columns once and each row's element once. Rows past the end repeat the last row and are not stored; columns past the end are masked.
// Everything else is one parallel loop. Where the columns' operand is large, one panel of it is in the cache while all rows go by, and the next one
// is on its way; where it is small, all of it is, and rows are read and written in the order of memory.
#include <algorithm>
#include <span>

#include "loop/access.h"
#include "schedule/schedule.h"
#include "schedule/step_list.h"

namespace stax::schedule {

using symbolic::Expr;

namespace {

constexpr int64_t kColumns = 32;
// Rows of the tile, smallest first: a few rows do not pay for a large tile's. Of many rows 12 read the columns least often; the others are for row
// counts that leave much of the last tile empty. Two and three rows pay only with several panels at once.
constexpr int64_t kRows[] = {1, 2, 3, 4, 7, 8, 9, 12};
constexpr int64_t kPointRows[] = {1, 4, 7, 8};
constexpr int64_t kMostRows = 8;
// Of no more columns than these, tiles of one vector and more rows.
constexpr int64_t kFewColumns = 16;
constexpr int64_t kRowsOfFewColumns[] = {1, 4, 8, 12};
// Rows beyond whole tiles of the largest kind are done so many at a time.
constexpr int64_t kRowsWithTail = 12, kTailRows = 4;
/// What a tile takes, in twice the time of a row. A small one behind others reads the columns again, for few rows.
constexpr int64_t tile_cost(int64_t rows) { return 2 * rows + 1; }
constexpr int64_t kTailCost = 11;

bool has_few_columns(Expr columns) { return columns.is_constant() && columns.constant() <= kFewColumns; }

std::span<const int64_t> rows_of_tiles(bool few_columns, std::span<const int64_t> of_many) {
  return few_columns ? kRowsOfFewColumns : of_many;
}

/// Where a tile of `rows`, one of `all`, is the one to take; null: anywhere that no smaller one is. `tail`: the largest has a tail.
Expr row_guard(Expr extent, int64_t rows, std::span<const int64_t> all, bool tail = false) {
  if (rows == all.back()) return {};
  if (rows <= 4) return symbolic::less_equal(extent, extent.table().constant(rows));
  // Of those above four rows the one that takes the least for all rows.
  const auto cost = [&](int64_t of) {
    if (!tail || of != all.back()) return symbolic::ceildiv(extent, of) * tile_cost(of);
    return symbolic::floordiv(extent, of) * tile_cost(of) +
           symbolic::ceildiv(symbolic::mod(extent, of), kTailRows) * kTailCost;
  };
  Expr best;
  for (int64_t other : all) {
    if (other <= rows) continue;
    const Expr better = symbolic::less_equal(cost(rows), cost(other));
    best = best ? symbolic::min(best, better) : better;
  }
  return best;
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
  if (load->dtype != ir::DType::kI8 || rank < 2 || !extents.back().is_constant(kGroup) || !is_panel(1))
    return Columns::kPlain;
  const Expr k = form.reductions.back().var, length = form.reductions.back().extent;
  // Of a single group likewise.
  const bool grouped = length.is_constant(kGroup)
                           ? index(0) == k
                           : length.multiple() % kGroup == 0 && rank > 2 && index(0) == symbolic::mod(k, kGroup) &&
                                 index(2) == symbolic::floordiv(k, kGroup);
  return grouped ? Columns::kGroups : Columns::kPlain;
}

// Of the loops over a result, the one whose elements run in lanes.
struct Lanes {
  int axis = -1;
  ir::Scalar columns;  // the load that moves along it
  Columns layout = Columns::kPlain;
};

// Packed columns of up to so many elements are read again for each tile of rows.
constexpr int64_t kNearColumns = 40000;

bool are_near(const NestForm& form, const Lanes& columns) {
  Expr elements = form.outer[columns.axis].extent;
  for (const loop::For& r : form.reductions) elements = elements * r.extent;
  return elements.is_constant() && elements.constant() <= kNearColumns;
}

/// Whether the columns' operand is the same for all other axes.
bool are_shared(const loop::Kernel& kernel, const NestForm& form, const Lanes& columns) {
  for (int k = 0; k < static_cast<int>(form.outer.size()); ++k) {
    if (k == columns.axis) continue;
    const auto s = stride_of(kernel, columns.columns, form.outer[k].var);
    if (!s || !s->is_constant(0)) return false;
  }
  return true;
}

// Iterations between a hint for the nearest cache and its use.
constexpr int64_t kAhead = 8;

/// Panels of weights come from far away once for each call.
void prefetch_panels(StepList& steps, const NestForm& form, int slot, const std::string& column,
                     const std::string& row_tiles) {
  const std::string what = "prefetch " + std::to_string(slot) + " " + form.reductions.back().var.symbol().name;
  steps.step(what + " " + std::to_string(kAhead));
  steps.step(what + " next " + column + "o" + (row_tiles.empty() ? "" : " over " + row_tiles));
}

/// Panels that a few rows are multiplied with at a time. The two vectors of a single one would wait for each other's additions, and hints for what is in the
/// cache take the place of loads; where weights come from far away, that is not what takes the time.
int64_t panels_at_once(const NestForm& form, const Lanes& columns, int64_t rows) {
  if (rows > 4) return 1;
  constexpr int64_t kNearBytes = int64_t{1} << 20;
  const Expr extent = form.outer[columns.axis].extent;
  if (columns.layout == Columns::kPlain || form.reductions.size() != 1 || !extent.is_constant()) return 1;
  const Expr sum = form.reductions[0].extent;
  const auto element = static_cast<int64_t>(ir::byte_size(columns.columns->dtype));
  if (!sum.is_constant() || sum.constant() * extent.constant() > kNearBytes / element) return 1;
  const int64_t panels = (extent.constant() + kColumns - 1) / kColumns;
  return panels % 4 == 0 && rows <= 3 ? 4 : panels % 2 == 0 ? 2 : 1;
}

/// Whether a factor is left out by a condition, as padding is: rows then have addresses of their own in any case.
bool is_padded(const loop::Kernel& kernel, const NestForm& form) {
  bool found = false;
  loop::visit(kernel.body, [&](const loop::Stmt& s) {
    const auto* update = s->as<loop::Update>();
    if (update == nullptr) return;
    ir::visit(update->value,
              [&](ir::Scalar x) { found |= x->kind == ir::ScalarKind::kOp && x->op == ir::ScalarOp::kSelect; });
  });
  return found && form.outer.size() > 2;
}

/// Whether all that is added are products of what padding leaves out, for all channels alike, and of an element of finite columns.
bool can_skip(const loop::Kernel& kernel, const NestForm& form, ir::Scalar columns) {
  bool all = is_padded(kernel, form) && kernel.buffers[static_cast<size_t>(columns->slot)].finite;
  loop::visit(kernel.body, [&](const loop::Stmt& s) {
    const auto* update = s->as<loop::Update>();
    if (update == nullptr || !all) return;
    const ir::Scalar value = update->value;
    all = value->kind == ir::ScalarKind::kOp && value->op == ir::ScalarOp::kMul &&
          std::any_of(value->args.begin(), value->args.end(), [&](ir::Scalar x) { return x == columns; }) &&
          std::any_of(value->args.begin(), value->args.end(), [&](ir::Scalar x) {
            if (x->kind != ir::ScalarKind::kOp || x->op != ir::ScalarOp::kSelect) return false;
            const Expr condition = loop::condition_expr(x->args[0]);
            return condition && !symbolic::depends_on(condition, form.reductions.back().var) &&
                   x->args[2]->kind == ir::ScalarKind::kConstant && x->args[2]->bits == 0;
          });
  });
  return all;
}

/// Whether tiles of kRowsWithTail rows along an axis are followed by smaller ones.
bool has_tail(Expr extent, const Lanes& columns) {
  return extent.multiple() % kRowsWithTail != 0 && columns.layout != Columns::kGroups;
}

// What the rows of a tile are: neighbours along one axis, or points of all axes but the columns', numbered through. A point may be of any picture
// and any line, so that tiles are full where lines are short; but each row of a tile then has an address of its own.
enum class Rows : uint8_t { kOfAxis, kPoints };

class TileSchedule {
 public:
  TileSchedule(const loop::Kernel& kernel, const NestForm& form, const Lanes& columns)
      : kernel_(kernel),
        form_(form),
        columns_(columns),
        steps_(names_of(form.outer)),
        lanes_(std::to_string(lanes_of(kernel))),
        column_(form.outer[columns.axis].var.symbol().name) {
    const Expr extent = form.outer[columns.axis].extent;
    const bool is_known = extent.is_constant();
    // That panels go on for whole tiles is known where their number is.
    width_ = has_few_columns(extent) ? kFewColumns : kColumns;
    mode_ = is_known && extent.constant() % width_ == 0     ? "exact"
            : is_known && columns.layout != Columns::kPlain ? "padded"
                                                            : "guard";
    single_ = is_known && extent.constant() <= kColumns;
    streams_ = columns.layout == Columns::kPanels && !single_;
    if (columns.layout != Columns::kGroups) return;
    // The loop over a group goes innermost, where it is one instruction.
    group_ = form.reductions.back().var.symbol().name;
    steps_.step("split " + group_ + " " + std::to_string(kGroup) + " -> " + group_ + "o " + group_ + "i exact");
  }

  /// One row at a time, along whatever axes there are.
  std::string of_one_row() {
    const size_t count = form_.outer.size();
    steps_.move(column_, count - 1);
    steps_.split(column_, width_, mode_);
    if (const int64_t panels = panels_at_once(form_, columns_, 1); panels > 1) {
      steps_.split(column_ + "o", panels, "exact");
      steps_.step("sink " + column_ + "oi");
      steps_.step("sink " + column_ + "i");
      move_group_inside({column_ + "oi", column_ + "i"});
      steps_.step("vectorize " + column_ + "i " + lanes_);
      steps_.step("unroll " + column_ + "oi");
      steps_.parallelize_first(count);
      return steps_.str();
    }
    steps_.step("sink " + column_ + "i");
    move_group_inside({column_ + "i"});
    steps_.step("vectorize " + column_ + "i " + lanes_);
    skip_padding(1);
    if (streams_ && form_.reductions.size() == 1) prefetch_panels(steps_, form_, columns_.columns->slot, column_, "");
    steps_.parallelize_first(count);
    return steps_.str();
  }

  std::string of_rows(Rows kind, int m, int64_t rows) {
    size_t count = form_.outer.size();
    std::string row;
    steps_.move(column_, count - 1);
    if (kind == Rows::kPoints) {
      row = "q";
      steps_.fuse(0, count - 1, row);
      count = 2;
    } else {
      row = form_.outer[m].var.symbol().name;
      steps_.move(row, count - 2);
    }
    const Expr extent = kind == Rows::kPoints ? Expr() : form_.outer[m].extent;
    const bool tail = extent && rows == kRowsWithTail && width_ == kColumns && has_tail(extent, columns_);
    const int64_t panels = panels_at_once(form_, columns_, rows);
    const bool narrow = panels == 1 && ends_in_half();
    std::string column_tiles = column_ + "o";
    steps_.split(column_, width_, narrow ? "cases " + column_ + "t" : mode_);
    if (panels > 1) {
      steps_.split(column_tiles, panels, "exact");
      column_tiles += "o";
    }
    // .., column tiles, row tiles; rows, panels, columns
    steps_.move(column_tiles, count - 2);
    steps_.split(row, rows, tail ? "cases " + row + "t" : "clamped");
    const std::string row_tiles = order_tiles(row, column_tiles, count);
    count = steps_.order().size() - (panels > 1 ? 3 : 2);
    std::vector<std::string> inner = {row + "i", column_ + "i"};
    if (panels > 1) inner.insert(inner.begin() + 1, column_ + "oi");
    for (const std::string& loop : inner) steps_.step("sink " + loop);
    move_group_inside(inner);
    std::vector<std::string> vectors = {column_ + "i"};
    if (narrow) vectors.push_back(column_ + "t");
    if (narrow) steps_.step("sink " + column_ + "t");
    if (tail) {
      steps_.step("split " + row + "t " + std::to_string(kTailRows) + " -> " + row + "to " + row + "ti clamped");
      steps_.step("sink " + row + "ti");
      for (size_t k = vectors.size(); k-- > 0;) {
        vectors.push_back(vectors[k] + "_t");
        steps_.step("sink " + vectors.back());
      }
      inner.insert(inner.begin(), row + "ti");
    }
    for (const std::string& loop : vectors) steps_.step("vectorize " + loop + " " + lanes_);
    for (size_t k = 0; k + 1 < inner.size(); ++k) steps_.step("unroll " + inner[k]);
    skip_padding(rows, narrow);
    hint_at_addends(kind == Rows::kPoints ? Expr() : form_.outer[m].var);
    if (streams_ && !row_tiles.empty() && panels == 1)
      prefetch_panels(steps_, form_, columns_.columns->slot, column_, row_tiles);
    steps_.parallelize_first(count);
    return steps_.str();
  }

 private:
  /// Whether half of the last tile of columns, or more, would be empty.
  bool ends_in_half() const {
    const Expr extent = form_.outer[columns_.axis].extent;
    if (width_ != kColumns || !extent.is_constant() || extent.constant() < kColumns ||
        columns_.layout == Columns::kGroups)
      return false;
    const int64_t left = extent.constant() % kColumns;
    return left > 0 && left <= kColumns / 2;
  }

  /// The loops over tiles are the first `count`. Returns the one whose iterations all use one panel after the other; empty: there is none.
  std::string order_tiles(const std::string& row, const std::string& column_tiles, size_t count) {
    const std::string row_tiles = row + "o";
    if (!are_shared(kernel_, form_, columns_)) {
      steps_.move(row_tiles, count - 1);
      return form_.reductions.size() == 1 ? row_tiles : "";
    }
    if (streams_ && are_near(form_, columns_)) {
      steps_.move(column_tiles, count - 1);
      return "";
    }
    if (count == 2 || !streams_) {
      steps_.move(row_tiles, count - 1);
      return row_tiles;
    }
    steps_.move(column_tiles, 0);
    steps_.fuse(1, count - 1, "t");
    return "t";
  }

  /// Whether anything is there is asked once for all channels: of a few rows always, of a full tile where that is little beside its products.
  void skip_padding(int64_t rows, bool has_last_columns = false) {
    constexpr int64_t kFewRows = 4, kManyChannels = 128;
    const Expr channels = form_.reductions.back().extent;
    const bool is_little = rows <= kFewRows || (channels.is_constant() && channels.constant() >= kManyChannels);
    if (!is_little || !can_skip(kernel_, form_, columns_.columns)) return;
    const std::string sum = form_.reductions.back().var.symbol().name;
    steps_.step("skip " + sum);
    if (has_last_columns) steps_.step("skip " + sum + "_t");
  }

  /// What is added to the sums comes from far away.
  void hint_at_addends(Expr row) {
    const Expr column = form_.outer[columns_.axis].var;
    std::string sum = form_.reductions[0].var.symbol().name;
    if (sum == group_) sum += "o";
    for (ir::Scalar load : form_.loads) {
      const bool is_factor =
          std::find(form_.inner_loads.begin(), form_.inner_loads.end(), load) != form_.inner_loads.end();
      const bool is_only = std::count_if(form_.loads.begin(), form_.loads.end(),
                                         [&](ir::Scalar x) { return x->slot == load->slot; }) == 1;
      if (is_factor || !is_only || !runs_along(load, column)) continue;
      const bool moves = std::any_of(form_.outer.begin(), form_.outer.end(), [&](const loop::For& f) {
        const auto s = stride_of(kernel_, load, f.var);
        return f.var != column && (!row || f.var == row) && !(s && s->is_constant(0));
      });
      if (moves) steps_.step("hint " + std::to_string(load->slot) + " before " + sum);
    }
  }

  /// Whether the load's place is known without data, and its last index alone moves with `column`, one element a step.
  bool runs_along(ir::Scalar load, Expr column) const {
    for (size_t k = 0; k < load->args.size(); ++k) {
      const Expr e = ir::as_expr(load->args[k]);
      if (!e) return false;
      const auto form = symbolic::affine_in(e, column);
      const bool is_last = k + 1 == load->args.size();
      if (!form || !form->coefficient.is_constant(is_last ? 1 : 0)) return false;
    }
    return !load->args.empty() && kernel_.buffers[static_cast<size_t>(load->slot)].strides.empty();
  }

  void move_group_inside(const std::vector<std::string>& loops) {
    if (group_.empty()) return;
    for (const std::string& loop : loops) steps_.step("interchange " + group_ + "i " + loop);
    steps_.step("unroll " + group_ + "i");
  }

  const loop::Kernel& kernel_;
  const NestForm& form_;
  const Lanes& columns_;
  StepList steps_;
  std::string lanes_, column_, group_;
  int64_t width_ = kColumns;  // columns of a tile
  const char* mode_ = "guard";
  bool single_ = false;   // there is one panel
  bool streams_ = false;  // panels come from far away
};

/// The share of tiles of `size` that `count` fill.
double fill_of(int64_t count, int64_t size) {
  const int64_t tiles = (count + size - 1) / size;
  return static_cast<double>(count) / static_cast<double>(tiles * size);
}

/// Behind whole tiles one of half the columns will do.
double fill_of_columns(int64_t count) { return fill_of(count, count > kColumns ? kColumns / 2 : kColumns); }

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
  versions.push_back({TileSchedule(kernel, form, other).of_rows(Rows::kPoints, -1, kMostRows),
                      better.is_constant(1) ? Expr() : better});
}

/// Versions with tiles of points, in front of those with tiles along axis `m`: for pictures whose lines leave much of a tile empty, and for padded ones
/// of any size.
void add_versions_of_points(const loop::Kernel& kernel, const NestForm& form, const Lanes& lanes, int m,
                            Versions& versions) {
  const Expr across = form.outer[lanes.axis].extent;
  if (!across.is_constant() || form.outer.size() < 3 || lanes.layout == Columns::kGroups ||
      !are_shared(kernel, form, lanes))
    return;
  Expr lines = kernel.context->exprs.constant(1);
  for (int k = 0; k < static_cast<int>(form.outer.size()); ++k)
    if (k != lanes.axis && k != m) lines = lines * form.outer[k].extent;
  const Expr row = form.outer[m].extent, points = lines * row, one = kernel.context->exprs.constant(1);
  const std::span<const int64_t> all = rows_of_tiles(has_few_columns(across), kPointRows);
  const auto steps = static_cast<int64_t>(steps_of(form) * kStepCycles);
  // A tile of four rows takes about half the time of one of eight.
  const Expr halves =
      symbolic::ceildiv(row, kMostRows) * 2 - symbolic::less_equal(row, row.table().constant(kMostRows / 2));
  const Expr better = is_padded(kernel, form)
                          ? one
                          : symbolic::less(symbolic::ceildiv(points, kMostRows) *
                                               (2 * steps + 2 * static_cast<int64_t>(kRowAddressCycles)),
                                           lines * halves * steps);
  if (better.is_constant(0)) return;
  for (int64_t rows : all) {
    const Expr fits = row_guard(points, rows, all);
    const Expr guard = !fits ? better : better.is_constant(1) ? fits : symbolic::min(better, fits);
    if (guard.is_constant(0)) continue;
    TileSchedule tile(kernel, form, lanes);
    versions.push_back(
        {rows == 1 ? tile.of_one_row() : tile.of_rows(Rows::kPoints, m, rows), guard.is_constant(1) ? Expr() : guard});
    if (guard.is_constant(1)) return;
  }
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
    double fill = extent.is_constant() ? fill_of_columns(extent.constant()) : 0.85;
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
    const double fill = extent.is_constant() ? fill_of(extent.constant(), kMostRows) : 0.8;
    if (fill > best * 1.2) best = fill, m = k;
  }
  if (m < 0) return {{TileSchedule(kernel, form, lanes).of_one_row(), {}}};
  Expr extent = form.outer[m].extent;
  Versions versions;
  add_versions_by_points(kernel, form, lanes, versions);
  add_versions_of_points(kernel, form, lanes, m, versions);
  if (!versions.empty() && !versions.back().guard) return versions;
  // Rows that lie in panels, as weights whose channels are the rows do, are neighbours in tiles of a size that divides a panel's.
  const bool in_panels = std::any_of(form.inner_loads.begin(), form.inner_loads.end(),
                                     [&](ir::Scalar load) { return !stride_of(kernel, load, form.outer[m].var); });
  const std::span<const int64_t> of_many = in_panels ? std::span<const int64_t>(kPointRows) : kRows;
  const std::span<const int64_t> all = rows_of_tiles(has_few_columns(form.outer[n].extent), of_many);
  for (int64_t rows : all) {
    if ((rows == 2 || rows == 3) && panels_at_once(form, lanes, rows) == 1) continue;
    Expr guard =
        row_guard(extent, rows, all,
                  all.back() == kRowsWithTail && has_tail(extent, lanes) && !has_few_columns(form.outer[n].extent));
    bool last = !guard;
    if (guard && guard.is_constant(0)) continue;
    bool always = last || guard.is_constant(1);
    TileSchedule tile(kernel, form, lanes);
    versions.push_back({rows == 1 ? tile.of_one_row() : tile.of_rows(Rows::kOfAxis, m, rows), always ? Expr() : guard});
    if (always) break;
  }
  return versions;
}

}  // namespace stax::schedule
