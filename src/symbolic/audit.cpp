// SPDX-License-Identifier: Apache-2.0
#include "symbolic/audit.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "support/hash.h"
#include "symbolic/evaluate.h"

namespace stax::symbolic {

namespace {

thread_local Audit* current_audit = nullptr;

// Beyond, sums and products may saturate on one side only.
constexpr int64_t kLargest = int64_t{1} << 50;

/// As parse_expr reads it, and no rule has seen it.
std::string spell(ExprKind kind, const std::vector<Expr>& args) {
  std::vector<std::string> texts;
  for (Expr a : args) texts.push_back(a.str());
  const auto call = [&](const char* name) { return fmt::format("{}({})", name, fmt::join(texts, ", ")); };
  switch (kind) {
    case ExprKind::kAdd: return fmt::format("({})", fmt::join(texts, ") + ("));
    case ExprKind::kMul: return fmt::format("({})", fmt::join(texts, ") * ("));
    case ExprKind::kFloorDiv: return call("floordiv");
    case ExprKind::kMod: return call("mod");
    case ExprKind::kMin: return call("min");
    case ExprKind::kMax: return call("max");
    case ExprKind::kLess: return call("less");
    case ExprKind::kEqual: return call("equal");
    case ExprKind::kSelect: return call("select");
    case ExprKind::kConstant:
    case ExprKind::kSymbol: break;
  }
  return {};
}

}  // namespace

Audit::Audit() : before_(std::exchange(current_audit, this)) {}
Audit::~Audit() { current_audit = before_; }
Audit* Audit::current() { return current_audit; }

// The least values first, then some further up.
AuditedValues::Values AuditedValues::of_symbol(Expr e) {
  const SymbolInfo& info = e.symbol();
  const int64_t unit = info.multiple, lo = std::max<int64_t>(info.range.lo, -8), hi = info.range.hi;
  const int64_t first = floor_div(lo + unit - 1, unit) * unit;
  const int64_t count = hi < first ? 1 : (std::min<int64_t>(hi, first + 4000 * unit) - first) / unit + 1;
  Values values;
  for (int k = 0; k < kTries; ++k) {
    const auto random = static_cast<int64_t>(hash_combine(static_cast<uint64_t>(k) + 1, uint64_t{e.id()}) >> 33);
    const int64_t step = k == 0 ? 0 : k == 1 ? 1 : random % (k < 4 ? 40 : 4000);
    values[static_cast<size_t>(k)] = first + step % count * unit;
  }
  return values;
}

const AuditedValues::Values& AuditedValues::of(Expr root) {
  if (const auto known = known_.find(root.node()); known != known_.end()) return known->second;
  std::vector<Expr> open{root};
  std::vector<int64_t> args;
  while (!open.empty()) {
    const Expr e = open.back();
    const size_t before = open.size();
    if (!known_.contains(e.node()))
      for (Expr a : e.args())
        if (!known_.contains(a.node())) open.push_back(a);
    if (open.size() > before) continue;
    open.pop_back();
    if (known_.contains(e.node())) continue;
    Values values;
    if (e.is_symbol()) {
      values = of_symbol(e);
    } else {
      for (size_t k = 0; k < values.size(); ++k) {
        args.clear();
        for (Expr a : e.args()) args.push_back(known_.at(a.node())[k]);
        values[k] = e.is_constant() ? e.constant() : symbolic::apply(e.kind(), args);
      }
    }
    known_.emplace(e.node(), values);
  }
  return known_.at(root.node());
}

void AuditedValues::check(Audit& audit, ExprKind kind, const std::vector<Expr>& args, Expr made) {
  if (audit.fault_ || kind == ExprKind::kConstant || kind == ExprKind::kSymbol) return;
  const Values got = of(made);
  std::vector<int64_t> at;
  for (size_t k = 0; k < got.size(); ++k) {
    at.clear();
    for (Expr a : args) at.push_back(of(a)[k]);
    const int64_t want = symbolic::apply(kind, at);
    const bool is_large = std::any_of(at.begin(), at.end(), [](int64_t v) { return v > kLargest || v < -kLargest; }) ||
                          want > kLargest || want < -kLargest;
    const Interval range = made.range();
    if (is_large || (got[k] == want && range.lo <= want && want <= range.hi)) continue;
    Audit::Fault fault{kind, spell(kind, args), made.str(), {}, {}};
    std::vector<std::string> where;
    for (Expr a : args)
      for (Expr s : free_symbols(a)) {
        std::string text = fmt::format("{} = {}", s.symbol().name, of(s)[k]);
        if (std::find(where.begin(), where.end(), text) != where.end()) continue;
        where.push_back(std::move(text));
        fault.symbols.push_back(s.symbol());
      }
    const std::string place = where.empty() ? "" : fmt::format("at {} ", fmt::join(where, ", "));
    fault.what = got[k] != want
                     ? fmt::format("{}it is {} instead of {}", place, got[k], want)
                     : fmt::format("{}it is {}, outside of its range of {} to {}", place, want, range.lo, range.hi);
    audit.fault_ = std::move(fault);
    return;
  }
}

}  // namespace stax::symbolic
