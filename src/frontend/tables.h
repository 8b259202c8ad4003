// SPDX-License-Identifier: Apache-2.0
#pragma once
// The rows of files that share a table of node_context.h.
#include <initializer_list>
#include <span>
#include <vector>

#include "frontend/node_context.h"

namespace stax::frontend {

using Rows = std::span<const OperatorRow>;

inline std::vector<OperatorRow> joined_rows(std::initializer_list<Rows> parts) {
  std::vector<OperatorRow> all;
  for (Rows rows : parts) all.insert(all.end(), rows.begin(), rows.end());
  return all;
}

// reduction_operators()
Rows softmax_rows();  // ops_softmax.cpp
Rows norm_rows();     // ops_norm.cpp
Rows loss_rows();     // ops_loss.cpp
// spatial_operators()
Rows convolution_rows();  // ops_convolution.cpp
Rows pooling_rows();      // ops_pooling.cpp
Rows resize_rows();       // ops_resize.cpp
Rows sampling_rows();     // ops_sampling.cpp
// linear_operators()
Rows einsum_rows();       // ops_einsum.cpp
Rows attention_rows();    // ops_attention.cpp
Rows transformer_rows();  // ops_transformer.cpp
// quantized_operators()
Rows quantized_product_rows();    // ops_quantized_product.cpp
Rows quantized_pointwise_rows();  // ops_quantized_pointwise.cpp

}  // namespace stax::frontend
