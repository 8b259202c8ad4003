// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tensors of ONNX files beside what node_context.h declares (literal_of, dtype_of_onnx, onnx_type_name).
#include <memory>
#include <string>

#include "frontend/node_context.h"

namespace stax::frontend {

/// A sparse tensor, as a dense one.
Literal literal_of_sparse(const onnx::SparseTensorProto& proto, const std::string& folder);

/// Bytes of a file, mapped; they live as long as the pointer. UserError that names the file where it is missing, is no file,
/// or ends before offset + length.
struct MappedBytes {
  std::shared_ptr<void> data;
  size_t size = 0;
};
MappedBytes map_file(const std::string& path, int64_t offset = 0, std::optional<int64_t> length = {});

}  // namespace stax::frontend
