// SPDX-License-Identifier: Apache-2.0
// Stands in for libcuda.so.1 where there is no driver: memory is the host's behind poisoned ends, kernels are PTX run by an interpreter, and each
// call is a line in the file that FAKE_CUDA_LOG names. FAKE_CUDA_DEVICES: how many there are (1); FAKE_CUDA_CAPABILITY: theirs (80);
// FAKE_CUDA_MEMORY: bytes (2^33).
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "support/ptx_interpreter.h"

namespace {

using Result = int;
using Address = unsigned long long;
constexpr Result kSuccess = 0, kInvalidValue = 1, kOutOfMemory = 2, kInvalidPtx = 218, kNotFound = 500,
                 kLaunchFailed = 719;

struct Module {
  std::unique_ptr<stax::testing::PtxProgram> program;
  std::string entry;
  size_t parameters = 0;
};

struct Driver {
  std::mutex mutex;
  std::FILE* log = nullptr;
  std::map<Address, size_t> memory;
  size_t used = 0, most = size_t{1} << 33;
  uint64_t launches = 0;
  Driver() {
    if (const char* path = std::getenv("FAKE_CUDA_LOG")) log = std::fopen(path, "a");
    if (const char* bytes = std::getenv("FAKE_CUDA_MEMORY")) most = std::strtoull(bytes, nullptr, 10);
  }
};
Driver& driver() {
  static Driver* d = new Driver;
  return *d;
}

int number_from(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atoi(text) : otherwise;
}

template <class... A>
void record(const char* format, A... arguments) {
  Driver& d = driver();
  if (d.log == nullptr) return;
  std::fprintf(d.log, format, arguments...);
  std::fputc('\n', d.log);
  std::fflush(d.log);
}
void record(const char* text) { record("%s", text); }

// Whether all of it lies in one allocation.
bool is_known(Address a, size_t bytes) {
  Driver& d = driver();
  auto it = d.memory.upper_bound(a);
  if (it == d.memory.begin()) return false;
  --it;
  return a + bytes <= it->first + it->second;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

Result cuInit(unsigned) {
  record("init");
  return kSuccess;
}
Result cuDeviceGetCount(int* count) {
  *count = number_from("FAKE_CUDA_DEVICES", 1);
  return kSuccess;
}
Result cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return kSuccess;
}
Result cuDeviceGetName(char* name, int bytes, int) {
  std::snprintf(name, static_cast<size_t>(bytes), "Fake CUDA device");
  return kSuccess;
}
Result cuDeviceGetAttribute(int* value, int attribute, int) {
  const int capability = number_from("FAKE_CUDA_CAPABILITY", 80);
  *value = attribute == 75 ? capability / 10 : attribute == 76 ? capability % 10 : attribute == 97 ? 163 << 10 : 0;
  return kSuccess;
}
Result cuDevicePrimaryCtxRetain(void** context, int) {
  *context = &driver();
  record("retain");
  return kSuccess;
}
Result cuDevicePrimaryCtxRelease_v2(int) {
  record("release");
  return kSuccess;
}
Result cuCtxSetCurrent(void* context) { return context == &driver() ? kSuccess : kInvalidValue; }
Result cuStreamCreate(void** stream, unsigned) {
  *stream = &driver().mutex;
  record("stream");
  return kSuccess;
}
Result cuStreamDestroy_v2(void*) { return kSuccess; }
Result cuStreamSynchronize(void*) { return kSuccess; }
Result cuMemAlloc_v2(Address* a, size_t bytes) {
  Driver& d = driver();
  std::lock_guard lock(d.mutex);
  record("allocate %zu", bytes);
  if (bytes == 0) return kInvalidValue;
  if (bytes > d.most - d.used) return kOutOfMemory;
  void* data = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  std::memset(data, 0xa5, bytes);
  *a = reinterpret_cast<Address>(data);
  d.memory[*a] = bytes;
  d.used += bytes;
  return kSuccess;
}
Result cuMemFree_v2(Address a) {
  Driver& d = driver();
  std::lock_guard lock(d.mutex);
  const auto it = d.memory.find(a);
  if (it == d.memory.end()) return kInvalidValue;
  record("free %zu", it->second);
  d.used -= it->second;
  std::free(reinterpret_cast<void*>(a));
  d.memory.erase(it);
  return kSuccess;
}
Result cuMemcpyHtoDAsync_v2(Address to, const void* host, size_t bytes, void*) {
  std::lock_guard lock(driver().mutex);
  record("copy_in %zu", bytes);
  if (!is_known(to, bytes)) return kInvalidValue;
  std::memcpy(reinterpret_cast<void*>(to), host, bytes);
  return kSuccess;
}
Result cuMemcpyDtoHAsync_v2(void* host, Address from, size_t bytes, void*) {
  std::lock_guard lock(driver().mutex);
  record("copy_out %zu", bytes);
  if (!is_known(from, bytes)) return kInvalidValue;
  std::memcpy(host, reinterpret_cast<void*>(from), bytes);
  return kSuccess;
}
Result cuMemcpyDtoDAsync_v2(Address to, Address from, size_t bytes, void*) {
  std::lock_guard lock(driver().mutex);
  record("copy %zu", bytes);
  if (!is_known(to, bytes) || !is_known(from, bytes)) return kInvalidValue;
  std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes);
  return kSuccess;
}
Result cuModuleLoadDataEx(void** module, const void* image, unsigned options, int* which, void** values) {
  auto m = std::make_unique<Module>();
  const std::string text = static_cast<const char*>(image);
  try {
    m->program = std::make_unique<stax::testing::PtxProgram>(text);
  } catch (const std::exception& e) {
    for (unsigned k = 0; k < options; ++k)
      if (which[k] == 5) std::snprintf(static_cast<char*>(values[k]), 4000, "%s", e.what());
    return kInvalidPtx;
  }
  const size_t entry = text.find(".entry");
  const size_t open = text.find('(', entry), close = text.find(')', open);
  if (entry == std::string::npos || close == std::string::npos) return kInvalidPtx;
  m->entry = text.substr(entry + 7, open - entry - 7);
  m->entry.erase(m->entry.find_last_not_of(" \n\t") + 1);
  for (size_t at = text.find(".param", open); at < close; at = text.find(".param", at + 1)) ++m->parameters;
  record("load %s", m->entry.c_str());
  *module = m.release();
  return kSuccess;
}
Result cuModuleUnload(void* module) {
  delete static_cast<Module*>(module);
  return kSuccess;
}
Result cuModuleGetFunction(void** function, void* module, const char* name) {
  *function = module;
  return static_cast<Module*>(module)->entry == name ? kSuccess : kNotFound;
}
Result cuFuncSetAttribute(void*, int, int) { return kSuccess; }
Result cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                      unsigned shared, void*, void** arguments, void**) {
  Driver& d = driver();
  std::lock_guard lock(d.mutex);
  const Module& m = *static_cast<Module*>(function);
  record("launch %s grid %u %u %u block %u shared %u", m.entry.c_str(), gx, gy, gz, bx, shared);
  if (gx == 0 || gy == 0 || gz == 0 || bx == 0 || bx > 1024 || by != 1 || bz != 1) return kInvalidValue;
  stax::testing::PtxLaunch launch;
  launch.grid[0] = static_cast<int>(gx), launch.grid[1] = static_cast<int>(gy), launch.grid[2] = static_cast<int>(gz);
  launch.block = static_cast<int>(bx);
  launch.dynamic_shared = shared;
  launch.seed = ++d.launches;
  launch.know_read_only = false;  // a driver knows no such thing
  for (size_t k = 0; k < m.parameters; ++k) {
    uint64_t value = 0;
    std::memcpy(&value, arguments[k], sizeof value);
    launch.arguments.push_back(value);
  }
  for (const auto& [address, bytes] : d.memory)
    launch.memory.push_back({reinterpret_cast<void*>(address), bytes, true});
  try {
    m.program->run(launch);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "fake CUDA driver: %s: %s\n", m.entry.c_str(), e.what());
    return kLaunchFailed;
  }
  return kSuccess;
}
// NVRTC asks the driver that it finds for tables of its own.
Result cuGetExportTable(const void** table, const void*) {
  *table = nullptr;
  return kNotFound;
}
Result cuGetErrorString(Result r, const char** text) {
  *text = r == kOutOfMemory ? "out of memory" : r == kLaunchFailed ? "launch failed" : "an error of the fake driver";
  return kSuccess;
}

}  // extern "C"
#pragma GCC visibility pop
