// SPDX-License-Identifier: Apache-2.0
#include "kernels.h"
#include "support/error.h"

namespace stax::loop::testing {
namespace {

TEST(Text, RoundTrip) {
  const std::string text = R"(kernel @all.kinds "a class" {
  param n 0 .. 64 multiple 8
  param "the size" -3 .. 9223372036854775807
  argument 0 @x f32 [n, 4] strides [8, 1]
  argument 1 @"a b" i64 ["the size"] written
  local 2 @part bool [8]
  check "say \"what\""
  schedule "split i 8 -> io ii"
  for i in floordiv(n, 8) parallel {
    allocate 2 {
      prefetch 2 %0[i + 1, 100]
      for j in 8 vector 4 {
        for k in 2 unrolled {
          %2[j] = lt(load0[i*8 + j, k], 2.5:f32)
        }
      }
      for m in n range 0 .. 1000 multiple 4 {
        if load2[mod(m, 8)] {
          %1[{load1[m]}] max= [i + m]
        } else {
          %1[i] = load1[{checked_index(load1[m], ["the size"])}]
        }
      }
    }
  }
}
)";
  const Kernel kernel = parse_kernel(text);
  EXPECT_EQ(print(kernel), text);
  const std::string anonymous = print(kernel, true);
  EXPECT_EQ(print(parse_kernel(anonymous), true), anonymous) << anonymous;
}

TEST(Text, AnonymousFormForgetsNames) {
  std::string renamed = kMatmul;
  const auto replace = [&](const std::string& from, const std::string& to) {
    for (size_t at = 0; (at = renamed.find(from, at)) != std::string::npos; at += to.size())
      renamed.replace(at, from.size(), to);
  };
  // New names sort differently: sums and products change their order.
  replace("for i", "for zz");
  replace("[i,", "[zz,");
  replace("@acc", "@sum");
  replace("@matmul", "@product");
  EXPECT_NE(print(parse_kernel(renamed)), print(parse_kernel(kMatmul)));
  EXPECT_EQ(print(parse_kernel(renamed), true), print(parse_kernel(kMatmul), true));
  const std::string schedule = "split r 8 -> r1 r0 separate rt; split j 4 -> a z";
  const std::string other = "split r 8 -> z1 q0 separate ra; split j 4 -> z a";
  EXPECT_EQ(print(apply_schedule(parse_kernel(renamed), other), true),
            print(apply_schedule(parse_kernel(kMatmul), schedule), true));
}

TEST(Text, ParameterRangesAreIdentity) {
  std::string other = kMatmul;
  other.replace(other.find("2147483647"), 10, "64");
  EXPECT_NE(print(parse_kernel(other), true), print(parse_kernel(kMatmul), true));
}

TEST(Text, MistakesAreUserErrors) {
  const auto expect_error = [](const std::string& body, const char* what) {
    const std::string text = "kernel @k map {\n param n 0 .. 9\n argument 0 @x f32 [n] written\n" + body + "\n}";
    try {
      parse_kernel(text);
      ADD_FAILURE() << body;
    } catch (const UserError& e) {
      EXPECT_NE(std::string(e.what()).find(what), std::string::npos) << e.what();
    }
  };
  expect_error("for i in m { }", "unknown symbol m");
  expect_error("for i in n slowly { }", "slowly");
  expect_error("%7[0] = 0.0:f32", "no buffer 7");
  expect_error("%0[0] = 0:i32", "expected a f32, got a i32");
  expect_error("%0[0] avg= 0.0:f32", "avg");
  expect_error("if 0.0:f32 { }", "expected a bool");
  expect_error("param n 0 .. 3", "declared twice");
  expect_error("while 1 { }", "expected a statement");
  expect_error("for i in n { %0[i] = 0.0:f32 ", "");
}

// What no pass may make is refused of a text, too, as the text's fault.
TEST(Verify, Faults) {
  const auto expect_fault = [](const std::string& text, const char* what) {
    try {
      parse_kernel(
          "kernel @k map {\n param n 0 .. 9\n argument 0 @x f32 [n]\n argument 1 @y f32 [n] "
          "written\nlocal 2 @t f32 [4]\n" +
          text + "}");
      ADD_FAILURE() << text;
    } catch (const UserError& e) {
      EXPECT_NE(std::string(e.what()).find(what), std::string::npos) << e.what();
    }
  };
  expect_fault("%0[0] = 1.0:f32", "not declared as written");
  expect_fault("%2[0] = 1.0:f32", "outside of its allocate");
  expect_fault("%1[0, 0] = 1.0:f32", "rank 1 has 2 indices");
  expect_fault("for i in n { for j in n parallel { %1[j] = 1.0:f32 } }", "not outermost");
  expect_fault("for i in n vector 4 { for j in n { %1[j] = 1.0:f32 } }", "inside a vector loop");
  expect_fault("for i in n unrolled { %1[i] = 1.0:f32 }", "unrolled loop i");
  expect_fault("for i in n { for i in n { %1[i] = 1.0:f32 } }", "inside a loop of the same variable");
  expect_fault("for i in n { } %1[i] = 1.0:f32", "neither a parameter nor");
  expect_fault("allocate 2 { allocate 2 { } }", "inside its own allocate");
  expect_fault("allocate 0 { }", "not local");
}

TEST(Rewrite, UnchangedTreesKeepTheirPointer) {
  const Kernel kernel = apply_schedule(parse_kernel(kMatmul), "split j 8 -> jo ji separate jt; sink ji");
  EXPECT_EQ(rewrite(kernel.body, [](const Stmt& s) { return s; }), kernel.body);
  const Kernel simple = simplify(kernel);
  EXPECT_EQ(simplify(simple).body, simple.body);
  EXPECT_EQ(hoist_loop_invariants(simple).body, simple.body);
  EXPECT_EQ(partition_loops(simple).body, simple.body);
}

}  // namespace
}  // namespace stax::loop::testing
