// SPDX-License-Identifier: Apache-2.0
// Scalar operations and casts of every type in the C dialects: run on OpenCL against ir/scalar.h, assembled for CUDA and HIP.
#include <fmt/format.h>

#include "ir/math_table.h"
#include "unit/emit/compare.h"
#include "unit/emit/gpu_kernel.h"

namespace stax::emit {
namespace {

using ir::ScalarOp;
using ir::Value64;

const std::vector<ScalarOp>& all_ops() {
  static const std::vector<ScalarOp> ops = {
#define STAX_SCALAR_OP(Name, text, arity, rule) ScalarOp::k##Name,
#include "ir/scalar_op.def"
  };
  return ops;
}

bool applies(ScalarOp op, DType t) {
  switch (op) {
    case ScalarOp::kSelect:
    case ScalarOp::kCheckedIndex:
    case ScalarOp::kHash: return false;
    case ScalarOp::kNot:
    case ScalarOp::kAnd:
    case ScalarOp::kOr:
    case ScalarOp::kXor: return !ir::is_float(t);
    case ScalarOp::kShiftLeft:
    case ScalarOp::kShiftRight: return ir::is_integer(t);
    case ScalarOp::kEqual:
    case ScalarOp::kNotEqual:
    case ScalarOp::kMin:
    case ScalarOp::kMax: return true;
    case ScalarOp::kIsNan:
    case ScalarOp::kIsInf: return ir::is_float(t);
    default: break;
  }
  if (t == DType::kBool) return false;
  const bool floats_only = (ir::is_math_function(op) && op != ScalarOp::kPow) || op == ScalarOp::kSqrt;
  return !floats_only || ir::is_float(t);
}

DType result_of(ScalarOp op, DType t) {
  const DType types[] = {t, t};
  return ir::result_dtype(op, std::span(types).first(static_cast<size_t>(ir::arity_of(op))));
}

constexpr int64_t kCount = 1000;

std::string show(DType t, Value64 v) { return ir::is_float(t) ? fmt::format("{}", v.f) : fmt::format("{}", v.i); }

class GpuOps : public ::testing::TestWithParam<DType> {};

// One kernel with an output for each operation.
thread::Kernel ops_kernel(DType t, std::vector<ScalarOp>& ops, bool functions = true) {
  Maker m("ops");
  const Expr n = m.param("n");
  const int x = m.global("x", t, n, false), y = m.global("y", t, n, false);
  std::vector<Stmt> body;
  for (ScalarOp op : all_ops()) {
    if (!applies(op, t) || (!functions && ir::is_math_function(op))) continue;
    ops.push_back(op);
    std::vector<Scalar> args{m.load(x, m.linear())};
    if (ir::arity_of(op) == 2) args.push_back(m.load(y, m.linear()));
    const int out = m.global(std::string(ir::name_of(op)), result_of(op, t), n, true);
    body.push_back(m.store(out, m.linear(), m.call(op, args)));
  }
  m.kernel().grid[0] = symbolic::ceildiv(n, 64);
  return m.finish({m.when(symbolic::less(m.linear(), n), body)});
}

TEST_P(GpuOps, AreThoseOfTheDefinition) {
  STAX_NEEDS_OPENCL();
  const DType t = GetParam();
  std::vector<ScalarOp> ops;
  const thread::Kernel kernel = ops_kernel(t, ops);
  const uint64_t seed = std::random_device()();
  std::mt19937_64 random(seed);
  const size_t size = ir::byte_size(t);
  std::vector<std::unique_ptr<OpenclBuffer>> buffers;
  std::vector<OpenclBuffer*> all;
  for (int i = 0; i < 2; ++i) {
    buffers.push_back(std::make_unique<OpenclBuffer>(kCount * size));
    for (int64_t e = 0; e < kCount; ++e)
      ir::store_element(t, buffers.back()->data(), e, random_value(t, random, false));
  }
  for (ScalarOp op : ops) buffers.push_back(std::make_unique<OpenclBuffer>(kCount * ir::byte_size(result_of(op, t))));
  for (const auto& b : buffers) all.push_back(b.get());
  run_opencl(kernel, all, {kCount});
  for (size_t k = 0; k < ops.size(); ++k) {
    const ScalarOp op = ops[k];
    const DType to = result_of(op, t);
    Tolerance tolerance;
    if (ir::is_math_function(op) && ir::is_float(t)) tolerance = {t == DType::kF64 ? 1e-13 : 3e-7, 0};
    for (int64_t e = 0; e < kCount; ++e) {
      const Value64 args[] = {ir::load_element(t, all[0]->data(), e), ir::load_element(t, all[1]->data(), e)};
      Value64 expected = ir::evaluate_scalar_op(op, t, std::span(args).first(static_cast<size_t>(ir::arity_of(op))));
      // Of f16 and bf16 arithmetic is in f32.
      if (ir::is_float(to)) expected.f = ir::round_to(to, ir::round_to(ir::compute_type(to), expected.f));
      const Value64 got = ir::load_element(to, all[k + 2]->data(), e);
      ASSERT_TRUE(close(to, expected, got, tolerance))
          << ir::name_of(op) << " of " << show(t, args[0]) << ", " << show(t, args[1]) << ": expected "
          << show(to, expected) << ", got " << show(to, got) << "; seed " << seed;
    }
  }
}

TEST_P(GpuOps, Casts) {
  STAX_NEEDS_OPENCL();
  const DType from = GetParam();
  Maker m("casts");
  const Expr n = m.param("n");
  const int x = m.global("x", from, n, false);
  std::vector<Stmt> body;
  for (int to = 0; to < ir::kDTypeCount; ++to) {
    const auto t = static_cast<DType>(to);
    const int out = m.global("to_" + std::string(ir::name_of(t)), t, n, true);
    body.push_back(m.store(out, m.linear(), m.context().scalars.cast(t, m.load(x, m.linear()))));
  }
  m.kernel().grid[0] = symbolic::ceildiv(n, 64);
  const thread::Kernel kernel = m.finish({m.when(symbolic::less(m.linear(), n), body)});
  const uint64_t seed = std::random_device()();
  std::mt19937_64 random(seed);
  std::vector<std::unique_ptr<OpenclBuffer>> buffers;
  buffers.push_back(std::make_unique<OpenclBuffer>(kCount * ir::byte_size(from)));
  for (int64_t e = 0; e < kCount; ++e)
    ir::store_element(from, buffers[0]->data(), e, random_value(from, random, false));
  std::vector<OpenclBuffer*> all{buffers[0].get()};
  for (int to = 0; to < ir::kDTypeCount; ++to) {
    buffers.push_back(std::make_unique<OpenclBuffer>(kCount * ir::byte_size(static_cast<DType>(to))));
    all.push_back(buffers.back().get());
  }
  run_opencl(kernel, all, {kCount});
  for (int to = 0; to < ir::kDTypeCount; ++to) {
    const auto t = static_cast<DType>(to);
    for (int64_t e = 0; e < kCount; ++e) {
      const Value64 given = ir::load_element(from, all[0]->data(), e);
      const Value64 expected = ir::evaluate_cast(t, from, given),
                    got = ir::load_element(t, all[static_cast<size_t>(to) + 1]->data(), e);
      ASSERT_TRUE(close(t, expected, got, {}))
          << ir::name_of(from) << " " << show(from, given) << " to " << ir::name_of(t) << ": expected "
          << show(t, expected) << ", got " << show(t, got) << "; seed " << seed;
    }
  }
}

TEST_P(GpuOps, AreTakenByTheCompilersOfCudaAndHip) {
  const DType t = GetParam();
  if (!missing_compiler("cuda").empty() && !missing_compiler("hip").empty()) GTEST_SKIP() << missing_compiler("cuda");
  // Elementary functions of f16 and bf16 are those of f32.
  const bool is_narrow = t == DType::kF16 || t == DType::kBF16;
  std::vector<ScalarOp> ops;
  const thread::Kernel kernel = ops_kernel(t, ops, !is_narrow);
  expect_assembles(kernel,
                   {t == DType::kF16 ? "cuda:sm_75" : "cuda:sm_80", t == DType::kBF16 ? "hip:gfx1100" : "hip:gfx90a"},
                   false);
}

INSTANTIATE_TEST_SUITE_P(Types, GpuOps,
                         ::testing::Values(DType::kBool, DType::kI8, DType::kI16, DType::kI32, DType::kI64, DType::kU8,
                                           DType::kU16, DType::kU32, DType::kU64, DType::kF16, DType::kBF16,
                                           DType::kF32, DType::kF64),
                         [](const auto& info) { return std::string(ir::name_of(info.param)); });

}  // namespace
}  // namespace stax::emit
