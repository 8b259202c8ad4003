// SPDX-License-Identifier: Apache-2.0
// AMD GPUs through the HIP runtime, libamdhip64 of ROCm 6 or later. HIP C++ is compiled by hiprtc. The types below are those of its ABI: handles are
// pointers, results integers; of the properties of a device only the name of its architecture is read, whose place in them is fixed for the
// versioned function.
#include "runtime/hip.h"

#include <cstring>

#include "runtime/driver_device.h"
#include "runtime/dynamic_library.h"
#include "runtime/text_compiler.h"
#include "support/error.h"

namespace stax::runtime {

namespace {

using Result = int;
using Handle = void*;

constexpr Result kOutOfMemory = 2;
constexpr int kHostToDevice = 1, kDeviceToHost = 2, kDeviceToDevice = 3;                     // hipMemcpyKind
constexpr size_t kPropertiesBytes = 1472, kArchitectureAt = 1160, kArchitectureBytes = 256;  // hipDeviceProp_tR0600

constexpr char kAdvice[] = "install ROCm 6 or later (Ubuntu: hip-runtime-amd), or use another --device";

// Name in the table, name in the library, type.
#define STAX_HIP_FUNCTIONS(F)                                                                                         \
  F(init, "hipInit", Result (*)(unsigned))                                                                            \
  F(device_count, "hipGetDeviceCount", Result (*)(int*))                                                              \
  F(set_device, "hipSetDevice", Result (*)(int))                                                                      \
  F(device_name, "hipDeviceGetName", Result (*)(char*, int, int))                                                     \
  F(properties, "hipGetDevicePropertiesR0600", Result (*)(void*, int))                                                \
  F(stream_create, "hipStreamCreateWithFlags", Result (*)(Handle*, unsigned))                                         \
  F(stream_destroy, "hipStreamDestroy", Result (*)(Handle))                                                           \
  F(stream_synchronize, "hipStreamSynchronize", Result (*)(Handle))                                                   \
  F(allocate, "hipMalloc", Result (*)(void**, size_t))                                                                \
  F(release, "hipFree", Result (*)(void*))                                                                            \
  F(copy, "hipMemcpyAsync", Result (*)(void*, const void*, size_t, int, Handle))                                      \
  F(module_load, "hipModuleLoadData", Result (*)(Handle*, const void*))                                               \
  F(module_unload, "hipModuleUnload", Result (*)(Handle))                                                             \
  F(module_function, "hipModuleGetFunction", Result (*)(Handle*, Handle, const char*))                                \
  F(launch_kernel, "hipModuleLaunchKernel",                                                                           \
    Result (*)(Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Handle, void**, void**)) \
  F(error_string, "hipGetErrorString", const char* (*)(Result))

#define STAX_DECLARE(member, symbol, type) std::add_pointer_t<std::remove_pointer_t<type>> member = nullptr;
#define STAX_RESOLVE(member, symbol, type) member = reinterpret_cast<type>(library.function(symbol));

struct HipFunctions {
  DynamicLibrary library{{"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so"}, "HIP runtime", kAdvice};
  STAX_HIP_FUNCTIONS(STAX_DECLARE)
  HipFunctions() { STAX_HIP_FUNCTIONS(STAX_RESOLVE) }

  void check(Result r, const char* what) const {
    if (r == 0) return;
    const char* text = error_string(r);
    user_error("HIP: {}: {} (error {})", what, text != nullptr ? text : "unknown error", r);
  }
  /// UserError if there is none.
  void find_device() const {
    int count = 0;
    // Without a GPU, the runtime reports that as an error.
    if (init(0) != 0 || device_count(&count) != 0 || count == 0)
      user_error("HIP: there is no GPU; use another --device");
  }
  std::string architecture() const {
    char properties_of_device[kPropertiesBytes * 2] = {};
    check(properties(properties_of_device, 0), "the properties of the device");
    const char* name = properties_of_device + kArchitectureAt;
    const std::string whole(name, strnlen(name, kArchitectureBytes));
    return whole.substr(0, whole.find(':'));  // "gfx90a:sramecc+:xnack-"
  }
};

class HipDriver final : public Driver {
 public:
  explicit HipDriver(const std::string& arch) : arch_(arch) {
    f_.find_device();
    if (const std::string here = f_.architecture(); here != arch)
      user_error("this program was compiled for {}, but the GPU is a {}; compile it with --target hip:{}", arch, here,
                 here);
    enter();
    constexpr unsigned kNonBlocking = 1;
    f_.check(f_.stream_create(&stream_, kNonBlocking), "a stream");
  }
  ~HipDriver() override {
    f_.set_device(0);
    for (Handle m : modules_) f_.module_unload(m);
    if (stream_ != nullptr) f_.stream_destroy(stream_);
  }
  std::string name() const override {
    char text[256] = {};
    f_.check(f_.device_name(text, sizeof text - 1, 0), "the device's name");
    return text;
  }
  void enter() override { f_.check(f_.set_device(0), "the device"); }
  void* allocate(size_t bytes) override {
    void* data = nullptr;
    const Result r = f_.allocate(&data, bytes);
    if (r == kOutOfMemory) return nullptr;
    f_.check(r, "memory");
    return data;
  }
  // The runtime waits for what uses the memory.
  void release(void* data) override { f_.release(data); }
  void copy_in(void* to, const void* host, size_t bytes) override {
    f_.check(f_.copy(to, host, bytes, kHostToDevice, stream_), "a copy to the device");
    synchronize();
  }
  void copy_out(void* host, const void* from, size_t bytes) override {
    f_.check(f_.copy(host, from, bytes, kDeviceToHost, stream_), "a copy from the device");
    synchronize();
  }
  void copy(void* to, const void* from, size_t bytes) override {
    f_.check(f_.copy(to, from, bytes, kDeviceToDevice, stream_), "a copy on the device");
  }
  void synchronize() override { f_.check(f_.stream_synchronize(stream_), "waiting for the device"); }
  Function load(const program::KernelSpec& kernel) override {
    const std::string code = compiler_->compile(kernel, {"--offload-arch=" + arch_, "-std=c++17", "-O3"});
    Handle module = nullptr, function = nullptr;
    if (const Result r = f_.module_load(&module, code.data()); r != 0)
      internal_error("the HIP runtime rejects kernel {} (error {})", kernel.name, r);
    modules_.push_back(module);
    f_.check(f_.module_function(&function, module, kernel.entry.c_str()), kernel.name.c_str());
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
  HipFunctions f_;
  std::unique_ptr<TextCompiler> compiler_ = open_hiprtc();
  std::string arch_;
  Handle stream_ = nullptr;
  std::vector<Handle> modules_;
};

}  // namespace

std::string hip_architecture() {
  const HipFunctions f;
  f.find_device();
  return f.architecture();
}

std::unique_ptr<Device> open_hip(const program::Program& program) {
  const std::string arch = program.target.substr(program.target.find(':') + 1);
  return std::make_unique<DriverDevice>(std::make_unique<HipDriver>(arch), program);
}

}  // namespace stax::runtime
