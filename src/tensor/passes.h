// SPDX-License-Identifier: Apache-2.0
#pragma once
// The passes over tensor IR. Each is one free function in the file of its name; compile/pipeline.cpp has their order.
#include "tensor/graph.h"

namespace stax::tensor {

// fix_known_extents: dims of inputs for which the checks leave one size are that number everywhere but in the inputs' types and in the checks of the whole
//   program, which refuse every other size.
bool fix_known_extents(Graph& graph);

// canonicalize: one form per meaning; never needed for correctness.
//   ensures: Computes that copy their operand index by index are gone; Computes whose index map is a plain reinterpretation
//   (row-major order kept) are Reshapes; chains of Reshapes are one; nested selects on proved conditions are resolved.
bool canonicalize(Graph& graph);

// fold_constants: evaluates ops on constants with the interpreter; an If on a constant condition becomes its branch; loads of integers that are all
//   alike become a number.
bool fold_constants(Graph& graph);

// eliminate_common_subexpressions: equal payload, operands and types (axis variables are shared, so bodies compare by pointer).
bool eliminate_common_subexpressions(Graph& graph);

// eliminate_dead_ops: drops ops without uses and without effect. Checks and Binds whose symbols are used stay.
bool eliminate_dead_ops(Graph& graph);

// contract_quantized: contractions of dequantized values, (q - zero) * scale, as contractions of what they were quantized to, where the sums fit 32
//   bits, also of values that are padded with zeros; the scales multiply the sum. requires: dequantized constants are not folded yet.
bool contract_quantized(Graph& graph);

// move_channels_last: results of convolutions, and what is computed from them channel by channel, with the channels as the last axis; constants in
//   the order in which the loops then use them. Readers in one piece (reshapes, outputs) read a copy in the old order.
//   requires: products before their epilogues, so that every value has few readers.
bool move_channels_last(Graph& graph);

// tabulate_bytes: bytes that are computed point by point from one tensor of bytes, by more than a look-up costs, as elements of a table of 256 results.
//   ensures: the index of such an element is a u8, cast to i64. Leaves the steps it replaces behind, and tables that are not folded yet.
bool tabulate_bytes(Graph& graph);

// expand_zero_points: contractions of bytes, (a - za) * (w - zw), as sums of plain products of u8 and i8 (tensor/byte_dot.h) with the zero points'
//   part subtracted from the sum. ensures: such a contraction's u8 operand is contiguous along a reduction of whole groups.
bool expand_zero_points(Graph& graph);

// strengthen_integer_contractions: other contractions of bytes with constant weights in float arithmetic where no partial sum can pass 2^24, so that the
//   result is the same integer.
bool strengthen_integer_contractions(Graph& graph);

// split_arg_reductions: the place of the greatest or least element of a row as two reductions, of which the second looks for what the first has found.
bool split_arg_reductions(Graph& graph);

// rank_top_k: the greatest elements of rows that are not too long by comparing each with each, as reductions; longer rows keep the procedure, by an If
//   where only the call knows.
bool rank_top_k(Graph& graph);

// gather_scatters: scatters whose points may meet as reductions over the points that hit an element, where that takes few comparisons; by an If where
//   only the call knows. Sums add in another order.
bool gather_scatters(Graph& graph);

// assign_layouts: for contractions (combiner sum, body a product of two loads, one of them under casts or offsets), makes
//   the operand whose axis becomes the vector axis contiguous along it: inserts a transposing Compute in front (folded at once
//   if it is a constant).
//   The same for constant weights that are spread over the lanes: along their widest axis.
bool assign_layouts(Graph& graph);

// fuse_siblings: products of one operand with several constants (and the biases added to them) as one product with the constants side by side; what
//   were their results are windows of its rows.
//   requires: canonical form, products before their epilogues.
bool fuse_siblings(Graph& graph);

// fuse_ops: substitutes the bodies of producers into consumers.
//   requires: canonical form. ensures: every remaining Compute is one kernel.
//   - a map whose body is cheap (index maps, casts, arithmetic without transcendental functions; at most a few loads) goes
//     into all its consumers; any map goes into its only consumer where that evaluates each element about once;
//   - a map that is the only consumer of a reduction with the same domain becomes its epilogue;
//   - contractions keep plain loads (their operands are never recomputed), except casts, zero points and padding around rows;
//   - a map too large to exist in memory is always fused.
bool fuse_ops(Graph& graph);

// widen_rows: rows of contractions with constant weights as f32, where they are f16 or bf16: by their producer, if such contractions alone read them,
//   else by a conversion in front. requires: fused form, which would take the conversion in again.
bool widen_rows(Graph& graph);

// group_rows: a reduction with what else goes over the same rows as one RowGroup (softmax, norms).
//   requires: fused form. ensures: no group's inner values exist in memory; dear values that several of its ops need are computed once.
bool group_rows(Graph& graph);

// hoist_repeated: parts of a body that cost something and do not vary along axes of many elements, such as coordinates of an interpolation over all channels,
//   as tensors of their own.
bool hoist_repeated(Graph& graph);

// pack_weights: constant operands of contractions as panels of kPackedColumns columns, contiguous in the order in which a register tile reads them.
//   For dot products of bytes also what is not constant, in groups of four rows.
//   requires: fused form (classification of contractions is not asked again). The packing Computes of constants are folded by fold_constants.
inline constexpr int64_t kPackedColumns = 32;
bool pack_weights(Graph& graph);

// hoist_literals: literals in which ops differ that are the same otherwise, as elements of a constant operand that each of them gets, so that their
//   kernels are one: the layers of a quantized model, whose scales and zero points are literals.
//   requires: one kernel for each op, and constants folded (the operands stay as they are).
bool hoist_literals(Graph& graph);

}  // namespace stax::tensor
