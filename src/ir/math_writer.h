// SPDX-License-Identifier: Apache-2.0
/// Writing programs of ir/math_table.h as C++ expressions.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "ir/math_table.h"

namespace stax::ir {

class Writer;

// A node of a program being written.
struct V {
  Writer* writer = nullptr;
  int32_t id = -1;
  MathType type = MathType::kF32;
};

inline bool is_real(MathType t) { return t == MathType::kF32 || t == MathType::kF64; }

class Writer {
 public:
  V input(int number, MathType t) { return node({MathOp::kInput, t, {-1, -1, -1}, static_cast<uint64_t>(number)}); }
  V real(MathType t, double v) { return node({MathOp::kConstant, t, {-1, -1, -1}, std::bit_cast<uint64_t>(v)}); }
  V whole(MathType t, int64_t v) { return node({MathOp::kConstant, t, {-1, -1, -1}, static_cast<uint64_t>(v)}); }
  V make(MathOp op, MathType t, V a, V b = {}, V c = {}, uint64_t bits = 0) {
    return node({op, t, {a.id, b.id, c.id}, bits});
  }

  // Equal nodes are one; what the result does not need is left out.
  MathProgram finish(V result) const {
    std::vector<int32_t> number(nodes_.size(), -1);
    std::vector<char> needed(nodes_.size(), 0);
    needed[static_cast<size_t>(result.id)] = 1;
    for (size_t i = nodes_.size(); i-- > 0;) {
      if (needed[i] == 0) continue;
      for (int32_t arg : nodes_[i].args) {
        if (arg >= 0) needed[static_cast<size_t>(arg)] = 1;
      }
    }
    MathProgram program;
    for (size_t i = 0; i <= static_cast<size_t>(result.id); ++i) {
      if (needed[i] == 0) continue;
      number[i] = static_cast<int32_t>(program.nodes.size());
      program.nodes.push_back(nodes_[i]);
      for (int32_t& arg : program.nodes.back().args) {
        if (arg >= 0) arg = number[static_cast<size_t>(arg)];
      }
    }
    return program;
  }

 private:
  V node(MathNode n) {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i] == n) return {this, static_cast<int32_t>(i), n.type};
    }
    nodes_.push_back(n);
    return {this, static_cast<int32_t>(nodes_.size() - 1), n.type};
  }

  std::vector<MathNode> nodes_;
};

inline V constant(V like, double v) {
  return is_real(like.type) ? like.writer->real(like.type, v) : like.writer->whole(like.type, static_cast<int64_t>(v));
}
inline V whole(V like, int64_t v) { return like.writer->whole(like.type, v); }
inline V same_type(MathOp op, V a, V b) { return a.writer->make(op, a.type, a, b); }
inline V to_bool(MathOp op, V a, V b) { return a.writer->make(op, MathType::kBool, a, b); }

inline V operator+(V a, V b) { return same_type(MathOp::kAdd, a, b); }
inline V operator-(V a, V b) { return same_type(MathOp::kSub, a, b); }
inline V operator*(V a, V b) { return same_type(MathOp::kMul, a, b); }
inline V operator/(V a, V b) { return same_type(MathOp::kDiv, a, b); }
inline V operator+(V a, double b) { return a + constant(a, b); }
inline V operator-(V a, double b) { return a - constant(a, b); }
inline V operator*(V a, double b) { return a * constant(a, b); }
inline V operator+(double a, V b) { return constant(b, a) + b; }
inline V operator-(double a, V b) { return constant(b, a) - b; }
inline V operator/(double a, V b) { return constant(b, a) / b; }
inline V operator-(V a) { return a.writer->make(MathOp::kNeg, a.type, a); }
inline V operator&(V a, V b) { return same_type(MathOp::kAnd, a, b); }
inline V operator|(V a, V b) { return same_type(MathOp::kOr, a, b); }
inline V operator^(V a, V b) { return same_type(MathOp::kXor, a, b); }
inline V operator!(V a) { return a.writer->make(MathOp::kNot, a.type, a); }
inline V operator<(V a, V b) { return to_bool(MathOp::kLess, a, b); }
inline V operator<(V a, double b) { return a < constant(a, b); }
inline V operator<(double a, V b) { return constant(b, a) < b; }
inline V equal(V a, double b) { return to_bool(MathOp::kEqual, a, constant(a, b)); }
inline V equal(V a, V b) { return to_bool(MathOp::kEqual, a, b); }
inline V is_nan(V a) { return a.writer->make(MathOp::kIsNan, MathType::kBool, a); }
inline V abs(V a) { return a.writer->make(MathOp::kAbs, a.type, a); }
inline V sqrt(V a) { return a.writer->make(MathOp::kSqrt, a.type, a); }
inline V ratio(V a, V b) { return same_type(MathOp::kRatio, a, b); }
inline V muladd(V a, V b, V c) { return a.writer->make(MathOp::kMulAdd, a.type, a, b, c); }
inline V muladd(V a, V b, double c) { return muladd(a, b, constant(a, c)); }
inline V muladd(V a, double b, V c) { return muladd(a, constant(a, b), c); }
inline V fused(V a, V b, V c) { return a.writer->make(MathOp::kFusedMulAdd, a.type, a, b, c); }
inline V fused(V a, double b, V c) { return fused(a, constant(a, b), c); }
inline V less_of(double a, V b) { return same_type(MathOp::kLessOf, constant(b, a), b); }
inline V greater_of(double a, V b) { return same_type(MathOp::kGreaterOf, constant(b, a), b); }
inline V power(V a) { return a.writer->make(MathOp::kPower, a.type, a); }
inline V unit_muladd(V a, double b, double c) {
  return a.writer->make(MathOp::kUnitMulAdd, a.type, a, constant(a, b), constant(a, c));
}
inline V scale(V a, V n) { return same_type(MathOp::kScale, a, n); }
inline V scale_floor(V a, V n) { return same_type(MathOp::kScaleFloor, a, n); }
inline V select(V c, V a, V b) { return a.writer->make(MathOp::kSelect, a.type, c, a, b); }
inline V select(V c, V a, double b) { return select(c, a, constant(a, b)); }
inline V select(V c, double a, V b) { return select(c, constant(b, a), b); }
inline V convert(MathType t, V a) { return a.type == t ? a : a.writer->make(MathOp::kConvert, t, a); }
inline V bits_as(MathType t, V a) { return a.writer->make(MathOp::kBits, t, a); }
inline V bits(V a) { return bits_as(a.type == MathType::kF32 ? MathType::kI32 : MathType::kI64, a); }
inline V shift_left(V a, int n) {
  return a.writer->make(MathOp::kShiftLeft, a.type, a, {}, {}, static_cast<uint64_t>(n));
}
inline V shift_right(V a, int n) {
  return a.writer->make(MathOp::kShiftRight, a.type, a, {}, {}, static_cast<uint64_t>(n));
}
inline V shift_right_signed(V a, int n) {
  return a.writer->make(MathOp::kShiftRightSigned, a.type, a, {}, {}, static_cast<uint64_t>(n));
}
inline V entry(V index, uint64_t table) {
  return index.writer->make(MathOp::kEntry, MathType::kF32, index, {}, {}, table);
}
inline V lookup(V index) { return index.writer->make(MathOp::kLookup, MathType::kI32, index); }

inline V sign_bit(V x) {
  V b = bits(x);
  return b & whole(b, x.type == MathType::kF32 ? int64_t{INT32_MIN} : INT64_MIN);
}
inline V with_sign(V magnitude, V sign) { return bits_as(magnitude.type, bits(magnitude) | sign_bit(sign)); }

template <class T>
V polynomial(V x, std::span<const T> c) {
  V sum = constant(x, static_cast<double>(c.back()));
  for (size_t i = c.size() - 1; i-- > 0;) sum = muladd(sum, x, static_cast<double>(c[i]));
  return sum;
}
template <class T, size_t N>
V polynomial(V x, const T (&c)[N]) {
  return polynomial(x, std::span<const T>(c));
}

}  // namespace stax::ir
