// SPDX-License-Identifier: Apache-2.0
// Text of tensor IR. What is read prints, and its print reads as the same.
#include "fuzz.h"
#include "tensor/graph.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stax;
  return fuzz_text(data, size, [](const std::string& text) {
    const std::string once = tensor::print(*tensor::parse_graph(text), {.full = true});
    std::string again;
    try {
      again = tensor::print(*tensor::parse_graph(once), {.full = true});
    } catch (const UserError& e) {
      internal_error("what was printed is not read: {}", e.what());
    }
    STAX_ASSERT(once == again, "read and printed again, it is another text");
  });
}
