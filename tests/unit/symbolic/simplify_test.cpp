// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdlib>

#include "random_expr.h"

namespace stax::symbolic {
namespace {

using test::RandomExprs;
using test::Tree;
using test::Values;

uint64_t base_seed() {
  const char* text = std::getenv("STAX_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 1;
}

int rounds() {
  const char* text = std::getenv("STAX_ROUNDS");
  return text != nullptr ? std::atoi(text) : 6000;
}

Expr parse(ExprTable& table, const std::string& text) {
  return parse_expr(table, text, [&](const std::string& name) { return table.find_symbol(name); });
}

// The value before and after simplification, the range and the divisor of the result, and its text, for thousands of
// random expressions.
TEST(Simplify, KeepsValuesRangesAndMultiples) {
  for (int round = 0; round < rounds(); ++round) {
    const uint64_t seed = base_seed() * 1'000'000 + static_cast<uint64_t>(round);
    ExprTable table;
    RandomExprs random(seed, table);
    const Tree tree = random.tree(1 + round % 4);
    const Expr e = build(table, tree);
    for (int sample = 0; sample < 24; ++sample) {
      const Values values = random.values();
      const int64_t expected = evaluate_tree(tree, values), got = evaluate(e, values);
      ASSERT_EQ(got, expected) << "seed " << seed << ": " << spell(tree) << "\nbecame " << e.str() << "\nat "
                               << random.spell_values(values);
      ASSERT_TRUE(e.range().contains(got)) << "seed " << seed << ": " << e.str() << " in " << e.range().lo << ".."
                                           << e.range().hi << " is " << got << " at " << random.spell_values(values);
      ASSERT_TRUE(e.multiple() == 0 ? got == 0 : got % e.multiple() == 0)
          << "seed " << seed << ": " << e.str() << " is said to be divisible by " << e.multiple() << " but is " << got;
    }
    ASSERT_EQ(parse(table, e.str()), e) << "seed " << seed << ": " << e.str() << " reads back as "
                                        << parse(table, e.str()).str();
  }
}

TEST(Simplify, SubstitutionCommutesWithEvaluation) {
  for (int round = 0; round < rounds() / 3; ++round) {
    const uint64_t seed = base_seed() * 2'000'000 + static_cast<uint64_t>(round);
    ExprTable table;
    RandomExprs random(seed, table);
    const Expr e = build(table, random.tree(3));
    ASSERT_EQ(substitute(e, {{random.symbols[0].node(), random.symbols[0]}}), e);
    // What replaces a symbol has to stay within its declaration: facts of the symbol have been used.
    const Expr symbol = random.symbols[static_cast<size_t>(random.between(0, 3))];
    const Expr by = min(max(build(table, random.tree(2)), symbol.range().lo), symbol.range().hi);
    const Expr replacement = floordiv(by, symbol.symbol().multiple) * symbol.symbol().multiple;
    const Expr substituted = substitute(e, {{symbol.node(), replacement}});
    for (int sample = 0; sample < 12; ++sample) {
      Values values = random.values();
      const int64_t got = evaluate(substituted, values);
      Values changed = values;
      changed[symbol.node()] = evaluate(replacement, values);
      ASSERT_EQ(got, evaluate(e, changed)) << "seed " << seed << ": " << e.str() << " with " << symbol.str()
                                           << " := " << replacement.str() << " became " << substituted.str();
    }
  }
}

TEST(Simplify, RangesUnderOverrides) {
  for (int round = 0; round < rounds() / 3; ++round) {
    const uint64_t seed = base_seed() * 3'000'000 + static_cast<uint64_t>(round);
    ExprTable table;
    RandomExprs random(seed, table);
    const Expr e = build(table, random.tree(3));
    const Values values = random.values();
    RangeOverrides overrides;
    for (Expr symbol : random.symbols)
      if (random.between(0, 1) == 0)
        overrides[symbol.node()] = {values.at(symbol.node()) - random.between(0, 1), values.at(symbol.node())};
    const Interval r = range_of(e, overrides);
    ASSERT_TRUE(r.contains(evaluate(e, values))) << "seed " << seed << ": " << e.str();
    ASSERT_TRUE(e.range().lo <= r.lo && r.hi <= e.range().hi);
  }
}

TEST(Simplify, FlatExpressionsAgree) {
  ExprTable table;
  RandomExprs random(base_seed(), table);
  FlatExprs flat;
  std::vector<std::pair<Expr, uint32_t>> added;
  for (int round = 0; round < 300; ++round) {
    const Expr e = build(table, random.tree(3));
    added.emplace_back(e, flat.add(e, [](Expr symbol) { return static_cast<uint32_t>(symbol.node()->value); }));
  }
  std::vector<int64_t> results(flat.nodes().size());
  for (int sample = 0; sample < 20; ++sample) {
    const Values values = random.values();
    std::vector<int64_t> slots;
    for (Expr symbol : random.symbols) slots.push_back(values.at(symbol.node()));
    flat.evaluate(0, flat.nodes().size(), slots, results);
    for (const auto& [e, index] : added) ASSERT_EQ(results[index], evaluate(e, values)) << e.str();
  }
}

TEST(Simplify, AffineSplitIsExact) {
  int found = 0;
  for (int round = 0; round < rounds() / 3; ++round) {
    const uint64_t seed = base_seed() * 4'000'000 + static_cast<uint64_t>(round);
    ExprTable table;
    RandomExprs random(seed, table);
    const Expr e = build(table, random.tree(3));
    const Expr symbol = random.symbols[static_cast<size_t>(random.between(0, 5))];
    const auto affine = affine_in(e, symbol);
    if (!affine) continue;
    ++found;
    ASSERT_FALSE(depends_on(affine->coefficient, symbol));
    ASSERT_FALSE(depends_on(affine->rest, symbol));
    for (int sample = 0; sample < 12; ++sample) {
      const Values values = random.values();
      ASSERT_EQ(evaluate(affine->coefficient, values) * values.at(symbol.node()) + evaluate(affine->rest, values),
                evaluate(e, values))
          << "seed " << seed << ": " << e.str();
    }
  }
  EXPECT_GT(found, 100);
}

// ---- What has to be seen

class Rules : public testing::Test {
 protected:
  Expr dim(const std::string& name, int64_t lo = 0, int64_t hi = kMaxExtent, int64_t multiple = 1) {
    return table.new_symbol({name, SymbolKind::kDim, {lo, hi}, multiple});
  }
  Expr parsed(const std::string& text) { return parse(table, text); }
  void expect(const std::string& text, const std::string& simplified) {
    EXPECT_EQ(parsed(text).str(), simplified) << "from " << text;
  }
  ExprTable table;
  Expr i = dim("i", 0, 3), j = dim("j", 0, 7), n = dim("n"), m = dim("m", 1), p = dim("p", 1), q = dim("q", 0, 400, 4),
       z = dim("z", -100, 100);
};

TEST_F(Rules, Sums) {
  expect("n + m - n", "m");
  expect("m*n - n*m", "0");
  expect("n*2 + 3 + n*4 - 5", "n*6 - 2");
  expect("(n + 1)*(m + 2)", "m*n + m + n*2 + 2");
  expect("(n + 1)*8", "n*8 + 8");
  expect("0*n", "0");
  expect("-(n - m)", "m - n");
  expect("1 - less(i, n)", "less(n, i + 1)");
}

TEST_F(Rules, DivisionAndModulo) {
  expect("floordiv(n*m + n, m)", "n + floordiv(n, m)");
  expect("mod(i*n + j, n)", "mod(j, n)");
  expect("mod(n*8 + j, 8)", "j");
  expect("floordiv(n*8 + j, 8)", "n");
  expect("floordiv(n*n, n)", "floordiv(n*n, n)");  // n may be 0
  expect("mod(n*n, n)", "0");
  expect("floordiv(m*n, m)", "n");
  expect("floordiv(floordiv(n, 4), 8)", "floordiv(n, 32)");
  expect("floordiv(floordiv(n + 1, 2) + 1, 2)", "floordiv(n + 3, 4)");
  expect("floordiv(mod(n, 32), 8)", "mod(floordiv(n, 8), 4)");
  expect("mod(mod(n, 32), 8)", "mod(n, 8)");
  expect("floordiv(q, 4)*4", "q");
  expect("mod(q + i, 4)", "i");
  expect("floordiv(q*n, 2)", "n*floordiv(q, 2)");
  expect("floordiv(4*n + i, 8)", "floordiv(n, 2)");
  expect("floordiv(i*8 + j, 16)", "floordiv(i, 2)");
  expect("mod(i*8 + j, 16)", "j + mod(i, 2)*8");
  expect("mod(4*n + i, 8)", "i + mod(n, 2)*4");
  expect("ceildiv(n, 8)", "floordiv(n + 7, 8)");
  expect("ceildiv(n*8, 8)", "n");
  expect("floordiv(n + 16, 8)", "floordiv(n, 8) + 2");
  expect("floordiv(i*(m + 1) + i, m + 2)", "i");
  expect("floordiv(m - 1, m)", "0");
  expect("mod(m - 1, m)", "m - 1");
}

TEST_F(Rules, DigitsJoinAgain) {
  expect("floordiv(n, 8)*8 + mod(n, 8)", "n");
  expect("n - floordiv(n, 8)*8", "mod(n, 8)");
  expect("floordiv(n + 7, 8)*8 - n", "-mod(n + 7, 8) + 7");
  expect("floordiv(n, m)*m + mod(n, m)", "n");
  // Three digits of a flat index.
  expect("floordiv(n, m*p)*m*p + mod(floordiv(n, p), m)*p + mod(n, p)", "n");
  expect("floordiv(n, 40)*40 + mod(floordiv(n, 8), 5)*8 + mod(n, 8)", "n");
  expect("(i*40 + j) - floordiv(i*40 + j, 8)*8", "j");
}

TEST_F(Rules, Extremes) {
  expect("min(i, 3)", "i");
  expect("max(i, -1)", "i");
  expect("min(n, n + 1)", "n");
  expect("max(n, n - m)", "n");
  expect("min(n, max(n, m))", "n");
  expect("min(min(n, z), n, 9223372036854775807)", "min(n, z)");
  expect("max(n - min(n, 8), 0)", "n - min(n, 8)");
  expect("max(n - floordiv(n, 2), 0)", "n - floordiv(n, 2)");
  expect("max(n*m - n, 0)", "m*n - n");
}

TEST_F(Rules, Comparisons) {
  expect("less(n, n + 1)", "1");
  expect("less(i, 4)", "1");
  expect("less(n*2, m*2 + 1)", "less(n, m + 1)");
  expect("less_equal(n + 1, m)", "less(n, m)");
  expect("equal(2*n, 2*m + 1)", "0");
  expect("equal(q, 2)", "0");
  expect("equal(n, n)", "1");
  expect("equal(m, 0)", "0");
  expect("equal(less(n, m), 0)", "less(m, n + 1)");
  expect("not(not(less(n, m)))", "less(n, m)");
  expect("and(less(n, m), less(n, m + 1))", "less(n, m)");
  expect("less(z, 0)", "less(z, 0)");
}

TEST_F(Rules, Selects) {
  expect("select(less(n, m), 1, 0)", "less(n, m)");
  expect("select(less(n, m), n, m)", "min(m, n)");
  expect("select(less(n, m), m, n)", "max(m, n)");
  expect("select(equal(n, m), n, m)", "m");
  expect("select(equal(n, 1), min(n, 5), n)", "n");
  expect("select(equal(n, 3), n*m + 2, m)", "select(equal(n, 3), m*3 + 2, m)");
  expect("select(less(i, 9), n, m)", "n");
  expect("select(less(z, 0), n, n)", "n");
}

TEST_F(Rules, OneValueIsThatValue) {
  const Expr one = dim("one", 1, 1);
  EXPECT_TRUE(one.is_symbol());
  EXPECT_EQ(one * n, n);
  EXPECT_TRUE((one + 1).is_constant(2));
}

TEST_F(Rules, SaturationStaysAbsurd) {
  EXPECT_TRUE((n + kPosInf).is_constant(kPosInf));
  const Expr huge = n * m * p * n;
  EXPECT_EQ(huge.range().hi, kPosInf);
  EXPECT_EQ(evaluate(huge, {{n.node(), 1 << 30}, {m.node(), 1 << 30}, {p.node(), 1 << 30}}), kPosInf);
}

TEST_F(Rules, NamesInText) {
  const Expr odd = dim("x[0]"), again = dim("n"), min_name = dim("min");
  EXPECT_EQ((odd + 1).str(), "\"x[0]\" + 1");
  EXPECT_EQ(again.str(), "n.2");
  EXPECT_NE(again, n);
  for (Expr e : {odd * again + min_name, min(min_name, odd)}) EXPECT_EQ(parsed(e.str()), e);
  EXPECT_EQ(parsed("-9223372036854775808").constant(), kNegInf);
}

TEST_F(Rules, AffineParts) {
  const auto split = affine_in(i * n + j * 4 + i + 2, i);
  ASSERT_TRUE(split);
  EXPECT_EQ(split->coefficient, n + 1);
  EXPECT_EQ(split->rest, j * 4 + 2);
  EXPECT_FALSE(affine_in(i * i, i));
  EXPECT_FALSE(affine_in(mod(i + n, 2), i));
  EXPECT_TRUE(affine_in(n, i)->coefficient.is_constant(0));
}

// The order in sums does not follow the order of creation, so that text is stable.
TEST(Print, DoesNotDependOnCreationOrder) {
  std::string texts[2];
  for (int order = 0; order < 2; ++order) {
    ExprTable table;
    Expr a, b;
    if (order == 0) a = table.new_symbol({"a"}), b = table.new_symbol({"b"});
    if (order == 1) b = table.new_symbol({"b"}), a = table.new_symbol({"a"});
    if (order == 1) floordiv(b, 3);
    texts[order] = (floordiv(a, 3) * b + floordiv(b, 3) + b + a).str();
  }
  EXPECT_EQ(texts[0], texts[1]);
}

}  // namespace
}  // namespace stax::symbolic
