// SPDX-License-Identifier: Apache-2.0
// What the prediction of registers is made of, on lists of instructions with one trait each.
#include "emit/registers.h"

#include <gtest/gtest.h>

#include "emit/ptx_code.h"

namespace stax::emit::ptx {
namespace {

const ir::Target& target() { return ir::find_target("cuda:sm_90a"); }

struct Listing {
  Code code;

  Operand plain(Class cls, const std::string& op, std::vector<Operand> src) {
    const Operand d = code.fresh(cls);
    code.list.push_back({.op = op, .dst = {d}, .src = std::move(src)});
    return d;
  }
  Operand thread() { return plain(Class::kB32, "mov.u32", {code.name("%tid.x")}); }
  Operand address(Operand index) {
    const Operand base = code.fresh(Class::kB64);
    code.list.push_back({.op = "ld.param.u64", .layout = Layout::kLoad, .dst = {base}, .src = {code.name("p0")}});
    return plain(Class::kB64, "add.s64", {base, plain(Class::kB64, "mul.wide.s32", {index, integer(4)})});
  }
  Operand load(Operand from, int64_t offset, const char* space = "global.nc", Operand predicate = {}) {
    const Operand d = code.fresh(Class::kF32);
    code.list.push_back({.op = std::string("ld.") + space + ".f32",
                         .layout = Layout::kLoad,
                         .dst = {d},
                         .src = {from},
                         .offset = offset,
                         .predicate = predicate});
    return d;
  }
  void store(Operand to, int64_t offset, Operand value) {
    code.list.push_back(
        {.op = "st.global.f32", .layout = Layout::kStore, .src = {to, value}, .offset = offset, .effect = true});
  }
  void label(int l) { code.list.push_back({.op = "", .layout = Layout::kLabel, .label = l, .effect = true}); }
  void branch(int l, Operand predicate) {
    code.list.push_back({.op = "bra", .layout = Layout::kBranch, .label = l, .predicate = predicate, .effect = true});
  }
  void end() { code.list.push_back({.op = "ret", .effect = true}); }

  // A loop whose body loads one word; the address advances if asked.
  void loop(Operand bound, bool advances, bool rounded = false) {
    const Operand at = address(thread());
    const Operand k = plain(Class::kB32, "mov.b32", {integer(0)});
    label(0);
    Operand x = load(at, 0);
    if (rounded) x = plain(Class::kF32, "div.rn.f32", {x, x});
    store(at, 0, x);
    if (advances) code.list.push_back({.op = "add.s64", .dst = {at}, .src = {at, integer(512)}});
    code.list.push_back({.op = "add.s32", .dst = {k}, .src = {k, integer(1)}});
    branch(0, plain(Class::kPred, "setp.lt.s32", {k, bound}));
    end();
  }
};

TEST(Registers, NothingIsKeptBeforeTheFirstWriteUnderAPredicate) {
  for (const bool guarded : {false, true}) {
    Listing l;
    const Operand t = l.thread(), at = l.address(t);
    const Operand p = l.plain(Class::kPred, "setp.lt.s32", {t, integer(7)});
    for (int k = 0; k < 40; ++k) l.store(at, 4 * k, l.load(at, 4 * k, "global", guarded ? p : Operand{}));
    l.end();
    EXPECT_LE(pressure_of(l.code).live, 4) << guarded;  // the address, the thread's number, one word
  }
}

TEST(Registers, IterationsThatAreWrittenOutLoadTogether) {
  const auto repeated = [](Operand bound, bool advances, bool rounded = false) {
    Listing l;
    l.loop(bound, advances, rounded);
    return pressure_of(l.code).repeated;
  };
  EXPECT_EQ(repeated(integer(9), true), 8);        // the whole loop
  EXPECT_EQ(repeated(integer(1 << 20), true), 3);  // four times
  EXPECT_EQ(repeated(integer(9), false), 0);       // the same word each time
  EXPECT_EQ(repeated(integer(9), true, true), 0);  // a routine keeps the loop a loop
}

TEST(Registers, LoadsGoUpWithTheirAddressesButNotAcrossWhatTheyNeed) {
  Listing free, chained;
  const Operand a = free.address(free.thread());
  for (int k = 0; k < 24; ++k) {
    const Operand step = free.plain(Class::kB64, "add.s64", {a, integer(1000 * k)});
    free.store(step, 0, free.load(step, 0));
  }
  free.end();
  Operand index = chained.thread();
  for (int k = 0; k < 24; ++k) {
    const Operand at = chained.address(index);
    index = chained.load(at, 0);
    chained.store(at, 0, index);
  }
  chained.end();
  EXPECT_GE(pressure_of(free.code).distant, 24);
  EXPECT_LE(pressure_of(chained.code).distant, 8);
}

TEST(Registers, WhatIsAliveAtOnceIsExpected) {
  Listing full;
  const Operand at = full.address(full.thread());
  std::vector<Operand> words;
  for (int k = 0; k < 200; ++k) words.push_back(full.load(at, 4 * k));
  for (int k = 0; k < 200; ++k) full.store(at, 4 * k, words[static_cast<size_t>(k)]);
  full.end();
  EXPECT_GE(expected_registers(full.code, target()), 200);
}

}  // namespace
}  // namespace stax::emit::ptx
