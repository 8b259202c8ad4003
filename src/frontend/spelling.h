// SPDX-License-Identifier: Apache-2.0
#pragma once
// Words that several operator files use to spell comprehensions. Nothing here knows an operator.
#include <functional>
#include <initializer_list>
#include <vector>

#include "frontend/node_context.h"

namespace stax::frontend {

using tensor::Body;
using tensor::Combiner;

// ---- integer facts
Expr zero_of(Builder& b);
Expr one_of(Builder& b);
/// 1 where 0 <= i < n.
Expr within(Expr i, Expr n);
/// A condition (1 / 0) as a bool scalar.
Scalar holds(Body& body, Expr condition);
/// An integer expression as a number of a float (or integer) dtype.
Scalar number_of(Body& body, DType t, Expr e);
/// The index into an axis of extent `have` for a point `i` of an axis that it broadcasts to: i, 0, or decided at run time.
Expr broadcast_index(Builder& b, Expr i, Expr have, Expr want);
/// Demands that `have` is `want` or 1; `what` names the two for the message.
void check_broadcast(Builder& b, Expr have, Expr want, const std::string& what);
void check_equal(Builder& b, Expr have, Expr want, const std::string& what);
bool is_one(Expr e);
bool is_zero(Expr e);

// ---- types
/// In which products are summed: f32 for f16 and bf16, else the type itself.
DType product_accumulator(DType t);
/// In which long sums are formed: f64 for f32, f32 for f16 and bf16, else the type itself.
DType sum_accumulator(DType t);

// ---- scalars
Scalar clamp(Scalar x, Scalar lo, Scalar hi);
Scalar square(Scalar x);
Scalar logical_and(Scalar a, Scalar b);
Scalar logical_or(Scalar a, Scalar b);
Scalar logical_not(Scalar a);
Scalar less_than_zero(Body& body, Scalar x);
/// f32 results that are rounded once, also where a level computes in f64: ties decide what comes out.
Scalar rounded_sum(Scalar a, Scalar b);
Scalar rounded_difference(Scalar a, Scalar b);
Scalar rounded_product(Scalar a, Scalar b);
Scalar rounded_quotient(Scalar a, Scalar b);
/// round(x) saturated to the integers of `t`, as that type. x is a float.
Scalar saturate(Body& body, DType t, Scalar x);
double least_integer(DType t);
double greatest_integer(DType t);
/// -infinity, or the least number of an integer type.
Scalar lowest(Body& body, DType t);

// ---- values
/// `v` cast, or itself.
Value* as_type(Builder& b, Value* v, DType t);
/// The result has the extents of `like`; where `like` has run-time rank, so has the result.
Value* keep_rank(Value* result, const Value* like);
/// `v`, row-major, as a tensor of the first `rank` of `extents`; the others are 1. `rank` is known only at run time.
Value* with_leading_extents(Builder& b, Value* v, const std::vector<Expr>& extents, Expr rank);
/// Position of axis `a` (an attribute) in `v`. Counted from the end, it exists also where the rank is known only at run time.
int axis_of(const Node& n, int64_t a, const Value* v);
/// UnsupportedError where the rank of input `k` is known only at run time; UserError where it is another than expected.
int need_rank(const Node& n, int k, int least, int greatest = tensor::kMaxRank);
/// The one number of a constant float or integer tensor, if it is constant.
std::optional<double> constant_number(const Builder& b, const Value* v);
/// The expressions of a list of constants.
std::vector<Expr> exprs_of(Builder& b, const std::vector<int64_t>& values);
/// The element of `v`, a tensor of rank 0 or of one element, as it is.
Scalar load_one(Body& body, Value* v);
/// The extents of `v` from axis `first` on (up to `last`).
std::vector<Expr> extents_of(const Value* v, int first = 0, int last = -1);
std::vector<Expr> joined(std::vector<Expr> a, const std::vector<Expr>& b);
std::vector<Expr> joined(std::vector<Expr> a, const std::vector<Expr>& b, const std::vector<Expr>& c);
/// Part `from .. to - 1` of a list of indices.
std::vector<Expr> part(const std::vector<Expr>& list, int from, int to = -1);

}  // namespace stax::frontend
