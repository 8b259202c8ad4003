// SPDX-License-Identifier: Apache-2.0
// Every scalar operation of every dtype, and every conversion, as PTX.
#include <fmt/format.h>

#include "ir/math_table.h"
#include "unit/emit/ptx_fixture.h"

namespace stax::emit {
namespace {

constexpr DType kAll[] = {DType::kBool, DType::kI8,  DType::kI16, DType::kI32,  DType::kI64, DType::kU8, DType::kU16,
                          DType::kU32,  DType::kU64, DType::kF16, DType::kBF16, DType::kF32, DType::kF64};

bool exists(ScalarOp op, DType t) {
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
    case ScalarOp::kPow: return true;
    case ScalarOp::kSqrt: return ir::is_float(t);
    default: return ir::is_float(t) || !ir::is_math_function(op);
  }
}

std::vector<ScalarOp> operations() {
  std::vector<ScalarOp> all;
#define STAX_SCALAR_OP(Name, text, arity, rule) all.push_back(ScalarOp::k##Name);
#include "ir/scalar_op.def"
  return all;
}

bool is_comparison(ScalarOp op) {
  switch (op) {
    case ScalarOp::kEqual:
    case ScalarOp::kNotEqual:
    case ScalarOp::kLess:
    case ScalarOp::kLessEqual:
    case ScalarOp::kIsNan:
    case ScalarOp::kIsInf: return true;
    default: return false;
  }
}

class PtxOps : public ::testing::TestWithParam<DType> {};

// y[op * n + i] = op(x[i], z[i])
struct OpsKernel {
  KernelWriter w{64};
  std::vector<ScalarOp> ops;
  Expr n = w.param("n", 0, 4096);
  int x, z, y, truths;
  OpsKernel(DType t, size_t first, size_t count) {
    std::vector<ScalarOp> all;
    for (ScalarOp op : operations())
      if (exists(op, t)) all.push_back(op);
    for (size_t k = first; k < std::min(first + count, all.size()); ++k) ops.push_back(all[k]);
    x = w.in(t, n), z = w.in(t, n), y = w.out(t, n * 64), truths = w.out(DType::kBool, n * 64);
    const Expr at = w.k.thread + w.k.block_index[0] * 64;
    std::vector<Stmt> body;
    for (size_t k = 0; k < ops.size(); ++k) {
      std::vector<Scalar> args = {w.load(x, at)};
      if (ir::arity_of(ops[k]) == 2) args.push_back(w.load(z, at));
      body.push_back(
          w.store(is_comparison(ops[k]) ? truths : y, at + n * static_cast<int64_t>(k), w.scalars.op(ops[k], args)));
    }
    w.k.body = w.when(symbolic::less(at, n), KernelWriter::block(body));
  }
};

TEST_P(PtxOps, GiveWhatTheirDefinitionSays) {
  const DType t = GetParam();
  for (size_t first = 0; first < 64; first += 8) {
    OpsKernel kernel(t, first, 8);
    if (kernel.ops.empty()) break;
    for (const std::string& target : run_targets()) {
      std::mt19937_64 random(test_seed());
      const size_t n = 190;
      Array x(t, n, random, false), z(t, n, random, false), y(t, n * 64, random), truths(DType::kBool, n * 64, random);
      LaunchValues values;
      values.arguments = {&x, &z, &y, &truths};
      values.params = {static_cast<int64_t>(n)};
      values.grid[0] = 3;
      run_ptx(kernel.w.k, target, values);
      if (HasFatalFailure()) return;
      int wrong = 0;
      for (size_t k = 0; k < kernel.ops.size(); ++k) {
        const ScalarOp op = kernel.ops[k];
        for (size_t i = 0; i < n && wrong < 10; ++i) {
          const ir::Value64 args[2] = {x.at(i), z.at(i)};
          ir::Value64 expected = ir::evaluate_scalar_op(op, t, std::span(args, static_cast<size_t>(ir::arity_of(op))));
          const ir::Value64 got = is_comparison(op) ? truths.at(k * n + i) : y.at(k * n + i);
          if (ir::is_float(t) && !is_comparison(op)) {
            // What arithmetic in f32 rounds once more, f16 may see from the other side of a tie.
            if (t != DType::kF64) expected.f = ir::round_to(DType::kF32, expected.f);
            expected.f = ir::round_to(t, expected.f);
          }
          Tolerance tolerance;
          if (ir::is_math_function(op)) tolerance.relative = 20 * (t == DType::kF64 ? 0x1p-52 : 0x1p-23);
          if (ir::is_math_function(op))
            tolerance.absolute = t == DType::kF64 ? 1e-300 : t == DType::kF16 ? 6e-8 : 1e-37;
          if (t == DType::kF16 || t == DType::kBF16)
            tolerance.relative = ir::is_math_function(op) ? (t == DType::kF16 ? 0x1p-10 : 0x1p-7) : 0;
          if (close(is_comparison(op) ? DType::kBool : t, expected, got, tolerance)) continue;
          ++wrong;
          ADD_FAILURE() << target << " " << ir::name_of(op) << "<" << ir::name_of(t) << ">("
                        << (ir::is_float(t) ? fmt::format("{}, {}", x.at(i).f, z.at(i).f)
                                            : fmt::format("{}, {}", x.at(i).i, z.at(i).i))
                        << ") is "
                        << (ir::is_float(t) && !is_comparison(op) ? fmt::format("{} not {}", got.f, expected.f)
                                                                  : fmt::format("{} not {}", got.i, expected.i))
                        << ", STAX_TEST_SEED=" << test_seed();
        }
      }
    }
    expect_assembles(kernel.w.k, run_targets());
  }
}

TEST_P(PtxOps, Casts) {
  const DType from = GetParam();
  KernelWriter w(64);
  const Expr n = w.param("n", 0, 4096);
  const int x = w.in(from, n);
  std::vector<int> outs;
  for (DType to : kAll) outs.push_back(w.out(to, n));
  const Expr at = w.k.thread + w.k.block_index[0] * 64;
  std::vector<Stmt> body;
  for (size_t k = 0; k < outs.size(); ++k) body.push_back(w.store(outs[k], at, ir::cast(kAll[k], w.load(x, at))));
  w.k.body = w.when(symbolic::less(at, n), KernelWriter::block(body));
  for (const std::string& target : run_targets()) {
    std::mt19937_64 random(test_seed() + 1);
    const size_t count = 300;
    Array data(from, count, random, false);
    std::vector<Array> results;
    for (DType to : kAll) results.emplace_back(to, count, random);
    LaunchValues values;
    values.arguments = {&data};
    for (Array& r : results) values.arguments.push_back(&r);
    values.params = {static_cast<int64_t>(count)};
    values.grid[0] = 5;
    run_ptx(w.k, target, values);
    if (HasFatalFailure()) return;
    int wrong = 0;
    for (size_t k = 0; k < outs.size(); ++k)
      for (size_t i = 0; i < count && wrong < 10; ++i) {
        const ir::Value64 expected = ir::evaluate_cast(kAll[k], from, data.at(i)), got = results[k].at(i);
        if (close(kAll[k], expected, got, {})) continue;
        ++wrong;
        ADD_FAILURE() << target << " " << ir::name_of(from) << " to " << ir::name_of(kAll[k]) << ": "
                      << (ir::is_float(from) ? fmt::format("{}", data.at(i).f) : fmt::format("{}", data.at(i).i))
                      << " gives "
                      << (ir::is_float(kAll[k]) ? fmt::format("{} not {}", got.f, expected.f)
                                                : fmt::format("{} not {}", got.i, expected.i))
                      << ", STAX_TEST_SEED=" << test_seed();
      }
  }
  expect_assembles(w.k, run_targets());
}

INSTANTIATE_TEST_SUITE_P(All, PtxOps, ::testing::ValuesIn(kAll),
                         [](const auto& info) { return std::string(ir::name_of(info.param)); });

TEST(PtxRandom, IsPhilox) {
  KernelWriter w(32, 64);
  const int seed = w.in(DType::kI64, w.n(1)), y = w.out(DType::kU32, w.n(32));
  const Scalar counter = w.index(w.k.thread * 1099511627777);
  w.k.body = w.store(y, w.k.thread, w.scalars.op(ScalarOp::kHash, {w.load(seed, 0), counter}));
  std::mt19937_64 random(test_seed());
  Array s(DType::kI64, 1, random), out(DType::kU32, 32, random);
  ir::Value64 v;
  v.i = static_cast<int64_t>(random());
  s.set(0, v);
  LaunchValues values;
  values.arguments = {&s, &out};
  run_ptx(w.k, "cuda:sm_80", values);
  for (size_t i = 0; i < 32; ++i)
    EXPECT_EQ(out.at(i).i, ir::random_bits(static_cast<uint64_t>(v.i), i * 1099511627777));
  expect_assembles(w.k);
}

}  // namespace
}  // namespace stax::emit
