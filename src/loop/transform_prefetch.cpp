// SPDX-License-Identifier: Apache-2.0
// prefetch 1 r 8
// prefetch 1 r next c over o
//
// A register tile streams panels of weights, each once for every tile of rows. The processor's own prefetching begins anew at each panel, and has
// nothing to do while later tiles of rows read the panel from a near cache. So each iteration hints a little of what comes next:
//
//   for c { for o { for r in K { .. b[c, r, j] .. } } }            j < 32, contiguous
//   -> for c { for o { for r in K { prefetch 2 %1[c + 1, 0, (o*K + r)*w]; .. } } }      w = ceil(32 / extent(o))
//
// The tiles of rows share the next panel evenly, and memory is busy all the time.
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

}  // namespace

Kernel prefetch(Edit edit) {
  constexpr int64_t kMost = int64_t{1} << 20;
  const Expr loop = edit.loop(edit.word(1));
  const size_t words = edit.step.words.size();
  const bool is_next = edit.word(2) == "next";
  if (is_next ? words == 3 || words == 5 || (words == 6 && edit.word(4) != "over") : words != 3)
    edit.fail(edit.word(2), "expected a number of iterations, or next LOOP [over LOOP]");
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
