// SPDX-License-Identifier: Apache-2.0
#pragma once
// Parts of a graph as models of their own.
#include "bisect/values.h"
#include "tensor/graph.h"

namespace stax::bisect {

struct Part {
  std::unique_ptr<tensor::Graph> graph;
  std::vector<tensor::Item> inputs;
};

/// The op of the outermost block that holds `op`.
tensor::Op* outermost(tensor::Op* op);

/// A value of the outermost block as an input.
void make_input(Part& part, tensor::Value* v, const tensor::Item& item);

/// Cuts a graph down to some ops of its outermost block and what they need. Other values that `is_known` gives become inputs; what nothing of the part
/// reads becomes an output.
void cut(Part& part, const std::vector<tensor::Op*>& ops,
         const std::function<const tensor::Item*(const tensor::Value&)>& is_known);

/// The same with as few ops as it can find in `seconds` while `shows` holds, which it does of the whole: ops around the one that makes value `id` first,
/// then all of them, fewer and fewer. `whole` gives the graph and its inputs once more, with the ops in the same order. None: no part shows it.
std::optional<Part> fewest_ops(const std::function<Part()>& whole, const Values& known, uint32_t id,
                               const std::function<bool(Part&)>& shows, int seconds);

}  // namespace stax::bisect
