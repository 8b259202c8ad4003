// SPDX-License-Identifier: Apache-2.0
// Tensors out of nothing: constants, ranges, identity matrices, random numbers; and Dropout.
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>

#include "frontend/scalar_words.h"
#include "frontend/spelling.h"
#include "frontend/tensors.h"
#include "support/error.h"

namespace stax::frontend {
namespace {

using ir::ScalarOp;

// ---- constants ------------------------------------------------------------------------------------------------------

Literal literal_of_reals(const std::vector<double>& values, std::vector<int64_t> extents) {
  Literal literal(DType::kF32, std::move(extents));
  for (size_t k = 0; k < values.size(); ++k) literal.set(static_cast<int64_t>(k), {.f = values[k]});
  return literal;
}

Literal constant_of(Node& n) {
  if (std::optional<Literal> value = n.tensor("value")) return *value;
  if (n.has_attribute("value_float")) return literal_of_reals({n.real("value_float", 0)}, {});
  if (const auto values = n.reals("value_floats"))
    return literal_of_reals(*values, {static_cast<int64_t>(values->size())});
  if (const auto value = n.integer("value_int")) return Literal::ints({*value}).reshaped({});
  if (const auto values = n.integers("value_ints")) return Literal::ints(*values);
  if (const onnx::SparseTensorProto* sparse = n.sparse_tensor("sparse_value")) return literal_of_sparse(*sparse, {});
  if (n.has_attribute("value_string") || n.has_attribute("value_strings")) n.unsupported("elements of type string");
  n.fault("it has no value");
}

void import_constant(Node& n) { n.output(0, n.b().constant(constant_of(n))); }

/// The extents that a 1-D integer operand gives, and the rank if only the call knows it (the extents are kMaxRank then).
struct RunTimeShape {
  std::vector<Expr> extents;
  Expr rank;
};

RunTimeShape shape_operand(Node& n, int k) {
  Value* shape = n.input(k);
  const Expr count = n.element_count(shape);
  if (count.is_constant()) {
    if (count.constant() > tensor::kMaxRank) n.unsupported("a result of rank " + std::to_string(count.constant()));
    return {n.b().host_ints(shape, kAnySize), {}};
  }
  Builder& b = n.b();
  b.check(symbolic::less_equal(count, b.constant_expr(tensor::kMaxRank)), "a result of rank {0}", {count});
  Value* aligned = b.map({b.constant_expr(tensor::kMaxRank)}, [&](Body& body) {
    const Expr at = body.i[0] - (tensor::kMaxRank - count);
    const Scalar exists = holds(body, symbolic::less_equal(b.constant_expr(0), at));
    return ir::select(exists, ir::cast(DType::kI64, body.load(shape, std::vector<Expr>{at})),
                      body.integer(DType::kI64, 1));
  });
  aligned->name = shape->name;
  return {b.host_ints(aligned, kAnySize), count};
}

void import_constant_of_shape(Node& n) {
  const std::optional<Literal> value = n.tensor("value");
  if (value && value->count() != 1)
    n.fault("its attribute 'value' has " + std::to_string(value->count()) + " elements, not one");
  const RunTimeShape shape = shape_operand(n, 0);
  Value* result = n.b().map(shape.extents, [&](Body& body) {
    if (!value) return body.number(DType::kF32, 0);
    const ir::Value64 element = value->at(0);
    return ir::is_float(value->dtype()) ? body.number(value->dtype(), element.f)
                                        : body.integer(value->dtype(), element.i);
  });
  n.output(0, shape.rank ? with_run_time_rank(n.b(), result, shape.rank) : result);
}

void import_range(Node& n) {
  Builder& b = n.b();
  const DType t = n.dtype();
  n.require(t != DType::kBool, 0, "a number");
  n.same_dtype(0, 1);
  n.same_dtype(0, 2);
  std::vector<Value*> operands;
  for (const int k : {0, 1, 2}) operands.push_back(b.reshape(n.input(k), {}));
  if (ir::is_integer(t)) {
    const Expr start = b.host_int(operands[0]), limit = b.host_int(operands[1]), delta = b.host_int(operands[2]);
    b.check(symbolic::logical_not(symbolic::equal(delta, 0)), "a step of {0}", {delta});
    const Expr count = symbolic::max(symbolic::ceildiv(limit - start, delta), 0);
    n.output(0, b.map({count}, [&](Body& body) { return ir::cast(t, body.index(start + body.i[0] * delta)); }));
    return;
  }
  Value* steps = b.map({}, [&](Body& body) {
    const auto load = [&](int k) { return ir::cast(DType::kF64, body.load(operands[k])); };
    const Scalar quotient = ir::unary(ScalarOp::kCeil, (load(1) - load(0)) / load(2));
    return ir::cast(DType::kI64, ir::binary(ScalarOp::kMax, quotient, body.number(DType::kF64, 0)));
  });
  steps->name = n.input(1)->name;
  const Expr count = b.host_int(steps, kAnySize);
  const DType inner = ir::compute_type(t);
  n.output(0, b.map({count}, [&](Body& body) {
    const Scalar start = ir::cast(inner, body.load(operands[0])), delta = ir::cast(inner, body.load(operands[2]));
    return ir::cast(t, start + number_of(body, inner, body.i[0]) * delta);
  }));
}

void import_eye_like(Node& n) {
  const DType t = n.dtype_attribute("dtype", n.dtype());
  Value* x = n.input_of_rank(0, 2);
  const int64_t k = n.integer("k", 0);
  n.output(0, n.b().map(x->type.extents, [&](Body& body) {
    return ir::cast(t, body.index(symbolic::equal(body.i[1], body.i[0] + k)));
  }));
}

// ---- random numbers -------------------------------------------------------------------------------------------------
// Element number c of a node draws from the counter c of a generator that the node's seed selects: the same numbers in each
// run, on every device, whatever the order of evaluation.

int64_t seed_of(Node& n) {
  if (!n.has_attribute("seed")) return static_cast<int64_t>(n.random_seed());
  return static_cast<int64_t>(std::bit_cast<uint32_t>(static_cast<float>(n.real("seed", 0)))) + (int64_t{1} << 40);
}

/// In [0, 1), a multiple of 2^-24, f32.
Scalar uniform(Body& body, int64_t seed, Expr counter) {
  const Scalar bits = ir::binary(ScalarOp::kHash, body.integer(DType::kI64, seed), body.index(counter));
  const Scalar high = ir::binary(ScalarOp::kShiftRight, bits, body.integer(DType::kU32, 8));
  return ir::cast(DType::kF32, high) * body.number(DType::kF32, 0x1p-24);
}

/// In (0, 1).
Scalar open_uniform(Body& body, int64_t seed, Expr counter) {
  return uniform(body, seed, counter) + body.number(DType::kF32, 0x1p-25);
}

/// Mean 0, deviation 1, f32 (Box and Muller's transform of two uniform numbers).
Scalar normal(Body& body, int64_t seed, Expr counter) {
  const Scalar first = open_uniform(body, seed, counter * 2), second = uniform(body, seed, counter * 2 + 1);
  const Scalar radius = ir::unary(ScalarOp::kSqrt, body.number(DType::kF32, -2) * ir::unary(ScalarOp::kLog, first));
  return radius * ir::unary(ScalarOp::kCos, body.number(DType::kF32, 2 * std::numbers::pi) * second);
}

void make_random(Node& n, DType t, const std::vector<Expr>& extents, Expr rank, bool is_normal) {
  if (!ir::is_float(t)) n.fault("random numbers of type " + std::string(long_name_of(t)));
  const int64_t seed = seed_of(n);
  const double mean = n.real("mean", 0), scale = n.real("scale", 1), low = n.real("low", 0), high = n.real("high", 1);
  Value* result = n.b().map(extents, [&](Body& body) {
    const Expr counter = linear_index(n.b(), body.i, extents);
    const Scalar draw = is_normal ? normal(body, seed, counter) : uniform(body, seed, counter);
    const double factor = is_normal ? scale : high - low, offset = is_normal ? mean : low;
    return ir::cast(t, draw * body.number(DType::kF32, factor) + body.number(DType::kF32, offset));
  });
  n.output(0, rank ? with_run_time_rank(n.b(), result, rank) : result);
}

template <bool is_normal>
void import_random(Node& n) {
  const auto shape = n.integers("shape");
  if (!shape) n.fault("its attribute 'shape' is missing");
  make_random(n, n.dtype_attribute("dtype", DType::kF32), exprs_of(n.b(), *shape), {}, is_normal);
}

template <bool is_normal>
void import_random_like(Node& n) {
  const tensor::Type& type = n.input(0)->type;
  make_random(n, n.dtype_attribute("dtype", type.dtype), type.extents, type.rank, is_normal);
}

void import_bernoulli(Node& n) {
  n.require(ir::is_float(n.dtype()), 0, "a float");
  Value* x = n.input(0);
  const DType t = n.dtype_attribute("dtype", x->type.dtype);
  const int64_t seed = seed_of(n);
  Value* result = n.b().map(x->type.extents, [&](Body& body) {
    const Scalar draw = uniform(body, seed, linear_index(n.b(), body.i, x->type.extents));
    return ir::cast(t, ir::less(ir::cast(DType::kF64, draw), ir::cast(DType::kF64, body.load(x, body.i))));
  });
  n.output(0, keep_rank(result, x));
}

/// Draws class c with probability proportional to exp(x[c]): the greatest of x[c] plus Gumbel noise.
void import_multinomial(Node& n) {
  Builder& b = n.b();
  n.require(ir::is_float(n.dtype()), 0, "a float");
  Value* x = n.input_of_rank(0, 2);
  const DType t = n.dtype_attribute("dtype", DType::kI32);
  const int64_t samples = n.integer("sample_size", 1), seed = seed_of(n);
  if (samples < 0) n.fault("its attribute 'sample_size' is " + std::to_string(samples));
  const Expr classes = x->type.extents[1];
  Value* picked = b.reduce(Combiner::kArgMaxFirst, DType::kF32, {x->type.extents[0], b.constant_expr(samples)},
                           {classes}, [&](Body& body) {
                             const Expr counter = (body.i[0] * samples + body.i[1]) * classes + body.r[0];
                             const auto minus_log = [](Scalar u) { return -ir::unary(ScalarOp::kLog, u); };
                             const Scalar noise = minus_log(minus_log(open_uniform(body, seed, counter)));
                             return ir::cast(DType::kF32, body.load(x, {body.i[0], body.r[0]})) + noise;
                           });
  n.output(0, b.cast(picked, t));
}

// ---- dropout --------------------------------------------------------------------------------------------------------

Value* constant_like(Builder& b, Value* x, DType t, int64_t value) {
  return keep_rank(b.map(x->type.extents, [&](Body& body) { return body.integer(t, value); }), x);
}

/// Opsets 7 to 11: for inference only, nothing is dropped. Before opset 10 the mask has the type of x.
void import_dropout_7(Node& n) {
  n.output(0, n.input(0));
  if (n.wants(1)) n.output(1, constant_like(n.b(), n.input(0), n.opset() < 10 ? n.dtype() : DType::kBool, 1));
}

void import_dropout(Node& n) {
  Builder& b = n.b();
  Value* x = n.input(0);
  n.require(ir::is_float(n.dtype()), 0, "a float");
  Value* training = n.optional(2);
  const std::optional<double> trains = training ? constant_number(b, training) : 0.0;
  Value* ratio = n.optional(1);
  const std::optional<double> share = ratio ? constant_number(b, ratio) : 0.5;
  if (trains == 0.0 || share == 0.0) {
    n.output(0, x);
    if (n.wants(1)) n.output(1, constant_like(b, x, DType::kBool, 1));
    return;
  }
  const int64_t seed = n.integer("seed").value_or(static_cast<int64_t>(n.random_seed()));
  const auto ratio_in = [&](Body& body) {
    return share ? body.number(DType::kF32, *share) : ir::cast(DType::kF32, body.load(ratio));
  };
  const auto trains_in = [&](Body& body) { return ir::cast(DType::kBool, body.load(training)); };
  Value* mask = keep_rank(b.map(x->type.extents,
                                [&](Body& body) {
                                  const Scalar draw = uniform(body, seed, linear_index(b, body.i, x->type.extents));
                                  const Scalar kept = ir::binary(ScalarOp::kLessEqual, ratio_in(body), draw);
                                  return trains ? kept : logical_or(kept, logical_not(trains_in(body)));
                                }),
                          x);
  const DType t = n.dtype();
  n.output(0,
           keep_rank(b.map(x->type.extents,
                           [&](Body& body) {
                             const DType inner = ir::compute_type(t);
                             const Scalar value = ir::cast(inner, body.load(x, body.i));
                             const Scalar scale = ir::cast(
                                 inner, body.number(DType::kF32, 1) / (body.number(DType::kF32, 1) - ratio_in(body)));
                             const Scalar dropped = ir::select(body.load(mask, body.i), value * scale, like(value, 0));
                             return ir::cast(t, trains ? dropped : ir::select(trains_in(body), dropped, value));
                           }),
                     x));
  if (n.wants(1)) n.output(1, mask);
}

constexpr OperatorRow kOperators[] = {
    {"", "Constant", 1, import_constant},
    {"", "ConstantOfShape", 9, import_constant_of_shape},
    {"", "Range", 11, import_range},
    {"com.microsoft", "Range", 1, import_range},
    {"", "EyeLike", 9, import_eye_like},
    {"", "RandomNormal", 1, import_random<true>},
    {"", "RandomUniform", 1, import_random<false>},
    {"", "RandomNormalLike", 1, import_random_like<true>},
    {"", "RandomUniformLike", 1, import_random_like<false>},
    {"", "Bernoulli", 15, import_bernoulli},
    {"", "Multinomial", 7, import_multinomial},
    {"", "Dropout", 7, import_dropout_7},
    {"", "Dropout", 12, import_dropout},
};

}  // namespace

std::span<const OperatorRow> maker_operators() { return kOperators; }

}  // namespace stax::frontend
