// SPDX-License-Identifier: Apache-2.0
#pragma once
// A GPU behind a driver of CUDA's kind: memory has addresses, kernels are functions of modules, work goes into a stream.
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "program/program.h"
#include "runtime/device.h"

namespace stax::runtime {

/// What is called so or nearly so in each of these drivers. A function throws UserError where the driver reports an error, but for allocate.
class Driver {
 public:
  using Function = void*;
  virtual ~Driver() = default;
  virtual std::string name() const = 0;
  /// Makes the device the calling thread's.
  virtual void enter() = 0;
  virtual void* allocate(size_t bytes) = 0;  // null: there is not that much
  virtual void release(void* data) = 0;
  virtual void copy_in(void* to, const void* host, size_t bytes) = 0;
  virtual void copy_out(void* host, const void* from, size_t bytes) = 0;
  virtual void copy(void* to, const void* from, size_t bytes) = 0;
  virtual void synchronize() = 0;
  /// Loads a kernel's code and makes it ready for `shared_bytes` of dynamic shared memory.
  virtual Function load(const program::KernelSpec& kernel) = 0;
  virtual void launch(Function f, const int64_t (&grid)[3], int64_t block, int64_t shared_bytes, void** arguments) = 0;
};

class DriverDevice final : public Device {
 public:
  DriverDevice(std::unique_ptr<Driver> driver, const program::Program& program);
  std::string name() const override { return driver_->name(); }
  bool unified() const override { return false; }
  void* allocate(size_t bytes) override;
  void release(void* data, size_t bytes) override;
  void copy_in(void* to, const void* host, size_t bytes) override;
  void copy_out(void* host, const void* from, size_t bytes) override;
  void copy(void* to, const void* from, size_t bytes) override;
  void launch(const Launch& launch) override;
  void synchronize() override;

 private:
  struct Kernel {
    Driver::Function function = nullptr;
    bool narrow = false;  // parameters of 32 bits
    bool reports_faults = false;
  };
  std::unique_ptr<Driver> driver_;
  std::vector<Kernel> kernels_;
};

}  // namespace stax::runtime
