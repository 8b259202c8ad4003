// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a step reads and makes, for analyses over programs.
#include <functional>

#include "program/program.h"

namespace stax::program {

/// Values that the step itself reads (bodies of If and Loop not included).
void for_each_operand(const Step& step, const std::function<void(ValueRef)>& f);
/// Values that it makes.
void for_each_result(const Step& step, const std::function<void(ValueRef)>& f);
/// Blocks that it runs.
void for_each_block(const Step& step, const std::function<void(uint32_t)>& f);
/// Expressions that it reads.
void for_each_expr(const Step& step, const std::function<void(ExprRef)>& f);
std::string_view name_of(const Step& step);
std::string_view source_of(const Step& step);

/// The value whose memory `v` is.
inline ValueRef root_of(const Program& program, ValueRef v) {
  while (program.values[v].storage == Storage::kAlias) v = program.values[v].index;
  return v;
}

}  // namespace stax::program
