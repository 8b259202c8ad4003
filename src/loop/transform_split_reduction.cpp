// SPDX-License-Identifier: Apache-2.0
// split_reduction r 4 -> ro ri [outside]
//
// One accumulator makes each addition wait for the one before. Four accumulators break the chain (and make four lanes
// of a vector):
//
//   for r in n { acc[] sum= x[r] }
//   -> allocate part[4] {
//        for ri_0 in 4 { part[ri_0] = 0 };
//        for ro in n/4 { for ri in 4 { part[ri] sum= x[ro*4 + ri] } };
//        for ri_t in n mod 4 { part[ri_t] sum= x[(n/4)*4 + ri_t] };
//        for ri_1 in 4 { acc[] sum= part[ri_1] }
//      }
//
// outside: ri is around ro, which goes to the end, and nobody but an iteration of ri touches its accumulators, so that threads keep them in
// registers: what is combined is a copy.
//
//   -> .. for ri in 4 { for ro in (n - ri + 3)/4 { part[ri] sum= x[ro*4 + ri] } }; for ri_0 in 4 { parts[ri_0] = part[ri_0] }; ..
//
// The order in which partial results are combined is fixed; it differs from the order before. A local accumulator that
// is an array gets partial arrays; of a global buffer, one location may be updated.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "loop/dependence.h"
#include "loop/transform_step.h"

namespace stax::loop {

namespace {

struct Partial {
  Combiner combiner = Combiner::kSum;
  std::vector<Scalar> location;  // of a global buffer
  int partial = 0;               // slot
};

class ReductionSplitter {
 public:
  ReductionSplitter(Edit& edit, const For& loop, const LoopScope& outer) : edit_(edit), loop_(loop) {
    const std::string dependence = find_dependence(edit.kernel, loop, outer, Reduction::kAny);
    if (!dependence.empty()) fail("its iterations are not independent: " + dependence);
    collect();
  }

  bool updates_nothing() const { return reductions_.empty(); }

  Stmt run(Expr ro, Expr ri, int64_t factor, bool outside) {
    ir::Context& context = edit_.context();
    const Expr lanes = context.exprs.constant(factor), count = trip_count(loop_.extent);
    const Expr whole = symbolic::floordiv(count, factor), left = symbolic::mod(count, factor);
    Block first, copies, last;
    std::vector<int> made;
    for (auto& [slot, r] : reductions_) {
      const Buffer buffer = edit_.kernel.buffers[slot];
      std::vector<Expr> extents{lanes};
      if (buffer.scope == Scope::kLocal) extents.insert(extents.end(), buffer.extents.begin(), buffer.extents.end());
      r.partial = edit_.new_local(buffer.name + "_part", buffer.dtype, extents);
      made.push_back(r.partial);
      int combined = r.partial;
      if (outside) {
        combined = edit_.new_local(buffer.name + "_parts", buffer.dtype, extents);
        made.push_back(combined);
        copies.statements.push_back(over_partial(r.partial, [&, &reduction = r](const std::vector<Scalar>& at) {
          return make(Store{combined, at, context.scalars.load(reduction.partial, buffer.dtype, at)});
        }));
      }
      first.statements.push_back(over_partial(r.partial, [&, &reduction = r](const std::vector<Scalar>& at) {
        return make(Store{reduction.partial, at, neutral(context, reduction.combiner, buffer.dtype)});
      }));
      last.statements.push_back(
          over_partial(r.partial, [&, slot = slot, &reduction = r](const std::vector<Scalar>& at) {
            std::vector<Scalar> to = reduction.location;
            if (buffer.scope == Scope::kLocal) to.assign(at.begin() + 1, at.end());
            return make(Update{slot, to, reduction.combiner, context.scalars.load(combined, buffer.dtype, at)});
          }));
    }
    Block all{{make(std::move(first))}};
    Stmt steady = substitute(to_partial(loop_.body, ri), {{loop_.var.node(), ro * factor + ri}});
    if (outside) {
      steady =
          make(For{ro, symbolic::floordiv(count - ri + (factor - 1), factor), LoopKind::kSerial, 0, std::move(steady)});
      all.statements.push_back(make(For{ri, lanes, LoopKind::kSerial, 0, std::move(steady)}));
      all.statements.push_back(make(std::move(copies)));
    } else {
      steady = make(For{ri, lanes, LoopKind::kSerial, 0, std::move(steady)});
      all.statements.push_back(make(For{ro, whole, LoopKind::kSerial, 0, std::move(steady)}));
      NestCopier copier(edit_);
      const Expr rt = edit_.fresh_loop(loop_name(ri) + "_t", left);
      Stmt tail = substitute(to_partial(copier.copy(loop_.body), rt), {{loop_.var.node(), whole * factor + rt}});
      all.statements.push_back(make(For{rt, left, LoopKind::kSerial, 0, std::move(tail)}));
    }
    // Where nothing is added, the location in a global buffer may not even exist.
    Stmt combination = make(std::move(last));
    const Expr any = symbolic::less(context.exprs.constant(0), count);
    const bool in_global = std::any_of(reductions_.begin(), reductions_.end(), [&](const auto& r) {
      return edit_.kernel.buffers[r.first].scope == Scope::kGlobal;
    });
    if (in_global && !any.is_constant(1))
      combination = make(If{condition_of(context, any), std::move(combination), {}});
    all.statements.push_back(std::move(combination));
    Stmt result = make(std::move(all));
    for (const int slot : made) result = make(Allocate{slot, std::move(result)});
    return result;
  }

 private:
  [[noreturn]] void fail(const std::string& reason) const { edit_.fail("loop " + loop_name(loop_.var), reason); }

  // The slots that are updated at locations that do not depend on the loop.
  void collect() {
    const std::vector<int> priv = slots_allocated_in(loop_.body);
    for (const Access& a : accesses_in(loop_.body)) {
      if (a.kind != AccessKind::kUpdate || std::find(priv.begin(), priv.end(), a.slot) != priv.end()) continue;
      const auto varies = [&](Expr var) {
        return std::any_of(a.index.begin(), a.index.end(), [&](Scalar i) { return depends_on(i, var); });
      };
      const Buffer& buffer = edit_.kernel.buffers[a.slot];
      if (varies(loop_.var)) fail(fmt::format("the location that it updates in buffer {} depends on it", buffer.name));
      const auto [found, is_new] = reductions_.try_emplace(a.slot, Partial{a.combiner, a.index, 0});
      if (!is_new && found->second.combiner != a.combiner) {
        fail(fmt::format("buffer {} is updated by {} and {}", buffer.name, name_of(found->second.combiner),
                         name_of(a.combiner)));
      }
      if (buffer.scope == Scope::kLocal) continue;
      std::vector<int> changing = slots_written_in(loop_.body);
      changing.insert(changing.end(), priv.begin(), priv.end());
      if (std::any_of(a.index.begin(), a.index.end(), [&](Scalar i) { return reads_any(i, changing); })) {
        fail(fmt::format("the location that it updates in buffer {} is computed in it", buffer.name));
      }
      const bool moves = std::any_of(a.loops.begin(), a.loops.end(), [&](const LoopRange& l) { return varies(l.var); });
      if (moves || !(found->second.location == a.index)) {
        fail(fmt::format("it updates more than one location of global buffer {}", buffer.name));
      }
      if (!is_unconditional(loop_.body, a.slot))
        fail(fmt::format("it may leave global buffer {} as it is", buffer.name));
    }
    for (const Access& a : accesses_in(loop_.body)) {
      if (a.kind != AccessKind::kUpdate && reductions_.contains(a.slot)) {
        fail(fmt::format("buffer {} is not only updated in it", edit_.kernel.buffers[a.slot].name));
      }
    }
  }

  // Whether each iteration updates the slot.
  static bool is_unconditional(const Stmt& s, int slot) {
    if (const Update* u = s->as<Update>()) return u->slot == slot;
    if (const Allocate* a = s->as<Allocate>()) return is_unconditional(a->body, slot);
    if (const For* f = s->as<For>()) return f->extent.range().lo >= 1 && is_unconditional(f->body, slot);
    const Block* b = s->as<Block>();
    return b != nullptr && std::any_of(b->statements.begin(), b->statements.end(),
                                       [&](const Stmt& each) { return is_unconditional(each, slot); });
  }

  Stmt over_partial(int partial, const std::function<Stmt(const std::vector<Scalar>&)>& body) {
    std::vector<Scalar> at;
    std::vector<For> loops;
    for (Expr extent : edit_.kernel.buffers[partial].extents) {
      const Expr var = edit_.fresh_loop(fmt::format("{}_{}", edit_.word(3), added_++), extent);
      at.push_back(edit_.context().scalars.index(var));
      loops.push_back({var, extent, LoopKind::kSerial, 0, nullptr});
    }
    Stmt result = body(at);
    for (size_t d = loops.size(); d-- > 0;) {
      loops[d].body = std::move(result);
      result = make(loops[d]);
    }
    return result;
  }

  Stmt to_partial(Stmt body, Expr lane) {
    const Scalar at = edit_.context().scalars.index(lane);
    for (const auto& [slot, r] : reductions_) {
      const bool is_local = edit_.kernel.buffers[slot].scope == Scope::kLocal;
      body = map_accesses(body, slot, r.partial, [&](std::vector<Scalar> index) {
        if (!is_local) index.clear();
        index.insert(index.begin(), at);
        return index;
      });
    }
    return body;
  }

  Edit& edit_;
  const For& loop_;
  std::map<int, Partial> reductions_;  // by slot
  int added_ = 0;
};

}  // namespace

Kernel split_reduction(Edit edit) {
  const Expr r = edit.loop(edit.word(0));
  const int64_t factor = edit.number(1, 1, 4096);
  const Expr count = trip_count(edit.common_extent(r));
  const bool outside = edit.step.words.size() == 5;
  if (outside && edit.word(4) != "outside") edit.fail(edit.word(4), "expected outside");
  const Expr ro =
      edit.new_loop(edit.word(2), outside ? symbolic::ceildiv(count, factor) : symbolic::floordiv(count, factor));
  const Expr ri = edit.new_loop(edit.word(3), edit.context().exprs.constant(factor));
  bool found = false;
  edit.replace_loops(r, [&](const For& loop, const LoopScope& outer) {
    edit.require_kind(loop, LoopKind::kSerial);
    ReductionSplitter splitter(edit, loop, outer);
    if (splitter.updates_nothing()) return make(loop);
    found = true;
    return splitter.run(ro, ri, factor, outside);
  });
  if (!found) edit.fail("loop " + loop_name(r), "it updates nothing");
  return std::move(edit.kernel);
}

}  // namespace stax::loop
