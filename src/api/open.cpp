// SPDX-License-Identifier: Apache-2.0
// Models that have to be compiled, and programs as files: what libstax has beyond libstax_runtime.
#include <filesystem>
#include <thread>

#include "api/session_engine.h"
#include "session/npz.h"
#include "support/error.h"

namespace stax {

bool has_compiler() { return true; }

}  // namespace stax

namespace stax::embed {
namespace {

session::SessionOptions session_options(const Options& options) {
  session::SessionOptions result;
  result.device = options.device;
  result.threads = options.threads;
  for (const auto& [name, range] : options.dims) {
    if (range.lo < 0 || range.hi < range.lo)
      user_error("dim '{}' has the range {}..{}; give 0 <= lo <= hi", name, range.lo, range.hi);
    result.dims[name] = {range.lo, range.hi};
  }
  return result;
}

}  // namespace

std::shared_ptr<Engine> engine_of(std::unique_ptr<session::Session> session, const std::string& name) {
  if (!session->module()) user_error("device 'reference' is for `stax run`; use cpu or loop");
  auto engine = std::make_shared<Engine>();
  session::SessionStatistics statistics = session->statistics();
  engine->name = name;
  engine->warnings = session->warnings();
  engine->compile_ms = statistics.compile_ms;
  engine->load_ms = statistics.load_ms;
  engine->module = session->module();
  engine->keep = std::shared_ptr<session::Session>(std::move(session));
  return engine;
}

std::shared_ptr<Engine> open_model(const Source& source, const Options& options) {
  require_valid(options);
  session::SessionOptions given = session_options(options);
  const auto program = std::make_shared<const program::Program*>(nullptr);
  given.check_every = options.check_every;
  given.alarm = alarm_of(options, program);
  const auto engine_with_checks = [&](std::unique_ptr<session::Session> session) {
    *program = session->program();
    return engine_of(std::move(session), source.path);
  };
  if (!source.bytes) {
    if (options.device == "cpu" && is_program_file(source.path)) return open_program_file(source.path, options);
    return engine_with_checks(session::Session::load(source.path, given));
  }
  std::span<const std::byte> bytes = *source.bytes;
  if (is_program(bytes)) return open_program(bytes, source.path, options);
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (source.path.ends_with(".stax"))
    return engine_with_checks(session::Session::of_graph(tensor::parse_graph(std::string(text)), given));
  frontend::ImportOptions import_options;
  import_options.dims = given.dims;
  std::string folder = std::filesystem::path(source.path).parent_path().string();
  return engine_with_checks(
      session::Session::of_graph(frontend::import_onnx_bytes(text, folder, source.path, import_options), given));
}

void compile_to(const Engine& engine, const std::string& path) {
  program::Program program = engine.module->program();
  // Kernels are kept as text, from which code is made for what this machine's own code does not cover.
  std::vector<loop::Kernel> kernels;
  std::vector<emit::NativeKernel> natives;
  for (emit::Isa isa : session::isas_for_file()) {
    bool there = std::any_of(program.images.begin(), program.images.end(),
                             [&](const program::Image& i) { return i.isa == emit::name_of(isa); });
    if (there || program.kernels.empty()) continue;
    if (kernels.empty())
      for (const program::KernelSpec& k : program.kernels) kernels.push_back(loop::parse_kernel(k.loop_text));
    natives.clear();
    for (size_t k = 0; k < kernels.size(); ++k) natives.push_back({&kernels[k], program.kernels[k].entry});
    emit::EmitOptions options;
    options.isa = isa;
    options.threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    program.images.push_back({std::string(emit::name_of(isa)), emit::emit_native(natives, options).bytes});
  }
  session::write_file_atomically(path, program::serialize(program));
}

}  // namespace stax::embed
