// SPDX-License-Identifier: Apache-2.0
// .npz archives. They are read from files: one in memory.
#include "session/npz.h"

#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const int file = ::memfd_create("fuzz", 0);
  if (::ftruncate(file, 0) != 0 || ::pwrite(file, data, size, 0) != static_cast<ssize_t>(size)) return 0;
  return stax::fuzz_text(data, 0, [](const std::string&) {
    // Every byte of every array can be read.
    volatile uint8_t sum = 0;
    for (const auto& [name, t] : stax::session::read_npz("/proc/self/fd/" + std::to_string(file)))
      for (size_t k = 0; k < t.bytes(); ++k) sum = sum + static_cast<const uint8_t*>(t.data)[k];
  });
}
