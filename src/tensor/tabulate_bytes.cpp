// SPDX-License-Identifier: Apache-2.0
// Functions of one byte as tables of their 256 results.
//
// Quantized models round to bytes around every operator: x = dequantize(q), y = sigmoid(x), quantize(y), and so on. Each step alone is a division, or
// a transcendental function; all of them together depend on nothing but q, which has 256 values. The table is made by the same steps, over the axis of
// all bytes instead of the tensor's own, and is a constant once it is folded, with every rounding that the steps have.
//
// For each value that is computed point by point from one tensor of bytes (its root) the pass knows the table over the values of the root. A value
// that several roots lead to, as in x * sigmoid(x), has one where the roots are themselves functions of one of them.
#include <algorithm>
#include <unordered_map>

#include "tensor/fusion_cost.h"
#include "tensor/passes.h"
#include "tensor/rewrite.h"

namespace stax::tensor {

namespace {

using ir::ScalarKind;

constexpr int64_t kBytes = 256;
// What a look-up pays for: more than one quantization, or a transcendental function.
constexpr int kLeastWeight = 24;

/// table[root[i]] in the place of the element i.
struct Function {
  Value* root = nullptr;
  Value* table = nullptr;
  int weight = 0;  // of the steps from the root
};

class Tabulator {
 public:
  explicit Tabulator(Graph& graph) : graph_(graph), t_(graph.scalars()) {}

  bool run(Block& block) {
    bool changed = false;
    for (auto at = block.ops.begin(); at != block.ops.end(); ++at) {
      Op& op = **at;
      if (If* branch = op.as<If>()) {
        changed |= run(*branch->then_block);
        changed |= run(*branch->else_block);
      } else if (Loop* loop = op.as<Loop>()) {
        changed |= run(*loop->body);
      } else {
        changed |= tabulate(op);
      }
    }
    return changed;
  }

 private:
  bool tabulate(Op& op) {
    const Compute* map = op.as<Compute>();
    if (map == nullptr || map->combiner != Combiner::kNone || map->axes.empty() || !is_pointwise(op, *map))
      return false;
    const std::optional<Function> f = function_of(op, *map);
    if (!f) return false;
    Value* result = op.result();
    if (!is_byte(result->type.dtype)) {
      functions_[result] = *f;
      return false;
    }
    parents_[result] = *f;
    if (f->weight < kLeastWeight) return false;
    read_from_table(op, *f);
    return true;
  }

  /// Whether every element is computed from the elements at the same place, and from numbers.
  bool is_pointwise(const Op& op, const Compute& map) const {
    bool pointwise = true, loads = false;
    const auto at_place = [&](Scalar x) {
      for (size_t k = 0; k < map.axes.size(); ++k)
        if (ir::as_expr(x->args[k]) != map.axes[k].var) return false;
      return true;
    };
    std::vector<Scalar> pending = {map.body};
    while (pointwise && !pending.empty()) {
      const Scalar x = pending.back();
      pending.pop_back();
      pointwise = x->kind != ScalarKind::kIndex && x->kind != ScalarKind::kAccumulator &&
                  (x->kind != ScalarKind::kOp || x->op != ir::ScalarOp::kHash);
      if (x->kind != ScalarKind::kLoad) {
        pending.insert(pending.end(), x->args.begin(), x->args.end());
        continue;
      }
      loads = true;
      const Value* v = op.operands[x->slot];
      pointwise = pointwise && !is_constant(v) && v->type.is_tensor() && x->args.size() == map.axes.size() &&
                  at_place(x) && same_extents(graph_, v->type.extents, op.result()->type.extents);
    }
    return pointwise && loads;
  }

  /// The function of the nearest root that all operands are functions of; nullopt if there is none.
  std::optional<Function> function_of(Op& op, const Compute& map) {
    std::vector<Function> operands;
    for (Value* v : op.operands) {
      const auto known = functions_.find(v);
      if (known != functions_.end()) {
        operands.push_back(known->second);
      } else if (is_byte(v->type.dtype)) {
        operands.push_back({v, nullptr, 0});
      } else {
        return std::nullopt;
      }
    }
    Value* root = operands[0].root;
    while (!std::all_of(operands.begin(), operands.end(), [&](const Function& f) { return leads_to(f.root, root); })) {
      const auto parent = parents_.find(root);
      if (parent == parents_.end()) return std::nullopt;
      root = parent->second.root;
    }
    Function result{root, nullptr, cost_of(map).weight};
    std::vector<Value*> tables;
    for (Function f : operands) {
      // Bytes that are elements of the table of all bytes.
      if (f.table == nullptr) f.table = all_bytes(op, f.root->type.dtype);
      while (f.root != root) {
        const Function& parent = parents_.at(f.root);
        f = {parent.root, compose(op, f.table, parent.table), f.weight + parent.weight};
      }
      result.weight = std::max(result.weight, f.weight + cost_of(map).weight);
      tables.push_back(f.table);
    }
    result.table = over_all_bytes(op, map, tables);
    return result;
  }

  bool leads_to(Value* from, const Value* root) const {
    while (from != root) {
      const auto parent = parents_.find(from);
      if (parent == parents_.end()) return false;
      from = parent->second.root;
    }
    return true;
  }

  Axis axis_of_bytes() {
    const Expr extent = graph_.exprs().constant(kBytes);
    return {graph_.axis_var(0, extent, false), extent};
  }

  Value* add_table(Op& before, Scalar body, std::vector<Value*> operands) {
    Compute c;
    c.axes = {axis_of_bytes()};
    c.body = body;
    Op* made =
        graph_.add_op(*before.block, std::move(c), std::move(operands),
                      {Type::tensor(body->dtype, {graph_.exprs().constant(kBytes)})}, {}, before.source, &before);
    compact_operands(*made);
    return made->result();
  }

  Value* all_bytes(Op& before, DType t) { return add_table(before, t_.cast(t, t_.index(axis_of_bytes().var)), {}); }

  /// Position of a byte in a table: as u8.
  Scalar position(Scalar byte) { return t_.cast(DType::kI64, t_.cast(DType::kU8, byte)); }

  Value* compose(Op& before, Value* outer, Value* inner) {
    const Scalar byte = t_.load(0, inner->type.dtype, {t_.index(axis_of_bytes().var)});
    return add_table(before, t_.load(1, outer->type.dtype, {position(byte)}), {inner, outer});
  }

  /// What `map` makes of the tables of its operands.
  Value* over_all_bytes(Op& before, const Compute& map, const std::vector<Value*>& tables) {
    const Scalar at = t_.index(axis_of_bytes().var);
    const Scalar body = ir::rewrite(
        map.body, {}, [&](Scalar x) { return x->kind == ScalarKind::kLoad ? t_.load(x->slot, x->dtype, {at}) : x; });
    return add_table(before, body, tables);
  }

  void read_from_table(Op& op, const Function& f) {
    Compute& map = *op.as<Compute>();
    std::vector<Scalar> place;
    for (const Axis& a : map.axes) place.push_back(t_.index(a.var));
    op.operands = {f.root, f.table};
    map.body = t_.load(1, map.body->dtype, {position(t_.load(0, f.root->type.dtype, place))});
  }

  Graph& graph_;
  ir::ScalarTable& t_;
  std::unordered_map<const Value*, Function> functions_;  // of values that are not bytes
  std::unordered_map<const Value*, Function> parents_;    // of bytes that are functions of others
};

}  // namespace

bool tabulate_bytes(Graph& graph) { return Tabulator(graph).run(graph.body); }

}  // namespace stax::tensor
