// SPDX-License-Identifier: Apache-2.0
#include "emit/quotient_sum.h"

#include <algorithm>

namespace stax::emit {

using symbolic::Expr;
using symbolic::ExprKind;

namespace {

bool is_of_parameters(Expr e) {
  return std::ranges::none_of(symbolic::free_symbols(e),
                              [](Expr s) { return s.symbol().kind == symbolic::SymbolKind::kLoop; });
}

}  // namespace

std::vector<QuotientTerm> by_quotients(const thread::Kernel& kernel, Expr sum) {
  if (sum.kind() != ExprKind::kAdd) return {};
  symbolic::ExprTable& table = sum.table();
  std::vector<QuotientTerm> terms;
  const auto add = [&](Expr value, Expr coefficient) {
    const auto found = std::ranges::find_if(terms, [&](const QuotientTerm& t) { return t.value == value; });
    if (found == terms.end())
      terms.push_back({value, coefficient});
    else
      found->coefficient = found->coefficient + coefficient;
  };
  Expr others = table.constant(0);
  bool has_remainder = false;
  for (Expr term : sum.args()) {
    Expr division, scale = table.constant(1);
    const std::vector<Expr> factors =
        term.kind() == ExprKind::kMul ? std::vector<Expr>(term.args().begin(), term.args().end()) : std::vector{term};
    for (Expr f : factors) {
      const bool is_division = f.kind() == ExprKind::kMod || f.kind() == ExprKind::kFloorDiv;
      if (is_division && !division && !f.args()[1].is_constant() && thread::find_divisor(kernel, f) != nullptr)
        division = f;
      else
        scale = scale * f;
    }
    if (!division || !is_of_parameters(scale)) {
      others = others + term;
    } else if (division.kind() == ExprKind::kFloorDiv) {
      add(division, scale);
    } else {
      const Expr x = division.args()[0], m = division.args()[1];
      has_remainder = true;
      add(x, scale);
      add(symbolic::floordiv(x, m), -scale * m);
    }
  }
  if (!has_remainder) return {};
  std::erase_if(terms, [](const QuotientTerm& t) { return t.coefficient.is_constant(0); });
  if (!others.is_constant(0)) terms.insert(terms.begin(), {others, table.constant(1)});
  return terms;
}

}  // namespace stax::emit
