// SPDX-License-Identifier: Apache-2.0
#pragma once
// Expressions as flat data that a runtime evaluates without the ExprTable.
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "symbolic/expr.h"

namespace stax::symbolic {

/// Saturating arithmetic as expr.h defines it, shared by simplifier, interpreters and runtime.
int64_t saturating_add(int64_t a, int64_t b);
int64_t saturating_mul(int64_t a, int64_t b);
int64_t floor_div(int64_t a, int64_t b);
int64_t floor_mod(int64_t a, int64_t b);
int64_t apply(ExprKind kind, std::span<const int64_t> args);

/// Direct evaluation; `values` maps symbols to values; an unbound symbol is an InternalError that names it.
int64_t evaluate(Expr e, const std::unordered_map<const ExprNode*, int64_t>& values);

/// One node of a flat expression DAG: arguments are indices of earlier nodes.
struct FlatNode {
  ExprKind kind = ExprKind::kConstant;
  int64_t value = 0;  // constant, or symbol slot
  std::vector<uint32_t> args;
  bool operator==(const FlatNode&) const = default;
};

/// A pool of expressions of a program; an expression is the index of its node. Deduplicated.
class FlatExprs {
 public:
  /// Adds `e`; `slot_of` gives the slot number of each symbol.
  uint32_t add(Expr e, const std::function<uint32_t(Expr symbol)>& slot_of);
  const std::vector<FlatNode>& nodes() const { return nodes_; }
  std::vector<FlatNode>& nodes() { return nodes_; }
  /// Evaluates nodes [begin, end) into `values` (size nodes().size()); symbols come from `slots`.
  void evaluate(size_t begin, size_t end, std::span<const int64_t> slots, std::span<int64_t> values) const;

 private:
  std::vector<FlatNode> nodes_;
  std::unordered_map<const ExprNode*, uint32_t> known_;
};

}  // namespace stax::symbolic
