// SPDX-License-Identifier: Apache-2.0
#include "thread/interpret_steps.h"

#include <cmath>

#include "support/error.h"
#include "support/float16.h"
#include "symbolic/evaluate.h"

namespace stax::thread {

using ir::ScalarOp;
using ir::Value64;
using symbolic::ExprKind;

namespace {

template <class T>
const T* at(const std::byte* memory, const Operand& o) {
  return reinterpret_cast<const T*>(memory + o.at);
}

// out[i] = f(a[i]), and so on; a uniform argument is one value.
template <class R, class T, class F>
void map1(const Step& s, const std::byte* memory, R* out, Span span, const F& f) {
  const T* a = at<T>(memory, s.args[0]);
  if (s.args[0].uniform) {
    const R value = f(*a);
    for (int64_t i = span.lo; i < span.hi; ++i) out[i] = value;
  } else {
    for (int64_t i = span.lo; i < span.hi; ++i) out[i] = f(a[i]);
  }
}

template <class R, class T, class F>
void map2(const Step& s, const std::byte* memory, R* out, Span span, const F& f) {
  const T *a = at<T>(memory, s.args[0]), *b = at<T>(memory, s.args[1]);
  if (s.args[0].uniform) {
    const T x = *a;
    if (s.args[1].uniform) {
      const R value = f(x, *b);
      for (int64_t i = span.lo; i < span.hi; ++i) out[i] = value;
    } else {
      for (int64_t i = span.lo; i < span.hi; ++i) out[i] = f(x, b[i]);
    }
  } else if (s.args[1].uniform) {
    const T y = *b;
    for (int64_t i = span.lo; i < span.hi; ++i) out[i] = f(a[i], y);
  } else {
    for (int64_t i = span.lo; i < span.hi; ++i) out[i] = f(a[i], b[i]);
  }
}

// ---- Index expressions

int64_t wrapping(uint64_t v) { return static_cast<int64_t>(v); }
uint64_t bits(int64_t v) { return static_cast<uint64_t>(v); }

void divide(const Step& s, const std::byte* memory, int64_t* out, Span span, bool quotient) {
  const int64_t *a = at<int64_t>(memory, s.args[0]), *b = at<int64_t>(memory, s.args[1]);
  const int64_t d = *b;
  if (!s.args[1].uniform || s.args[0].uniform || d <= 0 || d > INT32_MAX) {
    if (quotient) return map2<int64_t, int64_t>(s, memory, out, span, symbolic::floor_div);
    return map2<int64_t, int64_t>(s, memory, out, span, symbolic::floor_mod);
  }
  if ((d & (d - 1)) == 0) {
    const int shift = __builtin_ctzll(bits(d));
    if (quotient) {
      for (int64_t i = span.lo; i < span.hi; ++i) out[i] = a[i] >> shift;
    } else {
      for (int64_t i = span.lo; i < span.hi; ++i) out[i] = a[i] & (d - 1);
    }
    return;
  }
  // Division of 32 bits is several times faster than that of 64.
  const auto small = static_cast<uint32_t>(d);
  for (int64_t i = span.lo; i < span.hi; ++i) {
    if (a[i] >= 0 && a[i] <= INT32_MAX) {
      const auto x = static_cast<uint32_t>(a[i]);
      out[i] = quotient ? x / small : x % small;
    } else {
      out[i] = quotient ? symbolic::floor_div(a[i], d) : symbolic::floor_mod(a[i], d);
    }
  }
}

void run_index(const Step& s, const std::byte* memory, int64_t* out, Span span) {
  const auto map = [&](const auto& f) { map2<int64_t, int64_t>(s, memory, out, span, f); };
  switch (s.index) {
    case ExprKind::kAdd: return map([](int64_t a, int64_t b) { return wrapping(bits(a) + bits(b)); });
    case ExprKind::kMul: return map([](int64_t a, int64_t b) { return wrapping(bits(a) * bits(b)); });
    case ExprKind::kFloorDiv: return divide(s, memory, out, span, true);
    case ExprKind::kMod: return divide(s, memory, out, span, false);
    case ExprKind::kMin: return map([](int64_t a, int64_t b) { return a < b ? a : b; });
    case ExprKind::kMax: return map([](int64_t a, int64_t b) { return a > b ? a : b; });
    case ExprKind::kLess: return map([](int64_t a, int64_t b) { return int64_t{a < b}; });
    case ExprKind::kEqual: return map([](int64_t a, int64_t b) { return int64_t{a == b}; });
    case ExprKind::kSelect: {
      const int64_t* args[3];
      int64_t step[3];
      for (int k = 0; k < 3; ++k) {
        args[k] = at<int64_t>(memory, s.args[k]);
        step[k] = s.args[k].uniform ? 0 : 1;
      }
      for (int64_t i = span.lo; i < span.hi; ++i)
        out[i] = args[0][i * step[0]] != 0 ? args[1][i * step[1]] : args[2][i * step[2]];
      return;
    }
    case ExprKind::kConstant:
    case ExprKind::kSymbol: break;
  }
  STAX_UNREACHABLE();
}

// ---- Scalar operations

template <class T>
T minimum(T a, T b) {
  // NaN wins; -0 is less than +0.
  if (std::isnan(a)) return a;
  if (std::isnan(b)) return b;
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}

// Whatever has no loop of its own: one value after the other by the definition, rounded to the type.
template <class T>
void by_definition(const Step& s, const std::byte* memory, std::byte* out, Span span) {
  const bool to_int = lane_of(s.dtype) == Lane::kInt;
  Value64 args[3];
  for (int64_t i = span.lo; i < span.hi; ++i) {
    for (int k = 0; k < s.count; ++k) {
      const T value = at<T>(memory, s.args[k])[s.args[k].uniform ? 0 : i];
      if constexpr (std::is_integral_v<T>) {
        args[k].i = value;
      } else {
        args[k].f = value;
      }
    }
    const Value64 result =
        ir::evaluate_scalar_op(s.op, s.from, std::span<const Value64>(args, static_cast<size_t>(s.count)));
    if (to_int) {
      reinterpret_cast<int64_t*>(out)[i] = result.i;
    } else {
      reinterpret_cast<T*>(out)[i] = static_cast<T>(result.f);
    }
  }
}

template <class T>
void run_math(const Step& s, const std::byte* memory, T* out, Span span) {
  // The table's functions take arrays.
  thread_local std::vector<T> spread;
  const auto n = static_cast<size_t>(span.hi - span.lo);
  std::span<const T> args[2];
  spread.resize(2 * n);
  for (int k = 0; k < s.count; ++k) {
    const T* a = at<T>(memory, s.args[k]);
    if (s.args[k].uniform) {
      std::fill_n(spread.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(k) * n), n, *a);
      args[k] = std::span<const T>(spread).subspan(static_cast<size_t>(k) * n, n);
    } else {
      args[k] = std::span<const T>(a + span.lo, n);
    }
  }
  ir::evaluate(*s.math, args[0], args[1], std::span<T>(out + span.lo, n));
}

template <class T>
void run_float(const Step& s, const std::byte* memory, std::byte* result, Span span) {
  T* out = reinterpret_cast<T*>(result);
  if (s.math != nullptr) return run_math(s, memory, out, span);
  const auto map = [&](const auto& f) { map2<T, T>(s, memory, out, span, f); };
  const auto one = [&](const auto& f) { map1<T, T>(s, memory, out, span, f); };
  const auto test = [&](const auto& f) { map2<int64_t, T>(s, memory, reinterpret_cast<int64_t*>(result), span, f); };
  switch (s.op) {
    case ScalarOp::kAdd: return map([](T a, T b) { return a + b; });
    case ScalarOp::kSub: return map([](T a, T b) { return a - b; });
    case ScalarOp::kMul: return map([](T a, T b) { return a * b; });
    case ScalarOp::kDiv: return map([](T a, T b) { return a / b; });
    case ScalarOp::kMin: return map(minimum<T>);
    case ScalarOp::kMax: return map([](T a, T b) { return -minimum(-a, -b); });
    case ScalarOp::kNeg: return one([](T a) { return -a; });
    case ScalarOp::kAbs: return one([](T a) { return std::fabs(a); });
    case ScalarOp::kFloor: return one([](T a) { return std::floor(a); });
    case ScalarOp::kCeil: return one([](T a) { return std::ceil(a); });
    case ScalarOp::kTrunc: return one([](T a) { return std::trunc(a); });
    case ScalarOp::kSqrt: return one([](T a) { return std::sqrt(a); });
    case ScalarOp::kEqual: return test([](T a, T b) { return int64_t{a == b}; });
    case ScalarOp::kNotEqual: return test([](T a, T b) { return int64_t{a != b}; });
    case ScalarOp::kLess: return test([](T a, T b) { return int64_t{a < b}; });
    case ScalarOp::kLessEqual: return test([](T a, T b) { return int64_t{a <= b}; });
    default: return by_definition<T>(s, memory, result, span);
  }
}

int64_t wrap(DType t, int64_t v) {
  switch (t) {
    case DType::kBool: return v & 1;
    case DType::kI8: return static_cast<int8_t>(v);
    case DType::kI16: return static_cast<int16_t>(v);
    case DType::kI32: return static_cast<int32_t>(v);
    case DType::kU8: return static_cast<uint8_t>(v);
    case DType::kU16: return static_cast<uint16_t>(v);
    case DType::kU32: return static_cast<uint32_t>(v);
    default: return v;
  }
}

void run_integer(const Step& s, const std::byte* memory, int64_t* out, Span span) {
  const DType t = s.from;
  const bool is_unsigned = t == DType::kU64;  // the narrower ones are held as they are
  const auto map = [&](const auto& f) { map2<int64_t, int64_t>(s, memory, out, span, f); };
  const auto wrapped = [&](const auto& f) {
    switch (t) {
      case DType::kI32:
        return map([&](int64_t a, int64_t b) { return int64_t{static_cast<int32_t>(wrapping(f(bits(a), bits(b))))}; });
      case DType::kI64:
      case DType::kU64: return map([&](int64_t a, int64_t b) { return wrapping(f(bits(a), bits(b))); });
      default: return map([&](int64_t a, int64_t b) { return wrap(t, wrapping(f(bits(a), bits(b)))); });
    }
  };
  switch (s.op) {
    case ScalarOp::kAdd: return wrapped([](uint64_t a, uint64_t b) { return a + b; });
    case ScalarOp::kSub: return wrapped([](uint64_t a, uint64_t b) { return a - b; });
    case ScalarOp::kMul: return wrapped([](uint64_t a, uint64_t b) { return a * b; });
    case ScalarOp::kAnd: return map([](int64_t a, int64_t b) { return a & b; });
    case ScalarOp::kOr: return map([](int64_t a, int64_t b) { return a | b; });
    case ScalarOp::kEqual: return map([](int64_t a, int64_t b) { return int64_t{a == b}; });
    case ScalarOp::kNotEqual: return map([](int64_t a, int64_t b) { return int64_t{a != b}; });
    case ScalarOp::kLess:
      if (is_unsigned) break;
      return map([](int64_t a, int64_t b) { return int64_t{a < b}; });
    case ScalarOp::kLessEqual:
      if (is_unsigned) break;
      return map([](int64_t a, int64_t b) { return int64_t{a <= b}; });
    case ScalarOp::kNot:
      if (t != DType::kBool) break;
      return map1<int64_t, int64_t>(s, memory, out, span, [](int64_t a) { return int64_t{a == 0}; });
    default: break;
  }
  by_definition<int64_t>(s, memory, reinterpret_cast<std::byte*>(out), span);
}

template <class T>
void run_select(const Step& s, const std::byte* memory, T* out, Span span) {
  const int64_t* condition = at<int64_t>(memory, s.args[0]);
  const T *a = at<T>(memory, s.args[1]), *b = at<T>(memory, s.args[2]);
  const int64_t step_c = s.args[0].uniform ? 0 : 1, step_a = s.args[1].uniform ? 0 : 1,
                step_b = s.args[2].uniform ? 0 : 1;
  for (int64_t i = span.lo; i < span.hi; ++i) {
    const T x = a[i * step_a], y = b[i * step_b];
    out[i] = condition[i * step_c] != 0 ? x : y;
  }
}

// ---- Casts

template <class T>
void cast_from(const Step& s, const std::byte* memory, std::byte* out, Span span) {
  const auto to = [&]<class R>(R*, const auto& f) { map1<R, T>(s, memory, reinterpret_cast<R*>(out), span, f); };
  float* const f32 = nullptr;
  double* const f64 = nullptr;
  int64_t* const integer = nullptr;
  const DType t = s.dtype, from = s.from;
  if constexpr (std::is_integral_v<T>) {
    if (lane_of(t) == Lane::kInt)
      return to(integer, [t](T v) { return t == DType::kBool ? int64_t{v != 0} : wrap(t, v); });
    if (from != DType::kU64 && t == DType::kF32) return to(f32, [](T v) { return static_cast<float>(v); });
    if (from != DType::kU64 && t == DType::kF64) return to(f64, [](T v) { return static_cast<double>(v); });
  } else {
    if (t == DType::kF64) return to(f64, [](T v) { return static_cast<double>(v); });
    if (t == DType::kF32) return to(f32, [](T v) { return static_cast<float>(v); });
    if (t == DType::kBool) return to(integer, [](T v) { return int64_t{v != 0}; });
  }
  const auto value = [&](T v) {
    Value64 x;
    if constexpr (std::is_integral_v<T>) {
      x.i = v;
    } else {
      x.f = v;
    }
    return ir::evaluate_cast(t, from, x);
  };
  if (lane_of(t) == Lane::kInt) return to(integer, [&](T v) { return value(v).i; });
  to(f32, [&](T v) { return static_cast<float>(value(v).f); });
}

}  // namespace

void round_lanes(DType t, const float* in, float* out, Span span) {
  if (t == DType::kBF16) {
    for (int64_t i = span.lo; i < span.hi; ++i) out[i] = bf16_to_float(float_to_bf16(in[i]));
  } else {
    for (int64_t i = span.lo; i < span.hi; ++i) out[i] = f16_to_float(float_to_f16(in[i]));
  }
}

void run_step(const Step& s, std::byte* memory, void* out, Span span) {
  auto* bytes = static_cast<std::byte*>(out);
  const Lane lane = lane_of(s.from);
  switch (s.kind) {
    case Step::Kind::kIndex: return run_index(s, memory, static_cast<int64_t*>(out), span);
    case Step::Kind::kOp:
      if (lane == Lane::kF32) return run_float<float>(s, memory, bytes, span);
      if (lane == Lane::kF64) return run_float<double>(s, memory, bytes, span);
      return run_integer(s, memory, static_cast<int64_t*>(out), span);
    case Step::Kind::kSelect:
      if (lane == Lane::kF32) return run_select(s, memory, static_cast<float*>(out), span);
      if (lane == Lane::kF64) return run_select(s, memory, static_cast<double*>(out), span);
      return run_select(s, memory, static_cast<int64_t*>(out), span);
    case Step::Kind::kCast:
      if (lane == Lane::kF32) return cast_from<float>(s, memory, bytes, span);
      if (lane == Lane::kF64) return cast_from<double>(s, memory, bytes, span);
      return cast_from<int64_t>(s, memory, bytes, span);
    case Step::Kind::kElement:
    case Step::Kind::kLoad:
    case Step::Kind::kCheckedIndex:
    case Step::Kind::kMask: break;
  }
  STAX_UNREACHABLE();
}

}  // namespace stax::thread
