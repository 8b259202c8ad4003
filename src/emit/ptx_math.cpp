// SPDX-License-Identifier: Apache-2.0
// The programs of ir/math_table.h in PTX. A slow program stands behind the kernel's end and is reached by a branch where an argument needs it.
#include <bit>

#include "emit/ptx_ops.h"
#include "support/error.h"

namespace stax::emit::ptx {

using ir::MathNode;
using ir::MathOp;
using ir::MathProgram;
using ir::MathType;

namespace {

Class class_of(MathType t) {
  switch (t) {
    case MathType::kBool: return Class::kPred;
    case MathType::kI32: return Class::kB32;
    case MathType::kI64: return Class::kB64;
    case MathType::kF32: return Class::kF32;
    case MathType::kF64: return Class::kF64;
  }
  STAX_UNREACHABLE();
}

bool is_real(MathType t) { return t == MathType::kF32 || t == MathType::kF64; }
bool is_wide(MathType t) { return t == MathType::kF64 || t == MathType::kI64; }

}  // namespace

Operand Ops::math(ScalarOp op, DType t, std::span<const Operand> args) {
  const ir::MathFunction& f = ir::math_function(op, t == DType::kF64 ? DType::kF64 : DType::kF32);
  std::vector<Operand> registers;
  for (Operand a : args) registers.push_back(in_register(ptx::class_of(t), a));
  const Operand fast = run(f.powers.nodes.empty() ? f.fast : f.powers, registers);
  if (f.slow.nodes.empty()) return fast;
  const Operand result = b_.fresh(ptx::class_of(t));
  b_.copy(result, fast);
  b_.cold(run(f.is_slow, registers), [&] { b_.copy(result, run(f.slow, registers)); });
  return result;
}

Operand Ops::run(const MathProgram& program, std::span<const Operand> args) {
  std::vector<Operand> values;
  for (const MathNode& node : program.nodes) {
    const auto arg = [&](size_t i) { return node.args[i] < 0 ? Operand{} : values[static_cast<size_t>(node.args[i])]; };
    values.push_back(step(program, node, args, arg(0), arg(1), arg(2)));
  }
  return values.back();
}

Operand Ops::step(const MathProgram& program, const MathNode& node, std::span<const Operand> args, Operand x, Operand y,
                  Operand z) {
  const bool real = is_real(node.type), wide = is_wide(node.type);
  const MathType from = node.args[0] < 0 ? node.type : program.nodes[static_cast<size_t>(node.args[0])].type;
  const Class cls = class_of(node.type);
  const bool logical = node.type == MathType::kBool;
  const std::string bits = logical ? "pred" : wide ? "b64" : "b32", s = wide ? "s64" : "s32", u = wide ? "u64" : "u32";
  const DType t = wide ? DType::kF64 : DType::kF32;
  const auto float_op = [&](const char* name) { return wide ? std::string(name) + ".f64" : f32(name); };
  const auto by = integer(static_cast<int64_t>(node.bits));
  const auto compared = [&](const char* relation) {
    switch (from) {
      case MathType::kF32: return compare(relation, DType::kF32, x, y ? y : x);
      case MathType::kF64: return compare(relation, DType::kF64, x, y ? y : x);
      case MathType::kI32: return compare(relation, DType::kI32, x, y);
      case MathType::kI64: return compare(relation, DType::kI64, x, y);
      case MathType::kBool: break;
    }
    STAX_UNREACHABLE();
  };
  switch (node.op) {
    case MathOp::kInput: return args[node.bits];
    case MathOp::kConstant: {
      if (!real) return integer(static_cast<int64_t>(node.bits));
      const double v = std::bit_cast<double>(node.bits);
      return wide ? real64(v) : real32(static_cast<float>(v));
    }
    case MathOp::kAdd: return pure(cls, real ? float_op("add.rn") : "add." + s, {x, y});
    case MathOp::kSub: return pure(cls, real ? float_op("sub.rn") : "sub." + s, {x, y});
    case MathOp::kMul: return pure(cls, real ? float_op("mul.rn") : "mul.lo." + s, {x, y});
    case MathOp::kDiv: return pure(cls, float_op("div.rn"), {x, y});
    case MathOp::kRatio: return wide ? pure(cls, "div.rn.f64", {x, y}) : ratio(x, y);
    case MathOp::kMulAdd:
    case MathOp::kFusedMulAdd: return multiply_add(t, x, y, z);
    case MathOp::kNeg: return pure(cls, real ? (wide ? "neg.f64" : "neg.f32") : "neg." + s, {x});
    case MathOp::kAbs: return pure(cls, wide ? "abs.f64" : "abs.f32", {x});
    case MathOp::kSqrt: return pure(cls, float_op("sqrt.rn"), {x});
    case MathOp::kLessOf: return select(t, compare("lt", t, x, y), x, y);
    case MathOp::kGreaterOf: return select(t, compare("gt", t, x, y), x, y);
    case MathOp::kScale: return scale(!wide, x, y);
    case MathOp::kShiftLeft: return pure(cls, "shl." + bits, {x, by});
    case MathOp::kShiftRight: return pure(cls, "shr." + u, {x, by});
    case MathOp::kShiftRightSigned: return pure(cls, "shr." + s, {x, by});
    case MathOp::kShiftLeftBy:
      if (wide && y.is_reg()) y = pure(Class::kB32, "cvt.u32.u64", {y});
      return pure(cls, "shl." + bits, {x, y});
    case MathOp::kAnd:
    case MathOp::kOr:
    case MathOp::kXor: {
      const char* name = node.op == MathOp::kAnd ? "and." : node.op == MathOp::kOr ? "or." : "xor.";
      if (logical) x = b_.as_predicate(x), y = b_.as_predicate(y);
      return pure(cls, name + bits, {x, y});
    }
    case MathOp::kNot: return logical ? b_.negation(x) : pure(cls, "not." + bits, {x});
    case MathOp::kLess: return compared("lt");
    case MathOp::kEqual: return compared("eq");
    case MathOp::kIsNan: return compared("nan");
    case MathOp::kSelect: {
      const DType result = real ? t : logical ? DType::kBool : wide ? DType::kI64 : DType::kI32;
      return select(result, x, y, z);
    }
    case MathOp::kConvert: {
      const std::string to_type = real ? (wide ? "f64" : "f32") : s;
      const std::string from_type = is_real(from) ? (is_wide(from) ? "f64" : "f32") : is_wide(from) ? "s64" : "s32";
      if (node.type == from) return x;
      const bool widening = from == MathType::kF32 && node.type == MathType::kF64;
      const char* mode = is_real(from) && !real ? ".rzi" : real && !widening ? ".rn" : "";
      return pure(cls, fmt::format("cvt{}.{}.{}", mode, to_type, from_type), {x});
    }
    case MathOp::kBits: return in_register(cls, x);
    case MathOp::kPower: return pure(cls, "ex2.approx.ftz.f32", {x});
    case MathOp::kUnitMulAdd: return pure(cls, flush_ ? "fma.rn.ftz.sat.f32" : "fma.rn.sat.f32", {x, y, z});
    case MathOp::kEntry:
    case MathOp::kScaleFloor: break;  // no program here has it
    case MathOp::kLookup: {
      uses_table_ = true;
      const Operand table = pure(Class::kB64, "mov.u64", {b_.name("two_over_pi")});
      const Operand address = pure(Class::kB64, "mad.wide.s32", {in_register(Class::kB32, x), integer(4), table});
      Instruction load;
      load.op = "ld.const.b32";
      load.layout = Layout::kLoad;
      load.dst = {b_.fresh(Class::kB32)};
      load.src = {address};
      const Operand guard = b_.guard();
      b_.set_guard({});
      const Operand word = b_.load(std::move(load), -1)[0];
      b_.set_guard(guard);
      return word;
    }
  }
  STAX_UNREACHABLE();
}

// In two halves, each a power of two in the normal range. Adding 1.5 * 2^23 (2^52) brings a whole number into the lowest bits.
Operand Ops::scale(bool single, Operand x, Operand n) {
  const Class cls = single ? Class::kF32 : Class::kF64;
  const std::string type = single ? ".f32" : ".f64";
  n = in_register(cls, n);
  const auto power = [&](Operand k) {
    const Operand biased = pure(cls, "add.rn" + type, {k, single ? real32(0x1p23F + 127) : real64(0x1p52 + 1023)});
    return pure(cls, single ? "shl.b32" : "shl.b64", {biased, integer(single ? 23 : 52)});
  };
  const Operand halved = pure(cls, "mul.rn" + type, {n, single ? real32(0.5F) : real64(0.5)});
  const Operand half = pure(cls, single ? "cvt.rmi.f32.f32" : "cvt.rmi.f64.f64", {halved});
  const Operand rest = pure(cls, "sub.rn" + type, {n, half});
  const std::string product = single ? f32("mul.rn") : "mul.rn.f64";
  return pure(cls, product, {pure(cls, product, {x, power(half)}), power(rest)});
}

// A division takes several times as long as all of this: an approximate reciprocal and one correction of the quotient.
Operand Ops::ratio(Operand x, Operand y) {
  const Operand inverse = pure(Class::kF32, "rcp.approx.ftz.f32", {in_register(Class::kF32, y)});
  const Operand quotient = pure(Class::kF32, f32("mul.rn"), {x, inverse});
  const Operand rest = multiply_add(DType::kF32, pure(Class::kF32, "neg.f32", {quotient}), y, x);
  return multiply_add(DType::kF32, rest, inverse, quotient);
}

}  // namespace stax::emit::ptx
