// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

namespace stax {

/// How often this thread has asked the heap for memory, by operator new, since it started.
int64_t heap_requests();

}  // namespace stax
