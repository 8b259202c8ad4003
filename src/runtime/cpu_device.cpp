// SPDX-License-Identifier: Apache-2.0
// The CPU: native code of a program, the best image that this machine executes, mapped from memory. A launch hands out the iterations of a
// kernel's outermost parallel loop to as many threads as its work is worth.
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/flush_denormals.h"
#include "runtime/host_workers.h"
#include "runtime/runtime.h"
#include "support/cpu.h"
#include "support/error.h"

namespace stax::runtime {
namespace {

using KernelEntry = void (*)(void* const* buffers, const int64_t* params, int64_t begin, int64_t end, void* scratch,
                             Fault* fault);

class CpuDevice final : public HostDevice {
 public:
  CpuDevice(const program::Program& program, const program::Image& image) : isa_(image.isa) {
    int file = ::memfd_create("stax-kernels", MFD_CLOEXEC);
    if (file < 0) user_error("cannot make a memory file for native code; is /proc mounted?");
    size_t done = 0;
    while (done < image.bytes.size()) {
      ssize_t n = ::write(file, image.bytes.data() + done, image.bytes.size() - done);
      if (n <= 0) {
        ::close(file);
        user_error("out of memory: {} bytes of native code could not be mapped", image.bytes.size());
      }
      done += static_cast<size_t>(n);
    }
    // The loader knows images by path. The descriptor stays open as long as the image is mapped, so that no other image gets the same one.
    file_ = file;
    handle_ = ::dlopen(("/proc/self/fd/" + std::to_string(file)).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle_) ::close(file_);
    if (!handle_) throw InternalError(std::string("native code cannot be mapped: ") + ::dlerror());
    for (const auto& k : program.kernels) {
      void* entry = ::dlsym(handle_, k.entry.c_str());
      if (!entry) throw InternalError("native code lacks kernel " + k.entry);
      kernels_.push_back({reinterpret_cast<KernelEntry>(entry), k.flush_denormals});
    }
  }
  ~CpuDevice() override {
    if (handle_) ::dlclose(handle_), ::close(file_);
  }
  std::string name() const override { return isa_; }
  void launch(const Launch& l) override {
    const Kernel& kernel = kernels_[l.kernel];
    if (l.worker >= 0) return run(kernel, l, 0, l.iterations, l.worker);
    int wanted = l.iterations > 1 ? l.workers->worth(l.work) : 1;
    l.workers->reserve(wanted > 1 ? l.workers->pool().threads() : 1, l.scratch_bytes);
    if (wanted <= 1) return run(kernel, l, 0, l.iterations, 0);
    struct Job {
      const Kernel& kernel;
      const Launch& launch;
    } job{kernel, l};
    auto function = [](void* self, int64_t begin, int64_t end, int worker) {
      auto& j = *static_cast<Job*>(self);
      run(j.kernel, j.launch, begin, end, worker);
    };
    l.workers->pool().run({function, &job}, l.iterations, wanted);
  }

 private:
  struct Kernel {
    KernelEntry entry;
    bool flush_denormals;
  };
  static void run(const Kernel& kernel, const Launch& l, int64_t begin, int64_t end, int worker) {
    FlushDenormals flush(kernel.flush_denormals);
    kernel.entry(l.buffers.data(), l.params.data(), begin, end, l.workers->scratch(worker), l.fault);
  }

  std::string isa_;
  int file_ = -1;
  void* handle_ = nullptr;
  std::vector<Kernel> kernels_;
};

}  // namespace

std::unique_ptr<Device> open_cpu(const program::Program& program) {
  if (program.kernels.empty()) return std::make_unique<HostDevice>();
  for (const char* isa : {"avx512vnni", "avx512", "avxvnni", "avx2", "baseline"})
    for (const program::Image& image : program.images)
      if (image.isa == isa && cpu_executes(isa)) return std::make_unique<CpuDevice>(program, image);
  std::string have;
  for (const program::Image& image : program.images) have += (have.empty() ? "" : ", ") + image.isa;
  user_error("the program holds native code for {} and this machine executes none of it; compile it again here",
             have.empty() ? "no machine" : have);
}

}  // namespace stax::runtime
