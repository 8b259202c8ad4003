// SPDX-License-Identifier: Apache-2.0
// Models written as C++ functions.
#include <gtest/gtest.h>
#include <stax/stax.h>
#include <unistd.h>

#include <cmath>
#include <limits>
#include <numeric>

namespace {

using stax::Dim;
using stax::dim;
using stax::DType;
using stax::Error;
using stax::Model;
using stax::Shape;
using stax::Tensor;
using stax::TraceInput;
using stax::Var;
using stax::view;

std::vector<float> floats(const Tensor& t) { return {t.elements<float>().begin(), t.elements<float>().end()}; }
bool has(const std::string& text, const std::string& word) { return text.find(word) != std::string::npos; }

Tensor values(Shape shape, double scale = 1, double offset = 0) {
  Tensor t(DType::kF32, std::move(shape));
  for (int64_t k = 0; k < t.count(); ++k)
    t.mutable_data<float>()[k] = static_cast<float>(offset + scale * std::sin(static_cast<double>(k) * 1.7));
  return t;
}

/// The error of tracing f over x: float32[n, 4].
template <class F>
Error error_of(F&& f) {
  try {
    stax::trace({{"x", DType::kF32, {dim("n"), 4}}}, f);
  } catch (const Error& e) {
    EXPECT_FALSE(e.problem().empty() || e.where().empty() || e.how().empty()) << e.what();
    EXPECT_TRUE(has(e.where(), "trace_test.cpp:")) << e.what();
    return e;
  }
  ADD_FAILURE() << "nothing was thrown";
  return Error(stax::ErrorKind::kInternal, "nothing", "nowhere", "nohow");
}

TEST(Trace, dense_layer_with_a_dynamic_batch) {
  Dim batch = dim("batch", 1, 64);
  Tensor w = values({3, 2}), b = Tensor::of<float>({2}, {0.5f, -0.5f});
  Model m = stax::trace({{"x", DType::kF32, {batch, 3}}}, [&](Var x) { return softmax(relu(matmul(x, w) + b), -1); });
  EXPECT_EQ(m.inputs()[0].extents[0].name, "batch");
  EXPECT_EQ(m.inputs()[0].extents[0].hi, 64);
  EXPECT_EQ(m.outputs()[0].name, "output");
  for (int64_t n : {1, 5, 64}) {
    Tensor x = values({n, 3}, 2, 0.3);
    Tensor y = m.run({x})[0];
    ASSERT_EQ(y.shape(), (Shape{n, 2}));
    for (int64_t r = 0; r < n; ++r) {
      double z[2];
      for (int64_t c = 0; c < 2; ++c) {
        z[c] = b.data<float>()[c];
        for (int64_t k = 0; k < 3; ++k) z[c] += x.data<float>()[r * 3 + k] * w.data<float>()[k * 2 + c];
        z[c] = std::exp(std::max(0.0, z[c]));
      }
      EXPECT_NEAR(y.data<float>()[r * 2], z[0] / (z[0] + z[1]), 1e-5);
    }
  }
  Tensor large = values({65, 3});
  EXPECT_THROW(m.run({large}), Error);
}

TEST(Trace, arithmetic_numbers_and_comparisons) {
  Dim n = dim("n");
  Model m = stax::trace({{"a", DType::kF32, {n}}, {"b", DType::kF32, {1}}}, [](Var a, Var b) {
    Var y = (a * 2 + 1) / b - 3.5;
    Var z = where(logical_and(a > 0, logical_not(equal(a, b))), pow(a, 2), -a);
    return std::vector<stax::TraceOutput>{{"y", y},
                                          {"z", z},
                                          {"less", a < b},
                                          {"at_most", a <= 1},
                                          {"rest", 7 % cast(a, DType::kI32)},
                                          {"low", minimum(a, b)},
                                          {"high", maximum(1, a)}};
  });
  Tensor a = Tensor::of<float>({4}, {-2, 1, 3, 4}), b = Tensor::of<float>({1}, {3});
  std::vector<Tensor> r = m.run({a, b});
  for (int k = 0; k < 4; ++k) {
    float x = a.data<float>()[k];
    EXPECT_FLOAT_EQ(r[0].data<float>()[k], (x * 2 + 1) / 3 - 3.5f);
    EXPECT_FLOAT_EQ(r[1].data<float>()[k], x > 0 && x != 3 ? x * x : -x);
    EXPECT_EQ(r[2].data<bool>()[k], x < 3);
    EXPECT_EQ(r[3].data<bool>()[k], x <= 1);
    EXPECT_EQ(r[5].data<float>()[k], std::min(x, 3.0f));
    EXPECT_EQ(r[6].data<float>()[k], std::max(x, 1.0f));
  }
  EXPECT_EQ(r[4].data<int32_t>()[0], -1);  // the sign of the divisor
  EXPECT_EQ(r[4].data<int32_t>()[2], 1);
  EXPECT_EQ(m.output("high"), 6u);
}

TEST(Trace, functions_of_one_element) {
  Model m = stax::trace({{"x", DType::kF32, {dim("n")}}}, [](Var x) {
    return std::tuple(exp(x), tanh(x), sigmoid(x), log(abs(x) + 1), sqrt(x * x), gelu(x), erf(x), sin(x), cos(x),
                      floor(x), ceil(x), round(x), sign(x));
  });
  Tensor x = values({9}, 3);
  std::vector<Tensor> r = m.run({x});
  for (int k = 0; k < 9; ++k) {
    double v = x.data<float>()[k];
    const double want[] = {std::exp(v),
                           std::tanh(v),
                           1 / (1 + std::exp(-v)),
                           std::log(std::abs(v) + 1),
                           std::abs(v),
                           0.5 * v * (1 + std::erf(v / std::sqrt(2.0))),
                           std::erf(v),
                           std::sin(v),
                           std::cos(v),
                           std::floor(v),
                           std::ceil(v),
                           std::nearbyint(v),
                           v > 0   ? 1.0
                           : v < 0 ? -1.0
                                   : 0.0};
    for (size_t f = 0; f < std::size(want); ++f)
      EXPECT_NEAR(r[f].data<float>()[k], want[f], 1e-5 * (1 + std::abs(want[f]))) << "function " << f << " of " << v;
  }
}

TEST(Trace, reductions) {
  Model m = stax::trace({{"x", DType::kF32, {dim("n"), dim("m")}}}, [](Var x) {
    return std::vector<Var>{
        sum(x, {1}),  mean(x),   max(x, {0}, true),
        min(x, {-1}), argmax(x), layer_norm(x, Tensor::of<float>({1}, {2}), Tensor::of<float>({1}, {1}), 0)};
  });
  Tensor x = Tensor::of<float>({2, 3}, {1, 5, 3, -1, 0, 7});
  std::vector<Tensor> r = m.run({x});
  EXPECT_EQ(floats(r[0]), (std::vector<float>{9, 6}));
  EXPECT_EQ(r[1].shape(), (Shape{}));
  EXPECT_FLOAT_EQ(r[1].data<float>()[0], 2.5f);
  EXPECT_EQ(r[2].shape(), (Shape{1, 3}));
  EXPECT_EQ(floats(r[2]), (std::vector<float>{1, 5, 7}));
  EXPECT_EQ(floats(r[3]), (std::vector<float>{1, -1}));
  EXPECT_EQ(r[4].data<int64_t>()[0], 1);
  EXPECT_EQ(r[4].data<int64_t>()[1], 2);
  EXPECT_NEAR(r[5].data<float>()[0], 2 * (1 - 3) / std::sqrt(8.0 / 3) + 1, 1e-5);
  // Of nothing.
  r = m.run({Tensor(DType::kF32, {2, 0})});
  EXPECT_EQ(floats(r[0]), (std::vector<float>{0, 0}));
  EXPECT_TRUE(std::isnan(r[1].data<float>()[0]));
  EXPECT_EQ(floats(r[3]), std::vector<float>(2, std::numeric_limits<float>::infinity()));
}

TEST(Trace, views_with_dims) {
  Dim n = dim("n", 0, 1000);
  Model m = stax::trace({{"x", DType::kF32, {n, 6}}}, [&](Var x) {
    Var pairs = reshape(x, {n, 3, 2});
    Var turned = transpose(pairs, {2, 0, 1});
    Var flat = reshape(turned, {2, -1});
    Var both = stax::concat({x, slice(x, 1, 1, 3)}, 1);
    Var last = slice(x, 1, -2, 6);
    Var head = slice(x, 0, 0, x.extent(0) / 2);
    Var every = slice(x, 1, 0, 100, 2);
    Var wide = broadcast_to(slice(x, 1, 0, 1), {n, 4});
    return std::tuple(flat, both, last, head, every, wide, iota(x, 1), x * n);
  });
  Tensor x(DType::kF32, {5, 6});
  std::iota(x.mutable_data<float>(), x.mutable_data<float>() + 30, 0.0f);
  std::vector<Tensor> r = m.run({x});
  EXPECT_EQ(r[0].shape(), (Shape{2, 15}));
  EXPECT_EQ(r[0].data<float>()[15 + 3], 7);  // row 1, pair 0 of row 1
  EXPECT_EQ(r[1].shape(), (Shape{5, 8}));
  EXPECT_EQ(r[1].data<float>()[8 + 7], 8);
  EXPECT_EQ(r[2].shape(), (Shape{5, 2}));
  EXPECT_EQ(r[2].data<float>()[0], 4);
  EXPECT_EQ(r[3].shape(), (Shape{2, 6}));
  EXPECT_EQ(r[4].shape(), (Shape{5, 3}));
  EXPECT_EQ(r[4].data<float>()[5], 10);
  EXPECT_EQ(r[5].data<float>()[7], 6);
  EXPECT_EQ(r[6].data<int64_t>()[8], 2);
  EXPECT_EQ(r[7].data<float>()[1], 5);
  EXPECT_EQ(m.outputs()[3].extents[0].hi, 500);
  for (int64_t k : {0, 1}) EXPECT_EQ(m.run({Tensor(DType::kF32, {k, 6})})[0].shape(), (Shape{2, 3 * k}));
}

TEST(Trace, gather_and_its_faults) {
  Tensor table = Tensor::of<float>({3, 2}, {0, 1, 2, 3, 4, 5});
  Model m =
      stax::trace({{"i", DType::kI64, {dim("n")}}}, [&](Var i) { return gather(table, i) + gather(table, i, 0); });
  EXPECT_EQ(floats(m.run({Tensor::of<int64_t>({2}, {2, -3})})[0]), (std::vector<float>{8, 10, 0, 2}));
  try {
    m.run({Tensor::of<int64_t>({1}, {3})});
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_TRUE(has(e.where(), "trace_test.cpp") && has(e.problem(), "3")) << e.what();
  }
}

TEST(Trace, extents_that_are_related) {
  Dim n = dim("n", 1, 50);
  Model m = stax::trace({{"long", DType::kF32, {2 * n}}, {"short", DType::kF32, {n}}},
                        [&](Var a, Var b) { return sum(reshape(a, {n, 2}), {1}) + b; });
  Tensor a = values({8}), b = values({4});
  EXPECT_NEAR(m.run({a, b})[0].data<float>()[3], a.data<float>()[6] + a.data<float>()[7] + b.data<float>()[3], 1e-6);
  try {
    m.run({values({7}), b});
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_TRUE(e.where() == "input 'long'" && has(e.problem(), "7") && has(e.problem(), "8") &&
                has(e.problem(), "n*2"))
        << e.what();
  }
}

TEST(Trace, loops_of_the_host_are_unrolled) {
  Model m = stax::trace({{"x", DType::kF32, {dim("n")}}}, [](Var x) {
    for (int k = 0; k < 3; ++k) x = x * x + 1;
    return x;
  });
  EXPECT_FLOAT_EQ(m.run({Tensor::of<float>({1}, {1})})[0].data<float>()[0], 26);
}

TEST(Trace, general_form_and_named_outputs) {
  std::vector<TraceInput> inputs;
  for (int k = 0; k < 3; ++k) inputs.push_back({"x" + std::to_string(k), DType::kF32, {dim("n")}});
  Model m = stax::trace_function(inputs, [](const std::vector<Var>& x) {
    Var total = x[0];
    for (size_t k = 1; k < x.size(); ++k) total = total + x[k];
    return std::vector<stax::TraceOutput>{{"total", total}, {"", x[0]}};
  });
  Tensor one = Tensor::of<float>({2}, {1, 2});
  EXPECT_EQ(floats(m.run({one, one, one})[m.output("total")]), (std::vector<float>{3, 6}));
  EXPECT_EQ(m.output("output1"), 1u);
}

TEST(Trace, compiles_to_a_file) {
  Dim n = dim("n");
  Tensor w = values({4, 4});
  Model m = stax::trace({{"x", DType::kF32, {n, 4}}}, [&](Var x) { return tanh(matmul(x, w)); });
  std::string path = testing::TempDir() + "stax_api_traced_" + std::to_string(getpid()) + ".stax";
  m.compile_to(path);
  Tensor x = values({3, 4});
  EXPECT_EQ(floats(Model::load(path).run({x})[0]), floats(m.run({x})[0]));
  std::remove(path.c_str());
}

TEST(Trace, half_precision) {
  Model m = stax::trace({{"x", DType::kF32, {dim("n")}}}, [](Var x) {
    return std::pair(cast(cast(x, DType::kF16) * 2, DType::kF32), cast(x, DType::kBF16));
  });
  std::vector<Tensor> r = m.run({Tensor::of<float>({2}, {0.5f, 3.0f})});
  EXPECT_EQ(floats(r[0]), (std::vector<float>{1, 6}));
  EXPECT_EQ(r[1].data<stax::BFloat16>()[0].bits, 0x3f00);
}

TEST(TraceErrors, name_the_line) {
  int line = 0;
  Error e = error_of([&](Var x) {
    line = __LINE__ + 1;
    return matmul(x, Tensor(DType::kF32, {5, 2}));
  });
  EXPECT_EQ(e.where(), "trace_test.cpp:" + std::to_string(line));
  EXPECT_TRUE(has(e.problem(), "matmul") && has(e.problem(), "4") && has(e.problem(), "5")) << e.what();
  e = error_of([&](Var x) {
    line = __LINE__ + 1;
    return x + cast(x, DType::kI32);
  });
  EXPECT_EQ(e.where(), "trace_test.cpp:" + std::to_string(line));
  EXPECT_TRUE(has(e.problem(), "float32[n, 4]") && has(e.problem(), "int32") && has(e.how(), "cast")) << e.what();
}

TEST(TraceErrors, of_operands) {
  EXPECT_TRUE(has(error_of([](Var x) { return transpose(x, {0, 0}); }).problem(), "permutation"));
  EXPECT_TRUE(has(error_of([](Var x) { return softmax(x, 2); }).problem(), "axis 2"));
  EXPECT_TRUE(has(error_of([](Var x) { return reshape(x, {3, -1, -1}); }).problem(), "-1"));
  EXPECT_TRUE(has(error_of([](Var x) { return reshape(x, {dim("k"), 4}); }).problem(), "'k'"));
  EXPECT_TRUE(has(error_of([](Var x) { return stax::concat({x, sum(x, {1})}, 0); }).problem(), "concatenate"));
  EXPECT_TRUE(has(error_of([](Var x) { return where(x, x, x); }).problem(), "bool"));
  EXPECT_TRUE(has(error_of([](Var x) { return gather(x, x); }).problem(), "indices"));
  EXPECT_TRUE(has(error_of([](Var x) { return slice(x, 0, 0, 1, 0); }).problem(), "step"));
  EXPECT_TRUE(has(error_of([](Var x) { return cast(x, DType::kI32) * 1.5; }).problem(), "1.5"));
  EXPECT_TRUE(has(error_of([](Var x) { return cast(x, DType::kI8) + 300; }).problem(), "300"));
  EXPECT_TRUE(has(error_of([](Var x) { return exp(cast(x, DType::kI32)); }).problem(), "float"));
  EXPECT_TRUE(has(error_of([](Var x) { return mean(cast(x, DType::kI32)); }).problem(), "float"));
  EXPECT_TRUE(has(error_of([](Var) { return Tensor::of<float>({1}, {1}) + Tensor::of<float>({1}, {1}); }).problem(),
                  "no operand"));
  EXPECT_TRUE(has(error_of([](Var) { return std::vector<Var>{}; }).problem(), "no outputs"));
  EXPECT_TRUE(has(error_of([](Var x) { return std::vector<stax::TraceOutput>{{"a", x}, {"a", x}}; }).problem(), "'a'"));
}

TEST(TraceErrors, of_dims) {
  EXPECT_THROW(dim("", 0, 1), Error);
  EXPECT_THROW(dim("n", 3, 1), Error);
  EXPECT_THROW(stax::trace({{"x", DType::kF32, {dim("n", 1, 5)}}, {"y", DType::kF32, {dim("n", 1, 6)}}},
                           [](Var x, Var) { return x; }),
               Error);
  EXPECT_THROW(stax::trace({{"x", DType::kF32, {2 * dim("n")}}}, [](Var x) { return x; }), Error);
  EXPECT_EQ((2 * dim("n") + 1).str(), "(2 * n) + 1");
  EXPECT_EQ((Dim(7) / Dim(2)).str(), "3");
}

TEST(TraceErrors, of_vars_that_are_kept) {
  std::vector<Var> kept;
  stax::trace({{"x", DType::kF32, {dim("n")}}}, [&](Var x) {
    kept.push_back(x);
    return x + 1;
  });
  EXPECT_TRUE(has(error_of([&](Var) { return kept[0] + 1; }).problem(), "after"));
  error_of([&](Var x) { return x + kept[0]; });
  try {
    error_of([](Var) -> Var { throw 42; });
    ADD_FAILURE();
  } catch (int number) {
    EXPECT_EQ(number, 42);
  }
}

}  // namespace
