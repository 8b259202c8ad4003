// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a target brings to run programs: memory, copies, launches.
//
// A device holds the kernels of one program, loaded, and one queue. Operations take effect in the order in which they are called, over all
// threads: memory that one call gives back may be written by the next call's kernels, because those come later. Launches and copies may be
// under way when their call returns; what the host reads (copy_out) and synchronize() wait for everything before them.
//
// A device pointer is opaque. It supports arithmetic (a place inside an allocation is its start plus bytes) and comparison, and nothing else: the
// host must not read through it. Where unified() holds, and only there, device pointers are host pointers and every operation is done when its
// call returns; then the runtime neither copies inputs and outputs nor asks for faults later than after each launch.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace stax::runtime {

class HostWorkers;

/// The first index of a kernel that was out of range; begins as emit::KernelFault does, and is the fault record of GPU code.
struct Fault {
  int64_t failed = 0, index = 0, extent = 0, message = 0;
};

struct Launch {
  uint32_t kernel = 0;              // number in the program
  std::span<void* const> buffers;   // the kernel's arguments; device memory, null for what has no bytes
  std::span<const int64_t> params;  // in the kernel's order
  int64_t iterations = 1;           // of the outermost parallel loop, at least 1
  Fault* fault = nullptr;           // device memory
  int64_t grid[3] = {1, 1, 1};      // blocks, where the program says how many
  int64_t block = 1;                // threads of a block
  int64_t shared_bytes = 0;         // dynamic shared memory of a block
  int64_t work = 0;                 // about how many scalar operations all of it is
  int64_t scratch_bytes = 0;        // for local arrays, of each thread that runs it on the host
  HostWorkers* workers = nullptr;   // of the calling context, for devices whose kernels run on the host
  int worker = -1;  // the calling thread, which runs all of it, with scratch reserved; -1: as many as it is worth
};

class Device {
 public:
  virtual ~Device() = default;
  /// As the driver gives it, or the instruction set.
  virtual std::string name() const = 0;
  virtual bool unified() const = 0;
  /// Aligned for vector access and at least to 64 bytes; null if there is not that much (`bytes` > 0).
  virtual void* allocate(size_t bytes) = 0;
  /// Operations that were called before and use the memory are done first.
  virtual void release(void* data, size_t bytes) = 0;
  // Copies of `bytes` > 0. The host's memory is read, and written, before they return.
  virtual void copy_in(void* to, const void* host, size_t bytes) = 0;
  virtual void copy_out(void* host, const void* from, size_t bytes) = 0;
  virtual void copy(void* to, const void* from, size_t bytes) = 0;
  /// Everything that `launch` refers to on the host (not device memory) is read before it returns.
  virtual void launch(const Launch& launch) = 0;
  virtual void synchronize() = 0;
};

/// Host memory as device memory. Runs no kernels by itself; devices whose kernels are functions of this process are made of it.
class HostDevice : public Device {
 public:
  std::string name() const override;
  bool unified() const final { return true; }
  void* allocate(size_t bytes) final;
  void release(void* data, size_t bytes) final;
  void copy_in(void* to, const void* host, size_t bytes) final;
  void copy_out(void* host, const void* from, size_t bytes) final;
  void copy(void* to, const void* from, size_t bytes) final;
  void launch(const Launch& launch) override;
  void synchronize() final {}
};

}  // namespace stax::runtime
