// SPDX-License-Identifier: Apache-2.0
#pragma once
// Joins frontend, compiler and runtime: a model file on a device, ready to be called.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compile/pipeline.h"
#include "frontend/onnx_import.h"
#include "runtime/runtime.h"
#include "tensor/interpret.h"

namespace stax::session {

struct SessionOptions {
  std::string device = "cpu";  // cpu, loop, reference
  std::map<std::string, frontend::DimRange> dims;
  int threads = 0;                                  // 0: all cores
  std::map<std::string, uint32_t> forced_versions;  // kernel family, or "*" -> version
  std::string emit;                                 // of device cuda: "ptx" or "cuda"; empty: the target's own
  std::string launch_log;                           // folder (launch_log.h); empty: none
  int64_t check_every = 0;                          // as in runtime::ModuleOptions, with its alarm
  std::function<void(const runtime::Mismatch&)> alarm;
};

struct Port {
  std::string name;
  ir::DType dtype = ir::DType::kF32;
  bool is_sequence = false;
  int rank = -1; /* -1: known at run time only */
  std::vector<std::string>
      dims;  // by axis: the name of the dim, or empty for a number; none where the rank is known at run time only
};

struct SessionStatistics {
  double compile_ms = 0, load_ms = 0;
  int64_t compiles_after_load = 0;
  int64_t kernels = 0, versions = 0;
  int64_t launches = 0, peak_bytes = 0;
  int64_t checked_calls = 0, checked_launches = 0, mismatches = 0;
  std::string device_name;
};

/// One loaded model. run() may be called by several threads at once.
class Session {
 public:
  virtual ~Session() = default;
  /// `path`: an ONNX file, a compiled program, or tensor IR text. UserError as importer, compiler and runtime give them.
  static std::unique_ptr<Session> load(const std::string& path, const SessionOptions& options);
  /// A graph, compiled now; `compile_ms`: what it took to make the graph.
  /// `source` makes the graph once more, should a repro be needed.
  static std::unique_ptr<Session> of_graph(std::unique_ptr<tensor::Graph> graph, const SessionOptions& options,
                                           double compile_ms = 0, compile::GraphSource source = {});
  const std::vector<Port>& inputs() const { return inputs_; }
  const std::vector<Port>& outputs() const { return outputs_; }
  virtual std::vector<runtime::Item> run(std::span<const runtime::Item> inputs, runtime::CallStatistics* statistics,
                                         bool profile = false) = 0;
  virtual SessionStatistics statistics() const = 0;
  virtual const program::Program* program() const { return nullptr; }
  /// What runs the program; null where the device runs no programs.
  virtual runtime::Module* module() { return nullptr; }
  const std::vector<std::string>& warnings() const { return warnings_; }

 protected:
  std::vector<Port> inputs_, outputs_;
  std::vector<std::string> warnings_;
};

/// The devices by name; `known` ones that this build or machine lacks are an UnsupportedError, others a UserError.
void check_device(const std::string& name);
/// What code a device is given where --emit says so; none: that of its target. UserError where the device takes no other.
std::optional<ir::CodeFormat> code_format(const std::string& device, const std::string& emit);

/// What programs of a device are compiled for: of the targets that it can run the newest. UserError where a driver has to be asked and there is none.
std::string target_of(const std::string& device);

/// An ONNX file, tensor IR text, or the model of a crash repro, as a graph. `external_files`: as in frontend::ImportOptions.
std::unique_ptr<tensor::Graph> load_graph(const std::string& path,
                                          const std::map<std::string, frontend::DimRange>& dims,
                                          std::vector<std::string>* external_files = nullptr);

/// ISAs that a program is compiled for: those of this machine's family, or the host's alone.
std::vector<emit::Isa> isas_for_host();
std::vector<emit::Isa> isas_for_file();

/// Names of arrays -> graph inputs in order. UserError for a missing, an unknown or an ambiguous name. Sequences are s[0], s[1], .. or s[].
std::vector<runtime::Item> feed(const std::vector<Port>& inputs, const std::map<std::string, runtime::Tensor>& arrays,
                                const std::string& file);
/// The inputs of a graph, and what was fed for them as the tensor interpreter takes it. Data is shared.
std::vector<Port> inputs_of(const tensor::Graph& graph);
std::vector<tensor::Item> reference_items(std::span<const runtime::Item> items);
/// The reverse of feed, for outputs.
std::vector<std::pair<std::string, runtime::Tensor>> unfeed(const std::vector<Port>& outputs,
                                                            const std::vector<runtime::Item>& items);

}  // namespace stax::session
