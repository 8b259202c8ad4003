// SPDX-License-Identifier: Apache-2.0
#include "bisect/runtime_items.h"

#include <cstring>

namespace stax::bisect {

namespace {

using ir::Literal;
using tensor::Item;

runtime::Tensor tensor_of(const Literal& l) {
  runtime::Tensor t;
  t.dtype = l.dtype();
  t.extents = l.extents();
  t.data = l.data();
  return t;
}

}  // namespace

runtime::Item item_of(const Item& from) {
  runtime::Item to;
  to.is_sequence = from.is_sequence;
  if (!from.is_sequence) to.tensor = tensor_of(from.tensor);
  for (const Literal& l : from.sequence) to.sequence.push_back(tensor_of(l));
  return to;
}
Item item_of(const runtime::Item& from) {
  auto literal = [](const runtime::Tensor& t) {
    Literal l(t.dtype, t.extents);
    if (l.bytes() > 0) std::memcpy(l.data(), t.data, l.bytes());
    return l;
  };
  Item to;
  to.is_sequence = from.is_sequence;
  if (!from.is_sequence) to.tensor = literal(from.tensor);
  for (const runtime::Tensor& t : from.sequence) to.sequence.push_back(literal(t));
  return to;
}

}  // namespace stax::bisect
