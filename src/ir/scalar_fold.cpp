// SPDX-License-Identifier: Apache-2.0
// What the builders of scalars fold. Every fold is exact: it keeps the value bit for bit, infinities, NaN and the sign of
// zero included. Sums of floats are therefore not reassociated, x * 0 stays, and x + 0 goes only where it is x + (-0.0).
// An f16 or bf16 operation is folded only if its result needs no rounding, since the operation itself does not round.
#include <bit>
#include <cmath>

#include "ir/scalar_table.h"
#include "support/error.h"

namespace stax::ir {
namespace {

using symbolic::Expr;

bool is_constant(Scalar x) { return x->kind == ScalarKind::kConstant; }
bool is_int(Scalar x, int64_t v) { return is_constant(x) && !is_float(x->dtype) && x->as_int() == v; }

bool is_value(Scalar x, int64_t v) {
  return is_int(x, v) || (is_constant(x) && is_float(x->dtype) && x->as_double() == static_cast<double>(v));
}

bool is_zero_of_sign(Scalar x, bool negative) {
  return is_constant(x) && is_float(x->dtype) && x->as_double() == 0 && std::signbit(x->as_double()) == negative;
}

bool is_op(Scalar x, ScalarOp op) { return x->kind == ScalarKind::kOp && x->op == op; }

Value64 value_of(Scalar x) {
  Value64 v;
  if (is_float(x->dtype))
    v.f = x->as_double();
  else
    v.i = x->as_int();
  return v;
}

bool proved(Expr condition) { return condition.is_constant() && condition.constant() != 0; }

/// A bool that is known without data, as an expression that is 0 or 1; else null.
Expr as_condition(Scalar x) {
  if (x->dtype != DType::kBool) return {};
  if (is_constant(x)) return x->table->exprs().constant(x->as_int());
  if (x->kind != ScalarKind::kCast || x->args[0]->kind != ScalarKind::kIndex) return {};
  return x->args[0]->index;  // `cast` sees to it that this is 0 or 1
}

/// The value of `op` on i64 arguments that are known without data, where symbolic arithmetic has it; else null.
Expr index_value(ScalarOp op, Expr a, Expr b) {
  const auto is_natural = [](Expr e) { return e.range().lo >= 0; };
  switch (op) {
    case ScalarOp::kAdd: return a + b;
    case ScalarOp::kSub: return a - b;
    case ScalarOp::kMul: return a * b;
    case ScalarOp::kNeg: return -a;
    case ScalarOp::kAbs: return symbolic::max(a, -a);
    case ScalarOp::kMin: return symbolic::min(a, b);
    case ScalarOp::kMax: return symbolic::max(a, b);
    case ScalarOp::kModFloor: return symbolic::mod(a, b);
    case ScalarOp::kModTrunc: return is_natural(a) && is_natural(b) ? symbolic::mod(a, b) : Expr();
    case ScalarOp::kDiv: return is_natural(a) && is_natural(b) ? symbolic::floordiv(a, b) : Expr();
    case ScalarOp::kCheckedIndex:
      if (proved(symbolic::less_equal(a.table().constant(0), a)) && proved(symbolic::less(a, b))) return a;
      if (proved(symbolic::less(a, a.table().constant(0))) && proved(symbolic::less_equal(-b, a))) return a + b;
      return {};
    default: return {};
  }
}

Expr comparison_value(ScalarOp op, Expr a, Expr b) {
  switch (op) {
    case ScalarOp::kEqual: return symbolic::equal(a, b);
    case ScalarOp::kNotEqual: return symbolic::logical_not(symbolic::equal(a, b));
    case ScalarOp::kLess: return symbolic::less(a, b);
    case ScalarOp::kLessEqual: return symbolic::less_equal(a, b);
    default: return {};
  }
}

Expr condition_value(ScalarOp op, Expr a, Expr b) {
  switch (op) {
    case ScalarOp::kAnd: return symbolic::logical_and(a, b);
    case ScalarOp::kOr: return symbolic::logical_or(a, b);
    case ScalarOp::kNot: return symbolic::logical_not(a);
    case ScalarOp::kXor:
    case ScalarOp::kNotEqual: return symbolic::logical_not(symbolic::equal(a, b));
    case ScalarOp::kEqual: return symbolic::equal(a, b);
    default: return {};
  }
}

/// `op` on arguments that are known without data; null where that has no symbolic form.
Scalar fold_index(ScalarTable& table, ScalarOp op, const std::vector<Scalar>& args) {
  if (op == ScalarOp::kSelect) {
    const Expr condition = as_condition(args[0]);
    if (!condition) return {};
    if (const Expr a = as_expr(args[1]), b = as_expr(args[2]); a && b)
      return table.index(symbolic::select(condition, a, b));
    return {};
  }
  if (args.size() > 2) return {};
  if (const Expr a = as_expr(args[0]), b = as_expr(args.back()); a && b) {
    if (const Expr value = index_value(op, a, b)) return table.index(value);
    if (const Expr condition = comparison_value(op, a, b)) return table.cast(DType::kBool, table.index(condition));
    return {};
  }
  if (const Expr a = as_condition(args[0]), b = as_condition(args.back()); a && b)
    if (const Expr condition = condition_value(op, a, b)) return table.cast(DType::kBool, table.index(condition));
  return {};
}

Scalar fold_constants(ScalarTable& table, ScalarOp op, DType result, const std::vector<Scalar>& args) {
  if (op == ScalarOp::kCheckedIndex) return {};
  std::vector<Value64> values;
  for (Scalar arg : args) {
    if (!is_constant(arg)) return {};
    values.push_back(value_of(arg));
  }
  const Value64 value = evaluate_scalar_op(op, args[0]->dtype, values);
  if (!is_float(result)) return table.constant_int(result, value.i);
  const bool rounds_later = result != compute_type(result);
  if (rounds_later && !std::isnan(value.f) && round_to(result, value.f) != value.f) return {};
  return table.constant(result, value.f);
}

/// a op b with the identities of each operation; null if none applies.
Scalar fold_binary(ScalarTable& table, ScalarOp op, Scalar a, Scalar b) {
  const bool floats = is_float(a->dtype);
  switch (op) {
    case ScalarOp::kAdd:
      if (floats ? is_zero_of_sign(b, true) : is_int(b, 0)) return a;
      if (floats ? is_zero_of_sign(a, true) : is_int(a, 0)) return b;
      return {};
    case ScalarOp::kSub:
      if (floats ? is_zero_of_sign(b, false) : is_int(b, 0)) return a;
      if (!floats && a == b) return table.constant_int(a->dtype, 0);
      return {};
    case ScalarOp::kMul:
      if (is_value(b, 1) || is_int(a, 0)) return a;
      if (is_value(a, 1) || is_int(b, 0)) return b;
      return {};
    case ScalarOp::kDiv:
    case ScalarOp::kPow: return is_value(b, 1) ? a : Scalar();
    case ScalarOp::kMin:
    case ScalarOp::kMax: return a == b ? a : Scalar();
    case ScalarOp::kAnd:
    case ScalarOp::kOr: {
      if (a == b) return a;
      const int64_t ones = a->dtype == DType::kBool ? 1 : wrap_integer(a->dtype, -1);
      const int64_t neutral = op == ScalarOp::kAnd ? ones : 0, absorbing = op == ScalarOp::kAnd ? 0 : ones;
      if (is_int(b, neutral) || is_int(a, absorbing)) return a;
      if (is_int(a, neutral) || is_int(b, absorbing)) return b;
      return {};
    }
    case ScalarOp::kXor:
      if (is_int(b, 0)) return a;
      return is_int(a, 0) ? b : Scalar();
    case ScalarOp::kShiftLeft:
    case ScalarOp::kShiftRight: return is_int(b, 0) ? a : Scalar();
    case ScalarOp::kLess: return a == b ? table.constant_int(DType::kBool, 0) : Scalar();
    case ScalarOp::kEqual:
    case ScalarOp::kLessEqual: return a == b && !floats ? table.constant_int(DType::kBool, 1) : Scalar();
    case ScalarOp::kNotEqual: return a == b && !floats ? table.constant_int(DType::kBool, 0) : Scalar();
    default: return {};
  }
}

Scalar fold_unary(ScalarTable& table, ScalarOp op, Scalar a) {
  switch (op) {
    case ScalarOp::kNeg: return is_op(a, ScalarOp::kNeg) ? a->args[0] : Scalar();
    case ScalarOp::kNot:
      if (is_op(a, ScalarOp::kNot)) return a->args[0];
      if (is_op(a, ScalarOp::kEqual)) return table.op(ScalarOp::kNotEqual, a->args);
      if (is_op(a, ScalarOp::kNotEqual)) return table.op(ScalarOp::kEqual, a->args);
      return {};
    case ScalarOp::kAbs: return !is_signed(a->dtype) || is_op(a, ScalarOp::kAbs) ? a : Scalar();
    case ScalarOp::kFloor:
    case ScalarOp::kCeil:
    case ScalarOp::kTrunc:
    case ScalarOp::kRoundEven: return is_float(a->dtype) ? Scalar() : a;
    case ScalarOp::kIsNan:
    case ScalarOp::kIsInf: return is_float(a->dtype) ? Scalar() : table.constant_int(DType::kBool, 0);
    default: return {};
  }
}

Scalar fold_select(ScalarTable& table, Scalar condition, Scalar a, Scalar b) {
  if (is_constant(condition)) return condition->as_int() != 0 ? a : b;
  if (a == b) return a;
  if (is_op(condition, ScalarOp::kNot)) return table.op(ScalarOp::kSelect, {condition->args[0], b, a});
  if (a->dtype == DType::kBool && is_int(a, 1) && is_int(b, 0)) return condition;
  if (a->dtype == DType::kBool && is_int(a, 0) && is_int(b, 1)) return table.op(ScalarOp::kNot, {condition});
  return {};
}

/// Every value of `from` is a value of `to`.
bool holds_all(DType to, DType from) {
  if (from == DType::kBool) return true;
  if (to == DType::kBool) return false;
  if (is_float(from)) return to == DType::kF64 || (to == DType::kF32 && from != DType::kF64);
  if (is_float(to)) {
    const int mantissa = to == DType::kF64 ? 53 : to == DType::kF32 ? 24 : to == DType::kF16 ? 11 : 8;
    return bit_width(from) - (is_signed(from) ? 1 : 0) <= mantissa && to != DType::kF16;
  }
  if (is_signed(from)) return is_signed(to) && bit_width(to) >= bit_width(from);
  return bit_width(to) - (is_signed(to) ? 1 : 0) >= bit_width(from);
}

/// An f16 or bf16 operation that has not been rounded to its type yet.
bool is_unrounded(Scalar x) { return x->kind == ScalarKind::kOp && compute_type(x->dtype) != x->dtype; }

}  // namespace

Scalar ScalarTable::op(ScalarOp op, std::vector<Scalar> args) {
  std::vector<DType> types;
  for (Scalar arg : args) {
    STAX_ASSERT(arg, "{} of an absent scalar", name_of(op));
    STAX_ASSERT(arg->table == this, "scalars of two tables");
    types.push_back(arg->dtype);
  }
  const DType dtype = result_dtype(op, types);
  // Constants first: they wrap, where symbolic arithmetic saturates.
  if (const Scalar folded = fold_constants(*this, op, dtype, args)) return folded;
  if (const Scalar folded = fold_index(*this, op, args)) return folded;
  Scalar folded;
  if (args.size() == 1) folded = fold_unary(*this, op, args[0]);
  if (args.size() == 2) folded = fold_binary(*this, op, args[0], args[1]);
  if (op == ScalarOp::kSelect) folded = fold_select(*this, args[0], args[1], args[2]);
  if (folded) return folded;
  ScalarNode node;
  node.table = this;
  node.kind = ScalarKind::kOp;
  node.dtype = dtype;
  node.op = op;
  node.args = std::move(args);
  return impl_->intern(std::move(node));
}

Scalar ScalarTable::cast(DType t, Scalar x) {
  STAX_ASSERT(x, "a cast of an absent scalar");
  STAX_ASSERT(x->table == this, "scalars of two tables");
  if (x->dtype == t) return x;
  if (is_constant(x)) {
    const Value64 value = evaluate_cast(t, x->dtype, value_of(x));
    return is_float(t) ? constant(t, value.f) : constant_int(t, value.i);
  }
  // A condition is a number that is 0 or 1.
  if (const Expr condition = as_condition(x)) return cast(t, index(condition));
  if (t == DType::kBool && x->kind == ScalarKind::kIndex) {
    const symbolic::Interval r = x->index.range();
    if (r.lo < 0 || r.hi > 1) return cast(t, index(symbolic::logical_not(symbolic::equal(x->index, 0))));
  }
  if (x->kind == ScalarKind::kCast) {
    const Scalar inner = x->args[0];
    const bool loses_rounding = inner->dtype == t && is_unrounded(inner);
    if (holds_all(x->dtype, inner->dtype) && !loses_rounding) return cast(t, inner);
  }
  ScalarNode node;
  node.table = this;
  node.kind = ScalarKind::kCast;
  node.dtype = t;
  node.args = {x};
  return impl_->intern(std::move(node));
}

}  // namespace stax::ir
