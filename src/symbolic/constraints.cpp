// SPDX-License-Identifier: Apache-2.0
// Facts are kept solved where that is possible: an equality that gives a symbol as an expression of others replaces the
// symbol from then on (no cycle can arise, since both sides are written in unreplaced symbols and the symbol does not
// occur in its own replacement); a condition on one expression narrows its range; the rest is kept as it stands and
// tried in proofs. A proof of p >= k uses a known g >= 1 as p = (p - m*g) + m*g >= (p - m*g) + m for a factor m >= 0
// that makes a term vanish: from i < m and j < n follows i*n + j < m*n. Contradictory facts are not noticed; everything
// follows from them.
#include "symbolic/constraints.h"

#include <algorithm>
#include <numeric>

#include "support/error.h"
#include "symbolic/evaluate.h"
#include "symbolic/facts.h"
#include "symbolic/table.h"

namespace stax::symbolic {

class ConstraintFacts final : public Facts {
 public:
  explicit ConstraintFacts(const ConstraintSet& set) : set_(set) {}

  using Facts::range;
  Interval range(Expr e) const override {
    if (set_.ranges_.empty()) return e.range();
    auto known = range_cache_.find(e.node());
    if (known == range_cache_.end()) known = range_cache_.emplace(e.node(), range_of(e, set_.ranges_)).first;
    return known->second;
  }

  int64_t multiple(Expr e) const override {
    if (set_.multiples_.empty()) return e.multiple();
    std::unordered_map<const ExprNode*, int64_t> known;
    std::vector<int64_t> args;
    visit(e, [&](Expr node) {
      int64_t m = node.multiple();
      if (!node.args().empty()) {
        args.clear();
        for (Expr arg : node.args()) args.push_back(known.at(arg.node()));
        m = join(m, multiple_from(node.kind(), node.args(), args));
      }
      for (const auto& [fact, by] : set_.multiples_)
        if (fact == node) m = join(m, by);
      known.emplace(node.node(), m);
    });
    return known.at(e.node());
  }

  /// The least common multiple, or one of the two where that is absurd.
  static int64_t join(int64_t a, int64_t b) {
    if (a == 0 || b == 0) return 0;
    int64_t result = 0;
    return __builtin_mul_overflow(a / std::gcd(a, b), b, &result) ? std::max(a, b) : result;
  }

 protected:
  Effort effort() const override { return set_.truths_.empty() ? Effort{} : Effort{6, 400}; }

  bool prove_further(const Polynomial& p, int64_t bound, Search search) const override {
    // Long sums against many facts: the attempts cost, too.
    constexpr int kAttemptsPerStep = 256;
    int attempts = 0;
    for (const Polynomial& gap : gaps()) {
      for (const Term& term : p.terms) {
        for (const Term& part : gap.terms) {
          if (++attempts % kAttemptsPerStep == 0 && --*search.steps < 0) return false;
          const std::optional<Term> scale = divide(term, part);
          if (!scale || range(Polynomial(*scale)).lo < 0) continue;
          Polynomial rest = p;
          rest.add(multiply(gap, *scale), -1);
          rest.add(*scale);
          if (prove(rest, bound, search)) return true;
        }
      }
    }
    return false;
  }

 private:
  /// What is known to be at least 1.
  const std::vector<Polynomial>& gaps() const {
    if (!gaps_) {
      gaps_.emplace();
      for (Expr truth : set_.truths_)
        if (truth.kind() == ExprKind::kLess) gaps_->push_back(difference(truth.args()[1], truth.args()[0]));
    }
    return *gaps_;
  }

  const ConstraintSet& set_;
  mutable std::optional<std::vector<Polynomial>> gaps_;
  mutable std::unordered_map<const ExprNode*, Interval> range_cache_;
};

namespace {

Expr to_expr(ExprTable& table, const Polynomial& p) {
  std::vector<Expr> terms{table.constant(p.constant)};
  for (const Term& term : p.terms) {
    std::vector<Expr> factors = term.factors;
    factors.push_back(table.constant(term.coefficient));
    terms.push_back(table.make(ExprKind::kMul, std::move(factors)));
  }
  return table.make(ExprKind::kAdd, std::move(terms));
}

Polynomial negated(const Polynomial& p) {
  Polynomial result;
  result.add(p, -1);
  return result;
}

/// The x of 1 - x, or null.
Expr negation_of(Expr e) {
  const Polynomial p(e);
  if (p.terms.size() != 1 || p.constant != 1 || p.terms[0].coefficient != -1 || p.terms[0].factors.size() != 1)
    return {};
  return p.terms[0].factors[0];
}

/// Of each factor the latest symbol that the middle of a program binds, if it has one; latest first.
std::vector<uint32_t> symbols_bound_late(const Term& t) {
  std::vector<uint32_t> ids;
  for (Expr factor : t.factors) {
    std::optional<uint32_t> latest;
    for (Expr s : free_symbols(factor))
      if (s.symbol().kind == SymbolKind::kValue) latest = std::max(latest.value_or(0), s.id());
    if (latest) ids.push_back(*latest);
  }
  std::sort(ids.begin(), ids.end(), std::greater<>());
  return ids;
}

/// A product order that replacement descends: earlier symbols, so that no expression comes to need one that is not known yet where
/// it is computed; fewer factors; then the order of terms in sums.
bool goes_before(const Term& a, const Term& b) {
  if (const auto late_a = symbols_bound_late(a), late_b = symbols_bound_late(b); late_a != late_b)
    return late_a < late_b;
  if (a.factors.size() != b.factors.size()) return a.factors.size() < b.factors.size();
  for (size_t i = 0; i < a.factors.size(); ++i)
    if (int order = compare(a.factors[i], b.factors[i]); order != 0) return order < 0;
  return a.coefficient < b.coefficient;
}

/// The symbol to solve p = 0 for: the latest that has the coefficient 1 or -1 and occurs nowhere else.
std::optional<Term> solvable_term(const Polynomial& p) {
  std::optional<Term> best;
  for (const Term& term : p.terms) {
    if ((term.coefficient != 1 && term.coefficient != -1) || term.factors.size() != 1 || !term.factors[0].is_symbol())
      continue;
    const Expr symbol = term.factors[0];
    const bool elsewhere = std::any_of(p.terms.begin(), p.terms.end(), [&](const Term& other) {
      return &other != &term && std::any_of(other.factors.begin(), other.factors.end(),
                                            [&](Expr factor) { return depends_on(factor, symbol); });
    });
    if (!elsewhere && (!best || best->factors[0].id() < symbol.id())) best = term;
  }
  return best;
}

}  // namespace

// ---- Stating facts

void ConstraintSet::assume_equal(Expr a, Expr b) {
  ExprTable& table = a.table();
  const ConstraintFacts facts(*this);
  Polynomial p = difference(simplify(a), simplify(b));
  p = Polynomial(rewrite_products(to_expr(table, p), facts));
  if (p.is_constant()) return;

  int64_t content = p.constant == kNegInf ? 1 : p.constant;
  for (const Term& term : p.terms) content = term.coefficient == kNegInf ? 1 : std::gcd(content, term.coefficient);
  if (content > 1) {
    for (Term& term : p.terms) term.coefficient /= content;
    p.constant /= content;
  }
  // mod(x, c) == 0
  if (p.terms.size() == 1 && p.constant == 0 && p.terms[0].factors.size() == 1 &&
      p.terms[0].factors[0].kind() == ExprKind::kMod && p.terms[0].factors[0].args()[1].is_constant()) {
    const Expr m = p.terms[0].factors[0];
    add_multiple(m.args()[0], m.args()[1].constant());
    restate();
    return;
  }
  if (const std::optional<Term> solved = solvable_term(p)) {
    Polynomial rest = p;
    rest.add(Term{-solved->coefficient, solved->factors});
    if (solved->coefficient == 1) rest = negated(rest);
    identify(solved->factors[0], to_expr(table, rest));
    return;
  }
  if (p.terms.size() == 1 && p.terms[0].factors.size() == 1) {
    const Expr x = p.terms[0].factors[0];
    if (p.constant % p.terms[0].coefficient == 0) {
      const int64_t value = -(p.constant / p.terms[0].coefficient);
      tighten(x, {value, value});
    }
  }
  if (p.terms.size() == 2 && p.constant == 0) {
    Term first = p.terms[0], second = p.terms[1];
    second.coefficient = saturating_mul(second.coefficient, -1);
    // f*x == f*y  ->  x == y   f != 0
    Term shared = common_factor(first, second);
    std::erase_if(shared.factors, [&](Expr factor) { return !facts.nonzero(factor); });
    if (!shared.factors.empty()) {
      assume_equal(to_expr(table, Polynomial(*divide(first, shared))),
                   to_expr(table, Polynomial(*divide(second, shared))));
      return;
    }
    if (first.coefficient < 0) {
      first.coefficient = saturating_mul(first.coefficient, -1);
      second.coefficient = saturating_mul(second.coefficient, -1);
    }
    if (goes_before(first, second)) std::swap(first, second);
    products_.emplace_back(to_expr(table, Polynomial(first)), to_expr(table, Polynomial(second)));
    return;
  }
  products_.emplace_back(to_expr(table, p), table.constant(0));
}

void ConstraintSet::identify(Expr symbol, Expr with) {
  const ConstraintFacts facts(*this);
  const Interval range = facts.range(symbol), other = facts.range(with);
  const int64_t multiple = facts.multiple(symbol);
  parent_[symbol.node()] = with;
  // What was known of the symbol is now known of what it stands for.
  if (range.lo > other.lo || range.hi < other.hi) {
    ExprTable& table = symbol.table();
    tighten(with, range);
    if (!with.is_symbol() && range.lo > other.lo && range.lo != kNegInf)
      truths_.push_back(symbolic::less(table.constant(range.lo - 1), with));
    if (!with.is_symbol() && range.hi < other.hi && range.hi != kPosInf)
      truths_.push_back(symbolic::less(with, table.constant(range.hi + 1)));
  }
  add_multiple(with, multiple);
  restate();
}

void ConstraintSet::tighten(Expr e, Interval range) {
  if (e.is_constant()) return;
  const auto [place, inserted] = ranges_.emplace(e.node(), range);
  if (!inserted) place->second = {std::max(place->second.lo, range.lo), std::min(place->second.hi, range.hi)};
}

void ConstraintSet::add_multiple(Expr e, int64_t multiple) {
  if (multiple <= 1 || e.is_constant() || e.multiple() % multiple == 0) return;
  multiples_.emplace_back(e, multiple);
}

void ConstraintSet::restate() {
  const auto multiples = std::exchange(multiples_, {});
  const auto products = std::exchange(products_, {});
  const auto truths = std::exchange(truths_, {});
  const RangeOverrides ranges = std::exchange(ranges_, {});
  // Ranges and divisors move to the replacements; the order of these steps does not matter.
  for (const auto& [node, range] : ranges) {
    tighten(Expr(node), range);
    if (const Expr moved = simplify(Expr(node)); moved.node() != node) tighten(moved, range);
  }
  for (const auto& [e, multiple] : multiples) {
    add_multiple(e, multiple);
    if (const Expr moved = simplify(e); moved != e) add_multiple(moved, multiple);
  }
  for (const auto& [a, b] : products) assume_equal(a, b);
  for (Expr truth : truths) assume_true(truth);
}

void ConstraintSet::assume_true(Expr condition) {
  const Expr c = simplify(condition);
  switch (c.kind()) {
    case ExprKind::kConstant: return;
    case ExprKind::kEqual: assume_equal(c.args()[0], c.args()[1]); return;
    case ExprKind::kMin:
      // Of truth values `and`; of others, a minimum that is not 0 says nothing of its arguments.
      if (std::all_of(c.args().begin(), c.args().end(), [](Expr e) { return e.range().lo >= 0; })) {
        for (Expr arg : std::vector<Expr>(c.args().begin(), c.args().end())) assume_true(arg);
        return;
      }
      break;
    case ExprKind::kLess:
      truths_.push_back(c);
      // Bounds may follow from bounds, a few times over.
      for (int round = 0; round < 4; ++round) {
        bool changed = false;
        for (Expr truth : truths_) changed = propagate_bounds(truth) || changed;
        if (!changed) break;
      }
      return;
    default:
      if (c.range().lo >= 0 && c.range().hi <= 1 && !negation_of(c)) {
        assume_equal(c, c.table().constant(1));
        return;
      }
      break;
  }
  truths_.push_back(c);
  // x != v at an end of the range of x
  if (const Expr inner = negation_of(c); inner && inner.kind() == ExprKind::kEqual) {
    const Expr x = inner.args()[0], v = inner.args()[1];
    if (!v.is_constant()) return;
    const Interval r = ConstraintFacts(*this).range(x);
    if (r.lo == v.constant() && r.lo < kPosInf) tighten(x, {r.lo + 1, r.hi});
    if (r.hi == v.constant() && r.hi > kNegInf) tighten(x, {r.lo, r.hi - 1});
  }
}

// From less(a, b): each term of b - a >= 1 is at least 1 minus the most that the others give.
bool ConstraintSet::propagate_bounds(Expr condition) {
  if (condition.kind() != ExprKind::kLess) return false;
  const Polynomial gap = difference(condition.args()[1], condition.args()[0]);
  bool changed = false;
  for (const Term& term : gap.terms) {
    if (term.factors.size() != 1 || (term.coefficient != 1 && term.coefficient != -1)) continue;
    const ConstraintFacts facts(*this);
    Polynomial others = gap;
    others.add(Term{-term.coefficient, term.factors});
    const int64_t most = facts.range(others).hi;
    if (most == kPosInf || most == kNegInf) continue;
    Interval bound;
    if (term.coefficient == 1)
      bound.lo = saturating_add(1, -most);
    else
      bound.hi = saturating_add(most, -1);
    const Interval known = facts.range(term.factors[0]);
    if (bound.lo <= known.lo && bound.hi >= known.hi) continue;
    tighten(term.factors[0], bound);
    changed = true;
  }
  return changed;
}

// ---- Queries

Expr ConstraintSet::representative(Expr e) const {
  auto found = parent_.find(e.node());
  return found == parent_.end() ? e : found->second;
}

Expr ConstraintSet::simplify(Expr e) const {
  const ConstraintFacts facts(*this);
  std::unordered_map<const ExprNode*, Expr> done;
  const std::function<Expr(Expr)> walk = [&](Expr x) -> Expr {
    if (x.is_constant()) return x;
    if (auto found = done.find(x.node()); found != done.end()) return found->second;
    Expr result = x;
    if (x.is_symbol()) {
      if (const Expr other = representative(x); other != x) {
        result = walk(other);
      } else if (const Interval r = facts.range(x); r.is_constant()) {
        result = x.table().constant(r.lo);
      }
    } else {
      std::vector<Expr> args;
      for (Expr arg : x.args()) args.push_back(walk(arg));
      result = rewrite_products(x.table().make(x.kind(), std::move(args), facts), facts);
    }
    done.emplace(x.node(), result);
    return result;
  };
  return walk(e);
}

Expr ConstraintSet::rewrite_products(Expr e, const Facts& facts) const {
  if (products_.empty() || e.is_constant() || e.is_symbol()) return e;
  Polynomial p(e);
  bool rewritten = false;
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 0; i < p.terms.size() && !changed; ++i) {
      const Term term = p.terms[i];
      for (const auto& [from, to] : products_) {
        const auto pattern = Polynomial(from).as_term(), replacement = Polynomial(to).as_term();
        const auto scale = pattern && replacement ? divide(term, *pattern) : std::nullopt;
        if (!scale) continue;
        p.add(Term{-term.coefficient, term.factors});
        p.add(multiply(*replacement, *scale));
        changed = rewritten = true;
        break;
      }
    }
  }
  if (!rewritten) return e;
  ExprTable& table = e.table();
  const Expr plain = to_expr(table, p);
  return plain.args().empty() ? plain : table.make(plain.kind(), {plain.args().begin(), plain.args().end()}, facts);
}

Truth ConstraintSet::equal(Expr a, Expr b) const {
  const Expr x = simplify(a), y = simplify(b);
  if (x == y) return Truth::kYes;
  const Expr condition = simplify(x.table().make(ExprKind::kEqual, {x, y}, ConstraintFacts(*this)));
  if (condition.is_constant()) return condition.constant() != 0 ? Truth::kYes : Truth::kNo;
  // An equation that is known as it stands, up to a factor.
  const Polynomial p = difference(x, y);
  for (const auto& [left, right] : products_) {
    const Polynomial known = difference(left, right);
    if (known.terms.size() != p.terms.size()) continue;
    const std::optional<Term> scale = divide(p.terms[0], known.terms[0]);
    if (!scale) continue;
    Polynomial rest = p;
    rest.add(multiply(known, *scale), -1);
    if (rest.is_zero()) return Truth::kYes;
  }
  for (Expr truth : truths_)
    if (negation_of(truth) == condition) return Truth::kNo;
  return Truth::kUnknown;
}

Truth ConstraintSet::less(Expr a, Expr b) const {
  // As a difference, so that equations over both sides are used.
  const Expr gap = simplify(b - a);
  const ConstraintFacts facts(*this);
  const Expr condition = gap.table().make(ExprKind::kLess, {gap.table().constant(0), gap}, facts);
  if (condition.is_constant()) return condition.constant() != 0 ? Truth::kYes : Truth::kNo;
  return Truth::kUnknown;
}

Truth ConstraintSet::less_equal(Expr a, Expr b) const { return less(a, b + 1); }

Truth ConstraintSet::truth(Expr condition) const {
  const Expr c = simplify(condition);
  const ConstraintFacts facts(*this);
  const Interval r = facts.range(c);
  if (!r.contains(0)) return Truth::kYes;
  if (r.is_constant()) return Truth::kNo;
  for (Expr truth : truths_) {
    if (truth == c) return Truth::kYes;
    if (negation_of(truth) == c || negation_of(c) == truth) return Truth::kNo;
  }
  if (c.kind() == ExprKind::kLess) return less(c.args()[0], c.args()[1]);
  if (c.kind() == ExprKind::kEqual) return equal(c.args()[0], c.args()[1]);
  if (const Expr inner = negation_of(c); inner && inner.range().lo >= 0 && inner.range().hi <= 1) {
    const Truth t = truth(inner);
    return t == Truth::kUnknown ? t : t == Truth::kYes ? Truth::kNo : Truth::kYes;
  }
  // Of values that are not negative, a minimum is 0 where one of them is, a maximum where all are.
  const bool is_min = c.kind() == ExprKind::kMin;
  const auto is_natural = [&](Expr arg) { return facts.range(arg).lo >= 0; };
  if ((is_min || c.kind() == ExprKind::kMax) && std::all_of(c.args().begin(), c.args().end(), is_natural)) {
    bool decided = true;
    for (Expr arg : c.args()) {
      const Truth t = truth(arg);
      if (t == (is_min ? Truth::kNo : Truth::kYes)) return t;
      decided = decided && t != Truth::kUnknown;
    }
    if (decided) return is_min ? Truth::kYes : Truth::kNo;
  }
  return Truth::kUnknown;
}

Truth ConstraintSet::divisible(Expr e, int64_t by) const {
  const Expr x = simplify(e);
  if (by == 0) return equal(x, x.table().constant(0));
  if (by == kNegInf) return Truth::kUnknown;
  by = by < 0 ? -by : by;
  const ConstraintFacts facts(*this);
  if (facts.multiple(x) % by == 0) return Truth::kYes;
  Expr rest = x.table().make(ExprKind::kMod, {x, x.table().constant(by)}, facts);
  const Interval r = facts.range(rest);
  if (r == Interval{0, 0}) return Truth::kYes;
  if (!r.contains(0)) return Truth::kNo;
  return Truth::kUnknown;
}

Interval ConstraintSet::range(Expr e) const {
  const Expr x = simplify(e);
  const ConstraintFacts facts(*this);
  Interval r = facts.range(x);
  if (truths_.empty()) return r;
  // Signs are worth a proof.
  for (int64_t bound : {0, 1})
    if (r.lo < bound && facts.at_least(x, bound)) r.lo = bound;
  Polynomial negative = negated(Polynomial(x));
  for (int64_t bound : {0, 1})
    if (r.hi > -bound && facts.at_least(negative, bound)) r.hi = -bound;
  return r;
}

}  // namespace stax::symbolic
