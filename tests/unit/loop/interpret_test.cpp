// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "kernels.h"
#include "support/error.h"

namespace stax::loop::testing {
namespace {

template <class T>
std::vector<T> as(const std::vector<uint8_t>& bytes) {
  std::vector<T> result(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(result.data(), bytes.data(), bytes.size());
  return result;
}

template <class T>
std::vector<uint8_t> bytes_of(const std::vector<T>& values) {
  std::vector<uint8_t> result(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(result.data(), values.data(), result.size());
  return result;
}

Memory run(const std::string& text, Memory memory, const Parameters& params) {
  const Kernel kernel = parse_kernel(text);
  verify(kernel);
  testing::run(kernel, memory, params);
  return memory;
}

TEST(Interpret, Contraction) {
  const Kernel kernel = parse_kernel(kMatmul);
  for (const Parameters& shape : all_shapes(3, 8)) {
    const auto [n, m, k] = std::tuple(shape[0], shape[1], shape[2]);
    Memory memory = make_memory(kernel, shape);
    const auto a = as<float>(memory[0]), b = as<float>(memory[1]);
    testing::run(kernel, memory, shape);
    const auto out = as<float>(memory[2]);
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < m; ++j) {
        float sum = 0;
        for (int64_t r = 0; r < k; ++r) sum += a[i * k + r] * b[r * m + j];
        ASSERT_EQ(out[i * m + j], std::max(sum, 0.0F));
      }
    }
  }
}

TEST(Interpret, LargeBoxes) {
  // More iterations than a block, and more than a table of offsets; transposed, so that there is no single stride.
  const std::string text = R"(kernel @transpose map {
    param n 0 .. 10000
    param m 0 .. 10000
    argument 0 @x f32 [n, m]
    argument 1 @y f32 [m, n] written
    for i in n { for j in m { %1[j, i] = load0[i, j] } }
  })";
  const int64_t n = 300, m = 401;
  std::vector<float> x(n * m);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  const Memory memory = run(text, {bytes_of(x), std::vector<uint8_t>(n * m * 4)}, {n, m});
  const auto y = as<float>(memory[1]);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < m; ++j) ASSERT_EQ(y[j * n + i], x[i * m + j]);
  }
}

TEST(Interpret, UntakenBranchesAreNotEvaluated) {
  const std::string text = R"(kernel @pad map {
    param n 0 .. 100
    argument 0 @x f32 [n]
    argument 1 @at i64 [n]
    argument 2 @y f32 [n + 2] written
    for i in n + 2 {
      if cast<bool>([less(0, i)]) {
        %2[i] = select(cast<bool>([less(i, n + 1)]), load0[{checked_index(load1[i - 1], [n])}], -1.0:f32)
      } else {
        %2[0] = -2.0:f32
      }
    }
  })";
  const Memory memory =
      run(text, {bytes_of<float>({10, 20, 30}), bytes_of<int64_t>({2, -3, 1}), std::vector<uint8_t>(20)}, {3});
  EXPECT_EQ(as<float>(memory[2]), (std::vector<float>{-2, 30, 10, 20, -1}));
  const Memory empty = run(text, {{}, {}, std::vector<uint8_t>(8)}, {0});
  EXPECT_EQ(as<float>(empty[2]), (std::vector<float>{-2, -1}));
}

TEST(Interpret, FailingIndexIsAUserError) {
  const std::string text = R"(kernel @gather map {
    param n 0 .. 100
    argument 0 @x f32 [n]
    argument 1 @at i64 [4]
    argument 2 @y f32 [4] written
    check "Gather node 'embed': index"
    for i in 4 { %2[i] = load0[{checked_index(load1[i], [n])}] }
  })";
  try {
    run(text, {bytes_of<float>({1, 2, 3}), bytes_of<int64_t>({0, -3, 2, -4}), std::vector<uint8_t>(16)}, {3});
    FAIL();
  } catch (const UserError& e) {
    const std::string what = e.what();
    EXPECT_NE(what.find("Gather node 'embed'"), std::string::npos) << what;
    EXPECT_NE(what.find("-4"), std::string::npos) << what;
    EXPECT_NE(what.find("3"), std::string::npos) << what;
  }
}

TEST(Interpret, OutOfBoundsIsAnInternalError) {
  const auto expect_fault = [](const std::string& statement, const char* what) {
    const std::string text =
        "kernel @bad map {\n param n 0 .. 100\n argument 0 @x f32 [n, 3]\n argument 1 @y f32 [n] written\n"
        "for i in n { " +
        statement + " } }";
    try {
      run(text, {std::vector<uint8_t>(60), std::vector<uint8_t>(20)}, {5});
      ADD_FAILURE() << statement;
    } catch (const InternalError& e) {
      EXPECT_NE(std::string(e.what()).find(what), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find("kernel bad"), std::string::npos) << e.what();
    }
  };
  expect_fault("%1[i] = load0[i, i]", "load of buffer x at [3, 3], out of its extents [5, 3]");
  expect_fault("%1[i] = load0[i - 1, 0]", "load of buffer x at [-1, 0], out of its extents [5, 3]");
  expect_fault("%1[i + 4] = 0.0:f32", "store of buffer y at [5], out of its extents [5]");
  expect_fault("%1[i*2] sum= 1.0:f32", "update of buffer y at [6], out of its extents [5]");
  expect_fault("if cast<bool>([less(i, 4)]) { %1[i] = load0[floordiv(i, 3), i] }", "load of buffer x at [1, 3]");
}

TEST(Interpret, VectorReductionHasPartialResults) {
  // 2^24 + 1 is no float: one accumulator stays at 2^24, lanes do not.
  const auto text = [](const std::string& kind) {
    return "kernel @sum reduction {\n param n 0 .. 100\n argument 0 @x f32 [n]\n argument 1 @y f32 [] written\n"
           "for r in n " +
           kind + " { %1[] sum= load0[r] } }";
  };
  std::vector<float> x(9, 1.0F);
  x[0] = 16777216.0F;
  const auto sum = [&](const std::string& kind) {
    return as<float>(run(text(kind), {bytes_of(x), bytes_of<float>({0})}, {9})[1])[0];
  };
  EXPECT_EQ(sum(""), 16777216.0F);
  EXPECT_EQ(sum("vector 4"), 16777216.0F + 6.0F);
}

TEST(Interpret, MaskedVectorReduction) {
  const std::string text = R"(kernel @masked reduction {
    param n 0 .. 5000
    argument 0 @x i32 [n]
    argument 1 @y i32 [] written
    for r in n vector 8 {
      if cast<bool>([equal(mod(r, 3), 1)]) { %1[] max= load0[r] }
    }
  })";
  for (int64_t n : {0, 1, 2, 5, 100, 3000}) {
    std::vector<int32_t> x(n);
    int32_t expected = -1000;
    for (int64_t i = 0; i < n; ++i) {
      x[i] = static_cast<int32_t>((i * 7919) % 1009) - 500;
      if (i % 3 == 1) expected = std::max(expected, x[i]);
    }
    EXPECT_EQ(as<int32_t>(run(text, {bytes_of(x), bytes_of<int32_t>({-1000})}, {n})[1])[0], expected);
  }
}

TEST(Interpret, StoresRoundAndWrap) {
  const std::string text = R"(kernel @round map {
    argument 0 @x f64 [3]
    argument 1 @half f16 [3] written
    argument 2 @byte u8 [3] written
    argument 3 @truth bool [3] written
    for i in 3 {
      %1[i] = cast<f16>(load0[i])
      %2[i] = add(cast<u8>(load0[i]), 200:u8)
      %3[i] = cast<bool>(load0[i])
    }
  })";
  const Memory memory = run(text,
                            {bytes_of<double>({0, 100.03125, 70000}), std::vector<uint8_t>(6), std::vector<uint8_t>(3),
                             std::vector<uint8_t>(3)},
                            {});
  EXPECT_EQ(as<uint16_t>(memory[1]), (std::vector<uint16_t>{0, 0x5640, 0x7C00}));
  EXPECT_EQ(memory[2], (std::vector<uint8_t>{200, 44, static_cast<uint8_t>(70000 + 200)}));
  EXPECT_EQ(memory[3], (std::vector<uint8_t>{0, 1, 1}));
}

TEST(Interpret, StatementsOfOneIterationSeeEachOther) {
  const std::string text = R"(kernel @fibonacci map {
    param n 0 .. 100
    argument 0 @x i64 [n + 2] written
    argument 1 @y i64 [n] written
    %0[0] = 0:i64
    %0[1] = 1:i64
    for i in n {
      %0[i + 2] = add(load0[i], load0[i + 1])
      %1[i] = load0[i + 2]
    }
  })";
  const Memory memory = run(text, {std::vector<uint8_t>(12 * 8, 0xEE), std::vector<uint8_t>(80)}, {10});
  EXPECT_EQ(as<int64_t>(memory[1]), (std::vector<int64_t>{1, 2, 3, 5, 8, 13, 21, 34, 55, 89}));
}

TEST(Interpret, ViewsHaveStrides) {
  const std::string text = R"(kernel @view map {
    param n 0 .. 100
    param s 0 .. 100
    argument 0 @x f32 [n, 3] strides [s, 0]
    argument 1 @y f32 [n, 3] written
    for i in n { for j in 3 { %1[i, j] = load0[i, j] } }
  })";
  const Memory memory = run(text, {bytes_of<float>({1, 2, 3, 4, 5}), std::vector<uint8_t>(36)}, {3, 2});
  EXPECT_EQ(as<float>(memory[1]), (std::vector<float>{1, 1, 1, 3, 3, 3, 5, 5, 5}));
}

TEST(Interpret, LoopsOfDependentExtents) {
  const std::string text = R"(kernel @triangle map {
    param n 0 .. 100
    argument 0 @y i64 [n, n] written
    for i in n { for j in n { %0[i, j] = 0:i64 } }
    for u in n { for v in u - 1 { for w in v { %0[u, v] sum= [w + u*v] } } }
  })";
  const int64_t n = 9;
  const auto y = as<int64_t>(run(text, {std::vector<uint8_t>(n * n * 8)}, {n})[0]);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      int64_t sum = 0;
      for (int64_t k = 0; j < i - 1 && k < j; ++k) sum += k + i * j;
      EXPECT_EQ(y[i * n + j], sum);
    }
  }
}

}  // namespace
}  // namespace stax::loop::testing
