// SPDX-License-Identifier: Apache-2.0
#include "runtime/evaluator.h"

#include <algorithm>

namespace stax::runtime {

using symbolic::ExprKind;

Evaluator::Evaluator(const program::Program& program) {
  for (const auto& n : program.exprs.nodes()) {
    nodes_.push_back({n.kind, static_cast<uint32_t>(args_.size()), static_cast<uint32_t>(n.args.size()), n.value});
    args_.insert(args_.end(), n.args.begin(), n.args.end());
  }
}

void Evaluator::run(std::span<const program::ExprRef> nodes, std::span<const int64_t> symbols,
                    std::span<int64_t> values) const {
  for (program::ExprRef r : nodes) {
    const Node& n = nodes_[r];
    const uint32_t* a = args_.data() + n.first;
    int64_t v = 0;
    switch (n.kind) {
      case ExprKind::kConstant: v = n.value; break;
      case ExprKind::kSymbol: v = symbols[static_cast<size_t>(n.value)]; break;
      case ExprKind::kAdd:
        v = values[a[0]];
        for (uint32_t k = 1; k < n.count; ++k) v = symbolic::saturating_add(v, values[a[k]]);
        break;
      case ExprKind::kMul:
        v = values[a[0]];
        for (uint32_t k = 1; k < n.count; ++k) v = symbolic::saturating_mul(v, values[a[k]]);
        break;
      case ExprKind::kFloorDiv: v = symbolic::floor_div(values[a[0]], values[a[1]]); break;
      case ExprKind::kMod: v = symbolic::floor_mod(values[a[0]], values[a[1]]); break;
      case ExprKind::kMin:
        v = values[a[0]];
        for (uint32_t k = 1; k < n.count; ++k) v = std::min(v, values[a[k]]);
        break;
      case ExprKind::kMax:
        v = values[a[0]];
        for (uint32_t k = 1; k < n.count; ++k) v = std::max(v, values[a[k]]);
        break;
      case ExprKind::kLess: v = values[a[0]] < values[a[1]]; break;
      case ExprKind::kEqual: v = values[a[0]] == values[a[1]]; break;
      case ExprKind::kSelect: v = values[a[0]] != 0 ? values[a[1]] : values[a[2]]; break;
    }
    values[r] = v;
  }
}

}  // namespace stax::runtime
