// SPDX-License-Identifier: Apache-2.0
// Contractions by matrix instructions.
//
// A block has a tile of results. Parts of both factors, some steps of the reduction deep, go through shared memory in rows that are 16 bytes
// longer than they need be, so that eight of them side by side (a matrix of 8 x 8) touch all banks once. Each warp has a rectangle of the
// tile: per step of the instruction it takes its rows of the left and its columns of the right factor into registers, and multiplies all
// with all. Rows and columns past the end are read from the last one and not stored; past the end of the reduction there are zeros.
//
// Copies are 16 bytes where extents are multiples of that, else element by element.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "loop/transform.h"
#include "schedule/gpu_steps.h"
#include "thread/mma.h"

namespace stax::schedule {

using ir::Scalar;
using symbolic::Expr;

namespace {

constexpr int kMostStages = 4;
constexpr int kBytes = 16;  // of one access
constexpr int kTurned = 4;  // steps of the depth, and rows, of what a thread turns

struct Tile {
  int rows, columns, depth;           // of a block; steps of the reduction at a time
  int warp_rows, warp_columns;        // of a warp
  int64_t least_rows, least_columns;  // from which on it is worth it
  int warps() const { return rows / warp_rows * (columns / warp_columns); }
};
constexpr Tile kTiles[] = {
    {128, 128, 32, 64, 64, 96, 96},
    {64, 64, 64, 32, 32, 24, 16},
    {16, 128, 64, 16, 32, 5, 16},
};

class MatrixScheduler {
 public:
  MatrixScheduler(const loop::Kernel& kernel, const ir::Target& target, const NestForm& form,
                  const ContractionAxes& axes, const thread::MmaInstruction& instruction)
      : kernel_(kernel),
        target_(target),
        form_(form),
        axes_(axes),
        instruction_(instruction),
        left_(form.inner_loads[static_cast<size_t>(1 - axes.right)]),
        right_(form.inner_loads[static_cast<size_t>(axes.right)]),
        vector_(kBytes / static_cast<int>(ir::byte_size(left_->dtype))) {}

  std::vector<GpuVersion> run() const {
    std::vector<GpuVersion> versions;
    for (const Tile& tile : kTiles) {
      for (const bool aligned : {true, false}) {
        GpuVersion v;
        if (aligned && !align(v)) continue;
        if (tile.warp_rows % instruction_.m != 0 || tile.warp_columns % instruction_.n != 0) continue;
        v.schedule = steps(tile, aligned);
        v.block = tile.warps() * target_.warp;
        v.reasons = {
            fmt::format("{} x {} results a block, {} x {} a warp by {}, {} steps of the reduction at a time", tile.rows,
                        tile.columns, tile.warp_rows, tile.warp_columns, instruction_.name, tile.depth),
            aligned ? fmt::format("{} elements a copy", vector_) : "copies of one element: any extents"};
        const auto fills = [&](int axis, int64_t least) {
          const Expr extent = form_.outer[static_cast<size_t>(axis)].extent;
          return symbolic::less_equal(extent.table().constant(least), extent);
        };
        Expr fit = symbolic::logical_and(fills(axes_.rows, tile.least_rows), fills(axes_.columns, tile.least_columns));
        // Smaller tiles where the largest would leave most of the machine without a block.
        if (&tile == std::begin(kTiles))
          fit = symbolic::logical_and(fit, fills_machine(form_, axes_, tile.rows, tile.columns, target_));
        v.guard = v.guard ? symbolic::logical_and(v.guard, fit) : fit;
        if (v.guard.is_constant(0)) continue;
        const bool always = v.guard.is_constant(1);
        if (always) v.guard = {};
        versions.push_back(std::move(v));
        if (always) return versions;
        // Where it is always aligned there is no other.
        if (aligned && !versions.back().necessary) break;
      }
    }
    return versions;
  }

 private:
  std::string name(int axis) const { return loop::loop_name(form_.outer[static_cast<size_t>(axis)].var); }
  Expr var(int axis) const { return form_.outer[static_cast<size_t>(axis)].var; }
  bool along(Scalar load, Expr loop) const {
    const auto stride = stride_of(kernel_, load, loop);
    return stride && stride->is_constant(1);
  }
  bool along_depth(Scalar load) const { return along(load, form_.reductions.back().var); }
  /// Takes for granted what copies of whole vectors need. False: it cannot be.
  bool align(GpuVersion& v) const {
    const auto whole = [&](Scalar load, int axis) {
      if (!kernel_.buffers[load->slot].strides.empty()) return false;
      const bool deep = along_depth(load);
      if (!deep && !along(load, var(axis))) return false;
      const Expr extent = deep ? form_.reductions.back().extent : form_.outer[static_cast<size_t>(axis)].extent;
      if (!make_multiple(kernel_, extent, vector_, v)) return false;
      const std::vector<Expr>& extents = kernel_.buffers[load->slot].extents;
      return extents.size() < 2 || make_multiple(kernel_, extents.back(), vector_, v);
    };
    return whole(left_, axes_.rows) && whole(right_, axes_.columns);
  }

  // Splits an axis into tiles. Where copies are vectors along it, it is one of whole vectors.
  static void split(StepList& steps, const std::string& axis, int tile, int vector) {
    if (vector > 1) {
      steps.step(fmt::format("split {0} {1} -> {0}v {0}l exact", axis, vector));
      steps.step(fmt::format("split {0}v {1} -> {0}o {0}w clamped", axis, tile / vector));
      steps.step(fmt::format("fuse {0}w {0}l -> {0}i", axis));
    } else {
      steps.step(fmt::format("split {0} {1} -> {0}o {0}i clamped", axis, tile));
    }
  }

  // Whether a factor that lies across the depth is turned on its way to shared memory, where lanes read along the depth: what has no
  // instruction that turns it when it is read.
  bool is_turned(bool deep) const { return !deep && !target_.load_matrix; }
  // The copies of a factor that is turned: kTurned steps of the depth are one store. Eight neighbouring threads have neighbours along the
  // depth, or two do where elements are read one by one: so many that stores of half of a warp touch each bank once.
  static void copy_turned(StepList& steps, size_t slot, const std::string& near, bool is_vector) {
    steps.step(fmt::format("split {0}_1 {1} -> {0}_k {0}_d exact", near, kTurned));
    if (is_vector) {
      steps.step(fmt::format("split {0}_0 {1} -> {0}_n {0}_l exact", near, kTurned));
      steps.step(fmt::format("interchange {0}_l {0}_k", near));
      steps.step(fmt::format("fuse {0}_n {0}_k -> {0}_copy", near));
      steps.step(fmt::format("cache {0} at {1}_copy over {1}_d {1}_l -> {1}_turn", slot, near));
      steps.step(fmt::format("unroll {}_turn_0", near));
      steps.step(fmt::format("vectorize {}_turn_1 {}", near, kTurned));
      steps.step(fmt::format("unroll {}_l", near));
    } else {
      steps.step(fmt::format("split {0}_k 2 -> {0}_h {0}_p exact", near));
      steps.step(fmt::format("interchange {0}_0 {0}_h", near));
      steps.step(fmt::format("fuse {0}_0 {0}_p -> {0}_q", near));
      steps.step(fmt::format("fuse {0}_h {0}_q -> {0}_copy", near));
    }
    steps.step(fmt::format("thread {}_copy", near));
    steps.step(fmt::format("vectorize {}_d {}", near, kTurned));
  }
  // The copies of one factor: neighbouring threads copy neighbours.
  void copy(StepList& steps, const std::string& near, int row_elements, bool is_vector, bool is_tight) const {
    if (!is_vector) {
      // One by one, in a loop, where sums take most registers; else loads one by one, all under way together, and stores in words of two.
      if (is_tight) {
        steps.step(fmt::format("fuse {0}_0 {0}_1 -> {0}_copy", near));
        steps.step(fmt::format("thread {}_copy", near));
        return;
      }
      steps.step(fmt::format("split {0}_1 2 -> {0}_v {0}_l exact", near));
      steps.step(fmt::format("fuse {0}_0 {0}_v -> {0}_copy", near));
      steps.step(fmt::format("thread {}_copy", near));
      steps.step(fmt::format("vectorize {}_l 2", near));
      return;
    }
    const bool is_narrow = row_elements / vector_ == 4;
    steps.step(fmt::format("split {0}_1 {1} -> {0}_v {0}_l exact", near, vector_));
    // Eight lanes write two rows of four vectors: rows that are four apart lie in different banks.
    if (is_narrow) {
      steps.step(fmt::format("split {0}_0 4 -> {0}_r {0}_d exact", near));
      steps.step(fmt::format("interchange {0}_d {0}_v", near));
      steps.step(fmt::format("unroll {}_d", near));
    }
    steps.step(fmt::format("fuse {0}_{1} {0}_v -> {0}_copy", near, is_narrow ? "r" : "0"));
    steps.step(fmt::format("thread {}_copy", near));
    steps.step(fmt::format("vectorize {}_l {}", near, vector_));
  }

  std::string steps(const Tile& t, bool aligned) const {
    std::vector<std::string> order;
    for (const loop::For& f : form_.outer) order.push_back(loop::loop_name(f.var));
    StepList steps(order);
    const size_t count = order.size();
    const std::string row = name(axes_.rows), column = name(axes_.columns);
    // .., row, column -> .., row tiles, column tiles, rows, columns
    if (axes_.rows != static_cast<int>(count) - 2 || axes_.columns != static_cast<int>(count) - 1) {
      steps.move(row, count - 1);
      steps.move(column, count - 1);
    }
    const bool deep_left = along_depth(left_), deep_right = along_depth(right_);
    split(steps, row, t.rows, aligned && !deep_left ? vector_ : 1);
    split(steps, column, t.columns, aligned && !deep_right ? vector_ : 1);
    steps.step(fmt::format("interchange {}i {}o", row, column));
    std::vector<std::string> blocks = steps.order();
    blocks[count - 2] = row + "o";
    blocks[count - 1] = column + "o";
    StepList grid(blocks);
    const std::string fused = fuse_outer(grid, blocks.size());
    steps.step(grid.str());
    std::string k = loop::loop_name(form_.reductions[0].var);
    for (size_t r = 1; r < form_.reductions.size(); ++r) {
      const std::string next = "g" + std::to_string(r);
      steps.step("fuse " + k + " " + loop::loop_name(form_.reductions[r].var) + " -> " + next);
      k = next;
    }
    steps.step(fmt::format("split {} {} -> ko ki zeros", k, t.depth));
    steps.step(fmt::format("sink {}i", row));
    steps.step(fmt::format("sink {}i", column));
    // Shared memory, with one vector more a row.
    const auto cache = [&](Scalar load, const std::string& axis, bool deep, const char* near) {
      steps.step(fmt::format("cache {} at ko over {} {} pad {} -> {}", load->slot, deep ? axis + "i" : "ki",
                             deep ? "ki" : axis + "i", vector_, near));
    };
    const bool turn_left = is_turned(deep_left), turn_right = is_turned(deep_right);
    cache(left_, row, deep_left || turn_left, "left");
    cache(right_, column, deep_right || turn_right, "right");
    // Warps, and the instruction's steps.
    steps.step(fmt::format("split {}i {} -> wm mi exact", row, t.warp_rows));
    steps.step(fmt::format("split {}i {} -> wn ni exact", column, t.warp_columns));
    steps.step("interchange mi wn");
    steps.step("fuse wm wn -> warps");
    steps.step(fmt::format("split ki {} -> ks kk exact", instruction_.k));
    for (const char* each : {"kk warps", "ks warps", "kk mi", "kk ni"}) steps.step(fmt::format("interchange {}", each));
    const size_t shared = kernel_.buffers.size();
    steps.step(fmt::format("cache {} at ks over mi kk -> rows", shared));
    steps.step(fmt::format("cache {} at ks over kk ni -> columns", shared + 1));
    // What a lane has of the depth lies side by side: the loop over it is the inner one.
    if (!target_.load_matrix) steps.step("interchange columns_0 columns_1");
    for (const char* each : {"mi ni kk", "rows_0 - rows_1", "- columns_1 columns_0"})
      steps.step(fmt::format("matrix {}", each));
    steps.step("unroll ks");
    steps.step("warp warps");
    const bool is_tight = t.warp_rows * t.warp_columns / target_.warp > 64;
    const auto fill = [&](Scalar load, const char* near, bool is_turned, bool is_deep, int tile) {
      if (is_turned) {
        copy_turned(steps, load->slot, near, aligned);
      } else {
        copy(steps, near, is_deep ? t.depth : tile, aligned, is_tight);
      }
    };
    fill(left_, "left", turn_left, deep_left, t.rows);
    fill(right_, "right", turn_right, deep_right, t.columns);
    // Vectors go to shared memory by themselves, as many stages ahead as fit.
    if (aligned && target_.async_copy) {
      const int64_t rows =
          (deep_left ? int64_t{t.rows} * (t.depth + vector_) : int64_t{t.depth} * (t.rows + vector_)) +
          (deep_right ? int64_t{t.columns} * (t.depth + vector_) : int64_t{t.depth} * (t.columns + vector_));
      const int64_t bytes = rows * static_cast<int64_t>(ir::byte_size(left_->dtype));
      const int64_t stages = std::min<int64_t>(target_.static_shared / bytes, kMostStages);
      if (stages >= 2) steps.step(fmt::format("pipeline {} {} at ko {}", shared, shared + 1, stages));
    }
    steps.step("parallelize " + fused);
    return steps.str();
  }

  const loop::Kernel& kernel_;
  const ir::Target& target_;
  const NestForm& form_;
  const ContractionAxes axes_;
  const thread::MmaInstruction& instruction_;
  const Scalar left_, right_;
  const int vector_;  // elements of one copy
};

}  // namespace

std::vector<GpuVersion> matrix_contraction(const loop::Kernel& kernel, const ir::Target& target, const NestForm& form) {
  const auto axes = contraction_axes(form);
  if (!axes || form.inner_loads[0]->dtype != form.inner_loads[1]->dtype) return {};
  const int found = thread::best_mma(target, form.inner_loads[0]->dtype, ir::DType::kF32);
  if (found < 0) return {};
  return MatrixScheduler(kernel, target, form, *axes, thread::mma_instructions()[static_cast<size_t>(found)]).run();
}

}  // namespace stax::schedule
