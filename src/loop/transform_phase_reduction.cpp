// SPDX-License-Identifier: Apache-2.0
// phase_reduction r p2 first -> s [every 4 turn]
//
// Each result of a nest is one reduction; where there are few results, few iterations can run at once. The reduction is cut into parts of p2 elements (a
// parameter of the kernel), each with a result of its own; a second nest combines them, in order:
//
//   for i in m { allocate acc[] { acc[] = 0; for r in n { acc[] sum= x[i, r] }; y[i] = f(acc[]) } }
//   -> allocate part[ceil(n/p2), m] {
//        for s in ceil(n/p2) { for i_t in m { allocate acc_t[] {
//          acc_t[] = 0; for r_t in min(p2, n - s*p2) { acc_t[] sum= x[i_t, s*p2 + r_t] }; part[s, i_t] = acc_t[] } } }
//        for i in m { allocate acc[] { acc[] = 0; for s_t in ceil(n/p2) { acc[] sum= part[s_t, i] }; y[i] = f(acc[]) } }
//      }
//
// The axis of the parts is the partial results' first one, or, with `last`, the last: then those of one result are neighbours. The order in which elements are
// combined is fixed by p2; it differs from the order before.
//
// Rows of any length begin anywhere, but every fourth one is whole vectors away from the first, whatever the length is. With `every 4 turn`, a part's
// iterations go in four turns, each of which has a result of its own; the turns and the loop inside of them go over four rows that are one in memory.
// What is left of n over a multiple of 4 is added behind them:
//
//   -> allocate part[ceil(n/4/p2), 4, m] {
//        for s in ceil(n/4/p2) { for turn in 4 { for i_t in m { allocate acc_t[] {
//          acc_t[] = 0; for r_t in min(p2, n/4 - s*p2) { acc_t[] sum= x[(s*p2 + r_t)*4 + turn, i_t] }; part[s, turn, i_t] = acc_t[] } } } }
//        for i in m { allocate acc[] { acc[] = 0;
//          for s_t in ceil(n/4/p2) { for turn_t in 4 { acc[] sum= part[s_t, turn_t, i] } };
//          for turn_rest in n mod 4 { acc[] sum= x[n/4*4 + turn_rest, i] };
//          y[i] = f(acc[]) } }
//      }
#include <fmt/format.h>

#include <algorithm>

#include "loop/dependence.h"
#include "loop/transform_step.h"

namespace stax::loop {

namespace {

class ReductionPhases {
 public:
  explicit ReductionPhases(Edit& edit) : edit_(edit), r_(edit.loop(edit.word(0))) {}

  Stmt run() {
    find_nest();
    const Expr chunk = edit_.parameter(1);
    const bool is_last = edit_.word(2) == "last", has_turns = edit_.step.words.size() > 4;
    if (!is_last && edit_.word(2) != "first") fail("the axis of its parts is the first or the last");
    if (has_turns && (edit_.step.words.size() != 7 || edit_.word(4) != "every"))
      fail("expected every, a number, a loop");
    ir::Context& context = edit_.context();
    auto& scalars = context.scalars;
    const Buffer acc = edit_.kernel.buffers[static_cast<size_t>(acc_)];
    const int64_t turns = has_turns ? edit_.number(5, 2, 1024) : 1;
    const Expr count = trip_count(loop_->extent), steps = symbolic::floordiv(count, turns);
    const Expr parts = symbolic::ceildiv(steps, chunk);

    // The part of each result that lies in one chunk, and is one turn's.
    NestCopier copier(edit_);
    const Stmt own = copier.copy(loop_->body);
    const int own_acc = edit_.new_local(acc.name + "_t", acc.dtype, {});
    const Expr s = edit_.new_loop(edit_.word(3), parts), t = edit_.fresh_loop(edit_.word(3) + "_t", parts);
    const Expr length = symbolic::min(chunk, steps - s * chunk);
    const Expr step = edit_.fresh_loop(loop_name(r_) + "_t", length);
    std::vector<Expr> extents;
    std::vector<Scalar> from, to;  // places in the partial results, as the second and as the first nest say them
    std::vector<For> around;
    symbolic::Substitution moved;
    for (const For& f : outer_) {
      extents.push_back(f.extent);
      const Expr copy = edit_.fresh_loop(loop_name(f.var) + "_t", f.extent);
      around.push_back({copy, f.extent, LoopKind::kSerial, 0, nullptr});
      moved[f.var.node()] = copy;
      from.push_back(scalars.index(f.var));
      to.push_back(scalars.index(copy));
    }
    // An axis of what is between the nests, of which the first one makes iteration `made` and the second reads iteration `used`.
    const auto add = [&](size_t place, Expr extent, Expr made, Expr used) {
      const auto at = static_cast<std::ptrdiff_t>(place);
      extents.insert(extents.begin() + at, extent);
      from.insert(from.begin() + at, scalars.index(used));
      to.insert(to.begin() + at, scalars.index(made));
      around.insert(around.begin() + at, For{made, extent, LoopKind::kSerial, 0, nullptr});
    };
    Expr at = s * chunk + step, used_turn;
    if (has_turns) {
      const Expr all = context.exprs.constant(turns), turn = edit_.new_loop(edit_.word(6), all);
      used_turn = edit_.fresh_loop(edit_.word(6) + "_t", all);
      add(outer_.empty() ? 0 : outer_.size() - 1, all, turn, used_turn);
      at = at * turns + turn;
    }
    add(is_last ? around.size() : 0, parts, s, t);
    moved[r_.node()] = at;
    part_ = edit_.new_local(acc.name + "_part", acc.dtype, extents);
    Stmt body = map_accesses(own, acc_, own_acc, [](const std::vector<Scalar>& index) { return index; });
    body = make(For{step, length, LoopKind::kSerial, 0, substitute(body, moved)});
    Block first{{make(Store{own_acc, {}, neutral(context, combiner_, acc.dtype)}), std::move(body),
                 make(Store{part_, to, scalars.load(own_acc, acc.dtype, std::vector<Scalar>{})})}};
    Stmt one = make(Allocate{own_acc, make(std::move(first))});
    for (size_t d = around.size(); d-- > 0;) {
      around[d].body = std::move(one);
      one = make(around[d]);
    }

    // And what all parts of it are together, with what is left.
    Block second = *nest_;
    Stmt together = make(Update{acc_, {}, combiner_, scalars.load(part_, acc.dtype, from)});
    if (has_turns) together = make(For{used_turn, context.exprs.constant(turns), LoopKind::kSerial, 0, together});
    second.statements[at_] = make(For{t, parts, LoopKind::kSerial, 0, std::move(together)});
    const Expr left = symbolic::mod(count, turns);
    if (has_turns && !left.is_constant(0)) {
      const Expr rest = edit_.fresh_loop(edit_.word(6) + "_rest", left);
      Stmt added = substitute(loop_->body, {{r_.node(), steps * turns + rest}});
      second.statements.insert(second.statements.begin() + static_cast<std::ptrdiff_t>(at_) + 1,
                               make(For{rest, left, LoopKind::kSerial, 0, std::move(added)}));
    }
    Stmt all = make(Allocate{acc_, make(std::move(second))});
    for (size_t d = outer_.size(); d-- > 0;) {
      For f = outer_[d];
      f.body = std::move(all);
      all = make(std::move(f));
    }
    return make(Allocate{part_, make(Block{{std::move(one), std::move(all)}})});
  }

 private:
  [[noreturn]] void fail(const std::string& reason) const { edit_.fail("loop " + loop_name(r_), reason); }

  /// Loops around one accumulator, in whose block the loop stands.
  void find_nest() {
    Stmt at = edit_.kernel.body;
    LoopScope scope;
    for (; const auto* f = at->as<For>(); at = f->body) {
      edit_.require_kind(*f, LoopKind::kSerial);
      for (const For& o : outer_)
        if (symbolic::depends_on(f->extent, o.var)) fail("the loops around it depend on each other");
      outer_.push_back(*f);
      scope.push(f->var, f->extent);
    }
    const auto* allocate = at->as<Allocate>();
    nest_ = allocate == nullptr ? nullptr : allocate->body->as<Block>();
    if (nest_ == nullptr) fail("it is not in a sequence inside of the only accumulator");
    acc_ = allocate->slot;
    for (at_ = 0; at_ < nest_->statements.size(); ++at_) {
      loop_ = nest_->statements[at_]->as<For>();
      if (loop_ != nullptr && loop_->var == r_) break;
    }
    if (at_ == nest_->statements.size()) fail("it is not in a sequence inside of the only accumulator");
    edit_.require_kind(*loop_, LoopKind::kSerial);
    for (const For& o : outer_)
      if (symbolic::depends_on(loop_->extent, o.var)) fail("its extent depends on the loops around it");
    if (!edit_.kernel.buffers[static_cast<size_t>(acc_)].extents.empty()) fail("the accumulator is no scalar");
    if (const std::string d = find_dependence(edit_.kernel, *loop_, scope, Reduction::kAny); !d.empty())
      fail("its iterations are not independent: " + d);
    int updates = 0;
    for (const Access& a : accesses_in(loop_->body)) {
      if (a.kind == AccessKind::kLoad && a.slot != acc_) continue;
      if (a.kind != AccessKind::kUpdate || a.slot != acc_) fail("it does more than update the accumulator");
      combiner_ = a.combiner;
      ++updates;
    }
    if (updates != 1) fail("it does not update the accumulator at one place");
  }

  Edit& edit_;
  const Expr r_;
  std::vector<For> outer_;
  const Block* nest_ = nullptr;
  size_t at_ = 0;  // the loop's place in it
  const For* loop_ = nullptr;
  int acc_ = 0, part_ = 0;
  Combiner combiner_ = Combiner::kSum;
};

}  // namespace

Kernel phase_reduction(Edit edit) {
  edit.kernel.body = ReductionPhases(edit).run();
  return std::move(edit.kernel);
}

}  // namespace stax::loop
