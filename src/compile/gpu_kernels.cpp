// SPDX-License-Identifier: Apache-2.0
#include "compile/gpu_kernels.h"

#include <mutex>

#include "loop/transform.h"
#include "lower/loop_to_thread.h"
#include "schedule/schedule.h"
#include "support/on_threads.h"

namespace stax::compile {

namespace {

/// A kernel that is still to be made.
struct Task {
  const loop::Kernel* naive = nullptr;
  schedule::KernelSource anew;  // the same in tables of its own
  std::vector<GpuKernel>* versions = nullptr;
};

void make(const Task& task, const ir::Target& target) {
  for (const GpuKernelVersion& chosen : gpu_kernel_versions(*task.naive, target)) {
    const schedule::GpuVersion& v = chosen.version;
    GpuKernel& made = task.versions->emplace_back();
    made.version = chosen;
    made.loops = run_loop_passes(loop::apply_schedule(schedule::with_known(task.anew(), v.known), v.schedule));
    made.threads = lower::lower_to_thread(made.loops, target, v.block, chosen.index_bits, v.rows_in_global);
    made.threads.flush_denormals = may_flush_denormals(made.loops);
  }
}

}  // namespace

GpuKernels::GpuKernels(const tensor::Graph& graph, const ir::Target& target, int threads,
                       const std::function<bool(const tensor::Op&)>& is_launched) {
  // Expression tables are not for several threads. The kernels of an op share one, and all ops that of the graph.
  std::vector<std::vector<Task>> tasks;
  std::mutex graph_mutex;
  const auto add = [&](const loop::Kernel& naive, schedule::KernelSource anew) {
    const auto [at, is_new] = versions_.try_emplace(loop::print(naive, true));
    if (is_new) tasks.back().push_back({&naive, std::move(anew), &at->second});
  };
  tensor::for_each_op(graph.body, [&](const tensor::Op& op) {
    if (!is_kernel(op) || !is_launched(op)) return;
    tasks.emplace_back();
    LoweredOp& lowered = ops_[&op];
    lowered.whole = lower_op(op);
    lowered.phases = op_phases(op, lowered.whole, target);
    if (lowered.phases) {
      for (const lower::LoweredKernel& phase : lowered.phases->kernels)
        add(phase.kernel, [text = loop::print(phase.kernel)] { return loop::parse_kernel(text); });
      if (lowered.phases->condition.is_constant(1)) return;
    }
    add(lowered.whole.kernel, [&op, &graph_mutex] {
      const std::lock_guard lock(graph_mutex);
      return lower_op(op).kernel;
    });
  });
  for_each_on_threads(tasks.size(), threads, [&](size_t k) {
    for (const Task& task : tasks[k]) make(task, target);
  });
}

}  // namespace stax::compile
