// SPDX-License-Identifier: Apache-2.0
#pragma once
// Random expressions over a few symbols of small ranges, kept as plain trees whose value is defined by `apply` alone, so
// that what the constructors simplify can be checked against what was asked for.
#include <memory>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "symbolic/evaluate.h"
#include "symbolic/expr.h"

namespace stax::symbolic::test {

using Values = std::unordered_map<const ExprNode*, int64_t>;

struct Tree {
  ExprKind kind = ExprKind::kConstant;
  int64_t value = 0;  // of a constant
  Expr symbol;
  std::vector<Tree> args;
};

inline int64_t evaluate_tree(const Tree& tree, const Values& values) {
  if (tree.kind == ExprKind::kConstant) return tree.value;
  if (tree.kind == ExprKind::kSymbol) return values.at(tree.symbol.node());
  std::vector<int64_t> args;
  for (const Tree& arg : tree.args) args.push_back(evaluate_tree(arg, values));
  return symbolic::apply(tree.kind, args);
}

inline Expr build(ExprTable& table, const Tree& tree) {
  if (tree.kind == ExprKind::kConstant) return table.constant(tree.value);
  if (tree.kind == ExprKind::kSymbol) return tree.symbol;
  std::vector<Expr> args;
  for (const Tree& arg : tree.args) args.push_back(build(table, arg));
  return table.make(tree.kind, std::move(args));
}

inline std::string spell(const Tree& tree) {
  if (tree.kind == ExprKind::kConstant) return std::to_string(tree.value);
  if (tree.kind == ExprKind::kSymbol) return tree.symbol.str();
  static const char* const names[] = {"const", "sym", "add",  "mul",   "floordiv", "mod",
                                      "min",   "max", "less", "equal", "select"};
  std::string text = std::string(names[static_cast<int>(tree.kind)]) + "(";
  for (size_t i = 0; i < tree.args.size(); ++i) text += (i > 0 ? ", " : "") + spell(tree.args[i]);
  return text + ")";
}

class RandomExprs {
 public:
  RandomExprs(uint64_t seed, ExprTable& table) : random(seed) {
    // Ranges with 0, 1, negatives, single values, and divisors.
    const std::vector<SymbolInfo> infos = {{"a", SymbolKind::kDim, {0, 6}, 1},   {"b", SymbolKind::kDim, {1, 5}, 1},
                                           {"c", SymbolKind::kDim, {0, 12}, 4},  {"i", SymbolKind::kLoop, {0, 3}, 1},
                                           {"j", SymbolKind::kLoop, {-4, 4}, 1}, {"k", SymbolKind::kLoop, {-6, -1}, 1},
                                           {"one", SymbolKind::kDim, {1, 1}, 1}, {"t", SymbolKind::kValue, {0, 1}, 1}};
    for (const SymbolInfo& info : infos) symbols.push_back(table.new_symbol(info));
  }

  int64_t between(int64_t lo, int64_t hi) { return std::uniform_int_distribution<int64_t>(lo, hi)(random); }

  Tree tree(int depth) {
    Tree result;
    if (depth == 0 || between(0, 9) == 0) {
      if (between(0, 2) == 0) {
        static const int64_t constants[] = {0, 1, -1, 2, 3, 4, 5, 6, 8, 12, -2, -3, -4, 7, -7};
        result.value = constants[between(0, std::size(constants) - 1)];
        return result;
      }
      result.kind = ExprKind::kSymbol;
      result.symbol = symbols[static_cast<size_t>(between(0, static_cast<int64_t>(symbols.size()) - 1))];
      return result;
    }
    static const ExprKind kinds[] = {ExprKind::kAdd,      ExprKind::kAdd, ExprKind::kAdd,      ExprKind::kMul,
                                     ExprKind::kMul,      ExprKind::kMul, ExprKind::kFloorDiv, ExprKind::kFloorDiv,
                                     ExprKind::kFloorDiv, ExprKind::kMod, ExprKind::kMod,      ExprKind::kMod,
                                     ExprKind::kMin,      ExprKind::kMax, ExprKind::kLess,     ExprKind::kEqual,
                                     ExprKind::kSelect};
    result.kind = kinds[between(0, std::size(kinds) - 1)];
    const int arity = result.kind == ExprKind::kSelect ? 3
                      : result.kind == ExprKind::kAdd  ? static_cast<int>(between(2, 3))
                                                       : 2;
    for (int n = 0; n < arity; ++n) result.args.push_back(tree(depth - 1));
    return result;
  }

  /// Random values of all symbols within their declarations.
  Values values() {
    Values result;
    for (Expr symbol : symbols) {
      const SymbolInfo& info = symbol.symbol();
      result[symbol.node()] =
          between(symbol.range().lo / info.multiple, symbol.range().hi / info.multiple) * info.multiple;
    }
    return result;
  }

  std::string spell_values(const Values& values) const {
    std::string text;
    for (Expr symbol : symbols) text += symbol.str() + "=" + std::to_string(values.at(symbol.node())) + " ";
    return text;
  }

  std::mt19937_64 random;
  std::vector<Expr> symbols;

 private:
};

}  // namespace stax::symbolic::test
