// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs PTX text where there is no GPU: the part of the language that Stax emits, after NVIDIA's description of it ("PTX ISA"). It knows nothing of
// the emitter.
//
// Threads run one after the other, in an order drawn anew, up to the next point where a warp or the block has to meet; whoever doesn't come is an
// error. Registers and shared memory begin with noise. Accesses outside of the given memory, and unaligned ones, are errors. Asynchronous copies
// take place when they are waited for; until then their target holds noise.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace stax::testing {

struct PtxLaunch {
  int grid[3] = {1, 1, 1};
  int block = 1;
  std::vector<uint64_t> arguments;  // in order; of narrow parameters the lower bits
  size_t dynamic_shared = 0;        // bytes
  uint64_t seed = 1;
  struct Memory {
    void* data = nullptr;
    size_t bytes = 0;
    bool writable = false;
  };
  std::vector<Memory> memory;  // what the kernel may touch
  bool know_read_only = true;  // memory that is not writable here is all that ld.global.nc may read
};

class PtxProgram {
 public:
  explicit PtxProgram(const std::string& text);  // std::runtime_error that names the line
  ~PtxProgram();
  PtxProgram(const PtxProgram&) = delete;
  PtxProgram& operator=(const PtxProgram&) = delete;
  void run(const PtxLaunch& launch) const;  // std::runtime_error that names the instruction

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The tool's path, empty if there is none: on PATH or under CUDA_HOME (/usr/local/cuda).
std::string find_ptxas();
struct Assembled {
  int registers = 0, spill_bytes = 0, stack_bytes = 0;
  std::string log;  // not empty: it failed
};
Assembled assemble(const std::string& text, const std::string& architecture);

}  // namespace stax::testing
