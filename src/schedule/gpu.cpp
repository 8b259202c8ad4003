// SPDX-License-Identifier: Apache-2.0
#include "schedule/gpu.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "loop/access.h"
#include "loop/transform.h"
#include "schedule/gpu_ordered.h"
#include "schedule/gpu_steps.h"

namespace stax::schedule {

using ir::Scalar;
using symbolic::Expr;

namespace {

// Threads of a block where a thread's work does not depend on its neighbours'.
constexpr int kBlock = 256;
// Results of a block where each thread reduces for itself.
constexpr int kReductionBlock = 128;
// Rows from which on a whole block works on one.
constexpr int64_t kLongRow = 64;
// Elements of a row for each lane, up to which one warp works on it.
constexpr int kWarpRow = 8;
// Lanes of one access, and accesses of a thread where there are many elements.
constexpr int kVector = 4, kSeveral = 2;
constexpr int kApart = 4;  // single results of a thread
// Iterations of a reduction in a thread that are written out.
constexpr int kTogether = 8;

class GpuScheduler {
 public:
  GpuScheduler(const loop::Kernel& kernel, const ir::Target& target)
      : kernel_(kernel), target_(target), form_(analyze(kernel)) {}

  std::vector<GpuVersion> run() {
    if (kernel_.kernel_class == "scatter") return scatter_versions(kernel_);
    if (kernel_.kernel_class == "scan") {
      if (auto versions = scan_versions(kernel_, target_); !versions.empty()) return versions;
    }
    std::vector<GpuVersion> versions;
    if (kernel_.kernel_class == "attention") versions = attention_tiles(kernel_, target_, form_);
    if (kernel_.kernel_class == "rows" || kernel_.kernel_class == "attention") {
      for (GpuVersion& v : rows()) versions.push_back(std::move(v));
      return versions;
    }
    if (form_.matches && form_.reductions.empty() && !form_.has_if && !form_.outer.empty()) {
      versions = pointwise();
    } else if (form_.matches && !form_.has_if && form_.accumulators == 1) {
      if (kernel_.kernel_class == "contraction") {
        versions = skinny_contraction(kernel_, target_, form_);
        std::vector<GpuVersion> tiled = matrix_contraction(kernel_, target_, form_);
        if (tiled.empty()) tiled = tiled_contraction(kernel_, target_, form_);
        std::move(tiled.begin(), tiled.end(), std::back_inserter(versions));
      }
      for (GpuVersion& v : reduction()) versions.push_back(std::move(v));
    } else {
      versions.push_back(fallback());
    }
    // A version that proves not to fit the nest gives way to the next; the last resort fits all.
    std::vector<GpuVersion> legal;
    for (GpuVersion& v : versions) {
      if (!is_legal(v)) continue;
      legal.push_back(std::move(v));
      if (!legal.back().guard) break;
    }
    if (legal.empty() || legal.back().guard) legal.push_back(fallback());
    return legal;
  }

 private:
  bool is_legal(const GpuVersion& v) const { return schedule::is_legal(kernel_, v); }
  static std::string name(const loop::For& f) { return loop::loop_name(f.var); }
  std::vector<std::string> outer_names() const {
    std::vector<std::string> names;
    for (const loop::For& f : form_.outer) names.push_back(name(f));
    return names;
  }

  // ---- Pointwise
  std::vector<GpuVersion> pointwise() {
    std::vector<GpuVersion> versions;
    const loop::For& last = form_.outer.back();
    if (auto v = transpose()) versions.push_back(std::move(*v));
    for (const bool several : {true, false})
      if (auto v = vector_pointwise(last, several)) versions.push_back(std::move(*v));
    StepList steps(outer_names());
    const std::string all = fuse_outer(steps, form_.outer.size());
    finish_pointwise(steps, all);
    versions.push_back({steps.str(), kBlock, {"one element a thread: any row length"}});
    return versions;
  }
  static void finish_pointwise(StepList& steps, const std::string& loop) {
    steps.step(fmt::format("split {} {} -> blocks threads guard", loop, kBlock));
    steps.step("parallelize blocks");
    steps.step("thread threads");
  }
  // A load that is contiguous along another axis than the result goes through a tile in shared memory.
  std::optional<GpuVersion> transpose() const {
    if (form_.outer.size() < 2 || form_.loads.empty()) return std::nullopt;
    const int last = static_cast<int>(form_.outer.size()) - 1;
    int across = -1;
    Scalar turned;
    for (Scalar load : form_.loads) {
      for (int k = 0; k < last; ++k) {
        const auto stride = stride_of(kernel_, load, form_.outer[k].var);
        if (!stride || !stride->is_constant(1)) continue;
        if (turned) return std::nullopt;
        across = k, turned = load;
      }
    }
    if (!turned) return std::nullopt;
    constexpr int kTile = 32;
    const std::string a = outer_names()[across], b = outer_names()[last];
    StepList steps(outer_names());
    steps.move(a, last - 1);
    steps.step(fmt::format("split {0} {1} -> {0}o {0}i clamped", a, kTile));
    steps.step(fmt::format("split {0} {1} -> {0}o {0}i clamped", b, kTile));
    steps.step(fmt::format("interchange {}i {}o", a, b));
    std::vector<std::string> blocks = steps.order();
    blocks[last - 1] = a + "o";
    blocks[last] = b + "o";
    StepList grid(blocks);
    const std::string fused = fuse_outer(grid, blocks.size());
    steps.step(grid.str());
    steps.step(fmt::format("cache {} at {} over {}i {}i pad 1 -> tile", turned->slot, fused, a, b));
    steps.step("interchange tile_0 tile_1");
    steps.step("fuse tile_1 tile_0 -> tile_copy");
    steps.step("thread tile_copy");
    steps.step(fmt::format("fuse {}i {}i -> threads", a, b));
    steps.step("thread threads");
    steps.step("parallelize " + fused);
    GpuVersion v{steps.str(),
                 kBlock,
                 {fmt::format("tiles of {0} x {0} turn in shared memory: both sides are contiguous", kTile)}};
    const auto fills = [&](int k) {
      const Expr extent = form_.outer[k].extent;
      return symbolic::less_equal(extent.table().constant(kTile / 2), extent);
    };
    v.guard = symbolic::logical_and(fills(across), fills(last));
    if (v.guard.is_constant(0)) return std::nullopt;
    if (v.guard.is_constant(1)) v.guard = {};
    return v;
  }
  // One access of each operand a thread, or `several`, where there is work for all multiprocessors all the same.
  std::optional<GpuVersion> vector_pointwise(const loop::For& last, bool several) {
    if (target_.vector_bytes < 8 || (last.extent.is_constant() && last.extent.constant() < kVector))
      return std::nullopt;
    GpuVersion v;
    v.block = kBlock;
    StepList steps(outer_names());
    const std::string row = name(last);
    const bool single = form_.outer.size() == 1;
    if (!single) {
      // Rows begin at whole vectors where their length is a multiple.
      if (!make_multiple(kernel_, last.extent, kVector, v)) return std::nullopt;
    }
    int contiguous = 0;
    for (Scalar load : form_.loads) {
      const auto stride = stride_of(kernel_, load, last.var);
      // A stride that is 0 where the shape broadcasts and else 1 is taken for 1.
      if (!stride || !(stride->is_constant(1) || make_value(*stride, 1, v))) continue;
      ++contiguous;
      if (!single && load->args.size() > 1)
        make_multiple(kernel_, kernel_.buffers[load->slot].extents.back(), kVector, v);
    }
    if (contiguous == 0 && !form_.loads.empty() && !single) return std::nullopt;
    if (several) {
      // Whole blocks have no conditions; what is left is one block's, which goes over it.
      const int64_t part = int64_t{kBlock} * kSeveral;
      const Expr elements = count_of(form_.outer);
      if (!require_at_least(v, elements, part * kVector * target_.units)) return std::nullopt;
      std::string all = row;
      if (!single) all = fuse_vectors(steps, row);
      steps.step(fmt::format("split {} {} -> blocks part cases rest", all, single ? part * kVector : part));
      if (single) steps.step(fmt::format("split part {} -> vectors lanes exact", kVector));
      steps.step(fmt::format("split {} {} -> each threads exact", single ? "vectors" : "part", kBlock));
      steps.step("interchange each threads");
      for (const char* each : {"parallelize blocks", "thread threads", "thread rest", "unroll each"}) steps.step(each);
      if (!single) steps.step(fmt::format("vectorize lanes_t {}", kVector));
    } else {
      std::string all = row + "o";
      if (single) {
        steps.step(fmt::format("split {0} {1} -> {0}o lanes guard", row, kVector));
      } else {
        all = fuse_vectors(steps, row);
      }
      finish_pointwise(steps, all);
    }
    steps.step(fmt::format("vectorize lanes {}", kVector));
    v.schedule = steps.str();
    v.reasons.push_back(fmt::format("{} elements a thread in {}{}", several ? kVector * kSeveral : kVector,
                                    several ? fmt::format("{} accesses", kSeveral) : "one access",
                                    single ? "; the last ones by themselves" : ": rows are whole vectors"));
    return v;
  }
  /// One loop over the vectors of all rows, with their lanes inside.
  std::string fuse_vectors(StepList& steps, const std::string& row) const {
    steps.step(fmt::format("split {0} {1} -> {0}o lanes exact", row, kVector));
    std::vector<std::string> order = outer_names();
    order.back() += "o";
    StepList rest(order);
    const std::string all = fuse_outer(rest, order.size());
    steps.step(rest.str());
    return all;
  }
  Expr count_of(const std::vector<loop::For>& loops) const {
    Expr count = kernel_.context->exprs.constant(1);
    for (const loop::For& f : loops) count = count * f.extent;
    return count;
  }
  /// The version is for such a count. False: it never is.
  bool require_at_least(GpuVersion& v, Expr count, int64_t least) const {
    const Expr enough = symbolic::less_equal(kernel_.context->exprs.constant(least), count);
    if (enough.is_constant(0)) return false;
    if (!enough.is_constant(1)) v.guard = v.guard ? symbolic::logical_and(v.guard, enough) : enough;
    return true;
  }
  bool make_value(Expr e, int64_t value, GpuVersion& v) const {
    for (const loop::Buffer& b : kernel_.buffers)
      for (Expr extent : b.extents)
        if (symbolic::depends_on(extent, e)) return false;
    for (size_t k = 0; k < kernel_.params.size(); ++k) {
      if (kernel_.params[k] != e) continue;
      if (std::any_of(v.known.begin(), v.known.end(), [&](const Known& m) { return m.param == k; })) return true;
      v.known.push_back({k, 1, value});
      require(v, symbolic::equal(e, value));
      return true;
    }
    return false;
  }
  // ---- Reductions
  std::vector<GpuVersion> reduction() {
    std::vector<GpuVersion> versions;
    const Expr count = first_extent(count_of(form_.reductions), form_.outer);
    const auto [along_reduction, along_row] = reduction_neighbours(kernel_, form_);
    if (along_reduction && !along_row) {
      GpuVersion v = block_reduction();
      if (!form_.outer.empty()) v.guard = symbolic::less_equal(kernel_.context->exprs.constant(kLongRow), count);
      if (v.guard && v.guard.is_constant(0)) v.schedule.clear();
      if (!v.schedule.empty()) versions.push_back(std::move(v));
      if (!versions.empty() && versions.back().guard && versions.back().guard.is_constant(1))
        versions.back().guard = {};
    }
    if (form_.outer.empty() || (!versions.empty() && !versions.back().guard)) return versions;
    if (along_row && !along_reduction) {
      for (const Neighbours neighbours : {Neighbours::kRows, Neighbours::kRow, Neighbours::kApart}) {
        if (auto v = several_reductions(neighbours)) versions.push_back(std::move(*v));
        // Where rows are whole vectors together, whatever their length is, there is no need for one that knows that each of them is.
        if (!versions.empty() && (!versions.back().guard || !versions.back().necessary)) break;
      }
      if (!versions.empty() && !versions.back().guard) return versions;
    }
    versions.push_back(thread_reduction());
    return versions;
  }
  GpuVersion block_reduction() const {
    std::vector<std::string> order = outer_names();
    StepList steps(order);
    std::string row;
    if (!order.empty()) row = fuse_outer(steps, order.size());
    const std::string r = fuse_reductions(steps, form_);
    const auto finished = [&](const std::string& body, const char* reason) {
      return GpuVersion{steps.str() + body + (row.empty() ? "" : "parallelize " + row + "\n"),
                        kBlock,
                        {"a block reduces one row: neighbours in memory are neighbours in a warp", reason}};
    };
    // Vectors from where memory has the first one; what is in front of it and behind the last is for single threads.
    if (form_.inner_loads.size() == 1 && target_.vector_bytes >= 8) {
      const GpuVersion v = finished(fmt::format("align {0} {1} of {2} -> rh\nsplit {0} {1} -> rv lanes separate rt\n"
                                                "thread rh\nthread rv\nthread rt\nvectorize lanes {1}\n",
                                                r, kVector, form_.inner_loads[0]->slot),
                                    "elements in vectors from a vector's address on");
      if (is_legal(v)) return v;
    }
    return finished("thread " + r + "\n", "one element at a time");
  }
  GpuVersion thread_reduction() const {
    StepList steps(outer_names());
    const std::string all = fuse_outer(steps, form_.outer.size());
    steps.step(fmt::format("split {} {} -> blocks threads guard", all, kReductionBlock));
    steps.step("parallelize blocks");
    steps.step("thread threads");
    GpuVersion v{steps.str(),
                 kReductionBlock,
                 {"a thread reduces for one result: neighbouring results are neighbours in a warp"}};
    unroll_reduction(v);
    return v;
  }
  // Several iterations of the reduction are written out, so that their loads are under way together and share an address. `cases`: also in the copy of it that
  // has the rest of the results.
  void unroll_reduction(GpuVersion& v, bool cases = false) const {
    const loop::For& r = form_.reductions.back();
    if (r.extent.is_constant() && r.extent.constant() < 2 * kTogether) return;
    GpuVersion unrolled = v;
    const std::string steps = "split {0}{1} {2} -> ro{1} ri{1} separate rt{1}\nunroll ri{1}\n";
    for (const char* copy : {"", "_t"})
      if (*copy == 0 || cases) unrolled.schedule += fmt::format(fmt::runtime(steps), name(r), copy, kTogether);
    if (is_legal(unrolled)) v = std::move(unrolled);
  }
  // What a thread that has several results has them of: vectors of the last two loops, which are one in memory and in the result (turns of a reduction, and
  // rows of any length); vectors of a row; single ones of a row, as far apart as there are threads, whose loads share an address.
  enum class Neighbours { kRows, kRow, kApart };
  // Several results a thread, where that is still work for half of the machine; for all of it where all that is saved are addresses.
  std::optional<GpuVersion> several_reductions(Neighbours neighbours) const {
    GpuVersion v;
    v.block = kReductionBlock;
    const loop::For& last = form_.outer.back();
    const bool together = neighbours == Neighbours::kRows, apart = neighbours == Neighbours::kApart;
    const int each = apart ? kApart : kSeveral;
    const int64_t part = int64_t{kReductionBlock} * each * (apart ? 1 : kVector);
    if (target_.vector_bytes < 8 || form_.inner_loads.size() != 1) return std::nullopt;
    const Scalar load = form_.inner_loads[0];
    const std::vector<Expr>& extents = kernel_.buffers[load->slot].extents;
    Expr row_extent = last.extent;
    StepList steps(outer_names());
    std::vector<std::string> order = outer_names();
    if (together) {
      if (form_.outer.size() < 2 || last.extent.multiple() % kVector == 0) return std::nullopt;
      const loop::For& before = form_.outer[form_.outer.size() - 2];
      const auto pitch = stride_of(kernel_, load, before.var);
      row_extent = before.extent * last.extent;
      if (!pitch || *pitch != last.extent || row_extent.multiple() % kVector != 0) return std::nullopt;
      // Whatever is around them moves by whole vectors, at least where there is a multiple of rows.
      std::vector<loop::For> others(form_.outer.begin(), form_.outer.end() - 2);
      others.insert(others.end(), form_.reductions.begin(), form_.reductions.end());
      for (const loop::For& f : others) {
        const auto stride = stride_of(kernel_, load, f.var);
        if (!stride) return std::nullopt;
        if (stride->multiple() % kVector == 0) continue;
        if (extents.size() < 2 || !make_multiple(kernel_, extents[extents.size() - 2], kVector, v)) return std::nullopt;
      }
      order.pop_back();
      order.back() = "row";
      steps.step(fmt::format("fuse {} {} -> row", name(before), name(last)));
    } else if (!apart) {
      if (!make_multiple(kernel_, last.extent, kVector, v)) return std::nullopt;
      if (extents.size() > 1 && !make_multiple(kernel_, extents.back(), kVector, v)) return std::nullopt;
    }
    const Expr columns = symbolic::less_equal(row_extent.table().constant(part / 2), row_extent);
    v.guard = v.guard ? symbolic::logical_and(v.guard, columns) : columns;
    if (!require_at_least(v, count_of(form_.outer), apart ? part * target_.units : part * target_.units / 2))
      return std::nullopt;
    if (v.guard.is_constant(0)) return std::nullopt;
    const std::string row = order.back();
    if (!apart) steps.step(fmt::format("split {0} {1} -> {0}v lanes exact", row, kVector));
    steps.step(fmt::format("split {0}{1} {2} -> {0}o part cases rest", row, apart ? "" : "v", kReductionBlock * each));
    steps.step(fmt::format("split part {} -> each threads exact", kReductionBlock));
    steps.step("interchange each threads");
    order.back() += "o";
    StepList grid(order);
    const std::string all = fuse_outer(grid, order.size());
    steps.step(grid.str());
    steps.step("sink each");
    if (!apart)
      for (const char* lanes : {"lanes", "lanes_t"}) steps.step(fmt::format("sink {}", lanes));
    steps.step("unroll each");
    if (!apart)
      for (const char* lanes : {"lanes", "lanes_t"}) steps.step(fmt::format("vectorize {} {}", lanes, kVector));
    steps.step("parallelize " + all);
    for (const char* loop : {"threads", "rest"}) steps.step(fmt::format("thread {}", loop));
    v.schedule = steps.str();
    v.reasons = {
        apart ? fmt::format("a thread reduces for {} results: neighbouring results are neighbours in a warp", each)
              : fmt::format(
                    "a thread reduces for {} results in {} accesses: neighbouring vectors are neighbours in a warp",
                    kVector * each, each)};
    if (together) v.reasons.push_back("rows of any length: several of them together are whole vectors");
    unroll_reduction(v, true);
    if (v.guard.is_constant(1)) v.guard = {};
    return v;
  }

  // ---- Rows: several passes over one
  // The passes of this name spread over threads, in vectors from where memory has the first one if it has any; empty: they cannot be.
  std::string thread_passes(const std::string& text, const std::string& r,
                            const std::vector<const loop::For*>& passes) const {
    const int slot = kernel_.kernel_class == "rows" && target_.vector_bytes >= 8 ? row_of(r, passes) : -1;
    if (slot >= 0) {
      const std::string with = fmt::format(
          "{2}align {0} {1} of {3} -> {0}_h\nsplit {0} {1} -> {0}_v {0}_l separate {0}_r\n"
          "thread {0}_h\nthread {0}_v\nthread {0}_r\nvectorize {0}_l {1}\n",
          r, kVector, text, slot);
      if (is_legal({with, kBlock, {}})) return with;
    }
    const std::string with = text + "thread " + r + "\n";
    return is_legal({with, kBlock, {}}) ? with : "";
  }
  // The first buffer that the passes of this name read element by element, -1: there is none, or something else begins at another address:
  // neighbours in it would be a vector apart, in four accesses of a quarter each.
  int row_of(const std::string& r, const std::vector<const loop::For*>& passes) const {
    int row = -1;
    std::vector<Expr> first, extents;
    for (const loop::For* pass : passes) {
      if (name(*pass) != r) continue;
      if (pass->extent.is_constant() && pass->extent.constant() < 2 * kVector) return -1;
      const symbolic::Substitution start{{pass->var.node(), kernel_.context->exprs.constant(0)}};
      for (const loop::Access& a : loop::accesses_in(pass->body)) {
        if (a.slot >= kernel_.arguments) continue;
        const auto stride = stride_of(kernel_, a.slot, a.index, pass->var);
        if (!stride || !stride->is_constant(1)) continue;
        std::vector<Expr> begins, inner = kernel_.buffers[static_cast<size_t>(a.slot)].extents;
        for (ir::Scalar index : a.index) {
          const Expr e = ir::as_expr(index);
          if (!e) return -1;  // data decides
          begins.push_back(symbolic::substitute(e, start));
        }
        inner.erase(inner.begin());
        if (first.empty()) first = begins, extents = inner;
        if (begins != first || inner != extents) return -1;
        if (row < 0 && a.kind == loop::AccessKind::kLoad) row = a.slot;
      }
    }
    return row;
  }
  // A block has a row; the loops of its passes are spread over its threads. A row's values lie in shared memory; rows that are too long for it,
  // in global memory.
  std::vector<GpuVersion> rows() const {
    // The row loops, then what lives within a row, then the passes.
    loop::Stmt at = kernel_.body;
    std::vector<std::string> order;
    while (const auto* f = at->as<loop::For>()) {
      order.push_back(name(*f));
      at = f->body;
    }
    while (const auto* a = at->as<loop::Allocate>()) at = a->body;
    std::vector<const loop::For*> passes;
    const std::function<void(const loop::Stmt&)> collect = [&](const loop::Stmt& s) {
      if (const auto* f = s->as<loop::For>()) passes.push_back(f);
      if (const auto* b = s->as<loop::Block>())
        for (const loop::Stmt& each : b->statements) collect(each);
      if (const auto* a = s->as<loop::Allocate>()) collect(a->body);
    };
    collect(at);
    if (order.empty() || passes.empty()) return {fallback()};
    std::string text;
    StepList steps(order);
    const std::string row = fuse_outer(steps, order.size());
    text = steps.str();
    Expr longest = kernel_.context->exprs.constant(0);
    std::vector<std::string> spread;
    for (const loop::For* pass : passes) {
      longest = symbolic::max(longest, pass->extent);
      if (std::find(spread.begin(), spread.end(), name(*pass)) != spread.end()) continue;
      const std::string with = thread_passes(text, name(*pass), passes);
      if (with.empty()) continue;
      spread.push_back(name(*pass));
      text = with;
    }
    text += "parallelize " + row + "\n";
    std::vector<GpuVersion> versions;
    const int warp = target_.warp;
    GpuVersion one_warp{text, warp, {fmt::format("a warp has a row: no more than {} elements", warp * kWarpRow)}};
    one_warp.guard = symbolic::less_equal(longest, kernel_.context->exprs.constant(int64_t{warp} * kWarpRow));
    if (!one_warp.guard.is_constant(0)) versions.push_back(one_warp);
    if (one_warp.guard.is_constant(1)) versions.back().guard = {};
    versions.push_back({text, kBlock, {"a block has a row: its values stay in shared memory"}});
    versions.push_back({text, kBlock, {"a block has a row: its values lie in global memory"}});
    versions.back().rows_in_global = true;
    for (const GpuVersion& v : versions)
      if (!is_legal(v)) return {fallback()};
    return versions;
  }

  // ---- Anything
  GpuVersion fallback() const {
    const std::vector<std::string> order = outer_names();
    for (size_t count = order.size(); count > 0; --count) {
      StepList steps(order);
      const std::string all = fuse_outer(steps, count);
      steps.step(fmt::format("split {} {} -> blocks threads guard", all, kReductionBlock));
      steps.step("parallelize blocks");
      steps.step("thread threads");
      GpuVersion v{
          steps.str(), kReductionBlock, {fmt::format("a thread does one iteration of the {} outer loops", count)}};
      if (is_legal(v)) return v;
    }
    return serial("no loop has independent iterations around all others");
  }
  static GpuVersion serial(const std::string& reason) { return {"", 1, {"one thread: " + reason}}; }

  const loop::Kernel& kernel_;
  const ir::Target& target_;
  NestForm form_;
};

}  // namespace

loop::Kernel with_known(const loop::Kernel& kernel, const std::vector<Known>& known) {
  loop::Kernel k = kernel;
  for (const Known& m : known) {
    symbolic::SymbolInfo info = k.params[m.param].symbol();
    if (m.value) {
      k = loop::with_param(k, m.param, k.context->exprs.constant(*m.value));
    } else {
      info.multiple = m.multiple;
      k = loop::with_param(k, m.param, k.context->exprs.new_symbol(std::move(info)));
    }
  }
  return k;
}

std::vector<GpuVersion> choose_gpu_versions(const loop::Kernel& kernel, const ir::Target& target) {
  return GpuScheduler(kernel, target).run();
}

}  // namespace stax::schedule
