// SPDX-License-Identifier: Apache-2.0
// The elementary functions as machine code: the stated error holds on every instruction set. All 2^32 floats with STAX_SLOW_TESTS=1.
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <random>

#include "unit/emit/native.h"
#include "unit/ir/math_reference.h"

namespace stax::emit {
namespace {

using ir::ScalarOp;

std::string map_text(ScalarOp op, const char* type) {
  return fmt::format(
      "kernel @f map {{ param n 0 .. 100000000 argument 0 @x {0} [n] argument 1 @y {0} [n] argument 2 @z {0} [n] "
      "written "
      "for i in n vector 16 {{ %2[i] = {1}(load0[i]{2}) }} }}",
      type, ir::name_of(op), ir::arity_of(op) == 2 ? ", load1[i]" : "");
}

class MathTest : public ::testing::TestWithParam<ScalarOp> {};

// Without a fused multiply-add there is one rounding more here and there; what looks up tables in registers takes the program of pieces.
double allowed(const ir::MathFunction& f, Isa isa) {
  if (isa == Isa::kBaseline) return f.max_ulp + 1;
  const bool has_entries = isa == Isa::kAvx512 || isa == Isa::kAvx512Vnni;
  return has_entries && !f.pieces.nodes.empty() ? f.pieces_ulp : f.max_ulp;
}

TEST_P(MathTest, FloatsAreWithinTheStatedError) {
  const ScalarOp op = GetParam();
  const ir::MathFunction& f = ir::math_function(op, ir::DType::kF32);
  for (Isa isa : testable_isas()) {
    const Native native(map_text(op, "f32"), isa);
    std::vector<float> x = ir::special_arguments<float>(), y, z;
    if (ir::arity_of(op) == 2) {
      const std::vector<float> special = x;
      x.clear();
      for (float a : special) {
        for (float b : special) {
          x.push_back(a);
          y.push_back(b);
        }
      }
    }
    double worst = 0;
    float at = 0;
    const auto flush = [&] {
      z.assign(x.size(), 0);
      native.run({x.data(), y.data(), z.data()}, {static_cast<int64_t>(x.size())});
      for (size_t i = 0; i < x.size(); ++i) {
        const double error = ir::ulp_error(z[i], ir::reference<double>(op, x[i], y.empty() ? 0 : y[i]));
        if (error > worst) worst = error, at = x[i];
      }
      x.clear();
      y.clear();
    };
    const uint64_t step = isa == host_isa() ? 20011 : 200003;
    for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += step) {
      x.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
      if (ir::arity_of(op) == 2) y.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits * 2654435761U)));
      if (x.size() >= 1 << 16) flush();
    }
    flush();
    EXPECT_LE(worst, allowed(f, isa)) << ir::name_of(op) << " on " << name_of(isa) << " at " << at;
    RecordProperty(fmt::format("{}_{}", ir::name_of(op), name_of(isa)), fmt::format("{:.4f}", worst));
  }
}

TEST_P(MathTest, DoublesAreWithinTheStatedError) {
  const ScalarOp op = GetParam();
  const ir::MathFunction& f = ir::math_function(op, ir::DType::kF64);
  for (Isa isa : testable_isas()) {
    const Native native(map_text(op, "f64"), isa);
    std::vector<double> x = ir::special_arguments<double>(), y;
    const size_t special = x.size();
    for (size_t i = 0; i < 20000; ++i)
      x.push_back(i % 2 == 0 ? std::ldexp(static_cast<double>(i % 1009) - 504, static_cast<int>(i % 40) - 30)
                             : std::bit_cast<double>(i * 0x9E3779B97F4A7C15U));
    for (size_t i = 0; i < x.size(); ++i) y.push_back(x[(i * 7 + 3) % (i % 3 == 0 ? special : x.size())]);
    std::vector<double> z(x.size());
    native.run({x.data(), y.data(), z.data()}, {static_cast<int64_t>(x.size())});
    for (size_t i = 0; i < x.size(); ++i) {
      const long double exact = ir::reference<long double>(op, x[i], y[i]);
      ASSERT_LE(ir::ulp_error(z[i], exact), allowed(f, isa))
          << ir::name_of(op) << " on " << name_of(isa) << " at " << x[i] << ", " << y[i] << ": " << z[i];
    }
  }
}

// All floats, against the function of doubles, whose own error is nothing beside that of a float.
TEST_P(MathTest, AllFloatsAreWithinTheStatedError) {
  if (std::getenv("STAX_SLOW_TESTS") == nullptr) GTEST_SKIP() << "set STAX_SLOW_TESTS=1 to run it";
  const ScalarOp op = GetParam();
  if (ir::arity_of(op) != 1) GTEST_SKIP() << "there are too many pairs";
  const ir::MathFunction& f = ir::math_function(op, ir::DType::kF32);
  const Native native(map_text(op, "f32"));
  const Native exact(
      fmt::format("kernel @f map {{ param n 0 .. 100000000 argument 0 @x f32 [n] argument 1 @y f64 [n] written "
                  "for i in n vector 16 {{ %1[i] = {}(cast<f64>(load0[i])) }} }}",
                  ir::name_of(op)));
  constexpr int64_t kBlock = 1 << 14;
  std::vector<float> x(kBlock), got(kBlock);
  std::vector<double> wanted(kBlock);
  double worst = 0;
  float at = 0;
  for (uint64_t first = 0; first < uint64_t{1} << 32; first += kBlock) {
    for (size_t i = 0; i < kBlock; ++i) x[i] = std::bit_cast<float>(static_cast<uint32_t>(first + i));
    native.run({x.data(), nullptr, got.data()}, {kBlock});
    exact.run({x.data(), wanted.data()}, {kBlock});
    for (size_t i = 0; i < kBlock; ++i) {
      const double magnitude = std::fabs(wanted[i]);
      double error = 0;
      if (magnitude >= 0x1p-126 && magnitude < 0x1p127) {
        const double unit =
            std::bit_cast<double>((std::bit_cast<uint64_t>(magnitude) & 0x7FF0000000000000U) - (uint64_t{23} << 52));
        error = std::fabs(static_cast<double>(got[i]) - wanted[i]) / unit;
        if (!(error < 1e6)) error = 1e6;
      } else {
        error = ir::ulp_error(got[i], wanted[i]);
      }
      if (error > worst) worst = error, at = x[i];
    }
  }
  EXPECT_LE(worst, allowed(f, host_isa())) << ir::name_of(op) << " at " << at;
  fmt::print("{} {:.4f} ulp at {}\n", ir::name_of(op), worst, at);
}

// A division by a number known at compile time is done by products; the quotient is the nearest float all the same.
TEST(Division, ByAConstantIsRoundedAsAnyOther) {
  std::mt19937 random(17);
  std::vector<float> divisors = {1.4142135F,  3,     10,   0.3F,   -7.5F, 1.9999998F,
                                 0.70710678F, 1e-6F, 1e6F, 1e-20F, 3e38F, 1e-40F};
  for (int k = 0; k < 6; ++k)
    divisors.push_back(std::ldexp(1 + static_cast<float>(random() % (1 << 23)) * 0x1p-23F, k * 5 - 12));
  for (const Isa isa : testable_isas()) {
    for (const float c : divisors) {
      const Native native(
          fmt::format("kernel @f map {{ param n 0 .. 100000000 argument 0 @x f32 [n] argument 1 @z f32 [n] "
                      "written for i in n vector 16 {{ %1[i] = div(load0[i], {:.9e}:f32) }} }}",
                      c),
          isa);
      std::vector<float> x = ir::special_arguments<float>();
      const uint32_t step = isa == host_isa() ? 40009 : 1000003;
      for (uint64_t bits = random() % step; bits < uint64_t{1} << 32; bits += step)
        x.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
      std::vector<float> z(x.size(), 0);
      native.run({x.data(), z.data()}, {static_cast<int64_t>(x.size())});
      for (size_t i = 0; i < x.size(); ++i) {
        const volatile float want = x[i] / c;
        const float exact = want;
        ASSERT_TRUE(std::bit_cast<uint32_t>(z[i]) == std::bit_cast<uint32_t>(exact) || (z[i] != z[i] && exact != exact))
            << x[i] << " / " << c << " on " << name_of(isa) << ": " << z[i] << " instead of " << exact;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Functions, MathTest, ::testing::ValuesIn(ir::kMathOps),
                         [](const auto& info) { return std::string(ir::name_of(info.param)); });

}  // namespace
}  // namespace stax::emit
