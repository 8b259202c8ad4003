// SPDX-License-Identifier: Apache-2.0
// What libstax_runtime has in the place of a compiler: errors that say so.
#include "embed/engine.h"

namespace stax {

bool has_compiler() { return false; }

}  // namespace stax

namespace stax::embed {

std::shared_ptr<Engine> open_model(const Source& source, const Options& options) {
  if (!(source.bytes ? is_program(*source.bytes) : is_program_file(source.path)))
    throw Error(
        ErrorKind::kUnsupported,
        "this is the runtime library, libstax_runtime, which loads compiled .stax files only, and this file is none",
        source.path,
        "compile the model with `stax compile MODEL -o FILE.stax`, or link libstax (CMake: stax::stax) instead");
  return source.bytes ? open_program(*source.bytes, source.path, options) : open_program_file(source.path, options);
}

void compile_to(const Engine& engine, const std::string&) {
  throw Error(ErrorKind::kUnsupported, "this is the runtime library, libstax_runtime, which has no compiler",
              engine.name, "link libstax (CMake: stax::stax), or use `stax compile`");
}

}  // namespace stax::embed
