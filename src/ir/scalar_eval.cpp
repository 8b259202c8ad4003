// SPDX-License-Identifier: Apache-2.0
// Values of scalar operations on the host. Integers are computed in uint64 and wrapped to their width, so nothing here
// overflows; floats are doubles.
#include <cmath>
#include <cstring>
#include <limits>

#include "ir/scalar.h"
#include "support/error.h"
#include "support/float16.h"

namespace stax::ir {
namespace {

constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
constexpr int64_t kGreatest = std::numeric_limits<int64_t>::max();

Value64 of_int(int64_t i) {
  Value64 v;
  v.i = i;
  return v;
}

Value64 of_float(double f) {
  Value64 v;
  v.f = f;
  return v;
}

Value64 of_bool(bool b) { return of_int(b ? 1 : 0); }

uint64_t bits(int64_t v) { return static_cast<uint64_t>(v); }

int64_t truncate_saturating(double f) {
  if (std::isnan(f) || f <= -0x1p63) return kLeast;
  if (f >= 0x1p63) return kGreatest;
  return static_cast<int64_t>(f);
}

// Python's %: the result has the divisor's sign, also where it is zero.
double mod_floor(double a, double b) {
  const double rest = std::fmod(a, b);
  if (rest == 0) return std::copysign(0.0, b);
  return (rest < 0) != (b < 0) ? rest + b : rest;
}

// NaN wins; -0 is less than +0.
double minimum(double a, double b) {
  if (std::isnan(a)) return a;
  if (std::isnan(b)) return b;
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}

double maximum(double a, double b) { return -minimum(-a, -b); }

double sigmoid(double x) {
  if (x >= 0) return 1 / (1 + std::exp(-x));
  const double e = std::exp(x);
  return e / (1 + e);
}

double round_even(double x) {
  // Half-way cases exist only below 2^52; the sign of zero stays.
  const double floor = std::floor(x), rest = x - floor;
  if (rest < 0.5) return std::copysign(floor, x);
  if (rest > 0.5) return std::copysign(floor + 1, x);
  if (rest != 0.5) return x;  // NaN and infinity
  return std::copysign(std::fmod(floor, 2) == 0 ? floor : floor + 1, x);
}

Value64 evaluate_float(ScalarOp op, std::span<const Value64> args) {
  const double a = args[0].f, b = args.size() > 1 ? args[1].f : 0;
  switch (op) {
    case ScalarOp::kAdd: return of_float(a + b);
    case ScalarOp::kSub: return of_float(a - b);
    case ScalarOp::kMul: return of_float(a * b);
    case ScalarOp::kDiv: return of_float(a / b);
    case ScalarOp::kModFloor: return of_float(mod_floor(a, b));
    case ScalarOp::kModTrunc: return of_float(std::fmod(a, b));
    case ScalarOp::kMin: return of_float(minimum(a, b));
    case ScalarOp::kMax: return of_float(maximum(a, b));
    case ScalarOp::kPow: return of_float(std::pow(a, b));
    case ScalarOp::kAtan2: return of_float(std::atan2(a, b));
    case ScalarOp::kNeg: return of_float(-a);
    case ScalarOp::kAbs: return of_float(std::fabs(a));
    case ScalarOp::kSign: return of_float(std::isnan(a) ? a : a > 0 ? 1 : a < 0 ? -1 : 0);
    case ScalarOp::kFloor: return of_float(std::floor(a));
    case ScalarOp::kCeil: return of_float(std::ceil(a));
    case ScalarOp::kTrunc: return of_float(std::trunc(a));
    case ScalarOp::kRoundEven: return of_float(round_even(a));
    case ScalarOp::kSqrt: return of_float(std::sqrt(a));
    case ScalarOp::kExp: return of_float(std::exp(a));
    case ScalarOp::kLog: return of_float(std::log(a));
    case ScalarOp::kLog1p: return of_float(std::log1p(a));
    case ScalarOp::kExpm1: return of_float(std::expm1(a));
    case ScalarOp::kSin: return of_float(std::sin(a));
    case ScalarOp::kCos: return of_float(std::cos(a));
    case ScalarOp::kTan: return of_float(std::tan(a));
    case ScalarOp::kAsin: return of_float(std::asin(a));
    case ScalarOp::kAcos: return of_float(std::acos(a));
    case ScalarOp::kAtan: return of_float(std::atan(a));
    case ScalarOp::kSinh: return of_float(std::sinh(a));
    case ScalarOp::kCosh: return of_float(std::cosh(a));
    case ScalarOp::kTanh: return of_float(std::tanh(a));
    case ScalarOp::kAsinh: return of_float(std::asinh(a));
    case ScalarOp::kAcosh: return of_float(std::acosh(a));
    case ScalarOp::kAtanh: return of_float(std::atanh(a));
    case ScalarOp::kErf: return of_float(std::erf(a));
    case ScalarOp::kSigmoid: return of_float(sigmoid(a));
    case ScalarOp::kEqual: return of_bool(a == b);
    case ScalarOp::kNotEqual: return of_bool(a != b);
    case ScalarOp::kLess: return of_bool(a < b);
    case ScalarOp::kLessEqual: return of_bool(a <= b);
    case ScalarOp::kIsNan: return of_bool(std::isnan(a));
    case ScalarOp::kIsInf: return of_bool(std::isinf(a));
    default: break;
  }
  internal_error("{} of floats", name_of(op));
}

int64_t divide(bool is_unsigned, int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (is_unsigned) return static_cast<int64_t>(bits(a) / bits(b));
  return b == -1 ? static_cast<int64_t>(-bits(a)) : a / b;
}

int64_t remainder(bool is_unsigned, int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (is_unsigned) return static_cast<int64_t>(bits(a) % bits(b));
  return b == -1 ? 0 : a % b;
}

int64_t power(DType t, int64_t base, int64_t exponent) {
  if (exponent < 0 && is_signed(t))
    return truncate_saturating(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  uint64_t result = 1, square = bits(base);
  for (uint64_t rest = bits(exponent); rest != 0; rest >>= 1, square *= square)
    if ((rest & 1) != 0) result *= square;
  return static_cast<int64_t>(result);
}

int64_t shift(ScalarOp op, DType t, int64_t a, int64_t by) {
  if (bits(by) >= static_cast<uint64_t>(bit_width(t))) return 0;
  if (op == ScalarOp::kShiftLeft) return static_cast<int64_t>(bits(a) << by);
  return is_signed(t) ? a >> by : static_cast<int64_t>(bits(a) >> by);
}

Value64 evaluate_integer(ScalarOp op, DType t, std::span<const Value64> args) {
  const int64_t a = args[0].i, b = args.size() > 1 ? args[1].i : 0;
  const bool is_unsigned = !is_signed(t);
  const auto wrapped = [t](uint64_t v) { return of_int(wrap_integer(t, static_cast<int64_t>(v))); };
  const bool less = is_unsigned ? bits(a) < bits(b) : a < b;
  switch (op) {
    case ScalarOp::kAdd: return wrapped(bits(a) + bits(b));
    case ScalarOp::kSub: return wrapped(bits(a) - bits(b));
    case ScalarOp::kMul: return wrapped(bits(a) * bits(b));
    case ScalarOp::kDiv: return wrapped(bits(divide(is_unsigned, a, b)));
    case ScalarOp::kModTrunc: return wrapped(bits(remainder(is_unsigned, a, b)));
    case ScalarOp::kModFloor: {
      const int64_t rest = remainder(is_unsigned, a, b);
      return wrapped(bits(!is_unsigned && rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest));
    }
    case ScalarOp::kMin: return of_int(less ? a : b);
    case ScalarOp::kMax: return of_int(less ? b : a);
    case ScalarOp::kPow: return wrapped(bits(power(t, a, b)));
    case ScalarOp::kNeg: return wrapped(-bits(a));
    case ScalarOp::kAbs: return wrapped(is_unsigned || a >= 0 ? bits(a) : -bits(a));
    case ScalarOp::kSign: return of_int(a == 0 ? 0 : is_unsigned || a > 0 ? 1 : -1);
    case ScalarOp::kFloor:
    case ScalarOp::kCeil:
    case ScalarOp::kTrunc:
    case ScalarOp::kRoundEven: return of_int(a);
    case ScalarOp::kNot: return t == DType::kBool ? of_bool(a == 0) : wrapped(~bits(a));
    case ScalarOp::kAnd: return wrapped(bits(a) & bits(b));
    case ScalarOp::kOr: return wrapped(bits(a) | bits(b));
    case ScalarOp::kXor: return wrapped(bits(a) ^ bits(b));
    case ScalarOp::kShiftLeft:
    case ScalarOp::kShiftRight: return wrapped(bits(shift(op, t, a, b)));
    case ScalarOp::kEqual: return of_bool(a == b);
    case ScalarOp::kNotEqual: return of_bool(a != b);
    case ScalarOp::kLess: return of_bool(less);
    case ScalarOp::kLessEqual: return of_bool(less || a == b);
    case ScalarOp::kIsNan:
    case ScalarOp::kIsInf: return of_bool(false);
    default: break;
  }
  internal_error("{} of {}", name_of(op), name_of(t));
}

template <typename T>
T read(const void* data, int64_t index) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

template <typename T>
void write(void* data, int64_t index, T value) {
  std::memcpy(static_cast<char*>(data) + index * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
}

}  // namespace

int64_t wrap_integer(DType t, int64_t value) {
  switch (t) {
    case DType::kBool: return value != 0 ? 1 : 0;
    case DType::kI8: return static_cast<int8_t>(value);
    case DType::kI16: return static_cast<int16_t>(value);
    case DType::kI32: return static_cast<int32_t>(value);
    case DType::kU8: return static_cast<uint8_t>(value);
    case DType::kU16: return static_cast<uint16_t>(value);
    case DType::kU32: return static_cast<uint32_t>(value);
    case DType::kI64:
    case DType::kU64: return value;
    case DType::kF16:
    case DType::kBF16:
    case DType::kF32:
    case DType::kF64: break;
  }
  internal_error("{} is no integer type", name_of(t));
}

double round_to(DType t, double value) {
  switch (t) {
    case DType::kF16: return f16_to_float(double_to_f16(value));
    case DType::kBF16: return bf16_to_float(double_to_bf16(value));
    case DType::kF32: return static_cast<float>(value);
    case DType::kF64: return value;
    default: break;
  }
  internal_error("{} is no float type", name_of(t));
}

Value64 evaluate_scalar_op(ScalarOp op, DType argument_type, std::span<const Value64> args) {
  STAX_ASSERT(static_cast<int>(args.size()) == arity_of(op), "{} of {} arguments", name_of(op), args.size());
  STAX_ASSERT(op != ScalarOp::kCheckedIndex, "checked_index has an effect and no value of its own");
  if (op == ScalarOp::kSelect) return args[0].i != 0 ? args[1] : args[2];
  if (op == ScalarOp::kHash) return of_int(random_bits(bits(args[0].i), bits(args[1].i)));
  return is_float(argument_type) ? evaluate_float(op, args) : evaluate_integer(op, argument_type, args);
}

Value64 evaluate_cast(DType to, DType from, Value64 x) {
  if (is_float(from)) {
    if (is_float(to)) return of_float(round_to(to, x.f));
    return to == DType::kBool ? of_bool(x.f != 0) : of_int(wrap_integer(to, truncate_saturating(x.f)));
  }
  if (!is_float(to)) return of_int(wrap_integer(to, x.i));
  const bool is_unsigned = from == DType::kU64;
  if (to == DType::kF32) return of_float(is_unsigned ? static_cast<float>(bits(x.i)) : static_cast<float>(x.i));
  return of_float(round_to(to, is_unsigned ? static_cast<double>(bits(x.i)) : static_cast<double>(x.i)));
}

// Philox4x32-10 of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011), with the counter in the lower
// two words of its four.
uint32_t random_bits(uint64_t seed, uint64_t counter) {
  uint32_t x[4] = {static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0};
  uint32_t key[2] = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t p = uint64_t{0xD2511F53} * x[0], q = uint64_t{0xCD9E8D57} * x[2];
    const uint32_t next[4] = {static_cast<uint32_t>(q >> 32) ^ x[1] ^ key[0], static_cast<uint32_t>(q),
                              static_cast<uint32_t>(p >> 32) ^ x[3] ^ key[1], static_cast<uint32_t>(p)};
    std::memcpy(x, next, sizeof(x));
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return x[0];
}

Value64 load_element(DType t, const void* data, int64_t index) {
  switch (t) {
    case DType::kBool: return of_bool(read<uint8_t>(data, index) != 0);
    case DType::kI8: return of_int(read<int8_t>(data, index));
    case DType::kI16: return of_int(read<int16_t>(data, index));
    case DType::kI32: return of_int(read<int32_t>(data, index));
    case DType::kI64: return of_int(read<int64_t>(data, index));
    case DType::kU8: return of_int(read<uint8_t>(data, index));
    case DType::kU16: return of_int(read<uint16_t>(data, index));
    case DType::kU32: return of_int(read<uint32_t>(data, index));
    case DType::kU64: return of_int(read<int64_t>(data, index));
    case DType::kF16: return of_float(f16_to_float(read<uint16_t>(data, index)));
    case DType::kBF16: return of_float(bf16_to_float(read<uint16_t>(data, index)));
    case DType::kF32: return of_float(read<float>(data, index));
    case DType::kF64: return of_float(read<double>(data, index));
  }
  STAX_UNREACHABLE();
}

void store_element(DType t, void* data, int64_t index, Value64 value) {
  switch (t) {
    case DType::kBool: return write<uint8_t>(data, index, value.i != 0 ? 1 : 0);
    case DType::kI8:
    case DType::kU8: return write(data, index, static_cast<uint8_t>(value.i));
    case DType::kI16:
    case DType::kU16: return write(data, index, static_cast<uint16_t>(value.i));
    case DType::kI32:
    case DType::kU32: return write(data, index, static_cast<uint32_t>(value.i));
    case DType::kI64:
    case DType::kU64: return write(data, index, value.i);
    case DType::kF16: return write(data, index, double_to_f16(value.f));
    case DType::kBF16: return write(data, index, double_to_bf16(value.f));
    case DType::kF32: return write(data, index, static_cast<float>(value.f));
    case DType::kF64: return write(data, index, value.f);
  }
  STAX_UNREACHABLE();
}

}  // namespace stax::ir
