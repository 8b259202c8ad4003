// SPDX-License-Identifier: Apache-2.0
// OpenCL: the kernels' text, built when the program is loaded; one in-order queue.
//
// Device pointers are addresses that nothing is behind: each allocation reserves a range of the address space without memory in it, so that
// arithmetic works, two allocations never meet, and a host that reads through one is stopped. A launch finds the memory object of an address and
// its place therein, which is what kernels take.
#include <sys/mman.h>

#include <map>
#include <mutex>

#include "runtime/opencl_driver.h"
#include "runtime/runtime.h"
#include "support/error.h"

namespace stax::runtime {
namespace {

using opencl::Driver;
using opencl::error_name;
using opencl::Handle;

// A kernel whose index failed goes on at element 0, which a tensor without elements does not have.
constexpr size_t kSlack = 64;

void check(int error, const char* what) {
  if (error != opencl::kSuccess) internal_error("OpenCL: {}: {}", what, error_name(error));
}

// The first GPU, else the first device at all.
Handle choose_device(const Driver& cl) {
  uint32_t count = 0;
  // A loader without any driver reports an error.
  if (cl.GetPlatformIDs(0, nullptr, &count) != opencl::kSuccess) count = 0;
  std::vector<Handle> platforms(count);
  if (count > 0) check(cl.GetPlatformIDs(count, platforms.data(), nullptr), "clGetPlatformIDs");
  for (uint64_t type : {opencl::kDeviceTypeGpu, opencl::kDeviceTypeAll}) {
    for (Handle platform : platforms) {
      Handle device = nullptr;
      uint32_t found = 0;
      if (cl.GetDeviceIDs(platform, type, 1, &device, &found) == opencl::kSuccess && found > 0) return device;
    }
  }
  user_error(
      "there is no OpenCL device on this machine. Install a driver, e.g. apt-get install pocl-opencl-icd (which runs "
      "on any CPU), or use "
      "another --device; OCL_ICD_VENDORS, if set, must name a folder of drivers");
}

class OpenclDevice final : public Device {
 public:
  explicit OpenclDevice(const program::Program& program) : cl_(Driver::get()), device_(choose_device(cl_)) {
    int error = 0;
    context_ = cl_.CreateContext(nullptr, 1, &device_, nullptr, nullptr, &error);
    check(error, "clCreateContext");
    queue_ = cl_.CreateCommandQueue(context_, device_, 0, &error);
    check(error, "clCreateCommandQueue");
    try {
      for (const program::KernelSpec& k : program.kernels) kernels_.push_back(build(k));
    } catch (...) {
      close();
      throw;
    }
  }
  ~OpenclDevice() override { close(); }

  std::string name() const override {
    std::string text(info_size(opencl::kDeviceName), '\0');
    check(cl_.GetDeviceInfo(device_, opencl::kDeviceName, text.size(), text.data(), nullptr), "clGetDeviceInfo");
    while (!text.empty() && text.back() == '\0') text.pop_back();
    return text;
  }
  bool unified() const override { return false; }

  void* allocate(size_t bytes) override {
    int error = 0;
    Handle object = cl_.CreateBuffer(context_, opencl::kMemReadWrite, bytes + kSlack, nullptr, &error);
    if (error != opencl::kSuccess) {
      if (error == opencl::kMemObjectAllocationFailure || error == opencl::kOutOfResources ||
          error == opencl::kOutOfHostMemory || error == opencl::kInvalidBufferSize)
        return nullptr;
      check(error, "clCreateBuffer");
    }
    void* address = ::mmap(nullptr, bytes + kSlack, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (address == MAP_FAILED) {
      cl_.ReleaseMemObject(object);
      return nullptr;
    }
    const std::lock_guard lock(mutex_);
    allocations_.emplace(reinterpret_cast<uintptr_t>(address), Allocation{object, bytes + kSlack});
    return address;
  }

  // The driver keeps the object until the commands that use it are done.
  void release(void* data, size_t) override {
    if (data == nullptr) return;
    const std::lock_guard lock(mutex_);
    const auto found = allocations_.find(reinterpret_cast<uintptr_t>(data));
    STAX_ASSERT(found != allocations_.end(), "memory that is released was not allocated");
    check(cl_.ReleaseMemObject(found->second.object), "clReleaseMemObject");
    ::munmap(data, found->second.bytes);
    allocations_.erase(found);
  }

  void copy_in(void* to, const void* host, size_t bytes) override {
    const std::lock_guard lock(mutex_);
    const Place p = place(to);
    check(cl_.EnqueueWriteBuffer(queue_, p.object, 1, p.offset, bytes, host, 0, nullptr, nullptr),
          "clEnqueueWriteBuffer");
  }
  void copy_out(void* host, const void* from, size_t bytes) override {
    const std::lock_guard lock(mutex_);
    const Place p = place(from);
    check(cl_.EnqueueReadBuffer(queue_, p.object, 1, p.offset, bytes, host, 0, nullptr, nullptr),
          "clEnqueueReadBuffer");
  }
  void copy(void* to, const void* from, size_t bytes) override {
    const std::lock_guard lock(mutex_);
    const Place a = place(from), b = place(to);
    check(cl_.EnqueueCopyBuffer(queue_, a.object, b.object, a.offset, b.offset, bytes, 0, nullptr, nullptr),
          "clEnqueueCopyBuffer");
  }

  void launch(const Launch& l) override {
    const std::lock_guard lock(mutex_);
    const Kernel& k = kernels_[l.kernel];
    uint32_t number = 0;
    const auto argument = [&](size_t size, const void* value) {
      check(cl_.SetKernelArg(k.kernel, number++, size, value), "clSetKernelArg");
    };
    const auto memory = [&](const void* address) {
      const Place p = address == nullptr ? Place{} : place(address);
      const uint64_t offset = p.offset;
      argument(sizeof(Handle), &p.object);
      argument(sizeof(offset), &offset);
    };
    for (const void* buffer : l.buffers) memory(buffer);
    for (int64_t p : l.params) {
      // Multipliers fill all 32 bits.
      const auto narrow = static_cast<uint32_t>(p);
      if (k.index_bits == 32)
        argument(sizeof(narrow), &narrow);
      else
        argument(sizeof(p), &p);
    }
    if (k.reports_faults) memory(l.fault);
    if (number < k.arguments) argument(static_cast<size_t>(std::max<int64_t>(l.shared_bytes, 16)), nullptr);
    STAX_ASSERT(number == k.arguments, "kernel {} takes {} arguments, not {}", l.kernel, k.arguments, number);
    const size_t local[3] = {static_cast<size_t>(l.block), 1, 1};
    const size_t global[3] = {static_cast<size_t>(l.grid[0] * l.block), static_cast<size_t>(l.grid[1]),
                              static_cast<size_t>(l.grid[2])};
    check(cl_.EnqueueNDRangeKernel(queue_, k.kernel, 3, nullptr, global, local, 0, nullptr, nullptr),
          "clEnqueueNDRangeKernel");
  }

  void synchronize() override { check(cl_.Finish(queue_), "clFinish"); }

 private:
  struct Allocation {
    Handle object = nullptr;
    size_t bytes = 0;
  };
  struct Place {
    Handle object = nullptr;
    size_t offset = 0;
  };
  struct Kernel {
    Handle program = nullptr, kernel = nullptr;
    uint32_t arguments = 0, index_bits = 64;
    bool reports_faults = false;
  };

  Place place(const void* address) const {
    const auto number = reinterpret_cast<uintptr_t>(address);
    auto after = allocations_.upper_bound(number);
    STAX_ASSERT(after != allocations_.begin(), "an address of no allocation");
    --after;
    STAX_ASSERT(number - after->first <= after->second.bytes, "an address behind its allocation");
    return {after->second.object, number - after->first};
  }

  size_t info_size(uint32_t what) const {
    size_t size = 0;
    check(cl_.GetDeviceInfo(device_, what, 0, nullptr, &size), "clGetDeviceInfo");
    return size;
  }
  uint64_t info_number(uint32_t what) const {
    uint64_t number = 0;
    // What a device does not know is 0.
    if (cl_.GetDeviceInfo(device_, what, sizeof(number), &number, nullptr) != opencl::kSuccess) return 0;
    return number;
  }

  Kernel build(const program::KernelSpec& spec) {
    STAX_ASSERT(spec.code_format == "opencl", "kernel {} has no OpenCL C, but '{}'", spec.name, spec.code_format);
    Kernel k;
    k.index_bits = spec.index_bits;
    k.reports_faults = spec.reports_faults;
    const char* text = spec.code.c_str();
    int error = 0;
    k.program = cl_.CreateProgramWithSource(context_, 1, &text, nullptr, &error);
    check(error, "clCreateProgramWithSource");
    std::string options = "-cl-std=CL1.2";
    if ((info_number(opencl::kDeviceSingleFpConfig) & opencl::kFpCorrectlyRoundedDivideSqrt) != 0)
      options += " -cl-fp32-correctly-rounded-divide-sqrt";
    if (spec.flush_denormals) options += " -cl-denorms-are-zero";
    error = cl_.BuildProgram(k.program, 1, &device_, options.c_str(), nullptr, nullptr);
    if (error != opencl::kSuccess) {
      const std::string log = build_log(k.program);
      cl_.ReleaseProgram(k.program);
      if (info_number(opencl::kDeviceDoubleFpConfig) == 0 && spec.code.find("double ") != std::string::npos)
        unsupported("kernel {} computes in f64, which the OpenCL device {} does not have", spec.name, name());
      internal_error("OpenCL: kernel {} is not accepted by {}: {}\n{}", spec.name, name(), error_name(error), log);
    }
    k.kernel = cl_.CreateKernel(k.program, spec.entry.c_str(), &error);
    if (error != opencl::kSuccess) cl_.ReleaseProgram(k.program);
    check(error, "clCreateKernel");
    check(cl_.GetKernelInfo(k.kernel, opencl::kKernelNumArgs, sizeof(k.arguments), &k.arguments, nullptr),
          "clGetKernelInfo");
    return k;
  }

  std::string build_log(Handle program) const {
    size_t size = 0;
    if (cl_.GetProgramBuildInfo(program, device_, opencl::kProgramBuildLog, 0, nullptr, &size) != opencl::kSuccess)
      return "";
    std::string text(size, '\0');
    cl_.GetProgramBuildInfo(program, device_, opencl::kProgramBuildLog, size, text.data(), nullptr);
    return text.c_str();
  }

  void close() noexcept {
    if (queue_ != nullptr) cl_.Finish(queue_);
    for (const Kernel& k : kernels_) {
      cl_.ReleaseKernel(k.kernel);
      cl_.ReleaseProgram(k.program);
    }
    for (const auto& [address, a] : allocations_) {
      cl_.ReleaseMemObject(a.object);
      ::munmap(reinterpret_cast<void*>(address), a.bytes);
    }
    if (queue_ != nullptr) cl_.ReleaseCommandQueue(queue_);
    if (context_ != nullptr) cl_.ReleaseContext(context_);
  }

  const Driver& cl_;
  Handle device_ = nullptr, context_ = nullptr, queue_ = nullptr;
  std::vector<Kernel> kernels_;
  mutable std::mutex mutex_;
  std::map<uintptr_t, Allocation> allocations_;
};

}  // namespace

std::unique_ptr<Device> open_opencl(const program::Program& program) { return std::make_unique<OpenclDevice>(program); }

}  // namespace stax::runtime
