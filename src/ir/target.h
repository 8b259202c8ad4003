// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a machine can do. Upper layers ask; they never test for a vendor.
#include <cstdint>
#include <span>
#include <string>

namespace stax::ir {

enum class CodeFormat : uint8_t { kNative, kPtx, kCuda, kHip, kOpencl, kThread };
std::string_view name_of(CodeFormat format);  // "native", "ptx", "cuda", "hip", "opencl", "thread"

struct Target {
  std::string name;    // as the command line has it: "cuda:sm_90a", "hip:gfx942", "opencl", "sim", "cpu"
  std::string family;  // in front of the colon
  std::string arch;    // behind it, or empty
  CodeFormat format = CodeFormat::kNative;  // the code that its device takes by default
  bool is_gpu = false;

  // Threads
  int warp = 32;
  int max_block = 1024;             // threads of a block
  int max_threads_per_unit = 2048;  // of a multiprocessor (compute unit)
  int max_blocks_per_unit = 32;
  int units = 108;
  int partitions = 4;  // a multiprocessor's schedulers; each has its share of the registers
  // Registers, of 32 bits
  int registers_per_unit = 65536;
  int max_registers = 255;   // of a thread
  int register_granule = 8;  // of a thread
  // Memory, in bytes
  int64_t static_shared = 48 << 10;  // of a block
  int64_t max_shared = 48 << 10;     // of a block, with dynamic shared memory opted in to
  int64_t shared_per_unit = 64 << 10;
  int shared_granule = 128;
  int shared_reserved = 0;  // by the system, of each block
  int banks = 32, bank_bytes = 4;
  int64_t l2 = 0;           // as one multiprocessor reaches it
  double bandwidth = 0;     // of device memory, bytes a second
  double clock = 0;         // cycles a second
  int fma_per_cycle = 128;  // f32, of a unit
  int64_t max_grid_x = 0x7fffffff, max_grid_yz = 65535;
  // Instructions
  int vector_bytes = 16;        // widest access
  bool shuffle = true;          // lanes of a warp exchange registers
  bool narrow_indices = false;  // integers of 64 bits are made of two registers
  bool load_matrix = false;     // shared memory to the lanes of a warp, 8 x 8 elements of 16 bits at once
  bool async_copy = false;      // global to shared in the background
  bool f16_arithmetic = true;
  bool f64 = true;
  bool float_atomic_add = true;
  bool matrix_f16 = false, matrix_bf16 = false, matrix_tf32 = false, matrix_s8 = false;
};

/// The row of that name; "cpu" and "cpu:native" are the CPU. UserError that lists the names, with the one that is meant in front, if there is
/// none.
const Target& find_target(const std::string& name);
std::span<const Target> targets();

/// Blocks of that size that a multiprocessor holds at once, and what stops a further one: "threads", "blocks", "registers", "shared memory"
/// (the first of them where several do).
struct Occupancy {
  int blocks = 0;       // 0: such a block cannot run
  double fraction = 0;  // of the threads that it could hold
  std::string limiter;
};
/// `block` in threads, `registers` of a thread, `shared_bytes` of a block, static and dynamic.
Occupancy occupancy(const Target& target, int block, int registers, int64_t shared_bytes);

}  // namespace stax::ir
