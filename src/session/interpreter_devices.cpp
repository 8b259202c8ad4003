// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "runtime/cuda.h"
#include "runtime/flush_denormals.h"
#include "runtime/hip.h"
#include "session/devices.h"
#include "session/launch_log.h"
#include "support/error.h"
#include "tensor/interpret.h"

namespace stax::session {

using runtime::Item;
using runtime::Tensor;

namespace {

Port port_of(const std::string& name, const tensor::Type& t) {
  Port port{name, t.dtype, !t.is_tensor(), t.is_tensor() && t.has_static_rank() ? t.static_rank() : -1, {}};
  if (port.rank >= 0)
    for (const symbolic::Expr e : t.extents) port.dims.push_back(e.is_symbol() ? e.symbol().name : "");
  return port;
}

ir::Literal literal_of(const Tensor& t) {
  return ir::Literal::view(t.dtype, t.extents,
                           t.owner ? std::shared_ptr<void>(t.owner, const_cast<void*>(t.data))
                                   : std::shared_ptr<void>(const_cast<void*>(t.data), [](void*) {}));
}

/// Kernels by the loop interpreter.
class LoopDevice final : public runtime::HostDevice {
 public:
  LoopDevice(std::vector<loop::Kernel> kernels, std::shared_ptr<const program::Program> program)
      : kernels_(std::move(kernels)), program_(std::move(program)) {}
  std::string name() const override { return "loop interpreter"; }
  void launch(const runtime::Launch& l) override {
    runtime::FlushDenormals flush(program_->kernels[l.kernel].flush_denormals);
    loop::interpret(kernels_[l.kernel], l.buffers, l.params);
  }

 private:
  std::vector<loop::Kernel> kernels_;
  std::shared_ptr<const program::Program> program_;
};

std::vector<Port> ports_of(const program::Program& p, bool inputs) {
  std::vector<Port> ports;
  auto add = [&](const std::string& name, program::ValueRef v) {
    const program::ValueSpec& spec = p.values[v];
    ports.push_back({name,
                     spec.dtype,
                     spec.is_sequence,
                     spec.is_sequence || spec.rank != program::kNone ? -1 : static_cast<int>(spec.extents.size()),
                     {}});
  };
  if (inputs) {
    for (const auto& i : p.inputs) {
      add(i.name, i.value);
      for (const program::DimSpec& d : i.dims)
        if (ports.back().rank >= 0)
          ports.back().dims.push_back(d.symbol == program::kNone ? "" : p.symbols[d.symbol].name);
    }
  } else {
    for (const auto& o : p.outputs) add(o.name, o.value);
  }
  return ports;
}

class ProgramSession final : public Session {
 public:
  ProgramSession(const std::shared_ptr<program::Program>& program, const SessionOptions& options, double compile_ms,
                 double load_ms, std::vector<loop::Kernel> kernels)
      : device_(options.device), compile_ms_(compile_ms), load_ms_(load_ms) {
    auto start = std::chrono::steady_clock::now();
    inputs_ = ports_of(*program, true);
    outputs_ = ports_of(*program, false);
    warnings_ = program->warnings;
    std::unique_ptr<runtime::Device> device;
    if (device_ == "loop") {
      if (kernels.empty())
        for (const auto& k : program->kernels) kernels.push_back(loop::parse_kernel(k.loop_text));
      device = std::make_unique<LoopDevice>(std::move(kernels), program);
    } else if (device_ == "sim") {
      device = open_sim(*program);
    } else if (device_ == "cuda") {
      device = runtime::open_cuda(*program);
    } else if (device_ == "hip") {
      device = runtime::open_hip(*program);
    } else if (device_ == "opencl") {
      device = runtime::open_opencl(*program);
    } else {
      device = runtime::open_cpu(*program);
    }
    if (!options.launch_log.empty()) {
      if (!ir::find_target(program->target).is_gpu)
        user_error("--launch-log records launches of GPU code; device '{}' has none; use cuda, hip, opencl or sim",
                   device_);
      device = log_launches(std::move(device), program, options.launch_log);
    }
    runtime::ModuleOptions module_options;
    module_options.threads = options.threads;
    module_options.forced_versions = options.forced_versions;
    module_options.check_every = options.check_every;
    module_options.alarm = options.alarm;
    for (const auto& [family, version] : options.forced_versions)
      if (family != "*" && std::none_of(program->kernels.begin(), program->kernels.end(),
                                        [&](const auto& k) { return k.family == family; }))
        user_error("--force: there is no kernel '{}' in this model; `stax dump --stage plan` lists them", family);
    module_ = std::make_unique<runtime::Module>(program, std::move(device), module_options);
    load_ms_ += std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  }
  std::vector<Item> run(std::span<const Item> inputs, runtime::CallStatistics* statistics, bool profile) override {
    return module_->run(inputs, statistics, profile);
  }
  const program::Program* program() const override { return &module_->program(); }
  runtime::Module* module() override { return module_.get(); }
  SessionStatistics statistics() const override {
    SessionStatistics s;
    s.compile_ms = compile_ms_;
    s.load_ms = load_ms_;
    s.versions = static_cast<int64_t>(module_->program().kernels.size());
    for (const auto& k : module_->program().kernels) s.kernels += k.version == 0;
    s.launches = module_->statistics().launches.load();
    s.peak_bytes = module_->statistics().peak_bytes.load();
    s.checked_calls = module_->statistics().checked_calls.load();
    s.checked_launches = module_->statistics().checked_launches.load();
    s.mismatches = module_->statistics().mismatches.load();
    s.device_name = module_->device().name();
    return s;
  }

 private:
  std::string device_;
  double compile_ms_, load_ms_;
  std::unique_ptr<runtime::Module> module_;
};

/// Graphs by the tensor interpreter. Calls wait for each other.
class ReferenceSession final : public Session {
 public:
  ReferenceSession(std::unique_ptr<tensor::Graph> graph, double compile_ms)
      : graph_(std::move(graph)), compile_ms_(compile_ms) {
    inputs_ = inputs_of(*graph_);
    for (const auto& o : graph_->outputs) outputs_.push_back(port_of(o.name, o.value->type));
    warnings_ = graph_->warnings;
  }
  std::vector<Item> run(std::span<const Item> inputs, runtime::CallStatistics* statistics, bool) override {
    std::lock_guard lock(mutex_);
    int64_t evaluated = 0;
    std::vector<tensor::Item> out = tensor::interpret(*graph_, reference_items(inputs), &evaluated);
    evaluated_ += evaluated;
    if (statistics) statistics->launches = evaluated;
    std::vector<Item> result;
    for (tensor::Item& i : out) {
      Item item;
      item.is_sequence = i.is_sequence;
      if (i.is_sequence)
        for (auto& l : i.sequence) item.sequence.push_back(tensor_of(l));
      else
        item.tensor = tensor_of(i.tensor);
      result.push_back(std::move(item));
    }
    return result;
  }
  SessionStatistics statistics() const override {
    SessionStatistics s;
    s.compile_ms = compile_ms_;
    s.launches = evaluated_;
    tensor::for_each_op(graph_->body, [&](const tensor::Op&) { ++s.kernels; });
    s.device_name = "tensor interpreter";
    return s;
  }

 private:
  static Tensor tensor_of(const ir::Literal& l) {
    auto keep = std::make_shared<ir::Literal>(l);
    Tensor t;
    t.dtype = l.dtype();
    t.extents = l.extents();
    t.data = keep->data();
    t.owner = std::shared_ptr<void>(keep, const_cast<void*>(static_cast<const ir::Literal&>(*keep).data()));
    return t;
  }
  std::unique_ptr<tensor::Graph> graph_;
  double compile_ms_;
  std::atomic<int64_t> evaluated_{0};
  std::mutex mutex_;
};

}  // namespace

std::unique_ptr<Session> make_program_session(std::shared_ptr<program::Program> program, const SessionOptions& options,
                                              double compile_ms, double load_ms, std::vector<loop::Kernel> kernels) {
  return std::make_unique<ProgramSession>(std::move(program), options, compile_ms, load_ms, std::move(kernels));
}

std::unique_ptr<Session> make_reference_session(std::unique_ptr<tensor::Graph> graph, double compile_ms) {
  return std::make_unique<ReferenceSession>(std::move(graph), compile_ms);
}

std::vector<Port> inputs_of(const tensor::Graph& graph) {
  std::vector<Port> ports;
  for (const auto& i : graph.inputs) ports.push_back(port_of(i.name, i.value->type));
  return ports;
}

std::vector<tensor::Item> reference_items(std::span<const Item> items) {
  std::vector<tensor::Item> reference;
  for (const Item& i : items) {
    tensor::Item item;
    item.is_sequence = i.is_sequence;
    if (!i.is_sequence) item.tensor = literal_of(i.tensor);
    for (const Tensor& t : i.sequence) item.sequence.push_back(literal_of(t));
    reference.push_back(std::move(item));
  }
  return reference;
}

}  // namespace stax::session
