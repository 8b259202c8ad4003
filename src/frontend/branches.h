// SPDX-License-Identifier: Apache-2.0
#pragma once
// If ops: their branches, and what their results are where the branches differ in extents or rank.
#include <functional>
#include <memory>
#include <vector>

#include "frontend/importer.h"

namespace stax::frontend {

struct Branch {
  std::unique_ptr<tensor::Block> block = std::make_unique<tensor::Block>();
  std::vector<Value*> outputs;
  symbolic::ConstraintSet facts;  // what holds at its end
};

/// Fills a branch by `fill`, on the assumption that `condition` (may be null) holds; nothing of it is believed afterwards.
Branch make_branch(Builder& b, Expr condition, const std::function<std::vector<Value*>(Branch&)>& fill);

/// The If in b's block. `known` is the condition as an expression, or null. Symbols of the table's number `first_symbol` on
/// belong to the branches. Extents on which the branches agree stay what they are; the others become symbols.
std::vector<Value*> build_if(Node& n, Builder& b, Value* condition, Expr known, Branch taken, Branch other,
                             size_t first_symbol);

}  // namespace stax::frontend
