// SPDX-License-Identifier: Apache-2.0
// Compiled `.stax` files: all that a program needs to run, without a compiler.
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "embed/engine.h"
#include "support/error.h"
#include "support/mapped_file.h"

namespace stax::embed {
namespace {

std::span<const uint8_t> as_numbers(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()};
}

}  // namespace

bool is_program(std::span<const std::byte> bytes) { return program::is_program_file(as_numbers(bytes)); }

bool is_program_file(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) user_error("'{}' does not exist; check the path", path);
  if (!std::filesystem::is_regular_file(path, error)) user_error("'{}' is no file; check the path", path);
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (!file) user_error("'{}' cannot be read: {}; check who may read it", path, std::strerror(errno));
  uint8_t first[64];
  return program::is_program_file({first, std::fread(first, 1, sizeof first, file.get())});
}

void require_valid(const Options& options) {
  if (options.check_every < 0)
    user_error("check_every is {}; give 1 or more: of so many calls one is checked", options.check_every);
  if (options.threads < 0) user_error("threads is {}; give 1 or more, or 0 for all cores", options.threads);
}

std::function<void(const runtime::Mismatch&)> alarm_of(const Options& options,
                                                       std::shared_ptr<const program::Program*> program) {
  if (!options.on_mismatch) return {};
  return [tell = options.on_mismatch, program = std::move(program)](const runtime::Mismatch& m) {
    tell({(*program)->kernels[m.kernel].name, m.source, m.what});
  };
}

namespace {

std::shared_ptr<Engine> open(std::span<const uint8_t> bytes, const std::shared_ptr<void>& owner,
                             const std::string& path, const Options& options) {
  auto start = std::chrono::steady_clock::now();
  if (options.device != "cpu")
    user_error("a compiled program runs on device 'cpu', not '{}'; load the model that it was made from",
               options.device);
  if (!options.dims.empty())
    user_error(
        "'{}' is a compiled program, whose dims were fixed when it was compiled; give the ranges to `stax compile "
        "--dim` instead",
        path);
  require_valid(options);
  auto program = std::make_shared<program::Program>(program::deserialize(bytes, path, owner));
  auto engine = std::make_shared<Engine>();
  engine->name = path;
  engine->warnings = program->warnings;
  runtime::ModuleOptions module_options;
  module_options.threads = options.threads;
  module_options.check_every = options.check_every;
  module_options.alarm = alarm_of(options, std::make_shared<const program::Program*>(program.get()));
  auto module = std::make_shared<runtime::Module>(program, runtime::open_cpu(*program), module_options);
  engine->module = module.get();
  engine->keep = std::move(module);
  engine->load_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return engine;
}

}  // namespace

std::shared_ptr<Engine> open_program(std::span<const std::byte> bytes, const std::string& path,
                                     const Options& options) {
  return open(as_numbers(bytes), nullptr, path, options);
}

std::shared_ptr<Engine> open_program_file(const std::string& path, const Options& options) {
  MappedBytes file = map_file(path);
  return open(file.bytes(), file.data, path, options);
}

}  // namespace stax::embed
