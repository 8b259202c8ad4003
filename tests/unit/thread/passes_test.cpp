// SPDX-License-Identifier: Apache-2.0
#include "thread/passes.h"

#include <gtest/gtest.h>

#include "support/error.h"

namespace stax::thread {
namespace {

const char* const kHeader =
    "kernel @k map {\n param n 0 .. 1000\n global 0 @x f32 [n]\n global 1 @y f32 [n] written\n"
    " shared 2 @s f32 [4096]\n shared 3 @u f32 [4096]\n local 4 @l f32 [4]\n local 5 @i i64 [1]\n"
    " grid bx n by 1 bz 1\n block t 256 warp 32\n";

Kernel parse(const std::string& body) {
  Kernel kernel = parse_kernel(kHeader + body + "}");
  verify(kernel, Stage::kStructured);
  return kernel;
}

// The statements of a kernel, without what stands above them.
std::string body_of(const Kernel& kernel) {
  const std::string text = print(kernel);
  return text.substr(text.find("warp 32\n") + 8);
}

void expect_barriers(const std::string& body, const std::string& expected) {
  const Kernel result = insert_barriers(parse(body));
  verify(result, Stage::kFinal);
  EXPECT_EQ(body_of(result), body_of(parse_kernel(kHeader + expected + "}")));
  // A second run finds nothing to do.
  EXPECT_EQ(insert_barriers(result).body, result.body) << body_of(result);
}

TEST(UnrollLoops, WritesOutAndDecides) {
  const Kernel kernel = unroll_loops(
      parse("for i in 3 unrolled { for j in 2 unrolled { if cast<bool>([less(i, 2)]) { %4[i + j] = load0[i*2 + j] } "
            "else { %4[j] = 0.0:f32 } } } for m in n { for q in 2 unrolled { %4[q] = load0[m + q] } }"));
  verify(kernel, Stage::kFinal);
  EXPECT_EQ(body_of(kernel), body_of(parse("%4[0] = load0[0] %4[1] = load0[1] %4[1] = load0[2] %4[2] = load0[3] "
                                           "%4[0] = 0.0:f32 %4[1] = 0.0:f32 "
                                           "for m in n { %4[0] = load0[m] %4[1] = load0[m + 1] }")));
}

TEST(PeelRests, WholeTilesAskNothing) {
  const auto expect_peeled = [](const std::string& body, const std::string& expected) {
    EXPECT_EQ(body_of(peel_rests(parse(body))), body_of(parse(expected)));
  };
  const std::string body =
      "{ if cast<bool>([less(i*8 + mod(t, 8), n)]) { %4[0] = load0[i*8 + mod(t, 8)] } "
      "%4[1] = select(cast<bool>([less(i*8 + 7, n)]), load0[i*8 + 7], 0.0:f32) "
      "%4[2] = select(cast<bool>([less(i*8 + 8, n)]), load0[i*8 + 8], 0.0:f32) }";
  std::string last = body;
  for (size_t at; (at = last.find("i*8")) != std::string::npos;) last.replace(at, 3, "floordiv(n, 8)*8");
  // What is asked about the next tile stays.
  expect_peeled("for i in floordiv(n + 7, 8) " + body,
                "for i in floordiv(n, 8) { %4[0] = load0[i*8 + mod(t, 8)] %4[1] = load0[i*8 + 7] "
                "%4[2] = select(cast<bool>([less(i*8 + 8, n)]), load0[i*8 + 8], 0.0:f32) } "
                "for i_t in min(mod(n, 8), 1) " +
                    last);
  // Loops that do not run over tiles stay as they are.
  expect_peeled("for i in n " + body, "for i in n " + body);
}

TEST(InsertBarriers, BetweenWriteAndRead) {
  expect_barriers("%2[t] = load0[t] %4[0] = load2[255 - t]", "%2[t] = load0[t] barrier %4[0] = load2[255 - t]");
  // As late as it does; one for several.
  expect_barriers("%2[t] = load0[t] %3[t] = load0[t] %4[1] = load0[t] %4[0] = load2[255 - t] %4[2] = load3[0]",
                  "%2[t] = load0[t] %3[t] = load0[t] %4[1] = load0[t] barrier %4[0] = load2[255 - t] %4[2] = load3[0]");
  // A read in front of a write.
  expect_barriers("%4[0] = load2[255 - t] %2[t] = load0[t]", "%4[0] = load2[255 - t] barrier %2[t] = load0[t]");
  // Written global memory.
  expect_barriers("%1[t] = load0[t] %4[0] = load1[t + 1]", "%1[t] = load0[t] barrier %4[0] = load1[t + 1]");
}

TEST(InsertBarriers, NoneForOnesOwn) {
  const auto expect_none = [](const std::string& body) { expect_barriers(body, body); };
  expect_none("%2[t] = load0[t] %4[0] = load2[t]");
  expect_none("%2[t*33] = load0[t] %4[0] = load2[t*33]");
  expect_none("%2[floordiv(t, 32)*33 + mod(t, 32)] = load0[t] %4[0] = load2[floordiv(t, 32)*33 + mod(t, 32)]");
  expect_none("for j in 16 { %2[t + j*256] = load0[t] } for k in 16 { %4[0] = load2[t + k*256] }");
  expect_none("store %2[t*4] = %4[0] width 4 load %4[0] = %2[t*4] width 4");
  expect_none("%2[t] = load0[t] %4[0] = load2[t + 256]");
  expect_none("if cast<bool>([equal(t, 0)]) { %2[0] = 1.0:f32 } if cast<bool>([equal(t, 0)]) { %4[0] = load2[0] }");
  expect_none("if cast<bool>([less(t, 128)]) { %2[t] = load0[t] %4[0] = load2[t + 128] }");
  expect_none("for j in n { if cast<bool>([less(t + j*256, n)]) { %1[t + j*256] = load0[t + j*256] } }");
  expect_none("for j in n { %1[bx*1024 + t + mod(j, 4)*256] = load0[t] }");
  expect_none("atomic %2[0] sum= load0[t] atomic %2[0] sum= load0[t]");
  expect_none("%4[0] = load0[t] %4[1] = load0[t + 1]");
}

TEST(InsertBarriers, StridesThatAreParameters) {
  const auto expect_none = [](const std::string& body) { expect_barriers(body, body); };
  // Rows by warp, columns by lane, inside of a row.
  expect_none(
      "for j in floordiv(n + 31, 32) { if cast<bool>([less(mod(t, 32) + j*32, n)]) { "
      "%1[(bx*8 + floordiv(t, 32))*n + mod(t, 32) + j*32] = load0[t] } }");
  // A tile of 16 x 16 threads with 2 x 2 elements each.
  expect_none(
      "if cast<bool>([less(mod(t, 16)*2 + 1, n)]) { %1[floordiv(t, 16)*2*n + mod(t, 16)*2] = load0[t] "
      "%1[(floordiv(t, 16)*2 + 1)*n + mod(t, 16)*2 + 1] = load0[t] }");
  // Two strides.
  expect_none(
      "for i in n { if cast<bool>([less(mod(t, 8), n)]) { if cast<bool>([less(mod(floordiv(t, 8), 8), n)]) { "
      "%1[floordiv(t, 64)*n*n + mod(floordiv(t, 8), 8)*n + mod(t, 8)] = load0[i] } } }");
  // Columns past the row are in the next one.
  const std::string open = "%1[floordiv(t, 16)*n + mod(t, 16)] = load0[t] ";
  expect_barriers(open + "%1[floordiv(t, 16)*n + mod(t, 16) + 1] = load0[t]",
                  open + "barrier %1[floordiv(t, 16)*n + mod(t, 16) + 1] = load0[t]");
}

TEST(InsertBarriers, PartialOverlap) {
  expect_barriers("store %2[t*4] = %4[0] width 4 load %4[0] = %2[t*4 + 2] width 2",
                  "store %2[t*4] = %4[0] width 4 load %4[0] = %2[t*4 + 2] width 2");
  expect_barriers("store %2[t*2] = %4[0] width 2 load %4[0] = %2[t*4] width 4",
                  "store %2[t*2] = %4[0] width 2 barrier load %4[0] = %2[t*4] width 4");
  expect_barriers("%2[t] = load0[t] load %4[0] = %2[floordiv(t, 2)*2] width 2",
                  "%2[t] = load0[t] barrier load %4[0] = %2[floordiv(t, 2)*2] width 2");
}

TEST(InsertBarriers, Loops) {
  // Both hazards of a tile that each iteration fills anew.
  expect_barriers("for k in n { %2[t] = load0[k*256 + t] %4[0] = load2[255 - t] }",
                  "for k in n { barrier %2[t] = load0[k*256 + t] barrier %4[0] = load2[255 - t] }");
  // Two halves in turns: one barrier.
  expect_barriers("for k in n { %2[mod(k, 2)*256 + t] = load0[t] %4[0] = load2[mod(k, 2)*256 + 255 - t] }",
                  "for k in n { %2[mod(k, 2)*256 + t] = load0[t] barrier %4[0] = load2[mod(k, 2)*256 + 255 - t] }");
  expect_barriers("for k in n { %2[mod(k + 1, 3)*256 + t] = load0[t] %4[0] = load2[mod(k, 3)*256 + 255 - t] }",
                  "for k in n { barrier %2[mod(k + 1, 3)*256 + t] = load0[t] %4[0] = load2[mod(k, 3)*256 + 255 - t] }");
  // What was there before the loop is waited for once.
  expect_barriers("%2[t] = load0[t] for k in n { %4[0] = load2[k] }",
                  "%2[t] = load0[t] barrier for k in n { %4[0] = load2[k] }");
  // A loop that may not run ends nothing.
  expect_barriers("%3[t] = load0[t] for k in n { barrier } %4[1] = load3[0]",
                  "%3[t] = load0[t] for k in n { barrier } barrier %4[1] = load3[0]");
  expect_barriers("%3[t] = load0[t] for k in 4 { barrier } %4[1] = load3[0]",
                  "%3[t] = load0[t] for k in 4 { barrier } %4[1] = load3[0]");
  // An iteration reads what the one before wrote.
  expect_barriers(
      "for k in n { %2[k*256 + t] = load0[t] if cast<bool>([less(0, k)]) { %4[0] = load2[k*256 - 1 - t] } }",
      "for k in n { %2[k*256 + t] = load0[t] if cast<bool>([less(0, k)]) { barrier "
      "%4[0] = load2[k*256 - 1 - t] } }");
}

TEST(InsertBarriers, DivergentConditions) {
  // In front of the condition.
  expect_barriers("%2[t] = load0[t] if cast<bool>([less(t, 32)]) { %4[0] = load2[255 - t] }",
                  "%2[t] = load0[t] barrier if cast<bool>([less(t, 32)]) { %4[0] = load2[255 - t] }");
  // Between its statements.
  expect_barriers(
      "if cast<bool>([less(t, 32)]) { %4[0] = load0[t] %2[t] = load4[0] %4[0] = load2[31 - t] %4[1] = load4[0] }",
      "if cast<bool>([less(t, 32)]) { %4[0] = load0[t] %2[t] = load4[0] } barrier "
      "if cast<bool>([less(t, 32)]) { %4[0] = load2[31 - t] %4[1] = load4[0] }");
  // Through a loop that all run alike.
  expect_barriers("if cast<bool>([less(t, 32)]) { for k in n { %2[t] = load0[k] %4[0] = load2[31 - t] } }",
                  "for k in n { barrier if cast<bool>([less(t, 32)]) { %2[t] = load0[k] } barrier "
                  "if cast<bool>([less(t, 32)]) { %4[0] = load2[31 - t] } }");
  // A condition that all answer alike is no obstacle.
  expect_barriers("if cast<bool>([less(bx, 3)]) { %2[t] = load0[t] %4[0] = load2[255 - t] }",
                  "if cast<bool>([less(bx, 3)]) { %2[t] = load0[t] barrier %4[0] = load2[255 - t] }");
  // A reduction over a tree: each step reads what the one before wrote.
  expect_barriers(
      "%2[t] = load0[t] if cast<bool>([less(t, 128)]) { %2[t] = add(load2[t], load2[t + 128]) } "
      "if cast<bool>([less(t, 64)]) { %2[t] = add(load2[t], load2[t + 64]) }",
      "%2[t] = load0[t] barrier if cast<bool>([less(t, 128)]) { %2[t] = add(load2[t], load2[t + 128]) } "
      "barrier if cast<bool>([less(t, 64)]) { %2[t] = add(load2[t], load2[t + 64]) }");
  // Where it cannot stand.
  EXPECT_THROW(insert_barriers(parse("for k in t { %2[t] = load0[t] %4[0] = load2[255 - t] }")), InternalError);
}

TEST(InsertBarriers, AsyncCopies) {
  expect_barriers("async_copy %2[t*4] = %0[t*4] width 4 async_commit async_wait 0 %4[0] = load2[t]",
                  "async_copy %2[t*4] = %0[t*4] width 4 async_commit async_wait 0 barrier %4[0] = load2[t]");
  // A barrier in front of the wait is not enough.
  expect_barriers("async_copy %2[t*4] = %0[t*4] width 4 async_commit barrier async_wait 0 %4[0] = load2[t]",
                  "async_copy %2[t*4] = %0[t*4] width 4 async_commit barrier async_wait 0 barrier %4[0] = load2[t]");
  // Three stages, two of them in flight.
  const std::string first =
      "async_copy %2[t*4] = %0[t*4] width 4 async_commit "
      "async_copy %2[1024 + t*4] = %0[1024 + t*4] width 4 async_commit ";
  expect_barriers(first +
                      "for k in n { async_wait 1 %4[0] = load2[mod(k, 3)*1024 + 1023 - t] "
                      "async_copy %2[mod(k + 2, 3)*1024 + t*4] = %0[k*1024 + 2048 + t*4] width 4 async_commit }",
                  first +
                      "for k in n { async_wait 1 barrier %4[0] = load2[mod(k, 3)*1024 + 1023 - t] "
                      "async_copy %2[mod(k + 2, 3)*1024 + t*4] = %0[k*1024 + 2048 + t*4] width 4 async_commit }");
}

TEST(InsertBarriers, IndependentBlocks) {
  const auto expect = [](const std::string& body, const std::string& expected) {
    EXPECT_EQ(body_of(insert_barriers(parse(body))), body_of(parse(expected)));
  };
  // What the block says holds inside of it, and in one iteration.
  expect("for k in n { independent { %2[{load5[0]}] = load0[t] %4[0] = load2[t] } }",
         "for k in n { barrier %2[{load5[0]}] = load0[t] %4[0] = load2[t] }");
  expect("%2[t] = load0[t] independent { %2[{load5[0]}] = load2[{load5[0]}] } %4[0] = load2[t]",
         "%2[t] = load0[t] barrier %2[{load5[0]}] = load2[{load5[0]}] barrier %4[0] = load2[t]");
  // Also where unrolled loops around it are written out.
  const Kernel kernel = unroll_loops(parse("for i in 2 unrolled { independent { %4[i] = load0[t] } }"));
  EXPECT_EQ(body_of(kernel), body_of(parse("independent { %4[0] = load0[t] } independent { %4[1] = load0[t] }")));
}

TEST(InsertBarriers, UnknownIndicesMeet) {
  expect_barriers("%2[{load5[0]}] = load0[t] %4[0] = load2[t]", "%2[{load5[0]}] = load0[t] barrier %4[0] = load2[t]");
}

TEST(ReduceDivisions, OneRowForEachDivisor) {
  Kernel kernel = parse(
      "%4[0] = load0[floordiv(t + bx*256, n)] %4[1] = load0[mod(t + bx*256, n)*2 + floordiv(t, n + 1)] "
      "%4[2] = load0[floordiv(t - n, n)] %4[3] = load0[floordiv(bx*t, 7)]");
  kernel.index_bits = 32;
  const Kernel result = reduce_divisions(kernel);
  verify(result, Stage::kFinal);
  const Expr n = kernel.params[0];
  ASSERT_EQ(result.divisors.size(), 2U);
  EXPECT_EQ(result.divisors[0].value, n);
  EXPECT_EQ(result.divisors[1].value, n + 1);
  ASSERT_EQ(result.params.size(), 5U);
  EXPECT_EQ(result.params[1], result.divisors[0].multiplier);
  EXPECT_EQ(result.params[4], result.divisors[1].shift);
  const Expr t = kernel.thread;
  EXPECT_EQ(find_divisor(result, symbolic::mod(t, n)), &result.divisors[0]);
  EXPECT_EQ(find_divisor(result, symbolic::floordiv(t - n, n + 3)), nullptr);
  EXPECT_EQ(find_divisor(result, symbolic::floordiv(t - 1, n)), nullptr);
  EXPECT_EQ(print(parse_kernel(print(result))), print(result));
  EXPECT_THROW(reduce_divisions(parse("barrier")), InternalError);
}

TEST(ReduceDivisions, DigitsInSteps) {
  Kernel kernel = parse_kernel(
      "kernel @k map {\n param a 0 .. 1000\n param b 0 .. 1000\n global 0 @x f32 [a*b]\n local 1 @l f32 [4]\n grid bx "
      "a by 1 bz 1\n "
      "block t 256 warp 32\n %1[0] = load0[floordiv(t, a*b) + mod(floordiv(t, b), a) + mod(t, b)] }");
  kernel.index_bits = 32;
  const Kernel result = reduce_divisions(kernel);
  verify(result, Stage::kFinal);
  // By b, and what is left by a: never by their product.
  ASSERT_EQ(result.divisors.size(), 2U) << print(result);
  for (const Divisor& d : result.divisors) EXPECT_TRUE(d.value.is_symbol()) << d.value.str();
  EXPECT_EQ(print(parse_kernel(print(result))), print(result));
}

// The rule in thread_ir.h, with the multiplier and the shift that it says.
TEST(ReduceDivisions, TheFormula) {
  const auto divide = [](uint32_t x, uint32_t value) {
    uint32_t shift = 0;
    while ((uint64_t{1} << shift) < value) ++shift;
    const uint64_t multiplier = ((uint64_t{1} << 32) * ((uint64_t{1} << shift) - value)) / value + 1;
    EXPECT_LT(multiplier, uint64_t{1} << 32);
    const uint64_t sum = (x * multiplier >> 32) + x;
    EXPECT_LT(sum, uint64_t{1} << 32);
    return static_cast<uint32_t>(sum >> shift);
  };
  constexpr uint32_t kMost = 0x7fffffff;
  for (uint32_t value : {1U, 2U, 3U, 5U, 7U, 10U, 127U, 128U, 129U, 641U, 65535U, 65536U, 65537U, 0x40000000U,
                         0x40000001U, kMost - 1, kMost}) {
    for (uint32_t x : {0U, 1U, 2U, value - 1, value, value + 1, 2 * value - 1, 1000000007U, kMost - 1, kMost}) {
      if (x > kMost) continue;
      EXPECT_EQ(divide(x, value), x / value) << x << " / " << value;
    }
    for (uint64_t multiple = value; multiple <= kMost;
         multiple += value * std::max<uint64_t>(1, kMost / value / 1000)) {
      const auto x = static_cast<uint32_t>(multiple);
      EXPECT_EQ(divide(x, value), x / value);
      EXPECT_EQ(divide(x - 1, value), (x - 1) / value);
    }
  }
}

}  // namespace
}  // namespace stax::thread
