// SPDX-License-Identifier: Apache-2.0
#pragma once
// The part of a graph in which a pass goes wrong, as a model of its own.
#include "bisect/graph_check.h"
#include "bisect/kernel_case.h"

namespace stax::bisect {

/// A pass over tensor IR, by name.
using Pass = bool (*)(tensor::Graph&);

/// What is wrong with the pass on this graph and these inputs; empty: nothing. `graph` is as text, with all constants.
std::string pass_differs(const std::string& graph, const std::vector<tensor::Item>& inputs, const std::string& pass);

/// `graph`: as the pass gets it. Keeps what value `id` is computed from, back to values that `known` says (they become inputs). The text of a model
/// and its inputs on which the pass differs, too, smaller if that can be had; the whole graph otherwise.
struct PassCase {
  std::string model;
  std::string inputs;
  std::vector<std::string> notes;  // what is kept whole, and why
};
/// The same with drawn data in the place of large constants and inputs, as far as the pass differs on those, too.
PassCase with_small_data(PassCase whole, const std::string& pass);
PassCase pass_case(std::unique_ptr<tensor::Graph> graph, const std::vector<tensor::Item>& inputs, uint32_t id,
                   const Values& known, const std::unordered_set<uint32_t>& ids, const std::string& pass);

}  // namespace stax::bisect
