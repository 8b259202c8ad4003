// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "support/error.h"
#include "thread/passes.h"

namespace stax::thread {

using symbolic::ExprKind;

namespace {

std::vector<Expr> factors_of(Expr e) {
  if (e.kind() != ExprKind::kMul) return {e};
  return {e.args().begin(), e.args().end()};
}

// whole / part, where the factors of one are among those of the other; null where they are not.
Expr quotient_of_products(Expr whole, Expr part) {
  std::vector<Expr> left = factors_of(whole);
  for (Expr f : factors_of(part)) {
    const auto found = std::find(left.begin(), left.end(), f);
    if (found == left.end()) return {};
    left.erase(found);
  }
  if (left.empty()) return {};
  return left.size() == 1 ? left[0] : whole.table().make(ExprKind::kMul, std::move(left));
}

// x / (a b) as (x / a) / b where x / a is there, too: digits of a number cost a division each.
Kernel in_steps(const Kernel& kernel) {
  std::vector<Expr> quotients;
  const auto consider = [&](Expr e) {
    if (e.kind() != ExprKind::kFloorDiv && e.kind() != ExprKind::kMod) return;
    if (e.args()[0].range().lo < 0 || e.args()[1].range().lo < 0) return;
    const Expr quotient = symbolic::floordiv(e.args()[0], e.args()[1]);
    if (quotient.kind() != ExprKind::kFloorDiv || quotient.args()[1].is_constant()) return;
    if (std::find(quotients.begin(), quotients.end(), quotient) == quotients.end()) quotients.push_back(quotient);
  };
  visit(kernel.body, [&](const Stmt& s) { for_each_index(*s, [&](Expr root) { symbolic::visit(root, consider); }); });
  std::stable_sort(quotients.begin(), quotients.end(),
                   [](Expr a, Expr b) { return factors_of(a.args()[1]).size() < factors_of(b.args()[1]).size(); });
  symbolic::Substitution steps;
  for (size_t k = 0; k < quotients.size(); ++k) {
    for (size_t before = k; before-- > 0;) {
      if (quotients[before].args()[0] != quotients[k].args()[0]) continue;
      const Expr rest = quotient_of_products(quotients[k].args()[1], quotients[before].args()[1]);
      if (!rest) continue;
      const auto known = steps.find(quotients[before].node());
      const Expr inner = known == steps.end() ? quotients[before] : known->second;
      steps[quotients[k].node()] = symbolic::floordiv(inner, rest);
      break;
    }
  }
  if (steps.empty()) return kernel;
  Kernel result = kernel;
  result.body = substitute(kernel.body, steps);
  return result;
}

}  // namespace

Kernel reduce_divisions(const Kernel& kernel) {
  STAX_ASSERT(kernel.index_bits == 32, "kernel {}: divisions are reduced in 32-bit arithmetic only", kernel.name);
  Kernel result = in_steps(kernel);
  symbolic::ExprTable& table = kernel.context->exprs;
  const auto is_parameter = [&](Expr symbol) {
    return std::find(kernel.params.begin(), kernel.params.end(), symbol) != kernel.params.end();
  };
  const auto consider = [&](Expr e) {
    if (e.kind() != ExprKind::kFloorDiv && e.kind() != ExprKind::kMod) return;
    const Expr divisor = e.args()[1];
    if (divisor.is_constant() || divisor.range().lo < 0 || e.args()[0].range().lo < 0) return;
    const std::vector<Expr> symbols = symbolic::free_symbols(divisor);
    if (!std::all_of(symbols.begin(), symbols.end(), is_parameter) || find_divisor(result, e) != nullptr) return;
    const size_t number = result.divisors.size();
    const Expr multiplier = table.new_symbol(
        {fmt::format("multiplier{}", number), symbolic::SymbolKind::kParam, {1, (int64_t{1} << 32) - 1}, 1});
    const Expr shift = table.new_symbol({fmt::format("shift{}", number), symbolic::SymbolKind::kParam, {0, 31}, 1});
    result.divisors.push_back({divisor, multiplier, shift});
    result.params.push_back(multiplier);
    result.params.push_back(shift);
  };
  const Stmt body = result.body;
  visit(body, [&](const Stmt& s) { for_each_index(*s, [&](Expr root) { symbolic::visit(root, consider); }); });
  return result;
}

}  // namespace stax::thread
