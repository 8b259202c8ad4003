// SPDX-License-Identifier: Apache-2.0
// Operators on shapes: Reshape and its kin, Transpose, Concat, Split, Expand, Tile, Shape, Size, Trilu.
//
// Sizes are expressions throughout, whether they stand in the file, follow from extents, or arrive with the call.
#include <algorithm>
#include <numeric>

#include "frontend/scalar_words.h"
#include "frontend/spelling.h"
#include "support/error.h"
#include "symbolic/polynomial.h"

namespace stax::frontend {
namespace {

// ---- Shape, Size ----------------------------------------------------------------------------------------------------

/// The extents of a value of run-time rank as a vector of that many elements, from the front.
Value* run_time_shape(Builder& b, const Value* v) {
  return b.map({v->type.rank}, [&](Body& body) {
    const Expr at = body.i[0] + (tensor::kMaxRank - v->type.rank);
    Expr extent = v->type.extents.back();
    for (int k = tensor::kMaxRank - 2; k >= 0; --k)
      extent = symbolic::select(symbolic::equal(at, k), v->type.extents[k], extent);
    return body.index(extent);
  });
}

void import_shape(Node& n) {
  Builder& b = n.b();
  const Value* x = n.input(0);
  const int64_t start = n.integer("start", 0);
  const std::optional<int64_t> end = n.integer("end");
  if (x->type.has_static_rank()) {
    const int64_t rank = x->type.static_rank();
    const auto bound = [&](int64_t k) { return std::clamp<int64_t>(k < 0 ? k + rank : k, 0, rank); };
    const int64_t first = bound(start), last = std::max(bound(end.value_or(rank)), first);
    return n.output(0, b.ints(extents_of(x, static_cast<int>(first), static_cast<int>(last))));
  }
  const Expr rank = x->type.rank;
  const auto bound = [&](int64_t k) {
    return symbolic::min(symbolic::max(k < 0 ? rank + k : b.constant_expr(k), 0), rank);
  };
  const Expr first = bound(start), last = end ? bound(*end) : rank;
  n.output(0, b.slice(run_time_shape(b, x), 0, first, symbolic::max(last - first, 0), b.constant_expr(1)));
}

void import_size(Node& n) { n.output(0, n.b().int_scalar(n.b().product(n.input(0)->type.extents))); }

// ---- Reshape --------------------------------------------------------------------------------------------------------

Expr expr_of(Builder& b, const symbolic::Polynomial& p) {
  Expr sum = b.constant_expr(p.constant);
  for (const symbolic::Term& term : p.terms) {
    Expr product = b.constant_expr(term.coefficient);
    for (const Expr factor : term.factors) product = product * factor;
    sum = sum + product;
  }
  return sum;
}

/// a / b as polynomials, if that leaves no rest. Where b is 0 at run time, so is a: any quotient will do.
std::optional<Expr> exact_quotient(Builder& b, Expr dividend, Expr divisor) {
  constexpr int kMaxSteps = 16;
  const symbolic::Polynomial by(divisor);
  if (by.is_zero()) return std::nullopt;
  const symbolic::Term leading = by.is_constant() ? symbolic::Term{by.constant, {}} : by.leading();
  symbolic::Polynomial rest(dividend), quotient;
  for (int step = 0; !rest.is_zero(); ++step) {
    if (step == kMaxSteps) return std::nullopt;
    const symbolic::Term top = rest.is_constant() ? symbolic::Term{rest.constant, {}} : rest.leading();
    const std::optional<symbolic::Term> part = symbolic::divide(top, leading);
    if (!part) return std::nullopt;
    quotient.add(*part);
    rest.add(symbolic::multiply(by, *part), -1);
  }
  return expr_of(b, quotient);
}

/// A number that the caller gives, not one made of extents: what is made of extents alone says an extent, also where it is 0.
bool is_given_number(Expr e) {
  for (const Expr symbol : symbolic::free_symbols(e))
    if (symbol.symbol().range.lo < 0) return true;
  return false;
}

/// The extent that a 0 at position `k` of the shape stands for.
Expr copied_extent(Node& n, const Value* x, int k) {
  if (x->type.has_static_rank() && k >= x->type.static_rank())
    n.fault("the 0 at position " + std::to_string(k) + " of its shape copies an extent that '" + x->name +
            "' does not have");
  return extent_from_front(n.b(), x, k);
}

/// Whether a 0 that arithmetic on extents may give is looked at when the call comes. Copying literally would cost what is known of the
/// extents, for shapes that are all empty: [b*n, -1] of [b, n, 6] is [0, 6], not [b, 0], and [b, n, 8] of [b*n, 8] is [b, 0, 8], not an
/// error. So it is done only where a -1 lets several shapes fit and neither extent is a multiple of the other.
bool decides_zero_at_run_time(Builder& b, Expr s, Expr copied, bool infers) {
  if (!infers || s == copied) return false;
  const bool related = exact_quotient(b, s, copied) || exact_quotient(b, copied, s);
  return !related || (copied.is_constant() && !copied.is_constant(0));
}

/// An element of the shape is a constant, arithmetic on extents, or a number of the caller's; only the first and the last can
/// mean "infer" (-1). A 0 means "copy" wherever it comes from.
std::vector<Expr> reshaped_extents(Node& n, const Value* x, const std::vector<Expr>& shape, bool allow_zero) {
  Builder& b = n.b();
  const symbolic::ConstraintSet& facts = b.graph().constraints;
  const int count = static_cast<int>(shape.size());
  const Expr total = facts.simplify(b.product(x->type.extents));
  const bool infers = std::any_of(shape.begin(), shape.end(), [](Expr e) { return e.is_constant(-1); });
  std::vector<Expr> extents, is_inferred;  // with 1 in place of what is inferred
  int surely_inferred = 0;
  for (int k = 0; k < count; ++k) {
    Expr s = facts.simplify(shape[k]);
    if (s.is_constant() && s.constant() < -1) n.fault("element " + s.str() + " of its shape");
    const bool given = !s.is_constant() && is_given_number(s);
    if (s.is_constant(-1)) {
      is_inferred.push_back(one_of(b));
      ++surely_inferred;
    } else {
      is_inferred.push_back(given && facts.range(s).lo < 0 ? symbolic::equal(s, -1) : zero_of(b));
    }
    if (!allow_zero && s.is_constant(0)) {
      s = copied_extent(n, x, k);
    } else if (!allow_zero && facts.range(s).lo <= 0 && (!x->type.has_static_rank() || k < x->type.static_rank())) {
      const Expr copied = extent_from_front(b, x, k);
      if (given || decides_zero_at_run_time(b, s, copied, infers))
        s = symbolic::select(symbolic::equal(s, 0), copied, s);
    }
    extents.push_back(symbolic::select(is_inferred[k], one_of(b), s));
  }
  if (surely_inferred > 1) n.fault("its shape has more than one -1");
  if (allow_zero && surely_inferred == 1 &&
      std::any_of(shape.begin(), shape.end(), [](Expr e) { return e.is_constant(0); }))
    n.fault("its shape has a -1 beside a 0 that is an extent (allowzero), so that -1 could be anything");
  std::vector<Expr> result = extents;
  for (int k = 0; k < count; ++k) {
    if (is_zero(is_inferred[k])) continue;
    std::vector<Expr> others = extents;
    others.erase(others.begin() + k);
    const Expr divisor = facts.simplify(b.product(others));
    if (divisor.is_constant(0)) n.fault("its shape has a 0 beside a -1");
    const std::optional<Expr> exact = exact_quotient(b, total, divisor);
    result[k] = symbolic::select(is_inferred[k], exact ? *exact : symbolic::floordiv(total, divisor), extents[k]);
  }
  return result;
}

/// A shape whose number of elements only the call knows.
Value* reshape_dynamic(Node& n, Value* x, Value* shape, bool allow_zero) {
  Builder& b = n.b();
  const std::string name = n.output_name(0);
  const Expr total = b.product(x->type.extents);
  const symbolic::Interval range{0, std::max(symbolic::kMaxExtent, total.range().hi)};
  tensor::Type type = tensor::Type::tensor(x->type.dtype, {});
  type.rank = b.new_symbol(name + ".rank", {0, tensor::kMaxRank});
  std::vector<Expr> defines{type.rank};
  for (int k = 0; k < tensor::kMaxRank; ++k)
    type.extents.push_back(b.new_symbol(name + "[" + std::to_string(k - tensor::kMaxRank) + "]", range));
  defines.insert(defines.end(), type.extents.begin(), type.extents.end());
  const Expr count = b.product(type.extents);
  Value* result =
      b.op(tensor::ReshapeDynamic{allow_zero}, {x, b.cast(shape, DType::kI64)}, {std::move(type)}, std::move(defines))
          ->result();
  b.graph().constraints.assume_equal(count, total);
  return result;
}

void import_reshape(Node& n) {
  Value* x = n.input(0);
  Value* shape = n.input(1);
  const bool allow_zero = n.integer("allowzero", 0) != 0;
  const Expr count = n.element_count(shape);
  if (!count.is_constant()) return n.output(0, reshape_dynamic(n, x, shape, allow_zero));
  if (count.constant() > tensor::kMaxRank) n.unsupported("a result of rank " + count.str());
  Builder& b = n.b();
  const std::vector<Expr> extents = reshaped_extents(n, x, b.host_ints(shape), allow_zero);
  const Expr total = b.product(x->type.extents);
  std::string message = "cannot reshape the {0} elements of '" + x->name + "' to [";
  std::vector<Expr> arguments{total};
  for (const Expr extent : extents) {
    message += (arguments.size() > 1 ? ", {" : "{") + std::to_string(arguments.size()) + "}";
    arguments.push_back(extent);
  }
  b.check(symbolic::equal(total, b.product(extents)), message + "]", arguments);
  n.output(0, b.reshape(x, extents));
}

void import_flatten(Node& n) {
  Builder& b = n.b();
  Value* x = n.input(0);
  const int rank = n.rank(0);
  const int64_t axis = n.integer("axis", 1);
  const int at = axis == rank ? rank : n.axis(axis, std::max(rank, 1));
  const std::vector<Expr> front = extents_of(x, 0, at), back = extents_of(x, at);
  n.output(0, b.reshape(x, {b.product(front), b.product(back)}));
}

// ---- Squeeze, Unsqueeze ---------------------------------------------------------------------------------------------

void import_squeeze(Node& n) {
  Builder& b = n.b();
  Value* x = n.input(0);
  const std::vector<Expr>& extents = x->type.extents;
  const auto axes = n.axes_from("axes", 1, rank_of(b, x));
  std::vector<Expr> dropped;
  std::optional<int> kept;
  if (axes) {
    dropped = axis_mask(b, *axes, x->type);
    Expr count = zero_of(b);
    for (const Expr flag : dropped) count = count + flag;
    // As many axes as are named, even where which ones is known only at run time.
    const bool counted = n.has_attribute("axes") || n.element_count(n.input(1)).is_constant();
    if (counted && x->type.has_static_rank()) {
      kept = x->type.static_rank() - static_cast<int>(axes->size());
      b.check(symbolic::equal(count, static_cast<int64_t>(axes->size())), "its axes name one axis twice", {});
    }
    for (size_t k = 0; k < extents.size(); ++k) {
      b.check(symbolic::logical_or(symbolic::logical_not(dropped[k]), symbolic::equal(extents[k], 1)),
              "axis " + std::to_string(k) + " of '" + x->name + "' has extent {0}, not 1", {extents[k]});
    }
  } else {
    for (size_t k = 0; k < extents.size(); ++k)
      dropped.push_back(b.graph().constraints.simplify(symbolic::equal(extents[k], 1)));
    // The axes in front of a value of run-time rank count as ones; they are none of it.
    for (size_t k = 0; x->type.rank && k < extents.size(); ++k) {
      const Expr in_front = symbolic::less(b.constant_expr(static_cast<int64_t>(k)), tensor::kMaxRank - x->type.rank);
      dropped[k] = symbolic::logical_and(dropped[k], symbolic::logical_not(in_front));
    }
  }
  n.output(0, drop_axes(b, x, dropped, kept));
}

/// Position q from the right: either a new axis, or the next axis of x from the right.
void import_unsqueeze(Node& n) {
  Builder& b = n.b();
  Value* x = n.input(0);
  const Expr own_rank = rank_of(b, x);
  const auto given = n.ints_from("axes", -1);
  Value* operand = given ? nullptr : n.input(1);
  const Expr added = given ? b.constant_expr(static_cast<int64_t>(given->size())) : n.element_count(operand);
  const Expr rank = own_rank + added;
  const auto axes = n.axes_from("axes", 1, rank);
  if (rank.is_constant() && rank.constant() > tensor::kMaxRank) n.unsupported("a result of rank " + rank.str());
  if (!rank.is_constant())
    b.check(symbolic::less_equal(rank, b.constant_expr(tensor::kMaxRank)), "a result of rank {0}", {rank});
  std::vector<Expr> extents;  // from the right
  Expr used = zero_of(b);     // axes of x, from the right
  const int own = static_cast<int>(x->type.extents.size());
  const int count = rank.is_constant() ? static_cast<int>(rank.constant()) : tensor::kMaxRank;
  for (int q = 0; q < count; ++q) {
    Expr is_new = zero_of(b);
    for (const Expr axis : *axes) {
      is_new = symbolic::logical_or(
          is_new, symbolic::logical_or(symbolic::equal(axis, rank - (q + 1)), symbolic::equal(axis, -(q + 1))));
    }
    Expr old = one_of(b);
    for (int k = std::min(q, own - 1); k >= 0; --k)
      old = symbolic::select(symbolic::equal(used, k), x->type.extents[own - 1 - k], old);
    extents.insert(extents.begin(), symbolic::select(is_new, one_of(b), old));
    used = used + (1 - is_new);
  }
  if (used.is_constant() && rank.is_constant() && used.constant() != own) n.fault("its axes name one axis twice");
  if (rank.is_constant()) return n.output(0, b.reshape(x, extents));
  tensor::Type type = tensor::Type::tensor(x->type.dtype, std::move(extents));
  type.rank = rank;
  n.output(0, b.op(tensor::Reshape{}, {x}, {std::move(type)})->result());
}

// ---- Transpose, Expand, Tile ----------------------------------------------------------------------------------------

void import_transpose(Node& n) {
  Value* x = n.input(0);
  std::vector<int> permutation;
  if (const auto perm = n.integers("perm")) {
    const int rank = static_cast<int>(perm->size());
    x = n.input_of_rank(0, rank);
    std::vector<bool> seen(rank, false);
    for (const int64_t a : *perm) {
      const int axis = n.axis(a, rank);
      if (seen[axis]) n.fault("its attribute 'perm' names axis " + std::to_string(axis) + " twice");
      seen[axis] = true;
      permutation.push_back(axis);
    }
  } else {
    permutation.resize(n.rank(0));
    std::iota(permutation.rbegin(), permutation.rend(), 0);
  }
  n.output(0, n.b().transpose(x, permutation));
}

void import_expand(Node& n) {
  Builder& b = n.b();
  Value* x = n.input(0);
  Value* operand = n.input(1);
  const Expr count = n.element_count(operand);
  std::vector<Expr> shape;
  Expr rank;  // of the result where only the call knows it
  if (count.is_constant()) {
    if (count.constant() > tensor::kMaxRank) n.unsupported("a result of rank " + count.str());
    shape = b.host_ints(operand, {-1, symbolic::kPosInf});
    if (x->type.rank) rank = symbolic::max(x->type.rank, count);
  } else {
    b.check(symbolic::less_equal(count, b.constant_expr(tensor::kMaxRank)), "a result of rank {0}", {count});
    Value* aligned = b.map({b.constant_expr(tensor::kMaxRank)}, [&](Body& body) {
      const Expr at = body.i[0] - (tensor::kMaxRank - count);
      return ir::select(holds(body, symbolic::less_equal(zero_of(b), at)),
                        ir::cast(DType::kI64, body.load(operand, std::vector<Expr>{at})), body.integer(DType::kI64, 1));
    });
    aligned->name = operand->name;
    shape = b.host_ints(aligned, {-1, symbolic::kPosInf});
    rank = symbolic::max(rank_of(b, x), count);
  }
  const size_t own = x->type.extents.size(), total = std::max(shape.size(), own);
  std::vector<Expr> extents;
  for (size_t q = 0; q < total; ++q) {
    const Expr wanted = q < shape.size() ? shape[shape.size() - 1 - q] : one_of(b);
    const Expr have = q < own ? x->type.extents[own - 1 - q] : one_of(b);
    // -1 keeps the extent, as PyTorch has it and exporters write it.
    const Expr target = b.graph().constraints.range(wanted).lo < 0
                            ? symbolic::select(symbolic::equal(wanted, -1), have, wanted)
                            : wanted;
    extents.insert(extents.begin(), b.broadcast_extent(have, target,
                                                       "axis " + std::to_string(-1 - static_cast<int>(q)) + " of '" +
                                                           x->name + "' and its shape"));
  }
  if (extents == x->type.extents) return n.output(0, x);
  Value* result = b.map(extents, [&](Body& body) { return body.load_broadcast(x, body.i, extents); });
  n.output(0, rank ? with_run_time_rank(b, result, rank) : result);
}

void import_tile(Node& n) {
  Builder& b = n.b();
  Value* x = n.input(0);
  const int rank = n.rank(0);
  const std::vector<Expr> repeats = n.exact_ints(n.input(1), rank, kAnySize);
  std::vector<Expr> extents;
  for (int k = 0; k < rank; ++k) extents.push_back(x->type.extents[k] * repeats[k]);
  if (extents == x->type.extents) return n.output(0, x);
  n.output(0, b.map(extents, [&](Body& body) {
    std::vector<Expr> at = body.i;
    for (int k = 0; k < rank; ++k) {
      if (!repeats[k].is_constant(1)) at[k] = symbolic::mod(at[k], x->type.extents[k]);
    }
    return body.load(x, at);
  }));
}

// ---- Concat, Split --------------------------------------------------------------------------------------------------

/// Operands whose rank is known only at run time: which of the kMaxRank axes is the joined one is a flag for each.
Value* concat_at_run_time(Node& n, int64_t axis) {
  Builder& b = n.b();
  std::vector<Value*> parts;
  for (int k = 0; k < n.input_count(); ++k) parts.push_back(n.input(k));
  const Expr rank = rank_of(b, parts[0]);
  for (const Value* each : parts)
    b.check(symbolic::equal(rank, rank_of(b, each)),
            "'" + parts[0]->name + "' has rank {0} and '" + each->name + "' has rank {1}", {rank, rank_of(b, each)});
  const Expr least = b.constant_expr(axis < 0 ? -axis : axis + 1);
  b.check(symbolic::less_equal(least, rank), "axis " + std::to_string(axis) + " is outside of rank {0}", {rank});
  const Expr place = axis < 0 ? b.constant_expr(tensor::kMaxRank + axis) : tensor::kMaxRank + axis - rank;
  std::vector<Expr> joined, extents, starts;  // joined: 1 for the axis that is
  for (int d = 0; d < tensor::kMaxRank; ++d) joined.push_back(symbolic::equal(place, d));
  const auto length = [&](const Value* v) {
    Expr sum = b.constant_expr(0);
    for (int d = 0; d < tensor::kMaxRank; ++d) sum = sum + joined[d] * v->type.extents[d];
    return sum;
  };
  Expr total = b.constant_expr(0);
  for (const Value* each : parts) {
    starts.push_back(total);
    total = total + length(each);
  }
  for (int d = 0; d < tensor::kMaxRank; ++d) {
    const Expr extent = parts[0]->type.extents[d];
    for (const Value* each : parts)
      b.check(symbolic::logical_or(joined[d], symbolic::equal(extent, each->type.extents[d])),
              "'" + parts[0]->name + "' has extent {0} and '" + each->name + "' has {1} on an axis that is not joined",
              {extent, each->type.extents[d]});
    extents.push_back(symbolic::select(joined[d], total, extent));
  }
  Value* result = b.map(extents, [&](tensor::Body& body) {
    Expr position = b.constant_expr(0);
    for (int d = 0; d < tensor::kMaxRank; ++d) position = position + joined[d] * body.i[d];
    Scalar value;
    for (size_t k = parts.size(); k-- > 0;) {
      std::vector<Expr> at;
      for (int d = 0; d < tensor::kMaxRank; ++d) at.push_back(body.i[d] - joined[d] * starts[k]);
      const Scalar element = body.load(parts[k], at);
      value = value ? ir::select(ir::cast(DType::kBool, body.index(symbolic::less(position, starts[k + 1]))), element,
                                 value)
                    : element;
    }
    return value;
  });
  return with_run_time_rank(b, result, rank);
}

void import_concat(Node& n) {
  Builder& b = n.b();
  if (n.input_count() == 0) n.fault("it has no inputs");
  const std::optional<int64_t> attribute = n.integer("axis");
  if (!attribute) n.fault("its attribute 'axis' is missing");
  int rank = -1;
  for (int k = 0; k < n.input_count(); ++k) {
    if (n.input(k)->type.has_static_rank()) rank = n.input(k)->type.static_rank();
  }
  if (rank < 0) {
    for (int k = 1; k < n.input_count(); ++k) n.same_dtype(0, k);
    return n.output(0, concat_at_run_time(n, *attribute));
  }
  std::vector<Value*> parts;
  for (int k = 0; k < n.input_count(); ++k) {
    n.same_dtype(0, k);
    parts.push_back(n.input_of_rank(k, rank));
  }
  const int axis = n.axis(*attribute, rank);
  n.output(0, b.concat(parts, axis));
}

void import_split(Node& n) {
  Builder& b = n.b();
  Value* x = n.input(0);
  const int axis = n.axis(n.integer("axis", 0), n.rank(0));
  const Expr extent = x->type.extents[axis];
  const int count = n.proto_output_count();
  std::vector<Expr> starts, sizes;
  Value* operand = n.optional(1);
  const auto attribute = n.integers("split");
  if (attribute || operand) {
    sizes = attribute ? exprs_of(b, *attribute) : n.exact_ints(operand, count, kAnySize);
    if (static_cast<int>(sizes.size()) != count)
      n.fault("it names " + std::to_string(count) + " outputs, its 'split' has " + std::to_string(sizes.size()) +
              " sizes");
    Expr end = zero_of(b);
    for (const Expr size : sizes) {
      starts.push_back(end);
      end = end + size;
    }
    b.check(symbolic::equal(end, extent),
            "its sizes add up to {0}, axis " + std::to_string(axis) + " of '" + x->name + "' has extent {1}",
            {end, extent});
  } else {
    const int64_t parts = n.integer("num_outputs", count);
    if (parts < count) n.fault("it names " + std::to_string(count) + " outputs of " + std::to_string(parts));
    const Expr chunk = symbolic::ceildiv(extent, parts);
    for (int k = 0; k < count; ++k) {
      starts.push_back(symbolic::min(chunk * k, extent));
      sizes.push_back(symbolic::min(chunk, extent - starts.back()));
    }
    if (n.opset() < 18)
      b.check(symbolic::equal(symbolic::mod(extent, parts), 0),
              "extent {0} cannot be split into " + std::to_string(parts) + " equal parts", {extent});
    if (n.opset() < 18 || (extent.is_constant() && extent.constant() % parts == 0)) {
      const Expr each = symbolic::floordiv(extent, parts);
      for (int k = 0; k < count; ++k) starts[k] = each * k, sizes[k] = each;
    }
  }
  for (int k = 0; k < count; ++k) n.output(k, b.slice(x, axis, starts[k], sizes[k], one_of(b)));
}

// ---- Trilu ----------------------------------------------------------------------------------------------------------

void import_trilu(Node& n) {
  Builder& b = n.b();
  Value* x = n.input(0);
  const int rank = static_cast<int>(x->type.extents.size());
  if (rank < 2) n.fault("its input '" + x->name + "' has rank " + std::to_string(rank));
  const bool upper = n.integer("upper", 1) != 0;
  Value* k = n.optional(1);
  if (k) {
    n.require(ir::is_integer(k->type.dtype), 1, "an integer");
    k = b.reshape(k, {});
  }
  Value* result = b.map(x->type.extents, [&](Body& body) {
    const Scalar diagonal = body.index(body.i[rank - 1] - body.i[rank - 2]);
    const Scalar from = k ? int_of(body, k) : body.integer(DType::kI64, 0);
    const Scalar kept = upper ? ir::less_equal(from, diagonal) : ir::less_equal(diagonal, from);
    return ir::select(kept, body.load(x, body.i), body.integer(x->type.dtype, 0));
  });
  n.output(0, keep_rank(result, x));
}

constexpr OperatorRow kOperators[] = {
    {"", "Shape", 1, import_shape},
    {"", "Size", 1, import_size},
    {"", "Reshape", 5, import_reshape},
    {"", "Flatten", 1, import_flatten},
    {"", "Squeeze", 1, import_squeeze},
    {"", "Unsqueeze", 1, import_unsqueeze},
    {"", "Transpose", 1, import_transpose},
    {"", "Expand", 8, import_expand},
    {"", "Tile", 6, import_tile},
    {"", "Concat", 4, import_concat},
    {"", "Split", 2, import_split},
    {"", "Trilu", 14, import_trilu},
    {"com.microsoft", "Trilu", 1, import_trilu},
};

}  // namespace

std::span<const OperatorRow> shape_operators() { return kOperators; }

}  // namespace stax::frontend
