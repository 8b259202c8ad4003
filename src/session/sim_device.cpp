// SPDX-License-Identifier: Apache-2.0
// Kernels by the interpreter of thread IR.
#include <algorithm>

#include "session/devices.h"
#include "support/error.h"
#include "thread/interpret.h"

namespace stax::session {

namespace {

class SimDevice final : public runtime::HostDevice {
 public:
  explicit SimDevice(const program::Program& program) {
    for (const program::KernelSpec& k : program.kernels) kernels_.emplace_back(thread::parse_kernel(k.thread_text));
  }
  std::string name() const override { return "thread interpreter"; }

  void launch(const runtime::Launch& l) override {
    int64_t fault[4] = {0, 0, 0, 0};
    thread::Launch launch;
    launch.buffers = l.buffers;
    launch.params = l.params;
    launch.fault = fault;
    launch.count = false;
    const thread::Outcome outcome = kernels_[l.kernel].run(launch);
    if (!outcome.reports.empty()) {
      std::string text;
      for (const thread::Report& r : outcome.reports) text += "\n  " + r.str();
      internal_error("kernel {} does what no kernel may:{}", kernels_[l.kernel].kernel().name, text);
    }
    if (fault[0] != 0 && l.fault != nullptr && l.fault->failed == 0) *l.fault = {fault[0], fault[1], fault[2]};
  }

 private:
  std::vector<thread::Interpreter> kernels_;
};

}  // namespace

std::unique_ptr<runtime::Device> open_sim(const program::Program& program) {
  return std::make_unique<SimDevice>(program);
}

}  // namespace stax::session
