// SPDX-License-Identifier: Apache-2.0
#include "tensor/interpret_block_ops.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "support/error.h"
#include "support/float16.h"
#include "tensor/interpret_blocks.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

namespace stax::tensor::reference {

using ir::DType;
using ir::ScalarOp;
using ir::Value64;

namespace {

/// Elements as they are in memory, where C++ has no type of that meaning.
struct F16 {
  uint16_t bits;
};
struct BF16 {
  uint16_t bits;
};
struct Bool {
  uint8_t byte;
};

double widen(F16 x) { return f16_to_float(x.bits); }
double widen(BF16 x) { return bf16_to_float(x.bits); }
int64_t widen(Bool x) { return x.byte != 0 ? 1 : 0; }
double widen(float x) { return x; }
double widen(double x) { return x; }
template <class T>
  requires std::is_integral_v<T>
int64_t widen(T x) {
  return static_cast<int64_t>(x);
}

template <class T, class W>
T narrow(W x) {
  if constexpr (std::is_same_v<T, F16>) {
    return F16{double_to_f16(x)};
  } else if constexpr (std::is_same_v<T, BF16>) {
    return BF16{double_to_bf16(x)};
  } else if constexpr (std::is_same_v<T, Bool>) {
    return Bool{static_cast<uint8_t>(x != 0 ? 1 : 0)};
  } else {
    return static_cast<T>(x);
  }
}

/// Calls f with a null pointer to the C++ type of `t`.
template <class F>
void with_type(DType t, F&& f) {
  switch (t) {
    case DType::kBool: f(static_cast<Bool*>(nullptr)); return;
    case DType::kI8: f(static_cast<int8_t*>(nullptr)); return;
    case DType::kI16: f(static_cast<int16_t*>(nullptr)); return;
    case DType::kI32: f(static_cast<int32_t*>(nullptr)); return;
    case DType::kI64: f(static_cast<int64_t*>(nullptr)); return;
    case DType::kU8: f(static_cast<uint8_t*>(nullptr)); return;
    case DType::kU16: f(static_cast<uint16_t*>(nullptr)); return;
    case DType::kU32: f(static_cast<uint32_t*>(nullptr)); return;
    case DType::kU64: f(static_cast<uint64_t*>(nullptr)); return;
    case DType::kF16: f(static_cast<F16*>(nullptr)); return;
    case DType::kBF16: f(static_cast<BF16*>(nullptr)); return;
    case DType::kF32: f(static_cast<float*>(nullptr)); return;
    case DType::kF64: f(static_cast<double*>(nullptr)); return;
  }
  STAX_UNREACHABLE();
}

template <class T>
using Wide = decltype(widen(T{}));

/// The definition itself, element by element.
void apply_slowly(ScalarOp op, DType argument_type, const void* const* arguments, void* out, int64_t n) {
  const int arity = ir::arity_of(op);
  Value64 values[3];
  const bool is_select = op == ScalarOp::kSelect;
  for (int64_t i = 0; i < n; ++i) {
    for (int k = 0; k < arity; ++k) {
      const bool as_float = is_float(argument_type) && !(is_select && k == 0);
      if (as_float) {
        values[k].f = static_cast<const double*>(arguments[k])[i];
      } else {
        values[k].i = static_cast<const int64_t*>(arguments[k])[i];
      }
    }
    // A union copies all its bits, whichever member is meant.
    static_cast<Value64*>(out)[i] = ir::evaluate_scalar_op(op, argument_type, {values, static_cast<size_t>(arity)});
  }
}

template <class R, class A, class F>
void map1(const void* const* arguments, void* out, int64_t n, F f) {
  const A* __restrict a = static_cast<const A*>(arguments[0]);
  R* __restrict r = static_cast<R*>(out);
  for (int64_t i = 0; i < n; ++i) r[i] = f(a[i]);
}

template <class R, class A, class F>
void map2(const void* const* arguments, void* out, int64_t n, F f) {
  const A* __restrict a = static_cast<const A*>(arguments[0]);
  const A* __restrict b = static_cast<const A*>(arguments[1]);
  R* __restrict r = static_cast<R*>(out);
  for (int64_t i = 0; i < n; ++i) r[i] = f(a[i], b[i]);
}

// A NaN in either place wins, and -0 is less than +0: equal values differ at most in their sign bits.
double greater_of(double a, double b) {
  const double equal = std::bit_cast<double>(std::bit_cast<uint64_t>(a) & std::bit_cast<uint64_t>(b));
  return a != a ? a : b != b ? b : a == b ? equal : a > b ? a : b;
}
double lesser_of(double a, double b) {
  const double equal = std::bit_cast<double>(std::bit_cast<uint64_t>(a) | std::bit_cast<uint64_t>(b));
  return a != a ? a : b != b ? b : a == b ? equal : a < b ? a : b;
}

// As casts have it: towards zero, saturating; a NaN is the least integer.
int64_t to_integer(double x) {
  if (!(x > -0x1p63)) return std::numeric_limits<int64_t>::min();
  if (x >= 0x1p63) return std::numeric_limits<int64_t>::max();
  return static_cast<int64_t>(x);
}

bool apply_float(ScalarOp op, const void* const* x, void* out, int64_t n) {
  using D = double;
  using B = int64_t;
  switch (op) {
    case ScalarOp::kAdd: map2<D, D>(x, out, n, [](D a, D b) { return a + b; }); return true;
    case ScalarOp::kSub: map2<D, D>(x, out, n, [](D a, D b) { return a - b; }); return true;
    case ScalarOp::kMul: map2<D, D>(x, out, n, [](D a, D b) { return a * b; }); return true;
    case ScalarOp::kDiv: map2<D, D>(x, out, n, [](D a, D b) { return a / b; }); return true;
    case ScalarOp::kNeg: map1<D, D>(x, out, n, [](D a) { return -a; }); return true;
    case ScalarOp::kAbs: map1<D, D>(x, out, n, [](D a) { return std::fabs(a); }); return true;
    case ScalarOp::kSqrt: map1<D, D>(x, out, n, [](D a) { return std::sqrt(a); }); return true;
    case ScalarOp::kExp: map1<D, D>(x, out, n, [](D a) { return std::exp(a); }); return true;
    case ScalarOp::kTanh: map1<D, D>(x, out, n, [](D a) { return std::tanh(a); }); return true;
    case ScalarOp::kErf: map1<D, D>(x, out, n, [](D a) { return std::erf(a); }); return true;
    case ScalarOp::kEqual: map2<B, D>(x, out, n, [](D a, D b) { return B{a == b}; }); return true;
    case ScalarOp::kNotEqual: map2<B, D>(x, out, n, [](D a, D b) { return B{a != b}; }); return true;
    case ScalarOp::kLess: map2<B, D>(x, out, n, [](D a, D b) { return B{a < b}; }); return true;
    case ScalarOp::kLessEqual: map2<B, D>(x, out, n, [](D a, D b) { return B{a <= b}; }); return true;
    case ScalarOp::kMax: map2<D, D>(x, out, n, greater_of); return true;
    case ScalarOp::kMin: map2<D, D>(x, out, n, lesser_of); return true;
    case ScalarOp::kFloor: map1<D, D>(x, out, n, [](D a) { return std::floor(a); }); return true;
    case ScalarOp::kCeil: map1<D, D>(x, out, n, [](D a) { return std::ceil(a); }); return true;
    case ScalarOp::kRoundEven: map1<D, D>(x, out, n, [](D a) { return std::nearbyint(a); }); return true;
    case ScalarOp::kLog: map1<D, D>(x, out, n, [](D a) { return std::log(a); }); return true;
    case ScalarOp::kSin: map1<D, D>(x, out, n, [](D a) { return std::sin(a); }); return true;
    case ScalarOp::kCos: map1<D, D>(x, out, n, [](D a) { return std::cos(a); }); return true;
    case ScalarOp::kPow: map2<D, D>(x, out, n, [](D a, D b) { return std::pow(a, b); }); return true;
    default: return false;  // the slow way knows all
  }
}

bool apply_integer(ScalarOp op, DType t, const void* const* x, void* out, int64_t n) {
  using I = int64_t;
  using U = uint64_t;
  const auto wrapped = [&] {
    wrap_block(t, static_cast<I*>(out), n);
    return true;
  };
  if (t == DType::kBool) {
    switch (op) {
      case ScalarOp::kEqual: map2<I, I>(x, out, n, [](I a, I b) { return I{a == b}; }); return true;
      case ScalarOp::kNot: map1<I, I>(x, out, n, [](I a) { return I{a == 0}; }); return true;
      case ScalarOp::kAnd: map2<I, I>(x, out, n, [](I a, I b) { return a & b; }); return true;
      case ScalarOp::kOr: map2<I, I>(x, out, n, [](I a, I b) { return a | b; }); return true;
      default: return false;
    }
  }
  switch (op) {
    case ScalarOp::kAdd: map2<I, I>(x, out, n, [](I a, I b) { return I(U(a) + U(b)); }); return wrapped();
    case ScalarOp::kSub: map2<I, I>(x, out, n, [](I a, I b) { return I(U(a) - U(b)); }); return wrapped();
    case ScalarOp::kMul: map2<I, I>(x, out, n, [](I a, I b) { return I(U(a) * U(b)); }); return wrapped();
    case ScalarOp::kEqual: map2<I, I>(x, out, n, [](I a, I b) { return I{a == b}; }); return true;
    case ScalarOp::kNotEqual: map2<I, I>(x, out, n, [](I a, I b) { return I{a != b}; }); return true;
    default: break;
  }
  if (t == DType::kU64) return false;
  switch (op) {
    case ScalarOp::kLess: map2<I, I>(x, out, n, [](I a, I b) { return I{a < b}; }); return true;
    case ScalarOp::kLessEqual: map2<I, I>(x, out, n, [](I a, I b) { return I{a <= b}; }); return true;
    case ScalarOp::kMax: map2<I, I>(x, out, n, [](I a, I b) { return a > b ? a : b; }); return true;
    case ScalarOp::kMin: map2<I, I>(x, out, n, [](I a, I b) { return a < b ? a : b; }); return true;
    default: return false;
  }
}

void select_block(const void* const* arguments, void* out, int64_t n) {
  const int64_t* __restrict c = static_cast<const int64_t*>(arguments[0]);
  // Both kinds of value are 8 bytes; they are moved as such.
  const uint64_t* __restrict a = static_cast<const uint64_t*>(arguments[1]);
  const uint64_t* __restrict b = static_cast<const uint64_t*>(arguments[2]);
  uint64_t* __restrict r = static_cast<uint64_t*>(out);
  for (int64_t i = 0; i < n; ++i) r[i] = c[i] != 0 ? a[i] : b[i];
}

}  // namespace

bool is_float_block(DType t) { return is_float(t); }

void apply_op_block(ScalarOp op, DType argument_type, const void* const* arguments, void* out, int64_t n) {
  if (op == ScalarOp::kSelect) return select_block(arguments, out, n);
  const bool done = is_float(argument_type) ? apply_float(op, arguments, out, n)
                                            : apply_integer(op, argument_type, arguments, out, n);
  if (!done) apply_slowly(op, argument_type, arguments, out, n);
}

void apply_cast_block(DType to, DType from, const void* x, void* out, int64_t n) {
  const auto* ints = static_cast<const int64_t*>(x);
  const auto* floats = static_cast<const double*>(x);
  if (is_float(from) && to == DType::kF64) {
    std::copy(floats, floats + n, static_cast<double*>(out));
  } else if (is_float(from) && to == DType::kF32) {
    map1<double, double>(&x, out, n, [](double a) { return static_cast<double>(static_cast<float>(a)); });
  } else if (!is_float(from) && from != DType::kU64 && to == DType::kF32) {
    map1<double, int64_t>(&x, out, n, [](int64_t a) { return static_cast<double>(static_cast<float>(a)); });
  } else if (!is_float(from) && from != DType::kU64 && to == DType::kF64) {
    map1<double, int64_t>(&x, out, n, [](int64_t a) { return static_cast<double>(a); });
  } else if (!is_float(from) && is_integer(to)) {
    std::copy(ints, ints + n, static_cast<int64_t*>(out));
    wrap_block(to, static_cast<int64_t*>(out), n);
  } else if (is_float(from) && is_integer(to)) {
    map1<int64_t, double>(&x, out, n, to_integer);
    wrap_block(to, static_cast<int64_t*>(out), n);
  } else if (!is_float(from) && to == DType::kBool) {
    map1<int64_t, int64_t>(&x, out, n, [](int64_t a) { return int64_t{a != 0}; });
  } else {
    for (int64_t i = 0; i < n; ++i) {
      Value64 value;
      if (is_float(from)) {
        value.f = floats[i];
      } else {
        value.i = ints[i];
      }
      static_cast<Value64*>(out)[i] = ir::evaluate_cast(to, from, value);
    }
  }
}

void wrap_block(DType t, int64_t* values, int64_t n) {
  with_type(t, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    if constexpr (std::is_integral_v<T> && sizeof(T) < 8) {
      for (int64_t i = 0; i < n; ++i) values[i] = narrow<T>(values[i]);
    }
  });
}

void load_strided_block(DType t, const void* data, int64_t start, int64_t step, void* out, int64_t n) {
  with_type(t, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T* __restrict from = static_cast<const T*>(data) + start;
    auto* __restrict to = static_cast<Wide<T>*>(out);
    if (step == 1) {
      for (int64_t i = 0; i < n; ++i) to[i] = widen(from[i]);
    } else if (step == 0) {
      std::fill(to, to + n, widen(from[0]));
    } else {
      for (int64_t i = 0; i < n; ++i) to[i] = widen(from[i * step]);
    }
  });
}

void load_gathered_block(DType t, const void* data, const int64_t* offsets, void* out, int64_t n) {
  with_type(t, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T* __restrict from = static_cast<const T*>(data);
    auto* __restrict to = static_cast<Wide<T>*>(out);
    for (int64_t i = 0; i < n; ++i) to[i] = widen(from[offsets[i]]);
  });
}

void store_block(DType t, void* data, int64_t start, const void* values, int64_t n) {
  with_type(t, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const auto* __restrict from = static_cast<const Wide<T>*>(values);
    T* __restrict to = static_cast<T*>(data) + start;
    for (int64_t i = 0; i < n; ++i) to[i] = narrow<T>(from[i]);
  });
}

}  // namespace stax::tensor::reference
