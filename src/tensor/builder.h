// SPDX-License-Identifier: Apache-2.0
#pragma once
// Spells tensor IR: what importers, the tracer and decompositions call. One insertion point; every helper appends ops to
// the current block and returns the new value.
//
// Two things happen to every op that is built:
//   - constant folding: an op whose operands are all constants and whose type has no symbols is evaluated at once by the
//     reference interpreter (unless its result would be more than 4 times its operands and more than 1 MB);
//   - contents: for an integer or bool Compute, Reshape, .. of static extents with at most kMaxContents elements, the body
//     is evaluated symbolically over the operands' `contents`; where every element becomes an Expr, the result gets
//     contents. That is how shape arithmetic in the graph costs nothing at run time.
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "support/error.h"
#include "tensor/graph.h"

namespace stax::tensor {

inline constexpr int64_t kMaxContents = 1024;

class Builder;

/// Given to the lambdas that spell a Compute or Scatter: axis variables and loads.
class Body {
 public:
  std::vector<Expr> i;                                 // axes
  std::vector<Expr> r;                                 // reductions
  Scalar load(Value* v, std::vector<Scalar> indices);  // any i64 scalars
  Scalar load(Value* v, const std::vector<Expr>& indices);
  Scalar load(Value* v);  // a value of rank 0 or of one element: at index 0
  /// `v` at the trailing axes of `indices`, with an index of 0 where v's extent is 1 (or may be 1: decided at run time).
  Scalar load_broadcast(Value* v, std::span<const Expr> indices, std::span<const Expr> extents);
  Scalar index(Expr e);  // as an i64 scalar
  Scalar number(DType t, double value);
  Scalar integer(DType t, int64_t value);
  /// i, or i + n if negative; a run-time error outside.
  Scalar checked(Scalar i, Expr n);
  Builder& builder() { return *builder_; }

 private:
  friend class Builder;
  Builder* builder_ = nullptr;
  std::vector<Value*> operands_;
};

using BodyFn = std::function<Scalar(Body&)>;
using EpilogueFn = std::function<Scalar(Body&, Scalar accumulator)>;
using PointFn = std::function<Scalar(std::span<const Scalar>)>;

class Builder {
 public:
  Builder(Graph& graph, Block& block) : graph_(&graph), block_(&block) {}
  Graph& graph() { return *graph_; }
  Block& block() { return *block_; }
  symbolic::ExprTable& exprs() { return graph_->exprs(); }
  ir::ScalarTable& scalars() { return graph_->scalars(); }
  std::string source;  // copied into each op: "Add node 'sum' (inputs pixels, offsets)"

  // ---- expressions and facts
  Expr constant_expr(int64_t v) { return exprs().constant(v); }
  Expr product(std::span<const Expr> extents);  // 1 for none
  Expr new_symbol(const std::string& name,
                  symbolic::Interval range);  // kValue; the op that defines it is yours to build
  /// Run-time check unless the constraint set proves it; a disproved one is a UserError now. `message` has {0}, {1}, ..
  /// Afterwards the condition is assumed by the constraint set. Source is put in front of the message.
  void check(Expr condition, const std::string& message, std::vector<Expr> arguments);
  /// Extent of a broadcast of a and b (equal, or one of them 1), with the run-time check where it cannot be proved;
  /// `what` names the two operands and the axis in the message.
  Expr broadcast_extent(Expr a, Expr b, const std::string& what);
  std::vector<Expr> broadcast_extents(std::span<Value* const> values);

  // ---- constants and host values
  Value* constant(Literal literal, std::string name = {});
  Value* constant(DType t, double value);          // rank 0
  const Literal* literal(const Value* v) const;    // of a Constant, else null
  Value* ints(const std::vector<Expr>& elements);  // i64 vector with those contents
  Value* int_scalar(Expr e);                       // i64, rank 0
  /// The elements of an integer tensor of static extents as expressions: its contents, or symbols bound at run time (Bind).
  std::vector<Expr> host_ints(Value* v, symbolic::Interval range = {});
  Expr host_int(Value* v, symbolic::Interval range = {});  // of one element

  // ---- the general forms
  Value* map(std::vector<Expr> extents, const BodyFn& body);
  Value* reduce(Combiner combiner, DType accumulate, std::vector<Expr> extents, const std::vector<Expr>& reductions,
                const BodyFn& body,
                const EpilogueFn& epilogue = {});  // no epilogue: the result has dtype `accumulate` (i64 for arg*)
  /// `body` returns {index..., value} through the arguments.
  struct ScatterPoint {
    std::vector<Scalar> index;
    Scalar value;
    Scalar guard;
  };
  Value* scatter(Value* data, const std::vector<Expr>& domain, Combiner mode,
                 const std::function<ScatterPoint(Body&)>& body);
  Op* op(Payload payload, std::vector<Value*> operands, std::vector<Type> results, std::vector<Expr> defines = {});

  // ---- everyday helpers (all of them spelled by the forms above)
  Value* pointwise(std::vector<Value*> values, const PointFn& f);  // with broadcasting; dtypes as they are
  Value* unary(ir::ScalarOp op, Value* a);
  Value* binary(ir::ScalarOp op, Value* a, Value* b);  // broadcast; same dtype required
  Value* cast(Value* v, DType t);
  Value* reshape(Value* v, std::vector<Expr> extents);  // with the count check; identity where equal
  Value* transpose(Value* v, const std::vector<int>& permutation);
  Value* broadcast_to(Value* v, const std::vector<Expr>& extents);
  Value* slice(Value* v, int axis, Expr start, Expr count,
               Expr step);  // index = start + i * step; in bounds by construction
  Value* concat(const std::vector<Value*>& values, int axis);
  Value* pad_constant(Value* v, const std::vector<Expr>& before, const std::vector<Expr>& after,
                      Scalar value_or_null);  // null: zero; negative pads crop
  Value* pad_with(Value* v, const std::vector<Expr>& before, const std::vector<Expr>& after,
                  Value* value);                      // the same with a value of one element
  Value* gather(Value* v, Value* indices, int axis);  // ONNX Gather, checked
  Value* reduce_axes(Combiner c, Value* v, const std::vector<int>& axes, bool keep_dims, DType accumulate,
                     const EpilogueFn& epilogue = {}, const std::function<Scalar(Scalar)>& prologue = {});
  Value* mean(Value* v, const std::vector<int>& axes, bool keep_dims);  // accumulates f32 in f64, integers exactly
  Value* matmul(Value* a,
                Value* b);  // numpy semantics, ranks 1 and more; accumulates f16/bf16 in f32, ints in their dtype
  Value* softmax(Value* v, int axis);  // max, sum of exp, quotient; a row of -inf gives NaN
  Value* layer_norm(Value* v, int first_axis, double epsilon, Value* scale, Value* bias, Value** mean = nullptr,
                    Value** inverse_deviation = nullptr);
  /// A view of run-time rank as a value that ops take: itself.
  int rank(const Value* v) const { return v->type.static_rank(); }
  Expr extent(const Value* v, int axis) const {
    const int rank = static_cast<int>(v->type.extents.size()), at = axis < 0 ? axis + rank : axis;
    STAX_ASSERT(at >= 0 && at < rank, "axis {} of '{}', which has rank {}", axis, v->name, rank);
    return v->type.extents[static_cast<size_t>(at)];
  }

 private:
  struct Axes {
    std::vector<Axis> axes;
    std::vector<Expr> indices;
  };
  Axes make_axes(const std::vector<Expr>& extents, bool reduction);
  // The general forms with the rank of a result of run-time rank (or null).
  Value* map_ranked(std::vector<Expr> extents, Expr rank, const BodyFn& body);
  Value* reduce_ranked(Combiner combiner, DType accumulate, std::vector<Expr> extents, Expr rank,
                       const std::vector<Expr>& reductions, const BodyFn& body, const EpilogueFn& epilogue);
  Value* pad_by(Value* v, const std::vector<Expr>& before, const std::vector<Expr>& after, const BodyFn& value);
  Expr broadcast_extent_of(Expr a, Expr b, const std::string& message);
  Value* finish(Op* op);  // folding and contents
  Graph* graph_;
  Block* block_;
};

/// Symbolic contents of an op's first result from those of its operands, or nullopt.
std::optional<std::vector<Expr>> infer_contents(Graph& graph, const Op& op);

}  // namespace stax::tensor
