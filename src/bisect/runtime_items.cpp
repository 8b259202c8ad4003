// SPDX-License-Identifier: Apache-2.0
#include "bisect/runtime_items.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>

#include "runtime/version_compare.h"

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

std::string difference(const runtime::Tensor& got, const runtime::Tensor& want) {
  if (got.dtype != want.dtype || got.extents != want.extents)
    return fmt::format("its shape is [{}] instead of [{}]", fmt::join(got.extents, ", "),
                       fmt::join(want.extents, ", "));
  const auto d = runtime::compare_versions(got.dtype, got.extents, got.data, want.data, true);
  return d ? d->what : std::string();
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

std::string exact_difference(const runtime::Item& got, const runtime::Item& want) {
  if (!want.is_sequence) return difference(got.tensor, want.tensor);
  if (got.sequence.size() != want.sequence.size())
    return fmt::format("it has {} elements instead of {}", got.sequence.size(), want.sequence.size());
  for (size_t k = 0; k < want.sequence.size(); ++k)
    if (std::string what = difference(got.sequence[k], want.sequence[k]); !what.empty())
      return fmt::format("#{} {}", k, what);
  return {};
}

}  // namespace stax::bisect
