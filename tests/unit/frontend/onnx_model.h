// SPDX-License-Identifier: Apache-2.0
#pragma once
// Small ONNX models spelled in C++, imported and run by the reference interpreter.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "frontend/onnx_import.h"
#include "onnx/onnx-ml.pb.h"
#include "support/error.h"
#include "tensor/interpret.h"
#include "tensor/passes.h"

namespace stax::frontend {

using ir::DType;
using ir::Literal;
using Dim = std::variant<int, std::string>;  // an empty text: an unnamed dim
using Names = std::vector<std::string>;

inline int onnx_type(DType t) {
  switch (t) {
    case DType::kBool: return onnx::TensorProto::BOOL;
    case DType::kI8: return onnx::TensorProto::INT8;
    case DType::kI32: return onnx::TensorProto::INT32;
    case DType::kI64: return onnx::TensorProto::INT64;
    case DType::kU8: return onnx::TensorProto::UINT8;
    case DType::kU32: return onnx::TensorProto::UINT32;
    case DType::kF16: return onnx::TensorProto::FLOAT16;
    case DType::kF64: return onnx::TensorProto::DOUBLE;
    default: return onnx::TensorProto::FLOAT;
  }
}

inline Literal tensor_of(DType t, std::vector<int64_t> extents, const std::vector<double>& values) {
  Literal literal(t, std::move(extents));
  EXPECT_EQ(literal.count(), static_cast<int64_t>(values.size()));
  for (size_t k = 0; k < values.size(); ++k) {
    if (ir::is_float(t)) {
      literal.set(static_cast<int64_t>(k), {.f = values[k]});
    } else {
      literal.set(static_cast<int64_t>(k), {.i = static_cast<int64_t>(values[k])});
    }
  }
  return literal;
}
inline Literal floats(std::vector<int64_t> extents, const std::vector<double>& values) {
  return tensor_of(DType::kF32, std::move(extents), values);
}
inline Literal ints(const std::vector<double>& values) {
  return tensor_of(DType::kI64, {static_cast<int64_t>(values.size())}, values);
}
inline Literal int_scalar(double value) { return tensor_of(DType::kI64, {}, {value}); }
inline Literal bools(std::vector<int64_t> extents, const std::vector<double>& values) {
  return tensor_of(DType::kBool, std::move(extents), values);
}
/// 0, 1, 2, ..
inline Literal counting(std::vector<int64_t> extents, DType t = DType::kF32) {
  int64_t count = 1;
  for (const int64_t extent : extents) count *= extent;
  std::vector<double> values;
  for (int64_t k = 0; k < count; ++k) values.push_back(static_cast<double>(k));
  return tensor_of(t, std::move(extents), values);
}

inline std::vector<double> values_of(const Literal& literal) {
  std::vector<double> values;
  for (int64_t k = 0; k < literal.count(); ++k)
    values.push_back(ir::is_float(literal.dtype()) ? literal.at(k).f : static_cast<double>(literal.at(k).i));
  return values;
}

struct Attribute {
  onnx::AttributeProto proto;
  explicit Attribute(const std::string& name) { proto.set_name(name); }
  Attribute(const std::string& name, int64_t value) : Attribute(name) {
    proto.set_type(onnx::AttributeProto::INT);
    proto.set_i(value);
  }
  Attribute(const std::string& name, int value) : Attribute(name, int64_t{value}) {}
  Attribute(const std::string& name, double value) : Attribute(name) {
    proto.set_type(onnx::AttributeProto::FLOAT);
    proto.set_f(static_cast<float>(value));
  }
  Attribute(const std::string& name, const char* value) : Attribute(name) {
    proto.set_type(onnx::AttributeProto::STRING);
    proto.set_s(value);
  }
  Attribute(const std::string& name, const std::vector<int64_t>& values) : Attribute(name) {
    proto.set_type(onnx::AttributeProto::INTS);
    for (const int64_t value : values) proto.add_ints(value);
  }
  Attribute(const std::string& name, const onnx::GraphProto& graph) : Attribute(name) {
    proto.set_type(onnx::AttributeProto::GRAPH);
    *proto.mutable_g() = graph;
  }
  static Attribute reference(const std::string& name, const std::string& of, onnx::AttributeProto::AttributeType type) {
    Attribute attribute(name);
    attribute.proto.set_ref_attr_name(of);
    attribute.proto.set_type(type);
    return attribute;
  }
};

inline void fill(onnx::TensorProto& proto, const std::string& name, const Literal& literal) {
  proto.set_name(name);
  proto.set_data_type(onnx_type(literal.dtype()));
  for (const int64_t extent : literal.extents()) proto.add_dims(extent);
  proto.set_raw_data(literal.data(), literal.bytes());
}

inline onnx::NodeProto node_of(const std::string& op, const Names& inputs, const Names& outputs,
                               const std::vector<Attribute>& attributes = {}, const std::string& domain = {}) {
  onnx::NodeProto node;
  node.set_op_type(op);
  node.set_domain(domain);
  for (const std::string& name : inputs) node.add_input(name);
  for (const std::string& name : outputs) node.add_output(name);
  for (const Attribute& attribute : attributes) *node.add_attribute() = attribute.proto;
  return node;
}

/// A graph or a body; the methods give the object back, so that a body can be one expression.
class GraphOf {
 public:
  onnx::GraphProto proto;

  GraphOf& input(const std::string& name, DType t, const std::vector<Dim>& dims) {
    auto& type = *proto.add_input();
    type.set_name(name);
    auto& tensor = *type.mutable_type()->mutable_tensor_type();
    tensor.set_elem_type(onnx_type(t));
    tensor.mutable_shape();
    for (const Dim& dim : dims) {
      auto& added = *tensor.mutable_shape()->add_dim();
      if (const int* extent = std::get_if<int>(&dim)) added.set_dim_value(*extent);
      if (const std::string* text = std::get_if<std::string>(&dim); text && !text->empty()) added.set_dim_param(*text);
    }
    return *this;
  }
  GraphOf& sequence_input(const std::string& name, DType t, int rank) {
    auto& type = *proto.add_input();
    type.set_name(name);
    auto& tensor = *type.mutable_type()->mutable_sequence_type()->mutable_elem_type()->mutable_tensor_type();
    tensor.set_elem_type(onnx_type(t));
    for (int k = 0; k < rank; ++k) tensor.mutable_shape()->add_dim();
    return *this;
  }
  /// An input of a body, whose type the caller decides.
  GraphOf& input(const std::string& name) {
    proto.add_input()->set_name(name);
    return *this;
  }
  GraphOf& constant(const std::string& name, const Literal& literal) {
    fill(*proto.add_initializer(), name, literal);
    return *this;
  }
  GraphOf& node(const std::string& op, const Names& inputs, const Names& outputs,
                const std::vector<Attribute>& attributes = {}, const std::string& domain = {}) {
    *proto.add_node() = node_of(op, inputs, outputs, attributes, domain);
    return *this;
  }
  GraphOf& output(const std::string& name) {
    proto.add_output()->set_name(name);
    return *this;
  }
};

class ModelOf : public GraphOf {
 public:
  explicit ModelOf(int opset = 18) {
    model.set_ir_version(9);
    auto& imported = *model.add_opset_import();
    imported.set_version(opset);
  }
  onnx::ModelProto model;
  ImportOptions options;
  std::string folder = ".";

  std::string bytes() const {
    onnx::ModelProto whole = model;
    *whole.mutable_graph() = proto;
    return whole.SerializeAsString();
  }
  std::unique_ptr<tensor::Graph> import() const {
    auto graph = import_onnx_bytes(bytes(), folder, "model.onnx", options);
    tensor::verify(*graph);
    return graph;
  }
  using Feed = std::map<std::string, Literal>;
  /// A sequence `s` is fed and comes back as `s[0]`, `s[1]`, ...
  std::map<std::string, Literal> run(const Feed& feed) const {
    const auto graph = import();
    std::vector<tensor::Item> items;
    for (const tensor::GraphInput& input : graph->inputs) {
      tensor::Item item;
      item.is_sequence = !input.value->type.is_tensor();
      for (int k = 0; item.is_sequence && feed.contains(input.name + "[" + std::to_string(k) + "]"); ++k)
        item.sequence.push_back(feed.at(input.name + "[" + std::to_string(k) + "]"));
      if (!item.is_sequence) item.tensor = feed.at(input.name);
      items.push_back(std::move(item));
    }
    const std::vector<tensor::Item> results = tensor::interpret(*graph, items);
    std::map<std::string, Literal> made;
    for (size_t k = 0; k < results.size(); ++k) {
      const std::string& name = graph->outputs[k].name;
      if (!results[k].is_sequence) made[name] = results[k].tensor;
      for (size_t i = 0; i < results[k].sequence.size(); ++i)
        made[name + "[" + std::to_string(i) + "]"] = results[k].sequence[i];
    }
    return made;
  }
  Literal run_one(const Feed& feed) const { return run(feed).at(proto.output(0).name()); }
  /// The message of the UserError that importing (and, with a feed, running) ends with; empty if it does not.
  std::string fault() const {
    try {
      import();
    } catch (const UserError& error) {
      return error.what();
    }
    return {};
  }
  std::string fault(const Feed& feed) const {
    try {
      run(feed);
    } catch (const UserError& error) {
      return error.what();
    }
    return {};
  }
  std::string shape_text(const std::string& output) const {
    const auto graph = import();
    for (const tensor::GraphOutput& each : graph->outputs) {
      if (each.name != output) continue;
      std::string text;
      for (const symbolic::Expr extent : each.value->type.extents)
        text += (text.empty() ? "" : ", ") + graph->constraints.simplify(extent).str();
      return text;
    }
    return "no such output";
  }
};

/// A model of one node with one output, run: of ai.onnx, or of another domain in its first version.
inline Literal run_op(const std::string& op, const std::vector<Literal>& inputs,
                      const std::vector<Attribute>& attributes = {}, int opset = 25, const std::string& domain = {}) {
  ModelOf m(opset);
  if (!domain.empty()) {
    auto& imported = *m.model.add_opset_import();
    imported.set_domain(domain);
    imported.set_version(1);
  }
  Names names;
  ModelOf::Feed feed;
  for (size_t k = 0; k < inputs.size(); ++k) {
    names.push_back("x" + std::to_string(k));
    m.input(names.back(), inputs[k].dtype(), std::vector<Dim>(inputs[k].rank(), std::string()));
    feed[names.back()] = inputs[k];
  }
  m.node(op, names, {"y"}, attributes, domain).output("y");
  return m.run_one(feed);
}

inline void expect_tensor(const Literal& got, const std::vector<int64_t>& extents, const std::vector<double>& values,
                          double tolerance = 0) {
  EXPECT_EQ(got.extents(), extents);
  const std::vector<double> have = values_of(got);
  ASSERT_EQ(have.size(), values.size());
  for (size_t k = 0; k < values.size(); ++k) {
    if (std::isnan(values[k])) {
      EXPECT_TRUE(std::isnan(have[k])) << "at " << k;
    } else if (have[k] != values[k]) {
      EXPECT_NEAR(have[k], values[k], tolerance) << "at " << k;
    }
  }
}

inline void expect_words(const std::string& text, const std::vector<std::string>& words) {
  for (const std::string& word : words)
    EXPECT_NE(text.find(word), std::string::npos) << "'" << word << "' is missing in: " << text;
}

}  // namespace stax::frontend
