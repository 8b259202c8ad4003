// SPDX-License-Identifier: Apache-2.0
#include "frontend/node_order.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace stax::frontend {
namespace {

using Names = std::vector<std::string_view>;

/// The names that a node reads where it stands: its inputs, and what its bodies take from outside of themselves.
void add_names_read(const onnx::NodeProto& node, Names& names);

void add_names_read(const onnx::GraphProto& body, Names& names) {
  Names inner;
  std::unordered_set<std::string_view> own;
  for (const onnx::ValueInfoProto& input : body.input()) own.insert(input.name());
  for (const onnx::TensorProto& tensor : body.initializer()) own.insert(tensor.name());
  for (const onnx::SparseTensorProto& tensor : body.sparse_initializer()) own.insert(tensor.values().name());
  for (const onnx::NodeProto& node : body.node()) {
    add_names_read(node, inner);
    own.insert(node.output().begin(), node.output().end());
  }
  for (const onnx::ValueInfoProto& output : body.output()) inner.push_back(output.name());
  std::copy_if(inner.begin(), inner.end(), std::back_inserter(names),
               [&](std::string_view name) { return !own.contains(name); });
}

void add_names_read(const onnx::NodeProto& node, Names& names) {
  names.insert(names.end(), node.input().begin(), node.input().end());
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (attribute.has_g()) add_names_read(attribute.g(), names);
    for (const onnx::GraphProto& body : attribute.graphs()) add_names_read(body, names);
  }
}

/// For each node the nodes whose results it reads.
std::vector<std::vector<int>> producers_of(const Nodes& nodes) {
  std::unordered_map<std::string_view, int> made_by;
  for (int k = 0; k < nodes.size(); ++k)
    for (const std::string& name : nodes[k].output())
      if (!name.empty()) made_by.emplace(name, k);
  std::vector<std::vector<int>> producers(nodes.size());
  Names names;
  for (int k = 0; k < nodes.size(); ++k) {
    names.clear();
    add_names_read(nodes[k], names);
    for (const std::string_view name : names)
      if (const auto made = made_by.find(name); made != made_by.end()) producers[k].push_back(made->second);
  }
  return producers;
}

}  // namespace

std::vector<const onnx::NodeProto*> in_order_of_use(const Nodes& nodes) {
  const std::vector<std::vector<int>> producers = producers_of(nodes);
  std::vector<const onnx::NodeProto*> order;
  order.reserve(nodes.size());
  // Depth first, with a stack of its own: a chain may be as long as the file.
  struct Visit {
    int node;
    size_t next;  // of its producers
  };
  std::vector<Visit> stack;
  std::vector<bool> seen(nodes.size(), false);
  for (int first = 0; first < nodes.size(); ++first) {
    if (seen[first]) continue;
    seen[first] = true;
    stack.push_back({first, 0});
    while (!stack.empty()) {
      Visit& top = stack.back();
      if (top.next == producers[top.node].size()) {
        order.push_back(&nodes[top.node]);
        stack.pop_back();
        continue;
      }
      const int producer = producers[top.node][top.next++];
      if (seen[producer]) continue;
      seen[producer] = true;
      stack.push_back({producer, 0});
    }
  }
  return order;
}

}  // namespace stax::frontend
