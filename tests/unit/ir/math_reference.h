// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the elementary functions should give, and how far something else is from that.
#include <cmath>
#include <limits>
#include <vector>

#include "ir/math_table.h"

namespace stax::ir {

inline const std::vector<ScalarOp> kMathOps = {
    ScalarOp::kPow,
#define STAX_ELEMENTARY_OP(Name, text, arity) ScalarOp::k##Name,
#include "ir/scalar_op.def"
};

template <class T>
T reference(ScalarOp op, T x, T y) {
  switch (op) {
    case ScalarOp::kExp: return std::exp(x);
    case ScalarOp::kLog: return std::log(x);
    case ScalarOp::kLog1p: return std::log1p(x);
    case ScalarOp::kExpm1: return std::expm1(x);
    case ScalarOp::kSin: return std::sin(x);
    case ScalarOp::kCos: return std::cos(x);
    case ScalarOp::kTan: return std::tan(x);
    case ScalarOp::kAsin: return std::asin(x);
    case ScalarOp::kAcos: return std::acos(x);
    case ScalarOp::kAtan: return std::atan(x);
    case ScalarOp::kSinh: return std::sinh(x);
    case ScalarOp::kCosh: return std::cosh(x);
    case ScalarOp::kTanh: return std::tanh(x);
    case ScalarOp::kAsinh: return std::asinh(x);
    case ScalarOp::kAcosh: return std::acosh(x);
    case ScalarOp::kAtanh: return std::atanh(x);
    case ScalarOp::kErf: return std::erf(x);
    case ScalarOp::kSigmoid: return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x));
    case ScalarOp::kPow: return std::pow(x, y);
    case ScalarOp::kAtan2: return std::atan2(x, y);
    default: return std::numeric_limits<T>::quiet_NaN();
  }
}

// In units in the last place of T at `exact`; infinite where one is special and the other is not.
template <class T, class Wide>
double ulp_error(T got, Wide exact) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const T rounded = static_cast<T>(exact);
  if (std::isnan(rounded) || std::isnan(got)) return std::isnan(rounded) && std::isnan(got) ? 0 : kInfinity;
  if (rounded == got) {
    const bool same_zero = rounded != 0 || exact != 0 || std::signbit(rounded) == std::signbit(got);
    if (!same_zero) return kInfinity;
    if (std::isinf(rounded)) return 0;
  } else if (std::isinf(rounded) || std::isinf(got)) {
    // The end of the range, from either side.
    const T last = std::numeric_limits<T>::max();
    return std::fabs(std::isinf(rounded) ? got : rounded) == last ? 1 : kInfinity;
  }
  constexpr int kDigits = std::numeric_limits<T>::digits, kLeast = std::numeric_limits<T>::min_exponent - kDigits;
  int exponent = 0;
  std::frexp(exact, &exponent);
  const int unit = std::max(exponent - kDigits, kLeast);
  return static_cast<double>(std::fabs(static_cast<Wide>(got) - exact) * std::ldexp(Wide{1}, -unit));
}

// Arguments where something happens.
template <class T>
std::vector<T> special_arguments() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> result = {0,
                           Limits::denorm_min(),
                           Limits::min(),
                           Limits::max(),
                           Limits::infinity(),
                           Limits::quiet_NaN(),
                           1,
                           2,
                           3,
                           T(0.5),
                           T(1.5),
                           T(2.5)};
  for (double x : {88.72283,
                   88.722839,
                   88.7229,
                   103.97,
                   103.98,
                   709.782712893384,
                   709.79,
                   745.13,
                   745.14,
                   710.4,
                   89.4,
                   1e10,
                   1e22,
                   3.1415926535897931,
                   1.5707963267948966,
                   0.785398163397448,
                   2.3561944901923448,
                   16777216.0,
                   16777217.0,
                   9007199254740992.0,
                   0x1p48,
                   0x1p49,
                   0x1.8p20,
                   1e30}) {
    result.push_back(static_cast<T>(x));
  }
  const size_t count = result.size();
  for (size_t i = 0; i < count; ++i) {
    result.push_back(std::nextafter(result[i], T(0)));
    result.push_back(std::nextafter(result[i], Limits::infinity()));
  }
  for (size_t i = result.size(); i-- > 0;) result.push_back(-result[i]);
  return result;
}

}  // namespace stax::ir
