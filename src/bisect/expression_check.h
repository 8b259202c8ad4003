// SPDX-License-Identifier: Apache-2.0
#pragma once
// Expressions that the simplifier makes wrong ones of. All levels share them, so no level differs from another.
#include "bisect/bisect.h"
#include "bisect/machine.h"

namespace stax::bisect {

/// Makes the graph, its passes and its program, without code, and looks at each expression on the way.
std::optional<Finding> check_expressions(const compile::GraphSource& source, const Machine& machine);
/// `model`: of a repro.
std::optional<Finding> replay_expression(const std::string& model);

}  // namespace stax::bisect
