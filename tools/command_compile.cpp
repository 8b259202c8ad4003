// SPDX-License-Identifier: Apache-2.0
// stax compile: a model into a file that the runtime loads without a compiler.
#include <cstdio>
#include <thread>

#include "commands.h"
#include "session/npz.h"
#include "support/error.h"

namespace stax::tool {
namespace {

struct CompileOptions {
  std::string model, output, target = "cpu";
  std::vector<std::string> dims;
};

int compile_command(const CompileOptions& o) {
  refuse_to_overwrite(o.output, o.model);
  const ir::Target& target = ir::find_target(o.target);
  auto graph = session::load_graph(o.model, parse_dims(o.dims));
  for (const std::string& w : graph->warnings) std::fprintf(stderr, "stax: warning: %s\n", w.c_str());
  compile::CompileOptions options;
  options.target = o.target;
  if (!target.is_gpu) options.isas = o.target == "cpu" ? session::isas_for_file() : session::isas_for_host();
  options.threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  compile::Compiled compiled = compile::compile_graph(*graph, options);
  session::write_file_atomically(o.output, program::serialize(*compiled.program));
  return 0;
}

}  // namespace

void add_compile(CLI::App& app, std::map<CLI::App*, Action>& actions) {
  auto o = std::make_shared<CompileOptions>();
  CLI::App* c = app.add_subcommand("compile", "Compile a model into a .stax file");
  c->footer("  stax compile m.onnx -o m.stax --dim batch=1..8\n  stax run m.stax --inputs a.npz");
  c->add_option("model", o->model, "an ONNX file or .stax text")->required();
  c->add_option("-o,--output", o->output, "the .stax file to write")->required();
  c->add_option("--target", o->target,
                "cpu (AVX2 and AVX-512, chosen at load), cpu:native, or a GPU such as cuda:sm_90a, hip:gfx942, opencl");
  c->add_option("--dim", o->dims, "range of a dim: NAME=N or NAME=LOW..HIGH");
  actions[c] = [o] { return compile_command(*o); };
}

}  // namespace stax::tool
