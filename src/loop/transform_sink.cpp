// SPDX-License-Identifier: Apache-2.0
// sink i
//
// A register tile needs the loop over it innermost, around each single statement, while the accumulator that was one
// value per iteration becomes an array over the loop:
//
//   for i in 8 { allocate acc { acc[] = 0; for r { acc[] sum= x[i, r] }; y[i] = acc[] } }
//   -> allocate acc[8] { for i { acc[i] = 0 }; for r { for i { acc[i] sum= x[i, r] } }; for i { y[i] = acc[i] } }
//
// The loop moves inward one statement at a time: it is distributed over a sequence, changes places with a loop, and
// leaves a local buffer behind with a new innermost axis. A condition that does not depend on it stays outside; one
// that does goes along, to each of the statements below it. All of this only changes the order in which whole
// iterations do their parts, so what has to hold is that the iterations are independent (updates of one location may
// change their order). In front of the loops that are named behind `above` it stops.
#include <fmt/format.h>

#include <algorithm>

#include "loop/dependence.h"
#include "loop/transform_step.h"

namespace stax::loop {

namespace {

class Sinker {
 public:
  /// `above`: variables of loops that it stays outside of.
  Sinker(Edit& edit, const For& loop, const LoopScope& outer, bool apart, const std::vector<Expr>& above)
      : edit_(edit), loop_(loop), scope_(outer), apart_(apart), above_(above) {
    visit(edit.kernel.body, [&](const Stmt& s) {
      if (const Allocate* a = s->as<Allocate>()) ++allocations_[a->slot];
    });
    visit(loop.body, [&](const Stmt& s) {
      if (const Allocate* a = s->as<Allocate>()) ++allocations_inside_[a->slot];
    });
  }

  Stmt push(const Stmt& s) {
    return std::visit(Overloaded{
                          [&](const For& f) { return stays_above(f) ? wrap(s) : push_loop(f); },
                          [&](const Block& b) -> Stmt {
                            Block copy;
                            for (const Stmt& each : b.statements) copy.statements.push_back(push(each));
                            return make(std::move(copy));
                          },
                          [&](const Store&) { return wrap(s); },
                          [&](const Update&) { return wrap(s); },
                          [&](const Prefetch&) { return wrap(s); },
                          [&](const If& i) { return push_condition(s, i); },
                          [&](const Allocate& a) { return push_allocate(a); },
                          [&](const Fence&) { return s; },
                      },
                      s->v);
  }

 private:
  [[noreturn]] void fail(const std::string& reason) const { edit_.fail("loop " + loop_name(loop_.var), reason); }

  Stmt wrap(const Stmt& s) const {
    For copy = loop_;
    copy.body = s;
    return make(std::move(copy));
  }

  bool stays_above(const For& f) const {
    return std::any_of(above_.begin(), above_.end(), [&](Expr var) { return var == f.var; });
  }

  Stmt push_loop(const For& f) {
    if (symbolic::depends_on(f.extent, loop_.var)) {
      fail(fmt::format("the extent {} of loop {} depends on it", f.extent.str(), loop_name(f.var)));
    }
    if (f.kind != LoopKind::kSerial && f.kind != LoopKind::kUnrolled) {
      fail(fmt::format("it cannot go into the {} loop {}", name_of(f.kind), loop_name(f.var)));
    }
    For copy = f;
    scope_.push(f.var, f.extent);
    copy.body = push(f.body);
    scope_.pop();
    return make(std::move(copy));
  }

  Stmt push_condition(const Stmt& s, const If& i) {
    const bool varies = depends_on(i.condition, loop_.var) || reads_any(i.condition, slots_written_in(loop_.body)) ||
                        reads_any(i.condition, slots_allocated_in(loop_.body));
    if (!varies) {
      Stmt then_body = push(i.then_body);
      return make(If{i.condition, std::move(then_body), i.else_body ? push(i.else_body) : Stmt()});
    }
    if (is_plain(s)) return wrap(s);
    Block parts;
    parts.statements.push_back(push(guard(i.then_body, i.condition)));
    if (i.else_body) parts.statements.push_back(push(guard(i.else_body, logical_not(i.condition))));
    return make(std::move(parts));
  }

  // Single statements under conditions.
  static bool is_plain(const Stmt& s) {
    if (const If* i = s->as<If>()) return is_plain(i->then_body) && (!i->else_body || is_plain(i->else_body));
    return s->as<Store>() != nullptr || s->as<Update>() != nullptr || s->as<Prefetch>() != nullptr;
  }

  // The condition in front of each plain statement of `s`.
  Stmt guard(const Stmt& s, Scalar condition) {
    if (reads_any(condition, slots_written_in(s))) {
      fail("the condition " + condition.str() + " reads what is written below it");
    }
    return std::visit(
        Overloaded{
            [&](const For& f) -> Stmt {
              For copy = f;
              copy.body = guard(f.body, condition);
              return make(std::move(copy));
            },
            [&](const Block& b) -> Stmt {
              Block copy;
              for (const Stmt& each : b.statements) copy.statements.push_back(guard(each, condition));
              return make(std::move(copy));
            },
            [&](const Store&) { return make(If{condition, s, {}}); },
            [&](const Update&) { return make(If{condition, s, {}}); },
            [&](const Prefetch&) { return make(If{condition, s, {}}); },
            [&](const If& i) -> Stmt {
              if (is_plain(s)) return make(If{condition, s, {}});
              if (ir::has_load(i.condition)) {
                fail("the condition " + i.condition.str() + " stands under one that depends on it");
              }
              Stmt then_body = guard(i.then_body, condition);
              return make(If{i.condition, std::move(then_body), i.else_body ? guard(i.else_body, condition) : Stmt()});
            },
            [&](const Allocate& a) { return make(Allocate{a.slot, guard(a.body, condition)}); },
            [&](const Fence&) { return s; },
        },
        s->v);
  }

  Stmt push_allocate(const Allocate& a) {
    const Expr extent = local_extent(loop_.extent, scope_);
    if (!extent) fail(fmt::format("no bound of its extent {} is known from parameters alone", loop_.extent.str()));
    // A slot that lives elsewhere, too, keeps its shape there.
    int slot = a.slot;
    if (allocations_[a.slot] > allocations_inside_[a.slot]) {
      slot = static_cast<int>(edit_.kernel.buffers.size());
      edit_.kernel.buffers.push_back(edit_.kernel.buffers[a.slot]);
    }
    if (std::find(widened_.begin(), widened_.end(), slot) == widened_.end()) {
      Buffer& buffer = edit_.kernel.buffers[slot];
      buffer.extents.insert(apart_ ? buffer.extents.begin() : buffer.extents.end(), extent);
      buffer.strides.clear();
      widened_.push_back(slot);
    }
    const Scalar var = edit_.context().scalars.index(loop_.var);
    const Stmt body = map_accesses(a.body, a.slot, slot, [&](std::vector<Scalar> index) {
      index.insert(apart_ ? index.begin() : index.end(), var);
      return index;
    });
    return make(Allocate{slot, push(body)});
  }

  Edit& edit_;
  const For& loop_;
  LoopScope scope_;
  std::unordered_map<int, int> allocations_, allocations_inside_;
  std::vector<int> widened_;
  bool apart_;  // the new axis of buffers is their outermost
  const std::vector<Expr>& above_;
};

}  // namespace

Kernel sink(Edit edit) {
  const Expr i = edit.loop(edit.word(0));
  size_t next = 1;
  const bool apart = edit.step.words.size() > next && edit.word(next) == "apart";
  if (apart) ++next;
  std::vector<Expr> above;
  if (edit.step.words.size() > next) {
    if (edit.word(next) != "above" || edit.step.words.size() == next + 1)
      edit.fail(edit.word(next), apart ? "expected above and loops" : "expected apart, or above and loops");
    while (++next < edit.step.words.size()) above.push_back(edit.loop(edit.word(next)));
  }
  edit.common_extent(i);
  edit.replace_loops(i, [&](const For& loop, const LoopScope& outer) {
    edit.require_kind(loop, LoopKind::kSerial);
    const std::string dependence = find_dependence(edit.kernel, loop, outer, Reduction::kAny);
    if (!dependence.empty()) edit.fail("loop " + loop_name(i), "its iterations are not independent: " + dependence);
    return Sinker(edit, loop, outer, apart, above).push(loop.body);
  });
  return std::move(edit.kernel);
}

}  // namespace stax::loop
