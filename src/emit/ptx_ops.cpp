// SPDX-License-Identifier: Apache-2.0
#include "emit/ptx_ops.h"

#include <bit>
#include <cmath>
#include <limits>

#include "support/error.h"

namespace stax::emit::ptx {

Class class_of(DType t) {
  switch (t) {
    case DType::kBool: return Class::kPred;
    case DType::kI8:
    case DType::kI16:
    case DType::kI32:
    case DType::kU8:
    case DType::kU16:
    case DType::kU32: return Class::kB32;
    case DType::kI64:
    case DType::kU64: return Class::kB64;
    case DType::kF16:
    case DType::kBF16:
    case DType::kF32: return Class::kF32;
    case DType::kF64: return Class::kF64;
  }
  STAX_UNREACHABLE();
}

namespace {

constexpr int64_t kSign64 = std::numeric_limits<int64_t>::min(), kSign32 = std::numeric_limits<int32_t>::min();

bool is_wide(DType t) { return ir::bit_width(t) == 64; }

// "s32", "u64", ...
std::string number_type(DType t) { return fmt::format("{}{}", ir::is_signed(t) ? 's' : 'u', is_wide(t) ? 64 : 32); }

float f32_of(Operand x) { return std::bit_cast<float>(static_cast<uint32_t>(x.value)); }
double f64_of(Operand x) { return x.kind == Operand::Kind::kF32 ? f32_of(x) : std::bit_cast<double>(x.value); }
bool is_number(Operand x) {
  return (x.kind == Operand::Kind::kF32 || x.kind == Operand::Kind::kF64) && !std::isnan(f64_of(x));
}

}  // namespace

Operand Ops::constant(const ir::ScalarNode& node) {
  if (node.dtype == DType::kF64) return real64(node.as_double());
  if (ir::is_float(node.dtype)) return real32(static_cast<float>(node.as_double()));
  return integer(node.as_int());
}

Operand Ops::in_register(Class cls, Operand x) {
  if (cls == Class::kPred) return b_.as_predicate(x);
  if (x.is_reg() && x.cls == cls) return x;
  switch (cls) {
    case Class::kB16: return pure(cls, "mov.b16", {x});
    case Class::kB32:
    case Class::kF32:
      if (x.is_reg() && (x.cls == Class::kB32 || x.cls == Class::kF32)) return x;
      return pure(cls, x.kind == Operand::Kind::kF32 ? "mov.f32" : "mov.b32", {x});
    case Class::kB64:
    case Class::kF64:
      if (x.is_reg() && (x.cls == Class::kB64 || x.cls == Class::kF64)) return x;
      return pure(cls, x.kind == Operand::Kind::kF64 ? "mov.f64" : "mov.b64", {x});
    case Class::kPred: break;
  }
  STAX_UNREACHABLE();
}

Operand Ops::select(DType t, Operand p, Operand x, Operand y) {
  if (p.is_int()) return p.value != 0 ? x : y;
  if (x == y) return x;
  if (t == DType::kBool) {
    // p ? x : y of predicates; a constant arm leaves one operation.
    if (x.is_int() && y.is_int()) return x.value != 0 ? p : b_.negation(p);
    if (x.is_int(1)) return pure(Class::kPred, "or.pred", {p, y});
    if (x.is_int(0)) return b_.both(b_.negation(p), y);
    if (y.is_int(0)) return b_.both(p, x);
    if (y.is_int(1)) return pure(Class::kPred, "or.pred", {b_.negation(p), x});
    return pure(Class::kPred, "or.pred", {b_.both(p, x), b_.both(b_.negation(p), y)});
  }
  const Class cls = class_of(t);
  static constexpr const char* kNames[kClassCount] = {"", "selp.b16", "selp.b32", "selp.f32", "selp.b64", "selp.f64"};
  const Operand result = pure(cls, kNames[static_cast<size_t>(cls)], {x, y, p});
  if (cls == Class::kF32) chosen_.emplace(result.reg(), Choice{p, x, y});
  return result;
}

Operand Ops::multiply_add(DType t, Operand x, Operand y, Operand z) {
  if (t == DType::kF64) return pure(Class::kF64, "fma.rn.f64", {x, y, z});
  return pure(Class::kF32, f32("fma.rn"), {x, y, z});
}

Operand Ops::op(ScalarOp op, DType t, std::span<const Operand> args) {
  if (op == ScalarOp::kHash) return hash(args[0], args[1]);
  if (t == DType::kBool) return boolean(op, args);
  return ir::is_float(t) ? real(op, t, args) : integer_op(op, t, args);
}

Operand Ops::compare(const char* relation, DType t, Operand x, Operand y) {
  const std::string type = t == DType::kF64  ? ".f64"
                           : ir::is_float(t) ? (flush_ ? ".ftz.f32" : ".f32")
                                             : "." + number_type(t);
  return pure(Class::kPred, std::string("setp.") + relation + type, {x, y});
}

// --- floats ---------------------------------------------------------------------------------------------------------------

// A NaN wins. min.NaN is that; where there is none (f64, and before sm_80), min returns the other operand, so a NaN is looked for.
Operand Ops::extreme(DType t, Operand x, Operand y, bool greatest) {
  const char* name = greatest ? "max" : "min";
  const bool wide = t == DType::kF64;
  if (!wide && sm_ >= 80) return pure(Class::kF32, fmt::format("{}{}.NaN.f32", name, flush_ ? ".ftz" : ""), {x, y});
  const Class cls = class_of(t);
  const Operand best = pure(cls, wide ? std::string(name) + ".f64" : f32(name), {x, y});
  const Operand nan =
      wide ? real64(std::numeric_limits<double>::quiet_NaN()) : real32(std::numeric_limits<float>::quiet_NaN());
  const Operand invalid = is_number(x)   ? compare("nan", t, y, y)
                          : is_number(y) ? compare("nan", t, x, x)
                                         : compare("nan", t, x, y);
  return select(t, invalid, nan, best);
}

Operand Ops::real(ScalarOp op, DType t, std::span<const Operand> args) {
  const bool wide = t == DType::kF64;
  const Class cls = class_of(t);
  const Operand x = args[0], y = args.size() > 1 ? args[1] : Operand{};
  const auto number = [&](double v) { return wide ? real64(v) : real32(static_cast<float>(v)); };
  const auto one = [&](const char* name) { return pure(cls, wide ? std::string(name) + ".f64" : f32(name), {x}); };
  const auto two = [&](const char* name) { return pure(cls, wide ? std::string(name) + ".f64" : f32(name), {x, y}); };
  const auto rounded = [&](const char* mode) {
    return pure(cls, fmt::format("cvt.{}{}", mode, wide ? ".f64.f64" : flush_ ? ".ftz.f32.f32" : ".f32.f32"), {x});
  };
  switch (op) {
    case ScalarOp::kAdd: return two("add.rn");
    case ScalarOp::kSub: return two("sub.rn");
    case ScalarOp::kMul: return two("mul.rn");
    case ScalarOp::kDiv: return two("div.rn");
    case ScalarOp::kModTrunc: return fmod(t, x, y);
    case ScalarOp::kModFloor: return mod_floor(t, x, y);
    case ScalarOp::kMin: return extreme(t, x, y, false);
    case ScalarOp::kMax: return extreme(t, x, y, true);
    case ScalarOp::kPow: return power(t, x, y);
    case ScalarOp::kNeg: return pure(cls, wide ? "neg.f64" : "neg.f32", {x});
    case ScalarOp::kAbs: return pure(cls, wide ? "abs.f64" : "abs.f32", {x});
    case ScalarOp::kSign: {
      Operand r = select(t, compare("gt", t, x, number(0)), number(1), number(0));
      r = select(t, compare("lt", t, x, number(0)), number(-1), r);
      return select(t, compare("nan", t, x, x), x, r);
    }
    case ScalarOp::kFloor: return rounded("rmi");
    case ScalarOp::kCeil: return rounded("rpi");
    case ScalarOp::kTrunc: return rounded("rzi");
    case ScalarOp::kRoundEven: return rounded("rni");
    case ScalarOp::kSqrt: return one("sqrt.rn");
    case ScalarOp::kEqual: return compare("eq", t, x, y);
    case ScalarOp::kNotEqual: return compare("neu", t, x, y);
    case ScalarOp::kLess: return compare("lt", t, x, y);
    case ScalarOp::kLessEqual: return compare("le", t, x, y);
    case ScalarOp::kIsNan: return compare("nan", t, x, x);
    case ScalarOp::kIsInf: return pure(Class::kPred, wide ? "testp.infinite.f64" : "testp.infinite.f32", {x});
#define STAX_ELEMENTARY_OP(Name, text, arity) case ScalarOp::k##Name:
#include "ir/scalar_op.def"
      return math(op, t, args);
    case ScalarOp::kNot:
    case ScalarOp::kAnd:
    case ScalarOp::kOr:
    case ScalarOp::kXor:
    case ScalarOp::kShiftLeft:
    case ScalarOp::kShiftRight:
    case ScalarOp::kSelect:
    case ScalarOp::kCheckedIndex:
    case ScalarOp::kHash: break;
  }
  internal_error("{} of {}", ir::name_of(op), ir::name_of(t));
}

// Exponents that models are full of.
Operand Ops::power(DType t, Operand x, Operand y) {
  const bool wide = t == DType::kF64;
  const auto number = [&](double v) { return wide ? real64(v) : real32(static_cast<float>(v)); };
  const auto of = [&](ScalarOp op, Operand a, Operand b) { return real(op, t, std::vector<Operand>{a, b}); };
  if (is_number(y)) {
    const double exponent = f64_of(y);
    if (exponent == 1) return x;
    if (exponent == 2) return of(ScalarOp::kMul, x, x);
    if (exponent == 3) return of(ScalarOp::kMul, of(ScalarOp::kMul, x, x), x);
    if (exponent == -1) return of(ScalarOp::kDiv, number(1), x);
    if (exponent == 0.5) {
      const Operand root =
          real(ScalarOp::kSqrt, t, std::vector<Operand>{of(ScalarOp::kAdd, x, number(0))});  // -0 gives 0
      const double infinity = std::numeric_limits<double>::infinity();
      return select(t, compare("eq", t, x, number(-infinity)), number(infinity), root);
    }
  }
  return math(ScalarOp::kPow, t, std::vector<Operand>{x, y});
}

std::vector<Operand> Ops::repeat(const std::vector<Operand>& state,
                                 const std::function<Operand(std::vector<Operand>&)>& body) {
  std::vector<Operand> carried;
  const Operand guard = b_.guard();
  b_.set_guard({});
  for (Operand s : state) {
    STAX_ASSERT(s.is_reg(), "a constant begins a loop");
    carried.push_back(b_.fresh(s.cls));
    b_.copy(carried.back(), s);
  }
  b_.open(Builder::Kind::kLoop);
  for (Operand c : carried) b_.set_depth(c, b_.depth());
  std::vector<Operand> next = carried;
  const Operand again = body(next);
  std::vector<std::pair<Operand, Operand>> copies;
  for (size_t i = 0; i < carried.size(); ++i) copies.emplace_back(carried[i], next[i]);
  b_.copy_all(copies);
  const int start = b_.new_label();
  std::vector<Instruction> list = b_.close();
  b_.label(start);
  b_.append(std::move(list));
  b_.branch(start, again);
  for (Operand c : carried) b_.set_depth(c, b_.depth());
  b_.set_guard(guard);
  return carried;
}

// The exact remainder: each step takes off the largest multiple of y whose factor fits a double; what remains is exact, as it is a multiple of
// the same unit and smaller than what fits 53 bits of it.
Operand Ops::fmod_f64(Operand x, Operand y) {
  const DType t = DType::kF64;
  const auto call = [&](ScalarOp op, std::initializer_list<Operand> args) {
    return real(op, t, std::vector<Operand>(args));
  };
  const Operand zero = real64(0), infinity = real64(std::numeric_limits<double>::infinity());
  Operand divisor = call(ScalarOp::kAbs, {y});
  const Operand magnitude = call(ScalarOp::kAbs, {x});
  const Operand valid = b_.both(compare("lt", t, magnitude, infinity), compare("gt", t, divisor, zero));
  // What is settled divides 0 by 1.
  const Operand active = b_.both(valid, compare("lt", t, divisor, infinity));
  divisor = select(t, active, divisor, real64(1));
  const Operand start = select(t, active, magnitude, zero);
  const std::vector<Operand> state = repeat({in_register(Class::kF64, start)}, [&](std::vector<Operand>& s) {
    // A quotient past the range of double is taken of a multiple of the divisor by a power of two first.
    Operand scaled = divisor;
    Operand quotient = call(ScalarOp::kDiv, {s[0], scaled});
    for (int step = 0; step < 2; ++step) {
      scaled = select(t, compare("eq", t, quotient, infinity), call(ScalarOp::kMul, {scaled, real64(0x1p540)}), scaled);
      quotient = call(ScalarOp::kDiv, {s[0], scaled});
    }
    // A quotient that was rounded up leaves a negative rest; the one below does not.
    const Operand below = call(ScalarOp::kTrunc, {pure(Class::kF64, "sub.s64", {quotient, integer(1)})});
    quotient = call(ScalarOp::kTrunc, {quotient});
    const Operand rest = multiply_add(t, call(ScalarOp::kNeg, {quotient}), scaled, s[0]);
    const Operand rest_below = multiply_add(t, call(ScalarOp::kNeg, {below}), scaled, s[0]);
    s[0] = select(t, compare("lt", t, rest, zero), rest_below, rest);
    return compare("ge", t, s[0], divisor);
  });
  const Operand rest = select(t, active, state[0], magnitude);
  const Operand sign = pure(Class::kF64, "and.b64", {x, integer(kSign64)});
  const Operand signed_rest =
      pure(Class::kF64, "or.b64", {pure(Class::kF64, "and.b64", {rest, integer(~kSign64)}), sign});
  const Operand no_number = pure(Class::kPred, "or.pred", {b_.negation(valid), compare("nan", t, y, y)});
  return select(t, no_number, real64(std::numeric_limits<double>::quiet_NaN()), signed_rest);
}

Operand Ops::fmod(DType t, Operand x, Operand y) {
  if (t == DType::kF64) return fmod_f64(in_register(Class::kF64, x), in_register(Class::kF64, y));
  const auto wide = [&](Operand v) {
    return v.is_reg() ? pure(Class::kF64, "cvt.f64.f32", {v}) : in_register(Class::kF64, real64(f64_of(v)));
  };
  return pure(Class::kF32, "cvt.rn.f32.f64", {fmod_f64(wide(x), wide(y))});
}

Operand Ops::mod_floor(DType t, Operand x, Operand y) {
  if (!ir::is_float(t)) {
    const Operand rest = divide(t, x, y, true);
    if (!ir::is_signed(t)) return rest;
    const bool wide = is_wide(t);
    const Operand signs = pure(class_of(t), wide ? "xor.b64" : "xor.b32", {rest, y});
    const Operand differs = b_.both(compare("ne", t, rest, integer(0)), compare("lt", t, signs, integer(0)));
    return select(t, differs, pure(class_of(t), wide ? "add.s64" : "add.s32", {rest, y}), rest);
  }
  const bool wide = t == DType::kF64;
  const Operand zero = wide ? real64(0) : real32(0);
  const Operand rest = fmod(t, x, y);
  const Operand signs =
      pure(Class::kPred, "xor.pred", {compare("lt", t, rest, zero), b_.as_predicate(compare("lt", t, y, zero))});
  const Operand differs = b_.both(compare("neu", t, rest, zero), signs);
  const Operand result = select(t, differs, pure(class_of(t), wide ? "add.rn.f64" : f32("add.rn"), {rest, y}), rest);
  const Operand zero_of_y =
      pure(class_of(t), wide ? "and.b64" : "and.b32", {in_register(class_of(t), y), integer(wide ? kSign64 : kSign32)});
  return select(t, compare("eq", t, rest, zero), zero_of_y, result);
}

// --- integers -------------------------------------------------------------------------------------------------------------

Operand Ops::wrap(DType t, Operand x) {
  const int bits = ir::bit_width(t);
  if (bits >= 32) return x;
  if (x.is_int()) return integer(ir::wrap_integer(t, x.value));
  return pure(Class::kB32, fmt::format("cvt.{0}32.{0}{1}", ir::is_signed(t) ? 's' : 'u', bits), {x});
}

Operand Ops::integer_op(ScalarOp op, DType t, std::span<const Operand> args) {
  const bool wide = is_wide(t);
  const Class cls = class_of(t);
  const std::string type = number_type(t), bits = wide ? "b64" : "b32";
  const Operand x = args[0], y = args.size() > 1 ? args[1] : Operand{};
  const auto two = [&](const std::string& name) { return pure(cls, name, {x, y}); };
  switch (op) {
    case ScalarOp::kAdd: return wrap(t, two(wide ? "add.s64" : "add.s32"));
    case ScalarOp::kSub: return wrap(t, two(wide ? "sub.s64" : "sub.s32"));
    case ScalarOp::kMul: return wrap(t, two(wide ? "mul.lo.s64" : "mul.lo.s32"));
    case ScalarOp::kDiv: return wrap(t, divide(t, x, y, false));
    case ScalarOp::kModTrunc: return divide(t, x, y, true);
    case ScalarOp::kModFloor: return mod_floor(t, x, y);
    case ScalarOp::kMin: return two("min." + type);
    case ScalarOp::kMax: return two("max." + type);
    case ScalarOp::kPow: return integer_power(t, x, y);
    case ScalarOp::kNeg: return wrap(t, pure(cls, wide ? "neg.s64" : "neg.s32", {x}));
    case ScalarOp::kAbs: return ir::is_signed(t) ? wrap(t, pure(cls, "abs." + type, {x})) : x;
    case ScalarOp::kSign: {
      const Operand positive =
          select(t, compare(ir::is_signed(t) ? "gt" : "ne", t, x, integer(0)), integer(1), integer(0));
      return ir::is_signed(t) ? select(t, compare("lt", t, x, integer(0)), integer(-1), positive) : positive;
    }
    case ScalarOp::kFloor:
    case ScalarOp::kCeil:
    case ScalarOp::kTrunc:
    case ScalarOp::kRoundEven: return x;
    case ScalarOp::kNot: return wrap(t, pure(cls, "not." + bits, {x}));
    case ScalarOp::kAnd: return two("and." + bits);
    case ScalarOp::kOr: return two("or." + bits);
    case ScalarOp::kXor: return two("xor." + bits);
    case ScalarOp::kShiftLeft:
    case ScalarOp::kShiftRight: return shift(op, t, x, y);
    case ScalarOp::kEqual: return compare("eq", t, x, y);
    case ScalarOp::kNotEqual: return compare("ne", t, x, y);
    case ScalarOp::kLess: return compare("lt", t, x, y);
    case ScalarOp::kLessEqual: return compare("le", t, x, y);
    case ScalarOp::kIsNan:
    case ScalarOp::kIsInf: return integer(0);
    default: break;
  }
  internal_error("{} of {}", ir::name_of(op), ir::name_of(t));
}

// x / 0 is 0 and the least value / -1 wraps: such divisors become 1 and the result is chosen afterwards.
Operand Ops::divide(DType t, Operand x, Operand y, bool remainder) {
  const bool wide = is_wide(t), with_sign = ir::is_signed(t);
  const Class cls = class_of(t);
  const std::string type = number_type(t), low = wide ? "mul.lo.s64" : "mul.lo.s32", sub = wide ? "sub.s64" : "sub.s32";
  if (y.is_int(0)) return integer(0);
  if (y.is_int(-1) && with_sign) return remainder ? integer(0) : pure(cls, wide ? "neg.s64" : "neg.s32", {x});
  x = in_register(cls, x);
  if (y.is_int()) return pure(cls, (remainder ? "rem." : "div.") + type, {x, y});
  const Operand by_zero = compare("eq", t, y, integer(0));
  Operand divisor = select(t, by_zero, integer(1), y);
  Operand minus = {};
  if (with_sign) {
    minus = compare("eq", t, y, integer(-1));
    divisor = select(t, minus, integer(1), divisor);
  }
  Operand quotient = pure(cls, "div." + type, {x, divisor});
  // What is left by the divisor 1 is 0, which is also what 0 and -1 leave.
  if (remainder) return pure(cls, sub, {x, pure(cls, low, {quotient, divisor})});
  if (with_sign) quotient = select(t, minus, pure(cls, wide ? "neg.s64" : "neg.s32", {x}), quotient);
  return select(t, by_zero, integer(0), quotient);
}

// The machine's shifts take the amount without a sign and let all bits go from the width on; but an arithmetic shift leaves the sign.
Operand Ops::shift(ScalarOp op, DType t, Operand x, Operand y) {
  const bool wide = is_wide(t), left = op == ScalarOp::kShiftLeft, with_sign = ir::is_signed(t);
  const int width = ir::bit_width(t);
  const Class cls = class_of(t);
  if (y.is_int() && (y.value < 0 || y.value >= width)) return integer(0);
  Operand amount = y;
  if (wide && y.is_reg()) amount = pure(Class::kB32, "cvt.u32.u64", {pure(Class::kB64, "min.u64", {y, integer(64)})});
  x = in_register(cls, x);
  if (left) return wrap(t, pure(cls, wide ? "shl.b64" : "shl.b32", {x, amount}));
  const Operand shifted = pure(cls, "shr." + number_type(t), {x, amount});
  if (!with_sign || y.is_int()) return shifted;
  return select(t, pure(Class::kPred, wide ? "setp.lt.u64" : "setp.lt.u32", {y, integer(width)}), shifted, integer(0));
}

// Square and multiply; wraps like every product of integers. With a negative exponent the result is that of the power in double, truncated:
// 0 except for the bases 1, -1 and 0.
Operand Ops::integer_power(DType t, Operand x, Operand y) {
  const bool wide = is_wide(t);
  const Class cls = class_of(t);
  const std::string bits = wide ? "b64" : "b32", low = wide ? "mul.lo.s64" : "mul.lo.s32", u = wide ? "u64" : "u32";
  x = in_register(cls, x);
  y = in_register(cls, y);
  // The bits of a narrow exponent are those of its width.
  Operand exponent = y;
  if (ir::is_signed(t) && ir::bit_width(t) < 32)
    exponent = pure(cls, "and.b32", {y, integer((1 << ir::bit_width(t)) - 1)});
  const std::vector<Operand> state = repeat({in_register(cls, integer(1)), x, exponent}, [&](std::vector<Operand>& s) {
    const Operand odd = pure(Class::kPred, "setp.ne." + u, {pure(cls, "and." + bits, {s[2], integer(1)}), integer(0)});
    s[0] = select(t, odd, pure(cls, low, {s[0], s[1]}), s[0]);
    s[1] = pure(cls, low, {s[1], s[1]});
    s[2] = pure(cls, "shr." + u, {s[2], integer(1)});
    return pure(Class::kPred, "setp.ne." + u, {s[2], integer(0)});
  });
  const Operand whole = wrap(t, state[0]);
  if (!ir::is_signed(t)) return whole;
  Operand odd = pure(Class::kPred, "setp.ne." + u, {pure(cls, "and." + bits, {y, integer(1)}), integer(0)});
  // Whole numbers of double are even from 2^53 on.
  if (t == DType::kI64) odd = pure(Class::kPred, "and.pred", {odd, compare("gt", t, y, integer(-(int64_t{1} << 53)))});
  const Operand sign = select(t, odd, x, integer(1));
  const Operand unit =
      pure(Class::kPred, "or.pred", {compare("eq", t, x, integer(1)), compare("eq", t, x, integer(-1))});
  // 0 to a negative power is infinite; the cast makes that the greatest int64, wrapped to the width.
  const Operand infinite = integer(t == DType::kI64 ? std::numeric_limits<int64_t>::max() : -1);
  const Operand other = select(t, compare("eq", t, x, integer(0)), infinite, integer(0));
  return select(t, compare("lt", t, y, integer(0)), select(t, unit, sign, other), whole);
}

// Philox 4x32-10 with the counter in its first two words; the first word of the result.
Operand Ops::hash(Operand seed, Operand counter) {
  const auto halves = [&](Operand v, Operand out[2]) {
    for (int k : {0, 1})
      out[k] = v.is_int() ? integer(static_cast<int32_t>(static_cast<uint64_t>(v.value) >> (32 * k)))
                          : b_.half(Class::kB32, "mov.b64", v, k);
  };
  const auto sum = [&](Operand a, int64_t b) {
    return a.is_int() ? integer(static_cast<int32_t>(a.value + b))
                      : pure(Class::kB32, "add.s32", {a, integer(static_cast<int32_t>(b))});
  };
  Operand c[4], k[2];
  halves(counter, c);
  halves(seed, k);
  c[2] = c[3] = integer(0);
  for (Operand& x : c) x = in_register(Class::kB32, x);
  const Operand m0 = integer(static_cast<int32_t>(0xD2511F53)), m1 = integer(static_cast<int32_t>(0xCD9E8D57));
  for (int round = 0; round < 10; ++round) {
    const auto high = [&](Operand x, Operand m) { return pure(Class::kB32, "mul.hi.u32", {x, m}); };
    const auto low = [&](Operand x, Operand m) { return pure(Class::kB32, "mul.lo.s32", {x, m}); };
    const auto mixed = [&](Operand x, Operand y, Operand z) {
      return pure(Class::kB32, "xor.b32", {pure(Class::kB32, "xor.b32", {x, y}), z});
    };
    const Operand n0 = mixed(high(c[2], m1), c[1], k[0]), n2 = mixed(high(c[0], m0), c[3], k[1]);
    const Operand n1 = low(c[2], m1), n3 = low(c[0], m0);
    c[0] = n0, c[1] = n1, c[2] = n2, c[3] = n3;
    k[0] = sum(k[0], 0x9E3779B9);
    k[1] = sum(k[1], 0xBB67AE85);
  }
  return c[0];
}

// --- bools ----------------------------------------------------------------------------------------------------------------

// As numbers that wrap at "everything but 0 is true".
Operand Ops::boolean(ScalarOp op, std::span<const Operand> args) {
  const Operand x = b_.as_predicate(args[0]), y = args.size() > 1 ? b_.as_predicate(args[1]) : Operand{};
  const auto two = [&](const char* name, Operand a, Operand b) { return pure(Class::kPred, name, {a, b}); };
  switch (op) {
    case ScalarOp::kAdd:
    case ScalarOp::kOr:
    case ScalarOp::kMax: return two("or.pred", x, y);
    case ScalarOp::kMul:
    case ScalarOp::kAnd:
    case ScalarOp::kMin:
    case ScalarOp::kDiv: return two("and.pred", x, y);
    case ScalarOp::kSub:
    case ScalarOp::kXor:
    case ScalarOp::kNotEqual: return two("xor.pred", x, y);
    case ScalarOp::kEqual: return b_.negation(two("xor.pred", x, y));
    case ScalarOp::kLess: return two("and.pred", b_.negation(x), y);
    case ScalarOp::kLessEqual: return two("or.pred", b_.negation(x), y);
    case ScalarOp::kPow: return two("or.pred", x, b_.negation(y));
    case ScalarOp::kNot: return b_.negation(x);
    case ScalarOp::kNeg:
    case ScalarOp::kAbs:
    case ScalarOp::kSign:
    case ScalarOp::kFloor:
    case ScalarOp::kCeil:
    case ScalarOp::kTrunc:
    case ScalarOp::kShiftLeft:  // 2 is true, too
    case ScalarOp::kRoundEven: return x;
    case ScalarOp::kModFloor:
    case ScalarOp::kModTrunc:
    case ScalarOp::kIsNan:
    case ScalarOp::kIsInf: return integer(0);
    case ScalarOp::kShiftRight: return two("and.pred", x, b_.negation(y));
    default: break;
  }
  internal_error("{} of bool", ir::name_of(op));
}

}  // namespace stax::emit::ptx
