// SPDX-License-Identifier: Apache-2.0
// stax bisect: the pass, kernel and version that make a wrong answer. stax replay: a repro again.
#include <cstdio>
#include <cstdlib>

#include "bisect/bisect.h"
#include "bisect/crash.h"
#include "commands.h"
#include "session/npz.h"
#include "support/error.h"

namespace stax::tool {
namespace {

constexpr int kFault = 70;

struct BisectCommand {
  std::string model;
  std::vector<std::string> inputs, dims;
  std::string device = "cpu", emit;
  int threads = 0;
};

int bisect_command(const BisectCommand& o) {
  if (o.threads < 0) user_error("--threads must be at least 1, or 0 for all cores");
  if (o.inputs.empty()) user_error("no input files; give the call that goes wrong with --inputs a.npz");
  const auto dims = parse_dims(o.dims);
  const auto source = [&] { return session::load_graph(o.model, dims); };
  const bisect::BisectOptions options{.threads = o.threads, .device = o.device, .emit = o.emit};
  // A compiler that is wrong may not live to say so.
  if (const auto ended = bisect::go_on_apart()) {
    if (ended->crash.empty()) return ended->status;
    const auto inputs = [&] {
      const auto arrays = session::read_npz(o.inputs[0]);
      return session::reference_items(session::feed(session::inputs_of(*source()), arrays, o.inputs[0]));
    };
    if (const auto found = bisect::crash_of(source, inputs, options))
      report_finding(o.model, *found);
    else
      std::printf("%s: %s, and no part of the way to its program does by itself\n", o.model.c_str(),
                  ended->crash.c_str());
    return kFault;
  }
  const std::vector<session::Port> ports = session::inputs_of(*source());
  int status = 0;
  std::vector<std::vector<tensor::Item>> calls;
  for (const std::string& file : o.inputs) {
    const auto arrays = session::read_npz(file);
    calls.push_back(session::reference_items(session::feed(ports, arrays, file)));
    auto found = bisect::bisect(source, calls.back(), options);
    if (!found) {
      std::printf("%s: all levels agree\n", file.c_str());
      continue;
    }
    report_finding(file, *found);
    status = kFault;
  }
  if (status != 0 || calls.size() < 2) return status;
  auto found = bisect::bisect_session(source, std::move(calls), options);
  if (!found) {
    std::printf("and in one session\n");
    return 0;
  }
  report_finding("all in one session", *found);
  return kFault;
}

struct ReplayCommand {
  std::string file;
  int threads = 0;
};

int replay_command(const ReplayCommand& o) {
  if (o.threads < 0) user_error("--threads must be at least 1, or 0 for all cores");
  const std::vector<uint8_t> bytes = session::read_file(o.file);
  const std::string text(bytes.begin(), bytes.end());
  if (!compile::is_repro(text))
    user_error("'{}' is no repro; those begin with `stax_repro`, and stax bisect and faults of the compiler write them",
               o.file);
  compile::Repro repro;
  std::optional<bisect::Finding> found;
  std::string crash;
  try {
    repro = compile::parse_repro(text);
    if (const auto ended = bisect::go_on_apart()) {
      if (ended->crash.empty()) return ended->status;
      crash = ended->crash;
    }
    // The options of the run that failed, before anything asks for them.
    if (!repro.disable.empty()) ::setenv("STAX_DISABLE", repro.disable.c_str(), 0);
    if (crash.empty()) found = bisect::replay(repro, {.threads = o.threads});
  } catch (const UserError& e) {
    user_error("'{}': {}", o.file, e.what());
  }
  std::printf("it was: %s %s: %s\n",
              repro.kind == compile::Repro::Kind::kPass         ? "pass"
              : repro.kind == compile::Repro::Kind::kKernel     ? "kernel stage"
              : repro.kind == compile::Repro::Kind::kExpression ? "expression"
                                                                : "calls in one",
              repro.name.c_str(), repro.fault.c_str());
  if (!crash.empty()) {
    std::printf("it is still there: %s\n", crash.c_str());
    return kFault;
  }
  if (!found) {
    std::printf("it is gone\n");
    return 0;
  }
  std::printf("it is still there: %s\n", bisect::text_of(*found).c_str());
  return kFault;
}

}  // namespace

void report_finding(const std::string& what, const bisect::Finding& finding) {
  if (finding.repro.model.empty()) {  // a model that cannot even be read
    std::printf("%s: the first to differ is %s\n", what.c_str(), bisect::text_of(finding).c_str());
    return;
  }
  const std::string path = compile::write_repro(finding.repro);
  std::printf("%s: the first to differ is %s\n  repro:    %s\n", what.c_str(), bisect::text_of(finding).c_str(),
              path.c_str());
  for (const std::string& note : finding.repro.notes) std::printf("  note:     %s\n", note.c_str());
  std::printf("  again:    stax replay %s\n", path.c_str());
}

void add_bisect(CLI::App& app, std::map<CLI::App*, Action>& actions) {
  auto o = std::make_shared<BisectCommand>();
  CLI::App* c = app.add_subcommand("bisect", "Find the pass, kernel and version that make a wrong answer");
  c->footer(
      "Ends with 0 where all levels agree on the call, else with 70 and a repro, which `stax replay` runs.\n"
      "  stax bisect m.onnx --inputs wrong.npz\n"
      "  stax bisect m.onnx --inputs a.npz b.npz                 each alone, and then all in one session\n"
      "  stax bisect m.onnx --inputs wrong.npz --device sim      the way to a GPU, on the interpreter of thread IR");
  c->add_option("model", o->model, "an ONNX file or .stax text")->required();
  c->add_option("--inputs", o->inputs, ".npz files: calls that go wrong");
  c->add_option("--dim", o->dims, "range of a dim: NAME=N or NAME=LOW..HIGH");
  c->add_option("--device", o->device, "what the program runs on: cpu, sim, opencl, cuda or hip (default: cpu)");
  add_emit(c, o->emit);
  c->add_option("--threads", o->threads, "worker threads (default: all cores)");
  actions[c] = [o] { return bisect_command(*o); };
}

void add_replay(CLI::App& app, std::map<CLI::App*, Action>& actions) {
  auto o = std::make_shared<ReplayCommand>();
  CLI::App* c = app.add_subcommand("replay", "Run a repro again: does it still go wrong?");
  c->footer(
      "Ends with 70 where it does, with 0 where it is gone.\n"
      "  stax replay stax-repro-4711-fuse_ops.stax");
  c->add_option("repro", o->file, "a repro that stax bisect, stax verify or a failing pass wrote")->required();
  c->add_option("--threads", o->threads, "worker threads (default: all cores)");
  actions[c] = [o] { return replay_command(*o); };
}

}  // namespace stax::tool
