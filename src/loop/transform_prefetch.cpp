// SPDX-License-Identifier: Apache-2.0
// prefetch 1 r 8
// prefetch 1 r next c over o
// prefetch 1 r row c
//
// A register tile streams panels of weights, each once for every tile of rows. The processor's own prefetching begins anew at each panel, and has
// nothing to do while later tiles of rows read the panel from a near cache. So each iteration hints a little of what comes next:
//
//   for c { for o { for r in K { .. b[c, r, j] .. } } }            j < 32, contiguous
//   -> for c { for o { for r in K { prefetch 2 %1[c + 1, 0, (o*K + r)*w]; .. } } }      w = ceil(32 / extent(o))
//
// The tiles of rows share the next panel evenly, and memory is busy all the time.
//
// A kernel of several passes over a row meets it in the first pass, where there is little else to do, and writes its results in the last, as
// fast as memory takes them. So what the next rows read is hinted in the last pass that reads, and what these rows write in the first pass:
//
//   for c { for r { .. a[c, r] .. } for r { .. a[c, r] .. } for r { b[c, r] = .. } }
//   -> for c { for r { prefetch 1 %b[c, r]; .. } for r { prefetch 1 %a[c + 1, r]; .. } for r { .. } }
#include <fmt/format.h>

#include <algorithm>

#include "loop/transform_step.h"

namespace stax::loop {

namespace {

constexpr int64_t kLineBytes = 64;

class Prefetcher {
 public:
  Prefetcher(const Edit& edit, const For& loop) : edit_(edit), loop_(loop), slot_(edit.slot(0)) {
    if (slot_ >= edit.kernel.arguments) edit.fail(edit.word(0), "only global buffers are prefetched");
    find_index();
    find_run();
  }

  /// Hints for what the iteration reads that is `count` iterations later.
  Stmt ahead(int64_t count) const { return around_body(1, at({{loop_.var.node(), loop_.var + count}})); }

  /// Hints for all that the loop reads in the next iteration of `outer`, spread over those of `over` (null: there is one).
  Stmt next(Expr outer, Expr over) const {
    if (!linear({{loop_.var.node(), loop_.var + 1}}, run_))
      fail("what its iterations read one after the other is not contiguous");
    Expr iteration = loop_.var, share = edit_.context().exprs.constant(run_);
    if (over) {
      const Expr times = trip_count(edit_.common_extent(over));
      iteration = over * trip_count(loop_.extent) + iteration;
      share = symbolic::floordiv(times + (run_ - 1), times);
    }
    std::vector<Expr> first = at({{outer.node(), outer + 1}, {loop_.var.node(), edit_.context().exprs.constant(0)}});
    first.back() = first.back() + iteration * share;
    return around_body(2, first);
  }

 private:
  [[noreturn]] void fail(const std::string& reason) const { edit_.fail("loop " + loop_name(loop_.var), reason); }
  const Buffer& buffer() const { return edit_.kernel.buffers[slot_]; }

  // What is read, at the first iteration of the loops inside.
  std::vector<Expr> at(const symbolic::Substitution& map) const {
    symbolic::Substitution all = map;
    for (const LoopRange& l : inside_) all[l.var.node()] = edit_.context().exprs.constant(0);
    std::vector<Expr> result;
    for (Expr e : index_) result.push_back(symbolic::substitute(e, all));
    return result;
  }

  void find_index() {
    for (const Access& a : accesses_in(loop_.body)) {
      if (a.slot != slot_) continue;
      std::vector<Expr> index;
      for (Scalar i : a.index) index.push_back(ir::as_expr(i));
      const bool is_known = std::all_of(index.begin(), index.end(), [](Expr e) { return static_cast<bool>(e); });
      if (a.kind != AccessKind::kLoad || !is_known || (!index_.empty() && index != index_))
        fail(fmt::format("it does more with buffer {} than to read it at one place", slot_));
      index_ = index;
      inside_ = a.loops;
    }
    if (index_.empty()) fail(fmt::format("it does not read buffer {}", slot_));
  }

  // Whether the address changes by `distance` elements under the substitution, whatever else there is.
  bool linear(const symbolic::Substitution& map, int64_t distance) const {
    symbolic::ExprTable& table = edit_.context().exprs;
    Expr difference = table.constant(0), pitch = table.constant(1);
    for (size_t d = index_.size(); d-- > 0;) {
      const Expr stride = buffer().strides.empty() ? pitch : buffer().strides[d];
      difference = difference + (symbolic::substitute(index_[d], map) - index_[d]) * stride;
      pitch = pitch * buffer().extents[d];
    }
    return difference.is_constant(distance);
  }

  // Of the loops inside, one runs along the elements and the others stay.
  void find_run() {
    for (const LoopRange& l : inside_) {
      const symbolic::Substitution step{{l.var.node(), l.var + 1}};
      if (linear(step, 0)) continue;
      if (run_ != 1 || !linear(step, 1) || !l.extent.is_constant())
        fail("what an iteration reads is not contiguous along loop " + loop_name(l.var));
      run_ = l.extent.constant();
    }
  }

  // A hint for each line of a run from `first` on, in front of the loop's body.
  Stmt around_body(int level, const std::vector<Expr>& first) const {
    Block body;
    const int64_t line = std::max<int64_t>(kLineBytes / ir::byte_size(buffer().dtype), 1);
    for (int64_t element = 0; element < run_; element += line) {
      Prefetch hint{level, slot_, {}};
      for (Expr e : first) hint.index.push_back(edit_.context().scalars.index(e));
      hint.index.back() = edit_.context().scalars.index(first.back() + element);
      body.statements.push_back(make(std::move(hint)));
    }
    body.statements.push_back(loop_.body);
    For copy = loop_;
    copy.body = make(std::move(body));
    return make(std::move(copy));
  }

  const Edit& edit_;
  const For& loop_;
  int slot_;
  std::vector<Expr> index_;
  std::vector<LoopRange> inside_;  // loops between the loop and what reads the buffer
  int64_t run_ = 1;                // elements that an iteration reads
};

// One pass over a row, as far as a buffer is concerned.
struct Pass {
  std::vector<Scalar> read, written;  // where, as far as the place moves with the loop; empty: it isn't
};

class RowPrefetcher {
 public:
  RowPrefetcher(const Edit& edit, Expr loop, Expr row) : edit_(edit), loop_(loop), row_(row), slot_(edit.slot(0)) {
    if (slot_ >= edit.kernel.arguments) edit.fail(edit.word(0), "only global buffers are prefetched");
    visit(edit.kernel.body, [&](const Stmt& s) {
      if (const For* f = s->as<For>(); f != nullptr && f->var == loop_) passes_.push_back(pass(*f));
    });
  }

  /// The number of the loop that hints, in the order of the kernel, and the hint in it.
  std::pair<size_t, Prefetch> hint() const {
    std::optional<size_t> reads, writes;
    for (size_t k = 0; k < passes_.size(); ++k) {
      if (!passes_[k].read.empty()) reads = k;
      if (!passes_[k].written.empty()) writes = k;
    }
    if (reads && writes) fail("it reads and writes the buffer");
    if (reads) return {*reads, {1, slot_, in_next_row(passes_[*reads].read)}};
    if (!writes) fail(fmt::format("no place in buffer {} moves with it", slot_));
    return {*writes == 0 ? 0 : *writes - 1, {1, slot_, passes_[*writes].written}};
  }

 private:
  [[noreturn]] void fail(const std::string& reason) const { edit_.fail("loop " + loop_name(loop_), reason); }

  Pass pass(const For& f) const {
    Pass found;
    for (const Access& a : accesses_in(f.body)) {
      if (a.slot != slot_ || !std::ranges::any_of(a.index, [&](Scalar i) { return depends_on(i, loop_); })) continue;
      if (!a.loops.empty()) fail("there are loops inside");
      if (!std::ranges::all_of(a.index, [](Scalar i) { return static_cast<bool>(ir::as_expr(i)); }))
        fail(fmt::format("where it is in buffer {} is data", slot_));
      std::vector<Scalar>& place = a.kind == AccessKind::kLoad ? found.read : found.written;
      if (!place.empty() && place != a.index) fail(fmt::format("it is at several places in buffer {}", slot_));
      place = a.index;
    }
    return found;
  }

  std::vector<Scalar> in_next_row(const std::vector<Scalar>& index) const {
    std::vector<Scalar> next;
    for (Scalar i : index)
      next.push_back(edit_.context().scalars.index(symbolic::substitute(ir::as_expr(i), {{row_.node(), row_ + 1}})));
    return next;
  }

  const Edit& edit_;
  Expr loop_, row_;
  int slot_;
  std::vector<Pass> passes_;
};

Kernel prefetch_rows(Edit edit) {
  const Expr loop = edit.loop(edit.word(1)), row = edit.loop(edit.word(3));
  const auto [at, hint] = RowPrefetcher(edit, loop, row).hint();
  size_t number = 0;
  edit.replace_loops(loop, [&, at = at, hint = hint](const For& f, const LoopScope& scope) {
    if (std::ranges::none_of(scope.loops(), [&](const LoopRange& l) { return l.var == row; }))
      edit.fail("loop " + loop_name(row), fmt::format("loop {} is not inside of it", loop_name(loop)));
    For copy = f;
    if (number++ == at) copy.body = make(Block{{make(Prefetch(hint)), f.body}});
    return make(std::move(copy));
  });
  return std::move(edit.kernel);
}

}  // namespace

Kernel prefetch(Edit edit) {
  constexpr int64_t kMost = int64_t{1} << 20;
  if (edit.word(2) == "row" && edit.step.words.size() == 4) return prefetch_rows(std::move(edit));
  const Expr loop = edit.loop(edit.word(1));
  const size_t words = edit.step.words.size();
  const bool is_next = edit.word(2) == "next";
  if (is_next ? words == 3 || words == 5 || (words == 6 && edit.word(4) != "over") : words != 3)
    edit.fail(edit.word(2), "expected a number of iterations, next LOOP [over LOOP], or row LOOP");
  const Expr outer = is_next ? edit.loop(edit.word(3)) : Expr(), over = words == 6 ? edit.loop(edit.word(5)) : Expr();
  edit.replace_loops(loop, [&](const For& f, const LoopScope& scope) {
    for (Expr around : {outer, over}) {
      if (around &&
          std::none_of(scope.loops().begin(), scope.loops().end(), [&](const LoopRange& l) { return l.var == around; }))
        edit.fail("loop " + loop_name(around), fmt::format("loop {} is not inside of it", loop_name(loop)));
    }
    const Prefetcher prefetcher(edit, f);
    return is_next ? prefetcher.next(outer, over) : prefetcher.ahead(edit.number(2, 1, kMost));
  });
  return std::move(edit.kernel);
}

}  // namespace stax::loop
