// SPDX-License-Identifier: Apache-2.0
// Local functions of a model: a call is replaced by the function's nodes, in a frame of their own.
#include "frontend/importer.h"
#include "support/error.h"

namespace stax::frontend {
namespace {

constexpr int kMaxCallDepth = 100;

std::string function_key(const std::string& domain, const std::string& name, const std::string& overload) {
  return normalized_domain(domain) + "\n" + name + "\n" + overload;
}

}  // namespace

const onnx::AttributeProto* find_attribute(const Frame& frame, const onnx::NodeProto& proto, std::string_view name) {
  for (const onnx::AttributeProto& attribute : proto.attribute()) {
    if (attribute.name() != name) continue;
    if (attribute.ref_attr_name().empty()) return &attribute;
    if (!frame.attributes) return nullptr;
    const auto found = frame.attributes->find(attribute.ref_attr_name());
    return found == frame.attributes->end() ? nullptr : found->second;
  }
  return nullptr;
}

void Importer::index_functions() {
  for (const onnx::FunctionProto& function : model_.functions())
    functions_.emplace(function_key(function.domain(), function.name(), function.overload()), &function);
}

const onnx::FunctionProto* Importer::find_function(const onnx::NodeProto& proto) const {
  if (functions_.empty()) return nullptr;
  const auto found = functions_.find(function_key(proto.domain(), proto.op_type(), proto.overload()));
  return found == functions_.end() ? nullptr : found->second;
}

void Importer::call_function(Frame& frame, const onnx::NodeProto& proto, const onnx::FunctionProto& function,
                             const std::vector<Binding>& inputs) {
  const std::string where = describe_node(frame, proto);
  if (frame.depth >= kMaxCallDepth)
    user_error("function {} calls itself, or calls go deeper than {}", function.name(), kMaxCallDepth);
  if (static_cast<int>(inputs.size()) > function.input_size())
    user_error("{} inputs are given, function {} has {}", inputs.size(), function.name(), function.input_size());
  if (proto.output_size() > function.output_size())
    user_error("{} outputs are named, function {} has {}", proto.output_size(), function.name(),
               function.output_size());

  OpsetVersions opsets = opsets_;
  for (const onnx::OperatorSetIdProto& opset : function.opset_import())
    opsets[normalized_domain(opset.domain())] = static_cast<int>(opset.version());

  AttributeBindings attributes;
  for (const onnx::AttributeProto& fallback : function.attribute_proto()) attributes[fallback.name()] = &fallback;
  for (const onnx::AttributeProto& given : proto.attribute()) {
    if (const onnx::AttributeProto* attribute = find_attribute(frame, proto, given.name()))
      attributes[given.name()] = attribute;
  }

  Frame body;
  body.builder = frame.builder;
  body.opsets = &opsets;
  body.attributes = &attributes;
  body.function = operator_name(function.domain(), function.name());
  body.depth = frame.depth + 1;
  for (int k = 0; k < function.input_size(); ++k) {
    const bool given = k < static_cast<int>(inputs.size());
    bind(body, function.input(k), given ? inputs[k] : Binding{Binding::State::kAbsent, nullptr}, where);
  }
  import_nodes(body, function.node());
  for (int k = 0; k < proto.output_size(); ++k) {
    if (proto.output(k).empty()) continue;
    const Binding* made = find_binding(body, function.output(k));
    if (!made) user_error("output '{}' of function {} is made by no node of it", function.output(k), function.name());
    bind(frame, proto.output(k), *made, where);
  }
}

}  // namespace stax::frontend
