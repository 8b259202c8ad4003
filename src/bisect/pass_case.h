// SPDX-License-Identifier: Apache-2.0
#pragma once
// The part of a graph in which a pass goes wrong, as a model of its own.
#include "bisect/graph_check.h"
#include "bisect/kernel_case.h"

namespace stax::bisect {

/// A pass over tensor IR, in the sequence of a target.
struct Pass {
  std::string name;
  std::string target = "cpu";  // ir::find_target
};

/// What is wrong with the pass on this graph and these inputs; empty: nothing. `graph` is as text, with all constants.
std::string pass_differs(const std::string& graph, const std::vector<tensor::Item>& inputs, const Pass& pass);

/// The text of a model and its inputs on which a pass differs.
struct PassCase {
  std::string model;
  std::string inputs;
  std::vector<std::string> notes;  // what is kept whole, and why
};
/// The same with drawn data in the place of large constants and inputs, as far as the pass differs on those, too.
PassCase with_small_data(PassCase whole, const Pass& pass);
/// `before`: the graph as the pass gets it. Keeps what value `id` is computed from, back to values that `known` says and that the pass keeps (they become
/// inputs); where that does not show the fault, as few ops as do.
PassCase pass_case(const std::function<std::unique_ptr<tensor::Graph>()>& before,
                   const std::vector<tensor::Item>& inputs, uint32_t id, const Values& known,
                   const std::unordered_set<uint32_t>& ids, const Pass& pass);

}  // namespace stax::bisect
