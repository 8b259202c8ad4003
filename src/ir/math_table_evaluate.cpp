// SPDX-License-Identifier: Apache-2.0
// The programs of math_table.h on the host: node by node, each for a block of values.
#include <array>
#include <bit>
#include <cmath>

#include "ir/math_table.h"
#include "support/error.h"

namespace stax::ir {
namespace {

constexpr size_t kBlock = 64;

// f32 in the bits of a float, i32 sign-extended, bool 0 or 1.
using Lanes = std::array<uint64_t, kBlock>;

template <class T>
T get(uint64_t word) {
  if constexpr (std::is_same_v<T, float>)
    return std::bit_cast<float>(static_cast<uint32_t>(word));
  else if constexpr (std::is_same_v<T, double>)
    return std::bit_cast<double>(word);
  else
    return static_cast<T>(word);
}

template <class T>
uint64_t put(T value) {
  if constexpr (std::is_same_v<T, float>)
    return std::bit_cast<uint32_t>(value);
  else if constexpr (std::is_same_v<T, double>)
    return std::bit_cast<uint64_t>(value);
  else
    return static_cast<uint64_t>(static_cast<int64_t>(value));
}

class Machine {
 public:
  template <class T>
  Lanes run(const MathProgram& program, std::span<const T> x, std::span<const T> y) {
    program_ = &program;
    values_.resize(program.nodes.size());
    for (size_t i = 0; i < program.nodes.size(); ++i) {
      const MathNode& n = program.nodes[i];
      if (n.op == MathOp::kInput) {
        const std::span<const T> from = n.bits == 0 ? x : y;
        for (size_t k = 0; k < kBlock; ++k) values_[i][k] = put(k < from.size() ? from[k] : T{});
      } else {
        step(n, values_[i]);
      }
    }
    return values_.back();
  }

 private:
  const Lanes& arg(const MathNode& n, size_t i) const { return values_[static_cast<size_t>(n.args[i])]; }
  MathType type_of(int32_t node) const { return program_->nodes[static_cast<size_t>(node)].type; }

  void step(const MathNode& n, Lanes& out) {
    switch (n.type) {
      case MathType::kF32: return real<float>(n, out);
      case MathType::kF64: return real<double>(n, out);
      case MathType::kI32: return integer<int32_t, uint32_t>(n, out);
      case MathType::kI64: return integer<int64_t, uint64_t>(n, out);
      case MathType::kBool: return boolean(n, out);
    }
  }

  template <class T, class F>
  void each(const MathNode& n, Lanes& out, const F& f) {
    for (size_t k = 0; k < kBlock; ++k) {
      auto value = [&](size_t i) { return n.args[i] < 0 ? T{} : get<T>(arg(n, i)[k]); };
      out[k] = put(f(value(0), value(1), value(2)));
    }
  }

  template <class T>
  void real(const MathNode& n, Lanes& out) {
    switch (n.op) {
      case MathOp::kConstant: out.fill(put(static_cast<T>(std::bit_cast<double>(n.bits)))); return;
      case MathOp::kAdd: return each<T>(n, out, [](T a, T b, T) { return a + b; });
      case MathOp::kSub: return each<T>(n, out, [](T a, T b, T) { return a - b; });
      case MathOp::kMul: return each<T>(n, out, [](T a, T b, T) { return a * b; });
      case MathOp::kDiv:
      case MathOp::kRatio: return each<T>(n, out, [](T a, T b, T) { return a / b; });
      case MathOp::kMulAdd:
      case MathOp::kFusedMulAdd: return each<T>(n, out, [](T a, T b, T c) { return std::fma(a, b, c); });
      case MathOp::kNeg: return each<T>(n, out, [](T a, T, T) { return -a; });
      case MathOp::kAbs: return each<T>(n, out, [](T a, T, T) { return std::fabs(a); });
      case MathOp::kSqrt: return each<T>(n, out, [](T a, T, T) { return std::sqrt(a); });
      case MathOp::kLessOf: return each<T>(n, out, [](T a, T b, T) { return a < b ? a : b; });
      case MathOp::kGreaterOf: return each<T>(n, out, [](T a, T b, T) { return a > b ? a : b; });
      case MathOp::kPower:
        return each<T>(n, out,
                       [](T a, T, T) { return a < -126 ? T{0} : static_cast<T>(std::exp2(static_cast<double>(a))); });
      case MathOp::kUnitMulAdd:
        return each<T>(n, out, [](T a, T b, T c) { return std::fmin(std::fmax(std::fma(a, b, c), T{0}), T{1}); });
      case MathOp::kScale:
        return each<T>(n, out, [](T a, T b, T) { return b == b ? std::ldexp(a, static_cast<int>(b)) : a; });
      case MathOp::kScaleFloor:
        return each<T>(n, out, [](T a, T b, T) {
          if (std::isinf(b)) return b > 0 ? b : T{0};
          return b == b ? std::ldexp(a, static_cast<int>(std::fmax(-2000, std::fmin(2000, std::floor(b))))) : b;
        });
      case MathOp::kSelect:
        for (size_t k = 0; k < kBlock; ++k) out[k] = arg(n, arg(n, 0)[k] != 0 ? 1 : 2)[k];
        return;
      case MathOp::kConvert: return convert<T>(n, out);
      case MathOp::kBits: out = arg(n, 0); return;
      case MathOp::kEntry:
        for (size_t k = 0; k < kBlock; ++k)
          out[k] = put(static_cast<T>(math_entries(n.bits)[arg(n, 0)[k] % kMathEntries]));
        return;
      default: break;
    }
    STAX_UNREACHABLE();
  }

  template <class T, class U>
  void integer(const MathNode& n, Lanes& out) {
    auto as_unsigned = [](T v) { return static_cast<U>(v); };
    const int by = static_cast<int>(n.bits);
    switch (n.op) {
      case MathOp::kConstant: out.fill(put(static_cast<T>(n.bits))); return;
      case MathOp::kAdd:
        return each<T>(n, out, [&](T a, T b, T) { return static_cast<T>(as_unsigned(a) + as_unsigned(b)); });
      case MathOp::kSub:
        return each<T>(n, out, [&](T a, T b, T) { return static_cast<T>(as_unsigned(a) - as_unsigned(b)); });
      case MathOp::kMul:
        return each<T>(n, out, [&](T a, T b, T) { return static_cast<T>(as_unsigned(a) * as_unsigned(b)); });
      case MathOp::kShiftLeft: return each<T>(n, out, [&](T a, T, T) { return static_cast<T>(as_unsigned(a) << by); });
      case MathOp::kShiftRight: return each<T>(n, out, [&](T a, T, T) { return static_cast<T>(as_unsigned(a) >> by); });
      case MathOp::kShiftRightSigned: return each<T>(n, out, [&](T a, T, T) { return static_cast<T>(a >> by); });
      case MathOp::kShiftLeftBy:
        return each<T>(n, out, [&](T a, T b, T) { return static_cast<T>(as_unsigned(a) << b); });
      case MathOp::kAnd: return each<T>(n, out, [](T a, T b, T) { return static_cast<T>(a & b); });
      case MathOp::kOr: return each<T>(n, out, [](T a, T b, T) { return static_cast<T>(a | b); });
      case MathOp::kXor: return each<T>(n, out, [](T a, T b, T) { return static_cast<T>(a ^ b); });
      case MathOp::kNot: return each<T>(n, out, [](T a, T, T) { return static_cast<T>(~a); });
      case MathOp::kSelect:
        for (size_t k = 0; k < kBlock; ++k) out[k] = arg(n, arg(n, 0)[k] != 0 ? 1 : 2)[k];
        return;
      case MathOp::kConvert: return convert<T>(n, out);
      case MathOp::kBits:
        for (size_t k = 0; k < kBlock; ++k) out[k] = put(static_cast<T>(arg(n, 0)[k]));
        return;
      case MathOp::kLookup:
        return each<T>(n, out, [](T a, T, T) { return static_cast<T>(two_over_pi()[static_cast<size_t>(a)]); });
      default: break;
    }
    STAX_UNREACHABLE();
  }

  void boolean(const MathNode& n, Lanes& out) {
    switch (n.op) {
      case MathOp::kAnd: return each<int64_t>(n, out, [](int64_t a, int64_t b, int64_t) { return a & b; });
      case MathOp::kOr: return each<int64_t>(n, out, [](int64_t a, int64_t b, int64_t) { return a | b; });
      case MathOp::kXor: return each<int64_t>(n, out, [](int64_t a, int64_t b, int64_t) { return a ^ b; });
      case MathOp::kNot: return each<int64_t>(n, out, [](int64_t a, int64_t, int64_t) { return a ^ 1; });
      default: break;
    }
    switch (type_of(n.args[0])) {
      case MathType::kF32: return compare<float>(n, out);
      case MathType::kF64: return compare<double>(n, out);
      case MathType::kI32:
      case MathType::kI64:
      case MathType::kBool: return compare<int64_t>(n, out);
    }
  }

  template <class T>
  void compare(const MathNode& n, Lanes& out) {
    switch (n.op) {
      case MathOp::kLess: return each<T>(n, out, [](T a, T b, T) { return a < b; });
      case MathOp::kEqual: return each<T>(n, out, [](T a, T b, T) { return a == b; });
      case MathOp::kIsNan: return each<T>(n, out, [](T a, T, T) { return a != a; });
      default: break;
    }
    STAX_UNREACHABLE();
  }

  template <class T>
  void convert(const MathNode& n, Lanes& out) {
    for (size_t k = 0; k < kBlock; ++k) {
      const uint64_t word = arg(n, 0)[k];
      switch (type_of(n.args[0])) {
        case MathType::kF32: out[k] = put(static_cast<T>(get<float>(word))); break;
        case MathType::kF64: out[k] = put(static_cast<T>(get<double>(word))); break;
        case MathType::kI32:
        case MathType::kI64:
        case MathType::kBool: out[k] = put(static_cast<T>(static_cast<int64_t>(word))); break;
      }
    }
  }

  const MathProgram* program_ = nullptr;
  std::vector<Lanes> values_;
};

template <class T>
void evaluate_blocks(const MathFunction& f, std::span<const T> x, std::span<const T> y, std::span<T> result) {
  Machine machine;
  auto run = [&](const MathProgram& program, size_t at) {
    const size_t count = std::min(kBlock, x.size() - at);
    return machine.run<T>(program, x.subspan(at, count), y.empty() ? y : y.subspan(at, count));
  };
  for (size_t at = 0; at < x.size(); at += kBlock) {
    Lanes values = run(f.fast, at);
    if (!f.slow.nodes.empty()) {
      const Lanes is_slow = run(f.is_slow, at);
      const Lanes slow = run(f.slow, at);
      for (size_t k = 0; k < kBlock; ++k) values[k] = is_slow[k] != 0 ? slow[k] : values[k];
    }
    for (size_t k = 0; k < kBlock && at + k < x.size(); ++k) result[at + k] = get<T>(values[k]);
  }
}

}  // namespace

void evaluate(const MathFunction& f, std::span<const float> x, std::span<const float> y, std::span<float> result) {
  STAX_ASSERT(f.dtype == DType::kF32);
  evaluate_blocks(f, x, y, result);
}

void evaluate(const MathFunction& f, std::span<const double> x, std::span<const double> y, std::span<double> result) {
  STAX_ASSERT(f.dtype == DType::kF64);
  evaluate_blocks(f, x, y, result);
}

}  // namespace stax::ir
