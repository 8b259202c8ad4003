// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tensors of the interpreter and of the runtime.
#include "runtime/runtime.h"
#include "tensor/interpret.h"

namespace stax::bisect {

/// A view: the data is shared.
runtime::Item item_of(const tensor::Item& from);
/// A copy.
tensor::Item item_of(const runtime::Item& from);
/// What is not the same bit for bit, as two runs of one program must be; empty: nothing.
std::string exact_difference(const runtime::Item& got, const runtime::Item& want);

}  // namespace stax::bisect
