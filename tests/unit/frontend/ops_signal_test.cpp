// SPDX-License-Identifier: Apache-2.0
#include "unit/frontend/onnx_model.h"

namespace stax::frontend {
namespace {

Literal apply(const std::string& op, const std::vector<Literal>& inputs,
              const std::vector<Attribute>& attributes = {}) {
  ModelOf m(20);
  Names names;
  ModelOf::Feed feed;
  for (size_t k = 0; k < inputs.size(); ++k) {
    const bool absent = inputs[k].rank() == 1 && inputs[k].count() == 0;
    names.push_back(absent ? "" : "x" + std::to_string(k));
    if (absent) continue;
    m.input(names.back(), inputs[k].dtype(), std::vector<Dim>(inputs[k].rank(), std::string()));
    feed[names.back()] = inputs[k];
  }
  m.node(op, names, {"y"}, attributes).output("y");
  return m.run_one(feed);
}

const Literal kNone = ints({});

TEST(Signal, FourierTransformThereAndBack) {
  const Literal x = floats({1, 4, 1}, {1, 2, 3, 4});
  const Literal spectrum = apply("DFT", {x});
  expect_tensor(spectrum, {1, 4, 2}, {10, 0, -2, 2, -2, 0, -2, -2}, 1e-5);
  expect_tensor(apply("DFT", {spectrum}, {{"inverse", 1}}), {1, 4, 2}, {1, 0, 2, 0, 3, 0, 4, 0}, 1e-5);
  const Literal half = apply("DFT", {x}, {{"onesided", 1}});
  expect_tensor(half, {1, 3, 2}, {10, 0, -2, 2, -2, 0}, 1e-5);
  expect_tensor(apply("DFT", {half}, {{"inverse", 1}, {"onesided", 1}}), {1, 4, 1}, {1, 2, 3, 4}, 1e-5);
}

TEST(Signal, LengthAndAxisArriveAtRunTime) {
  const Literal x = floats({2, 2, 1}, {1, 2, 3, 4});
  expect_tensor(apply("DFT", {x, kNone, int_scalar(0)}), {2, 2, 2}, {4, 0, 6, 0, -2, 0, -2, 0}, 1e-5);
  expect_tensor(apply("DFT", {x, int_scalar(1), int_scalar(-2)}), {2, 1, 2}, {1, 0, 3, 0}, 1e-5);
}

TEST(Signal, FramesOfASignal) {
  const Literal x = floats({1, 4, 1}, {1, 2, 3, 4});
  expect_tensor(apply("STFT", {x, int_scalar(1), floats({2}, {1, 10})}), {1, 3, 2, 2},
                {21, 0, -19, 0, 32, 0, -28, 0, 43, 0, -37, 0}, 1e-4);
  // A real signal without its last extent of 1.
  expect_tensor(apply("STFT", {floats({2, 3}, {1, 2, 3, 4, 5, 6}), int_scalar(1), kNone, int_scalar(2)}), {2, 2, 2, 2},
                {3, 0, -1, 0, 5, 0, -1, 0, 9, 0, -1, 0, 11, 0, -1, 0}, 1e-4);
}

TEST(Signal, Windows) {
  expect_tensor(apply("HannWindow", {int_scalar(4)}), {4}, {0, 0.5, 1, 0.5}, 1e-6);
  expect_tensor(apply("HannWindow", {int_scalar(3)}, {{"periodic", 0}}), {3}, {0, 1, 0}, 1e-6);
  expect_tensor(apply("BlackmanWindow", {int_scalar(2)}), {2}, {0, 1}, 1e-6);
  expect_tensor(apply("HammingWindow", {int_scalar(0)}), {0}, {});
}

TEST(Signal, BoxesThatOverlapAreSuppressed) {
  const Literal boxes = floats({1, 3, 4}, {0, 0, 1, 1, 0, 0.1, 1, 1.1, 0, 10, 1, 11}),
                scores = floats({1, 1, 3}, {0.9, 0.75, 0.6});
  expect_tensor(apply("NonMaxSuppression", {boxes, scores, int_scalar(3), floats({}, {0.5})}), {2, 3},
                {0, 0, 0, 0, 0, 2});
  expect_tensor(apply("NonMaxSuppression", {boxes, scores}), {0, 3}, {});
}

}  // namespace
}  // namespace stax::frontend
