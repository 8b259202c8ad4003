// SPDX-License-Identifier: Apache-2.0
// Every allocation of a call fails once, those of the device's memory and those of operator new: the call ends with a clean error, and the next one
// is right.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#include "compile/pipeline.h"
#include "session/session.h"
#include "unit/compile/random_graph.h"

namespace {

// Allocations from now on until one fails; negative: none does. Of the whole process: a call of one thread is all that runs.
std::atomic<int64_t> left{-1};
std::atomic<int64_t> seen{0};

bool fails() {
  seen.fetch_add(1, std::memory_order_relaxed);
  if (left.load(std::memory_order_relaxed) < 0) return false;
  return left.fetch_sub(1, std::memory_order_relaxed) == 0;
}

}  // namespace

// NOLINTBEGIN(misc-new-delete-overloads)
void* operator new(size_t bytes) {
  void* p = fails() ? nullptr : std::malloc(bytes > 0 ? bytes : 1);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return fails() ? nullptr : std::malloc(bytes > 0 ? bytes : 1);
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }
// NOLINTEND(misc-new-delete-overloads)

namespace stax::session {
namespace {

using runtime::Item;

/// A device whose memory runs out where `fails` says so.
class ScarceDevice final : public runtime::Device {
 public:
  explicit ScarceDevice(std::unique_ptr<runtime::Device> device) : device_(std::move(device)) {}
  std::string name() const override { return device_->name(); }
  bool unified() const override { return device_->unified(); }
  void* allocate(size_t bytes) override { return fails() ? nullptr : device_->allocate(bytes); }
  void release(void* data, size_t bytes) override { device_->release(data, bytes); }
  void copy_in(void* to, const void* host, size_t bytes) override { device_->copy_in(to, host, bytes); }
  void copy_out(void* host, const void* from, size_t bytes) override { device_->copy_out(host, from, bytes); }
  void copy(void* to, const void* from, size_t bytes) override { device_->copy(to, from, bytes); }
  void launch(const runtime::Launch& launch) override { device_->launch(launch); }
  void synchronize() override { device_->synchronize(); }

 private:
  std::unique_ptr<runtime::Device> device_;
};

std::vector<Item> items_of(const std::vector<tensor::Item>& from) {
  std::vector<Item> items;
  for (const tensor::Item& i : from) {
    Item& item = items.emplace_back();
    auto keep = std::make_shared<ir::Literal>(i.tensor);
    item.tensor = {keep->dtype(), keep->extents(), keep->data(), std::shared_ptr<void>(keep, keep->data())};
  }
  return items;
}

bool same(const std::vector<Item>& a, const std::vector<Item>& b) {
  if (a.size() != b.size()) return false;
  for (size_t k = 0; k < a.size(); ++k) {
    const runtime::Tensor &x = a[k].tensor, &y = b[k].tensor;
    if (x.extents != y.extents || (x.bytes() > 0 && std::memcmp(x.data, y.data, x.bytes()) != 0)) return false;
  }
  return true;
}

/// Each allocation of a call in turn. `fresh`: in a module that has run nothing yet, so that nothing is there from before. `check_every`: of
/// runtime::ModuleOptions.
void check(tensor::Graph& graph, const std::vector<Item>& inputs, bool fresh, int64_t check_every = 0) {
  compile::CompileOptions options;
  options.isas = isas_for_host();
  const compile::Compiled compiled = compile::compile_graph(graph, options);
  auto open = [&] {
    return std::make_unique<runtime::Module>(compiled.program,
                                             std::make_unique<ScarceDevice>(runtime::open_cpu(*compiled.program)),
                                             runtime::ModuleOptions{.threads = 1, .check_every = check_every});
  };
  auto module = open();
  const std::vector<Item> want = module->run(inputs);
  int64_t failed = 0;
  for (int64_t at = 0;; ++at) {
    ASSERT_LT(at, 20'000) << "a call makes no end of allocations";
    if (fresh) module = open();
    bool threw = false;
    left = at;
    try {
      module->run(inputs);
    } catch (const std::bad_alloc&) {
      threw = true;
    } catch (const UserError&) {
      threw = true;
    }
    const bool reached = left.exchange(-1) < 0;
    failed += threw;
    // A failure that nobody saw is one that was got over, by giving memory back.
    ASSERT_TRUE(same(module->run(inputs), want)) << "after allocation " << at << " failed";
    if (!reached) break;
  }
  EXPECT_GT(failed, 0);
}

TEST(AllocationFailure, EndsACallCleanly) {
  int checked = 0;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    compile::RandomGraph random(71'000 + seed);
    random.chain(6);
    std::optional<compile::RandomGraph::Call> call;
    for (uint64_t c = 0; c < 10 && !call; ++c) call = random.call(seed * 100 + c);
    if (!call) continue;
    try {
      tensor::interpret(*random.graph, call->inputs);
    } catch (const UserError&) {
      continue;
    }
    ++checked;
    SCOPED_TRACE("seed " + std::to_string(71'000 + seed));
    check(*random.graph, items_of(call->inputs), seed % 2 == 0, seed % 4 < 2 ? 1 : 0);
    if (testing::Test::HasFatalFailure()) return;
  }
  EXPECT_GT(checked, 4);
}

TEST(AllocationFailure, EndsACallOfProceduresCleanly) {
  for (const bool fresh : {true, false}) {
    tensor::Graph graph(std::make_shared<ir::Context>());
    tensor::Builder b(graph, graph.body);
    symbolic::Expr n = graph.exprs().new_symbol({.name = "n"});
    tensor::Value* x = graph.add_input(graph.body, tensor::Type::tensor(ir::DType::kF32, {n, b.constant_expr(3)}), "x");
    graph.inputs.push_back({"x", x});
    // What data decides the size of, and what is sorted.
    symbolic::Expr found = b.new_symbol("found", {0, symbolic::kMaxExtent});
    tensor::Value* where =
        b.op(tensor::NonZero{}, {x}, {tensor::Type::tensor(ir::DType::kI64, {b.constant_expr(2), found})}, {found})
            ->result();
    tensor::Op* top = b.op(tensor::TopK{1, true}, {x},
                           {tensor::Type::tensor(ir::DType::kF32, {n, b.constant_expr(2)}),
                            tensor::Type::tensor(ir::DType::kI64, {n, b.constant_expr(2)})});
    tensor::Value* rows = b.softmax(x, 1);
    int k = 0;
    for (tensor::Value* v : {where, top->result(0), top->result(1), rows}) {
      graph.outputs.push_back({"output" + std::to_string(k++), v});
      graph.body.outputs.push_back(v);
    }
    tensor::Item item;
    item.tensor = ir::Literal(ir::DType::kF32, {5, 3});
    for (int64_t i = 0; i < 15; ++i) item.tensor.set(i, {.f = static_cast<double>((i * 7) % 4)});
    check(graph, items_of({item}), fresh);
  }
}

// A file's bytes -> program -> module with threads of its own, with each allocation failing in turn: a clean error, and the next load is right.
TEST(AllocationFailure, EndsALoadCleanly) {
  compile::RandomGraph random(71'003);
  random.chain(6);
  std::optional<compile::RandomGraph::Call> call;
  for (uint64_t c = 0; c < 50 && !call; ++c) {
    call = random.call(c);
    try {
      if (call) tensor::interpret(*random.graph, call->inputs);
    } catch (const UserError&) {
      call.reset();
    }
  }
  ASSERT_TRUE(call);
  const std::vector<Item> inputs = items_of(call->inputs);
  compile::CompileOptions options;
  options.isas = isas_for_host();
  const std::vector<uint8_t> bytes = program::serialize(*compile::compile_graph(*random.graph, options).program);
  auto load = [&] {
    auto program = std::make_shared<program::Program>(program::deserialize(bytes, "the file"));
    program::verify(*program);
    return std::make_unique<runtime::Module>(program, std::make_unique<ScarceDevice>(runtime::open_cpu(*program)),
                                             runtime::ModuleOptions{.threads = 3});
  };
  const std::vector<Item> want = load()->run(inputs);
  int64_t failed = 0;
  for (int64_t at = 0;; ++at) {
    ASSERT_LT(at, 200'000) << "a load makes no end of allocations";
    std::unique_ptr<runtime::Module> module;
    left = at;
    try {
      module = load();
    } catch (const std::bad_alloc&) {
    } catch (const UserError&) {
    }
    const bool reached = left.exchange(-1) < 0;
    failed += !module;
    if (module) {
      ASSERT_TRUE(same(module->run(inputs), want)) << "after allocation " << at << " failed";
    }
    if (!reached) break;
  }
  EXPECT_GT(failed, 100);
  EXPECT_TRUE(same(load()->run(inputs), want));
}

}  // namespace
}  // namespace stax::session
