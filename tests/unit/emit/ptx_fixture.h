// SPDX-License-Identifier: Apache-2.0
#pragma once
// Kernels of thread IR written by hand, as PTX in the interpreter and through ptxas.
#include <gtest/gtest.h>

#include <cstdlib>
#include <initializer_list>
#include <iostream>

#include "emit/ptx.h"
#include "ir/target.h"
#include "support/ptx_interpreter.h"
#include "symbolic/evaluate.h"
#include "thread/thread_ir.h"
#include "unit/emit/compare.h"

namespace stax::emit {

inline ir::Value64 number(double v) {
  ir::Value64 x;
  x.f = v;
  return x;
}
inline ir::Value64 whole(int64_t v) {
  ir::Value64 x;
  x.i = v;
  return x;
}

using ir::DType;
using ir::Scalar;
using ir::ScalarOp;
using symbolic::Expr;
using thread::Space;
using thread::Stmt;

inline const std::vector<std::string>& cuda_targets() {
  static const std::vector<std::string> all = {"cuda:sm_75",  "cuda:sm_80",   "cuda:sm_86",  "cuda:sm_89",
                                               "cuda:sm_90a", "cuda:sm_100a", "cuda:sm_120a"};
  return all;
}

inline uint64_t test_seed() {
  static const uint64_t seed = [] {
    const char* wanted = std::getenv("STAX_TEST_SEED");
    const uint64_t s = wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : std::random_device()();
    std::cout << "STAX_TEST_SEED=" << s << "\n";
    return s;
  }();
  return seed;
}

/// Writes a kernel: arguments first, then other buffers, then statements.
struct KernelWriter {
  thread::Kernel k;
  symbolic::ExprTable& exprs;
  ir::ScalarTable& scalars;

  explicit KernelWriter(int block = 32, int index_bits = 32)
      : KernelWriter(std::make_shared<ir::Context>(), block, index_bits) {}
  KernelWriter(const std::shared_ptr<ir::Context>& context, int block, int index_bits)
      : exprs(context->exprs), scalars(context->scalars) {
    k.context = context;
    k.name = "kernel";
    k.block = block;
    k.index_bits = index_bits;
    k.thread = symbol("thread", 0, block - 1);
    for (int d = 0; d < 3; ++d) {
      k.block_index[d] = symbol("block" + std::to_string(d), 0, 65535);
      k.grid[d] = exprs.constant(1);
    }
  }
  Expr symbol(const std::string& name, int64_t lo, int64_t hi, int64_t multiple = 1) {
    return exprs.new_symbol({name, symbolic::SymbolKind::kLoop, {lo, hi}, multiple});
  }
  Expr param(const std::string& name, int64_t lo = 0, int64_t hi = symbolic::kMaxExtent) {
    k.params.push_back(exprs.new_symbol({name, symbolic::SymbolKind::kParam, {lo, hi}, 1}));
    return k.params.back();
  }
  int buffer(Space space, DType t, Expr count, bool written = false) {
    k.buffers.push_back({"b" + std::to_string(k.buffers.size()), t, space, count, 0, written});
    if (space == Space::kGlobal) k.arguments = static_cast<int>(k.buffers.size());
    return static_cast<int>(k.buffers.size()) - 1;
  }
  int in(DType t, Expr count) { return buffer(Space::kGlobal, t, count); }
  int out(DType t, Expr count) { return buffer(Space::kGlobal, t, count, true); }
  int local(DType t, int64_t count) { return buffer(Space::kLocal, t, exprs.constant(count), true); }
  int shared(DType t, Expr count) { return buffer(Space::kShared, t, count, true); }
  Expr n(int64_t v) { return exprs.constant(v); }
  Scalar index(Expr e) { return scalars.index(e); }
  Scalar load(int slot, Expr at) { return scalars.load(slot, k.buffers[static_cast<size_t>(slot)].dtype, {index(at)}); }
  Scalar load(int slot, int64_t at) { return load(slot, n(at)); }
  Scalar truth(Expr e) { return ir::cast(DType::kBool, index(e)); }
  Scalar f32(double v) { return scalars.constant(DType::kF32, v); }
  Stmt store(int slot, Expr at, Scalar value) { return thread::make(thread::Store{slot, index(at), value}); }
  Stmt store(int slot, int64_t at, Scalar value) { return store(slot, n(at), value); }
  static Stmt block(std::vector<Stmt> s) { return thread::make(thread::Block{std::move(s)}); }
  Stmt when(Expr condition, Stmt body, Stmt otherwise = nullptr) {
    return thread::make(thread::If{truth(condition), std::move(body), std::move(otherwise)});
  }
  static Stmt loop(Expr var, Expr extent, Stmt body) {
    return thread::make(thread::For{var, extent, false, std::move(body)});
  }
  static Stmt barrier() { return thread::make(thread::Barrier{}); }
};

/// Elements of an argument, with noise behind them that nobody may touch.
struct Array {
  DType dtype;
  std::vector<uint8_t> bytes;
  Array(DType t, size_t count, std::mt19937_64& random, bool tame = true) : dtype(t), bytes(count * ir::byte_size(t)) {
    for (size_t i = 0; i < count; ++i)
      ir::store_element(t, bytes.data(), static_cast<int64_t>(i), random_value(t, random, tame));
  }
  ir::Value64 at(size_t i) const { return ir::load_element(dtype, bytes.data(), static_cast<int64_t>(i)); }
  void set(size_t i, ir::Value64 v) { ir::store_element(dtype, bytes.data(), static_cast<int64_t>(i), v); }
  size_t count() const { return bytes.size() / ir::byte_size(dtype); }
};

struct LaunchValues {
  std::vector<Array*> arguments;
  std::vector<int64_t> params;
  std::array<int64_t, 4> fault{};
  int grid[3] = {1, 1, 1};
};

inline int64_t evaluate_with(const thread::Kernel& k, const std::vector<int64_t>& params, Expr e) {
  std::unordered_map<const symbolic::ExprNode*, int64_t> values;
  for (size_t i = 0; i < params.size(); ++i) values[k.params[i].node()] = params[i];
  return symbolic::evaluate(e, values);
}

inline void run_ptx(const thread::Kernel& k, const std::string& target, LaunchValues& values) {
  const std::string text = emit_ptx(k, ir::find_target(target));
  EXPECT_EQ(text, emit_ptx(k, ir::find_target(target)));
  testing::PtxLaunch launch;
  std::copy(values.grid, values.grid + 3, launch.grid);
  launch.block = k.block;
  launch.seed = test_seed();
  // Vector accesses want aligned arguments, as every allocation is.
  std::vector<std::unique_ptr<uint8_t, decltype(&std::free)>> copies;
  for (size_t a = 0; a < values.arguments.size(); ++a) {
    const std::vector<uint8_t>& bytes = values.arguments[a]->bytes;
    copies.emplace_back(static_cast<uint8_t*>(std::aligned_alloc(256, (bytes.size() + 511) / 256 * 256)), &std::free);
    std::copy(bytes.begin(), bytes.end(), copies.back().get());
    launch.memory.push_back({copies.back().get(), bytes.size(), k.buffers[a].written});
    launch.arguments.push_back(reinterpret_cast<uint64_t>(copies.back().get()));
  }
  for (int64_t p : values.params) launch.arguments.push_back(static_cast<uint64_t>(p));
  if (!k.check_messages.empty()) {
    launch.memory.push_back({values.fault.data(), sizeof(values.fault), true});
    launch.arguments.push_back(reinterpret_cast<uint64_t>(values.fault.data()));
  }
  launch.dynamic_shared = static_cast<size_t>(evaluate_with(k, values.params, thread::dynamic_shared_bytes(k)));
  try {
    testing::PtxProgram(text).run(launch);
  } catch (const std::runtime_error& e) {
    FAIL() << e.what() << "\n"
           << target << ", STAX_TEST_SEED=" << test_seed() << "\n"
           << (text.size() < 20000 ? text : text.substr(0, 20000));
  }
  for (size_t a = 0; a < values.arguments.size(); ++a)
    std::copy(copies[a].get(), copies[a].get() + values.arguments[a]->bytes.size(), values.arguments[a]->bytes.begin());
}

inline const std::vector<std::string>& run_targets() {
  static const std::vector<std::string> some = {"cuda:sm_75", "cuda:sm_80", "cuda:sm_120a"};
  return some;
}

/// Assembles for machines, without spills and (`stack`) a stack.
inline void expect_assembles(const thread::Kernel& k, const std::vector<std::string>& targets = cuda_targets(),
                             bool stack = false) {
  if (testing::find_ptxas().empty()) {
    std::cout << "ptxas is neither on PATH nor under CUDA_HOME: the text is not assembled\n";
    return;
  }
  for (const std::string& name : targets) {
    const ir::Target& target = ir::find_target(name);
    const std::string text = emit_ptx(k, target);
    const testing::Assembled made = testing::assemble(text, target.arch);
    ASSERT_EQ(made.log, "") << name << "\n" << text.substr(0, 20000);
    EXPECT_EQ(made.spill_bytes, 0) << name;
    if (!stack) {
      EXPECT_EQ(made.stack_bytes, 0) << name;
    }
  }
}

}  // namespace stax::emit
