// SPDX-License-Identifier: Apache-2.0
// C++ of the host, for kernels of one thread: what a standalone file compares a GPU with.
//
// Addresses come as an object and an offset, as in OpenCL C, so that memory whose size depends on the shape is an argument. There is one thread:
// no barriers, no exchanges. Functions are the compiler's builtins, so that the text needs no header and may stand in a file of any dialect.
#include "emit/c_builtins.h"
#include "emit/c_family.h"
#include "support/error.h"

namespace stax::emit {

namespace {

constexpr std::string_view kPrologue = R"(typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;
struct alignas(16) u32x4 {
  u32 x, y, z, w;
};
#undef DEVICE
#define DEVICE static inline
)";

constexpr std::string_view kBitCasts = R"(DEVICE u32 float_bits(float x) {
  u32 bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  return bits;
}

DEVICE float bits_float(u32 bits) {
  float x;
  __builtin_memcpy(&x, &bits, sizeof x);
  return x;
}

DEVICE u64 double_bits(double x) {
  u64 bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  return bits;
}

DEVICE double bits_double(u64 bits) {
  double x;
  __builtin_memcpy(&x, &bits, sizeof x);
  return x;
}

)";

// Behind kBuiltinArithmetic.
constexpr std::string_view kFunctions = R"(
DEVICE float ratio_f32(float a, float b) { return a / b; }

DEVICE double ratio_f64(double a, double b) { return a / b; }

DEVICE u32 mulhi_u32(u32 a, u32 b) { return (u32)(((u64)a * b) >> 32); }

DEVICE float f16_to_f32(u16 x) {
  const u32 sign = (u32)(x & 0x8000u) << 16, exponent = (x >> 10) & 31u, fraction = x & 0x3ffu;
  if (exponent == 31u) return bits_float(sign | 0x7f800000u | (fraction << 13));
  if (exponent == 0u) return (sign ? -1.0f : 1.0f) * (float)fraction * 5.9604644775390625e-8f;
  return bits_float(sign | ((exponent + 112u) << 23) | (fraction << 13));
}

// To the nearest, ties to even.
DEVICE u16 f32_to_f16(float x) {
  const u32 bits = float_bits(x), sign = (bits >> 16) & 0x8000u;
  const float size = abs_f32(x);
  if (x != x) return (u16)(sign | 0x7e00u);
  if (size >= 65520.0f) return (u16)(sign | 0x7c00u);
  if (size < 6.103515625e-5f) return (u16)(sign | (u32)rint_f32(size * 16777216.0f));
  const u32 whole = float_bits(size);
  const u32 rounded = whole + 0xfffu + ((whole >> 13) & 1u);
  return (u16)(sign | ((rounded >> 13) - (112u << 10)));
}

DEVICE void record_fault(i64* fault, i64 index, i64 extent, i64 message) {
  if (fault[0] != 0) return;
  fault[0] = 1;
  fault[1] = index;
  fault[2] = extent;
  fault[3] = message;
}
)";

}  // namespace

const Dialect& host_dialect() {
  static const Dialect dialect = [] {
    Dialect d;
    d.format = ir::CodeFormat::kNative;
    d.prologue = kPrologue;
    static const std::string functions = fmt::format("{}{}{}", kBitCasts, kBuiltinArithmetic, kFunctions);
    d.functions = functions;
    d.kernel_prefix = "static void";
    d.constant_table = "static const";
    d.restrict_word = "__restrict__";
    d.thread_index = "0";
    d.block_index[0] = d.block_index[1] = d.block_index[2] = "0";
    d.object_arguments = true;
    d.barrier = [](bool) { return std::string(";"); };
    return d;
  }();
  return dialect;
}

}  // namespace stax::emit
