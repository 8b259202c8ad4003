// SPDX-License-Identifier: Apache-2.0
// Text of loop IR, and of a schedule behind a line `---`. What is read prints, and its print reads as the same.
#include "fuzz.h"
#include "loop/transform.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stax;
  return fuzz_text(data, size, [](const std::string& text) {
    const size_t cut = text.find("\n---\n");
    const loop::Kernel kernel = loop::parse_kernel(text.substr(0, cut));
    const std::string once = loop::print(kernel);
    STAX_ASSERT(loop::print(loop::parse_kernel(once)) == once, "read and printed again, it is another text");
    if (cut != std::string::npos) loop::verify(loop::apply_schedule(kernel, text.substr(cut + 5)));
  });
}
