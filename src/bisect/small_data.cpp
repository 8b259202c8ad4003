// SPDX-License-Identifier: Apache-2.0
#include "bisect/small_data.h"

#include <algorithm>
#include <chrono>

namespace stax::bisect {
namespace {

using ir::Literal;

constexpr size_t kLargeBytes = 256;
constexpr auto kMostTime = std::chrono::seconds(15);

struct Candidate {
  LargeTensor tensor;
  Literal own, drawn;
  ir::Drawn how;
};

void use_drawn(Candidate& c, tensor::DrawnConstants& drawn) {
  *c.tensor.literal = c.drawn;
  drawn[c.drawn.data()] = c.how;
}
void use_own(Candidate& c, tensor::DrawnConstants& drawn) {
  *c.tensor.literal = c.own;
  drawn.erase(c.drawn.data());
}

}  // namespace

std::vector<LargeTensor> large_tensors(tensor::Graph& graph) {
  std::vector<LargeTensor> tensors;
  tensor::for_each_op(graph.body, [&](tensor::Op& op) {
    auto* c = op.as<tensor::Constant>();
    if (c && c->literal.bytes() > kLargeBytes && !op.result()->contents)
      tensors.push_back({"constant " + std::to_string(op.result()->id), &c->literal});
  });
  return tensors;
}

std::vector<LargeTensor> large_tensors(std::vector<tensor::Item>& items, const std::string& name) {
  std::vector<LargeTensor> tensors;
  for (size_t k = 0; k < items.size(); ++k)
    if (!items[k].is_sequence && items[k].tensor.bytes() > kLargeBytes)
      tensors.push_back({fmt::format("{} {}", name, k), &items[k].tensor});
  return tensors;
}

SmallData draw_large(std::vector<LargeTensor> tensors,
                     const std::function<bool(const tensor::DrawnConstants&)>& differs) {
  SmallData small;
  std::stable_sort(tensors.begin(), tensors.end(),
                   [](const LargeTensor& a, const LargeTensor& b) { return a.literal->bytes() > b.literal->bytes(); });
  const auto keep = [&](const std::string& name, size_t bytes, const std::string& why) {
    small.notes.push_back(fmt::format("{} is kept whole, {} bytes: {}", name, bytes, why));
  };
  std::vector<Candidate> candidates;
  for (const LargeTensor& t : tensors) {
    const auto how = ir::drawn_like(*t.literal, candidates.size() + 1);
    if (!how) {
      keep(t.name, t.literal->bytes(), "its elements are not like drawn ones");
      continue;
    }
    candidates.push_back({t, *t.literal, ir::draw(t.literal->dtype(), t.literal->extents(), *how), *how});
  }
  if (candidates.empty()) return small;
  const auto start = std::chrono::steady_clock::now();
  for (Candidate& c : candidates) use_drawn(c, small.drawn);
  if (differs(small.drawn)) return small;
  for (Candidate& c : candidates) use_own(c, small.drawn);
  for (Candidate& c : candidates) {
    if (candidates.size() == 1 || std::chrono::steady_clock::now() - start > kMostTime) {
      keep(c.tensor.name, c.own.bytes(),
           candidates.size() == 1 ? "with drawn elements the fault does not show"
                                  : "there was no time to try drawn ones");
      continue;
    }
    use_drawn(c, small.drawn);
    if (differs(small.drawn)) continue;
    use_own(c, small.drawn);
    keep(c.tensor.name, c.own.bytes(), "with drawn elements the fault does not show");
  }
  return small;
}

}  // namespace stax::bisect
