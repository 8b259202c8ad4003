// SPDX-License-Identifier: Apache-2.0
// NVIDIA GPUs through the driver API of libcuda. PTX is compiled by the driver, which keeps what it compiled on disk; CUDA C++ by NVRTC first.
// The types below are those of the driver's ABI, which does not change: handles are pointers, device addresses and results integers.
#include "runtime/cuda.h"

#include <algorithm>

#include "runtime/driver_device.h"
#include "runtime/dynamic_library.h"
#include "runtime/text_compiler.h"
#include "support/error.h"

namespace stax::runtime {

namespace {

using Result = int;
using Address = unsigned long long;
using Handle = void*;

constexpr Result kOutOfMemory = 2;
constexpr int kMajorAttribute = 75, kMinorAttribute = 76;  // of a device: compute capability
constexpr int kDynamicSharedAttribute = 8;                 // of a function: most dynamic shared bytes
constexpr int kMostSharedAttribute = 97;                   // of a device: most shared bytes of a block, opted in to
constexpr int kErrorLogBuffer = 5, kErrorLogBytes = 6;     // of a compilation

constexpr char kAdvice[] = "install the NVIDIA driver (Debian: nvidia-driver), or use another --device";

// Name in the table, name in the library, type.
#define STAX_CUDA_FUNCTIONS(F)                                                                                        \
  F(init, "cuInit", Result (*)(unsigned))                                                                             \
  F(device_count, "cuDeviceGetCount", Result (*)(int*))                                                               \
  F(device_get, "cuDeviceGet", Result (*)(int*, int))                                                                 \
  F(device_name, "cuDeviceGetName", Result (*)(char*, int, int))                                                      \
  F(device_attribute, "cuDeviceGetAttribute", Result (*)(int*, int, int))                                             \
  F(retain, "cuDevicePrimaryCtxRetain", Result (*)(Handle*, int))                                                     \
  F(unretain, "cuDevicePrimaryCtxRelease_v2", Result (*)(int))                                                        \
  F(set_current, "cuCtxSetCurrent", Result (*)(Handle))                                                               \
  F(stream_create, "cuStreamCreate", Result (*)(Handle*, unsigned))                                                   \
  F(stream_destroy, "cuStreamDestroy_v2", Result (*)(Handle))                                                         \
  F(stream_synchronize, "cuStreamSynchronize", Result (*)(Handle))                                                    \
  F(mem_alloc, "cuMemAlloc_v2", Result (*)(Address*, size_t))                                                         \
  F(mem_free, "cuMemFree_v2", Result (*)(Address))                                                                    \
  F(copy_in, "cuMemcpyHtoDAsync_v2", Result (*)(Address, const void*, size_t, Handle))                                \
  F(copy_out, "cuMemcpyDtoHAsync_v2", Result (*)(void*, Address, size_t, Handle))                                     \
  F(copy, "cuMemcpyDtoDAsync_v2", Result (*)(Address, Address, size_t, Handle))                                       \
  F(module_load, "cuModuleLoadDataEx", Result (*)(Handle*, const void*, unsigned, int*, void**))                      \
  F(module_unload, "cuModuleUnload", Result (*)(Handle))                                                              \
  F(module_function, "cuModuleGetFunction", Result (*)(Handle*, Handle, const char*))                                 \
  F(function_attribute, "cuFuncSetAttribute", Result (*)(Handle, int, int))                                           \
  F(launch_kernel, "cuLaunchKernel",                                                                                  \
    Result (*)(Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Handle, void**, void**)) \
  F(error_string, "cuGetErrorString", Result (*)(Result, const char**))

#define STAX_DECLARE(member, symbol, type) std::add_pointer_t<std::remove_pointer_t<type>> member = nullptr;
#define STAX_RESOLVE(member, symbol, type) member = reinterpret_cast<type>(library.function(symbol));

struct CudaFunctions {
  DynamicLibrary library{{"libcuda.so.1"}, "CUDA driver", kAdvice};
  STAX_CUDA_FUNCTIONS(STAX_DECLARE)
  CudaFunctions() { STAX_CUDA_FUNCTIONS(STAX_RESOLVE) }

  void check(Result r, const char* what) const {
    if (r == 0) return;
    const char* text = nullptr;
    error_string(r, &text);
    user_error("CUDA: {}: {} (error {})", what, text != nullptr ? text : "unknown error", r);
  }
  int first_device() const {
    check(init(0), "the driver cannot be initialized");
    int count = 0, device = 0;
    check(device_count(&count), "the devices cannot be counted");
    if (count == 0) user_error("CUDA: there is no GPU; use another --device");
    check(device_get(&device, 0), "the first device");
    return device;
  }
  int attribute(int device, int which) const {
    int value = 0;
    check(device_attribute(&value, which, device), "an attribute of the device");
    return value;
  }
};

class CudaDriver final : public Driver {
 public:
  explicit CudaDriver(std::string arch) : arch_(std::move(arch)) {
    device_ = f_.first_device();
    f_.check(f_.retain(&context_, device_), "the device's context");
    enter();
    constexpr unsigned kNonBlocking = 1;
    f_.check(f_.stream_create(&stream_, kNonBlocking), "a stream");
    most_shared_ = f_.attribute(device_, kMostSharedAttribute);
  }
  ~CudaDriver() override {
    f_.set_current(context_);
    for (Handle m : modules_) f_.module_unload(m);
    if (stream_ != nullptr) f_.stream_destroy(stream_);
    f_.unretain(device_);
  }
  std::string name() const override {
    char text[256] = {};
    f_.check(f_.device_name(text, sizeof text - 1, device_), "the device's name");
    return text;
  }
  void enter() override { f_.check(f_.set_current(context_), "the device's context"); }
  void* allocate(size_t bytes) override {
    Address a = 0;
    const Result r = f_.mem_alloc(&a, bytes);
    if (r == kOutOfMemory) return nullptr;
    f_.check(r, "memory");
    return reinterpret_cast<void*>(a);
  }
  // The driver waits for what uses the memory.
  void release(void* data) override { f_.mem_free(reinterpret_cast<Address>(data)); }
  void copy_in(void* to, const void* host, size_t bytes) override {
    f_.check(f_.copy_in(reinterpret_cast<Address>(to), host, bytes, stream_), "a copy to the device");
    synchronize();
  }
  void copy_out(void* host, const void* from, size_t bytes) override {
    f_.check(f_.copy_out(host, reinterpret_cast<Address>(from), bytes, stream_), "a copy from the device");
    synchronize();
  }
  void copy(void* to, const void* from, size_t bytes) override {
    f_.check(f_.copy(reinterpret_cast<Address>(to), reinterpret_cast<Address>(from), bytes, stream_),
             "a copy on the device");
  }
  void synchronize() override { f_.check(f_.stream_synchronize(stream_), "waiting for the device"); }
  Function load(const program::KernelSpec& kernel) override {
    const std::string text = kernel.code_format == "cuda" ? to_ptx(kernel) : kernel.code;
    char log[4096] = {};
    int options[] = {kErrorLogBuffer, kErrorLogBytes};
    void* values[] = {log, reinterpret_cast<void*>(sizeof log - 1)};
    Handle module = nullptr, function = nullptr;
    if (const Result r = f_.module_load(&module, text.c_str(), 2, options, values); r != 0)
      internal_error("the CUDA driver rejects kernel {} (error {}): {}", kernel.name, r, log);
    modules_.push_back(module);
    f_.check(f_.module_function(&function, module, kernel.entry.c_str()), kernel.name.c_str());
    f_.check(f_.function_attribute(function, kDynamicSharedAttribute,
                                   most_shared_ - static_cast<int>(kernel.static_shared_bytes)),
             "shared memory of a kernel");
    return function;
  }
  void launch(Function function, const int64_t (&grid)[3], int64_t block, int64_t shared_bytes,
              void** arguments) override {
    f_.check(f_.launch_kernel(function, static_cast<unsigned>(grid[0]), static_cast<unsigned>(grid[1]),
                              static_cast<unsigned>(grid[2]), static_cast<unsigned>(block), 1, 1,
                              static_cast<unsigned>(shared_bytes), stream_, arguments, nullptr),
             "a launch");
  }

 private:
  std::string to_ptx(const program::KernelSpec& kernel) {
    if (!nvrtc_) nvrtc_ = open_nvrtc();
    // sm_90a -> compute_90a
    return nvrtc_->compile(kernel, {"--gpu-architecture=compute_" + arch_.substr(arch_.find('_') + 1), "--std=c++17"});
  }
  CudaFunctions f_;
  std::unique_ptr<TextCompiler> nvrtc_;
  std::string arch_;
  int device_ = 0, most_shared_ = 0;
  Handle context_ = nullptr, stream_ = nullptr;
  std::vector<Handle> modules_;
};

}  // namespace

int cuda_compute_capability() {
  const CudaFunctions f;
  const int device = f.first_device();
  return f.attribute(device, kMajorAttribute) * 10 + f.attribute(device, kMinorAttribute);
}

std::unique_ptr<Device> open_cuda(const program::Program& program) {
  const std::string arch = program.target.substr(program.target.find(':') + 1);
  return std::make_unique<DriverDevice>(std::make_unique<CudaDriver>(arch), program);
}

}  // namespace stax::runtime
