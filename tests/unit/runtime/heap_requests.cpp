// SPDX-License-Identifier: Apache-2.0
// operator new of this whole test program.
#include "unit/runtime/heap_requests.h"

#include <cstdlib>
#include <new>

namespace {
thread_local int64_t count = 0;
}  // namespace

int64_t stax::heap_requests() { return count; }

void* operator new(size_t bytes) {
  ++count;
  if (void* p = std::malloc(bytes)) return p;
  throw std::bad_alloc();
}
// Also of those that ask not to throw (std::stable_sort's buffer): what is deleted here has to come from here.
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  ++count;
  return std::malloc(bytes);
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }
