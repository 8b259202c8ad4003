// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <cstring>

#include "runtime/device.h"
#include "support/error.h"

namespace stax::runtime {

std::string HostDevice::name() const { return "host"; }
void* HostDevice::allocate(size_t bytes) { return std::aligned_alloc(64, (bytes + 63) / 64 * 64); }
void HostDevice::release(void* data, size_t) { std::free(data); }
void HostDevice::copy_in(void* to, const void* host, size_t bytes) { std::memcpy(to, host, bytes); }
void HostDevice::copy_out(void* host, const void* from, size_t bytes) { std::memcpy(host, from, bytes); }
void HostDevice::copy(void* to, const void* from, size_t bytes) { std::memcpy(to, from, bytes); }
void HostDevice::launch(const Launch& launch) { internal_error("there is no kernel {} to launch", launch.kernel); }

}  // namespace stax::runtime
