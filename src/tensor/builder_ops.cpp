// SPDX-License-Identifier: Apache-2.0
// The everyday helpers of the builder, each spelled by the general forms: what an operator means is what is written
// here.
#include <algorithm>
#include <numeric>

#include "support/error.h"
#include "tensor/builder.h"

namespace stax::tensor {

using ir::ScalarOp;
using symbolic::Truth;

namespace {

std::string spell_operand(const Value* v, const char* fallback) {
  return v->name.empty() ? fallback : "'" + v->name + "'";
}

Expr zero(Builder& b) { return b.constant_expr(0); }

// `axes` counted from 0, sorted, each once.
std::vector<int> normalized_axes(const std::vector<int>& axes, int rank) {
  std::vector<int> result;
  for (int axis : axes) {
    if (axis < 0) axis += rank;
    STAX_ASSERT(axis >= 0 && axis < rank, "axis {} of a tensor of rank {}", axis, rank);
    result.push_back(axis);
  }
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

bool contains(const std::vector<int>& axes, int axis) { return std::binary_search(axes.begin(), axes.end(), axis); }

// The type in which sums of `t` are taken.
DType accumulator_of(DType t) { return t == DType::kF16 || t == DType::kBF16 ? DType::kF32 : t; }

}  // namespace

// ---- elementwise ----------------------------------------------------------------------------------------------------

Value* Builder::pointwise(std::vector<Value*> values, const PointFn& f) {
  const bool ranked = std::any_of(values.begin(), values.end(), [](Value* v) { return !v->type.has_static_rank(); });
  std::vector<Expr> extents = broadcast_extents(values);
  Expr result_rank;
  if (ranked) {
    // From here on: kMaxRank axes, right-aligned.
    STAX_ASSERT(extents.size() == kMaxRank);
    for (const Value* v : values) {
      const Expr own = v->type.rank ? v->type.rank : constant_expr(v->type.static_rank());
      result_rank = result_rank ? max(result_rank, own) : own;
    }
  }
  return map_ranked(extents, result_rank, [&](Body& body) {
    std::vector<Scalar> elements;
    for (Value* v : values) elements.push_back(body.load_broadcast(v, body.i, extents));
    return f(elements);
  });
}

Value* Builder::unary(ScalarOp op, Value* a) {
  return pointwise({a}, [&](std::span<const Scalar> x) { return scalars().op(op, {x[0]}); });
}

Value* Builder::binary(ScalarOp op, Value* a, Value* b) {
  STAX_ASSERT(a->type.dtype == b->type.dtype, "{} of {} and {}", ir::name_of(op), ir::name_of(a->type.dtype),
              ir::name_of(b->type.dtype));
  return pointwise({a, b}, [&](std::span<const Scalar> x) { return scalars().op(op, {x[0], x[1]}); });
}

Value* Builder::cast(Value* v, DType t) {
  if (v->type.dtype == t) return v;
  return pointwise({v}, [&](std::span<const Scalar> x) { return scalars().cast(t, x[0]); });
}

// ---- views ----------------------------------------------------------------------------------------------------------

Value* Builder::reshape(Value* v, std::vector<Expr> extents) {
  if (v->type.has_static_rank() && v->type.extents == extents) return v;
  const Expr before = product(v->type.extents);
  const Expr after = product(extents);
  check(equal(before, after), "cannot reshape the {0} elements of " + spell_operand(v, "the operand") + " to {1}",
        {before, after});
  const DType t = v->type.dtype;
  if (literal(v) != nullptr && std::all_of(extents.begin(), extents.end(), [](Expr e) { return e.is_constant(); })) {
    std::vector<int64_t> numbers;
    for (Expr extent : extents) numbers.push_back(extent.constant());
    return constant(literal(v)->reshaped(std::move(numbers)));
  }
  return finish(graph_->add_op(*block_, Reshape{}, {v}, {Type::tensor(t, std::move(extents))}, {}, source));
}

Value* Builder::transpose(Value* v, const std::vector<int>& permutation) {
  const size_t axes = v->type.extents.size();
  STAX_ASSERT(permutation.size() == axes, "a permutation of {} axes for rank {}", permutation.size(), axes);
  if (std::is_sorted(permutation.begin(), permutation.end())) return v;
  std::vector<Expr> extents;
  for (const int axis : permutation) extents.push_back(v->type.extents.at(axis));
  return map_ranked(std::move(extents), v->type.rank, [&](Body& body) {
    std::vector<Expr> indices(axes);
    for (size_t k = 0; k < axes; ++k) indices.at(permutation[k]) = body.i[k];
    return body.load(v, indices);
  });
}

Value* Builder::broadcast_to(Value* v, const std::vector<Expr>& extents) {
  STAX_ASSERT(v->type.extents.size() <= extents.size(), "broadcast of rank {} to rank {}", v->type.extents.size(),
              extents.size());
  if (v->type.extents == extents) return v;
  const size_t skipped = extents.size() - v->type.extents.size();
  for (size_t k = 0; k < v->type.extents.size(); ++k) {
    const Expr own = v->type.extents[k];
    const Expr wanted = extents[skipped + k];
    if (own == wanted) continue;
    check(logical_or(equal(own, wanted), equal(own, 1)),
          "cannot broadcast extent {0} of " + spell_operand(v, "the operand") + " to {1} (axis " +
              std::to_string(skipped + k) + ")",
          {own, wanted});
  }
  return map(extents, [&](Body& body) { return body.load_broadcast(v, body.i, extents); });
}

Value* Builder::slice(Value* v, int axis, Expr start, Expr count, Expr step) {
  if (axis < 0) axis += v->type.static_rank();
  std::vector<Expr> extents = v->type.extents;
  if (start.is_constant(0) && step.is_constant(1) && extents.at(axis) == count) return v;
  extents.at(axis) = count;
  return map_ranked(std::move(extents), v->type.rank, [&](Body& body) {
    std::vector<Expr> indices = body.i;
    indices[axis] = start + indices[axis] * step;
    return body.load(v, indices);
  });
}

Value* Builder::concat(const std::vector<Value*>& values, int axis) {
  STAX_ASSERT(!values.empty());
  const Value* const first = values[0];
  const int axes = first->type.static_rank();
  if (axis < 0) axis += axes;
  STAX_ASSERT(axis >= 0 && axis < axes, "concatenation on axis {} of rank {}", axis, axes);
  std::vector<Expr> extents = first->type.extents;
  std::vector<Value*> parts;
  std::vector<Expr> ends;  // the index behind each part
  Expr end = zero(*this);
  for (Value* const v : values) {
    STAX_ASSERT(v->type.dtype == first->type.dtype && v->type.static_rank() == axes,
                "concatenation of different dtypes or ranks");
    for (int other = 0; other < axes; ++other) {
      if (other == axis) continue;
      const Expr own = v->type.extents[other];
      if (own == extents[other]) continue;
      check(equal(own, extents[other]),
            "cannot concatenate on axis " + std::to_string(axis) + ": extent {0} of " + spell_operand(v, "an operand") +
                " on axis " + std::to_string(other) + " differs from {1} of " + spell_operand(first, "the first"),
            {own, extents[other]});
      if (own.is_constant()) extents[other] = own;
    }
    const Expr own = v->type.extents[axis];
    if (own.is_constant(0)) continue;
    end = end + own;
    parts.push_back(v);
    ends.push_back(end);
  }
  if (parts.empty()) return values[0];
  if (parts.size() == 1) return parts[0];
  extents[axis] = end;
  return map(std::move(extents), [&](Body& body) {
    const Expr i = body.i[axis];
    const std::function<Scalar(size_t, size_t)> pick = [&](size_t begin, size_t stop) {
      if (stop - begin == 1) {
        std::vector<Expr> indices = body.i;
        if (begin > 0) indices[axis] = i - ends[begin - 1];
        return body.load(parts[begin], indices);
      }
      const size_t middle = begin + (stop - begin) / 2;
      const Scalar left = pick(begin, middle);
      const Scalar right = pick(middle, stop);
      return select(less(body.index(i), body.index(ends[middle - 1])), left, right);
    };
    return pick(0, parts.size());
  });
}

Value* Builder::pad_constant(Value* v, const std::vector<Expr>& before, const std::vector<Expr>& after,
                             Scalar value_or_null) {
  const DType t = v->type.dtype;
  const Scalar value = value_or_null ? value_or_null : scalars().constant_int(t, 0);
  STAX_ASSERT(value->dtype == t && !ir::has_load(value));
  return pad_by(v, before, after, [&](Body&) { return value; });
}

Value* Builder::pad_with(Value* v, const std::vector<Expr>& before, const std::vector<Expr>& after, Value* value) {
  STAX_ASSERT(value->type.dtype == v->type.dtype);
  return pad_by(v, before, after, [&](Body& body) { return body.load(value); });
}

Value* Builder::pad_by(Value* v, const std::vector<Expr>& before, const std::vector<Expr>& after, const BodyFn& value) {
  const size_t axes = v->type.extents.size();
  STAX_ASSERT(before.size() == axes && after.size() == axes, "{} and {} pads for rank {}", before.size(), after.size(),
              axes);
  const symbolic::ConstraintSet& facts = graph_->constraints;
  std::vector<Expr> extents;
  for (size_t k = 0; k < axes; ++k) {
    const Expr own = v->type.extents[k];
    const Expr extent = own + before[k] + after[k];
    check(less_equal(zero(*this), extent),
          "pads {0} and {1} take more than the extent {2} of axis " + std::to_string(k) + " of " +
              spell_operand(v, "the operand"),
          {before[k], after[k], own});
    extents.push_back(extent);
  }
  if (extents == v->type.extents && std::all_of(before.begin(), before.end(), [](Expr e) { return e.is_constant(0); }))
    return v;
  return map_ranked(extents, v->type.rank, [&](Body& body) {
    std::vector<Expr> indices;
    Expr inside = constant_expr(1);
    for (size_t k = 0; k < axes; ++k) {
      const Expr index = body.i[k] - before[k];
      indices.push_back(index);
      // An axis that is only cropped at an end needs no guard there.
      if (facts.less_equal(before[k], zero(*this)) != Truth::kYes)
        inside = logical_and(inside, less_equal(zero(*this), index));
      if (facts.less_equal(after[k], zero(*this)) != Truth::kYes)
        inside = logical_and(inside, less(index, v->type.extents[k]));
    }
    const Scalar element = body.load(v, indices);
    return select(scalars().cast(DType::kBool, body.index(inside)), element, value(body));
  });
}

Value* Builder::gather(Value* v, Value* indices, int axis) {
  const int axes = v->type.static_rank();
  if (axis < 0) axis += axes;
  STAX_ASSERT(axis >= 0 && axis < axes && v->type.has_static_rank() && indices->type.has_static_rank());
  const int inner = indices->type.static_rank();
  std::vector<Expr> extents(v->type.extents.begin(), v->type.extents.begin() + axis);
  extents.insert(extents.end(), indices->type.extents.begin(), indices->type.extents.end());
  extents.insert(extents.end(), v->type.extents.begin() + axis + 1, v->type.extents.end());
  return map(std::move(extents), [&](Body& body) {
    const auto at = body.i.begin();
    const Scalar picked = body.load(indices, std::vector<Expr>(at + axis, at + axis + inner));
    std::vector<Scalar> position;
    for (int k = 0; k < axis; ++k) position.push_back(body.index(at[k]));
    position.push_back(body.checked(scalars().cast(DType::kI64, picked), v->type.extents[axis]));
    for (int k = axis + 1; k < axes; ++k) position.push_back(body.index(at[inner + k - 1]));
    return body.load(v, std::move(position));
  });
}

// ---- reductions -----------------------------------------------------------------------------------------------------

Value* Builder::reduce_axes(Combiner c, Value* v, const std::vector<int>& axes, bool keep_dims, DType accumulate,
                            const EpilogueFn& epilogue, const std::function<Scalar(Scalar)>& prologue) {
  const int total = v->type.static_rank();
  const std::vector<int> reduced = normalized_axes(axes, total);
  if (!v->type.has_static_rank() && !keep_dims && !reduced.empty()) {
    unsupported("{}: a reduction that drops axes of '{}', whose rank is known only at run time", source, v->name);
  }
  std::vector<Expr> extents, reductions;
  for (int k = 0; k < total; ++k) {
    if (!contains(reduced, k)) {
      extents.push_back(v->type.extents[k]);
    } else {
      reductions.push_back(v->type.extents[k]);
      if (keep_dims) extents.push_back(constant_expr(1));
    }
  }
  const auto body = [&](Body& b) {
    std::vector<Expr> indices;
    size_t next_axis = 0, next_reduction = 0;
    for (int k = 0; k < total; ++k) {
      const bool is_reduced = contains(reduced, k);
      indices.push_back(is_reduced ? b.r[next_reduction++] : b.i[next_axis]);
      if (!is_reduced || keep_dims) ++next_axis;
    }
    const Scalar element = b.load(v, indices);
    return prologue ? prologue(element) : element;
  };
  return reduce_ranked(c, accumulate, std::move(extents), v->type.rank, reductions, body, epilogue);
}

Value* Builder::mean(Value* v, const std::vector<int>& axes, bool keep_dims) {
  const DType t = v->type.dtype;
  std::vector<Expr> reduced;
  for (const int axis : normalized_axes(axes, v->type.static_rank())) reduced.push_back(v->type.extents[axis]);
  const Expr count = product(reduced);
  // The mean of nothing is 0 / 0.
  const DType accumulate = !ir::is_float(t) ? DType::kI64 : accumulator_of(t) == t ? DType::kF64 : DType::kF32;
  return reduce_axes(Combiner::kSum, v, axes, keep_dims, accumulate, [&](Body& body, Scalar sum) {
    return scalars().cast(t, sum / scalars().cast(accumulate, body.index(count)));
  });
}

// ---- contractions ---------------------------------------------------------------------------------------------------

Value* Builder::matmul(Value* a, Value* b) {
  const DType t = a->type.dtype;
  STAX_ASSERT(b->type.dtype == t, "matmul of {} and {}", ir::name_of(t), ir::name_of(b->type.dtype));
  const int rank_a = a->type.static_rank();
  const int rank_b = b->type.static_rank();
  STAX_ASSERT(rank_a >= 1 && rank_b >= 1, "matmul of ranks {} and {}", rank_a, rank_b);
  const auto name_a = spell_operand(a, "the first operand");
  const auto name_b = spell_operand(b, "the second operand");

  Expr rank_result;
  for (const Value* v : {a, b}) {
    if (v->type.has_static_rank()) continue;
    check(less_equal(constant_expr(2), v->type.rank),
          "a matrix product needs rank 2 or more, but " + spell_operand(v, "an operand") + " has rank {0}",
          {v->type.rank});
  }
  if (a->type.rank || b->type.rank) {
    STAX_ASSERT(rank_a >= 2 && rank_b >= 2, "matmul of a vector with a tensor of run-time rank");
    rank_result =
        max(a->type.rank ? a->type.rank : constant_expr(rank_a), b->type.rank ? b->type.rank : constant_expr(rank_b));
  }

  const Expr inner_a = a->type.extents[rank_a - 1];
  const Expr inner_b = b->type.extents[rank_b == 1 ? 0 : rank_b - 2];
  check(equal(inner_a, inner_b),
        "cannot multiply matrices: the last extent of " + name_a + " is {0}, but " + name_b + " has {1} rows",
        {inner_a, inner_b});
  const Expr inner = inner_b.is_constant() ? inner_b : inner_a;

  // Batch axes, aligned at the right.
  const int batch_a = std::max(rank_a - 2, 0);
  const int batch_b = std::max(rank_b - 2, 0);
  const int batch = std::max(batch_a, batch_b);
  std::vector<Expr> extents(batch, constant_expr(1));
  for (int k = 0; k < batch; ++k) {
    const int from_end = batch - k;
    const bool in_a = from_end <= batch_a, in_b = from_end <= batch_b;
    const Expr own_a = in_a ? a->type.extents[batch_a - from_end] : constant_expr(1);
    const Expr own_b = in_b ? b->type.extents[batch_b - from_end] : constant_expr(1);
    extents[k] =
        broadcast_extent_of(own_a, own_b, "cannot broadcast batch extent {0} of " + name_a + " with {1} of " + name_b);
  }
  const std::vector<Expr> batch_extents = extents;
  const Expr rows = rank_a == 1 ? constant_expr(1) : a->type.extents[rank_a - 2];
  const Expr columns = rank_b == 1 ? constant_expr(1) : b->type.extents[rank_b - 1];
  if (rank_a > 1) extents.push_back(rows);
  if (rank_b > 1) extents.push_back(columns);

  const DType accumulate = accumulator_of(t);
  const auto body = [&](Body& body) {
    const std::vector<Expr> batch_indices(body.i.begin(), body.i.begin() + batch);
    // The matrix axes of an operand have its own extents: they are never broadcast.
    const auto load = [&](Value* v, std::vector<Expr> indices, std::vector<Expr> own) {
      std::vector<Expr> all = batch_indices;
      std::vector<Expr> all_extents = batch_extents;
      all.insert(all.end(), indices.begin(), indices.end());
      all_extents.insert(all_extents.end(), own.begin(), own.end());
      return scalars().cast(accumulate, body.load_broadcast(v, all, all_extents));
    };
    const Expr k = body.r[0];
    const Scalar left = rank_a == 1 ? scalars().cast(accumulate, body.load(a, std::vector<Expr>{k}))
                                    : load(a, {body.i[batch], k}, {rows, inner_a});
    const Scalar right = rank_b == 1 ? scalars().cast(accumulate, body.load(b, std::vector<Expr>{k}))
                                     : load(b, {k, body.i.back()}, {inner_b, columns});
    return left * right;
  };
  const auto narrow = [&](Body&, Scalar sum) { return scalars().cast(t, sum); };
  return reduce_ranked(Combiner::kSum, accumulate, std::move(extents), rank_result, {inner}, body,
                       accumulate == t ? EpilogueFn{} : EpilogueFn(narrow));
}

// ---- normalizations -------------------------------------------------------------------------------------------------

Value* Builder::softmax(Value* v, int axis) {
  const DType t = v->type.dtype;
  STAX_ASSERT(ir::is_float(t));
  const DType inner = accumulator_of(t);
  if (axis < 0) axis += v->type.static_rank();
  const auto widen = [&](Scalar x) { return scalars().cast(inner, x); };
  Value* const largest = reduce_axes(Combiner::kMax, v, {axis}, true, inner, {}, widen);
  // What the sum and the quotient share: exp(x - max) at `indices`.
  const auto exponential = [&](Body& body, const std::vector<Expr>& indices) {
    std::vector<Expr> row = indices;
    row[axis] = constant_expr(0);
    return scalars().op(ScalarOp::kExp, {widen(body.load(v, indices)) - body.load(largest, row)});
  };
  std::vector<Expr> row_extents = v->type.extents;
  row_extents[axis] = constant_expr(1);
  // The sum is 1 or more (or NaN): its reciprocal is safe, and a product for each element is cheaper than a quotient.
  Value* const inverse = reduce_ranked(
      Combiner::kSum, inner, row_extents, v->type.rank, {v->type.extents[axis]},
      [&](Body& body) {
        std::vector<Expr> indices = body.i;
        indices[axis] = body.r[0];
        return exponential(body, indices);
      },
      [&](Body&, Scalar sum) { return scalars().constant(inner, 1) / sum; });
  return map_ranked(v->type.extents, v->type.rank, [&](Body& body) {
    std::vector<Expr> row = body.i;
    row[axis] = constant_expr(0);
    return scalars().cast(t, exponential(body, body.i) * body.load(inverse, row));
  });
}

Value* Builder::layer_norm(Value* v, int first_axis, double epsilon, Value* scale, Value* bias, Value** mean_out,
                           Value** inverse_deviation_out) {
  const DType t = v->type.dtype;
  STAX_ASSERT(ir::is_float(t));
  const int total = v->type.static_rank();
  if (first_axis < 0) first_axis += total;
  STAX_ASSERT(first_axis >= 0 && first_axis <= total);
  const DType stash = accumulator_of(t);
  std::vector<int> axes(total - first_axis);
  std::iota(axes.begin(), axes.end(), first_axis);
  const Expr count = product(std::span(v->type.extents).subspan(first_axis));
  for (Value* parameter : {scale, bias}) {
    if (parameter == nullptr) continue;
    STAX_ASSERT(parameter->type.static_rank() <= total);
    const int skipped = total - parameter->type.static_rank();
    for (int k = skipped; k < total; ++k) {
      const Expr own = parameter->type.extents[k - skipped];
      check(logical_or(equal(own, v->type.extents[k]), equal(own, 1)),
            "extent {0} of " + spell_operand(parameter, parameter == scale ? "scale" : "bias") +
                " does not match {1} of " + spell_operand(v, "the input") + " on axis " + std::to_string(k),
            {own, v->type.extents[k]});
    }
  }

  const auto widen = [&](Scalar x) { return scalars().cast(stash, x); };
  const auto row_of = [&](std::vector<Expr> indices) {
    for (const int axis : axes) indices[axis] = constant_expr(0);
    return indices;
  };
  // Two passes: the squares of deviations from the mean, not the difference of two large numbers.
  Value* const average = reduce_axes(
      Combiner::kSum, v, axes, true, DType::kF64,
      [&](Body& body, Scalar sum) { return widen(sum / scalars().cast(DType::kF64, body.index(count))); }, widen);
  std::vector<Expr> row_extents = v->type.extents;
  std::vector<Expr> reduced;
  for (const int axis : axes) {
    reduced.push_back(row_extents[axis]);
    row_extents[axis] = constant_expr(1);
  }
  Value* const inverse = reduce_ranked(
      Combiner::kSum, DType::kF64, row_extents, v->type.rank, reduced,
      [&](Body& body) {
        std::vector<Expr> indices = body.i;
        for (const int axis : axes) indices[axis] = body.r[axis - first_axis];
        const Scalar deviation = widen(body.load(v, indices)) - body.load(average, row_of(indices));
        return deviation * deviation;
      },
      [&](Body& body, Scalar sum) {
        const Scalar variance = sum / scalars().cast(DType::kF64, body.index(count));
        const Scalar deviation = scalars().op(ScalarOp::kSqrt, {variance + body.number(DType::kF64, epsilon)});
        return widen(body.number(DType::kF64, 1) / deviation);
      });
  if (mean_out != nullptr) *mean_out = average;
  if (inverse_deviation_out != nullptr) *inverse_deviation_out = inverse;
  return map_ranked(v->type.extents, v->type.rank, [&](Body& body) {
    const std::vector<Expr> row = row_of(body.i);
    Scalar result = (widen(body.load(v, body.i)) - body.load(average, row)) * body.load(inverse, row);
    if (scale != nullptr) result = result * widen(body.load_broadcast(scale, body.i, v->type.extents));
    if (bias != nullptr) result = result + widen(body.load_broadcast(bias, body.i, v->type.extents));
    return scalars().cast(t, result);
  });
}

}  // namespace stax::tensor
