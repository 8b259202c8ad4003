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
  substitute_symbols(graph, known);
  std::vector<Op*> settled;
  for (const auto& op : graph.body.ops) {
    const auto* check = op->as<Check>();
    if (check != nullptr && check->condition.is_constant() && !check->condition.is_constant(0)) settled.push_back(op.get());
  }
  for (Op* op : settled) erase_op(*op);
  return true;
}

}  // namespace stax::tensor
