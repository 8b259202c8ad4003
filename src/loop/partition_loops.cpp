// SPDX-License-Identifier: Apache-2.0
// A guard costs most where it is always true. A guard "a < b" of which b - a falls as loop v runs is true up to some
// iteration p of v, for all iterations of the loops inside:
//
//   for v in n { for w in 8 { if v*8 + w < m { .. } } }
//   -> for v in p { for w in 8 { .. } };  for v_t in n - p { for w_t in 8 { if (p + v_t)*8 + w_t < m { .. } } }
//   with p = m / 8
//
// The outermost loop that can be split for a guard is; the guard stays in the tail, where the loops inside are looked
// at again. Parallel loops stay single, vector loops mask their guards, unrolled loops have constant guards.
#include <algorithm>

#include "loop/access.h"
#include "loop/passes.h"

namespace stax::loop {

using symbolic::ExprKind;

namespace {

struct GuardPoint {
  Expr condition;    // a kLess
  Expr first_false;  // the iteration of the loop
};

std::vector<Expr> conjuncts(Expr condition) {
  if (condition.kind() != ExprKind::kMin) return {condition};
  return {condition.args().begin(), condition.args().end()};
}

class Partitioner {
 public:
  explicit Partitioner(Kernel& kernel) : kernel_(kernel) {
    visit(kernel.body, [&](const Stmt& s) {
      if (const For* f = s->as<For>()) names_.push_back(f->var.symbol().name);
    });
  }

  Stmt run(const Stmt& s) {
    return std::visit(Overloaded{
                          [&](const For& f) { return loop(s, f); },
                          [&](const Block& b) -> Stmt {
                            Block copy;
                            for (const Stmt& each : b.statements) copy.statements.push_back(run(each));
                            return copy.statements == b.statements ? s : make(std::move(copy));
                          },
                          [&](const If& i) -> Stmt {
                            Stmt then_body = run(i.then_body);
                            Stmt else_body = i.else_body ? run(i.else_body) : Stmt();
                            if (then_body == i.then_body && else_body == i.else_body) return s;
                            return make(If{i.condition, std::move(then_body), std::move(else_body)});
                          },
                          [&](const Allocate& a) -> Stmt {
                            Stmt body = run(a.body);
                            return body == a.body ? s : make(Allocate{a.slot, std::move(body)});
                          },
                          [&](const Store&) { return s; },
                          [&](const Update&) { return s; },
                          [&](const Prefetch&) { return s; },
                          [&](const Fence&) { return s; },
                      },
                      s->v);
  }

 private:
  Stmt loop(const Stmt& s, const For& f) {
    std::vector<GuardPoint> points;
    if (f.kind == LoopKind::kSerial) {
      LoopScope inner;
      collect(f.body, f.var, inner, points);
    }
    if (points.empty()) {
      scope_.push(f.var, f.extent);
      Stmt body = run(f.body);
      scope_.pop();
      if (body == f.body) return s;
      For copy = f;
      copy.body = std::move(body);
      return make(std::move(copy));
    }
    Expr steady = f.extent;
    for (const GuardPoint& p : points) steady = symbolic::min(steady, p.first_false);
    steady = scope_.simplify(symbolic::max(steady, 0));
    const Expr left = scope_.simplify(symbolic::max(f.extent, 0) - steady);

    For whole = f, tail = f;
    whole.extent = steady;
    whole.body = without(f.body, points);
    tail.extent = left;
    tail.var = variable_like(f.var, loop_range(left));
    tail.body = substitute(copy_of(f.body), {{f.var.node(), steady + tail.var}});
    scope_.push(whole.var, whole.extent);
    whole.body = run(whole.body);
    scope_.pop();
    scope_.push(tail.var, tail.extent);
    tail.body = run(tail.body);
    scope_.pop();
    return make(Block{{make(std::move(whole)), make(std::move(tail))}});
  }

  // Guards below the loop that hold up to a point that is known outside of the loop.
  void collect(const Stmt& s, Expr var, LoopScope& inner, std::vector<GuardPoint>& out) {
    if (const If* i = s->as<If>()) {
      if (const Expr condition = condition_expr(i->condition)) {
        for (Expr part : conjuncts(condition)) collect_guard(part, var, inner, out);
      }
      collect(i->then_body, var, inner, out);
      if (i->else_body) collect(i->else_body, var, inner, out);
    } else if (const For* f = s->as<For>()) {
      inner.push(f->var, f->extent);
      collect(f->body, var, inner, out);
      inner.pop();
    } else if (const Block* b = s->as<Block>()) {
      for (const Stmt& each : b->statements) collect(each, var, inner, out);
    } else if (const Allocate* a = s->as<Allocate>()) {
      collect(a->body, var, inner, out);
    }
  }

  void collect_guard(Expr condition, Expr var, const LoopScope& inner, std::vector<GuardPoint>& out) {
    if (condition.kind() != ExprKind::kLess || !symbolic::depends_on(condition, var)) return;
    const Expr gap = inner.lower(condition.args()[1] - condition.args()[0] - 1);  // holds while gap >= 0
    if (!gap) return;
    const auto affine = symbolic::affine_in(gap, var);
    if (!affine || !affine->coefficient.is_constant() || affine->coefficient.constant() >= 0) return;
    for (const LoopRange& l : inner.loops()) {
      if (symbolic::depends_on(affine->rest, l.var)) return;
    }
    out.push_back({condition, symbolic::floordiv(affine->rest, -affine->coefficient.constant()) + 1});
  }

  Stmt without(const Stmt& root, const std::vector<GuardPoint>& points) {
    const auto holds = [&](Expr part) {
      return std::any_of(points.begin(), points.end(), [&](const GuardPoint& p) { return p.condition == part; });
    };
    return rewrite(root, [&](const Stmt& s) -> Stmt {
      const If* i = s->as<If>();
      const Expr condition = i != nullptr ? condition_expr(i->condition) : Expr();
      if (!condition) return s;
      Expr rest = kernel_.context->exprs.constant(1);
      bool changed = false;
      for (Expr part : conjuncts(condition)) {
        if (holds(part)) {
          changed = true;
        } else {
          rest = symbolic::logical_and(rest, part);
        }
      }
      if (!changed) return s;
      if (rest.is_constant(1)) return i->then_body;
      return make(If{condition_of(*kernel_.context, rest), i->then_body, i->else_body});
    });
  }

  Expr variable_like(Expr var, symbolic::Interval range) {
    symbolic::SymbolInfo info = var.symbol();
    do {
      info.name += "_t";
    } while (std::find(names_.begin(), names_.end(), info.name) != names_.end());
    names_.push_back(info.name);
    info.range = range;
    info.multiple = 1;
    return kernel_.context->exprs.new_symbol(std::move(info));
  }

  // The tail has loops of its own; a local buffer may be allocated in both.
  Stmt copy_of(const Stmt& body) {
    symbolic::Substitution renaming;
    visit(body, [&](const Stmt& s) {
      const For* f = s->as<For>();
      if (f != nullptr && !renaming.contains(f->var.node())) {
        renaming[f->var.node()] = variable_like(f->var, f->var.symbol().range);
      }
    });
    return substitute(body, renaming);
  }

  Kernel& kernel_;
  LoopScope scope_;
  std::vector<std::string> names_;
};

}  // namespace

Kernel partition_loops(const Kernel& kernel) {
  Kernel result = kernel;
  result.body = Partitioner(result).run(kernel.body);
  return result;
}

}  // namespace stax::loop
