// SPDX-License-Identifier: Apache-2.0
// Whole random graphs through the whole compiler: results as the tensor interpreter gives them, the same bits with any number of threads and of
// callers, at shapes in any order.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "runtime/host_workers.h"
#include "session/devices.h"
#include "unit/compile/random_graph.h"
#include "unit/runtime/fake_device.h"

namespace stax::session {
namespace {

using compile::RandomGraph;
using ir::DType;
using ir::Literal;
using runtime::Item;

Item item_of(const tensor::Item& from) {
  Item item;
  item.tensor.dtype = from.tensor.dtype();
  item.tensor.extents = from.tensor.extents();
  item.tensor.data = from.tensor.data();
  auto keep = std::make_shared<Literal>(from.tensor);
  item.tensor.owner = std::shared_ptr<void>(keep, const_cast<void*>(item.tensor.data));
  return item;
}
std::vector<Item> items_of(const std::vector<tensor::Item>& from) {
  std::vector<Item> items;
  for (const auto& i : from) items.push_back(item_of(i));
  return items;
}

// The largest of |want| decides what is near: sums of numbers of both signs lose digits.
std::string differs(const runtime::Tensor& got, const Literal& want, double near) {
  if (got.dtype != want.dtype() || got.extents != want.extents())
    return "another type or shape: " + compile::text_of(got.extents) + " instead of " +
           compile::text_of(want.extents());
  double top = 0;
  if (ir::is_float(want.dtype()))
    for (int64_t i = 0; i < want.count(); ++i)
      if (std::isfinite(want.at(i).f)) top = std::max(top, std::fabs(want.at(i).f));
  for (int64_t i = 0; i < want.count(); ++i) {
    const ir::Value64 g = ir::load_element(got.dtype, got.data, i), w = want.at(i);
    if (!ir::is_float(want.dtype())) {
      if (g.i != w.i) return fmt::format("element {}: {} instead of {}", i, g.i, w.i);
    } else if (!(g.f == w.f || (std::isnan(g.f) && std::isnan(w.f)) || std::fabs(g.f - w.f) <= near * (1 + top))) {
      return fmt::format("element {}: {} instead of {}", i, g.f, w.f);
    }
  }
  return {};
}

bool same_bits(const std::vector<Item>& a, const std::vector<Item>& b) {
  for (size_t k = 0; k < a.size(); ++k)
    if (a[k].tensor.extents != b[k].tensor.extents ||
        (a[k].tensor.bytes() > 0 && std::memcmp(a[k].tensor.data, b[k].tensor.data, a[k].tensor.bytes()) != 0))
      return false;
  return true;
}

// Fused ops round less often than the graph says: what is near depends on the shortest type of float on the way.
double near_of(const tensor::Graph& graph) {
  double near = 1e-9;
  const auto look = [&](const tensor::Value* v) {
    const DType t = v->type.dtype;
    if (ir::is_float(t))
      near = std::max(near, t == DType::kBF16 ? 8e-2 : t == DType::kF16 ? 2e-2 : t == DType::kF32 ? 2e-4 : 1e-9);
  };
  for (const auto& input : graph.inputs) look(input.value);
  tensor::for_each_op(graph.body, [&](const tensor::Op& op) {
    for (const auto& v : op.results) look(v.get());
  });
  return near;
}

/// A random graph, calls of it and what they have to give, and its program.
struct Model {
  explicit Model(uint64_t seed, int ops, int calls_wanted, std::vector<emit::Isa> isas = isas_for_host())
      : random(seed) {
    random.chain(ops);
    near = near_of(*random.graph);
    for (uint64_t c = 0; static_cast<int>(calls.size()) < calls_wanted && c < 40; ++c) {
      auto call = random.call(seed * 100 + c);
      if (!call) continue;
      try {
        want.push_back(tensor::interpret(*random.graph, call->inputs));
      } catch (const UserError&) {
        continue;  // a size that the graph cannot take
      }
      calls.push_back(std::move(*call));
    }
    compile::CompileOptions options;
    options.isas = std::move(isas);
    compiled = compile::compile_graph(*random.graph, options);
  }
  std::unique_ptr<Session> open(const std::string& device, int threads,
                                std::map<std::string, uint32_t> forced = {}) const {
    SessionOptions options;
    options.device = device;
    options.threads = threads;
    options.forced_versions = std::move(forced);
    return make_program_session(compiled.program, options, 0, 0);
  }
  RandomGraph random;
  double near = 0;
  std::vector<RandomGraph::Call> calls;
  std::vector<std::vector<tensor::Item>> want;
  compile::Compiled compiled;
};

uint64_t seed_of(uint64_t test) {
  const char* text = std::getenv("STAX_TEST_SEED");
  return (text != nullptr ? std::strtoull(text, nullptr, 10) * 1'000'003 : 0) + test * 10'000;
}

/// The program on a device whose memory the host cannot touch and that is late with everything: where results are right, nothing is read or
/// written behind its back.
class ElsewhereSession {
 public:
  explicit ElsewhereSession(const std::shared_ptr<program::Program>& program)
      : native_(runtime::open_cpu(*program)),
        pool_(1),
        memory_(std::make_shared<runtime::MemoryPool>(std::make_shared<runtime::HostDevice>())),
        workers_(pool_, *memory_),
        module_(program, std::make_unique<runtime::FakeDevice>([this](const runtime::Launch& l) {
                  runtime::Launch here = l;
                  here.workers = &workers_;
                  native_->launch(here);
                }),
                {}) {}
  std::vector<Item> run(std::span<const Item> inputs) { return module_.run(inputs); }

 private:
  std::unique_ptr<runtime::Device> native_;
  runtime::ThreadPool pool_;
  std::shared_ptr<runtime::MemoryPool> memory_;
  runtime::HostWorkers workers_;
  runtime::Module module_;
};

TEST(RandomModels, AgreeWithTheirGraphOnEveryDeviceAndUnderEveryVersion) {
  for (uint64_t g = 0; g < 60; ++g) {
    const uint64_t seed = seed_of(11) + g;
    // Most on this machine's own instruction set, some on the least.
    const Model model(seed, 2 + static_cast<int>(g % 14), 4,
                      g % 6 == 5 ? std::vector{emit::Isa::kBaseline} : isas_for_host());
    std::vector<std::pair<std::string, std::unique_ptr<Session>>> sessions;
    sessions.emplace_back("cpu", model.open("cpu", 1));
    if (g % 4 == 0) sessions.emplace_back("loop", model.open("loop", 1));
    for (const uint32_t v : {0u, 1u, 9u})
      sessions.emplace_back("cpu, version " + std::to_string(v), model.open("cpu", 2, {{"*", v}}));
    ElsewhereSession elsewhere(model.compiled.program);
    sessions.emplace_back("a device with memory of its own", nullptr);
    for (const auto& [name, session] : sessions) {
      for (size_t c = 0; c < model.calls.size(); ++c) {
        const std::vector<Item> inputs = items_of(model.calls[c].inputs);
        const std::vector<Item> got = session ? session->run(inputs, nullptr) : elsewhere.run(inputs);
        for (size_t k = 0; k < got.size(); ++k)
          ASSERT_EQ(differs(got[k].tensor, model.want[c][k].tensor, model.near), "")
              << "seed " << seed << " on " << name << ", call " << c << " at "
              << compile::text_of(model.calls[c].extents) << ", output " << k << "\n"
              << tensor::print(*model.random.graph).substr(0, 5000);
      }
    }
  }
}

TEST(RandomModels, GiveTheSameBitsWithAnyNumberOfThreadsAndAgain) {
  for (uint64_t g = 0; g < 15; ++g) {
    const Model model(seed_of(12) + g, 8, 4);
    const auto one = model.open("cpu", 1), two = model.open("cpu", 2), five = model.open("cpu", 5);
    for (int round = 0; round < 2; ++round) {
      for (const auto& call : model.calls) {
        const std::vector<Item> inputs = items_of(call.inputs), first = one->run(inputs, nullptr);
        ASSERT_TRUE(same_bits(first, two->run(inputs, nullptr))) << "seed " << seed_of(12) + g;
        ASSERT_TRUE(same_bits(first, five->run(inputs, nullptr))) << "seed " << seed_of(12) + g;
      }
    }
  }
}

TEST(RandomModels, AFileRunsAsTheProgramInMemory) {
  for (uint64_t g = 0; g < 10; ++g) {
    const Model model(seed_of(13) + g, 6, 3);
    const std::vector<uint8_t> bytes = program::serialize(*model.compiled.program);
    const auto read =
        make_program_session(std::make_shared<program::Program>(program::deserialize(bytes, "file")), {}, 0, 0);
    const auto direct = model.open("cpu", 2);
    for (const auto& call : model.calls)
      ASSERT_TRUE(same_bits(direct->run(items_of(call.inputs), nullptr), read->run(items_of(call.inputs), nullptr)))
          << "seed " << seed_of(13) + g;
  }
}

TEST(RandomModels, EightThreadsOnOneModuleGetTheBitsOfOne) {
  for (uint64_t g = 0; g < 4; ++g) {
    const Model model(seed_of(14) + g, 8, 10);
    if (model.calls.empty()) continue;
    runtime::ModuleOptions options;
    options.threads = 2;
    options.plan_cache_entries = 4;  // fewer than shapes, so that plans come and go
    runtime::Module module(model.compiled.program, runtime::open_cpu(*model.compiled.program), options);
    std::vector<std::vector<Item>> inputs, want;
    for (const auto& call : model.calls)
      inputs.push_back(items_of(call.inputs)), want.push_back(module.run(inputs.back()));
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (size_t t = 0; t < 8; ++t) {
      threads.emplace_back([&, t] {
        for (size_t k = 0; k < 25; ++k) {
          const size_t at = (t * 7 + k * 3) % inputs.size();
          if (!same_bits(module.run(inputs[at]), want[at])) ++wrong;
        }
      });
    }
    for (auto& t : threads) t.join();
    EXPECT_EQ(wrong.load(), 0) << "seed " << seed_of(14) + g;
  }
}

TEST(RandomModels, MemoryIsBoundedAndGivenBack) {
  const Model model(seed_of(15), 8, 12);
  ASSERT_FALSE(model.calls.empty());
  const auto session = model.open("cpu", 1);
  const auto all = [&] {
    for (const auto& call : model.calls) session->run(items_of(call.inputs), nullptr);
  };
  all();
  const int64_t first = session->statistics().peak_bytes;
  for (int k = 0; k < 200; ++k) all();
  EXPECT_LE(session->statistics().peak_bytes, first + first / 4) << "the same shapes again and again";
}

}  // namespace
}  // namespace stax::session
