// SPDX-License-Identifier: Apache-2.0
// Rows of products with weights as floats, where they are half floats.
//
// Machines without arithmetic on half floats convert what they read. Of the weights a vector is converted for a whole tile of rows; of the rows each
// element is, again for every panel of columns, and that takes longer than the product. So rows are kept as the floats that they are
// converted to: by who computes them, if such products alone read them, else by one pass in front. The numbers stay those of half floats.
#include <map>
#include <unordered_map>

#include "tensor/classify.h"
#include "tensor/passes.h"
#include "tensor/rewrite.h"

namespace stax::tensor {

namespace {

using ir::ScalarKind;

bool is_half(DType t) { return t == DType::kF16 || t == DType::kBF16; }

/// The load of half floats that a contraction with constant weights reads for each panel of columns; null if there is none.
Scalar half_rows(const Op& op) {
  const Compute* c = op.as<Compute>();
  if (c == nullptr || c->accumulate != DType::kF32) return {};
  const Classification found = classify(*c);
  if (found.kind != ComputeClass::kContraction || found.contraction.vector_axis < 0) return {};
  const Scalar rows = found.contraction.row_load();
  const Value* v = op.operands[rows->slot];
  if (!is_half(rows->dtype) || is_constant(v) || !v->type.has_static_rank()) return {};
  return is_constant(op.operands[found.contraction.vector_load()->slot]) ? rows : Scalar();
}

class Widener {
 public:
  explicit Widener(Graph& graph) : graph_(graph), t_(graph.scalars()), uses_(count_uses(graph)) {}

  bool run() {
    std::vector<Op*> products;
    for_each_op(graph_.body, [&](Op& op) {
      const Scalar rows = half_rows(op);
      if (!rows) return;
      products.push_back(&op);
      ++read_as_rows_[op.operands[rows->slot]];
    });
    for (Op* op : products) widen(*op);
    return !products.empty();
  }

 private:
  void widen(Op& op) {
    const Scalar rows = half_rows(op);
    if (!rows) return;  // another product has had them widened
    Value* v = op.operands[rows->slot];
    if (read_as_rows_[v] == uses_[v] && v->producer != nullptr && v->producer->kind() == OpKind::kCompute) {
      store_floats(v);
      return;
    }
    Value*& made = made_[{op.block, v}];
    if (made == nullptr) made = insert_conversion(op, v);
    const int slot = slot_of(op, made);
    replace_load(op, rows, t_.load(slot, DType::kF32, rows->args));
    compact_operands(op);
  }

  /// All readers are products; each reads the value that it converted.
  void store_floats(Value* v) {
    Compute& c = *v->producer->as<Compute>();
    Scalar& result = c.epilogue ? c.epilogue : c.body;
    if (c.combiner != Combiner::kNone && !c.epilogue)
      c.epilogue = t_.cast(DType::kF32, t_.cast(v->type.dtype, t_.accumulator(c.accumulate)));
    else
      result = t_.cast(DType::kF32, t_.cast(v->type.dtype, result));
    v->type.dtype = DType::kF32;
    for_each_op(graph_.body, [&](Op& op) {
      for (size_t slot = 0; slot < op.operands.size(); ++slot) {
        if (op.operands[slot] != v) continue;
        std::vector<Scalar> loads;
        visit_scalars(op, [&](Scalar x) {
          if (x->kind == ScalarKind::kLoad && x->slot == static_cast<int>(slot)) loads.push_back(x);
        });
        for (Scalar load : loads) replace_load(op, load, t_.load(load->slot, DType::kF32, load->args));
      }
    });
  }

  /// `wide` in the place of `load` under a cast to f32, and of padding around it; elsewhere as the half float that it is.
  void replace_load(Op& op, Scalar load, Scalar wide) {
    rewrite_scalars(op, [&](Scalar root) {
      return ir::rewrite(root, {}, [&](Scalar x) {
        if (x == load) return t_.cast(load->dtype, wide);
        if (x->kind != ScalarKind::kCast || x->dtype != DType::kF32) return x;
        const Scalar inner = x->args[0];
        const auto is_wide = [&](Scalar y) {
          return y->kind == ScalarKind::kCast && y->dtype == load->dtype && y->args[0] == wide;
        };
        if (is_wide(inner)) return wide;
        const bool is_padded = inner->kind == ScalarKind::kOp && inner->op == ir::ScalarOp::kSelect &&
                               is_wide(inner->args[1]) && inner->args[2]->kind == ScalarKind::kConstant;
        return is_padded ? ir::select(inner->args[0], wide, t_.constant(DType::kF32, inner->args[2]->as_double())) : x;
      });
    });
  }

  Value* insert_conversion(Op& before, Value* v) {
    Compute c;
    std::vector<Scalar> indices;
    for (int k = 0; k < v->type.static_rank(); ++k) {
      c.axes.push_back({graph_.axis_var(k, v->type.extents[k], false), v->type.extents[k]});
      indices.push_back(t_.index(c.axes.back().var));
    }
    c.body = t_.cast(DType::kF32, t_.load(0, v->type.dtype, indices));
    Op* op = graph_.add_op(*before.block, std::move(c), {v}, {Type::tensor(DType::kF32, v->type.extents)}, {},
                           before.source, &before);
    op->result()->name = v->name.empty() ? "" : v->name + ".float";
    return op->result();
  }

  Graph& graph_;
  ir::ScalarTable& t_;
  std::unordered_map<const Value*, int> uses_, read_as_rows_;
  std::map<std::pair<Block*, Value*>, Value*> made_;
};

}  // namespace

bool widen_rows(Graph& graph) { return Widener(graph).run(); }

}  // namespace stax::tensor
