// SPDX-License-Identifier: Apache-2.0
#pragma once
// Kernels, memory for them, and the comparison of two of them by running both.
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "loop/loop_ir.h"
#include "loop/passes.h"
#include "loop/transform.h"
#include "symbolic/evaluate.h"

namespace stax::loop::testing {

// out[i, j] = max(sum over r of A[i, r] * B[r, j], 0)
inline const char* const kMatmul = R"(
kernel @matmul contraction {
  param n 0 .. 2147483647
  param m 0 .. 2147483647
  param k 0 .. 2147483647
  argument 0 @a f32 [n, k]
  argument 1 @b f32 [k, m]
  argument 2 @out f32 [n, m] written
  local 3 @acc f32 []
  for i in n {
    for j in m {
      allocate 3 {
        %3[] = 0.0:f32
        for r in k {
          %3[] sum= mul(load0[i, r], load1[r, j])
        }
        %2[i, j] = max(load3[], 0.0:f32)
      }
    }
  }
})";

inline const char* const kMap = R"(
kernel @map map {
  param n 0 .. 2147483647
  param m 0 .. 2147483647
  argument 0 @x f32 [n, m]
  argument 1 @bias f32 [m]
  argument 2 @out f32 [n, m] written
  for i in n {
    for j in m {
      %2[i, j] = add(mul(load0[i, j], 2.0:f32), load1[j])
    }
  }
})";

// A window of 3 with padding, channels last: out[i, c] = sum over w of x[i + w - 1, c] * f[w, c].
inline const char* const kWindow = R"(
kernel @window reduction {
  param n 0 .. 2147483647
  param c 0 .. 2147483647
  argument 0 @x f32 [n, c]
  argument 1 @f f32 [3, c]
  argument 2 @out f32 [n, c] written
  local 3 @acc f32 []
  for i in n {
    for j in c {
      allocate 3 {
        %3[] = 0.0:f32
        for w in 3 {
          %3[] sum= select(and(cast<bool>([less(0, i + w)]), cast<bool>([less(i + w, n + 1)])), mul(load0[i + w - 1, j], load1[w, j]), 0.0:f32)
        }
        %2[i, j] = load3[]
      }
    }
  }
})";

// Two passes over a row: out[i, j] = x[i, j] - max over r of x[i, r].
inline const char* const kRow = R"(
kernel @row reduction {
  param n 0 .. 2147483647
  param m 0 .. 2147483647
  argument 0 @x f32 [n, m]
  argument 1 @out f32 [n, m] written
  local 2 @top f32 []
  for i in n {
    allocate 2 {
      %2[] = -inf:f32
      for r in m {
        %2[] max= load0[i, r]
      }
      for j in m {
        %1[i, j] = sub(load0[i, j], load2[])
      }
    }
  }
})";

// t[a] = 2 x[a]; y[i] = t[i] + t[i + 1] + t[i + 2]
inline const char* const kStencil = R"(
kernel @stencil map {
  param n 0 .. 1000
  argument 0 @x f32 [n + 2]
  argument 1 @y f32 [n] written
  local 2 @t f32 [n + 2]
  allocate 2 {
    for a in n + 2 {
      %2[a] = mul(load0[a], 2.0:f32)
    }
    for i in n {
      %1[i] = add(load2[i], add(load2[i + 1], load2[i + 2]))
    }
  }
})";

using Parameters = std::vector<int64_t>;
using Memory = std::vector<std::vector<uint8_t>>;

inline std::vector<int64_t> extents_of(const Kernel& kernel, const Buffer& buffer, const Parameters& params) {
  std::unordered_map<const symbolic::ExprNode*, int64_t> values;
  for (size_t i = 0; i < params.size(); ++i) values[kernel.params[i].node()] = params[i];
  std::vector<int64_t> extents;
  for (Expr e : buffer.extents) extents.push_back(symbolic::evaluate(e, values));
  return extents;
}

// Small integers, so that sums are exact in whatever order they are made. Integer buffers hold valid indices of small
// extents.
inline Memory make_memory(const Kernel& kernel, const Parameters& params, unsigned seed = 1) {
  std::mt19937 random(seed);
  Memory memory;
  for (int slot = 0; slot < kernel.arguments; ++slot) {
    const Buffer& b = kernel.buffers[slot];
    int64_t count = 1;
    for (int64_t e : extents_of(kernel, b, params)) count *= std::max<int64_t>(e, 0);
    std::vector<uint8_t> bytes(static_cast<size_t>(count) * ir::byte_size(b.dtype));
    for (int64_t i = 0; i < count; ++i) {
      const int v = static_cast<int>(random() % 7);
      ir::store_element(b.dtype, bytes.data(), i,
                        ir::is_float(b.dtype) ? ir::Value64{.f = v - 3.0} : ir::Value64{.i = v});
    }
    memory.push_back(std::move(bytes));
  }
  return memory;
}

inline void run(const Kernel& kernel, Memory& memory, const Parameters& params) {
  std::vector<void*> pointers;
  for (auto& bytes : memory) pointers.push_back(bytes.data());
  interpret(kernel, pointers, params);
}

inline void expect_same(const Kernel& before, const Kernel& after, const Parameters& params) {
  ASSERT_NO_THROW(verify(after)) << print(after);
  Memory expected = make_memory(before, params), actual = expected;
  run(before, expected, params);
  ASSERT_NO_THROW(run(after, actual, params)) << print(after);
  for (size_t slot = 0; slot < expected.size(); ++slot) {
    ASSERT_EQ(expected[slot], actual[slot]) << "buffer " << slot << " at " << ::testing::PrintToString(params) << "\n"
                                            << print(after);
  }
}

// The same kernel with its parallel and vector loops run backwards: their order must not matter.
inline Kernel reversed(Kernel kernel) {
  kernel.body = rewrite(kernel.body, [](const Stmt& s) -> Stmt {
    const For* f = s->as<For>();
    if (f == nullptr || (f->kind != LoopKind::kParallel && f->kind != LoopKind::kVector)) return s;
    For copy = *f;
    copy.kind = LoopKind::kSerial;
    copy.body = substitute(f->body, {{f->var.node(), f->extent - 1 - f->var}});
    return make(copy);
  });
  return kernel;
}

// Extents where tiles of t go wrong first.
inline std::vector<int64_t> extents_around(int64_t t) { return {0, 1, 3, t - 1, t, t + 1, 2 * t + 5}; }

inline std::vector<Parameters> all_shapes(size_t params, int64_t tile) {
  std::vector<Parameters> shapes{{}};
  for (size_t p = 0; p < params; ++p) {
    std::vector<Parameters> longer;
    for (const Parameters& s : shapes) {
      for (int64_t e : extents_around(tile)) {
        longer.push_back(s);
        longer.back().push_back(e);
      }
    }
    shapes = std::move(longer);
  }
  return shapes;
}

// A schedule, the passes after it, and the text in between keep the results at many shapes.
inline Kernel expect_schedule(const std::string& text, const std::string& schedule, int64_t tile = 8) {
  const Kernel before = parse_kernel(text);
  verify(before);
  const Kernel after = apply_schedule(before, schedule);
  const std::string printed = print(after);
  EXPECT_EQ(print(parse_kernel(printed)), printed);
  const Kernel simple = simplify(after);
  const Kernel passes = simplify(hoist_loop_invariants(partition_loops(simple)));
  const Kernel backwards = reversed(after);
  for (Parameters shape : all_shapes(before.params.size(), tile)) {
    for (size_t p = 0; p < shape.size(); ++p) shape[p] = std::max(shape[p], before.params[p].range().lo);
    for (const Kernel* k : {&after, &simple, &passes, &backwards}) {
      expect_same(before, *k, shape);
      if (::testing::Test::HasFatalFailure()) return after;
    }
  }
  // The schedule in the result replays.
  EXPECT_EQ(print(apply_schedule(before, after.schedule), true), print(after, true));
  return after;
}

inline void expect_illegal(const std::string& text, const std::string& schedule, const std::string& step,
                           const std::string& loop) {
  try {
    const Kernel after = apply_schedule(parse_kernel(text), schedule);
    ADD_FAILURE() << "legal:\n" << print(after);
  } catch (const IllegalTransform& e) {
    EXPECT_NE(std::string(e.what()).find(step), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find(loop), std::string::npos) << e.what();
  }
}

}  // namespace stax::loop::testing
