// SPDX-License-Identifier: Apache-2.0
#include "ir/scalar.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>

#include "support/error.h"
#include "symbolic/evaluate.h"

namespace stax::ir {
namespace {

using symbolic::Expr;
using symbolic::SymbolKind;

constexpr DType kSlotTypes[] = {DType::kF32, DType::kI64, DType::kF16, DType::kI32, DType::kBool, DType::kU8};

constexpr int kOpCount = static_cast<int>(ScalarOp::kHash) + 1;

class Scalars : public testing::Test {
 protected:
  Scalar load(int slot, std::vector<Scalar> at = {}) { return s.load(slot, kSlotTypes[slot], std::move(at)); }
  Scalar parse(const std::string& text) {
    return parse_scalar(
        context, text, [&](const std::string& name) { return context.exprs.find_symbol(name); },
        [](int slot) { return kSlotTypes[slot]; });
  }
  Context context;
  ScalarTable& s = context.scalars;
  Expr i = context.exprs.new_symbol({"i", SymbolKind::kLoop, {0, 31}}), n = context.exprs.new_symbol({"n"}),
       z = context.exprs.new_symbol({"z", SymbolKind::kValue, {-8, 8}});
  Scalar x = load(0, {s.index(i)}), y = load(0, {s.index(n)}), k = load(1, {s.index(i)});
};

TEST_F(Scalars, AreHashConsed) {
  EXPECT_EQ(x + y, x + y);
  EXPECT_NE(x + y, y + x);
  EXPECT_EQ(s.index(i + n), s.index(n) + s.index(i));
  EXPECT_EQ(s.index(context.exprs.constant(3)), s.constant_int(DType::kI64, 3));
  EXPECT_NE(s.constant(DType::kF32, 0.0), s.constant(DType::kF32, -0.0));
  EXPECT_EQ(s.constant(DType::kF32, std::nan("1")), s.constant(DType::kF32, -std::nan("2")));
}

TEST_F(Scalars, Text) {
  const auto expect = [&](Scalar scalar, const std::string& text) {
    EXPECT_EQ(scalar.str(), text);
    EXPECT_EQ(parse(text), scalar);
  };
  expect(x + s.constant(DType::kF32, 1.5), "add(load0[i], 1.5:f32)");
  expect(s.index(i * 4 + n), "[i*4 + n]");
  expect(load(0, {s.index(i * n), k}), "load0[i*n, {load1[i]}]");
  expect(load(2), "load2[]");
  expect(cast(DType::kF32, load(2)), "cast<f32>(load2[])");
  expect(s.accumulator(DType::kF32), "acc:f32");
  expect(s.constant_int(DType::kBool, 1), "true:bool");
  expect(s.constant_int(DType::kU64, -1), "18446744073709551615:u64");
  expect(s.constant_int(DType::kI64, std::numeric_limits<int64_t>::min()), "-9223372036854775808:i64");
  expect(s.constant(DType::kF32, -std::numeric_limits<double>::infinity()), "-inf:f32");
  expect(s.constant(DType::kF16, 0.1), "0.099975586:f16");
  expect(select(less(s.index(i), s.index(n)), x, y), "select(cast<bool>([less(i, n)]), load0[i], load0[n])");
}

TEST_F(Scalars, TextFaultsAreTheUsers) {
  for (const char* text : {"add(load0[i]", "add(load0[i], 1:i32)", "nothing(load0[i])", "load0[q]", "1.5:i32", "300:u8",
                           "-1:u64", "1:f33", "load0[{load0[i]}]", "", "[i", "add(load0[i], load0[i]) x", "sqrt(1:i32)",
                           "select(1:i64, 1:i64, 2:i64)", "true:f32", "add()"})
    EXPECT_THROW(parse(text), UserError) << text;
}

TEST_F(Scalars, IndexArithmeticBecomesOneExpression) {
  const Scalar a = s.index(i), b = s.index(n), four = s.constant_int(DType::kI64, 4);
  EXPECT_EQ(a * four + b, s.index(i * 4 + n));
  EXPECT_EQ(as_expr(a - a), context.exprs.constant(0));
  EXPECT_EQ(binary(ScalarOp::kMin, a, b), s.index(symbolic::min(i, n)));
  EXPECT_EQ(a / four, s.index(symbolic::floordiv(i, 4)));
  EXPECT_EQ((s.index(z) / four)->kind, ScalarKind::kOp);  // truncation is not floor
  EXPECT_EQ(binary(ScalarOp::kModFloor, s.index(z), four), s.index(symbolic::mod(z, 4)));
  EXPECT_EQ(less(a, b), cast(DType::kBool, s.index(symbolic::less(i, n))));
  EXPECT_EQ(less(a, s.constant_int(DType::kI64, 32)), s.constant_int(DType::kBool, 1));
  EXPECT_EQ(select(less(a, b), a, b), s.index(symbolic::min(i, n)));
  EXPECT_EQ(binary(ScalarOp::kAnd, less(a, b), less(b, four)),
            cast(DType::kBool,
                 s.index(symbolic::logical_and(symbolic::less(i, n), symbolic::less(n, context.exprs.constant(4))))));
  EXPECT_EQ(unary(ScalarOp::kNot, less(a, b)), less_equal(b, a));
  EXPECT_EQ(cast(DType::kI64, less(a, b)), s.index(symbolic::less(i, n)));
  EXPECT_EQ(binary(ScalarOp::kCheckedIndex, a, s.constant_int(DType::kI64, 32)), a);
  EXPECT_EQ(binary(ScalarOp::kCheckedIndex, a, b)->kind, ScalarKind::kOp);
  // Values wrap, sizes saturate: constants are values.
  const Scalar greatest = s.constant_int(DType::kI64, std::numeric_limits<int64_t>::max());
  EXPECT_EQ(greatest + s.constant_int(DType::kI64, 1),
            s.constant_int(DType::kI64, std::numeric_limits<int64_t>::min()));
}

TEST_F(Scalars, FoldsAreExact) {
  const Scalar zero = s.constant(DType::kF32, 0.0), minus_zero = s.constant(DType::kF32, -0.0),
               one = s.constant(DType::kF32, 1);
  EXPECT_NE(x + zero, x);  // -0 + 0 is +0
  EXPECT_EQ(x + minus_zero, x);
  EXPECT_EQ(x - zero, x);
  EXPECT_NE(x - minus_zero, x);
  EXPECT_EQ(x * one, x);
  EXPECT_EQ(one * x, x);
  EXPECT_EQ(x / one, x);
  EXPECT_NE(x * zero, zero);
  EXPECT_EQ((x - x)->kind, ScalarKind::kOp);
  EXPECT_EQ(equal(x, x)->kind, ScalarKind::kOp);
  const Scalar none = s.constant_int(DType::kI64, 0);
  EXPECT_EQ(k + none, k);
  EXPECT_EQ(k * none, none);
  EXPECT_EQ(k - k, none);
  EXPECT_EQ(equal(k, k), s.constant_int(DType::kBool, 1));
  EXPECT_EQ(select(s.constant_int(DType::kBool, 0), x, y), y);
  EXPECT_EQ(select(equal(x, y), x, x), x);
  EXPECT_EQ(-(-x), x);
  const Scalar third = s.constant(DType::kF16, 1) / s.constant(DType::kF16, 3);
  EXPECT_EQ(third->kind, ScalarKind::kOp);  // not rounded before a cast or a store
  EXPECT_EQ(s.constant(DType::kF16, 1) / s.constant(DType::kF16, 4), s.constant(DType::kF16, 0.25));
}

TEST_F(Scalars, Casts) {
  const Scalar half = load(2), byte = load(5);
  EXPECT_EQ(cast(DType::kF32, x), x);
  EXPECT_EQ(cast(DType::kF16, cast(DType::kF32, half)), half);
  const Scalar sum = half + half;
  EXPECT_NE(cast(DType::kF16, cast(DType::kF32, sum)), sum);  // this one rounds
  EXPECT_EQ(cast(DType::kF32, cast(DType::kI32, byte)), cast(DType::kF32, byte));
  EXPECT_EQ(cast(DType::kU8, cast(DType::kF32, byte)), byte);
  EXPECT_NE(cast(DType::kF32, cast(DType::kI32, x)), x);
  EXPECT_EQ(cast(DType::kI32, s.constant(DType::kF32, -2.5)), s.constant_int(DType::kI32, -2));
}

TEST_F(Scalars, RewriteKeepsWhatDoesNotChange) {
  const Scalar root = unary(ScalarOp::kExp, x + y) * cast(DType::kF32, k);
  EXPECT_EQ(rewrite(root, {}, [](Scalar scalar) { return scalar; }), root);
  EXPECT_EQ(substitute(root, {{i.node(), n}}).str(), "mul(exp(add(load0[n], load0[n])), cast<f32>(load1[n]))");
  EXPECT_EQ(node_count(x + x), 3U);
  EXPECT_TRUE(has_load(root));
  EXPECT_FALSE(has_load(s.accumulator(DType::kF32)));
}

TEST_F(Scalars, RewriteSeesEachNodeOnce) {
  // Slots shift by one; a part that folding brings up has been shifted already.
  const auto shift = [&](Scalar scalar) {
    return scalar->kind == ScalarKind::kLoad && scalar->dtype == DType::kF32
               ? s.load(scalar->slot + 6, DType::kF32, scalar->args)
           : scalar->kind == ScalarKind::kAccumulator ? s.constant(DType::kF32, -0.0)
                                                      : scalar;
  };
  const Scalar acc = s.accumulator(DType::kF32);
  EXPECT_EQ(rewrite(x + acc, {}, shift), s.load(6, DType::kF32, x->args));
  EXPECT_EQ(rewrite(s.load(6, DType::kF32, y->args) * x, {{n.node(), i}}, shift),
            s.load(12, DType::kF32, x->args) * s.load(6, DType::kF32, x->args));
}

// ---- Random scalars

class RandomScalars {
 public:
  RandomScalars(uint64_t seed, Context& context) : random_(seed), s_(context.scalars) {
    for (const char* name : {"i", "j"}) symbols.push_back(context.exprs.new_symbol({name, SymbolKind::kLoop, {0, 5}}));
    symbols.push_back(context.exprs.new_symbol({"z", SymbolKind::kValue, {-3, 3}}));
  }

  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }

  Scalar constant(DType t) {
    static const double values[] = {0.0,
                                    -0.0,
                                    1,
                                    -1,
                                    0.5,
                                    3.25,
                                    1e-3,
                                    -70000,
                                    std::numeric_limits<double>::infinity(),
                                    std::numeric_limits<double>::quiet_NaN(),
                                    0.1};
    if (!is_float(t)) return s_.constant_int(t, below(4) == 0 ? static_cast<int64_t>(random_()) : below(9) - 4);
    if (below(3) == 0) return s_.constant(t, std::bit_cast<double>(random_()));
    if (below(3) == 0) return s_.constant(t, std::bit_cast<float>(static_cast<uint32_t>(random_())));
    return s_.constant(t, values[below(std::size(values))]);
  }

  Scalar scalar(DType t, int depth) {
    if (depth == 0 || below(8) == 0) {
      if (t == DType::kI64 && below(2) == 0) return s_.index(index(2));
      for (int slot = 0; slot < static_cast<int>(std::size(kSlotTypes)); ++slot)
        if (kSlotTypes[slot] == t && below(3) != 0)
          return s_.load(slot, t, {scalar(DType::kI64, std::max(depth - 1, 0))});
      return below(6) == 0 ? s_.accumulator(t) : constant(t);
    }
    for (;;) {
      const int choice = static_cast<int>(below(kOpCount + 3));
      if (choice >= kOpCount) return s_.cast(t, scalar(type(), depth - 1));
      const ScalarOp op = static_cast<ScalarOp>(choice);
      if (op == ScalarOp::kSelect)
        return s_.op(op, {scalar(DType::kBool, depth - 1), scalar(t, depth - 1), scalar(t, depth - 1)});
      const bool is_hash = op == ScalarOp::kHash;
      const DType argument = is_hash ? DType::kI64 : t == DType::kBool && below(2) == 0 ? type() : t;
      std::vector<DType> types(static_cast<size_t>(arity_of(op)), argument);
      try {
        if (result_dtype(op, types) != t) continue;
      } catch (const InternalError&) {
        continue;
      }
      std::vector<Scalar> args;
      for (DType a : types) args.push_back(scalar(a, depth - 1));
      return s_.op(op, std::move(args));
    }
  }

  DType type() { return static_cast<DType>(below(kDTypeCount)); }

  Expr index(int depth) {
    if (depth == 0) return symbols[static_cast<size_t>(below(3))];
    const Expr a = index(depth - 1), b = index(depth - 1);
    switch (below(5)) {
      case 0: return a + b;
      case 1: return a * (below(5) - 1);
      case 2: return symbolic::min(a, b);
      case 3: return symbolic::mod(a, 3);
      default: return symbolic::floordiv(a * 2 + b, 4) + below(3);
    }
  }

  std::vector<Expr> symbols;

 private:
  std::mt19937_64 random_;
  ScalarTable& s_;
};

int rounds() {
  const char* text = std::getenv("STAX_ROUNDS");
  return text != nullptr ? std::atoi(text) : 4000;
}

TEST(ScalarFuzz, TextRoundTrips) {
  for (int round = 0; round < rounds(); ++round) {
    Context context;
    RandomScalars random(static_cast<uint64_t>(round), context);
    const Scalar x = random.scalar(random.type(), 1 + round % 4);
    const Scalar y = parse_scalar(
        context, x.str(), [&](const std::string& name) { return context.exprs.find_symbol(name); },
        [](int slot) { return kSlotTypes[slot]; });
    ASSERT_EQ(x, y) << "seed " << round << ": " << x.str() << "\nreads back as " << y.str();
    ASSERT_EQ(rewrite(x, {}, [](Scalar node) { return node; }), x);
  }
}

// The value of a scalar at one point, of nodes as they are.
Value64 evaluate(Scalar x, const std::function<Value64(Scalar leaf)>& leaf) {
  const bool has_effect = x->kind == ScalarKind::kOp && x->op == ScalarOp::kCheckedIndex;
  if (has_effect || (x->kind != ScalarKind::kOp && x->kind != ScalarKind::kCast)) return leaf(x);
  std::vector<Value64> args;
  for (Scalar arg : x->args) args.push_back(evaluate(arg, leaf));
  if (x->kind == ScalarKind::kCast) return evaluate_cast(x->dtype, x->args[0]->dtype, args[0]);
  return evaluate_scalar_op(x->op, x->args[0]->dtype, args);
}

bool same(DType t, Value64 a, Value64 b) {
  if (!is_float(t)) return a.i == b.i;
  if (std::isnan(a.f) || std::isnan(b.f)) return std::isnan(a.f) == std::isnan(b.f);
  return a.f == b.f && std::signbit(a.f) == std::signbit(b.f);
}

// One operation on leaves: what the builder gives has the value of the operation.
TEST(ScalarFuzz, FoldingKeepsValues) {
  for (int round = 0; round < rounds() * 4; ++round) {
    Context context;
    RandomScalars random(static_cast<uint64_t>(round), context);
    std::unordered_map<const symbolic::ExprNode*, int64_t> at;
    for (Expr symbol : random.symbols) {
      const symbolic::Interval r = symbol.range();
      at[symbol.node()] = r.lo + random.below(r.hi - r.lo + 1);
    }
    const auto leaf = [&](Scalar x) {
      Value64 v;
      v.i = 0;
      if (const Expr e = as_expr(x)) {
        v.i = symbolic::evaluate(e, at);
      } else if (x->kind == ScalarKind::kConstant) {
        if (is_float(x->dtype))
          v.f = x->as_double();
        else
          v.i = x->as_int();
      } else if (is_float(x->dtype)) {
        v.f = x->id % 5 == 0 ? -0.0 : x->id % 5 == 1 ? std::nan("") : round_to(x->dtype, x->id * 0.3 - 2);
      } else {
        v.i = wrap_integer(x->dtype, static_cast<int64_t>(x->id) - 7);
      }
      return v;
    };
    const ScalarOp op = static_cast<ScalarOp>(random.below(kOpCount));
    if (op == ScalarOp::kCheckedIndex) continue;
    const DType t = random.below(2) == 0 ? DType::kI64 : random.type();
    std::vector<DType> types(static_cast<size_t>(arity_of(op)), t);
    if (op == ScalarOp::kSelect) types[0] = DType::kBool;
    DType result = t;
    try {
      result = result_dtype(op, types);
    } catch (const InternalError&) {
      continue;
    }
    std::vector<Scalar> args;
    for (DType a : types) args.push_back(random.scalar(a, static_cast<int>(random.below(2))));
    if (args.size() == 2 && random.below(4) == 0) args[1] = args[0];
    std::vector<Value64> values;
    bool saturates = false;  // sizes do where values wrap; up to 2^40 there is no difference
    for (Scalar arg : args) {
      values.push_back(evaluate(arg, leaf));
      if (const Expr e = as_expr(arg))
        saturates = saturates || e.range().lo < -(int64_t{1} << 40) || e.range().hi > (int64_t{1} << 40);
    }
    if (saturates) continue;
    Value64 expected = evaluate_scalar_op(op, types.back(), values);
    const Scalar x = context.scalars.op(op, args);
    Value64 got = evaluate(x, leaf);
    if (result == DType::kF32) expected.f = round_to(result, expected.f), got.f = round_to(result, got.f);
    ASSERT_TRUE(same(result, got, expected)) << "seed " << round << ": " << name_of(op) << " of " << args[0].str()
                                             << ", " << args.back().str() << " became " << x.str();
    const DType to = random.type();
    const Scalar converted = context.scalars.cast(to, args[0]);
    ASSERT_TRUE(same(to, evaluate(converted, leaf), evaluate_cast(to, types[0], values[0])) || to == types[0] ||
                compute_type(types[0]) != types[0])
        << "seed " << round << ": " << name_of(to) << " of " << args[0].str() << " became " << converted.str();
  }
}

}  // namespace
}  // namespace stax::ir
