// SPDX-License-Identifier: Apache-2.0
// What libstax_runtime has in the place of a compiler: errors that say so.
#include "embed/engine.h"

namespace stax {

bool has_compiler() { return false; }

}  // namespace stax

namespace stax::embed {

std::shared_ptr<Engine> open_model(const Source& source, const Options& options) {
  std::vector<std::byte> content;
  if (!source.bytes) content = read_file(source.path);
  std::span<const std::byte> bytes = source.bytes ? *source.bytes : std::span<const std::byte>(content);
  if (!is_program(bytes))
    throw Error(
        ErrorKind::kUnsupported,
        "this is the runtime library, libstax_runtime, which loads compiled .stax files only, and this file is none",
        source.path,
        "compile the model with `stax compile MODEL -o FILE.stax`, or link libstax (CMake: stax::stax) instead");
  return open_program(bytes, source.path, options);
}

void compile_to(const Engine& engine, const std::string&) {
  throw Error(ErrorKind::kUnsupported, "this is the runtime library, libstax_runtime, which has no compiler",
              engine.name, "link libstax (CMake: stax::stax), or use `stax compile`");
}

}  // namespace stax::embed
