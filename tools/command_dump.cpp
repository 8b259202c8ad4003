// SPDX-License-Identifier: Apache-2.0
// stax dump: the IR at any stage.
#include <cstdio>
#include <filesystem>
#include <regex>
#include <set>
#include <tuple>

#include <nlohmann/json.hpp>

#include "commands.h"
#include "emit/emit_gpu.h"
#include "emit/registers.h"
#include "loop/transform.h"
#include "program/at_shape.h"
#include "session/npz.h"
#include "standalone.h"
#include "support/error.h"
#include "support/nearest.h"

namespace stax::tool {
namespace {

using json = nlohmann::json;

struct DumpOptions {
  std::string model, target, kernel, at, outputs;
  std::vector<std::string> stages, dims;
  bool quiet = false;
};

/// How a kernel is first launched.
struct Use {
  std::string guard, call;
};
/// Of the kernels that are launched at a shape, or of all (null).
std::map<uint32_t, Use> uses_of(const program::Program& p, const program::AtShape* at) {
  std::map<uint32_t, Use> uses;
  const auto shown = [&](program::ExprRef e) {
    const auto known = at ? at->value(e) : std::nullopt;
    return known ? std::to_string(*known) : program::text_of(p, e);
  };
  for (const program::BlockSpec& block : p.blocks)
    for (const program::Step& step : block.steps) {
      const auto* launch = std::get_if<program::LaunchStep>(&step);
      if (!launch || (at && !at->launches(*launch))) continue;
      const auto chosen = at ? at->version(*launch) : std::nullopt;
      for (size_t v = 0; v < launch->versions.size(); ++v) {
        if (chosen && v != *chosen) continue;
        const program::LaunchVersion& version = launch->versions[v];
        std::string params;
        for (program::ExprRef e : launch->params) params += (params.empty() ? "" : ", ") + shown(e);
        uses.try_emplace(version.kernel,
                         Use{version.guard == program::kNone ? "true" : program::text_of(p, version.guard),
                             fmt::format("{} iterations, parameters ({}), {} scratch bytes", shown(version.iterations),
                                         params, shown(version.scratch_bytes))});
      }
    }
  return uses;
}

/// Different vector registers that assembly names.
int vector_registers(const std::string& assembly) {
  std::set<std::string> used;
  static const std::regex kRegister("%[xyz]mm([0-9]+)");
  for (std::sregex_iterator it(assembly.begin(), assembly.end(), kRegister), end; it != end; ++it)
    used.insert((*it)[1]);
  return static_cast<int>(used.size());
}

/// "unknown stage 'tensro', did you mean 'tensor'?"
std::string meant(const std::string& typed, const std::vector<std::string>& known) {
  const std::string near = nearest(typed, known);
  return near.empty() ? "" : ", did you mean '" + near + "'?";
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
  /// `at`: only kernels that are launched at that shape; null: all.
  void kernels(const std::string& stage, const compile::Compiled& compiled, const ir::Target& target,
               const program::AtShape* at, const std::function<std::string(size_t)>& show) {
    const std::map<uint32_t, Use> uses = uses_of(*compiled.program, at);
    bool found = o_.kernel.empty();
    for (size_t k = 0; k < compiled.kernels.size(); ++k) {
      const loop::Kernel& kernel = compiled.kernels[k];
      if (!o_.kernel.empty() && kernel.name != o_.kernel) continue;
      found = true;
      const auto use = uses.find(static_cast<uint32_t>(k));
      if (at && use == uses.end()) continue;
      const program::KernelSpec& spec = compiled.program->kernels[k];
      // PTX has comments of this form, too.
      std::string content = "// " + kernel.name + ": " + kernel.kernel_class + ", from " + spec.source + "\n";
      if (at) content += "// at this shape: " + use->second.call + "\n";
      content += show(k);
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
                    {"guard", use == uses.end() ? "never" : use->second.guard},
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
        const emit::ptx::Pressure pressure = emit::pressure_of(threads, target);
        entry["pressure"] = {{"live", pressure.live},         {"uniform", pressure.uniform},
                             {"early", pressure.early},       {"distant", pressure.distant},
                             {"repeated", pressure.repeated}, {"across", pressure.across},
                             {"meets", pressure.meets}};
      } else {
        entry["block"] = 1;
        entry["static_shared_bytes"] = entry["dynamic_shared_bytes"] = 0;
        entry["predicted_registers"] = vector_registers(emit::emit_asm_text(kernel, emit::host_isa()));
      }
      list_.push_back(std::move(entry));
    }
    if (!found) {
      std::vector<std::string> names;
      for (const loop::Kernel& kernel : compiled.kernels) names.push_back(kernel.name);
      user_error("there is no kernel '{}' in this model{}; its kernels are {}", o_.kernel, meant(o_.kernel, names),
                 fmt::join(names, ", "));
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

/// Lines as comments of an IR's text.
std::string remarks(const std::string& lines) {
  std::istringstream in(lines);
  std::string text;
  for (std::string line; std::getline(in, line);) text += "// " + line + "\n";
  return text;
}

// Stages that only GPUs have, and the target that they are for where none is named.
constexpr std::pair<std::string_view, std::string_view> kGpuStages[] = {
    {"mapping", "cuda:sm_80"}, {"thread", "cuda:sm_80"}, {"ptx", "cuda:sm_80"},       {"cuda", "cuda:sm_80"},
    {"hip", "hip:gfx90a"},     {"opencl", "opencl"},     {"standalone", "cuda:sm_80"}};

bool is_stage_of(std::string_view stage, const ir::Target& target) {
  if (stage == "mapping" || stage == "thread") return true;
  if (stage == "ptx") return target.family == "cuda";
  if (stage == "standalone") return target.family != "sim";
  return stage == target.family;
}

const ir::Target& target_of(const DumpOptions& o) {
  std::string name = o.target;
  for (const auto& [stage, target] : kGpuStages) {
    if (std::find(o.stages.begin(), o.stages.end(), stage) == o.stages.end()) continue;
    if (name.empty()) name = target;
    const ir::Target& found = ir::find_target(name);
    if (!found.is_gpu || !is_stage_of(stage, found))
      user_error("stage '{}' is not one of target '{}'; name another with --target, such as {}", stage, name, target);
  }
  return ir::find_target(name.empty() ? "cpu" : name);
}

int dump(const DumpOptions& o) {
  static const std::set<std::string> kKnown = {"import", "tensor", "loop", "llvm", "asm",    "plan",      "mapping",
                                               "thread", "ptx",    "cuda", "hip",  "opencl", "standalone"};
  for (const std::string& s : o.stages) {
    if (!kKnown.count(s))
      user_error("unknown stage '{}'{}; known ones are {}", s, meant(s, {kKnown.begin(), kKnown.end()}),
                 fmt::join(kKnown, ", "));
  }
  const bool of_graphs = std::all_of(o.stages.begin(), o.stages.end(),
                                     [](const std::string& s) { return s == "import" || s == "tensor"; });
  if (of_graphs && !o.kernel.empty())
    user_error("--kernel {}: stages import and tensor are before there are kernels; add a later one, such as loop",
               o.kernel);
  const ir::Target& target = target_of(o);
  auto graph = session::load_graph(o.model, parse_dims(o.dims));
  Dump out(o);
  auto has = [&](const char* s) { return std::find(o.stages.begin(), o.stages.end(), s) != o.stages.end(); };
  if (has("import"))
    out.text("import", "// imported: " + compile::describe(compile::sketch(*graph)) + "\n" + tensor::print(*graph));
  std::string changes;
  compile::Sketch before = compile::sketch(*graph);
  compile::PassContext passes;
  passes.target = target.name;
  passes.source = [&] { return session::load_graph(o.model, parse_dims(o.dims)); };
  if (has("tensor"))
    passes.observer = [&](std::string_view pass, const tensor::Graph& after) {
      compile::Sketch now = compile::sketch(after);
      changes += fmt::format("// pass {}: {}\n", pass, compile::describe_change(before, now));
      before = std::move(now);
    };
  compile::optimize(*graph, passes);
  if (has("tensor")) out.text("tensor", changes + tensor::print(*graph));
  if (of_graphs) return 0;
  compile::Compiled compiled = compile::build_program(*graph, target);
  compile::place_loops_side_by_side(*compiled.program, compiled.origin);
  compile::plan_memory(*compiled.program);
  std::optional<program::AtShape> shape;
  if (!o.at.empty()) shape.emplace(*compiled.program, parse_at(o.at));
  const program::AtShape* at = shape ? &*shape : nullptr;
  const auto& loops = compiled.kernels;
  const auto& threads = compiled.thread_kernels;
  const auto& kernels = compiled.program->kernels;
  if (has("loop"))
    out.kernels("loop", compiled, target, at,
                [&](size_t k) { return remarks(kernels[k].decisions) + loop::print(loops[k]); });
  if (has("llvm"))
    out.kernels("ll", compiled, target, at, [&](size_t k) { return emit::emit_llvm_text(loops[k], emit::host_isa()); });
  if (has("asm"))
    out.kernels("s", compiled, target, at, [&](size_t k) { return emit::emit_asm_text(loops[k], emit::host_isa()); });
  if (has("mapping")) out.kernels("mapping", compiled, target, at, [&](size_t k) { return mapping_of(compiled, k); });
  if (has("thread")) out.kernels("thread", compiled, target, at, [&](size_t k) { return thread::print(threads[k]); });
  constexpr std::tuple<const char*, const char*, ir::CodeFormat> kTexts[] = {{"ptx", "ptx", ir::CodeFormat::kPtx},
                                                                             {"cuda", "cu", ir::CodeFormat::kCuda},
                                                                             {"hip", "hip", ir::CodeFormat::kHip},
                                                                             {"opencl", "cl", ir::CodeFormat::kOpencl}};
  for (const auto& [stage, extension, format] : kTexts)
    if (has(stage))
      out.kernels(extension, compiled, target, at,
                  [&](size_t k) { return emit::emit_gpu(threads[k], format, target); });
  if (has("standalone")) {
    const char* extension = target.family == "cuda"  ? "standalone.cu"
                            : target.family == "hip" ? "standalone.hip"
                                                     : "standalone.cpp";
    out.kernels(extension, compiled, target, at, [&](size_t k) { return standalone_text(compiled, k, target, at); });
  }
  out.close();
  if (has("plan")) out.text("plan", at ? program::print(*compiled.program, *at) : program::print(*compiled.program));
  return 0;
}

}  // namespace

void add_dump(CLI::App& app, std::map<CLI::App*, Action>& actions) {
  auto o = std::make_shared<DumpOptions>();
  CLI::App* c = app.add_subcommand("dump", "Show a model's IR");
  c->footer(
      "  stax dump m.onnx --stage import,tensor                    the graph before and after the passes, and what "
      "each changed\n"
      "  stax dump m.onnx --stage loop --kernel contraction_0_v1   one kernel's loops, with its schedule\n"
      "  stax dump m.onnx --stage plan --at batch=4                steps, versions and memory at one shape\n"
      "  stax dump m.onnx --stage llvm,asm --outputs D             one file a kernel, and kernels.json\n"
      "  stax dump m.onnx --stage standalone --target cuda:sm_90a --kernel contraction_0_v0 --outputs D\n"
      "                                                            a file with a main that runs one kernel, checks and "
      "times it");
  c->add_option("model", o->model, "an ONNX file or .stax text")->required();
  c->add_option("--stage", o->stages,
                "import, tensor, loop, llvm, asm, plan; of GPUs mapping, thread, ptx, cuda, hip, opencl, standalone; "
                "several with commas")
      ->delimiter(',')
      ->required();
  c->add_option("--target", o->target, "cpu, or a GPU such as cuda:sm_90a, hip:gfx942, opencl, sim");
  c->add_option("--kernel", o->kernel, "only this kernel");
  c->add_option("--at", o->at,
                "a shape, NAME=N,NAME=N: what is launched there, with numbers in the place of expressions");
  c->add_option("--dim", o->dims, "range of a dim: NAME=N or NAME=LOW..HIGH");
  c->add_option("--outputs", o->outputs, "write one file per kernel and kernels.json to this folder");
  c->add_flag("--quiet", o->quiet, "write files only");
  actions[c] = [o] { return dump(*o); };
}

}  // namespace stax::tool
