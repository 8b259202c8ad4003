// SPDX-License-Identifier: Apache-2.0
// Contractions by multiplications and additions of threads.
//
// A block has a tile of results, each thread a rectangle of sums in registers. Parts of both factors, some steps of the reduction deep, go
// through shared memory as they lie in global memory: along the reduction or across it. What a thread needs of them comes from there in vectors of
// four: four steps of each of its rows where the factor lies along the reduction, else four neighbouring rows of each step. Neighbouring
// threads have neighbouring rows, or groups of four, so that they read different banks. Rows and columns past the end are read from the last one
// and not stored; past the end of the reduction there are zeros.
//
// Copies are vectors where extents are multiples of them, else single elements.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "loop/transform.h"
#include "schedule/gpu_steps.h"

namespace stax::schedule {

using ir::Scalar;

namespace {

constexpr int kVector = 4;  // elements of an access
constexpr int kMostStages = 4;

struct Tile : ResultTile {
  int depth;                        // steps of the reduction at a time
  int thread_rows, thread_columns;  // of a thread
  int block() const { return rows / thread_rows * (columns / thread_columns); }
};
constexpr Tile kTiles[] = {
    {{128, 128, 96, 96, true}, 16, 8, 8},
    {{64, 64, 33, 33, true}, 16, 8, 4},
    {{32, 32, 5, 16, false}, 16, 2, 4},
};

/// One side of the product.
struct Factor {
  Scalar load;
  int axis;          // the outer loop along which it moves
  std::string loop;  // that loop's name
  const char* near;  // its part in shared memory
  int tile, mine;    // rows of a block, of a thread
  bool is_deep;      // neighbours in memory are steps of the reduction
  bool is_vector;    // it is copied in vectors
};

class TileScheduler {
 public:
  explicit TileScheduler(Contraction c) : c_(c) {}

  std::vector<GpuVersion> run() const {
    return tile_versions(
        c_, kVector, {std::begin(kTiles), std::end(kTiles)}, [&](size_t number, bool aligned, GpuVersion& v) {
          const Tile& tile = kTiles[number];
          v.schedule = steps(tile, aligned, "zeros");
          v.block = tile.block();
          v.reasons = {
              fmt::format("{} x {} results a block, {} x {} a thread, {} steps of the reduction through shared memory",
                          tile.rows, tile.columns, tile.thread_rows, tile.thread_columns, tile.depth)};
          // Factors that are more than loads cannot be made zero.
          if (!is_legal(c_.kernel, v)) v.schedule = steps(tile, aligned, "separate kt");
          return is_legal(c_.kernel, v);
        });
  }

 private:
  Factor factor(bool right, const Tile& t, bool aligned) const {
    return {c_.load(right),
            right ? c_.axes.columns : c_.axes.rows,
            loop::loop_name(c_.axis(right).var),
            right ? "right" : "left",
            right ? t.columns : t.rows,
            right ? t.thread_columns : t.thread_rows,
            c_.is_deep(right),
            aligned};
  }
  // A thread's rows of the tile: `prefix`q groups, as far apart as there are threads, and `prefix`v neighbours.
  static void divide(StepList& steps, const Factor& f, char prefix) {
    const int neighbours = f.is_deep || f.mine < kVector ? 1 : kVector, threads = f.tile / f.mine;
    steps.step(fmt::format("split {0}i {1} -> {2}q {2}r exact", f.loop, threads * neighbours, prefix));
    steps.step(fmt::format("split {0}r {1} -> {0}t {0}v exact", prefix, neighbours));
    steps.step(fmt::format("interchange {0}q {0}t", prefix));
  }
  // Neighbouring threads copy neighbours in memory.
  void copy(StepList& steps, const Factor& f) const {
    // Rows in shared memory are a vector longer than a multiple of the banks, or than half of that: rows that are four apart do not meet.
    const bool rows_apart = f.is_deep;
    if (rows_apart) steps.step(fmt::format("split {0}_0 4 -> {0}_r {0}_d exact", f.near));
    if (f.is_vector) steps.step(fmt::format("split {0}_1 {1} -> {0}_w {0}_l exact", f.near, kVector));
    const char* const along = f.is_vector ? "w" : "1";
    if (rows_apart) steps.step(fmt::format("interchange {0}_d {0}_{1}", f.near, along));
    steps.step(fmt::format("fuse {0}_{1} {0}_{2} -> {0}_copy", f.near, rows_apart ? "r" : "0", along));
    if (rows_apart) steps.step(fmt::format("unroll {}_d", f.near));
    steps.step(fmt::format("thread {}_copy", f.near));
    if (f.is_vector) steps.step(fmt::format("vectorize {}_l {}", f.near, kVector));
  }
  // What a thread needs of a factor, in vectors from shared memory.
  static void keep(StepList& steps, const Factor& f, size_t slot, char prefix) {
    const std::string mine = fmt::format("{}_mine", f.near);
    if (f.is_deep) {
      steps.step(fmt::format("cache {} at kq over {}q kv -> {}", slot, prefix, mine));
    } else {
      steps.step(fmt::format("cache {0} at kv over {1}q {1}v -> {2}", slot, prefix, mine));
    }
    steps.step(fmt::format("unroll {}_0", mine));
    if (f.is_deep || f.mine >= kVector) steps.step(fmt::format("vectorize {}_1 {}", mine, kVector));
  }

  std::string steps(const Tile& t, bool aligned, const std::string& rest) const {
    const NestForm& form = c_.form;
    const ir::Target& target = c_.target;
    std::vector<std::string> order;
    for (const loop::For& f : form.outer) order.push_back(loop::loop_name(f.var));
    StepList steps(order);
    const size_t count = order.size();
    const Factor left = factor(false, t, aligned), right = factor(true, t, aligned);
    // .., row, column -> .., row tiles, column tiles, rows, columns
    if (left.axis != static_cast<int>(count) - 2 || right.axis != static_cast<int>(count) - 1) {
      steps.move(left.loop, count - 1);
      steps.move(right.loop, count - 1);
    }
    for (const Factor& f : {left, right}) split_tile(steps, f.loop, f.tile, f.is_vector && !f.is_deep ? kVector : 1);
    steps.step(fmt::format("interchange {}i {}o", left.loop, right.loop));
    std::vector<std::string> blocks = steps.order();
    blocks[count - 2] = left.loop + "o";
    blocks[count - 1] = right.loop + "o";
    StepList grid(blocks);
    const std::string fused = fuse_outer(grid, blocks.size());
    steps.step(grid.str());
    const std::string k = fuse_reductions(steps, form);
    steps.step(fmt::format("split {} {} -> ko ki {}", k, t.depth, rest));
    steps.step(fmt::format("sink {}i", left.loop));
    steps.step(fmt::format("sink {}i", right.loop));
    for (const Factor& f : {left, right})
      steps.step(fmt::format("cache {} at ko over {} {} pad {} -> {}", f.load->slot, f.is_deep ? f.loop + "i" : "ki",
                             f.is_deep ? "ki" : f.loop + "i", kVector, f.near));
    // .., ki, rows, columns -> .., threads, kq, kv, a thread's rows, its columns
    divide(steps, left, 'm');
    divide(steps, right, 'n');
    for (const char* each : {"mv nt", "mq nt"}) steps.step(fmt::format("interchange {}", each));
    steps.step("fuse mt nt -> threads");
    steps.step(fmt::format("split ki {} -> kq kv exact", kVector));
    steps.step("interchange kv threads");
    steps.step("interchange kq threads");
    const size_t shared = c_.kernel.buffers.size();
    keep(steps, left, shared, 'm');
    keep(steps, right, shared + 1, 'n');
    copy(steps, left);
    copy(steps, right);
    steps.step("thread threads");
    for (const char* each : {"mq", "mv", "nq", "kv"}) steps.step(fmt::format("unroll {}", each));
    // Reads of the next steps may start ahead; without copies in the background there are no registers left for them.
    if (target.async_copy) steps.step("unroll kq");
    // Neighbouring results are stored in vectors where rows of them are whole vectors.
    steps.step(!right.is_deep && right.mine >= kVector && aligned ? fmt::format("vectorize nv {}", kVector)
                                                                  : "unroll nv");
    if (target.async_copy) {
      const auto elements = [&](const Factor& f) {
        return int64_t{f.is_deep ? f.tile : t.depth} * ((f.is_deep ? t.depth : f.tile) + kVector);
      };
      const int64_t bytes = (elements(left) + elements(right)) * static_cast<int64_t>(ir::byte_size(left.load->dtype));
      const int64_t stages = std::min<int64_t>(target.static_shared / bytes, kMostStages);
      if (stages >= 2 && rest == "zeros")
        steps.step(fmt::format("pipeline {} {} at ko {}", shared, shared + 1, stages));
    }
    steps.step("parallelize " + fused);
    return steps.str();
  }

  const Contraction c_;
};

}  // namespace

std::vector<GpuVersion> tiled_contraction(const loop::Kernel& kernel, const ir::Target& target, const NestForm& form) {
  const auto axes = contraction_axes(form);
  if (!axes) return {};
  return TileScheduler({kernel, target, form, *axes}).run();
}

}  // namespace stax::schedule
