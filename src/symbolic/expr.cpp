// SPDX-License-Identifier: Apache-2.0
#include "symbolic/expr.h"

#include <algorithm>
#include <numeric>
#include <unordered_set>

#include "support/error.h"
#include "support/hash.h"
#include "symbolic/audit.h"
#include "symbolic/evaluate.h"
#include "symbolic/facts.h"
#include "symbolic/interval.h"
#include "symbolic/simplify.h"
#include "symbolic/table.h"

namespace stax::symbolic {
namespace {

const ExprNode& node_of(Expr e) {
  STAX_ASSERT(e, "an absent expression");
  return *e.node();
}

Expr make(ExprKind kind, std::vector<Expr> args) {
  STAX_ASSERT(args[0], "arithmetic on an absent expression");
  return args[0].table().make(kind, std::move(args));
}

Expr constant_like(Expr e, int64_t value) { return node_of(e).table->constant(value); }

int64_t magnitude(int64_t v) { return v == kNegInf ? int64_t{1} << 62 : v < 0 ? -v : v; }

Interval declared_range(const SymbolInfo& info) { return round_inwards(info.range, info.multiple); }

}  // namespace

// ---- Nodes and table

struct ExprTable::Impl : ExprStore {
  using ExprStore::ExprStore;
  AuditedValues audited;
};

int64_t multiple_from(ExprKind kind, std::span<const Expr> args, std::span<const int64_t> multiples) {
  switch (kind) {
    case ExprKind::kConstant:
    case ExprKind::kSymbol:
    case ExprKind::kLess:
    case ExprKind::kEqual: return 1;
    case ExprKind::kMul: {
      int64_t result = 1;
      for (int64_t m : multiples) {
        int64_t product = 0;
        result = __builtin_mul_overflow(result, m, &product) ? std::max(result, m) : product;
      }
      return result;
    }
    case ExprKind::kFloorDiv: {
      if (!args[1].is_constant()) return 1;
      const int64_t divisor = magnitude(args[1].constant());
      return divisor != 0 && multiples[0] % divisor == 0 ? multiples[0] / divisor : 1;
    }
    case ExprKind::kSelect: return std::gcd(multiples[1], multiples[2]);
    case ExprKind::kAdd:
    case ExprKind::kMod:
    case ExprKind::kMin:
    case ExprKind::kMax: {
      int64_t result = 0;
      for (int64_t m : multiples) result = std::gcd(result, m);
      return result;
    }
  }
  STAX_UNREACHABLE();
}

Expr ExprStore::intern(ExprKind kind, int64_t value, std::vector<Expr> args, Interval known) {
  uint64_t hash = hash_combine(static_cast<uint64_t>(kind), value);
  for (Expr arg : args) hash = hash_combine(hash, arg);
  for (auto [it, end] = index.equal_range(hash); it != end; ++it) {
    const ExprNode& node = *it->second;
    if (node.kind == kind && node.value == value && node.args == args) return Expr(&node);
  }
  ExprNode& node = nodes.emplace_back();
  node.table = table;
  node.kind = kind;
  node.value = value;
  node.args = std::move(args);
  node.id = static_cast<uint32_t>(nodes.size() - 1);
  if (kind == ExprKind::kConstant) {
    node.range = {value, value};
    node.multiple = magnitude(value);
  } else if (kind == ExprKind::kSymbol) {
    const SymbolInfo& info = symbols[static_cast<size_t>(value)];
    node.range = declared_range(info);
    node.multiple = info.multiple;
  } else {
    std::vector<Interval> ranges;
    std::vector<int64_t> multiples;
    for (Expr arg : node.args) {
      ranges.push_back(arg.range());
      multiples.push_back(arg.multiple());
      node.size = std::max(node.size, std::min(node.size + arg.node()->size, uint32_t{1} << 30));
    }
    node.multiple = multiple_from(kind, node.args, multiples);
    node.range = round_inwards(intersect(range_from(kind, ranges), known), node.multiple);
  }
  index.emplace(hash, &node);
  return Expr(&node);
}

Expr ExprStore::new_symbol(SymbolInfo info) {
  STAX_ASSERT(info.multiple >= 1, "symbol {} with the divisor {}", info.name, info.multiple);
  STAX_ASSERT(info.range.lo <= info.range.hi, "symbol {} with an empty range", info.name);
  if (info.name.empty()) info.name = "_";
  const std::string base = info.name;
  for (int suffix = 2; by_name.contains(info.name); ++suffix) info.name = base + "." + std::to_string(suffix);
  symbols.push_back(info);
  const Expr result = intern(ExprKind::kSymbol, static_cast<int64_t>(symbols.size() - 1), {});
  symbol_nodes.push_back(result);
  by_name.emplace(info.name, result);
  return result;
}

ExprTable::ExprTable() : impl_(std::make_unique<Impl>(this)) {}
ExprTable::~ExprTable() = default;

Expr ExprTable::constant(int64_t value) { return impl_->constant(value); }
Expr ExprTable::new_symbol(SymbolInfo info) { return impl_->new_symbol(std::move(info)); }
size_t ExprTable::symbol_count() const { return impl_->symbols.size(); }

Expr ExprTable::symbol(size_t number) const {
  STAX_ASSERT(number < symbol_count());
  return impl_->symbol_nodes[number];
}

Expr ExprTable::find_symbol(const std::string& name) const {
  auto found = impl_->by_name.find(name);
  return found == impl_->by_name.end() ? Expr() : found->second;
}

Expr ExprTable::make(ExprKind kind, std::vector<Expr> args) {
  Audit* const audit = Audit::current();
  if (audit == nullptr) return make(kind, std::move(args), declared_facts());
  const Expr made = make(kind, args, declared_facts());
  impl_->audited.check(*audit, kind, args, made);
  return made;
}

Expr ExprTable::make(ExprKind kind, std::vector<Expr> args, const Facts& facts) {
  return Simplifier(*impl_, facts).make(kind, std::move(args));
}

ExprKind Expr::kind() const { return node_of(*this).kind; }
std::span<const Expr> Expr::args() const { return node_of(*this).args; }
bool Expr::is_constant() const { return kind() == ExprKind::kConstant; }
bool Expr::is_constant(int64_t v) const { return is_constant() && node_->value == v; }
bool Expr::is_symbol() const { return kind() == ExprKind::kSymbol; }
uint32_t Expr::id() const { return node_of(*this).id; }
Interval Expr::range() const { return node_of(*this).range; }
int64_t Expr::multiple() const { return node_of(*this).multiple; }
ExprTable& Expr::table() const { return *node_of(*this).table; }

int64_t Expr::constant() const {
  STAX_ASSERT(is_constant(), "{} is not a constant", str());
  return node_->value;
}

const SymbolInfo& Expr::symbol() const {
  STAX_ASSERT(is_symbol(), "{} is not a symbol", str());
  return node_->table->impl_->symbols[static_cast<size_t>(node_->value)];
}

// ---- Operators

Expr operator+(Expr a, Expr b) { return make(ExprKind::kAdd, {a, b}); }
Expr operator+(Expr a, int64_t b) { return a + constant_like(a, b); }
Expr operator-(Expr a) { return a * -1; }
Expr operator-(Expr a, Expr b) { return a + -b; }
Expr operator-(Expr a, int64_t b) { return a + saturating_mul(b, -1); }
Expr operator-(int64_t a, Expr b) { return constant_like(b, a) - b; }
Expr operator*(Expr a, Expr b) { return make(ExprKind::kMul, {a, b}); }
Expr operator*(Expr a, int64_t b) { return a * constant_like(a, b); }
Expr floordiv(Expr a, Expr b) { return make(ExprKind::kFloorDiv, {a, b}); }
Expr floordiv(Expr a, int64_t b) { return floordiv(a, constant_like(a, b)); }
Expr ceildiv(Expr a, Expr b) { return -floordiv(-a, b); }
Expr ceildiv(Expr a, int64_t b) { return ceildiv(a, constant_like(a, b)); }
Expr mod(Expr a, Expr b) { return make(ExprKind::kMod, {a, b}); }
Expr mod(Expr a, int64_t b) { return mod(a, constant_like(a, b)); }
Expr min(Expr a, Expr b) { return make(ExprKind::kMin, {a, b}); }
Expr max(Expr a, Expr b) { return make(ExprKind::kMax, {a, b}); }
Expr min(Expr a, int64_t b) { return min(a, constant_like(a, b)); }
Expr max(Expr a, int64_t b) { return max(a, constant_like(a, b)); }
Expr less(Expr a, Expr b) { return make(ExprKind::kLess, {a, b}); }
Expr less_equal(Expr a, Expr b) { return less(a, b + 1); }
Expr equal(Expr a, Expr b) { return make(ExprKind::kEqual, {a, b}); }
Expr equal(Expr a, int64_t b) { return equal(a, constant_like(a, b)); }
Expr logical_and(Expr a, Expr b) { return min(a, b); }
Expr logical_or(Expr a, Expr b) { return max(a, b); }
Expr logical_not(Expr a) { return 1 - a; }
Expr select(Expr condition, Expr a, Expr b) { return make(ExprKind::kSelect, {condition, a, b}); }

// ---- Traversals

void visit(Expr root, const std::function<void(Expr)>& visit) {
  std::unordered_set<const ExprNode*> seen;
  std::vector<std::pair<Expr, size_t>> stack;  // node, next argument
  const auto enter = [&](Expr e) {
    if (seen.insert(&node_of(e)).second) stack.emplace_back(e, 0);
  };
  enter(root);
  while (!stack.empty()) {
    const Expr e = stack.back().first;
    if (size_t& next = stack.back().second; next < e.args().size()) {
      enter(e.args()[next++]);
    } else {
      stack.pop_back();
      visit(e);
    }
  }
}

std::vector<Expr> free_symbols(Expr root) {
  std::vector<Expr> result;
  visit(root, [&](Expr e) {
    if (e.is_symbol()) result.push_back(e);
  });
  std::sort(result.begin(), result.end(), [](Expr a, Expr b) { return a.id() < b.id(); });
  return result;
}

bool depends_on(Expr root, Expr symbol) {
  bool found = false;
  visit(root, [&](Expr e) { found = found || e == symbol; });
  return found;
}

Expr substitute(Expr root, const Substitution& map) {
  if (map.empty()) return root;
  std::unordered_map<const ExprNode*, Expr> done;
  const std::function<Expr(Expr)> walk = [&](Expr e) -> Expr {
    if (auto found = map.find(e.node()); found != map.end()) return found->second;
    if (e.args().empty()) return e;
    if (auto found = done.find(e.node()); found != done.end()) return found->second;
    std::vector<Expr> args;
    bool changed = false;
    for (Expr arg : e.args()) {
      args.push_back(walk(arg));
      changed = changed || args.back() != arg;
    }
    const Expr result = changed ? e.table().make(e.kind(), std::move(args)) : e;
    done.emplace(e.node(), result);
    return result;
  };
  return walk(root);
}

Interval range_of(Expr e, const RangeOverrides& overrides) {
  if (overrides.empty()) return e.range();
  std::unordered_map<const ExprNode*, Interval> known;
  std::vector<Interval> args;
  visit(e, [&](Expr node) {
    Interval r = node.range();
    if (!node.args().empty()) {
      args.clear();
      for (Expr arg : node.args()) args.push_back(known.at(arg.node()));
      r = intersect(r, round_inwards(range_from(node.kind(), args), node.multiple()));
    }
    if (auto found = overrides.find(node.node()); found != overrides.end()) r = intersect(r, found->second);
    known.emplace(node.node(), r);
  });
  return known.at(e.node());
}

std::optional<Affine> affine_in(Expr e, Expr symbol) {
  STAX_ASSERT(symbol && symbol.is_symbol(), "affine_in asks for a symbol");
  Expr coefficient = e.table().constant(0), rest = coefficient;
  const auto take = [&](Expr term) {
    if (!depends_on(term, symbol)) {
      rest = rest + term;
      return true;
    }
    Expr others = e.table().constant(1);
    bool taken = false;
    const std::vector<Expr> factors =
        term.kind() == ExprKind::kMul ? std::vector<Expr>(term.args().begin(), term.args().end()) : std::vector{term};
    for (Expr factor : factors) {
      if (factor == symbol && !taken)
        taken = true;
      else if (depends_on(factor, symbol))
        return false;
      else
        others = others * factor;
    }
    coefficient = coefficient + others;
    return taken;
  };
  if (e.kind() != ExprKind::kAdd) {
    if (!take(e)) return std::nullopt;
    return Affine{coefficient, rest};
  }
  for (Expr term : e.args())
    if (!take(term)) return std::nullopt;
  return Affine{coefficient, rest};
}

}  // namespace stax::symbolic
