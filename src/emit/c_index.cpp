// SPDX-License-Identifier: Apache-2.0
// Index expressions in C.
#include <algorithm>
#include <bit>

#include "emit/c_functions.h"
#include "emit/c_kernel.h"
#include "support/error.h"

namespace stax::emit {

using symbolic::ExprKind;
using symbolic::Interval;

namespace {

// Longer ones have a name.
constexpr size_t kLongIndex = 60;
constexpr int64_t kIntMin = -0x80000000LL, kIntMax = 0x7fffffffLL;

bool fits_int(Interval range) { return range.lo >= kIntMin && range.hi <= kIntMax; }

bool is_power_of_two(Expr e) {
  return e.is_constant() && e.constant() > 0 && std::has_single_bit(static_cast<uint64_t>(e.constant()));
}

bool is_boolean(Expr e) { return e.range().lo >= 0 && e.range().hi <= 1; }

bool is_negative_term(Expr e) {
  if (e.is_constant()) return e.constant() < 0;
  return e.kind() == ExprKind::kMul && e.args().back().is_constant() && e.args().back().constant() < 0;
}

// Whether partial sums may leave int although each term and the whole fit.
bool may_overflow(std::span<const Expr> terms) {
  double most = 0;
  for (Expr t : terms) most += std::max(std::abs(double(t.range().lo)), std::abs(double(t.range().hi)));
  return most > double(kIntMax);
}

}  // namespace

const CKernel::Index* CKernel::find_index(Expr e) const {
  for (size_t i = index_scopes_.size(); i-- > 0;)
    if (const auto found = index_scopes_[i].values.find(e.node()); found != index_scopes_[i].values.end())
      return &found->second;
  return nullptr;
}

bool CKernel::is_known(Expr symbol) const { return find_index(symbol) != nullptr; }

CKernel::Index CKernel::index(Expr e) {
  if (e.is_constant()) {
    const int64_t v = e.constant();
    if (v == static_cast<int32_t>(v)) return {c_int(DType::kI32, v), false};
    STAX_ASSERT(wide_, "kernel {}: the constant {} in 32-bit index arithmetic", kernel_.name, v);
    return {c_int(DType::kI64, v), true};
  }
  if (const Index* known = find_index(e)) return *known;
  STAX_ASSERT(!e.is_symbol(), "kernel {}: the symbol {} is used where it is not defined", kernel_.name, e.str());
  Index i = computed(e);
  if (i.text.size() > kLongIndex) {
    i.text = name(index_type(i.wide), i.text);
    bind(e, i);
  }
  return i;
}

std::string CKernel::index_in(Expr e, bool wide) {
  const Index i = index(e);
  return i.wide == wide ? i.text : fmt::format("({}){}", index_type(wide), i.text);
}

// Modulo 2^32: sums and products whose parts may leave int although the whole does not.
std::string CKernel::wrapping(Expr e) {
  if (e.is_constant()) return fmt::format("{}u", static_cast<uint32_t>(e.constant()));
  const bool is_sum = e.kind() == ExprKind::kAdd;
  if ((!is_sum && e.kind() != ExprKind::kMul) || find_index(e) != nullptr) return "(u32)" + index(e).text;
  std::vector<Expr> parts(e.args().begin(), e.args().end());
  if (is_sum) std::stable_partition(parts.begin(), parts.end(), [](Expr t) { return !is_negative_term(t); });
  std::string text;
  for (Expr a : parts) {
    const bool negative = is_sum && is_negative_term(a) && !text.empty();
    text += (text.empty() ? "" : negative ? " - " : is_sum ? " + " : " * ") + wrapping(negative ? -a : a);
  }
  return "(" + text + ")";
}

// Not of what advances by steps in a loop: compilers see the steps only where no part of the sum wraps.
std::vector<QuotientTerm> CKernel::quotients(Expr e) const {
  if (wide_ || e.kind() != ExprKind::kAdd) return {};
  for (Expr s : symbolic::free_symbols(e)) {
    const bool is_index =
        s == kernel_.thread || std::ranges::find(kernel_.block_index, s) != std::ranges::end(kernel_.block_index);
    if (s.symbol().kind == symbolic::SymbolKind::kLoop && !is_index && symbolic::affine_in(e, s)) return {};
  }
  return by_quotients(kernel_, e);
}

CKernel::Index CKernel::sum(Expr e) {
  std::string wrapped;
  for (const QuotientTerm& t : quotients(e)) {
    wrapped += (wrapped.empty() ? "" : " + ") + wrapping(t.value);
    if (!t.coefficient.is_constant(1)) wrapped += " * " + wrapping(t.coefficient);
  }
  if (!wrapped.empty()) return {"((int)(" + wrapped + "))", false};
  std::vector<Expr> terms(e.args().begin(), e.args().end());
  std::stable_partition(terms.begin(), terms.end(), [](Expr t) { return !is_negative_term(t); });
  std::string text;
  bool wide = false;
  const bool must_be_wide = wide_ && (!fits_int(e.range()) || may_overflow(e.args()));
  for (Expr t : terms) {
    const bool negative = is_negative_term(t) && !text.empty();
    Index i = index(negative ? -t : t);
    wide |= i.wide;
    if (must_be_wide && !i.wide) i.text = "(i64)" + i.text;
    text += text.empty() ? i.text : (negative ? " - " : " + ") + i.text;
  }
  return {"(" + text + ")", wide || must_be_wide};
}

bool CKernel::is_division(Expr e) const {
  return (e.kind() == ExprKind::kFloorDiv || e.kind() == ExprKind::kMod) && !is_power_of_two(e.args()[1]);
}

// Without parentheses.
std::string CKernel::divided(Expr e) {
  const Expr a = e.args()[0], b = e.args()[1];
  const bool is_mod = e.kind() == ExprKind::kMod;
  const Index x = index(a), y = index(b);
  const bool wide = x.wide || y.wide;
  if (is_power_of_two(b)) {
    const auto value = static_cast<uint64_t>(b.constant());
    if (is_mod) return fmt::format("{} & {}", x.text, index(e.table().constant(b.constant() - 1)).text);
    return fmt::format("{} >> {}", x.text, std::countr_zero(value));
  }
  const std::string_view type = index_type(wide), unsigned_word = wide ? "u64" : "u32", suffix = wide ? "i64" : "i32";
  const bool is_nonnegative = a.range().lo >= 0 && b.range().lo >= 0;
  if (is_nonnegative && b.is_constant())
    return fmt::format("({})(({}){} {} ({}){})", type, unsigned_word, x.text, is_mod ? "%" : "/", unsigned_word,
                       y.text);
  if (is_mod) {
    const std::string q = index(symbolic::floordiv(a, b)).text;
    const std::string rest = fmt::format("{} - {} * {}", x.text, q, y.text);
    return b.range().contains(0) && thread::find_divisor(kernel_, e) == nullptr
               ? fmt::format("{} == 0 ? 0 : {}", y.text, rest)
               : rest;
  }
  if (const thread::Divisor* d = thread::find_divisor(kernel_, e))
    return fmt::format("divide_by({}, {}, {})", x.text, index(d->multiplier).text, index(d->shift).text);
  if (is_nonnegative && b.range().lo >= 1)
    return fmt::format("({})(({}){} / ({}){})", type, unsigned_word, x.text, unsigned_word, y.text);
  return fmt::format("{}_{}({}, {})", is_nonnegative ? "quotient" : "floor_divide", suffix, x.text, y.text);
}

CKernel::Index CKernel::computed(Expr e) {
  const auto args = e.args();
  switch (e.kind()) {
    case ExprKind::kConstant:
    case ExprKind::kSymbol: break;
    case ExprKind::kAdd: return sum(e);
    case ExprKind::kMul: {
      std::string text;
      bool wide = false;
      for (Expr a : args) {
        Index i = index(a);
        // From the first factor on that may leave int, the product is of 64 bits.
        if (wide_ && !i.wide && !wide && !fits_int(e.range())) {
          i.text = "(i64)" + i.text;
          i.wide = true;
        }
        wide |= i.wide;
        text += (text.empty() ? "" : " * ") + i.text;
      }
      return {"(" + text + ")", wide};
    }
    case ExprKind::kFloorDiv:
    case ExprKind::kMod: return {"(" + divided(e) + ")", index(args[0]).wide || index(args[1]).wide};
    case ExprKind::kMin:
    case ExprKind::kMax: {
      Index best = index(args[0]);
      for (size_t i = 1; i < args.size(); ++i) {
        const Index next = index(args[i]);
        const bool wide = best.wide || next.wide;
        const std::string a = name(index_type(best.wide), best.text), b = name(index_type(next.wide), next.text);
        best = {fmt::format("({} {} {} ? {} : {})", a, e.kind() == ExprKind::kMin ? "<" : ">", b, a, b), wide};
      }
      return best;
    }
    case ExprKind::kLess: return {fmt::format("({} < {})", index(args[0]).text, index(args[1]).text), false};
    case ExprKind::kEqual: return {fmt::format("({} == {})", index(args[0]).text, index(args[1]).text), false};
    case ExprKind::kSelect: {
      const Index a = index(args[1]), b = index(args[2]);
      return {fmt::format("({} ? {} : {})", truth(args[0]), a.text, b.text), a.wide || b.wide};
    }
  }
  STAX_UNREACHABLE();
}

// What is built of comparisons by min, max and 1 - x is one condition.
std::string CKernel::truth(Expr e) {
  const bool is_min = e.kind() == ExprKind::kMin, is_max = e.kind() == ExprKind::kMax;
  if ((is_min || is_max) && std::all_of(e.args().begin(), e.args().end(), is_boolean)) {
    std::string text;
    for (Expr a : e.args()) text += (text.empty() ? "" : is_min ? " && " : " || ") + truth(a);
    return "(" + text + ")";
  }
  if (e.kind() == ExprKind::kLess || e.kind() == ExprKind::kEqual) return index(e).text;
  if (e.kind() == ExprKind::kAdd && is_boolean(e)) {
    const Expr negated = 1 - e;
    if (negated.kind() != ExprKind::kAdd) return "!" + truth(negated);
  }
  return fmt::format("({} != 0)", index(e).text);
}

void CKernel::name_divisions(const thread::Stmt& body) {
  std::unordered_set<const symbolic::ExprNode*> seen;
  const auto consider = [&](Expr e) {
    if (!is_division(e) || find_index(e) != nullptr) return;
    const std::vector<Expr> symbols = symbolic::free_symbols(e);
    if (!std::all_of(symbols.begin(), symbols.end(), [&](Expr s) { return is_known(s); })) return;
    const auto give_name = [&](Expr division) {
      if (division.is_constant() || find_index(division) != nullptr) return;
      const Index i = index(division);
      const std::string named = fresh("q");
      line(fmt::format("const {} {} = {};", index_type(i.wide), named, without_parentheses(i.text)));
      bind(division, {named, i.wide});
    };
    if (e.kind() == ExprKind::kMod && !e.args()[1].is_constant())
      give_name(symbolic::floordiv(e.args()[0], e.args()[1]));
    give_name(e);
  };
  const auto look = [&](const auto& self, Expr e) -> void {
    if (!seen.insert(e.node()).second) return;
    const std::vector<QuotientTerm> terms = quotients(e);
    for (const QuotientTerm& t : terms) self(self, t.value), self(self, t.coefficient);
    if (terms.empty())
      for (Expr a : e.args()) self(self, a);
    consider(e);
  };
  thread::visit(body, [&](const thread::Stmt& s) {
    thread::for_each_index(*s, [&](Expr root) {
      if (root) look(look, root);
    });
  });
}

}  // namespace stax::emit
