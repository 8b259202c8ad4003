// SPDX-License-Identifier: Apache-2.0
// Shape arithmetic as algebra. A graph computes extents with tensor ops: Shape, Gather, Mul, Concat, Reshape. Each is a
// Compute over a few integers, so its body can be evaluated once per element with expressions in the place of numbers.
// Where every element becomes an expression of the symbols, nothing is left to do at run time, and an extent made of it
// is related to those that it came from.
//
// Scalars wrap, expressions do not: arithmetic on 64-bit integers counts as exact, and a narrower one is evaluated only
// where the range of the outcome shows that it does not wrap. Floats are followed as numbers only, where a body passes
// through them.
#include <algorithm>
#include <unordered_map>

#include "support/error.h"
#include "symbolic/evaluate.h"
#include "tensor/builder.h"

namespace stax::tensor {

using ir::ScalarKind;
using ir::ScalarOp;
using ir::Value64;
using symbolic::Interval;
using symbolic::Truth;

namespace {

// Evaluations of bodies that one op may cost.
constexpr int64_t kMaxSteps = 1 << 16;

bool holds_integers(DType t) { return ir::is_integer(t) || t == DType::kBool; }

// What is known of a scalar: an expression (integers and bools), a number (floats), or nothing.
struct Known {
  Expr e;
  std::optional<double> f;
  explicit operator bool() const { return e || f; }
};

class Evaluator {
 public:
  Evaluator(Graph& graph, const Op& op) : graph_(graph), op_(op) {}

  void bind(const std::vector<Axis>& axes, const std::vector<int64_t>& point) {
    memo_.clear();
    for (size_t k = 0; k < axes.size(); ++k) values_[axes[k].var.node()] = graph_.exprs().constant(point[k]);
  }
  void set_accumulator(Expr e) {
    memo_.clear();
    accumulator_ = e;
  }

  Known evaluate(Scalar s) {
    const auto [found, is_new] = memo_.try_emplace(s.node());
    if (!is_new) return found->second;
    const Known known = compute(s);
    return memo_[s.node()] = known;
  }
  Expr integer(Scalar s) { return evaluate(s).e; }

  /// `e` if a value of `t` can be that without wrapping, else null.
  Expr fit(DType t, Expr e) const {
    if (!e) return {};
    if (e.is_constant()) return constant(ir::wrap_integer(t, e.constant()));
    if (t == DType::kI64) return e;
    const Interval range = graph_.constraints.range(e);
    if (t == DType::kBool) return range.lo >= 0 && range.hi <= 1 ? e : Expr();
    if (t == DType::kU64) return range.lo >= 0 ? e : Expr();
    const int bits = ir::bit_width(t) - (ir::is_signed(t) ? 1 : 0);
    const int64_t hi = (int64_t{1} << bits) - 1;
    const int64_t lo = ir::is_signed(t) ? -hi - 1 : 0;
    return range.lo >= lo && range.hi <= hi ? e : Expr();
  }

  Expr combine(Combiner c, DType t, Expr a, Expr b) const {
    switch (c) {
      case Combiner::kSum: return fit(t, a + b);
      case Combiner::kProd: return fit(t, a * b);
      case Combiner::kMin: return min(a, b);
      case Combiner::kMax: return max(a, b);
      case Combiner::kAnd: return t == DType::kBool ? logical_and(a, b) : Expr();
      case Combiner::kOr: return t == DType::kBool ? logical_or(a, b) : Expr();
      case Combiner::kNone: return b;
      case Combiner::kArgMaxFirst:
      case Combiner::kArgMaxLast:
      case Combiner::kArgMinFirst:
      case Combiner::kArgMinLast: return {};
    }
    STAX_UNREACHABLE();
  }

  Expr constant(int64_t v) const { return graph_.exprs().constant(v); }

  std::optional<int64_t> linear_index(const Value& v, const std::vector<Scalar>& indices) {
    int64_t linear = 0;
    for (size_t k = 0; k < indices.size(); ++k) {
      const Expr index = integer(indices[k]);
      const Expr extent = v.type.extents[k];
      if (!index || !index.is_constant() || !extent.is_constant()) return std::nullopt;
      if (index.constant() < 0 || index.constant() >= extent.constant()) return std::nullopt;
      linear = linear * extent.constant() + index.constant();
    }
    return linear;
  }

 private:
  bool not_negative(Expr e) const { return graph_.constraints.range(e).lo >= 0; }
  bool not_positive(Expr e) const { return graph_.constraints.range(e).hi <= 0; }

  // Division that rounds towards zero; x / 0 = 0.
  Expr divide(Expr a, Expr b) const {
    if (!not_negative(b)) {
      const Expr quotient = not_positive(b) ? divide(a, -b) : Expr();
      return quotient ? -quotient : quotient;
    }
    if (not_negative(a)) return floordiv(a, b);
    if (not_positive(a)) return -floordiv(-a, b);
    return select(less(a, constant(0)), -floordiv(-a, b), floordiv(a, b));
  }

  Known compute(Scalar s) {
    switch (s->kind) {
      case ScalarKind::kConstant:
        if (ir::is_float(s->dtype)) return {{}, s->as_double()};
        return {constant(s->as_int()), {}};
      case ScalarKind::kIndex: return {symbolic::substitute(s->index, values_), {}};
      case ScalarKind::kAccumulator: return {accumulator_, {}};
      case ScalarKind::kLoad: return load(s);
      case ScalarKind::kCast: return cast(s);
      case ScalarKind::kOp: return apply(s);
    }
    STAX_UNREACHABLE();
  }

  Known load(Scalar s) {
    const Value& v = *op_.operands.at(s->slot);
    const std::optional<int64_t> linear = linear_index(v, s->args);
    if (!linear) return {};
    if (v.contents) return {v.contents->at(*linear), {}};
    const auto* known = v.producer == nullptr ? nullptr : v.producer->as<Constant>();
    if (known == nullptr) return {};
    const Value64 element = known->literal.at(*linear);
    if (ir::is_float(s->dtype)) return {{}, element.f};
    return {constant(element.i), {}};
  }

  Known cast(Scalar s) {
    const Scalar from = s->args[0];
    const Known x = evaluate(from);
    if (!x) return {};
    if (x.f || x.e.is_constant()) {
      const Value64 value = x.f ? Value64{.f = *x.f} : Value64{.i = x.e.constant()};
      return number(s->dtype, ir::evaluate_cast(s->dtype, from->dtype, value));
    }
    if (ir::is_float(s->dtype)) return {};
    if (s->dtype == DType::kBool) {
      const Interval range = graph_.constraints.range(x.e);
      return {range.lo >= 0 && range.hi <= 1 ? x.e : logical_not(equal(x.e, 0)), {}};
    }
    return {fit(s->dtype, x.e), {}};
  }

  Known number(DType t, Value64 value) const {
    if (ir::is_float(t)) return {{}, value.f};
    return {constant(value.i), {}};
  }

  Known apply(Scalar s) {
    if (s->op == ScalarOp::kSelect) {
      const Expr condition = integer(s->args[0]);
      if (!condition) return {};
      const Truth truth = graph_.constraints.truth(condition);
      if (truth == Truth::kYes) return evaluate(s->args[1]);
      if (truth == Truth::kNo) return evaluate(s->args[2]);
      const Expr a = integer(s->args[1]);
      const Expr b = integer(s->args[2]);
      return {a && b ? select(condition, a, b) : Expr(), {}};
    }
    std::vector<Known> args;
    bool all_numbers = true;
    for (Scalar argument : s->args) {
      args.push_back(evaluate(argument));
      if (!args.back()) return {};
      all_numbers = all_numbers && (args.back().f || args.back().e.is_constant());
    }
    const DType t = s->args[0]->dtype;
    if (all_numbers && s->op != ScalarOp::kCheckedIndex) {
      std::vector<Value64> values;
      for (const Known& x : args) values.push_back(x.f ? Value64{.f = *x.f} : Value64{.i = x.e.constant()});
      return number(s->dtype, ir::evaluate_scalar_op(s->op, t, values));
    }
    if (!holds_integers(t)) return {};
    return {fit(s->dtype, apply_integers(s->op, t, args[0].e, args.size() > 1 ? args[1].e : Expr())), {}};
  }

  // With at least one argument that is no constant. Null: not known.
  Expr apply_integers(ScalarOp op, DType t, Expr a, Expr b) const {
    const bool is_bool = t == DType::kBool;
    switch (op) {
      case ScalarOp::kAdd: return a + b;
      case ScalarOp::kSub: return a - b;
      case ScalarOp::kMul: return a * b;
      case ScalarOp::kDiv: return divide(a, b);
      case ScalarOp::kModFloor: return mod(a, b);
      case ScalarOp::kModTrunc: {
        const Expr quotient = divide(a, b);
        return quotient ? select(equal(b, 0), constant(0), a - b * quotient) : quotient;
      }
      case ScalarOp::kMin: return min(a, b);
      case ScalarOp::kMax: return max(a, b);
      case ScalarOp::kPow: {
        if (!b.is_constant() || b.constant() < 0 || b.constant() > 8) return {};
        Expr power = constant(1);
        for (int64_t k = 0; k < b.constant(); ++k) power = power * a;
        return power;
      }
      case ScalarOp::kNeg: return -a;
      case ScalarOp::kAbs: return max(a, -a);
      case ScalarOp::kSign: return select(less(a, constant(0)), constant(-1), min(a, 1));
      case ScalarOp::kFloor:
      case ScalarOp::kCeil:
      case ScalarOp::kTrunc:
      case ScalarOp::kRoundEven: return a;
      case ScalarOp::kNot: return is_bool ? logical_not(a) : ir::is_signed(t) ? -a - 1 : Expr();
      case ScalarOp::kAnd: return is_bool ? logical_and(a, b) : Expr();
      case ScalarOp::kOr: return is_bool ? logical_or(a, b) : Expr();
      case ScalarOp::kXor: return is_bool ? logical_not(equal(a, b)) : Expr();
      case ScalarOp::kShiftLeft:
        return b.is_constant() && b.constant() >= 0 && b.constant() < 62 ? a * (int64_t{1} << b.constant()) : Expr();
      case ScalarOp::kShiftRight:
        return b.is_constant() && b.constant() >= 0 && b.constant() < 62 ? floordiv(a, int64_t{1} << b.constant())
                                                                         : Expr();
      case ScalarOp::kEqual: return equal(a, b);
      case ScalarOp::kNotEqual: return logical_not(equal(a, b));
      case ScalarOp::kLess: return less(a, b);
      case ScalarOp::kLessEqual: return less_equal(a, b);
      case ScalarOp::kCheckedIndex: {
        const symbolic::ConstraintSet& facts = graph_.constraints;
        if (facts.less_equal(constant(0), a) == Truth::kYes && facts.less(a, b) == Truth::kYes) return a;
        if (facts.less(a, constant(0)) == Truth::kYes && facts.less_equal(constant(0), a + b) == Truth::kYes)
          return a + b;
        return {};  // the check is still to be made
      }
      case ScalarOp::kIsNan:
      case ScalarOp::kIsInf: return constant(0);
      case ScalarOp::kSqrt:
#define STAX_ELEMENTARY_OP(Name, text, arity) case ScalarOp::k##Name:
#include "ir/scalar_op.def"
      case ScalarOp::kHash:
      case ScalarOp::kSelect: return {};
    }
    STAX_UNREACHABLE();
  }

  Graph& graph_;
  const Op& op_;
  symbolic::Substitution values_;
  Expr accumulator_;
  std::unordered_map<const ir::ScalarNode*, Known> memo_;
};

std::optional<int64_t> points_of(const std::vector<Axis>& axes) {
  int64_t points = 1;
  for (const Axis& axis : axes) {
    if (!axis.extent.is_constant()) return std::nullopt;
    points = symbolic::saturating_mul(points, axis.extent.constant());
  }
  return points;
}

// Calls f(point) for every point in row-major order until it returns false; true if it never did.
template <class F>
bool for_each_point(const std::vector<Axis>& axes, const F& f) {
  const int64_t count = *points_of(axes);
  std::vector<int64_t> point(axes.size(), 0);
  for (int64_t n = 0; n < count; ++n) {
    if (!f(point)) return false;
    for (size_t k = axes.size(); k-- > 0;) {
      if (++point[k] < axes[k].extent.constant()) break;
      point[k] = 0;
    }
  }
  return true;
}

Expr neutral_element(const Evaluator& evaluator, Combiner c, DType t) {
  const int bits = ir::bit_width(t);
  switch (c) {
    case Combiner::kSum:
    case Combiner::kOr: return evaluator.constant(0);
    case Combiner::kProd:
    case Combiner::kAnd: return evaluator.constant(1);
    case Combiner::kMin:
    case Combiner::kMax: {
      if (t == DType::kBool) return evaluator.constant(c == Combiner::kMin ? 1 : 0);
      if (!ir::is_signed(t)) return evaluator.constant(c == Combiner::kMax ? 0 : ir::wrap_integer(t, -1));
      const int64_t least = bits == 64 ? symbolic::kNegInf : -(int64_t{1} << (bits - 1));
      return evaluator.constant(c == Combiner::kMax ? least : -(least + 1));
    }
    case Combiner::kNone:
    case Combiner::kArgMaxFirst:
    case Combiner::kArgMaxLast:
    case Combiner::kArgMinFirst:
    case Combiner::kArgMinLast: return {};
  }
  STAX_UNREACHABLE();
}

using Contents = std::optional<std::vector<Expr>>;

Contents contents_of_compute(Graph& graph, const Op& op, const Compute& compute) {
  const auto reduced = points_of(compute.reductions);
  if (!reduced || *reduced > kMaxSteps || symbolic::saturating_mul(*points_of(compute.axes), *reduced) > kMaxSteps)
    return std::nullopt;
  if (is_arg(compute.combiner) || (!compute.reductions.empty() && !holds_integers(compute.accumulate)))
    return std::nullopt;
  const DType t = op.result()->type.dtype;
  Evaluator evaluator(graph, op);
  std::vector<Expr> result;
  const bool known = for_each_point(compute.axes, [&](const std::vector<int64_t>& point) {
    evaluator.bind(compute.axes, point);
    Expr element;
    if (compute.reductions.empty()) {
      element = evaluator.integer(compute.body);
    } else {
      element = neutral_element(evaluator, compute.combiner, compute.accumulate);
      const bool reduced_all = for_each_point(compute.reductions, [&](const std::vector<int64_t>& inner) {
        evaluator.bind(compute.reductions, inner);
        const Expr value = evaluator.fit(compute.accumulate, evaluator.integer(compute.body));
        element = value && element ? evaluator.combine(compute.combiner, compute.accumulate, element, value) : Expr();
        return static_cast<bool>(element);
      });
      if (!reduced_all) return false;
      if (compute.epilogue) {
        evaluator.set_accumulator(element);
        element = evaluator.integer(compute.epilogue);
      }
    }
    element = evaluator.fit(t, element);
    if (element) result.push_back(element);
    return static_cast<bool>(element);
  });
  return known ? Contents(std::move(result)) : std::nullopt;
}

Contents contents_of_scatter(Graph& graph, const Op& op, const Scatter& scatter) {
  const Value& data = *op.operands[0];
  const auto points = points_of(scatter.axes);
  if (!data.contents || !points || *points > kMaxSteps) return std::nullopt;
  std::vector<Expr> result = *data.contents;
  Evaluator evaluator(graph, op);
  const bool known = for_each_point(scatter.axes, [&](const std::vector<int64_t>& point) {
    evaluator.bind(scatter.axes, point);
    if (scatter.guard) {
      const Expr guard = evaluator.integer(scatter.guard);
      if (!guard || !guard.is_constant()) return false;
      if (guard.is_constant(0)) return true;
    }
    const auto linear = evaluator.linear_index(data, scatter.index);
    const Expr value = evaluator.fit(data.type.dtype, evaluator.integer(scatter.value));
    if (!linear || !value) return false;
    Expr& element = result.at(*linear);
    element = evaluator.combine(scatter.mode, data.type.dtype, element, value);
    return static_cast<bool>(element);
  });
  return known ? Contents(std::move(result)) : std::nullopt;
}

Contents contents_of_scan(Graph& graph, const Op& op, const PrefixScan& scan) {
  const Value& data = *op.operands[0];
  if (!data.contents) return std::nullopt;
  const DType t = data.type.dtype;
  const int64_t length = data.type.extents.at(scan.axis).constant();
  int64_t stride = 1;
  for (size_t k = scan.axis + 1; k < data.type.extents.size(); ++k) stride *= data.type.extents[k].constant();
  const int64_t count = static_cast<int64_t>(data.contents->size());
  std::vector<Expr> result(data.contents->size());
  Evaluator evaluator(graph, op);
  for (int64_t first = 0; first < count; ++first) {
    if (stride * length == 0 || (first / stride) % length != 0) continue;
    Expr total = neutral_element(evaluator, scan.combiner, t);
    for (int64_t k = 0; k < length; ++k) {
      const int64_t at = first + (scan.reverse ? length - 1 - k : k) * stride;
      const Expr next = total ? evaluator.combine(scan.combiner, t, total, data.contents->at(at)) : Expr();
      result[at] = scan.exclusive ? total : next;
      if (!result[at]) return std::nullopt;
      total = next;
    }
  }
  return result;
}

}  // namespace

std::optional<std::vector<Expr>> infer_contents(Graph& graph, const Op& op) {
  if (op.results.empty()) return std::nullopt;
  const Type& type = op.result()->type;
  const std::optional<int64_t> count = constant_count(type);
  if (!count || *count > kMaxContents || !holds_integers(type.dtype)) return std::nullopt;

  if (const auto* constant = op.as<Constant>()) {
    std::vector<Expr> elements;
    for (int64_t i = 0; i < *count; ++i) elements.push_back(graph.exprs().constant(constant->literal.at(i).i));
    return elements;
  }
  if (const auto* compute = op.as<Compute>()) return contents_of_compute(graph, op, *compute);
  if (op.as<Reshape>() != nullptr) return op.operands[0]->contents;
  if (const auto* scatter = op.as<Scatter>()) return contents_of_scatter(graph, op, *scatter);
  if (const auto* scan = op.as<PrefixScan>()) return contents_of_scan(graph, op, *scan);
  return std::nullopt;
}

}  // namespace stax::tensor
