// SPDX-License-Identifier: Apache-2.0
#include "bisect/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "bisect/copy_op.h"
#include "symbolic/evaluate.h"
#include "tensor/rewrite.h"

namespace stax::bisect {
namespace {

using ir::DType;
using tensor::Item;
using tensor::Literal;

constexpr uint64_t kDraws = 8;
// How much further than a perturbation moved it an element may be.
constexpr double kSlack = 32;

struct Tolerance {
  double relative, of_largest, least;
};
Tolerance tolerance_of(DType t) {
  switch (t) {
    case DType::kF16: return {4e-3, 1e-3, 1e-7};
    case DType::kBF16: return {3e-2, 8e-3, 1e-37};
    case DType::kF64: return {1e-11, 1e-12, 1e-300};
    default: return {1e-5, 2e-6, 1e-37};  // f32: products count denormals as 0
  }
}
double epsilon_of(DType t) {
  switch (t) {
    case DType::kF16: return 0x1p-11;
    case DType::kBF16: return 0x1p-8;
    case DType::kF64: return 0x1p-53;
    default: return 0x1p-24;
  }
}

std::string index_text(int64_t linear, const std::vector<int64_t>& extents) {
  std::vector<int64_t> index(extents.size());
  for (size_t d = extents.size(); d-- > 0;) index[d] = linear % extents[d], linear /= extents[d];
  return fmt::format("[{}]", fmt::join(index, ", "));
}

std::string type_text(const Literal& l) {
  return fmt::format("{}[{}]", ir::name_of(l.dtype()), fmt::join(l.extents(), ", "));
}

class Elements {
 public:
  Elements(const Literal& got, const Literal& want, double rounding)
      : got_(got), want_(want), is_float_(ir::is_float(want.dtype())) {
    tolerance_ = tolerance_of(want.dtype());
    tolerance_.relative += rounding;
    for (int64_t k = 0; is_float_ && k < want.count(); ++k)
      if (double v = std::fabs(want.at(k).f); std::isfinite(v)) largest_ = std::max(largest_, v);
  }

  bool close(int64_t k) const {
    const ir::Value64 a = got_.at(k), b = want_.at(k);
    if (!is_float_) return a.i == b.i;
    if (std::isnan(b.f) || std::isnan(a.f)) return std::isnan(a.f) && std::isnan(b.f);
    if (a.f == b.f) return true;
    if (!std::isfinite(a.f) || !std::isfinite(b.f)) return false;
    return std::fabs(a.f - b.f) <=
           tolerance_.relative * std::fabs(b.f) + tolerance_.of_largest * largest_ + tolerance_.least;
  }

  /// Takes out of `wrong` what `moved`, one side of a perturbed run, explains.
  void explain(const Literal& moved, bool is_got, double slack, std::vector<int64_t>& wrong,
               std::vector<double>& most) const {
    std::vector<int64_t> left;
    std::vector<double> left_most;
    for (size_t j = 0; j < wrong.size(); ++j) {
      const ir::Value64 a = got_.at(wrong[j]), b = want_.at(wrong[j]), m = moved.at(wrong[j]);
      const ir::Value64 from = is_got ? a : b, other = is_got ? b : a;  // what moves, and what it may have become
      bool explained;
      double by = most[j];
      if (!is_float_) {
        by = std::max(by, std::fabs(static_cast<double>(m.i) - static_cast<double>(from.i)));
        // A whole number that a rounding decides moves by its step; a choice moves anywhere.
        explained = other.i == m.i || (by > 0 && std::fabs(static_cast<double>(a.i) - static_cast<double>(b.i)) <= by);
      } else if (!std::isfinite(a.f) || !std::isfinite(b.f)) {
        explained = other.f == m.f || (std::isnan(other.f) && std::isnan(m.f));
      } else {
        if (std::isfinite(m.f)) by = std::max(by, std::fabs(m.f - from.f));
        explained = other.f == m.f || std::fabs(a.f - b.f) <= slack * by;
      }
      if (explained) continue;
      left.push_back(wrong[j]);
      left_most.push_back(by);
    }
    wrong = std::move(left);
    most = std::move(left_most);
  }

  std::string text(const Literal& l, int64_t k) const {
    return is_float_ ? fmt::format("{:.9g}", l.at(k).f) : fmt::format("{}", l.at(k).i);
  }

 private:
  const Literal &got_, &want_;
  bool is_float_;
  Tolerance tolerance_;
  double largest_ = 0;
};

std::optional<Difference> compare_tensors(const Literal& got, const Literal& want, const Again& again,
                                          double rounding) {
  if (got.dtype() != want.dtype() || got.extents() != want.extents())
    return Difference{{}, type_text(want), type_text(got), 0, want.count()};
  if (want.bytes() == 0 || std::memcmp(got.data(), want.data(), want.bytes()) == 0) return std::nullopt;
  const Elements elements(got, want, rounding);
  std::vector<int64_t> wrong;
  for (int64_t k = 0; k < want.count(); ++k)
    if (!elements.close(k)) wrong.push_back(k);
  for (const double scale : {1.0, kSlack}) {
    std::vector<double> most(wrong.size(), 0.0);
    for (uint64_t draw = 0; again && !wrong.empty() && draw < kDraws; ++draw)
      if (std::optional<Item> moved = again.compute({draw, scale}); moved && moved->tensor.extents() == want.extents())
        elements.explain(moved->tensor, again.is_got, kSlack / scale, wrong, most);
  }
  if (wrong.empty()) return std::nullopt;
  return Difference{index_text(wrong[0], want.extents()), elements.text(want, wrong[0]), elements.text(got, wrong[0]),
                    static_cast<int64_t>(wrong.size()), want.count()};
}

Literal perturb_tensor(const Literal& from, Draw draw, size_t operand, double rounding) {
  if (!ir::is_float(from.dtype())) return from;
  Literal to(from.dtype(), from.extents());
  std::minstd_rand random(static_cast<uint32_t>((draw.number * 64 + operand) * 7919 + 17));
  std::uniform_real_distribution<double> unit(-1, 1);
  // The error of a sum of n terms grows as the root of n.
  const double epsilon = epsilon_of(from.dtype());
  const double step = draw.scale * (4 * epsilon + std::sqrt(rounding * epsilon));
  for (int64_t k = 0; k < from.count(); ++k) to.set(k, {.f = from.at(k).f * (1 + step * unit(random))});
  return to;
}

/// Equal draws move number `operand` equally.
Item perturb(const Item& item, Draw draw, size_t operand, double rounding = 0) {
  Item moved;
  moved.is_sequence = item.is_sequence;
  if (!item.is_sequence) moved.tensor = perturb_tensor(item.tensor, draw, operand, rounding);
  for (const Literal& l : item.sequence) moved.sequence.push_back(perturb_tensor(l, draw, operand, rounding));
  return moved;
}

/// Whether a float operation's result may be rounded.
bool rounds(ir::ScalarOp op) {
  using enum ir::ScalarOp;
  switch (op) {
    case kMin:
    case kMax:
    case kNeg:
    case kAbs:
    case kSign:
    case kFloor:
    case kCeil:
    case kTrunc:
    case kRoundEven:
    case kSelect: return false;
    default: return true;
  }
}

/// A copy of an op of one scalar function or several, with every float that these compute on the way moved. A chain of f32 that comes from whole numbers
/// has no float operand that could be moved, and rounds all the same.
class MovedOp {
 public:
  MovedOp(const tensor::Op& op, Draw draw) : graph_(op.block->graph->context), draw_(draw) {
    std::vector<tensor::Value*> operands;
    for (const tensor::Value* v : op.operands) operands.push_back(graph_.add_input(graph_.body, v->type, {}));
    std::vector<tensor::Type> types;
    for (const auto& r : op.results) types.push_back(r->type);
    op_ = graph_.add_op(graph_.body, payload_of(op, graph_), operands, types, op.defines, op.source);
    if (auto* group = op_->as<tensor::RowGroup>()) {
      group->body->parent = op_;
      for (const auto& inner : group->body->ops) move(*inner);
    } else {
      move(*op_);
    }
  }
  const tensor::Op& op() const { return *op_; }

 private:
  void move(tensor::Op& op) {
    tensor::rewrite_scalars(op, [&](ir::Scalar root) {
      return ir::rewrite(root, {}, [&](ir::Scalar x) {
        if (x->kind != ir::ScalarKind::kOp || !ir::is_float(x->dtype) || !rounds(x->op)) return x;
        const double step = draw_.scale * 4 * epsilon_of(x->dtype);
        return ir::binary(ir::ScalarOp::kMul, x, x->table->constant(x->dtype, 1 + (up() ? step : -step)));
      });
    });
  }
  /// Draws come in pairs that move in opposite directions.
  bool up() { return ((random_() >> 8 & 1) != 0) != ((draw_.number & 1) != 0); }

  tensor::Graph graph_;
  Draw draw_;
  std::minstd_rand random_{static_cast<uint32_t>(draw_.number / 2 * 104729 + 31)};
  tensor::Op* op_;
};

}  // namespace

std::string Difference::text() const {
  if (element.empty()) return fmt::format("it is {} instead of {}", got, want);
  return fmt::format("element {} is {} instead of {} ({} of {} differ)", element, got, want, differing, elements);
}

double rounding_of(const tensor::Op& op, const tensor::Bindings& bindings) {
  if (const auto* group = op.as<tensor::RowGroup>()) {
    // The longest sum decides; the others' roundings are within what elements may be off anyway.
    double most = 0;
    for (const auto& inner : group->body->ops) most = std::max(most, rounding_of(*inner, bindings));
    return most;
  }
  double terms = 1;
  DType t = DType::kF64;
  if (const auto* c = op.as<tensor::Compute>()) {
    if (c->combiner != tensor::Combiner::kSum && c->combiner != tensor::Combiner::kProd) return 0;
    for (const tensor::Axis& r : c->reductions) terms *= static_cast<double>(symbolic::evaluate(r.extent, bindings));
    t = c->accumulate;
  } else if (const auto* scan = op.as<tensor::PrefixScan>()) {
    const tensor::Type& type = op.result()->type;
    terms = static_cast<double>(symbolic::evaluate(type.extents[static_cast<size_t>(scan->axis)], bindings));
    t = type.dtype;
  }
  return ir::is_float(t) ? terms * epsilon_of(t) : 0;
}

std::optional<Difference> compare(const Item& got, const Item& want, const Again& again, double rounding) {
  if (got.is_sequence != want.is_sequence)
    return Difference{{}, want.is_sequence ? "a sequence" : "a tensor", got.is_sequence ? "a sequence" : "a tensor"};
  if (!want.is_sequence) return compare_tensors(got.tensor, want.tensor, again, rounding);
  if (got.sequence.size() != want.sequence.size())
    return Difference{
        {}, fmt::format("{} tensors", want.sequence.size()), fmt::format("{} tensors", got.sequence.size())};
  for (size_t k = 0; k < want.sequence.size(); ++k)
    if (auto d = compare_tensors(got.sequence[k], want.sequence[k], {}, rounding)) {
      if (!d->element.empty()) d->element = fmt::format("#{} {}", k, d->element);
      return d;
    }
  return std::nullopt;
}

std::optional<std::vector<Item>> evaluate_moved(const tensor::Op& op, const std::vector<const Item*>& operands,
                                                tensor::Bindings bindings, Draw draw) {
  const double rounding = rounding_of(op, bindings);
  std::vector<Item> moved;
  std::vector<const Item*> pointers;
  for (size_t k = 0; k < operands.size(); ++k) moved.push_back(perturb(*operands[k], draw, k, rounding));
  for (const Item& item : moved) pointers.push_back(&item);
  size_t number = operands.size();
  const auto move = [&](const tensor::Op&, const std::vector<const Item*>&, tensor::Bindings&,
                        std::vector<Item>& results) {
    for (Item& item : results) item = perturb(item, draw, number++);
  };
  try {
    if (op.as<tensor::Compute>() || op.as<tensor::RowGroup>())
      return tensor::evaluate_op(MovedOp(op, draw).op(), pointers, bindings, move);
    return tensor::evaluate_op(op, pointers, bindings, move);
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace stax::bisect
