// SPDX-License-Identifier: Apache-2.0
// Contractions of few rows: each element of the right factor is used once or a few times, so the time is that of reading it.
//
// Where its neighbours in memory are steps of the reduction, a block has four columns, and its threads have vectors of them, side by side; what they have
// summed is combined in the end. Where they are columns, a thread has a vector of neighbouring columns and goes along the reduction, some
// steps at once; that many of them are at work is for the parts of the reduction to see to (gpu_phases.cpp).
#include <fmt/format.h>

#include "loop/transform.h"
#include "schedule/gpu_steps.h"

namespace stax::schedule {

using symbolic::Expr;

namespace {

constexpr int kBytes = 16;         // of one access
constexpr int kRows = 4;           // that share what is read
constexpr int kColumns = 4;        // of a block that goes along the reduction
constexpr int kAlong = 128;        // threads of such a block
constexpr int kAcross = 64;        // threads of a block that goes across it
constexpr int kSteps = 8;          // of the reduction at once
constexpr int kLeastVectors = 64;  // of the reduction, from which on a block has work for its threads

class SkinnyScheduler {
 public:
  explicit SkinnyScheduler(Contraction c)
      : c_(c), has_rows_(c_.has_rows()), vector_(kBytes / static_cast<int>(ir::byte_size(c_.load(true)->dtype))) {}

  std::vector<GpuVersion> run() const {
    std::vector<GpuVersion> versions;
    for (const int rows : {1, kRows}) {
      if (rows > 1 && !has_rows_) break;
      GpuVersion v;
      if (!align_factor(c_, true, vector_, v)) return versions;
      const bool deep = c_.is_deep(true);
      // The left factor is read in vectors, too, where it is no more than that: as it lies.
      GpuVersion with = v;
      const bool left_vectors = left_is_deep() && aligned_left(with);
      if (left_vectors) v = std::move(with);
      if (deep && !left_vectors) return versions;
      v.schedule = deep ? along(rows) : across(rows, left_vectors);
      v.block = deep ? kAlong : kAcross;
      v.reasons = {deep ? fmt::format("{} x {} results a block, which goes along the reduction in vectors of {}", rows,
                                      kColumns, vector_)
                        : fmt::format("{} x {} results a thread, which goes along the reduction in {} steps at once",
                                      rows, vector_, kSteps)};
      if (!is_legal(c_.kernel, v)) continue;
      Expr fit = constant(1);
      if (has_rows_) fit = symbolic::less_equal(c_.axis(false).extent, constant(rows));
      if (deep)
        fit =
            symbolic::logical_and(fit, symbolic::less_equal(constant(int64_t{kLeastVectors} * vector_),
                                                            first_extent(c_.form.reductions[0].extent, c_.form.outer)));
      v.guard = v.guard ? symbolic::logical_and(v.guard, fit) : fit;
      if (v.guard.is_constant(0)) continue;
      if (v.guard.is_constant(1)) v.guard = {};
      versions.push_back(std::move(v));
      if (!versions.back().guard) break;
    }
    return versions;
  }

 private:
  Expr constant(int64_t v) const { return c_.kernel.context->exprs.constant(v); }
  bool left_is_deep() const { return c_.is_deep(false); }
  bool aligned_left(GpuVersion& v) const {
    const loop::Buffer& buffer = c_.kernel.buffers[static_cast<size_t>(c_.load(false)->slot)];
    if (!buffer.strides.empty() || c_.load(false)->dtype != c_.load(true)->dtype) return false;
    if (!make_multiple(c_.kernel, c_.form.reductions[0].extent, vector_, v)) return false;
    return buffer.extents.size() < 2 || make_multiple(c_.kernel, buffer.extents.back(), vector_, v);
  }

  /// The loops around, with rows and columns innermost, in that order.
  StepList begin() const {
    StepList steps(names_of_outer());
    const size_t count = steps.order().size();
    if (has_rows_) steps.move(loop::loop_name(c_.axis(false).var), count - 1);
    steps.move(loop::loop_name(c_.axis(true).var), count - 1);
    return steps;
  }
  std::vector<std::string> names_of_outer() const {
    std::vector<std::string> order;
    for (const loop::For& f : c_.form.outer) order.push_back(loop::loop_name(f.var));
    return order;
  }
  /// One loop over everything outside of a block's results.
  std::string grid(StepList& steps, const std::string& row, const std::string& column) const {
    std::vector<std::string> blocks = steps.order();
    if (has_rows_) blocks[blocks.size() - 2] = row + "o";
    blocks.back() = column + "o";
    StepList fused(blocks);
    const std::string all = fuse_outer(fused, blocks.size());
    steps.step(fused.str());
    return all;
  }

  std::string along(int rows) const {
    StepList steps = begin();
    const std::string row = has_rows_ ? loop::loop_name(c_.axis(false).var) : "",
                      column = loop::loop_name(c_.axis(true).var);
    const std::string k = loop::loop_name(c_.form.reductions[0].var);
    if (has_rows_) split_tile(steps, row, rows, 1);
    split_tile(steps, column, kColumns, 1);
    if (has_rows_) steps.step(fmt::format("interchange {}i {}o", row, column));
    const std::string all = grid(steps, row, column);
    if (has_rows_) steps.step(fmt::format("sink {}i", row));
    steps.step(fmt::format("sink {}i", column));
    steps.step(fmt::format("split {} {} -> kq kv exact", k, vector_));
    keep(steps, false, has_rows_ ? row + "i kv" : "kv", "left");
    keep(steps, true, column + "i kv", "right");
    steps.step("thread kq");
    if (has_rows_) steps.step(fmt::format("unroll {}i", row));
    for (const std::string& each : {column + "i", std::string("kv")}) steps.step("unroll " + each);
    steps.step("parallelize " + all);
    return steps.str();
  }

  std::string across(int rows, bool left_vectors) const {
    StepList steps = begin();
    const std::string row = has_rows_ ? loop::loop_name(c_.axis(false).var) : "",
                      column = loop::loop_name(c_.axis(true).var);
    const std::string k = loop::loop_name(c_.form.reductions[0].var);
    if (has_rows_) split_tile(steps, row, rows, 1);
    steps.step(fmt::format("split {0} {1} -> {0}v {0}l exact", column, vector_));
    steps.step(fmt::format("split {0}v {1} -> {0}o threads clamped", column, kAcross));
    if (has_rows_) {
      steps.step(fmt::format("interchange {}i {}o", row, column));
      steps.step(fmt::format("interchange {}i threads", row));
    }
    const std::string all = grid(steps, row, column);
    if (has_rows_) steps.step(fmt::format("sink {}i", row));
    steps.step(fmt::format("sink {}l", column));
    steps.step(fmt::format("split {} {} -> ko ki zeros", k, kSteps));
    if (left_vectors) {
      steps.step(fmt::format("split ki {} -> kq kv exact", std::min(vector_, kSteps)));
      keep(steps, false, has_rows_ ? row + "i kv" : "kv", "left", "kq");
      keep(steps, true, "kv " + column + "l", "right", "kq");
    } else {
      keep(steps, true, "ki " + column + "l", "right", "ko");
    }
    steps.step("thread threads");
    if (has_rows_) steps.step(fmt::format("unroll {}i", row));
    if (left_vectors) {
      for (const char* each : {"kq", "kv"}) steps.step(fmt::format("unroll {}", each));
    } else {
      steps.step("unroll ki");
    }
    steps.step(fmt::format("vectorize {}l {}", column, vector_));
    steps.step("parallelize " + all);
    return steps.str();
  }

  /// What a thread needs of a factor at a time, in vectors.
  void keep(StepList& steps, bool right, const std::string& over, const char* name, const char* at = "kq") const {
    steps.step(fmt::format("cache {} at {} over {} -> {}", c_.load(right)->slot, at, over, name));
    const bool is_flat = over.find(' ') == std::string::npos;
    if (!is_flat) steps.step(fmt::format("unroll {}_0", name));
    steps.step(fmt::format("vectorize {}_{} {}", name, is_flat ? 0 : 1, vector_));
  }

  const Contraction c_;
  const bool has_rows_;
  const int vector_;
};

}  // namespace

std::vector<GpuVersion> skinny_contraction(const loop::Kernel& kernel, const ir::Target& target, const NestForm& form) {
  if (form.reductions.size() != 1 || form.outer.empty() || form.inner_loads.size() != 2 || target.vector_bytes < kBytes)
    return {};
  const auto axes = product_axes(form);
  if (!axes) return {};
  return SkinnyScheduler({kernel, target, form, *axes}).run();
}

}  // namespace stax::schedule
