// SPDX-License-Identifier: Apache-2.0
#include "bisect/isolated.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <thread>

#include "support/error.h"

namespace stax::bisect {
namespace {

constexpr int kThrew = 3;
constexpr unsigned kIdleFactor = 20;
constexpr size_t kMessage = 4000;

void* map(size_t bytes, int flags) {
  void* p = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) throw std::bad_alloc();
  return p;
}

constexpr char kPattern = 0x5A;

}  // namespace

SharedMemory::SharedMemory(size_t bytes) : data_(map(bytes, MAP_SHARED | MAP_NORESERVE)), bytes_(bytes) {}
SharedMemory::~SharedMemory() { ::munmap(data_, bytes_); }

std::string run_isolated(const std::function<void()>& work, int seconds) {
  SharedMemory message(kMessage);
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child < 0) user_error("no further process can be started: {}", std::strerror(errno));
  if (child == 0) {
    // Handlers of a sanitizer or an application would print, as does the allocator; the parent says what there is to say.
    if (const int nowhere = ::open("/dev/null", O_WRONLY); nowhere >= 0) ::dup2(nowhere, STDERR_FILENO);
    for (int s : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGALRM, SIGXCPU}) std::signal(s, SIG_DFL);
    // Time of the processor, which a busy machine does not change; where nothing runs, a deadlock, time itself.
    const auto most = static_cast<rlim_t>(seconds) * std::max(1u, std::thread::hardware_concurrency());
    const rlimit limit{most, most + 1};
    ::setrlimit(RLIMIT_CPU, &limit);
    ::alarm(static_cast<unsigned>(seconds) * kIdleFactor);
    int status = 0;
    try {
      work();
    } catch (const std::exception& e) {
      std::strncpy(message.as<char>(), e.what(), kMessage - 1);
      status = kThrew;
    }
    ::_exit(status);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) {
    if (WTERMSIG(status) == SIGALRM || WTERMSIG(status) == SIGXCPU)
      return fmt::format("it does not end within {} s", seconds);
    return fmt::format("it crashes ({})", ::strsignal(WTERMSIG(status)));
  }
  if (WEXITSTATUS(status) == kThrew) return std::string("it throws: ") + message.as<char>();
  if (WEXITSTATUS(status) != 0) return fmt::format("it ends with status {}", WEXITSTATUS(status));
  return {};
}

GuardedMemory::GuardedMemory(size_t bytes, int poison) : bytes_(bytes) {
  const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  mapped_ = (bytes + page - 1) / page * page + 2 * page;
  base_ = static_cast<char*>(map(mapped_, MAP_PRIVATE));
  ::mprotect(base_, page, PROT_NONE);
  ::mprotect(base_ + mapped_ - page, page, PROT_NONE);
  data_ = base_ + mapped_ - page - bytes;
  std::memset(base_ + page, kPattern, static_cast<size_t>(data_ - base_) - page);
  std::memset(data_, poison, bytes);
}
GuardedMemory::~GuardedMemory() { ::munmap(base_, mapped_); }

bool GuardedMemory::intact() const {
  const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  for (const char* p = base_ + page; p < data_; ++p)
    if (*p != kPattern) return false;
  return true;
}

}  // namespace stax::bisect
