// SPDX-License-Identifier: Apache-2.0
#pragma once
// Arithmetic that compilers of the GCC and clang families have as builtin functions, as definitions for files that they compile: HIP and the host.
#include <string_view>

namespace stax::emit {

inline constexpr std::string_view kBuiltinArithmetic =
    R"(DEVICE float fma_f32(float a, float b, float c) { return __builtin_fmaf(a, b, c); }

DEVICE double fma_f64(double a, double b, double c) { return __builtin_fma(a, b, c); }

DEVICE float mul_f32(float a, float b) { return a * b; }

DEVICE double mul_f64(double a, double b) { return a * b; }

DEVICE float abs_f32(float x) { return __builtin_fabsf(x); }

DEVICE double abs_f64(double x) { return __builtin_fabs(x); }

DEVICE float sqrt_f32(float x) { return __builtin_sqrtf(x); }

DEVICE double sqrt_f64(double x) { return __builtin_sqrt(x); }

DEVICE float floor_f32(float x) { return __builtin_floorf(x); }

DEVICE double floor_f64(double x) { return __builtin_floor(x); }

DEVICE float ceil_f32(float x) { return __builtin_ceilf(x); }

DEVICE double ceil_f64(double x) { return __builtin_ceil(x); }

DEVICE float trunc_f32(float x) { return __builtin_truncf(x); }

DEVICE double trunc_f64(double x) { return __builtin_trunc(x); }

DEVICE float rint_f32(float x) { return __builtin_rintf(x); }

DEVICE double rint_f64(double x) { return __builtin_rint(x); }

DEVICE float min_f32(float a, float b) { return a < b ? a : a != a ? a : b; }

DEVICE float max_f32(float a, float b) { return a > b ? a : a != a ? a : b; }

DEVICE double min_f64(double a, double b) { return a < b ? a : a != a ? a : b; }

DEVICE double max_f64(double a, double b) { return a > b ? a : a != a ? a : b; }
)";

}  // namespace stax::emit
