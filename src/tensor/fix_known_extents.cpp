// SPDX-License-Identifier: Apache-2.0
// Files often leave a dim open that their weights decide: [batch, n] times a constant [768, 64] can only be [batch, 768]. A loop over 768 has constant bounds,
// strides and tiles, one over n has none of them.
#include "tensor/passes.h"
#include "tensor/rewrite.h"

namespace stax::tensor {

bool fix_known_extents(Graph& graph) {
  symbolic::Substitution known;
  for (const GraphInput& input : graph.inputs) {
    for (Expr e : input.value->type.extents) {
      if (!e.is_symbol()) continue;
      // What the checks of the whole program leave of it: no call with another size gets past them.
      const symbolic::Interval possible = graph.constraints.range(e);
      if (possible.is_constant()) known[e.node()] = graph.exprs().constant(possible.lo);
    }
  }
  if (known.empty()) return false;
  // The inputs keep the symbols, and so do the checks that leave one size: they say what is wrong with another one, and why.
  std::vector<std::vector<Expr>> declared;
  for (const GraphInput& input : graph.inputs) declared.push_back(input.value->type.extents);
  std::vector<std::pair<Check*, Check>> checks;
  for (const auto& op : graph.body.ops)
    if (auto* check = op->as<Check>()) checks.emplace_back(check, *check);
  substitute_symbols(graph, known);
  for (size_t k = 0; k < declared.size(); ++k) graph.inputs[k].value->type.extents = std::move(declared[k]);
  for (auto& [check, as_it_was] : checks) *check = std::move(as_it_was);
  return true;
}

}  // namespace stax::tensor
