// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "session/session.h"
#include "support/error.h"

namespace stax::session {

using ir::DType;
using runtime::Item;
using runtime::Tensor;

namespace {

// bfloat16 comes as its bits.
Tensor as_type(Tensor t, DType wanted) {
  if (wanted == DType::kBF16 && t.dtype == DType::kU16) t.dtype = DType::kBF16;
  return t;
}

std::string names(const std::vector<Port>& ports) {
  std::string s;
  for (const Port& p : ports) s += (s.empty() ? "'" : ", '") + p.name + "'";
  return s.empty() ? "none" : s;
}

std::string names(const std::map<std::string, Tensor>& arrays) {
  std::string s;
  for (const auto& [name, array] : arrays) s += (s.empty() ? "'" : ", '") + name + "'";
  return s.empty() ? "none" : s;
}

}  // namespace

std::vector<Item> feed(const std::vector<Port>& inputs, const std::map<std::string, Tensor>& arrays,
                       const std::string& file) {
  std::vector<Item> items;
  std::set<std::string> used;
  for (const Port& p : inputs) {
    Item item;
    if (p.is_sequence) {
      item.is_sequence = true;
      for (size_t k = 0;; ++k) {
        auto it = arrays.find(p.name + "[" + std::to_string(k) + "]");
        if (it == arrays.end()) break;
        used.insert(it->first);
        item.sequence.push_back(as_type(it->second, p.dtype));
      }
      bool empty = arrays.count(p.name + "[]") > 0;
      if (empty) used.insert(p.name + "[]");
      if (item.sequence.empty() && !empty)
        user_error("{}: the sequence input '{}' is missing; give '{}[0]', '{}[1]', .. or, for an empty one, '{}[]'",
                   file, p.name, p.name, p.name, p.name);
    } else {
      auto it = arrays.find(p.name);
      if (it == arrays.end())
        user_error("{}: input '{}' is missing; the model's inputs are {}, the file's arrays {}", file, p.name,
                   names(inputs), names(arrays));
      used.insert(it->first);
      item.tensor = as_type(it->second, p.dtype);
      // One number is a scalar, whether or not its writer gave it axes.
      if (p.rank == 0 && item.tensor.bytes() == ir::byte_size(item.tensor.dtype)) item.tensor.extents.clear();
    }
    items.push_back(std::move(item));
  }
  for (const auto& [name, tensor] : arrays)
    if (!used.count(name))
      user_error(
          "{}: '{}' is no input of the model; its inputs are {} (one that has a value in the file is a constant)", file,
          name, names(inputs));
  return items;
}

std::vector<std::pair<std::string, Tensor>> unfeed(const std::vector<Port>& outputs, const std::vector<Item>& items) {
  std::vector<std::pair<std::string, Tensor>> arrays;
  for (size_t k = 0; k < outputs.size(); ++k) {
    if (!outputs[k].is_sequence) {
      arrays.emplace_back(outputs[k].name, items[k].tensor);
      continue;
    }
    const auto& s = items[k].sequence;
    for (size_t j = 0; j < s.size(); ++j) arrays.emplace_back(outputs[k].name + "[" + std::to_string(j) + "]", s[j]);
    if (s.empty()) {
      Tensor none;
      none.dtype = DType::kF32;
      none.extents = {0};
      arrays.emplace_back(outputs[k].name + "[]", none);
    }
  }
  return arrays;
}

}  // namespace stax::session
