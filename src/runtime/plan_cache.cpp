// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan_cache.h"

#include <algorithm>

namespace stax::runtime {

uint64_t PlanCache::hash(std::span<const int64_t> symbols) {
  uint64_t h = 0x9e3779b97f4a7c15ull;
  for (int64_t s : symbols) {
    h ^= static_cast<uint64_t>(s);
    h *= 0xff51afd7ed558ccdull;
    h ^= h >> 32;
  }
  return h;
}

std::shared_ptr<const ShapePlan> PlanCache::find(std::span<const int64_t> symbols) {
  uint64_t key = hash(symbols);
  std::lock_guard lock(mutex_);
  auto [first, last] = by_hash_.equal_range(key);
  for (auto it = first; it != last; ++it) {
    if (!std::equal(symbols.begin(), symbols.end(), it->second->plan->symbols.begin(), it->second->plan->symbols.end()))
      continue;
    recent_.splice(recent_.begin(), recent_, it->second);
    return it->second->plan;
  }
  return nullptr;
}

void PlanCache::insert(std::shared_ptr<const ShapePlan> plan) {
  uint64_t key = hash(plan->symbols);
  std::lock_guard lock(mutex_);
  recent_.push_front({key, std::move(plan)});
  by_hash_.emplace(key, recent_.begin());
  while (recent_.size() > limit_) {
    auto last = std::prev(recent_.end());
    auto [first, end] = by_hash_.equal_range(last->key);
    for (auto it = first; it != end; ++it) {
      if (it->second == last) {
        by_hash_.erase(it);
        break;
      }
    }
    recent_.erase(last);
  }
}

}  // namespace stax::runtime
