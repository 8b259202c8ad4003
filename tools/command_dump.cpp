// SPDX-License-Identifier: Apache-2.0
// stax dump: the IR at any stage.
#include <cstdio>
#include <filesystem>
#include <set>

#include <nlohmann/json.hpp>

#include "commands.h"
#include "session/npz.h"
#include "support/error.h"

namespace stax::tool {
namespace {

using json = nlohmann::json;

struct DumpOptions {
  std::string model, target = "cpu", kernel, at, outputs;
  std::vector<std::string> stages, dims;
  bool quiet = false;
};

class Dump {
 public:
  explicit Dump(const DumpOptions& o) : o_(o) {}

  void text(const std::string& stage, const std::string& content) const {
    if (o_.outputs.empty()) {
      if (!o_.quiet) std::printf("// stage %s\n%s\n", stage.c_str(), content.c_str());
      return;
    }
    write(stage + ".txt", content);
  }
  void write(const std::string& name, const std::string& content) const {
    session::write_file_atomically((std::filesystem::path(o_.outputs) / name).string(),
                                   {reinterpret_cast<const uint8_t*>(content.data()), content.size()});
  }
  void kernels(const std::string& stage, const compile::Compiled& compiled,
               const std::function<std::string(const loop::Kernel&)>& show) {
    bool found = o_.kernel.empty();
    for (size_t k = 0; k < compiled.kernels.size(); ++k) {
      const loop::Kernel& kernel = compiled.kernels[k];
      if (!o_.kernel.empty() && kernel.name != o_.kernel) continue;
      found = true;
      std::string content = "// " + kernel.name + ": " + kernel.kernel_class + ", from " +
                            compiled.program->kernels[k].source + "\n" + show(kernel);
      if (o_.outputs.empty()) {
        if (!o_.quiet) std::printf("%s\n", content.c_str());
        continue;
      }
      std::string file = kernel.name + "." + stage;
      write(file, content);
      json params = json::array();
      for (symbolic::Expr p : kernel.params) params.push_back(p.str());
      list_.push_back({{"name", kernel.name},
                       {"version", 0},
                       {"class", kernel.kernel_class},
                       {"guard", "true"},
                       {"file", file},
                       {"entry", compiled.program->kernels[k].entry},
                       {"parameters", params}});
    }
    if (!found) {
      std::vector<std::string> names;
      for (const loop::Kernel& kernel : compiled.kernels) names.push_back(kernel.name);
      user_error("there is no kernel '{}' in this model; its kernels are {}", o_.kernel, fmt::join(names, ", "));
    }
    if (!o_.outputs.empty()) write("kernels.json", list_.dump(1));
  }

 private:
  const DumpOptions& o_;
  json list_ = json::array();  // of the kernels written, all stages together
};

int dump(const DumpOptions& o) {
  static const std::set<std::string> kKnown = {"import", "tensor", "loop", "llvm", "asm", "plan"};
  static const std::set<std::string> kPlanned = {"mapping", "thread", "ptx", "cuda", "hip", "opencl", "standalone"};
  for (const std::string& s : o.stages) {
    if (kPlanned.count(s)) unsupported("stage '{}' is not in this build", s);
    if (!kKnown.count(s)) user_error("unknown stage '{}'; known ones are import, tensor, loop, llvm, asm and plan", s);
  }
  if (o.target != "cpu" && o.target != "cpu:native") unsupported("target '{}' is not in this build; use cpu", o.target);
  auto graph = session::load_graph(o.model, parse_dims(o.dims));
  Dump out(o);
  auto has = [&](const char* s) { return std::find(o.stages.begin(), o.stages.end(), s) != o.stages.end(); };
  if (has("import")) out.text("import", tensor::print(*graph));
  compile::PassContext passes;
  compile::optimize(*graph, passes);
  if (has("tensor")) out.text("tensor", tensor::print(*graph));
  if (!has("loop") && !has("llvm") && !has("asm") && !has("plan")) return 0;
  compile::Compiled compiled = compile::build_program(*graph);
  compile::plan_memory(*compiled.program);
  if (has("loop")) out.kernels("loop", compiled, [](const loop::Kernel& k) { return loop::print(k); });
  if (has("llvm"))
    out.kernels("ll", compiled, [](const loop::Kernel& k) { return emit::emit_llvm_text(k, emit::host_isa()); });
  if (has("asm"))
    out.kernels("s", compiled, [](const loop::Kernel& k) { return emit::emit_asm_text(k, emit::host_isa()); });
  if (has("plan")) out.text("plan", program::print(*compiled.program));
  return 0;
}

}  // namespace

void add_dump(CLI::App& app, std::map<CLI::App*, Action>& actions) {
  auto o = std::make_shared<DumpOptions>();
  CLI::App* c = app.add_subcommand("dump", "Show a model's IR");
  c->add_option("model", o->model, "an ONNX file or .stax text")->required();
  c->add_option("--stage", o->stages, "import, tensor, loop, llvm, asm, plan; several with commas")
      ->delimiter(',')
      ->required();
  c->add_option("--target", o->target, "cpu");
  c->add_option("--kernel", o->kernel, "only this kernel");
  c->add_option("--at", o->at, "a shape: NAME=N,NAME=N");
  c->add_option("--dim", o->dims, "range of a dim: NAME=N or NAME=LOW..HIGH");
  c->add_option("--outputs", o->outputs, "write one file per kernel and kernels.json to this folder");
  c->add_flag("--quiet", o->quiet, "write files only");
  actions[c] = [o] { return dump(*o); };
}

}  // namespace stax::tool
