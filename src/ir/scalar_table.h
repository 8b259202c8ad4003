// SPDX-License-Identifier: Apache-2.0
#pragma once
// The storage behind a ScalarTable. Only ir/ includes this.
#include <deque>
#include <unordered_map>

#include "ir/scalar.h"

namespace stax::ir {

struct ScalarTable::Impl {
  explicit Impl(symbolic::ExprTable& exprs) : exprs(exprs) {}
  /// The node with the parts of `parts`; its id is given here.
  Scalar intern(ScalarNode parts);

  symbolic::ExprTable& exprs;
  std::deque<ScalarNode> nodes;
  std::unordered_multimap<uint64_t, const ScalarNode*> index;  // by hash of the parts
};

}  // namespace stax::ir
