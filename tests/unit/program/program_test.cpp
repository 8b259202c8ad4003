// SPDX-License-Identifier: Apache-2.0
// The file of a compiled program: what is written is read back; what is damaged is refused; nothing that is inconsistent passes the verifier.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <random>

#include "program/steps.h"
#include "support/error.h"
#include "support/hash.h"
#include "unit/program/sample_program.h"

namespace stax::program {
namespace {

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const UserError& e) {
    return std::string("user: ") + e.what();
  } catch (const InternalError& e) {
    return std::string("internal: ") + e.what();
  }
  return {};
}

// Makes the checksum fit again after a change.
void seal(std::vector<uint8_t>& file) {
  if (file.size() < 32) return;
  const uint64_t sum = hash_bytes(std::as_bytes(std::span(file).subspan(24)));
  std::memcpy(file.data() + 16, &sum, 8);
}

TEST(Program, TheSampleIsConsistentAndHasEveryKindOfStep) {
  const Program p = sample_program();
  verify(p);
  std::vector<bool> seen(std::variant_size_v<Step>, false);
  for (const BlockSpec& b : p.blocks)
    for (const Step& s : b.steps) seen[s.index()] = true;
  for (size_t k = 0; k < seen.size(); ++k) EXPECT_TRUE(seen[k]) << "step kind " << k;
}

TEST(Program, IsReadBackAsItWasWritten) {
  const Program p = sample_program();
  const std::vector<uint8_t> file = serialize(p);
  ASSERT_TRUE(is_program_file(file));
  const Program q = deserialize(file, "file");
  EXPECT_EQ(print(q), print(p));
  EXPECT_EQ(serialize(q), file);
  EXPECT_EQ(q.warnings, p.warnings);
  EXPECT_EQ(q.build, p.build);
  EXPECT_EQ(q.exprs.nodes(), p.exprs.nodes());
  ASSERT_EQ(q.images.size(), 2u);
  EXPECT_EQ(q.images[1].isa, "avx512");
  EXPECT_EQ(q.images[1].bytes, p.images[1].bytes);
  ASSERT_EQ(q.constants.size(), 3u);
  EXPECT_EQ(q.constants[0].at(3).f, 3.5);
  EXPECT_EQ(q.constants[1].at(0).i, 3);
  for (size_t k = 0; k < p.kernels.size(); ++k) EXPECT_EQ(q.kernels[k].loop_text, p.kernels[k].loop_text);
}

TEST(Program, ConstantsOfAKeptFileAreNotCopied) {
  const Program p = sample_program();
  auto file = std::make_shared<std::vector<uint8_t>>(serialize(p));
  Program q = deserialize(*file, "file", file);
  const std::weak_ptr<void> kept = file;
  const auto* first = file->data();
  const auto* last = first + file->size();
  file.reset();
  for (size_t k = 0; k < q.constants.size(); ++k) {
    const auto* data = static_cast<const uint8_t*>(q.constants[k].data());
    EXPECT_TRUE(data >= first && data + q.constants[k].bytes() <= last) << "constant " << k;
    ASSERT_EQ(q.constants[k].extents(), p.constants[k].extents());
    for (int64_t i = 0; i < q.constants[k].count(); ++i) EXPECT_EQ(q.constants[k].at(i).i, p.constants[k].at(i).i);
  }
  EXPECT_FALSE(kept.expired()) << "the constants keep the file";
  q.constants.clear();
  EXPECT_TRUE(kept.expired());
}

TEST(Program, AnEmptyOneIsReadBack) {
  ProgramSpeller p;
  p.program.blocks.resize(1);
  p.segment(0, 0);
  const std::vector<uint8_t> file = serialize(p.program);
  EXPECT_EQ(serialize(deserialize(file, "file")), file);
}

TEST(Program, WeightsLieAtMultiplesOf64) {
  const std::vector<uint8_t> file = serialize(sample_program());
  const float weights[] = {0.5F, 1.5F, 2.5F, 3.5F};
  const auto at = std::search(file.begin(), file.end(), reinterpret_cast<const uint8_t*>(weights),
                              reinterpret_cast<const uint8_t*>(weights) + sizeof weights);
  ASSERT_NE(at, file.end());
  EXPECT_EQ((at - file.begin()) % 64, 0);
}

TEST(Program, AnyChangedByteIsNoticed) {
  const std::vector<uint8_t> good = serialize(sample_program());
  std::mt19937_64 random(1);
  for (int k = 0; k < 3000; ++k) {
    std::vector<uint8_t> bad = good;
    const size_t at = random() % bad.size();
    bad[at] ^= static_cast<uint8_t>(1 + random() % 255);
    if (at >= 12 && at < 16) continue;  // reserved
    const std::string message = message_of([&] { deserialize(bad, "model.stax"); });
    ASSERT_EQ(message.rfind("user: ", 0), 0u) << "byte " << at << " of " << bad.size() << ": " << message;
    ASSERT_NE(message.find("model.stax"), std::string::npos) << message;
  }
}

TEST(Program, AnyMissingEndIsNoticed) {
  const std::vector<uint8_t> good = serialize(sample_program());
  for (size_t n = 0; n < good.size(); n += n < 200 ? 1 : 13) {
    const std::string message = message_of([&] { deserialize(std::span(good).first(n), "model.stax"); });
    ASSERT_EQ(message.rfind("user: ", 0), 0u) << n << " bytes: " << message;
  }
  std::vector<uint8_t> longer = good;
  longer.push_back(0);
  EXPECT_EQ(message_of([&] { deserialize(longer, "model.stax"); }).rfind("user: ", 0), 0u);
}

TEST(Program, AnotherFormatVersionIsNamed) {
  std::vector<uint8_t> file = serialize(sample_program());
  uint32_t format = 0;
  std::memcpy(&format, file.data() + 8, 4);
  for (const uint32_t other : {format + 1, format - 1, 0xFFFFFFFFu}) {
    std::memcpy(file.data() + 8, &other, 4);
    seal(file);
    const std::string message = message_of([&] { deserialize(file, "model.stax"); });
    EXPECT_NE(message.find("version " + std::to_string(other)), std::string::npos) << message;
    EXPECT_NE(message.find("compile the model again"), std::string::npos) << message;
  }
}

// A file whose checksum fits, but whose description says something else: refused, or a consistent program that prints.
TEST(Program, NoDescriptionCanDoHarm) {
  const std::vector<uint8_t> good = serialize(sample_program());
  uint64_t length = 0;
  std::memcpy(&length, good.data() + 24, 8);
  std::mt19937_64 random(2);
  const uint64_t interesting[] = {0,
                                  1,
                                  2,
                                  3,
                                  7,
                                  8,
                                  9,
                                  255,
                                  256,
                                  0x7FFFFFFF,
                                  0x80000000,
                                  0xFFFFFFFF,
                                  0x100000000,
                                  uint64_t{1} << 62,
                                  0x7FFFFFFFFFFFFFFF,
                                  0x8000000000000000,
                                  ~uint64_t{0}};
  int refused = 0, accepted = 0;
  for (int k = 0; k < 20000; ++k) {
    std::vector<uint8_t> bad = good;
    for (int changes = 1 + static_cast<int>(random() % 2); changes > 0; --changes) {
      const size_t at = 32 + random() % (length - 8) / (k % 2 == 0 ? 8 : 1) * (k % 2 == 0 ? 8 : 1);
      uint64_t word = 0;
      std::memcpy(&word, bad.data() + at, 8);
      switch (random() % 3) {
        case 0: word = interesting[random() % std::size(interesting)]; break;
        case 1: word += random() % 2 ? 1 : ~uint64_t{0}; break;
        default: word ^= uint64_t{1} << random() % 64; break;
      }
      std::memcpy(bad.data() + at, &word, 8);
    }
    if (k % 50 == 0) {
      const uint64_t other = random() % (2 * length);
      std::memcpy(bad.data() + 24, &other, 8);
    }
    seal(bad);
    const std::string message = message_of([&] { EXPECT_FALSE(print(deserialize(bad, "model.stax")).empty()); });
    ASSERT_TRUE(message.empty() || message.rfind("user: ", 0) == 0) << message;
    ++(message.empty() ? accepted : refused);
  }
  EXPECT_GT(refused, 5000);
  EXPECT_GT(accepted, 100) << "values without influence on references exist";
}

// Each reference of each step, in turn, past the end of its table.
TEST(Program, ReferencesOutOfRangeAreNoticed) {
  std::vector<std::function<void(Program&)>> faults;
  const auto each = [&](auto choose) {
    for (const uint32_t wrong : {100000u, kNone - 1})
      faults.push_back([choose, wrong](Program& p) { choose(p) = wrong; });
  };
  const Program good = sample_program();
  for (size_t b = 0; b < good.blocks.size(); ++b) {
    for (size_t s = 0; s < good.blocks[b].steps.size(); ++s) {
      const auto step = [b, s](Program& p) -> Step& { return p.blocks[b].steps[s]; };
      const size_t kind = good.blocks[b].steps[s].index();
#define STAX_FIELD(Kind, ...) each([step](Program& p) -> uint32_t& { return std::get<Kind>(step(p)).__VA_ARGS__; })
      if (kind == Step(LaunchStep{}).index()) {
        STAX_FIELD(LaunchStep, versions[0].kernel);
        STAX_FIELD(LaunchStep, versions[0].iterations);
        STAX_FIELD(LaunchStep, versions[0].scratch_bytes);
        STAX_FIELD(LaunchStep, versions.back().guard);
        STAX_FIELD(LaunchStep, arguments[0]);
        STAX_FIELD(LaunchStep, arguments.back());
        STAX_FIELD(LaunchStep, results);
        STAX_FIELD(LaunchStep, params[0]);
        STAX_FIELD(LaunchStep, work);
        STAX_FIELD(LaunchStep, empty_if_zero);
      } else if (kind == Step(CopyStep{}).index()) {
        STAX_FIELD(CopyStep, from);
        STAX_FIELD(CopyStep, to);
      } else if (kind == Step(AliasStep{}).index()) {
        STAX_FIELD(AliasStep, from);
        STAX_FIELD(AliasStep, to);
      } else if (kind == Step(ReshapeDynamicStep{}).index()) {
        STAX_FIELD(ReshapeDynamicStep, data);
        STAX_FIELD(ReshapeDynamicStep, shape);
        STAX_FIELD(ReshapeDynamicStep, result);
        STAX_FIELD(ReshapeDynamicStep, defines[0]);
        STAX_FIELD(ReshapeDynamicStep, defines[8]);
      } else if (kind == Step(BindStep{}).index()) {
        STAX_FIELD(BindStep, value);
        STAX_FIELD(BindStep, defines[0]);
      } else if (kind == Step(CheckStep{}).index()) {
        STAX_FIELD(CheckStep, condition);
        STAX_FIELD(CheckStep, arguments[0]);
      } else if (kind == Step(ProcedureStep{}).index()) {
        STAX_FIELD(ProcedureStep, operands[0]);
        STAX_FIELD(ProcedureStep, results[0]);
      } else if (kind == Step(IfStep{}).index()) {
        STAX_FIELD(IfStep, condition);
        STAX_FIELD(IfStep, then_block);
        STAX_FIELD(IfStep, else_block);
        STAX_FIELD(IfStep, results[0]);
        STAX_FIELD(IfStep, bindings[0].symbol);
        STAX_FIELD(IfStep, bindings[0].output);
        STAX_FIELD(IfStep, bindings[0].axis);
      } else if (kind == Step(LoopStep{}).index()) {
        STAX_FIELD(LoopStep, trip_count);
        STAX_FIELD(LoopStep, condition);
        STAX_FIELD(LoopStep, initial[0]);
        STAX_FIELD(LoopStep, body);
        STAX_FIELD(LoopStep, results[1]);
        STAX_FIELD(LoopStep, body_bindings[0].symbol);
        STAX_FIELD(LoopStep, body_bindings[0].output);
        STAX_FIELD(LoopStep, body_bindings[0].axis);
        STAX_FIELD(LoopStep, bindings[1].axis);
      } else if (kind == Step(SequenceStep{}).index()) {
        STAX_FIELD(SequenceStep, operands[0]);
        STAX_FIELD(SequenceStep, result);
      }
#undef STAX_FIELD
    }
    for (size_t s = 0; s < good.blocks[b].segments.size(); ++s) {
      if (!good.blocks[b].segments[s].nodes.empty())
        each([b, s](Program& p) -> uint32_t& { return p.blocks[b].segments[s].nodes[0]; });
      each([b, s](Program& p) -> uint32_t& { return p.blocks[b].segments[s].first_step; });
    }
    if (!good.blocks[b].inputs.empty()) each([b](Program& p) -> uint32_t& { return p.blocks[b].inputs[0]; });
    each([b](Program& p) -> uint32_t& { return p.blocks[b].outputs[0]; });
  }
  for (size_t v = 0; v < good.values.size(); ++v) {
    for (size_t d = 0; d < good.values[v].extents.size(); ++d)
      each([v, d](Program& p) -> uint32_t& { return p.values[v].extents[d]; });
    if (good.values[v].storage == Storage::kArena)
      each([v](Program& p) -> uint32_t& { return p.values[v].arena_segment; });
    if (good.values[v].storage == Storage::kArena) each([v](Program& p) -> uint32_t& { return p.values[v].offset; });
    if (good.values[v].storage == Storage::kAlias || good.values[v].storage == Storage::kConstant)
      each([v](Program& p) -> uint32_t& { return p.values[v].index; });
    if (!good.values[v].is_sequence) each([v](Program& p) -> uint32_t& { return p.values[v].bytes; });
  }
  each([](Program& p) -> uint32_t& { return p.inputs[0].value; });
  each([](Program& p) -> uint32_t& { return p.inputs[0].dims[0].symbol; });
  each([](Program& p) -> uint32_t& { return p.outputs[0].value; });
  for (size_t n = 0; n < good.exprs.nodes().size(); ++n)
    for (size_t k = 0; k < good.exprs.nodes()[n].args.size(); ++k)
      each([n, k](Program& p) -> uint32_t& { return p.exprs.nodes()[n].args[k]; });
  ASSERT_GT(faults.size(), 300u);
  for (size_t k = 0; k < faults.size(); ++k) {
    Program bad = good;
    faults[k](bad);
    EXPECT_EQ(message_of([&] { verify(bad); }).rfind("internal: ", 0), 0u) << "fault " << k << " passes:\n"
                                                                           << print(good);
    if (testing::Test::HasFailure()) return;
  }
}

template <class Kind>
Kind& first(Program& p, uint32_t block = 0) {
  for (Step& s : p.blocks[block].steps)
    if (auto* found = std::get_if<Kind>(&s)) return *found;
  throw std::logic_error("no such step");
}

TEST(Program, InconsistenciesAreNoticed) {
  const std::pair<const char*, std::function<void(Program&)>> faults[] = {
      {"a value is used before it is made", [](Program& p) { std::swap(p.blocks[0].steps[0], p.blocks[0].steps[1]); }},
      {"a value of a branch is used outside of it",
       [](Program& p) { first<LoopStep>(p).initial[0] = p.blocks[2].outputs[0]; }},
      {"a value of a body is given out", [](Program& p) { p.outputs[0].value = p.blocks[3].outputs[1]; }},
      {"an expression of a body is used outside of it",
       [](Program& p) { first<CheckStep>(p).condition = p.values[p.blocks[3].inputs[1]].extents[0]; }},
      {"an expression that no segment computes", [](Program& p) { p.blocks[0].segments[0].nodes.pop_back(); }},
      {"an expression before its arguments",
       [](Program& p) { std::reverse(p.blocks[0].segments[0].nodes.begin(), p.blocks[0].segments[0].nodes.end()); }},
      {"a symbol before it is known", [](Program& p) { p.symbol_points[0] = 9; }},
      {"one block twice", [](Program& p) { first<IfStep>(p).else_block = first<IfStep>(p).then_block; }},
      {"a block inside itself", [](Program& p) { first<LoopStep>(p).body = 0; }},
      {"branches of different outputs", [](Program& p) { p.blocks[1].outputs.push_back(p.blocks[1].outputs[0]); }},
      {"a body without its iteration number", [](Program& p) { p.blocks[3].inputs.pop_back(); }},
      {"a sequence for a tensor", [](Program& p) { first<CopyStep>(p).from = p.inputs[2].value; }},
      {"a tensor for a sequence", [](Program& p) { p.values[p.inputs[2].value].is_sequence = false; }},
      {"too few symbols for a reshape", [](Program& p) { first<ReshapeDynamicStep>(p).defines.pop_back(); }},
      {"a host value that is too short", [](Program& p) { first<BindStep>(p).defines.push_back(0); }},
      {"an axis past the rank", [](Program& p) { first<ProcedureStep>(p).axis = 2; }},
      {"a negative axis", [](Program& p) { first<ProcedureStep>(p).axis = -3; }},
      {"a count that goes nowhere", [](Program& p) { std::get<ProcedureStep>(p.blocks[0].steps[7]).defines = kNone; }},
      {"a kind of procedure that there is not",
       [](Program& p) { first<ProcedureStep>(p).procedure = static_cast<Procedure>(9); }},
      {"a dtype that there is not", [](Program& p) { p.values[0].dtype = static_cast<DType>(77); }},
      {"a kind of storage that there is not", [](Program& p) { p.values[4].storage = static_cast<Storage>(9); }},
      {"an alias of itself",
       [](Program& p) {
         for (size_t v = 0; v < p.values.size(); ++v)
           if (p.values[v].storage == Storage::kAlias) p.values[v].index = static_cast<uint32_t>(v);
       }},
      {"extents of a constant that are not its own",
       [](Program& p) { p.values[3].extents[0] = p.values[3].extents[1] + 1; }},
      {"no last version that takes every shape",
       [](Program& p) { first<LaunchStep>(p).versions.back().guard = first<LaunchStep>(p).versions[0].guard; }},
      {"no versions", [](Program& p) { first<LaunchStep>(p).versions.clear(); }},
      {"no results", [](Program& p) { first<LaunchStep>(p).results = 0; }},
      {"more results than arguments", [](Program& p) { first<LaunchStep>(p).results = 9; }},
      {"no arguments", [](Program& p) { first<LaunchStep>(p).arguments.clear(); }},
      {"no segments", [](Program& p) { p.blocks[0].segments.clear(); }},
      {"segments out of order", [](Program& p) { std::swap(p.blocks[0].segments[1], p.blocks[0].segments[5]); }},
      {"no blocks", [](Program& p) { p.blocks.clear(); }},
      {"an expression with too few arguments",
       [](Program& p) {
         for (auto& n : p.exprs.nodes())
           if (n.kind == symbolic::ExprKind::kSelect) n.args.pop_back();
       }},
      {"a kind of expression that there is not",
       [](Program& p) { p.exprs.nodes()[3].kind = static_cast<symbolic::ExprKind>(50); }},
      {"memory of a segment that comes later", [](Program& p) { p.values[p.blocks[1].outputs[0]].arena_segment = 3; }},
  };
  for (const auto& [what, fault] : faults) {
    Program bad = sample_program();
    fault(bad);
    EXPECT_EQ(message_of([&] { verify(bad); }).rfind("internal: ", 0), 0u) << what;
    std::vector<uint8_t> file = serialize(bad);
    EXPECT_EQ(message_of([&] { deserialize(file, "model.stax"); }).rfind("user: ", 0), 0u) << what << ", from a file";
  }
}

TEST(Program, OtherFilesAreNone) {
  EXPECT_FALSE(is_program_file({}));
  const uint8_t text[] = "tensor_ir 1\n";
  EXPECT_FALSE(is_program_file(text));
  EXPECT_NE(message_of([&] { deserialize(text, "model.stax"); }).find("no compiled program"), std::string::npos);
}

TEST(Program, PrintsEveryStepWithItsSource) {
  const std::string text = print(sample_program());
  for (const char* word : {"launch", "copy", "alias", "reshape_dynamic", "bind", "check", "procedure", "if", "loop",
                           "sequence", "Exp node 'e'", "Loop node", "'n' in 0..100", "min("})
    EXPECT_NE(text.find(word), std::string::npos) << word << "\n" << text;
}

}  // namespace
}  // namespace stax::program
