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
// A row from which on a block scans it, and from which on a warp does where neighbours of a row are neighbours in memory.
constexpr int64_t kLongScan = 128, kShortScan = 16;
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

namespace {

/// `lanes` threads scan a row together.
GpuVersion a_block_each(const loop::Kernel& kernel, const ir::Target& target, const std::vector<loop::For>& rows,
                        const loop::For& scan, int lanes) {
  // Rows of the tile are as long as all banks.
  size_t element = 1;
  for (const loop::Access& a : loop::accesses_in(scan.body))
    if (a.kind == loop::AccessKind::kUpdate) element = ir::byte_size(kernel.buffers[static_cast<size_t>(a.slot)].dtype);
  const int row = target.banks * target.bank_bytes / static_cast<int>(element);
  StepList steps(names(rows));
  std::string text = fmt::format("split_scan {} {} {} {} -> tile\n", name(scan), lanes, kScanEach, row);
  std::vector<std::string> spread{"tile_in", "tile_sum", "tile_out"};
  for (int distance = 1, k = 0; distance < lanes; distance *= 2, ++k) spread.push_back(fmt::format("tile_step{}", k));
  for (const std::string& loop : spread) text += "thread " + loop + "\n";
  for (const char* loop : {"tile_k", "tile_e", "tile_f"}) text += fmt::format("unroll {}\n", loop);
  if (!rows.empty()) {
    const std::string fused = fuse_outer(steps, rows.size());
    text += steps.str() + "parallelize " + fused + "\n";
  }
  return {
      text,
      lanes,
      {fmt::format("{} threads scan a row, {} elements at a time, {} a thread", lanes, lanes * kScanEach, kScanEach)}};
}

/// Whether neighbours of a row are neighbours in memory: a thread a row would touch each line many times.
bool is_contiguous(const loop::For& scan) {
  for (const loop::Access& a : loop::accesses_in(scan.body)) {
    if (a.slot != 0 || a.index.empty()) continue;
    const Expr last = ir::as_expr(a.index.back());
    if (last && symbolic::depends_on(last, scan.var)) return true;
  }
  return false;
}

}  // namespace

std::vector<GpuVersion> scan_versions(const loop::Kernel& kernel, const ir::Target& target) {
  loop::Stmt inside;
  const std::vector<loop::For> rows = nest_of(kernel, inside);
  const loop::For* scan = scan_loop(inside);
  if (scan == nullptr) return {};
  const Expr length = first_extent(scan->extent, rows);
  auto& exprs = kernel.context->exprs;
  const auto at_least = [&](int64_t least) { return symbolic::less_equal(exprs.constant(least), length); };
  std::vector<GpuVersion> versions;
  // Versions without a guard are the last.
  const auto add = [&](GpuVersion v) {
    if ((!versions.empty() && !versions.back().guard) || v.guard.is_constant(0) || !is_legal(kernel, v)) return;
    if (v.guard.is_constant(1)) v.guard = {};
    versions.push_back(std::move(v));
  };
  const bool contiguous = is_contiguous(*scan);
  GpuVersion block = a_block_each(kernel, target, rows, *scan, std::min(kScanLanes, target.max_block));
  Expr count = exprs.constant(1);
  for (const loop::For& f : rows) count = count * f.extent;
  block.guard = rows.empty() ? exprs.constant(1)
                : contiguous
                    ? at_least(kLongScan)
                    : symbolic::logical_and(at_least(kLongScan), symbolic::less(count, exprs.constant(kManyRows)));
  add(std::move(block));
  if (contiguous && !rows.empty()) {
    GpuVersion warp = a_block_each(kernel, target, rows, *scan, target.warp);
    warp.guard = at_least(kShortScan);
    add(std::move(warp));
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
