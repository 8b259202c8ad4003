// SPDX-License-Identifier: Apache-2.0
#include "program/at_shape.h"

#include <fmt/format.h>

#include "support/error.h"
#include "support/nearest.h"

namespace stax::program {

AtShape::AtShape(const Program& program, const std::map<std::string, int64_t>& dims) {
  std::vector<std::optional<int64_t>> symbols(program.symbols.size());
  for (const auto& [name, value] : dims) {
    std::vector<std::string> known;
    bool found = false;
    for (size_t s = 0; s < program.symbols.size(); ++s) {
      const SymbolSpec& spec = program.symbols[s];
      known.push_back(spec.name);
      if (spec.name != name) continue;
      found = true;
      if (value < spec.lo || value > spec.hi)
        user_error("--at {}={}: the range of '{}' is {}..{}", name, value, name, spec.lo, spec.hi);
      symbols[s] = value;
    }
    if (found) continue;
    const std::string near = nearest(name, known);
    user_error("--at {}={}: there is no dim '{}'{}; the dims are {}", name, value, name,
               near.empty() ? "" : ", did you mean '" + near + "'?", fmt::join(known, ", "));
  }
  for (const symbolic::FlatNode& n : program.exprs.nodes()) {
    std::vector<int64_t> args;
    for (const uint32_t a : n.args)
      if (values_[a]) args.push_back(*values_[a]);
    if (n.kind == symbolic::ExprKind::kConstant)
      values_.push_back(n.value);
    else if (n.kind == symbolic::ExprKind::kSymbol)
      values_.push_back(symbols[static_cast<size_t>(n.value)]);
    else if (args.size() == n.args.size())
      values_.push_back(symbolic::apply(n.kind, args));
    else
      values_.push_back(std::nullopt);
  }
}

std::optional<size_t> AtShape::version(const LaunchStep& step) const {
  for (size_t k = 0; k < step.versions.size(); ++k) {
    if (step.versions[k].guard == kNone) return k;
    const auto guard = value(step.versions[k].guard);
    if (!guard) return std::nullopt;
    if (*guard != 0) return k;
  }
  return std::nullopt;
}

bool AtShape::launches(const LaunchStep& step) const {
  const auto written = value(step.empty_if_zero);
  return !written || *written > 0;
}

}  // namespace stax::program
