// SPDX-License-Identifier: Apache-2.0
#pragma once
// A call of one kernel, made small and made a model of its own.
#include "bisect/kernel_chain.h"
#include "compile/repro.h"
#include "tensor/text.h"

namespace stax::bisect {

/// Smaller extents as long as `differs` holds: operands are cut to their leading part.
KernelCall shrink(KernelCall call, const std::function<bool(const KernelCall&)>& differs);

/// A graph of the op alone, and its inputs in order. Where the operands' extents are no bare symbols, they come flat, and the symbols as a tensor.
struct Case {
  std::unique_ptr<tensor::Graph> graph;
  std::vector<tensor::Item> inputs;
};
Case case_of(const KernelCall& call);

/// Inputs of a graph as the text of a graph that gives them.
std::string inputs_text(const tensor::Graph& graph, const std::vector<tensor::Item>& inputs,
                        const tensor::DrawnConstants& drawn = {});
std::vector<tensor::Item> parse_inputs(const std::string& text);

/// The leading part of a tensor.
tensor::Literal leading_part(const tensor::Literal& from, const std::vector<int64_t>& extents);

}  // namespace stax::bisect
