// SPDX-License-Identifier: Apache-2.0
// Poolings: a reduction over the taps of a window. Nothing is padded: a tap outside of the input gives the neutral element
// instead of a load, and is guarded only on the sides where a window can go over.
#include "frontend/decompositions.h"
#include "frontend/tables.h"
#include "frontend/windows.h"

namespace stax::frontend {
namespace {

using ir::ScalarOp;

struct Pool {
  Value* x = nullptr;
  Window window;
  std::vector<Expr> input;    // spatial
  std::vector<Expr> extents;  // of the result
  bool over_end = false;      // a last window may go over the padding, too
};

Pool read_pool(Node& n, Value* x) {
  const auto shape = n.integers("kernel_shape");
  if (!shape || shape->empty()) n.fault("kernel_shape is missing");
  Pool p;
  p.x = of_rank(n.b(), x, static_cast<int>(shape->size()) + 2);
  if (p.x->type.extents.size() != shape->size() + 2) n.fault("kernel_shape does not fit the rank of the input");
  const int rank = p.x->type.static_rank() - 2;
  p.input = extents_of(p.x, 2);
  p.window = read_window(n, read_kernel(n, rank), p.input, true);
  p.over_end = n.integer("ceil_mode", 0) != 0;
  p.extents = joined(extents_of(p.x, 0, 2), window_counts(n, p.window, p.input, p.over_end));
  return p;
}

/// The element of x under tap `tap` of the window at `at`; `outside` (of x's dtype) where there is none.
Scalar tap_of(Builder& b, Body& body, const Pool& p, Value* x, const std::vector<Expr>& at,
              const std::vector<Expr>& tap, Scalar outside) {
  std::vector<Expr> index = part(at, 0, 2);
  Expr inside = one_of(b);
  for (int k = 0; k < p.window.rank(); ++k) {
    const Expr position = p.window.position(k, at[2 + k], tap[k]);
    index.push_back(position);
    if (!is_zero(p.window.before[k]))
      inside = symbolic::logical_and(inside, symbolic::less_equal(zero_of(b), position));
    if (!is_zero(p.window.after[k]) || p.over_end)
      inside = symbolic::logical_and(inside, symbolic::less(position, p.input[k]));
  }
  return ir::select(holds(body, inside), body.load(x, index), outside);
}

/// Where on axis k the window at `at` first lies behind the padding.
Expr first_position(const Pool& p, const std::vector<Expr>& at, int k) {
  const Window& w = p.window;
  const Expr start = at[2 + k] * w.stride[k] - w.before[k];
  return is_zero(w.before[k]) ? start
                              : start + symbolic::ceildiv(symbolic::max(-start, 0), w.dilation[k]) * w.dilation[k];
}

/// The first tap of the window at `at` that lies in the input, or `outside` if none does.
Scalar first_tap(Body& body, const Pool& p, Value* x, const std::vector<Expr>& at, Scalar outside) {
  std::vector<Expr> index(at.begin(), at.begin() + 2);
  Expr inside = one_of(body.builder());
  for (int k = 0; k < p.window.rank(); ++k) {
    const Window& w = p.window;
    const Expr position = first_position(p, at, k);
    index.push_back(position);
    if (!is_zero(w.before[k]) || p.over_end)
      inside = symbolic::logical_and(inside, symbolic::less(position, p.input[k]));
  }
  return ir::select(holds(body, inside), body.load(x, index), outside);
}

/// How many taps of the window at `at` lie in the input, or in the input and its padding.
Expr taps_inside(Builder& b, const Pool& p, const std::vector<Expr>& at, bool with_padding) {
  Expr count = one_of(b);
  for (int k = 0; k < p.window.rank(); ++k) {
    const Window& w = p.window;
    const Expr start = at[2 + k] * w.stride[k] - w.before[k];
    const Expr end = with_padding ? p.input[k] + w.after[k] : p.input[k];
    const bool clipped_below = !with_padding && !is_zero(w.before[k]);
    const bool clipped_above = p.over_end || (!with_padding && !is_zero(w.after[k]));
    const Expr first = clipped_below ? symbolic::ceildiv(symbolic::max(-start, 0), w.dilation[k]) : zero_of(b);
    const Expr last = clipped_above ? symbolic::min(w.kernel[k], symbolic::floordiv(end - 1 - start, w.dilation[k]) + 1)
                                    : w.kernel[k];
    count = count * symbolic::max(last - first, 0);
  }
  return count;
}

void import_max_pool(Node& n) {
  Builder& b = n.b();
  const Pool p = read_pool(n, n.input(0));
  Value* x = p.x;
  const DType t = n.dtype(), work = ir::compute_type(t);
  // As in ONNX's reference, which takes a tap for a greater one: NaN never is, and none is greater than a NaN that comes first.
  const auto body = [&](Body& body) {
    const Scalar tap = tap_of(b, body, p, x, body.i, body.r, lowest(body, t));
    return ir::is_float(t) ? ir::select(ir::unary(ScalarOp::kIsNan, tap), lowest(body, t), tap) : tap;
  };
  n.output(0, b.reduce(Combiner::kMax, work, p.extents, p.window.kernel, body, [&](Body& body, Scalar a) {
    if (!ir::is_float(t)) return ir::cast(t, a);
    const Scalar first = first_tap(body, p, x, body.i, lowest(body, t));
    return ir::select(ir::unary(ScalarOp::kIsNan, first), first, ir::cast(t, a));
  }));
  if (!n.wants(1)) return;
  // The position of the first greatest tap in the whole tensor; rows before columns, or columns before rows.
  const bool columns_first = n.integer("storage_order", 0) != 0;
  n.output(1, b.reduce(Combiner::kArgMaxFirst, work, p.extents, p.window.kernel, body, [&](Body& body, Scalar tap) {
    const int rank = p.window.rank();
    std::vector<Scalar> position(rank);
    for (int k = rank - 1; k >= 0; --k) {
      const Scalar extent = body.index(p.window.kernel[k]);
      const Scalar own = ir::binary(ScalarOp::kModFloor, tap, extent);
      tap = tap / extent;
      const Scalar at = body.index(p.window.position(k, body.i[2 + k], zero_of(b))) +
                        own * body.integer(DType::kI64, p.window.dilation[k]);
      position[k] = clamp(at, body.integer(DType::kI64, 0), body.index(p.input[k] - 1));
    }
    if (ir::is_float(t)) {
      const Scalar starts_with_nan = ir::unary(ScalarOp::kIsNan, first_tap(body, p, x, body.i, lowest(body, t)));
      for (int k = 0; k < rank; ++k)
        position[k] = ir::select(starts_with_nan, body.index(first_position(p, body.i, k)), position[k]);
    }
    const Expr plane = body.i[0] * b.extent(x, 1) + body.i[1];
    Scalar inner = columns_first ? position[rank - 1] : position[0];
    for (int k = 1; k < rank; ++k) {
      const int axis = columns_first ? rank - 1 - k : k;
      inner = inner * body.index(p.input[axis]) + position[axis];
    }
    return body.index(plane * b.product(p.input)) + inner;
  }));
}

}  // namespace

Value* average_pool(Node& n, Value* of) {
  Builder& b = n.b();
  const Pool p = read_pool(n, of);
  Value* x = p.x;
  const DType t = x->type.dtype, work = ir::compute_type(t);
  const bool with_padding = n.integer("count_include_pad", 0) != 0;
  return b.reduce(
      Combiner::kSum, work, p.extents, p.window.kernel,
      [&](Body& body) { return tap_of(b, body, p, x, body.i, body.r, body.number(t, 0)); },
      [&](Body& body, Scalar a) {
        return ir::cast(t, a / number_of(body, work, taps_inside(b, p, body.i, with_padding)));
      });
}

namespace {

void import_average_pool(Node& n) { n.output(0, average_pool(n, n.input(0))); }

Scalar power(Body& body, Scalar x, double p) {
  x = ir::unary(ScalarOp::kAbs, x);
  if (p == 1) return x;
  return p == 2 ? x * x : ir::binary(ScalarOp::kPow, x, body.number(x->dtype, p));
}

Scalar root(Body& body, Scalar x, double p) {
  if (p == 1) return x;
  return p == 2 ? ir::unary(ScalarOp::kSqrt, x) : ir::binary(ScalarOp::kPow, x, body.number(x->dtype, 1 / p));
}

/// Before opset 2 the order is a float.
double order_of(Node& n) { return n.opset() < 2 ? n.real("p", 2) : static_cast<double>(n.integer("p", 2)); }

void import_lp_pool(Node& n) {
  Builder& b = n.b();
  const Pool p = read_pool(n, n.input(0));
  Value* x = p.x;
  const DType t = n.dtype(), work = ir::compute_type(t);
  const double order = order_of(n);
  n.output(0, b.reduce(
                  Combiner::kSum, work, p.extents, p.window.kernel,
                  [&](Body& body) {
                    return power(body, ir::cast(work, tap_of(b, body, p, x, body.i, body.r, body.number(t, 0))), order);
                  },
                  [&](Body& body, Scalar a) { return ir::cast(t, root(body, a, order)); }));
}

std::vector<int> spatial_axes(Node& n) {
  std::vector<int> axes;
  for (int d = 2; d < need_rank(n, 0, 2); ++d) axes.push_back(d);
  return axes;
}

void import_global_average_pool(Node& n) { n.output(0, n.b().mean(n.input(0), spatial_axes(n), true)); }

void import_global_max_pool(Node& n) {
  const DType t = n.dtype();
  n.output(0, n.b().reduce_axes(Combiner::kMax, n.input(0), spatial_axes(n), true, ir::compute_type(t),
                                [t](Body&, Scalar a) { return ir::cast(t, a); }));
}

void import_global_lp_pool(Node& n) {
  Builder& b = n.b();
  Value* x = n.input(0);
  const DType t = n.dtype(), sum = sum_accumulator(t);
  const double order = order_of(n);
  const std::vector<int> axes = spatial_axes(n);
  std::vector<Expr> reduced = extents_of(x, 2),
                    kept = joined(extents_of(x, 0, 2), std::vector<Expr>(axes.size(), one_of(b)));
  n.output(0, b.reduce(
                  Combiner::kSum, sum, kept, reduced,
                  [&](Body& body) {
                    return power(body, ir::cast(sum, body.load(x, joined(part(body.i, 0, 2), body.r))), order);
                  },
                  [&](Body& body, Scalar a) { return ir::cast(t, root(body, a, order)); }));
}

/// Puts each element where MaxPool found it. The indices count in the extents that kernel, strides and pads imply; a given
/// output_shape adds zeros behind or cuts off.
void import_max_unpool(Node& n) {
  Builder& b = n.b();
  const int rank = need_rank(n, 0, 3) - 2;
  Value *x = n.input(0), *index = n.input(1);
  const Window w = read_window(n, read_kernel(n, rank), extents_of(x, 2));
  for (int d = 0; d < rank + 2; ++d)
    check_equal(b, n.extent(0, d), n.extent(1, d), "extents of elements and of indices");
  std::vector<Expr> extents = extents_of(x, 0, 2);
  for (int k = 0; k < rank; ++k)
    extents.push_back(
        symbolic::max((n.extent(0, 2 + k) - 1) * w.stride[k] + w.kernel[k] - w.before[k] - w.after[k], 0));
  const Expr total = b.product(extents);
  Value* zeros = b.map({total}, [&](Body& body) { return body.integer(n.dtype(), 0); });
  Value* y = b.scatter(zeros, x->type.extents, Combiner::kNone, [&](Body& body) {
    return Builder::ScatterPoint{
        {body.checked(ir::cast(DType::kI64, body.load(index, body.i)), total)}, body.load(x, body.i), {}};
  });
  y = b.reshape(y, extents);
  if (n.has(2)) {
    const std::vector<Expr> given = n.exact_ints(n.input(2), rank + 2, {0, symbolic::kMaxExtent});
    std::vector<Expr> after;
    for (size_t d = 0; d < extents.size(); ++d) after.push_back(given[d] - extents[d]);
    y = b.pad_constant(y, std::vector<Expr>(extents.size(), zero_of(b)), after, {});
  }
  n.output(0, y);
}

constexpr OperatorRow kRows[] = {
    {"", "MaxPool", 1, import_max_pool},
    {"", "AveragePool", 1, import_average_pool},
    {"", "LpPool", 1, import_lp_pool},
    {"", "GlobalMaxPool", 1, import_global_max_pool},
    {"", "GlobalAveragePool", 1, import_global_average_pool},
    {"", "GlobalLpPool", 1, import_global_lp_pool},
    {"", "MaxUnpool", 9, import_max_unpool},
};

}  // namespace

Rows pooling_rows() { return kRows; }

}  // namespace stax::frontend
