// SPDX-License-Identifier: Apache-2.0
// CUDA C++.
//
// A multiprocessor runs warps of 32 threads; each of its four schedulers issues one instruction a cycle for one warp. Registers are 32 bits wide and
// belong to a thread, at most 255; what does not fit is spilled to memory, which costs more than anything else here. Arrays indexed by
// variables live in that memory too, so the text names each element of a local buffer instead. Threads of one warp that part run one after the
// other.
//
// Shared memory has 32 banks of 4 bytes; a warp reads it in one go where its lanes meet in no bank. Up to 48 KiB of a block are declared with
// their size, more is one dynamic array that the launch sizes. From sm_80 on, cp.async copies from global to shared memory without registers,
// in groups that a thread waits for; a copy of which 0 bytes are read writes zeros, so a tail costs a predicate and no branch. Loads of what a
// kernel never writes go through ld.global.nc (__ldg), which may be reordered and cached as read-only.
//
// The text stands alone: no header is included, so that NVRTC, which has none, takes it, too. Conversions of f16 are instructions by asm; the
// types of cuda_fp16.h do not exist. nvcc contracts a * b + c into one rounding unless the product is __fmul_rn, so every product is.
#include <fmt/format.h>

#include "emit/c_family.h"
#include "support/error.h"

namespace stax::emit {

namespace {

using ir::Combiner;
using ir::DType;
using thread::MmaInstruction;

constexpr std::string_view kPrologue = R"(typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;
typedef float2 f32x2;
typedef float4 f32x4;
typedef uint2 u32x2;
typedef uint4 u32x4;
typedef double2 f64x2;
typedef ulonglong2 u64x2;
#define DEVICE static __device__ __forceinline__
)";

constexpr std::string_view kFunctions = R"(DEVICE u32 float_bits(float x) { return __float_as_uint(x); }

DEVICE float bits_float(u32 x) { return __uint_as_float(x); }

DEVICE u64 double_bits(double x) { return (u64)__double_as_longlong(x); }

DEVICE double bits_double(u64 x) { return __longlong_as_double((i64)x); }

DEVICE float fma_f32(float a, float b, float c) { return __fmaf_rn(a, b, c); }

DEVICE double fma_f64(double a, double b, double c) { return __fma_rn(a, b, c); }

DEVICE float mul_f32(float a, float b) { return __fmul_rn(a, b); }

DEVICE double mul_f64(double a, double b) { return __dmul_rn(a, b); }

DEVICE float abs_f32(float x) { return fabsf(x); }

DEVICE double abs_f64(double x) { return fabs(x); }

DEVICE float sqrt_f32(float x) { return __fsqrt_rn(x); }

DEVICE double sqrt_f64(double x) { return __dsqrt_rn(x); }

DEVICE float floor_f32(float x) { return floorf(x); }

DEVICE double floor_f64(double x) { return floor(x); }

DEVICE float ceil_f32(float x) { return ceilf(x); }

DEVICE double ceil_f64(double x) { return ceil(x); }

DEVICE float trunc_f32(float x) { return truncf(x); }

DEVICE double trunc_f64(double x) { return trunc(x); }

DEVICE float rint_f32(float x) { return rintf(x); }

DEVICE double rint_f64(double x) { return rint(x); }

DEVICE float min_f32(float a, float b) {
#if __CUDA_ARCH__ >= 800
  float least;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(least) : "f"(a), "f"(b));
  return least;
#else
  return a < b ? a : a != a ? a : b;
#endif
}

DEVICE float max_f32(float a, float b) {
#if __CUDA_ARCH__ >= 800
  float greatest;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(greatest) : "f"(a), "f"(b));
  return greatest;
#else
  return a > b ? a : a != a ? a : b;
#endif
}

DEVICE double min_f64(double a, double b) { return a < b ? a : a != a ? a : b; }

DEVICE double max_f64(double a, double b) { return a > b ? a : a != a ? a : b; }

// The reciprocal, of one unit in the last place, and one correction of the quotient.
DEVICE float ratio_f32(float a, float b) {
  float inverse;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(b));
  const float quotient = __fmul_rn(a, inverse);
  return __fmaf_rn(__fmaf_rn(-quotient, b, a), inverse, quotient);
}

DEVICE double ratio_f64(double a, double b) { return a / b; }

DEVICE float power_f32(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}

DEVICE float unit_fma_f32(float a, float b, float c) {
  float sum;
  asm("fma.rn.sat.f32 %0, %1, %2, %3;" : "=f"(sum) : "f"(a), "f"(b), "f"(c));
  return sum;
}

DEVICE u32 mulhi_u32(u32 a, u32 b) { return __umulhi(a, b); }

DEVICE float f16_to_f32(u16 x) {
  float wide;
  asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(x));
  return wide;
}

DEVICE u16 f32_to_f16(float x) {
  u16 narrow;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(narrow) : "f"(x));
  return narrow;
}

DEVICE u32 swap_global_u32(volatile u32* cell, u32 seen, u32 next) { return atomicCAS((u32*)cell, seen, next); }

DEVICE u64 swap_global_u64(volatile u64* cell, u64 seen, u64 next) { return atomicCAS((u64*)cell, seen, next); }

DEVICE u32 swap_shared_u32(volatile u32* cell, u32 seen, u32 next) { return atomicCAS((u32*)cell, seen, next); }

DEVICE u64 swap_shared_u64(volatile u64* cell, u64 seen, u64 next) { return atomicCAS((u64*)cell, seen, next); }

DEVICE void atomic_add_i64(i64* cell, i64 x) { atomicAdd((u64*)cell, (u64)x); }

DEVICE void atomic_and_i64(i64* cell, i64 x) { atomicAnd((u64*)cell, (u64)x); }

DEVICE void atomic_or_i64(i64* cell, i64 x) { atomicOr((u64*)cell, (u64)x); }

// The first one wins.
DEVICE void record_fault(i64* fault, i64 index, i64 extent, i64 message) {
  if (atomicCAS((u32*)fault, 0u, 1u) != 0u) return;
  fault[1] = index;
  fault[2] = extent;
  fault[3] = message;
}

DEVICE u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }

DEVICE void copy_async_4(void* to, const void* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_address(to)), "l"(from) : "memory");
}

DEVICE void copy_async_8(void* to, const void* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(shared_address(to)), "l"(from) : "memory");
}

DEVICE void copy_async_16(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from) : "memory");
}

// Zeros where the condition does not hold.
DEVICE void copy_async_4_if(void* to, const void* from, bool condition) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(to)), "l"(from), "r"(condition ? 4 : 0) : "memory");
}

DEVICE void copy_async_8_if(void* to, const void* from, bool condition) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(shared_address(to)), "l"(from), "r"(condition ? 8 : 0) : "memory");
}

DEVICE void copy_async_16_if(void* to, const void* from, bool condition) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(condition ? 16 : 0) : "memory");
}

// No copy at all where it is not this thread's. A branch around it would have addresses computed anew on its way, in each iteration of a loop.
DEVICE void copy_async_4_where(void* to, const void* from, bool condition, bool own) {
  asm volatile("{.reg .pred p; setp.ne.b32 p, %3, 0; @p cp.async.ca.shared.global [%0], [%1], 4, %2;}" ::"r"(shared_address(to)), "l"(from), "r"(condition ? 4 : 0), "r"(own ? 1 : 0) : "memory");
}

DEVICE void copy_async_8_where(void* to, const void* from, bool condition, bool own) {
  asm volatile("{.reg .pred p; setp.ne.b32 p, %3, 0; @p cp.async.ca.shared.global [%0], [%1], 8, %2;}" ::"r"(shared_address(to)), "l"(from), "r"(condition ? 8 : 0), "r"(own ? 1 : 0) : "memory");
}

DEVICE void copy_async_16_where(void* to, const void* from, bool condition, bool own) {
  asm volatile("{.reg .pred p; setp.ne.b32 p, %3, 0; @p cp.async.cg.shared.global [%0], [%1], 16, %2;}" ::"r"(shared_address(to)), "l"(from), "r"(condition ? 16 : 0), "r"(own ? 1 : 0) : "memory");
}
)";

std::string shuffle(const thread::Shuffle& s, std::string_view, const std::string& value, const std::string& lane,
                    const ir::Target&) {
  return fmt::format("{}(0xffffffffu, {}, {})", s.mode == thread::ShuffleMode::kXor ? "__shfl_xor_sync" : "__shfl_sync",
                     value, lane);
}

std::string vote(thread::VoteMode mode, const std::string& condition, const ir::Target&) {
  return fmt::format("(__{}_sync(0xffffffffu, {}) != 0)", mode == thread::VoteMode::kAny ? "any" : "all", condition);
}

std::string atomic(Combiner combiner, DType t, bool, const ir::Target&) {
  const bool is_integer = ir::is_integer(t) && ir::bit_width(t) >= 32;
  const bool is_i64 = t == DType::kI64;
  switch (combiner) {
    case Combiner::kSum:
      if (is_i64) return "atomic_add_i64";
      return is_integer || t == DType::kF32 || t == DType::kF64 ? "atomicAdd" : "";
    case Combiner::kMin: return is_integer ? "atomicMin" : "";
    case Combiner::kMax: return is_integer ? "atomicMax" : "";
    case Combiner::kAnd: return is_i64 ? "atomic_and_i64" : is_integer ? "atomicAnd" : "";
    case Combiner::kOr: return is_i64 ? "atomic_or_i64" : is_integer ? "atomicOr" : "";
    case Combiner::kProd: return "";
  }
  STAX_UNREACHABLE();
}

std::string async_copy(const std::string& to, const std::string& from, int bytes, const std::string& condition,
                       const std::string& where) {
  if (!where.empty())
    return fmt::format("copy_async_{}_where({}, {}, {}, {});", bytes, to, from, condition.empty() ? "true" : condition,
                       where);
  if (condition.empty()) return fmt::format("copy_async_{}({}, {});", bytes, to, from);
  return fmt::format("copy_async_{}_if({}, {}, {});", bytes, to, from, condition);
}

std::string load_matrix(const std::vector<std::string>& words, const std::string& address, bool transposed) {
  std::string registers, outputs;
  for (size_t k = 0; k < words.size(); ++k) {
    registers += fmt::format("{}%{}", k == 0 ? "" : ", ", k);
    outputs += fmt::format("{}\"=r\"({})", k == 0 ? "" : ", ", words[k]);
  }
  return fmt::format(
      "asm volatile(\"ldmatrix.sync.aligned.m8n8.x{}{}.shared.b16 {{{}}}, [%{}];\" : {} : \"r\"(shared_address({})) : "
      "\"memory\");",
      words.size(), transposed ? ".trans" : "", registers, words.size(), outputs, address);
}

std::string mma(const MmaInstruction& instruction, const std::vector<std::string>& d, const std::vector<std::string>& a,
                const std::vector<std::string>& b, const std::vector<std::string>& c) {
  if (instruction.ptx.empty()) return "";
  const char* sum = instruction.sum == DType::kF32 ? "f" : "r";
  size_t number = 0;
  const auto operands = [&](size_t count) {
    std::string text;
    for (size_t i = 0; i < count; ++i) text += fmt::format("{}%{}", i == 0 ? "" : ", ", number++);
    return "{" + text + "}";
  };
  std::string text = instruction.ptx + " ";
  text += operands(d.size()) + ", ";
  text += operands(a.size()) + ", ";
  text += operands(b.size()) + ", ";
  text += operands(c.size());
  std::string outputs, inputs;
  for (const std::string& x : d) outputs += fmt::format("{}\"={}\"({})", outputs.empty() ? "" : ", ", sum, x);
  for (const auto* words : {&a, &b})
    for (const std::string& x : *words) inputs += fmt::format("{}\"r\"({})", inputs.empty() ? "" : ", ", x);
  for (const std::string& x : c) inputs += fmt::format(", \"{}\"({})", sum, x);
  return fmt::format("asm volatile(\"{};\" : {} : {});", text, outputs, inputs);
}

}  // namespace

const Dialect& cuda_dialect() {
  static const Dialect dialect = [] {
    Dialect d;
    d.format = ir::CodeFormat::kCuda;
    d.prologue = kPrologue;
    d.functions = kFunctions;
    d.kernel_prefix = "extern \"C\" __global__ void __launch_bounds__({block}, 1)";
    d.shared = "__shared__ __align__(16)";
    d.constant_table = "static __constant__ const";
    d.restrict_word = "__restrict__";
    d.thread_index = "threadIdx.x";
    d.block_index[0] = "blockIdx.x", d.block_index[1] = "blockIdx.y", d.block_index[2] = "blockIdx.z";
    d.read_only_load = "__ldg({})";
    d.unrolled = "#pragma unroll {}";
    d.kept_pointer = "asm(\"\" : \"+l\"({}));";
    d.barrier = [](bool) { return std::string("__syncthreads();"); };
    d.shuffle = shuffle;
    d.vote = vote;
    d.atomic = atomic;
    d.async_copy = async_copy;
    d.async_commit = "asm volatile(\"cp.async.commit_group;\" ::: \"memory\");";
    d.async_wait = [](int pending) {
      return fmt::format("asm volatile(\"cp.async.wait_group {};\" ::: \"memory\");", pending);
    };
    d.load_matrix = load_matrix;
    d.mma = mma;
    return d;
  }();
  return dialect;
}

}  // namespace stax::emit
