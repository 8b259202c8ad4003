// SPDX-License-Identifier: Apache-2.0
#pragma once
// Spells schedule text while keeping track of the order of a nest's outer loops.
#include <string>
#include <vector>

#include "loop/loop_ir.h"

namespace stax::schedule {

class StepList {
 public:
  explicit StepList(std::vector<std::string> order) : order_(std::move(order)) {}
  const std::vector<std::string>& order() const { return order_; }
  std::string str() const { return text_; }
  void step(const std::string& s) { text_ += s + "\n"; }
  /// Moves `loop` outward or inward by interchanges of neighbours until it is at `position`.
  void move(const std::string& loop, size_t position) {
    size_t at = find(loop);
    for (; at > position; --at) swap(at - 1);
    for (; at < position; ++at) swap(at);
  }
  /// Splits `loop` into loop+"o" and loop+"i" with the given mode.
  void split(const std::string& loop, int64_t factor, const std::string& mode) {
    step("split " + loop + " " + std::to_string(factor) + " -> " + loop + "o " + loop + "i " + mode);
    size_t at = find(loop);
    order_[at] = loop + "o";
    order_.insert(order_.begin() + static_cast<long>(at) + 1, loop + "i");
  }
  /// What the loop at the place of `loop` is called from here on.
  void rename(const std::string& loop, const std::string& name) { order_[find(loop)] = name; }
  /// Fuses `count` loops from number `first` on into one, called `name`.
  void fuse(size_t first, size_t count, const std::string& name) {
    for (size_t k = 1; k < count; ++k) {
      const std::string fused = k + 1 == count ? name : name + std::to_string(k);
      step("fuse " + order_[first] + " " + order_[first + 1] + " -> " + fused);
      order_.erase(order_.begin() + static_cast<long>(first));
      order_[first] = fused;
    }
  }
  /// Fuses the first `count` loops into one and makes it the parallel loop.
  void parallelize_first(size_t count) {
    if (count == 0) return;
    fuse(0, count, "p");
    step("parallelize " + order_[0]);
  }
  /// Takes the last loop, `row` of `extent`, in strips below all that it encloses, in vectors of `lanes`; the loops around the strips are one parallel
  /// loop. Where strips are many, they are one of those.
  void sink_strips(const std::string& row, symbolic::Expr extent, const std::string& lanes) {
    constexpr int64_t kStrip = 64;  // four vectors of each accumulator
    const size_t around = order_.size() - 1;
    const bool one = extent.is_constant() && extent.constant() <= kStrip;
    if (!one) split(row, kStrip, "bounded");
    const std::string strip = one ? row : row + "i";
    step("sink " + strip);
    step("vectorize " + strip + " " + lanes);
    parallelize_first(one ? around : around + 1);
  }

 private:
  size_t find(const std::string& loop) const {
    for (size_t k = 0; k < order_.size(); ++k)
      if (order_[k] == loop) return k;
    return order_.size();
  }
  void swap(size_t at) {
    step("interchange " + order_[at] + " " + order_[at + 1]);
    std::swap(order_[at], order_[at + 1]);
  }
  std::vector<std::string> order_;
  std::string text_;
};

inline std::vector<std::string> names_of(const std::vector<loop::For>& loops) {
  std::vector<std::string> names;
  for (const auto& l : loops) names.push_back(l.var.symbol().name);
  return names;
}

}  // namespace stax::schedule
