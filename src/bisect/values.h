// SPDX-License-Identifier: Apache-2.0
#pragma once
// What one run of the reference interpreter gave for each value, each time that it was made. Passes keep the ids of values whose meaning they
// keep, so the values of two forms of one model are matched by id.
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "bisect/compare.h"

namespace stax::bisect {

class Values {
 public:
  void add(uint32_t id, tensor::Item item) { items_[id].push_back(std::move(item)); }
  /// The `occurrence`-th of value `id`, or null.
  const tensor::Item* find(uint32_t id, size_t occurrence) const {
    auto it = items_.find(id);
    return it == items_.end() || occurrence >= it->second.size() ? nullptr : &it->second[occurrence];
  }

 private:
  std::unordered_map<uint32_t, std::vector<tensor::Item>> items_;
};

/// Ids of all results of a graph's ops.
std::unordered_set<uint32_t> results_of(const tensor::Graph& graph);

/// "%17 'scores' of Softmax node 'p'".
std::string describe(const tensor::Value& value);

}  // namespace stax::bisect
