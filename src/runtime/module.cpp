// SPDX-License-Identifier: Apache-2.0
#include <thread>

#include "runtime/executor.h"

namespace stax::runtime {

size_t Tensor::bytes() const {
  int64_t n = static_cast<int64_t>(ir::byte_size(dtype));
  for (int64_t e : extents) n = symbolic::saturating_mul(n, e);
  return static_cast<size_t>(n);
}

struct Module::Impl {
  Shared shared;
  std::mutex mutex;
  std::vector<std::unique_ptr<Context>> idle;
  size_t contexts = 0;  // for which `idle` has room: giving one back needs no memory
  Impl(std::shared_ptr<const program::Program> p, std::shared_ptr<Device> d, const ModuleOptions& o)
      : shared(std::move(p), std::move(d), o) {}

  /// A context for one call. One whose call failed is as good as any: every call binds everything anew.
  class Borrowed {
   public:
    explicit Borrowed(Impl& impl) : impl_(impl) {
      {
        std::lock_guard lock(impl.mutex);
        if (!impl.idle.empty()) context_ = std::move(impl.idle.back()), impl.idle.pop_back();
      }
      if (context_) return;
      context_ = std::make_unique<Context>(impl.shared);
      std::lock_guard lock(impl.mutex);
      impl.idle.reserve(impl.contexts + 1);
      ++impl.contexts;
    }
    ~Borrowed() {
      std::lock_guard lock(impl_.mutex);
      impl_.idle.push_back(std::move(context_));
    }
    Context* operator->() { return context_.get(); }

   private:
    Impl& impl_;
    std::unique_ptr<Context> context_;
  };
};

Module::Module(std::shared_ptr<const program::Program> program, std::unique_ptr<Device> device, ModuleOptions options) {
  if (options.threads <= 0) options.threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  impl_ = std::make_unique<Impl>(std::move(program), std::move(device), options);
}

Module::~Module() = default;

const Device& Module::device() const { return *impl_->shared.device; }
const program::Program& Module::program() const { return *impl_->shared.program; }

std::vector<Item> Module::run(std::span<const Item> inputs, CallStatistics* statistics, bool profile,
                              OutputPlaces* places) {
  std::vector<Item> outputs;
  run(inputs, outputs, statistics, profile, places);
  return outputs;
}

void Module::run(std::span<const Item> inputs, std::vector<Item>& outputs, CallStatistics* statistics, bool profile,
                 OutputPlaces* places) {
  Impl::Borrowed context(*impl_);
  context->call(inputs, outputs, statistics, profile, places);
  impl_->shared.statistics.peak_bytes = impl_->shared.memory->peak_bytes();
}

std::vector<std::optional<std::vector<int64_t>>> Module::output_extents(std::span<const Item> inputs) {
  Impl::Borrowed context(*impl_);
  return context->output_extents(inputs);
}

const Statistics& Module::statistics() const { return impl_->shared.statistics; }

}  // namespace stax::runtime
