// SPDX-License-Identifier: Apache-2.0
// Kernels -> objects -> image, by the library that has LLVM.
//
// An object holds a few kernels, so that what LLVM does once per module is shared; which ones depends on their number alone, never on the number
// of threads. A kernel is emitted from a copy of its own, read back from its text: expression tables are not for several threads, and so equal
// kernels give equal code whatever else their tables hold.
#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <array>

#include "emit/emit.h"
#include "emit/native_compiler.h"
#include "support/build_id.h"
#include "support/cpu.h"
#include "support/debug.h"
#include "support/error.h"
#include "support/on_threads.h"

namespace stax::emit {
namespace {

namespace fs = std::filesystem;

constexpr size_t kKernelsPerModule = 8;
constexpr const char* kLibrary = "libstax_llvm.so";

/// Beside this program or library, or where an install tree has the libraries of the programs in bin/.
std::array<fs::path, 2> places() {
  const fs::path here = own_file().parent_path();
  return {here / kLibrary, (here / STAX_LIBRARY_FOLDER / kLibrary).lexically_normal()};
}

/// A name without a folder is for the loader to find: where the program was linked to look, or in LD_LIBRARY_PATH.
fs::path find_library() {
  for (const fs::path& place : places())
    if (std::error_code error; fs::exists(place, error)) return place;
  return kLibrary;
}

void* open_library(const fs::path& file) {
  // It stays for good: LLVM does not leave a process cleanly.
  return ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

const NativeCompiler& load() {
  const fs::path file = find_library();
  void* library = open_library(file);
  if (library == nullptr && !file.has_parent_path())
    user_error(
        "cannot generate native code: {} is neither in {} nor in {} ({}); keep it with the files that it was built or "
        "installed with",
        kLibrary, places()[0].parent_path().string(), places()[1].parent_path().string(), ::dlerror());
  if (library == nullptr)
    user_error("cannot generate native code: {}; install LLVM 22 (Debian: libllvm22)", ::dlerror());
  auto* function = reinterpret_cast<decltype(&stax_native_compiler)>(::dlsym(library, "stax_native_compiler"));
  if (function == nullptr) user_error("{} is not a library of this build of Stax; install both anew", file.string());
  return *function();
}

NativeUnit unit_of(const loop::Kernel& kernel, Isa isa) {
  return native_compiler().compile(std::array{KernelText{"kernel", loop::print(kernel)}}, isa, true,
                                   debug_options().verify);
}

}  // namespace

const NativeCompiler& native_compiler() {
  static const NativeCompiler& compiler = load();
  return compiler;
}

std::string native_compiler_build_id() {
  static const std::string id = [] {
    fs::path file = find_library();
    if (!file.has_parent_path()) {  // then who loads it knows
      link_map* loaded = nullptr;
      void* library = open_library(file);
      if (library == nullptr || ::dlinfo(library, RTLD_DI_LINKMAP, &loaded) != 0) return std::string("none");
      file = loaded->l_name;
    }
    return build_id_of(file);
  }();
  return id;
}

std::string_view name_of(Isa isa) {
  switch (isa) {
    case Isa::kAvx512Vnni: return "avx512vnni";
    case Isa::kAvx512: return "avx512";
    case Isa::kAvxVnni: return "avxvnni";
    case Isa::kAvx2: return "avx2";
    case Isa::kBaseline: return "baseline";
  }
  STAX_UNREACHABLE();
}

Isa host_isa() {
  for (Isa isa : kIsas)
    if (cpu_executes(name_of(isa))) return isa;
  return Isa::kBaseline;
}

int vector_bytes(Isa isa) {
  switch (isa) {
    case Isa::kAvx512Vnni:
    case Isa::kAvx512: return 64;
    case Isa::kAvxVnni:
    case Isa::kAvx2: return 32;
    case Isa::kBaseline: return 16;
  }
  STAX_UNREACHABLE();
}

NativeImage emit_native(std::span<const NativeKernel> kernels, const EmitOptions& options) {
  std::vector<KernelText> sources;
  for (const NativeKernel& each : kernels) sources.push_back({each.entry, loop::print(*each.kernel, true)});
  NativeImage image;
  image.isa = options.isa;
  std::string key;
  if (options.cache != nullptr && !options.keep_text) {
    key = fmt::format("image of {} and {}, {}\n", build_id(), native_compiler_build_id(), name_of(options.isa));
    for (const KernelText& each : sources) key += each.entry + "\n" + each.text + "\n";
    if (auto kept = options.cache->find(key)) {
      image.bytes.assign(kept->bytes().begin(), kept->bytes().end());
      return image;
    }
  }
  const NativeCompiler& compiler = native_compiler();
  const size_t count = (kernels.size() + kKernelsPerModule - 1) / kKernelsPerModule;
  std::vector<NativeUnit> units(count);
  for_each_on_threads(count, options.threads, [&](size_t i) {
    const std::span<const KernelText> own = std::span(sources).subspan(i * kKernelsPerModule);
    units[i] = compiler.compile(own.first(std::min(kKernelsPerModule, own.size())), options.isa, options.keep_text,
                                debug_options().verify);
  });

  std::vector<std::string> objects;
  for (NativeUnit& unit : units) {
    objects.push_back(std::move(unit.object));
    image.llvm_text += unit.llvm_text;
    image.asm_text += unit.asm_text;
  }
  image.bytes = compiler.link(objects);
  if (!key.empty()) options.cache->insert(key, image.bytes);
  return image;
}

std::string emit_llvm_text(const loop::Kernel& kernel, Isa isa) { return unit_of(kernel, isa).llvm_text; }

std::string emit_asm_text(const loop::Kernel& kernel, Isa isa) { return unit_of(kernel, isa).asm_text; }

}  // namespace stax::emit
