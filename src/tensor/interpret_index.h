// SPDX-License-Identifier: Apache-2.0
#pragma once
// Index expressions over the points of a box, once the symbols of the graph have values.
#include <optional>
#include <unordered_map>
#include <vector>

#include "tensor/interpret.h"

namespace stax::tensor::reference {

/// base + sum of coefficients[d] * axis d.
struct AffineForm {
  int64_t base = 0;
  std::vector<int64_t> coefficients;
  symbolic::Interval range;
  bool is_constant() const;
};

/// An expression: affine, or an operation on other expressions.
struct IndexForm {
  std::optional<AffineForm> affine;
  symbolic::ExprKind kind = symbolic::ExprKind::kConstant;
  std::vector<Expr> args;  // where it is not affine
  symbolic::Interval range;
};

class IndexForms {
 public:
  /// The box is `vars` x `extents`, no extent 0. An expression in `vars` need not be a symbol: wherever it occurs as a
  /// whole it stands for that axis; a null one is an axis without a name. Other symbols have their value in `bindings`.
  IndexForms(const std::vector<Expr>& vars, std::vector<int64_t> extents, const Bindings& bindings);

  /// Stays valid while more are asked for.
  const IndexForm& of(Expr e);
  AffineForm constant(int64_t v) const;

 private:
  IndexForm make(Expr e);
  std::optional<AffineForm> combine(symbolic::ExprKind kind, const std::vector<const IndexForm*>& args,
                                    const std::vector<symbolic::Interval>& ranges) const;
  void set_range(AffineForm& f) const;

  std::vector<int64_t> extents_;
  const Bindings& bindings_;
  std::unordered_map<const symbolic::ExprNode*, int> axis_of_;
  std::unordered_map<const symbolic::ExprNode*, IndexForm> forms_;
};

/// out[i] = kind(x[0][i], x[1][i], ...) for i < n.
void evaluate_expr_block(symbolic::ExprKind kind, const std::vector<const int64_t*>& x, int64_t* out, int64_t n);

}  // namespace stax::tensor::reference
