// SPDX-License-Identifier: Apache-2.0
#include "compile/pass.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "support/debug.h"
#include "support/error.h"

namespace stax::compile {
namespace {

using Clock = std::chrono::steady_clock;

void report_time(std::string_view name, Clock::time_point start) {
  double ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  std::fprintf(stderr, "%10.3f ms  %.*s\n", ms, static_cast<int>(name.size()), name.data());
}

std::string write_repro(std::string_view pass, const std::string& before) {
  namespace fs = std::filesystem;
  const std::string name = "stax-repro-" + std::to_string(::getpid()) + "-" + std::string(pass) + ".stax";
  std::error_code ignored;
  fs::path path;
  for (const fs::path& folder :
       {fs::path(debug_options().repro_dir), fs::temp_directory_path(ignored)}) {  // where one may write
    path = folder / name;
    std::ofstream out(path);
    out << "// fails in pass " << pass << "\n" << before << std::flush;
    if (out) return path.string();
  }
  return "(no repro: " + path.string() + " cannot be written)";
}

}  // namespace

bool is_disabled(std::string_view name) { return debug_options().disable.count(std::string(name)) > 0; }

bool run_pass(std::string_view name, bool (*pass)(tensor::Graph&), tensor::Graph& graph, const PassContext& context) {
  if (is_disabled(name)) return false;
  auto start = Clock::now();
  bool changed = false;
  auto failed = [&](const char* what) -> InternalError {
    std::string text;
    try {
      text = tensor::print(graph, tensor::PrintOptions{.full = true});
    } catch (const std::exception& e) {
      text = std::string("// not printable: ") + e.what() + "\n";
    }
    return InternalError("pass " + std::string(name) + ": " + what + "\n  repro: " + write_repro(name, text));
  };
  try {
    changed = pass(graph);
    if (context.verify || debug_options().verify) tensor::verify(graph);
  } catch (const UserError&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& e) {
    throw failed(e.what());
  }
  if (debug_options().time) report_time(name, start);
  const auto& dump = debug_options().dump;
  if (dump.count(std::string(name)) || (changed && dump.count("all")))
    std::fprintf(stderr, "// after %.*s\n%s\n", static_cast<int>(name.size()), name.data(),
                 tensor::print(graph).c_str());
  if (context.observer) context.observer(name, graph);
  return changed;
}

void run_step(std::string_view name, const std::function<void()>& step) {
  auto start = Clock::now();
  step();
  if (debug_options().time) report_time(name, start);
}

}  // namespace stax::compile
