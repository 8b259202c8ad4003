// SPDX-License-Identifier: Apache-2.0
#pragma once
// Another way to compute an op, for the shapes at which it is the better one.
#include <functional>

#include "tensor/builder.h"

namespace stax::tensor {

/// The ops of that kind, in blocks, too, at this moment.
std::vector<Op*> ops_of(Graph& graph, OpKind kind);

/// Puts what `build` makes (a value for each result) in the op's place where `condition` holds, and keeps the op elsewhere: an If where only the call
/// knows. The op defines no symbols. Returns whether anything changed; `op` may be gone then.
bool compute_otherwise(Op& op, Expr condition, const std::function<std::vector<Value*>(Builder&)>& build);

}  // namespace stax::tensor
