// SPDX-License-Identifier: Apache-2.0
#pragma once
// The walk over an ONNX model, shared by the files of the importer (onnx_import.cpp, node_context.cpp, functions.cpp, ops_control.cpp).
//
// Nodes are imported in the order of their use (node_order.h). A node that cannot be imported leaves its outputs `failed`; nodes that use
// them are skipped, so that each fault is reported once and all faults of a model are seen together.
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "frontend/node_context.h"
#include "frontend/node_order.h"
#include "frontend/onnx_import.h"
#include "onnx/onnx-ml.pb.h"
#include "support/diagnostic.h"

namespace stax::frontend {

/// A name in a graph, body or function. Absent: an optional input that the caller of a function left out.
struct Binding {
  enum class State : uint8_t { kPresent, kAbsent, kFailed };
  State state = State::kPresent;
  Value* value = nullptr;
};

using OpsetVersions = std::map<std::string, int>;  // by domain; "" is ai.onnx
using AttributeBindings = std::unordered_map<std::string, const onnx::AttributeProto*>;

/// Where nodes are imported: the graph, a body of If, Loop, .., or one call of a function.
struct Frame {
  Frame* outer = nullptr;  // whose names are visible too; null for the graph and functions
  Builder* builder = nullptr;
  const OpsetVersions* opsets = nullptr;
  const AttributeBindings* attributes = nullptr;  // of the function call, else null
  std::string function;                           // its name, for messages
  int depth = 0;                                  // of function calls
  std::unordered_map<std::string, Binding> names;
};

/// Thrown out of a body whose outputs depend on a fault that is already reported.
struct FaultReported {};

class Importer {
 public:
  Importer(onnx::ModelProto& model, std::string folder, std::string name, const ImportOptions& options);
  std::unique_ptr<tensor::Graph> run();

  tensor::Graph& graph() { return *graph_; }
  const ExternalData& external() const { return external_; }
  const std::string& name() const { return name_; }
  Diagnostics& diagnostics() { return diagnostics_; }
  uint64_t next_random_seed() { return ++random_seeds_; }

  /// Imports the nodes (and initializers) of a body into `block` and returns its outputs. Facts that hold only inside, those of
  /// `graph.constraints`, are forgotten afterwards; `facts` receives them. Throws FaultReported if something in it is at fault.
  std::vector<Value*> import_body(Frame& outer, const onnx::GraphProto& body, tensor::Block& block,
                                  std::span<Value* const> inputs, symbolic::ConstraintSet* facts = nullptr);

  /// Sequences that have no element yet: any tensor can be put into them, so that their element rank is still open.
  std::unordered_set<uint32_t> empty_sequences;  // by Value::id

 private:
  // onnx_import.cpp
  void check_versions();
  void import_inputs(Frame& frame);
  void relate_dims(Frame& frame);
  Expr dim_of(const std::string& input, int axis, const onnx::TensorShapeProto_Dimension& dim);
  void check_dim_options();
  tensor::Type input_type(const onnx::ValueInfoProto& info);
  void import_initializers(Frame& frame, const onnx::GraphProto& graph);
  void import_outputs(Frame& frame);
  void compare_with_declaration(const onnx::ValueInfoProto& info, const Value* value);
  void import_nodes(Frame& frame, const Nodes& nodes);
  void import_node(Frame& frame, const onnx::NodeProto& proto, const Nodes& nodes);
  void call_operator(Frame& frame, const onnx::NodeProto& proto, const OperatorRow& row, int opset,
                     const std::vector<Binding>& inputs);
  const OperatorRow* find_operator(Frame& frame, const onnx::NodeProto& proto, int& opset);
  void bind(Frame& frame, const std::string& name, Binding binding, const std::string& where);
  void assume_checks(const tensor::Block& block, size_t first_op);
  void fail_outputs(Frame& frame, const onnx::NodeProto& proto);
  std::string missing_name(const std::string& name, const onnx::NodeProto& reader, const Nodes& nodes) const;
  void report_unknown_operators(Frame& frame, const onnx::NodeProto& proto);

  // rank_dispatch.cpp
  struct NodeResult {
    std::vector<Value*> outputs;  // null where there is none
    std::set<int> absent;
  };
  NodeResult run_operator(Frame& frame, const onnx::NodeProto& proto, const OperatorRow& row, int opset,
                          const std::vector<Value*>& inputs);
  std::optional<NodeResult> run_for_each_rank(Frame& frame, const onnx::NodeProto& proto, const OperatorRow& row,
                                              int opset, const std::vector<Value*>& inputs);

  // functions.cpp
  void index_functions();
  const onnx::FunctionProto* find_function(const onnx::NodeProto& proto) const;
  void call_function(Frame& frame, const onnx::NodeProto& proto, const onnx::FunctionProto& function,
                     const std::vector<Binding>& inputs);

  onnx::ModelProto& model_;
  ExternalData external_;
  std::string name_;
  const ImportOptions& options_;
  std::unique_ptr<tensor::Graph> graph_;
  Diagnostics diagnostics_;
  OpsetVersions opsets_;
  std::map<std::string, Expr> dims_;               // by name; unnamed ones as `input[axis]`
  std::map<std::string, std::string> other_dims_;  // `input[axis]` of fixed and of named dims: what to say of it
  std::unordered_map<std::string, const onnx::FunctionProto*> functions_;
  uint64_t random_seeds_ = 0;
};

/// The binding of a name, looked up from the inside out; null if there is none.
const Binding* find_binding(const Frame& frame, const std::string& name);
/// "Add node 'sum' (inputs pixels, offsets)"
std::string describe_node(const Frame& frame, const onnx::NodeProto& proto);
/// The attribute of a node, references to attributes of the enclosing function resolved; null if absent.
const onnx::AttributeProto* find_attribute(const Frame& frame, const onnx::NodeProto& proto, std::string_view name);
std::string normalized_domain(const std::string& domain);                       // "ai.onnx" -> ""
std::string operator_name(const std::string& domain, const std::string& type);  // "Add", "com.microsoft.BiasGelu"

}  // namespace stax::frontend
