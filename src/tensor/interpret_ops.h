// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the files of the reference interpreter share.
#include <string>
#include <vector>

#include "support/error.h"
#include "symbolic/evaluate.h"
#include "tensor/interpret.h"

namespace stax::tensor::reference {

/// One op on concrete operands.
struct Call {
  const Op& op;
  const std::vector<const Item*>& items;
  Bindings& bindings;

  /// Operand k as ops see it: one of run-time rank with kMaxRank axes, leading ones in front.
  Literal tensor(size_t k) const;
  int64_t value(Expr e) const { return symbolic::evaluate(e, bindings); }
  std::vector<int64_t> values(const std::vector<Expr>& expressions) const;
  /// A new tensor; a negative extent is a user error.
  Literal allocate(DType t, std::vector<int64_t> extents) const;
  /// "Add node 'sum'", or what the op is if it has no source.
  std::string where() const;
  [[noreturn]] void fail(const std::string& message) const;  // UserError
};

/// Row-major product; saturates.
int64_t count_of(const std::vector<int64_t>& extents);
/// The one element of an integer or bool tensor.
int64_t single_int(const Call& call, size_t operand, const char* what);
double single_float(const Call& call, size_t operand, const char* what);

// interpret_compute.cpp
Literal evaluate_compute(const Call& call, const Compute& compute);
Literal evaluate_scatter(const Call& call, const Scatter& scatter);

/// A tensor seen along one axis: [outer, count, inner].
struct AxisView {
  int64_t outer = 1, count = 1, inner = 1;
};
AxisView view_along(const std::vector<int64_t>& extents, int axis);

// interpret_procedures.cpp
std::vector<Item> evaluate_top_k(const Call& call, const TopK& top);
Literal evaluate_nonzero(const Call& call);
std::vector<Item> evaluate_unique(const Call& call, const Unique& unique);
Literal evaluate_non_max_suppression(const Call& call, const NonMaxSuppression& suppression);
Literal evaluate_determinant(const Call& call);

// interpret_special.cpp
std::vector<Item> evaluate_special(const Call& call);

}  // namespace stax::tensor::reference
