// SPDX-License-Identifier: Apache-2.0
#include "schedule/gpu_phases.h"

#include <fmt/format.h>

#include <algorithm>

#include "loop/phases.h"
#include "loop/transform.h"
#include "schedule/gpu_steps.h"

namespace stax::schedule {

using symbolic::Expr;

namespace {

// Blocks of one launch that keep all multiprocessors busy, for each of them: of 256 threads that read, of 128 that read two vectors at once, of one or two
// warps, of tiles.
constexpr int64_t kReaders = 4, kVectorReaders = 2, kSmallReaders = 8, kTiles = 1;
constexpr int64_t kThreads = 128;  // of a block of threads that reduce for themselves
constexpr int kVector = 4;         // elements of one access
// A sum of products from which on a second launch is worth it.
constexpr int64_t kLongSum = 1024;

class PhaseChooser {
 public:
  PhaseChooser(const loop::Kernel& kernel, const ir::Target& target)
      : kernel_(kernel), target_(target), form_(analyze(kernel)) {}

  std::optional<GpuPhases> run() const {
    if (kernel_.kernel_class == "scan") return scan();
    if (!form_.matches || form_.has_if || form_.accumulators != 1 || form_.reductions.empty()) return std::nullopt;
    if (kernel_.kernel_class == "contraction")
      if (const auto axes = product_axes(form_)) return contraction(*axes);
    return kernel_.kernel_class == "contraction" || kernel_.kernel_class == "reduction" ? reduction() : std::nullopt;
  }

 private:
  Expr constant(int64_t v) const { return kernel_.context->exprs.constant(v); }
  static Expr count_of(const std::vector<loop::For>& loops, Expr count) {
    for (const loop::For& f : loops) count = count * f.extent;
    return count;
  }

  /// As many parts as `blocks` a multiprocessor leave room for beside `results` (blocks that there are without parts), of `least` elements or more,
  /// and not more than `most`.
  Expr parts(Expr results, int64_t blocks, Expr elements, int64_t least, int64_t most) const {
    const Expr room = symbolic::floordiv(constant(blocks * target_.units), symbolic::max(results, constant(1)));
    return symbolic::min(symbolic::min(room, symbolic::floordiv(elements, least)), constant(most));
  }

  std::optional<GpuPhases> reduction() const {
    StepList steps({});
    const std::string r = fuse_reductions(steps, form_);
    const Expr count = count_of(form_.reductions, constant(1)), results = count_of(form_.outer, constant(1));
    const auto step = [&](const char* axis) {
      return steps.str() + fmt::format("phase_reduction {} {{}} {} -> parts", r, axis);
    };
    // A block reads some thousand elements in the time of a launch; a thread that goes over a column of its own, some dozens.
    if (const auto [along_reduction, along_row] = reduction_neighbours(kernel_, form_); along_reduction && !along_row) {
      const Expr wanted = parts(results, kReaders, count, 8192, kReaders * target_.units);
      return phases(step("last"), count, wanted, symbolic::less_equal(constant(4), wanted), 1024);
    }
    const Expr wanted = parts(symbolic::ceildiv(results, kThreads), kReaders, count, 64, 64);
    const Expr has_few = symbolic::less_equal(constant(4), wanted);
    if (!has_loose_rows()) return phases(step("first"), count, wanted, has_few, 8);
    // A thread has two vectors of results, each of one of the turns. Turns are parts, too: one part is enough where columns are many.
    const Expr steps_each = symbolic::floordiv(count, kVector);
    const Expr vectors = symbolic::ceildiv(results * kVector, kThreads * 2 * kVector);
    const Expr is_loose = symbolic::less(constant(0), symbolic::mod(form_.outer.back().extent, kVector));
    return phases(
        step("first") + fmt::format(" every {} turn", kVector), steps_each,
        parts(vectors, kVectorReaders, steps_each, 64, 64),
        symbolic::logical_and(symbolic::less_equal(constant(64), steps_each), symbolic::logical_or(is_loose, has_few)),
        8, true);
  }

  /// A reduction over the rows of one matrix, whose length is no multiple of a vector as far as is known: of kVector rows together it is.
  bool has_loose_rows() const {
    if (form_.outer.empty() || form_.reductions.size() != 1 || form_.inner_loads.size() != 1) return false;
    const ir::Scalar load = form_.inner_loads[0];
    const loop::For& row = form_.outer.back();
    const auto pitch = stride_of(kernel_, load, form_.reductions[0].var);
    return target_.vector_bytes >= 8 && row.extent.multiple() % kVector != 0 && is_contiguous(kernel_, load, row) &&
           pitch && *pitch == row.extent;
  }

  std::optional<GpuPhases> contraction(const ContractionAxes& axes) const {
    const Contraction c{kernel_, target_, form_, axes};
    const Expr sum = count_of(form_.reductions, constant(1));
    const auto blocks = [&](int64_t rows, int64_t columns) {
      Expr count = constant(1);
      for (size_t k = 0; k < form_.outer.size(); ++k) {
        const int axis = static_cast<int>(k);
        const int64_t side = axis == axes.rows ? rows : axis == axes.columns ? columns : 1;
        count = count * symbolic::ceildiv(form_.outer[k].extent, side);
      }
      return count;
    };
    // By tiles; of few rows, by what they are then (gpu_skinny.cpp).
    const Expr tiles = parts(blocks(64, 128), kTiles, sum, 256, 32);
    const Expr few = c.is_deep(true) ? parts(blocks(4, 4), kSmallReaders, sum, 1024, 32)
                                     : parts(blocks(4, 256), kSmallReaders, sum, 64, 64);
    const Expr is_few = c.has_rows() ? symbolic::less_equal(c.axis(false).extent, constant(4)) : constant(1);
    const Expr wanted = symbolic::select(is_few, few, tiles);
    const Expr is_long = symbolic::less_equal(symbolic::select(is_few, constant(256), constant(kLongSum)), sum);
    return phases(fmt::format("phase_reduction {} {{}} first -> parts", loop::loop_name(form_.reductions[0].var)),
                  form_.reductions[0].extent, wanted,
                  symbolic::logical_and(is_long, symbolic::less_equal(constant(2), wanted)),
                  form_.reductions.size() == 1 ? 64 : 8);
  }

  /// One row, or few, of which each part is scanned by a block.
  std::optional<GpuPhases> scan() const {
    loop::Stmt at = kernel_.body;
    Expr rows = constant(1);
    for (; const auto* f = at->as<loop::For>(); at = f->body) rows = rows * f->extent;
    while (const auto* a = at->as<loop::Allocate>()) at = a->body;
    const auto* block = at->as<loop::Block>();
    const auto* s = block == nullptr || block->statements.empty() ? nullptr : block->statements.back()->as<loop::For>();
    if (s == nullptr) return std::nullopt;
    const Expr wanted = parts(rows, kReaders, s->extent, 4096, 1024);
    auto chosen = phases(fmt::format("phase_scan {} {{}} -> parts", loop::loop_name(s->var)), s->extent, wanted,
                         symbolic::less_equal(constant(4), wanted), 1024);
    if (chosen) chosen->classes = {"reduction", "scan", "scan"};
    return chosen;
  }

  /// `count` iterations of a loop are cut into about as many parts as wanted, whose lengths are multiples of `multiple`, where the condition holds.
  /// `step` cuts it, with the new parameter in place of {}.
  std::optional<GpuPhases> phases(const std::string& step, Expr count, Expr wanted, Expr condition, int64_t multiple,
                                  bool may_be_one = false) const {
    GpuPhases chosen;
    chosen.classes = {kernel_.kernel_class, "reduction"};
    const Expr length = symbolic::ceildiv(count, symbolic::max(wanted, constant(1)));
    chosen.part = symbolic::max(symbolic::ceildiv(length, multiple) * multiple, constant(multiple));
    // Rounded up, one part may be all.
    chosen.condition = may_be_one ? condition : symbolic::logical_and(condition, symbolic::less(chosen.part, count));
    if (chosen.condition.is_constant(0)) return std::nullopt;
    symbolic::SymbolInfo info;
    info.range = {multiple, symbolic::kMaxExtent};
    info.multiple = multiple;
    chosen.kernel = loop::add_param(kernel_, std::move(info));
    try {
      chosen.kernel = loop::apply_schedule(chosen.kernel,
                                           fmt::format(fmt::runtime(step), chosen.kernel.params.back().symbol().name));
    } catch (const loop::IllegalTransform&) {
      return std::nullopt;
    }
    return chosen;
  }

  const loop::Kernel& kernel_;
  const ir::Target& target_;
  NestForm form_;
};

}  // namespace

std::optional<GpuPhases> choose_gpu_phases(const loop::Kernel& kernel, const ir::Target& target) {
  return PhaseChooser(kernel, target).run();
}

}  // namespace stax::schedule
