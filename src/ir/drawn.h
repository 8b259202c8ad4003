// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tensors whose elements are drawn from a seed, so that a few words say all of them. What a fault is shown with need not be the data of the model that it
// was found in: data drawn alike will mostly do, and is small as text.
#include <optional>
#include <string>
#include <vector>

#include "ir/literal.h"

namespace stax {
class Lexer;
}

namespace stax::ir {

/// How elements are drawn: equal ones give the same bits on every machine.
struct Drawn {
  uint64_t seed = 0;
  std::vector<double> choices;     // not empty: each element is one of these
  double mean = 0, deviation = 0;  // else, of floats: about normal, cut off at the ends of the range
  double low = 0, high = 0;        // integers: uniform, both ends belong to it
};

Literal draw(DType dtype, std::vector<int64_t> extents, const Drawn& how);

/// How to draw what looks like the tensor: the same few values, or the same range, mean and deviation. None where that says nothing of it (floats
/// that are not finite among many others, integers beyond 2^53).
std::optional<Drawn> drawn_like(const Literal& literal, uint64_t seed);

/// "drawn 7 normal 0.0 0.3 from -1.5 to 1.25", "drawn 7 integers from 0 to 255", "drawn 7 of {0.0, -inf}"
std::string spell(const Drawn& how);
/// Behind the word `drawn`. UserError where it is none.
Drawn parse_drawn(Lexer& lexer);

}  // namespace stax::ir
