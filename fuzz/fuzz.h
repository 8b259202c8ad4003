// SPDX-License-Identifier: Apache-2.0
#pragma once
// What all fuzzers share: any bytes are either taken or refused with a UserError. Anything else ends the program, which libFuzzer reports.
#include <cstddef>
#include <cstdint>
#include <string>

#include "support/error.h"

namespace stax {

/// Runs `f` on the bytes as text. Lack of memory for what the bytes ask for is not a fault.
template <class F>
int fuzz_text(const uint8_t* data, size_t size, const F& f) {
  try {
    f(std::string(reinterpret_cast<const char*>(data), size));
  } catch (const UserError&) {
  } catch (const std::bad_alloc&) {
  }
  return 0;
}

}  // namespace stax
