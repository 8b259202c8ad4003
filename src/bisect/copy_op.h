// SPDX-License-Identifier: Apache-2.0
#pragma once
// A kernel's op in another graph.
#include "tensor/graph.h"

namespace stax::bisect {

/// What a Compute, Scatter, PrefixScan or RowGroup does, for an op of `graph`, which has the op's tables. The body of a RowGroup still has no parent.
tensor::Payload payload_of(const tensor::Op& op, tensor::Graph& graph);

}  // namespace stax::bisect
