// SPDX-License-Identifier: Apache-2.0
#pragma once
// ONNX files -> tensor IR. Opsets 7 to 28, IR versions 3 to 14, external data, local functions, If, Loop, Scan, sequences, and
// the com.microsoft operators that exporters and optimizers write.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tensor/graph.h"

namespace stax::frontend {

struct DimRange {
  int64_t lo = 0;
  int64_t hi = symbolic::kMaxExtent;
};

struct ImportOptions {
  /// By the name of the dim in the file, or `input[axis]` for an unnamed one. An unknown name is a UserError that lists the known ones.
  std::map<std::string, DimRange> dims;
  /// If not null, receives the paths of the external data files that were read, once for each tensor.
  std::vector<std::string>* external_files = nullptr;
};

/// UserError: a damaged file, a value that does not exist, a cycle, a name made twice, shapes that cannot meet, ...;
/// UnsupportedError: lists all operators, types and attributes that Stax cannot do, at once.
std::unique_ptr<tensor::Graph> import_onnx(const std::string& path, const ImportOptions& options);
std::unique_ptr<tensor::Graph> import_onnx_bytes(std::string_view bytes, const std::string& folder_of_external_data,
                                                 const std::string& name_for_messages, const ImportOptions& options);

}  // namespace stax::frontend
