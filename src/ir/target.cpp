// SPDX-License-Identifier: Apache-2.0
// The table of machines. Figures are those of the vendors' occupancy calculators and architecture manuals; units, bandwidth, clock and L2 are of
// one part of each architecture, named beside it: they weigh versions against each other where no measurement does.
#include "ir/target.h"

#include <algorithm>
#include <array>
#include <vector>

#include "support/error.h"
#include "support/nearest.h"

namespace stax::ir {

namespace {

constexpr std::string_view kFormatNames[] = {"native", "ptx", "cuda", "hip", "opencl", "thread"};
constexpr int64_t kKiB = 1 << 10, kMiB = 1 << 20;

// What differs between multiprocessors of NVIDIA; the rest is the same from Turing on.
struct Multiprocessor {
  const char* arch;
  int threads, blocks;
  int64_t shared, opt_in;  // KiB, of the unit and of a block
  int fma;
};
struct Part {
  int units;
  int64_t l2;
  double bandwidth, clock;
};

Target nvidia(const Multiprocessor& m, const Part& part) {
  Target t;
  t.family = "cuda", t.arch = m.arch, t.name = t.family + ":" + t.arch;
  t.format = CodeFormat::kPtx;
  t.is_gpu = true;
  t.max_threads_per_unit = m.threads, t.max_blocks_per_unit = m.blocks;
  t.shared_per_unit = m.shared * kKiB, t.max_shared = m.opt_in * kKiB;
  t.fma_per_cycle = m.fma;
  t.units = part.units, t.l2 = part.l2, t.bandwidth = part.bandwidth, t.clock = part.clock;
  t.narrow_indices = true;
  t.matrix_f16 = t.matrix_s8 = t.load_matrix = true;
  return t;
}

// From Ampere on: copies in the background, bfloat16 and tf32 factors, a KiB of shared memory of each block is the system's.
Target ampere(const Multiprocessor& m, const Part& part) {
  Target t = nvidia(m, part);
  t.async_copy = t.matrix_bf16 = t.matrix_tf32 = true;
  t.shared_reserved = 1 << 10;
  return t;
}

Target turing(const Multiprocessor& m, const Part& part) {
  Target t = nvidia(m, part);
  t.shared_granule = 256;
  return t;
}

// Compute units of 64 lanes: four SIMDs with 512 registers a lane each, 256 of them for accumulation.
Target cdna(const char* arch, int fma, bool xf32, const Part& part) {
  Target t;
  t.family = "hip", t.arch = arch, t.name = t.family + ":" + t.arch;
  t.format = CodeFormat::kHip;
  t.is_gpu = true;
  t.warp = 64;
  t.max_threads_per_unit = 2048, t.max_blocks_per_unit = 32;
  t.registers_per_unit = 4 * 512 * 64, t.max_registers = 512;
  t.static_shared = t.max_shared = t.shared_per_unit = 64 * kKiB;
  t.shared_granule = 512;
  t.fma_per_cycle = fma;
  // A launch counts threads in 32 bits.
  t.max_grid_x = 0xffffffff / t.max_block;
  t.units = part.units, t.l2 = part.l2, t.bandwidth = part.bandwidth, t.clock = part.clock;
  t.matrix_f16 = t.matrix_bf16 = t.matrix_s8 = true;
  t.matrix_tf32 = xf32;
  t.narrow_indices = true;
  return t;
}

// Compute units of two SIMDs of 32 lanes with 1536 registers a lane.
Target rdna(const char* arch, const Part& part) {
  Target t = cdna(arch, 128, false, part);
  t.warp = 32;
  t.partitions = 2;
  t.max_threads_per_unit = 1024;
  t.registers_per_unit = 2 * 1536 * 32, t.max_registers = 256, t.register_granule = 24;
  t.shared_granule = 1024;
  return t;
}

// Any OpenCL device: what version 1.2 promises, and no more. Nothing is known of warps; 32 threads that run side by side are a guess that costs
// nothing where it is wrong.
Target opencl() {
  Target t;
  t.name = t.family = "opencl";
  t.format = CodeFormat::kOpencl;
  t.is_gpu = true;
  t.max_block = 256, t.max_threads_per_unit = 1024, t.max_blocks_per_unit = 16;
  t.static_shared = t.max_shared = t.shared_per_unit = 32 * kKiB;
  t.units = 16, t.l2 = 1 * kMiB, t.bandwidth = 100e9, t.clock = 1.5e9, t.fma_per_cycle = 64;
  t.shuffle = false, t.f16_arithmetic = false, t.float_atomic_add = false;
  // Compilers make vectors of neighbouring work-items themselves, and emulators that look for undefined values lose track of explicit ones.
  t.vector_bytes = 4;
  return t;
}

// The interpreter of thread IR: all that there is, in the sizes of the smallest machine that has it.
Target sim() {
  Target t = ampere({"", 2048, 32, 164, 163, 64}, {108, 40 * kMiB, 2.04e12, 1.41e9});
  t.name = t.family = "sim";
  t.format = CodeFormat::kThread;
  t.narrow_indices = false;
  return t;
}

Target cpu() {
  Target t;
  t.name = t.family = "cpu";
  t.warp = 1, t.max_block = 1, t.max_threads_per_unit = 1, t.max_blocks_per_unit = 1, t.partitions = 1;
  t.registers_per_unit = t.max_registers = 32, t.register_granule = 1;
  t.static_shared = t.max_shared = t.shared_per_unit = 0;
  t.units = 2, t.l2 = 1 * kMiB, t.bandwidth = 30e9, t.clock = 3e9, t.fma_per_cycle = 32;
  t.vector_bytes = 64;
  t.shuffle = false, t.f16_arithmetic = false, t.float_atomic_add = false;
  return t;
}

const std::vector<Target>& table() {
  static const std::vector<Target> rows = [] {
    const Part h200{132, 50 * kMiB, 4.8e12, 1.98e9};
    const Multiprocessor hopper{"sm_90", 2048, 32, 228, 227, 128};
    Multiprocessor hopper_a = hopper;
    hopper_a.arch = "sm_90a";
    return std::vector<Target>{
        turing({"sm_75", 1024, 16, 64, 64, 64}, {40, 4 * kMiB, 0.32e12, 1.59e9}),          // T4
        ampere({"sm_80", 2048, 32, 164, 163, 64}, {108, 40 * kMiB, 2.04e12, 1.41e9}),      // A100 of 80 GB
        ampere({"sm_86", 1536, 16, 100, 99, 128}, {84, 6 * kMiB, 0.768e12, 1.80e9}),       // A6000
        ampere({"sm_89", 1536, 24, 100, 99, 128}, {128, 72 * kMiB, 1.01e12, 2.52e9}),      // RTX 4090
        ampere(hopper, h200),                                                              // H200
        ampere(hopper_a, h200),                                                            // H200
        ampere({"sm_100a", 2048, 32, 228, 227, 128}, {148, 126 * kMiB, 7.67e12, 1.96e9}),  // B200
        ampere({"sm_120a", 1536, 24, 100, 99, 128}, {188, 128 * kMiB, 1.79e12, 2.62e9}),   // RTX PRO 6000
        cdna("gfx90a", 64, false, {110, 8 * kMiB, 1.64e12, 1.7e9}),                        // a die of an MI250
        cdna("gfx942", 128, true, {304, 4 * kMiB, 5.3e12, 2.1e9}),  // MI300X; L2 is that of a die
        rdna("gfx1100", {96, 6 * kMiB, 0.96e12, 2.5e9}),            // RX 7900 XTX
        opencl(),
        sim(),
        cpu(),
    };
  }();
  return rows;
}

}  // namespace

std::string_view name_of(CodeFormat format) { return kFormatNames[static_cast<size_t>(format)]; }

std::span<const Target> targets() { return table(); }

const Target& find_target(const std::string& name) {
  const std::string& asked = name == "cpu:native" ? "cpu" : name;
  std::vector<std::string> names;
  for (const Target& t : table()) {
    if (t.name == asked) return t;
    names.push_back(t.name);
  }
  // "sm_80" and "gfx90a" alone leave no doubt.
  std::string meant;
  for (const Target& t : table())
    if (!t.arch.empty() && t.arch == asked) meant = t.name;
  if (meant.empty()) meant = nearest(asked, names);
  user_error("there is no target '{}'{}; targets are {}", name,
             meant.empty() ? "" : fmt::format(", did you mean '{}'?", meant), fmt::join(names, ", "));
}

Occupancy occupancy(const Target& target, int block, int registers, int64_t shared_bytes) {
  STAX_ASSERT(block >= 1 && registers >= 0 && shared_bytes >= 0, "a block of {} threads with {} registers and {} bytes",
              block, registers, shared_bytes);
  const int warps = (block + target.warp - 1) / target.warp;
  const int threads = block > target.max_block ? 0 : target.max_threads_per_unit / target.warp / warps;

  // Registers are given to warps, in granules of a thread's, out of the share of the scheduler that the warp belongs to.
  const int granule = target.register_granule;
  const int rounded = std::max((registers + granule - 1) / granule, 1) * granule;
  const int of_partition = target.registers_per_unit / target.partitions / (rounded * target.warp);
  const int by_registers = registers > target.max_registers ? 0 : of_partition * target.partitions / warps;

  const int64_t taken = shared_bytes + target.shared_reserved;
  const int64_t shared = (taken + target.shared_granule - 1) / target.shared_granule * target.shared_granule;
  const int64_t by_shared = shared_bytes > target.max_shared ? 0
                            : shared == 0                    ? target.max_blocks_per_unit
                                                             : target.shared_per_unit / shared;

  const std::array<std::pair<int64_t, const char*>, 4> limits{{{threads, "threads"},
                                                               {target.max_blocks_per_unit, "blocks"},
                                                               {by_registers, "registers"},
                                                               {by_shared, "shared memory"}}};
  const auto& least =
      *std::min_element(limits.begin(), limits.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  Occupancy o;
  o.blocks = static_cast<int>(least.first);
  o.fraction = double(o.blocks) * warps * target.warp / target.max_threads_per_unit;
  o.limiter = least.second;
  return o;
}

}  // namespace stax::ir
