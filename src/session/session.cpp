// SPDX-License-Identifier: Apache-2.0
#include "session/session.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <set>
#include <thread>

#include "compile/repro.h"
#include "runtime/cuda.h"
#include "runtime/hip.h"
#include "session/devices.h"
#include "session/npz.h"
#include "session/program_cache.h"
#include "support/debug.h"
#include "support/error.h"
#include "support/mapped_file.h"
#include "support/nearest.h"

namespace stax::session {

namespace {

using Clock = std::chrono::steady_clock;
double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

std::vector<uint8_t> first_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::vector<uint8_t> bytes(64);
  in.read(reinterpret_cast<char*>(bytes.data()), 64);
  bytes.resize(static_cast<size_t>(std::max<std::streamsize>(0, in.gcount())));
  return bytes;
}

// A dim of several declared sizes that an operator can only take one of: the user's fault if the user declared it, else worth a warning.
void check_dims_stay_dynamic(tensor::Graph& graph, const std::map<std::string, frontend::DimRange>& dims) {
  std::set<const symbolic::ExprNode*> seen;
  for (const auto& input : graph.inputs) {
    for (symbolic::Expr e : input.value->type.extents) {
      if (!e.is_symbol() || !seen.insert(e.node()).second) continue;
      symbolic::Interval declared = e.range(), possible = graph.constraints.range(e);
      if (declared.is_constant() || !possible.is_constant()) continue;
      std::string where;
      tensor::for_each_op(graph.body, [&](tensor::Op& op) {
        const auto* check = op.as<tensor::Check>();
        if (where.empty() && check && symbolic::depends_on(check->condition, e)) where = op.source;
      });
      const std::string& name = e.symbol().name;
      std::string text =
          fmt::format("dim '{}' can only be {}{}{}", name, possible.lo, where.empty() ? "" : ": ", where);
      if (dims.count(name))
        user_error("--dim {}={}..{}: {}; declare {}={} or leave it out", name, declared.lo, declared.hi, text, name,
                   possible.lo);
      graph.warnings.push_back(text);
    }
  }
}

}  // namespace

std::string target_of(const std::string& device) {
  if (device == "hip") {
    const std::string arch = runtime::hip_architecture();
    std::vector<std::string> known;
    for (const ir::Target& t : ir::targets()) {
      if (t.family != "hip") continue;
      if (t.arch == arch) return t.name;
      known.push_back(t.arch);
    }
    user_error("HIP: the GPU is a {}; Stax has code for {}", arch, fmt::join(known, ", "));
  }
  if (device != "cuda") return device;
  const int capability = runtime::cuda_compute_capability();
  const ir::Target* best = nullptr;
  int best_number = 0;
  for (const ir::Target& t : ir::targets()) {
    if (t.family != "cuda") continue;
    const int number = std::atoi(t.arch.c_str() + 3);
    const bool exact_only = t.arch.back() == 'a';  // features of one architecture alone
    if (exact_only ? number != capability : number > capability) continue;
    if (best == nullptr || number > best_number || (number == best_number && exact_only))
      best = &t, best_number = number;
  }
  if (best == nullptr)
    user_error("CUDA: the GPU's compute capability {}.{} is below 7.5, the least that Stax has code for",
               capability / 10, capability % 10);
  return best->name;
}

namespace {

compile::Compiled compile_for_device(tensor::Graph& graph, const SessionOptions& options, compile::GraphSource source) {
  compile::CompileOptions compile_options;
  compile_options.passes.source = std::move(source);
  compile_options.threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  if (options.device == "cpu") compile_options.isas = isas_for_host();
  std::unique_ptr<DiskCache> cache = user_cache();
  compile_options.cache = cache.get();
  if (options.device != "loop") compile_options.target = target_of(options.device);
  compile_options.format = code_format(options.device, options.emit);
  return compile::compile_graph(graph, compile_options);
}

/// All that a program depends on besides the model's files and the build of Stax.
std::string program_key(const SessionOptions& options) {
  std::string key = fmt::format("target {}, code {}", target_of(options.device), options.emit);
  if (options.device == "cpu")
    for (const emit::Isa isa : isas_for_host()) key += fmt::format(", {}", emit::name_of(isa));
  for (const auto& [name, range] : options.dims) key += fmt::format("\n{}={}..{}", name, range.lo, range.hi);
  return key;
}

}  // namespace

std::optional<ir::CodeFormat> code_format(const std::string& device, const std::string& emit) {
  if (emit.empty()) return std::nullopt;
  if (device != "cuda" || (emit != "cuda" && emit != "ptx"))
    user_error("--emit is for --device cuda, which takes ptx or cuda");
  return emit == "cuda" ? ir::CodeFormat::kCuda : ir::CodeFormat::kPtx;
}

void check_device(const std::string& name) {
  static const std::vector<std::string> kKnown = {"cpu", "cuda", "hip", "opencl", "sim", "loop", "reference"};
  if (std::find(kKnown.begin(), kKnown.end(), name) != kKnown.end()) return;
  const std::string near = nearest(name, kKnown);
  user_error("unknown device '{}'{}; known ones are cpu, cuda, hip, opencl, sim, loop and reference", name,
             near.empty() ? "" : ", did you mean '" + near + "'?");
}

std::vector<emit::Isa> isas_for_host() { return {emit::host_isa()}; }
std::vector<emit::Isa> isas_for_file() {
  return {emit::Isa::kAvx512Vnni, emit::Isa::kAvx512, emit::Isa::kAvxVnni, emit::Isa::kAvx2};
}

std::unique_ptr<tensor::Graph> load_graph(const std::string& path,
                                          const std::map<std::string, frontend::DimRange>& dims,
                                          std::vector<std::string>* external_files) {
  std::vector<uint8_t> head = first_bytes(path);
  if (program::is_program_file(head))
    user_error("'{}' is a compiled program; this needs the model it was made from", path);
  std::string_view text(reinterpret_cast<const char*>(head.data()), head.size());
  if (path.ends_with(".stax") && !text.empty()) {
    std::vector<uint8_t> bytes = read_file(path);
    std::string whole(bytes.begin(), bytes.end());
    std::unique_ptr<tensor::Graph> graph;
    try {
      graph = tensor::parse_graph(compile::is_repro(whole) ? compile::parse_repro(whole).model : whole);
    } catch (const UserError& e) {
      user_error("'{}': {}", path, e.what());
    }
    if (!dims.empty()) user_error("--dim has no effect on '{}': IR text declares its own ranges", path);
    return graph;
  }
  frontend::ImportOptions options;
  options.dims = dims;
  options.external_files = external_files;
  auto graph = frontend::import_onnx(path, options);
  check_dims_stay_dynamic(*graph, dims);
  return graph;
}

std::unique_ptr<Session> Session::load(const std::string& path, const SessionOptions& options) {
  check_device(options.device);
  auto start = Clock::now();
  if (program::is_program_file(first_bytes(path))) {
    if (options.device == "reference")
      user_error("'{}' is a compiled program; device 'reference' needs the model it was made from", path);
    if (!options.dims.empty())
      user_error("--dim has no effect on '{}': its dims were fixed when it was compiled", path);
    MappedBytes file = map_file(path);
    auto program = std::make_shared<program::Program>(program::deserialize(file.bytes(), path, file.data));
    const std::string& made_for = ir::find_target(program->target).family;
    if (made_for != options.device && !(made_for == "cpu" && options.device == "loop"))
      user_error("'{}' was compiled for {}; device '{}' needs `stax compile --target {}`", path, program->target,
                 options.device, options.device == "loop" ? "cpu" : options.device);
    return make_program_session(program, options, 0.0, ms_since(start));
  }
  const compile::GraphSource source = [path, dims = options.dims] { return load_graph(path, dims); };
  // The interpreters want more than the program; what debugging options show happens on the way to it.
  if (options.device == "reference" || options.device == "loop" || debug_options().any())
    return of_graph(source(), options, ms_since(start), source);
  const ProgramCache cache(user_cache(), path, program_key(options));
  if (std::shared_ptr<program::Program> program = cache.find())
    return make_program_session(std::move(program), options, 0.0, ms_since(start));
  std::vector<std::string> external_files;
  std::unique_ptr<tensor::Graph> graph = load_graph(path, options.dims, &external_files);
  compile::Compiled compiled = compile_for_device(*graph, options, source);
  graph.reset();
  cache.insert(*compiled.program, std::move(external_files));
  return make_program_session(compiled.program, options, ms_since(start), 0.0);
}

std::unique_ptr<Session> Session::of_graph(std::unique_ptr<tensor::Graph> graph, const SessionOptions& options,
                                           double compile_ms, compile::GraphSource source) {
  check_device(options.device);
  auto start = Clock::now();
  if (options.device == "reference" && options.check_every > 0)
    user_error("versions of kernels are checked, and device 'reference' has none; leave out --check");
  if (options.device == "reference") return make_reference_session(std::move(graph), compile_ms);
  compile::Compiled compiled = compile_for_device(*graph, options, std::move(source));
  graph.reset();
  return make_program_session(compiled.program, options, compile_ms + ms_since(start), 0.0,
                              std::move(compiled.kernels));
}

}  // namespace stax::session
