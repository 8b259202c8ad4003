// SPDX-License-Identifier: Apache-2.0
#include "frontend/onnx_import.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <new>
#include <utility>

#include "frontend/importer.h"
#include "frontend/tensors.h"
#include "support/error.h"
#include "support/mapped_file.h"

namespace stax::frontend {
namespace {

constexpr int kLeastIrVersion = 3, kGreatestIrVersion = 14;
constexpr int kLeastOpset = 7, kGreatestOpset = 28;  // below, only operators that have not changed since are there
constexpr int kMaxNesting = 500;                     // of messages in the file: three for each If in an If
constexpr int kMaxListedDims = 20;

const auto kOperatorTables = {elementwise_operators, activation_operators, maker_operators,     shape_operators,
                              slice_operators,       index_operators,      reduction_operators, spatial_operators,
                              linear_operators,      quantized_operators,  recurrent_operators, control_operators,
                              sequence_operators,    signal_operators,     training_operators,  feature_operators};

struct OperatorKey {
  std::string_view domain, name;
  bool operator==(const OperatorKey&) const = default;
};
struct OperatorKeyHash {
  size_t operator()(const OperatorKey& key) const {
    return std::hash<std::string_view>()(key.domain) * 31 + std::hash<std::string_view>()(key.name);
  }
};
using OperatorIndex = std::unordered_map<OperatorKey, std::vector<const OperatorRow*>, OperatorKeyHash>;

/// All rows by operator, the newest first.
const OperatorIndex& operator_index() {
  static const OperatorIndex index = [] {
    OperatorIndex made;
    for (const auto& table : kOperatorTables)
      for (const OperatorRow& row : table()) made[{row.domain, row.name}].push_back(&row);
    for (auto& [key, rows] : made) {
      std::stable_sort(rows.begin(), rows.end(),
                       [](const OperatorRow* a, const OperatorRow* b) { return a->since > b->since; });
    }
    return made;
  }();
  return index;
}

void parse_model(std::string_view bytes, const std::string& name, onnx::ModelProto& model) {
  if (bytes.empty()) user_error("{}: is empty, not an ONNX model", name);
  if (bytes.size() > static_cast<size_t>(std::numeric_limits<int>::max()))
    user_error("{}: is larger than 2 GB; a model of that size keeps its weights in external data files", name);
  google::protobuf::io::ArrayInputStream stream(bytes.data(), static_cast<int>(bytes.size()));
  google::protobuf::io::CodedInputStream coded(&stream);
  coded.SetTotalBytesLimit(std::numeric_limits<int>::max());
  coded.SetRecursionLimit(kMaxNesting);
  google::protobuf::LogSilencer quiet;
  if (!model.ParseFromCodedStream(&coded) || !coded.ConsumedEntireMessage())
    user_error("{}: is no ONNX model, or a damaged one (its protobuf encoding is broken)", name);
  if (!model.has_graph()) user_error("{}: is no ONNX model, or a damaged one (it has no graph)", name);
}

bool is_subgraph(const onnx::AttributeProto& attribute) { return attribute.has_g() || attribute.graphs_size() > 0; }

}  // namespace

std::string normalized_domain(const std::string& domain) { return domain == "ai.onnx" ? std::string() : domain; }

std::string operator_name(const std::string& domain, const std::string& type) {
  const std::string normal = normalized_domain(domain);
  return normal.empty() ? type : normal + "." + type;
}

const Binding* find_binding(const Frame& frame, const std::string& name) {
  for (const Frame* at = &frame; at; at = at->outer) {
    const auto found = at->names.find(name);
    if (found != at->names.end()) return &found->second;
  }
  return nullptr;
}

Importer::Importer(onnx::ModelProto& model, std::string folder, std::string name, const ImportOptions& options)
    : model_(model), external_{std::move(folder), options.external_files}, name_(std::move(name)), options_(options) {}

std::unique_ptr<tensor::Graph> Importer::run() {
  graph_ = std::make_unique<tensor::Graph>(std::make_shared<ir::Context>());
  graph_->body.graph = graph_.get();
  check_versions();
  index_functions();

  Builder builder(*graph_, graph_->body);
  Frame frame;
  frame.builder = &builder;
  frame.opsets = &opsets_;
  import_inputs(frame);
  diagnostics_.checkpoint();
  check_dim_options();
  relate_dims(frame);

  // From here on: every dim of an input is a constant or a symbol with its declared range.
  import_initializers(frame, model_.graph());
  // The constants have copies of their own now.
  for (onnx::TensorProto& tensor : *model_.mutable_graph()->mutable_initializer())
    std::string().swap(*tensor.mutable_raw_data());
  import_nodes(frame, model_.graph().node());
  import_outputs(frame);
  diagnostics_.checkpoint();
  STAX_ASSERT(static_cast<int>(graph_->outputs.size()) == model_.graph().output_size(),
              "an output is missing without a reason");
  return std::move(graph_);
}

// ---- versions -----------------------------------------------------------------------------------------------------

void Importer::check_versions() {
  const int64_t ir = model_.ir_version();
  if (ir < kLeastIrVersion || ir > kGreatestIrVersion)
    unsupported("{}: IR version {} (supported: {} to {})", name_, ir, kLeastIrVersion, kGreatestIrVersion);
  for (const onnx::OperatorSetIdProto& opset : model_.opset_import()) {
    const int64_t version = std::clamp<int64_t>(opset.version(), 0, std::numeric_limits<int>::max());
    opsets_[normalized_domain(opset.domain())] = static_cast<int>(version);
  }
  const auto main = opsets_.find("");
  if (main == opsets_.end()) {
    if (model_.opset_import_size() == 0)
      user_error("{}: names no version of its operators (opset_import is empty)", name_);
    opsets_[""] = kGreatestOpset;  // only other domains are used
  } else if (main->second < 1 || main->second > kGreatestOpset) {
    unsupported("{}: opset {} (supported: {} to {})", name_, main->second, kLeastOpset, kGreatestOpset);
  }
}

// ---- inputs and their dims ----------------------------------------------------------------------------------------

Expr Importer::dim_of(const std::string& input, int axis, const onnx::TensorShapeProto_Dimension& dim) {
  const std::string position = input + "[" + std::to_string(axis) + "]";
  if (dim.has_dim_value() && dim.dim_value() >= 0) {
    other_dims_[position] = "is fixed at " + std::to_string(dim.dim_value()) + " in the file";
    return graph_->exprs().constant(dim.dim_value());
  }
  const bool named = dim.has_dim_param() && !dim.dim_param().empty();
  const std::string name = named ? dim.dim_param() : position;
  if (named) other_dims_[position] = "is called '" + name + "'";
  const auto known = dims_.find(name);
  if (known != dims_.end()) return known->second;
  symbolic::SymbolInfo info;
  info.name = name;
  info.kind = symbolic::SymbolKind::kDim;
  const auto option = options_.dims.find(name);
  if (option != options_.dims.end()) info.range = {option->second.lo, option->second.hi};
  return dims_[name] = graph_->exprs().new_symbol(std::move(info));
}

tensor::Type Importer::input_type(const onnx::ValueInfoProto& info) {
  const bool optional = info.type().has_optional_type();
  const onnx::TypeProto& type = optional ? info.type().optional_type().elem_type() : info.type();
  if (optional)
    graph_->warnings.push_back("input '" + info.name() + "' is optional in the file; here it has to be given");
  const auto element = [&](const onnx::TypeProto_Tensor& tensor) {
    const std::optional<DType> dtype = dtype_of_onnx(tensor.elem_type());
    if (!dtype) unsupported("input '{}': elements of type {}", info.name(), onnx_type_name(tensor.elem_type()));
    return *dtype;
  };
  if (type.has_tensor_type()) {
    const onnx::TypeProto_Tensor& tensor = type.tensor_type();
    const DType dtype = element(tensor);
    if (!tensor.has_shape()) unsupported("input '{}': a tensor whose rank the file does not declare", info.name());
    if (tensor.shape().dim_size() > tensor::kMaxRank)
      unsupported("input '{}': rank {} (at most {})", info.name(), tensor.shape().dim_size(), tensor::kMaxRank);
    std::vector<Expr> extents;
    for (int axis = 0; axis < tensor.shape().dim_size(); ++axis)
      extents.push_back(dim_of(info.name(), axis, tensor.shape().dim(axis)));
    return tensor::Type::tensor(dtype, std::move(extents));
  }
  if (type.has_sequence_type() && type.sequence_type().elem_type().has_tensor_type()) {
    const onnx::TypeProto_Tensor& tensor = type.sequence_type().elem_type().tensor_type();
    const DType dtype = element(tensor);
    return tensor::Type::sequence(dtype, tensor.has_shape() ? tensor.shape().dim_size() : -1);
  }
  const char* kind = type.has_optional_type()        ? "an optional value of a kind that is neither tensor nor sequence"
                     : type.has_map_type()           ? "a map"
                     : type.has_sparse_tensor_type() ? "a sparse tensor"
                     : type.has_sequence_type()      ? "a sequence of something else than tensors"
                                                     : "a value without a type";
  unsupported("input '{}': {}", info.name(), kind);
}

void Importer::import_inputs(Frame& frame) {
  // An initializer of the same name is a default of the input; it is a constant here.
  std::unordered_set<std::string_view> defaults;
  for (const onnx::TensorProto& tensor : model_.graph().initializer()) defaults.insert(tensor.name());
  for (const onnx::SparseTensorProto& tensor : model_.graph().sparse_initializer())
    defaults.insert(tensor.values().name());

  for (const onnx::ValueInfoProto& info : model_.graph().input()) {
    if (defaults.contains(info.name())) continue;
    const std::string where = "input '" + info.name() + "'";
    if (info.name().empty()) {
      diagnostics_.add("an input of the graph has no name");
      continue;
    }
    try {
      Value* value = graph_->add_input(graph_->body, input_type(info), info.name());
      graph_->inputs.push_back({info.name(), value});
      bind(frame, info.name(), {Binding::State::kPresent, value}, where);
    } catch (const UserError& error) {
      diagnostics_.add(error.what());
      bind(frame, info.name(), {Binding::State::kFailed, nullptr}, where);
    }
  }
}

void Importer::check_dim_options() {
  for (const auto& [name, range] : options_.dims) {
    if (range.lo > range.hi || range.lo < 0)
      user_error("dim '{}': the range {}..{} holds no extent", name, range.lo, range.hi);
    if (range.hi > symbolic::kMaxExtent)
      user_error("dim '{}': {} is beyond the largest extent, {}", name, range.hi, symbolic::kMaxExtent);
    if (dims_.contains(name)) continue;
    const auto other = other_dims_.find(name);
    if (other != other_dims_.end()) user_error("dim '{}' of {} {}", name, name_, other->second);
    std::string known;
    int listed = 0;
    for (const auto& [each, symbol] : dims_) {
      if (listed++ == kMaxListedDims) {
        known += ", ...";
        break;
      }
      known += (known.empty() ? "" : ", ") + each;
    }
    user_error("{} has no dim '{}'; {}", name_, name,
               known.empty() ? "all of its dims are fixed" : "its dims are: " + known);
  }
}

/// A dim named by an expression of other dims, such as "past + seq", states a relation.
void Importer::relate_dims(Frame& frame) {
  for (const auto& [name, symbol] : dims_) {
    const bool expression =
        std::any_of(name.begin(), name.end(), [](char c) { return c == '+' || c == '*' || c == ' ' || c == '/'; });
    if (!expression) continue;
    std::string text = name;
    for (size_t at; (at = text.find("//")) != std::string::npos;) text.erase(at, 1);
    Expr stated;
    try {
      stated = symbolic::parse_expr(graph_->exprs(), text, [&](const std::string& part) -> Expr {
        const auto known = dims_.find(part);
        if (known == dims_.end()) user_error("no dim '{}'", part);
        return known->second;
      });
    } catch (const UserError&) {
      continue;  // a name like any other
    }
    if (stated == symbol) continue;
    frame.builder->source = "dim '" + name + "'";
    frame.builder->check(symbolic::equal(symbol, stated), "is {0}, but the dims it is made of give {1}",
                         {symbol, stated});
  }
}

// ---- initializers and outputs -------------------------------------------------------------------------------------

void Importer::import_initializers(Frame& frame, const onnx::GraphProto& graph) {
  const auto add = [&](const std::string& name, const auto& make) {
    const std::string where = "initializer '" + name + "'";
    frame.builder->source = where;
    Binding binding;
    try {
      binding.value = frame.builder->constant(make(), name);
    } catch (const UserError& error) {
      diagnostics_.add(error.what());
      binding.state = Binding::State::kFailed;
    }
    bind(frame, name, binding, where);
  };
  for (const onnx::TensorProto& tensor : graph.initializer())
    add(tensor.name(), [&] { return literal_of(tensor, external_); });
  for (const onnx::SparseTensorProto& tensor : graph.sparse_initializer())
    add(tensor.values().name(), [&] { return literal_of_sparse(tensor, external_); });
}

void Importer::import_outputs(Frame& frame) {
  for (const onnx::ValueInfoProto& info : model_.graph().output()) {
    const Binding* binding = find_binding(frame, info.name());
    if (!binding) {
      diagnostics_.add("output '" + info.name() + "' of the graph is made by no node", {},
                       "is its name spelled as the node's output is?");
      continue;
    }
    if (binding->state == Binding::State::kAbsent)
      diagnostics_.add_unsupported("output '" + info.name() + "' of the graph, an optional value that is absent");
    if (binding->state != Binding::State::kPresent) continue;
    for (const tensor::GraphOutput& other : graph_->outputs)
      if (other.name == info.name()) diagnostics_.add("two outputs of the graph have the name '" + info.name() + "'");
    compare_with_declaration(info, binding->value);
    graph_->outputs.push_back({info.name(), binding->value});
    graph_->body.outputs.push_back(binding->value);
  }
  if (model_.graph().output_size() == 0) diagnostics_.add("the graph has no outputs", name_);
}

/// What a file says of its outputs is a hint: models in use declare shapes that are wrong.
void Importer::compare_with_declaration(const onnx::ValueInfoProto& info, const Value* value) {
  if (!info.type().has_tensor_type() || !value->type.is_tensor()) return;
  const onnx::TypeProto_Tensor& declared = info.type().tensor_type();
  const auto warn = [&](const std::string& what) {
    graph_->warnings.push_back("output '" + info.name() + "': " + what + "; what the graph computes is used");
  };
  const std::optional<DType> dtype = dtype_of_onnx(declared.elem_type());
  if (declared.elem_type() != 0 && dtype != value->type.dtype) {
    warn("the file declares " + onnx_type_name(declared.elem_type()) + ", the graph computes " +
         std::string(long_name_of(value->type.dtype)));
  }
  if (!declared.has_shape() || !value->type.has_static_rank()) return;
  if (declared.shape().dim_size() != value->type.static_rank()) {
    warn("the file declares rank " + std::to_string(declared.shape().dim_size()) + ", the graph computes rank " +
         std::to_string(value->type.static_rank()));
    return;
  }
  for (int axis = 0; axis < declared.shape().dim_size(); ++axis) {
    const onnx::TensorShapeProto_Dimension& dim = declared.shape().dim(axis);
    const Expr extent = value->type.extents[axis];
    if (!dim.has_dim_value() || dim.dim_value() < 0) continue;
    if (graph_->constraints.equal(extent, graph_->exprs().constant(dim.dim_value())) != symbolic::Truth::kNo) continue;
    warn("the file declares extent " + std::to_string(dim.dim_value()) + " for axis " + std::to_string(axis) +
         ", the graph computes " + extent.str());
  }
}

// ---- nodes --------------------------------------------------------------------------------------------------------

void Importer::bind(Frame& frame, const std::string& name, Binding binding, const std::string& where) {
  if (name.empty()) return;
  const auto [at, fresh] = frame.names.emplace(name, binding);
  if (fresh) return;
  diagnostics_.add("makes '" + name + "', a name that something before it has already", where,
                   "each name may be made once");
  at->second.state = Binding::State::kFailed;
}

void Importer::fail_outputs(Frame& frame, const onnx::NodeProto& proto) {
  for (const std::string& name : proto.output())
    if (!frame.names.contains(name)) bind(frame, name, {Binding::State::kFailed, nullptr}, {});
}

std::string Importer::missing_name(const std::string& name, const onnx::NodeProto& reader, const Nodes& nodes) const {
  for (const onnx::NodeProto& node : nodes) {
    const auto& outputs = node.output();
    if (std::find(outputs.begin(), outputs.end(), name) == outputs.end()) continue;
    std::string needed = "something";
    for (const std::string& made : reader.output())
      if (const auto& inputs = node.input(); std::find(inputs.begin(), inputs.end(), made) != inputs.end())
        needed = "'" + made + "'";
    return "its input '" + name + "' is made only by a node that needs " + needed +
           " of this one first: " + operator_name(node.domain(), node.op_type()) +
           (node.name().empty() ? std::string() : " named '" + node.name() + "'") + " (nodes may not form a cycle)";
  }
  return "its input '" + name + "' does not exist: it is no input, no initializer and no output of a node";
}

const OperatorRow* Importer::find_operator(Frame& frame, const onnx::NodeProto& proto, int& opset) {
  const std::string domain = normalized_domain(proto.domain());
  const auto version = frame.opsets->find(domain);
  opset = version == frame.opsets->end() ? 1 : version->second;
  const auto rows = operator_index().find({domain, proto.op_type()});
  if (rows == operator_index().end()) {
    diagnostics_.add_unsupported("operator " + operator_name(domain, proto.op_type()) + " is not known",
                                 describe_node(frame, proto));
    return nullptr;
  }
  for (const OperatorRow* row : rows->second)
    if (row->since <= opset) return row;
  if (domain.empty() && opset < kLeastOpset) {
    diagnostics_.add_unsupported("operator " + proto.op_type() + " as of opset " + std::to_string(opset) +
                                     " (supported: opsets " + std::to_string(kLeastOpset) + " to " +
                                     std::to_string(kGreatestOpset) + ")",
                                 describe_node(frame, proto));
    return nullptr;
  }
  diagnostics_.add("operator " + operator_name(domain, proto.op_type()) + " is not defined in opset " +
                       std::to_string(opset) + "; it exists from opset " + std::to_string(rows->second.back()->since) +
                       " on",
                   describe_node(frame, proto));
  return nullptr;
}

/// For a node that is skipped: operators inside its bodies that nobody knows are reported all the same.
void Importer::report_unknown_operators(Frame& frame, const onnx::NodeProto& proto) {
  for (const onnx::AttributeProto& attribute : proto.attribute()) {
    if (!is_subgraph(attribute)) continue;
    for (const onnx::NodeProto& inner : attribute.g().node()) {
      int opset = 0;
      if (!find_function(inner)) find_operator(frame, inner, opset);
      report_unknown_operators(frame, inner);
    }
  }
}

void Importer::import_nodes(Frame& frame, const Nodes& nodes) {
  for (const onnx::NodeProto* node : in_order_of_use(nodes)) import_node(frame, *node, nodes);
}

void Importer::import_node(Frame& frame, const onnx::NodeProto& proto, const Nodes& nodes) {
  const std::string where = describe_node(frame, proto);
  int opset = 0;
  const onnx::FunctionProto* function = find_function(proto);
  const OperatorRow* row = function ? nullptr : find_operator(frame, proto, opset);
  bool failed = !function && !row;
  std::vector<Binding> inputs;
  for (const std::string& name : proto.input()) {
    Binding input{Binding::State::kAbsent, nullptr};
    if (!name.empty()) {
      const Binding* found = find_binding(frame, name);
      if (!found) diagnostics_.add(missing_name(name, proto, nodes), where);
      input = found ? *found : Binding{Binding::State::kFailed, nullptr};
    }
    failed |= input.state == Binding::State::kFailed;
    inputs.push_back(input);
  }
  if (failed) {
    report_unknown_operators(frame, proto);
    fail_outputs(frame, proto);
    return;
  }
  frame.builder->source = where;
  const size_t ops_before = frame.builder->block().ops.size();
  try {
    if (function) {
      call_function(frame, proto, *function, inputs);
    } else {
      call_operator(frame, proto, *row, opset, inputs);
    }
    assume_checks(frame.builder->block(), ops_before);
  } catch (const FaultReported&) {
    fail_outputs(frame, proto);
  } catch (const UserError& error) {
    std::string message = error.what();
    const bool is_unsupported = dynamic_cast<const UnsupportedError*>(&error) != nullptr;
    if (is_unsupported && message.starts_with(kUnsupportedPrefix))
      message.erase(0, std::string_view(kUnsupportedPrefix).size() + 1);
    if (!message.starts_with(where)) message = where + ": " + message;
    diagnostics_.add({message, {}, {}, is_unsupported});
    fail_outputs(frame, proto);
  }
}

/// What checks inside a body make sure of holds for the rest of the body; import_body forgets it at the end.
void Importer::assume_checks(const tensor::Block& block, size_t first_op) {
  if (&block == &graph_->body) return;  // the builder has done it
  size_t fresh = block.ops.size() - std::min(first_op, block.ops.size());
  for (auto op = block.ops.rbegin(); fresh > 0; ++op, --fresh) {
    const auto* check = (*op)->as<tensor::Check>();
    if (check && !check->condition.is_constant()) graph_->constraints.assume_true(check->condition);
  }
}

void Importer::call_operator(Frame& frame, const onnx::NodeProto& proto, const OperatorRow& row, int opset,
                             const std::vector<Binding>& inputs) {
  std::vector<Value*> values;
  for (const Binding& input : inputs) values.push_back(input.value);
  NodeResult result = run_operator(frame, proto, row, opset, values);
  const std::string where = describe_node(frame, proto);
  for (int k = 0; k < proto.output_size(); ++k) {
    const std::string& name = proto.output(k);
    if (name.empty()) continue;
    if (result.absent.contains(k)) {
      bind(frame, name, {Binding::State::kAbsent, nullptr}, where);
      continue;
    }
    Value* value = k < static_cast<int>(result.outputs.size()) ? result.outputs[k] : nullptr;
    if (!value) unsupported("{}: its output number {}, '{}'", where, k + 1, name);
    if (value->name.empty()) value->name = name;
    bind(frame, name, {Binding::State::kPresent, value}, where);
  }
}

std::vector<Value*> Importer::import_body(Frame& outer, const onnx::GraphProto& body, tensor::Block& block,
                                          std::span<Value* const> inputs, symbolic::ConstraintSet* facts_inside) {
  block.graph = graph_.get();
  Builder builder(*graph_, block);
  Frame frame;
  frame.outer = &outer;
  frame.builder = &builder;
  frame.opsets = outer.opsets;
  frame.attributes = outer.attributes;
  frame.function = outer.function;
  frame.depth = outer.depth;
  const std::string where = outer.builder->source;
  std::unordered_set<std::string_view> defaults;
  for (const onnx::TensorProto& tensor : body.initializer()) defaults.insert(tensor.name());
  std::vector<std::string> names;
  for (const onnx::ValueInfoProto& info : body.input())
    if (!defaults.contains(info.name())) names.push_back(info.name());
  if (names.size() != inputs.size())
    user_error("its body '{}' has {} inputs, {} are given", body.name(), names.size(), inputs.size());
  for (size_t k = 0; k < inputs.size(); ++k) {
    if (inputs[k]->name.empty()) inputs[k]->name = names[k];
    bind(frame, names[k], {Binding::State::kPresent, inputs[k]}, where);
  }

  // What a check inside makes sure of holds only while the body runs.
  const symbolic::ConstraintSet facts = graph_->constraints;
  const size_t faults = diagnostics_.size();
  import_initializers(frame, body);
  import_nodes(frame, body.node());
  if (facts_inside) *facts_inside = graph_->constraints;
  graph_->constraints = facts;

  std::vector<Value*> outputs;
  bool failed = false;
  for (const onnx::ValueInfoProto& info : body.output()) {
    const Binding* binding = find_binding(frame, info.name());
    if (!binding)
      diagnostics_.add("output '" + info.name() + "' of its body '" + body.name() + "' is made by no node", where);
    if (binding && binding->state == Binding::State::kAbsent)
      diagnostics_.add_unsupported(
          "output '" + info.name() + "' of its body '" + body.name() + "', an optional value that is absent", where);
    failed |= !binding || binding->state != Binding::State::kPresent;
    outputs.push_back(binding ? binding->value : nullptr);
  }
  if (failed || diagnostics_.size() != faults) throw FaultReported();
  return outputs;
}

// ---- entry points -------------------------------------------------------------------------------------------------

std::unique_ptr<tensor::Graph> import_onnx_bytes(std::string_view bytes, const std::string& folder_of_external_data,
                                                 const std::string& name_for_messages, const ImportOptions& options) {
  try {
    onnx::ModelProto model;
    parse_model(bytes, name_for_messages, model);
    return Importer(model, folder_of_external_data, name_for_messages, options).run();
  } catch (const std::bad_alloc&) {
    user_error("{}: not enough memory to read the model", name_for_messages);
  } catch (const std::length_error&) {
    user_error("{}: not enough memory to read the model", name_for_messages);
  }
}

std::unique_ptr<tensor::Graph> import_onnx(const std::string& path, const ImportOptions& options) {
  try {
    onnx::ModelProto model;
    {
      const MappedBytes bytes = map_file(path);
      parse_model({static_cast<const char*>(bytes.data.get()), bytes.size}, path, model);
    }
    return Importer(model, std::filesystem::path(path).parent_path().string(), path, options).run();
  } catch (const std::bad_alloc&) {
    user_error("{}: not enough memory to read the model", path);
  } catch (const std::length_error&) {
    user_error("{}: not enough memory to read the model", path);
  }
}

}  // namespace stax::frontend
