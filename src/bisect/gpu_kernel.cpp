// SPDX-License-Identifier: Apache-2.0
#include "bisect/gpu_kernel.h"

#include "support/error.h"
#include "symbolic/evaluate.h"
#include "thread/interpret.h"

namespace stax::bisect {

/// What a launch brings besides tensors and extents.
struct GpuKernel::Arguments {
  std::vector<void*> buffers;
  std::vector<int64_t> params;
  std::vector<std::vector<std::byte>> scratch;
  std::unordered_map<const symbolic::ExprNode*, int64_t> values;

  Arguments(const thread::Kernel& kernel, std::span<void* const> b, std::span<const int64_t> p)
      : buffers(b.begin(), b.end()), params(p.begin(), p.end()) {
    for (size_t k = 0; k < params.size(); ++k) values[kernel.params[k].node()] = params[k];
    for (const thread::Divisor& d : kernel.divisors) {
      const thread::Reciprocal r = thread::reciprocal_of(symbolic::evaluate(d.value, values));
      params.push_back(r.multiplier);
      params.push_back(r.shift);
      values[d.multiplier.node()] = r.multiplier;
      values[d.shift.node()] = r.shift;
    }
    for (int k = kernel.arguments - kernel.scratch; k < kernel.arguments; ++k) {
      const thread::Buffer& buffer = kernel.buffers[static_cast<size_t>(k)];
      const auto count = static_cast<size_t>(std::max<int64_t>(0, symbolic::evaluate(buffer.count, values)));
      scratch.emplace_back(count * ir::byte_size(buffer.dtype), std::byte{0xFF});
      buffers.push_back(scratch.back().data());
    }
  }
};

namespace {

void raise(int64_t failed, int64_t index, int64_t extent) {
  if (failed) user_error("index {} is out of range for an extent of {}", index, extent);
}

}  // namespace

void GpuKernel::interpret(std::span<void* const> buffers, std::span<const int64_t> params, bool check) const {
  const Arguments arguments(kernel_, buffers, params);
  int64_t fault[4] = {0, 0, 0, 0};
  thread::Launch launch;
  launch.buffers = arguments.buffers;
  launch.params = arguments.params;
  launch.fault = fault;
  launch.check = check;
  launch.count = false;
  const thread::Outcome outcome = thread::interpret(kernel_, launch);
  if (!outcome.reports.empty()) internal_error("{}", outcome.reports[0].str());
  raise(fault[0], fault[1], fault[2]);
}

void GpuKernel::run_on(const Machine& machine, const std::string& code, std::span<void* const> buffers,
                       std::span<const int64_t> params) const {
  const Arguments arguments(kernel_, buffers, params);
  program::Program program;
  program.target = machine.target;
  program::KernelSpec spec;
  spec.name = spec.entry = kernel_.name;
  spec.thread_text = thread::print(kernel_);
  spec.code_format = ir::name_of(machine.format());
  spec.code = code;
  spec.index_bits = static_cast<uint32_t>(kernel_.index_bits);
  spec.static_shared_bytes = thread::static_shared_bytes(kernel_);
  spec.reports_faults = !kernel_.check_messages.empty();
  spec.flush_denormals = kernel_.flush_denormals;
  program.kernels.push_back(std::move(spec));
  const std::unique_ptr<runtime::Device> device = open_unified(machine, program);
  runtime::Fault fault;
  runtime::Launch launch;
  launch.buffers = arguments.buffers;
  launch.params = arguments.params;
  launch.fault = &fault;
  for (size_t k = 0; k < 3; ++k) launch.grid[k] = symbolic::evaluate(kernel_.grid[k], arguments.values);
  launch.block = kernel_.block;
  launch.shared_bytes = symbolic::evaluate(thread::dynamic_shared_bytes(kernel_), arguments.values);
  device->launch(launch);
  raise(fault.failed, fault.index, fault.extent);
}

}  // namespace stax::bisect
