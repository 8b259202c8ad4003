// SPDX-License-Identifier: Apache-2.0
// HIP, for AMD's GPUs.
//
// CDNA (gfx90a, gfx942) runs wavefronts of 64 threads on four SIMDs of a compute unit, RDNA (gfx1100) wavefronts of 32 on two. A SIMD of CDNA has
// 512 registers a lane, half of them for the accumulators of matrix instructions; RDNA has 1536 in granules of 24. Local memory (LDS) is 64 KiB
// of a block, in 32 banks of 4 bytes. There is no copy to it in the background: copies go through registers, and s_waitcnt lets loads run ahead.
//
// Lanes exchange registers in the data path (DPP) within rows of 16: quad_perm for neighbours, row_ror:8 for lane xor 8, on RDNA row_xmask for any
// xor; lanes further apart go through the LDS crossbar, by ds_swizzle within 32 lanes and ds_bpermute anywhere. A barrier is a fence, s_barrier
// and a fence; a fence that names local memory alone does not wait for global stores.
//
// clang compiles this text without any header (-nogpuinc -nogpulib): __global__ and threadIdx do not exist, attributes and builtins stand for them,
// and there is no library of device functions. Contraction is off by pragma.
#include <fmt/format.h>

#include "emit/c_builtins.h"
#include "emit/c_family.h"
#include "support/error.h"

namespace stax::emit {

namespace {

using ir::Combiner;
using ir::DType;
using thread::MmaInstruction;

constexpr std::string_view kPrologue = R"(#pragma clang fp contract(off)
typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;
typedef float f32x2 __attribute__((ext_vector_type(2)));
typedef float f32x4 __attribute__((ext_vector_type(4)));
typedef u32 u32x2 __attribute__((ext_vector_type(2)));
typedef u32 u32x4 __attribute__((ext_vector_type(4)));
typedef double f64x2 __attribute__((ext_vector_type(2)));
typedef u64 u64x2 __attribute__((ext_vector_type(2)));
#define VECTOR(type, count) type __attribute__((ext_vector_type(count)))
#define DEVICE static __attribute__((device, always_inline))
)";

constexpr std::string_view kBitCasts = R"(DEVICE u32 float_bits(float x) { return __builtin_bit_cast(u32, x); }

DEVICE float bits_float(u32 x) { return __builtin_bit_cast(float, x); }

DEVICE u64 double_bits(double x) { return __builtin_bit_cast(u64, x); }

DEVICE double bits_double(u64 x) { return __builtin_bit_cast(double, x); }

)";

// Behind kBuiltinArithmetic.
constexpr std::string_view kFunctions = R"(
// The reciprocal, of one unit in the last place, and one correction of the quotient.
DEVICE float ratio_f32(float a, float b) {
  const float inverse = __builtin_amdgcn_rcpf(b);
  const float quotient = a * inverse;
  return __builtin_fmaf(__builtin_fmaf(-quotient, b, a), inverse, quotient);
}

DEVICE double ratio_f64(double a, double b) { return a / b; }

DEVICE float power_f32(float x) { return __builtin_amdgcn_exp2f(x); }

// The bounds are a bit of the instruction.
DEVICE float unit_fma_f32(float a, float b, float c) {
  return __builtin_amdgcn_fmed3f(__builtin_fmaf(a, b, c), 0.0f, 1.0f);
}

DEVICE u32 mulhi_u32(u32 a, u32 b) { return (u32)(((u64)a * b) >> 32); }

DEVICE float f16_to_f32(u16 x) { return (float)__builtin_bit_cast(_Float16, x); }

DEVICE u16 f32_to_f16(float x) { return __builtin_bit_cast(u16, (_Float16)x); }

DEVICE u32 swap_global_u32(volatile u32* cell, u32 seen, u32 next) {
  __hip_atomic_compare_exchange_strong((u32*)cell, &seen, next, __ATOMIC_RELAXED, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
  return seen;
}

DEVICE u64 swap_global_u64(volatile u64* cell, u64 seen, u64 next) {
  __hip_atomic_compare_exchange_strong((u64*)cell, &seen, next, __ATOMIC_RELAXED, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
  return seen;
}

DEVICE u32 swap_shared_u32(volatile u32* cell, u32 seen, u32 next) {
  __hip_atomic_compare_exchange_strong((u32*)cell, &seen, next, __ATOMIC_RELAXED, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
  return seen;
}

DEVICE u64 swap_shared_u64(volatile u64* cell, u64 seen, u64 next) {
  __hip_atomic_compare_exchange_strong((u64*)cell, &seen, next, __ATOMIC_RELAXED, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
  return seen;
}

template <class T, class V>
DEVICE void atomic_sum(T* cell, V x) {
  __hip_atomic_fetch_add(cell, (T)x, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}

template <class T, class V>
DEVICE void atomic_min(T* cell, V x) {
  __hip_atomic_fetch_min(cell, (T)x, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}

template <class T, class V>
DEVICE void atomic_max(T* cell, V x) {
  __hip_atomic_fetch_max(cell, (T)x, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}

template <class T, class V>
DEVICE void atomic_and(T* cell, V x) {
  __hip_atomic_fetch_and(cell, (T)x, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}

template <class T, class V>
DEVICE void atomic_or(T* cell, V x) {
  __hip_atomic_fetch_or(cell, (T)x, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}

// The first one wins.
DEVICE void record_fault(i64* fault, i64 index, i64 extent, i64 message) {
  if (swap_global_u32((u32*)fault, 0u, 1u) != 0u) return;
  fault[1] = index;
  fault[2] = extent;
  fault[3] = message;
}

DEVICE int lane_number() { return (int)__builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u)); }

DEVICE int from_lane(int lane, int x) { return __builtin_amdgcn_ds_bpermute(lane << 2, x); }
)";

// An exchange of 32 bits, of the expression x.
std::string exchange(const thread::Shuffle& s, const std::string& x, const std::string& lane,
                     const ir::Target& target) {
  if (s.mode == thread::ShuffleMode::kIndex) return fmt::format("from_lane({}, {})", lane, x);
  const int64_t mask = s.lane.constant();
  const auto dpp = [&](int control) {
    return fmt::format("__builtin_amdgcn_mov_dpp({}, {}, 15, 15, false)", x, control);
  };
  const bool is_rdna = target.warp == 32;
  if (mask < 4) {
    int control = 0;
    for (int i = 0; i < 4; ++i) control |= (i ^ static_cast<int>(mask)) << (2 * i);
    return dpp(control);
  }
  if (is_rdna && mask < 16) return dpp(0x160 + static_cast<int>(mask));
  if (mask == 7) return dpp(0x141);   // row_half_mirror
  if (mask == 8) return dpp(0x128);   // row_ror:8
  if (mask == 15) return dpp(0x140);  // row_mirror
  if (mask < 32) return fmt::format("__builtin_amdgcn_ds_swizzle({}, {})", x, (mask << 10) | 0x1f);
  return fmt::format("from_lane(lane_number() ^ {}, {})", mask, x);
}

std::string shuffle(const thread::Shuffle& s, std::string_view type, const std::string& value, const std::string& lane,
                    const ir::Target& target) {
  if (type == "int") return exchange(s, value, lane, target);
  if (type == "float")
    return fmt::format("__builtin_bit_cast(float, {})",
                       exchange(s, fmt::format("__builtin_bit_cast(int, {})", value), lane, target));
  const std::string half = fmt::format("__builtin_bit_cast(u32x2, {})", value);
  return fmt::format("__builtin_bit_cast({}, u32x2{{(u32){}, (u32){}}})", type,
                     exchange(s, "(int)" + half + ".x", lane, target),
                     exchange(s, "(int)" + half + ".y", lane, target));
}

std::string vote(thread::VoteMode mode, const std::string& condition, const ir::Target& target) {
  if (mode == thread::VoteMode::kAny)
    return fmt::format("(__builtin_amdgcn_ballot_w{}({}) != 0)", target.warp, condition);
  return fmt::format("(__builtin_amdgcn_ballot_w{}(!{}) == 0)", target.warp, condition);
}

std::string atomic(Combiner combiner, DType t, bool, const ir::Target&) {
  const bool is_integer = ir::is_integer(t) && ir::bit_width(t) >= 32;
  const bool adds = is_integer || t == DType::kF32 || t == DType::kF64;
  if (!(combiner == Combiner::kSum ? adds : is_integer)) return "";
  return fmt::format("atomic_{}", ir::name_of(combiner));
}

// One instruction that takes any four bytes of two words.
std::string halves(const std::string& low, int low_part, const std::string& high, int high_part) {
  return fmt::format("__builtin_amdgcn_perm({}, {}, 0x{:04x}{:04x}u)", high, low, high_part == 0 ? 0x0504 : 0x0706,
                     low_part == 0 ? 0x0100 : 0x0302);
}

// The vector that a builtin takes for the words of a fragment.
std::string factor(DType t, const std::vector<std::string>& words, int items) {
  if (t == DType::kF32) return words.size() == 1 ? fmt::format("bits_float({})", words[0]) : "";
  const std::string joined =
      words.size() == 1 ? words[0] : fmt::format("(VECTOR(u32, {})){{{}}}", words.size(), fmt::join(words, ", "));
  const size_t bytes = words.size() * 4;
  if (t == DType::kI8 || t == DType::kU8) {
    if (bytes == 4) return "(int)(" + joined + ")";
    return bytes == 8 ? fmt::format("__builtin_bit_cast(long, {})", joined)
                      : fmt::format("__builtin_bit_cast(VECTOR(int, {}), {})", words.size(), joined);
  }
  return fmt::format("__builtin_bit_cast(VECTOR({}, {}), {})", t == DType::kF16 ? "_Float16" : "short", items, joined);
}

std::string mma(const MmaInstruction& instruction, const std::vector<std::string>& d, const std::vector<std::string>& a,
                const std::vector<std::string>& b, const std::vector<std::string>& c) {
  const std::string& builtin = instruction.hip_builtin;
  if (builtin.empty()) return "";
  const std::string_view sum = instruction.sum == DType::kF32 ? "float" : "int";
  const std::string z = fmt::format("(VECTOR({}, {})){{{}}}", sum, c.size(), fmt::join(c, ", "));
  const bool is_wmma = builtin.find("wmma") != std::string::npos;
  const bool is_byte = instruction.factor == DType::kI8 || instruction.factor == DType::kU8;
  const char* is_signed = instruction.factor == DType::kI8 ? "true" : "false";
  std::string text = fmt::format("{{ VECTOR({}, {}) product = {};", sum, d.size(), z);
  const auto calls = static_cast<size_t>(instruction.calls);
  const auto part = [&](const std::vector<std::string>& words, int items, size_t k) {
    const auto first = words.begin() + static_cast<std::ptrdiff_t>(k * words.size() / calls);
    const std::vector<std::string> own(first, first + static_cast<std::ptrdiff_t>(words.size() / calls));
    return factor(instruction.factor, own, items / instruction.calls);
  };
  for (size_t k = 0; k < calls; ++k) {
    const std::string x = part(a, instruction.a.items, k), y = part(b, instruction.b.items, k);
    if (!is_wmma)
      text += fmt::format(" product = {}({}, {}, product, 0, 0, 0);", builtin, x, y);
    else if (is_byte)
      text += fmt::format(" product = {}({}, {}, {}, {}, product, false);", builtin, is_signed, x, is_signed, y);
    else
      text += fmt::format(" product = {}({}, {}, product);", builtin, x, y);
  }
  for (size_t i = 0; i < d.size(); ++i) text += fmt::format(" {} = product[{}];", d[i], i);
  return text + " }";
}

}  // namespace

const Dialect& hip_dialect() {
  static const Dialect dialect = [] {
    Dialect d;
    d.format = ir::CodeFormat::kHip;
    d.prologue = kPrologue;
    static const std::string functions = fmt::format("{}{}{}", kBitCasts, kBuiltinArithmetic, kFunctions);
    d.functions = functions;
    d.kernel_prefix = "extern \"C\" __attribute__((global, amdgpu_flat_work_group_size({block}, {block}))) void";
    d.shared = "__attribute__((shared, aligned(16)))";
    d.constant_table = "static __attribute__((constant)) const";
    d.restrict_word = "__restrict__";
    d.byte_offsets = true;
    d.thread_index = "__builtin_amdgcn_workitem_id_x()";
    d.block_index[0] = "__builtin_amdgcn_workgroup_id_x()", d.block_index[1] = "__builtin_amdgcn_workgroup_id_y()",
    d.block_index[2] = "__builtin_amdgcn_workgroup_id_z()";
    d.barrier = [](bool global) {
      const char* memory = global ? "" : ", \"local\"";
      return fmt::format(
          "__builtin_amdgcn_fence(__ATOMIC_RELEASE, \"workgroup\"{}); __builtin_amdgcn_s_barrier(); "
          "__builtin_amdgcn_fence(__ATOMIC_ACQUIRE, \"workgroup\"{});",
          memory, memory);
    };
    d.halves = halves;
    d.shuffle = shuffle;
    d.vote = vote;
    d.atomic = atomic;
    d.mma = mma;
    d.unrolled = "#pragma unroll {}";
    return d;
  }();
  return dialect;
}

}  // namespace stax::emit
