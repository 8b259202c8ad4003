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

namespace {

constexpr int kMostStages = 4;
constexpr int kBytes = 16;    // of one access
constexpr int kTogether = 8;  // copies of a thread under way together where registers are short
constexpr int kTurned = 4;    // steps of the depth, and rows, of what a thread turns

struct Tile : ResultTile {
  int depth;                    // steps of the reduction at a time
  int warp_rows, warp_columns;  // of a warp
  int warps() const { return rows / warp_rows * (columns / warp_columns); }
};
constexpr Tile kTiles[] = {
    {{128, 128, 96, 96, true}, 32, 64, 64},
    {{64, 64, 24, 16, false}, 64, 32, 32},
    {{16, 128, 5, 16, false}, 64, 16, 32},
};

class MatrixScheduler {
 public:
  MatrixScheduler(const Contraction& c, const thread::MmaInstruction& instruction)
      : c_(c),
        instruction_(instruction),
        left_(c.load(false)),
        right_(c.load(true)),
        vector_(kBytes / static_cast<int>(ir::byte_size(left_->dtype))) {}

  std::vector<GpuVersion> run() const {
    return tile_versions(
        c_, vector_, {std::begin(kTiles), std::end(kTiles)}, [&](size_t number, bool aligned, GpuVersion& v) {
          const Tile tile = that_fits(kTiles[number]);
          if (tile.warp_rows % instruction_.m != 0 || tile.warp_columns % instruction_.n != 0) return false;
          v.schedule = steps(tile, aligned);
          v.block = tile.warps() * c_.target.warp;
          v.reasons = {fmt::format("{} x {} results a block, {} x {} a warp by {}, {} steps of the reduction at a time",
                                   tile.rows, tile.columns, tile.warp_rows, tile.warp_columns, instruction_.name,
                                   tile.depth)};
          return true;
        });
  }

 private:
  // A lane keeps its sums, and of both factors what one step of the instruction takes. Where that leaves too few registers for the copies that are under way
  // and for addresses, as on machines whose lanes have each factor twice, more warps share the tile.
  Tile that_fits(Tile t) const {
    const auto words = [](const thread::FragmentMap& map, ir::DType dtype) {
      return map.items * static_cast<int>(ir::byte_size(dtype)) / 4;
    };
    const auto registers = [&] {
      const int rows = t.warp_rows / instruction_.m, columns = t.warp_columns / instruction_.n;
      return rows * columns * words(instruction_.c, instruction_.sum) +
             rows * words(instruction_.a, instruction_.factor) + columns * words(instruction_.b, instruction_.factor);
    };
    while (3 * registers() > 2 * c_.target.max_registers && t.warp_columns / 2 >= instruction_.n) t.warp_columns /= 2;
    return t;
  }

  // Whether a factor that lies across the depth is turned on its way to shared memory, where lanes read along the depth: what has no
  // instruction that turns it when it is read.
  bool is_turned(bool deep) const { return !deep && !c_.target.load_matrix; }
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
  void copy(StepList& steps, const std::string& near, int tile_rows, int row_elements, bool is_vector, bool is_tight,
            int block) const {
    if (!is_vector) {
      // Several at a time, in a loop, where sums take most registers; else loads one by one, all under way together, and stores in words of two.
      if (is_tight) {
        steps.step(fmt::format("fuse {0}_0 {0}_1 -> {0}_copy", near));
        steps.step(fmt::format("split {0}_copy {1} -> {0}_g {0}_s exact", near, block * kTogether));
        steps.step(fmt::format("split {0}_s {1} -> {0}_e {0}_t exact", near, block));
        steps.step(fmt::format("interchange {0}_e {0}_t", near));
        steps.step(fmt::format("interchange {0}_g {0}_t", near));
        steps.step(fmt::format("thread {}_t", near));
        steps.step(fmt::format("unroll {}_e", near));
        return;
      }
      steps.step(fmt::format("split {0}_1 2 -> {0}_v {0}_l exact", near));
      steps.step(fmt::format("fuse {0}_0 {0}_v -> {0}_copy", near));
      steps.step(fmt::format("thread {}_copy", near));
      steps.step(fmt::format("vectorize {}_l 2", near));
      return;
    }
    steps.step(fmt::format("split {0}_1 {1} -> {0}_v {0}_l exact", near, vector_));
    // Eight lanes write two rows of four vectors: rows that are four apart lie in different banks. A thread has the rows between, or where there are
    // more threads so many of them that each has some.
    std::string rows = near + "_0";
    if (row_elements / vector_ == 4) {
      const int own = std::clamp(4 * tile_rows / block, 1, 4);
      steps.step(fmt::format("split {0}_0 4 -> {0}_r {0}_d exact", near));
      rows = near + "_r";
      std::string between = near + "_d";
      if (own < 4) {
        steps.step(fmt::format("split {0}_d {1} -> {0}_e {0}_s exact", near, own));
        steps.step(fmt::format("interchange {0}_r {0}_e", near));
        steps.step(fmt::format("fuse {0}_e {0}_r -> {0}_f", near));
        rows = near + "_f", between = near + "_s";
      }
      steps.step(fmt::format("interchange {} {}_v", between, near));
      steps.step("unroll " + between);
    }
    steps.step(fmt::format("fuse {} {}_v -> {}_copy", rows, near, near));
    steps.step(fmt::format("thread {}_copy", near));
    steps.step(fmt::format("vectorize {}_l {}", near, vector_));
  }

  std::string steps(const Tile& t, bool aligned) const {
    const NestForm& form = c_.form;
    const ir::Target& target = c_.target;
    std::vector<std::string> order;
    for (const loop::For& f : form.outer) order.push_back(loop::loop_name(f.var));
    StepList steps(order);
    const size_t count = order.size();
    const std::string row = loop::loop_name(c_.axis(false).var), column = loop::loop_name(c_.axis(true).var);
    // .., row, column -> .., row tiles, column tiles, rows, columns
    if (c_.axes.rows != static_cast<int>(count) - 2 || c_.axes.columns != static_cast<int>(count) - 1) {
      steps.move(row, count - 1);
      steps.move(column, count - 1);
    }
    const bool deep_left = c_.is_deep(false), deep_right = c_.is_deep(true);
    split_tile(steps, row, t.rows, aligned && !deep_left ? vector_ : 1);
    split_tile(steps, column, t.columns, aligned && !deep_right ? vector_ : 1);
    steps.step(fmt::format("interchange {}i {}o", row, column));
    std::vector<std::string> blocks = steps.order();
    blocks[count - 2] = row + "o";
    blocks[count - 1] = column + "o";
    StepList grid(blocks);
    const std::string fused = fuse_outer(grid, blocks.size());
    steps.step(grid.str());
    const std::string k = fuse_reductions(steps, form);
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
    const size_t shared = c_.kernel.buffers.size();
    steps.step(fmt::format("cache {} at ks over mi kk -> rows", shared));
    steps.step(fmt::format("cache {} at ks over kk ni -> columns", shared + 1));
    // What a lane has of the depth lies side by side: the loop over it is the inner one.
    if (!target.load_matrix) steps.step("interchange columns_0 columns_1");
    for (const char* each : {"mi ni kk", "rows_0 - rows_1", "- columns_1 columns_0"})
      steps.step(fmt::format("matrix {}", each));
    steps.step("unroll ks");
    steps.step("warp warps");
    const bool is_tight = t.warp_rows * t.warp_columns / target.warp > 64;
    const auto fill = [&](Scalar load, const char* near, bool is_turned, bool is_deep, int tile) {
      if (is_turned) {
        copy_turned(steps, load->slot, near, aligned);
      } else {
        copy(steps, near, is_deep ? tile : t.depth, is_deep ? t.depth : tile, aligned, is_tight,
             t.warps() * target.warp);
      }
    };
    fill(left_, "left", turn_left, deep_left, t.rows);
    fill(right_, "right", turn_right, deep_right, t.columns);
    // Vectors go to shared memory by themselves, as many stages ahead as fit.
    if (aligned && target.async_copy) {
      const int64_t rows =
          (deep_left ? int64_t{t.rows} * (t.depth + vector_) : int64_t{t.depth} * (t.rows + vector_)) +
          (deep_right ? int64_t{t.columns} * (t.depth + vector_) : int64_t{t.depth} * (t.columns + vector_));
      const int64_t bytes = rows * static_cast<int64_t>(ir::byte_size(left_->dtype));
      const int64_t stages = std::min<int64_t>(target.static_shared / bytes, kMostStages);
      if (stages >= 2) steps.step(fmt::format("pipeline {} {} at ko {}", shared, shared + 1, stages));
    }
    steps.step("parallelize " + fused);
    return steps.str();
  }

  const Contraction c_;
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
  return MatrixScheduler({kernel, target, form, *axes}, thread::mma_instructions()[static_cast<size_t>(found)]).run();
}

}  // namespace stax::schedule
