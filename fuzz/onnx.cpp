// SPDX-License-Identifier: Apache-2.0
// ONNX files: whatever is imported is a graph that the verifier takes.
#include "frontend/onnx_import.h"
#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return stax::fuzz_text(data, size, [](const std::string& bytes) {
    stax::tensor::verify(*stax::frontend::import_onnx_bytes(bytes, "/nowhere", "the file", {}));
  });
}
