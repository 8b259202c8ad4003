// SPDX-License-Identifier: Apache-2.0
// Contractions of 8-bit integers as dot products of plain bytes.
//
// A quantized product sums (a - za) * (w - zw). The differences have nine bits, and machines multiply bytes: u8 by i8. But
//
//   sum (a - za) * (w - zw)  =  sum a * w  -  za * sum w  -  zw * sum a  +  K * za * zw
//
// in integers that wrap, whatever their signs: i8 becomes u8 by adding 128 to the element and to its zero point, and u8
// becomes i8 by subtracting it. The first sum is what a dot-product instruction does; the sum of w is a constant where the
// weights are, that of a is needed only where zw is not 0 (weights are mostly symmetric), and what is left are a few
// operations on each result. So the sums stay exact in 32 bits with no condition on the values, as a conversion to floats would need.
//
// The elements of a must be neighbours along the reduction, and the reduction must come in whole groups: where either is not
// so, a conversion (one pass over a) in front makes it so and pads with zeros, for which the weights have zeros, too.
// pack_weights then orders the weights.
#include <map>

#include "tensor/byte_dot.h"
#include "tensor/classify.h"
#include "tensor/passes.h"
#include "tensor/rewrite.h"

namespace stax::tensor {

namespace {

using ir::ScalarKind;
using ir::ScalarOp;

bool mentions(Scalar x, Expr var) {
  bool found = false;
  visit(x, [&](Scalar node) { found |= node->kind == ScalarKind::kIndex && symbolic::depends_on(node->index, var); });
  return found;
}

/// The zero point of a factor `load - zero` in 32 bits, 0 where there is none; nullopt if the factor is of another form.
std::optional<Scalar> zero_of(const Compute& c, Scalar factor, Scalar load) {
  Scalar zero = load->table->constant_int(DType::kI32, 0);
  if (factor->kind == ScalarKind::kOp && factor->op == ScalarOp::kSub) {
    zero = factor->args[1];
    factor = factor->args[0];
  }
  while (factor->kind == ScalarKind::kCast && ir::is_integer(factor->dtype) && ir::bit_width(factor->dtype) >= 16)
    factor = factor->args[0];
  for (const Axis& r : c.reductions)
    if (mentions(zero, r.var)) return std::nullopt;
  return factor == load ? std::optional(zero) : std::nullopt;
}

bool is_zero(Scalar x) { return x->kind == ScalarKind::kConstant && x->as_int() == 0; }

class Expander {
 public:
  explicit Expander(Graph& graph) : graph_(graph), t_(graph.scalars()) {}

  bool run(Block& block) {
    bool changed = false;
    for (const auto& op : block.ops) {  // what is inserted goes before the op at hand
      if (If* branch = op->as<If>()) {
        changed |= run(*branch->then_block);
        changed |= run(*branch->else_block);
      } else if (Loop* loop = op->as<Loop>()) {
        changed |= run(*loop->body);
      } else if (op->kind() == OpKind::kCompute) {
        changed |= expand(*op);
      }
    }
    return changed;
  }

 private:
  struct Factors {
    Scalar rows, columns;          // loads
    Scalar row_zero, column_zero;  // i32
    ByteDot dot;
  };

  /// The factors of a product of bytes; the columns are the weights, where one side is constant.
  std::optional<Factors> factors_of(const Op& op) const {
    const Compute& c = *op.as<Compute>();
    if (c.accumulate != DType::kI32 || byte_dot_of(c)) return std::nullopt;
    const Classification found = classify(c);
    if (found.kind != ComputeClass::kContraction) return std::nullopt;
    const Contraction& r = found.contraction;
    const Scalar product = c.body;
    if (product->dtype != DType::kI32 || !is_byte(r.left->dtype) || !is_byte(r.right->dtype)) return std::nullopt;
    const bool left_known = is_constant(op.operands[r.left_slot]), right_known = is_constant(op.operands[r.right_slot]);
    bool columns_left = r.vector_axis >= 0 && r.vector_in_left;
    if (left_known != right_known) columns_left = left_known;
    for (const Value* v : {op.operands[r.left_slot], op.operands[r.right_slot]})
      if (!v->type.has_static_rank()) return std::nullopt;
    Factors f;
    f.rows = columns_left ? r.right : r.left;
    f.columns = columns_left ? r.left : r.right;
    const auto row_zero = zero_of(c, product->args[columns_left ? 1 : 0], f.rows),
               column_zero = zero_of(c, product->args[columns_left ? 0 : 1], f.columns);
    const auto dot = match_byte_dot(c, f.rows, f.columns);
    if (!row_zero || !column_zero || !dot) return std::nullopt;
    f.row_zero = *row_zero;
    f.column_zero = *column_zero;
    f.dot = *dot;
    return f;
  }

  bool expand(Op& op) {
    const std::optional<Factors> f = factors_of(op);
    if (!f) return false;
    const Compute before = *op.as<Compute>();
    const Axis group = before.reductions[f->dot.group];
    const Expr length = symbolic::ceildiv(group.extent, kByteGroup) * kByteGroup;
    const Axis whole{graph_.axis_var(f->dot.group, length, true), length};
    const Scalar rows = convert(op, f->rows, f->dot.row_group, DType::kU8, whole, group);
    const Scalar columns = convert(op, f->columns, f->dot.column_group, DType::kI8, whole, group);
    const auto shifted = [&](Scalar zero, Scalar load, DType to, int64_t by) {
      return load->dtype == to ? zero : zero + t_.constant_int(DType::kI32, by);
    };
    const Scalar row_zero = shifted(f->row_zero, f->rows, DType::kU8, 128),
                 column_zero = shifted(f->column_zero, f->columns, DType::kI8, -128);

    Compute after = before;
    after.reductions[f->dot.group] = whole;
    // The group innermost, so that the weights can be walked in order; sums of integers may be made in any.
    std::rotate(after.reductions.begin() + f->dot.group, after.reductions.begin() + f->dot.group + 1,
                after.reductions.end());
    const std::vector<Axis> reductions = after.reductions;
    after.body = t_.cast(DType::kI32, rows) * t_.cast(DType::kI32, columns);
    Scalar sum = t_.accumulator(DType::kI32);
    if (!is_zero(row_zero)) sum = sum - row_zero * line_sum(op, columns, after);
    if (!is_zero(column_zero)) sum = sum - column_zero * line_sum(op, rows, after);
    if (!is_zero(row_zero) && !is_zero(column_zero)) {
      Expr count = group.extent;
      for (size_t r = 0; r < before.reductions.size(); ++r)
        if (static_cast<int>(r) != f->dot.group) count = count * before.reductions[r].extent;
      sum = sum + t_.cast(DType::kI32, t_.index(count)) * (row_zero * column_zero);
    }
    after.epilogue =
        before.epilogue
            ? ir::rewrite(before.epilogue, {}, [&](Scalar x) { return x->kind == ScalarKind::kAccumulator ? sum : x; })
            : t_.cast(op.result()->type.dtype, sum);
    op.payload = std::move(after);
    rename_reductions(*op.as<Compute>());
    compact_operands(op);
    return true;
  }

  /// Axis variables go by position.
  void rename_reductions(Compute& c) {
    symbolic::Substitution map;
    for (size_t r = 0; r < c.reductions.size(); ++r) {
      Axis& axis = c.reductions[r];
      const Expr var = graph_.axis_var(static_cast<int>(r), axis.extent, true);
      map[axis.var.node()] = var;
      axis.var = var;
    }
    c.body = ir::substitute(c.body, map);
  }

  /// `load` as bytes of type `to`, its index `group` over the whole groups of `whole` and zeros past `exact`; the rows' goes last.
  Scalar convert(Op& op, Scalar load, int group, DType to, const Axis& whole, const Axis& exact) {
    const bool turn = to == DType::kU8 && group + 1 != static_cast<int>(load->args.size());
    const bool pad = whole.extent != exact.extent;
    std::vector<Scalar> indices = load->args;
    indices[group] = t_.index(whole.var);
    if (turn) std::rotate(indices.begin() + group, indices.begin() + group + 1, indices.end());
    Value* v = op.operands[load->slot];
    if (load->dtype == to && !turn && !pad) return t_.load(load->slot, to, indices);
    Value*& made = made_[{op.block, v, group, to}];
    if (made == nullptr) made = insert_conversion(op, v, load, group, to, whole.extent, exact.extent, turn);
    return t_.load(slot_of(op, made), to, indices);
  }

  Value* insert_conversion(Op& before, Value* v, Scalar load, int group, DType to, Expr length, Expr exact, bool turn) {
    std::vector<Expr> extents = v->type.extents;
    extents[group] = length;
    std::vector<int> order;
    for (int k = 0; k < static_cast<int>(extents.size()); ++k) order.push_back(k);
    if (turn) std::rotate(order.begin() + group, order.begin() + group + 1, order.end());
    Compute c;
    std::vector<Scalar> from(extents.size());
    Expr inside;
    for (size_t k = 0; k < order.size(); ++k) {
      const Expr extent = extents[order[k]];
      c.axes.push_back({graph_.axis_var(static_cast<int>(k), extent, false), extent});
      from[order[k]] = t_.index(c.axes.back().var);
      if (order[k] == group) inside = symbolic::less(c.axes.back().var, exact);
    }
    Scalar element = t_.load(0, load->dtype, from);
    if (load->dtype != to)  // + 128 or - 128, in eight bits
      element = ir::binary(ScalarOp::kXor, t_.cast(to, element), t_.constant_int(to, 0x80));
    c.body = ir::select(t_.cast(DType::kBool, t_.index(inside)), element, t_.constant_int(to, 0));
    std::vector<Expr> result;
    for (const Axis& a : c.axes) result.push_back(a.extent);
    Op* op = graph_.add_op(*before.block, std::move(c), {v}, {Type::tensor(to, result)}, {}, before.source, &before);
    op->result()->name = v->name.empty() ? "" : v->name + ".bytes";
    return op->result();
  }

  /// The sums of a factor's elements over the reductions, as an element of the product sees them.
  Scalar line_sum(Op& op, Scalar load, const Compute& product) {
    Compute c;
    c.combiner = Combiner::kSum;
    c.accumulate = DType::kI32;
    symbolic::Substitution map;
    std::vector<Scalar> at;
    std::vector<Expr> extents;
    for (const Axis& a : product.axes) {
      if (!mentions(load, a.var)) continue;
      const Expr var = graph_.axis_var(static_cast<int>(c.axes.size()), a.extent, false);
      map[a.var.node()] = var;
      at.push_back(t_.index(a.var));
      extents.push_back(a.extent);
      c.axes.push_back({var, a.extent});
    }
    for (const Axis& r : product.reductions) {
      const Expr var = graph_.axis_var(static_cast<int>(c.reductions.size()), r.extent, true);
      map[r.var.node()] = var;
      c.reductions.push_back({var, r.extent});
    }
    Value* v = op.operands[load->slot];
    c.body = t_.cast(DType::kI32, t_.load(0, load->dtype, ir::substitute(load, map)->args));
    Op* sum = graph_.add_op(*op.block, std::move(c), {v}, {Type::tensor(DType::kI32, extents)}, {}, op.source, &op);
    sum->result()->name = v->name.empty() ? "" : v->name + ".sums";
    return t_.load(slot_of(op, sum->result()), DType::kI32, at);
  }

  Graph& graph_;
  ir::ScalarTable& t_;
  /// Conversions made: of which value, along which index, to which type.
  std::map<std::tuple<Block*, Value*, int, DType>, Value*> made_;
};

}  // namespace

bool expand_zero_points(Graph& graph) { return Expander(graph).run(graph.body); }

}  // namespace stax::tensor
