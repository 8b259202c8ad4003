// SPDX-License-Identifier: Apache-2.0
#include "schedule/gpu_ordered.h"

#include <fmt/format.h>

#include <algorithm>

#include "loop/access.h"
#include "loop/transform.h"
#include "schedule/gpu_steps.h"

namespace stax::schedule {

using symbolic::Expr;

namespace {

// Lanes that scan a row together, and the neighbours that each of them has.
constexpr int kScanLanes = 256, kScanEach = 4;
// A row from which on a block scans it.
constexpr int64_t kLongScan = 128;
// Rows from which on a thread a row fills the machine, where neighbouring rows are neighbours in memory.
constexpr int64_t kManyRows = 4096;
constexpr int kThreads = 128;

std::string name(const loop::For& f) { return loop::loop_name(f.var); }

/// Loops around everything, outermost first; `at` is what they enclose.
std::vector<loop::For> nest_of(const loop::Kernel& kernel, loop::Stmt& at) {
  std::vector<loop::For> loops;
  at = kernel.body;
  while (const auto* f = at->as<loop::For>()) {
    loops.push_back(*f);
    at = f->body;
  }
  return loops;
}

/// A thread for each iteration of the first `count` loops.
GpuVersion a_thread_each(StepList steps, size_t count, const std::string& reason) {
  const std::string all = fuse_outer(steps, count);
  steps.step(fmt::format("split {} {} -> blocks threads guard", all, kThreads));
  steps.step("parallelize blocks");
  steps.step("thread threads");
  return {steps.str(), kThreads, {reason}};
}

std::vector<std::string> names(const std::vector<loop::For>& loops) {
  std::vector<std::string> all;
  for (const loop::For& f : loops) all.push_back(name(f));
  return all;
}

/// The loop inside {allocate acc; acc = ..; for s}.
const loop::For* scan_loop(loop::Stmt at) {
  while (const auto* a = at->as<loop::Allocate>()) at = a->body;
  const auto* block = at->as<loop::Block>();
  return block == nullptr || block->statements.empty() ? nullptr : block->statements.back()->as<loop::For>();
}

}  // namespace

std::vector<GpuVersion> scan_versions(const loop::Kernel& kernel, const ir::Target& target) {
  loop::Stmt inside;
  const std::vector<loop::For> rows = nest_of(kernel, inside);
  const loop::For* scan = scan_loop(inside);
  if (scan == nullptr) return {};
  const int lanes = std::min(kScanLanes, target.max_block);
  StepList steps(names(rows));
  std::string text = fmt::format("split_scan {} {} {} -> tile\n", name(*scan), lanes, kScanEach);
  std::vector<std::string> spread{"tile_sum", "tile_out"};
  for (int distance = 1, k = 0; distance < lanes; distance *= 2, ++k) spread.push_back(fmt::format("tile_step{}", k));
  for (const std::string& loop : spread) text += "thread " + loop + "\n";
  for (const char* loop : {"tile_e", "tile_f"}) text += fmt::format("unroll {}\n", loop);
  if (!rows.empty()) {
    const std::string row = fuse_outer(steps, rows.size());
    text += steps.str() + "parallelize " + row + "\n";
  }
  GpuVersion block{
      text,
      lanes,
      {fmt::format("a block scans a row, {} elements at a time, {} a thread", lanes * kScanEach, kScanEach)}};
  std::vector<GpuVersion> versions;
  if (is_legal(kernel, block)) {
    if (!rows.empty()) {
      auto& exprs = kernel.context->exprs;
      Expr count = exprs.constant(1);
      for (const loop::For& f : rows) count = count * f.extent;
      block.guard = symbolic::less_equal(exprs.constant(kLongScan), first_extent(scan->extent, rows));
      // Along the last axis neighbouring rows are far apart: a thread a row would read each line many times.
      bool contiguous = false;
      for (const loop::Access& a : loop::accesses_in(scan->body)) {
        if (a.slot != 0 || a.index.empty()) continue;
        const Expr last = ir::as_expr(a.index.back());
        contiguous |= last && symbolic::depends_on(last, scan->var);
      }
      if (!contiguous)
        block.guard = symbolic::logical_and(block.guard, symbolic::less(count, exprs.constant(kManyRows)));
    }
    if (!block.guard || !block.guard.is_constant(0)) versions.push_back(block);
    if (block.guard && block.guard.is_constant(1)) versions.back().guard = {};
  }
  if (versions.empty() || versions.back().guard) {
    if (rows.empty()) return {};
    versions.push_back(a_thread_each(StepList(names(rows)), rows.size(),
                                     "a thread scans a row: neighbouring rows are neighbours in a warp"));
    if (!is_legal(kernel, versions.back())) return {};
  }
  return versions;
}

std::vector<GpuVersion> scatter_versions(const loop::Kernel& kernel) {
  const GpuVersion serial{"", 1, {"one thread: points may meet, and their order is the meaning"}};
  loop::Stmt inside;
  const std::vector<loop::For> loops = nest_of(kernel, inside);
  if (const auto* guard = inside->as<loop::If>()) inside = guard->then_body;
  const std::vector<ir::Scalar>* to = nullptr;
  if (const auto* store = inside->as<loop::Store>()) to = &store->index;
  if (const auto* update = inside->as<loop::Update>()) to = &update->index;
  if (to == nullptr) return {serial};
  // Points that differ along such an axis never meet.
  std::vector<std::string> apart;
  for (const loop::For& f : loops)
    if (std::any_of(to->begin(), to->end(), [&](ir::Scalar i) { return ir::as_expr(i) == f.var; }))
      apart.push_back(name(f));
  if (apart.empty()) return {serial};
  StepList steps(names(loops));
  for (size_t k = 0; k < apart.size(); ++k) steps.move(apart[k], k);
  GpuVersion v = a_thread_each(std::move(steps), apart.size(),
                               apart.size() == loops.size() ? "a thread has a point: points never meet"
                                                            : "a thread has the points that may meet, in their order");
  if (!is_legal(kernel, v)) return {serial};
  return {std::move(v)};
}

}  // namespace stax::schedule
