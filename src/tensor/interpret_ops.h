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

// interpret_special.cpp
std::vector<Item> evaluate_special(const Call& call);

}  // namespace stax::tensor::reference
