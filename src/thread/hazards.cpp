// SPDX-License-Identifier: Apache-2.0
#include "thread/hazards.h"

#include <algorithm>

#include "support/error.h"
#include "support/overloaded.h"
#include "symbolic/evaluate.h"

namespace stax::thread {

using symbolic::ExprKind;
using symbolic::Interval;

namespace {

constexpr int64_t kMostStages = 8;  // of a buffer used in turns
constexpr int kMostSplits = 3;      // variables looked at by their remainders

}  // namespace

std::vector<Access> accesses_of(const Kernel& kernel, const StmtNode& s, const std::vector<Guard>& guards) {
  std::vector<Access> result;
  const auto add = [&](int slot, AccessKind kind, Scalar index, int width) {
    const Buffer& b = kernel.buffers[slot];
    if (b.space == Space::kLocal || (b.space == Space::kGlobal && !b.written)) return;
    Access access{slot, kind, index, width, guards};
    if (std::find(result.begin(), result.end(), access) == result.end()) result.push_back(std::move(access));
  };
  for_each_scalar(s, [&](Scalar root) {
    ir::visit(root, [&](Scalar x) {
      if (x->kind == ir::ScalarKind::kLoad) add(x->slot, AccessKind::kRead, x->args[0], 1);
    });
  });
  std::visit(Overloaded{
                 [&](const Store& n) { add(n.slot, AccessKind::kWrite, n.index, 1); },
                 [&](const LoadVector& n) { add(n.memory, AccessKind::kRead, n.index, n.width); },
                 [&](const StoreVector& n) { add(n.memory, AccessKind::kWrite, n.index, n.width); },
                 [&](const Atomic& n) { add(n.slot, AccessKind::kAtomic, n.index, 1); },
                 [&](const AsyncCopy& n) {
                   add(n.global, AccessKind::kRead, n.from, n.width);
                   add(n.shared, AccessKind::kWrite, n.to, n.width);
                 },
                 [](const auto&) {},
             },
             s.v);
  return result;
}

bool Hazards::may_meet(const Access& earlier, const Access& later) {
  if (earlier.slot != later.slot || (earlier.kind == AccessKind::kRead && later.kind == AccessKind::kRead))
    return false;
  if (earlier.kind == AccessKind::kAtomic && later.kind == AccessKind::kAtomic) return false;
  const size_t key =
      (reinterpret_cast<size_t>(earlier.index.node()) >> 4) * 31 + (reinterpret_cast<size_t>(later.index.node()) >> 4);
  std::vector<Known>& known = known_[key];
  for (const Known& k : known)
    if (k.a == earlier && k.b == later) return k.may_meet;
  const bool result = may_be_equal(earlier, later, kMostSplits);
  known.push_back({earlier, later, result});
  return result;
}

Expr Hazards::another(Expr var) {
  Expr& other = others_[var.node()];
  if (!other) {
    symbolic::SymbolInfo info = var.symbol();
    info.name += "'";
    other = kernel_.context->exprs.new_symbol(std::move(info));
  }
  return other;
}

Expr Hazards::distance(Expr var) {
  Expr& distance = distances_[var.node()];
  if (!distance) {
    const symbolic::SymbolInfo& info = var.symbol();
    distance = kernel_.context->exprs.new_symbol({info.name + "-", symbolic::SymbolKind::kLoop, {0, info.range.hi}, 1});
  }
  return distance;
}

bool Hazards::is_of_thread_alone(Expr e) const {
  const std::vector<Expr> symbols = symbolic::free_symbols(e);
  return std::all_of(symbols.begin(), symbols.end(), [&](Expr s) { return s == kernel_.thread; });
}

std::optional<bool> Hazards::decide(Expr condition, int64_t thread) const {
  if (is_of_thread_alone(condition)) return values_of(condition)[static_cast<size_t>(thread)] != 0;
  if (condition.kind() != ExprKind::kMin && condition.kind() != ExprKind::kMax) return std::nullopt;
  // A conjunction is false where a part is, a disjunction true.
  const bool decisive = condition.kind() == ExprKind::kMax;
  for (Expr part : condition.args()) {
    const Interval r = part.range();
    if (r.lo < 0 || r.hi > 1) return std::nullopt;
    if (decide(part, thread) == decisive) return decisive;
  }
  return std::nullopt;
}

std::optional<bool> Hazards::decide(Scalar condition, int64_t thread) const {
  if (const Expr e = ir::as_expr(condition)) return decide(e, thread);
  if (condition->kind == ir::ScalarKind::kCast && condition->dtype == DType::kBool) {
    if (const Expr e = ir::as_expr(condition->args[0])) return decide(e, thread);
  }
  if (condition->kind != ir::ScalarKind::kOp || condition->dtype != DType::kBool) return std::nullopt;
  const bool is_and = condition->op == ir::ScalarOp::kAnd, is_or = condition->op == ir::ScalarOp::kOr;
  if (is_and || is_or) {
    const auto a = decide(condition->args[0], thread), b = decide(condition->args[1], thread);
    if (a == is_or || b == is_or) return is_or;
    return a && b ? std::optional(!is_or) : std::nullopt;
  }
  if (condition->op == ir::ScalarOp::kNot) {
    const auto a = decide(condition->args[0], thread);
    return a ? std::optional(!*a) : std::nullopt;
  }
  return std::nullopt;
}

const Hazards::Threads& Hazards::threads_of(const std::vector<Guard>& guards) const {
  for (const auto& [known, threads] : threads_)
    if (known == guards) return threads;
  Threads threads(static_cast<size_t>(kernel_.block));
  for (int64_t t = 0; t < kernel_.block; ++t) {
    threads[static_cast<size_t>(t)] = std::all_of(guards.begin(), guards.end(), [&](const Guard& g) {
      const auto value = decide(g.condition, t);
      return !value || *value == g.holds;
    });
  }
  return threads_.emplace_back(guards, std::move(threads)).second;
}

const std::vector<int64_t>& Hazards::values_of(Expr of_thread) const {
  std::vector<int64_t>& values = values_[of_thread.node()];
  if (values.empty()) {
    for (int64_t t = 0; t < kernel_.block; ++t)
      values.push_back(symbolic::evaluate(of_thread, {{kernel_.thread.node(), t}}));
  }
  return values;
}

std::optional<Hazards::Place> Hazards::place_of(Expr index) const {
  Place place{kernel_.context->exprs.constant(0), kernel_.context->exprs.constant(0)};
  const auto take = [&](Expr term) {
    Expr& part = symbolic::depends_on(term, kernel_.thread) ? place.of_thread : place.rest;
    part = part + term;
  };
  if (index.kind() == ExprKind::kAdd) {
    for (Expr term : index.args()) take(term);
  } else {
    take(index);
  }
  if (!is_of_thread_alone(place.of_thread)) return std::nullopt;
  return place;
}

bool Hazards::values_meet(const Access& a, const Place& at, const Access& b, const Place& bt) const {
  const Threads &threads_a = threads_of(a.guards), &threads_b = threads_of(b.guards);
  const std::vector<int64_t>&values_a = values_of(at.of_thread), &values_b = values_of(bt.of_thread);
  // An element of one meets one of the other where value_b - value_a = apart.
  const Expr apart = at.rest - bt.rest;
  const Interval range = apart.range();
  const int64_t step = apart.is_constant() ? 0 : std::max<int64_t>(apart.multiple(), 1);
  const auto key_of = [&](int64_t value) { return step == 0 ? value : symbolic::floor_mod(value, step); };
  struct Element {
    int64_t value;
    size_t thread;
  };
  std::unordered_map<int64_t, std::vector<Element>> elements;
  for (size_t t = 0; t < threads_a.size(); ++t) {
    if (!threads_a[t]) continue;
    for (int k = 0; k < a.width; ++k) {
      const int64_t value = values_a[t] + k;
      elements[key_of(step == 0 ? value + apart.constant() : value)].push_back({value, t});
    }
  }
  // Looking at each pair of a residue is bounded: beyond that, they are taken to meet.
  int64_t effort = int64_t{1} << 20;
  for (size_t t = 0; t < threads_b.size(); ++t) {
    if (!threads_b[t]) continue;
    for (int k = 0; k < b.width; ++k) {
      const int64_t value = values_b[t] + k;
      const auto found = elements.find(key_of(value));
      if (found == elements.end()) continue;
      for (const Element& e : found->second) {
        if (e.thread != t && range.contains(value - e.value)) return true;
        if (--effort < 0) return true;
      }
    }
  }
  return false;
}

// A symbol other than the thread that stands under a small constant modulus.
Expr Hazards::find_periodic(Expr e) const {
  Expr result;
  symbolic::visit(e, [&](Expr part) {
    if (result || part.kind() != ExprKind::kMod || !part.args()[1].is_constant()) return;
    if (part.args()[1].constant() > kMostStages || symbolic::depends_on(part, kernel_.thread)) return;
    const std::vector<Expr> symbols = symbolic::free_symbols(part);
    if (std::all_of(symbols.begin(), symbols.end(), [](Expr s) { return s.range().lo >= 0; })) result = part;
  });
  return result;
}

bool Hazards::may_be_equal(const Access& a, const Access& b, int splits) {
  const Threads &threads_a = threads_of(a.guards), &threads_b = threads_of(b.guards);
  const auto count = [](const Threads& t) { return std::count(t.begin(), t.end(), true); };
  if (count(threads_a) == 0 || count(threads_b) == 0) return false;
  if (count(threads_a) == 1 && threads_a == threads_b) return false;
  const Expr index_a = ir::as_expr(a.index), index_b = ir::as_expr(b.index);
  if (!index_a || !index_b) return true;
  const auto place_a = place_of(index_a), place_b = place_of(index_b);
  if (place_a && place_b && !values_meet(a, *place_a, b, *place_b)) return false;
  // The ranges of both as a whole.
  const Interval range_a = index_a.range(), range_b = index_b.range();
  if (range_a.hi != symbolic::kPosInf && range_a.hi + a.width - 1 < range_b.lo) return false;
  if (range_b.hi != symbolic::kPosInf && range_b.hi + b.width - 1 < range_a.lo) return false;
  if (splits == 0) return true;
  const Expr periodic = find_periodic(index_a) ? find_periodic(index_a) : find_periodic(index_b);
  if (!periodic) return true;
  const Expr symbol = symbolic::free_symbols(periodic)[0];
  const int64_t period = periodic.args()[1].constant();
  Expr& quotient = quotients_[symbol.node()];
  if (!quotient) {
    const Interval r = symbol.range();
    quotient = symbol.table().new_symbol({symbol.symbol().name + "/", symbolic::SymbolKind::kLoop, {0, r.hi}, 1});
  }
  for (int64_t rest = 0; rest < period; ++rest) {
    const symbolic::Substitution map{{symbol.node(), quotient * period + rest}};
    Access one_a = a, one_b = b;
    one_a.index = ir::substitute(a.index, map), one_b.index = ir::substitute(b.index, map);
    if (may_be_equal(one_a, one_b, splits - 1)) return true;
  }
  return false;
}

}  // namespace stax::thread
