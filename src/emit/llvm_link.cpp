// SPDX-License-Identifier: Apache-2.0
#include "emit/llvm_link.h"

#include <lld/Common/Driver.h>
#include <llvm/Support/FileSystem.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/raw_ostream.h>
#include <unistd.h>

#include <cstdlib>
#include <mutex>

#include "support/error.h"

LLD_HAS_DRIVER(elf)

namespace stax::emit {
namespace {

// A folder of its own for one link, in memory where there is such a file system.
class Workspace {
 public:
  Workspace() {
    const char* wanted = std::getenv("TMPDIR");
    for (const char* parent : {"/dev/shm", wanted != nullptr ? wanted : "/tmp"}) {
      std::string pattern = std::string(parent) + "/stax-link-XXXXXX";
      if (::mkdtemp(pattern.data()) == nullptr) continue;
      path_ = pattern;
      return;
    }
    user_error("no folder for temporary files: neither /dev/shm nor {} can be written",
               wanted != nullptr ? wanted : "/tmp");
  }
  ~Workspace() { llvm::sys::fs::remove_directories(path_); }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

void write_file(const std::string& path, const std::string& bytes) {
  std::error_code error;
  llvm::raw_fd_ostream out(path, error);
  if (!error) {
    out << bytes;
    out.close();
    error = out.error();
  }
  if (error) user_error("cannot write {}: {}", path, error.message());
}

}  // namespace

std::vector<uint8_t> link_image(const std::vector<std::string>& objects) {
  Workspace workspace;
  std::vector<std::string> arguments = {"ld.lld",
                                        "-shared",
                                        "--threads=1",
                                        "--no-undefined",
                                        "-z",
                                        "noexecstack",
                                        "-z",
                                        "separate-code",
                                        "--hash-style=gnu",
                                        "--build-id=none",
                                        "--strip-debug",
                                        "-O0",
                                        "-o",
                                        workspace.file("image.so")};
  for (size_t i = 0; i < objects.size(); ++i) {
    arguments.push_back(workspace.file(std::to_string(i) + ".o"));
    write_file(arguments.back(), objects[i]);
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
  auto image = llvm::MemoryBuffer::getFile(workspace.file("image.so"), false, false);
  if (!image) internal_error("lld left no image: {}", image.getError().message());
  const llvm::StringRef bytes = (*image)->getBuffer();
  return {bytes.bytes_begin(), bytes.bytes_end()};
}

}  // namespace stax::emit
