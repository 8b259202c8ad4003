// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "runtime/device.h"
#include "support/error.h"

namespace stax::runtime {
namespace {

constexpr size_t kMappedFrom = size_t{1} << 20;

}  // namespace

std::string HostDevice::name() const { return "host"; }
// Large blocks come from the system and go back to it: in the heap they would be kept, in pieces between others.
void* HostDevice::allocate(size_t bytes) {
  if (bytes < kMappedFrom) return std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return nullptr;
  // Kernels walk through large blocks with strides: few, large pages have their addresses translated in time. A wish: systems without them ignore it.
  ::madvise(data, bytes, MADV_HUGEPAGE);
  return data;
}
void HostDevice::release(void* data, size_t bytes) {
  if (bytes < kMappedFrom)
    std::free(data);
  else
    ::munmap(data, bytes);
}
void HostDevice::copy_in(void* to, const void* host, size_t bytes) { std::memcpy(to, host, bytes); }
void HostDevice::copy_out(void* host, const void* from, size_t bytes) { std::memcpy(host, from, bytes); }
void HostDevice::copy(void* to, const void* from, size_t bytes) { std::memcpy(to, from, bytes); }
void HostDevice::launch(const Launch& launch) { internal_error("there is no kernel {} to launch", launch.kernel); }

}  // namespace stax::runtime
