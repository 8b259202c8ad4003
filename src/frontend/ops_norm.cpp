// SPDX-License-Identifier: Apache-2.0
// Normalizations. All of them take a mean and a variance over some axes, and then scale and shift.
//
// Both moments come from one pass over the distances from the row's first element: the variance is the mean square less the square of the mean, and
// since that element is in the row itself, its own distance is at most sqrt(n) deviations; of the digits of a double that costs log2 n. Rows that may be
// empty have no first element and take two passes.
//
// The mean of f32 elements is an f64. It is subtracted in two parts, its f32 value and the rest: the first difference is
// exact where x is near the mean, so that a large mean costs no digits, and the elements stay in f32.
#include "frontend/decompositions.h"
#include "frontend/tables.h"

namespace stax::frontend {
namespace {

using ir::ScalarOp;

/// Extents with 1 at `axes`.
std::vector<Expr> with_ones(Builder& b, const Value* x, const std::vector<int>& axes) {
  std::vector<Expr> extents = x->type.extents;
  for (int axis : axes) extents[axis] = one_of(b);
  return extents;
}

/// The index into a value of `with_ones` for a point of x.
std::vector<Expr> row_of(Builder& b, std::vector<Expr> point, const std::vector<int>& axes) {
  for (int axis : axes) point[axis] = zero_of(b);
  return point;
}

std::vector<int> axes_from(const Value* x, int first) {
  std::vector<int> axes;
  for (int d = first; d < x->type.static_rank(); ++d) axes.push_back(d);
  return axes;
}

Expr count_of(Builder& b, const Value* x, const std::vector<int>& axes) {
  std::vector<Expr> extents;
  for (int axis : axes) extents.push_back(x->type.extents[axis]);
  return b.product(extents);
}

/// scale or bias at a point of x; both broadcast to x.
Scalar spread(Body& body, Value* v, const Value* x) { return body.load_broadcast(v, body.i, x->type.extents); }

void check_spreads(Builder& b, const Value* v, const Value* x, const std::string& what) {
  const int rank = x->type.static_rank(), own = v->type.static_rank();
  if (own > rank)
    b.check(zero_of(b), what + " has rank {0}, more than the input's {1}",
            {b.constant_expr(own), b.constant_expr(rank)});
  for (int d = 0; d < own; ++d) check_broadcast(b, b.extent(v, d), b.extent(x, rank - own + d), what);
}

}  // namespace

Scalar centered(Scalar x, Scalar mean) {
  const DType work = ir::compute_type(x->dtype);
  const Scalar near = ir::cast(work, mean);
  const Scalar difference = ir::cast(work, x) - near;
  if (mean->dtype == work) return difference;
  return difference - ir::cast(work, mean - ir::cast(mean->dtype, near));
}

VarianceFn inverse_deviation(DType result, double epsilon) {
  return [=](Body& body, Scalar variance) {
    const DType t = variance->dtype;
    return ir::cast(result, body.number(t, 1) / ir::unary(ScalarOp::kSqrt, variance + body.number(t, epsilon)));
  };
}

Moments moments(Builder& b, Value* x, const std::vector<int>& axes, DType result, const VarianceFn& finish) {
  const DType sum = sum_accumulator(x->type.dtype);
  const Expr count = count_of(b, x, axes);
  const std::vector<Expr> rows = with_ones(b, x, axes);
  std::vector<Expr> reduced;
  for (int axis : axes) reduced.push_back(x->type.extents[axis]);
  const auto point = [&](Body& body) {
    std::vector<Expr> at = body.i;
    for (size_t k = 0; k < axes.size(); ++k) at[axes[k]] = body.r[k];
    return at;
  };
  const auto mean_of = [&](Body& body, Scalar a) { return a / number_of(body, sum, count); };
  const auto total = [&](const tensor::BodyFn& element, const tensor::EpilogueFn& last) {
    return b.reduce(Combiner::kSum, sum, rows, reduced, element, last);
  };
  Moments m{};
  if (count.range().lo < 1) {
    m.mean = total([&](Body& body) { return body.load(x, point(body)); }, mean_of);
    m.deviation = total(
        [&](Body& body) {
          const Scalar d = centered(body.load(x, point(body)), body.load(m.mean, row_of(b, body.i, axes)));
          return square(ir::cast(sum, d));
        },
        [&](Body& body, Scalar a) { return ir::cast(result, finish(body, mean_of(body, a))); });
    return m;
  }
  const auto first = [&](Body& body) { return ir::cast(sum, body.load(x, row_of(b, body.i, axes))); };
  const auto from_first = [&](Body& body) { return ir::cast(sum, body.load(x, point(body))) - first(body); };
  Value* shift = total(from_first, mean_of);
  Value* squares = total([&](Body& body) { return square(from_first(body)); }, mean_of);
  m.mean = b.map(rows, [&](Body& body) { return body.load(shift, body.i) + first(body); });
  m.deviation = b.map(rows, [&](Body& body) {
    const Scalar variance = body.load(squares, body.i) - square(body.load(shift, body.i));
    return ir::cast(result, finish(body, ir::binary(ScalarOp::kMax, body.number(sum, 0), variance)));
  });
  return m;
}

Normalized layer_norm(Builder& b, Value* x, int first_axis, double epsilon, Value* scale, Value* bias) {
  const DType t = x->type.dtype, work = ir::compute_type(t);
  const std::vector<int> axes = axes_from(x, first_axis);
  if (scale) check_spreads(b, scale, x, "scale");
  if (bias) check_spreads(b, bias, x, "bias");
  const Moments m = moments(b, x, axes, work, inverse_deviation(work, epsilon));
  Value* y = b.map(x->type.extents, [&](Body& body) {
    const std::vector<Expr> row = row_of(b, body.i, axes);
    Scalar v = ir::cast(t, centered(body.load(x, body.i), body.load(m.mean, row)) * body.load(m.deviation, row));
    if (scale) v = v * ir::cast(t, spread(body, scale, x));
    if (bias) v = v + ir::cast(t, spread(body, bias, x));
    return v;
  });
  return {keep_rank(y, x), keep_rank(m.mean, x), keep_rank(m.deviation, x)};
}

Normalized rms_norm(Builder& b, Value* x, int first_axis, double epsilon, Value* scale) {
  const DType t = x->type.dtype, work = ir::compute_type(t), sum = sum_accumulator(t);
  const DType result = scale ? scale->type.dtype : t;
  const std::vector<int> axes = axes_from(x, first_axis);
  if (scale) check_spreads(b, scale, x, "scale");
  const Expr count = count_of(b, x, axes);
  Value* inverse = b.reduce_axes(
      Combiner::kSum, x, axes, true, sum,
      [&](Body& body, Scalar a) {
        return ir::cast(work, inverse_deviation(sum, epsilon)(body, a / number_of(body, sum, count)));
      },
      [&](Scalar v) { return square(ir::cast(sum, v)); });
  Value* y = b.map(x->type.extents, [&](Body& body) {
    const Scalar v = ir::cast(work, body.load(x, body.i)) * body.load(inverse, row_of(b, body.i, axes));
    const Scalar normal = ir::cast(result, ir::cast(t, v));
    return scale ? normal * spread(body, scale, x) : normal;
  });
  return {keep_rank(y, x), nullptr, keep_rank(inverse, x)};
}

namespace {

void import_layer_normalization(Node& n) {
  n.require(ir::is_float(n.dtype()), 0, "a float");
  Value* x = n.input(0);
  const DType stash = n.dtype_attribute("stash_type", DType::kF32);
  const Normalized r =
      layer_norm(n.b(), x, axis_of(n, n.integer("axis", -1), x), n.real("epsilon", 1e-5), n.input(1), n.optional(2));
  n.output(0, r.y);
  if (n.wants(1)) n.output(1, keep_rank(as_type(n.b(), r.mean, stash), x));
  if (n.wants(2)) n.output(2, keep_rank(as_type(n.b(), r.inverse, stash), x));
}

void import_rms_normalization(Node& n) {
  n.require(ir::is_float(n.dtype()), 0, "a float");
  Value* x = n.input(0);
  n.output(0, rms_norm(n.b(), x, axis_of(n, n.integer("axis", -1), x), n.real("epsilon", 1e-5), n.input(1)).y);
}

/// ONNX Runtime's name of RMSNormalization before ONNX had it; the second result is 1 / rms.
void import_simplified_layer_normalization(Node& n) {
  n.require(ir::is_float(n.dtype()), 0, "a float");
  Value* x = n.input(0);
  const Normalized r = rms_norm(n.b(), x, axis_of(n, n.integer("axis", -1), x), n.real("epsilon", 1e-5), n.input(1));
  n.output(0, r.y);
  if (n.wants(1)) n.output(1, r.inverse);
}

void import_instance_normalization(Node& n) {
  Builder& b = n.b();
  n.require(ir::is_float(n.dtype()), 0, "a float");
  need_rank(n, 0, 2);
  Value *x = n.input(0), *scale = n.input_of_rank(1, 1), *bias = n.input_of_rank(2, 1);
  const DType t = n.dtype(), work = ir::compute_type(t);
  check_equal(b, b.extent(scale, 0), n.extent(0, 1), "length of scale and number of channels");
  check_equal(b, b.extent(bias, 0), n.extent(0, 1), "length of bias and number of channels");
  const std::vector<int> axes = axes_from(x, 2);
  const Moments m = moments(b, x, axes, work, inverse_deviation(work, n.real("epsilon", 1e-5)));
  n.output(0, b.map(x->type.extents, [&](Body& body) {
    const std::vector<Expr> row = row_of(b, body.i, axes);
    const Scalar v = centered(body.load(x, body.i), body.load(m.mean, row)) * body.load(m.deviation, row);
    return ir::cast(t,
                    v * ir::cast(work, body.load(scale, {body.i[1]})) + ir::cast(work, body.load(bias, {body.i[1]})));
  }));
}

/// The channels are viewed as [groups, channels of a group].
void import_group_normalization(Node& n) {
  Builder& b = n.b();
  n.require(ir::is_float(n.dtype()), 0, "a float");
  need_rank(n, 0, 2, tensor::kMaxRank - 1);
  for (int k : {1, 2}) n.same_dtype(0, k);
  Value *x = n.input(0), *scale = n.input_of_rank(1, 1), *bias = n.input_of_rank(2, 1);
  const DType t = n.dtype(), work = ir::compute_type(t);
  const std::optional<int64_t> groups = n.integer("num_groups");
  if (!groups || *groups < 1) n.fault("num_groups has to be 1 or more");
  const Expr g = b.constant_expr(*groups), size = symbolic::floordiv(n.extent(0, 1), g);
  b.check(symbolic::equal(size * g, n.extent(0, 1)), "{0} channels do not make {1} groups", {n.extent(0, 1), g});
  Value* view = b.reshape(x, joined({n.extent(0, 0), g, size}, extents_of(x, 2)));
  const bool by_channel = n.opset() >= 21;
  const Expr length = by_channel ? n.extent(0, 1) : g;
  check_equal(b, b.extent(scale, 0), length, "length of scale and of what it scales");
  check_equal(b, b.extent(bias, 0), length, "length of bias and of what it shifts");
  const std::vector<Expr> layout = by_channel ? std::vector<Expr>{g, size} : std::vector<Expr>{g, one_of(b)};
  scale = b.reshape(scale, layout);
  bias = b.reshape(bias, layout);
  const std::vector<int> axes = axes_from(view, 2);
  const Moments m = moments(b, view, axes, work, inverse_deviation(work, n.real("epsilon", 1e-5)));
  Value* y = b.map(view->type.extents, [&](Body& body) {
    const std::vector<Expr> row = row_of(b, body.i, axes);
    const std::vector<Expr> channel = {body.i[1], by_channel ? body.i[2] : zero_of(b)};
    const Scalar v =
        ir::cast(t, centered(body.load(view, body.i), body.load(m.mean, row)) * body.load(m.deviation, row));
    return v * body.load(scale, channel) + body.load(bias, channel);
  });
  n.output(0, b.reshape(y, x->type.extents));
}

/// One multiplication and one addition an element: scale / sqrt(var + eps) and the rest are formed per channel, in f64.
Value* apply_batch_norm(Node& n, Value* x, Value* mean, Value* var, Value* scale, Value* bias, double epsilon) {
  Builder& b = n.b();
  const DType t = x->type.dtype, work = ir::compute_type(t);
  const auto wide = [](Scalar s) { return ir::cast(DType::kF64, s); };
  const auto factor = [&](Body& body, const std::vector<Expr>& c) {
    const Scalar deviation = ir::unary(ScalarOp::kSqrt, wide(body.load(var, c)) + body.number(DType::kF64, epsilon));
    return wide(body.load(scale, c)) / deviation;
  };
  Value* a = b.map(scale->type.extents, [&](Body& body) { return ir::cast(work, factor(body, body.i)); });
  Value* shift = b.map(scale->type.extents, [&](Body& body) {
    const Scalar back = wide(body.load(mean, body.i)) * factor(body, body.i);
    return ir::cast(work, wide(body.load(bias, body.i)) - back);
  });
  const bool vector = x->type.static_rank() == 1;
  return b.map(x->type.extents, [&](Body& body) {
    const std::vector<Expr> c = vector ? std::vector<Expr>{zero_of(b)} : part(body.i, 1, 1 + scale->type.static_rank());
    return ir::cast(t, ir::cast(work, body.load(x, body.i)) * body.load(a, c) + body.load(shift, c));
  });
}

/// With statistics of the batch itself, where outputs beyond the first (before opset 14) or training_mode ask for them.
void train_batch_norm(Node& n, Value* x, double epsilon) {
  Builder& b = n.b();
  const double momentum = n.real("momentum", 0.9);
  const DType sum = sum_accumulator(x->type.dtype);
  std::vector<int> axes = {0};
  for (int d = 2; d < x->type.static_rank(); ++d) axes.push_back(d);
  const Moments m = moments(b, x, axes, sum, [](Body&, Scalar v) { return v; });
  const std::vector<Expr> channels = {x->type.static_rank() == 1 ? one_of(b) : x->type.extents[1]};
  Value* mean = b.reshape(m.mean, channels);
  Value* var = b.reshape(m.deviation, channels);
  n.output(0, apply_batch_norm(n, x, mean, var, n.input(1), n.input(2), epsilon));
  const auto running = [&](int k, Value* current) {
    const DType t = n.dtype(k);
    return b.pointwise({n.input(k), current}, [&](std::span<const Scalar> v) {
      ir::ScalarTable& s = b.scalars();
      return ir::cast(t, ir::cast(sum, v[0]) * s.constant(sum, momentum) + v[1] * s.constant(sum, 1 - momentum));
    });
  };
  if (n.wants(1)) n.output(1, running(3, mean));
  if (n.wants(2)) n.output(2, running(4, var));
  if (n.wants(3)) n.output(3, as_type(b, mean, n.dtype(3)));
  if (n.wants(4)) n.output(4, as_type(b, var, n.dtype(4)));
}

void import_batch_normalization(Node& n) {
  Builder& b = n.b();
  const int rank = need_rank(n, 0, 1);
  Value* x = n.input(0);
  const double epsilon = n.real("epsilon", 1e-5);
  const bool per_channel = n.opset() >= 9 || n.integer("spatial", 1) != 0;
  if (!per_channel && n.output_count() > 1) n.unsupported("training with spatial = 0");
  for (int k = 1; k <= 4; ++k) {
    const int own = need_rank(n, k, 1);
    if (per_channel && own != 1) n.fault("input " + std::to_string(k) + " has to have one number for each channel");
    if (!per_channel && own != rank - 1)
      n.fault("input " + std::to_string(k) + " has to have the extents of one sample");
    for (int d = 0; d < own; ++d)
      check_equal(b, n.extent(k, d), rank == 1 ? one_of(b) : n.extent(0, d + 1), "channels of input and of parameters");
  }
  const bool training = n.opset() >= 14 ? n.integer("training_mode", 0) != 0 : n.output_count() > 1;
  if (training) return train_batch_norm(n, x, epsilon);
  n.output(0, apply_batch_norm(n, x, n.input(3), n.input(4), n.input(1), n.input(2), epsilon));
}

/// A row of zeros stays zero.
void import_lp_normalization(Node& n) {
  Builder& b = n.b();
  n.require(ir::is_float(n.dtype()), 0, "a float");
  Value* x = n.input(0);
  const DType t = n.dtype(), work = ir::compute_type(t), sum = sum_accumulator(t);
  const int axis = axis_of(n, n.integer("axis", -1), x);
  const int64_t p = n.integer("p", 2);
  if (p != 1 && p != 2) n.fault("p has to be 1 or 2");
  Value* norm = b.reduce_axes(
      Combiner::kSum, x, {axis}, true, sum,
      [&](Body&, Scalar a) { return ir::cast(work, p == 1 ? a : ir::unary(ScalarOp::kSqrt, a)); },
      [&](Scalar v) { return p == 1 ? ir::cast(sum, ir::unary(ScalarOp::kAbs, v)) : square(ir::cast(sum, v)); });
  n.output(0, keep_rank(b.map(x->type.extents,
                              [&](Body& body) {
                                const Scalar d = body.load(norm, row_of(b, body.i, {axis})),
                                             zero = body.number(work, 0);
                                const Scalar v = ir::cast(work, body.load(x, body.i));
                                return ir::cast(t, ir::select(ir::equal(d, zero), zero, v / d));
                              }),
                        x));
}

/// (x - mean) / (deviation + 1e-9): the small number is the one in ONNX's definition of this function.
void import_mean_variance_normalization(Node& n) {
  Builder& b = n.b();
  n.require(ir::is_float(n.dtype()), 0, "a float");
  Value* x = n.input(0);
  const DType t = n.dtype(), work = ir::compute_type(t);
  std::vector<int> axes;
  std::vector<bool> in(x->type.extents.size(), false);
  for (int64_t a : n.integers("axes").value_or(std::vector<int64_t>{0, 2, 3})) in[axis_of(n, a, x)] = true;
  for (size_t d = 0; d < in.size(); ++d)
    if (in[d]) axes.push_back(static_cast<int>(d));
  const Moments m = moments(b, x, axes, work, [](Body& body, Scalar variance) {
    const DType s = variance->dtype;
    return body.number(s, 1) / (ir::unary(ScalarOp::kSqrt, variance) + body.number(s, 1e-9));
  });
  n.output(0, keep_rank(b.map(x->type.extents,
                              [&](Body& body) {
                                const std::vector<Expr> row = row_of(b, body.i, axes);
                                const Scalar d = centered(body.load(x, body.i), body.load(m.mean, row));
                                return ir::cast(t, d * body.load(m.deviation, row));
                              }),
                        x));
}

constexpr OperatorRow kRows[] = {
    {"", "LayerNormalization", 1, import_layer_normalization},
    {"com.microsoft", "LayerNormalization", 1, import_layer_normalization},
    {"", "RMSNormalization", 23, import_rms_normalization},
    {"", "SimplifiedLayerNormalization", 1, import_simplified_layer_normalization},
    {"com.microsoft", "SimplifiedLayerNormalization", 1, import_simplified_layer_normalization},
    {"", "InstanceNormalization", 1, import_instance_normalization},
    {"", "GroupNormalization", 18, import_group_normalization},
    {"", "BatchNormalization", 7, import_batch_normalization},
    {"", "LpNormalization", 1, import_lp_normalization},
    {"", "MeanVarianceNormalization", 9, import_mean_variance_normalization},
};

}  // namespace

Rows norm_rows() { return kRows; }

}  // namespace stax::frontend
