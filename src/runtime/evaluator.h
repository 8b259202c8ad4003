// SPDX-License-Identifier: Apache-2.0
#pragma once
// The program's expressions in a form that is quick to evaluate.
#include <span>
#include <vector>

#include "program/program.h"

namespace stax::runtime {

class Evaluator {
 public:
  explicit Evaluator(const program::Program& program);
  size_t size() const { return nodes_.size(); }
  /// Evaluates the given nodes, in order, into `values`.
  void run(std::span<const program::ExprRef> nodes, std::span<const int64_t> symbols, std::span<int64_t> values) const;

 private:
  struct Node {
    symbolic::ExprKind kind;
    uint32_t first, count;
    int64_t value;
  };
  std::vector<Node> nodes_;
  std::vector<uint32_t> args_;
};

}  // namespace stax::runtime
