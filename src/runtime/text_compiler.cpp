// SPDX-License-Identifier: Apache-2.0
#include "runtime/text_compiler.h"

#include <fmt/format.h>

#include "runtime/dynamic_library.h"
#include "support/build_id.h"
#include "support/disk_cache.h"
#include "support/error.h"

namespace stax::runtime {

namespace {

using Result = int;
using Handle = void*;

// Name in the table, name in the library behind "nvrtc" or "hiprtc", type.
#define STAX_COMPILER_FUNCTIONS(F)                                                              \
  F(version, "Version", Result (*)(int*, int*))                                                 \
  F(create, "CreateProgram",                                                                    \
    Result (*)(Handle*, const char*, const char*, int, const char* const*, const char* const*)) \
  F(compile, "CompileProgram", Result (*)(Handle, int, const char* const*))                     \
  F(log_size, "GetProgramLogSize", Result (*)(Handle, size_t*))                                 \
  F(log, "GetProgramLog", Result (*)(Handle, char*))                                            \
  F(destroy, "DestroyProgram", Result (*)(Handle*))

#define STAX_DECLARE(member, symbol, type) std::add_pointer_t<std::remove_pointer_t<type>> member = nullptr;
#define STAX_RESOLVE(member, symbol, type) member = reinterpret_cast<type>(library.function((prefix + symbol).c_str()));

struct Functions {
  DynamicLibrary library;
  STAX_COMPILER_FUNCTIONS(STAX_DECLARE)
  Result (*code_size)(Handle, size_t*) = nullptr;
  Result (*code)(Handle, char*) = nullptr;

  /// `code`: what its functions call the result.
  Functions(const std::vector<std::string>& names, const char* what, const char* advice, const std::string& prefix,
            const std::string& code_name)
      : library(names, what, advice) {
    STAX_COMPILER_FUNCTIONS(STAX_RESOLVE)
    code_size = reinterpret_cast<decltype(code_size)>(library.function((prefix + "Get" + code_name + "Size").c_str()));
    code = reinterpret_cast<decltype(code)>(library.function((prefix + "Get" + code_name).c_str()));
  }
};

class LibraryCompiler final : public TextCompiler {
 public:
  LibraryCompiler(const std::vector<std::string>& names, const char* what, const char* advice, const char* prefix,
                  const char* code_name)
      : what_(what), f_(names, what, advice, prefix, code_name) {}

  std::string compile(const program::KernelSpec& kernel, const std::vector<std::string>& flags) const override {
    int major = 0, minor = 0;
    f_.version(&major, &minor);
    const std::string key =
        fmt::format("{} {}.{} {} {}\n{}", what_, major, minor, build_id(), fmt::join(flags, " "), kernel.code);
    const std::unique_ptr<DiskCache> cache = user_cache();
    if (cache) {
      if (const auto kept = cache->find(key)) return {kept->bytes().begin(), kept->bytes().end()};
    }
    const std::string made = compile_now(kernel, flags);
    if (cache) cache->insert(key, {reinterpret_cast<const uint8_t*>(made.data()), made.size()});
    return made;
  }

 private:
  std::string compile_now(const program::KernelSpec& kernel, const std::vector<std::string>& flags) const {
    Handle p = nullptr;
    if (f_.create(&p, kernel.code.c_str(), (kernel.name + ".cu").c_str(), 0, nullptr, nullptr) != 0)
      internal_error("{} takes no program {}", what_, kernel.name);
    std::vector<const char*> words;
    for (const std::string& flag : flags) words.push_back(flag.c_str());
    const Result r = f_.compile(p, static_cast<int>(words.size()), words.data());
    size_t size = 0;
    if (r != 0) {
      f_.log_size(p, &size);
      std::string text(size, '\0');
      f_.log(p, text.data());
      f_.destroy(&p);
      internal_error("{} rejects kernel {}:\n{}", what_, kernel.name, text.c_str());
    }
    f_.code_size(p, &size);
    std::string text(size, '\0');
    f_.code(p, text.data());
    f_.destroy(&p);
    return text;
  }

  const char* what_;
  Functions f_;
};

}  // namespace

std::unique_ptr<TextCompiler> open_nvrtc() {
  return std::make_unique<LibraryCompiler>(std::vector<std::string>{"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"},
                                           "NVRTC", "install it (pip: nvidia-cuda-nvrtc), or leave out --emit cuda",
                                           "nvrtc", "PTX");
}

std::unique_ptr<TextCompiler> open_hiprtc() {
  return std::make_unique<LibraryCompiler>(
      std::vector<std::string>{"libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so"}, "hiprtc",
      "install ROCm 6 or later (Ubuntu: hip-runtime-amd), or use another --device", "hiprtc", "Code");
}

}  // namespace stax::runtime
