// SPDX-License-Identifier: Apache-2.0
#pragma once
// A graph against the values of an earlier form of it, by the reference interpreter.
//
// Op by op: as soon as a result that both forms have is compared, the value of the earlier form takes its place. So each op works on operands that
// are right, a difference is the fault of what stands between two such values, and roundings do not add up over a model.
#include "bisect/values.h"

namespace stax::bisect {

struct GraphFault {
  uint32_t id = 0;        // of the value
  size_t occurrence = 0;  // in loops: which time
  std::string value;      // describe()
  std::string source;     // the op's
  std::string what;       // the difference, or what the interpreter says
};

/// Runs `graph`, keeping what it gives for the ids in `keep` (null: for all).
std::vector<tensor::Item> run_reference(const tensor::Graph& graph, const std::vector<tensor::Item>& inputs,
                                        const std::unordered_set<uint32_t>* keep, Values& kept);

/// The first result of `graph` that differs from `want`, or an output that differs from `outputs`. `kept`, if given, gets all values, those of `want`
/// where it has them.
std::optional<GraphFault> check_graph(const tensor::Graph& graph, const std::vector<tensor::Item>& inputs,
                                      const Values& want, const std::vector<tensor::Item>& outputs, Values* kept);

}  // namespace stax::bisect
