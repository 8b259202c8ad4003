// SPDX-License-Identifier: Apache-2.0
// Reductions over axes: reduce*, arg*, running sums and products. Norms, the softmax family and losses have files of
// their own (ops_norm.cpp, ops_softmax.cpp, ops_loss.cpp).
//
// The axes of a reduction may arrive at run time. Then each axis has a mask, an Expr of value 0 or 1, and the reduction
// is one comprehension over all axes twice: axis d of the result has extent select(mask, 1, n), axis d of the reduction
// select(mask, n, 1), and the element is at i + r. Nothing depends on the values but extents, so that one kernel
// serves all of them.
#include "frontend/spelling.h"
#include "frontend/tables.h"

namespace stax::frontend {
namespace {

using ir::ScalarOp;
using tensor::EpilogueFn;

using ElementFn = std::function<Scalar(Body&, Scalar)>;
/// `count` is the number of elements that were combined.
using FinishFn = std::function<Scalar(Body&, Scalar accumulator, Expr count)>;

/// Which axes of a tensor are reduced.
struct Region {
  bool known = true;
  std::vector<int> axes;       // known: ascending
  std::vector<Expr> masks;     // else: one for each axis
  std::optional<int> removed;  // how many axes are reduced, where that is known
};

/// All axes; in a value of run-time rank, those that are really there.
Region whole(Builder& b, const Value* x) {
  Region region;
  const int rank = x->type.static_rank();
  region.known = x->type.has_static_rank();
  if (region.known) region.removed = rank;
  for (int d = 0; d < rank; ++d) {
    if (region.known)
      region.axes.push_back(d);
    else
      region.masks.push_back(symbolic::less_equal(b.constant_expr(rank - d), x->type.rank));
  }
  return region;
}

Region region_of(Node& n, Value* x) {
  Builder& b = n.b();
  const bool reduce_all_if_empty = n.integer("noop_with_empty_axes", 0) == 0;
  const int rank = x->type.static_rank();
  const std::optional<std::vector<Expr>> given = n.axes_from("axes", 1, rank_of(b, x));
  Region region;
  if (!given || given->empty()) {
    if (reduce_all_if_empty) return whole(b, x);
    region.removed = 0;
    return region;
  }
  std::vector<bool> in(rank, false);
  for (Expr a : *given) {
    region.known = region.known && a.is_constant() && (x->type.has_static_rank() || a.constant() < 0);
    if (region.known) in[n.axis(a.constant(), rank)] = true;
  }
  if (region.known) {
    for (int d = 0; d < rank; ++d)
      if (in[d]) region.axes.push_back(d);
    region.removed = static_cast<int>(region.axes.size());
    return region;
  }
  region.masks = axis_mask(b, *given, x->type);
  if (!n.has_attribute("axes") && !n.element_count(n.input(1)).is_constant()) {
    const Region all = whole(b, x);
    const Expr empty = symbolic::equal(n.element_count(n.input(1)), 0);
    for (int d = 0; d < rank; ++d) {
      const Expr otherwise = !reduce_all_if_empty ? zero_of(b) : all.known ? one_of(b) : all.masks[d];
      region.masks[d] = symbolic::select(empty, otherwise, region.masks[d]);
    }
    return region;
  }
  Expr sum = zero_of(b);
  for (Expr mask : region.masks) sum = sum + mask;
  const Expr wanted = b.constant_expr(static_cast<int64_t>(given->size()));
  b.check(symbolic::equal(sum, wanted), "an axis is named twice: {0} different ones among {1}", {sum, wanted});
  region.removed = static_cast<int>(given->size());
  return region;
}

/// `v` has extent 1 at all reduced axes of `x`; drops them.
Value* drop_reduced(Node& n, Value* v, const Value* x, const Region& region) {
  Builder& b = n.b();
  const int rank = x->type.static_rank();
  std::vector<Expr> masks = region.masks;
  if (region.known) {
    masks.assign(rank, zero_of(b));
    for (int axis : region.axes) masks[axis] = one_of(b);
  }
  std::optional<int> left;
  if (region.removed && x->type.has_static_rank()) left = rank - *region.removed;
  return drop_axes(b, keep_rank(v, x), masks, left);
}

struct Reduction {
  Combiner combiner;
  DType accumulate;
  ElementFn element;  // may be empty
  FinishFn finish;    // to the element of the result
};

Value* reduce_over(Node& n, Value* x, const Region& region, bool keep_dims, const Reduction& reduction) {
  Builder& b = n.b();
  const auto element = [&](Body& body, Scalar v) { return reduction.element ? reduction.element(body, v) : v; };
  const std::vector<Expr>& extents = x->type.extents;
  const int rank = static_cast<int>(extents.size());
  if (region.known && region.axes.empty()) {
    Value* y = b.map(extents, [&](Body& body) {
      const Scalar v = ir::cast(reduction.accumulate, element(body, body.load(x, body.i)));
      return reduction.finish(body, v, one_of(b));
    });
    return keep_rank(y, x);
  }
  if (region.known) {
    // Reduced axes stay as ones, or go at once where that is possible.
    const bool ones = keep_dims || !x->type.has_static_rank();
    std::vector<Expr> kept, reduced;
    std::vector<int> position(rank, -1);  // of the reduced axes, among the reductions
    for (int axis : region.axes) {
      position[axis] = static_cast<int>(reduced.size());
      reduced.push_back(extents[axis]);
    }
    for (int d = 0; d < rank; ++d)
      if (position[d] < 0 || ones) kept.push_back(position[d] < 0 ? extents[d] : one_of(b));
    const Expr count = b.product(reduced);
    Value* y = b.reduce(
        reduction.combiner, reduction.accumulate, kept, reduced,
        [&](Body& body) {
          std::vector<Expr> at;
          size_t next = 0;
          for (int d = 0; d < rank; ++d) {
            at.push_back(position[d] < 0 ? body.i[next] : body.r[position[d]]);
            if (position[d] < 0 || ones) ++next;
          }
          return element(body, body.load(x, at));
        },
        [&](Body& body, Scalar a) { return reduction.finish(body, a, count); });
    return keep_dims || !ones ? keep_rank(y, x) : drop_reduced(n, y, x, region);
  }
  std::vector<Expr> kept, reduced;
  for (int d = 0; d < rank; ++d) {
    kept.push_back(symbolic::select(region.masks[d], one_of(b), extents[d]));
    reduced.push_back(symbolic::select(region.masks[d], extents[d], one_of(b)));
  }
  const Expr count = b.product(reduced);
  Value* y = b.reduce(
      reduction.combiner, reduction.accumulate, kept, reduced,
      [&](Body& body) {
        std::vector<Expr> at;
        for (int d = 0; d < rank; ++d) at.push_back(body.i[d] + body.r[d]);
        return element(body, body.load(x, at));
      },
      [&](Body& body, Scalar a) { return reduction.finish(body, a, count); });
  return keep_dims ? keep_rank(y, x) : drop_reduced(n, y, x, region);
}

void reduce(Node& n, const Reduction& reduction) {
  Value* x = n.input(0);
  n.output(0, reduce_over(n, x, region_of(n, x), n.integer("keepdims", 1) != 0, reduction));
}

FinishFn cast_to(DType t) {
  return [t](Body&, Scalar a, Expr) { return ir::cast(t, a); };
}

Scalar squared(Body&, Scalar v) { return v * v; }
Scalar absolute(Body&, Scalar v) { return ir::is_signed(v->dtype) ? ir::unary(ScalarOp::kAbs, v) : v; }
/// The element in the type in which it is summed, so that its square and the like neither round nor overflow.
ElementFn widened(DType t, Scalar (*f)(Body&, Scalar)) {
  return [t, f](Body& body, Scalar v) { return f(body, ir::cast(t, v)); };
}

void import_reduce_sum(Node& n) {
  const DType t = n.dtype();
  reduce(n, {Combiner::kSum, sum_accumulator(t), {}, cast_to(t)});
}

void import_reduce_mean(Node& n) {
  const DType t = n.dtype();
  const DType sum = ir::is_float(t) ? sum_accumulator(t) : t == DType::kU64 ? t : DType::kI64;
  reduce(n, {Combiner::kSum, sum, {}, [t, sum](Body& body, Scalar a, Expr count) {
               return ir::cast(t, a / number_of(body, sum, count));
             }});
}

void reduce_extreme(Node& n, Combiner combiner, Combiner of_bools) {
  const DType t = n.dtype();
  if (t == DType::kBool) return reduce(n, {of_bools, t, {}, cast_to(t)});
  reduce(n, {combiner, ir::compute_type(t), {}, cast_to(t)});
}

void import_reduce_max(Node& n) { reduce_extreme(n, Combiner::kMax, Combiner::kOr); }
void import_reduce_min(Node& n) { reduce_extreme(n, Combiner::kMin, Combiner::kAnd); }

void import_reduce_prod(Node& n) {
  const DType t = n.dtype();
  reduce(n, {Combiner::kProd, sum_accumulator(t), {}, cast_to(t)});
}

void import_reduce_l1(Node& n) {
  const DType t = n.dtype();
  reduce(n, {Combiner::kSum, sum_accumulator(t), widened(sum_accumulator(t), absolute), cast_to(t)});
}

void import_reduce_sum_square(Node& n) {
  const DType t = n.dtype();
  reduce(n, {Combiner::kSum, sum_accumulator(t), widened(sum_accumulator(t), squared), cast_to(t)});
}

/// Those that end in a root or logarithm are floats on the way also where they began as integers.
DType real_accumulator(DType t) { return ir::is_float(t) ? sum_accumulator(t) : DType::kF64; }

void import_reduce_l2(Node& n) {
  const DType t = n.dtype();
  const DType sum = real_accumulator(t);
  reduce(n, {Combiner::kSum, sum, widened(sum, squared),
             [t](Body&, Scalar a, Expr) { return ir::cast(t, ir::unary(ScalarOp::kSqrt, a)); }});
}

void import_reduce_log_sum(Node& n) {
  const DType t = n.dtype();
  reduce(n, {Combiner::kSum, real_accumulator(t), {}, [t](Body&, Scalar a, Expr) {
               return ir::cast(t, ir::unary(ScalarOp::kLog, a));
             }});
}

/// log(sum exp(x)) = m + log(sum exp(x - m)) with m the maximum, or 0 where that is not finite.
void import_reduce_log_sum_exp(Node& n) {
  Builder& b = n.b();
  Value* x = n.input(0);
  const DType t = n.dtype();
  const DType work = ir::is_float(t) ? ir::compute_type(t) : DType::kF64;
  const Region region = region_of(n, x);
  if (region.known && region.axes.empty()) {
    n.output(0, keep_rank(b.pointwise({x}, [](std::span<const Scalar> v) { return v[0]; }), x));
    return;
  }
  Value* top =
      reduce_over(n, x, region, true, {Combiner::kMax, work, {}, [](Body& body, Scalar a, Expr) {
                                         return ir::select(ir::unary(ScalarOp::kIsInf, a), body.number(a->dtype, 0), a);
                                       }});
  Value* spread = b.pointwise({as_type(b, x, work), top},
                              [](std::span<const Scalar> v) { return ir::unary(ScalarOp::kExp, v[0] - v[1]); });
  keep_rank(spread, x);
  Value* sum =
      reduce_over(n, spread, region, true, {Combiner::kSum, real_accumulator(work), {}, [work](Body&, Scalar a, Expr) {
                                              return ir::cast(work, ir::unary(ScalarOp::kLog, a));
                                            }});
  Value* y = b.pointwise({sum, top}, [t](std::span<const Scalar> v) { return ir::cast(t, v[0] + v[1]); });
  n.output(0, n.integer("keepdims", 1) != 0 ? keep_rank(y, x) : drop_reduced(n, y, x, region));
}

void arg_extreme(Node& n, Combiner first, Combiner last) {
  Value* x = n.input(0);
  Region region;
  region.axes = {axis_of(n, n.integer("axis", 0), x)};
  region.removed = 1;
  const Combiner combiner = n.integer("select_last_index", 0) != 0 ? last : first;
  n.output(0, reduce_over(n, x, region, n.integer("keepdims", 1) != 0,
                          {combiner, ir::compute_type(n.dtype()), {}, [](Body&, Scalar a, Expr) { return a; }}));
}

void import_arg_max(Node& n) { arg_extreme(n, Combiner::kArgMaxFirst, Combiner::kArgMaxLast); }
void import_arg_min(Node& n) { arg_extreme(n, Combiner::kArgMinFirst, Combiner::kArgMinLast); }

/// A running combination along an axis that may be known only at run time: then each axis is scanned and one is chosen.
void scan(Node& n, Combiner combiner) {
  Builder& b = n.b();
  Value* x = n.input(0);
  if (x->type.has_static_rank()) need_rank(n, 0, 1);
  const DType t = n.dtype();
  Value* wide = as_type(b, x, ir::compute_type(t));
  const auto along = [&](int axis) {
    tensor::PrefixScan payload{.axis = axis,
                               .combiner = combiner,
                               .exclusive = n.integer("exclusive", 0) != 0,
                               .reverse = n.integer("reverse", 0) != 0};
    Value* y = b.op(payload, {wide}, {tensor::Type::tensor(wide->type.dtype, x->type.extents)})->result();
    return keep_rank(y, x);
  };
  const Expr axis = n.exact_ints(n.input(1), 1)[0];
  const int rank = x->type.static_rank();
  Value* y = nullptr;
  if (axis.is_constant() && (x->type.has_static_rank() || axis.constant() < 0)) {
    y = along(axis_of(n, axis.constant(), x));
  } else {
    const Expr real_rank = rank_of(b, x);
    b.check(symbolic::logical_and(symbolic::less_equal(-real_rank, axis), symbolic::less(axis, real_rank)),
            "axis {0} is outside of a tensor of rank {1}", {axis, real_rank});
    const Expr at =
        symbolic::select(symbolic::less(axis, zero_of(b)), axis + rank, axis + (b.constant_expr(rank) - real_rank));
    std::vector<Value*> scans;
    for (int d = 0; d < rank; ++d) scans.push_back(along(d));
    y = b.map(x->type.extents, [&](Body& body) {
      Scalar chosen = body.load(scans.back(), body.i);
      for (int d = rank - 2; d >= 0; --d)
        chosen = ir::select(holds(body, symbolic::equal(at, d)), body.load(scans[d], body.i), chosen);
      return chosen;
    });
    keep_rank(y, x);
  }
  n.output(0, keep_rank(as_type(b, y, t), x));
}

void import_cum_sum(Node& n) { scan(n, Combiner::kSum); }
void import_cum_prod(Node& n) { scan(n, Combiner::kProd); }

constexpr OperatorRow kRows[] = {
    {"", "ReduceSum", 1, import_reduce_sum},
    {"", "ReduceMean", 1, import_reduce_mean},
    {"", "ReduceMax", 1, import_reduce_max},
    {"", "ReduceMin", 1, import_reduce_min},
    {"", "ReduceProd", 1, import_reduce_prod},
    {"", "ReduceL1", 1, import_reduce_l1},
    {"", "ReduceL2", 1, import_reduce_l2},
    {"", "ReduceLogSum", 1, import_reduce_log_sum},
    {"", "ReduceLogSumExp", 1, import_reduce_log_sum_exp},
    {"", "ReduceSumSquare", 1, import_reduce_sum_square},
    {"", "ArgMax", 1, import_arg_max},
    {"", "ArgMin", 1, import_arg_min},
    {"", "CumSum", 11, import_cum_sum},
    {"", "CumProd", 26, import_cum_prod},
};

}  // namespace

std::span<const OperatorRow> reduction_operators() {
  static const std::vector<OperatorRow> rows = joined_rows({kRows, softmax_rows(), norm_rows(), loss_rows()});
  return rows;
}

}  // namespace stax::frontend
