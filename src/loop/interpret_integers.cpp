// SPDX-License-Identifier: Apache-2.0
#include "loop/interpret_integers.h"

#include <algorithm>

#include "symbolic/evaluate.h"

namespace stax::loop {

using symbolic::ExprKind;

int Machine::variable(Expr var) {
  const auto [found, is_new] = variables.try_emplace(var.node(), static_cast<int>(values.size()));
  if (is_new) values.push_back(0);
  return found->second;
}

int IntProgram::constant(int64_t value) {
  const auto [found, is_new] = constants_.try_emplace(value, static_cast<int>(values_.size()));
  if (is_new) {
    instructions_.push_back({});
    values_.push_back(value);
  }
  return found->second;
}

int IntProgram::variable(Expr var) {
  Instruction in{ExprKind::kSymbol, {machine_.variable(var), 0, 0}};
  varying_.push_back(static_cast<int>(values_.size()));
  instructions_.push_back(in);
  values_.push_back(0);
  return varying_.back();
}

int IntProgram::apply(ExprKind kind, const std::vector<int>& args) {
  if (std::all_of(args.begin(), args.end(), [&](int a) { return is_constant(a); })) {
    std::vector<int64_t> values;
    for (int a : args) values.push_back(values_[a]);
    return constant(symbolic::apply(kind, values));
  }
  if (kind == ExprKind::kMul && is_constant(args[1]) && values_[args[1]] == 1) return args[0];
  if (kind == ExprKind::kAdd && is_constant(args[1]) && values_[args[1]] == 0) return args[0];
  if (kind == ExprKind::kAdd && is_constant(args[0]) && values_[args[0]] == 0) return args[1];
  Instruction in{kind, {0, 0, 0}};
  std::copy(args.begin(), args.end(), in.args);
  varying_.push_back(static_cast<int>(values_.size()));
  instructions_.push_back(in);
  values_.push_back(0);
  return varying_.back();
}

int IntProgram::expr(Expr e) {
  if (const auto found = known_.find(e.node()); found != known_.end()) return found->second;
  int number = 0;
  if (e.is_constant()) {
    number = constant(e.constant());
  } else if (e.is_symbol()) {
    const auto param = machine_.params.find(e.node());
    number = param != machine_.params.end() ? constant(param->second) : variable(e);
  } else {
    std::vector<int> args;
    for (Expr arg : e.args()) args.push_back(expr(arg));
    const bool folds = e.kind() == ExprKind::kAdd || e.kind() == ExprKind::kMul || e.kind() == ExprKind::kMin ||
                       e.kind() == ExprKind::kMax;
    if (folds) {
      number = args[0];
      for (size_t i = 1; i < args.size(); ++i) number = apply(e.kind(), {number, args[i]});
    } else {
      number = apply(e.kind(), args);
    }
  }
  known_.emplace(e.node(), number);
  return number;
}

void IntProgram::run() {
  for (int number : varying_) {
    const Instruction& in = instructions_[number];
    const auto arg = [&](int i) { return values_[in.args[i]]; };
    int64_t& out = values_[number];
    switch (in.kind) {
      case ExprKind::kConstant: break;
      case ExprKind::kSymbol: out = machine_.values[in.args[0]]; break;
      case ExprKind::kAdd: out = symbolic::saturating_add(arg(0), arg(1)); break;
      case ExprKind::kMul: out = symbolic::saturating_mul(arg(0), arg(1)); break;
      case ExprKind::kFloorDiv: out = symbolic::floor_div(arg(0), arg(1)); break;
      case ExprKind::kMod: out = symbolic::floor_mod(arg(0), arg(1)); break;
      case ExprKind::kMin: out = std::min(arg(0), arg(1)); break;
      case ExprKind::kMax: out = std::max(arg(0), arg(1)); break;
      case ExprKind::kLess: out = arg(0) < arg(1); break;
      case ExprKind::kEqual: out = arg(0) == arg(1); break;
      case ExprKind::kSelect: out = arg(0) != 0 ? arg(1) : arg(2); break;
    }
  }
}

}  // namespace stax::loop
