// SPDX-License-Identifier: Apache-2.0
#pragma once
// Integer algebra of shapes and indices.
//
// An Expr is a handle to an immutable node of an ExprTable. Nodes are hash-consed and kept in a canonical form, so
// that pointer equality is structural equality: sums are flattened, sorted, with like terms collected; products
// likewise, so that a*b and b*a are one node; constants are folded. Every constructor simplifies.
//
// Semantics (64-bit signed, the same in the compiler and in the runtime's evaluator):
//   a + b, a * b          saturate at the ends of int64 instead of wrapping, so that an absurd size stays absurd
//   floordiv(a, b)        rounds towards minus infinity; floordiv(a, 0) = 0
//   mod(a, b)             a - b * floordiv(a, b); mod(a, 0) = 0
//   less(a, b), equal     1 or 0; logical and is min, or is max, not is 1 - x
//   select(c, a, b)       a if c != 0, else b
// Simplification keeps the value of every expression in which no intermediate value saturates.
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace stax {
class Lexer;
}

namespace stax::symbolic {

inline constexpr int64_t kNegInf = std::numeric_limits<int64_t>::min();
inline constexpr int64_t kPosInf = std::numeric_limits<int64_t>::max();
// The default range of a dimension is 0 .. kMaxExtent.
inline constexpr int64_t kMaxExtent = (int64_t{1} << 31) - 1;

/// Closed interval of int64; kNegInf / kPosInf stand for "unbounded".
struct Interval {
  int64_t lo = kNegInf;
  int64_t hi = kPosInf;
  bool operator==(const Interval&) const = default;
  bool contains(int64_t v) const { return lo <= v && v <= hi; }
  bool is_constant() const { return lo == hi; }
};

enum class Truth : uint8_t { kNo, kYes, kUnknown };

enum class ExprKind : uint8_t { kConstant, kSymbol, kAdd, kMul, kFloorDiv, kMod, kMin, kMax, kLess, kEqual, kSelect };

enum class SymbolKind : uint8_t {
  kDim,    // an extent of a graph input
  kValue,  // bound in the middle of a program: an extent that depends on data, or an element of a host value
  kLoop,   // a loop or axis variable
  kParam,  // a parameter of a kernel
};

/// What is known of a symbol from its declaration on; never changed afterwards.
struct SymbolInfo {
  std::string name;
  SymbolKind kind = SymbolKind::kDim;
  Interval range{0, kMaxExtent};
  int64_t multiple = 1;  // the value is divisible by this
};

class ExprTable;
struct ExprNode;
class Facts;

/// A null Expr (default-constructed) means "absent"; any arithmetic on it is an InternalError.
class Expr {
 public:
  Expr() = default;
  explicit Expr(const ExprNode* node) : node_(node) {}
  explicit operator bool() const { return node_ != nullptr; }
  const ExprNode* node() const { return node_; }
  bool operator==(const Expr&) const = default;  // structural, as nodes are hash-consed

  ExprKind kind() const;
  std::span<const Expr> args() const;
  bool is_constant() const;
  bool is_constant(int64_t v) const;
  int64_t constant() const;  // requires is_constant()
  bool is_symbol() const;
  const SymbolInfo& symbol() const;  // requires is_symbol()
  uint32_t id() const;               // dense over the table, in order of creation; stable from run to run
  Interval range() const;            // sound bounds from the symbols' declared ranges alone
  int64_t multiple() const;          // a divisor known from the symbols' declared multiples alone; 0 for constant 0
  ExprTable& table() const;
  std::string str() const;  // round-trips through parse_expr

 private:
  const ExprNode* node_ = nullptr;
};

Expr operator+(Expr a, Expr b);
Expr operator+(Expr a, int64_t b);
Expr operator-(Expr a, Expr b);
Expr operator-(Expr a, int64_t b);
Expr operator-(int64_t a, Expr b);
Expr operator-(Expr a);
Expr operator*(Expr a, Expr b);
Expr operator*(Expr a, int64_t b);
Expr floordiv(Expr a, Expr b);
Expr floordiv(Expr a, int64_t b);
Expr ceildiv(Expr a, Expr b);  // -floordiv(-a, b)
Expr ceildiv(Expr a, int64_t b);
Expr mod(Expr a, Expr b);
Expr mod(Expr a, int64_t b);
Expr min(Expr a, Expr b);
Expr max(Expr a, Expr b);
Expr min(Expr a, int64_t b);
Expr max(Expr a, int64_t b);
Expr less(Expr a, Expr b);
Expr less_equal(Expr a, Expr b);
Expr equal(Expr a, Expr b);
Expr equal(Expr a, int64_t b);
Expr logical_and(Expr a, Expr b);
Expr logical_or(Expr a, Expr b);
Expr logical_not(Expr a);
Expr select(Expr condition, Expr a, Expr b);

struct ExprNode {
  ExprTable* table = nullptr;
  ExprKind kind = ExprKind::kConstant;
  int64_t value = 0;       // the constant, or the symbol's number
  std::vector<Expr> args;  // canonical order
  uint32_t id = 0;
  Interval range;
  int64_t multiple = 1;
  uint32_t size = 1;  // nodes of the tree (shared ones counted each time); saturates
};

/// Owns the nodes and symbols of one compilation. Not thread-safe. Not movable (nodes point at it).
class ExprTable {
 public:
  ExprTable();
  ~ExprTable();
  ExprTable(const ExprTable&) = delete;
  ExprTable& operator=(const ExprTable&) = delete;

  Expr constant(int64_t value);
  /// A new symbol, different from every other, also where the name is the same (identity is the object; a clash of
  /// names is resolved in print by the table giving the later one the suffix ".2", ".3", ... at creation).
  Expr new_symbol(SymbolInfo info);
  Expr find_symbol(const std::string& name) const;  // null if there is none
  size_t symbol_count() const;
  Expr symbol(size_t number) const;
  /// Raw n-ary constructor used by the operators above and by the parser; canonicalizes.
  Expr make(ExprKind kind, std::vector<Expr> args);
  /// The same with facts beyond the symbols' declarations (facts.h).
  Expr make(ExprKind kind, std::vector<Expr> args, const Facts& facts);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
  friend class Expr;
};

/// Calls `visit` on every distinct node below and including `root`, arguments first.
void visit(Expr root, const std::function<void(Expr)>& visit);
std::vector<Expr> free_symbols(Expr root);  // in order of id
bool depends_on(Expr root, Expr symbol);

/// Replaces symbols (or whole subexpressions) by `map`; an unchanged expression comes back as the same pointer.
using Substitution = std::unordered_map<const ExprNode*, Expr>;
Expr substitute(Expr root, const Substitution& map);

/// Bounds of `e` when some symbols have narrower ranges than declared.
using RangeOverrides = std::unordered_map<const ExprNode*, Interval>;
Interval range_of(Expr e, const RangeOverrides& overrides);

/// Splits e = coefficient * symbol + rest with coefficient and rest free of `symbol`; nullopt if e is not of that
/// form. The coefficient may itself be an expression (a stride).
struct Affine {
  Expr coefficient, rest;
};
std::optional<Affine> affine_in(Expr e, Expr symbol);

/// Parses the text that str() prints; unknown identifiers are looked up by `resolve`, which may create symbols.
Expr parse_expr(ExprTable& table, const std::string& text, const std::function<Expr(const std::string&)>& resolve);
/// The same from the middle of a longer text: takes the longest expression and leaves what follows it.
Expr parse_expr(ExprTable& table, Lexer& lexer, const std::function<Expr(const std::string&)>& resolve);

}  // namespace stax::symbolic

template <>
struct std::hash<stax::symbolic::Expr> {
  size_t operator()(stax::symbolic::Expr e) const noexcept { return std::hash<const void*>()(e.node()); }
};
