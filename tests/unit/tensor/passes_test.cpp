// SPDX-License-Identifier: Apache-2.0
#include "unit/tensor/passes_fixture.h"

namespace stax::tensor {
namespace {

// ---- classify

TEST_F(PassesTest, ClassifiesMatrixProduct) {
  const Expr m = dim("m"), n = dim("n"), k = dim("k"), h = dim("h");
  Value* y = b.matmul(input("x", DType::kF32, {h, m, k}), input("y", DType::kF32, {h, k, n}));
  const Classification c = classify(*y->producer->as<Compute>());
  ASSERT_EQ(c.kind, ComputeClass::kContraction);
  EXPECT_EQ(c.contraction.vector_axis, 2);
  EXPECT_TRUE(c.contraction.contiguous);
  EXPECT_EQ(c.contraction.batch_axes, (std::vector<int>{0}));
  EXPECT_EQ(c.contraction.m_axes, (std::vector<int>{1}));
  EXPECT_EQ(c.contraction.n_axes, (std::vector<int>{2}));
}

TEST_F(PassesTest, ClassifiesConvolutionByOutputChannel) {
  Value* y = convolve(input("x", DType::kF32, {dim("n"), number(4), dim("h"), dim("w")}), weights({32, 4, 3, 3}));
  const Classification c = classify(*y->producer->as<Compute>());
  ASSERT_EQ(c.kind, ComputeClass::kContraction);
  EXPECT_EQ(c.contraction.vector_axis, 1);
  EXPECT_FALSE(c.contraction.contiguous);
  EXPECT_EQ(c.contraction.m_axes, (std::vector<int>{0, 2, 3}));
}

TEST_F(PassesTest, SumOfSquaresIsAPlainReduction) {
  Value* x = input("x", DType::kF32, {dim("n"), dim("m")});
  Value* y = b.reduce_axes(Combiner::kSum, x, {1}, false, DType::kF32, {}, [](Scalar s) { return s * s; });
  EXPECT_EQ(classify(*y->producer->as<Compute>()).kind, ComputeClass::kReduction);
}

// ---- canonicalize

TEST_F(PassesTest, CopiesGoAndViewsBecomeReshapes) {
  const Expr n = dim("n"), m = dim("m");
  Value* x = input("x", DType::kF32, {n, number(1), m});
  Value* copy = b.map({n, number(1), m}, [&](Body& body) { return body.load(x, {body.i[0], number(0), body.i[2]}); });
  Value* moved =
      b.map({m, number(1)}, [&](Body& body) { return body.load(b.reshape(copy, {n, m}), {number(0), body.i[0]}); });
  (void)moved;
  Value* view =
      b.map({number(1), n, m}, [&](Body& body) { return body.load(copy, {body.i[1], number(0), body.i[2]}); });
  output(b.unary(ScalarOp::kNeg, view));
  eliminate_dead_ops(graph);
  check(canonicalize, {3, 5});
  EXPECT_EQ(kernels(), 1) << print(graph);
  EXPECT_EQ(count(OpKind::kReshape), 1);
}

TEST_F(PassesTest, ChainsOfReshapesAreOne) {
  const Expr n = dim("n"), m = dim("m");
  Value* x = input("x", DType::kF32, {n, m});
  output(b.unary(ScalarOp::kNeg, b.reshape(b.reshape(b.reshape(x, {n * m}), {m, n}), {n, m})), "back");
  output(b.unary(ScalarOp::kNeg, b.reshape(b.reshape(x, {n * m}), {m, n})), "turned");
  check(canonicalize, {3, 4});
  eliminate_dead_ops(graph);
  EXPECT_EQ(count(OpKind::kReshape), 1) << print(graph);
}

TEST_F(PassesTest, OutputsThatAreInputsStayCopies) {
  Value* x = input("x", DType::kF32, {dim("n")});
  output(b.map(x->type.extents, [&](Body& body) { return body.load(x, body.i); }));
  check(canonicalize, {3}, false);
}

TEST_F(PassesTest, SelectsOnKnownConditionsAreResolved) {
  const Expr n = dim("n");
  Value* x = input("x", DType::kF32, {n});
  output(b.map({n}, [&](Body& body) {
    return select(less(body.index(body.i[0]), body.index(n)), body.load(x, body.i) + body.number(DType::kF32, 1),
                  body.number(DType::kF32, 0));
  }));
  check(canonicalize, {3});
  EXPECT_EQ(print(graph).find("select"), std::string::npos) << print(graph);
}

// ---- constants, common and dead ops

TEST_F(PassesTest, AnIfOnAConstantBecomesItsBranch) {
  Value* x = input("x", DType::kF32, {dim("n")});
  If branch;
  branch.then_block = std::make_unique<Block>();
  branch.else_block = std::make_unique<Block>();
  Builder then_builder(graph, *branch.then_block), else_builder(graph, *branch.else_block);
  branch.then_block->outputs = {then_builder.unary(ScalarOp::kNeg, x)};
  branch.else_block->outputs = {else_builder.slice(x, 0, number(0), number(1), number(1))};
  const Expr m = b.new_symbol("m", {0, symbolic::kMaxExtent});
  Value* y = b.op(std::move(branch), {b.constant(DType::kBool, 0)}, {Type::tensor(DType::kF32, {m})}, {m})->result();
  output(b.unary(ScalarOp::kAbs, y));
  check(fold_constants, {3});
  EXPECT_EQ(count(OpKind::kIf), 0) << print(graph);
  EXPECT_EQ(extents(graph.outputs[0].value), "1");
}

TEST_F(PassesTest, IntegersThatAreAllAlikeAreANumber) {
  const Expr n = dim("n");
  Value* x = input("x", DType::kI32, {n, number(6)});
  Value* at = input("at", DType::kI64, {n});
  const auto filled = [&](DType t, double value, double last) {
    std::vector<double> values(6, value);
    values.back() = last;
    return b.constant(item(t, {6}, values).tensor);
  };
  Value *zeros = filled(DType::kI8, 0, 0), *sevens = filled(DType::kI32, 7, 7), *others = filled(DType::kI32, 7, 8);
  Value* y = b.map({n, number(6)}, [&](Body& body) {
    const Scalar zero = ir::cast(DType::kI32, body.load(zeros, {body.i[1]}));
    return body.load(x, body.i) - zero + body.load(sevens, {body.i[1]}) * body.load(others, {body.i[1]});
  });
  output(y);
  // An index that is out of range has to stay one.
  Value* gathered = b.gather(sevens, at, 0);
  output(gathered);
  check(fold_constants, {0});
  EXPECT_EQ(y->producer->operands, (std::vector<Value*>{others, x})) << print(graph);
  EXPECT_EQ(gathered->producer->operands.size(), 2U) << print(graph);
}

TEST_F(PassesTest, EqualOpsAreOne) {
  Value* x = input("x", DType::kF32, {dim("n")});
  Value* p = b.unary(ScalarOp::kExp, x);
  Value* q = b.unary(ScalarOp::kExp, x);
  Value* r = b.unary(ScalarOp::kLog, x);
  output(add(add(p, q), r));
  check(eliminate_common_subexpressions, {3});
  EXPECT_EQ(kernels(), 4) << print(graph);
}

TEST_F(PassesTest, DeadOpsGoButSymbolsAndChecksStay) {
  Value* x = input("x", DType::kF32, {dim("n")});
  Value* k = input("k", DType::kI64, {});
  Value* j = input("j", DType::kI64, {});
  b.unary(ScalarOp::kExp, x);
  const Expr used = b.new_symbol("used", {0, 100}), unused = b.new_symbol("unused", {0, 100});
  b.op(Bind{}, {k}, {}, {used});
  b.op(Bind{}, {j}, {}, {unused});
  output(b.map({used}, [&](Body& body) { return body.load(x, std::vector<Expr>{number(0)}); }));
  graph.add_op(graph.body, Check{less(used, number(50)), "too much", {}}, {}, {});
  verify(graph);
  EXPECT_TRUE(eliminate_dead_ops(graph));
  verify(graph);
  EXPECT_EQ(count(OpKind::kBind), 1) << print(graph);
  EXPECT_EQ(count(OpKind::kCheck), 1);
  EXPECT_EQ(kernels(), 1);
  EXPECT_FALSE(eliminate_dead_ops(graph));
}

// ---- layouts

TEST_F(PassesTest, VectorOperandIsMadeContiguous) {
  const Expr m = dim("m");
  Value* x = input("x", DType::kF32, {m, number(8)});
  Value* w = input("w", DType::kF32, numbers({16, 8}));
  Value* y = b.reduce(Combiner::kSum, DType::kF32, {m, number(16)}, {number(8)}, [&](Body& body) {
    return body.load(x, {body.i[0], body.r[0]}) * body.load(w, {body.i[1], body.r[0]});
  });
  output(y);
  check(assign_layouts, {3});
  EXPECT_EQ(kernels(), 2);
  EXPECT_TRUE(classify(*graph.outputs[0].value->producer->as<Compute>()).contraction.contiguous);
  check(assign_layouts, {3}, false);
}

TEST_F(PassesTest, WeightsOfAConvolutionAreTransposedOnce) {
  output(convolve(input("x", DType::kF32, {dim("n"), number(4), dim("h", 3), dim("w", 3)}), weights({32, 4, 3, 3})));
  check(assign_layouts, {2, 5, 6});
  check(fold_constants, {2, 5, 6});
  eliminate_dead_ops(graph);
  EXPECT_EQ(kernels(), 1);
  const Compute& c = *graph.outputs[0].value->producer->as<Compute>();
  EXPECT_TRUE(classify(c).contraction.contiguous);
  EXPECT_EQ(extents(graph.outputs[0].value->producer->operands[classify(c).contraction.vector_load()->slot]),
            "4, 3, 3, 32");
}

TEST_F(PassesTest, RandomGraphsSayTheSameAfterEachPass) {
  using Pass = std::pair<const char*, bool (*)(Graph&)>;
  const std::array<Pass, 10> passes{Pass{"canonicalize", canonicalize},
                                    {"fold_constants", fold_constants},
                                    {"fix_known_extents", fix_known_extents},
                                    {"eliminate_common_subexpressions", eliminate_common_subexpressions},
                                    {"eliminate_dead_ops", eliminate_dead_ops},
                                    {"assign_layouts", assign_layouts},
                                    {"fold_constants", fold_constants},
                                    {"fuse_ops", fuse_ops},
                                    {"eliminate_common_subexpressions", eliminate_common_subexpressions},
                                    {"eliminate_dead_ops", eliminate_dead_ops}};
  for (int seed = 0; seed < 150; ++seed) {
    Graph g(std::make_shared<ir::Context>());
    Builder builder(g, g.body);
    std::mt19937_64 random(static_cast<uint64_t>(seed));
    const auto pick = [&](size_t n) { return static_cast<size_t>(random() % n); };
    const Expr s = g.exprs().new_symbol({.name = "s", .range = {1, 64}}),
               t = g.exprs().new_symbol({.name = "t", .range = {1, 64}});
    const Expr four = g.exprs().constant(4), six = g.exprs().constant(6), one = g.exprs().constant(1);
    std::vector<Value*> values;
    const auto add_input = [&](std::vector<Expr> extents) {
      Value* v =
          g.add_input(g.body, Type::tensor(DType::kF32, std::move(extents)), "in" + std::to_string(g.inputs.size()));
      g.inputs.push_back({v->name, v});
      values.push_back(v);
    };
    add_input({s, four, six});
    add_input({s, t, four});
    add_input({four, six});
    add_input({s, one, six});
    const auto literal = [&](std::vector<int64_t> e) {
      Literal l(DType::kF32, std::move(e));
      for (int64_t i = 0; i < l.count(); ++i)
        l.set(i, {.f = static_cast<double>(static_cast<int64_t>(random() % 17) - 8) / 4});
      return builder.constant(l);
    };
    values.push_back(literal({6}));
    values.push_back(literal({6, 4}));
    for (int step = 0; step < 14; ++step) {
      Value* v = values[values.size() - 1 - pick(std::min<size_t>(values.size(), 6))];
      const int rank = v->type.static_rank();
      const auto fits = [&](Value* w) {  // same or constant 1 on every axis
        if (w->type.static_rank() > rank) return false;
        for (int k = 1; k <= w->type.static_rank(); ++k) {
          const Expr a = v->type.extents[rank - k], c = w->type.extents[w->type.static_rank() - k];
          if (a != c && !c.is_constant(1)) return false;
        }
        return true;
      };
      Value* r = nullptr;
      switch (pick(10)) {
        case 0:
          r = builder.unary(std::array{ScalarOp::kAbs, ScalarOp::kTanh, ScalarOp::kNeg, ScalarOp::kErf}[pick(4)], v);
          break;
        case 1:
        case 2: {
          std::vector<Value*> mates;
          for (Value* w : values) {
            if (fits(w)) mates.push_back(w);
          }
          r = builder.binary(std::array{ScalarOp::kAdd, ScalarOp::kMul, ScalarOp::kMax}[pick(3)], v,
                             mates[pick(mates.size())]);
          break;
        }
        case 3: {
          std::vector<int> order(static_cast<size_t>(rank));
          for (int k = 0; k < rank; ++k) order[k] = k;
          std::shuffle(order.begin(), order.end(), random);
          r = builder.transpose(v, order);
          break;
        }
        case 4:
          if (rank > 0) {
            const auto c = std::array{Combiner::kSum, Combiner::kMax}[pick(2)];
            r = builder.reduce_axes(c, v, {static_cast<int>(pick(static_cast<size_t>(rank)))}, pick(2) == 0,
                                    DType::kF32);
          }
          break;
        case 5:
        case 6: {
          std::vector<Value*> mates;
          for (Value* w : values) {
            if (rank >= 2 && w->type.static_rank() == 2 && w->type.extents[0] == v->type.extents[rank - 1])
              mates.push_back(w);
          }
          if (!mates.empty()) r = builder.matmul(v, mates[pick(mates.size())]);
          break;
        }
        case 7:
          if (rank >= 2) {
            const size_t k = pick(static_cast<size_t>(rank) - 1);
            std::vector<Expr> e = v->type.extents;
            e[k] = e[k] * e[k + 1];
            e.erase(e.begin() + static_cast<long>(k) + 1);
            r = builder.reshape(v, e);
          }
          break;
        case 8:
          if (rank > 0 && v->type.extents[rank - 1].is_constant(6)) {
            std::vector<Expr> e = v->type.extents;
            e.back() = g.exprs().constant(2);
            e.push_back(g.exprs().constant(3));
            r = builder.reshape(v, e);
          } else if (rank > 0) {
            r = builder.concat({v, v}, static_cast<int>(pick(static_cast<size_t>(rank))));
          }
          break;
        case 9:
          if (rank > 0) {
            std::vector<Expr> none(static_cast<size_t>(rank), g.exprs().constant(0)), pads = none;
            pads[pick(static_cast<size_t>(rank))] = one;
            r = builder.pad_constant(v, pads, none, {});
          }
          break;
      }
      if (r != nullptr && r->type.static_rank() <= 4) values.push_back(r);
    }
    for (size_t k = 0; k < 3; ++k) {
      Value* v = values[values.size() - 1 - k];
      if (v->producer == nullptr || v->producer->kind() == OpKind::kConstant) continue;
      g.outputs.push_back({"out" + std::to_string(k), v});
      g.body.outputs.push_back(v);
    }
    verify(g);
    const auto inputs_for = [&](int64_t p, int64_t q) {
      std::vector<Item> items;
      for (const auto& extents : std::vector<std::vector<int64_t>>{{p, 4, 6}, {p, q, 4}, {4, 6}, {p, 1, 6}}) {
        int64_t n = 1;
        for (int64_t e : extents) n *= e;
        std::vector<double> v(static_cast<size_t>(n));
        for (double& x : v) x = static_cast<double>(static_cast<int64_t>(random() % 17) - 8) / 8;
        items.push_back(item(DType::kF32, extents, v));
      }
      return items;
    };
    const auto first = inputs_for(3, 5), second = inputs_for(1, 1);
    const auto expected_first = interpret(g, first), expected_second = interpret(g, second);
    for (const auto& [name, pass] : passes) {
      const std::string before = print(g);
      pass(g);
      ASSERT_NO_THROW(verify(g)) << "seed " << seed << " after " << name << "\n" << before << "\n" << print(g);
      expect_same(expected_first, interpret(g, first));
      expect_same(expected_second, interpret(g, second));
      if (HasFatalFailure()) {
        FAIL() << "seed " << seed << " after " << name << "\n" << before << "\n" << print(g);
      }
    }
  }
}

}  // namespace
}  // namespace stax::tensor
