// SPDX-License-Identifier: Apache-2.0
#pragma once
// What libstax_llvm does for Stax: LLVM and lld behind an interface.
//
// They are a library of their own (src/native), loaded when the first kernel has to be compiled: a process whose programs come from the cache
// or from files never pays for loading LLVM, which is 45 MB of memory and 20 ms.
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "emit/emit.h"

namespace stax::emit {

struct KernelText {
  std::string entry;  // the symbol that the object will define
  std::string text;   // loop IR
};

struct NativeUnit {
  std::string object;               // ELF, relocatable
  std::string llvm_text, asm_text;  // if asked for
};

class NativeCompiler {
 public:
  /// May be called from several threads. `verify`: LLVM's own checks of what is generated.
  virtual NativeUnit compile(std::span<const KernelText> kernels, Isa isa, bool keep_text, bool verify) const = 0;
  /// `objects`: ELF relocatable files. The result is a shared object that exports all their default-visible symbols and needs no library; a
  /// reference to anything outside is an InternalError that names it.
  virtual std::vector<uint8_t> link(const std::vector<std::string>& objects) const = 0;

 protected:
  ~NativeCompiler() = default;
};

/// Loads the library, once. UserError if it is not there.
const NativeCompiler& native_compiler();

/// Tells builds of the library apart, without loading it.
std::string native_compiler_build_id();

}  // namespace stax::emit

/// The library's only symbol. It has to be of the same build as its caller: what crosses are objects of C++.
extern "C" const stax::emit::NativeCompiler* stax_native_compiler();
