// SPDX-License-Identifier: Apache-2.0
// OpenCL C 1.2, which any OpenCL device has.
//
// The language promises little: no warps, no shuffles, no votes, no atomics of floats, no copies in the background, no f16 arithmetic; 32 KiB of
// local memory, blocks of 256 threads. What it lacks is spelled in what it has: exchanges between threads go through local memory
// (lower/loop_to_thread.cpp makes no shuffles for it), atomics of floats compare and swap, f16 values are loaded and stored by vload_half and vstore_half, which every
// device has, and computed in f32.
//
// A buffer argument is a memory object; where in it the data begins is a second argument, so that many buffers can lie in one object. Local
// memory whose size the launch decides is an argument, too. A device that is a CPU runs the threads of a block one after the other between two
// barriers, and compiles a kernel for its block size: the size is part of the text.
//
// Products are not contracted (FP_CONTRACT). Division and square root are rounded correctly only where the program is built with
// -cl-fp32-correctly-rounded-divide-sqrt.
#include <fmt/format.h>

#include "emit/c_family.h"
#include "support/error.h"

namespace stax::emit {

namespace {

using ir::Combiner;
using ir::DType;

constexpr std::string_view kPrologue = R"(#pragma OPENCL FP_CONTRACT OFF
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
typedef char i8;
typedef uchar u8;
typedef short i16;
typedef ushort u16;
typedef uint u32;
typedef long i64;
typedef ulong u64;
typedef float2 f32x2;
typedef float4 f32x4;
typedef uint2 u32x2;
typedef uint4 u32x4;
typedef double2 f64x2;
typedef ulong2 u64x2;
#define DEVICE static __attribute__((always_inline))
)";

constexpr std::string_view kFunctions = R"(DEVICE u32 float_bits(float x) { return as_uint(x); }

DEVICE float bits_float(u32 x) { return as_float(x); }

DEVICE u64 double_bits(double x) { return as_ulong(x); }

DEVICE double bits_double(u64 x) { return as_double(x); }

DEVICE float fma_f32(float a, float b, float c) { return fma(a, b, c); }

DEVICE double fma_f64(double a, double b, double c) { return fma(a, b, c); }

DEVICE float mul_f32(float a, float b) { return a * b; }

DEVICE double mul_f64(double a, double b) { return a * b; }

DEVICE float abs_f32(float x) { return fabs(x); }

DEVICE double abs_f64(double x) { return fabs(x); }

DEVICE float sqrt_f32(float x) { return sqrt(x); }

DEVICE double sqrt_f64(double x) { return sqrt(x); }

DEVICE float floor_f32(float x) { return floor(x); }

DEVICE double floor_f64(double x) { return floor(x); }

DEVICE float ceil_f32(float x) { return ceil(x); }

DEVICE double ceil_f64(double x) { return ceil(x); }

DEVICE float trunc_f32(float x) { return trunc(x); }

DEVICE double trunc_f64(double x) { return trunc(x); }

DEVICE float rint_f32(float x) { return rint(x); }

DEVICE double rint_f64(double x) { return rint(x); }

DEVICE float min_f32(float a, float b) { return a < b ? a : a != a ? a : b; }

DEVICE float max_f32(float a, float b) { return a > b ? a : a != a ? a : b; }

DEVICE double min_f64(double a, double b) { return a < b ? a : a != a ? a : b; }

DEVICE double max_f64(double a, double b) { return a > b ? a : a != a ? a : b; }

DEVICE float ratio_f32(float a, float b) { return a / b; }

DEVICE double ratio_f64(double a, double b) { return a / b; }

DEVICE u32 mulhi_u32(u32 a, u32 b) { return mul_hi(a, b); }

DEVICE float f16_to_f32(u16 x) { return vload_half(0, (const half*)&x); }

DEVICE u16 f32_to_f16(float x) {
  u16 narrow;
  vstore_half_rte(x, 0, (half*)&narrow);
  return narrow;
}

DEVICE u32 swap_global_u32(volatile __global u32* cell, u32 seen, u32 next) { return atomic_cmpxchg(cell, seen, next); }

DEVICE u32 swap_shared_u32(volatile __local u32* cell, u32 seen, u32 next) { return atomic_cmpxchg(cell, seen, next); }

#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
DEVICE u64 swap_global_u64(volatile __global u64* cell, u64 seen, u64 next) { return atom_cmpxchg(cell, seen, next); }

#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
DEVICE u64 swap_shared_u64(volatile __local u64* cell, u64 seen, u64 next) { return atom_cmpxchg(cell, seen, next); }

// The first one wins.
DEVICE void record_fault(__global i64* fault, i64 index, i64 extent, i64 message) {
  if (atomic_cmpxchg((volatile __global u32*)fault, 0u, 1u) != 0u) return;
  fault[1] = index;
  fault[2] = extent;
  fault[3] = message;
}
)";

std::string atomic(Combiner combiner, DType t, bool, const ir::Target&) {
  if (t != DType::kI32 && t != DType::kU32) return "";
  switch (combiner) {
    case Combiner::kSum: return "atomic_add";
    case Combiner::kMin: return "atomic_min";
    case Combiner::kMax: return "atomic_max";
    case Combiner::kAnd: return "atomic_and";
    case Combiner::kOr: return "atomic_or";
    case Combiner::kProd: return "";
  }
  STAX_UNREACHABLE();
}

}  // namespace

const Dialect& opencl_dialect() {
  static const Dialect dialect = [] {
    Dialect d;
    d.format = ir::CodeFormat::kOpencl;
    d.prologue = kPrologue;
    d.functions = kFunctions;
    d.kernel_prefix = "__kernel __attribute__((reqd_work_group_size({block}, 1, 1))) void";
    d.global = "__global";
    d.shared = "__attribute__((aligned(16))) __local";
    d.shared_pointer = "__local";
    d.constant_table = "__constant const";
    d.restrict_word = "restrict";
    d.thread_index = "get_local_id(0)";
    d.block_index[0] = "get_group_id(0)", d.block_index[1] = "get_group_id(1)", d.block_index[2] = "get_group_id(2)";
    d.object_arguments = true;
    d.barrier = [](bool global) {
      return fmt::format("barrier(CLK_LOCAL_MEM_FENCE{});", global ? " | CLK_GLOBAL_MEM_FENCE" : "");
    };
    d.atomic = atomic;
    return d;
  }();
  return dialect;
}

}  // namespace stax::emit
