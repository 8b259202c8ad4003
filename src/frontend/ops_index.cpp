// SPDX-License-Identifier: Apache-2.0
// Operators that take their indices from a tensor, or make tensors of indices: the gather and scatter families, OneHot,
// NonZero, Compress, Unique, TopK, TensorScatter.
//
// An index may be negative, counted from the end; one outside is an error at run time.
#include <algorithm>

#include "frontend/scalar_words.h"
#include "frontend/spelling.h"
#include "support/error.h"

namespace stax::frontend {
namespace {

using ir::ScalarOp;

Value* index_operand(Node& n, int k) {
  Value* indices = n.input(k);
  n.require(ir::is_integer(indices->type.dtype), k, "an integer");
  return indices;
}

Scalar load_index(Body& body, Value* indices, const std::vector<Expr>& at, Expr extent) {
  return body.checked(ir::cast(DType::kI64, body.load(indices, at)), extent);
}

std::string axis_of_input(int axis, const Value* v) {
  return "extents of axis " + std::to_string(axis) + " of '" + v->name + "'";
}

void check_fits(Builder& b, Expr part, Expr whole, int axis, const Value* v) {
  b.check(symbolic::less_equal(part, whole), axis_of_input(axis, v) + ": {0} is more than {1}", {part, whole});
}

// ---- gathers --------------------------------------------------------------------------------------------------------

void import_gather(Node& n) {
  Value* x = n.input(0);
  const int axis = n.axis(n.integer("axis", 0), n.rank(0));
  Value* indices = index_operand(n, 1);
  if (n.rank(0) + n.rank(1) - 1 > tensor::kMaxRank)
    n.unsupported("a result of rank " + std::to_string(n.rank(0) + n.rank(1) - 1));
  n.output(0, n.b().gather(x, indices, axis));
}

void import_gather_elements(Node& n) {
  Builder& b = n.b();
  Value* indices = index_operand(n, 1);
  Value* x = n.input_of_rank(0, n.rank(1));
  const int axis = n.axis(n.integer("axis", 0), n.rank(1));
  for (int k = 0; k < n.rank(1); ++k) {
    if (k != axis) check_fits(b, indices->type.extents[k], x->type.extents[k], k, indices);
  }
  n.output(0, b.map(indices->type.extents, [&](Body& body) {
    std::vector<Scalar> at;
    for (size_t k = 0; k < body.i.size(); ++k) at.push_back(body.index(body.i[k]));
    at[axis] = load_index(body, indices, body.i, x->type.extents[axis]);
    return body.load(x, std::move(at));
  }));
}

/// Element k of an index tuple replaces axis batch + k of the data. Where the length of the tuples is known only at run time, all
/// data axes are first kept, with extent 1 if a tuple replaces them, and dropped afterwards.
void import_gather_nd(Node& n) {
  Builder& b = n.b();
  Value* x = n.input(0);
  Value* indices = index_operand(n, 1);
  const int rank = n.rank(0), outer = n.rank(1) - 1;
  if (outer < 0) n.fault("its indices have rank 0");
  const int batch = static_cast<int>(n.integer("batch_dims", 0));
  if (batch < 0 || batch > std::min(rank, outer)) n.fault("its attribute 'batch_dims' is " + std::to_string(batch));
  for (int k = 0; k < batch; ++k)
    check_equal(b, indices->type.extents[k], x->type.extents[k], axis_of_input(k, indices));
  const Expr length = indices->type.extents[outer];
  b.check(symbolic::logical_and(symbolic::less_equal(one_of(b), length),
                                symbolic::less_equal(length, b.constant_expr(rank - batch))),
          "index tuples of length {0} for rank " + std::to_string(rank - batch), {length});

  std::vector<Expr> extents = extents_of(indices, 0, outer), dropped(outer, zero_of(b));
  for (int k = batch; k < rank; ++k) {
    const Expr replaced = symbolic::less(b.constant_expr(k - batch), length);
    if (is_one(replaced)) continue;
    extents.push_back(symbolic::select(replaced, one_of(b), x->type.extents[k]));
    dropped.push_back(replaced);
  }
  if (extents.size() > tensor::kMaxRank) n.unsupported("a result of rank " + std::to_string(extents.size()));
  Value* result = b.map(extents, [&](Body& body) {
    std::vector<Scalar> at;
    for (int k = 0; k < batch; ++k) at.push_back(body.index(body.i[k]));
    size_t next = outer;
    for (int k = batch; k < rank; ++k) {
      const Expr replaced = symbolic::less(b.constant_expr(k - batch), length);
      std::vector<Expr> tuple(body.i.begin(), body.i.begin() + outer);
      tuple.push_back(b.constant_expr(k - batch));
      const Scalar kept = is_one(replaced) ? Scalar() : body.index(body.i[next++]);
      if (is_zero(replaced)) {
        at.push_back(kept);
      } else {
        const Scalar picked = load_index(body, indices, tuple, x->type.extents[k]);
        at.push_back(is_one(replaced) ? picked : ir::select(holds(body, replaced), picked, kept));
      }
    }
    return body.load(x, std::move(at));
  });
  n.output(0, drop_axes(b, result, dropped));
}

// ---- scatters -------------------------------------------------------------------------------------------------------

Combiner reduction_of(Node& n) {
  const std::string reduction = n.text("reduction", "none");
  if (reduction == "none") return Combiner::kNone;
  if (reduction == "add") return Combiner::kSum;
  if (reduction == "mul") return Combiner::kProd;
  if (reduction == "max") return Combiner::kMax;
  if (reduction == "min") return Combiner::kMin;
  n.fault("its attribute 'reduction' is '" + reduction + "'");
}

void import_scatter_elements(Node& n) {
  Builder& b = n.b();
  Value* indices = index_operand(n, 1);
  const int rank = n.rank(1);
  Value* x = n.input_of_rank(0, rank);
  Value* updates = n.input_of_rank(2, rank);
  n.same_dtype(0, 2);
  const int axis = n.axis(n.integer("axis", 0), rank);
  for (int k = 0; k < rank; ++k) {
    check_equal(b, updates->type.extents[k], indices->type.extents[k], axis_of_input(k, updates));
    if (k != axis) check_fits(b, indices->type.extents[k], x->type.extents[k], k, indices);
  }
  const Combiner reduction = reduction_of(n);
  // max and min compare, other than those of ScatterND: an update that is NaN is not greater and not less than what is there.
  const bool compares = (reduction == Combiner::kMax || reduction == Combiner::kMin) && ir::is_float(x->type.dtype);
  n.output(0, b.scatter(x, indices->type.extents, reduction, [&](Body& body) {
    Builder::ScatterPoint point;
    for (const Expr i : body.i) point.index.push_back(body.index(i));
    point.index[axis] = load_index(body, indices, body.i, x->type.extents[axis]);
    point.value = body.load(updates, body.i);
    if (compares) point.guard = ir::unary(ScalarOp::kNot, ir::unary(ScalarOp::kIsNan, point.value));
    return point;
  }));
}

void import_scatter_nd(Node& n) {
  Builder& b = n.b();
  Value* x = n.input(0);
  Value* indices = index_operand(n, 1);
  Value* updates = n.input(2);
  n.same_dtype(0, 2);
  // The ranks tell how long the index tuples are.
  const int rank = n.rank(0), outer = n.rank(1) - 1, length = outer + rank - n.rank(2);
  if (outer < 0 || length < 0 || length > rank)
    n.fault("ranks " + std::to_string(rank) + ", " + std::to_string(outer + 1) + " and " + std::to_string(n.rank(2)) +
            " of data, indices and updates do not fit");
  b.check(symbolic::equal(indices->type.extents[outer], length),
          "index tuples of length {0}, but the ranks of data and updates ask for " + std::to_string(length),
          {indices->type.extents[outer]});
  for (int k = 0; k < outer; ++k)
    check_equal(b, updates->type.extents[k], indices->type.extents[k], axis_of_input(k, updates));
  for (int k = length; k < rank; ++k)
    check_equal(b, updates->type.extents[outer + k - length], x->type.extents[k],
                axis_of_input(outer + k - length, updates));
  n.output(0, b.scatter(x, updates->type.extents, reduction_of(n), [&](Body& body) {
    Builder::ScatterPoint point;
    for (int k = 0; k < length; ++k) {
      std::vector<Expr> tuple(body.i.begin(), body.i.begin() + outer);
      tuple.push_back(b.constant_expr(k));
      point.index.push_back(load_index(body, indices, tuple, x->type.extents[k]));
    }
    for (int k = length; k < rank; ++k) point.index.push_back(body.index(body.i[outer + k - length]));
    point.value = body.load(updates, body.i);
    return point;
  }));
}

/// Writes `update` into a cache, for each sample at its own position.
void import_tensor_scatter(Node& n) {
  Builder& b = n.b();
  Value* cache = n.input(0);
  const int rank = n.rank(0);
  Value* update = n.input_of_rank(1, rank);
  n.same_dtype(0, 1);
  Value* positions = n.has(2) ? index_operand(n, 2) : nullptr;
  if (positions) need_rank(n, 2, 1, 1);
  const int axis = n.axis(n.integer("axis", -2), rank);
  const std::string mode = n.text("mode", "linear");
  if (mode != "linear" && mode != "circular") n.fault("its attribute 'mode' is '" + mode + "', not linear or circular");
  if (axis == 0) n.fault("its attribute 'axis' is that of the batch");
  for (int k = 0; k < rank; ++k) {
    if (k != axis) check_equal(b, update->type.extents[k], cache->type.extents[k], axis_of_input(k, update));
  }
  const Expr extent = cache->type.extents[axis];
  n.output(0, b.scatter(cache, update->type.extents, Combiner::kNone, [&](Body& body) {
    Builder::ScatterPoint point;
    for (const Expr i : body.i) point.index.push_back(body.index(i));
    const Scalar first = positions ? ir::cast(DType::kI64, body.load(positions, std::vector<Expr>{body.i[0]}))
                                   : body.integer(DType::kI64, 0);
    const Scalar at = first + point.index[axis];
    point.index[axis] =
        mode == "linear" ? body.checked(at, extent) : ir::binary(ScalarOp::kModFloor, at, body.index(extent));
    point.value = body.load(update, body.i);
    return point;
  }));
}

// ---- OneHot ---------------------------------------------------------------------------------------------------------

void import_one_hot(Node& n) {
  Builder& b = n.b();
  Value* indices = n.input(0);
  Value* values = n.input_of_rank(2, 1);
  const int rank = n.rank(0);
  if (rank + 1 > tensor::kMaxRank) n.unsupported("a result of rank " + std::to_string(rank + 1));
  const int axis = n.axis(n.integer("axis", -1), rank + 1);
  const Expr depth = b.host_int(b.cast(b.reshape(n.input(1), {}), DType::kI64), kAnySize);
  check_equal(b, values->type.extents[0], b.constant_expr(2), axis_of_input(0, values));
  std::vector<Expr> extents = indices->type.extents;
  extents.insert(extents.begin() + axis, depth);
  n.output(0, b.map(extents, [&](Body& body) {
    std::vector<Expr> at = body.i;
    at.erase(at.begin() + axis);
    const Scalar index = ir::cast(DType::kI64, body.load(indices, at)), place = body.index(body.i[axis]);
    const Scalar hot = logical_or(ir::equal(index, place), ir::equal(index + body.index(depth), place));
    const auto value = [&](int64_t k) { return body.load(values, std::vector<Expr>{b.constant_expr(k)}); };
    return ir::select(hot, value(1), value(0));
  }));
}

// ---- results whose extents depend on data ---------------------------------------------------------------------------

/// A symbol for a number of items that is at most `bound`.
Expr item_count(Node& n, Expr bound) {
  return n.b().new_symbol(n.output_name(0) + ".count", {0, std::max<int64_t>(bound.range().hi, 0)});
}

/// [rank, n]: where `x` is not zero.
Value* nonzero(Node& n, Value* x) {
  Builder& b = n.b();
  if (x->type.extents.empty()) x = b.reshape(x, {one_of(b)});
  const Expr total = b.product(x->type.extents), found = item_count(n, total);
  const tensor::Type type =
      tensor::Type::tensor(DType::kI64, {b.constant_expr(static_cast<int64_t>(x->type.extents.size())), found});
  Value* result = b.op(tensor::NonZero{}, {x}, {type}, {found})->result();
  b.graph().constraints.assume_true(symbolic::less_equal(found, total));
  return result;
}

void import_nonzero(Node& n) {
  n.rank(0);
  n.output(0, nonzero(n, n.input(0)));
}

void import_compress(Node& n) {
  Builder& b = n.b();
  n.require(n.dtype(1) == DType::kBool, 1, "bool");
  Value* x = n.input(0);
  Value* condition = n.input_of_rank(1, 1);
  const std::optional<int64_t> attribute = n.integer("axis");
  const int axis = attribute ? n.axis(*attribute, n.rank(0)) : 0;
  if (!attribute) x = b.reshape(x, {b.product(x->type.extents)});
  // A condition longer than the axis would point outside.
  check_fits(b, condition->type.extents[0], x->type.extents[axis], 0, condition);
  Value* places = nonzero(n, condition);
  n.output(0, b.gather(x, b.reshape(places, {places->type.extents[1]}), axis));
}

void import_unique(Node& n) {
  Builder& b = n.b();
  Value* x = n.input(0);
  const std::optional<int64_t> attribute = n.integer("axis");
  tensor::Unique unique;
  unique.sorted = n.integer("sorted", 1) != 0;
  if (attribute) unique.axis = n.axis(*attribute, n.rank(0));
  const Expr items = unique.axis ? x->type.extents[*unique.axis] : b.product(x->type.extents);
  const Expr found = item_count(n, items);
  std::vector<Expr> extents{found};
  if (unique.axis) {
    extents = x->type.extents;
    extents[*unique.axis] = found;
  }
  const auto list = [](Expr extent) { return tensor::Type::tensor(DType::kI64, {extent}); };
  const std::vector<tensor::Type> types{tensor::Type::tensor(x->type.dtype, extents), list(found), list(items),
                                        list(found)};
  const tensor::Op* made = b.op(unique, {x}, types, {found});
  b.graph().constraints.assume_true(symbolic::less_equal(found, items));
  for (int k = 0; k < 4; ++k) n.output(k, made->result(k));
}

void import_top_k(Node& n) {
  Builder& b = n.b();
  Value* x = n.input(0);
  const int axis = n.axis(n.integer("axis", -1), n.rank(0));
  n.require(x->type.dtype != DType::kBool, 0, "a number");
  Expr count;
  if (const auto attribute = n.integer("k")) {
    count = b.constant_expr(*attribute);
  } else {
    index_operand(n, 1);
    count = b.host_int(b.reshape(n.input(1), {}), kAnySize);
  }
  b.check(symbolic::logical_and(symbolic::less_equal(zero_of(b), count),
                                symbolic::less_equal(count, x->type.extents[axis])),
          "the {0} greatest of {1} elements", {count, x->type.extents[axis]});
  std::vector<Expr> extents = x->type.extents;
  extents[axis] = count;
  const tensor::Op* made =
      b.op(tensor::TopK{axis, n.integer("largest", 1) != 0}, {x},
           {tensor::Type::tensor(x->type.dtype, extents), tensor::Type::tensor(DType::kI64, extents)});
  n.output(0, made->result(0));
  n.output(1, made->result(1));
}

constexpr OperatorRow kOperators[] = {
    {"", "Gather", 1, import_gather},
    {"", "GatherElements", 11, import_gather_elements},
    {"", "GatherND", 11, import_gather_nd},
    {"com.microsoft", "GatherND", 1, import_gather_nd},
    {"", "Scatter", 9, import_scatter_elements},
    {"", "ScatterElements", 11, import_scatter_elements},
    {"", "ScatterND", 11, import_scatter_nd},
    {"", "TensorScatter", 24, import_tensor_scatter},
    {"", "OneHot", 9, import_one_hot},
    {"", "NonZero", 9, import_nonzero},
    {"", "Compress", 9, import_compress},
    {"", "Unique", 11, import_unique},
    {"", "TopK", 1, import_top_k},
};

}  // namespace

std::span<const OperatorRow> index_operators() { return kOperators; }

}  // namespace stax::frontend
