// SPDX-License-Identifier: Apache-2.0
#pragma once
// Shape plans: everything that follows from the extents of a call's inputs, evaluated once and replayed.
//
// The key is the tuple of the symbols that the inputs bind. A plan holds the values of all expressions of the model's first segment: kernel
// parameters, launch sizes, arena offsets. The cache is bounded (by entries), drops the least recently used, and may be used by several threads.
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "support/hash.h"

namespace stax::runtime {

struct ShapePlan {
  std::vector<int64_t> symbols;
  std::vector<int64_t> values;  // of the first segment's nodes, in their order
};

class PlanCache {
 public:
  explicit PlanCache(size_t entries) : limit_(entries) {}
  std::shared_ptr<const ShapePlan> find(std::span<const int64_t> symbols);
  void insert(std::shared_ptr<const ShapePlan> plan);

 private:
  static uint64_t hash(std::span<const int64_t> symbols);
  struct Entry {
    uint64_t key;
    std::shared_ptr<const ShapePlan> plan;
  };
  std::mutex mutex_;
  size_t limit_;
  std::list<Entry> recent_;  // most recently used first
  std::unordered_multimap<uint64_t, std::list<Entry>::iterator> by_hash_;
};

}  // namespace stax::runtime
