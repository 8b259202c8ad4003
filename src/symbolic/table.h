// SPDX-License-Identifier: Apache-2.0
#pragma once
// The storage behind an ExprTable: interned nodes and declared symbols. Only symbolic/ includes this.
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "symbolic/expr.h"

namespace stax::symbolic {

struct ExprStore {
  explicit ExprStore(ExprTable* owner) : table(owner) {}

  /// The node with these parts, which are in canonical form already. A new node's range is what its arguments give,
  /// cut by `known`.
  Expr intern(ExprKind kind, int64_t value, std::vector<Expr> args, Interval known = {});
  Expr constant(int64_t value) { return intern(ExprKind::kConstant, value, {}); }
  Expr new_symbol(SymbolInfo info);

  ExprTable* table;
  std::deque<ExprNode> nodes;
  std::unordered_multimap<uint64_t, const ExprNode*> index;  // by hash of the parts
  std::deque<SymbolInfo> symbols;
  std::vector<Expr> symbol_nodes;
  std::unordered_map<std::string, Expr> by_name;
};

/// The divisor of a node that follows from the divisors of its arguments.
int64_t multiple_from(ExprKind kind, std::span<const Expr> args, std::span<const int64_t> multiples);

}  // namespace stax::symbolic
