// SPDX-License-Identifier: Apache-2.0
#include "standalone.h"

#include <algorithm>
#include <random>

#include "compile/kernel_stages.h"
#include "emit/standalone.h"
#include "lower/loop_to_thread.h"
#include "support/error.h"

namespace stax::tool {

namespace {

constexpr int64_t kMostBytes = int64_t{1} << 28;  // of one buffer, so that the file runs anywhere
constexpr int64_t kMostWork = int64_t{1} << 28;   // scalar operations, so that it ends soon
constexpr int kTries = 400;

struct Place {
  const program::LaunchStep* step = nullptr;
  const tensor::Op* op = nullptr;
  uint32_t phase = 0;
  size_t version = 0;
};

Place place_of(const compile::Compiled& compiled, size_t kernel) {
  const program::Program& p = *compiled.program;
  for (size_t b = 0; b < p.blocks.size(); ++b)
    for (size_t s = 0; s < p.blocks[b].steps.size(); ++s) {
      const auto* launch = std::get_if<program::LaunchStep>(&p.blocks[b].steps[s]);
      if (launch == nullptr) continue;
      for (size_t v = 0; v < launch->versions.size(); ++v)
        if (launch->versions[v].kernel == kernel)
          return {launch, compiled.origin.ops[b][s], compiled.origin.phases[b][s], v};
    }
  // A version that no use of its kernel needs: that of another one has the same parameters.
  for (size_t b = 0; b < p.blocks.size(); ++b)
    for (size_t s = 0; s < p.blocks[b].steps.size(); ++s) {
      const auto* launch = std::get_if<program::LaunchStep>(&p.blocks[b].steps[s]);
      if (launch == nullptr) continue;
      for (const program::LaunchVersion& v : launch->versions)
        if (p.kernels[v.kernel].family == p.kernels[kernel].family)
          return {launch, compiled.origin.ops[b][s], compiled.origin.phases[b][s], launch->versions.size()};
    }
  internal_error("kernel {} is not launched", p.kernels[kernel].name);
}

/// The parameters' values, where all are known and no buffer is too large.
std::optional<std::vector<int64_t>> values_at(const program::Program& p, const program::LaunchStep& step,
                                              const program::AtShape& at) {
  std::vector<int64_t> values;
  for (const program::ExprRef e : step.params) {
    const auto v = at.value(e);
    if (!v) return std::nullopt;
    values.push_back(*v);
  }
  for (const program::ValueRef r : step.arguments) {
    const auto bytes = at.value(p.values[r].bytes);
    if (!bytes || *bytes > kMostBytes) return std::nullopt;
  }
  return values;
}

/// Values at a shape at which this version is launched; else at one at which it is right.
std::optional<std::vector<int64_t>> search(const program::Program& p, const Place& place) {
  constexpr int64_t kExtents[] = {1, 2, 3, 4, 5, 8, 12, 16, 17, 32, 33, 64, 100, 128, 256, 512, 1024};
  std::mt19937 random(1);  // the same file every time
  std::optional<std::vector<int64_t>> right;
  for (int attempt = 0; attempt < kTries; ++attempt) {
    std::map<std::string, int64_t> dims;
    // First all alike, then each by itself.
    constexpr int64_t kAlike[] = {128, 64, 256, 100, 33, 16, 7, 4, 1024, 2, 1, 512};
    for (const program::SymbolSpec& s : p.symbols) {
      int64_t value =
          attempt < static_cast<int>(std::size(kAlike)) ? kAlike[attempt] : kExtents[random() % std::size(kExtents)];
      value = std::clamp(value, s.lo, s.hi);
      if (s.multiple > 1)
        value = std::min(value / s.multiple * s.multiple + (value < s.multiple ? s.multiple : 0), s.hi);
      dims[s.name] = value;
    }
    try {
      const program::AtShape at(p, dims);
      auto values = values_at(p, *place.step, at);
      if (!values || !at.launches(*place.step) || at.value(place.step->work).value_or(0) > kMostWork) continue;
      if (at.version(*place.step) == place.version) return values;
      if (right) continue;
      const auto holds =
          place.version < place.step->versions.size() && place.step->versions[place.version].necessary != program::kNone
              ? at.value(place.step->versions[place.version].necessary)
              : std::optional<int64_t>(place.version < place.step->versions.size());
      if (holds.value_or(0) != 0) right = std::move(values);
    } catch (const UserError&) {
      continue;  // names that several symbols share have ranges of their own
    }
  }
  return right;
}

}  // namespace

std::string standalone_text(const compile::Compiled& compiled, size_t kernel, const ir::Target& target,
                            const program::AtShape* at) {
  const program::Program& p = *compiled.program;
  const Place place = place_of(compiled, kernel);
  const loop::Kernel naive = compile::run_loop_passes(compile::lower_step(*place.op, place.phase, target).kernel);
  thread::Kernel simple = lower::lower_to_thread(naive, ir::find_target("cpu"), 1, 64);
  simple.name = "simple_" + p.kernels[kernel].name;
  std::optional<std::vector<int64_t>> values = at != nullptr ? values_at(p, *place.step, *at) : search(p, place);
  if (!values && at != nullptr)
    user_error(
        "--at leaves parameters of kernel {} unknown, or makes a buffer larger than {} MiB; name all dims, or leave "
        "it out",
        p.kernels[kernel].name, kMostBytes >> 20);
  // What the search does not find is left to the command line of the file.
  if (!values) values.emplace(place.step->params.size(), 1);
  std::vector<std::string> meaning;
  for (const program::ExprRef e : place.step->params) meaning.push_back(program::text_of(p, e));
  return emit::emit_standalone({compiled.thread_kernels[kernel], simple, *values, meaning}, target);
}

}  // namespace stax::tool
