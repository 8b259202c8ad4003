// SPDX-License-Identifier: Apache-2.0
#include "tensor/rewrite.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "support/error.h"

namespace stax::tensor {

using ir::ScalarKind;
using ir::ScalarOp;
using symbolic::ExprKind;
using symbolic::Truth;

void rewrite_scalars(Op& op, const std::function<Scalar(Scalar)>& f) {
  const auto apply = [&](Scalar& s) {
    if (s) s = f(s);
  };
  if (Compute* c = op.as<Compute>()) {
    apply(c->body);
    apply(c->epilogue);
  } else if (Scatter* s = op.as<Scatter>()) {
    for (Scalar& i : s->index) apply(i);
    apply(s->value);
    apply(s->guard);
  }
}

void visit_scalars(const Op& op, const std::function<void(Scalar)>& f) {
  std::unordered_set<const ir::ScalarNode*> seen;
  const auto once = [&](Scalar x) {
    if (seen.insert(x.node()).second) f(x);
  };
  const auto apply = [&](Scalar root) {
    if (root) visit(root, once);
  };
  if (const Compute* c = op.as<Compute>()) {
    apply(c->body);
    apply(c->epilogue);
  } else if (const Scatter* s = op.as<Scatter>()) {
    for (Scalar i : s->index) apply(i);
    apply(s->value);
    apply(s->guard);
  }
}

int slot_of(Op& op, Value* v) {
  // Operand 0 of a Scatter is its data; loads of it as an input need no slot of their own, as it is read before it is
  // written.
  const auto found = std::find(op.operands.begin(), op.operands.end(), v);
  if (found != op.operands.end()) return static_cast<int>(found - op.operands.begin());
  op.operands.push_back(v);
  return static_cast<int>(op.operands.size()) - 1;
}

bool compact_operands(Op& op) {
  if (op.kind() != OpKind::kCompute && op.kind() != OpKind::kScatter) return false;  // they are no loads' operands
  std::vector<bool> used(op.operands.size(), false);
  if (op.kind() == OpKind::kScatter && !used.empty()) used[0] = true;
  visit_scalars(op, [&](Scalar x) {
    if (x->kind == ScalarKind::kLoad) used[x->slot] = true;
  });
  std::vector<Value*> operands;
  std::vector<int> place(op.operands.size(), -1);
  bool changed = false;
  for (size_t k = 0; k < op.operands.size(); ++k) {
    if (!used[k]) {
      changed = true;
      continue;
    }
    const auto found = std::find(operands.begin(), operands.end(), op.operands[k]);
    place[k] = static_cast<int>(found - operands.begin());
    if (found == operands.end()) operands.push_back(op.operands[k]);
    changed = changed || place[k] != static_cast<int>(k);
  }
  if (!changed) return false;
  op.operands = operands;
  rewrite_scalars(op, [&](Scalar root) {
    return ir::rewrite(root, {}, [&](Scalar x) {
      if (x->kind != ScalarKind::kLoad || place[x->slot] == x->slot) return x;
      return x->table->load(place[x->slot], x->dtype, x->args);
    });
  });
  return true;
}

namespace {

/// An index expression as scalar operations, where some of its symbols stand for scalars.
class ScalarSpeller {
 public:
  ScalarSpeller(ir::ScalarTable& table, const std::unordered_map<const symbolic::ExprNode*, Scalar>& scalars)
      : table_(table), scalars_(scalars) {}

  bool touches(Expr e) const {
    const std::vector<Expr> symbols = symbolic::free_symbols(e);
    return std::any_of(symbols.begin(), symbols.end(), [&](Expr s) { return scalars_.contains(s.node()); });
  }

  Scalar spell(Expr e) const {
    if (!touches(e)) return table_.index(e);
    if (e.is_symbol()) return scalars_.at(e.node());
    std::vector<Scalar> x;
    for (Expr a : e.args()) x.push_back(spell(a));
    switch (e.kind()) {
      case ExprKind::kAdd: return fold(ScalarOp::kAdd, x);
      case ExprKind::kMul: return fold(ScalarOp::kMul, x);
      case ExprKind::kMin: return fold(ScalarOp::kMin, x);
      case ExprKind::kMax: return fold(ScalarOp::kMax, x);
      case ExprKind::kMod: return table_.op(ScalarOp::kModFloor, {x[0], x[1]});
      // The remainder has the divisor's sign, so the truncating division is exact.
      case ExprKind::kFloorDiv:
        return table_.op(ScalarOp::kDiv, {x[0] - table_.op(ScalarOp::kModFloor, {x[0], x[1]}), x[1]});
      case ExprKind::kLess: return table_.cast(DType::kI64, ir::less(x[0], x[1]));
      case ExprKind::kEqual: return table_.cast(DType::kI64, ir::equal(x[0], x[1]));
      case ExprKind::kSelect: return ir::select(table_.cast(DType::kBool, x[0]), x[1], x[2]);
      case ExprKind::kConstant:
      case ExprKind::kSymbol: break;
    }
    STAX_UNREACHABLE();
  }

 private:
  Scalar fold(ScalarOp op, const std::vector<Scalar>& x) const {
    Scalar r = x[0];
    for (size_t k = 1; k < x.size(); ++k) r = table_.op(op, {r, x[k]});
    return r;
  }
  ir::ScalarTable& table_;
  const std::unordered_map<const symbolic::ExprNode*, Scalar>& scalars_;
};

}  // namespace

Scalar at_indices(Scalar body, const std::vector<Axis>& axes, const std::vector<Scalar>& indices) {
  STAX_ASSERT(axes.size() == indices.size());
  symbolic::Substitution known;
  std::unordered_map<const symbolic::ExprNode*, Scalar> computed;
  // A variable may be both an axis here and part of an index given; the ones that stand for scalars are renamed first.
  symbolic::Substitution renamed;
  for (size_t k = 0; k < axes.size(); ++k) {
    const Expr e = ir::as_expr(indices[k]);
    if (e) {
      known[axes[k].var.node()] = e;
      continue;
    }
    const Expr stand_in = axes[k].var.table().new_symbol(
        {.name = "at", .kind = symbolic::SymbolKind::kLoop, .range = axes[k].var.range(), .multiple = 1});
    known[axes[k].var.node()] = stand_in;
    computed[stand_in.node()] = indices[k];
  }
  if (computed.empty()) return ir::substitute(body, known);
  const ScalarSpeller speller(*body->table, computed);
  return ir::rewrite(body, known, [&](Scalar x) {
    return x->kind == ScalarKind::kIndex && speller.touches(x->index) ? speller.spell(x->index) : x;
  });
}

namespace {

struct Substituter {
  const symbolic::Substitution& map;
  void apply(Expr& e) const {
    if (e) e = symbolic::substitute(e, map);
  }
  void apply(std::vector<Axis>& axes) const {
    for (Axis& a : axes) apply(a.extent);
  }
  void apply(Value& v) const {
    for (Expr& e : v.type.extents) apply(e);
    apply(v.type.rank);
    if (v.contents) {
      for (Expr& e : *v.contents) apply(e);
    }
  }
  void apply(Block& block) const {
    for (const auto& v : block.inputs) apply(*v);
    for (const auto& op : block.ops) apply(*op);
  }
  void apply(Op& op) const {
    for (const auto& v : op.results) apply(*v);
    if (Compute* c = op.as<Compute>()) {
      apply(c->axes);
      apply(c->reductions);
    } else if (Scatter* s = op.as<Scatter>()) {
      apply(s->axes);
    } else if (Check* check = op.as<Check>()) {
      apply(check->condition);
      for (Expr& e : check->arguments) apply(e);
    } else if (If* branch = op.as<If>()) {
      apply(*branch->then_block);
      apply(*branch->else_block);
    } else if (Loop* loop = op.as<Loop>()) {
      apply(*loop->body);
    } else if (RowGroup* group = op.as<RowGroup>()) {
      apply(group->rows);
      apply(*group->body);
    }
    rewrite_scalars(op, [&](Scalar root) { return ir::substitute(root, map); });
  }
};

}  // namespace

void substitute_symbols(Graph& graph, const symbolic::Substitution& map) { Substituter{map}.apply(graph.body); }

Expr linear_index(symbolic::ExprTable& table, const std::vector<Expr>& indices, const std::vector<Expr>& extents) {
  Expr linear = table.constant(0);
  for (size_t k = 0; k < indices.size(); ++k) linear = linear * extents[k] + indices[k];
  return linear;
}

namespace {

/// Extents as they are where a tensor of extents `of` has elements, in a form that products of them can be compared in: a symbol that would make
/// it empty is at least 1 there.
std::vector<Expr> where_not_empty(const Graph& graph, const std::vector<Expr>& of, std::vector<Expr> extents) {
  const auto has_cases = [](Expr e) {
    bool found = false;
    symbolic::visit(e, [&](Expr x) { found |= x.kind() == symbolic::ExprKind::kSelect; });
    return found;
  };
  if (std::none_of(extents.begin(), extents.end(), has_cases)) return extents;
  symbolic::ConstraintSet facts = graph.constraints;
  for (Expr e : of) {
    for (Expr s : symbolic::free_symbols(e)) {
      symbolic::ExprTable& table = s.table();
      if (s.range().lo <= 0 && symbolic::substitute(e, {{s.node(), table.constant(0)}}).is_constant(0))
        facts.assume_true(symbolic::less(table.constant(0), s));
    }
  }
  for (Expr& e : extents) e = facts.simplify(e);
  return extents;
}

bool has_division(Expr e) {
  bool found = false;
  symbolic::visit(
      e, [&](Expr x) { found |= x.kind() == symbolic::ExprKind::kFloorDiv || x.kind() == symbolic::ExprKind::kMod; });
  return found;
}

}  // namespace

std::optional<std::vector<Expr>> indices_before_reshape(Graph& graph, const std::vector<Expr>& original,
                                                        const std::vector<Expr>& reshaped,
                                                        const std::vector<Expr>& indices, bool may_divide) {
  const std::vector<Expr> from = where_not_empty(graph, original, original);
  const std::vector<Expr> to = where_not_empty(graph, original, reshaped);
  const auto is_one = [](Expr e) { return e.is_constant(1); };
  const auto equal = [&](Expr a, Expr b) { return a == b || graph.constraints.equal(a, b) == Truth::kYes; };
  std::vector<Expr> result(from.size(), graph.exprs().constant(0));
  size_t f = 0, t = 0;
  for (;;) {
    while (f < from.size() && is_one(from[f])) ++f;
    while (t < to.size() && is_one(to[t])) ++t;
    if (f == from.size() || t == to.size()) break;
    // The shortest runs of axes of both that hold the same number of elements; one of the two is a single axis.
    size_t fs = f, ts = t;
    Expr of_from = from[f], of_to = to[t];
    while (!equal(of_from, of_to) && ++ts < to.size()) of_to = of_to * to[ts];
    if (ts == to.size()) {
      ts = t, of_to = to[t];
      while (!equal(of_from, of_to) && ++fs < from.size()) of_from = of_from * from[fs];
      if (fs == from.size()) return std::nullopt;
    }
    Expr linear = indices[t];
    for (size_t k = t + 1; k <= ts; ++k) linear = is_one(to[k]) ? linear : linear * to[k] + indices[k];
    // A merged axis is taken apart where its index says how.
    for (size_t k = fs; k > f; --k) {
      result[k] = symbolic::mod(linear, from[k]);
      const Expr rest = symbolic::floordiv(linear, from[k]);
      const bool divides = (has_division(result[k]) || has_division(rest)) && !has_division(linear);
      if (divides && !(may_divide && from[k].is_constant())) return std::nullopt;
      linear = rest;
    }
    result[f] = linear;
    f = fs + 1, t = ts + 1;
  }
  if (f < from.size() || t < to.size()) return std::nullopt;
  return result;
}

bool is_constant(const Value* v) {
  while (v->producer != nullptr && v->producer->kind() == OpKind::kReshape) v = v->producer->operands[0];
  return v->producer != nullptr && v->producer->kind() == OpKind::kConstant;
}

Source source_of(Value* v) {
  Source s;
  s.views.push_back(v);
  while (v->producer != nullptr && v->producer->kind() == OpKind::kReshape) {
    v = v->producer->operands[0];
    s.views.push_back(v);
  }
  s.op = v->producer;
  return s;
}

std::optional<std::vector<Scalar>> indices_at(Graph& graph, const Source& source, Scalar load, bool may_divide) {
  if (source.views.size() == 1) return load->args;
  std::vector<Expr> at;
  for (Scalar a : load->args) {
    at.push_back(ir::as_expr(a));
    if (!at.back()) return std::nullopt;
  }
  for (size_t k = 0; k + 1 < source.views.size(); ++k) {
    auto next =
        indices_before_reshape(graph, source.views[k + 1]->type.extents, source.views[k]->type.extents, at, may_divide);
    if (!next) return std::nullopt;
    at = std::move(*next);
  }
  std::vector<Scalar> result;
  result.reserve(at.size());
  for (Expr e : at) result.push_back(graph.scalars().index(e));
  return result;
}

symbolic::ConstraintSet facts_inside(const Graph& graph, const std::vector<Axis>& axes,
                                     const std::vector<Axis>& reductions) {
  symbolic::ConstraintSet facts = graph.constraints;
  for (const std::vector<Axis>* list : {&axes, &reductions}) {
    for (const Axis& a : *list) facts.assume_true(symbolic::less(a.var, a.extent));
  }
  return facts;
}

bool same_extents(const Graph& graph, const std::vector<Expr>& a, const std::vector<Expr>& b) {
  if (a.size() != b.size()) return false;
  for (size_t k = 0; k < a.size(); ++k) {
    if (a[k] != b[k] && graph.constraints.equal(a[k], b[k]) != Truth::kYes) return false;
  }
  return true;
}

Expr product_of(Graph& graph, const std::vector<Expr>& extents) {
  Expr product = graph.exprs().constant(1);
  for (Expr e : extents) product = product * e;
  return product;
}

void erase_op(Op& op) {
  Block& block = *op.block;
  const auto at = std::find_if(block.ops.begin(), block.ops.end(), [&](const auto& o) { return o.get() == &op; });
  STAX_ASSERT(at != block.ops.end());
  block.ops.erase(at);
}

}  // namespace stax::tensor
