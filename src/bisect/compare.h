// SPDX-License-Identifier: Apache-2.0
#pragma once
// When two levels agree.
//
// The two sides compute one value from the same operands, so no error comes from further up. What they may differ by is the rounding of one
// kernel. Two tests, the second only where the first fails:
//   1. |got - want| is small against |want| and against the largest |want| of the tensor, by a factor of the element type and, for a sum of many
//      terms, of their number and of the type in which they are added.
//   2. The value is computed again, several times, from operands that differ from the true ones by a few units in their last place. What
//      this changes, rounding may change, too: an element passes that is no further off than a multiple of what it moved by. So cancellation, long
//      sums, and values that round to a whole number or choose a branch are judged by their own sensitivity, and a fault is not. A step is not
//      seen by a small move of what lies near it, so the operands are moved by that multiple, too, and the result may move as far.
// NaN agrees with NaN only, an infinity with the same infinity, integers exactly (unless the second test moves them).
#include <functional>
#include <optional>
#include <string>

#include "tensor/interpret.h"

namespace stax::bisect {

struct Difference {
  std::string element;  // "[3, 0]"; of a sequence "#1 [3, 0]"; empty where types, extents or counts differ
  std::string want, got;
  int64_t differing = 0, elements = 0;
  /// "element [3, 0] is 1.5 instead of 2 (4 of 64 differ)"
  std::string text() const;
};

/// A perturbation: equal draws move equal operands equally, by `scale` times a few units in the last place.
struct Draw {
  uint64_t number = 0;
  double scale = 1;
};

/// One of the two sides again, from perturbed operands; none where it fails on them.
struct Again {
  std::function<std::optional<tensor::Item>(Draw draw)> compute;
  bool is_got = false;  // which side: what was got, or what is wanted
  explicit operator bool() const { return static_cast<bool>(compute); }
};

/// `rounding`: what adding up a result may cost besides, relative to it.
std::optional<Difference> compare(const tensor::Item& got, const tensor::Item& want, const Again& again = {},
                                  double rounding = 0);
/// That of an op's results.
double rounding_of(const tensor::Op& op, const tensor::Bindings& bindings);

/// The op's results from operands that are moved, or none where it fails on them. What the op computes on the way is moved, too: there a value may
/// round to a whole number that no operand decides alone. Sums of many terms move their operands by more.
std::optional<std::vector<tensor::Item>> evaluate_moved(const tensor::Op& op,
                                                        const std::vector<const tensor::Item*>& operands,
                                                        tensor::Bindings bindings, Draw draw);

}  // namespace stax::bisect
