// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "loop/access.h"
#include "loop/passes.h"
#include "support/error.h"

namespace stax::loop {

using symbolic::Truth;

namespace {

Stmt nothing() {
  static const Stmt empty = make(Block{});
  return empty;
}

bool is_nothing(const Stmt& s) {
  const Block* b = s ? s->as<Block>() : nullptr;
  return !s || (b != nullptr && b->statements.empty());
}

class StatementSimplifier {
 public:
  explicit StatementSimplifier(const Kernel& kernel) : context_(*kernel.context) {}

  Stmt run(const Stmt& s) {
    return std::visit(Overloaded{
                          [&](const For& f) { return loop(s, f); },
                          [&](const Block& b) { return block(s, b); },
                          [&](const Store& w) { return access(s, w); },
                          [&](const Update& w) { return access(s, w); },
                          [&](const Prefetch& p) { return access(s, p); },
                          [&](const If& i) { return condition(s, i); },
                          [&](const Allocate& a) { return allocate(s, a); },
                          [&](const Fence&) { return s; },
                      },
                      s->v);
  }

 private:
  Stmt loop(const Stmt& s, const For& f) {
    const Expr extent = scope_.simplify(f.extent);
    if (scope_.is_nonnegative(-extent)) return nothing();
    // A warp loop says who does what is inside, also where there is one warp.
    if (extent.is_constant(1) && f.kind != LoopKind::kWarp)
      return run(substitute(f.body, {{f.var.node(), context_.exprs.constant(0)}}));
    const size_t assumptions = scope_.assumptions();
    scope_.push(f.var, extent);
    if (!extent.is_constant()) scope_.assume(symbolic::less(context_.exprs.constant(0), extent), true);
    Stmt body = run(f.body);
    scope_.forget(assumptions);
    scope_.pop();
    if (is_nothing(body)) return nothing();
    if (extent == f.extent && body == f.body) return s;
    For copy = f;
    copy.extent = extent;
    copy.body = std::move(body);
    return make(std::move(copy));
  }

  Stmt block(const Stmt& s, const Block& b) {
    Block copy;
    for (const Stmt& each : b.statements) {
      Stmt simpler = run(each);
      if (!is_nothing(simpler)) copy.statements.push_back(std::move(simpler));
    }
    return copy.statements == b.statements ? s : make(std::move(copy));
  }

  template <class Access>
  Stmt access(const Stmt& s, const Access& w) {
    Access copy = w;
    bool changed = false;
    const auto replace = [&](Scalar& x) {
      const Scalar y = simplify(x);
      changed |= !(x == y);
      x = y;
    };
    for (Scalar& i : copy.index) replace(i);
    if constexpr (!std::is_same_v<Access, Prefetch>) replace(copy.value);
    return changed ? make(std::move(copy)) : s;
  }

  Stmt condition(const Stmt& s, const If& i) {
    const Scalar condition = simplify(i.condition);
    const Expr known = condition_expr(condition);
    const Truth truth = known ? scope_.truth(known) : Truth::kUnknown;
    if (truth == Truth::kYes) return run(i.then_body);
    if (truth == Truth::kNo) return i.else_body ? run(i.else_body) : nothing();
    const size_t assumptions = scope_.assumptions();
    if (known) scope_.assume(known, true);
    Stmt then_body = run(i.then_body);
    scope_.forget(assumptions);
    Stmt else_body;
    if (i.else_body) {
      if (known) scope_.assume(known, false);
      else_body = run(i.else_body);
      scope_.forget(assumptions);
    }
    if (is_nothing(else_body)) else_body = nullptr;
    if (is_nothing(then_body)) {
      if (!else_body) return nothing();
      return make(If{logical_not(condition), std::move(else_body), {}});
    }
    if (condition == i.condition && then_body == i.then_body && else_body == i.else_body) return s;
    return make(If{condition, std::move(then_body), std::move(else_body)});
  }

  Stmt allocate(const Stmt& s, const Allocate& a) {
    Stmt body = run(a.body);
    bool used = false;
    visit(body, [&](const Stmt& below) {
      if (const Store* w = below->as<Store>()) used |= w->slot == a.slot;
      if (const Update* w = below->as<Update>()) used |= w->slot == a.slot;
      visit_scalars(*below, [&](Scalar x) { used |= loads_from(x, a.slot); });
    });
    if (!used) return body;
    return body == a.body ? s : make(Allocate{a.slot, std::move(body)});
  }

  // The table drops the branch of a select whose condition became a constant.
  Scalar simplify(Scalar root) {
    return ir::rewrite(root, {}, [&](Scalar x) -> Scalar {
      if (x->kind == ir::ScalarKind::kIndex) return context_.scalars.index(scope_.simplify(x->index));
      if (x->dtype == DType::kBool) {
        const Expr known = condition_expr(x);
        const Truth truth = known && !known.is_constant() ? scope_.truth(known) : Truth::kUnknown;
        if (truth != Truth::kUnknown) return context_.scalars.constant_int(DType::kBool, truth == Truth::kYes ? 1 : 0);
      }
      return x;
    });
  }

  ir::Context& context_;
  LoopScope scope_;
};

}  // namespace

Kernel simplify(const Kernel& kernel) {
  Kernel result = kernel;
  result.body = StatementSimplifier(kernel).run(kernel.body);
  return result;
}

}  // namespace stax::loop
