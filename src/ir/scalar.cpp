// SPDX-License-Identifier: Apache-2.0
#include "ir/scalar.h"

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <unordered_set>

#include "ir/scalar_table.h"
#include "support/error.h"
#include "support/hash.h"

namespace stax::ir {
namespace {

enum class ResultRule : uint8_t { kSame, kBool, kSelect, kIndex, kHash };

struct Row {
  std::string_view name;
  int arity;
  ResultRule rule;
};

constexpr Row kRows[] = {
#define STAX_SCALAR_OP(Name, text, arity, rule) {text, arity, ResultRule::k##rule},
#include "ir/scalar_op.def"
};

const Row& row(ScalarOp op) {
  STAX_ASSERT(static_cast<size_t>(op) < std::size(kRows));
  return kRows[static_cast<size_t>(op)];
}

/// Whether `op` is defined on arguments of type `t`.
bool accepts(ScalarOp op, DType t) {
  switch (op) {
    case ScalarOp::kSqrt:
#define STAX_ELEMENTARY_OP(Name, text, arity) case ScalarOp::k##Name:
#include "ir/scalar_op.def"
      return is_float(t);
    case ScalarOp::kNot:
    case ScalarOp::kAnd:
    case ScalarOp::kOr:
    case ScalarOp::kXor: return !is_float(t);
    case ScalarOp::kShiftLeft:
    case ScalarOp::kShiftRight: return is_integer(t);
    default: return true;
  }
}

const ScalarNode& node_of(Scalar x) {
  STAX_ASSERT(x, "an absent scalar");
  return *x.node();
}

}  // namespace

// ---- Operations

std::string_view name_of(ScalarOp op) { return row(op).name; }
int arity_of(ScalarOp op) { return row(op).arity; }

std::optional<ScalarOp> parse_scalar_op(std::string_view name) {
  for (size_t i = 0; i < std::size(kRows); ++i)
    if (kRows[i].name == name) return static_cast<ScalarOp>(i);
  return std::nullopt;
}

DType result_dtype(ScalarOp op, std::span<const DType> args) {
  const Row& r = row(op);
  STAX_ASSERT(static_cast<int>(args.size()) == r.arity, "{} of {} arguments", r.name, args.size());
  if (r.rule == ResultRule::kSelect) {
    STAX_ASSERT(args[0] == DType::kBool, "select on {}", name_of(args[0]));
    STAX_ASSERT(args[1] == args[2], "select of {} and {}", name_of(args[1]), name_of(args[2]));
    return args[1];
  }
  for (DType t : args) STAX_ASSERT(t == args[0], "{} of {} and {}", r.name, name_of(args[0]), name_of(t));
  switch (r.rule) {
    case ResultRule::kSame:
    case ResultRule::kBool:
      STAX_ASSERT(accepts(op, args[0]), "{} of {}", r.name, name_of(args[0]));
      return r.rule == ResultRule::kBool ? DType::kBool : args[0];
    case ResultRule::kIndex:
    case ResultRule::kHash:
      STAX_ASSERT(args[0] == DType::kI64, "{} of {}", r.name, name_of(args[0]));
      return r.rule == ResultRule::kHash ? DType::kU32 : DType::kI64;
    case ResultRule::kSelect: break;
  }
  STAX_UNREACHABLE();
}

// ---- Nodes and table

double ScalarNode::as_double() const {
  STAX_ASSERT(kind == ScalarKind::kConstant && is_float(dtype));
  return std::bit_cast<double>(bits);
}

int64_t ScalarNode::as_int() const {
  STAX_ASSERT(kind == ScalarKind::kConstant && !is_float(dtype));
  return static_cast<int64_t>(bits);
}

Scalar ScalarTable::Impl::intern(ScalarNode parts) {
  uint64_t hash = hash_combine(static_cast<uint64_t>(parts.kind), static_cast<int>(parts.dtype),
                               static_cast<int>(parts.op), parts.bits, parts.slot, parts.index);
  for (Scalar arg : parts.args) hash = hash_combine(hash, arg.node());
  for (auto [it, end] = index.equal_range(hash); it != end; ++it) {
    const ScalarNode& node = *it->second;
    if (node.kind == parts.kind && node.dtype == parts.dtype && node.op == parts.op && node.bits == parts.bits &&
        node.index == parts.index && node.slot == parts.slot && node.args == parts.args)
      return Scalar(&node);
  }
  parts.id = static_cast<uint32_t>(nodes.size());
  const ScalarNode& node = nodes.emplace_back(std::move(parts));
  index.emplace(hash, &node);
  return Scalar(&node);
}

ScalarTable::ScalarTable(symbolic::ExprTable& exprs) : impl_(std::make_unique<Impl>(exprs)) {}
ScalarTable::~ScalarTable() = default;
symbolic::ExprTable& ScalarTable::exprs() { return impl_->exprs; }

Scalar ScalarTable::constant(DType t, double value) {
  if (!is_float(t)) {
    Value64 v;
    v.f = value;
    return constant_int(t, evaluate_cast(t, DType::kF64, v).i);
  }
  ScalarNode node;
  node.table = this;
  node.dtype = t;
  // One NaN, so that it has one node.
  const double rounded = std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : round_to(t, value);
  node.bits = std::bit_cast<uint64_t>(rounded);
  return impl_->intern(std::move(node));
}

Scalar ScalarTable::constant_int(DType t, int64_t value) {
  if (is_float(t)) {
    Value64 v;
    v.i = value;
    return constant(t, evaluate_cast(t, DType::kI64, v).f);
  }
  ScalarNode node;
  node.table = this;
  node.dtype = t;
  node.bits = static_cast<uint64_t>(wrap_integer(t, value));
  return impl_->intern(std::move(node));
}

Scalar ScalarTable::index(symbolic::Expr e) {
  STAX_ASSERT(e, "an absent index");
  STAX_ASSERT(&e.table() == &impl_->exprs, "an index of another table");
  if (e.is_constant()) return constant_int(DType::kI64, e.constant());
  ScalarNode node;
  node.table = this;
  node.kind = ScalarKind::kIndex;
  node.dtype = DType::kI64;
  node.index = e;
  return impl_->intern(std::move(node));
}

Scalar ScalarTable::load(int slot, DType t, std::vector<Scalar> indices) {
  STAX_ASSERT(slot >= 0, "a load of slot {}", slot);
  for (Scalar i : indices)
    STAX_ASSERT(node_of(i).dtype == DType::kI64 && i->table == this, "an index of type {}", name_of(i->dtype));
  ScalarNode node;
  node.table = this;
  node.kind = ScalarKind::kLoad;
  node.dtype = t;
  node.slot = slot;
  node.args = std::move(indices);
  return impl_->intern(std::move(node));
}

Scalar ScalarTable::accumulator(DType t) {
  ScalarNode node;
  node.table = this;
  node.kind = ScalarKind::kAccumulator;
  node.dtype = t;
  return impl_->intern(std::move(node));
}

// ---- Spelling helpers

Scalar unary(ScalarOp op, Scalar a) { return node_of(a).table->op(op, {a}); }
Scalar binary(ScalarOp op, Scalar a, Scalar b) { return node_of(a).table->op(op, {a, b}); }
Scalar operator+(Scalar a, Scalar b) { return binary(ScalarOp::kAdd, a, b); }
Scalar operator-(Scalar a, Scalar b) { return binary(ScalarOp::kSub, a, b); }
Scalar operator*(Scalar a, Scalar b) { return binary(ScalarOp::kMul, a, b); }
Scalar operator/(Scalar a, Scalar b) { return binary(ScalarOp::kDiv, a, b); }
Scalar operator-(Scalar a) { return unary(ScalarOp::kNeg, a); }
Scalar less(Scalar a, Scalar b) { return binary(ScalarOp::kLess, a, b); }
Scalar less_equal(Scalar a, Scalar b) { return binary(ScalarOp::kLessEqual, a, b); }
Scalar equal(Scalar a, Scalar b) { return binary(ScalarOp::kEqual, a, b); }
Scalar cast(DType t, Scalar x) { return node_of(x).table->cast(t, x); }

Scalar select(Scalar condition, Scalar a, Scalar b) {
  return node_of(condition).table->op(ScalarOp::kSelect, {condition, a, b});
}

symbolic::Expr as_expr(Scalar x) {
  const ScalarNode& node = node_of(x);
  if (node.kind == ScalarKind::kIndex) return node.index;
  if (node.kind == ScalarKind::kConstant && node.dtype == DType::kI64)
    return node.table->exprs().constant(node.as_int());
  return {};
}

// ---- Traversals

void visit(Scalar root, const std::function<void(Scalar)>& visit) {
  std::unordered_set<const ScalarNode*> seen;
  std::vector<std::pair<Scalar, size_t>> stack;  // node, next argument
  const auto enter = [&](Scalar x) {
    if (seen.insert(&node_of(x)).second) stack.emplace_back(x, 0);
  };
  enter(root);
  while (!stack.empty()) {
    const Scalar x = stack.back().first;
    if (size_t& next = stack.back().second; next < x->args.size()) {
      enter(x->args[next++]);
    } else {
      stack.pop_back();
      visit(x);
    }
  }
}

Scalar rewrite(Scalar root, const symbolic::Substitution& indices, const std::function<Scalar(Scalar)>& rewrite) {
  std::unordered_map<const ScalarNode*, Scalar> done;
  std::unordered_set<const ScalarNode*> produced;
  visit(root, [&](Scalar x) {
    ScalarTable& table = *x->table;
    Scalar rebuilt = x;
    bool in_place = true;
    if (x->kind == ScalarKind::kIndex) {
      rebuilt = table.index(symbolic::substitute(x->index, indices));
    } else if (!x->args.empty()) {
      std::vector<Scalar> args;
      bool changed = false;
      for (Scalar arg : x->args) {
        args.push_back(done.at(arg.node()));
        changed = changed || args.back() != arg;
      }
      if (changed && x->kind == ScalarKind::kLoad) {
        rebuilt = table.load(x->slot, x->dtype, std::move(args));
      } else if (changed) {
        rebuilt = x->kind == ScalarKind::kCast ? table.cast(x->dtype, args[0]) : table.op(x->op, args);
        in_place = rebuilt->kind == x->kind && rebuilt->op == x->op && rebuilt->args == args;
      }
    }
    // What folded to a part that has been rewritten is not rewritten again.
    const Scalar result = !in_place && produced.contains(rebuilt.node()) ? rebuilt : rewrite(rebuilt);
    STAX_ASSERT(result, "a rewrite gave an absent scalar");
    done.emplace(x.node(), result);
    produced.insert(result.node());
  });
  return done.at(root.node());
}

Scalar substitute(Scalar root, const symbolic::Substitution& indices) {
  return rewrite(root, indices, [](Scalar x) { return x; });
}

size_t node_count(Scalar root) {
  size_t count = 0;
  visit(root, [&](Scalar) { ++count; });
  return count;
}

size_t operation_count(Scalar root) {
  size_t count = 0;
  visit(root, [&](Scalar x) { count += x->kind == ScalarKind::kOp; });
  return count;
}

bool has_load(Scalar root) {
  bool found = false;
  visit(root, [&](Scalar x) { found = found || x->kind == ScalarKind::kLoad; });
  return found;
}

}  // namespace stax::ir
