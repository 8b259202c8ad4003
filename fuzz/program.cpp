// SPDX-License-Identifier: Apache-2.0
// Compiled .stax files. The checksum would refuse nearly everything, so it is made right first.
#include "program/program.h"
#include "fuzz.h"
#include "support/hash.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stax;
  return fuzz_text(data, size, [](std::string bytes) {
    constexpr size_t kChecksum = 16, kRest = 24;  // of program/serialize.cpp
    if (bytes.size() >= kRest) {
      const uint64_t sum = hash_bytes(std::string_view(bytes).substr(kRest));
      for (size_t k = 0; k < 8; ++k) bytes[kChecksum + k] = static_cast<char>(sum >> (8 * k));
    }
    const program::Program p =
        program::deserialize({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, "the file");
    program::verify(p);
    program::print(p);
  });
}
