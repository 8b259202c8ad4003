// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "support/error.h"
#include "symbolic/evaluate.h"
#include "tensor/fusion_cost.h"
#include "tensor/interpret.h"
#include "tensor/passes.h"
#include "tensor/rewrite.h"

namespace stax::tensor {

namespace {

// A result this much bigger than what it is computed from is cheaper to compute than to keep.
constexpr size_t kMostGrowth = 4;
constexpr size_t kSmallBytes = 1 << 20;
// Sines and exponentials take longer than to read them, as the matrix of a Fourier transform.
constexpr size_t kSmallCostlyBytes = 32 << 20;
// Points of a domain that the compiler is willing to evaluate.
constexpr int64_t kMostPoints = int64_t{1} << 28;

const Literal* literal_of(const Value* v) {
  if (v->producer == nullptr) return nullptr;
  const Constant* c = v->producer->as<Constant>();
  return c == nullptr ? nullptr : &c->literal;
}

std::optional<std::vector<int64_t>> static_extents(const Type& type) {
  if (!type.is_tensor() || !type.has_static_rank()) return std::nullopt;
  std::vector<int64_t> extents;
  for (Expr e : type.extents) {
    if (!e.is_constant()) return std::nullopt;
    extents.push_back(e.constant());
  }
  return extents;
}

/// Points that evaluating an op visits, saturating; its extents are constants.
int64_t points_of(const Op& op) {
  int64_t points = 1;
  const auto count = [&](const std::vector<Axis>& axes) {
    for (const Axis& a : axes)
      points = symbolic::saturating_mul(points, a.extent.is_constant() ? a.extent.constant() : symbolic::kPosInf);
  };
  if (const Compute* c = op.as<Compute>()) {
    count(c->axes);
    count(c->reductions);
  } else if (const Scatter* s = op.as<Scatter>()) {
    count(s->axes);
  }
  return points;
}

class Folder {
 public:
  explicit Folder(Graph& graph) : graph_(graph) {}

  bool run(Block& block) {
    bool changed = false;
    for (auto at = block.ops.begin(); at != block.ops.end();) {
      Op& op = **at++;  // `op` may be replaced below
      if (If* branch = op.as<If>()) {
        changed |= run(*branch->then_block);
        changed |= run(*branch->else_block);
        changed |= inline_branch(op, *branch);
      } else if (Loop* loop = op.as<Loop>()) {
        changed |= run(*loop->body);
      } else {
        changed |= fold(op);
      }
    }
    return changed;
  }

 private:
  bool fold(Op& op) {
    // A group of rows is made of ops that were looked at before.
    if (op.kind() == OpKind::kConstant || op.kind() == OpKind::kRowGroup) return false;
    if (Check* check = op.as<Check>()) {
      if (!check->condition.is_constant() || check->condition.constant() == 0) return false;
      erase_op(op);
      return true;
    }
    if (op.results.empty() || !op.defines.empty()) return false;
    const bool changed = replace_uniform_loads(op);
    return fold_whole(op) || changed;
  }

  bool fold_whole(Op& op) {
    if (op.results.size() == 1 && fold_contents(op)) return true;
    return fold_by_evaluation(op);
  }

  /// Loads of integers that are all alike, such as the zero points of weights that are quantized by channel.
  bool replace_uniform_loads(Op& op) {
    if (op.kind() != OpKind::kCompute) return false;
    std::vector<Scalar> known(op.operands.size());
    for (size_t k = 0; k < op.operands.size(); ++k) {
      const Literal* l = literal_of(op.operands[k]);
      if (l == nullptr || !ir::is_integer(l->dtype()) || l->count() == 0) continue;
      const int64_t first = l->at(0).i;
      bool uniform = true;
      for (int64_t i = 1; uniform && i < l->count(); ++i) uniform = l->at(i).i == first;
      if (uniform) known[k] = graph_.scalars().constant_int(l->dtype(), first);
    }
    if (std::none_of(known.begin(), known.end(), [](Scalar x) { return static_cast<bool>(x); })) return false;
    // An index that data decides may be out of range, which is for the call to say.
    rewrite_scalars(op, [&](Scalar root) {
      return ir::rewrite(root, {}, [&](Scalar x) {
        if (x->kind != ir::ScalarKind::kLoad || !known[static_cast<size_t>(x->slot)]) return x;
        const bool in_range =
            std::all_of(x->args.begin(), x->args.end(), [](Scalar i) { return static_cast<bool>(ir::as_expr(i)); });
        return in_range ? known[static_cast<size_t>(x->slot)] : x;
      });
    });
    return compact_operands(op);
  }

  /// A result whose elements are known numbers.
  bool fold_contents(Op& op) {
    Value* result = op.result();
    if (!result->contents) return false;
    const auto extents = static_extents(result->type);
    if (!extents) return false;
    for (Expr e : *result->contents) {
      if (!e.is_constant()) return false;
    }
    Literal literal(result->type.dtype, *extents);
    for (size_t k = 0; k < result->contents->size(); ++k) {
      ir::Value64 v;
      v.i = (*result->contents)[k].constant();
      if (ir::is_float(result->type.dtype)) v.f = static_cast<double>(v.i);
      literal.set(static_cast<int64_t>(k), v);
    }
    replace(op, {literal});
    return true;
  }

  bool fold_by_evaluation(Op& op) {
    size_t read = 0, written = 0;
    std::vector<Item> items(op.operands.size());
    std::vector<const Item*> operands;
    for (size_t k = 0; k < op.operands.size(); ++k) {
      const Literal* l = literal_of(op.operands[k]);
      if (l == nullptr) return false;
      items[k].tensor = *l;
      operands.push_back(&items[k]);
      read += l->bytes();
    }
    for (const auto& r : op.results) {
      const auto extents = static_extents(r->type);
      if (!extents) return false;
      size_t bytes = byte_size(r->type.dtype);
      for (int64_t e : *extents) {
        // Nothing of this size is a constant.
        if (e < 0 || (e > 0 && bytes > (size_t{1} << 40) / static_cast<size_t>(e))) return false;
        bytes *= static_cast<size_t>(e);
      }
      written += bytes;
    }
    const Compute* map = op.as<Compute>();
    const bool is_costly = map != nullptr && cost_of(*map).expensive;
    if (written > (is_costly ? kSmallCostlyBytes : kSmallBytes) && written > kMostGrowth * read) return false;
    if (!used_symbols(op).empty() || points_of(op) > kMostPoints) return false;
    Bindings bindings;
    std::vector<Item> results;
    try {
      results = evaluate_op(op, operands, bindings);
    } catch (const UserError&) {
      return false;  // it fails where it is run, if it is run
    }
    std::vector<Literal> literals;
    for (Item& item : results) {
      if (item.is_sequence) return false;
      literals.push_back(std::move(item.tensor));
    }
    replace(op, literals);
    return true;
  }

  void replace(Op& op, const std::vector<Literal>& literals) {
    for (size_t k = 0; k < literals.size(); ++k) {
      Value* old = op.result(static_cast<int>(k));
      Op* constant = graph_.add_op(*op.block, Constant{literals[k]}, {}, {old->type}, {}, op.source, &op);
      constant->result()->name = old->name;
      constant->result()->contents = old->contents;
      replace_all_uses(graph_, old, constant->result());
    }
    erase_op(op);
  }

  /// The branch of an If whose condition is known takes its place. Extents that only the branch knows are known from
  /// now on.
  bool inline_branch(Op& op, If& branch) {
    const Literal* condition = literal_of(op.operands[0]);
    if (condition == nullptr || condition->count() != 1) return false;
    Block& taken = condition->at(0).i != 0 ? *branch.then_block : *branch.else_block;
    symbolic::Substitution known;
    for (size_t k = 0; k < op.results.size(); ++k) {
      const Type& outside = op.result(static_cast<int>(k))->type;
      const Type& inside = taken.outputs[k]->type;
      if (outside.kind != inside.kind || outside.has_static_rank() != inside.has_static_rank() ||
          outside.extents.size() != inside.extents.size()) {
        return false;
      }
      const auto learn = [&](Expr symbol, Expr value) {
        if (symbol && std::find(op.defines.begin(), op.defines.end(), symbol) != op.defines.end())
          known.emplace(symbol.node(), value);
      };
      for (size_t d = 0; d < outside.extents.size(); ++d) learn(outside.extents[d], inside.extents[d]);
      learn(outside.rank, inside.rank);
    }
    if (known.size() != op.defines.size()) return false;
    Block& around = *op.block;
    const auto place =
        std::find_if(around.ops.begin(), around.ops.end(), [&](const auto& o) { return o.get() == &op; });
    for (const auto& inner : taken.ops) inner->block = &around;
    around.ops.splice(place, taken.ops);
    for (size_t k = 0; k < op.results.size(); ++k)
      replace_all_uses(graph_, op.result(static_cast<int>(k)), taken.outputs[k]);
    erase_op(op);
    if (!known.empty()) substitute_symbols(graph_, known);
    return true;
  }

  Graph& graph_;
};

}  // namespace

bool fold_constants(Graph& graph) { return Folder(graph).run(graph.body); }

}  // namespace stax::tensor
