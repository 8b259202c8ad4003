// SPDX-License-Identifier: Apache-2.0
#include "thread/hazards.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "support/error.h"
#include "support/overloaded.h"
#include "symbolic/evaluate.h"
#include "symbolic/interval.h"

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
                 [&](const LoadMatrix& n) { add(n.memory, AccessKind::kRead, n.index, 8); },
                 [](const auto&) {},
             },
             s.v);
  return result;
}

int Hazards::number_of(Access access) {
  size_t hash = std::hash<const void*>()(access.index.node()) * 31 + static_cast<size_t>(access.slot);
  for (const Guard& g : access.guards) hash = hash * 31 + std::hash<const void*>()(g.condition.node());
  std::vector<int>& numbers = numbers_[hash];
  for (int number : numbers)
    if (accesses_[static_cast<size_t>(number)] == access) return number;
  accesses_.push_back(std::move(access));
  numbers.push_back(static_cast<int>(accesses_.size()) - 1);
  return numbers.back();
}

int Hazards::substituted(int number, Expr var, Expr by) {
  const auto [found, is_new] = substituted_.try_emplace({number, var.node(), by.node()});
  if (!is_new) return found->second;
  Access copy = access(number);
  const symbolic::Substitution map{{var.node(), by}};
  copy.index = ir::substitute(copy.index, map);
  for (Guard& g : copy.guards) g.condition = ir::substitute(g.condition, map);
  return found->second = number_of(std::move(copy));
}

bool Hazards::may_meet(int earlier, int later) {
  const Access &a = access(earlier), &b = access(later);
  if (a.slot != b.slot || (a.kind == AccessKind::kRead && b.kind == AccessKind::kRead)) return false;
  if (a.kind == AccessKind::kAtomic && b.kind == AccessKind::kAtomic) return false;
  const uint64_t key = static_cast<uint64_t>(earlier) << 32 | static_cast<uint64_t>(later);
  const auto [found, is_new] = known_.try_emplace(key);
  if (is_new) found->second = may_be_equal(a, b, kMostSplits);
  return found->second;
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
  std::vector<std::pair<const ir::ScalarNode*, bool>> key;
  for (const Guard& g : guards) key.emplace_back(g.condition.node(), g.holds);
  const auto [known, is_new] = threads_.try_emplace(std::move(key));
  Threads& threads = known->second;
  if (!is_new) return threads;
  threads.resize(static_cast<size_t>(kernel_.block));
  for (int64_t t = 0; t < kernel_.block; ++t) {
    threads[static_cast<size_t>(t)] = std::all_of(guards.begin(), guards.end(), [&](const Guard& g) {
      const auto value = decide(g.condition, t);
      return !value || *value == g.holds;
    });
  }
  return threads;
}

const std::vector<int64_t>& Hazards::values_of(Expr of_thread) const {
  std::vector<int64_t>& values = values_[of_thread.node()];
  if (values.empty()) {
    for (int64_t t = 0; t < kernel_.block; ++t)
      values.push_back(symbolic::evaluate(of_thread, {{kernel_.thread.node(), t}}));
  }
  return values;
}

const std::optional<Hazards::Place>& Hazards::place_of(Expr e) {
  const auto [known, is_new] = places_.try_emplace(e.node());
  if (!is_new) return known->second;
  Place place{kernel_.context->exprs.constant(0), kernel_.context->exprs.constant(0)};
  const auto take = [&](Expr term) {
    if (term.is_constant()) {
      place.constant += term.constant();
      return;
    }
    Expr& part = symbolic::depends_on(term, kernel_.thread) ? place.of_thread : place.rest;
    part = part + term;
  };
  if (e.kind() == ExprKind::kAdd) {
    for (Expr term : e.args()) take(term);
  } else {
    take(e);
  }
  if (is_of_thread_alone(place.of_thread)) known->second = place;
  return known->second;
}

Hazards::Apart Hazards::apart(const Place& a, const Place& b) {
  Expr& rest = apart_[{a.rest.node(), b.rest.node()}];
  if (!rest) rest = a.rest - b.rest;
  const int64_t constant = a.constant - b.constant;
  return {symbolic::add(rest.range(), {constant, constant}),
          rest.is_constant() ? 0 : std::gcd(std::max<int64_t>(rest.multiple(), 1), constant)};
}

// Tiles that are written out have many accesses of few forms, which differ by constants alone: each pair of forms is looked at once.
const Hazards::Differences* Hazards::differences_of(Expr earlier, const Threads& of_earlier, Expr later,
                                                    const Threads& of_later) {
  constexpr int64_t kMostPairs = int64_t{1} << 18, kMostDifferences = int64_t{1} << 20;
  if (kernel_.block * kernel_.block > kMostPairs) return nullptr;
  const auto [known, is_new] = differences_.try_emplace({earlier.node(), &of_earlier, later.node(), &of_later});
  Differences& result = known->second;
  if (is_new) {
    const std::vector<int64_t>&a = values_of(earlier), &b = values_of(later);
    const auto [least_a, most_a] = std::minmax_element(a.begin(), a.end());
    const auto [least_b, most_b] = std::minmax_element(b.begin(), b.end());
    const auto count = static_cast<double>(*most_b) - static_cast<double>(*least_b) + static_cast<double>(*most_a) -
                       static_cast<double>(*least_a) + 1;
    if (count <= static_cast<double>(kMostDifferences)) {
      result.least = *least_b - *most_a;
      result.found.resize(static_cast<size_t>(count));
      for (size_t t = 0; t < a.size(); ++t) {
        if (!of_earlier[t]) continue;
        for (size_t u = 0; u < b.size(); ++u)
          if (t != u && of_later[u]) result.found[static_cast<size_t>(b[u] - a[t] - result.least)] = true;
      }
    }
  }
  return result.found.empty() ? nullptr : &result;
}

// ---- Strides that are parameters

namespace {

/// A sum by the parameters that its terms have as factors, and what has none.
struct Digits {
  struct Part {
    std::vector<Expr> base;  // sorted
    Expr digit;
  };
  std::vector<Part> parts;
  Expr last;

  explicit Digits(Expr e) : last(e.table().constant(0)) {
    if (e.kind() == ExprKind::kAdd) {
      for (Expr term : e.args()) take(term);
    } else {
      take(e);
    }
  }

  bool is_multiple_of(const std::vector<Expr>& base) const {
    return std::all_of(parts.begin(), parts.end(), [&](const Part& p) {
      return std::includes(p.base.begin(), p.base.end(), base.begin(), base.end(), before);
    });
  }

  /// What is left above the last digit: (this - last) / base.
  void shift_by(const std::vector<Expr>& base) {
    last = last.table().constant(0);
    for (Part& p : std::exchange(parts, {})) {
      std::vector<Expr> rest;
      std::set_difference(p.base.begin(), p.base.end(), base.begin(), base.end(), std::back_inserter(rest), before);
      add(std::move(rest), p.digit);
    }
  }

 private:
  static bool before(Expr a, Expr b) { return a.id() < b.id(); }

  static bool is_parameter(Expr e) {
    const std::vector<Expr> symbols = symbolic::free_symbols(e);
    return !symbols.empty() && std::all_of(symbols.begin(), symbols.end(),
                                           [](Expr s) { return s.symbol().kind == symbolic::SymbolKind::kParam; });
  }

  void take(Expr term) {
    std::vector<Expr> base;
    Expr digit = term.table().constant(1);
    const auto factor = [&](Expr f) {
      if (is_parameter(f)) {
        base.push_back(f);
      } else {
        digit = digit * f;
      }
    };
    if (term.kind() == ExprKind::kMul) {
      for (Expr f : term.args()) factor(f);
    } else {
      factor(term);
    }
    std::sort(base.begin(), base.end(), before);
    add(std::move(base), digit);
  }

  void add(std::vector<Expr> base, Expr digit) {
    if (base.empty()) {
      last = last + digit;
      return;
    }
    for (Part& p : parts) {
      if (p.base != base) continue;
      p.digit = p.digit + digit;
      return;
    }
    parts.push_back({std::move(base), digit});
  }
};

}  // namespace

symbolic::ConstraintSet& Hazards::facts_of(const std::vector<Guard>& guards) {
  for (auto& [known, facts] : facts_)
    if (known == guards) return facts;
  symbolic::ConstraintSet facts;
  for (int k = 0; k < 3; ++k) facts.assume_true(symbolic::less(kernel_.block_index[k], kernel_.grid[k]));
  const std::function<void(Scalar, bool)> assume = [&](Scalar condition, bool holds) {
    if (condition->kind == ir::ScalarKind::kCast && condition->dtype == DType::kBool) {
      if (const Expr e = ir::as_expr(condition->args[0])) facts.assume_true(holds ? e : symbolic::logical_not(e));
    } else if (condition->kind == ir::ScalarKind::kOp &&
               condition->op == (holds ? ir::ScalarOp::kAnd : ir::ScalarOp::kOr)) {
      for (Scalar part : condition->args) assume(part, holds);
    } else if (condition->kind == ir::ScalarKind::kOp && condition->op == ir::ScalarOp::kNot) {
      assume(condition->args[0], !holds);
    }
  };
  for (const Guard& g : guards) assume(g.condition, g.holds);
  return facts_.emplace_back(guards, std::move(facts)).second;
}

// 0 <= digit, digit + width <= base.
bool Hazards::is_within(const Access& a, Expr digit, int width, Expr base) {
  const symbolic::ConstraintSet& facts = facts_of(a.guards);
  const Expr zero = digit.table().constant(0);
  return facts.less_equal(zero, digit) == symbolic::Truth::kYes &&
         facts.less(digit + (width - 1), base) == symbolic::Truth::kYes;
}

bool Hazards::has_strides(Expr e) {
  const auto [known, is_new] = have_strides_.try_emplace(e.node());
  if (is_new) known->second = !Digits(e).parts.empty();
  return known->second;
}

// Two numbers base * x + y with 0 <= y < base are equal where their x and their y are.
std::vector<Hazards::Equation> Hazards::equations_of(const Access& a, const Access& b) {
  const Expr index_a = ir::as_expr(a.index), index_b = ir::as_expr(b.index);
  if (!has_strides(index_a) && !has_strides(index_b)) return {{index_a, index_b}};
  std::vector<Equation> equations;
  Digits left(index_a), right(index_b);
  const auto take_last = [&]() -> bool {
    for (const Digits* side : {&left, &right}) {
      for (const Digits::Part& part : side->parts) {
        const std::vector<Expr> base = part.base;
        if (!left.is_multiple_of(base) || !right.is_multiple_of(base)) continue;
        Expr product = base[0];
        for (size_t k = 1; k < base.size(); ++k) product = product * base[k];
        // Only the last digits of all have a width.
        const int width_a = equations.empty() ? a.width : 1, width_b = equations.empty() ? b.width : 1;
        if (!is_within(a, left.last, width_a, product) || !is_within(b, right.last, width_b, product)) continue;
        equations.push_back({left.last, right.last});
        left.shift_by(base), right.shift_by(base);
        return true;
      }
    }
    return false;
  };
  while (take_last()) {
  }
  const auto whole = [](const Digits& d) {
    Expr sum = d.last;
    for (const Digits::Part& p : d.parts) {
      Expr term = p.digit;
      for (Expr factor : p.base) term = term * factor;
      sum = sum + term;
    }
    return sum;
  };
  equations.push_back({whole(left), whole(right)});
  return equations;
}

// ---- Thread by thread

bool Hazards::meets(const Differences& d, Interval range, int64_t step, int width_a, int width_b) {
  const auto count = static_cast<int64_t>(d.found.size());
  const int64_t unit = std::max<int64_t>(step, 1);
  // Of elements of both accesses: later - earlier = difference + k_b - k_a.
  for (int shift = 1 - width_a; shift < width_b; ++shift) {
    const int64_t lo = std::max(range.lo, d.least + shift), hi = std::min(range.hi, d.least + shift + count - 1);
    const int64_t first = step == 0 ? lo : -symbolic::floor_div(-lo, unit) * unit;
    for (int64_t at = first; at <= hi; at += unit)
      if (d.found[static_cast<size_t>(at - shift - d.least)]) return true;
  }
  return false;
}

bool Hazards::have_common_solution(const Access& a, const Access& b, const std::vector<Equation>& equations) {
  // Each: the threads' parts of both sides, and by how much they may differ.
  struct Condition {
    const std::vector<int64_t>*earlier, *later;
    Interval range;    // of later - earlier
    int64_t step = 0;  // of which it is a multiple; 0: it is one value
    int64_t key(int64_t value) const { return step == 0 ? value : symbolic::floor_mod(value, step); }
  };
  std::vector<Condition> conditions;
  for (const Equation& equation : equations) {
    const std::optional<Place>&place_a = place_of(equation.earlier), &place_b = place_of(equation.later);
    if (!place_a || !place_b) {
      if (conditions.empty()) return true;  // the first is the one in which widths count
      continue;
    }
    const auto [range, step] = apart(*place_a, *place_b);
    conditions.push_back({&values_of(place_a->of_thread), &values_of(place_b->of_thread), range, step});
  }
  const Condition& last = conditions[0];
  const Threads &threads_a = threads_of(a.guards), &threads_b = threads_of(b.guards);
  if (conditions.size() == 1) {
    const Differences* differences = differences_of(place_of(equations[0].earlier)->of_thread, threads_a,
                                                    place_of(equations[0].later)->of_thread, threads_b);
    if (differences != nullptr) return meets(*differences, last.range, last.step, a.width, b.width);
  }
  const int64_t shift = last.step == 0 ? last.range.lo : 0;
  struct Element {
    int64_t value;
    size_t thread;
  };
  std::unordered_map<int64_t, std::vector<Element>> elements;
  for (size_t t = 0; t < threads_a.size(); ++t) {
    if (!threads_a[t]) continue;
    for (int k = 0; k < a.width; ++k) {
      const int64_t value = (*last.earlier)[t] + k;
      elements[last.key(value + shift)].push_back({value, t});
    }
  }
  const auto others_hold = [&](size_t t, size_t u) {
    return std::all_of(conditions.begin() + 1, conditions.end(), [&](const Condition& c) {
      const int64_t apart = (*c.later)[u] - (*c.earlier)[t];
      return c.range.contains(apart) && (c.step == 0 || apart % c.step == 0);
    });
  };
  // Looking at each pair of a residue is bounded: beyond that, they are taken to meet.
  int64_t effort = int64_t{1} << 20;
  for (size_t u = 0; u < threads_b.size(); ++u) {
    if (!threads_b[u]) continue;
    for (int k = 0; k < b.width; ++k) {
      const int64_t value = (*last.later)[u] + k;
      const auto found = elements.find(last.key(value));
      if (found == elements.end()) continue;
      for (const Element& e : found->second) {
        if (--effort < 0) return true;
        if (e.thread != u && last.range.contains(value - e.value) && others_hold(e.thread, u)) return true;
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
  if (!have_common_solution(a, b, equations_of(a, b))) return false;
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
