// SPDX-License-Identifier: Apache-2.0
#include "compile/pass.h"

#include <chrono>
#include <cstdio>
#include <mutex>
#include <set>

#include "compile/pipeline.h"
#include "compile/repro.h"
#include "support/debug.h"
#include "support/error.h"
#include "support/hash.h"

namespace stax::compile {
namespace {

using Clock = std::chrono::steady_clock;

void report_time(std::string_view name, Clock::time_point start) {
  double ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  std::fprintf(stderr, "%10.3f ms  %.*s\n", ms, static_cast<int>(name.size()), name.data());
}

struct Enough {};  // enough passes have run

std::string printed(const tensor::Graph& graph) {
  try {
    return tensor::print(graph, tensor::PrintOptions{.full = true});
  } catch (const std::exception& e) {
    return std::string("// not printable: ") + e.what() + "\n";
  }
}

// What the failed pass got: made again where that can be done.
Repro repro_of(std::string_view pass, const char* what, const tensor::Graph& left, const PassContext& context) {
  Repro repro;
  repro.name = pass;
  repro.target = context.target == "cpu" ? "" : context.target;
  repro.fault = what;
  const auto& disabled = debug_options().disable;
  repro.disable = fmt::format("{}", fmt::join(disabled.begin(), disabled.end(), ","));
  if (context.source) {
    try {
      repro.model = printed(*graph_after(context.source, context.passes_run, false, context.target).graph);
      return repro;
    } catch (const std::exception&) {  // the source may be gone, a file overwritten
    }
  }
  repro.model = "// as the pass left it; what it got is not known any more\n" + printed(left);
  return repro;
}

/// What STAX_DISABLE and STAX_DUMP name and nothing has asked for yet.
struct Unasked {
  std::mutex mutex;
  std::set<std::string, std::less<>> disable{debug_options().disable.begin(), debug_options().disable.end()},
      dump{debug_options().dump.begin(), debug_options().dump.end()};

  Unasked() { dump.erase("all"); }
};
Unasked& unasked() {
  static Unasked instance;
  return instance;
}

}  // namespace

namespace {

void is_asked_for(std::set<std::string, std::less<>>& names, std::string_view name) {
  const std::lock_guard lock(unasked().mutex);
  if (const auto found = names.find(name); found != names.end()) names.erase(found);
}

}  // namespace

bool is_disabled(std::string_view name) {
  const auto& disabled = debug_options().disable;
  if (disabled.empty() || disabled.count(std::string(name)) == 0) return false;
  is_asked_for(unasked().disable, name);
  return true;
}

void report_unknown_passes() {
  if (debug_options().disable.empty() && debug_options().dump.empty()) return;
  const std::lock_guard lock(unasked().mutex);
  const auto report = [](const char* variable, auto& names) {
    for (const std::string& name : names)
      std::fprintf(stderr, "stax: warning: %s names '%s', which is no pass of this compilation\n", variable,
                   name.c_str());
    names.clear();
  };
  report("STAX_DISABLE", unasked().disable);
  report("STAX_DUMP", unasked().dump);
}

bool run_pass(std::string_view name, bool (*pass)(tensor::Graph&), tensor::Graph& graph, const PassContext& context) {
  if (!debug_options().dump.empty()) is_asked_for(unasked().dump, name);
  if (is_disabled(name)) return false;
  if (!context.only.empty() && (name != context.only || context.passes_run > 0)) return false;
  if (context.before) context.before(name);
  auto start = Clock::now();
  bool changed = false;
  const auto& dump = debug_options().dump;
  const Sketch before = dump.empty() ? Sketch() : sketch(graph);
  auto failed = [&](const char* what) -> InternalError {
    return InternalError("pass " + std::string(name) + ": " + what +
                         "\n  repro: " + write_repro(repro_of(name, what, graph, context)));
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
  ++context.passes_run;
  if (debug_options().time) report_time(name, start);
  if (dump.count(std::string(name)) || (changed && dump.count("all")))
    std::fprintf(stderr, "// after %.*s: %s\n%s\n", static_cast<int>(name.size()), name.data(),
                 describe_change(before, sketch(graph)).c_str(), tensor::print(graph).c_str());
  if (context.observer) context.observer(name, graph);
  return changed;
}

void run_step(std::string_view name, const std::function<void()>& step) {
  auto start = Clock::now();
  try {
    step();
  } catch (const UserError&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& e) {
    throw InternalError(std::string(name) + ": " + e.what());
  }
  if (debug_options().time) report_time(name, start);
}

Sketch sketch(const tensor::Graph& graph) {
  Sketch s;
  tensor::for_each_op(graph.body, [&](const tensor::Op& op) {
    ++s.kinds[std::string(tensor::name_of(op.kind()))];
    ++s.total;
    if (!op.results.empty()) s.ops[op.result()->id] = hash_bytes(tensor::print(op));
  });
  return s;
}

std::string describe(const Sketch& s) {
  std::string kinds;
  for (const auto& [kind, count] : s.kinds) kinds += fmt::format("{}{} {}", kinds.empty() ? ": " : ", ", kind, count);
  return fmt::format("{} ops{}", s.total, kinds);
}

std::string describe_change(const Sketch& before, const Sketch& after) {
  std::string kinds;
  std::map<std::string, int> all = before.kinds;
  all.insert(after.kinds.begin(), after.kinds.end());
  for (const auto& [kind, count] : all) {
    const int was = before.kinds.contains(kind) ? before.kinds.at(kind) : 0;
    const int is = after.kinds.contains(kind) ? after.kinds.at(kind) : 0;
    if (was != is) kinds += fmt::format("{}{} {} -> {}", kinds.empty() ? "" : ", ", kind, was, is);
  }
  int rewritten = 0;
  for (const auto& [id, text] : after.ops) {
    auto it = before.ops.find(id);
    rewritten += it != before.ops.end() && it->second != text;
  }
  std::string change;
  if (!kinds.empty()) change = fmt::format("{} ops -> {} ({})", before.total, after.total, kinds);
  if (rewritten > 0) change += fmt::format("{}{} rewritten", change.empty() ? "" : "; ", rewritten);
  return change.empty() ? "nothing" : change;
}

PassedGraph graph_after(const GraphSource& source, int passes, bool verify, const std::string& target) {
  PassedGraph passed;
  passed.graph = source();
  if (passes == 0) return passed;
  PassContext context;
  context.verify = verify;
  context.target = target;
  context.observer = [&](std::string_view pass, const tensor::Graph&) {
    passed.passes.emplace_back(pass);
    if (static_cast<int>(passed.passes.size()) == passes) throw Enough{};
  };
  try {
    optimize(*passed.graph, context);
  } catch (const Enough&) {
  }
  return passed;
}

void run_named_pass(const std::string& name, tensor::Graph& graph, const std::string& target) {
  PassContext context;
  context.verify = true;
  context.only = name;
  context.target = target;
  optimize(graph, context);
  if (context.passes_run == 0)
    user_error("there is no pass '{}' for target '{}', or STAX_DISABLE leaves it out", name, target);
}

}  // namespace stax::compile
