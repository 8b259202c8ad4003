// SPDX-License-Identifier: Apache-2.0
#include "bisect/machine.h"

#include <cstring>

#include "bisect/isolated.h"
#include "runtime/cuda.h"
#include "runtime/hip.h"
#include "runtime/runtime.h"
#include "session/devices.h"
#include "support/error.h"
#include "symbolic/evaluate.h"
#include "thread/thread_ir.h"

namespace stax::bisect {
namespace {

constexpr int kAskSeconds = 60;

/// A device with memory of its own, launch by launch.
class Mirrored final : public runtime::HostDevice {
 public:
  Mirrored(std::unique_ptr<runtime::Device> device, const program::Program& program) : device_(std::move(device)) {
    for (const program::KernelSpec& k : program.kernels) kernels_.push_back(thread::parse_kernel(k.thread_text));
  }
  std::string name() const override { return device_->name(); }

  void launch(const runtime::Launch& l) override {
    const thread::Kernel& kernel = kernels_[l.kernel];
    std::unordered_map<const symbolic::ExprNode*, int64_t> values;
    for (size_t k = 0; k < l.params.size(); ++k) values[kernel.params[k].node()] = l.params[k];
    std::vector<Copy> copies;
    std::vector<void*> buffers;
    for (size_t k = 0; k < l.buffers.size(); ++k) {
      const thread::Buffer& b = kernel.buffers[k];
      const int64_t count = std::max<int64_t>(0, symbolic::evaluate(b.count, values));
      copies.emplace_back(*device_, l.buffers[k], static_cast<size_t>(count) * ir::byte_size(b.dtype));
      buffers.push_back(copies.back().there());
    }
    runtime::Fault fault;
    Copy fault_copy(*device_, &fault, sizeof fault);
    runtime::Launch there = l;
    there.buffers = buffers;
    there.fault = static_cast<runtime::Fault*>(fault_copy.there());
    device_->launch(there);
    device_->synchronize();
    for (size_t k = 0; k < copies.size(); ++k)
      if (kernel.buffers[k].written) copies[k].take_back();
    fault_copy.take_back();
    if (fault.failed && l.fault && !l.fault->failed) *l.fault = fault;
  }

 private:
  /// The device's copy of host memory.
  class Copy {
   public:
    Copy(runtime::Device& device, void* here, size_t bytes) : device_(&device), here_(here), bytes_(bytes) {
      if (bytes == 0) return;
      there_ = device.allocate(bytes);
      if (!there_) throw std::bad_alloc();
      device.copy_in(there_, here, bytes);
    }
    Copy(Copy&& o) noexcept
        : device_(o.device_), here_(o.here_), there_(std::exchange(o.there_, nullptr)), bytes_(o.bytes_) {}
    Copy& operator=(Copy&&) = delete;
    ~Copy() {
      if (there_) device_->release(there_, bytes_);
    }
    void* there() const { return there_; }
    void take_back() const {
      if (there_) device_->copy_out(here_, there_, bytes_);
    }

   private:
    runtime::Device* device_;
    void *here_, *there_ = nullptr;
    size_t bytes_;
  };

  std::unique_ptr<runtime::Device> device_;
  std::vector<thread::Kernel> kernels_;
};

}  // namespace

ir::CodeFormat Machine::format() const { return session::code_format(device, emit).value_or(row().format); }

Machine machine_of(const std::string& device, const std::string& emit) {
  session::check_device(device);
  session::code_format(device, emit);
  if (device == "reference" || device == "loop")
    user_error("device '{}' is one of the levels that bisect looks at anyway; use cpu, sim, opencl, cuda or hip",
               device);
  // The driver is asked in a process of its own.
  SharedMemory name(256);
  const std::string end = run_isolated(
      [&] {
        const std::string target = session::target_of(device);
        std::memcpy(name.as<char>(), target.c_str(), std::min(target.size(), name.bytes() - 1));
      },
      kAskSeconds);
  constexpr std::string_view kThrows = "it throws: ";
  if (end.starts_with(kThrows)) user_error("{}", end.substr(kThrows.size()));
  if (!end.empty()) user_error("device '{}' cannot be opened: {}", device, end);
  return {device, name.as<char>(), emit};
}

std::unique_ptr<runtime::Device> open(const Machine& machine, const program::Program& program) {
  if (machine.device == "cpu") return runtime::open_cpu(program);
  if (machine.device == "sim") return session::open_sim(program);
  auto* open_driver = machine.device == "opencl" ? runtime::open_opencl
                      : machine.device == "cuda" ? runtime::open_cuda
                                                 : runtime::open_hip;
  return open_driver(program);
}

std::unique_ptr<runtime::Device> open_unified(const Machine& machine, const program::Program& program) {
  auto device = open(machine, program);
  return machine.device == "cpu" || machine.device == "sim" ? std::move(device)
                                                            : std::make_unique<Mirrored>(std::move(device), program);
}

}  // namespace stax::bisect
