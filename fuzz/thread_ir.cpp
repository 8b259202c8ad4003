// SPDX-License-Identifier: Apache-2.0
// Text of thread IR. What is read prints, and its print reads as the same; the verifier takes or refuses any of it.
#include "thread/thread_ir.h"
#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stax;
  return fuzz_text(data, size, [](const std::string& text) {
    const thread::Kernel kernel = thread::parse_kernel(text);
    const std::string once = thread::print(kernel);
    STAX_ASSERT(thread::print(thread::parse_kernel(once)) == once, "read and printed again, it is another text");
    try {
      thread::verify(kernel, thread::Stage::kStructured);
    } catch (const InternalError&) {  // a kernel that no pass makes
    }
  });
}
