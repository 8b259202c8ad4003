// SPDX-License-Identifier: Apache-2.0
#pragma once
// What passes share when they rewrite bodies of Computes and Scatters.
#include <functional>
#include <optional>
#include <vector>

#include "tensor/graph.h"

namespace stax::tensor {

/// Applies f to every scalar of an op (body and epilogue of a Compute; index, value and guard of a Scatter) and stores
/// what it returns.
void rewrite_scalars(Op& op, const std::function<Scalar(Scalar)>& f);
/// Calls f on every distinct node of the op's scalars.
void visit_scalars(const Op& op, const std::function<void(Scalar)>& f);

/// The slot of `v` among the operands, which grow if needed.
int slot_of(Op& op, Value* v);
/// Of an op with a body: drops operands without loads and merges equal ones; slot 0 of a Scatter stays. Others stay as they are. True if something changed.
bool compact_operands(Op& op);

/// A load's body at other indices: `body` with each axis variable replaced by a scalar index (i64), which need not be
/// known without data.
Scalar at_indices(Scalar body, const std::vector<Axis>& axes, const std::vector<Scalar>& indices);

/// Replaces symbols everywhere in the graph: types, contents, bodies, checks.
void substitute_symbols(Graph& graph, const symbolic::Substitution& map);

/// Row-major position of `indices` in a tensor of `extents`.
Expr linear_index(symbolic::ExprTable& table, const std::vector<Expr>& indices, const std::vector<Expr>& extents);

/// Where the element at `indices` of a tensor of extents `reshaped` is in the tensor of extents `original` that it is a reshape of, if finding out
/// takes no division (or one by a constant, with `may_divide`): each axis of the one is an axis of the other, or several merged. nullopt otherwise.
std::optional<std::vector<Expr>> indices_before_reshape(Graph& graph, const std::vector<Expr>& original,
                                                        const std::vector<Expr>& reshaped,
                                                        const std::vector<Expr>& indices, bool may_divide = false);

/// A producer seen through the Reshapes on the way to it.
struct Source {
  Op* op = nullptr;           // null: an input of a block
  std::vector<Value*> views;  // from the consumer's operand to the producer's result, both included
};
Source source_of(Value* v);

/// Of quantized values.
inline bool is_byte(DType t) { return t == DType::kI8 || t == DType::kU8; }

/// Whether the elements are known when the program is compiled.
bool is_constant(const Value* v);

/// The indices of a load of source.views.front() as indices of the producer's result, if that takes no division.
std::optional<std::vector<Scalar>> indices_at(Graph& graph, const Source& source, Scalar load, bool may_divide = false);

/// What is known inside the bodies of an op: the graph's facts and the ranges of the axes.
symbolic::ConstraintSet facts_inside(const Graph& graph, const std::vector<Axis>& axes,
                                     const std::vector<Axis>& reductions);

bool same_extents(const Graph& graph, const std::vector<Expr>& a, const std::vector<Expr>& b);
Expr product_of(Graph& graph, const std::vector<Expr>& extents);

/// Removes an op that nothing uses any more.
void erase_op(Op& op);

}  // namespace stax::tensor
