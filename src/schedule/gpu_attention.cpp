// SPDX-License-Identifier: Apache-2.0
// Attention of tiles of queries.
//
// A block has some queries, whose scores [key, query] stay in shared memory. Both products are tiles of results in registers: neighbouring threads have
// neighbouring queries, four each, and keys that are as far apart as there are groups of such threads, or neighbouring columns of the result. Keys pass through
// shared memory sixteen terms of the sum at a time, values sixteen keys at a time, so that both are read along memory. Maxima and sums over the keys are
// those of parts, each a thread's, which are combined at the end.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "loop/access.h"
#include "loop/transform.h"
#include "schedule/attention.h"
#include "schedule/gpu_steps.h"

namespace stax::schedule {

using symbolic::Expr;

namespace {

constexpr int kBlock = 256;
constexpr int kVector = 4;          // elements of an access
constexpr int kDepths[] = {16, 8};  // terms of a sum that go through shared memory together
constexpr int kQueries = 4;         // of a thread

struct Tile {
  int queries, keys;  // of a block
  int part;  // a block for every so many units of the machine is enough: rows of one query read the keys again and again
  int least = 1, most = 1 << 30;  // queries that it is for
};
constexpr Tile kTiles[] = {{32, 128, 16, 9}, {4, 256, 2, 1, 8}};

class AttentionTiles {
 public:
  AttentionTiles(const loop::Kernel& kernel, const ir::Target& target, const NestForm& form)
      : kernel_(kernel), target_(target), form_(form), products_(products_of(kernel)) {}

  std::vector<GpuVersion> run() {
    // OpenCL has no vectors here; PoCL 3.1 makes wrong code of this many phases between barriers, which other implementations run right.
    if (target_.vector_bytes < kVector * 4) return {};
    if (products_.size() != 2 || products_[0].is_last || !products_[1].is_last) return {};
    for (const Product& p : products_)
      if (!p.factor || !p.row || !p.terms.var) return {};
    const Product& scores = products_[0];
    const Product& results = products_[1];
    if (!is_contiguous(kernel_, scores.factor, scores.terms) || !scores.terms.extent.is_constant()) return {};
    if (!is_contiguous(kernel_, results.factor, results.points) || !results.points.extent.is_constant()) return {};
    const auto queries = std::find_if(form_.outer.rbegin(), form_.outer.rend(),
                                      [&](const loop::For& f) { return !moves_factor(products_, f.var); });
    if (queries == form_.outer.rend()) return {};
    std::vector<GpuVersion> versions;
    std::optional<GpuVersion> in_global;
    for (const Tile& tile : kTiles) {
      // Wide heads leave room for a few terms only.
      for (const int depth : kDepths) {
        depth_ = depth;
        if (fixed_shared_bytes(tile) <= target_.static_shared) break;
      }
      GpuVersion v{steps(tile, loop::loop_name(queries->var)), kBlock, {}};
      if (v.schedule.empty() || !is_legal(kernel_, v)) return {};
      const std::string reason = fmt::format("{} queries a block, {} keys at a time: ", tile.queries, tile.keys);
      v.reasons = {reason + "scores stay in shared memory"};
      symbolic::ExprTable& table = kernel_.context->exprs;
      Expr blocks = table.constant(1);
      for (const loop::For& f : form_.outer)
        blocks = blocks * (f.var == queries->var ? symbolic::ceildiv(f.extent, tile.queries) : f.extent);
      v.guard = symbolic::logical_and(
          symbolic::less_equal(table.constant(tile.least), queries->extent),
          symbolic::less_equal(table.constant((target_.units + tile.part - 1) / tile.part), blocks));
      if (tile.most < (1 << 30))
        v.guard = symbolic::logical_and(v.guard, symbolic::less_equal(queries->extent, table.constant(tile.most)));
      if (v.guard.is_constant(0)) continue;
      versions.push_back(v);
      if (in_global) continue;
      v.reasons = {reason + "scores lie in global memory"};
      v.rows_in_global = true;
      in_global = std::move(v);
    }
    if (in_global) versions.push_back(std::move(*in_global));
    return versions;
  }

 private:
  /// Of a tile's queries, of the keys and values at hand, and of the partial results of rows; the scores come to that.
  int64_t fixed_shared_bytes(const Tile& t) const {
    const int64_t terms = products_[0].terms.extent.constant(), columns = products_[1].points.extent.constant();
    const int64_t element = static_cast<int64_t>(ir::byte_size(kernel_.buffers[products_[0].row->slot].dtype));
    const int64_t rows = static_cast<int64_t>(reductions_of_rows().size()) * (kBlock + t.queries);
    return (t.queries * terms + depth_ * (t.keys + columns) + rows) * element;
  }
  /// A part of a factor in shared memory: neighbouring threads copy neighbours in memory.
  void copy(StepList& steps, const char* name, int64_t row) const {
    const bool whole = row % kVector == 0;
    if (whole) steps.step(fmt::format("split {0}_1 {1} -> {0}_w {0}_l exact", name, kVector));
    steps.step(fmt::format("fuse {0}_0 {0}_{1} -> {0}_copy", name, whole ? "w" : "1"));
    steps.step(fmt::format("thread {}_copy", name));
    if (whole) steps.step(fmt::format("vectorize {}_l {}", name, kVector));
  }
  /// What a thread needs at one step, in one access.
  void keep(StepList& steps, const char* name, size_t slot, const std::string& at, const std::string& over,
            int width) const {
    steps.step(fmt::format("cache {} at {} over {} -> {}", slot, at, over, name));
    const bool two = over.find(' ') != std::string::npos;
    if (two) steps.step(fmt::format("unroll {}_0", name));
    if (width == 2 || width == kVector) {
      steps.step(fmt::format("vectorize {}_{} {}", name, two ? 1 : 0, width));
    } else {
      steps.step(fmt::format("unroll {}_{}", name, two ? 1 : 0));
    }
  }

  struct Pass {
    std::string name;
    bool reads_along;  // neighbouring iterations read neighbours in memory
  };
  /// Loops whose body is a loop over the queries.
  std::vector<Pass> around_queries(const std::string& text, const std::string& query) const {
    std::vector<Pass> passes;
    const loop::Kernel kernel = loop::apply_schedule(kernel_, text);
    loop::visit(kernel.body, [&](const loop::Stmt& s) {
      const auto* f = s->as<loop::For>();
      const auto* inner = f ? f->body->as<loop::For>() : nullptr;
      if (inner == nullptr || loop::loop_name(inner->var) != query || f->kind != loop::LoopKind::kSerial) return;
      bool along = false;
      for (const loop::Access& a : loop::accesses_in(inner->body)) {
        if (a.slot >= kernel.arguments || a.kind != loop::AccessKind::kLoad) continue;
        const auto stride = stride_of(kernel, a.slot, a.index, f->var);
        along |= stride && stride->is_constant(1);
      }
      passes.push_back({loop::loop_name(f->var), along});
    });
    return passes;
  }

  /// Loops over a row, beside those of the products, that update something: maxima and sums over the keys.
  std::vector<std::string> reductions_of_rows() const {
    std::vector<std::string> names;
    loop::visit(kernel_.body, [&](const loop::Stmt& s) {
      const auto* f = s->as<loop::For>();
      if (f == nullptr || f->body->as<loop::Allocate>() != nullptr) return;
      bool updates = false;
      loop::visit(f->body, [&](const loop::Stmt& inner) { updates |= inner->as<loop::Update>() != nullptr; });
      const auto is = [&](const loop::For& other) { return other.var == f->var; };
      const bool is_product = is(products_[0].terms) || is(products_[1].terms);
      if (!updates || is_product || std::any_of(form_.outer.begin(), form_.outer.end(), is)) return;
      const std::string name = loop::loop_name(f->var);
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    });
    return names;
  }

  // Passes over rows: threads on neighbouring queries, in vectors where what is read lies along a query.
  void thread_passes(StepList& steps, const std::string& mine) const {
    const std::string keys = loop::loop_name(products_[0].points.var),
                      columns = loop::loop_name(products_[1].points.var);
    int number = 0;
    for (const auto& [pass, reads_along] : around_queries(steps.str(), mine)) {
      if (pass == keys + "i" || pass == columns || pass == "ki" || pass == "wi") continue;
      const std::string fused = fmt::format("fuse {0} {1} -> pass{2}\nthread pass{2}", pass, mine, number);
      const std::string vectors = fmt::format(
          "split {0} {1} -> {0}o {0}l exact\ninterchange {0}l {2}\nfuse {0}o {2} -> pass{3}\nthread pass{3}\n"
          "vectorize {0}l {1}",
          pass, kVector, mine, number);
      const bool in_vectors = reads_along && is_legal(kernel_, {steps.str() + vectors, kBlock, {}});
      if (!in_vectors && !is_legal(kernel_, {steps.str() + fused, kBlock, {}})) continue;
      steps.step(in_vectors ? vectors : fused);
      ++number;
    }
  }

  // .., ki, keys, queries -> .., kq, threads, kv, a thread's keys, its queries
  void thread_scores(StepList& steps, const std::string& mine, int groups, size_t key) const {
    const Product& scores = products_[0];
    steps.step(fmt::format("split {0}i {1} -> cq ct exact", loop::loop_name(scores.points.var), groups));
    for (const std::string& each :
         {std::string("interchange cq ct"), "interchange cq " + mine, fmt::format("fuse ct {} -> both", mine),
          fmt::format("split both {} -> products qv exact", kQueries), std::string("interchange qv cq"),
          fmt::format("split ki {} -> kq kv exact", kVector), std::string("interchange kv products"),
          std::string("interchange kq products")})
      steps.step(each);
    keep(steps, "keys_mine", key, "kq", "cq kv", kVector);
    keep(steps, "query_mine", static_cast<size_t>(scores.row->slot), "kv", "qv", kQueries);
    copy(steps, "key", scores.terms.extent.constant() % kVector == 0 ? depth_ : 1);
    for (const char* each : {"thread products", "unroll cq", "unroll kv"}) steps.step(each);
    steps.step(fmt::format("vectorize qv {}", kQueries));
  }

  // .., wi, columns, queries -> .., wq, threads, wv, a thread's queries, its columns
  void thread_results(StepList& steps, const std::string& mine, int groups, size_t value) const {
    const Product& results = products_[1];
    const int64_t out = results.points.extent.constant();
    int64_t columns = std::clamp<int64_t>(out / groups, 1, kVector);
    while (out % columns != 0) --columns;
    const bool in_vectors = columns == 2 || columns == kVector;
    steps.step(fmt::format("split {} {} -> vt vq exact", loop::loop_name(results.points.var), columns));
    for (const std::string& each :
         {"interchange vq " + mine, fmt::format("fuse vt {} -> all", mine),
          fmt::format("split all {} -> results rv exact", kQueries), fmt::format("split wi {} -> wq wv exact", kVector),
          std::string("interchange wv results"), std::string("interchange wq results")})
      steps.step(each);
    keep(steps, "value_mine", value, "wv", "vq", in_vectors ? static_cast<int>(columns) : 0);
    keep(steps, "weights_mine", static_cast<size_t>(results.row->slot), "wv", "rv", kQueries);
    copy(steps, "value", out);
    steps.step("thread results");
    // Threads with several rectangles of results have registers for one step only.
    if (out / groups <= kVector) steps.step("unroll wv");
    steps.step("unroll rv");
    steps.step(in_vectors ? fmt::format("vectorize vq {}", columns) : "unroll vq");
  }

  // Empty: the nest is another one.
  std::string steps(const Tile& t, const std::string& query) const {
    const Product& scores = products_[0];
    const Product& results = products_[1];
    const std::string keys = loop::loop_name(scores.points.var), columns = loop::loop_name(results.points.var);
    const std::string mine = query + "i";
    StepList steps(names_of(form_.outer));
    try {
      std::string parts;
      for (const std::string& r : reductions_of_rows()) {
        steps.step(fmt::format("split_reduction {0} {1} -> {0}_o {0}_p outside", r, kBlock / t.queries));
        parts += " " + r + "_o";
      }
      steps.step(fmt::format("split {0} {1} -> {0}o {0}i clamped", keys, t.keys));
      const bool is_whole = scores.terms.extent.constant() % depth_ == 0;
      steps.step(fmt::format("split {} {} -> ko ki {}", loop::loop_name(scores.terms.var), depth_,
                             is_whole ? "exact" : "zeros"));
      steps.step(fmt::format("sink {}i", keys));
      steps.step(fmt::format("split {} {} -> wo wi zeros", loop::loop_name(results.terms.var), depth_));
      steps.step(fmt::format("sink {}", columns));
      steps.move(query, form_.outer.size() - 1);
      steps.split(query, t.queries, "clamped");
      steps.step(fmt::format("sink {}{}", mine, parts.empty() ? "" : " above" + parts));
      StepList grid({steps.order().begin(), steps.order().end() - 1});
      const std::string blocks = fuse_outer(grid, grid.order().size());
      if (grid.order().size() > 1) steps.step(grid.str());
      const size_t key = loop::apply_schedule(kernel_, steps.str()).buffers.size(), value = key + 1;
      // Vectors of one key are what eight neighbouring threads read; those of several keys have to lie in different banks.
      const int pad = t.queries >= 8 * kQueries ? 0 : kVector;
      steps.step(fmt::format("cache {} at ko over {}i ki pad {} -> key", scores.factor->slot, keys, pad));
      steps.step(fmt::format("cache {} at wo over wi {} -> value", results.factor->slot, columns));
      thread_passes(steps, mine);
      const int groups = kBlock / (t.queries / kQueries);
      thread_scores(steps, mine, groups, key);
      thread_results(steps, mine, groups, value);
      steps.step("thread " + mine);
      steps.step("parallelize " + blocks);
    } catch (const loop::IllegalTransform&) {
      return {};
    }
    return steps.str();
  }

  const loop::Kernel& kernel_;
  const ir::Target& target_;
  const NestForm& form_;
  const std::vector<Product> products_;
  int depth_ = kDepths[0];
};

}  // namespace

std::vector<GpuVersion> attention_tiles(const loop::Kernel& kernel, const ir::Target& target, const NestForm& form) {
  return AttentionTiles(kernel, target, form).run();
}

}  // namespace stax::schedule
