// SPDX-License-Identifier: Apache-2.0
// Conversions between dtypes in PTX.
#include <bit>
#include <limits>

#include "emit/ptx_ops.h"
#include "support/error.h"

namespace stax::emit::ptx {

// An inexact result has its last bit set, so that rounding it once more to bf16 is as rounding the double once.
Operand Ops::round_to_odd(Operand x) {
  const Operand toward_zero = pure(Class::kF32, "cvt.rz.f32.f64", {x});
  const Operand back = pure(Class::kF64, "cvt.f64.f32", {toward_zero});
  const Operand inexact = pure(Class::kPred, "setp.neu.f64", {back, x});
  const Operand bit = pure(Class::kB32, "selp.b32", {integer(1), integer(0), inexact});
  return pure(Class::kF32, "or.b32", {toward_zero, bit});
}

Operand Ops::bits_of(DType t, Operand x) {
  if (x == real32(0)) return integer(0);
  if (!x.is_reg()) return {};
  if (const auto known = widened_.find(x.reg()); known != widened_.end())
    return known->second.first == t ? known->second.second : Operand{};
  const auto known = chosen_.find(x.reg());
  if (known == chosen_.end()) return {};
  const Choice choice = known->second;
  const Operand a = bits_of(t, choice.x), b = a ? bits_of(t, choice.y) : Operand{};
  if (!b) return {};
  const auto word = [&](Operand bits) {
    return bits.cls == Class::kB16 ? pure(Class::kB32, "cvt.u32.u16", {bits}) : bits;
  };
  return pure(Class::kB32, "selp.b32", {word(a), word(b), choice.p});
}

Operand Ops::narrow(DType t, Operand x) {
  if (const Operand bits = bits_of(t, x); bits && bits.is_reg())
    return bits.cls == Class::kB16 ? bits : pure(Class::kB16, "cvt.u16.u32", {bits});
  x = in_register(Class::kF32, x);
  if (t == DType::kF16) return pure(Class::kB16, "cvt.rn.f16.f32", {x});
  STAX_ASSERT(t == DType::kBF16, "no 16 bits of {}", ir::name_of(t));
  if (sm_ >= 80) return pure(Class::kB16, "cvt.rn.bf16.f32", {x});
  const Operand upper = pure(Class::kB32, "shr.u32", {x, integer(16)});
  const Operand odd = pure(Class::kB32, "and.b32", {upper, integer(1)});
  const Operand up = pure(Class::kB32, "add.s32", {pure(Class::kB32, "add.s32", {x, odd}), integer(0x7FFF)});
  const Operand rounded = pure(Class::kB32, "shr.u32", {up, integer(16)});
  const Operand quiet = pure(Class::kB32, "or.b32", {upper, integer(0x40)});
  const Operand nan = pure(Class::kPred, "setp.nan.f32", {x, x});
  return pure(Class::kB16, "cvt.u16.u32", {pure(Class::kB32, "selp.b32", {quiet, rounded, nan})});
}

Operand Ops::widen(DType t, Operand x) {
  const bool is_word = x.cls == Class::kB32;
  const Operand bits = is_word ? pure(Class::kB16, "cvt.u16.u32", {x}) : x;
  Operand result;
  if (t == DType::kF16) {
    result = pure(Class::kF32, "cvt.f32.f16", {bits});
  } else {
    STAX_ASSERT(t == DType::kBF16, "no 16 bits of {}", ir::name_of(t));
    const Operand word = is_word ? x : pure(Class::kB32, "cvt.u32.u16", {x});
    result = pure(Class::kF32, "shl.b32", {word, integer(16)});
  }
  widened_.emplace(result.reg(), std::pair(t, x));
  return result;
}

// Saturates at the ends of int64, then wraps; NaN is the least int64, so 0 in fewer bits.
Operand Ops::float_to_integer(DType to, DType from, Operand x, bool fits) {
  const std::string type = from == DType::kF64 ? "f64" : "f32";
  const bool wide = ir::bit_width(to) == 64;
  const Operand nan = pure(Class::kPred, "setp.nan." + type, {x, x});
  if (fits && !wide) {
    const Operand whole = pure(Class::kB32, "cvt.rzi.s32." + type, {x});
    return wrap(to, pure(Class::kB32, "selp.b32", {integer(0), whole, nan}));
  }
  const Operand whole = pure(Class::kB64, "cvt.rzi.s64." + type, {x});
  if (wide) return pure(Class::kB64, "selp.b64", {integer(std::numeric_limits<int64_t>::min()), whole, nan});
  const Operand low = pure(Class::kB32, "cvt.u32.u64", {whole});
  return wrap(to, pure(Class::kB32, "selp.b32", {integer(0), low, nan}));
}

Operand Ops::cast(DType to, DType from, Operand x, bool fits) {
  if (to == from) return x;
  const bool from_float = ir::is_float(from), to_float = ir::is_float(to);
  const bool from_wide = class_of(from) == Class::kB64, wide = class_of(to) == Class::kB64;
  if (from == DType::kBool) {
    x = b_.as_predicate(x);
    switch (class_of(to)) {
      case Class::kB32: return pure(Class::kB32, "selp.b32", {integer(1), integer(0), x});
      case Class::kB64: return pure(Class::kB64, "selp.b64", {integer(1), integer(0), x});
      case Class::kF32: return pure(Class::kF32, "selp.f32", {real32(1), real32(0), x});
      case Class::kF64: return pure(Class::kF64, "selp.f64", {real64(1), real64(0), x});
      case Class::kPred:
      case Class::kB16: break;
    }
    STAX_UNREACHABLE();
  }
  x = in_register(class_of(from), x);
  if (to == DType::kBool)
    return from_float ? compare("neu", from, x, from == DType::kF64 ? real64(0) : real32(0))
                      : compare("ne", from, x, integer(0));
  if (from_float && !to_float) return float_to_integer(to, from, x, fits);
  if (!from_float && !to_float) {
    if (wide) return from_wide ? x : pure(Class::kB64, ir::is_signed(from) ? "cvt.s64.s32" : "cvt.u64.u32", {x});
    return wrap(to, from_wide ? pure(Class::kB32, "cvt.u32.u64", {x}) : x);
  }
  if (!from_float) {
    const std::string type = fmt::format("{}{}", ir::is_signed(from) ? 's' : 'u', from_wide ? 64 : 32);
    if (to == DType::kF64) return pure(Class::kF64, "cvt.rn.f64." + type, {x});
    if (to == DType::kF32) return pure(Class::kF32, "cvt.rn.f32." + type, {x});
    if (to == DType::kF16) return widen(to, pure(Class::kB16, "cvt.rn.f16." + type, {x}));
    return widen(to, narrow(to, round_to_odd(pure(Class::kF64, "cvt.rn.f64." + type, {x}))));
  }
  if (to == DType::kF64) return pure(Class::kF64, "cvt.f64.f32", {x});
  if (to == DType::kF32)
    return from == DType::kF64 ? pure(Class::kF32, flush_ ? "cvt.rn.ftz.f32.f64" : "cvt.rn.f32.f64", {x}) : x;
  if (from != DType::kF64) return widen(to, narrow(to, x));
  if (to == DType::kF16) return widen(to, pure(Class::kB16, "cvt.rn.f16.f64", {x}));
  return widen(to, narrow(to, round_to_odd(x)));
}

}  // namespace stax::emit::ptx
