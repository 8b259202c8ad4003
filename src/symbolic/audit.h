// SPDX-License-Identifier: Apache-2.0
#pragma once
// Whether expressions mean what they were made from.
//
// A rule of the simplifier that is wrong makes every level wrong alike: index maps are wrong from the imported graph on, and the levels agree. So, while
// an Audit exists, each expression that its thread makes is evaluated beside what it was made from, at a few values of the symbols that their
// declarations allow. What is made with further facts (a ConstraintSet's) is not looked at: values that meet those are not known here.
#include <array>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "symbolic/expr.h"

namespace stax::symbolic {

class Audit {
 public:
  struct Fault {
    ExprKind kind = ExprKind::kConstant;
    std::string asked, made;          // "floordiv(n + 1, 2)", "n"
    std::string what;                 // "at n = 2 it is 2 instead of 1"
    std::vector<SymbolInfo> symbols;  // that `asked` mentions
  };

  Audit();
  ~Audit();
  Audit(const Audit&) = delete;
  Audit& operator=(const Audit&) = delete;

  /// The first that was found.
  const std::optional<Fault>& fault() const { return fault_; }

  /// That of this thread, or null.
  static Audit* current();

 private:
  friend class AuditedValues;
  Audit* before_;
  std::optional<Fault> fault_;
};

/// Of one table: what its nodes are at the values that are tried.
class AuditedValues {
 public:
  void check(Audit& audit, ExprKind kind, const std::vector<Expr>& args, Expr made);

 private:
  static constexpr int kTries = 6;
  using Values = std::array<int64_t, kTries>;
  const Values& of(Expr e);
  static Values of_symbol(Expr e);

  std::unordered_map<const ExprNode*, Values> known_;
};

}  // namespace stax::symbolic
