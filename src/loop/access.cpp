// SPDX-License-Identifier: Apache-2.0
#include "loop/access.h"

#include <algorithm>

#include "support/error.h"

namespace stax::loop {

using symbolic::ExprKind;
using symbolic::Interval;
using symbolic::Truth;

// ---- Scalars of statements

void visit_scalars(const StmtNode& statement, const std::function<void(Scalar)>& f) {
  const auto access = [&](const auto& s) {
    for (Scalar i : s.index) f(i);
    f(s.value);
  };
  std::visit(Overloaded{
                 [](const For&) {},
                 [](const Block&) {},
                 [&](const Store& s) { access(s); },
                 [&](const Update& s) { access(s); },
                 [&](const If& s) { f(s.condition); },
                 [](const Allocate&) {},
                 [&](const Prefetch& s) {
                   for (Scalar i : s.index) f(i);
                 },
                 [](const Fence&) {},
             },
             statement.v);
}

Stmt map_scalars(const Stmt& statement, const std::function<Scalar(Scalar)>& f) {
  const auto access = [&](auto copy) -> Stmt {
    bool changed = false;
    const auto replace = [&](Scalar& x) {
      const Scalar y = f(x);
      changed |= !(y == x);
      x = y;
    };
    for (Scalar& i : copy.index) replace(i);
    if constexpr (!std::is_same_v<decltype(copy), Prefetch>) replace(copy.value);
    return changed ? make(std::move(copy)) : statement;
  };
  if (const Store* s = statement->as<Store>()) return access(*s);
  if (const Update* s = statement->as<Update>()) return access(*s);
  if (const Prefetch* s = statement->as<Prefetch>()) return access(*s);
  if (const If* s = statement->as<If>()) {
    const Scalar condition = f(s->condition);
    return condition == s->condition ? statement : make(If{condition, s->then_body, s->else_body});
  }
  return statement;
}

bool depends_on(Scalar root, Expr symbol) {
  bool found = false;
  ir::visit(root, [&](Scalar x) {
    if (!found && x->kind == ir::ScalarKind::kIndex) found = symbolic::depends_on(x->index, symbol);
  });
  return found;
}

bool loads_from(Scalar root, int slot) { return reads_any(root, {slot}); }

bool reads_any(Scalar root, const std::vector<int>& slots) {
  bool found = false;
  ir::visit(root, [&](Scalar x) {
    found |= x->kind == ir::ScalarKind::kLoad && std::find(slots.begin(), slots.end(), x->slot) != slots.end();
  });
  return found;
}

Scalar condition_of(ir::Context& context, Expr truth) { return ir::cast(DType::kBool, context.scalars.index(truth)); }

Expr condition_expr(Scalar condition) {
  if (condition->dtype != DType::kBool) return {};
  if (condition->kind == ir::ScalarKind::kCast) return ir::as_expr(condition->args[0]);
  if (condition->kind == ir::ScalarKind::kConstant) {
    return condition->table->exprs().constant(condition->as_int() != 0 ? 1 : 0);
  }
  return {};
}

Scalar logical_not(Scalar condition) {
  if (const Expr e = condition_expr(condition)) {
    return ir::cast(DType::kBool, condition->table->index(symbolic::equal(e, 0)));
  }
  return ir::unary(ir::ScalarOp::kNot, condition);
}

// ---- Accesses

namespace {

void collect_loads(Scalar root, const std::vector<LoopRange>& loops, std::vector<Access>& out) {
  ir::visit(root, [&](Scalar x) {
    if (x->kind == ir::ScalarKind::kLoad) out.push_back({AccessKind::kLoad, Combiner::kSum, x->slot, x->args, loops});
  });
}

void collect_accesses(const Stmt& s, std::vector<LoopRange>& loops, std::vector<Access>& out) {
  visit_scalars(*s, [&](Scalar x) { collect_loads(x, loops, out); });
  std::visit(Overloaded{
                 [&](const For& f) {
                   loops.push_back({f.var, f.extent});
                   collect_accesses(f.body, loops, out);
                   loops.pop_back();
                 },
                 [&](const Block& b) {
                   for (const Stmt& each : b.statements) collect_accesses(each, loops, out);
                 },
                 [&](const Store& w) { out.push_back({AccessKind::kStore, Combiner::kSum, w.slot, w.index, loops}); },
                 [&](const Update& w) { out.push_back({AccessKind::kUpdate, w.combiner, w.slot, w.index, loops}); },
                 [&](const If& i) {
                   collect_accesses(i.then_body, loops, out);
                   if (i.else_body) collect_accesses(i.else_body, loops, out);
                 },
                 [&](const Allocate& a) { collect_accesses(a.body, loops, out); },
                 [](const Prefetch&) {},
                 [](const Fence&) {},
             },
             s->v);
}

}  // namespace

std::vector<Access> accesses_in(const Stmt& root) {
  std::vector<Access> result;
  std::vector<LoopRange> loops;
  collect_accesses(root, loops, result);
  return result;
}

std::vector<int> slots_allocated_in(const Stmt& root) {
  std::vector<int> slots;
  visit(root, [&](const Stmt& s) {
    const Allocate* a = s->as<Allocate>();
    if (a != nullptr && std::find(slots.begin(), slots.end(), a->slot) == slots.end()) slots.push_back(a->slot);
  });
  return slots;
}

std::vector<int> slots_written_in(const Stmt& root) {
  std::vector<int> slots;
  visit(root, [&](const Stmt& s) {
    if (const Store* w = s->as<Store>()) slots.push_back(w->slot);
    if (const Update* w = s->as<Update>()) slots.push_back(w->slot);
  });
  std::sort(slots.begin(), slots.end());
  slots.erase(std::unique(slots.begin(), slots.end()), slots.end());
  return slots;
}

// ---- Bounds

void LoopScope::push(Expr var, Expr extent) {
  loops_.push_back({var, extent});
  above_least_before_.push_back(above_least_.size());
  if (extent.is_constant()) return;
  symbolic::visit(extent, [&](Expr e) {
    if (!e.is_symbol() && e.kind() != ExprKind::kFloorDiv) return;
    const int64_t least = e.range().lo;
    if (least == symbolic::kNegInf || range(e).lo != least) return;
    const Expr without = symbolic::substitute(extent, {{e.node(), e.table().constant(least)}});
    if (without.range().hi <= 0) above_least_.push_back(e);
  });
}

void LoopScope::pop() {
  loops_.pop_back();
  above_least_.resize(above_least_before_.back());
  above_least_before_.pop_back();
}

Interval LoopScope::range(Expr e) const {
  Interval r = e.range();
  if (std::find(above_least_.begin(), above_least_.end(), e) != above_least_.end()) ++r.lo;
  return r;
}

namespace {

bool depends_on_any(Expr e, const std::vector<LoopRange>& loops) {
  return std::any_of(loops.begin(), loops.end(), [&](const LoopRange& l) { return symbolic::depends_on(e, l.var); });
}

Expr expr_of(const symbolic::Polynomial& p, symbolic::ExprTable& table) {
  std::vector<Expr> terms{table.constant(p.constant)};
  for (const symbolic::Term& term : p.terms) {
    std::vector<Expr> factors = term.factors;
    factors.push_back(table.constant(term.coefficient));
    terms.push_back(table.make(ExprKind::kMul, std::move(factors)));
  }
  return table.make(ExprKind::kAdd, std::move(terms));
}

}  // namespace

void LoopScope::assume(Expr condition, bool holds) {
  known_.emplace_back(condition, holds);
  // A conjunction that holds, a disjunction that does not.
  const ExprKind kind = holds ? ExprKind::kMin : ExprKind::kMax;
  if (condition.kind() == kind) {
    for (Expr part : condition.args()) known_.emplace_back(part, holds);
  }
}

Expr LoopScope::bound_over(Expr e, const LoopRange& loop, bool up) const {
  symbolic::ExprTable& table = e.table();
  if (!symbolic::depends_on(e, loop.var)) return e;
  if (e == loop.var) return up ? loop.extent - 1 : table.constant(0);
  const auto fallback = [&]() -> Expr {
    const Interval r = e.range();
    if (up ? r.hi == symbolic::kPosInf : r.lo == symbolic::kNegInf) return {};
    return table.constant(up ? r.hi : r.lo);
  };
  const std::span<const Expr> args = e.args();
  switch (e.kind()) {
    case ExprKind::kConstant:
    case ExprKind::kSymbol: return e;
    case ExprKind::kAdd:
    case ExprKind::kMin:
    case ExprKind::kMax: {
      std::vector<Expr> bounds;
      for (Expr arg : args) {
        bounds.push_back(bound_over(arg, loop, up));
        if (!bounds.back()) return fallback();
      }
      return table.make(e.kind(), std::move(bounds));
    }
    case ExprKind::kMul: {
      // Invariant factors of known sign, and one that varies; or several that vary and are not negative.
      Expr invariant = table.constant(1);
      std::vector<Expr> varying;
      for (Expr arg : args) {
        if (symbolic::depends_on(arg, loop.var)) {
          varying.push_back(arg);
        } else {
          invariant = invariant * arg;
        }
      }
      const Interval sign = invariant.range();
      if (sign.lo < 0 && sign.hi > 0) return fallback();
      const bool inner_up = sign.lo >= 0 ? up : !up;
      if (varying.size() > 1 && std::any_of(varying.begin(), varying.end(), [](Expr v) { return v.range().lo < 0; })) {
        return fallback();
      }
      for (Expr v : varying) {
        const Expr b = bound_over(v, loop, inner_up);
        if (!b) return fallback();
        invariant = invariant * b;
      }
      return invariant;
    }
    case ExprKind::kFloorDiv: {
      if (symbolic::depends_on(args[1], loop.var) || args[1].range().lo < 0) return fallback();
      const Expr dividend = bound_over(args[0], loop, up);
      return dividend ? symbolic::floordiv(dividend, args[1]) : fallback();
    }
    case ExprKind::kMod: {
      if (symbolic::depends_on(args[1], loop.var) || args[1].range().lo < 0) return fallback();
      if (!up) return table.constant(0);
      return at_least(args[1], 1) ? args[1] - 1 : symbolic::max(args[1] - 1, 0);
    }
    case ExprKind::kLess:
    case ExprKind::kEqual: return table.constant(up ? 1 : 0);
    case ExprKind::kSelect: {
      const Expr a = bound_over(args[1], loop, up), b = bound_over(args[2], loop, up);
      if (!a || !b) return fallback();
      if (!symbolic::depends_on(args[0], loop.var)) return symbolic::select(args[0], a, b);
      return up ? symbolic::max(a, b) : symbolic::min(a, b);
    }
  }
  STAX_UNREACHABLE();
}

Expr LoopScope::bound(Expr e, size_t first, bool up) const {
  // Inner loops first, so that what their extents owe to the outer ones cancels.
  for (size_t i = loops_.size(); i-- > first && e;) e = bound_over(e, loops_[i], up);
  return e;
}

// Rounding down keeps the order: floordiv(min(a, b) + y, c) is the smaller one of the quotients of a + y and b + y.
bool LoopScope::prove_by_rounded_extremum(const symbolic::Polynomial& p, int64_t bound, Search search) const {
  for (const symbolic::Term& term : p.terms) {
    const Expr x = term.factors[0];
    if (term.factors.size() != 1 || x.kind() != ExprKind::kFloorDiv || x.args()[1].range().lo < 1) continue;
    const symbolic::Polynomial dividend(x.args()[0]);
    for (const symbolic::Term& part : dividend.terms) {
      const Expr extremum = part.factors[0];
      const bool is_min = extremum.kind() == ExprKind::kMin;
      if (part.factors.size() != 1 || !(is_min || extremum.kind() == ExprKind::kMax)) continue;
      const auto with = [&](Expr by) {
        symbolic::Polynomial rest = p;
        rest.add(symbolic::Term{-term.coefficient, term.factors});
        const Expr moved = x.args()[0] + (by - extremum) * part.coefficient;
        rest.add(symbolic::floordiv(moved, x.args()[1]), term.coefficient);
        return prove(rest, bound, search);
      };
      // From below, a positive multiple of the smallest is bounded by all, of the largest by any.
      const bool by_all = is_min == ((part.coefficient > 0) == (term.coefficient > 0));
      const std::span<const Expr> all = extremum.args();
      if (by_all ? std::all_of(all.begin(), all.end(), with) : std::any_of(all.begin(), all.end(), with)) return true;
      break;
    }
  }
  return false;
}

bool LoopScope::prove_further(const symbolic::Polynomial& p, int64_t bound, Search search) const {
  if (search.depth == 0 || p.terms.empty()) return false;
  if (prove_by_rounded_extremum(p, bound, Search{search.depth - 1, search.steps})) return true;
  symbolic::ExprTable& table = p.terms[0].factors[0].table();
  for (size_t i = loops_.size(); i-- > 0;) {
    const auto has_var = [&](const symbolic::Term& term) {
      return std::any_of(term.factors.begin(), term.factors.end(),
                         [&](Expr e) { return symbolic::depends_on(e, loops_[i].var); });
    };
    if (std::none_of(p.terms.begin(), p.terms.end(), has_var)) continue;
    const Expr least = bound_over(expr_of(p, table), loops_[i], false);
    if (!least) return false;
    // Each step removes a loop, so the depth of the search is not what ends it.
    return prove(symbolic::Polynomial(least), bound, search);
  }
  return false;
}

bool LoopScope::is_nonnegative(Expr e) const { return at_least(e, 0); }

Truth LoopScope::truth(Expr condition) const {
  for (const auto& [fact, holds] : known_) {
    if (fact == condition) return holds ? Truth::kYes : Truth::kNo;
    // What contradicts a fact is false: the negation of it is in canonical form, too.
    if (!fact.is_constant() && symbolic::equal(fact, 0) == condition) return holds ? Truth::kNo : Truth::kYes;
  }
  switch (condition.kind()) {
    case ExprKind::kLess: {
      const Expr gap = condition.args()[1] - condition.args()[0];
      if (at_least(gap, 1)) return Truth::kYes;
      return at_least(-gap, 0) ? Truth::kNo : Truth::kUnknown;
    }
    case ExprKind::kEqual: {
      const Expr gap = condition.args()[1] - condition.args()[0];
      if (at_least(gap, 1) || at_least(-gap, 1)) return Truth::kNo;
      return at_least(gap, 0) && at_least(-gap, 0) ? Truth::kYes : Truth::kUnknown;
    }
    case ExprKind::kMin:
    case ExprKind::kMax: {
      const Truth decisive = condition.kind() == ExprKind::kMin ? Truth::kNo : Truth::kYes;
      bool unknown = false;
      for (Expr part : condition.args()) {
        const Interval r = part.range();
        if (r.lo < 0 || r.hi > 1) return Truth::kUnknown;
        const Truth t = truth(part);
        if (t == decisive) return decisive;
        unknown |= t == Truth::kUnknown;
      }
      return unknown ? Truth::kUnknown : decisive == Truth::kNo ? Truth::kYes : Truth::kNo;
    }
    default: break;
  }
  if (at_least(condition, 1) || at_least(-condition, 1)) return Truth::kYes;
  return at_least(condition, 0) && at_least(-condition, 0) ? Truth::kNo : Truth::kUnknown;
}

Expr LoopScope::simplify(Expr e) const {
  std::unordered_map<const symbolic::ExprNode*, Expr> done;
  const std::function<Expr(Expr)> walk = [&](Expr x) -> Expr {
    if (x.args().empty()) return x;
    if (const auto found = done.find(x.node()); found != done.end()) return found->second;
    std::vector<Expr> args;
    for (Expr arg : x.args()) args.push_back(walk(arg));
    Expr result = x.table().make(x.kind(), std::move(args), *this);
    if (result.kind() == ExprKind::kLess || result.kind() == ExprKind::kEqual) {
      const Truth t = truth(result);
      if (t != Truth::kUnknown) result = x.table().constant(t == Truth::kYes ? 1 : 0);
    }
    done.emplace(x.node(), result);
    return result;
  };
  return walk(e);
}

// ---- Terms

Terms terms_of(Expr e, const std::vector<LoopRange>& loops) {
  symbolic::ExprTable& table = e.table();
  Terms result;
  result.rest = table.constant(0);
  const auto take = [&](Expr term) {
    Expr invariant = table.constant(1), varying = table.constant(1);
    if (term.kind() == ExprKind::kMul) {
      for (Expr factor : term.args()) {
        Expr& side = depends_on_any(factor, loops) ? varying : invariant;
        side = side * factor;
      }
    } else {
      (depends_on_any(term, loops) ? varying : invariant) = term;
    }
    if (varying.is_constant(1)) {
      result.rest = result.rest + invariant;
    } else {
      result.varying.push_back({invariant, varying});
    }
  };
  if (e.kind() == ExprKind::kAdd) {
    for (Expr term : e.args()) take(term);
  } else {
    take(e);
  }
  return result;
}

}  // namespace stax::loop
