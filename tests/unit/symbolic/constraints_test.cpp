// SPDX-License-Identifier: Apache-2.0
#include "symbolic/constraints.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "random_expr.h"

namespace stax::symbolic {
namespace {

using test::RandomExprs;
using test::Values;

class Constraints : public testing::Test {
 protected:
  Expr dim(const std::string& name, int64_t lo = 0, int64_t hi = kMaxExtent, int64_t multiple = 1) {
    return table.new_symbol({name, SymbolKind::kDim, {lo, hi}, multiple});
  }
  ExprTable table;
  ConstraintSet set;
  Expr n = dim("n"), m = dim("m"), k = dim("k"), i = dim("i"), j = dim("j"), t = dim("t", 1);
};

TEST_F(Constraints, UnnamedDimsAreNotEqualUntilProved) {
  EXPECT_EQ(set.equal(n, m), Truth::kUnknown);
  set.assume_equal(n, m);
  EXPECT_EQ(set.equal(n, m), Truth::kYes);
  EXPECT_EQ(set.equal(n * k + 1, k * m + 1), Truth::kYes);
  EXPECT_EQ(set.equal(n + 1, m), Truth::kNo);
  EXPECT_EQ(set.simplify(n - m).str(), "0");
}

TEST_F(Constraints, EqualitiesAreSolved) {
  set.assume_equal(n + 1, m * 2);
  EXPECT_EQ(set.equal(n + 3, m * 2 + 2), Truth::kYes);
  set.assume_equal(k, n);
  set.assume_equal(m, table.constant(5));
  EXPECT_TRUE(set.simplify(n).is_constant(9));
  EXPECT_TRUE(set.simplify(k).is_constant(9));
}

TEST_F(Constraints, RangesMeet) {
  const Expr a = dim("a", 2, 9), b = dim("b", 5, 20);
  set.assume_equal(a, b);
  EXPECT_EQ(set.range(a), (Interval{5, 9}));
  EXPECT_EQ(set.range(b), (Interval{5, 9}));
  EXPECT_EQ(set.less(b, a + 1), Truth::kYes);
}

TEST_F(Constraints, MultiplesMeet) {
  const Expr a = dim("a", 0, 100, 4), b = dim("b", 0, 100);
  EXPECT_EQ(set.divisible(b, 4), Truth::kUnknown);
  set.assume_equal(b, a);
  EXPECT_EQ(set.divisible(b, 4), Truth::kYes);
  set.assume_true(equal(mod(b, 6), 0));
  EXPECT_EQ(set.divisible(a, 12), Truth::kYes);
  EXPECT_EQ(set.divisible(a * 2 + 1, 2), Truth::kNo);
  EXPECT_EQ(set.equal(floordiv(b, 4) * 4, b), Truth::kYes);
}

TEST_F(Constraints, Products) {
  // [n, m, k] reshaped to [i, j].
  set.assume_equal(n * m * k, i * j);
  EXPECT_EQ(set.equal(n * m * k * 2, j * i * 2), Truth::kYes);
  EXPECT_EQ(set.equal(n * m, i), Truth::kUnknown);
  EXPECT_EQ(set.less(n * m * k, i * j + 1), Truth::kYes);
}

TEST_F(Constraints, ProductsAreWrittenInWhatIsKnownEarlier) {
  const Expr later = table.new_symbol({"later", SymbolKind::kValue, {0, kMaxExtent}});
  set.assume_equal(later * n * m * 2, n * m * k);
  EXPECT_EQ(set.simplify(n * m * k), n * m * k) << "no expression of inputs may come to need what is bound after them";
  EXPECT_EQ(set.simplify(later * n * m * 2), n * m * k);
  const Expr latest = table.new_symbol({"latest", SymbolKind::kValue, {0, kMaxExtent}});
  set.assume_equal(latest * n, later * m * 3);
  EXPECT_EQ(set.simplify(later * m * 3), later * m * 3);
  EXPECT_EQ(set.simplify(latest * n * k), later * m * 3 * k);
}

TEST_F(Constraints, FactorsThatMayBeZeroStay) {
  set.assume_equal(n * m, n * k);
  EXPECT_EQ(set.equal(m, k), Truth::kUnknown);
  set.assume_equal(t * m, t * k);
  EXPECT_EQ(set.equal(m, k), Truth::kYes);
}

TEST_F(Constraints, LoopBounds) {
  set.assume_true(less(i, n));
  set.assume_true(less(j, m));
  EXPECT_EQ(set.less(i, n), Truth::kYes);
  EXPECT_EQ(set.less_equal(n, i), Truth::kNo);
  EXPECT_EQ(set.less(i * m + j, n * m), Truth::kYes);
  EXPECT_EQ(set.simplify(mod(i * m + j, m)), j);
  EXPECT_EQ(set.simplify(floordiv(i * m + j, m)), i);
  EXPECT_EQ(set.less(i, m), Truth::kUnknown);
  EXPECT_EQ(set.truth(less_equal(i, n)), Truth::kYes);
  EXPECT_EQ(set.truth(logical_and(less(i, n), less(j, m))), Truth::kYes);
  EXPECT_EQ(set.range(n).lo, 1);
}

TEST_F(Constraints, ThreeLoopBounds) {
  const Expr l = dim("l");
  set.assume_true(less(i, n));
  set.assume_true(less(j, m));
  set.assume_true(less(l, k));
  const Expr flat = i * m * k + j * k + l;
  EXPECT_EQ(set.less(flat, n * m * k), Truth::kYes);
  EXPECT_EQ(set.simplify(mod(flat, k)), l);
  EXPECT_EQ(set.simplify(floordiv(flat, m * k)), i);
  EXPECT_EQ(set.simplify(mod(floordiv(flat, k), m)), j);
}

TEST_F(Constraints, ConditionsOfOtherForms) {
  set.assume_true(logical_and(less(n, m), logical_not(equal(k, 0))));
  EXPECT_EQ(set.less(n, m + 3), Truth::kYes);
  EXPECT_EQ(set.equal(n, m), Truth::kNo);
  EXPECT_EQ(set.range(k).lo, 1);
  set.assume_true(logical_or(less(i, j), equal(i, 3)));
  EXPECT_EQ(set.truth(logical_or(less(i, j), equal(i, 3))), Truth::kYes);
  set.assume_true(logical_not(equal(i, j)));
  EXPECT_EQ(set.equal(i, j), Truth::kNo);
  EXPECT_EQ(set.equal(i + 1, j), Truth::kUnknown);
}

// Random facts that hold at one assignment at least; queries are then compared with all sampled assignments at which all
// facts hold.
TEST(ConstraintsFuzz, NeverAnswersWrongly) {
  const char* text = std::getenv("STAX_ROUNDS");
  const int rounds = text != nullptr ? std::atoi(text) : 500;
  const char* seed_text = std::getenv("STAX_SEED");
  const uint64_t base = seed_text != nullptr ? std::strtoull(seed_text, nullptr, 10) : 1;
  int decided = 0;
  for (int round = 0; round < rounds; ++round) {
    const uint64_t seed = base * 1'000'000 + static_cast<uint64_t>(round);
    ExprTable table;
    RandomExprs random(seed, table);
    std::vector<Values> points;
    for (int n = 0; n < 300; ++n) points.push_back(random.values());
    ConstraintSet set;
    std::string facts;
    for (int fact = 0; fact < 8; ++fact) {
      Expr a = build(table, random.tree(1 + fact % 2)), b = build(table, random.tree(fact % 3));
      const int form = static_cast<int>(random.between(0, 5));
      Expr condition = form == 0   ? equal(a, b)
                       : form == 1 ? less(a, b)
                       : form == 2 ? logical_and(less(a, b), less(b, a + random.between(2, 9)))
                       : form == 3 ? equal(mod(a, random.between(1, 4)), 0)
                       : form == 4 ? logical_not(equal(a, b))
                                   : logical_or(less(a, b), equal(a, random.between(-2, 4)));
      std::vector<Values> left;
      for (const Values& point : points)
        if (evaluate(condition, point) != 0) left.push_back(point);
      if (left.empty() || (left.size() == points.size() && form != 0)) continue;
      points = left;
      facts += condition.str() + "; ";
      if (form == 0)
        set.assume_equal(a, b);
      else
        set.assume_true(condition);
      if (points.size() < 4) break;
    }
    for (int query = 0; query < 12; ++query) {
      const Expr a = build(table, random.tree(1 + query % 3)), b = build(table, random.tree(query % 3));
      const int64_t by = random.between(1, 6);
      const Expr simplified = set.simplify(a);
      const Interval range = set.range(a);
      const struct {
        const char* name;
        Truth answer;
        Expr condition;
      } queries[] = {{"equal", set.equal(a, b), equal(a, b)},
                     {"less", set.less(a, b), less(a, b)},
                     {"less_equal", set.less_equal(a, b), less_equal(a, b)},
                     {"truth", set.truth(a), a},
                     {"divisible", set.divisible(a, by), equal(mod(a, by), 0)}};
      for (const Values& point : points) {
        ASSERT_EQ(evaluate(simplified, point), evaluate(a, point))
            << "seed " << seed << ": " << a.str() << " became " << simplified.str() << "\nby " << facts << "\nat "
            << random.spell_values(point);
        ASSERT_TRUE(range.contains(evaluate(a, point)))
            << "seed " << seed << ": " << a.str() << " in " << range.lo << ".." << range.hi << "\nby " << facts;
        for (const auto& q : queries) {
          if (q.answer == Truth::kUnknown) continue;
          ++decided;
          ASSERT_EQ(q.answer == Truth::kYes, evaluate(q.condition, point) != 0)
              << "seed " << seed << ": " << q.name << "(" << a.str() << ", " << b.str() << ")\nby " << facts << "\nat "
              << random.spell_values(point);
        }
      }
    }
  }
  EXPECT_GT(decided, rounds);
}

}  // namespace
}  // namespace stax::symbolic
