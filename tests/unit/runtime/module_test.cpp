// SPDX-License-Identifier: Apache-2.0
// A module with kernels written here: what it checks of its inputs, what it says, and what a failed call leaves behind.
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "runtime/host_workers.h"
#include "runtime/runtime.h"
#include "support/error.h"
#include "unit/program/sample_program.h"
#include "unit/runtime/fake_device.h"
#include "unit/runtime/heap_requests.h"

namespace stax::runtime {
namespace {

using program::kNone;
using program::LaunchStep;
using program::ProgramSpeller;
using program::Storage;

/// Kernel 0: y = 2 x over params[0] elements. Kernel 1: fails at index params[0].
void run_kernel(uint32_t kernel, std::span<void* const> buffers, std::span<const int64_t> params, int64_t begin,
                int64_t end, Fault* fault) {
  if (kernel == 1) {
    if (params[0] == 13) {
      fault->index = params[0];
      fault->extent = 4;
      fault->failed = 1;
    }
    return;
  }
  for (int64_t i = begin; i < std::min(end, params[0]); ++i)
    static_cast<float*>(buffers[1])[i] = 2 * static_cast<const float*>(buffers[0])[i];
}

/// On the threads of the host.
class Host final : public HostDevice {
 public:
  void launch(const Launch& l) override {
    const int wanted = l.workers->worth(l.work);
    l.workers->reserve(wanted > 1 ? l.workers->pool().threads() : 1, l.scratch_bytes);
    const auto part = [](void* self, int64_t begin, int64_t end, int worker) {
      const Launch& launch = *static_cast<const Launch*>(self);
      if (launch.kernel == 0) std::memset(launch.workers->scratch(worker), 1, 256);
      run_kernel(launch.kernel, launch.buffers, launch.params, begin, end, launch.fault);
    };
    l.workers->pool().run({part, const_cast<Launch*>(&l)}, l.iterations, wanted);
    if (l.kernel == 0 && l.params[0] == 77) throw UserError("seventy-seven");
  }
};

/// y = 2 (2 x) through the arena; x [n], z [m, 4], and m must be 2 n.
std::shared_ptr<program::Program> doubling() {
  ProgramSpeller p;
  p.program.blocks.resize(1);
  const uint32_t n = p.symbol("n", 0, 0, 1000), m = p.symbol("m", 0);
  p.program.symbols[1].multiple = 2;
  const auto one = p.constant(1), four = p.constant(4), two = p.constant(2), zero = p.constant(0),
             scratch = p.constant(256);
  const auto ne = p.symbol_expr(n), me = p.symbol_expr(m);
  const auto bytes = p.times({ne, four}), z_bytes = p.times({me, four, four});
  const auto relation = p.node(symbolic::ExprKind::kEqual, 0, {me, p.times({ne, two})});
  const auto work = p.times({ne, p.constant(100'000)});
  const auto x = p.value("x", DType::kF32, {ne}, bytes, Storage::kInput),
             z = p.value("z", DType::kF32, {me, four}, z_bytes, Storage::kInput);
  const auto t = p.arena("t", DType::kF32, {ne}, bytes, zero, 0), y = p.value("y", DType::kF32, {ne}, bytes);
  p.kernel("double");
  p.kernel("fault");
  p.segment(0, 0, bytes);
  p.step(0, program::CheckStep{relation, "Mul node '{odd}': m is {1} for an n of {0}", {ne, me}});
  p.step(0, LaunchStep{{{0, kNone, ne, scratch}}, {x, t}, 1, {ne}, work, ne, "Mul node 'first'"});
  p.step(0, LaunchStep{{{0, kNone, ne, scratch}}, {t, y}, 1, {ne}, work, ne, "Mul node 'second'"});
  p.step(0, LaunchStep{{{1, kNone, one, zero}}, {y, y}, 1, {ne}, one, one, "Gather node 'pick'"});
  p.program.inputs = {{"x", x, {{n, 0}}}, {"z", z, {{m, 0}, {kNone, 4}}}};
  p.program.blocks[0].inputs = {x, z};
  p.program.blocks[0].outputs = {y};
  p.program.outputs = {{"y", y}};
  program::verify(p.program);
  return std::make_shared<program::Program>(std::move(p.program));
}

Item floats(std::vector<int64_t> extents, float first = 1) {
  Item item;
  item.tensor.extents = std::move(extents);
  const size_t count = item.tensor.bytes() / 4;
  auto data = std::make_shared<std::vector<float>>(count + 1);
  for (size_t k = 0; k < count; ++k) (*data)[k] = first + static_cast<float>(k);
  item.tensor.data = data->data();
  item.tensor.owner = std::shared_ptr<void>(data, data->data());
  return item;
}
std::vector<Item> inputs_of(int64_t n, float first = 1) { return {floats({n}, first), floats({2 * n, 4})}; }

ModuleOptions with_threads(int threads, size_t plans = 512) {
  ModuleOptions options;
  options.threads = threads;
  options.plan_cache_entries = plans;
  return options;
}
Module module_of(int threads = 2, size_t plans = 512) {
  return {doubling(), std::make_unique<Host>(), with_threads(threads, plans)};
}

std::string fault_of(Module& m, const std::vector<Item>& inputs) {
  try {
    m.run(inputs);
  } catch (const UserError& e) {
    return e.what();
  }
  return {};
}

void expect_result(const std::vector<Item>& outputs, int64_t n, float first = 1) {
  ASSERT_EQ(outputs.size(), 1u);
  ASSERT_EQ(outputs[0].tensor.extents, std::vector<int64_t>{n});
  for (int64_t i = 0; i < n; ++i)
    ASSERT_EQ(static_cast<const float*>(outputs[0].tensor.data)[i], 4 * (first + static_cast<float>(i)));
}

TEST(Module, RunsAtEverySize) {
  Module m = module_of();
  CallStatistics statistics;
  for (const int64_t n : {3, 0, 1, 1000, 3, 12}) {
    expect_result(m.run(inputs_of(n), &statistics), n);
    EXPECT_EQ(statistics.launches, n == 0 ? 1 : 3) << "empty launches do not happen";
  }
  EXPECT_EQ(m.statistics().plan_misses.load(), 5);
  EXPECT_EQ(m.statistics().plan_hits.load(), 1);
  EXPECT_EQ(m.statistics().launches.load(), 3 * 5 + 1);
}

TEST(Module, WrongInputsAreNamed) {
  Module m = module_of();
  const auto faults = std::vector<std::pair<std::vector<Item>, std::vector<std::string>>>{
      {{floats({3})}, {"2 inputs", "1"}},
      {{floats({3}), floats({6, 4}), floats({1})}, {"2 inputs", "3"}},
      {{floats({3, 1}), floats({6, 4})}, {"'x'", "rank 2", "[3, 1]", "rank 1"}},
      {{floats({}), floats({6, 4})}, {"'x'", "rank 0"}},
      {{floats({3}), floats({6, 5})}, {"'z'", "5", "axis 1", "4"}},
      {{floats({1001}), floats({2002, 4})}, {"'n'", "1001", "'x'", "0..1000"}},
      {{floats({3}), floats({7, 4})}, {"'m'", "7", "'z'", "multiple of 2"}},
      {{floats({3}), floats({8, 4})}, {"Mul node '{odd}': m is 8 for an n of 3"}},
  };
  for (const auto& [inputs, words] : faults) {
    const std::string message = fault_of(m, inputs);
    for (const std::string& word : words)
      EXPECT_NE(message.find(word), std::string::npos) << "'" << word << "' is missing in: " << message;
    expect_result(m.run(inputs_of(5)), 5);
  }
  std::vector<Item> wrong_type = inputs_of(3);
  wrong_type[0].tensor.dtype = DType::kI32;
  EXPECT_NE(fault_of(m, wrong_type).find("'x' has type int32, expected float32"), std::string::npos)
      << fault_of(m, wrong_type);
  std::vector<Item> sequence = inputs_of(3);
  sequence[1].is_sequence = true;
  EXPECT_NE(fault_of(m, sequence).find("'z'"), std::string::npos);
}

TEST(Module, AFailedCallLeavesNothingBehind) {
  Module m = module_of();
  for (int k = 0; k < 3; ++k) {
    EXPECT_EQ(fault_of(m, inputs_of(13)),
              "Gather node 'pick': index 13 is out of range for an extent of 4; indices must be in [-4, 3]");
    expect_result(m.run(inputs_of(12, 5)), 12, 5);
    EXPECT_EQ(fault_of(m, inputs_of(77)), "Mul node 'first': seventy-seven");
    expect_result(m.run(inputs_of(76, 3)), 76, 3);
  }
}

TEST(Module, MemoryThatCannotBeHadLeavesItUsable) {
  ProgramSpeller p;
  p.program.blocks.resize(1);
  const uint32_t n = p.symbol("n", 0);
  const auto one = p.constant(1), ne = p.symbol_expr(n), bytes = p.times({ne, ne, ne, p.constant(4)}),
             small = p.times({ne, p.constant(4)}), scratch = p.constant(256);
  const auto x = p.value("x", DType::kF32, {ne}, small, Storage::kInput),
             y = p.value("y", DType::kF32, {ne, ne, ne}, bytes);
  p.kernel("double");
  p.segment(0, 0);
  p.step(0, LaunchStep{{{0, kNone, one, scratch}}, {x, y}, 1, {one}, one, one, "Expand node"});
  p.program.inputs = {{"x", x, {{n, 0}}}};
  p.program.blocks[0].inputs = {x};
  p.program.blocks[0].outputs = {y};
  p.program.outputs = {{"y", y}};
  Module m(std::make_shared<program::Program>(std::move(p.program)), std::make_unique<Host>(), with_threads(1));
  Item huge = floats({1});
  huge.tensor.extents = {int64_t{1} << 21};
  const std::string message = fault_of(m, {huge});
  EXPECT_NE(message.find("Expand node"), std::string::npos) << message;
  EXPECT_NE(message.find("bytes"), std::string::npos) << message;
  EXPECT_EQ(m.run(std::vector<Item>{floats({2})})[0].tensor.extents, (std::vector<int64_t>{2, 2, 2}));
}

TEST(Module, TheCallersBuffersAreNeitherWrittenNorGivenBack) {
  Module m = module_of();
  std::vector<Item> inputs = inputs_of(9);
  const std::vector<float> before(static_cast<const float*>(inputs[0].tensor.data),
                                  static_cast<const float*>(inputs[0].tensor.data) + 9);
  const std::vector<Item> first = m.run(inputs);
  const std::vector<float> held(static_cast<const float*>(first[0].tensor.data),
                                static_cast<const float*>(first[0].tensor.data) + 9);
  for (int k = 0; k < 5; ++k) m.run(inputs_of(9, static_cast<float>(k)));
  EXPECT_TRUE(std::equal(before.begin(), before.end(), static_cast<const float*>(inputs[0].tensor.data)));
  EXPECT_TRUE(std::equal(held.begin(), held.end(), static_cast<const float*>(first[0].tensor.data)))
      << "a result that is held stays what it was";
}

TEST(Module, ResultsOutliveTheModule) {
  std::vector<Item> results;
  {
    Module m = module_of();
    results = m.run(inputs_of(7));
  }
  expect_result(results, 7);
}

TEST(Module, ThreadsMayCallItAtOnce) {
  for (const size_t plans : {size_t{512}, size_t{3}}) {
    Module m = module_of(3, plans);
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&, t] {
        for (int k = 0; k < 30; ++k) {
          const int64_t n = (t * 37 + k * 11) % 200;
          if (n == 13 || n == 77) continue;
          const float first = static_cast<float>(t);
          const std::vector<Item> y = m.run(inputs_of(n, first));
          if (y[0].tensor.extents[0] != n) ++wrong;
          for (int64_t i = 0; i < n; ++i)
            if (static_cast<const float*>(y[0].tensor.data)[i] != 4 * (first + static_cast<float>(i))) ++wrong;
          if (k % 10 == 0 && fault_of(m, inputs_of(13)).empty()) ++wrong;
        }
      });
    }
    for (auto& t : threads) t.join();
    EXPECT_EQ(wrong.load(), 0);
  }
}

TEST(Module, VersionsAreChosenByTheirGuardsAndMayBeForced) {
  const auto make = [](std::map<std::string, uint32_t> forced) {
    ProgramSpeller p;
    p.program.blocks.resize(1);
    const uint32_t n = p.symbol("n", 0);
    const auto one = p.constant(1), zero = p.constant(0), ne = p.symbol_expr(n),
               small = p.node(symbolic::ExprKind::kLess, 0, {ne, p.constant(4)}), bytes = p.times({ne, p.constant(4)});
    const auto x = p.value("x", DType::kF32, {ne}, bytes, Storage::kInput), y = p.value("y", DType::kF32, {ne}, bytes);
    for (const uint32_t v : {0u, 1u}) {
      p.kernel("k_v" + std::to_string(v));
      p.program.kernels.back().family = "k";
      p.program.kernels.back().version = v;
    }
    p.segment(0, 0, zero);
    p.step(0, LaunchStep{{{0, small, ne, zero}, {1, kNone, one, zero}}, {x, y}, 1, {ne}, one, ne, "node"});
    p.program.inputs = {{"x", x, {{n, 0}}}};
    p.program.blocks[0].inputs = {x};
    p.program.blocks[0].outputs = {y};
    p.program.outputs = {{"y", y}};
    ModuleOptions options = with_threads(1);
    options.forced_versions = std::move(forced);
    class Nothing final : public HostDevice {
      void launch(const Launch&) override {}
    };
    return std::make_unique<Module>(std::make_shared<program::Program>(std::move(p.program)),
                                    std::make_unique<Nothing>(), options);
  };
  const auto used = [](Module& m, int64_t n) {
    CallStatistics statistics;
    m.run(std::vector<Item>{floats({n})}, &statistics);
    return statistics.versions_used;
  };
  const auto free = make({}), first = make({{"k", 0}}), all = make({{"*", 7}});
  EXPECT_EQ(used(*free, 3), std::vector<uint32_t>{0});
  EXPECT_EQ(used(*free, 4), std::vector<uint32_t>{1});
  EXPECT_EQ(used(*free, 0), std::vector<uint32_t>{});
  EXPECT_EQ(used(*first, 100), std::vector<uint32_t>{0});
  EXPECT_EQ(used(*all, 1), std::vector<uint32_t>{1});
}

TEST(Module, AShapeSeenBeforeAsksTheHeapForNothing) {
  class Here final : public OutputPlaces {
   public:
    void* place(uint32_t, std::span<const int64_t>, int64_t) override { return data; }
    alignas(64) float data[1000];
  } places;
  for (const int threads : {1, 3}) {
    Module m = module_of(threads);
    std::vector<std::vector<Item>> shapes;
    for (const int64_t n : {5, 100, 0, 31}) shapes.push_back(inputs_of(n));
    std::vector<Item> outputs;
    for (int round = 0; round < 6; ++round) {
      for (const std::vector<Item>& inputs : shapes) {
        const int64_t before = heap_requests();
        m.run(inputs, outputs, nullptr, false, &places);
        const int64_t asked = heap_requests() - before;
        if (round > 0) {
          EXPECT_EQ(asked, 0) << "round " << round << ", " << inputs[0].tensor.extents[0] << " elements";
        }
        EXPECT_EQ(outputs[0].tensor.data, places.data);
        expect_result(outputs, inputs[0].tensor.extents[0]);
      }
    }
    EXPECT_EQ(m.statistics().plan_hits.load(), 5 * 4);
  }
}

TEST(Module, ResultsInTheRuntimesMemoryAskTheHeapForNothingEither) {
  Module m = module_of(1);
  const std::vector<Item> inputs = inputs_of(50);
  std::vector<Item> outputs;
  for (int round = 0; round < 6; ++round) {
    const int64_t before = heap_requests();
    m.run(inputs, outputs);
    if (round > 2) {
      EXPECT_EQ(heap_requests(), before);
    }
    expect_result(outputs, 50);
  }
}

// ---- a device with memory of its own

std::unique_ptr<FakeDevice> fake() {
  return std::make_unique<FakeDevice>(
      [](const Launch& l) { run_kernel(l.kernel, l.buffers, l.params, 0, l.iterations, l.fault); });
}

TEST(ModuleOnADevice, GivesWhatTheHostGives) {
  std::vector<Item> last;
  {
    Module m(doubling(), fake(), with_threads(1));
    for (const int64_t n : {3, 0, 1, 1000, 3, 12}) expect_result(m.run(inputs_of(n)), n);
    EXPECT_GE(m.statistics().peak_bytes.load(), 3 * 4 * 1000) << "x, t and y are on the device";
    last = m.run(inputs_of(7));
  }
  expect_result(last, 7);
}

TEST(ModuleOnADevice, FaultsAreNamedLateAndLeaveNothingBehind) {
  Module m(doubling(), fake(), with_threads(1));
  for (int k = 0; k < 3; ++k) {
    EXPECT_EQ(fault_of(m, inputs_of(13)),
              "Gather node 'pick': index 13 is out of range for an extent of 4; indices must be in [-4, 3]");
    expect_result(m.run(inputs_of(12, 5)), 12, 5);
  }
}

TEST(ModuleOnADevice, OutputsGoToTheCallersPlaces) {
  class Places final : public OutputPlaces {
   public:
    void* place(uint32_t output, std::span<const int64_t> extents, int64_t bytes) override {
      EXPECT_EQ(output, 0u);
      EXPECT_EQ(std::vector<int64_t>(extents.begin(), extents.end()), (std::vector<int64_t>{5}));
      EXPECT_EQ(bytes, 20);
      return here;
    }
    float here[5] = {};
  } places;
  Module m(doubling(), fake(), with_threads(1));
  const std::vector<Item> outputs = m.run(inputs_of(5), nullptr, false, &places);
  EXPECT_EQ(outputs[0].tensor.data, places.here);
  expect_result(outputs, 5);
}

TEST(ModuleOnADevice, ThreadsMayCallItAtOnce) {
  Module m(doubling(), fake(), with_threads(1));
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      for (int k = 0; k < 40; ++k) {
        const int64_t n = (t * 37 + k * 11) % 200;
        if (n == 13) continue;
        const std::vector<Item> y = m.run(inputs_of(n, static_cast<float>(t)));
        for (int64_t i = 0; i < n; ++i)
          if (static_cast<const float*>(y[0].tensor.data)[i] != 4 * (static_cast<float>(t) + static_cast<float>(i)))
            ++wrong;
        if (k % 10 == 0 && fault_of(m, inputs_of(13)).empty()) ++wrong;
      }
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(wrong.load(), 0);
}

TEST(ModuleOnADevice, LaunchesGetTheirGrid) {
  ProgramSpeller p;
  p.program.blocks.resize(1);
  const uint32_t n = p.symbol("n", 0);
  const auto one = p.constant(1), zero = p.constant(0), ne = p.symbol_expr(n), four = p.constant(4),
             bytes = p.times({ne, four}), up = p.node(symbolic::ExprKind::kAdd, 0, {ne, p.constant(31)}),
             blocks = p.node(symbolic::ExprKind::kFloorDiv, 0, {up, p.constant(32)});
  const auto x = p.value("x", DType::kF32, {ne}, bytes, Storage::kInput), y = p.value("y", DType::kF32, {ne}, bytes);
  p.kernel("double");
  p.segment(0, 0, zero);
  program::LaunchVersion version{0, kNone, one, zero};
  version.grid = {blocks, four, one};
  version.block = four;
  version.shared_bytes = bytes;
  p.step(0, LaunchStep{{version}, {x, y}, 1, {ne}, one, ne, "node"});
  p.program.inputs = {{"x", x, {{n, 0}}}};
  p.program.blocks[0].inputs = {x};
  p.program.blocks[0].outputs = {y};
  p.program.outputs = {{"y", y}};
  const std::vector<uint8_t> file = program::serialize(p.program);
  auto read = std::make_shared<program::Program>(program::deserialize(file, "file"));
  auto device = fake();
  FakeDevice& seen = *device;
  Module m(read, std::move(device), with_threads(1));
  m.run(std::vector<Item>{floats({70})});
  ASSERT_EQ(seen.launches.size(), 1u);
  EXPECT_EQ(seen.launches[0].grid[0], 3);
  EXPECT_EQ(seen.launches[0].grid[1], 4);
  EXPECT_EQ(seen.launches[0].grid[2], 1);
  EXPECT_EQ(seen.launches[0].block, 4);
  EXPECT_EQ(seen.launches[0].shared_bytes, 280);
}

}  // namespace
}  // namespace stax::runtime
