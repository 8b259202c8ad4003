// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tensors of ONNX files beside what node_context.h declares (literal_of, dtype_of_onnx, onnx_type_name).
#include <memory>
#include <string>

#include "frontend/node_context.h"

namespace stax::frontend {

/// A sparse tensor, as a dense one.
Literal literal_of_sparse(const onnx::SparseTensorProto& proto, const ExternalData& external);

}  // namespace stax::frontend
