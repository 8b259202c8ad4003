// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "support/error.h"
#include "thread/thread_ir.h"

namespace stax::thread {
namespace {

TEST(Text, RoundTrip) {
  const std::string text = R"(kernel @all.kinds "a class" {
  param n 0 .. 64 multiple 8
  param "the size" -3 .. 9223372036854775807
  param multiplier0 1 .. 4294967295
  param shift0 0 .. 31
  global 0 @x f32 [n*256] align 16
  global 1 @"a b" f32 ["the size"] written
  shared 2 @tile f32 [1024]
  shared 3 @row f32 [n]
  local 4 @part f32 [8]
  local 5 @flag bool [1]
  local 6 @h f16 [12]
  shared 7 @m f16 [256]
  grid bx floordiv(n + 255, 256) by 1 bz n range 0 .. 100 multiple 4
  block t 128 warp 32
  index_bits 32
  flush_denormals
  divisor n multiplier0 shift0
  check "say \"what\""
  schedule "split i 8 -> io ii"
  for i in floordiv(n, 8) {
    load %4[0] = %0[i*512 + t*4] width 4
    %2[t*4] = add(load4[0], load3[floordiv(t, n)])
    barrier
    if cast<bool>([less(t, 32)]) {
      shuffle %4[0] = load2[t] xor 16
      shuffle %4[1] = mul(load2[t], 2.0:f32) lane mod(t + 1, 32)
      vote %5[0] = any lt(load2[t], 0.0:f32)
      vote %5[0] = all load5[0]
      atomic %1[0] sum= load4[1]
    } else {
      async_copy %2[t*4] = %0[t*4] width 4
      if cast<bool>([less(t, n)]) {
        async_commit
      }
      async_copy %2[t*4] = %0[{checked_index(cast<i64>(load4[0]), [n])}] width 4 where cast<bool>([less(t, n)])
      async_commit
      async_wait 1
    }
    independent {
      %4[1] = load4[0]
    }
    load_matrix %6[4] = %7[mod(t, 32)*8] count 4 transposed
    load_matrix %6[0] = %7[mod(t, 8)*8] count 1
    for j in 2 unrolled {
      mma "m16n8k16.f32.f16" %4[j*4] = %6[0] * %6[8] + %4[j*4]
    }
    store %1[t*4] = %4[0] width 4
  }
}
)";
  const Kernel kernel = parse_kernel(text);
  EXPECT_EQ(print(kernel), text);
  verify(kernel, Stage::kStructured);
  EXPECT_EQ(kernel.arguments, 2);
  EXPECT_EQ(static_shared_bytes(kernel), 4096 + 512);
  EXPECT_EQ(dynamic_shared_bytes(kernel), kernel.params[0] * 4);
  EXPECT_EQ(register_slots(kernel), (std::vector<bool>{false, false, false, false, false, true, true, false}));

  const auto lines = lines_of(kernel);
  visit(kernel.body, [&](const Stmt& s) {
    if (s->kind() == StmtKind::kBarrier) {
      EXPECT_EQ(lines.at(s.get()), 24);
    }
    if (s->kind() == StmtKind::kStoreVector) {
      EXPECT_EQ(lines.at(s.get()), 48);
    }
  });
}

TEST(Text, MistakesAreUserErrors) {
  const auto expect_error = [](const std::string& body, const char* what) {
    const std::string text =
        "kernel @k map {\n param n 0 .. 9\n global 0 @x f32 [n] written\n local 1 @l f32 [4]\n"
        "grid bx 1 by 1 bz 1 block t 32 warp 32\n" +
        body + "\n}";
    try {
      parse_kernel(text);
      ADD_FAILURE() << body;
    } catch (const UserError& e) {
      EXPECT_NE(std::string(e.what()).find(what), std::string::npos) << e.what();
    }
  };
  expect_error("for i in m { }", "unknown symbol m");
  expect_error("%7[0] = 0.0:f32", "no buffer 7");
  expect_error("%0[0] = 0:i32", "expected a f32, got a i32");
  expect_error("atomic %0[0] avg= 0.0:f32", "avg");
  expect_error("if 0.0:f32 { }", "expected a bool");
  expect_error("while 1 { }", "expected a statement");
  expect_error("load %1[0] = %0[0] width 99", "the width is 99");
  expect_error("mma \"m1n1k1\" %1[0] = %1[0] * %1[0] + %1[0]", "no matrix instruction m1n1k1");
  expect_error("load %1[{cast<i64>(load0[0])}] = %0[0] width 4", "not known without data");
  expect_error("async_wait -1", "number of groups");
  expect_error("for t in n { ", "");
  expect_error("shuffle %1[0] = load0[t] down 1", "lane");
}

TEST(Verify, Faults) {
  const auto expect_fault = [](const std::string& text, const char* what, Stage stage = Stage::kStructured) {
    try {
      verify(parse_kernel("kernel @k map {\n param n 0 .. 9\n global 0 @x f32 [n]\n global 1 @y f32 [n] written\n"
                          "shared 2 @s f32 [64]\n local 3 @l f32 [4]\n local 4 @b bool [1] local 5 @i i32 [4]\n"
                          "grid bx 1 by 1 bz 1 block t 64 warp 32\n" +
                          text + "}"),
             stage);
      ADD_FAILURE() << text;
    } catch (const InternalError& e) {
      EXPECT_NE(std::string(e.what()).find(what), std::string::npos) << e.what();
    }
  };
  expect_fault("%0[0] = 1.0:f32", "not declared as written");
  expect_fault("for i in n unrolled { }", "unrolled loop i");
  expect_fault("for i in 4 unrolled { }", "still marked", Stage::kFinal);
  expect_fault("for i in n { for i in n { } }", "inside a loop of the same variable");
  expect_fault("for i in n { } %1[i] = 1.0:f32", "neither a parameter nor");
  expect_fault("load %3[0] = %1[t] width 3", "3 elements of buffer y, which are 12 bytes");
  expect_fault("load %3[0] = %1[t] width 1 load %3[2] = %1[t] width 4", "has 4", Stage::kFinal);
  expect_fault("for i in 4 { load %3[i] = %1[t] width 1 }", "no constant", Stage::kFinal);
  expect_fault("load %2[0] = %1[t] width 1", "not local");
  expect_fault("store %3[0] = %3[0] width 1", "local buffer l");
  expect_fault("store %0[t] = %3[0] width 1", "not declared as written");
  expect_fault("load %5[0] = %0[t] width 1", "between buffers i of i32 and x of f32");
  expect_fault("if cast<bool>([less(t, 3)]) { barrier }", "not all threads");
  expect_fault("if lt(load2[0], 0.0:f32) { barrier }", "not all threads");
  expect_fault("for i in t { barrier }", "not all threads");
  expect_fault("for i in t { } for j in n { for i in t { if cast<bool>([less(i, j)]) { barrier } } }", "not all");
  expect_fault("shuffle %3[0] = load2[t] xor 32", "xor 32");
  expect_fault("vote %3[0] = any load4[0]", "not stored as bool");
  expect_fault("atomic %2[0] prod= 1.0:f32", "no atomic product");
  expect_fault("async_copy %1[0] = %0[0] width 4", "async_copy of x to y");
  expect_fault("load_matrix %3[0] = %2[t*8] count 1", "load_matrix of f32");
  expect_fault("load_matrix %3[0] = %0[t*8] count 1", "not shared");
  expect_fault("load_matrix %3[0] = %2[t*8] count 3", "3 matrices");
  expect_fault("if cast<bool>([less(t, 32)]) { load_matrix %3[0] = %2[t*8] count 1 }", "not all threads");
  expect_fault("mma \"m16n8k16.f32.f16\" %3[0] = %3[0] * %3[0] + %3[0]", "not f16");
  expect_fault("mma \"mfma.m16n16k16.f32.f16\" %3[0] = %3[0] * %3[0] + %3[0]", "64 lanes");
  expect_fault("%1[{checked_index(cast<i64>(load5[0]), [n])}] = 1.0:f32", "no message");
  // What all threads agree on is a place for a barrier.
  verify(parse_kernel("kernel @k map { param n 0 .. 9 global 0 @x i64 [n] grid bx 1 by 1 bz 1 block t 64 warp 32\n"
                      "for i in n { if lt(load0[bx], [n]) { barrier } } }"),
         Stage::kFinal);
}

TEST(Rewrite, UnchangedTreesKeepTheirPointer) {
  const Kernel kernel = parse_kernel(
      "kernel @k map { param n 0 .. 9 global 0 @x f32 [n] written grid bx 1 by 1 bz 1 block t 64 warp 32\n"
      "for i in n { if cast<bool>([less(t, i)]) { %0[t] = 1.0:f32 %0[t + 1] = 1.0:f32 } else { barrier } } }");
  EXPECT_EQ(rewrite(kernel.body, [](const Stmt& s) { return s; }), kernel.body);
}

}  // namespace
}  // namespace stax::thread
