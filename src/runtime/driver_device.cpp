// SPDX-License-Identifier: Apache-2.0
#include "runtime/driver_device.h"

#include "support/error.h"

namespace stax::runtime {

DriverDevice::DriverDevice(std::unique_ptr<Driver> driver, const program::Program& program)
    : driver_(std::move(driver)) {
  driver_->enter();
  for (const program::KernelSpec& k : program.kernels)
    kernels_.push_back({driver_->load(k), k.index_bits == 32, k.reports_faults});
}

void* DriverDevice::allocate(size_t bytes) {
  driver_->enter();
  return driver_->allocate(bytes);
}

void DriverDevice::release(void* data, size_t) {
  driver_->enter();
  driver_->release(data);
}

void DriverDevice::copy_in(void* to, const void* host, size_t bytes) {
  driver_->enter();
  driver_->copy_in(to, host, bytes);
}

void DriverDevice::copy_out(void* host, const void* from, size_t bytes) {
  driver_->enter();
  driver_->copy_out(host, from, bytes);
}

void DriverDevice::copy(void* to, const void* from, size_t bytes) {
  driver_->enter();
  driver_->copy(to, from, bytes);
}

void DriverDevice::synchronize() {
  driver_->enter();
  driver_->synchronize();
}

void DriverDevice::launch(const Launch& l) {
  const Kernel& kernel = kernels_[l.kernel];
  // Drivers take the address of each argument. What they point at is on this stack until the call returns, which has read it by then.
  constexpr size_t kMost = 256;
  uint64_t values[kMost];
  void* arguments[kMost];
  size_t count = 0;
  const auto add = [&](uint64_t bits) {
    STAX_ASSERT(count < kMost, "a kernel of more than {} arguments", kMost);
    values[count] = bits;
    arguments[count] = &values[count];
    ++count;
  };
  for (void* b : l.buffers) add(reinterpret_cast<uint64_t>(b));
  for (int64_t p : l.params) add(kernel.narrow ? static_cast<uint32_t>(p) : static_cast<uint64_t>(p));
  if (kernel.reports_faults) add(reinterpret_cast<uint64_t>(l.fault));
  driver_->enter();
  driver_->launch(kernel.function, l.grid, l.block, l.shared_bytes, arguments);
}

}  // namespace stax::runtime
