// SPDX-License-Identifier: Apache-2.0
#pragma once
// A loaded program behind the public API. What needs no compiler is here and makes libstax_runtime; src/api adds the
// rest, which makes libstax.
#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/runtime.h"
#include "stax/stax.h"

namespace stax::embed {

struct Engine {
  std::string name;            // of the model, for messages
  std::shared_ptr<void> keep;  // whoever owns the module
  runtime::Module* module = nullptr;
  std::vector<std::string> warnings;
  double compile_ms = 0, load_ms = 0;
};

/// A model file's bytes, ready to run. `path` is where they come from, or their name.
std::shared_ptr<Engine> open_program(std::span<const std::byte> bytes, const std::string& path, const Options& options);
/// A file, mapped for as long as the engine lives.
std::shared_ptr<Engine> open_program_file(const std::string& path, const Options& options);

// Each library has its own of these two: with a compiler (src/api/open.cpp) and without
// (src/embed/runtime_only/open.cpp).
struct Source {
  std::string path;
  const std::span<const std::byte>* bytes = nullptr;
};  // null: the file
std::shared_ptr<Engine> open_model(const Source& source, const Options& options);
void compile_to(const Engine& engine, const std::string& path);

bool is_program(std::span<const std::byte> bytes);
/// By its first bytes; UserError that names the file where there is none.
bool is_program_file(const std::string& path);

/// Checks of calls as the caller wants them. `program`: whose kernels are named; it may be set later, before the first call.
std::function<void(const runtime::Mismatch&)> alarm_of(const Options& options,
                                                       std::shared_ptr<const program::Program*> program);
void require_valid(const Options& options);

std::vector<Port> ports_of(const program::Program& program, bool inputs);

}  // namespace stax::embed

namespace stax {

struct Model::Impl {
  std::shared_ptr<embed::Engine> engine;
  std::vector<Port> inputs, outputs;
  // For messages: "model 'm.onnx'", "input 'x'", "output 'y'".
  std::string place;
  std::vector<std::string> input_places, output_places;
  std::atomic<int64_t> calls{0}, failed_calls{0}, packed_inputs{0}, copied_outputs{0};
};

}  // namespace stax

namespace stax::embed {

Model make_model(std::shared_ptr<Engine> engine);

}  // namespace stax::embed
