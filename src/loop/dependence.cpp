// SPDX-License-Identifier: Apache-2.0
#include "loop/dependence.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "support/error.h"

namespace stax::loop {

using symbolic::ExprKind;

namespace {

// That two index vectors are equal, each under its own values of the loops' variables, and what follows.
class Equations {
 public:
  Equations(Expr var, const LoopScope& outer, const std::vector<LoopRange>& left, const std::vector<LoopRange>& right)
      : var_(var), left_(left), right_(right), outer_(outer), left_scope_(outer), right_scope_(outer) {
    left_scope_.push(left);
    right_scope_.push(right);
  }

  /// Adds left = right; `settled` afterwards if the variable is the same on both sides, or nothing can be equal.
  void add(Expr left, Expr right) {
    pending_.emplace_back(left, right);
    while (!pending_.empty() && !settled_) {
      const auto [l, r] = pending_.back();
      pending_.pop_back();
      if (std::find(seen_.begin(), seen_.end(), std::pair(l, r)) != seen_.end()) continue;
      seen_.emplace_back(l, r);
      learn(l, r);
      take_apart(l, r);
      recombine();
    }
  }
  bool settled() const { return settled_; }

 private:
  void take_apart(Expr left, Expr right) {
    Terms a = terms_of(left, left_), b = terms_of(right, right_);
    if (is_contradiction(a, b)) {
      settled_ = true;
      return;
    }
    if (a.rest != b.rest) return;
    do {
      while (!a.varying.empty() && take_digit(a, b)) {
      }
    } while (fold(a) && fold(b));
  }

  // c * (x / m) - d * (x / (k*m)) = c * ((x / m) % k) + (c*k - d) * (x / (k*m)): digits that have changed places. Whether there were such terms.
  static bool fold(Terms& terms) {
    for (Term& low : terms.varying) {
      if (!low.coefficient.is_constant()) continue;
      const bool is_quotient = low.atom.kind() == ExprKind::kFloorDiv && low.atom.args()[1].is_constant();
      const Expr x = is_quotient ? low.atom.args()[0] : low.atom;
      const int64_t m = is_quotient ? low.atom.args()[1].constant() : 1, c = low.coefficient.constant();
      for (Term& high : terms.varying) {
        if (high.atom.kind() != ExprKind::kFloorDiv || high.atom.args()[0] != x) continue;
        const Expr divisor = high.atom.args()[1];
        if (!divisor.is_constant() || !high.coefficient.is_constant() || m < 1 || divisor.constant() <= m ||
            divisor.constant() % m != 0 || (c < 0) == (high.coefficient.constant() < 0))
          continue;
        const Expr k = divisor.table().constant(divisor.constant() / m);
        low.atom = symbolic::mod(low.atom, k);
        high.coefficient = high.coefficient + low.coefficient * k;
        std::erase_if(terms.varying, [](const Term& t) { return t.coefficient.is_constant(0); });
        return true;
      }
    }
    return false;
  }

  // Finds the term whose coefficient is beyond all that the others can add up to.
  bool take_digit(Terms& a, Terms& b) {
    for (size_t i = 0; i < a.varying.size(); ++i) {
      const Expr c = a.varying[i].coefficient;
      for (size_t k = 0; k < b.varying.size(); ++k) {
        if (b.varying[k].coefficient != c) continue;
        Terms rest_a = a, rest_b = b;
        rest_a.varying.erase(rest_a.varying.begin() + static_cast<std::ptrdiff_t>(i));
        rest_b.varying.erase(rest_b.varying.begin() + static_cast<std::ptrdiff_t>(k));
        if (!is_below(c, rest_a, rest_b)) continue;
        learn(a.varying[i].atom, b.varying[k].atom);
        a = std::move(rest_a);
        b = std::move(rest_b);
        return true;
      }
    }
    return false;
  }

  static Expr sum_of(const Terms& terms) {
    Expr sum = terms.rest;
    for (const Term& t : terms.varying) sum = sum + t.coefficient * t.atom;
    return sum;
  }

  // Over the loops of this side; what is around them is the same on both.
  Expr upper(const LoopScope& side, Expr e) const { return side.upper(e, outer_.loops().size()); }
  Expr lower(const LoopScope& side, Expr e) const { return side.lower(e, outer_.loops().size()); }

  // |rest_a - rest_b| < |c|, as both lie within one interval shorter than |c|.
  bool is_below(Expr c, const Terms& rest_a, const Terms& rest_b) const {
    const symbolic::Interval sign = c.range();
    if (sign.lo < 0 && sign.hi > 0) return false;
    const Expr size = sign.lo >= 0 ? c : -c;
    const Expr a = sum_of(rest_a), b = sum_of(rest_b);
    const Expr up_a = upper(left_scope_, a), low_a = lower(left_scope_, a);
    const Expr up_b = upper(right_scope_, b), low_b = lower(right_scope_, b);
    if (!up_a || !low_a || !up_b || !low_b) return false;
    return left_scope_.is_nonnegative(size - 1 - (up_a - low_b)) &&
           left_scope_.is_nonnegative(size - 1 - (up_b - low_a));
  }

  bool is_contradiction(const Terms& a, const Terms& b) const {
    const Expr sum_a = sum_of(a), sum_b = sum_of(b);
    const Expr up_a = upper(left_scope_, sum_a), low_b = lower(right_scope_, sum_b);
    if (up_a && low_b && left_scope_.is_nonnegative(low_b - up_a - 1)) return true;
    const Expr up_b = upper(right_scope_, sum_b), low_a = lower(left_scope_, sum_a);
    if (up_b && low_a && left_scope_.is_nonnegative(low_a - up_b - 1)) return true;
    // All terms divisible by g, and the constants apart by what is not.
    int64_t g = 0;
    for (const Terms* side : {&a, &b}) {
      for (const Term& t : side->varying) g = std::gcd(g, (t.coefficient * t.atom).multiple());
    }
    const Expr apart = a.rest - b.rest;
    return g > 1 && apart.is_constant() && apart.constant() % g != 0;
  }

  void learn(Expr left, Expr right) {
    if (left == var_ && right == var_) settled_ = true;
    // A product, or a sum inside another function, is not taken apart further.
    if (std::find(equal_.begin(), equal_.end(), std::pair(left, right)) == equal_.end())
      equal_.emplace_back(left, right);
  }

  // x / m without quotients inside: (a + z/c) / m = (c*a + z) / (c*m).
  static Expr flat_quotient(Expr x, Expr m) {
    for (bool changed = true; changed;) {
      changed = false;
      for (const symbolic::Term& term : symbolic::Polynomial(x).terms) {
        const Expr inner = term.factors[0];
        if (term.factors.size() != 1 || term.coefficient != 1 || inner.kind() != ExprKind::kFloorDiv) continue;
        const Expr c = inner.args()[1];
        if (c.range().lo < 1 || m.range().lo < 1) continue;
        x = (x - inner) * c + inner.args()[0], m = c * m;
        changed = true;
        break;
      }
    }
    return symbolic::floordiv(x, m);
  }

  // With x / (k*m) as a term of a sum, and (x / k) % m:  m*sum + c*((x / k) % m) = m*rest + c*(x / k), where c is the term's coefficient. The remainder
  // may be written with what differs by a multiple of m.
  struct Combined {
    Expr value, k;
    int64_t coefficient = 1;
  };
  std::vector<Combined> combined(Expr sum, Expr remainder) const {
    const Expr x = remainder.args()[0], m = remainder.args()[1], one = m.table().constant(1);
    std::vector<Combined> all;
    if (sum == symbolic::floordiv(x, m) || sum == flat_quotient(x, m)) all.push_back({x, one});
    for (const symbolic::Term& term : symbolic::Polynomial(sum).terms) {
      const Expr quotient = term.factors[0];
      if (term.factors.size() != 1 || quotient.kind() != ExprKind::kFloorDiv) continue;
      const Expr divisor = quotient.args()[1];
      Expr k = one;
      if (divisor != m) {
        k = symbolic::floordiv(divisor, m);
        if (m.range().lo < 1 || k.range().lo < 1 || k * m != divisor) continue;
      }
      const Expr whole = symbolic::floordiv(quotient.args()[0], k);
      if (symbolic::mod(whole, m) != remainder) continue;
      all.push_back({(sum - quotient * term.coefficient) * m + whole * term.coefficient, k, term.coefficient});
    }
    return all;
  }

  // x / m and x % m are known to be equal on both sides -> x is.
  void recombine() {
    for (size_t i = 0; i < equal_.size(); ++i) {
      const auto [left, right] = equal_[i];
      if (left.kind() != ExprKind::kMod || right.kind() != ExprKind::kMod) continue;
      const Expr m = left.args()[1];
      if (right.args()[1] != m || is_varying(m) || !left_scope_.is_nonzero(m)) continue;
      for (size_t k = 0; k < equal_.size(); ++k) {
        const std::vector<Combined> lefts = combined(equal_[k].first, left);
        if (lefts.empty()) continue;
        // x itself may have a quotient that the next remainder needs.
        for (const Combined& r : combined(equal_[k].second, right))
          for (const Combined& l : lefts)
            if (l.k == r.k && l.coefficient == r.coefficient) pending_.emplace_back(l.value, r.value);
      }
    }
  }

  bool is_varying(Expr e) const {
    const auto in = [&](const std::vector<LoopRange>& loops) {
      return std::any_of(loops.begin(), loops.end(),
                         [&](const LoopRange& l) { return symbolic::depends_on(e, l.var); });
    };
    return in(left_) || in(right_);
  }

  Expr var_;
  const std::vector<LoopRange>& left_;
  const std::vector<LoopRange>& right_;
  const LoopScope& outer_;
  LoopScope left_scope_, right_scope_;
  std::vector<std::pair<Expr, Expr>> pending_, seen_, equal_;
  bool settled_ = false;
};

bool may_meet(Expr var, const LoopScope& outer, const Access& a, const Access& b) {
  Equations equations(var, outer, a.loops, b.loops);
  const size_t rank = std::min(a.index.size(), b.index.size());
  for (size_t d = 0; d < rank; ++d) {
    const Expr left = ir::as_expr(a.index[d]), right = ir::as_expr(b.index[d]);
    if (left && right) equations.add(left, right);
    if (equations.settled()) return false;
  }
  return true;
}

bool is_invariant(const Access& a, Expr var) {
  return std::none_of(a.index.begin(), a.index.end(), [&](Scalar i) { return depends_on(i, var) || ir::has_load(i); });
}

std::string describe(const Access& a) {
  std::string text = a.kind == AccessKind::kLoad    ? "loaded at ["
                     : a.kind == AccessKind::kStore ? "stored at ["
                                                    : fmt::format("updated ({}) at [", name_of(a.combiner));
  for (size_t i = 0; i < a.index.size(); ++i) text += (i > 0 ? ", " : "") + a.index[i].str();
  return text + "]";
}

}  // namespace

std::string find_dependence(const Kernel& kernel, const For& loop, const LoopScope& outer, Reduction reduction) {
  // A loop that runs at most once has no two iterations.
  if (loop.extent.range().hi <= 1) return {};
  const Stmt root = make(loop);
  std::vector<Access> accesses = accesses_in(root);
  const std::vector<int> priv = slots_allocated_in(loop.body), written = slots_written_in(loop.body);
  const auto has = [](const std::vector<int>& slots, int slot) {
    return std::find(slots.begin(), slots.end(), slot) != slots.end();
  };
  std::erase_if(accesses, [&](const Access& a) { return has(priv, a.slot) || !has(written, a.slot); });

  const auto is_allowed = [&](const Access& a, const Access& b) {
    if (a.kind != AccessKind::kUpdate || b.kind != AccessKind::kUpdate || a.combiner != b.combiner) return false;
    switch (reduction) {
      case Reduction::kForbidden: return false;
      case Reduction::kInvariant: return is_invariant(a, loop.var) && is_invariant(b, loop.var);
      case Reduction::kAny: return true;
    }
    STAX_UNREACHABLE();
  };
  for (size_t i = 0; i < accesses.size(); ++i) {
    for (size_t k = i; k < accesses.size(); ++k) {
      const Access &a = accesses[i], &b = accesses[k];
      if (a.slot != b.slot || (a.kind == AccessKind::kLoad && b.kind == AccessKind::kLoad)) continue;
      if (is_allowed(a, b) || !may_meet(loop.var, outer, a, b)) continue;
      if (i == k) return fmt::format("iterations may meet in buffer {}, {}", kernel.buffers[a.slot].name, describe(a));
      return fmt::format("buffer {} is {} and {}", kernel.buffers[a.slot].name, describe(a), describe(b));
    }
  }
  return {};
}

}  // namespace stax::loop
