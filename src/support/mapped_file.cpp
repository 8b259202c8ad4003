// SPDX-License-Identifier: Apache-2.0
#include "support/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "support/error.h"

namespace stax {

MappedBytes map_file(const std::string& path, int64_t offset, std::optional<int64_t> length) {
  struct Descriptor {
    int number;
    ~Descriptor() {
      if (number >= 0) close(number);
    }
  };
  const Descriptor file{open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.number < 0) {
    if (errno == ENOENT) user_error("{}: there is no such file", path);
    user_error("{}: cannot be opened: {}", path, std::strerror(errno));
  }
  struct stat about{};
  if (fstat(file.number, &about) != 0) user_error("{}: cannot be read: {}", path, std::strerror(errno));
  if (S_ISDIR(about.st_mode)) user_error("{}: is a folder, not a file", path);
  if (!S_ISREG(about.st_mode)) user_error("{}: is no ordinary file", path);
  const int64_t size = about.st_size;
  const int64_t wanted = length.value_or(offset <= size ? size - offset : 0);
  if (offset > size || wanted > size - offset)
    user_error("{}: has {} bytes, {} from byte {} on are needed", path, size, wanted, offset);
  MappedBytes result;
  result.size = static_cast<size_t>(wanted);
  if (wanted == 0) return result;
  // A mapping begins at a page.
  const int64_t skip = offset % sysconf(_SC_PAGESIZE);
  const size_t mapped = static_cast<size_t>(wanted + skip);
  void* base = mmap(nullptr, mapped, PROT_READ, MAP_PRIVATE, file.number, offset - skip);
  if (base == MAP_FAILED) user_error("{}: {} bytes of it cannot be mapped: {}", path, wanted, std::strerror(errno));
  // Weights are read through from end to end in each call. A wish: what is not in the page cache yet is read in large pages where the system has them.
  ::madvise(base, mapped, MADV_HUGEPAGE);
  result.data = std::shared_ptr<void>(static_cast<char*>(base) + skip, [base, mapped](void*) { munmap(base, mapped); });
  return result;
}

}  // namespace stax
