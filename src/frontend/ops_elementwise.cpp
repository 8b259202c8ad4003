// SPDX-License-Identifier: Apache-2.0
// Arithmetic, comparison, logic, bits, casts, Clip and Where: one element of the result from one of each operand, under
// numpy's broadcasting.
#include <cmath>

#include "frontend/scalar_words.h"
#include "frontend/spelling.h"
#include "support/error.h"

namespace stax::frontend {
namespace {

using ir::ScalarOp;

bool is_number(DType t) { return t != DType::kBool; }

// ---- one operand ----------------------------------------------------------------------------------------------------

template <ScalarOp op>
void import_number(Node& n) {
  n.require(is_number(n.dtype()), 0, "a number");
  n.output(0, n.b().unary(op, n.input(0)));
}

template <ScalarOp op>
void import_float(Node& n) {
  n.require(ir::is_float(n.dtype()), 0, "a float");
  n.output(0, n.b().unary(op, n.input(0)));
}

void import_not(Node& n) {
  n.require(n.dtype() == DType::kBool, 0, "bool");
  n.output(0, n.b().unary(ScalarOp::kNot, n.input(0)));
}

void import_bitwise_not(Node& n) {
  n.require(ir::is_integer(n.dtype()), 0, "an integer");
  n.output(0, n.b().unary(ScalarOp::kNot, n.input(0)));
}

void import_reciprocal(Node& n) {
  n.require(ir::is_float(n.dtype()), 0, "a float");
  n.output(0, n.b().pointwise({n.input(0)}, [](std::span<const Scalar> x) { return like(x[0], 1) / x[0]; }));
}

void import_is_inf(Node& n) {
  n.require(ir::is_float(n.dtype()), 0, "a float");
  const bool negative = n.integer("detect_negative", 1) != 0, positive = n.integer("detect_positive", 1) != 0;
  n.output(0, n.b().pointwise({n.input(0)}, [&](std::span<const Scalar> x) {
    const Scalar infinite = ir::unary(ScalarOp::kIsInf, x[0]);
    if (negative && positive) return infinite;
    if (!negative && !positive) return infinite->table->constant_int(DType::kBool, 0);
    return logical_and(infinite, negative ? ir::less(x[0], like(x[0], 0)) : ir::less(like(x[0], 0), x[0]));
  }));
}

// ---- two operands ---------------------------------------------------------------------------------------------------

template <ScalarOp op>
void import_arithmetic(Node& n) {
  n.same_dtype(0, 1);
  n.require(is_number(n.dtype()), 0, "a number");
  n.output(0, n.b().binary(op, n.input(0), n.input(1)));
}

template <ScalarOp op>
void import_logic(Node& n) {
  n.same_dtype(0, 1);
  n.require(n.dtype() == DType::kBool, 0, "bool");
  n.output(0, n.b().binary(op, n.input(0), n.input(1)));
}

template <ScalarOp op>
void import_bitwise(Node& n) {
  n.same_dtype(0, 1);
  n.require(ir::is_integer(n.dtype()), 0, "an integer");
  n.output(0, n.b().binary(op, n.input(0), n.input(1)));
}

template <ScalarOp op, bool swapped>
void import_comparison(Node& n) {
  n.same_dtype(0, 1);
  n.output(0, n.b().binary(op, n.input(swapped ? 1 : 0), n.input(swapped ? 0 : 1)));
}

void import_bit_shift(Node& n) {
  n.same_dtype(0, 1);
  n.require(ir::is_integer(n.dtype()), 0, "an integer");
  const std::string direction = n.text("direction", "");
  if (direction != "LEFT" && direction != "RIGHT")
    n.fault("its attribute 'direction' is '" + direction + "', not LEFT or RIGHT");
  const bool left = direction == "LEFT";
  n.output(0, n.b().pointwise({n.input(0), n.input(1)}, [&](std::span<const Scalar> x) {
    // A count that is negative or as large as the width leaves the sign alone, or nothing.
    const Scalar width = like(x[1], ir::bit_width(x[1]->dtype));
    const Scalar sensible = logical_and(ir::less_equal(like(x[1], 0), x[1]), ir::less(x[1], width));
    if (left) return ir::select(sensible, ir::binary(ScalarOp::kShiftLeft, x[0], x[1]), like(x[0], 0));
    if (!ir::is_signed(x[0]->dtype)) return ir::binary(ScalarOp::kShiftRight, x[0], x[1]);
    return ir::binary(ScalarOp::kShiftRight, x[0], ir::select(sensible, x[1], width - like(width, 1)));
  }));
}

/// Python's % for fmod = 0, C's for fmod = 1.
void import_mod(Node& n) {
  n.same_dtype(0, 1);
  n.require(is_number(n.dtype()), 0, "a number");
  const bool c_style = n.integer("fmod", 0) != 0;
  n.output(0, n.b().binary(c_style ? ScalarOp::kModTrunc : ScalarOp::kModFloor, n.input(0), n.input(1)));
}

/// The type in which x ** y is computed where the types of base and exponent differ.
DType power_type(DType base, DType exponent) {
  if (base == exponent) return base;
  if (ir::is_float(base)) {
    if (ir::is_float(exponent) && ir::byte_size(exponent) > ir::byte_size(base)) return exponent;
    return ir::compute_type(base);
  }
  return ir::is_float(exponent) ? DType::kF64 : DType::kI64;
}

void import_pow(Node& n) {
  n.require(is_number(n.dtype(0)), 0, "a number");
  n.require(is_number(n.dtype(1)), 1, "a number");
  const DType result = n.dtype(0);
  const DType inner = power_type(result, n.dtype(1));
  const std::optional<double> exponent = constant_number(n.b(), n.input(1));
  n.output(0, n.b().pointwise({n.input(0), n.input(1)}, [&](std::span<const Scalar> x) {
    const Scalar base = ir::cast(inner, x[0]);
    if (exponent == 2.0) return ir::cast(result, base * base);
    if (exponent == 3.0) return ir::cast(result, base * base * base);
    if (exponent == 0.5 && ir::is_float(inner)) {
      // The power of -infinity is +infinity, its root is none.
      const Scalar root = ir::unary(ScalarOp::kSqrt, base);
      return ir::cast(result, ir::select(ir::equal(base, like(base, -INFINITY)), like(base, INFINITY), root));
    }
    return ir::cast(result, ir::binary(ScalarOp::kPow, base, ir::cast(inner, x[1])));
  }));
}

// ---- any number of operands -----------------------------------------------------------------------------------------

std::vector<Value*> all_inputs(Node& n) {
  std::vector<Value*> values;
  for (int k = 0; k < n.input_count(); ++k) {
    n.same_dtype(0, k);
    values.push_back(n.input(k));
  }
  if (values.empty()) n.fault("it has no inputs");
  n.require(is_number(n.dtype()), 0, "a number");
  return values;
}

template <ScalarOp op>
void import_extreme(Node& n) {
  n.output(0, n.b().pointwise(all_inputs(n), [](std::span<const Scalar> x) {
    Scalar total = x[0];
    for (size_t k = 1; k < x.size(); ++k) total = ir::binary(op, total, x[k]);
    return total;
  }));
}

template <bool mean>
void import_sum(Node& n) {
  const DType t = n.dtype();
  n.output(0, n.b().pointwise(all_inputs(n), [&](std::span<const Scalar> x) {
    const DType inner = ir::compute_type(t);
    Scalar total = ir::cast(inner, x[0]);
    for (size_t k = 1; k < x.size(); ++k) total = total + ir::cast(inner, x[k]);
    if (mean) total = total / like(total, static_cast<double>(x.size()));
    return ir::cast(t, total);
  }));
}

// ---- casts, Where, Clip ---------------------------------------------------------------------------------------------

void import_cast(Node& n) {
  if (!n.has_attribute("to")) n.fault("its attribute 'to' is missing");
  n.output(0, n.b().cast(n.input(0), n.dtype_attribute("to", DType::kF32)));
}

void import_cast_like(Node& n) { n.output(0, n.b().cast(n.input(0), n.dtype(1))); }

/// The same bits as another type. Between integers of one width this is what a cast does.
void import_bit_cast(Node& n) {
  const DType from = n.dtype(), to = n.dtype_attribute("to", from);
  if (ir::byte_size(from) != ir::byte_size(to))
    n.fault("the bits of " + std::string(long_name_of(from)) + " as " + std::string(long_name_of(to)));
  if (from != to && (ir::is_float(from) || ir::is_float(to) || to == DType::kBool))
    n.unsupported("the bits of " + std::string(long_name_of(from)) + " as " + std::string(long_name_of(to)));
  n.output(0, n.b().cast(n.input(0), to));
}

void import_where(Node& n) {
  n.require(n.dtype(0) == DType::kBool, 0, "bool");
  n.same_dtype(1, 2);
  n.output(0, n.b().pointwise({n.input(0), n.input(1), n.input(2)},
                              [](std::span<const Scalar> x) { return ir::select(x[0], x[1], x[2]); }));
}

void import_clip_6(Node& n) {
  n.require(is_number(n.dtype()), 0, "a number");
  n.output(0, n.b().pointwise({n.input(0)}, [&](std::span<const Scalar> x) {
    Scalar y = x[0];
    if (n.has_attribute("min")) y = ir::binary(ScalarOp::kMax, y, like(y, n.real("min", 0)));
    if (n.has_attribute("max")) y = ir::binary(ScalarOp::kMin, y, like(y, n.real("max", 0)));
    return y;
  }));
}

void import_clip(Node& n) {
  n.require(is_number(n.dtype()), 0, "a number");
  std::vector<Value*> values{n.input(0)};
  for (const int k : {1, 2}) {
    if (!n.has(k)) continue;
    n.same_dtype(0, k);
    values.push_back(n.b().reshape(n.input(k), {}));
  }
  n.output(0, n.b().pointwise(values, [&](std::span<const Scalar> x) {
    Scalar y = x[0];
    if (n.has(1)) y = ir::binary(ScalarOp::kMax, y, x[1]);
    if (n.has(2)) y = ir::binary(ScalarOp::kMin, y, x[x.size() - 1]);
    return y;
  }));
}

constexpr OperatorRow kOperators[] = {
    {"", "Abs", 6, import_number<ScalarOp::kAbs>},
    {"", "Neg", 6, import_number<ScalarOp::kNeg>},
    {"", "Sign", 9, import_number<ScalarOp::kSign>},
    {"", "Ceil", 6, import_float<ScalarOp::kCeil>},
    {"", "Floor", 6, import_float<ScalarOp::kFloor>},
    {"", "Round", 11, import_float<ScalarOp::kRoundEven>},
    {"", "Sqrt", 6, import_float<ScalarOp::kSqrt>},
    {"", "Exp", 6, import_float<ScalarOp::kExp>},
    {"", "Log", 6, import_float<ScalarOp::kLog>},
    {"", "Sin", 7, import_float<ScalarOp::kSin>},
    {"", "Cos", 7, import_float<ScalarOp::kCos>},
    {"", "Tan", 7, import_float<ScalarOp::kTan>},
    {"", "Asin", 7, import_float<ScalarOp::kAsin>},
    {"", "Acos", 7, import_float<ScalarOp::kAcos>},
    {"", "Atan", 7, import_float<ScalarOp::kAtan>},
    {"", "Sinh", 9, import_float<ScalarOp::kSinh>},
    {"", "Cosh", 9, import_float<ScalarOp::kCosh>},
    {"", "Tanh", 6, import_float<ScalarOp::kTanh>},
    {"", "Asinh", 9, import_float<ScalarOp::kAsinh>},
    {"", "Acosh", 9, import_float<ScalarOp::kAcosh>},
    {"", "Atanh", 9, import_float<ScalarOp::kAtanh>},
    {"", "Erf", 9, import_float<ScalarOp::kErf>},
    {"", "Sigmoid", 6, import_float<ScalarOp::kSigmoid>},
    {"", "IsNaN", 9, import_float<ScalarOp::kIsNan>},
    {"", "IsInf", 10, import_is_inf},
    {"", "Not", 1, import_not},
    {"", "BitwiseNot", 18, import_bitwise_not},
    {"", "Reciprocal", 6, import_reciprocal},
    {"", "Add", 7, import_arithmetic<ScalarOp::kAdd>},
    {"", "Sub", 7, import_arithmetic<ScalarOp::kSub>},
    {"", "Mul", 7, import_arithmetic<ScalarOp::kMul>},
    {"", "Div", 7, import_arithmetic<ScalarOp::kDiv>},
    {"", "Pow", 7, import_pow},
    {"", "Mod", 10, import_mod},
    {"", "BitShift", 11, import_bit_shift},
    {"", "BitwiseAnd", 18, import_bitwise<ScalarOp::kAnd>},
    {"", "BitwiseOr", 18, import_bitwise<ScalarOp::kOr>},
    {"", "BitwiseXor", 18, import_bitwise<ScalarOp::kXor>},
    {"", "And", 7, import_logic<ScalarOp::kAnd>},
    {"", "Or", 7, import_logic<ScalarOp::kOr>},
    {"", "Xor", 7, import_logic<ScalarOp::kXor>},
    {"", "Equal", 7, import_comparison<ScalarOp::kEqual, false>},
    {"", "Less", 7, import_comparison<ScalarOp::kLess, false>},
    {"", "LessOrEqual", 12, import_comparison<ScalarOp::kLessEqual, false>},
    {"", "Greater", 7, import_comparison<ScalarOp::kLess, true>},
    {"", "GreaterOrEqual", 12, import_comparison<ScalarOp::kLessEqual, true>},
    {"", "Max", 6, import_extreme<ScalarOp::kMax>},
    {"", "Min", 6, import_extreme<ScalarOp::kMin>},
    {"", "Sum", 6, import_sum<false>},
    {"", "Mean", 6, import_sum<true>},
    {"", "Cast", 6, import_cast},
    {"", "CastLike", 15, import_cast_like},
    {"", "BitCast", 26, import_bit_cast},
    {"", "Where", 9, import_where},
    {"", "Clip", 6, import_clip_6},
    {"", "Clip", 11, import_clip},
};

}  // namespace

std::span<const OperatorRow> elementwise_operators() { return kOperators; }

}  // namespace stax::frontend
