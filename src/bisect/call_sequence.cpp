// SPDX-License-Identifier: Apache-2.0
#include "bisect/call_sequence.h"

#include <cstring>

#include "bisect/isolated.h"
#include "bisect/runtime_items.h"
#include "runtime/runtime.h"

namespace stax::bisect {
namespace {

using tensor::Item;

constexpr int kSeconds = 60;

struct Sighting {
  bool seen;
  size_t call;
  char output[256], what[1024];
};

std::vector<runtime::Item> runtime_items(const std::vector<Item>& inputs) {
  std::vector<runtime::Item> items;
  for (const Item& item : inputs) items.push_back(item_of(item));
  return items;
}

class Session {
 public:
  Session(const compile::Compiled& compiled, const Machine& machine, int threads)
      : module_(compiled.program, open_unified(machine, *compiled.program), options(threads)) {}
  std::vector<runtime::Item> run(const std::vector<Item>& inputs) { return module_.run(runtime_items(inputs)); }

 private:
  static runtime::ModuleOptions options(int threads) {
    runtime::ModuleOptions o;
    o.threads = threads;
    return o;
  }
  runtime::Module module_;
};

}  // namespace

std::optional<SequenceFault> check_sequence(const compile::Compiled& compiled,
                                            const std::vector<std::vector<Item>>& calls, const Machine& machine,
                                            int threads) {
  const SharedMemory memory(sizeof(Sighting));
  auto* sighting = memory.as<Sighting>();
  const auto say = [&](size_t call, const std::string& output, const std::string& what) {
    sighting->seen = true;
    sighting->call = call;
    std::snprintf(sighting->output, sizeof sighting->output, "%s", output.c_str());
    std::snprintf(sighting->what, sizeof sighting->what, "%s", what.c_str());
  };
  const std::string end = run_isolated(
      [&] {
        Session session(compiled, machine, threads);
        for (size_t k = 0; k < 2 * calls.size(); ++k) {
          const std::vector<Item>& inputs = calls[k % calls.size()];
          const std::vector<runtime::Item> want = Session(compiled, machine, threads).run(inputs);
          sighting->call = k;  // should it crash
          std::vector<runtime::Item> got;
          try {
            got = session.run(inputs);
          } catch (const std::exception& e) {
            return say(k, "", e.what());
          }
          for (size_t o = 0; o < want.size(); ++o)
            if (std::string what = exact_difference(got[o], want[o]); !what.empty())
              return say(k, compiled.program->outputs[o].name, what);
        }
      },
      kSeconds);
  if (sighting->seen) return SequenceFault{sighting->call, sighting->output, sighting->what};
  if (!end.empty() && !end.starts_with("it does not end")) return SequenceFault{sighting->call, "", end};
  return std::nullopt;
}

}  // namespace stax::bisect
