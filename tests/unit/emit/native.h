// SPDX-License-Identifier: Apache-2.0
#pragma once
// Kernels as machine code in this process, and memory that notices what is out of bounds.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "emit/emit.h"
#include "loop/loop_ir.h"
#include "support/cpu.h"
#include "support/error.h"

namespace stax::emit {

using Entry = void (*)(void* const*, const int64_t*, int64_t, int64_t, void*, KernelFault*);

class Mapped {
 public:
  explicit Mapped(const NativeImage& image) {
    file_ = ::memfd_create("stax", MFD_CLOEXEC);
    const bool written =
        ::write(file_, image.bytes.data(), image.bytes.size()) == static_cast<ssize_t>(image.bytes.size());
    STAX_ASSERT(written);
    handle_ = ::dlopen(("/proc/self/fd/" + std::to_string(file_)).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ == nullptr) internal_error("dlopen: {}", ::dlerror());
  }
  // The file stays open: dlopen takes a second file under the same number for the first one.
  ~Mapped() {
    ::dlclose(handle_);
    ::close(file_);
  }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;
  Entry entry(const std::string& name) const {
    void* found = ::dlsym(handle_, name.c_str());
    STAX_ASSERT(found != nullptr, "no {}", name);
    return reinterpret_cast<Entry>(found);
  }

 private:
  int file_ = -1;
  void* handle_ = nullptr;
};

// Ends at a page that cannot be touched; filled with a pattern that is a NaN in every float type.
class Guarded {
 public:
  explicit Guarded(size_t bytes) : bytes_(bytes) {
    const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    mapped_ = (bytes + page - 1) / page * page + 2 * page;
    base_ = static_cast<char*>(::mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    STAX_ASSERT(base_ != MAP_FAILED);
    ::mprotect(base_, page, PROT_NONE);
    ::mprotect(base_ + mapped_ - page, page, PROT_NONE);
    data_ = base_ + mapped_ - page - bytes;
    std::memset(data_, 0xFF, bytes);
  }
  ~Guarded() { ::munmap(base_, mapped_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  void* data() const { return data_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_, mapped_;
  char* base_;
  char* data_;
};

inline std::vector<Isa> testable_isas() {
  std::vector<Isa> isas;
  for (Isa isa : kIsas)
    if (cpu_executes(name_of(isa))) isas.push_back(isa);
  return isas;
}

// One kernel, compiled and mapped.
class Native {
 public:
  explicit Native(loop::Kernel kernel, Isa isa = host_isa()) : kernel_(std::move(kernel)) {
    loop::verify(kernel_);
    const NativeKernel one{&kernel_, "entry"};
    EmitOptions options;
    options.isa = isa;
    mapped_ = std::make_unique<Mapped>(emit_native({&one, 1}, options));
    entry_ = mapped_->entry("entry");
  }
  explicit Native(const std::string& text, Isa isa = host_isa()) : Native(loop::parse_kernel(text), isa) {}

  const loop::Kernel& kernel() const { return kernel_; }
  Entry entry() const { return entry_; }
  KernelFault run(const std::vector<void*>& buffers, const std::vector<int64_t>& params, int64_t begin = 0,
                  int64_t end = 1) const {
    KernelFault fault;
    alignas(64) static char scratch[1 << 20];
    entry_(buffers.data(), params.data(), begin, end, scratch, &fault);
    return fault;
  }

 private:
  loop::Kernel kernel_;
  std::unique_ptr<Mapped> mapped_;
  Entry entry_ = nullptr;
};

}  // namespace stax::emit
