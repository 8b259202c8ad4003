// SPDX-License-Identifier: Apache-2.0
#pragma once
// Symbolic index expressions as 64-bit LLVM values.
//
// Each loop opens a scope that ends in an anchor instruction. An expression is emitted once, in front of the anchor of the outermost scope in
// which all of its symbols have values, so that invariant arithmetic leaves loops by construction; sums and products are split by scope for the
// same reason. Nothing emitted here can fault, so it may run where its result is not needed.
#include <functional>
#include <map>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "native/lanes.h"
#include "symbolic/expr.h"

namespace stax::native {

using symbolic::Expr;

/// The iterations of a vector loop that run together: lane l runs var = base + l.
struct LaneRange {
  Expr var;
  Expr base;  // a multiple of width; free of var
  int width = 0;
};

class IndexEmitter {
 public:
  /// `nonnegative` answers what is known beyond the ranges of symbols.
  IndexEmitter(Lanes& lanes, std::function<bool(Expr)> nonnegative)
      : lanes_(lanes), b_(lanes.builder()), nonnegative_(std::move(nonnegative)) {}

  void open_scope(llvm::Instruction* anchor) { scopes_.push_back({anchor, {}, {}, {}, {}}); }
  void close_scope();
  size_t depth() const { return scopes_.size(); }

  /// Gives `symbol` a value in the innermost scope, until that is closed.
  void bind(Expr symbol, llvm::Value* value);
  /// Replaces `what` (a symbol or a whole expression) by `by` in everything that follows, until `restore`.
  void replace(Expr what, Expr by);
  void restore(Expr what);
  Expr resolve(Expr e);

  // All of these take resolved expressions.
  llvm::Value* value(Expr e);      // i64
  llvm::Value* condition(Expr e);  // e != 0
  llvm::Value* address(llvm::Value* buffer, Expr linear, llvm::Type* element);
  llvm::Value* kept(llvm::Value* address);
  /// As address where `condition` holds, else an address in `others`, of `others_size` elements, from which `width` elements can be read. Each
  /// part of the condition is asked in as few loops as possible: what moves inside of them moves in `others` too, where it fits.
  llvm::Value* address_where(Expr condition, llvm::Value* buffer, Expr linear, llvm::Type* element, llvm::Value* others,
                             int64_t others_size, int64_t width);
  llvm::Value* value(Expr e, const LaneRange& range);  // a vector where e depends on range.var
  llvm::Value* condition(Expr e, const LaneRange& range);
  Expr first_lane(Expr e, const LaneRange& range);
  /// An equal expression in which quotients that are the same in all lanes do not depend on the variable.
  Expr split_lanes(Expr e, const LaneRange& range);
  /// The scope in which `e` is emitted; symbols without a value are an error.
  size_t level(Expr e) const;

 private:
  struct Scope {
    llvm::Instruction* anchor;
    std::unordered_map<const symbolic::ExprNode*, llvm::Value*> values;
    std::vector<const symbolic::ExprNode*> bound;
    std::unordered_map<const llvm::Value*, std::unordered_map<const symbolic::ExprNode*, llvm::Value*>> addresses;
    std::map<std::tuple<const symbolic::ExprNode*, const llvm::Value*, const symbolic::ExprNode*>, llvm::Value*>
        choices;
  };
  struct Binding {
    llvm::Value* value;
    size_t scope;
  };
  struct Split {
    Expr outer, constant;  // null where absent
    std::vector<Expr> inner;
  };

  Split split_sum(Expr e) const;
  llvm::Value* compute(Expr e, size_t scope);
  llvm::Value* floor_division(Expr a, Expr b, llvm::Value* x, llvm::Value* y, bool modulo);
  llvm::Value* combine(Expr e, std::vector<llvm::Value*> args);
  llvm::Value* all_of(std::vector<Expr> conditions);
  llvm::Value* lane_division(Expr e, const LaneRange& range);
  llvm::Value* plus_lanes(llvm::Value* first, int64_t step, int width);

  Lanes& lanes_;
  llvm::IRBuilder<>& b_;
  std::function<bool(Expr)> nonnegative_;
  std::vector<Scope> scopes_;
  std::unordered_map<llvm::Value*, llvm::Value*> kept_;
  std::unordered_map<const symbolic::ExprNode*, Binding> bindings_;
  symbolic::Substitution replacements_;
  symbolic::Substitution resolved_;
};

}  // namespace stax::native
