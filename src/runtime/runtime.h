// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs a Program. No compiler and no LLVM behind this header.
#include <array>
#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "program/program.h"
#include "runtime/device.h"

namespace stax::runtime {

using ir::DType;

/// A tensor of the caller's, or one that the runtime gives back. Contiguous, row-major.
struct Tensor {
  DType dtype = DType::kF32;
  std::vector<int64_t> extents;
  const void* data = nullptr;
  std::shared_ptr<void> owner;  // null: the caller's memory
  size_t bytes() const;
};

/// A graph input or output: a tensor, or a sequence of them.
struct Item {
  Tensor tensor;
  bool is_sequence = false;
  std::vector<Tensor> sequence;
};

/// The CPU, with the best image that this machine can execute (memfd + dlopen). UserError if there is none.
std::unique_ptr<Device> open_cpu(const program::Program& program);

/// The first OpenCL device that is a GPU, else the first, with the program's kernels built for it. Kernels have code of format "opencl". UserError if
/// there is no driver or no device (what to install).
std::unique_ptr<Device> open_opencl(const program::Program& program);

/// What a call knows at one of its steps.
class StepView {
 public:
  virtual ~StepView() = default;
  virtual int64_t value(program::ExprRef e) const = 0;
  virtual int64_t symbol(uint32_t slot) const = 0;
  virtual std::vector<int64_t> extents(program::ValueRef v) const = 0;
  /// The bytes of a tensor, on a unified device.
  virtual std::span<std::byte> bytes(program::ValueRef v) const = 0;
  /// The memory of a segment's arena; empty while there is none.
  virtual std::span<std::byte> arena(uint32_t block, uint32_t segment) const = 0;
};

/// Sees a call step by step: for checks, not for ordinary use. What it throws ends the call.
class StepObserver {
 public:
  virtual ~StepObserver() = default;
  /// The results have their places, but no data.
  virtual void before(const StepView& view, uint32_t block, uint32_t step) = 0;
  virtual void after(const StepView& view, uint32_t block, uint32_t step) = 0;
};

/// A launch whose version gave another result than the last version of its kernel, which is right at every shape.
struct Mismatch {
  uint32_t kernel = 0;           // the version, in program().kernels
  uint32_t total = 0;            // what it was compared with; the same where a version differs from itself
  uint32_t result = 0;           // of the launch
  std::string source;            // the op
  std::vector<int64_t> index;    // of the first element that differs; empty where the version failed
  std::string what;              // "element [3, 0] is 1.5 instead of 2 (4 of 64 differ)"
  std::span<const Item> inputs;  // of the call; valid while the alarm runs
};

struct ModuleOptions {
  int threads = 0;                   // 0: all cores
  StepObserver* observer = nullptr;  // must outlive the module; calls are not made side by side then
  size_t plan_cache_entries = 512;
  /// Version to launch by kernel family instead of the one whose guard holds ("*": of all families; the last where there are fewer).
  std::map<std::string, uint32_t> forced_versions;
  /// One call in so many, beginning with the first, runs each of its launches a second time, in the last version of the kernel, and compares. The result
  /// that the call goes on with is then the last version's, and the version that differs is not launched any more. 0: none.
  int64_t check_every = 0;
  /// Called for each launch that differs, on the thread of the call. What it throws ends the call.
  std::function<void(const Mismatch&)> alarm;
};

struct Statistics {
  std::atomic<int64_t> launches{0}, plan_hits{0}, plan_misses{0}, peak_bytes{0};
  std::atomic<int64_t> checked_calls{0}, checked_launches{0}, mismatches{0};  // with ModuleOptions::check_every
};

/// What a kernel did in one call.
struct KernelUse {
  int64_t launches = 0, ns = 0;
  int64_t bytes = 0;       // of all arguments, each once a launch
  int64_t operations = 0;  // scalar ones, of the kernel's definition
};

struct CallStatistics {
  int64_t launches = 0;
  int64_t dispatch_ns = 0;              // binding of shapes, plan look-up or planning
  std::vector<KernelUse> kernels;       // with profiling: by kernel
  std::vector<uint32_t> versions_used;  // kernels (versions) launched, each once
};

/// The caller's host memory for outputs of tensors. On a unified device, an output whose place is asked for before its data is made is written there; others are
/// not asked for, and have memory of the runtime's. On others, all places are asked for at the end, and outputs are copied there.
class OutputPlaces {
 public:
  virtual ~OutputPlaces() = default;
  /// Memory of that many bytes, aligned for the element type and apart from all inputs; null: the runtime's own.
  virtual void* place(uint32_t output, std::span<const int64_t> extents, int64_t bytes) = 0;
};

/// A loaded program. run() may be called by several threads at once.
class Module {
 public:
  /// `device` has the program's kernels.
  Module(std::shared_ptr<const program::Program> program, std::unique_ptr<Device> device, ModuleOptions options);
  ~Module();
  const program::Program& program() const;
  const Device& device() const;
  /// Inputs in the order of program().inputs. UserError (what, where, how) leaves nothing half done and the module usable.
  /// A result whose data is in a place of the caller's has an owner that owns nothing.
  std::vector<Item> run(std::span<const Item> inputs, CallStatistics* statistics = nullptr, bool profile = false,
                        OutputPlaces* places = nullptr);
  /// The same into `outputs`, whose memory is used again: a call at a shape seen before whose outputs are all placed, and whose program is free of
  /// branches, data-dependent extents and loops that are not replayed (loop_replay.h), asks the heap for nothing.
  void run(std::span<const Item> inputs, std::vector<Item>& outputs, CallStatistics* statistics = nullptr,
           bool profile = false, OutputPlaces* places = nullptr);
  /// The extents of each output for inputs of these types and extents (data is not looked at); none where they depend on data, and for sequences.
  std::vector<std::optional<std::vector<int64_t>>> output_extents(std::span<const Item> inputs);
  const Statistics& statistics() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stax::runtime
