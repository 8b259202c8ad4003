// SPDX-License-Identifier: Apache-2.0
// stax doctor: why kernels are good or bad at a shape.
#include <cstdio>

#include <nlohmann/json.hpp>

#include "commands.h"
#include "session/doctor.h"
#include "session/npz.h"
#include "support/error.h"

namespace stax::tool {
namespace {

using json = nlohmann::json;

struct DoctorFlags {
  std::string model, at, target = "cuda:sm_80", kernel, json_file;
  std::vector<std::string> dims;
};

json json_of(const program::KernelSpec& spec, const session::LaunchDiagnosis& l) {
  const session::Diagnosis& d = l.diagnosis;
  json findings = json::array();
  for (const session::Finding& f : d.findings)
    findings.push_back({{"pitfall", session::name_of(f.pitfall)}, {"advice", f.advice}});
  return {{"name", spec.family},
          {"version", spec.version},
          {"class", spec.kernel_class},
          {"source", spec.source},
          {"launches", l.launches},
          {"blocks", d.blocks},
          {"block", d.block},
          {"registers", d.registers},
          {"shared_bytes", d.shared_bytes},
          {"waves", d.waves},
          {"tail_efficiency", d.tail},
          {"occupancy", d.occupancy.fraction},
          {"occupancy_limiter", d.occupancy.limiter},
          {"least_bytes", d.least_bytes},
          {"moved_bytes", d.moved_bytes},
          {"coalescing", d.coalescing},
          {"bank_conflicts", d.bank_conflicts},
          {"divergence", d.divergence},
          {"memory_us", d.memory_us},
          {"arithmetic_us", d.compute_us},
          {"shared_us", d.shared_us},
          {"predicted_us", d.predicted_us},
          {"bound", d.bound},
          {"findings", findings},
          {"advice", d.advice()}};
}

int doctor(const DoctorFlags& o) {
  const ir::Target& target = ir::find_target(o.target);
  if (!target.is_gpu)
    user_error("--target {} is no GPU; name one such as cuda:sm_90a, hip:gfx942 or opencl", target.name);
  refuse_to_overwrite(o.json_file, o.model);
  const std::map<std::string, int64_t> at = parse_at(o.at);
  auto graph = session::load_graph(o.model, parse_dims(o.dims));
  compile::PassContext passes;
  passes.target = target.name;
  compile::optimize(*graph, passes);
  const compile::Compiled compiled = compile::build_program(*graph, target);
  const program::Program& program = *compiled.program;
  std::vector<session::LaunchDiagnosis> launches = session::diagnose_program(program, target, at);
  if (!o.kernel.empty()) {
    std::erase_if(launches, [&](const session::LaunchDiagnosis& l) {
      return program.kernels[l.kernel].name != o.kernel && program.kernels[l.kernel].family != o.kernel;
    });
    if (launches.empty()) user_error("kernel '{}' is not launched at this shape", o.kernel);
  }
  json list = json::array();
  double total = 0;
  for (const session::LaunchDiagnosis& l : launches) {
    const program::KernelSpec& spec = program.kernels[l.kernel];
    std::printf(
        "%s%s", l.diagnosis.str().c_str(),
        fmt::format("  from {}{}\n", spec.source, l.launches > 1 ? fmt::format("; launched {} times", l.launches) : "")
            .c_str());
    total += l.diagnosis.predicted_us * l.launches;
    list.push_back(json_of(spec, l));
  }
  std::printf("%zu kernels on %s, predicted %.1f us in all\n", launches.size(), target.name.c_str(), total);
  if (!o.json_file.empty()) {
    const json report = {{"target", target.name}, {"at", at}, {"predicted_us", total}, {"kernels", list}};
    const std::string text = report.dump(1, ' ', false, json::error_handler_t::replace);
    session::write_file_atomically(o.json_file, {reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  }
  return 0;
}

}  // namespace

void add_doctor(CLI::App& app, std::map<CLI::App*, Action>& actions) {
  auto o = std::make_shared<DoctorFlags>();
  CLI::App* c = app.add_subcommand("doctor", "Explain what each GPU kernel does at a shape, and what is in its way");
  c->footer(
      "  stax doctor m.onnx --at batch=8,length=128                     every kernel that is launched at this shape\n"
      "  stax doctor m.onnx --at batch=8,length=128 --target hip:gfx942 --json figures.json");
  c->add_option("model", o->model, "an ONNX file or .stax text")->required();
  c->add_option("--at", o->at, "the shape: NAME=N,NAME=N for all dims of the inputs");
  c->add_option("--target", o->target, "a GPU such as cuda:sm_90a, hip:gfx942, opencl (default: cuda:sm_80)");
  c->add_option("--kernel", o->kernel, "only this kernel");
  c->add_option("--dim", o->dims, "range of a dim: NAME=N or NAME=LOW..HIGH");
  c->add_option("--json", o->json_file, "write the figures to this file");
  actions[c] = [o] { return doctor(*o); };
}

}  // namespace stax::tool
