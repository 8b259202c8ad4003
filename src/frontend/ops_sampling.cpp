// SPDX-License-Identifier: Apache-2.0
// Samples at positions that are data: GridSample, AffineGrid, RoiAlign, MaxRoiPool. Every index that comes from data is
// guarded or clipped, so that no value of a grid or a box reads outside of the image.
#include "frontend/decompositions.h"
#include "frontend/tables.h"

namespace stax::frontend {
namespace {

using ir::ScalarOp;

Scalar i64(Scalar x) { return ir::cast(DType::kI64, x); }
Scalar floor_of(Scalar x) { return ir::unary(ScalarOp::kFloor, x); }
Scalar max_of(Scalar a, Scalar b) { return ir::binary(ScalarOp::kMax, a, b); }
Scalar min_of(Scalar a, Scalar b) { return ir::binary(ScalarOp::kMin, a, b); }

enum class Padding { kZeros, kBorder, kReflection };

/// One axis of a grid sample.
struct Sampler {
  Body& body;
  Expr length;
  bool align_corners;
  Padding padding;
  DType t;  // of coordinates

  Scalar number(double v) const { return body.number(t, v); }
  Scalar lowest() const { return number(align_corners ? 0 : -0.5); }
  Scalar highest() const { return number_of(body, t, length) - number(align_corners ? 1 : 0.5); }

  Scalar position(Scalar normal) const {
    const Scalar n = number_of(body, t, length), one = number(1);
    if (align_corners) return (normal + one) * number(0.5) * (n - one);
    return ((normal + one) * n - one) * number(0.5);
  }
  /// Folds x back between the borders, as often as it takes.
  Scalar reflected(Scalar x) const {
    const Scalar lo = lowest(), hi = highest(), range = hi - lo;
    const auto fold = [&](Scalar distance, Scalar near, Scalar far, double sign) {
      const Scalar times = ir::unary(ScalarOp::kTrunc, distance / range);
      const Scalar rest = (distance - times * range) * number(sign);
      const Scalar even = ir::equal(times, number(2) * floor_of(times * number(0.5)));
      return ir::select(even, near + rest, far - rest);
    };
    return ir::select(ir::less(x, lo), fold(lo - x, lo, hi, 1),
                      ir::select(ir::less(hi, x), fold(x - hi, hi, lo, -1), x));
  }
  /// Brings a position that lies outside of the image's border back to it.
  Scalar bounded(Scalar x) const {
    if (padding == Padding::kZeros) return x;
    if (padding == Padding::kReflection) return reflected(x);
    const Scalar outside = logical_or(ir::less(x, lowest()), ir::less(highest(), x));
    return ir::select(outside, clamp(x, number(0), number_of(body, t, length - 1)), x);
  }
  Scalar index(Scalar i) const {
    if (padding == Padding::kZeros) return i;
    if (padding == Padding::kReflection) i = i64(reflected(ir::cast(t, i)));
    return clamp(i, body.integer(DType::kI64, 0), body.index(length - 1));
  }
  Scalar inside(Scalar i) const {
    if (padding != Padding::kZeros) return holds(body, symbolic::less(length.table().constant(0), length));
    return logical_and(ir::less_equal(body.integer(DType::kI64, 0), i), ir::less(i, body.index(length)));
  }
};

/// Weights of the four neighbours at distance 1 + d, d, 1 - d, 2 - d: Keys' kernel with a = -0.75.
std::vector<Scalar> cubic_weights(const Sampler& s, Scalar d) {
  constexpr double a = -0.75;
  const auto c = [&](double v) { return s.number(v); };
  const auto far = [&](Scalar x) { return ((c(a) * x - c(5 * a)) * x + c(8 * a)) * x - c(4 * a); };
  const auto near = [&](Scalar x) { return (c(a + 2) * x - c(a + 3)) * x * x + c(1); };
  return {far(d + c(1)), near(d), near(c(1) - d), far(c(2) - d)};
}

void import_grid_sample(Node& n) {
  Builder& b = n.b();
  const int rank = need_rank(n, 0, 3), spatial = rank - 2;
  Value *x = n.input(0), *grid = n.input_of_rank(1, rank);
  const DType type = n.dtype(), t = type == DType::kF64 ? type : DType::kF32;
  std::string mode = n.text("mode", "linear");
  if (mode == "bilinear") mode = "linear";
  if (mode == "bicubic") mode = "cubic";
  if (mode != "linear" && mode != "nearest" && mode != "cubic")
    n.fault("mode has to be linear, nearest or cubic, not " + mode);
  const std::string outside = n.text("padding_mode", "zeros");
  if (outside != "zeros" && outside != "border" && outside != "reflection")
    n.fault("padding_mode has to be zeros, border or reflection, not " + outside);
  const Padding padding = outside == "zeros"    ? Padding::kZeros
                          : outside == "border" ? Padding::kBorder
                                                : Padding::kReflection;
  const bool align = n.integer("align_corners", 0) != 0;
  check_equal(b, b.extent(grid, 0), n.extent(0, 0), "batches of input and grid");
  check_equal(b, b.extent(grid, rank - 1), b.constant_expr(spatial),
              "last extent of the grid and number of spatial axes");
  const std::vector<Expr> output = extents_of(grid, 1, rank - 1);
  n.output(0, b.map(joined(extents_of(x, 0, 2), output), [&](Body& body) {
    std::vector<Sampler> along;
    std::vector<Scalar> position;
    for (int k = 0; k < spatial; ++k) {
      along.push_back({body, b.extent(x, 2 + k), align, padding, t});
      // The grid names the innermost axis first.
      const std::vector<Expr> at = joined({body.i[0]}, part(body.i, 2), {b.constant_expr(spatial - 1 - k)});
      Scalar p = along[k].position(ir::cast(t, body.load(grid, at)));
      if (mode == "nearest") p = ir::unary(ScalarOp::kRoundEven, p);
      // Of a cubic kernel each tap is brought back by itself.
      position.push_back(mode == "cubic" ? p : along[k].bounded(p));
    }
    std::vector<Scalar> at = {body.index(body.i[0]), body.index(body.i[1])};
    at.resize(rank);
    const std::function<Scalar(int, Scalar)> sample = [&](int k, Scalar all_inside) {
      if (k == spatial) {
        const Scalar v = ir::cast(t, body.load(x, at));
        return ir::select(all_inside, v, body.number(t, 0));
      }
      const Sampler& s = along[k];
      const auto tap = [&](Scalar i) {
        at[2 + k] = s.index(i);
        return sample(k + 1, logical_and(all_inside, s.inside(i)));
      };
      if (mode == "nearest") return tap(i64(position[k]));
      const Scalar floor = floor_of(position[k]), d = position[k] - floor, first = i64(floor);
      const auto next = [&](int64_t step) { return first + body.integer(DType::kI64, step); };
      if (mode == "linear") {
        const Scalar low = tap(first), high = tap(next(1));
        return low * (body.number(t, 1) - d) + high * d;
      }
      const std::vector<Scalar> w = cubic_weights(s, d);
      Scalar sum = w[0] * tap(next(-1));
      for (int64_t step = 0; step <= 2; ++step) sum = sum + w[step + 1] * tap(next(step));
      return sum;
    };
    return ir::cast(type, sample(0, holds(body, one_of(b))));
  }));
}

/// Positions from -1 to 1 along each axis of an image, moved by a matrix. An image has rows and columns, and may have a depth; where only
/// the run tells, it is treated as one with a depth of 1, which `deep` (1 or 0) takes out of the result.
void import_affine_grid(Node& n) {
  Builder& b = n.b();
  need_rank(n, 0, 3, 3);
  Value *theta = n.input(0), *given = n.input(1);
  const DType type = n.dtype(), t = ir::compute_type(type);
  const Expr count = n.element_count(given);
  Expr spatial = count.is_constant() ? count - 2 : n.extent(0, 1);
  b.check(symbolic::logical_or(symbolic::equal(spatial, 2), symbolic::equal(spatial, 3)),
          "an image of {0} axes; they have to be 2 or 3", {spatial});
  check_equal(b, count, spatial + 2, "length of size and what theta is for");
  check_equal(b, n.extent(0, 1), spatial, "rows of theta and spatial axes");
  check_equal(b, n.extent(0, 2), spatial + 1, "columns of theta and spatial axes plus 1");
  const std::vector<Expr> size = n.padded_ints(given, 5, 1, {0, symbolic::kMaxExtent});
  check_equal(b, n.extent(0, 0), size[0], "batches of theta and size");
  const Expr deep = symbolic::equal(spatial, 3);
  const std::vector<Expr> image = {symbolic::select(deep, size[2], one_of(b)), symbolic::select(deep, size[3], size[2]),
                                   symbolic::select(deep, size[4], size[3])};
  const bool align = n.integer("align_corners", 0) != 0;
  Value* grid = b.map(joined({size[0]}, image, {spatial}), [&](Body& body) {
    const Expr row = body.i[4];
    const auto matrix = [&](Expr column) { return ir::cast(t, body.load(theta, {body.i[0], row, column})); };
    const Scalar one = body.number(t, 1);
    const auto position = [&](int k) {
      const Expr length = image[k], i = body.i[1 + k];
      if (!align) return number_of(body, t, i * 2 + 1) / number_of(body, t, length) - one;
      const Scalar step = number_of(body, t, i * 2) / number_of(body, t, length - 1);
      return ir::select(holds(body, symbolic::less(one_of(b), length)), step - one, -one);
    };
    // Columns are x, y, (z,) and the offset.
    Scalar sum = matrix(spatial) + matrix(zero_of(b)) * position(2) + matrix(one_of(b)) * position(1);
    sum = sum + ir::select(holds(body, deep), matrix(b.constant_expr(2)) * position(0), body.number(t, 0));
    return ir::cast(type, sum);
  });
  const std::vector<Expr> flat = {size[0], image[1], image[2], spatial};
  if (is_one(deep))
    n.output(0, grid);
  else if (is_zero(deep))
    n.output(0, b.reshape(grid, flat));
  else
    n.output(0, with_leading_extents(
                    b, grid,
                    {size[0], symbolic::select(deep, image[0], image[1]), symbolic::select(deep, image[1], image[2]),
                     symbolic::select(deep, image[2], spatial), spatial},
                    spatial + 2));
}

/// Of one box, along one axis: where it begins, how long a bin is, and how many samples a bin has.
struct Bins {
  Scalar start, size, count;
};

void import_roi_align(Node& n) {
  Builder& b = n.b();
  need_rank(n, 0, 4, 4);
  Value *x = n.input(0), *rois = n.input_of_rank(1, 2), *batches = n.input_of_rank(2, 1);
  const DType type = n.dtype(), t = ir::compute_type(type);
  const int64_t height = n.integer("output_height", 1), width = n.integer("output_width", 1);
  const int64_t ratio = n.integer("sampling_ratio", 0);
  const double scale = n.real("spatial_scale", 1);
  const bool half_pixel = n.opset() >= 16 && n.text("coordinate_transformation_mode", "half_pixel") == "half_pixel";
  const std::string mode = n.text("mode", "avg");
  if (mode != "avg" && mode != "max") n.fault("mode has to be avg or max, not " + mode);
  const Expr boxes = b.extent(rois, 0);
  check_equal(b, b.extent(rois, 1), b.constant_expr(4), "columns of rois and 4");
  check_equal(b, b.extent(batches, 0), boxes, "number of batch_indices and of rois");
  const std::vector<Expr> image = extents_of(x, 2);
  // axis 0: rows, 1: columns
  const auto bins = [&](Body& body, Expr box, int axis) {
    const auto edge = [&](int64_t k) {
      const Scalar v = ir::cast(t, body.load(rois, {box, b.constant_expr(k)}));
      return v * body.number(t, scale) - body.number(t, half_pixel ? 0.5 : 0);
    };
    Bins r;
    r.start = edge(1 - axis);
    Scalar length = edge(3 - axis) - r.start;
    if (!half_pixel) length = max_of(length, body.number(t, 1));
    r.size = length / body.number(t, static_cast<double>(axis == 0 ? height : width));
    r.count = ratio > 0 ? body.integer(DType::kI64, ratio)
                        : max_of(i64(ir::unary(ScalarOp::kCeil, r.size)), body.integer(DType::kI64, 0));
    return r;
  };
  std::vector<Expr> most;  // samples of a bin, over all boxes
  for (int axis = 0; axis < 2; ++axis) {
    if (ratio > 0) {
      most.push_back(b.constant_expr(ratio));
      continue;
    }
    Value* counts = b.map({boxes}, [&](Body& body) { return bins(body, body.i[0], axis).count; });
    most.push_back(b.host_int(
        b.reduce(
            Combiner::kMax, DType::kI64, {}, {boxes}, [&](Body& body) { return body.load(counts, {body.r[0]}); },
            [](Body& body, Scalar a) { return max_of(a, body.integer(DType::kI64, 0)); }),
        {0, symbolic::kMaxExtent}));
  }
  const auto sampled = [&](Body& body) {
    const Expr box = body.i[0];
    const Scalar batch = body.checked(i64(body.load(batches, {box})), n.extent(0, 0));
    Scalar counted = holds(body, one_of(b)), inside = counted;
    Scalar low[2], high[2], d[2];
    for (int axis = 0; axis < 2; ++axis) {
      const Bins r = bins(body, box, axis);
      const Scalar sample = number_of(body, t, body.r[axis]) + body.number(t, 0.5);
      Scalar p = r.start + number_of(body, t, body.i[2 + axis]) * r.size + sample * r.size / ir::cast(t, r.count);
      if (ratio <= 0) counted = logical_and(counted, ir::less(body.index(body.r[axis]), r.count));
      const Scalar length = number_of(body, t, image[axis]);
      inside = logical_and(inside, logical_and(ir::less_equal(body.number(t, -1), p), ir::less_equal(p, length)));
      inside = logical_and(inside, holds(body, symbolic::less(zero_of(b), image[axis])));
      p = clamp(p, body.number(t, 0), length - body.number(t, 1));
      low[axis] = min_of(i64(p), body.index(image[axis] - 1));
      high[axis] = min_of(low[axis] + body.integer(DType::kI64, 1), body.index(image[axis] - 1));
      d[axis] = p - ir::cast(t, low[axis]);
    }
    Scalar result;
    for (int corner = 0; corner < 4; ++corner) {
      const bool down = (corner & 2) != 0, right = (corner & 1) != 0;
      const Scalar one = body.number(t, 1);
      const Scalar w = (down ? d[0] : one - d[0]) * (right ? d[1] : one - d[1]);
      const Scalar v =
          ir::cast(t, body.load(x, {batch, body.index(body.i[1]), down ? high[0] : low[0], right ? high[1] : low[1]}));
      result = corner == 0 ? w * v : mode == "avg" ? result + w * v : max_of(result, w * v);
    }
    result = ir::select(inside, result, body.number(t, 0));
    return ir::select(counted, result, mode == "avg" ? body.number(t, 0) : lowest(body, t));
  };
  n.output(0, b.reduce(mode == "avg" ? Combiner::kSum : Combiner::kMax, t,
                       {boxes, n.extent(0, 1), b.constant_expr(height), b.constant_expr(width)}, most, sampled,
                       [&](Body& body, Scalar a) {
                         const Scalar count = bins(body, body.i[0], 0).count * bins(body, body.i[0], 1).count;
                         const Scalar value =
                             mode == "max" ? a : a / ir::cast(t, max_of(count, body.integer(DType::kI64, 1)));
                         const Scalar none = ir::equal(count, body.integer(DType::kI64, 0));
                         return ir::cast(type, ir::select(none, body.number(t, 0), value));
                       }));
}

/// The greatest element of each bin of a box with whole coordinates; 0 where a bin is empty. Bins have no common extent: the reduction
/// runs over that of the largest one, with a guard.
void import_max_roi_pool(Node& n) {
  Builder& b = n.b();
  need_rank(n, 0, 4, 4);
  Value *x = n.input(0), *rois = n.input_of_rank(1, 2);
  const DType type = n.dtype(), t = ir::compute_type(type);
  const auto shape = n.integers("pooled_shape");
  if (!shape || shape->size() != 2 || (*shape)[0] < 1 || (*shape)[1] < 1)
    n.fault("pooled_shape has to hold two numbers of 1 or more");
  const double scale = n.real("spatial_scale", 1);
  check_equal(b, b.extent(rois, 1), b.constant_expr(5), "columns of rois and 5");
  // The first and the last row (axis 0) or column (axis 1) of a bin, and one past it.
  const auto range = [&](Body& body, Expr box, Expr bin, int axis) {
    const auto edge = [&](int64_t k) {
      const Scalar v = ir::cast(t, body.load(rois, {box, b.constant_expr(k)})) * body.number(t, scale);
      return floor_of(v + body.number(t, 0.5));
    };
    const Scalar start = edge(2 - axis), one = body.number(t, 1);
    const Scalar length = max_of(edge(4 - axis) - start + one, one);
    const Scalar size = length / body.number(t, static_cast<double>((*shape)[axis]));
    const auto clipped = [&](Scalar v) {
      return clamp(i64(v + start), body.integer(DType::kI64, 0), body.index(n.extent(0, 2 + axis)));
    };
    return std::pair(clipped(floor_of(number_of(body, t, bin) * size)),
                     clipped(ir::unary(ScalarOp::kCeil, number_of(body, t, bin + 1) * size)));
  };
  const Expr boxes = b.extent(rois, 0);
  std::vector<Expr> pooled, most;  // bins of a box, and elements of the largest one
  for (int axis = 0; axis < 2; ++axis) {
    pooled.push_back(b.constant_expr((*shape)[axis]));
    Value* lengths = b.map({boxes, pooled[axis]}, [&](Body& body) {
      const auto [first, end] = range(body, body.i[0], body.i[1], axis);
      return end - first;
    });
    most.push_back(b.host_int(b.reduce(
                                  Combiner::kMax, DType::kI64, {}, {boxes, pooled[axis]},
                                  [&](Body& body) { return body.load(lengths, {body.r[0], body.r[1]}); },
                                  [](Body& body, Scalar a) { return max_of(a, body.integer(DType::kI64, 0)); }),
                              {0, symbolic::kMaxExtent}));
  }
  n.output(0, b.reduce(
                  Combiner::kMax, t, {boxes, n.extent(0, 1), pooled[0], pooled[1]}, most,
                  [&](Body& body) {
                    Scalar inside = holds(body, one_of(b));
                    Scalar at[2];
                    for (int axis = 0; axis < 2; ++axis) {
                      const auto [first, end] = range(body, body.i[0], body.i[2 + axis], axis);
                      const Scalar i = first + body.index(body.r[axis]);
                      inside = logical_and(inside, ir::less(i, end));
                      at[axis] = min_of(i, body.index(n.extent(0, 2 + axis) - 1));
                    }
                    const Scalar batch = body.checked(i64(body.load(rois, {body.i[0], zero_of(b)})), n.extent(0, 0));
                    const Scalar v = body.load(x, {batch, body.index(body.i[1]), at[0], at[1]});
                    return ir::select(inside, ir::cast(t, v), lowest(body, t));
                  },
                  [&](Body& body, Scalar a) {
                    Scalar empty = logical_not(holds(body, one_of(b)));
                    for (int axis = 0; axis < 2; ++axis) {
                      const auto [first, end] = range(body, body.i[0], body.i[2 + axis], axis);
                      empty = logical_or(empty, ir::less_equal(end, first));
                    }
                    return ir::cast(type, ir::select(empty, body.number(t, 0), a));
                  }));
}

constexpr OperatorRow kRows[] = {
    {"", "GridSample", 16, import_grid_sample}, {"com.microsoft", "GridSample", 1, import_grid_sample},
    {"", "AffineGrid", 20, import_affine_grid}, {"", "RoiAlign", 10, import_roi_align},
    {"", "MaxRoiPool", 1, import_max_roi_pool},
};

}  // namespace

Rows sampling_rows() { return kRows; }

}  // namespace stax::frontend
