// SPDX-License-Identifier: Apache-2.0
#include "random_inputs.h"

#include <cstdlib>

#include "support/error.h"

namespace stax::tool {

using runtime::Item;

namespace {
constexpr int kDraws = 300;
}  // namespace

std::vector<Item> random_inputs(tensor::Graph& graph, std::mt19937_64& rng,
                                const std::map<std::string, int64_t>& dims) {
  std::unordered_map<const symbolic::ExprNode*, int64_t> extents;
  std::vector<Item> items;
  // All extents before any element: those that are drawn do not depend on those that are given.
  for (const auto& input : graph.inputs) {
    const tensor::Type& type = input.value->type;
    if (!type.is_tensor()) user_error("random inputs cannot be drawn for the sequence '{}'; give --inputs", input.name);
    Item item;
    item.tensor.dtype = type.dtype;
    for (symbolic::Expr e : type.extents) {
      if (!e.is_constant() && !extents.count(e.node())) {
        auto range = e.symbol().range;
        if (const auto given = dims.find(e.symbol().name); given != dims.end()) range = {given->second, given->second};
        extents[e.node()] =
            std::uniform_int_distribution<int64_t>(std::min<int64_t>(std::max<int64_t>(1, range.lo), range.hi),
                                                   std::min<int64_t>(std::max<int64_t>(range.lo, 24), range.hi))(rng);
      }
      item.tensor.extents.push_back(e.is_constant() ? e.constant() : extents[e.node()]);
    }
    items.push_back(std::move(item));
  }
  for (Item& item : items) {
    runtime::Tensor& t = item.tensor;
    const size_t bytes = t.bytes();
    t.owner = std::shared_ptr<void>(std::aligned_alloc(64, (bytes + 64) / 64 * 64), std::free);
    t.data = t.owner.get();
    std::normal_distribution<double> normal;
    for (size_t k = 0; k < bytes / ir::byte_size(t.dtype); ++k) {
      ir::Value64 v{};
      if (ir::is_float(t.dtype))
        v.f = normal(rng);
      else
        v.i = static_cast<int64_t>(rng() % 2);
      ir::store_element(t.dtype, t.owner.get(), static_cast<int64_t>(k), v);
    }
  }
  return items;
}

std::vector<Item> legal_inputs(tensor::Graph& graph, session::Session& session, std::mt19937_64& rng,
                               const std::map<std::string, int64_t>& dims) {
  std::string why;
  for (int draw = 0; draw < kDraws; ++draw) {
    std::vector<Item> items = random_inputs(graph, rng, dims);
    try {
      session.run(items, nullptr);
      return items;
    } catch (const UserError& e) {
      why = e.what();
    }
  }
  user_error(
      "the model takes none of {} random inputs; narrow their extents with --dim, or give --inputs. The last was "
      "refused by {}",
      kDraws, why);
}

}  // namespace stax::tool
