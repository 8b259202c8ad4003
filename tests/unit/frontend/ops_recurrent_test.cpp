// SPDX-License-Identifier: Apache-2.0
#include "unit/frontend/onnx_model.h"

namespace stax::frontend {
namespace {

/// An RNN that adds: h' = relu(x + h), one feature, weights 1.
struct Adder {
  ModelOf m{22};
  explicit Adder(const std::string& direction, bool lengths = false) {
    const int64_t d = direction == "bidirectional" ? 2 : 1;
    Attribute names("activations");
    names.proto.set_type(onnx::AttributeProto::STRINGS);
    for (int64_t k = 0; k < d; ++k) names.proto.add_strings("Relu");
    const std::vector<double> ones(d, 1);
    m.input("x", DType::kF32, {std::string(), std::string(), 1});
    if (lengths) m.input("lengths", DType::kI32, {std::string()});
    m.constant("w", floats({d, 1, 1}, ones)).constant("r", floats({d, 1, 1}, ones));
    m.node("RNN", {"x", "w", "r", "", lengths ? "lengths" : ""}, {"y", "h"},
           {names, {"direction", direction.c_str()}, {"hidden_size", 1}});
    m.output("y").output("h");
  }
};

TEST(Recurrent, ForwardsAndBackwards) {
  const Literal x = floats({3, 1, 1}, {1, 10, 100});
  auto r = Adder("forward").m.run({{"x", x}});
  expect_tensor(r.at("y"), {3, 1, 1, 1}, {1, 11, 111});
  expect_tensor(r.at("h"), {1, 1, 1}, {111});
  r = Adder("reverse").m.run({{"x", x}});
  expect_tensor(r.at("y"), {3, 1, 1, 1}, {111, 110, 100});
  r = Adder("bidirectional").m.run({{"x", x}});
  expect_tensor(r.at("y"), {3, 2, 1, 1}, {1, 111, 11, 110, 111, 100});
  expect_tensor(r.at("h"), {2, 1, 1}, {111, 111});
}

TEST(Recurrent, EverySampleHasItsLength) {
  const Literal x = floats({3, 2, 1}, {1, 2, 10, 20, 100, 200}), lengths = tensor_of(DType::kI32, {2}, {2, 0});
  auto r = Adder("forward", true).m.run({{"x", x}, {"lengths", lengths}});
  expect_tensor(r.at("y"), {3, 1, 2, 1}, {1, 0, 11, 0, 0, 0});
  expect_tensor(r.at("h"), {1, 2, 1}, {11, 0});
  r = Adder("reverse", true).m.run({{"x", x}, {"lengths", lengths}});
  expect_tensor(r.at("y"), {3, 1, 2, 1}, {11, 0, 10, 0, 0, 0});
}

TEST(Recurrent, NoSamplesAndNoSteps) {
  Adder a("forward");
  expect_tensor(a.m.run({{"x", floats({3, 0, 1}, {})}}).at("y"), {3, 1, 0, 1}, {});
  const auto r = a.m.run({{"x", floats({0, 2, 1}, {})}});
  expect_tensor(r.at("y"), {0, 1, 2, 1}, {});
  expect_tensor(r.at("h"), {1, 2, 1}, {0, 0});
}

/// Gates that are 1 (a bias of 100 through a sigmoid) leave c = c + tanh(x).
TEST(Recurrent, LstmKeepsItsCell) {
  ModelOf m(22);
  m.input("x", DType::kF32, {std::string(), std::string(), 1});
  m.constant("w", floats({1, 4, 1}, {0, 0, 0, 1})).constant("r", floats({1, 4, 1}, {0, 0, 0, 0}));
  m.constant("b", floats({1, 8}, {100, 100, 100, 0, 0, 0, 0, 0}));
  m.node("LSTM", {"x", "w", "r", "b"}, {"", "h", "c"}, {{"hidden_size", 1}}).output("h").output("c");
  const auto r = m.run({{"x", floats({2, 1, 1}, {0.5, 0.25})}});
  const double c = std::tanh(0.5) + std::tanh(0.25);
  expect_tensor(r.at("c"), {1, 1, 1}, {c}, 1e-6);
  expect_tensor(r.at("h"), {1, 1, 1}, {std::tanh(c)}, 1e-6);
}

TEST(Recurrent, WhereGruAppliesItsReset) {
  // r = 1/2 (its weights are 0), z = 0 (a bias of -100): h = tanh(R * h_old / 2 + bias), where the recurrent bias may be halved, too.
  const auto run = [](int linear_before_reset) {
    ModelOf m(22);
    m.input("x", DType::kF32, {std::string(), std::string(), 1});
    m.constant("w", floats({1, 3, 1}, {0, 0, 0})).constant("r", floats({1, 3, 1}, {0, 0, 1}));
    m.constant("b", floats({1, 6}, {-100, 0, 0, 0, 0, 0.5})).constant("h0", floats({1, 1, 1}, {0.5}));
    m.node("GRU", {"x", "w", "r", "b", "", "h0"}, {"", "h"},
           {{"hidden_size", 1}, {"linear_before_reset", linear_before_reset}})
        .output("h");
    return m.run_one({{"x", floats({1, 1, 1}, {0})}});
  };
  expect_tensor(run(0), {1, 1, 1}, {std::tanh(0.25 + 0.5)}, 1e-6);
  expect_tensor(run(1), {1, 1, 1}, {std::tanh((0.5 + 0.5) / 2)}, 1e-6);
}

TEST(Recurrent, ReversedSequences) {
  ModelOf m(22);
  m.input("x", DType::kF32, {std::string(), std::string()}).input("lengths", DType::kI64, {std::string()});
  m.node("ReverseSequence", {"x", "lengths"}, {"y"}, {{"time_axis", 1}, {"batch_axis", 0}}).output("y");
  expect_tensor(m.run_one({{"x", counting({2, 3})}, {"lengths", ints({2, 3})}}), {2, 3}, {1, 0, 2, 5, 4, 3});
  expect_words(m.fault({{"x", counting({2, 3})}, {"lengths", ints({2, 4})}}), {"ReverseSequence", "3"});
}

}  // namespace
}  // namespace stax::frontend
