// SPDX-License-Identifier: Apache-2.0
#include "native/link.h"

#include <fcntl.h>
#include <lld/Common/Driver.h>
#include <llvm/Support/raw_ostream.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>

#include "support/error.h"

LLD_HAS_DRIVER(elf)

namespace stax::native {
namespace {

// A file in memory under a name that lld can open. Nothing is left of it when the process ends, however it does.
class MemoryFile {
 public:
  explicit MemoryFile(const char* name) : file_(::memfd_create(name, MFD_CLOEXEC)) {
    if (file_ < 0) fail();
  }
  ~MemoryFile() { ::close(file_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::string path() const { return "/proc/self/fd/" + std::to_string(file_); }
  void write(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t n = ::write(file_, bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) fail();
      bytes.remove_prefix(static_cast<size_t>(n));
    }
  }

 private:
  [[noreturn]] static void fail() {
    user_error("no file in memory for linking: {}; free memory, or raise the limits of this process",
               std::strerror(errno));
  }
  int file_;
};

// A pipe under a name that lld can open to write to, and a thread that takes what is written: lld makes files of all other names.
class Pipe {
 public:
  Pipe() {
    if (::pipe2(ends_, O_CLOEXEC) != 0) user_error("no pipe for linking: {}", std::strerror(errno));
    reader_ = std::thread([this] {
      uint8_t piece[1 << 16];
      // Without memory it reads on, so that the writer ends.
      for (ssize_t n = 0; (n = ::read(ends_[0], piece, sizeof piece)) != 0;) try {
          if (n > 0 && !failed_) bytes_.insert(bytes_.end(), piece, piece + n);
        } catch (const std::bad_alloc&) {
          failed_ = true;
        }
    });
  }
  ~Pipe() { stop(), ::close(ends_[0]); }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  std::string path() const { return "/proc/self/fd/" + std::to_string(ends_[1]); }
  /// What was written, all of it.
  std::vector<uint8_t> finish() {
    stop();
    if (failed_) throw std::bad_alloc();
    return std::move(bytes_);
  }

 private:
  void stop() {
    if (reader_.joinable()) ::close(ends_[1]), reader_.join();
  }
  int ends_[2];
  bool failed_ = false;
  std::thread reader_;
  std::vector<uint8_t> bytes_;
};

}  // namespace

std::vector<uint8_t> link_image(const std::vector<std::string>& objects) {
  Pipe output;
  std::deque<MemoryFile> inputs;
  std::vector<std::string> arguments = {
      "ld.lld",        "-shared",          "--threads=1",     "--no-undefined", "-z",  "noexecstack", "-z",
      "separate-code", "--hash-style=gnu", "--build-id=none", "--strip-debug",  "-O0", "-o",          output.path()};
  for (const std::string& object : objects) {
    inputs.emplace_back("object").write(object);
    arguments.push_back(inputs.back().path());
  }
  std::vector<const char*> pointers;
  for (const std::string& argument : arguments) pointers.push_back(argument.c_str());
  std::string messages;
  llvm::raw_string_ostream out(messages);
  {
    // lld keeps its state in globals.
    static std::mutex one_at_a_time;
    const std::lock_guard lock(one_at_a_time);
    const lld::Result result = lld::lldMain(pointers, out, out, {{lld::Gnu, &lld::elf::link}});
    if (result.retCode != 0) internal_error("lld failed: {}", messages);
  }
  return output.finish();
}

}  // namespace stax::native
