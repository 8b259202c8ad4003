// SPDX-License-Identifier: Apache-2.0
#include "native/index.h"

#include <llvm/IR/InlineAsm.h>

#include <algorithm>
#include <bit>

#include "support/error.h"

namespace stax::native {

using llvm::Value;
using symbolic::ExprKind;

namespace {

bool is_truth(Expr e) {
  const symbolic::Interval range = e.range();
  return range.lo >= 0 && range.hi <= 1;
}

// 1 - x, for a truth x: the form of a negation.
Expr negated(Expr e) {
  if (e.kind() != ExprKind::kAdd || e.args().size() != 2) return {};
  Expr other = 1 - e;
  return other.kind() != ExprKind::kAdd && is_truth(other) ? other : Expr{};
}

}  // namespace

void IndexEmitter::close_scope() {
  for (const symbolic::ExprNode* symbol : scopes_.back().bound) bindings_.erase(symbol);
  scopes_.pop_back();
}

void IndexEmitter::bind(Expr symbol, Value* value) {
  bindings_[symbol.node()] = {value, scopes_.size() - 1};
  scopes_.back().bound.push_back(symbol.node());
}

void IndexEmitter::replace(Expr what, Expr by) {
  replacements_[what.node()] = by;
  resolved_.clear();
}

void IndexEmitter::restore(Expr what) {
  replacements_.erase(what.node());
  resolved_.clear();
}

Expr IndexEmitter::resolve(Expr e) {
  if (replacements_.empty()) return e;
  if (auto known = resolved_.find(e.node()); known != resolved_.end()) return known->second;
  Expr result = symbolic::substitute(e, replacements_);
  resolved_.emplace(e.node(), result);
  return result;
}

size_t IndexEmitter::level(Expr e) const {
  if (e.is_symbol()) {
    auto binding = bindings_.find(e.node());
    STAX_ASSERT(binding != bindings_.end(), "{} has no value here", e.str());
    return binding->second.scope;
  }
  size_t deepest = 0;
  for (Expr arg : e.args()) deepest = std::max(deepest, level(arg));
  return deepest;
}

// The terms of the deepest scope apart from what can be emitted further out. The constant stays apart as well: as an offset of an address it costs
// nothing, and sums that differ in it alone share the rest.
IndexEmitter::Split IndexEmitter::split_sum(Expr e) const {
  Split split;
  if (e.kind() != ExprKind::kAdd) {
    if (e.is_constant())
      split.constant = e;
    else
      split.inner = {e};
    return split;
  }
  const size_t deepest = level(e);
  for (Expr arg : e.args()) {
    if (arg.is_constant())
      split.constant = arg;
    else if (level(arg) == deepest)
      split.inner.push_back(arg);
    else
      split.outer = split.outer ? split.outer + arg : arg;
  }
  return split;
}

Value* IndexEmitter::value(Expr e) {
  if (e.is_constant()) return b_.getInt64(static_cast<uint64_t>(e.constant()));
  const size_t scope = level(e);
  if (e.is_symbol()) return bindings_.at(e.node()).value;
  if (auto known = scopes_[scope].values.find(e.node()); known != scopes_[scope].values.end()) return known->second;
  Value* result = compute(e, scope);
  scopes_[scope].values.emplace(e.node(), result);
  return result;
}

Value* IndexEmitter::compute(Expr e, size_t scope) {
  std::vector<Value*> args;
  if (e.kind() == ExprKind::kAdd) {
    Split split = split_sum(e);
    if (split.outer) args.push_back(value(split.outer));
    for (Expr arg : split.inner) args.push_back(value(arg));
    if (split.constant) args.push_back(value(split.constant));
  } else if (e.kind() == ExprKind::kMul) {
    Expr outer;
    std::vector<Expr> inner;
    for (Expr arg : e.args()) {
      if (level(arg) < scope)
        outer = outer ? outer * arg : arg;
      else
        inner.push_back(arg);
    }
    if (outer) args.push_back(value(outer));
    for (Expr arg : inner) args.push_back(value(arg));
  } else {
    for (Expr arg : e.args()) args.push_back(value(arg));
  }
  llvm::IRBuilderBase::InsertPointGuard guard(b_);
  b_.SetInsertPoint(scopes_[scope].anchor);
  if (e.kind() == ExprKind::kSelect) args[0] = b_.CreateICmpNE(args[0], b_.getInt64(0));
  return combine(e, std::move(args));
}

// Arguments and result: i64 or vectors of it; the condition of a select is i1.
Value* IndexEmitter::combine(Expr e, std::vector<Value*> args) {
  auto fold = [&](auto&& f) {
    Value* result = args[0];
    for (size_t i = 1; i < args.size(); ++i) result = f(result, args[i]);
    return result;
  };
  switch (e.kind()) {
    case ExprKind::kAdd: return fold([&](Value* x, Value* y) { return b_.CreateAdd(x, y); });
    case ExprKind::kMul: return fold([&](Value* x, Value* y) { return b_.CreateMul(x, y); });
    case ExprKind::kMin:
      return fold([&](Value* x, Value* y) { return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, x, y); });
    case ExprKind::kMax:
      return fold([&](Value* x, Value* y) { return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, x, y); });
    case ExprKind::kFloorDiv: return floor_division(e.args()[0], e.args()[1], args[0], args[1], false);
    case ExprKind::kMod: return floor_division(e.args()[0], e.args()[1], args[0], args[1], true);
    case ExprKind::kLess: return b_.CreateZExt(b_.CreateICmpSLT(args[0], args[1]), args[0]->getType());
    case ExprKind::kEqual: return b_.CreateZExt(b_.CreateICmpEQ(args[0], args[1]), args[0]->getType());
    case ExprKind::kSelect: return b_.CreateSelect(args[0], args[1], args[2]);
    case ExprKind::kConstant:
    case ExprKind::kSymbol: break;
  }
  STAX_UNREACHABLE();
}

Value* IndexEmitter::floor_division(Expr a, Expr b, Value* x, Value* y, bool modulo) {
  llvm::Type* type = x->getType();
  auto number = [&](int64_t v) { return lanes_.integer(type, v); };
  const symbolic::Interval divisor = b.range();
  const bool nonnegative = a.range().lo >= 0 || nonnegative_(a);
  if (b.is_constant() && b.constant() > 0 && std::has_single_bit(static_cast<uint64_t>(b.constant()))) {
    if (modulo) return b_.CreateAnd(x, number(b.constant() - 1));
    const int shift = std::countr_zero(static_cast<uint64_t>(b.constant()));
    return nonnegative ? b_.CreateLShr(x, static_cast<uint64_t>(shift))
                       : b_.CreateAShr(x, static_cast<uint64_t>(shift));
  }
  Value* by_zero = nullptr;
  if (divisor.contains(0)) {
    by_zero = b_.CreateICmpEQ(y, number(0));
    y = b_.CreateSelect(by_zero, number(1), y);
  }
  Value* result = nullptr;
  if (nonnegative && divisor.lo >= 0) {
    result = modulo ? b_.CreateURem(x, y) : b_.CreateUDiv(x, y);
  } else {
    Value* quotient = b_.CreateSDiv(x, y);
    Value* rest = b_.CreateSub(x, b_.CreateMul(quotient, y));
    Value* differs = b_.CreateAnd(b_.CreateICmpNE(rest, number(0)), b_.CreateICmpSLT(b_.CreateXor(rest, y), number(0)));
    result = modulo ? b_.CreateSelect(differs, b_.CreateAdd(rest, y), rest)
                    : b_.CreateSub(quotient, b_.CreateZExt(differs, type));
  }
  // Modulo 1 is 0 already.
  return by_zero == nullptr || modulo ? result : b_.CreateSelect(by_zero, number(0), result);
}

Value* IndexEmitter::condition(Expr e) {
  if (e.is_constant()) return b_.getInt1(e.constant() != 0);
  if (Expr other = negated(e)) return b_.CreateNot(condition(other));
  std::vector<Value*> args;
  switch (e.kind()) {
    case ExprKind::kLess: return b_.CreateICmpSLT(value(e.args()[0]), value(e.args()[1]));
    case ExprKind::kEqual: return b_.CreateICmpEQ(value(e.args()[0]), value(e.args()[1]));
    case ExprKind::kMin:
    case ExprKind::kMax:
      if (!std::all_of(e.args().begin(), e.args().end(), is_truth)) break;
      for (Expr arg : e.args()) args.push_back(condition(arg));
      return e.kind() == ExprKind::kMin ? b_.CreateAnd(args) : b_.CreateOr(args);
    case ExprKind::kConstant:
    case ExprKind::kSymbol:
    case ExprKind::kAdd:
    case ExprKind::kMul:
    case ExprKind::kFloorDiv:
    case ExprKind::kMod:
    case ExprKind::kSelect: break;
  }
  return b_.CreateICmpNE(value(e), b_.getInt64(0));
}

// The same address, of which the code generator does not know where it comes from. Left alone it takes addresses that outer loops have made apart
// again, and computes them anew in each iteration of the loops inside, rather than spend a register on each.
Value* IndexEmitter::kept(Value* address) {
  auto [known, fresh] = kept_.try_emplace(address, nullptr);
  auto* made = llvm::dyn_cast<llvm::Instruction>(address);
  if (!fresh || made == nullptr) return fresh ? known->second = address : known->second;
  llvm::IRBuilderBase::InsertPointGuard guard(b_);
  b_.SetInsertPoint(made->getNextNode());
  auto* type = llvm::FunctionType::get(address->getType(), {address->getType()}, false);
  return known->second = b_.CreateCall(llvm::InlineAsm::get(type, "", "=r,0", false), {address});
}

// Outermost part first, so that each scope adds its own offset to an address that outer scopes have made.
Value* IndexEmitter::address(Value* buffer, Expr linear, llvm::Type* element) {
  if (linear.is_constant(0)) return buffer;
  if (linear.is_constant()) return b_.CreateConstGEP1_64(element, buffer, static_cast<uint64_t>(linear.constant()));
  const size_t scope = level(linear);
  auto& known = scopes_[scope].addresses[buffer];
  Split split = split_sum(linear);
  Expr moving = split.constant ? linear - split.constant : linear;
  Value* result = nullptr;
  if (auto found = known.find(moving.node()); found != known.end()) {
    result = found->second;
  } else {
    Value* base = split.outer ? kept(address(buffer, split.outer, element)) : buffer;
    Expr offset;
    for (Expr arg : split.inner) offset = offset ? offset + arg : arg;
    Value* steps = value(offset);
    llvm::IRBuilderBase::InsertPointGuard guard(b_);
    b_.SetInsertPoint(scopes_[scope].anchor);
    result = b_.CreateGEP(element, base, steps);
    scopes_[scope].addresses[buffer].emplace(moving.node(), result);
  }
  if (!split.constant) return result;
  return b_.CreateConstGEP1_64(element, result, static_cast<uint64_t>(split.constant.constant()));
}

// lower < e and e < upper are one comparison of unsigned numbers.
Value* IndexEmitter::all_of(std::vector<Expr> conditions) {
  std::vector<Value*> parts;
  while (!conditions.empty()) {
    const Expr c = conditions.back();
    conditions.pop_back();
    const auto closes = [&](Expr other) {
      if (c.kind() != ExprKind::kLess || other.kind() != ExprKind::kLess) return false;
      const Expr inside = c.args()[0] + 1;
      return c.args()[1] == other.args()[0] && (other.args()[1] - inside).range().lo >= 0;
    };
    auto other = std::find_if(conditions.begin(), conditions.end(), closes);
    if (other == conditions.end()) {
      const auto opens = [&](Expr o) {
        return c.kind() == ExprKind::kLess && o.kind() == ExprKind::kLess && o.args()[1] == c.args()[0] &&
               (c.args()[1] - (o.args()[0] + 1)).range().lo >= 0;
      };
      other = std::find_if(conditions.begin(), conditions.end(), opens);
      if (other == conditions.end()) {
        parts.push_back(condition(c));
        continue;
      }
    }
    const bool is_lower = c.args()[1] == other->args()[0];
    const Expr lower = is_lower ? c : *other, upper = is_lower ? *other : c;
    conditions.erase(other);
    const Expr first = lower.args()[0] + 1;
    parts.push_back(b_.CreateICmpULT(value(upper.args()[0] - first), value(upper.args()[1] - first)));
  }
  return b_.CreateAnd(parts);
}

Value* IndexEmitter::address_where(Expr condition, Value* buffer, Expr linear, llvm::Type* element, Value* others,
                                   int64_t others_size, int64_t width) {
  std::vector<Expr> terms, asked{condition};
  if (linear.kind() == ExprKind::kAdd)
    terms.assign(linear.args().begin(), linear.args().end());
  else
    terms = {linear};
  if (condition.kind() == ExprKind::kMin && std::all_of(condition.args().begin(), condition.args().end(), is_truth))
    asked.assign(condition.args().begin(), condition.args().end());
  // In the order of loops, each level moves the address and asks its part, until nothing is left.
  const size_t deepest = std::max(level(linear), level(condition));
  Value* at = buffer;
  Expr address_of, asked_of;  // what `at` is made of
  llvm::IRBuilderBase::InsertPointGuard guard(b_);
  for (size_t scope = 0; scope <= deepest; ++scope) {
    const bool last = scope == deepest;
    Expr moving, left;
    for (Expr t : terms) {
      Expr& sum = level(t) <= scope || t.is_constant() ? moving : left;
      sum = sum ? sum + t : t;
    }
    std::vector<Expr> now;
    for (Expr c : asked)
      if (level(c) <= scope) now.push_back(c);
    const bool fits = !left || (left.range().lo >= 0 && left.range().hi <= others_size - width);
    if (!last && (!fits || now.empty())) continue;
    if (moving) address_of = address_of ? address_of + moving : moving;
    for (Expr c : now) asked_of = asked_of ? symbolic::min(asked_of, c) : c;
    std::erase_if(terms, [&](Expr t) { return level(t) <= scope || t.is_constant(); });
    std::erase_if(asked, [&](Expr c) { return level(c) <= scope; });
    if (now.empty()) {  // the last step
      Value* steps = moving ? value(moving) : nullptr;
      b_.SetInsertPoint(scopes_[scope].anchor);
      return steps == nullptr ? at : b_.CreateGEP(element, at, steps);
    }
    Value*& chosen = scopes_[scope].choices[{asked_of.node(), buffer, address_of ? address_of.node() : nullptr}];
    if (chosen == nullptr) {
      b_.SetInsertPoint(scopes_[scope].anchor);
      Value* there = at == buffer && moving ? address(buffer, moving, element)
                     : moving               ? b_.CreateGEP(element, at, value(moving))
                                            : at;
      chosen = kept(b_.CreateSelect(all_of(now), there, others));
    }
    at = chosen;
  }
  return at;
}

// --- lanes ----------------------------------------------------------------------------------------------------------------

Expr IndexEmitter::first_lane(Expr e, const LaneRange& range) {
  return symbolic::substitute(e, {{range.var.node(), range.base}});
}

// With (base + rest) and b multiples of the lanes, all of base + rest .. base + rest + width - 1 lie between two multiples of b.
Expr IndexEmitter::split_lanes(Expr e, const LaneRange& range) {
  if (!symbolic::depends_on(e, range.var)) return e;
  symbolic::Substitution replaced;
  symbolic::visit(e, [&](Expr node) {
    if (node.kind() != ExprKind::kFloorDiv && node.kind() != ExprKind::kMod) return;
    if (!symbolic::depends_on(node, range.var) || symbolic::depends_on(node.args()[1], range.var)) return;
    const symbolic::Interval divisor = node.args()[1].range();
    if (node.args()[1].multiple() % range.width != 0 || divisor.lo < 0) return;
    auto affine = symbolic::affine_in(node.args()[0], range.var);
    if (!affine || !affine->coefficient.is_constant(1)) return;
    Expr first = affine->rest + range.base;
    if (first.multiple() % range.width != 0) return;
    if (node.kind() == ExprKind::kFloorDiv)
      replaced[node.node()] = symbolic::floordiv(first, node.args()[1]);
    else if (divisor.lo > 0)
      replaced[node.node()] = symbolic::mod(first, node.args()[1]) + (range.var - range.base);
  });
  return replaced.empty() ? e : symbolic::substitute(e, replaced);
}

Value* IndexEmitter::plus_lanes(Value* first, int64_t step, int width) {
  Value* steps = b_.CreateMul(lanes_.iota(first->getType(), width),
                              lanes_.integer(lanes_.with_lanes(first->getType(), width), step));
  return b_.CreateAdd(lanes_.splat(first, width), steps);
}

// One division of the first lane for all of them; what the others add to its remainder is small. Null: not of that form.
Value* IndexEmitter::lane_division(Expr e, const LaneRange& range) {
  Expr a = e.args()[0], b = e.args()[1];
  auto affine = symbolic::affine_in(a, range.var);
  if (symbolic::depends_on(b, range.var) || !affine || !affine->coefficient.is_constant()) return nullptr;
  const int64_t step = affine->coefficient.constant();
  if (step < 0 || step > 1 << 20 || b.range().lo <= 0 || b.range().hi > 1 << 30) return nullptr;
  const bool modulo = e.kind() == ExprKind::kMod;
  Expr first = first_lane(a, range);
  Value* rest = value(symbolic::mod(first, b));
  Value* quotient = modulo ? nullptr : value(symbolic::floordiv(first, b));
  llvm::Type* i64 = lanes_.with_lanes(b_.getInt64Ty(), range.width);
  if (step == 1 && b.range().lo >= range.width) {
    // At most one multiple of b lies inside.
    Value* left = b_.CreateTrunc(b_.CreateSub(value(b), rest), b_.getInt32Ty());
    Value* past = b_.CreateICmpSGE(lanes_.iota(b_.getInt32Ty(), range.width), lanes_.splat(left, range.width));
    if (!modulo) return b_.CreateAdd(lanes_.splat(quotient, range.width), b_.CreateZExt(past, i64));
    Value* moved = b_.CreateSelect(past, lanes_.splat(value(b), range.width), lanes_.integer(i64, 0));
    return b_.CreateSub(plus_lanes(rest, 1, range.width), moved);
  }
  Value* sums = plus_lanes(b_.CreateTrunc(rest, b_.getInt32Ty()), step, range.width);
  Value* divisor = lanes_.splat(b_.CreateTrunc(value(b), b_.getInt32Ty()), range.width);
  Value* result = nullptr;
  if (b.is_constant()) {
    result = modulo ? b_.CreateURem(sums, divisor) : b_.CreateUDiv(sums, divisor);
  } else {
    llvm::Type* f64 = lanes_.with_lanes(b_.getDoubleTy(), range.width);
    Value* exact = b_.CreateFDiv(b_.CreateSIToFP(sums, f64), b_.CreateSIToFP(divisor, f64));
    result = b_.CreateFPToSI(exact, sums->getType());  // truncated it is exact: both have fewer than 32 bits
    if (modulo) result = b_.CreateSub(sums, b_.CreateMul(result, divisor));
  }
  result = b_.CreateZExt(result, i64);
  return modulo ? result : b_.CreateAdd(result, lanes_.splat(quotient, range.width));
}

Value* IndexEmitter::value(Expr e, const LaneRange& range) {
  if (!symbolic::depends_on(e, range.var)) return value(e);
  if (auto affine = symbolic::affine_in(e, range.var); affine && affine->coefficient.is_constant()) {
    return plus_lanes(value(first_lane(e, range)), affine->coefficient.constant(), range.width);
  }
  if (e.kind() == ExprKind::kFloorDiv || e.kind() == ExprKind::kMod) {
    if (Value* result = lane_division(e, range)) return result;
  }
  std::vector<Value*> args;
  for (size_t i = 0; i < e.args().size(); ++i) {
    const bool truth = e.kind() == ExprKind::kSelect && i == 0;
    args.push_back(lanes_.splat(truth ? condition(e.args()[i], range) : value(e.args()[i], range), range.width));
  }
  return combine(e, std::move(args));
}

Value* IndexEmitter::condition(Expr e, const LaneRange& range) {
  if (!symbolic::depends_on(e, range.var)) return condition(e);
  if (Expr other = negated(e)) return b_.CreateNot(condition(other, range));
  std::vector<Value*> args;
  switch (e.kind()) {
    case ExprKind::kLess: {
      // lane < bound or bound < lane, in 32 bits: bounds outside of the lanes are brought next to them.
      Expr difference = e.args()[1] - e.args()[0];
      auto affine = symbolic::affine_in(difference, range.var);
      if (!affine || !(affine->coefficient.is_constant(1) || affine->coefficient.is_constant(-1))) break;
      const bool rising = affine->coefficient.is_constant(1);
      Expr first = first_lane(difference, range);
      // rising: first + lane > 0; falling: first - lane > 0.
      Value* bound = value(rising ? -first : first);
      bound = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, bound, b_.getInt64(static_cast<uint64_t>(-1)));
      bound = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, bound, b_.getInt64(static_cast<uint64_t>(range.width)));
      bound = lanes_.splat(b_.CreateTrunc(bound, b_.getInt32Ty()), range.width);
      Value* lane = lanes_.iota(b_.getInt32Ty(), range.width);
      return rising ? b_.CreateICmpSGT(lane, bound) : b_.CreateICmpSLT(lane, bound);
    }
    case ExprKind::kMin:
    case ExprKind::kMax:
      if (!std::all_of(e.args().begin(), e.args().end(), is_truth)) break;
      for (Expr arg : e.args()) args.push_back(lanes_.splat(condition(arg, range), range.width));
      return e.kind() == ExprKind::kMin ? b_.CreateAnd(args) : b_.CreateOr(args);
    case ExprKind::kEqual: break;
    case ExprKind::kConstant:
    case ExprKind::kSymbol:
    case ExprKind::kAdd:
    case ExprKind::kMul:
    case ExprKind::kFloorDiv:
    case ExprKind::kMod:
    case ExprKind::kSelect:
      return b_.CreateICmpNE(value(e, range), lanes_.integer(lanes_.with_lanes(b_.getInt64Ty(), range.width), 0));
  }
  if (e.kind() == ExprKind::kLess || e.kind() == ExprKind::kEqual) {
    Value* x = lanes_.splat(value(e.args()[0], range), range.width);
    Value* y = lanes_.splat(value(e.args()[1], range), range.width);
    return e.kind() == ExprKind::kLess ? b_.CreateICmpSLT(x, y) : b_.CreateICmpEQ(x, y);
  }
  return b_.CreateICmpNE(value(e, range), lanes_.integer(lanes_.with_lanes(b_.getInt64Ty(), range.width), 0));
}

}  // namespace stax::native
