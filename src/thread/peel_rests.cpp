// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "thread/passes.h"

namespace stax::thread {

using symbolic::ExprKind;

namespace {

// Fewer questions are not worth a second copy of the body.
constexpr size_t kFewestConditions = 2;

// Of a loop of ceil(n / tile) iterations: n and the tile. A null n: the loop is none.
struct Tiles {
  Expr elements;
  int64_t tile = 0;
};

Tiles tiles_of(const For& loop) {
  const Expr e = loop.extent;
  if (loop.unrolled || e.kind() != ExprKind::kFloorDiv || !e.args()[1].is_constant()) return {};
  const int64_t tile = e.args()[1].constant();
  const Expr elements = e.args()[0] - (tile - 1);
  // Of whole tiles there is no rest.
  if (tile < 2 || elements.range().lo < 0 || elements.multiple() % tile == 0) return {};
  return {elements, tile};
}

// Conditions that hold in each iteration that has a whole tile: b - a grows with n - var * tile, which is a tile at least.
std::vector<Expr> conditions_of_rest(const For& loop, const Tiles& t) {
  std::vector<Expr> found;
  const auto consider = [&](Expr e) {
    if (e.kind() != ExprKind::kLess || !symbolic::depends_on(e, loop.var)) return;
    if (std::find(found.begin(), found.end(), e) != found.end()) return;
    const Expr more = e.args()[1] - e.args()[0] - (t.elements - loop.var * t.tile);
    if (!symbolic::depends_on(more, loop.var) && more.range().lo >= 1 - t.tile) found.push_back(e);
  };
  visit(loop.body, [&](const Stmt& s) { for_each_index(*s, [&](Expr root) { symbolic::visit(root, consider); }); });
  return found;
}

// What a condition has decided.
Stmt resolve(const Stmt& s) {
  const If* branch = s->as<If>();
  if (branch == nullptr) return s;
  const ir::Scalar c = branch->condition;
  const bool is_known = c->kind == ir::ScalarKind::kConstant;
  if (!is_known) return s;
  if (c->as_int() != 0) return branch->then_body;
  return branch->else_body ? branch->else_body : make(Block{});
}

}  // namespace

Kernel peel_rests(const Kernel& kernel) {
  Kernel result = kernel;
  symbolic::ExprTable& table = kernel.context->exprs;
  result.body = rewrite(kernel.body, [&](const Stmt& s) -> Stmt {
    const For* loop = s->as<For>();
    if (loop == nullptr) return s;
    const Tiles t = tiles_of(*loop);
    if (!t.elements) return s;
    const std::vector<Expr> conditions = conditions_of_rest(*loop, t);
    if (conditions.size() < kFewestConditions) return s;
    symbolic::Substitution hold;
    for (Expr c : conditions) hold[c.node()] = table.constant(1);
    For whole = *loop;
    whole.extent = symbolic::floordiv(t.elements, t.tile);
    whole.body = rewrite(substitute(loop->body, hold), resolve);
    symbolic::SymbolInfo info = loop->var.symbol();
    info.name += "_t";
    info.range = {0, 0};
    const Expr rest = table.new_symbol(std::move(info));
    For last{rest, symbolic::min(symbolic::mod(t.elements, t.tile), 1), false,
             rewrite(substitute(loop->body, {{loop->var.node(), whole.extent}}), resolve)};
    return make(Block{{make(std::move(whole)), make(std::move(last))}});
  });
  return result;
}

}  // namespace stax::thread
