// SPDX-License-Identifier: Apache-2.0
#pragma once
// Repros without the data of the model: large tensors are drawn again from a seed, alike, wherever the fault shows with those, too.
#include <functional>
#include <string>
#include <vector>

#include "bisect/kernel_chain.h"
#include "tensor/text.h"

namespace stax::bisect {

/// What repros have as a few words, and what is said of the rest.
struct SmallData {
  tensor::DrawnConstants drawn;
  std::vector<std::string> notes;  // a line for each tensor that is kept whole, and why
};

/// A tensor that may be replaced.
struct LargeTensor {
  std::string name;
  ir::Literal* literal = nullptr;
};

/// Those of more than 256 bytes: of constants that only their bytes say, and of inputs.
std::vector<LargeTensor> large_tensors(tensor::Graph& graph);
std::vector<LargeTensor> large_tensors(std::vector<tensor::Item>& items, const std::string& name);

/// Replaces as many as it can while `differs` says that the fault is there; all at once, if that goes, else one by one, the largest first, until a
/// quarter of a minute has gone.
SmallData draw_large(std::vector<LargeTensor> tensors,
                     const std::function<bool(const tensor::DrawnConstants&)>& differs);

}  // namespace stax::bisect
