// SPDX-License-Identifier: Apache-2.0
#include "compile/kernel_stages.h"

#include <map>

#include "compile/pass.h"
#include "loop/passes.h"
#include "loop/phases.h"
#include "loop/transform.h"
#include "lower/loop_to_thread.h"
#include "schedule/gpu_phases.h"
#include "support/error.h"

namespace stax::compile {

bool is_kernel(const tensor::Op& op) {
  return op.kind() == tensor::OpKind::kCompute || op.kind() == tensor::OpKind::kScatter ||
         op.kind() == tensor::OpKind::kPrefixScan || op.kind() == tensor::OpKind::kRowGroup;
}

lower::LoweredKernel lower_op(const tensor::Op& op, lower::Axes axes) {
  if (op.kind() == tensor::OpKind::kCompute) return lower::lower_compute(op, axes);
  if (op.kind() == tensor::OpKind::kScatter) return lower::lower_scatter(op);
  if (op.kind() == tensor::OpKind::kPrefixScan) return lower::lower_prefix_scan(op);
  if (op.kind() == tensor::OpKind::kRowGroup) return lower::lower_row_group(op, axes);
  internal_error("{} becomes no kernel", tensor::name_of(op.kind()));
}

namespace {

// Every index, also one a tile past the end, fits into 31 bits.
symbolic::Expr has_small_buffers(const loop::Kernel& kernel) {
  constexpr int64_t kMostElements = int64_t{1} << 30;
  symbolic::ExprTable& table = kernel.context->exprs;
  symbolic::Expr small = table.constant(1);
  for (int k = 0; k < kernel.arguments; ++k) {
    symbolic::Expr count = table.constant(1);
    for (symbolic::Expr e : kernel.buffers[static_cast<size_t>(k)].extents) count = count * e;
    small = symbolic::logical_and(small, symbolic::less_equal(count, table.constant(kMostElements)));
  }
  return small;
}

}  // namespace

symbolic::Expr to_graph(symbolic::Expr e, symbolic::ExprTable& table, const ParamValues& params) {
  if (e.is_constant()) return table.constant(e.constant());
  if (e.is_symbol()) {
    const auto it = params.find(e.node());
    STAX_ASSERT(it != params.end(), "kernel expression {} uses {}, which is no parameter", e.str(), e.symbol().name);
    return it->second;
  }
  std::vector<symbolic::Expr> args;
  for (symbolic::Expr a : e.args()) args.push_back(to_graph(a, table, params));
  return table.make(e.kind(), std::move(args));
}

std::optional<OpPhases> op_phases(const tensor::Op& op, const lower::LoweredKernel& whole, const ir::Target& target) {
  if (!target.is_gpu || is_disabled("phases") ||
      (op.kind() != tensor::OpKind::kCompute && op.kind() != tensor::OpKind::kPrefixScan))
    return std::nullopt;
  const auto chosen = schedule::choose_gpu_phases(whole.kernel, target);
  if (!chosen) return std::nullopt;
  symbolic::ExprTable& table = op.block->graph->exprs();
  ParamValues params;
  for (size_t k = 0; k < whole.param_values.size(); ++k) params[whole.kernel.params[k].node()] = whole.param_values[k];
  OpPhases result;
  result.condition = to_graph(chosen->condition, table, params);
  if (result.condition.is_constant(0)) return std::nullopt;
  std::vector<symbolic::Expr> values = whole.param_values;
  values.push_back(to_graph(chosen->part, table, params));
  params[chosen->kernel.params.back().node()] = values.back();
  const bool is_scan = op.kind() == tensor::OpKind::kPrefixScan;
  std::map<int, int> partials;  // by slot
  for (const loop::Phase& phase : loop::phases_of(chosen->kernel)) {
    lower::LoweredKernel k;
    k.kernel = phase.kernel;
    k.kernel.kernel_class = chosen->classes.at(result.kernels.size());
    k.param_values = values;
    symbolic::Expr written = result.condition, read = table.constant(0);
    for (size_t n = 0; n < phase.arguments.size(); ++n) {
      const int slot = phase.arguments[n];
      const loop::Buffer& buffer = chosen->kernel.buffers[static_cast<size_t>(slot)];
      symbolic::Expr count = table.constant(1);
      std::vector<symbolic::Expr> extents;
      for (symbolic::Expr e : buffer.extents) {
        extents.push_back(to_graph(e, table, params));
        count = count * extents.back();
      }
      if (slot < whole.kernel.arguments) {
        k.arguments.push_back(whole.arguments[static_cast<size_t>(slot)]);
      } else {
        const auto [found, is_new] = partials.try_emplace(slot, static_cast<int>(partials.size()));
        k.arguments.push_back(~(1 + found->second));
        if (is_new) {
          if (extents.empty()) extents.push_back(table.constant(1));
          extents[0] = extents[0] * result.condition;
          result.partials.push_back({buffer.dtype, std::move(extents)});
        }
      }
      if (phase.kernel.buffers[n].written) {
        written = written * count;
      } else if (is_scan || slot >= whole.kernel.arguments) {
        read = read + count;  // of what a reduction is over, its second phase has the rest at most
      }
    }
    const bool is_first = result.kernels.empty();
    k.written = written;
    k.work = is_first ? whole.work : read * 2;
    k.operations = is_first ? whole.operations : read;
    result.kernels.push_back(std::move(k));
  }
  return result;
}

lower::LoweredKernel lower_step(const tensor::Op& op, uint32_t phase, const ir::Target& target) {
  lower::LoweredKernel whole = lower_op(op);
  std::optional<OpPhases> phases = op_phases(op, whole, target);
  if (phase > 0) {
    STAX_ASSERT(phases && phase <= phases->kernels.size(), "{} has no phase {}", op.source, phase);
    return std::move(phases->kernels[phase - 1]);
  }
  if (phases) whole.written = whole.written * (1 - phases->condition);
  return whole;
}

namespace {

/// Whether what a block always keeps in shared memory is not more than a kernel may have.
bool has_room(const loop::Kernel& naive, const schedule::GpuVersion& v, const ir::Target& target) {
  const loop::Kernel scheduled = loop::apply_schedule(schedule::with_known(naive, v.known), v.schedule);
  int64_t local = 0;
  for (size_t k = static_cast<size_t>(naive.arguments); k < scheduled.buffers.size(); ++k) {
    int64_t bytes = static_cast<int64_t>(ir::byte_size(scheduled.buffers[k].dtype));
    for (symbolic::Expr e : scheduled.buffers[k].extents) bytes *= e.is_constant() ? e.constant() : 0;
    local += bytes;
  }
  if (local <= target.static_shared) return true;
  const thread::Kernel threads =
      lower::lower_to_thread(loop::simplify(scheduled), target, v.block, 64, v.rows_in_global);
  return thread::static_shared_bytes(threads) <= target.static_shared;
}

}  // namespace

std::vector<GpuKernelVersion> gpu_kernel_versions(const loop::Kernel& naive, const ir::Target& target) {
  std::vector<schedule::GpuVersion> versions = schedule::choose_gpu_versions(naive, target);
  const auto last = versions.end() - 1;
  versions.erase(std::remove_if(versions.begin(), last, [&](const auto& v) { return !has_room(naive, v, target); }),
                 last);
  std::vector<GpuKernelVersion> choices;
  // (Rows that are too long for shared memory have a version of their own, the last one.)
  // Where indices of 32 bits are cheaper, all versions have them, behind a guard; one with 64 bits serves what is larger.
  if (target.narrow_indices) {
    const symbolic::Expr small = has_small_buffers(naive);
    const auto behind = [&](symbolic::Expr e) { return e ? symbolic::logical_and(small, e) : small; };
    for (const auto& v : versions) choices.push_back({v, behind(v.guard), behind(v.necessary), 32});
    choices.push_back({versions.back(), {}, {}, 64});
  } else {
    for (const auto& v : versions) choices.push_back({v, v.guard, v.necessary, 64});
  }
  return choices;
}

bool may_flush_denormals(const loop::Kernel& kernel) {
  return kernel.kernel_class == "contraction" || kernel.kernel_class == "attention";
}

std::span<const LoopPass> loop_passes() {
  static constexpr LoopPass kPasses[] = {
      // Schedules leave indices and conditions as their steps made them.
      {"simplify", loop::simplify},
      // What does not depend on a loop is decided before it.
      {"hoist_loop_invariants", loop::hoist_loop_invariants},
  };
  return kPasses;
}

loop::Kernel run_loop_passes(loop::Kernel kernel) {
  for (const LoopPass& p : loop_passes())
    if (!is_disabled(p.name)) kernel = p.pass(kernel);
  loop::verify(kernel);
  return kernel;
}

}  // namespace stax::compile
