// SPDX-License-Identifier: Apache-2.0
#include "unit/frontend/onnx_model.h"

namespace stax::frontend {
namespace {

TEST(Product, NothingToSumIsZero) {
  expect_tensor(run_op("MatMul", {floats({2, 0}, {}), floats({0, 3}, {})}), {2, 3}, {0, 0, 0, 0, 0, 0});
  expect_tensor(run_op("Gemm", {floats({1, 0}, {}), floats({0, 2}, {}), floats({2}, {5, 6})}), {1, 2}, {5, 6});
  expect_tensor(run_op("Einsum", {floats({2, 0}, {}), floats({0, 0}, {})}, {{"equation", "ij,kj->ki"}}), {0, 2}, {});
}

TEST(Product, IntegersWrap) {
  const Literal big = tensor_of(DType::kI32, {1, 1}, {1 << 20});
  expect_tensor(run_op("MatMul", {big, big}), {1, 1}, {0});
}

TEST(Product, GemmTurnsScalesAndAdds) {
  const Literal a = floats({2, 1}, {1, 2}), b = floats({3, 2}, {1, 10, 2, 20, 3, 30});
  expect_tensor(
      run_op("Gemm", {a, b, floats({1, 3}, {1, 1, 1})}, {{"transA", 1}, {"transB", 1}, {"alpha", 2.0}, {"beta", 0.5}}),
      {1, 3}, {42.5, 84.5, 126.5});
}

TEST(Einsum, Equations) {
  const Literal a = floats({2, 2}, {1, 2, 3, 4}), b = floats({2, 2}, {1, 0, 0, 10});
  const auto einsum = [](const char* equation, const std::vector<Literal>& inputs) {
    return run_op("Einsum", inputs, {{"equation", equation}});
  };
  expect_tensor(einsum("ij,jk->ik", {a, b}), {2, 2}, {1, 20, 3, 40});
  expect_tensor(einsum("ii->i", {a}), {2}, {1, 4});
  expect_tensor(einsum("ii", {a}), {}, {5});
  expect_tensor(einsum("ba", {a}), {2, 2}, {1, 3, 2, 4});
  expect_tensor(einsum("ij,jk,kl->il", {a, b, a}), {2, 2}, {61, 82, 123, 166});
  expect_tensor(einsum("...i->...", {a}), {2}, {3, 7});
  expect_tensor(einsum("i,j->ji", {floats({2}, {1, 2}), floats({1}, {3})}), {1, 2}, {3, 6});
  expect_tensor(einsum("ij,ij->", {a, b}), {}, {41});
  expect_tensor(einsum("...ij, ...jk -> ...ik", {floats({2, 1, 1}, {1, 2}), floats({1, 1, 1}, {5})}), {2, 1, 1},
                {5, 10});
}

TEST(Einsum, ExtentsHaveToMeet) {
  ModelOf m;
  m.input("a", DType::kF32, {2, 3})
      .input("b", DType::kF32, {4, 2})
      .node("Einsum", {"a", "b"}, {"y"}, {{"equation", "ij,jk->ik"}})
      .output("y");
  expect_words(m.fault(), {"Einsum", "'j'", "3", "4"});
}

TEST(Attention, AFullyMaskedRowIsZero) {
  const Literal q = floats({1, 1, 2, 1}, {1, 1}), k = floats({1, 1, 2, 1}, {0, 0}), v = floats({1, 1, 2, 1}, {2, 4});
  expect_tensor(run_op("Attention", {q, k, v, bools({2, 2}, {0, 0, 1, 1})}), {1, 1, 2, 1}, {0, 3});
  expect_tensor(run_op("Attention", {q, k, v}, {{"is_causal", 1}}), {1, 1, 2, 1}, {2, 3});
}

TEST(Attention, ManyQueriesOfOneKeyHead) {
  // Packed: 2 query heads of size 1, 1 key head.
  const Literal q = floats({1, 1, 2}, {0, 0}), k = floats({1, 2, 1}, {1, 1}), v = floats({1, 2, 1}, {1, 5});
  expect_tensor(run_op("Attention", {q, k, v}, {{"q_num_heads", 2}, {"kv_num_heads", 1}}), {1, 1, 2}, {3, 3});
}

TEST(Attention, ARotationLeavesTheRest) {
  const Literal x = floats({1, 1, 1, 4}, {1, 2, 3, 4}), cos = floats({1, 1, 1}, {0}), sin = floats({1, 1, 1}, {1});
  expect_tensor(run_op("RotaryEmbedding", {x, cos, sin}, {{"rotary_embedding_dim", 2}}), {1, 1, 1, 4}, {-2, 1, 3, 4});
}

TEST(Transformer, SkipConnections) {
  const Literal x = floats({1, 1, 2}, {1, 2}), skip = floats({1, 2}, {0, 1}), gamma = floats({2}, {1, 1}),
                beta = floats({2}, {10, 20});
  expect_tensor(run_op("SkipLayerNormalization", {x, skip, gamma, beta}, {{"epsilon", 0.0}}, 17, "com.microsoft"),
                {1, 1, 2}, {9, 21}, 1e-6);
}

}  // namespace
}  // namespace stax::frontend
