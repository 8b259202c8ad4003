// SPDX-License-Identifier: Apache-2.0
#include "symbolic/evaluate.h"

#include <algorithm>

#include "support/error.h"

namespace stax::symbolic {

int64_t saturating_add(int64_t a, int64_t b) {
  int64_t result = 0;
  if (!__builtin_add_overflow(a, b, &result)) return result;
  return a < 0 ? kNegInf : kPosInf;
}

int64_t saturating_mul(int64_t a, int64_t b) {
  int64_t result = 0;
  if (!__builtin_mul_overflow(a, b, &result)) return result;
  return (a < 0) == (b < 0) ? kPosInf : kNegInf;
}

int64_t floor_div(int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return a == kNegInf ? kPosInf : -a;
  const int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

int64_t floor_mod(int64_t a, int64_t b) {
  if (b == 0 || b == -1) return 0;
  const int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

int64_t apply(ExprKind kind, std::span<const int64_t> args) {
  switch (kind) {
    case ExprKind::kConstant:
    case ExprKind::kSymbol: break;
    case ExprKind::kAdd: {
      int64_t result = 0;
      for (int64_t arg : args) result = saturating_add(result, arg);
      return result;
    }
    case ExprKind::kMul: {
      int64_t result = 1;
      for (int64_t arg : args) result = saturating_mul(result, arg);
      return result;
    }
    case ExprKind::kFloorDiv: return floor_div(args[0], args[1]);
    case ExprKind::kMod: return floor_mod(args[0], args[1]);
    case ExprKind::kMin: return *std::min_element(args.begin(), args.end());
    case ExprKind::kMax: return *std::max_element(args.begin(), args.end());
    case ExprKind::kLess: return args[0] < args[1] ? 1 : 0;
    case ExprKind::kEqual: return args[0] == args[1] ? 1 : 0;
    case ExprKind::kSelect: return args[0] != 0 ? args[1] : args[2];
  }
  STAX_UNREACHABLE();
}

int64_t evaluate(Expr e, const std::unordered_map<const ExprNode*, int64_t>& values) {
  std::unordered_map<const ExprNode*, int64_t> known;
  std::vector<int64_t> args;
  visit(e, [&](Expr node) {
    int64_t value = 0;
    if (auto found = values.find(node.node()); found != values.end()) {
      value = found->second;
    } else if (node.is_constant()) {
      value = node.constant();
    } else if (node.is_symbol()) {
      internal_error("no value for the symbol {} in {}", node.symbol().name, e.str());
    } else {
      args.clear();
      for (Expr arg : node.args()) args.push_back(known.at(arg.node()));
      value = symbolic::apply(node.kind(), args);
    }
    known.emplace(node.node(), value);
  });
  return known.at(e.node());
}

uint32_t FlatExprs::add(Expr e, const std::function<uint32_t(Expr symbol)>& slot_of) {
  visit(e, [&](Expr node) {
    if (known_.contains(node.node())) return;
    FlatNode flat;
    flat.kind = node.kind();
    if (node.is_constant()) flat.value = node.constant();
    if (node.is_symbol()) flat.value = slot_of(node);
    for (Expr arg : node.args()) flat.args.push_back(known_.at(arg.node()));
    known_.emplace(node.node(), static_cast<uint32_t>(nodes_.size()));
    nodes_.push_back(std::move(flat));
  });
  return known_.at(e.node());
}

void FlatExprs::evaluate(size_t begin, size_t end, std::span<const int64_t> slots, std::span<int64_t> values) const {
  constexpr size_t kInlineArgs = 8;  // no allocation on the dispatch path, but for very long sums
  int64_t inline_args[kInlineArgs];
  std::vector<int64_t> long_args;
  for (size_t i = begin; i < end; ++i) {
    const FlatNode& node = nodes_[i];
    switch (node.kind) {
      case ExprKind::kConstant: values[i] = node.value; continue;
      case ExprKind::kSymbol: values[i] = slots[static_cast<size_t>(node.value)]; continue;
      default: break;
    }
    int64_t* args = inline_args;
    if (node.args.size() > kInlineArgs) {
      long_args.resize(node.args.size());
      args = long_args.data();
    }
    for (size_t k = 0; k < node.args.size(); ++k) args[k] = values[node.args[k]];
    values[i] = symbolic::apply(node.kind, {args, node.args.size()});
  }
}

}  // namespace stax::symbolic
