// SPDX-License-Identifier: Apache-2.0
// Calls that are checked: versions against the last one of their kernel, on memory of the host and of a device.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "runtime/runtime.h"
#include "runtime/version_compare.h"
#include "support/error.h"
#include "unit/program/sample_program.h"
#include "unit/runtime/fake_device.h"

namespace stax::runtime {
namespace {

using program::kNone;
using program::LaunchStep;
using program::ProgramSpeller;
using program::Storage;

/// Versions 0 .. 2 of y = 2 x, each for twice as many elements as the one before it, then y + 1 in place of a kernel of one version. Version 1 makes its
/// last element one larger than it is, and says of 13 elements that an index is out of range.
void run_kernel(const Launch& l) {
  const auto* x = static_cast<const float*>(l.buffers[0]);
  auto* y = static_cast<float*>(l.buffers[1]);
  const int64_t n = l.params[0];
  for (int64_t i = 0; i < n; ++i) y[i] = l.kernel == 3 ? x[i] + 1 : 2 * x[i];
  if (l.kernel != 1) return;
  y[n - 1] += 1;
  if (n == 13) *l.fault = {1, 13, 4, 0};
}

class Host final : public HostDevice {
 public:
  void launch(const Launch& l) override { run_kernel(l); }
};

std::shared_ptr<program::Program> program_of_versions() {
  ProgramSpeller p;
  p.program.blocks.resize(1);
  const uint32_t n = p.symbol("n", 0);
  const auto zero = p.constant(0), ne = p.symbol_expr(n), bytes = p.times({ne, p.constant(4)});
  const auto below = [&](int64_t v) { return p.node(symbolic::ExprKind::kLess, 0, {ne, p.constant(v)}); };
  const auto few = below(5), many = below(100);
  const auto x = p.value("x", DType::kF32, {ne}, bytes, Storage::kInput);
  const auto t = p.arena("t", DType::kF32, {ne}, bytes, zero, 0), y = p.value("y", DType::kF32, {ne}, bytes);
  for (const uint32_t v : {0u, 1u, 2u}) {
    p.kernel("twice_v" + std::to_string(v));
    p.program.kernels.back().family = "twice";
    p.program.kernels.back().version = v;
  }
  p.kernel("next");
  p.segment(0, 0, bytes);
  p.step(0, LaunchStep{{{0, few, ne, zero}, {1, many, ne, zero}, {2, kNone, ne, zero}},
                       {x, t},
                       1,
                       {ne},
                       ne,
                       ne,
                       "Mul node 'twice'"});
  p.step(0, LaunchStep{{{3, kNone, ne, zero}}, {t, y}, 1, {ne}, ne, ne, "Add node 'next'"});
  p.program.inputs = {{"x", x, {{n, 0}}}};
  p.program.blocks[0].inputs = {x};
  p.program.blocks[0].outputs = {y};
  p.program.outputs = {{"y", y}};
  program::verify(p.program);
  return std::make_shared<program::Program>(std::move(p.program));
}

std::unique_ptr<Device> device(bool unified) {
  if (unified) return std::make_unique<Host>();
  return std::make_unique<FakeDevice>(run_kernel);
}

struct Checked {
  std::vector<Mismatch> alarms;
  std::unique_ptr<Module> module;
  explicit Checked(bool unified, int64_t every, std::map<std::string, uint32_t> forced = {}) {
    ModuleOptions options;
    options.threads = 1;
    options.check_every = every;
    options.forced_versions = std::move(forced);
    options.alarm = [this](const Mismatch& m) {
      alarms.push_back(m);
      EXPECT_EQ(m.inputs.size(), 1u);
    };
    module = std::make_unique<Module>(program_of_versions(), device(unified), options);
  }
  /// The result's last element, which has to be 2 n + 1 for x = 1 .. n.
  float last(size_t n, std::vector<uint32_t>* versions = nullptr) {
    std::vector<float> x(n);
    for (size_t k = 0; k < n; ++k) x[k] = static_cast<float>(k + 1);
    Item item;
    item.tensor.extents = {static_cast<int64_t>(n)};
    item.tensor.data = x.data();
    CallStatistics statistics;
    const std::vector<Item> out = module->run({&item, 1}, &statistics);
    EXPECT_EQ(statistics.launches, n > 0 ? 2 : 0) << "what checks is not counted as the call's";
    if (versions) *versions = statistics.versions_used;
    return n == 0 ? 0 : static_cast<const float*>(out[0].tensor.data)[n - 1];
  }
};

TEST(Check, AWrongVersionRaisesOneAlarmAndIsNotLaunchedAgain) {
  for (const bool unified : {true, false}) {
    Checked c(unified, 1);
    std::vector<uint32_t> versions;
    EXPECT_EQ(c.last(3), 7);
    EXPECT_TRUE(c.alarms.empty());
    EXPECT_EQ(c.last(7, &versions), 15) << "the call that finds it has a right result";
    EXPECT_EQ(versions, (std::vector<uint32_t>{1, 3}));
    ASSERT_EQ(c.alarms.size(), 1u);
    EXPECT_EQ(c.alarms[0].kernel, 1u);
    EXPECT_EQ(c.alarms[0].total, 2u);
    EXPECT_EQ(c.alarms[0].result, 0u);
    EXPECT_EQ(c.alarms[0].source, "Mul node 'twice'");
    EXPECT_EQ(c.alarms[0].index, std::vector<int64_t>{6});
    EXPECT_EQ(c.alarms[0].what, "element [6] is 15 instead of 14 (1 of 7 differ)");
    EXPECT_EQ(c.last(7, &versions), 15);
    EXPECT_EQ(versions, (std::vector<uint32_t>{2, 3}));
    EXPECT_EQ(c.last(0), 0);
    EXPECT_EQ(c.last(1000), 2001);
    EXPECT_EQ(c.alarms.size(), 1u);
    const Statistics& s = c.module->statistics();
    EXPECT_EQ(s.checked_calls, 5);
    EXPECT_EQ(s.checked_launches, 8);
    EXPECT_EQ(s.mismatches, 1);
    EXPECT_EQ(s.launches, 16);
  }
}

TEST(Check, OneCallInSoMany) {
  Checked c(true, 3);
  EXPECT_EQ(c.last(3), 7);
  EXPECT_EQ(c.last(7), 16) << "not checked, and wrong";
  EXPECT_EQ(c.last(7), 16);
  EXPECT_TRUE(c.alarms.empty());
  EXPECT_EQ(c.last(7), 15);
  EXPECT_EQ(c.alarms.size(), 1u);
  EXPECT_EQ(c.last(7), 15);
  EXPECT_EQ(c.module->statistics().checked_calls, 2);
}

TEST(Check, AForcedVersionIsGivenUpToo) {
  Checked c(true, 1, {{"twice", 1}});
  EXPECT_EQ(c.last(1000), 2001);
  std::vector<uint32_t> versions;
  EXPECT_EQ(c.last(1000, &versions), 2001);
  EXPECT_EQ(versions, (std::vector<uint32_t>{2, 3}));
  EXPECT_EQ(c.alarms.size(), 1u);
}

TEST(Check, AVersionThatFindsAFaultWhereThereIsNone) {
  Checked c(true, 1);
  EXPECT_EQ(c.last(13), 27);
  ASSERT_EQ(c.alarms.size(), 1u);
  EXPECT_NE(c.alarms[0].what.find("13"), std::string::npos) << c.alarms[0].what;
  EXPECT_TRUE(c.alarms[0].index.empty());
  Checked without(true, 0);
  EXPECT_THROW(without.last(13), UserError);
}

TEST(Check, AnAlarmThatThrowsEndsTheCallAndNoMore) {
  ModuleOptions options;
  options.threads = 1;
  options.check_every = 1;
  options.alarm = [](const Mismatch&) { throw UserError("stop"); };
  Module m(program_of_versions(), device(true), options);
  std::vector<float> x(7, 1);
  Item item;
  item.tensor.extents = {7};
  item.tensor.data = x.data();
  EXPECT_THROW(m.run({&item, 1}), UserError);
  EXPECT_EQ(static_cast<const float*>(m.run({&item, 1})[0].tensor.data)[6], 3);
}

/// The first difference as text; empty: they agree.
std::string difference(DType t, const void* a, const void* b, int64_t n, bool exactly = false) {
  const auto d = compare_versions(t, {1, n}, a, b, exactly);
  return d ? d->what : "";
}

TEST(Check, WhatRoundingExplains) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  const float want[] = {1000, 0.001F, nan, inf, -0.0F, 2};
  float got[] = {1000.001F, 0.0015F, -nan, inf, 0.0F, 2};
  EXPECT_EQ(difference(DType::kF32, got, want, 6), "");
  EXPECT_EQ(difference(DType::kF32, got, want, 6, true).substr(0, 14), "element [0, 0]");
  got[5] = 2.1F;
  EXPECT_EQ(difference(DType::kF32, got, want, 6), "element [0, 5] is 2.0999999046325684 instead of 2 (1 of 6 differ)");
  got[5] = 2, got[3] = -inf;
  EXPECT_NE(difference(DType::kF32, got, want, 6), "");
  got[3] = inf, got[2] = 1;
  EXPECT_NE(difference(DType::kF32, got, want, 6), "");
  const int64_t many[] = {int64_t{1} << 60, 5}, one_more[] = {(int64_t{1} << 60) + 1, 5};
  EXPECT_NE(difference(DType::kI64, one_more, many, 2), "");
  EXPECT_EQ(difference(DType::kI64, many, many, 2), "");
  EXPECT_EQ(difference(DType::kI64, one_more, many, 0), "");
}

}  // namespace
}  // namespace stax::runtime
