// SPDX-License-Identifier: Apache-2.0
#include "ir/math_table.h"

#include <array>
#include <functional>
#include <map>

#include "ir/math_coefficients.h"
#include "ir/math_pieces.h"
#include "ir/math_writer.h"
#include "support/error.h"

namespace stax::ir {
namespace {

// --- float, in float ------------------------------------------------------------------------------------------------------

struct Reduced {
  V n, r;  // x = n log 2 + r
};

Reduced reduce_exp(V x) {
  const bool single = x.type == MathType::kF32;
  const double magic = single ? kRoundF32 : kRoundF64;
  V n = muladd(x, kLog2E, constant(x, magic)) - magic;
  V r = muladd(n, single ? -0x1.628p-1 : -0x1.62e42feep-1, x);
  return {n, muladd(n, single ? -0x1.90bfbep-11 : -0x1.a39ef35793c76p-33, r)};
}

// exp without care for the ends of the range.
V exp_f32_inside(V x) {
  Reduced s = reduce_exp(x);
  V p = muladd(polynomial(s.r, kExp32), s.r, 1.0);
  return scale(muladd(p, s.r, 1.0), s.n);
}

V exp_f32(V x) { return exp_f32_inside(greater_of(-104, less_of(89, x))); }

// The nearest whole number to x / log 2, plus 127, is counted from the least exponent of a normal number on, in parts of all there are: bounding it is
// then part of the multiplication. Where it is bounded, the power of the rest is what lies beyond, down to denormals and 0 and up to infinity.
V exp_f32_by_powers(V x) {
  constexpr double kExponents = 253;
  V part = unit_muladd(x, kLog2E / kExponents, 126 / kExponents);
  V biased = muladd(part, constant(x, kExponents), kRoundF32 + 1);
  V n = biased - (kRoundF32 + 127);
  V rest = muladd(x, 0x1.4ae0cp-26, muladd(x, kLog2E, -n));
  return power(rest) * bits_as(MathType::kF32, shift_left(bits(biased), 23));
}

// x = (n + k / 32) log 2 + r with whole n and k: a power of two from the table, and e^r - 1 without its cubic term. What is far above the range
// leaves an r of any size, of which 1 + r q(r), of even degree, is positive, so that nothing bounds x from above.
V exp_f32_by_pieces(V x) {
  static_assert(kMathEntries == 32);
  constexpr double kRound = kRoundF32 / 32;
  V least = greater_of(-104, x);
  V number = muladd(least, kLog2E, constant(x, kRound));
  V n = number - kRound;
  V r = muladd(n, -0x1.90bfbep-11, muladd(n, -0x1.628p-1, least));
  V power = entry(bits(number), kPowersTable);
  return scale_floor(muladd(power, polynomial(r, kExpPiece32) * r, power), n);
}

V log_f32(V x) {
  V small = x < 0x1p-126;
  V b = bits(select(small, x * 0x1p25, x));
  V t = b - whole(b, 0x3F3504F3);  // sqrt(1/2)
  V e = convert(MathType::kF32, shift_right_signed(t, 23)) - select(small, constant(x, 25), 0.0);
  V f = bits_as(MathType::kF32, b - (t & whole(t, INT32_MIN >> 8))) - 1.0;
  V rest = muladd(f * f, polynomial(f, kLog32), e * 0x1.90bfbep-11);
  V result = muladd(e, 0x1.628p-1, f + rest);
  V special = select(x < 0.0, kNan, select(equal(x, 0.0), -kInfinity, x));
  return select((0.0 < x) & (x < kInfinity), result, special);
}

V tanh_f32(V x) {
  V a = abs(x);
  V twice = less_of(20, a + a);
  V large = 1.0 - ratio(constant(x, 2), exp_f32_inside(twice) + 1.0);
  V s = x * x;
  return with_sign(select(a < 0.65, muladd(a * s, polynomial(s, kTanh32), a), large), x);
}

V erf_f32(V x) {
  V a = abs(x);
  V large = 1.0 - exp_f32_inside(polynomial(less_of(4, a), kLogErfc32));
  return select(a < 0.875, muladd(x, polynomial(x * x, kErf32), x), with_sign(large, x));
}

// x q(|x|) for an odd function that is 1 from `most` on. The products are summed in an order that leaves two roundings: q's first coefficient is
// most of it.
V by_pieces(V x, const Pieces& pieces) {
  V a = less_of(pieces.most, abs(x));
  V number = muladd(a, pieces.per_unit, constant(a, kRoundF32));
  V index = bits(number);
  V t = muladd(a, pieces.per_unit, -(number - kRoundF32));
  V sum = entry(index, pieces.first_table + pieces.degree);
  for (uint64_t power = pieces.degree; power-- > 1;) sum = muladd(sum, t, entry(index, pieces.first_table + power));
  return with_sign(muladd(a, entry(index, pieces.first_table), (a * t) * sum), x);
}

// 1 / (1 + e^-x) with e^-x = 2^n (1 + t) and the rounding error of 1 + 2^n made good. All of it is 2^-64 of its size: the power may be past
// the range.
V sigmoid_f32(V x) {
  Reduced s = reduce_exp(greater_of(-105, less_of(105, -x)));
  V t = muladd(polynomial(s.r, kExp32), s.r, 1.0) * s.r;
  V power = scale(constant(x, 1), s.n - 64.0);
  V sum = power + 0x1p-64;
  V lost = 0x1p-64 - (sum - power);
  return ratio(constant(x, 1), sum + muladd(power, t, lost)) * 0x1p-64;
}

// --- sine and cosine ------------------------------------------------------------------------------------------------------

struct Quarter {
  V r;  // in -pi/4 .. pi/4
  V q;  // i32: x = q pi/2 + r, modulo 2 pi
};

// A float is exact in double, and so is the product of its multiple of pi/2 with the two parts of pi/2, but for 2^-104 of it.
Quarter reduce_f32(V x) {
  V wide = convert(MathType::kF64, x);
  V t = muladd(wide, kTwoOverPiReal, constant(wide, kRoundF64));
  V n = t - kRoundF64;
  V r = fused(n, -0x1.1a62633145c06p-54, fused(n, -kPi / 2, wide));
  return {r, convert(MathType::kI32, bits(t))};
}

// Products of n < 2^20 with the parts of 33 bits are exact.
Quarter reduce_f64(V x) {
  V t = muladd(x, kTwoOverPiReal, constant(x, kRoundF64));
  V n = t - kRoundF64;
  V r = muladd(n, -0x1.0b4611a6p-34, muladd(n, -0x1.921fb544p+0, x));
  return {muladd(n, -0x1.3198a2e037073p-69, r), convert(MathType::kI32, bits(t))};
}

// The bits of 2/pi that meet those of x, as words of 32 bits, most significant first (Payne and Hanek). x = m 2^e; what is in front of `first`
// makes multiples of 4.
std::vector<V> window(V first, int count) {
  first = select(first < 0.0, 0.0, first);  // of a lane that is not slow
  V word = convert(MathType::kI32, shift_right(first, 5));
  V within = first & whole(first, 31);
  std::vector<V> words, result;
  for (int i = 0; i <= count; ++i) {
    V w = convert(MathType::kI64, lookup(word + whole(word, i)));
    words.push_back(w & whole(w, 0xFFFFFFFF));
  }
  for (int i = 0; i < count; ++i) {
    V pair = shift_left(words[static_cast<size_t>(i)], 32) | words[static_cast<size_t>(i) + 1];
    V moved = pair.writer->make(MathOp::kShiftLeftBy, MathType::kI64, pair, within);
    result.push_back(shift_right(moved, 32));
  }
  return result;
}

// product: x 2/pi modulo 4 with the point behind the two highest bits.
Quarter from_fixed_point(V high, V low, V x) {
  V q = shift_right(high + whole(high, int64_t{1} << 61), 62);
  V rest = high - shift_left(q, 62);
  V wide = convert(MathType::kF64, rest) * (0x1p-62 * kPi / 2);
  if (low.writer != nullptr) wide = wide + convert(MathType::kF64, shift_right(low, 1)) * (0x1p-125 * kPi / 2);
  // sin(-x) = -sin(x): the sign goes with both parts.
  V negative = x < 0.0;
  V r = select(negative, -wide, wide);
  V quarter = convert(MathType::kI32, q);
  r = select(abs(convert(MathType::kF64, x)) < kInfinity, r, kNan);
  return {r, select(negative, whole(quarter, 0) - quarter, quarter)};
}

Quarter reduce_large_f32(V x) {
  V b = bits(abs(x));
  V e = shift_right(b, 23) - whole(b, 150);
  V m = convert(MathType::kI64, (b & whole(b, 0x7FFFFF)) | whole(b, 0x800000));
  // Bit number e - 2, behind three words of zero.
  std::vector<V> w = window(convert(MathType::kI64, e + whole(e, 96 - 2)), 3);
  V high = m * (shift_left(w[0], 32) | w[1]) + shift_right(m * w[2], 32);
  return from_fixed_point(high, {}, x);
}

Quarter reduce_large_f64(V x) {
  V b = bits(abs(x));
  V e = shift_right(b, 52) - whole(b, 1075);
  V m = (b & whole(b, (int64_t{1} << 52) - 1)) | whole(b, int64_t{1} << 52);
  std::vector<V> w = window(e + whole(e, 96 - 2), 6);
  V mask = whole(m, 0xFFFFFFFF);
  V m0 = m & mask, m1 = shift_right(m, 32);
  // m * w modulo 2^192, in columns of 32 bits; w[5] is the lowest.
  std::array<V, 6> column;
  column.fill(whole(m, 0));
  for (size_t i = 0; i < 6; ++i) {
    V p0 = m0 * w[5 - i];
    V p1 = m1 * w[5 - i];
    column[i] = column[i] + (p0 & mask);
    if (i + 1 < 6) column[i + 1] = column[i + 1] + shift_right(p0, 32) + (p1 & mask);
    if (i + 2 < 6) column[i + 2] = column[i + 2] + shift_right(p1, 32);
  }
  for (size_t i = 0; i + 1 < 6; ++i) {
    column[i + 1] = column[i + 1] + shift_right(column[i], 32);
    column[i] = column[i] & mask;
  }
  return from_fixed_point(shift_left(column[5], 32) | column[4], shift_left(column[3], 32) | column[2], x);
}

template <class T, size_t N>
V sin_part(V r, V s, const T (&c)[N]) {
  return muladd(r * s, polynomial(s, c), r);
}
template <class T, size_t N>
V cos_part(V s, const T (&c)[N]) {
  return muladd(s * s, polynomial(s, c), muladd(s, -0.5, constant(s, 1)));
}

// `turns`: 0 for the sine, 1 for the cosine.
V sin_cos(const Quarter& quarter, MathType t, int turns, V x) {
  V r = convert(t, quarter.r);
  V s = r * r;
  V q = quarter.q + whole(quarter.q, turns);
  V sine = t == MathType::kF32 ? sin_part(r, s, kSin32) : sin_part(r, s, kSin);
  V cosine = t == MathType::kF32 ? cos_part(s, kCos32) : cos_part(s, kCos);
  V odd = equal(q & whole(q, 1), 1.0);
  V value = select(odd, cosine, sine);
  V half = q & whole(q, 2);
  V sign = t == MathType::kF32 ? shift_left(half, 30) : shift_left(convert(MathType::kI64, half), 62);
  V result = bits_as(t, bits(value) ^ sign);
  return turns == 0 ? select(equal(x, 0.0), x, result) : result;
}

V tan_of(const Quarter& quarter, bool brief, V x) {
  V s = quarter.r * quarter.r;
  V sine = brief ? sin_part(quarter.r, s, kSinShort) : sin_part(quarter.r, s, kSin);
  V cosine = brief ? cos_part(s, kCosShort) : cos_part(s, kCos);
  V odd = equal(quarter.q & whole(quarter.q, 1), 1.0);
  V result = select(odd, -cosine, sine) / select(odd, sine, cosine);
  return select(equal(x, 0.0), x, convert(x.type, result));
}

// --- the rest, in double --------------------------------------------------------------------------------------------------

// `brief` leaves the precision that a float needs.
struct Double {
  bool brief;

  V exp_q(V r) const { return brief ? polynomial(r, kExpShort) : polynomial(r, kExp); }
  V log_q(V z) const { return brief ? polynomial(z, kLogShort) : polynomial(z, kLog); }
  V atan_q(V z) const { return brief ? polynomial(z, kAtanShort) : polynomial(z, kAtan); }
  V asin_q(V z) const { return brief ? polynomial(z, kAsinShort) : polynomial(z, kAsin); }
  V sinh_q(V z) const { return brief ? polynomial(z, kSinhShort) : polynomial(z, kSinh); }

  V exp_inside(V x, double less_by = 0) const {
    Reduced s = reduce_exp(x);
    V p = muladd(muladd(exp_q(s.r), s.r, 1.0), s.r, 1.0);
    return scale(p, less_by == 0 ? s.n : s.n - less_by);
  }
  V exp(V x) const { return exp_inside(greater_of(-746, less_of(711, x))); }

  V expm1(V x) const {
    Reduced s = reduce_exp(greater_of(-50, less_of(710, x)));
    V p = muladd(s.r * s.r, exp_q(s.r), s.r);
    V half = scale(constant(x, 0.5), s.n);  // half of 2^n, which may be past the range
    V result = muladd(p, half, half - 0.5);
    return with_sign(abs(result + result), x);
  }

  // log(1 + f) for 1 + f between sqrt(1/2) and sqrt(2)
  V log_near_1(V f) const {
    V s = f / (f + 2.0);
    V z = s * s;
    return muladd(s * z, log_q(z), s + s);
  }

  struct Binary {
    V e;        // f64
    V shifted;  // e in the place of an exponent
    V b;
  };
  Binary exponent_of(V x) const {
    V b = bits(x);
    V t = b - whole(b, 0x3FE6A09E667F3BCD);  // sqrt(1/2)
    V e = convert(MathType::kF64, convert(MathType::kI32, shift_right_signed(t, 52)));
    return {e, t & whole(t, INT64_MIN >> 11), b};
  }

  V log_special(V x, V result) const {
    V special = select(x < 0.0, kNan, select(equal(x, 0.0), -kInfinity, x));
    return select((0.0 < x) & (x < kInfinity), result, special);
  }

  V log(V x) const {
    V small = x < 0x1p-1022;
    Binary s = exponent_of(brief ? x : select(small, x * 0x1p54, x));
    V e = brief ? s.e : s.e - select(small, constant(x, 54), 0.0);
    V f = bits_as(MathType::kF64, s.b - s.shifted) - 1.0;
    return log_special(x, muladd(e, 0x1.62e42feep-1, muladd(e, 0x1.a39ef35793c76p-33, log_near_1(f))));
  }

  V log1p(V x) const {
    V u = x + 1.0;
    Binary s = exponent_of(u);
    // 1 + f = (1 + x) 2^-e without the rounding of 1 + x
    V factor = bits_as(MathType::kF64, whole(s.b, int64_t{1023} << 52) - s.shifted);
    V f = select(x < 0x1p60, muladd(x, factor, factor - 1.0), bits_as(MathType::kF64, s.b - s.shifted) - 1.0);
    V result = muladd(s.e, 0x1.62e42feep-1, muladd(s.e, 0x1.a39ef35793c76p-33, log_near_1(f)));
    return select(abs(x) < 0x1p-60, x, log_special(u, result));
  }

  V asin_part(V a, V large, V& z) const {
    z = select(large, muladd(a, -0.5, constant(a, 0.5)), a * a);
    V y = select(large, sqrt(z), a);
    return muladd(y * z, asin_q(z), y);
  }
  V asin(V x) const {
    V a = abs(x), z;
    V large = 0.5 < a;
    V p = asin_part(a, large, z);
    return with_sign(select(large, muladd(p, -2.0, constant(p, kPi / 2)), p), x);
  }
  V acos(V x) const {
    V a = abs(x), z;
    V large = 0.5 < a;
    V p = asin_part(a, large, z);
    V twice = p + p;
    return select(large, select(x < 0.0, kPi - twice, twice), kPi / 2 - with_sign(p, x));
  }

  // atan(numerator / denominator), both positive, after one of two turns of the plane
  V atan_ratio(V numerator, V denominator, V offset) const {
    V t = numerator / denominator;
    V z = t * t;
    return offset + muladd(t * z, atan_q(z), t);
  }
  V atan(V x) const {
    V a = abs(x);
    V middle = 0x1.a827999fcef32p-2 < a, large = 0x1.3504f333f9de6p+1 < a;
    V numerator = select(large, -1.0, select(middle, a - 1.0, a));
    V denominator = select(large, a, select(middle, a + 1.0, 1.0));
    V offset = select(large, kPi / 2, select(middle, kPi / 4, constant(x, 0)));
    return with_sign(atan_ratio(numerator, denominator, offset), x);
  }
  V atan2(V y, V x) const {
    V ay = abs(y), ax = abs(x);
    V steep = ax < ay;
    V low = select(steep, ax, ay), high = select(steep, ay, ax);
    // Infinite both or zero both: 1 and 0.
    V both = equal(low, kInfinity);
    V none = equal(high, 0.0);
    low = select(both, 1.0, low);
    high = select(both | none, 1.0, high);
    if (!brief) {
      V factor = select(0x1p1000 < high, 0x1p-60, select(high < 0x1p-900, constant(x, 0x1p100), 1.0));
      low = low * factor;
      high = high * factor;
    }
    V middle = high * 0x1.a827999fcef32p-2 < low;
    V a = atan_ratio(select(middle, low - high, low), select(middle, low + high, high),
                     select(middle, kPi / 4, constant(x, 0)));
    a = select(steep, kPi / 2 - a, a);
    V left = !equal(sign_bit(x), 0.0);
    a = select(left, kPi - a, a);
    return select(is_nan(x) | is_nan(y), kNan, with_sign(a, y));
  }

  V sinh(V x) const {
    V a = abs(x);
    V half = exp_inside(less_of(712, a), 1);
    V s = x * x;
    return select(a < 1.0, muladd(x * s, sinh_q(s), x), with_sign(half - 0.25 / half, x));
  }
  V cosh(V x) const {
    V half = exp_inside(less_of(712, abs(x)), 1);
    return half + 0.25 / half;
  }
  V tanh(V x) const {
    V a = abs(x);
    V t = expm1(less_of(60, a + a));
    return with_sign(t / (t + 2.0), x);
  }
  V asinh(V x) const {
    V a = abs(x);
    V huge = 0x1p500 < a;
    V s = a * a;
    V v = select(huge, a, a + s / (1.0 + sqrt(s + 1.0)));
    return with_sign(log1p(v) + select(huge, constant(x, kLn2), 0.0), x);
  }
  V acosh(V x) const {
    V huge = 0x1p500 < x;
    V t = x - 1.0;
    V v = select(huge, x, t + sqrt(t * (t + 2.0)));
    return select(x < 1.0, kNan, log1p(v) + select(huge, constant(x, kLn2), 0.0));
  }
  V atanh(V x) const {
    V a = abs(x);
    return with_sign(log1p((a + a) / (1.0 - a)) * 0.5, x);
  }
  V erf(V x) const {
    V a = abs(x);
    V t = less_of(6, a);
    V square = t * t;
    V lost = fused(t, t, -square);
    V tail = exp_inside(-square) * polynomial((t - 2.0) / (t + 2.0), kErfc);
    V large = 1.0 - muladd(tail, -lost, tail);
    return select(a < 1.0, x * polynomial(x * x, kErf), with_sign(large, x));
  }
  V sigmoid(V x) const {
    V e = exp_inside(greater_of(-746, -abs(x)));
    return select(x < 0.0, e, 1.0) / (1.0 + e);
  }

  // y log x in two parts, as exp multiplies the error of its argument by that.
  V pow(V x, V y) const {
    V a = abs(x);
    V small = a < 0x1p-1022;
    Binary s = exponent_of(brief ? a : select(small, a * 0x1p54, a));
    V e = brief ? s.e : s.e - select(small, constant(x, 54), 0.0);
    V f = bits_as(MathType::kF64, s.b - s.shifted) - 1.0;
    V product, lost;
    if (brief) {
      V l = muladd(e, 0x1.62e42feep-1, muladd(e, 0x1.a39ef35793c76p-33, log_near_1(f)));
      product = l * y;
      lost = constant(x, 0);
    } else {
      V d = f + 2.0;
      V d_lost = f - (d - 2.0);
      V q = f / d;
      V q_lost = (fused(-q, d, f) - q * d_lost) / d;
      V z = q * q;
      // e log 2 has 32 + 11 bits: the sum with 2 q is split by its own error.
      V whole_part = e * 0x1.62e42feep-1;
      V twice = q + q;
      V sum = whole_part + twice;
      V back = sum - whole_part;
      V sum_lost = (whole_part - (sum - back)) + (twice - back);
      V rest = muladd(e, 0x1.a39ef35793c76p-33, muladd(q * z, log_q(z), (q_lost + q_lost) + sum_lost));
      V high = sum + rest;
      V low = rest - (high - sum);
      product = high * y;
      lost = muladd(low, y, fused(high, y, -product));
      lost = select(abs(product) < 1000.0, lost, 0.0);
    }
    // log 0 and log infinity
    V l_special = select(equal(a, 0.0), -kInfinity, constant(x, kInfinity));
    V regular = (0.0 < a) & (a < kInfinity);
    V argument = select(regular, product, l_special * y);
    V power = exp(argument);
    if (!brief) power = select(power < kInfinity, muladd(power, lost, power), power);
    // Of a whole y, halves tell whether it is odd; from 2^53 on all are even.
    V whole_y = equal(rounded(y), y);
    V half_y = y * 0.5;
    V odd = whole_y & !equal(rounded(half_y), half_y) & (abs(y) < 0x1p53);
    power = select(odd, with_sign(power, x), power);
    V y_infinite = equal(abs(y), kInfinity);
    V invalid = (x < 0.0) & (a < kInfinity) & !whole_y & !y_infinite;
    power = select(invalid | is_nan(x) | is_nan(y), kNan, power);
    V one = equal(x, 1.0) | equal(y, 0.0) | (equal(a, 1.0) & y_infinite);
    return select(one, 1.0, power);
  }

  // To the nearest whole number; what is 2^52 or more is one already.
  static V rounded(V y) {
    V a = abs(y);
    V near = (a + 0x1p52) - 0x1p52;
    return select(a < 0x1p52, with_sign(near, y), y);
  }
};

// --- the table ------------------------------------------------------------------------------------------------------------

using Body = std::function<V(V x, V y)>;

MathProgram write(MathType t, int arity, const Body& body) {
  Writer writer;
  V x = writer.input(0, t);
  V y = arity == 2 ? writer.input(1, t) : V{};
  return writer.finish(body(x, y));
}

// A function of doubles, on floats.
Body through_double(const std::function<V(const Double&, V, V)>& body) {
  return [body](V x, V y) {
    V wide_y = y.writer != nullptr ? convert(MathType::kF64, y) : y;
    return convert(MathType::kF32, body(Double{true}, convert(MathType::kF64, x), wide_y));
  };
}

class Table {
 public:
  Table() {
    const MathType f32 = MathType::kF32, f64 = MathType::kF64;
    add_f32(ScalarOp::kExp, 1.0, [](V x, V) { return exp_f32(x); });
    add_powers(ScalarOp::kExp, 1.25, [](V x, V) { return exp_f32_by_powers(x); });
    add_f32(ScalarOp::kLog, 1.0, [](V x, V) { return log_f32(x); });
    add_f32(ScalarOp::kTanh, 1.5, [](V x, V) { return tanh_f32(x); });
    add_f32(ScalarOp::kErf, 1.5, [](V x, V) { return erf_f32(x); });
    add_f32(ScalarOp::kSigmoid, 2.0, [](V x, V) { return sigmoid_f32(x); });
    add_pieces(ScalarOp::kExp, 1.8, [](V x, V) { return exp_f32_by_pieces(x); });
    add_pieces(ScalarOp::kTanh, 1.5, [](V x, V) { return by_pieces(x, kTanhPieces); });
    add_pieces(ScalarOp::kErf, 1.5, [](V x, V) { return by_pieces(x, kErfPieces); });
    add_both(ScalarOp::kExp, 0, 1.0, [](const Double& d, V x, V) { return d.exp(x); });
    add_both(ScalarOp::kLog, 0, 2.0, [](const Double& d, V x, V) { return d.log(x); });
    add_both(ScalarOp::kTanh, 0, 3.0, [](const Double& d, V x, V) { return d.tanh(x); });
    add_both(ScalarOp::kErf, 0, 2.0, [](const Double& d, V x, V) { return d.erf(x); });
    add_both(ScalarOp::kSigmoid, 0, 2.5, [](const Double& d, V x, V) { return d.sigmoid(x); });
    add_both(ScalarOp::kLog1p, 0.52, 2.7, [](const Double& d, V x, V) { return d.log1p(x); });
    add_both(ScalarOp::kExpm1, 0.52, 2.5, [](const Double& d, V x, V) { return d.expm1(x); });
    add_both(ScalarOp::kAsin, 0.52, 2.3, [](const Double& d, V x, V) { return d.asin(x); });
    add_both(ScalarOp::kAcos, 0.52, 2.0, [](const Double& d, V x, V) { return d.acos(x); });
    add_both(ScalarOp::kAtan, 0.52, 2.3, [](const Double& d, V x, V) { return d.atan(x); });
    add_both(ScalarOp::kSinh, 0.52, 2.0, [](const Double& d, V x, V) { return d.sinh(x); });
    add_both(ScalarOp::kCosh, 0.52, 2.0, [](const Double& d, V x, V) { return d.cosh(x); });
    add_both(ScalarOp::kAsinh, 0.52, 3.2, [](const Double& d, V x, V) { return d.asinh(x); });
    add_both(ScalarOp::kAcosh, 0.52, 3.2, [](const Double& d, V x, V) { return d.acosh(x); });
    add_both(ScalarOp::kAtanh, 0.52, 3.2, [](const Double& d, V x, V) { return d.atanh(x); });
    add_both(ScalarOp::kAtan2, 0.52, 3.0, [](const Double& d, V x, V y) { return d.atan2(x, y); });
    add_both(ScalarOp::kPow, 0.52, 16.0, [](const Double& d, V x, V y) { return d.pow(x, y); });
    for (int turns : {0, 1}) {
      const ScalarOp op = turns == 0 ? ScalarOp::kSin : ScalarOp::kCos;
      add_f32(op, 1.6, [turns](V x, V) { return sin_cos(reduce_f32(x), MathType::kF32, turns, x); });
      add_slow(op, f32, [turns](V x, V) { return sin_cos(reduce_large_f32(x), MathType::kF32, turns, x); });
      add(op, f64, 2.6, [turns](V x, V) { return sin_cos(reduce_f64(x), MathType::kF64, turns, x); });
      add_slow(op, f64, [turns](V x, V) { return sin_cos(reduce_large_f64(x), MathType::kF64, turns, x); });
    }
    add_f32(ScalarOp::kTan, 0.52, [](V x, V) { return tan_of(reduce_f32(x), true, x); });
    add_slow(ScalarOp::kTan, f32, [](V x, V) { return tan_of(reduce_large_f32(x), true, x); });
    add(ScalarOp::kTan, f64, 4.5, [](V x, V) { return tan_of(reduce_f64(x), false, x); });
    add_slow(ScalarOp::kTan, f64, [](V x, V) { return tan_of(reduce_large_f64(x), false, x); });
  }

  const MathFunction* find(ScalarOp op, DType t) const {
    auto found = functions_.find({op, t});
    return found == functions_.end() ? nullptr : &found->second;
  }

 private:
  void add(ScalarOp op, MathType t, double max_ulp, const Body& body) {
    const DType dtype = t == MathType::kF32 ? DType::kF32 : DType::kF64;
    functions_[{op, dtype}] = {op, dtype, write(t, arity_of(op), body), {}, {}, max_ulp, {}, 0, {}, 0};
  }
  void add_f32(ScalarOp op, double max_ulp, const Body& body) { add(op, MathType::kF32, max_ulp, body); }
  void add_powers(ScalarOp op, double max_ulp, const Body& body) {
    MathFunction& f = functions_.at({op, DType::kF32});
    f.powers = write(MathType::kF32, 1, body);
    f.powers_ulp = max_ulp;
  }
  void add_pieces(ScalarOp op, double max_ulp, const Body& body) {
    MathFunction& f = functions_.at({op, DType::kF32});
    f.pieces = write(MathType::kF32, 1, body);
    f.pieces_ulp = max_ulp;
  }
  // `f32_ulp` 0: the float has a program of its own.
  void add_both(ScalarOp op, double f32_ulp, double f64_ulp, const std::function<V(const Double&, V, V)>& body) {
    if (f32_ulp > 0) add(op, MathType::kF32, f32_ulp, through_double(body));
    add(op, MathType::kF64, f64_ulp, [&](V x, V y) { return body(Double{false}, x, y); });
  }
  // Arguments past what the reduction of the fast program is good for.
  void add_slow(ScalarOp op, MathType t, const Body& body) {
    MathFunction& f = functions_.at({op, t == MathType::kF32 ? DType::kF32 : DType::kF64});
    f.slow = write(t, 1, body);
    f.is_slow = write(t, 1, [t](V x, V) { return (t == MathType::kF32 ? 0x1p48 : 0x1.8p20) < abs(x); });
  }

  std::map<std::pair<ScalarOp, DType>, MathFunction> functions_;
};

const Table& table() {
  static const Table all;
  return all;
}

}  // namespace

bool is_math_function(ScalarOp op) { return table().find(op, DType::kF32) != nullptr; }

const MathFunction& math_function(ScalarOp op, DType dtype) {
  const MathFunction* found = table().find(op, dtype);
  STAX_ASSERT(found != nullptr, "no program for {} of {}", name_of(op), name_of(dtype));
  return *found;
}

std::span<const uint32_t> two_over_pi() { return kTwoOverPi; }

}  // namespace stax::ir
