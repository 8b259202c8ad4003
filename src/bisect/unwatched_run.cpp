// SPDX-License-Identifier: Apache-2.0
#include "bisect/unwatched_run.h"

#include "bisect/isolated.h"
#include "bisect/runtime_items.h"

namespace stax::bisect {

using tensor::Item;

namespace {

constexpr int kSeconds = 60, kGpuSeconds = 600;

class StepByStep final : public runtime::StepObserver {
 public:
  void before(const runtime::StepView&, uint32_t, uint32_t) override {}
  void after(const runtime::StepView&, uint32_t, uint32_t) override {}
};

/// One way to run the program, and what is at fault if it differs while those in front of it do not.
struct Way {
  const char *level, *pass, *detail;
  bool one_thread, own_memory, from_file;
};
constexpr Way kWays[] = {
    {"runtime", "loop_replay", "right step by step", true, false, false},
    {"runtime", "loop_replay", "loops side by side; right with one thread", false, false, false},
    {"runtime", "executor", "on memory of the device; right on memory of the host", false, true, false},
    {"program", "serialize", "right until it is written and read again", false, true, true},
};

struct Sighting {
  bool seen, differs;
  char output[256], what[1024];
};

class Runs {
 public:
  Runs(const compile::Compiled& compiled, const std::vector<Item>& inputs, const Machine& machine, int threads)
      : program_(compiled.program), machine_(machine), threads_(threads) {
    for (const Item& item : inputs) inputs_.push_back(item_of(item));
  }

  std::optional<UnwatchedFault> differs(const Way& way) const {
    const SharedMemory memory(sizeof(Sighting));
    auto* sighting = memory.as<Sighting>();
    const auto say = [&](const std::string& output, const std::string& what) {
      sighting->differs = true;
      std::snprintf(sighting->output, sizeof sighting->output, "%s", output.c_str());
      std::snprintf(sighting->what, sizeof sighting->what, "%s", what.c_str());
    };
    const std::string end = run_isolated(
        [&] {
          StepByStep steps;
          runtime::ModuleOptions options;
          options.threads = threads_;
          options.observer = &steps;
          const auto want = runtime::Module(program_, open_unified(machine_, *program_), options).run(inputs_);
          sighting->seen = true;  // what follows is the way's fault
          options.observer = nullptr;
          if (way.one_thread) options.threads = 1;
          auto program = program_;
          if (way.from_file) {
            const std::vector<uint8_t> file = program::serialize(*program_);
            program = std::make_shared<program::Program>(program::deserialize(file, "the program as a file"));
          }
          auto device = way.own_memory ? open(machine_, *program) : open_unified(machine_, *program);
          const auto got = runtime::Module(program, std::move(device), options).run(inputs_);
          for (size_t k = 0; k < want.size(); ++k)
            if (const std::string what = exact_difference(got[k], want[k]); !what.empty())
              return say(program_->outputs[k].name, what);
        },
        machine_.is_gpu() ? kGpuSeconds : kSeconds);
    const bool ends_badly = sighting->seen && !end.empty() && !end.starts_with("it does not end");
    if (!sighting->differs && !ends_badly) return std::nullopt;
    return UnwatchedFault{way.level, way.pass, way.detail, sighting->output, ends_badly ? end : sighting->what};
  }

 private:
  std::shared_ptr<const program::Program> program_;
  const Machine& machine_;
  int threads_;
  std::vector<runtime::Item> inputs_;
};

}  // namespace

std::optional<UnwatchedFault> check_unwatched(const compile::Compiled& compiled, const std::vector<Item>& inputs,
                                              const Machine& machine, int threads) {
  const Runs runs(compiled, inputs, machine, threads);
  // All at once; nearly always that is all.
  std::optional<UnwatchedFault> fault = runs.differs(std::end(kWays)[-1]);
  if (!fault) return std::nullopt;
  for (const Way& way : kWays)
    if (auto first = runs.differs(way)) return first;
  return fault;
}

}  // namespace stax::bisect
