// SPDX-License-Identifier: Apache-2.0
// stax dump: the IR at any stage.
#include <cstdio>
#include <filesystem>
#include <set>
#include <tuple>

#include <nlohmann/json.hpp>

#include "commands.h"
#include "emit/emit_gpu.h"
#include "emit/registers.h"
#include "loop/transform.h"
#include "session/npz.h"
#include "support/error.h"

namespace stax::tool {
namespace {

using json = nlohmann::json;

struct DumpOptions {
  std::string model, target, kernel, at, outputs;
  std::vector<std::string> stages, dims;
  bool quiet = false;
};

// The condition under which the first launch of a kernel takes it.
std::string guard_of(const program::Program& p, uint32_t kernel) {
  for (const program::BlockSpec& block : p.blocks)
    for (const program::Step& step : block.steps)
      if (const auto* launch = std::get_if<program::LaunchStep>(&step))
        for (const program::LaunchVersion& v : launch->versions)
          if (v.kernel == kernel) return v.guard == program::kNone ? "true" : program::text_of(p, v.guard);
  return "never";
}

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
  void kernels(const std::string& stage, const compile::Compiled& compiled, const ir::Target& target,
               const std::function<std::string(size_t)>& show) {
    bool found = o_.kernel.empty();
    for (size_t k = 0; k < compiled.kernels.size(); ++k) {
      const loop::Kernel& kernel = compiled.kernels[k];
      if (!o_.kernel.empty() && kernel.name != o_.kernel) continue;
      found = true;
      const program::KernelSpec& spec = compiled.program->kernels[k];
      // PTX has comments of this form, too.
      std::string content = "// " + kernel.name + ": " + kernel.kernel_class + ", from " + spec.source + "\n" + show(k);
      if (o_.outputs.empty()) {
        if (!o_.quiet) std::printf("%s\n", content.c_str());
        continue;
      }
      const std::string file = kernel.name + "." + stage;
      write(file, content);
      json params = json::array();
      for (symbolic::Expr p : kernel.params) params.push_back(p.str());
      json entry = {{"name", spec.family},
                    {"version", spec.version},
                    {"class", kernel.kernel_class},
                    {"guard", guard_of(*compiled.program, static_cast<uint32_t>(k))},
                    {"file", file},
                    {"entry", spec.entry},
                    {"parameters", params}};
      if (!compiled.thread_kernels.empty()) {
        const thread::Kernel& threads = compiled.thread_kernels[k];
        const auto number_or_text = [](symbolic::Expr e) {
          return e.is_constant() ? json(e.constant()) : json(e.str());
        };
        entry["block"] = threads.block;
        entry["grid"] = {number_or_text(threads.grid[0]), number_or_text(threads.grid[1]),
                         number_or_text(threads.grid[2])};
        entry["static_shared_bytes"] = thread::static_shared_bytes(threads);
        entry["dynamic_shared_bytes"] = number_or_text(thread::dynamic_shared_bytes(threads));
        entry["predicted_registers"] = emit::predicted_registers(threads, target);
      }
      list_.push_back(std::move(entry));
    }
    if (!found) {
      std::vector<std::string> names;
      for (const loop::Kernel& kernel : compiled.kernels) names.push_back(kernel.name);
      user_error("there is no kernel '{}' in this model; its kernels are {}", o_.kernel, fmt::join(names, ", "));
    }
  }
  void close() const {
    if (!o_.outputs.empty()) write("kernels.json", list_.dump(1));
  }

 private:
  const DumpOptions& o_;
  json list_ = json::array();  // of the kernels written, all stages together
};

std::string mapping_of(const compile::Compiled& compiled, size_t k) {
  const thread::Kernel& t = compiled.thread_kernels[k];
  std::string text = fmt::format("grid {}, {}, {}\nblock {}\nstatic shared bytes {}\ndynamic shared bytes {}\n",
                                 t.grid[0].str(), t.grid[1].str(), t.grid[2].str(), t.block,
                                 thread::static_shared_bytes(t), thread::dynamic_shared_bytes(t).str());
  text += compiled.program->kernels[k].decisions;
  text += "schedule\n";
  for (const loop::Step& step : loop::parse_schedule(t.schedule)) text += "  " + step.str() + "\n";
  return text;
}

// Stages that only GPUs have, and the target that they are for where none is named.
constexpr std::pair<std::string_view, std::string_view> kGpuStages[] = {
    {"mapping", "cuda:sm_80"}, {"thread", "cuda:sm_80"}, {"ptx", "cuda:sm_80"},
    {"cuda", "cuda:sm_80"},    {"hip", "hip:gfx90a"},    {"opencl", "opencl"}};

const ir::Target& target_of(const DumpOptions& o) {
  std::string name = o.target;
  for (const auto& [stage, target] : kGpuStages) {
    if (std::find(o.stages.begin(), o.stages.end(), stage) == o.stages.end()) continue;
    if (name.empty()) name = target;
    const ir::Target& found = ir::find_target(name);
    const bool text = stage != "mapping" && stage != "thread";
    if (!found.is_gpu || (text && stage != found.family && !(stage == "ptx" && found.family == "cuda")))
      user_error("stage '{}' is not one of target '{}'; name another with --target, such as {}", stage, name, target);
  }
  return ir::find_target(name.empty() ? "cpu" : name);
}

int dump(const DumpOptions& o) {
  static const std::set<std::string> kKnown = {"import",  "tensor", "loop", "llvm", "asm", "plan",
                                               "mapping", "thread", "ptx",  "cuda", "hip", "opencl"};
  for (const std::string& s : o.stages) {
    if (s == "standalone") unsupported("stage '{}' is not in this build", s);
    if (!kKnown.count(s)) user_error("unknown stage '{}'; known ones are {}", s, fmt::join(kKnown, ", "));
  }
  const ir::Target& target = target_of(o);
  auto graph = session::load_graph(o.model, parse_dims(o.dims));
  Dump out(o);
  auto has = [&](const char* s) { return std::find(o.stages.begin(), o.stages.end(), s) != o.stages.end(); };
  if (has("import")) out.text("import", tensor::print(*graph));
  compile::PassContext passes;
  compile::optimize(*graph, passes);
  if (has("tensor")) out.text("tensor", tensor::print(*graph));
  if (std::all_of(o.stages.begin(), o.stages.end(),
                  [](const std::string& s) { return s == "import" || s == "tensor"; }))
    return 0;
  compile::Compiled compiled = compile::build_program(*graph, target);
  compile::plan_memory(*compiled.program);
  const auto& loops = compiled.kernels;
  const auto& threads = compiled.thread_kernels;
  if (has("loop")) out.kernels("loop", compiled, target, [&](size_t k) { return loop::print(loops[k]); });
  if (has("llvm"))
    out.kernels("ll", compiled, target, [&](size_t k) { return emit::emit_llvm_text(loops[k], emit::host_isa()); });
  if (has("asm"))
    out.kernels("s", compiled, target, [&](size_t k) { return emit::emit_asm_text(loops[k], emit::host_isa()); });
  if (has("mapping")) out.kernels("mapping", compiled, target, [&](size_t k) { return mapping_of(compiled, k); });
  if (has("thread")) out.kernels("thread", compiled, target, [&](size_t k) { return thread::print(threads[k]); });
  constexpr std::tuple<const char*, const char*, ir::CodeFormat> kTexts[] = {{"ptx", "ptx", ir::CodeFormat::kPtx},
                                                                             {"cuda", "cu", ir::CodeFormat::kCuda},
                                                                             {"hip", "hip", ir::CodeFormat::kHip},
                                                                             {"opencl", "cl", ir::CodeFormat::kOpencl}};
  for (const auto& [stage, extension, format] : kTexts)
    if (has(stage))
      out.kernels(extension, compiled, target, [&](size_t k) { return emit::emit_gpu(threads[k], format, target); });
  out.close();
  if (has("plan")) out.text("plan", program::print(*compiled.program));
  return 0;
}

}  // namespace

void add_dump(CLI::App& app, std::map<CLI::App*, Action>& actions) {
  auto o = std::make_shared<DumpOptions>();
  CLI::App* c = app.add_subcommand("dump", "Show a model's IR");
  c->add_option("model", o->model, "an ONNX file or .stax text")->required();
  c->add_option(
       "--stage", o->stages,
       "import, tensor, loop, llvm, asm, plan; of GPUs mapping, thread, ptx, cuda, hip, opencl; several with commas")
      ->delimiter(',')
      ->required();
  c->add_option("--target", o->target, "cpu, or a GPU such as cuda:sm_90a, hip:gfx942, opencl, sim");
  c->add_option("--kernel", o->kernel, "only this kernel");
  c->add_option("--at", o->at, "a shape: NAME=N,NAME=N");
  c->add_option("--dim", o->dims, "range of a dim: NAME=N or NAME=LOW..HIGH");
  c->add_option("--outputs", o->outputs, "write one file per kernel and kernels.json to this folder");
  c->add_flag("--quiet", o->quiet, "write files only");
  actions[c] = [o] { return dump(*o); };
}

}  // namespace stax::tool
