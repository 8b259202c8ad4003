// SPDX-License-Identifier: Apache-2.0
#include "support/build_id.h"

#include <elf.h>
#include <fmt/format.h>
#include <link.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "support/mapped_file.h"

namespace stax {
namespace {

/// The linker's note among the notes of an ELF file; empty if there is none.
std::string id_in_notes(std::span<const char> notes) {
  while (notes.size() > sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) note{};
    std::memcpy(&note, notes.data(), sizeof note);
    const size_t name = sizeof note, content = name + (note.n_namesz + size_t{3}) / 4 * 4;
    const size_t end = content + (note.n_descsz + size_t{3}) / 4 * 4;
    if (end > notes.size()) break;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(notes.data() + name, "GNU", 4) == 0) {
      std::string id;
      for (char byte : notes.subspan(content, note.n_descsz))
        id += fmt::format("{:02x}", static_cast<unsigned char>(byte));
      return id;
    }
    notes = notes.subspan(end);
  }
  return {};
}

/// For what is linked without a note.
std::string id_by_time(const std::filesystem::path& file) {
  struct stat status{};
  if (::stat(file.c_str(), &status) != 0) return {};
  return fmt::format("{}:{}:{}:{}.{}", status.st_dev, status.st_ino, status.st_size, status.st_mtim.tv_sec,
                     status.st_mtim.tv_nsec);
}

struct Self {
  std::filesystem::path file;
  std::string id;
};

Self find_self() {
  Self self;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        const std::span<const ElfW(Phdr)> parts(info->dlpi_phdr, info->dlpi_phnum);
        const auto here = reinterpret_cast<uintptr_t>(&build_id);
        if (std::none_of(parts.begin(), parts.end(), [&](const ElfW(Phdr) & p) {
              return p.p_type == PT_LOAD && here - (info->dlpi_addr + p.p_vaddr) < p.p_memsz;
            }))
          return 0;
        Self& found = *static_cast<Self*>(data);
        found.file = info->dlpi_name != nullptr && *info->dlpi_name != 0 ? info->dlpi_name : "/proc/self/exe";
        for (const ElfW(Phdr) & p : parts)
          if (p.p_type == PT_NOTE && found.id.empty())
            found.id = id_in_notes({reinterpret_cast<const char*>(info->dlpi_addr + p.p_vaddr), p.p_memsz});
        return 1;
      },
      &self);
  std::error_code error;
  if (auto resolved = std::filesystem::canonical(self.file, error); !error) self.file = resolved;
  if (self.id.empty()) self.id = id_by_time(self.file);
  return self;
}

const Self& self() {
  static const Self found = find_self();
  return found;
}

}  // namespace

std::filesystem::path own_file() { return self().file; }

std::string build_id() { return self().id; }

std::string build_id_of(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) return {};
  const MappedBytes mapped = map_file(file.string());
  const std::span<const char> bytes(static_cast<const char*>(mapped.data.get()), mapped.size);
  ElfW(Ehdr) header{};
  if (bytes.size() < sizeof header) return id_by_time(file);
  std::memcpy(&header, bytes.data(), sizeof header);
  for (size_t k = 0; k < header.e_phnum; ++k) {
    ElfW(Phdr) part{};
    const size_t at = header.e_phoff + k * sizeof part;
    if (at > bytes.size() || bytes.size() - at < sizeof part) break;
    std::memcpy(&part, bytes.data() + at, sizeof part);
    if (part.p_type != PT_NOTE || part.p_offset > bytes.size() || bytes.size() - part.p_offset < part.p_filesz)
      continue;
    if (std::string id = id_in_notes(bytes.subspan(part.p_offset, part.p_filesz)); !id.empty()) return id;
  }
  return id_by_time(file);
}

}  // namespace stax
