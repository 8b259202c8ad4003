// SPDX-License-Identifier: Apache-2.0
#pragma once
// Functions that look up what belongs to a piece of their range.
//
// Odd functions as polynomials in pieces of equal width: f(x) = x q(|x|), q by its own coefficients around each of up to 32 points.
//
// Around point k, q(|x|) = sum over i of c[i][k] t^i with t = |x| per_unit - k, which is within -1/2 .. 1/2. The narrower the pieces, the lower
// the degree; a machine that looks up 32 entries in registers pays one instruction for each coefficient.
#include <cstdint>

namespace stax::ir {

struct Pieces {
  double most = 0;           // from here on the function is 1; a multiple of 1 / per_unit
  double per_unit = 0;       // pieces
  uint64_t degree = 0;       // of q
  uint64_t first_table = 0;  // numbers of the tables (math_entries), lowest power first
};

extern const Pieces kErfPieces, kTanhPieces;

/// The number of the table of 2^(k / 32).
extern const uint64_t kPowersTable;

}  // namespace stax::ir
