// SPDX-License-Identifier: Apache-2.0
#include "loop/interpret_values.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "support/error.h"
#include "support/float16.h"
#include "symbolic/evaluate.h"

// The loops below are what the interpreter spends its time in.
#if !defined(__clang__)
#pragma GCC optimize("O3")
#endif

namespace stax::loop {

using ir::ScalarOp;
using symbolic::ExprKind;

namespace {

// How an element lies in memory, and as which value it is held.
template <class R>
struct Integer {
  using Raw = R;
  static Value64 load(Raw r) { return {.i = static_cast<int64_t>(r)}; }
  static Raw store(Value64 v) { return static_cast<Raw>(v.i); }
};
struct Bool {
  using Raw = uint8_t;
  static Value64 load(Raw r) { return {.i = r != 0}; }
  static Raw store(Value64 v) { return v.i != 0; }
};
struct Half {
  using Raw = uint16_t;
  static Value64 load(Raw r) { return {.f = f16_to_float(r)}; }
  static Raw store(Value64 v) { return double_to_f16(v.f); }
};
struct Brain {
  using Raw = uint16_t;
  static Value64 load(Raw r) { return {.f = bf16_to_float(r)}; }
  static Raw store(Value64 v) { return double_to_bf16(v.f); }
};
template <class R>
struct Real {
  using Raw = R;
  static Value64 load(Raw r) { return {.f = r}; }
  static Raw store(Value64 v) { return static_cast<Raw>(v.f); }
};

template <class F>
void with_element(DType t, F f) {
  switch (t) {
    case DType::kBool: return f(Bool{});
    case DType::kI8: return f(Integer<int8_t>{});
    case DType::kI16: return f(Integer<int16_t>{});
    case DType::kI32: return f(Integer<int32_t>{});
    case DType::kI64: return f(Integer<int64_t>{});
    case DType::kU8: return f(Integer<uint8_t>{});
    case DType::kU16: return f(Integer<uint16_t>{});
    case DType::kU32: return f(Integer<uint32_t>{});
    case DType::kU64: return f(Integer<uint64_t>{});
    case DType::kF16: return f(Half{});
    case DType::kBF16: return f(Brain{});
    case DType::kF32: return f(Real<float>{});
    case DType::kF64: return f(Real<double>{});
  }
  STAX_UNREACHABLE();
}

template <class F>
void for_each_address(const Address& at, int64_t n, F f) {
  if (at.offsets != nullptr) {
    for (int64_t k = 0; k < n; ++k) f(k, at.base + at.offsets[k]);
  } else if (at.stride == 1) {
    for (int64_t k = 0; k < n; ++k) f(k, at.base + k);
  } else {
    for (int64_t k = 0; k < n; ++k) f(k, at.base + k * at.stride);
  }
}

int64_t wrapping(uint64_t v) { return static_cast<int64_t>(v); }

// min, max of floats: a NaN wins.
double least(double a, double b) { return a != a ? a : b != b ? b : std::min(a, b); }
double greatest(double a, double b) { return a != a ? a : b != b ? b : std::max(a, b); }

}  // namespace

void load_block(DType t, const void* data, const Address& at, int64_t n, const uint8_t* mask, Value64* out) {
  with_element(t, [&](auto element) {
    using E = decltype(element);
    const auto* raw = static_cast<const typename E::Raw*>(data);
    if (mask == nullptr) {
      for_each_address(at, n, [&](int64_t k, int64_t a) { out[k] = E::load(raw[a]); });
    } else {
      for_each_address(at, n, [&](int64_t k, int64_t a) { out[k] = mask[k] != 0 ? E::load(raw[a]) : Value64{.i = 0}; });
    }
  });
}

void store_block(DType t, void* data, const Address& at, int64_t n, const uint8_t* mask, const Value64* values) {
  with_element(t, [&](auto element) {
    using E = decltype(element);
    auto* raw = static_cast<typename E::Raw*>(data);
    if (mask == nullptr) {
      for_each_address(at, n, [&](int64_t k, int64_t a) { raw[a] = E::store(values[k]); });
    } else {
      for_each_address(at, n, [&](int64_t k, int64_t a) {
        if (mask[k] != 0) raw[a] = E::store(values[k]);
      });
    }
  });
}

namespace {

template <class E, class F>
void update_with(void* data, const Address& at, int64_t n, const uint8_t* mask, const Value64* values, F combine) {
  auto* raw = static_cast<typename E::Raw*>(data);
  if (at.offsets == nullptr && at.stride == 0) {
    typename E::Raw held = raw[at.base];
    for (int64_t k = 0; k < n; ++k) {
      if (mask == nullptr || mask[k] != 0) held = E::store(combine(E::load(held), values[k]));
    }
    raw[at.base] = held;
    return;
  }
  if (mask == nullptr) {
    for_each_address(at, n, [&](int64_t k, int64_t a) { raw[a] = E::store(combine(E::load(raw[a]), values[k])); });
  } else {
    for_each_address(at, n, [&](int64_t k, int64_t a) {
      if (mask[k] != 0) raw[a] = E::store(combine(E::load(raw[a]), values[k]));
    });
  }
}

ScalarOp op_of(Combiner combiner) {
  switch (combiner) {
    case Combiner::kSum: return ScalarOp::kAdd;
    case Combiner::kProd: return ScalarOp::kMul;
    case Combiner::kMin: return ScalarOp::kMin;
    case Combiner::kMax: return ScalarOp::kMax;
    case Combiner::kAnd: return ScalarOp::kAnd;
    case Combiner::kOr: return ScalarOp::kOr;
  }
  STAX_UNREACHABLE();
}

}  // namespace

void update_block(DType t, Combiner combiner, void* data, const Address& at, int64_t n, const uint8_t* mask,
                  const Value64* values) {
  with_element(t, [&](auto element) {
    using E = decltype(element);
    const auto run = [&](auto combine) { update_with<E>(data, at, n, mask, values, combine); };
    if (ir::is_float(t)) {
      switch (combiner) {
        case Combiner::kSum: return run([](Value64 a, Value64 b) { return Value64{.f = a.f + b.f}; });
        case Combiner::kProd: return run([](Value64 a, Value64 b) { return Value64{.f = a.f * b.f}; });
        case Combiner::kMin: return run([](Value64 a, Value64 b) { return Value64{.f = least(a.f, b.f)}; });
        case Combiner::kMax: return run([](Value64 a, Value64 b) { return Value64{.f = greatest(a.f, b.f)}; });
        case Combiner::kAnd:
        case Combiner::kOr: break;
      }
    }
    const ScalarOp op = op_of(combiner);
    run([&](Value64 a, Value64 b) {
      const Value64 args[] = {a, b};
      return ir::evaluate_scalar_op(op, t, args);
    });
  });
}

namespace {

template <class F>
void map1(const Value64* a, int64_t n, Value64* out, F f) {
  for (int64_t k = 0; k < n; ++k) out[k] = f(a[k]);
}
template <class F>
void map2(const Value64* a, const Value64* b, int64_t n, Value64* out, F f) {
  for (int64_t k = 0; k < n; ++k) out[k] = f(a[k], b[k]);
}

bool float_op(ScalarOp op, std::span<const Value64* const> args, int64_t n, Value64* out) {
  const Value64* a = args[0];
  const Value64* b = args.size() > 1 ? args[1] : nullptr;
  const auto real1 = [&](auto f) { return map1(a, n, out, [&](Value64 x) { return Value64{.f = f(x.f)}; }), true; };
  const auto real2 = [&](auto f) {
    return map2(a, b, n, out, [&](Value64 x, Value64 y) { return Value64{.f = f(x.f, y.f)}; }), true;
  };
  const auto test2 = [&](auto f) {
    return map2(a, b, n, out, [&](Value64 x, Value64 y) { return Value64{.i = f(x.f, y.f) ? 1 : 0}; }), true;
  };
  switch (op) {
    case ScalarOp::kAdd: return real2([](double x, double y) { return x + y; });
    case ScalarOp::kSub: return real2([](double x, double y) { return x - y; });
    case ScalarOp::kMul: return real2([](double x, double y) { return x * y; });
    case ScalarOp::kDiv: return real2([](double x, double y) { return x / y; });
    case ScalarOp::kMin: return real2(least);
    case ScalarOp::kMax: return real2(greatest);
    case ScalarOp::kNeg: return real1([](double x) { return -x; });
    case ScalarOp::kAbs: return real1([](double x) { return std::fabs(x); });
    case ScalarOp::kSqrt: return real1([](double x) { return std::sqrt(x); });
    case ScalarOp::kExp: return real1([](double x) { return std::exp(x); });
    case ScalarOp::kTanh: return real1([](double x) { return std::tanh(x); });
    case ScalarOp::kErf: return real1([](double x) { return std::erf(x); });
    case ScalarOp::kLess: return test2([](double x, double y) { return x < y; });
    case ScalarOp::kLessEqual: return test2([](double x, double y) { return x <= y; });
    case ScalarOp::kEqual: return test2([](double x, double y) { return x == y; });
    case ScalarOp::kNotEqual: return test2([](double x, double y) { return x != y; });
    default: return false;
  }
}

bool i64_op(ScalarOp op, std::span<const Value64* const> args, int64_t n, Value64* out) {
  if (args.size() != 2) return false;
  const auto map = [&](auto f) {
    return map2(args[0], args[1], n, out, [&](Value64 x, Value64 y) { return Value64{.i = f(x.i, y.i)}; }), true;
  };
  switch (op) {
    case ScalarOp::kAdd: return map([](int64_t x, int64_t y) { return wrapping(uint64_t(x) + uint64_t(y)); });
    case ScalarOp::kSub: return map([](int64_t x, int64_t y) { return wrapping(uint64_t(x) - uint64_t(y)); });
    case ScalarOp::kMul: return map([](int64_t x, int64_t y) { return wrapping(uint64_t(x) * uint64_t(y)); });
    case ScalarOp::kMin: return map([](int64_t x, int64_t y) { return std::min(x, y); });
    case ScalarOp::kMax: return map([](int64_t x, int64_t y) { return std::max(x, y); });
    case ScalarOp::kLess: return map([](int64_t x, int64_t y) { return int64_t{x < y}; });
    case ScalarOp::kLessEqual: return map([](int64_t x, int64_t y) { return int64_t{x <= y}; });
    case ScalarOp::kEqual: return map([](int64_t x, int64_t y) { return int64_t{x == y}; });
    case ScalarOp::kNotEqual: return map([](int64_t x, int64_t y) { return int64_t{x != y}; });
    default: return false;
  }
}

bool bool_op(ScalarOp op, std::span<const Value64* const> args, int64_t n, Value64* out) {
  switch (op) {
    case ScalarOp::kNot: return map1(args[0], n, out, [](Value64 x) { return Value64{.i = x.i == 0}; }), true;
    case ScalarOp::kAnd:
      return map2(args[0], args[1], n, out, [](Value64 x, Value64 y) { return Value64{.i = x.i & y.i}; }), true;
    case ScalarOp::kOr:
      return map2(args[0], args[1], n, out, [](Value64 x, Value64 y) { return Value64{.i = x.i | y.i}; }), true;
    default: return false;
  }
}

}  // namespace

namespace {

void op_block_in_double(ScalarOp op, DType t, std::span<const Value64* const> args, int64_t n, Value64* out) {
  if (ir::is_float(t) && float_op(op, args, n, out)) return;
  if (t == DType::kI64 && i64_op(op, args, n, out)) return;
  if (t == DType::kBool && bool_op(op, args, n, out)) return;
  std::array<Value64, 3> values;
  for (int64_t k = 0; k < n; ++k) {
    for (size_t a = 0; a < args.size(); ++a) values[a] = args[a][k];
    out[k] = ir::evaluate_scalar_op(op, t, std::span(values.data(), args.size()));
  }
}

}  // namespace

void op_block(ScalarOp op, DType t, std::span<const Value64* const> args, int64_t n, Value64* out) {
  op_block_in_double(op, t, args, n, out);
  if (t != DType::kF32) return;
  const DType types[] = {t, t};
  if (ir::result_dtype(op, std::span(types, args.size())) != t) return;
  // As machines do: what a comparison or a rounding makes of a value must not depend on bits that an f32 has not.
  for (int64_t k = 0; k < n; ++k) out[k].f = static_cast<double>(static_cast<float>(out[k].f));
}

void select_block(const Value64* condition, const Value64* a, const Value64* b, int64_t n, Value64* out) {
  for (int64_t k = 0; k < n; ++k) out[k].i = condition[k].i != 0 ? a[k].i : b[k].i;
}

void cast_block(DType to, DType from, const Value64* x, int64_t n, Value64* out) {
  const bool from_float = ir::is_float(from);
  if (from_float && to == DType::kF64) return void(std::copy_n(x, n, out));
  if (from_float && to == DType::kF32) {
    return map1(x, n, out, [](Value64 v) { return Value64{.f = static_cast<double>(static_cast<float>(v.f))}; });
  }
  if (to == DType::kBool && !from_float) return map1(x, n, out, [](Value64 v) { return Value64{.i = v.i != 0}; });
  if (to == DType::kI64 && !from_float) return void(std::copy_n(x, n, out));
  for (int64_t k = 0; k < n; ++k) out[k] = ir::evaluate_cast(to, from, x[k]);
}

namespace {

// By one positive divisor, for values that fit in 32 bits, where division is much faster.
template <class F>
bool divide_small(const Value64* x, int64_t divisor, int64_t n, F f) {
  constexpr int64_t kLimit = int64_t{1} << 31;
  if (divisor <= 0 || divisor >= kLimit) return false;
  uint64_t all = 0;
  for (int64_t k = 0; k < n; ++k) all |= static_cast<uint64_t>(x[k].i);
  if (all >= static_cast<uint64_t>(kLimit)) return false;
  const auto d = static_cast<uint32_t>(divisor);
  for (int64_t k = 0; k < n; ++k) f(k, static_cast<uint32_t>(x[k].i), d);
  return true;
}

}  // namespace

void index_block(ExprKind kind, std::span<const Value64* const> args, bool uniform_divisor, int64_t n, Value64* out) {
  const auto map = [&](auto f) {
    map2(args[0], args[1], n, out, [&](Value64 x, Value64 y) { return Value64{.i = f(x.i, y.i)}; });
  };
  switch (kind) {
    case ExprKind::kConstant:
    case ExprKind::kSymbol: break;
    case ExprKind::kAdd: return map(symbolic::saturating_add);
    case ExprKind::kMul: return map(symbolic::saturating_mul);
    case ExprKind::kFloorDiv:
      if (uniform_divisor &&
          divide_small(args[0], args[1][0].i, n, [&](int64_t k, uint32_t x, uint32_t d) { out[k].i = x / d; })) {
        return;
      }
      return map(symbolic::floor_div);
    case ExprKind::kMod:
      if (uniform_divisor &&
          divide_small(args[0], args[1][0].i, n, [&](int64_t k, uint32_t x, uint32_t d) { out[k].i = x % d; })) {
        return;
      }
      return map(symbolic::floor_mod);
    case ExprKind::kMin: return map([](int64_t x, int64_t y) { return std::min(x, y); });
    case ExprKind::kMax: return map([](int64_t x, int64_t y) { return std::max(x, y); });
    case ExprKind::kLess: return map([](int64_t x, int64_t y) { return int64_t{x < y}; });
    case ExprKind::kEqual: return map([](int64_t x, int64_t y) { return int64_t{x == y}; });
    case ExprKind::kSelect: return select_block(args[0], args[1], args[2], n, out);
  }
  STAX_UNREACHABLE();
}

}  // namespace stax::loop
