// SPDX-License-Identifier: Apache-2.0
#include "bisect/crash.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "bisect/fewer_ops.h"
#include "bisect/graph_check.h"
#include "bisect/isolated.h"
#include "bisect/kernel_case.h"
#include "bisect/kernel_chain.h"
#include "bisect/small_data.h"
#include "compile/kernel_stages.h"
#include "compile/pipeline.h"
#include "support/debug.h"
#include "support/error.h"

namespace stax::bisect {

using compile::Repro;
using tensor::Item;
using tensor::Op;

namespace {

// For a part of the way, and for a small part of the model that dies, too.
constexpr int kSeconds = 60, kPartSeconds = 15;

bool is_crash(const std::string& end) { return end.starts_with("it crashes"); }

/// What a process has come to, for the one that waits for it.
struct Note {
  int64_t count;  // passes that are done, or the number of the op
  char level[32], name[64], detail[512];
  template <size_t N>
  static void set(char (&to)[N], std::string_view text) {
    std::snprintf(to, N, "%.*s", static_cast<int>(text.size()), text.data());
  }
};

class Crash {
 public:
  Crash(const compile::GraphSource& source, const std::function<std::vector<Item>()>& inputs,
        const BisectOptions& options)
      : source_(source), inputs_(inputs), machine_(machine_of(options.device, options.emit)), memory_(sizeof(Note)) {}

  std::optional<Finding> run() {
    if (auto f = in_passes()) return f;
    if (auto f = in_kernels(false)) return f;
    if (auto f = in_steps()) return f;
    return in_kernels(true);
  }

 private:
  Note& note() const { return *memory_.as<Note>(); }
  void say(std::string_view level, std::string_view name, std::string_view detail) const {
    Note::set(note().level, level), Note::set(note().name, name), Note::set(note().detail, detail);
  }
  std::string died_in(const std::function<void()>& work) const {
    std::memset(memory_.as<void>(), 0, sizeof(Note));
    const std::string end = run_isolated(work, kSeconds);
    return is_crash(end) ? end : std::string();
  }

  Finding finding(const std::string& end) const {
    Finding f;
    f.level = note().level, f.pass = note().name, f.detail = note().detail;
    f.what = end;
    f.repro.name = f.pass;
    f.repro.fault = end;
    const auto& disabled = debug_options().disable;
    f.repro.disable = fmt::format("{}", fmt::join(disabled.begin(), disabled.end(), ","));
    return f;
  }

  std::optional<Finding> in_passes() const {
    const std::string end = died_in([&] {
      say("graph", "import", "");
      const std::unique_ptr<tensor::Graph> graph = source_();
      compile::PassContext context;
      context.target = machine_.target;
      context.before = [&](std::string_view pass) { note().count = context.passes_run, say("graph", pass, ""); };
      compile::optimize(*graph, context);
    });
    if (end.empty()) return std::nullopt;
    Finding f = finding(end);
    if (f.pass == "import") return f;  // there is no graph yet
    const std::unique_ptr<tensor::Graph> graph =
        compile::graph_after(source_, static_cast<int>(note().count), false, machine_.target).graph;
    f.detail = fmt::format("pass {}", note().count + 1);
    f.repro.target = machine_.is_gpu() ? machine_.target : "";
    const SmallData data = draw_large(large_tensors(*graph), [&](const auto&) {
      return is_crash(run_isolated([&] { compile::run_named_pass(f.pass, *graph, machine_.target); }, kSeconds));
    });
    f.repro.notes = data.notes;
    f.repro.model = tensor::print_with_drawn(*graph, data.drawn);
    return f;
  }

  std::optional<Finding> in_kernels(bool emits) const {
    const std::unique_ptr<tensor::Graph> graph = final_graph();
    std::vector<const Op*> kernels;
    tensor::for_each_op(graph->body, [&](const Op& op) {
      if (compile::is_kernel(op)) kernels.push_back(&op);
    });
    const std::string end = died_in([&] {
      for (const Op* op : kernels) {
        check_building(*op, machine_, emits, [&](const KernelFault& at) { say(at.level, at.stage, at.detail); });
        ++note().count;
      }
    });
    if (end.empty()) return std::nullopt;
    const Op& op = *kernels[static_cast<size_t>(note().count)];
    Finding f = finding(end);
    const auto without_merging = [&] { compile::lower_op(op, lower::Axes::kApart); };
    if (f.pass.starts_with("lower_") && f.level == "loop" && run_isolated(without_merging, kSeconds).empty())
      f.pass = f.repro.name = "collapse_axes", f.detail = "right where axes are not merged";
    f.source = op.source, f.value = describe(*op.result());
    f.kernel = "of " + f.value;
    small_model(f, op.result()->id, emits);
    return f;
  }

  std::optional<Finding> in_steps() const {
    const std::unique_ptr<tensor::Graph> graph = final_graph();
    const std::string end = died_in([&] { steps(*graph); });
    if (end.empty()) return std::nullopt;
    Finding f = finding(end);
    small_model(f, graph->body.outputs.empty() ? 0 : graph->body.outputs[0]->id, false);
    return f;
  }

  void steps(tensor::Graph& graph) const {
    say("program", "build_program", "");
    compile::Compiled compiled = compile::build_program(graph, machine_.row());
    say("program", "place_loops_side_by_side", "");
    compile::place_loops_side_by_side(*compiled.program, compiled.origin);
    say("program", "plan_memory", "");
    compile::plan_memory(*compiled.program);
  }

  std::unique_ptr<tensor::Graph> final_graph() const {
    return compile::graph_after(source_, -1, false, machine_.target).graph;
  }

  /// The fewest ops around value `id` that die on the way to a program.
  void small_model(Finding& f, uint32_t id, bool emits) const {
    f.repro.kind = Repro::Kind::kKernel;
    if (machine_.is_gpu()) f.repro.device = machine_.device;
    f.repro.emit = machine_.emit;
    const auto dies = [&](tensor::Graph& graph) {
      return is_crash(run_isolated(
          [&] {
            tensor::for_each_op(graph.body, [&](const Op& op) {
              if (compile::is_kernel(op)) check_building(op, machine_, emits);
            });
            steps(graph);
          },
          kSeconds));
    };
    const std::vector<Item> inputs = inputs_();
    Part part{final_graph(), inputs};
    Values known;
    run_reference(*part.graph, inputs, nullptr, known);
    if (auto fewer = fewest_ops([&] { return Part{final_graph(), inputs}; }, known, id,
                                [&](Part& p) { return dies(*p.graph); }, kPartSeconds))
      part = std::move(*fewer);
    std::vector<LargeTensor> large = large_tensors(*part.graph);
    for (const LargeTensor& t : large_tensors(part.inputs, "input")) large.push_back(t);
    const SmallData data = draw_large(std::move(large), [&](const auto&) { return dies(*part.graph); });
    f.repro.notes = data.notes;
    f.repro.model = tensor::print_with_drawn(*part.graph, data.drawn);
    f.repro.inputs = inputs_text(*part.graph, part.inputs, data.drawn);
  }

  const compile::GraphSource& source_;
  const std::function<std::vector<Item>()>& inputs_;
  const Machine machine_;
  const SharedMemory memory_;
};

}  // namespace

std::optional<Ended> go_on_apart() {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child < 0) user_error("no further process can be started: {}", std::strerror(errno));
  if (child == 0) {
    end_with_parent();
    return std::nullopt;
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) return Ended{0, fmt::format("it crashes ({})", ::strsignal(WTERMSIG(status)))};
  return Ended{WEXITSTATUS(status), {}};
}

std::optional<Finding> crash_of(const compile::GraphSource& source, const std::function<std::vector<Item>()>& inputs,
                                const BisectOptions& options) {
  return Crash(source, inputs, options).run();
}

}  // namespace stax::bisect
