// SPDX-License-Identifier: Apache-2.0
#pragma once
// Loop IR -> native code. LLVM stays behind this header.
//
// Calling convention of a kernel's native entry:
//
//   extern "C" void entry(void* const* buffers, const int64_t* params, int64_t begin, int64_t end, void* scratch, KernelFault* fault);
//
// runs iterations [begin, end) of the outermost parallel loop (0, 1 for a kernel without one). `scratch` is private to the executing thread and
// 64-byte aligned, of scratch_bytes(kernel); it holds local buffers of dynamic extent. A failing checked_index writes to `fault` (first one
// wins, roughly) and ends this call of the kernel.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "loop/loop_ir.h"
#include "support/disk_cache.h"

namespace stax::emit {

struct KernelFault {
  int64_t failed = 0;  // not 0: a checked_index failed
  int64_t index = 0;   // the offending index
  int64_t extent = 0;  // what it should have been below
};

/// The best one first. kBaseline: x86-64-v2, 128-bit vectors (and any other machine).
enum class Isa : uint8_t { kAvx512Vnni, kAvx512, kAvxVnni, kAvx2, kBaseline };
inline constexpr Isa kIsas[] = {Isa::kAvx512Vnni, Isa::kAvx512, Isa::kAvxVnni, Isa::kAvx2, Isa::kBaseline};
std::string_view name_of(Isa isa);
Isa host_isa();  // the first that this machine executes
int vector_bytes(Isa isa);

struct NativeKernel {
  const loop::Kernel* kernel = nullptr;
  std::string entry;
};

struct EmitOptions {
  Isa isa = Isa::kAvx512;
  int threads = 1;  // compile in that many threads; the image is the same whatever it is
  bool keep_text = false;
  const DiskCache* cache = nullptr;  // where finished images are kept; not with keep_text
};

struct NativeImage {
  Isa isa = Isa::kAvx512;
  std::vector<uint8_t>
      bytes;  // one position-independent shared object (ELF) that exports all entries and needs nothing else (no libm)
  std::string llvm_text, asm_text;  // with keep_text
};

/// The members of `isas` whose code for these kernels differs from that of another member: dot products of bytes are what two of them add to
/// what the next one has.
std::vector<Isa> distinct_isas(std::span<const Isa> isas, std::span<const loop::Kernel> kernels);

/// Deterministic: equal kernels give equal bytes.
NativeImage emit_native(std::span<const NativeKernel> kernels, const EmitOptions& options);

/// Bytes of scratch memory a kernel needs, as an expression over its params.
symbolic::Expr scratch_bytes(const loop::Kernel& kernel);

/// LLVM IR or assembly of one kernel, for dumps.
std::string emit_llvm_text(const loop::Kernel& kernel, Isa isa);
std::string emit_asm_text(const loop::Kernel& kernel, Isa isa);

}  // namespace stax::emit
