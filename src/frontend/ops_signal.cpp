// SPDX-License-Identifier: Apache-2.0
// Fourier transforms, window functions, mel weights, non-maximum suppression.
//
// A Fourier transform is a product with a table: y[k, p] = sum over n and c of x[n, c] * w[k, p, n, c], where c and p are 0 for the
// real and 1 for the imaginary part. One contraction serves real and complex signals of any length, and the table is computed in f64
// from k * n mod N, so that it is exact also where k * n is large. The axis may arrive at run time: then each axis has a mask of 0 or
// 1, and extents and indices are sums over them.
#include <limits>
#include <numbers>

#include "frontend/decompositions.h"
#include "frontend/tables.h"

namespace stax::frontend {
namespace {

using ir::ScalarOp;

constexpr DType kWide = DType::kF64;

Scalar wide(Body& body, double v) { return body.number(kWide, v); }

/// w[k, p, n, c] of a transform of length `length`; `weight` (may be null) scales by k and n.
Value* fourier_table(Builder& b, DType t, Expr bins, Expr parts, Expr taps, Expr channels, Expr length, bool inverse,
                     const std::function<Scalar(Body&, Expr k, Expr n)>& weight) {
  return b.map({bins, parts, taps, channels}, [&](Body& body) {
    const Expr k = body.i[0], p = body.i[1], n = body.i[2], c = body.i[3];
    const Scalar turn = number_of(body, kWide, symbolic::mod(k * n, length)) / number_of(body, kWide, length);
    const Scalar phase = turn * wide(body, 2 * std::numbers::pi);
    const Scalar cos = ir::unary(ScalarOp::kCos, phase), sin = ir::unary(ScalarOp::kSin, phase);
    // e^{-i phase}, or e^{i phase}: real from imaginary by +-sin, imaginary from real by the opposite.
    const Scalar of_real = inverse ? sin : -sin, of_imaginary = inverse ? -sin : sin;
    Scalar w = ir::select(holds(body, symbolic::equal(p, c)), cos,
                          ir::select(holds(body, symbolic::less(p, c)), of_imaginary, of_real));
    if (weight) w = w * weight(body, k, n);
    return ir::cast(t, w);
  });
}

void import_dft(Node& n) {
  Builder& b = n.b();
  const int rank = need_rank(n, 0, 2);
  Value* x = n.input(0);
  const DType type = n.dtype(), t = product_accumulator(type);
  const bool inverse = n.integer("inverse", 0) != 0, onesided = n.integer("onesided", 0) != 0;
  Expr axis = b.constant_expr(n.opset() >= 20 ? -2 : n.integer("axis", 1));
  if (n.opset() >= 20 && n.has(2)) axis = n.exact_ints(n.input(2), 1)[0];
  axis = symbolic::select(symbolic::less(axis, zero_of(b)), axis + rank, axis);
  b.check(
      symbolic::logical_and(symbolic::less_equal(zero_of(b), axis), symbolic::less(axis, b.constant_expr(rank - 1))),
      "axis {0} is none that a tensor of rank {1} can be transformed along", {axis, b.constant_expr(rank)});
  std::vector<Expr> mask;
  Expr have = zero_of(b);
  for (int d = 0; d < rank - 1; ++d) {
    mask.push_back(symbolic::equal(axis, d));
    have = have + symbolic::select(mask[d], n.extent(0, d), zero_of(b));
  }
  const bool real_result = inverse && onesided;
  Expr length = real_result ? symbolic::max((have - 1) * 2, 0) : have;
  if (n.has(1)) length = n.exact_ints(n.input(1), 1, {1, symbolic::kMaxExtent})[0];
  const Expr half = symbolic::floordiv(length, 2) + 1;
  const Expr bins = onesided && !inverse ? half : length;
  const Expr taps = symbolic::min(real_result ? half : length, have);
  const Expr parts = b.constant_expr(real_result ? 1 : 2), channels = n.extent(0, rank - 1);
  b.check(symbolic::logical_and(symbolic::less_equal(one_of(b), channels),
                                symbolic::less_equal(channels, b.constant_expr(2))),
          "the last extent is {0}, and has to be 1 (real) or 2 (complex)", {channels});
  std::function<Scalar(Body&, Expr, Expr)> weight;
  if (inverse)
    weight = [&](Body& body, Expr, Expr tap) {
      const Scalar share = wide(body, 1) / number_of(body, kWide, length);
      if (!onesided) return share;
      // Of a one-sided spectrum, all but the first and the middle one stand for two.
      const Expr once = symbolic::logical_or(symbolic::equal(tap, 0), symbolic::equal(tap * 2, length));
      return ir::select(holds(body, once), share, share * wide(body, 2));
    };
  Value* table = fourier_table(b, t, bins, parts, taps, channels, length, inverse, weight);
  std::vector<Expr> extents;
  for (int d = 0; d < rank - 1; ++d) extents.push_back(symbolic::select(mask[d], bins, n.extent(0, d)));
  extents.push_back(parts);
  n.output(0, b.reduce(
                  Combiner::kSum, t, extents, {taps, channels},
                  [&](Body& body) {
                    std::vector<Expr> at;
                    Expr bin = zero_of(b);
                    for (int d = 0; d < rank - 1; ++d) {
                      at.push_back(symbolic::select(mask[d], body.r[0], body.i[d]));
                      bin = bin + symbolic::select(mask[d], body.i[d], zero_of(b));
                    }
                    at.push_back(body.r[1]);
                    return ir::cast(t, body.load(x, at)) *
                           body.load(table, {bin, body.i[rank - 1], body.r[0], body.r[1]});
                  },
                  [&](Body&, Scalar a) { return ir::cast(type, a); }));
}

void import_stft(Node& n) {
  Builder& b = n.b();
  // A real signal may leave out the last extent of 1, as PyTorch's exporter does.
  Value* x = n.input(0);
  x = x->type.has_static_rank() && x->type.static_rank() == 2
          ? b.reshape(x, {b.extent(x, 0), b.extent(x, 1), one_of(b)})
          : n.input_of_rank(0, 3);
  Value* window = n.has(2) ? n.input_of_rank(2, 1) : nullptr;
  const DType type = n.dtype(), t = product_accumulator(type);
  const Expr step = n.exact_ints(n.input(1), 1, {1, symbolic::kMaxExtent})[0];
  const Expr signal = b.extent(x, 1), channels = b.extent(x, 2);
  Expr length = window ? b.extent(window, 0) : signal;
  if (n.has(3)) length = n.exact_ints(n.input(3), 1, {1, symbolic::kMaxExtent})[0];
  if (window) check_equal(b, b.extent(window, 0), length, "length of the window and of a frame");
  const bool onesided = n.integer("onesided", 1) != 0;
  const Expr bins = onesided ? symbolic::floordiv(length, 2) + 1 : length;
  const Expr frames = symbolic::max(symbolic::floordiv(signal - length, step) + 1, 0);
  std::function<Scalar(Body&, Expr, Expr)> weight;
  if (window) weight = [&](Body& body, Expr, Expr tap) { return ir::cast(kWide, body.load(window, {tap})); };
  Value* table = fourier_table(b, t, bins, b.constant_expr(2), length, channels, length, false, weight);
  n.output(0, b.reduce(
                  Combiner::kSum, t, {b.extent(x, 0), frames, bins, b.constant_expr(2)}, {length, channels},
                  [&](Body& body) {
                    const Scalar v = body.load(x, {body.i[0], body.i[1] * step + body.r[0], body.r[1]});
                    return ir::cast(t, v) * body.load(table, {body.i[2], body.i[3], body.r[0], body.r[1]});
                  },
                  [&](Body&, Scalar a) { return ir::cast(type, a); }));
}

/// f of the phase 2 pi i / N, where N is the size, or one less for a symmetric window. A symmetric window of one element is 1, as numpy has it.
void make_window(Node& n, const std::function<Scalar(Body&, Scalar phase)>& f) {
  Builder& b = n.b();
  const Expr size = n.exact_ints(n.input(0), 1, {0, symbolic::kMaxExtent})[0];
  const DType t = n.dtype_attribute("output_datatype", DType::kF32);
  const bool periodic = n.integer("periodic", 1) != 0;
  const Expr period = symbolic::max(periodic ? size : size - 1, 1);
  n.output(0, b.map({size}, [&](Body& body) {
    const Scalar turn = number_of(body, kWide, body.i[0]) / number_of(body, kWide, period);
    const Scalar value = f(body, turn * wide(body, 2 * std::numbers::pi));
    const Scalar is_single = ir::cast(DType::kBool, body.index(symbolic::equal(size, 1)));
    return ir::cast(t, periodic ? value : ir::select(is_single, wide(body, 1), value));
  }));
}

Scalar cos_of(Scalar x) { return ir::unary(ScalarOp::kCos, x); }

void import_hann_window(Node& n) {
  make_window(n, [](Body& body, Scalar phase) { return wide(body, 0.5) - wide(body, 0.5) * cos_of(phase); });
}

void import_hamming_window(Node& n) {
  make_window(n,
              [](Body& body, Scalar phase) { return wide(body, 25.0 / 46) - wide(body, 21.0 / 46) * cos_of(phase); });
}

void import_blackman_window(Node& n) {
  make_window(n, [](Body& body, Scalar phase) {
    return wide(body, 0.42) - wide(body, 0.5) * cos_of(phase) + wide(body, 0.08) * cos_of(phase * wide(body, 2));
  });
}

/// Triangles whose corners lie equally far apart on the mel scale, in bins of a spectrum.
void import_mel_weight_matrix(Node& n) {
  Builder& b = n.b();
  const symbolic::Interval positive{1, symbolic::kMaxExtent};
  const Expr bands = n.exact_ints(n.input(0), 1, {0, symbolic::kMaxExtent})[0];
  const Expr length = n.exact_ints(n.input(1), 1, positive)[0], rate = n.exact_ints(n.input(2), 1, positive)[0];
  const DType t = n.dtype_attribute("output_datatype", DType::kF32);
  Value *low = n.input(3), *high = n.input(4);
  const auto mel = [&](Body& body, Value* edge) {
    const Scalar hertz = ir::cast(kWide, body.load(edge));
    return ir::unary(ScalarOp::kLog1p, hertz / wide(body, 700)) * wide(body, 2595 / std::numbers::ln10);
  };
  Value* corners = b.map({bands + 2}, [&](Body& body) {
    const Scalar first = mel(body, low), step = (mel(body, high) - first) / number_of(body, kWide, bands + 2);
    const Scalar at = first + number_of(body, kWide, body.i[0]) * step;
    const Scalar hertz = wide(body, 700) * ir::unary(ScalarOp::kExpm1, at * wide(body, std::numbers::ln10 / 2595));
    const Scalar bin = number_of(body, kWide, length + 1) * hertz / number_of(body, kWide, rate);
    return ir::cast(DType::kI64, ir::unary(ScalarOp::kFloor, bin));
  });
  n.output(0, b.map({symbolic::floordiv(length, 2) + 1, bands}, [&](Body& body) {
    const Scalar j = body.index(body.i[0]);
    const Scalar left = body.load(corners, {body.i[1]}), top = body.load(corners, {body.i[1] + 1});
    const Scalar right = body.load(corners, {body.i[1] + 2});
    const auto ratio = [](Scalar a, Scalar over) { return ir::cast(kWide, a) / ir::cast(kWide, over); };
    const Scalar falls = logical_and(ir::less_equal(top, j), ir::less(j, right));
    const Scalar rises = logical_and(ir::less_equal(left, j), ir::less_equal(j, top));
    // A side without width is its peak alone.
    const Scalar rising = ir::select(ir::equal(left, top), wide(body, 1), ratio(j - left, top - left));
    return ir::cast(t, ir::select(falls, ratio(right - j, right - top), ir::select(rises, rising, wide(body, 0))));
  }));
}

void import_non_max_suppression(Node& n) {
  Builder& b = n.b();
  Value *boxes = n.input_of_rank(0, 3), *scores = n.input_of_rank(1, 3);
  check_equal(b, b.extent(boxes, 0), b.extent(scores, 0), "batches of boxes and scores");
  check_equal(b, b.extent(boxes, 1), b.extent(scores, 2), "number of boxes and of scores");
  check_equal(b, b.extent(boxes, 2), b.constant_expr(4), "last extent of boxes and 4");
  Value* most = n.has(2) ? as_type(b, n.input(2), DType::kI64) : b.int_scalar(zero_of(b));
  const auto threshold = [&](int k, double fallback) {
    return n.has(k) ? as_type(b, n.input(k), DType::kF32) : b.constant(DType::kF32, fallback);
  };
  Value *overlap = threshold(3, 0), *least = threshold(4, -std::numeric_limits<double>::infinity());
  const Expr count = b.new_symbol(n.output_name(0) + ".count", {0, symbolic::kMaxExtent});
  n.output(0, b.op(tensor::NonMaxSuppression{.center_point_box = n.integer("center_point_box", 0) != 0},
                   {boxes, scores, most, overlap, least},
                   {tensor::Type::tensor(DType::kI64, {count, b.constant_expr(3)})}, {count})
                  ->result());
}

constexpr OperatorRow kRows[] = {
    {"", "DFT", 17, import_dft},
    {"", "STFT", 17, import_stft},
    {"", "HannWindow", 17, import_hann_window},
    {"", "HammingWindow", 17, import_hamming_window},
    {"", "BlackmanWindow", 17, import_blackman_window},
    {"", "MelWeightMatrix", 17, import_mel_weight_matrix},
    {"", "NonMaxSuppression", 10, import_non_max_suppression},
};

}  // namespace

std::span<const OperatorRow> signal_operators() { return kRows; }

}  // namespace stax::frontend
