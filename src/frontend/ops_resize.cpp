// SPDX-License-Identifier: Apache-2.0
// Resize and Upsample. Along each axis an output index i is mapped to a real coordinate x of the input, and what is near x is
// combined with weights of the distance. The axes are independent of each other.
//
// Scales and sizes may arrive at run time: extents are then integers computed by a small op and read on the host, and the
// scale is loaded where it is used. Coordinates are f32, each quotient rounded once: which neighbour is the nearest one, and
// how large the output is, hangs on ties (0.7f * 10 is 7). The one sum of several terms (half_pixel_symmetric) is made in f64.
//   nearest, linear (up to three axes)   one map
//   else                                  one pass an axis, in f32 between them
#include <bit>
#include <cmath>

#include "frontend/decompositions.h"
#include "frontend/tables.h"

namespace stax::frontend {
namespace {

using ir::ScalarOp;

constexpr DType kF = DType::kF32;
// What lies as near as this to the middle of two neighbours is taken for a tie: a quotient by a rounded scale misses it.
constexpr double kTie = 1e-6;

/// What happens along one axis.
struct Along {
  int axis = 0;
  Expr in, out;
  bool same = false;                               // the scale is 1
  std::function<Scalar(Body&)> scale, start, end;  // f32
};

struct Resize {
  Value* x = nullptr;
  std::vector<Along> axes;  // those that are resized
  std::vector<Expr> extents;
  std::string mode = "nearest", coordinates = "half_pixel", nearest = "round_prefer_floor";
  double cubic_a = -0.75, extrapolation = 0;
  bool exclude_outside = false, antialias = false;
};

Scalar f32(Body& body, double v) { return body.number(kF, v); }

/// The coordinate in the input of output index `i`.
Scalar coordinate(Body& body, const Resize& r, const Along& a, Expr i) {
  const auto number = [&](Expr e) { return number_of(body, kF, e); };
  const auto half_pixel = [&] {
    return rounded_difference(rounded_quotient(number(i) + f32(body, 0.5), a.scale(body)), f32(body, 0.5));
  };
  const Scalar several = holds(body, symbolic::less(a.out.table().constant(1), a.out));
  if (r.coordinates == "half_pixel") return half_pixel();
  if (r.coordinates == "pytorch_half_pixel") return ir::select(several, half_pixel(), f32(body, 0));
  if (r.coordinates == "asymmetric") return rounded_quotient(number(i), a.scale(body));
  if (r.coordinates == "tf_half_pixel_for_nn") return rounded_quotient(number(i) + f32(body, 0.5), a.scale(body));
  if (r.coordinates == "align_corners")
    return ir::select(several, rounded_quotient(number(i * (a.in - 1)), number(a.out - 1)), f32(body, 0));
  if (r.coordinates == "half_pixel_symmetric") {
    const auto wide = [&](Scalar x) { return ir::cast(DType::kF64, x); };
    const Scalar adjustment = rounded_quotient(number(a.out), rounded_product(a.scale(body), number(a.in)));
    const Scalar half = body.number(DType::kF64, 0.5), one = body.number(DType::kF64, 1);
    const Scalar offset = wide(number(a.in)) * half * (one - wide(adjustment));
    return ir::cast(kF, offset + wide(number(i) + f32(body, 0.5)) / wide(a.scale(body)) - half);
  }
  // tf_crop_and_resize
  const Scalar start = a.start(body), end = a.end(body), last = number(a.in - 1);
  const Scalar along = rounded_product(rounded_product(number(i), rounded_difference(end, start)), last);
  const Scalar middle = rounded_product(f32(body, 0.5) * rounded_sum(start, end), last);
  return ir::select(several, rounded_sum(rounded_product(start, last), rounded_quotient(along, number(a.out - 1))),
                    middle);
}

Scalar in_range(Body& body, const Along& a, Scalar i) {
  return clamp(i, body.integer(DType::kI64, 0), body.index(a.in - 1));
}

Scalar nearest_index(Body& body, const Resize& r, const Along& a, Scalar x) {
  const Scalar floor = ir::unary(ScalarOp::kFloor, x), one = f32(body, 1);
  Scalar at;
  if (r.nearest == "floor")
    at = floor;
  else if (r.nearest == "ceil")
    at = ir::unary(ScalarOp::kCeil, x);
  else if (r.nearest == "round_prefer_ceil")
    at = ir::select(ir::less(x - floor, f32(body, 0.5 - kTie)), floor, floor + one);
  else if (r.nearest == "round_prefer_floor")
    at = ir::select(ir::less(f32(body, 0.5 + kTie), x - floor), floor + one, floor);
  // Before opset 11: the index that the scaled one comes from.
  else
    at = ir::select(ir::less(a.scale(body), one), ir::unary(ScalarOp::kCeil, x), floor);
  return in_range(body, a, ir::cast(DType::kI64, at));
}

/// Where tf_crop_and_resize samples outside of the input, the point is `extrapolation`.
Scalar or_extrapolated(Body& body, const Resize& r, Scalar value, const std::vector<Scalar>& coordinates) {
  if (r.coordinates != "tf_crop_and_resize") return value;
  for (size_t k = 0; k < r.axes.size(); ++k) {
    const Scalar x = coordinates[k];
    const Scalar outside = logical_or(ir::less(x, f32(body, 0)), ir::less(number_of(body, kF, r.axes[k].in - 1), x));
    const Scalar given = ir::is_float(value->dtype) ? body.number(value->dtype, r.extrapolation)
                                                    : body.integer(value->dtype, static_cast<int64_t>(r.extrapolation));
    value = ir::select(outside, given, value);
  }
  return value;
}

/// Interpolated values back in the element type; integers are clipped and truncated.
Scalar narrowed(Body& body, DType t, Scalar v) {
  if (ir::is_float(t)) return ir::cast(t, v);
  if (ir::bit_width(t) > 16) return ir::cast(t, v);
  return ir::cast(t, clamp(v, body.number(v->dtype, least_integer(t)), body.number(v->dtype, greatest_integer(t))));
}

DType work_type(DType t) { return t == DType::kF64 ? t : DType::kF32; }

std::vector<Scalar> indices_of(Body& body) {
  std::vector<Scalar> at;
  for (Expr i : body.i) at.push_back(body.index(i));
  return at;
}

Value* nearest(Builder& b, const Resize& r) {
  return b.map(r.extents, [&](Body& body) {
    std::vector<Scalar> at = indices_of(body), coordinates;
    for (const Along& a : r.axes) {
      coordinates.push_back(coordinate(body, r, a, body.i[a.axis]));
      at[a.axis] = nearest_index(body, r, a, coordinates.back());
    }
    return or_extrapolated(body, r, body.load(r.x, at), coordinates);
  });
}

/// Along an axis that keeps its extent, samples have nothing to do with their neighbours, not even with infinite ones.
Scalar same_extent(Body& body, const Along& a) {
  return ir::cast(DType::kBool, body.index(symbolic::equal(a.in, a.out)));
}

Value* linear(Builder& b, const Resize& r) {
  const DType t = r.x->type.dtype, work = work_type(t);
  return b.map(r.extents, [&](Body& body) {
    std::vector<Scalar> coordinates, low, high, weight;
    for (const Along& a : r.axes) {
      const Scalar x = coordinate(body, r, a, body.i[a.axis]);
      const Scalar inside = clamp(x, f32(body, 0), number_of(body, kF, a.in - 1)),
                   floor = ir::unary(ScalarOp::kFloor, inside);
      coordinates.push_back(x);
      low.push_back(in_range(body, a, ir::cast(DType::kI64, floor)));
      high.push_back(in_range(body, a, low.back() + body.integer(DType::kI64, 1)));
      weight.push_back(ir::cast(work, inside - floor));
    }
    std::vector<Scalar> at = indices_of(body);
    const std::function<Scalar(size_t)> along = [&](size_t k) {
      if (k == r.axes.size()) return ir::cast(work, body.load(r.x, at));
      at[r.axes[k].axis] = low[k];
      const Scalar first = along(k + 1);
      at[r.axes[k].axis] = high[k];
      const Scalar second = along(k + 1);
      const Scalar apart = logical_and(same_extent(body, r.axes[k]), ir::equal(weight[k], body.number(work, 0)));
      return ir::select(apart, first, first * (body.number(work, 1) - weight[k]) + second * weight[k]);
    };
    const Scalar value = along(0);
    return or_extrapolated(body, r, narrowed(body, t, value), coordinates);
  });
}

/// The filter at distance d (>= 0) from a tap.
Scalar filter(Body& body, const Resize& r, Scalar d) {
  const auto c = [&](double v) { return f32(body, v); };
  if (r.mode == "linear") return ir::binary(ScalarOp::kMax, c(1) - d, c(0));
  const double a = r.cubic_a;
  const Scalar near = ((c(a + 2) * d - c(a + 3)) * d) * d + c(1);
  const Scalar far = ((c(a) * d - c(5 * a)) * d + c(8 * a)) * d - c(4 * a);
  return ir::select(ir::less_equal(d, c(1)), near, ir::select(ir::less(d, c(2)), far, c(0)));
}

/// One axis of a separable filter. The taps of an output index begin at floor(x) + first; antialiasing stretches the filter by
/// 1 / scale where the axis shrinks, and with it the number of taps. Weights are a tensor [out, taps]: they depend on the
/// output index alone.
Value* filter_along(Node& n, const Resize& r, const Along& a, Value* x, DType result) {
  Builder& b = n.b();
  const DType work = work_type(r.x->type.dtype);
  const int reach = r.mode == "linear" ? 1 : 2;
  const auto shrink = [&](Body& body) {
    return r.antialias ? ir::binary(ScalarOp::kMin, a.scale(body), f32(body, 1)) : f32(body, 1);
  };
  Expr side = b.constant_expr(reach);  // taps on each side of x
  if (r.antialias) {
    Value* taps = b.map({}, [&](Body& body) {
      const Scalar reached = ir::unary(ScalarOp::kCeil, rounded_quotient(f32(body, reach), shrink(body)));
      // Where there is nothing to read or to write, the scale is none.
      const Scalar is_needed = holds(body, symbolic::less(zero_of(b), a.in * a.out));
      return ir::cast(DType::kI64, ir::select(is_needed, reached, f32(body, reach)));
    });
    side = b.host_int(taps, {0, symbolic::kMaxExtent});
  }
  const Expr taps = side * 2;
  const auto tap_index = [&](Body& body, Expr i, Expr tap) {
    const Scalar floor = ir::unary(ScalarOp::kFloor, coordinate(body, r, a, i));
    return ir::cast(DType::kI64, floor) + body.index(tap - side + 1);
  };
  const auto raw_weight = [&](Body& body, Expr i, Expr tap) {
    const Scalar at = tap_index(body, i, tap);
    const Scalar d = ir::unary(ScalarOp::kAbs, ir::cast(kF, at) - coordinate(body, r, a, i)) * shrink(body);
    Scalar w = filter(body, r, d);
    if (r.exclude_outside) {
      const Scalar inside =
          logical_and(ir::less_equal(body.integer(DType::kI64, 0), at), ir::less(at, body.index(a.in)));
      w = ir::select(inside, w, f32(body, 0));
    }
    return w;
  };
  Value* weights = b.map({a.out, taps}, [&](Body& body) { return raw_weight(body, body.i[0], body.i[1]); });
  if (r.antialias || r.exclude_outside) {
    Value* total = b.reduce(Combiner::kSum, kF, {a.out}, {taps},
                            [&](Body& body) { return body.load(weights, {body.i[0], body.r[0]}); });
    weights = b.map({a.out, taps},
                    [&, weights](Body& body) { return body.load(weights, body.i) / body.load(total, {body.i[0]}); });
  }
  std::vector<Expr> extents = x->type.extents;
  extents[a.axis] = a.out;
  return b.reduce(
      Combiner::kSum, work, extents, {taps},
      [&](Body& body) {
        const Expr i = body.i[a.axis];
        std::vector<Scalar> at = indices_of(body);
        at[a.axis] = in_range(body, a, tap_index(body, i, body.r[0]));
        const Scalar weight = ir::cast(work, body.load(weights, {i, body.r[0]}));
        const Scalar apart = logical_and(same_extent(body, a), ir::equal(weight, body.number(work, 0)));
        return ir::select(apart, body.number(work, 0), weight * ir::cast(work, body.load(x, at)));
      },
      [&](Body& body, Scalar sum) {
        Resize one = r;
        one.axes = {a};
        const Scalar value = or_extrapolated(body, one, sum, {coordinate(body, r, a, body.i[a.axis])});
        return ir::is_float(result) ? ir::cast(result, value) : narrowed(body, result, value);
      });
}

Value* filter_all(Node& n, const Resize& r) {
  const DType t = r.x->type.dtype;
  Value* y = r.x;
  for (size_t k = r.axes.size(); k-- > 0;) y = filter_along(n, r, r.axes[k], y, k == 0 ? t : work_type(t));
  return y;
}

/// floor(extent * scale) for a constant scale, if that is exact integer arithmetic: scales with a few bits, such as 2 or 0.75.
Expr scaled_extent(Expr extent, double scale) {
  int exponent = 0;
  const double mantissa = std::frexp(scale, &exponent);
  const auto bits = static_cast<int64_t>(std::ldexp(mantissa, 24));
  if (static_cast<double>(bits) != std::ldexp(mantissa, 24) || bits <= 0) return {};
  const int shift = std::countr_zero(static_cast<uint64_t>(bits));
  const int64_t numerator = bits >> shift;
  const int power = exponent - 24 + shift;  // scale = numerator * 2^power
  if (numerator >= 64 || power > 16 || power < -16) return {};
  return power >= 0 ? extent * (numerator << power) : symbolic::floordiv(extent * numerator, int64_t{1} << -power);
}

/// Integers that are computed from extents and run-time numbers, read on the host all at once.
std::vector<Expr> computed_extents(Builder& b, size_t count, const std::function<Scalar(Body&, size_t)>& element) {
  Value* v = b.map({b.constant_expr(static_cast<int64_t>(count))}, [&](Body& body) {
    Scalar chosen = ir::cast(DType::kI64, element(body, count - 1));
    for (size_t k = count - 1; k-- > 0;)
      chosen = ir::select(holds(body, symbolic::equal(body.i[0], static_cast<int64_t>(k))),
                          ir::cast(DType::kI64, element(body, k)), chosen);
    return chosen;
  });
  return b.host_ints(v, {0, symbolic::kMaxExtent});
}

std::function<Scalar(Body&)> loaded(Builder& b, Value* v, int64_t k) {
  return [&b, v, k](Body& body) { return ir::cast(kF, body.load(v, {b.constant_expr(k)})); };
}

/// Fills in extents and scales from scales (or null) or sizes.
void plan_extents(Node& n, Resize& r, const std::vector<int>& axes, Value* scales,
                  const std::vector<double>& constant_scales, Value* sizes) {
  Builder& b = n.b();
  const size_t count = axes.size();
  if (scales != nullptr && (!scales->type.has_static_rank() || scales->type.static_rank() != 1))
    n.fault("its input '" + scales->name + "' has to be a list of scales");
  r.extents = r.x->type.extents;
  std::vector<Along> all(count);
  for (size_t k = 0; k < count; ++k) all[k] = {axes[k], r.x->type.extents[axes[k]], {}, false, {}, {}, {}};
  if (sizes) {
    const std::vector<Expr> want = n.exact_ints(sizes, static_cast<int>(count), {0, symbolic::kMaxExtent});
    const auto ratio = [&](Body& body, size_t k) {
      return rounded_quotient(number_of(body, kF, want[k]), number_of(body, kF, all[k].in));
    };
    const std::string policy = n.text("keep_aspect_ratio_policy", "stretch");
    if (policy == "stretch") {
      for (size_t k = 0; k < count; ++k) {
        all[k].out = want[k];
        all[k].same = all[k].in == want[k];
        all[k].scale = [out = want[k], in = all[k].in](Body& body) {
          return rounded_quotient(number_of(body, kF, out), number_of(body, kF, in));
        };
      }
    } else if (policy == "not_larger" || policy == "not_smaller") {
      Value* common = b.map({}, [&](Body& body) {
        Scalar scale = ratio(body, 0);
        for (size_t k = 1; k < count; ++k)
          scale = ir::binary(policy == "not_larger" ? ScalarOp::kMin : ScalarOp::kMax, scale, ratio(body, k));
        return scale;
      });
      const std::vector<Expr> out = computed_extents(b, count, [&](Body& body, size_t k) {
        const Scalar real = rounded_product(body.load(common), number_of(body, kF, all[k].in));
        const Scalar floor = ir::unary(ScalarOp::kFloor, real);
        return ir::select(ir::less(real - floor, f32(body, 0.5)), floor, floor + f32(body, 1));
      });
      for (size_t k = 0; k < count; ++k) {
        all[k].out = out[k];
        all[k].scale = [common](Body& body) { return body.load(common); };
      }
    } else {
      n.fault("keep_aspect_ratio_policy has to be stretch, not_larger or not_smaller, not " + policy);
    }
    for (const Along& a : all)
      if (a.in != a.out)
        b.check(symbolic::logical_or(symbolic::less(zero_of(b), a.in), symbolic::equal(a.out, 0)),
                "an axis without elements cannot be resized to {0}", {a.out});
  } else {
    const bool constant = !constant_scales.empty();
    if (!constant)
      check_equal(b, b.extent(scales, 0), b.constant_expr(static_cast<int64_t>(count)),
                  "length of scales and number of axes");
    if (constant && constant_scales.size() != count) n.fault("scales has to hold one number for each axis");
    bool exact = constant;
    for (size_t k = 0; k < count; ++k) {
      if (constant) {
        all[k].same = constant_scales[k] == 1;
        all[k].out = all[k].same ? all[k].in : scaled_extent(all[k].in, constant_scales[k]);
        all[k].scale = [v = constant_scales[k]](Body& body) { return f32(body, v); };
      } else {
        all[k].scale = loaded(b, scales, static_cast<int64_t>(k));
      }
      exact = exact && all[k].out;
    }
    if (!exact) {
      const std::vector<Expr> out = computed_extents(b, count, [&](Body& body, size_t k) {
        return ir::unary(ScalarOp::kFloor, rounded_product(all[k].scale(body), number_of(body, kF, all[k].in)));
      });
      for (size_t k = 0; k < count; ++k)
        if (!all[k].out) all[k].out = out[k];
    }
  }
  for (const Along& a : all) {
    r.extents[a.axis] = a.out;
    if (!a.same || r.coordinates == "tf_crop_and_resize") r.axes.push_back(a);
  }
}

std::vector<double> constant_numbers(const Builder& b, const Value* v) {
  std::vector<double> out;
  const Literal* literal = b.literal(v);
  if (!literal) return out;
  for (int64_t k = 0; k < literal->count(); ++k) out.push_back(literal->at(k).f);
  return out;
}

void finish(Node& n, Resize& r) {
  Builder& b = n.b();
  if (r.axes.empty()) return n.output(0, r.x);
  if (r.mode == "nearest") return n.output(0, nearest(b, r));
  if (r.mode == "linear" && !r.antialias && r.axes.size() <= 3) return n.output(0, linear(b, r));
  n.output(0, filter_all(n, r));
}

bool empty(const Value* v) { return v == nullptr || (v->type.static_rank() == 1 && v->type.extents[0].is_constant(0)); }

std::vector<int> all_axes(const Value* x) {
  std::vector<int> axes;
  for (int d = 0; d < x->type.static_rank(); ++d) axes.push_back(d);
  return axes;
}

void import_resize(Node& n) {
  Builder& b = n.b();
  const int rank = need_rank(n, 0, 1);
  Resize r;
  r.x = n.input(0);
  r.mode = n.text("mode", "nearest");
  r.coordinates = n.text("coordinate_transformation_mode", "half_pixel");
  r.nearest = n.text("nearest_mode", "round_prefer_floor");
  r.cubic_a = n.real("cubic_coeff_a", -0.75);
  r.exclude_outside = n.integer("exclude_outside", 0) != 0;
  r.antialias = n.integer("antialias", 0) != 0;
  r.extrapolation = n.real("extrapolation_value", 0);
  if (r.mode != "nearest" && r.mode != "linear" && r.mode != "cubic")
    n.fault("mode has to be nearest, linear or cubic, not " + r.mode);
  for (const char* known : {"half_pixel", "pytorch_half_pixel", "asymmetric", "tf_half_pixel_for_nn", "align_corners",
                            "half_pixel_symmetric", "tf_crop_and_resize", ""})
    if (r.coordinates == known)
      break;
    else if (*known == 0)
      n.fault("coordinate_transformation_mode is " + r.coordinates);
  std::vector<int> axes = all_axes(r.x);
  if (const auto given = n.integers("axes")) {
    axes.clear();
    for (int64_t a : *given) axes.push_back(n.axis(a, rank));
  }
  Value *scales = empty(n.optional(2)) ? nullptr : n.optional(2),
        *sizes = empty(n.optional(3)) ? nullptr : n.optional(3);
  if ((scales == nullptr) == (sizes == nullptr)) n.fault("needs either scales or sizes");
  plan_extents(n, r, axes, scales, constant_numbers(b, scales), sizes);
  if (r.coordinates == "tf_crop_and_resize") {
    Value* roi = n.optional(1);
    if (empty(roi)) n.fault("tf_crop_and_resize needs roi");
    check_equal(b, b.extent(roi, 0), b.constant_expr(static_cast<int64_t>(2 * axes.size())),
                "length of roi and twice the axes");
    for (size_t k = 0; k < r.axes.size(); ++k) {
      r.axes[k].start = loaded(b, roi, static_cast<int64_t>(k));
      r.axes[k].end = loaded(b, roi, static_cast<int64_t>(k + axes.size()));
    }
    // An axis that is kept whole needs no interpolation.
    const std::vector<double> known = constant_numbers(b, roi);
    std::vector<Along> cropped;
    for (size_t k = 0; k < r.axes.size(); ++k)
      if (known.empty() || !r.axes[k].same || known[k] != 0 || known[k + axes.size()] != 1)
        cropped.push_back(r.axes[k]);
    r.axes = cropped;
  }
  finish(n, r);
}

/// Upsample, and Resize of opset 10: scales only, an index comes from index / scale.
void import_upsample(Node& n) {
  Builder& b = n.b();
  need_rank(n, 0, 1);
  Resize r;
  r.x = n.input(0);
  r.mode = n.text("mode", "nearest");
  if (r.mode == "bilinear") r.mode = "linear";
  if (r.mode != "nearest" && r.mode != "linear") n.fault("mode has to be nearest or linear, not " + r.mode);
  r.coordinates = "asymmetric";
  r.nearest = "";
  const std::optional<std::vector<double>> attribute = n.reals("scales");
  if (!attribute && !n.has(1)) n.fault("needs scales");
  plan_extents(n, r, all_axes(r.x), attribute ? nullptr : n.input(1),
               attribute ? *attribute : constant_numbers(b, n.input(1)), nullptr);
  finish(n, r);
}

constexpr OperatorRow kRows[] = {
    {"", "Upsample", 7, import_upsample},
    {"", "Resize", 10, import_upsample},
    {"", "Resize", 11, import_resize},
};

}  // namespace

Rows resize_rows() { return kRows; }

}  // namespace stax::frontend
