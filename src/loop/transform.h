// SPDX-License-Identifier: Apache-2.0
#pragma once
// Schedules: replayable text made of checked transformations of a kernel.
//
// A loop is named by its variable, without the number (".2") that keeps equal names of one symbol table apart. Distributing a
// loop (sink) makes several loops of one variable; a step that names it applies to all of them. Each transformation checks that it
// keeps the kernel's meaning and throws IllegalTransform (a UserError: which step, which loop, which rule) otherwise. New names must
// be new. Where a step duplicates a nest (split ... separate, cases), the loops inside the copy that is the tail get the suffix "_t", as
// often as it takes to make the name new: r becomes r_t, and copied again r_t_t; local buffers allocated in it get slots of their
// own, at the end of the list. Grammar, one step a line (or separated by ';', '#' begins a comment):
//
//   split i 16 -> io ii [exact|guard|bounded|clamped|padded|zeros|separate it|cases it]   only serial loops. exact: 16 must provably divide the extent. guard (the default): io
//                                   runs to ceil(n/16) and the body is guarded, unless 16 divides n. separate: steady nest io, ii over whole
//                                   tiles, then a tail loop `it` over what is left, as separate nests. cases: one loop io to ceil(n/16), in it
//                                   `if io < n/16` with ii over a whole tile, else `it` over what is left: the outer loop stays single (it
//                                   can be fused and made parallel), and neither nest has a guard.
//                                   zeros: the factors of what is added are 0 past the end, so that the loop has whole tiles and no condition.
//   interchange i j                 two perfectly nested loops change places; the iterations of one of them are independent
//   fuse i j -> f                   two perfectly nested loops become one; i = f / extent(j), j = f mod extent(j)
//   tile i j 4 8 -> io jo ii ji [exact|guard]   of two perfectly nested loops: split, split, interchange
//   sink i [apart] [above r s]      moves loop i inward past everything between it and the statements it encloses: over a sequence it is
//                                   distributed, into serial and unrolled loops it is interchanged, and local buffers allocated inside it get a
//                                   new innermost axis for it. A condition that depends on i goes along to each statement, others stay outside.
//                                   i's iterations must be independent. (This is how a register tile is made: split, then sink.) The
//                                   axis is the extent's upper bound where that is a constant up to 256, else the extent. apart: it is the
//                                   outermost axis, so that what an iteration has of a buffer stays together. above: it stops in front of these loops.
//   unroll i                        constant extent up to 1024
//   vectorize i 16                  marks i vector with 16 lanes; only innermost loops (or loops that enclose unrolled ones only), without local
//                                   buffers inside; iterations are independent or update locations that do not depend on i
//   parallelize i                   i becomes the outermost parallel loop: of the nest that is the whole kernel, i moves outward and is marked
//   thread i                        i is spread over the threads of a block; iterations are independent or update locations that do not
//                                   depend on i; no thread loop is around it or inside
//   warp i                          as thread; the lanes of a warp do an iteration together, by matrix loops
//   matrix i j k                    marks the loops over rows, columns and depth of a matrix that the lanes of a warp share, a dash where there is
//                                   none: all three around the sum of products of local buffers, two around what fills a factor or uses a sum
//   stage 2 at i -> name            copies the footprint of global buffer slot 2 needed by one iteration of i into a local buffer in front of its body
//   cache 0 at k over i j [pad 1] -> name   reads buffer slot 0 (or 0 where a condition leaves it out) once for each iteration of i and j inside k, in front of k's body, into a local
//                                   buffer [i, j + pad]
//   compute_at 5 i                  moves the nest that produces local buffer slot 5 into loop i, for the part that an iteration needs
//   double_buffer 5 i               local buffer slot 5, filled in each iteration of i, gets two halves, the next filled one iteration ahead
//   pipeline 5 6 at i 3             local buffers 5 and 6, filled and then used in each iteration of i, get 3 stages, filled in the background 2
//                                   iterations ahead
//   split_reduction r 4 -> ro ri [outside]   r's updates go to 4 partial accumulators combined after the loop, in a fixed order; loops of that name
//                                   that update nothing stay. outside: ri is around ro, and nobody else touches an accumulator; what is combined is a copy
//   align r 4 of 0 -> rh            r's first iterations, up to where it reads buffer slot 0 at a multiple of 4 elements, become a loop rh in front of it
//   split_scan s 256 4 32 -> so     a running sum in tiles of 256 lanes with 4 elements each, kept in rows of 32 elements and one of padding: loops so_in
//                                   (around so_k), so_sum (around so_e), so_step0 .. so_step7 and so_out (around so_f) over lanes, in a fixed order
//                                   of combination; so_in and so_out have lanes side by side
//   phase_reduction r p2 first -> s [every 4 i]   of a kernel of loops around one accumulator: r goes in parts of p2 (a parameter), s of them, whose results a second
//                                   nest combines in a fixed order: the kernel is two phases (loop/phases.h). first, last: where the axis of the
//                                   parts is in what is between them. every: a part goes in 4 turns i, each of every fourth iteration and with a
//                                   result of its own, so that it has 4 p2 iterations; what is left of whole turns is added in the second nest
//   phase_scan s p2 -> c            of a kernel of loops around one running sum: s goes in parts of p2 (a parameter), in three phases: each part's sum, what is in
//                                   front of each part, and each part from there on
//   prefetch 1 r 8                  iterations of r hint what they will read of global buffer slot 1 eight iterations on: to the first-level cache
//   prefetch 1 r next c [over o]    and what the next iteration of c will read of it: to the second-level cache, the work spread over the
//                                   iterations of o. What an iteration of r reads is contiguous, and (for next) so is all that r reads.
//   prefetch 1 r row c              for the first-level cache: the last loop r that reads buffer slot 1 hints what it will read in the next
//                                   iteration of c; of a buffer that is written, the loop r in front of the one that writes hints where it will
//   hint 2 before r                 what stands behind loop r in the same sequence reads a few lines of global buffer slot 2: they are hinted at in front of
//                                   r, to the first-level cache
//   skip r                          r, a loop of sums of products alone, runs only where some product has a factor that is not 0 by a condition. The
//                                   other factors are elements of finite buffers.
#include <string>
#include <vector>

#include "loop/loop_ir.h"
#include "support/error.h"

namespace stax::loop {

class IllegalTransform : public UserError {
 public:
  using UserError::UserError;
};

struct Step {
  std::string verb;                // "split", ...
  std::vector<std::string> words;  // as written, without the arrow
  std::string str() const;
};

/// The name by which a schedule calls a loop of `var`: the symbol's name without ".2", ".3", ...
std::string loop_name(Expr var);

std::vector<Step> parse_schedule(const std::string& text);
Kernel apply(Kernel kernel, const Step& step);
/// Applies all steps and records the text in the result's `schedule`.
Kernel apply_schedule(const Kernel& kernel, const std::string& schedule);

}  // namespace stax::loop
