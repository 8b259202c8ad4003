// SPDX-License-Identifier: Apache-2.0
#include "bisect/isolated.h"

#include <fcntl.h>
#include <sys/mman.h>
#if defined(__linux__)
#include <sys/prctl.h>
#endif
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <ctime>
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

// A process that waits for so long without doing anything waits for itself: what was written where it does not belong may be a lock.
constexpr int kStillSeconds = 20;

/// Until the process ends; false: it stood still, and is no more.
bool wait_for(pid_t child, int& status) {
  using Clock = std::chrono::steady_clock;
  std::chrono::microseconds pause(100);
  clockid_t cpu;
  const bool has_clock = ::clock_getcpuclockid(child, &cpu) == 0;
  timespec used{};
  Clock::time_point since = Clock::now();
  for (;;) {
    const pid_t ended = ::waitpid(child, &status, WNOHANG);
    if (ended == child || (ended < 0 && errno != EINTR)) return true;
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 5 / 4, std::chrono::microseconds(10000));
    timespec now{};
    if (!has_clock || ::clock_gettime(cpu, &now) != 0) continue;
    if (now.tv_sec != used.tv_sec || now.tv_nsec != used.tv_nsec) {
      used = now, since = Clock::now();
    } else if (Clock::now() - since > std::chrono::seconds(kStillSeconds)) {
      ::kill(child, SIGKILL);
      while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
      }
      return false;
    }
  }
}

}  // namespace

SharedMemory::SharedMemory(size_t bytes) : data_(map(bytes, MAP_SHARED | MAP_NORESERVE)), bytes_(bytes) {}
SharedMemory::~SharedMemory() { ::munmap(data_, bytes_); }

void end_with_parent() {
#if defined(__linux__)
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
}

std::string run_isolated(const std::function<void()>& work, int seconds) {
  SharedMemory message(kMessage);
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child < 0) user_error("no further process can be started: {}", std::strerror(errno));
  if (child == 0) {
    end_with_parent();
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
  if (!wait_for(child, status)) return fmt::format("it stands still for {} s", kStillSeconds);
  if (WIFSIGNALED(status)) {
    if (WTERMSIG(status) == SIGALRM || WTERMSIG(status) == SIGXCPU)
      return fmt::format("it does not end within {} s", seconds);
    return fmt::format("it crashes ({})", ::strsignal(WTERMSIG(status)));
  }
  if (WEXITSTATUS(status) == kThrew) return std::string("it throws: ") + message.as<char>();
  if (WEXITSTATUS(status) != 0) return fmt::format("it ends with status {}", WEXITSTATUS(status));
  return {};
}

GuardedMemory::GuardedMemory(size_t bytes, int poison, size_t alignment) : bytes_(bytes) {
  const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t whole = (bytes + alignment - 1) / alignment * alignment;
  mapped_ = (whole + page - 1) / page * page + 2 * page;
  base_ = static_cast<char*>(map(mapped_, MAP_PRIVATE));
  ::mprotect(base_, page, PROT_NONE);
  ::mprotect(base_ + mapped_ - page, page, PROT_NONE);
  data_ = base_ + mapped_ - page - whole;
  std::memset(base_ + page, kPattern, mapped_ - 2 * page);
  std::memset(data_, poison, bytes);
}
GuardedMemory::~GuardedMemory() { ::munmap(base_, mapped_); }

bool GuardedMemory::intact() const {
  const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const auto is_untouched = [](char c) { return c == kPattern; };
  return std::all_of(base_ + page, data_, is_untouched) &&
         std::all_of(data_ + bytes_, base_ + mapped_ - page, is_untouched);
}

}  // namespace stax::bisect
