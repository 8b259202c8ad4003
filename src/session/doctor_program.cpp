// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>
#include <set>

#include "runtime/evaluator.h"
#include "session/doctor.h"
#include "support/error.h"

namespace stax::session {

namespace {

// A value for each symbol of the program.
std::vector<int64_t> symbols_at(const program::Program& p, const std::map<std::string, int64_t>& at) {
  std::set<uint32_t> dims;
  for (const program::InputSpec& input : p.inputs)
    for (const program::DimSpec& d : input.dims)
      if (d.symbol != program::kNone) dims.insert(d.symbol);
  std::vector<std::string> names;
  for (uint32_t s : dims) names.push_back(p.symbols[s].name);
  for (const auto& [name, value] : at) {
    if (std::find(names.begin(), names.end(), name) == names.end())
      user_error("--at {}={}: there is no such dim; the inputs' dims are {}", name, value, fmt::join(names, ", "));
  }
  std::vector<int64_t> values;
  std::vector<std::string> missing;
  for (uint32_t s = 0; s < p.symbols.size(); ++s) {
    const program::SymbolSpec& spec = p.symbols[s];
    const auto given = at.find(spec.name);
    if (given != at.end() && dims.contains(s)) {
      if (given->second < spec.lo || given->second > spec.hi)
        user_error("--at {}={}: the dim is {} .. {}", spec.name, given->second, spec.lo, spec.hi);
      values.push_back(given->second);
    } else {
      if (dims.contains(s) && spec.lo != spec.hi) missing.push_back(spec.name);
      values.push_back(std::clamp<int64_t>(1, spec.lo, spec.hi));
    }
  }
  if (!missing.empty())
    user_error("dims {} have no value; name one for each, such as --at {}=128", fmt::join(missing, ", "), missing[0]);
  return values;
}

}  // namespace

std::vector<LaunchDiagnosis> diagnose_program(const program::Program& program, const ir::Target& target,
                                              const std::map<std::string, int64_t>& at, const DoctorOptions& options) {
  const std::vector<int64_t> symbols = symbols_at(program, at);
  const runtime::Evaluator evaluator(program);
  std::vector<program::ExprRef> nodes(evaluator.size());
  std::iota(nodes.begin(), nodes.end(), 0U);
  std::vector<int64_t> values(evaluator.size());
  evaluator.run(nodes, symbols, values);

  std::vector<LaunchDiagnosis> result;
  std::map<std::pair<uint32_t, std::vector<int64_t>>, size_t> known;
  const auto launch = [&](const program::LaunchStep& step) {
    if (step.empty_if_zero != program::kNone && values[step.empty_if_zero] == 0) return;
    const auto version = std::find_if(step.versions.begin(), step.versions.end(), [&](const program::LaunchVersion& v) {
      return v.guard == program::kNone || values[v.guard] != 0;
    });
    STAX_ASSERT(version != step.versions.end(), "{}: no version takes this shape", step.source);
    std::vector<int64_t> params;
    for (program::ExprRef e : step.params) params.push_back(values[e]);
    for (program::ExprRef e : version->divisors) {
      const thread::Reciprocal r = thread::reciprocal_of(values[e]);
      params.push_back(r.multiplier), params.push_back(r.shift);
    }
    const auto [found, is_new] = known.try_emplace({version->kernel, params}, result.size());
    if (!is_new) {
      ++result[found->second].launches;
      return;
    }
    const thread::Kernel kernel = thread::parse_kernel(program.kernels[version->kernel].thread_text);
    result.push_back({version->kernel, 1, diagnose(kernel, target, params, options)});
  };
  for (const program::BlockSpec& block : program.blocks)
    for (const program::Step& step : block.steps)
      if (const auto* l = std::get_if<program::LaunchStep>(&step)) launch(*l);
  std::stable_sort(result.begin(), result.end(), [](const LaunchDiagnosis& a, const LaunchDiagnosis& b) {
    return a.diagnosis.predicted_us * a.launches > b.diagnosis.predicted_us * b.launches;
  });
  return result;
}

}  // namespace stax::session
