// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the function of one ONNX operator works with. Each operator is one function
//
//   void import_relu(Node& n) { n.output(0, n.b().pointwise({n.input(0)}, ...)); }
//
// listed in its file's table of {domain, name, since_version, function}. The row with the greatest since_version <= the model's
// opset is used, so a change of meaning between opsets is a new row (or an `if (n.opset() < 13)`).
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "tensor/builder.h"

namespace onnx {
class NodeProto;
class GraphProto;
class AttributeProto;
class TensorProto;
class SparseTensorProto;
}  // namespace onnx

namespace stax::frontend {

using ir::DType;
using ir::Literal;
using ir::Scalar;
using symbolic::Expr;
using tensor::Builder;
using tensor::Value;

class Importer;  // importer.h
struct Frame;    // importer.h: the graph, body or function call that a node stands in

class Node {
 public:
  Node(Importer& importer, Frame& frame, const onnx::NodeProto& proto, int opset, std::vector<Value*> inputs);
  Builder& b();
  int opset() const { return opset_; }
  const onnx::NodeProto& proto() const { return proto_; }

  // ---- inputs: an omitted optional one is null
  int input_count() const { return static_cast<int>(inputs_.size()); }
  Value* input(int k) const;      // a tensor; UserError if it is missing
  Value* optional(int k) const;   // a tensor; null if absent
  Value* sequence(int k) const;   // UserError if it is missing or a tensor
  Value* any_input(int k) const;  // a tensor or a sequence
  bool has(int k) const { return optional(k) != nullptr; }
  bool has_any(int k) const { return k < input_count() && inputs_[k]; }
  DType dtype(int k = 0) const { return input(k)->type.dtype; }
  int rank(int k = 0) const;  // unsupported if the rank is known only at run time (see of_rank)
  Expr extent(int k, int axis) const;
  /// Input k as a tensor of this rank: itself, or a value of run-time rank with a check. A static other rank is a UserError.
  Value* input_of_rank(int k, int rank);
  void same_dtype(int first, int second) const;             // UserError where the types of two inputs differ
  void require(bool holds, int k, const char* what) const;  // UserError "its input 'x' is of type int32, not <what>"
  void require_ints(const Value* v) const;                  // UserError unless v is a list of (or one) int32 or int64

  // ---- outputs
  int output_count() const;              // as many as the node names, trailing empty names dropped
  bool wants(int k) const;               // output k has a name
  int proto_output_count() const;        // all that the node lists, empty names too
  std::string output_name(int k) const;  // for the symbols of extents that the node makes
  void output(int k, Value* v);
  void output_absent(int k);  // an optional value that is none

  // ---- attributes; a wrong type is a UserError
  bool has_attribute(const char* name) const;
  int64_t integer(const char* name, int64_t fallback) const;
  std::optional<int64_t> integer(const char* name) const;
  double real(const char* name, double fallback) const;
  std::string text(const char* name, const std::string& fallback) const;
  std::optional<std::vector<int64_t>> integers(const char* name) const;
  std::optional<std::vector<double>> reals(const char* name) const;
  std::optional<Literal> tensor(const char* name) const;
  std::vector<std::string> texts(const char* name) const;
  const onnx::GraphProto* graph(const char* name) const;
  const onnx::SparseTensorProto* sparse_tensor(const char* name) const;
  /// ONNX's number of an element type -> DType; unsupported ones (strings, 8-bit floats, ..) throw UnsupportedError.
  DType dtype_attribute(const char* name, DType fallback) const;

  /// Attribute or input `k`, whichever this opset has (axes, pads, splits, ..), as constants: UserError / unsupported if not constant.
  /// Expressions otherwise:
  std::optional<std::vector<Expr>> ints_from(const char* attribute, int k) const;

  /// Elements of a 1-D integer tensor (or scalar) that has at most `count` of them, perhaps known only at run time: `count`
  /// expressions, `fill` where the tensor has ended. More elements are an error.
  std::vector<Expr> padded_ints(Value* v, int count, int64_t fill, symbolic::Interval range = {});
  /// The same where exactly `count` elements are needed: any other number is an error, at run time if need be.
  std::vector<Expr> exact_ints(Value* v, int count, symbolic::Interval range = {});
  /// How many elements a tensor of rank 0 or 1 has.
  Expr element_count(Value* v);
  /// The axes that an attribute or input `k` names, each checked to lie in [-rank, rank), padded with kNoAxis where even their
  /// number is known only at run time; null where there is neither.
  std::optional<std::vector<Expr>> axes_from(const char* attribute, int k, Expr rank);

  /// Axis in [0, rank), negative ones counted from the end; UserError outside.
  int axis(int64_t a, int rank) const;

  /// Imports a subgraph attribute into `block` with `inputs` bound to the subgraph's inputs; returns its outputs. Names of enclosing
  /// graphs are visible.
  std::vector<Value*> import_body(const onnx::GraphProto& body, tensor::Block& block, std::span<Value* const> inputs);

  [[noreturn]] void unsupported(const std::string& what) const;  // UnsupportedError: "<op> node '<name>': <what>"
  [[noreturn]] void fault(const std::string& what) const;        // UserError, with op, node and inputs named
  std::string where() const;                                     // "Add node 'sum' (inputs pixels, offsets)"
  uint64_t random_seed();                                        // another one for each node, the same in each import

  Importer& importer() { return importer_; }
  Frame& frame() { return frame_; }

 private:
  friend class Importer;
  const onnx::AttributeProto* attribute(const char* name,
                                        int type) const;  // references to a function's attributes are followed
  Importer& importer_;
  Frame& frame_;
  const onnx::NodeProto& proto_;
  int opset_;
  std::vector<Value*> inputs_;
  std::vector<Value*> outputs_;
  std::set<int> absent_outputs_;
};

using OperatorFn = void (*)(Node&);
struct OperatorRow {
  const char* domain;  // "" is ai.onnx
  const char* name;
  int since;  // first opset with this meaning
  OperatorFn function;
};

// ---- values of run-time rank (run_time_rank.cpp) and axes that are known only at run time

/// Expressions: is `axis` (negative: from the end) among `axes`? 1 or 0 for each of the axes 0 .. rank - 1. Values outside
/// [-rank, rank) name no axis; `padded_ints` fills with such a one: kNoAxis.
inline constexpr int64_t kNoAxis = int64_t{1} << 40;
std::vector<Expr> axis_mask(Builder& b, std::span<const Expr> axes, int rank);
/// The same for the kMaxRank extents of a value of run-time rank.
std::vector<Expr> axis_mask(Builder& b, std::span<const Expr> axes, const tensor::Type& type);
/// The rank of a tensor, as an expression.
Expr rank_of(Builder& b, const Value* v);
/// Extent of axis `k` counted from the front, also of a value of run-time rank; 1 past its rank.
Expr extent_from_front(Builder& b, const Value* v, int k);
/// `v` without the axes whose flag in `dropped` is 1; their extents must be 1. The result has static rank if that of `v` is static
/// and the number of flags is a constant, or `kept` says how many axes are left; else run-time rank.
Value* drop_axes(Builder& b, Value* v, std::span<const Expr> dropped, std::optional<int> kept = {});
/// `v`, of static rank <= kMaxRank, as a value of run-time rank: `rank` counts its trailing axes; those before are 1.
Value* with_run_time_rank(Builder& b, Value* v, Expr rank);
/// `v` as a tensor of static rank: itself, or a value of run-time rank after a check.
Value* of_rank(Builder& b, Value* v, int rank);

// One table a file; onnx_import.cpp joins them.
std::span<const OperatorRow>
elementwise_operators();  // ops_elementwise.cpp: arithmetic, comparison, logic, casts, clip, where
std::span<const OperatorRow> activation_operators();  // ops_activation.cpp: relu, gelu, elu, ..
std::span<const OperatorRow> maker_operators();       // ops_maker.cpp: constants, ranges, random numbers, dropout
std::span<const OperatorRow>
shape_operators();  // ops_shape.cpp: reshape family, transpose, concat, split, tile, expand, shape, size, ..
std::span<const OperatorRow> slice_operators();  // ops_slice.cpp: slice, pad, center crop
std::span<const OperatorRow>
index_operators();  // ops_index.cpp: gather and scatter families, onehot, nonzero, compress, unique, topk, ..
std::span<const OperatorRow> sequence_operators();  // ops_sequence.cpp
std::span<const OperatorRow> training_operators();  // ops_training.cpp: steps of optimizers
std::span<const OperatorRow> feature_operators();   // ops_feature.cpp: n-grams, some of ai.onnx.ml
std::span<const OperatorRow>
reduction_operators();  // ops_reduction.cpp: reduce*, arg*, softmax family, norms, cumsum, losses, lp-norms
std::span<const OperatorRow>
spatial_operators();  // ops_spatial.cpp: conv family, pooling, resize/upsample, grid sample, affine grid, roi align, depth/space, lrn, col2im, deform conv, max unpool
std::span<const OperatorRow>
linear_operators();  // ops_linear.cpp: matmul, gemm, einsum, det, attention, rotary, com.microsoft transformer ops
std::span<const OperatorRow>
quantized_operators();  // ops_quantized.cpp: quantize/dequantize, integer and QLinear ops, dynamic quantization (LSTM too)
std::span<const OperatorRow> recurrent_operators();  // ops_recurrent.cpp: LSTM, GRU, RNN, reverse sequence
std::span<const OperatorRow>
control_operators();  // ops_control.cpp: If, Loop, Scan, identity, optional values (of tensors and sequences)
std::span<const OperatorRow>
signal_operators();  // ops_signal.cpp: DFT, STFT, windows, mel weights, NonMaxSuppression, ...

/// The dtype of an ONNX element type number, or nullopt where Stax has none.
std::optional<DType> dtype_of_onnx(int element_type);
std::string onnx_type_name(int element_type);
/// The folder of external data files; `read` receives the paths of those that were read, if it is not null.
struct ExternalData {
  std::string folder;
  std::vector<std::string>* read = nullptr;
};
/// A TensorProto's values.
Literal literal_of(const onnx::TensorProto& proto, const ExternalData& external);

}  // namespace stax::frontend
