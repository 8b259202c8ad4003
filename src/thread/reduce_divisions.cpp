// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "support/error.h"
#include "thread/passes.h"

namespace stax::thread {

using symbolic::ExprKind;

Kernel reduce_divisions(const Kernel& kernel) {
  STAX_ASSERT(kernel.index_bits == 32, "kernel {}: divisions are reduced in 32-bit arithmetic only", kernel.name);
  Kernel result = kernel;
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
  visit(kernel.body, [&](const Stmt& s) { for_each_index(*s, [&](Expr root) { symbolic::visit(root, consider); }); });
  return result;
}

}  // namespace stax::thread
