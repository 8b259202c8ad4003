// SPDX-License-Identifier: Apache-2.0
// Native code of a program: the best image that this machine executes, mapped from memory.
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/runtime.h"
#include "support/error.h"

namespace stax::runtime {
namespace {

bool executes(const std::string& isa) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (isa == "avx512")
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("bmi2");
  if (isa == "avx2")
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  return isa == "baseline" && __builtin_cpu_supports("sse4.2");
#else
  return false;
#endif
}

class NativeBackend final : public KernelBackend {
 public:
  NativeBackend(const program::Program& program, const program::Image& image) {
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
      entries_.push_back(reinterpret_cast<KernelEntry>(entry));
    }
  }
  ~NativeBackend() override {
    if (handle_) ::dlclose(handle_), ::close(file_);
  }
  void run(uint32_t kernel, void* const* buffers, const int64_t* params, int64_t begin, int64_t end, void* scratch,
           Fault* fault) override {
    entries_[kernel](buffers, params, begin, end, scratch, fault);
  }

 private:
  int file_ = -1;
  void* handle_ = nullptr;
  std::vector<KernelEntry> entries_;
};

/// Of a program without kernels.
class NoBackend final : public KernelBackend {
 public:
  void run(uint32_t kernel, void* const*, const int64_t*, int64_t, int64_t, void*, Fault*) override {
    throw InternalError("no kernel " + std::to_string(kernel));
  }
};

}  // namespace

std::unique_ptr<KernelBackend> map_native_image(const program::Program& program) {
  if (program.kernels.empty()) return std::make_unique<NoBackend>();
  for (const char* isa : {"avx512", "avx2", "baseline"})
    for (const program::Image& image : program.images)
      if (image.isa == isa && executes(image.isa)) return std::make_unique<NativeBackend>(program, image);
  std::string have;
  for (const program::Image& image : program.images) have += (have.empty() ? "" : ", ") + image.isa;
  user_error("the program holds native code for {} and this machine executes none of it; compile it again here",
             have.empty() ? "no machine" : have);
}

}  // namespace stax::runtime
