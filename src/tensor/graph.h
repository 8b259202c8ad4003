// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tensor IR: an SSA graph over tensors with symbolic extents; no loops, no threads, no memory.
//
// The heart of it is one operation, Compute: a comprehension that says what one element of the result is, as a scalar
// expression over axis variables, with loads from the operands at computed indices, optionally reduced over further
// axes. Pointwise ops, broadcasts, transposes, slices, pads, concatenations, gathers, pooling windows, contractions and
// convolutions are all Computes; they differ in the form of their index expressions, and the scheduler looks at that
// form. What no comprehension can say (sorting, extents that depend on data, control flow, sequences) has its own op.
//
// Values
//   A tensor value is row-major and contiguous; its extents are Exprs over the graph's symbols. A symbol is defined
//   (bound at run time) either by a graph input's dims, or by exactly one op that lists it in `defines`; it may be used
//   by all ops that this op dominates.
//   A value of run-time rank has `type.rank` set: its extents are then kMaxRank expressions, right-aligned with leading
//   ones (a vector of 5 is [1,1,1,1,1,1,1,5]); ops see it as a tensor of rank kMaxRank and only Shape-like uses, outputs of
//   the graph and ReshapeDynamic look at `rank`.
//   A sequence value is a list of tensors of one dtype.
//   Blocks of If and Loop may use values of the enclosing blocks.
//
// Edges: an axis of extent 0 gives an empty result; a reduction over an empty domain gives the combiner's neutral element
// (sum 0, prod 1, and 1, or 0, max -inf or the least integer, min +inf or the greatest integer, arg* 0).
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ir/combiner.h"
#include "ir/literal.h"
#include "ir/scalar.h"
#include "symbolic/constraints.h"

namespace stax::tensor {

using ir::DType;
using ir::Literal;
using ir::Scalar;
using symbolic::Expr;

inline constexpr int kMaxRank = 8;

struct Op;
struct Block;
class Graph;

struct Type {
  enum class Kind : uint8_t { kTensor, kSequence };
  Kind kind = Kind::kTensor;
  DType dtype = DType::kF32;
  std::vector<Expr> extents;  // of a tensor
  Expr rank;                  // run-time rank, else null
  int element_rank = -1;      // of a sequence's elements where known, else -1
  static Type tensor(DType t, std::vector<Expr> extents) { return {Kind::kTensor, t, std::move(extents), {}, -1}; }
  static Type sequence(DType t, int element_rank) { return {Kind::kSequence, t, {}, {}, element_rank}; }
  bool is_tensor() const { return kind == Kind::kTensor; }
  bool has_static_rank() const { return !rank; }
  int static_rank() const { return static_cast<int>(extents.size()); }
};

struct Value {
  Type type;
  Op* producer = nullptr;  // null: an input of a block
  int result = 0;          // which result of the producer, or which block input
  uint32_t id = 0;
  std::string name;  // for messages and prints
  /// Elements in row-major order where they are known without data: integer and bool tensors of static extents (shape
  /// arithmetic). Expressions of the symbols visible at the producer; bools are 0 / 1.
  std::optional<std::vector<Expr>> contents;
};

// ---- payloads -------------------------------------------------------------------------------------------------------

enum class Combiner : uint8_t {
  kNone,
  kSum,
  kProd,
  kMin,
  kMax,
  kAnd,
  kOr,
  kArgMaxFirst,
  kArgMaxLast,
  kArgMinFirst,
  kArgMinLast
};
bool is_arg(Combiner c);
/// Of one that combines two values: neither kNone nor arg*.
ir::Combiner plain_combiner(Combiner c);

/// var is a loop symbol (SymbolKind::kLoop) with values 0 .. extent - 1.
struct Axis {
  Expr var;
  Expr extent;
  bool operator==(const Axis&) const = default;
};

/// A known tensor.
struct Constant {
  Literal literal;
};

/// result[axes] = epilogue(combine over reductions of body). Slots of loads are operand numbers. Without reductions the
/// combiner is kNone, the body is the element and there is no epilogue. With one, body values are cast to `accumulate`, and
/// `epilogue` (if any) maps the accumulator (of dtype `accumulate`, or i64 for arg*: the linear index over the reductions in
/// row-major order) to the element; without it the accumulator is cast to the result's dtype. NaN wins in max, min and arg*.
/// Result extents are the axes' extents; the result's dtype is the body's (or the epilogue's) dtype.
struct Compute {
  std::vector<Axis> axes;
  std::vector<Axis> reductions;
  Combiner combiner = Combiner::kNone;
  DType accumulate = DType::kF32;
  Scalar body;
  Scalar epilogue;
};

/// The same elements in row-major order under the result's extents (equal count, which a Check before it has made sure of
/// unless it is proved). Never moves data.
struct Reshape {};

/// Operands: data, shape (rank 1, i64, any count). As ONNX Reshape; the result has run-time rank; defines its rank and its
/// kMaxRank extents. A count that does not fit is a run-time error that names both counts and the shape.
struct ReshapeDynamic {
  bool allow_zero = false;
};

/// Operand: an integer (or bool) tensor of static extents. Reads it on the host and binds the symbols in `defines`, one for
/// each element. A value outside its symbol's declared range is a run-time error that names value and op.
struct Bind {};

/// No operands, no results: where `condition` is 0 at run time, a user error with `message`, in which {0}, {1}, .. stand for
/// the values of `arguments`.
struct Check {
  Expr condition;
  std::string message;
  std::vector<Expr> arguments;
};

/// result = operand 0; then for every point of `axes` in row-major order: result[index] = mode(result[index], value), if
/// `guard` (bool, may be null) holds. mode is kNone (overwrite), kSum, kProd, kMin or kMax. Scalars load from operands by
/// slot (slot 0 is the original data).
struct Scatter {
  std::vector<Axis> axes;
  std::vector<Scalar> index;
  Scalar value;
  Scalar guard;
  Combiner mode = Combiner::kNone;
};

/// Running sum or product along `axis`.
struct PrefixScan {
  int axis = 0;
  Combiner combiner = Combiner::kSum;
  bool exclusive = false;
  bool reverse = false;
};

/// Results: values, indices (i64); the extent of `axis` in the results is k (0 <= k <= extent, checked before). Ties: the
/// lower index first. NaN counts as the largest value. Always sorted.
struct TopK {
  int axis = 0;
  bool largest = true;
};

/// Result i64 [rank, n]; defines n.
struct NonZero {};

/// ONNX Unique. Results: y, indices, inverse_indices, counts (i64, rank 1); without an axis the input counts as flattened.
/// Defines the number of unique items. sorted = false keeps the order of first occurrence.
struct Unique {
  std::optional<int> axis;
  bool sorted = true;
};

/// ONNX NonMaxSuppression; operands: boxes, scores, max_output_boxes_per_class (i64, one element), iou_threshold, score_threshold
/// (f32, one element). Result i64 [n, 3]; defines n.
struct NonMaxSuppression {
  bool center_point_box = false;
};

/// Operand [..., n, n]; result [...].
struct Determinant {};

/// Operand: a bool tensor of one element. The blocks have no inputs and as many outputs as the op has results. Extents of
/// results that differ between the branches are symbols that the op defines.
struct If {
  std::unique_ptr<Block> then_block, else_block;
};

/// Operands: [trip count, i64 one element]? [initial condition, bool one element]? carried...
/// Body inputs: iteration number (i64, rank 0), carried...; body outputs: condition (bool, one element; only if
/// has_condition), carried..., scanned...
/// Results: carried (final)..., scanned (stacked on a new axis 0). Runs while iteration < trip count (if given) and the condition holds (if
/// given). Extents of carried values that may change are symbols: those of the body's inputs are defined anew in each
/// iteration (listed in body_defines), those of the results by the op.
struct Loop {
  std::unique_ptr<Block> body;
  bool has_trip_count = false;
  bool has_condition = false;
  int carried = 0;
  std::vector<Expr> body_defines;
};

/// Computes that run together, row by row: one kernel, which does every op of the body for one point of `rows` before it goes
/// on to the next. The body's inputs stand for the operands, its outputs for the results. Its ops are Computes without arg
/// combiners; each has every row variable once among its axes, and where one loads a value of the body, the index at each row
/// axis of that value is that axis' own variable: nothing passes from one row to another. Values of the body that are no
/// outputs exist only while their row is worked on.
struct RowGroup {
  std::vector<Axis> rows;
  std::unique_ptr<Block> body;
};

struct SequenceConstruct {};  // tensors... -> sequence (none: an empty one)
struct SequenceInsert {};     // sequence, tensor, [position i64] -> sequence
struct SequenceErase {};      // sequence, [position i64] -> sequence
struct SequenceAt {};         // sequence, position i64 -> tensor; defines its extents (and rank)
struct SequenceLength {};     // sequence -> i64 rank 0
struct SplitToSequence {
  int axis = 0;
  bool keep_dims = true;
};  // tensor, [split: i64, rank 0 or 1] -> sequence
struct ConcatFromSequence {
  int axis = 0;
  bool new_axis = false;
};  // sequence -> tensor; defines its extents (and rank)

enum class OpKind : uint8_t {
#define STAX_TENSOR_OP(Name, text) k##Name,
#include "tensor/ops.def"
#undef STAX_TENSOR_OP
};
std::string_view name_of(OpKind kind);

// In the order of ops.def, so that index() is the OpKind.
using Payload =
    std::variant<Constant, Compute, Reshape, ReshapeDynamic, Bind, Check, Scatter, PrefixScan, TopK, NonZero, Unique,
                 NonMaxSuppression, Determinant, If, Loop, RowGroup, SequenceConstruct, SequenceInsert, SequenceErase,
                 SequenceAt, SequenceLength, SplitToSequence, ConcatFromSequence>;

struct Op {
  Block* block = nullptr;
  Payload payload;
  std::vector<Value*> operands;
  std::vector<std::unique_ptr<Value>> results;
  std::vector<Expr>
      defines;         // symbols bound when this op has run: result extents that are such a symbol, or (Bind) elements
  std::string source;  // where it comes from, for messages: "Add node 'block1/add'"
  OpKind kind() const { return static_cast<OpKind>(payload.index()); }
  Value* result(int i = 0) const { return results[i].get(); }
  template <class T>
  T* as() {
    return std::get_if<T>(&payload);
  }
  template <class T>
  const T* as() const {
    return std::get_if<T>(&payload);
  }
};

struct Block {
  Graph* graph = nullptr;
  Op* parent = nullptr;  // the If, Loop or RowGroup that owns it, else null
  std::vector<std::unique_ptr<Value>> inputs;
  std::list<std::unique_ptr<Op>> ops;  // in an order that respects dominance; it is the order of execution
  std::vector<Value*> outputs;
};

struct GraphInput {
  std::string name;
  Value* value = nullptr;
};  // dims are constants or bare symbols
struct GraphOutput {
  std::string name;
  Value* value = nullptr;
};

class Graph {
 public:
  explicit Graph(std::shared_ptr<ir::Context> context);
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  std::shared_ptr<ir::Context> context;
  Block body;  // inputs are those of `inputs`, outputs those of `outputs`, in order
  std::vector<GraphInput> inputs;
  std::vector<GraphOutput> outputs;
  symbolic::ConstraintSet constraints;
  std::vector<std::string> warnings;

  symbolic::ExprTable& exprs() { return context->exprs; }
  ir::ScalarTable& scalars() { return context->scalars; }
  /// The axis variable of a position (and kind) for a given extent. Shared by all ops whose axis there has the same upper
  /// bound, so that equal bodies are the same pointer. Range: 0 .. extent.range().hi - 1.
  Expr axis_var(int position, Expr extent, bool reduction);
  uint32_t next_value_id() { return next_value_++; }
  void start_value_ids_at(uint32_t next) { next_value_ = next; }  // for whoever gives values ids of their own
  Value* add_input(Block& block, Type type, std::string name);
  /// Appends an op (or inserts before `before`).
  Op* add_op(Block& block, Payload payload, std::vector<Value*> operands, std::vector<Type> result_types,
             std::vector<Expr> defines = {}, std::string source = {}, Op* before = nullptr);

 private:
  std::unordered_map<std::string, Expr> axis_vars_;
  uint32_t next_value_ = 0;
};

/// The extents, or the number of elements, of a tensor of static rank whose extents are all constants.
std::optional<std::vector<int64_t>> constant_extents(const Type& type);
std::optional<int64_t> constant_count(const Type& type);

/// Calls f(op) for every op, outer ones before those of their blocks.
void for_each_op(Block& block, const std::function<void(Op&)>& f);
void for_each_op(const Block& block, const std::function<void(const Op&)>& f);
/// Uses of each value (by operands, block outputs and graph outputs).
std::unordered_map<const Value*, int> count_uses(const Graph& graph);
void replace_all_uses(Graph& graph, Value* from, Value* to);
/// Symbols that an op's types, bodies and payload mention (axis variables excluded).
std::vector<Expr> used_symbols(const Op& op);

std::string_view name_of(Combiner c);

struct PrintOptions {
  bool full =
      false;  // the bytes of large constants too; without it they are printed by their checksum, and the text cannot be parsed back
};
std::string print(const Graph& graph);  // text form, see text.cpp; large constants by their checksum
std::string print(const Graph& graph, const PrintOptions& options);
std::string print(const Op& op);  // one op, for messages; blocks of If and Loop included
std::unique_ptr<Graph> parse_graph(
    const std::string& text);     // UserError with line and column; inverse of print with PrintOptions::full
void verify(const Graph& graph);  // InternalError that names the op and the rule

}  // namespace stax::tensor
