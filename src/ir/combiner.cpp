// SPDX-License-Identifier: Apache-2.0
#include "ir/combiner.h"

#include <algorithm>
#include <limits>

#include "support/error.h"

namespace stax::ir {

namespace {

constexpr std::string_view kCombinerNames[] = {"sum", "prod", "min", "max", "and", "or"};

}  // namespace

std::string_view name_of(Combiner combiner) { return kCombinerNames[static_cast<size_t>(combiner)]; }

std::optional<Combiner> parse_combiner(std::string_view name) {
  const auto* found = std::find(std::begin(kCombinerNames), std::end(kCombinerNames), name);
  if (found == std::end(kCombinerNames)) return std::nullopt;
  return static_cast<Combiner>(found - std::begin(kCombinerNames));
}

Scalar neutral(Context& context, Combiner combiner, DType t) {
  ScalarTable& table = context.scalars;
  const bool real = is_float(t);
  const auto least = [&]() -> Scalar {
    if (real) return table.constant(t, -std::numeric_limits<double>::infinity());
    if (t == DType::kBool || !is_signed(t)) return table.constant_int(t, 0);
    return table.constant_int(t, std::numeric_limits<int64_t>::min() >> (64 - bit_width(t)));
  };
  const auto greatest = [&]() -> Scalar {
    if (real) return table.constant(t, std::numeric_limits<double>::infinity());
    if (t == DType::kBool) return table.constant_int(t, 1);
    if (!is_signed(t)) return table.constant_int(t, -1);
    return table.constant_int(t, std::numeric_limits<int64_t>::max() >> (64 - bit_width(t)));
  };
  switch (combiner) {
    case Combiner::kSum:
    case Combiner::kOr: return table.constant_int(t, 0);
    case Combiner::kProd: return table.constant_int(t, 1);
    case Combiner::kMin: return greatest();
    case Combiner::kMax: return least();
    case Combiner::kAnd: return table.constant_int(t, t == DType::kBool ? 1 : -1);
  }
  STAX_UNREACHABLE();
}

Scalar combine(Combiner combiner, Scalar a, Scalar b) {
  switch (combiner) {
    case Combiner::kSum: return binary(ScalarOp::kAdd, a, b);
    case Combiner::kProd: return binary(ScalarOp::kMul, a, b);
    case Combiner::kMin: return binary(ScalarOp::kMin, a, b);
    case Combiner::kMax: return binary(ScalarOp::kMax, a, b);
    case Combiner::kAnd: return binary(ScalarOp::kAnd, a, b);
    case Combiner::kOr: return binary(ScalarOp::kOr, a, b);
  }
  STAX_UNREACHABLE();
}

}  // namespace stax::ir
