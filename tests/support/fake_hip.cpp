// SPDX-License-Identifier: Apache-2.0
// Stands in for libamdhip64 and libhiprtc where there is no AMD GPU: memory is the host's, poisoned; kernels are compiled by clang for this machine with
// AMD's builtins replaced (fake_hip_device.h), and each thread of a block is a context of its own that runs up to the next barrier or exchange of its
// warp, in an order drawn anew. Who doesn't come to where the others wait is an error. Each call is a line in the file that FAKE_HIP_LOG names.
// FAKE_HIP_DEVICES: how many there are (1); FAKE_HIP_ARCH: theirs (gfx90a:sramecc+:xnack-); FAKE_HIP_MEMORY: bytes (2^33).
#include <dlfcn.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using Result = int;
constexpr Result kSuccess = 0, kInvalidValue = 1, kOutOfMemory = 2, kNoDevice = 100, kInvalidImage = 200,
                 kNotFound = 500, kLaunchFailed = 719;
constexpr size_t kPropertiesBytes = 1472, kArchitectureAt = 1160;  // hipDeviceProp_tR0600
constexpr size_t kStack = size_t{256} << 10;

// Layout shared with fake_hip_device.h.
struct FakeBlock {
  int (*thread)();
  int (*block)(int axis);
  void (*barrier)();
  int (*exchange)(int value, int lane);
  unsigned long long (*ballot)(bool condition);
  int (*lane)();
  void* dynamic_shared;
};

struct Driver {
  std::mutex mutex;
  std::FILE* log = nullptr;
  std::map<void*, size_t> memory;
  size_t used = 0, most = size_t{1} << 33;
  uint64_t launches = 0;
  Driver() {
    if (const char* path = std::getenv("FAKE_HIP_LOG")) log = std::fopen(path, "a");
    if (const char* bytes = std::getenv("FAKE_HIP_MEMORY")) most = std::strtoull(bytes, nullptr, 10);
  }
};
Driver& driver() {
  static Driver* d = new Driver;
  return *d;
}

void record(const char* format, ...) {
  Driver& d = driver();
  if (d.log == nullptr) return;
  va_list arguments;
  va_start(arguments, format);
  std::vfprintf(d.log, format, arguments);
  va_end(arguments);
  std::fputc('\n', d.log);
  std::fflush(d.log);
}

std::string architecture() {
  const char* text = std::getenv("FAKE_HIP_ARCH");
  return text != nullptr ? text : "gfx90a:sramecc+:xnack-";
}
int warp_size() { return architecture().starts_with("gfx9") ? 64 : 32; }

// Whether all of it lies in one allocation.
bool is_known(const void* data, size_t bytes) {
  Driver& d = driver();
  auto it = d.memory.upper_bound(const_cast<void*>(data));
  if (it == d.memory.begin()) return false;
  --it;
  return static_cast<const char*>(data) + bytes <= static_cast<const char*>(it->first) + it->second;
}

// ---- One block: its threads are contexts, one of which runs at a time.

enum class State : uint8_t { kReady, kAtBarrier, kAtExchange, kDone };

struct Thread {
  ucontext_t context;
  State state = State::kReady;
  int exchanges = 0;
  std::unique_ptr<char[]> stack;
};

class BlockRun {
 public:
  BlockRun(int block, int warp, uint64_t seed) : warp_(warp), threads_(static_cast<size_t>(block)), random_(seed) {
    for (auto& values : given_) values.resize(threads_.size());
    for (Thread& t : threads_) t.stack = std::make_unique<char[]>(kStack);
  }
  void run(void (*entry)(void**), void** arguments, const int (&block)[3]) {
    std::copy(block, block + 3, block_);
    entry_ = entry, arguments_ = arguments;
    running = this;
    for (Thread& t : threads_) {
      t.state = State::kReady, t.exchanges = 0;
      getcontext(&t.context);
      t.context.uc_stack.ss_sp = t.stack.get(), t.context.uc_stack.ss_size = kStack;
      t.context.uc_link = &scheduler_;
      makecontext(&t.context, start, 0);
    }
    std::vector<int> order(threads_.size());
    for (size_t k = 0; k < order.size(); ++k) order[k] = static_cast<int>(k);
    for (;;) {
      std::shuffle(order.begin(), order.end(), random_);
      for (int k : order) {
        if (threads_[static_cast<size_t>(k)].state != State::kReady) continue;
        current_ = k;
        swapcontext(&scheduler_, &threads_[static_cast<size_t>(k)].context);
      }
      if (!release()) break;
    }
    running = nullptr;
  }

  static BlockRun* running;
  static int thread() { return running->current_; }
  static int block(int axis) { return running->block_[axis]; }
  static int lane() { return running->current_ % running->warp_; }
  static void barrier() { running->wait(State::kAtBarrier); }
  static int exchange(int value, int lane) {
    BlockRun& r = *running;
    const int first = r.current_ - r.current_ % r.warp_;
    // A lane may give the next value before others have read this one, but never the one after that.
    std::vector<int>& given = r.given_[r.threads_[static_cast<size_t>(r.current_)].exchanges++ % 2];
    given[static_cast<size_t>(r.current_)] = value;
    r.wait(State::kAtExchange);
    const int from = first + (lane & (r.warp_ - 1));
    return from < static_cast<int>(r.threads_.size()) ? given[static_cast<size_t>(from)] : 0;
  }
  static unsigned long long ballot(bool condition) {
    BlockRun& r = *running;
    const int first = r.current_ - r.current_ % r.warp_;
    std::vector<int>& given = r.given_[r.threads_[static_cast<size_t>(r.current_)].exchanges++ % 2];
    given[static_cast<size_t>(r.current_)] = condition;
    r.wait(State::kAtExchange);
    unsigned long long lanes = 0;
    for (int k = 0; k < r.warp_ && first + k < static_cast<int>(r.threads_.size()); ++k)
      if (given[static_cast<size_t>(first + k)] != 0) lanes |= 1ULL << k;
    return lanes;
  }

 private:
  static void start() {
    running->entry_(running->arguments_);
    running->threads_[static_cast<size_t>(running->current_)].state = State::kDone;
  }
  void wait(State state) {
    Thread& me = threads_[static_cast<size_t>(current_)];
    me.state = state;
    swapcontext(&me.context, &scheduler_);
  }
  /// Lets those go on whose partners are all there. False: all are done.
  bool release() {
    const auto all = [&](size_t first, size_t end, State state) {
      return std::all_of(threads_.begin() + static_cast<std::ptrdiff_t>(first),
                         threads_.begin() + static_cast<std::ptrdiff_t>(end),
                         [&](const Thread& t) { return t.state == state; });
    };
    const auto go = [&](size_t first, size_t end) {
      for (size_t k = first; k < end; ++k) threads_[k].state = State::kReady;
    };
    if (all(0, threads_.size(), State::kDone)) return false;
    if (all(0, threads_.size(), State::kAtBarrier)) return go(0, threads_.size()), true;
    bool moved = false;
    for (size_t first = 0; first < threads_.size(); first += static_cast<size_t>(warp_)) {
      const size_t end = std::min(first + static_cast<size_t>(warp_), threads_.size());
      if (all(first, end, State::kAtExchange)) go(first, end), moved = true;
    }
    if (!moved) throw std::runtime_error("threads wait for others that never come");
    return true;
  }

  int warp_, current_ = 0, block_[3] = {};
  std::vector<Thread> threads_;
  std::mt19937_64 random_;
  std::vector<int> given_[2];
  ucontext_t scheduler_;
  void (*entry_)(void**) = nullptr;
  void** arguments_ = nullptr;
};
BlockRun* BlockRun::running = nullptr;

struct Module {
  void* library = nullptr;
  std::string path;
};
struct Program {
  std::string text, log, code;
};

void replace_all(std::string& text, const std::string& what, const std::string& by) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
}

std::string read(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::filesystem::path temporary(const char* suffix) {
  static int number = 0;
  return std::filesystem::temp_directory_path() /
         ("fake_hip_" + std::to_string(getpid()) + "_" + std::to_string(number++) + suffix);
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

Result hipInit(unsigned) {
  record("init");
  return kSuccess;
}
Result hipGetDeviceCount(int* count) {
  const char* text = std::getenv("FAKE_HIP_DEVICES");
  *count = text != nullptr ? std::atoi(text) : 1;
  return *count > 0 ? kSuccess : kNoDevice;
}
Result hipSetDevice(int device) { return device == 0 ? kSuccess : kInvalidValue; }
Result hipDeviceGetName(char* name, int bytes, int) {
  std::snprintf(name, static_cast<size_t>(bytes), "Fake HIP device");
  return kSuccess;
}
Result hipGetDevicePropertiesR0600(void* properties, int) {
  std::memset(properties, 0, kPropertiesBytes);
  std::snprintf(static_cast<char*>(properties) + kArchitectureAt, 256, "%s", architecture().c_str());
  return kSuccess;
}
Result hipStreamCreateWithFlags(void** stream, unsigned) {
  *stream = &driver().mutex;
  record("stream");
  return kSuccess;
}
Result hipStreamDestroy(void*) {
  record("stream destroyed");
  return kSuccess;
}
Result hipStreamSynchronize(void*) { return kSuccess; }
Result hipMalloc(void** data, size_t bytes) {
  Driver& d = driver();
  std::lock_guard lock(d.mutex);
  record("allocate %zu", bytes);
  if (bytes == 0) return kInvalidValue;
  if (bytes > d.most - d.used) return kOutOfMemory;
  *data = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  std::memset(*data, 0xa5, bytes);
  d.memory[*data] = bytes;
  d.used += bytes;
  return kSuccess;
}
Result hipFree(void* data) {
  Driver& d = driver();
  std::lock_guard lock(d.mutex);
  const auto it = d.memory.find(data);
  if (it == d.memory.end()) return kInvalidValue;
  record("free %zu", it->second);
  d.used -= it->second;
  std::free(data);
  d.memory.erase(it);
  return kSuccess;
}
Result hipMemcpyAsync(void* to, const void* from, size_t bytes, int kind, void*) {
  std::lock_guard lock(driver().mutex);
  record("copy %d %zu", kind, bytes);
  const bool to_device = kind != 2, from_device = kind != 1;
  if ((to_device && !is_known(to, bytes)) || (from_device && !is_known(from, bytes))) return kInvalidValue;
  std::memmove(to, from, bytes);
  return kSuccess;
}
Result hipModuleLoadData(void** module, const void* image) {
  // A code object carries its own length; here it stands in front.
  uint64_t bytes = 0;
  std::memcpy(&bytes, image, sizeof bytes);
  auto m = std::make_unique<Module>();
  m->path = temporary(".so");
  std::ofstream(m->path, std::ios::binary)
      .write(static_cast<const char*>(image) + sizeof bytes, static_cast<std::streamsize>(bytes));
  m->library = dlopen(m->path.c_str(), RTLD_NOW | RTLD_LOCAL);
  std::filesystem::remove(m->path);
  if (m->library == nullptr) return kInvalidImage;
  record("load");
  *module = m.release();
  return kSuccess;
}
Result hipModuleUnload(void* module) {
  auto* m = static_cast<Module*>(module);
  dlclose(m->library);
  delete m;
  return kSuccess;
}
Result hipModuleGetFunction(void** function, void* module, const char* name) {
  *function = module;
  return dlsym(static_cast<Module*>(module)->library, name) != nullptr ? kSuccess : kNotFound;
}
Result hipModuleLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                             unsigned bz, unsigned shared, void*, void** arguments, void**) {
  Driver& d = driver();
  std::lock_guard lock(d.mutex);
  record("launch grid %u %u %u block %u shared %u", gx, gy, gz, bx, shared);
  if (gx == 0 || gy == 0 || gz == 0 || bx == 0 || bx > 1024 || by != 1 || bz != 1 || shared > 65536)
    return kInvalidValue;
  void* library = static_cast<Module*>(function)->library;
  auto* call = reinterpret_cast<void (*)(void**)>(dlsym(library, "fake_call"));
  std::unique_ptr<char[]> dynamic = std::make_unique<char[]>(shared + 16);
  FakeBlock block{BlockRun::thread, BlockRun::block, BlockRun::barrier, BlockRun::exchange, BlockRun::ballot,
                  BlockRun::lane,   nullptr};
  void* start = dynamic.get();
  size_t space = shared + 16;
  block.dynamic_shared = std::align(16, shared, start, space);
  *static_cast<FakeBlock**>(dlsym(library, "fake_block")) = &block;
  try {
    BlockRun run(static_cast<int>(bx), warp_size(), ++d.launches);
    for (unsigned z = 0; z < gz; ++z)
      for (unsigned y = 0; y < gy; ++y)
        for (unsigned x = 0; x < gx; ++x) {
          std::memset(dynamic.get(), 0xa5, shared + 16);
          run.run(call, arguments, {static_cast<int>(x), static_cast<int>(y), static_cast<int>(z)});
        }
  } catch (const std::exception& e) {
    std::fprintf(stderr, "fake HIP runtime: %s\n", e.what());
    return kLaunchFailed;
  }
  return kSuccess;
}
const char* hipGetErrorString(Result r) {
  return r == kOutOfMemory ? "out of memory" : r == kLaunchFailed ? "launch failed" : "an error of the fake runtime";
}

// ---- hiprtc

Result hiprtcVersion(int* major, int* minor) {
  *major = 0, *minor = 1;
  return kSuccess;
}
Result hiprtcCreateProgram(void** program, const char* text, const char*, int, const char* const*, const char* const*) {
  *program = new Program{text, "", ""};
  return kSuccess;
}
Result hiprtcCompileProgram(void* program, int count, const char* const* flags) {
  auto& p = *static_cast<Program*>(program);
  std::string words;
  for (int k = 0; k < count; ++k) words += (k > 0 ? " " : "") + std::string(flags[k]);
  record("compile %s", words.c_str());
  std::string text = p.text;
  const std::string shared = "__attribute__((shared, aligned(16)))";
  replace_all(text, "extern " + shared + " u8 dynamic_shared[];",
              "u8* const dynamic_shared = (u8*)fake_block->dynamic_shared;");
  replace_all(text, shared, "static __attribute__((aligned(16)))");
  const std::string entry = "))) void ";  // behind the attributes of a kernel
  const size_t at = text.find("extern \"C\" __attribute__((global");
  const size_t name = at == std::string::npos ? at : text.find(entry, at);
  if (name == std::string::npos) return p.log = "there is no kernel in this text", kInvalidImage;
  // A kernel is a function here.
  text.replace(at, name + entry.size() - at, "extern \"C\" void ");
  const size_t first = at + std::strlen("extern \"C\" void ");
  text += "\nextern \"C\" void fake_call(void** arguments) { fake_call_with(" +
          text.substr(first, text.find('(', first) - first) + ", arguments); }\n";
  const auto source = temporary(".cpp"), library = temporary(".so"), log = temporary(".log");
  std::ofstream(source) << "#include \"" FAKE_HIP_HEADER "\"\n" << text;
  const std::string command = "clang++-22 -x c++ -std=c++17 -O1 -mfma -ffp-contract=off -fPIC -shared -w -o '" +
                              library.string() + "' '" + source.string() + "' 2> '" + log.string() + "'";
  const int status = std::system(command.c_str());
  p.log = read(log);
  const std::string code = read(library);
  const uint64_t bytes = code.size();
  p.code = std::string(reinterpret_cast<const char*>(&bytes), sizeof bytes) + code;
  for (const auto& path : {source, library, log}) std::filesystem::remove(path);
  return status == 0 ? kSuccess : kInvalidImage;
}
Result hiprtcGetProgramLogSize(void* program, size_t* bytes) {
  *bytes = static_cast<Program*>(program)->log.size() + 1;
  return kSuccess;
}
Result hiprtcGetProgramLog(void* program, char* text) {
  std::strcpy(text, static_cast<Program*>(program)->log.c_str());
  return kSuccess;
}
Result hiprtcGetCodeSize(void* program, size_t* bytes) {
  *bytes = static_cast<Program*>(program)->code.size();
  return kSuccess;
}
Result hiprtcGetCode(void* program, char* code) {
  const std::string& text = static_cast<Program*>(program)->code;
  std::memcpy(code, text.data(), text.size());
  return kSuccess;
}
Result hiprtcDestroyProgram(void** program) {
  delete static_cast<Program*>(*program);
  *program = nullptr;
  return kSuccess;
}

}  // extern "C"
#pragma GCC visibility pop
