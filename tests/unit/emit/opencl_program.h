// SPDX-License-Identifier: Apache-2.0
#pragma once
// OpenCL C text on the first OpenCL device, without headers or a library to link.
#include <dlfcn.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "support/error.h"

namespace stax::emit {

class OpenclDevice {
 public:
  static OpenclDevice& get() {
    static OpenclDevice device;
    return device;
  }
  /// Empty if programs can run, else what is missing.
  const std::string& missing() const { return missing_; }

  void* context = nullptr;
  void* queue = nullptr;
  void* device = nullptr;

  template <class F>
  F* function(const char* name) const {
    void* found = ::dlsym(library_, name);
    STAX_ASSERT(found != nullptr, "{} is missing", name);
    return reinterpret_cast<F*>(found);
  }

 private:
  OpenclDevice() {
    library_ = ::dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) {
      missing_ = "libOpenCL.so.1 is not installed (ocl-icd-libopencl1)";
      return;
    }
    void* platform = nullptr;
    uint32_t count = 0;
    if (function<int(uint32_t, void**, uint32_t*)>("clGetPlatformIDs")(1, &platform, &count) != 0 || count == 0 ||
        function<int(void*, uint64_t, uint32_t, void**, uint32_t*)>("clGetDeviceIDs")(platform, 0xffffffff, 1, &device,
                                                                                      &count) != 0) {
      missing_ = "no OpenCL device (pocl-opencl-icd)";
      return;
    }
    int error = 0;
    context = function<void*(const intptr_t*, uint32_t, void* const*, void*, void*, int*)>("clCreateContext")(
        nullptr, 1, &device, nullptr, nullptr, &error);
    STAX_ASSERT(error == 0, "clCreateContext: {}", error);
    queue = function<void*(void*, void*, uint64_t, int*)>("clCreateCommandQueue")(context, device, 0, &error);
    STAX_ASSERT(error == 0, "clCreateCommandQueue: {}", error);
  }

  void* library_ = nullptr;
  std::string missing_;
};

/// Bytes that the device reads and writes, with poison around them.
class OpenclBuffer {
 public:
  static constexpr size_t kOffset = 256, kGuard = 64;
  explicit OpenclBuffer(size_t bytes) : memory_(kOffset + bytes + kGuard, 0xA5), bytes_(bytes) {}
  uint8_t* data() { return memory_.data() + kOffset; }
  const uint8_t* data() const { return memory_.data() + kOffset; }
  size_t bytes() const { return bytes_; }
  std::vector<uint8_t>& memory() { return memory_; }
  /// Whether what lies around the buffer is as it was.
  bool guards_hold() const {
    for (size_t i = 0; i < memory_.size(); ++i)
      if ((i < kOffset || i >= kOffset + bytes_) && memory_[i] != 0xA5) return false;
    return true;
  }

 private:
  std::vector<uint8_t> memory_;
  size_t bytes_;
};

class OpenclProgram {
 public:
  OpenclProgram(const std::string& text, const std::string& name) : d_(OpenclDevice::get()) {
    const char* source = text.c_str();
    int error = 0;
    program_ = d_.function<void*(void*, uint32_t, const char**, const size_t*, int*)>("clCreateProgramWithSource")(
        d_.context, 1, &source, nullptr, &error);
    const int built = d_.function<int(void*, uint32_t, void* const*, const char*, void*, void*)>("clBuildProgram")(
        program_, 1, &d_.device, "-cl-std=CL1.2", nullptr, nullptr);
    if (built != 0) {
      std::string log(20000, '\0');
      d_.function<int(void*, void*, uint32_t, size_t, void*, size_t*)>("clGetProgramBuildInfo")(
          program_, d_.device, 0x1183, log.size(), log.data(), nullptr);
      internal_error("clBuildProgram: {}\n{}\n{}", built, log.c_str(), text);
    }
    kernel_ = d_.function<void*(void*, const char*, int*)>("clCreateKernel")(program_, name.c_str(), &error);
    STAX_ASSERT(error == 0, "clCreateKernel {}: {}", name, error);
  }
  ~OpenclProgram() {
    d_.function<int(void*)>("clReleaseKernel")(kernel_);
    d_.function<int(void*)>("clReleaseProgram")(program_);
  }
  OpenclProgram(const OpenclProgram&) = delete;
  OpenclProgram& operator=(const OpenclProgram&) = delete;

  /// `fault`: null if the kernel has no checks. `dynamic_shared` in bytes; 0: none.
  void run(const std::vector<OpenclBuffer*>& buffers, const std::vector<int64_t>& params, int index_bits,
           const int64_t (&grid)[3], int block, OpenclBuffer* fault, int64_t dynamic_shared) {
    std::vector<OpenclBuffer*> all = buffers;
    std::vector<void*> objects;
    uint32_t at = 0;
    const auto argument = [&](size_t size, const void* value) {
      const int error =
          d_.function<int(void*, uint32_t, size_t, const void*)>("clSetKernelArg")(kernel_, at++, size, value);
      STAX_ASSERT(error == 0, "clSetKernelArg {}: {}", at - 1, error);
    };
    const auto object = [&](OpenclBuffer& b) {
      int error = 0;
      objects.push_back(d_.function<void*(void*, uint64_t, size_t, void*, int*)>("clCreateBuffer")(
          d_.context, 1 | 32, b.memory().size(), b.memory().data(), &error));
      STAX_ASSERT(error == 0, "clCreateBuffer: {}", error);
      const uint64_t offset = OpenclBuffer::kOffset;
      argument(sizeof(void*), &objects.back());
      argument(sizeof(offset), &offset);
    };
    for (OpenclBuffer* b : buffers) object(*b);
    for (int64_t p : params) {
      const auto narrow = static_cast<int32_t>(p);
      argument(index_bits == 32 ? 4 : 8, index_bits == 32 ? static_cast<const void*>(&narrow) : &p);
    }
    if (fault != nullptr) {
      object(*fault);
      all.push_back(fault);
    }
    if (dynamic_shared > 0) argument(static_cast<size_t>(dynamic_shared), nullptr);
    const size_t global[3] = {static_cast<size_t>(grid[0] * block), static_cast<size_t>(grid[1]),
                              static_cast<size_t>(grid[2])};
    const size_t local[3] = {static_cast<size_t>(block), 1, 1};
    int error = d_.function<int(void*, void*, uint32_t, const size_t*, const size_t*, const size_t*, uint32_t,
                                const void*, void*)>("clEnqueueNDRangeKernel")(d_.queue, kernel_, 3, nullptr, global,
                                                                               local, 0, nullptr, nullptr);
    STAX_ASSERT(error == 0, "clEnqueueNDRangeKernel: {}", error);
    for (size_t i = 0; i < all.size(); ++i) {
      error = d_.function<int(void*, void*, uint32_t, size_t, size_t, void*, uint32_t, const void*, void*)>(
          "clEnqueueReadBuffer")(d_.queue, objects[i], 1, 0, all[i]->memory().size(), all[i]->memory().data(), 0,
                                 nullptr, nullptr);
      STAX_ASSERT(error == 0, "clEnqueueReadBuffer: {}", error);
      d_.function<int(void*)>("clReleaseMemObject")(objects[i]);
    }
  }

 private:
  OpenclDevice& d_;
  void* program_ = nullptr;
  void* kernel_ = nullptr;
};

}  // namespace stax::emit
