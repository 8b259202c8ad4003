// SPDX-License-Identifier: Apache-2.0
#pragma once
// The order in which the nodes of a graph, body or function can be imported.
#include <vector>

#include "onnx/onnx-ml.pb.h"

namespace stax::frontend {

using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

/// The nodes, each after those whose results it reads, itself or inside of its bodies; otherwise in the order of the file. ONNX asks files for such an
/// order, but common tools (converters to half precision) append nodes that earlier ones read. A node of a cycle stands before one that it needs.
std::vector<const onnx::NodeProto*> in_order_of_use(const Nodes& nodes);

}  // namespace stax::frontend
