// SPDX-License-Identifier: Apache-2.0
#pragma once
// How a reduction combines two values.
#include <optional>
#include <string_view>

#include "ir/scalar.h"

namespace stax::ir {

enum class Combiner : uint8_t { kSum, kProd, kMin, kMax, kAnd, kOr };

std::string_view name_of(Combiner combiner);  // "sum", ...
std::optional<Combiner> parse_combiner(std::string_view name);
/// The value that leaves any other as it is.
Scalar neutral(Context& context, Combiner combiner, DType dtype);
/// combine(a, b) as a scalar expression.
Scalar combine(Combiner combiner, Scalar a, Scalar b);

}  // namespace stax::ir
