// SPDX-License-Identifier: Apache-2.0
#pragma once
// Scaled dot-product attention as its operators share it. Query heads come in groups, each of which has one key and value head;
// groups are an axis of their own, so that no index needs a division.
//
//   scores  [batch, heads, group, queries, keys]   a product of matrices, scaled
//   masked  the same                               soft cap, mask
//   weights the same                               softmax over keys; a row of nothing but -inf gives 0
//   result  [batch, queries, heads, group, value]  a product of matrices, in the order of the packed form
#include <functional>
#include <vector>

#include "frontend/spelling.h"

namespace stax::frontend {

/// A tensor of heads: [batch, heads, length, size], or [batch, length, heads, size] where `packed`.
struct Heads {
  Value* v = nullptr;
  bool packed = false;
  Expr batch(Builder& b) const { return b.extent(v, 0); }
  Expr heads(Builder& b) const { return b.extent(v, packed ? 2 : 1); }
  Expr length(Builder& b) const { return b.extent(v, packed ? 1 : 2); }
  Expr size(Builder& b) const { return b.extent(v, 3); }
  std::vector<Expr> at(Expr batch, Expr head, Expr position, Expr element) const {
    if (packed) return {batch, position, head, element};
    return {batch, head, position, element};
  }
};

/// [batch, length, heads * size] as heads; a check that the width divides.
Heads split_heads(Node& n, Value* v, Expr heads);
/// As [batch, heads, length, size]; a copy where it is packed.
Value* heads_first(Builder& b, const Heads& h);

struct AttentionPoint {
  Expr batch, head, query, key;  // `head` counts query heads
};

struct AttentionSpec {
  Heads q, k, v;
  Expr group;  // query heads of one key head
  double softcap = 0;
  DType result = DType::kF32;
  std::function<Scalar(Body&, Scalar product)> scale;
  std::function<Scalar(Body&, Scalar score, const AttentionPoint&)> mask = {};  // may be empty
};

struct AttentionValues {
  Value* scores = nullptr;  // [batch, query heads, queries, keys], scaled
  Value* capped = nullptr;
  Value* masked = nullptr;
  Value* weights = nullptr;
  Value* y = nullptr;  // [batch, queries, query heads, value size]
};
AttentionValues attend(Node& n, const AttentionSpec& spec);

/// Rotates pairs of elements of x by angles of the position: `half` pairs, the elements behind them stay. Pairs are (e, e + half), or
/// neighbours where `interleaved`. `angle` gives cos and sin of pair p at a batch and position, in x's compute type.
struct Rotation {
  Expr half;
  bool interleaved = false;
  std::function<std::pair<Scalar, Scalar>(Body&, Expr batch, Expr position, Expr pair)> angle;
};
Value* rotate(Builder& b, const Heads& x, const Rotation& r);

}  // namespace stax::frontend
