// SPDX-License-Identifier: Apache-2.0
#include "bisect/native_kernel.h"

#include <cstring>

#include "emit/emit.h"
#include "runtime/host_workers.h"
#include "runtime/runtime.h"
#include "support/error.h"
#include "symbolic/evaluate.h"

namespace stax::bisect {

namespace {

constexpr int64_t kWorthThreads = 1 << 30;

// Where the kernel's local buffers will be: what it does not write must not happen to be zero.
[[gnu::noinline]] void poison_stack() {
  char below[256 << 10];
  std::memset(below, 0xFF, sizeof below);
  asm volatile("" : : "r"(below) : "memory");
}

}  // namespace

struct NativeKernel::Impl {
  loop::Kernel kernel;
  std::shared_ptr<runtime::Device> device;
  symbolic::Expr scratch_bytes;
};

NativeKernel::NativeKernel(const loop::Kernel& kernel) : impl_(std::make_unique<Impl>()) {
  impl_->kernel = kernel;
  impl_->scratch_bytes = emit::scratch_bytes(kernel);
  program::Program program;
  program::KernelSpec spec;
  spec.name = "kernel";
  spec.entry = "stax_kernel";
  program.kernels.push_back(spec);
  const emit::NativeKernel native{&impl_->kernel, spec.entry};
  emit::EmitOptions options;
  options.isa = emit::host_isa();
  emit::NativeImage image = emit::emit_native({&native, 1}, options);
  program.images.push_back({std::string(emit::name_of(options.isa)), std::move(image.bytes)});
  impl_->device = runtime::open_cpu(program);
}
NativeKernel::~NativeKernel() = default;

void NativeKernel::run(std::span<void* const> buffers, std::span<const int64_t> params, int threads) const {
  const loop::Kernel& kernel = impl_->kernel;
  std::unordered_map<const symbolic::ExprNode*, int64_t> values;
  for (size_t k = 0; k < params.size(); ++k) values[kernel.params[k].node()] = params[k];
  int64_t iterations = 1;
  if (const auto* f = kernel.body->as<loop::For>(); f && f->kind == loop::LoopKind::kParallel)
    iterations = symbolic::evaluate(f->extent, values);
  runtime::ThreadPool pool(threads);
  auto memory = std::make_shared<runtime::MemoryPool>(impl_->device);
  runtime::HostWorkers workers(pool, *memory);
  runtime::Fault fault;
  runtime::Launch launch;
  launch.buffers = buffers;
  launch.params = params;
  launch.iterations = iterations;
  launch.fault = &fault;
  launch.work = kWorthThreads;
  launch.scratch_bytes = symbolic::evaluate(impl_->scratch_bytes, values);
  launch.workers = &workers;
  if (launch.scratch_bytes > 0) {  // the block comes back from the pool
    const auto bytes = static_cast<size_t>(launch.scratch_bytes);
    std::memset(memory->allocate(launch.scratch_bytes, "scratch").get(), 0xFF, bytes);
  }
  poison_stack();
  impl_->device->launch(launch);
  if (fault.failed) user_error("index {} is out of range for an extent of {}", fault.index, fault.extent);
}

}  // namespace stax::bisect
