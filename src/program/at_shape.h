// SPDX-License-Identifier: Apache-2.0
#pragma once
// A program at one shape: what its expressions are, as far as they follow from the dims of its inputs.
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "program/program.h"

namespace stax::program {

class AtShape {
 public:
  /// `dims`: by name. UserError where one is no dim of the program, or is outside of its range. What is not given is unknown.
  AtShape(const Program& program, const std::map<std::string, int64_t>& dims);
  std::optional<int64_t> value(ExprRef e) const { return e == kNone ? std::nullopt : values_[e]; }
  /// The version that is launched: its place in the step's list; none where a guard in front of it is unknown.
  std::optional<size_t> version(const LaunchStep& step) const;
  /// Whether the step launches something; true where that is unknown.
  bool launches(const LaunchStep& step) const;

 private:
  std::vector<std::optional<int64_t>> values_;
};

/// As print(program), with numbers in the place of what is known, the version that is launched, and the places of values.
std::string print(const Program& program, const AtShape& at);

}  // namespace stax::program
