// SPDX-License-Identifier: Apache-2.0
// Loops whose trips are launches alone: what they carry and scan, side by side, with any number of threads, without asking the heap.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <thread>

#include "runtime/host_workers.h"
#include "runtime/runtime.h"
#include "support/error.h"
#include "unit/program/sample_program.h"
#include "unit/runtime/heap_requests.h"

namespace stax::runtime {
namespace {

using program::kNone;
using program::LaunchStep;
using program::LoopStep;
using program::ProgramSpeller;
using program::Storage;

/// Kernel 0: out = state + x[step]. Kernel 1: out = 2 state - x[step]; fails at the step that `kept` holds, unless that is 0.
class Host final : public HostDevice {
 public:
  void launch(const Launch& l) override {
    const auto* state = static_cast<const float*>(l.buffers[0]);
    const int64_t step = *static_cast<const int64_t*>(l.buffers[1]), n = l.params[0];
    const float* x = static_cast<const float*>(l.buffers[2]) + step * n;
    auto* out = static_cast<float*>(l.buffers[4]);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(out) % 64, 0U) << "code for GPUs counts on it";
    const auto kept = static_cast<int64_t>(*static_cast<const float*>(l.buffers[3]));
    if (l.kernel == 1 && kept != 0 && step == kept) {
      *l.fault = {1, step, 0, 0};
      return;
    }
    for (int64_t i = 0; i < n; ++i) out[i] = l.kernel == 0 ? state[i] + x[i] : 2 * state[i] - x[i];
    const std::thread::id here = std::this_thread::get_id();
    if (l.worker >= 0) (l.kernel == 0 ? first : second) = here;
  }
  static inline std::atomic<std::thread::id> first, second;  // that ran all of each loop
};

/// y, s, last of a loop over kernel 0 and z, kept of one over kernel 1, both from `start`. `s` is what `y` is, scanned a second time. The second
/// loop also carries `kept`, which stays.
std::shared_ptr<program::Program> two_loops(bool beside, int64_t work) {
  ProgramSpeller p;
  p.program.blocks.resize(3);
  const uint32_t steps = p.symbol("steps", 0, 0, 1000), n = p.symbol("n", 0, 1, 1000);
  const auto one = p.constant(1), four = p.constant(4), eight = p.constant(8), zero = p.constant(0);
  const auto work_of = p.constant(work);
  const auto se = p.symbol_expr(steps), ne = p.symbol_expr(n);
  const auto bytes = p.times({ne, four}), all = p.times({se, ne, four});
  const auto x = p.value("x", DType::kF32, {se, ne}, all, Storage::kInput),
             start = p.value("start", DType::kF32, {ne}, bytes, Storage::kInput),
             keep = p.value("keep", DType::kF32, {}, four, Storage::kInput),
             trips = p.value("trips", DType::kI64, {}, eight, Storage::kInput);
  const auto y = p.value("y", DType::kF32, {se, ne}, all), s = p.value("s", DType::kF32, {se, ne}, all),
             last = p.value("last", DType::kF32, {ne}, bytes), z = p.value("z", DType::kF32, {ne}, bytes),
             kept = p.value("kept", DType::kF32, {}, four);
  p.kernel("add");
  p.kernel("double");
  p.segment(0, 0);
  for (uint32_t b : {1u, 2u}) {
    const auto step = p.value("step", DType::kI64, {}, eight, Storage::kInput),
               state = p.value("state", DType::kF32, {ne}, bytes, Storage::kInput),
               fixed = p.value("fixed", DType::kF32, {}, four, Storage::kInput),
               next = p.value("next", DType::kF32, {ne}, bytes);
    p.program.blocks[b].inputs = {step, state, fixed};
    p.segment(b, b);
    p.step(b, LaunchStep{{{b - 1, kNone, one, zero}}, {state, step, x, fixed, next}, 1, {ne}, work_of, ne, "Add node"});
    p.program.blocks[b].outputs =
        b == 1 ? std::vector<program::ValueRef>{next, fixed, next, next} : std::vector<program::ValueRef>{next, fixed};
  }
  const auto unused = p.value("unused", DType::kF32, {}, four);
  p.step(0, LoopStep{trips, kNone, {start, keep}, 1, {}, {last, unused, y, s}, {}, "first Loop", beside});
  p.step(0, LoopStep{trips, kNone, {start, keep}, 2, {}, {z, kept}, {}, "second Loop"});
  p.program.inputs = {
      {"x", x, {{steps, 0}, {n, 0}}}, {"start", start, {{n, 0}}}, {"keep", keep, {}}, {"trips", trips, {}}};
  p.program.blocks[0].inputs = {x, start, keep, trips};
  p.program.blocks[0].outputs = {y, s, last, z, kept};
  p.program.outputs = {{"y", y}, {"s", s}, {"last", last}, {"z", z}, {"kept", kept}};
  program::verify(p.program);
  return std::make_shared<program::Program>(std::move(p.program));
}

struct Call {
  std::vector<float> x, start;
  float keep;
  int64_t trips;
  Call(int64_t steps, int64_t n, float keep_value) : keep(keep_value), trips(steps) {
    for (int64_t k = 0; k < steps * n; ++k) x.push_back(static_cast<float>((k * 7 + 3) % 11));
    for (int64_t k = 0; k < n; ++k) start.push_back(static_cast<float>(k));
  }
  std::vector<Item> items() const {
    const auto n = static_cast<int64_t>(start.size());
    std::vector<Item> items(4);
    items[0].tensor = {DType::kF32, {trips, n}, x.data(), nullptr};
    items[1].tensor = {DType::kF32, {n}, start.data(), nullptr};
    items[2].tensor = {DType::kF32, {}, &keep, nullptr};
    items[3].tensor = {DType::kI64, {}, &trips, nullptr};
    return items;
  }
  void expect(const std::vector<Item>& got) const {
    const size_t n = start.size();
    std::vector<double> sum(start.begin(), start.end()), twice = sum;
    const auto at = [&](int o, size_t k) {
      return static_cast<const float*>(got[static_cast<size_t>(o)].tensor.data)[k];
    };
    for (size_t t = 0; t < static_cast<size_t>(trips); ++t) {
      for (size_t k = 0; k < n; ++k) {
        sum[k] += static_cast<double>(x[t * n + k]);
        twice[k] = static_cast<double>(static_cast<float>(2 * twice[k] - static_cast<double>(x[t * n + k])));
        ASSERT_EQ(static_cast<double>(at(0, t * n + k)), sum[k]) << "step " << t << ", element " << k;
        ASSERT_EQ(static_cast<double>(at(1, t * n + k)), sum[k]) << "step " << t << ", element " << k;
      }
    }
    EXPECT_EQ(got[0].tensor.extents, (std::vector<int64_t>{trips, static_cast<int64_t>(n)}));
    for (size_t k = 0; k < n; ++k) {
      ASSERT_EQ(static_cast<double>(at(2, k)), sum[k]);
      ASSERT_EQ(static_cast<double>(at(3, k)), twice[k]);
    }
    ASSERT_EQ(at(4, 0), keep);
  }
};

Module module_of(bool beside, int threads, int64_t work = 1'000'000) {
  ModuleOptions options;
  options.threads = threads;
  return {two_loops(beside, work), std::make_unique<Host>(), options};
}

TEST(LoopReplay, GivesWhatItsTripsGive) {
  for (const bool beside : {false, true}) {
    for (const int threads : {1, 2, 3}) {
      Module m = module_of(beside, threads);
      for (const bool profile : {false, true}) {  // with a profile each trip is a block of its own
        for (const auto& [steps, n] :
             std::vector<std::pair<int64_t, int64_t>>{{5, 3}, {0, 2}, {1, 1}, {2, 40}, {17, 9}, {6, 16}, {3, 64}}) {
          const Call call(steps, n, 0);
          CallStatistics statistics;
          call.expect(m.run(call.items(), &statistics, profile));
          EXPECT_EQ(statistics.launches, 2 * steps);
          EXPECT_EQ(statistics.versions_used.size(), steps > 0 ? 2 : 0);
        }
      }
    }
  }
}

TEST(LoopReplay, LoopsSideBySideRunOnOneThreadEach) {
  Host::first = std::thread::id();
  Host::second = std::thread::id();
  Module together = module_of(true, 2), light = module_of(true, 2, 1), heavy = module_of(true, 8);
  const Call call(40, 5, 0);
  for (Module* m : {&light, &heavy}) {  // little work in all; launches that are worth more than two threads
    call.expect(m->run(call.items()));
    EXPECT_EQ(Host::first.load(), std::thread::id());
  }
  call.expect(together.run(call.items()));
  EXPECT_NE(Host::first.load(), std::thread::id());
  EXPECT_NE(Host::second.load(), std::thread::id());
}

TEST(LoopReplay, AFaultEndsTheCallAndLeavesNothingBehind) {
  for (const bool beside : {false, true}) {
    Module m = module_of(beside, 2);
    const Call good(6, 4, 0), bad(6, 4, 3);
    good.expect(m.run(good.items()));
    try {
      m.run(bad.items());
      FAIL() << "no fault";
    } catch (const UserError& error) {
      EXPECT_NE(std::string(error.what()).find("Add node: index 3 is out of range"), std::string::npos) << error.what();
    }
    const int64_t peak = m.statistics().peak_bytes;
    for (int k = 0; k < 20; ++k) EXPECT_THROW(m.run(bad.items()), UserError);
    good.expect(m.run(good.items()));
    EXPECT_EQ(m.statistics().peak_bytes, peak);
  }
}

TEST(LoopReplay, AShapeSeenBeforeAsksTheHeapForNothing) {
  for (const int threads : {1, 2}) {
    Module m = module_of(true, threads);
    for (const int64_t n : {20, 32}) {
      const Call call(30, n, 0);
      const std::vector<Item> inputs = call.items();
      std::vector<Item> outputs;
      for (int round = 0; round < 6; ++round) {
        const int64_t before = heap_requests();
        m.run(inputs, outputs);
        if (round > 2) {
          EXPECT_EQ(heap_requests(), before);
        }
        call.expect(outputs);
      }
    }
  }
}

TEST(LoopReplay, CallsAtOnceDoNotMeet) {
  Module m = module_of(true, 2);
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c)
    callers.emplace_back([&m, c] {
      const Call call(10 + c, 6, 0);
      for (int k = 0; k < 50; ++k) call.expect(m.run(call.items()));
    });
  for (std::thread& t : callers) t.join();
}

TEST(LoopReplay, LoopsThatNeedEachOtherAreNotBeside) {
  const auto wrong = [](const std::function<void(program::Program&)>& change) {
    program::Program p = *two_loops(true, 1);
    change(p);
    EXPECT_THROW(program::verify(p), InternalError);
  };
  const auto loop = [](program::Program& p, size_t k) -> LoopStep& { return std::get<LoopStep>(p.blocks[0].steps[k]); };
  program::verify(*two_loops(true, 1));
  wrong([&](program::Program& p) { loop(p, 1).initial[0] = loop(p, 0).results[0]; });
  wrong([&](program::Program& p) { loop(p, 1).beside_next = true; });
  wrong([&](program::Program& p) { std::get<LaunchStep>(p.blocks[2].steps[0]).arguments[0] = loop(p, 0).results[0]; });
}

}  // namespace
}  // namespace stax::runtime
