// SPDX-License-Identifier: Apache-2.0
// Statements of thread IR as PTX: run in the interpreter, assembled for every machine.
#include "thread/passes.h"
#include "unit/emit/ptx_fixture.h"

namespace stax::emit {
namespace {

TEST(PtxIndex, ExpressionsInBothWidths) {
  for (int bits : {32, 64}) {
    KernelWriter w(32, bits);
    const Expr p = w.param("p", 1, 1 << 20), q = w.param("q", 0, bits == 64 ? symbolic::kMaxExtent : 1000);
    const Expr t = w.k.thread, i = t * 7 + p - 40;
    std::vector<Expr> all = {
        i,
        t * p + q,
        symbolic::floordiv(t * 77 + p, 7),
        symbolic::mod(t * 77 + p, 7),
        symbolic::floordiv(i, 12),
        symbolic::mod(i, 12),
        symbolic::floordiv(i, 8),
        symbolic::mod(i, 8),
        symbolic::floordiv(t * 1000 + q, p),
        symbolic::mod(t * 1000 + q, p),
        symbolic::floordiv(i, p),
        symbolic::mod(i, p),
        symbolic::floordiv(i, q),
        symbolic::mod(i, q),
        symbolic::min(i, q),
        symbolic::max(i, q - p),
        symbolic::less(i, q),
        symbolic::equal(symbolic::mod(t, 3), 1),
        symbolic::select(
            symbolic::logical_and(symbolic::less(t, w.n(20)), symbolic::logical_not(symbolic::less(t, w.n(4)))), i, q),
        symbolic::floordiv(symbolic::floordiv(t * 100 + p, 3), p),
        symbolic::floordiv(t * 12345 + q, 641),
        symbolic::mod(t * 12345 + q, 100000)};
    if (bits == 64) {
      all.push_back(q * q + t);
      all.push_back(symbolic::floordiv(q * q + t, 1000003));
      all.push_back(symbolic::mod(q * q - t, p));
      all.push_back(symbolic::floordiv(t - q * q, 3000000000));
    }
    const int y = w.out(DType::kI64, w.n(static_cast<int64_t>(all.size()) * 32));
    std::vector<Stmt> body;
    for (size_t k = 0; k < all.size(); ++k)
      body.push_back(w.store(y, t + w.n(static_cast<int64_t>(k) * 32), w.index(all[k])));
    w.k.body = KernelWriter::block(body);
    thread::Kernel kernel = bits == 32 ? thread::reduce_divisions(w.k) : w.k;
    std::mt19937_64 random(test_seed());
    for (int round = 0; round < 6; ++round) {
      const int64_t pv = round < 3 ? 1 + static_cast<int64_t>(random() % 5000) : int64_t{1} << (random() % 20);
      const int64_t qv =
          static_cast<int64_t>(random() % static_cast<uint64_t>(bits == 64 ? symbolic::kMaxExtent : 1000));
      Array out(DType::kI64, all.size() * 32, random);
      LaunchValues values;
      values.arguments = {&out};
      values.params = {pv, round == 2 ? 0 : qv};
      for (const thread::Divisor& d : kernel.divisors) {
        const int64_t v = std::max<int64_t>(1, evaluate_with(w.k, values.params, d.value));
        int shift = 0;
        while ((int64_t{1} << shift) < v) ++shift;
        values.params.push_back(static_cast<int64_t>((static_cast<unsigned __int128>(1) << 32) *
                                                     static_cast<unsigned __int128>((int64_t{1} << shift) - v) /
                                                     static_cast<unsigned __int128>(v)) +
                                1);
        values.params.push_back(shift);
      }
      run_ptx(kernel, "cuda:sm_80", values);
      if (HasFatalFailure()) return;
      for (size_t k = 0; k < all.size(); ++k) {
        // With an extent of 0 nothing is divided by it where the host has the multiplier.
        if (bits == 32 && values.params[1] == 0 && symbolic::depends_on(all[k], q) &&
            all[k].kind() != symbolic::ExprKind::kAdd)
          continue;
        for (int64_t lane = 0; lane < 32; ++lane) {
          std::unordered_map<const symbolic::ExprNode*, int64_t> at = {
              {t.node(), lane}, {p.node(), values.params[0]}, {q.node(), values.params[1]}};
          ASSERT_EQ(out.at(k * 32 + static_cast<size_t>(lane)).i, symbolic::evaluate(all[k], at))
              << all[k].str() << " p " << values.params[0] << " q " << values.params[1] << " lane " << lane << " bits "
              << bits << ", STAX_TEST_SEED=" << test_seed();
        }
      }
    }
    expect_assembles(kernel);
  }
}

TEST(PtxIndex, NoDivisions) {
  KernelWriter w(128);
  const Expr p = w.param("p", 1, 1000), q = w.param("q", 0, 1000), t = w.k.thread + w.k.block_index[0] * 128;
  const int x = w.in(DType::kF32, p * q), y = w.out(DType::kF32, p * q);
  w.k.body = w.when(symbolic::less(t, p * q), w.store(y, symbolic::mod(t, p) * q + symbolic::floordiv(t, p),
                                                      w.load(x, symbolic::floordiv(t, 24) + symbolic::mod(t, 7))));
  const std::string text = emit_ptx(thread::reduce_divisions(w.k), ir::find_target("cuda:sm_80"));
  for (const char* op : {"  div.", "  rem."}) EXPECT_EQ(text.find(op), std::string::npos) << text;
}

// c[m][n] = sum over k of a[m][k] b[k][n]; tiles of 16 x 16 in shared memory, each thread 2 x 4 results, dynamic extents.
thread::Kernel matmul(bool dynamic, int64_t* block_tile = nullptr) {
  KernelWriter w(32, 32);
  const Expr m = w.param("m", 0, 4096), n = w.param("n", 0, 4096), k = w.param("k", 0, 4096);
  const int a = w.in(DType::kF32, m * k), b = w.in(DType::kF32, k * n), c = w.out(DType::kF32, m * n);
  const Expr tile = dynamic ? symbolic::max(w.n(256), k - k) + (m - m) : w.n(256);
  const int as = w.shared(DType::kF32, dynamic ? symbolic::max(w.n(256), m) : tile),
            bs = w.shared(DType::kF32, dynamic ? symbolic::max(w.n(256), n) : tile);
  const int acc = w.local(DType::kF32, 8), fa = w.local(DType::kF32, 2), fb = w.local(DType::kF32, 4);
  w.k.grid[0] = symbolic::ceildiv(n, 16), w.k.grid[1] = symbolic::ceildiv(m, 16);
  const Expr t = w.k.thread, row0 = w.k.block_index[1] * 16, column0 = w.k.block_index[0] * 16;
  const Expr tr = symbolic::floordiv(t, 4), tc = symbolic::mod(t, 4);
  std::vector<Stmt> body, step, inner;
  for (int64_t i = 0; i < 8; ++i) body.push_back(w.store(acc, i, w.f32(0)));
  const Expr ko = w.symbol("ko", 0, 4096), ki = w.symbol("ki", 0, 15);
  for (int64_t i = 0; i < 8; ++i) {
    const Expr e = t + w.n(i * 32), r = symbolic::floordiv(e, 16), col = symbolic::mod(e, 16);
    const auto guarded = [&](int slot, Expr in_range, Expr at) {
      return ir::select(w.truth(in_range), w.load(slot, at), w.f32(0));
    };
    step.push_back(
        w.store(as, e,
                guarded(a, symbolic::logical_and(symbolic::less(row0 + r, m), symbolic::less(ko * 16 + col, k)),
                        (row0 + r) * k + ko * 16 + col)));
    step.push_back(
        w.store(bs, e,
                guarded(b, symbolic::logical_and(symbolic::less(ko * 16 + r, k), symbolic::less(column0 + col, n)),
                        (ko * 16 + r) * n + column0 + col)));
  }
  step.push_back(KernelWriter::barrier());
  for (int64_t i = 0; i < 2; ++i) inner.push_back(w.store(fa, i, w.load(as, (tr * 2 + i) * 16 + ki)));
  inner.push_back(thread::make(thread::LoadVector{fb, w.n(0), bs, w.index(ki * 16 + tc * 4), 4}));
  for (int64_t i = 0; i < 2; ++i)
    for (int64_t j = 0; j < 4; ++j)
      inner.push_back(w.store(acc, i * 4 + j, w.load(acc, i * 4 + j) + w.load(fa, i) * w.load(fb, j)));
  step.push_back(KernelWriter::loop(ki, w.n(16), KernelWriter::block(inner)));
  step.push_back(KernelWriter::barrier());
  body.push_back(KernelWriter::loop(ko, symbolic::ceildiv(k, 16), KernelWriter::block(step)));
  for (int64_t i = 0; i < 2; ++i)
    for (int64_t j = 0; j < 4; ++j) {
      const Expr r = row0 + tr * 2 + i, col = column0 + tc * 4 + j;
      body.push_back(w.when(symbolic::logical_and(symbolic::less(r, m), symbolic::less(col, n)),
                            w.store(c, r * n + col, w.load(acc, i * 4 + j))));
    }
  w.k.body = KernelWriter::block(body);
  if (block_tile != nullptr) *block_tile = 16;
  return w.k;
}

TEST(PtxMatmul, TilesInSharedMemory) {
  for (bool dynamic : {false, true}) {
    const thread::Kernel k = matmul(dynamic);
    std::mt19937_64 random(test_seed());
    for (const auto& [m, n, kk] :
         std::vector<std::array<int64_t, 3>>{{1, 1, 1}, {17, 33, 19}, {16, 16, 32}, {5, 40, 0}}) {
      Array a(DType::kF32, static_cast<size_t>(m * kk), random), b(DType::kF32, static_cast<size_t>(kk * n), random),
          c(DType::kF32, static_cast<size_t>(m * n), random);
      LaunchValues values;
      values.arguments = {&a, &b, &c};
      values.params = {m, n, kk};
      values.grid[0] = static_cast<int>((n + 15) / 16), values.grid[1] = static_cast<int>((m + 15) / 16);
      run_ptx(k, "cuda:sm_80", values);
      if (HasFatalFailure()) return;
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
          double sum = 0;
          for (int64_t r = 0; r < kk; ++r)
            sum += a.at(static_cast<size_t>(i * kk + r)).f * b.at(static_cast<size_t>(r * n + j)).f;
          ASSERT_NEAR(c.at(static_cast<size_t>(i * n + j)).f, sum, 1e-4)
              << i << " " << j << ", STAX_TEST_SEED=" << test_seed();
        }
    }
    expect_assembles(k);
  }
}

// Fibonacci: two elements change places in each iteration; nested loops; loops without iterations.
TEST(PtxLoops, CarryValuesAround) {
  KernelWriter w(32);
  const Expr n = w.param("n", -5, 100);
  const int y = w.out(DType::kI64, w.n(96));
  const int f = w.local(DType::kI64, 2), g = w.local(DType::kI64, 1), unset = w.local(DType::kI64, 1);
  const Expr i = w.symbol("i", 0, 100), j = w.symbol("j", 0, 100), t = w.k.thread;
  const auto c = [&](int64_t v) { return w.scalars.constant_int(DType::kI64, v); };
  w.k.body = KernelWriter::block(
      {w.store(f, 0, c(0)), w.store(f, 1, c(1)), w.store(g, 0, c(0)),
       KernelWriter::loop(i, n,
                          KernelWriter::block({
                              w.store(unset, 0, w.load(f, 0) + w.load(f, 1)),
                              w.store(f, 0, w.load(f, 1)),
                              w.store(f, 1, w.load(unset, 0)),
                              KernelWriter::loop(j, i, w.store(g, 0, w.load(g, 0) + w.index(j * 3 + i))),
                              w.when(symbolic::equal(symbolic::mod(i, 3), 1), w.store(g, 0, w.load(g, 0) * c(2)),
                                     w.store(f, 0, w.load(f, 0) + c(1))),
                          })),
       w.store(y, t, w.load(f, 0)), w.store(y, t + 32, w.load(f, 1)), w.store(y, t + 64, w.load(g, 0))});
  for (int64_t count : {-3, 0, 1, 2, 17}) {
    std::mt19937_64 random(test_seed());
    Array out(DType::kI64, 96, random);
    LaunchValues values;
    values.arguments = {&out};
    values.params = {count};
    run_ptx(w.k, "cuda:sm_90a", values);
    int64_t a = 0, b = 1, s = 0;
    for (int64_t k = 0; k < count; ++k) {
      const int64_t sum = a + b;
      a = b, b = sum;
      for (int64_t l = 0; l < k; ++l) s += l * 3 + k;
      if (k % 3 == 1)
        s *= 2;
      else
        a += 1;
    }
    for (size_t lane : {size_t{0}, size_t{31}}) {
      EXPECT_EQ(out.at(lane).i, a);
      EXPECT_EQ(out.at(lane + 32).i, b);
      EXPECT_EQ(out.at(lane + 64).i, s);
    }
  }
  expect_assembles(w.k);
}

// Row sums: a strided loop, shuffles, shared memory across warps, a vote; a block whose last warp is not full.
TEST(PtxWarp, ShufflesAndVotes) {
  for (int block : {32, 96, 48}) {
    KernelWriter w(block);
    const Expr n = w.param("n", 0, 4096), t = w.k.thread;
    const int x = w.in(DType::kF32, n), y = w.out(DType::kF32, w.n(block)), any = w.out(DType::kBool, w.n(block)),
              wide = w.out(DType::kF64, w.n(block));
    const int s = w.local(DType::kF32, 1), got = w.local(DType::kF32, 1), flag = w.local(DType::kBool, 2),
              d = w.local(DType::kF64, 1);
    const int parts = w.shared(DType::kF32, w.n(32));
    const Expr i = w.symbol("i", 0, 4096), lane = symbolic::mod(t, 32);
    std::vector<Stmt> body = {w.store(s, 0, w.f32(0)),
                              KernelWriter::loop(i, symbolic::ceildiv(n, block),
                                                 w.when(symbolic::less(i * block + t, n),
                                                        w.store(s, 0, w.load(s, 0) + w.load(x, i * block + t))))};
    const int most = block % 32 == 0 ? 16 : 8;
    for (int by = most; by > 0; by /= 2) {
      body.push_back(thread::make(thread::Shuffle{got, w.n(0), thread::ShuffleMode::kXor, w.n(by), w.load(s, 0)}));
      body.push_back(w.store(s, 0, w.load(s, 0) + w.load(got, 0)));
    }
    const int per = most * 2;
    body.push_back(
        w.when(symbolic::equal(symbolic::mod(t, per), 0), w.store(parts, symbolic::floordiv(t, per), w.load(s, 0))));
    body.push_back(KernelWriter::barrier());
    Scalar total = w.load(parts, 0);
    for (int k = 1; k < block / per; ++k) total = total + w.load(parts, k);
    body.push_back(w.store(y, t, total));
    body.push_back(
        thread::make(thread::Vote{flag, w.n(0), thread::VoteMode::kAny, ir::less(w.f32(3.9), w.load(s, 0))}));
    body.push_back(
        thread::make(thread::Vote{flag, w.n(1), thread::VoteMode::kAll, ir::less(w.f32(-1e9), w.load(s, 0))}));
    body.push_back(w.store(
        any, t, w.scalars.op(ScalarOp::kOr, {w.load(flag, 0), w.scalars.op(ScalarOp::kNot, {w.load(flag, 1)})})));
    body.push_back(thread::make(thread::Shuffle{d, w.n(0), thread::ShuffleMode::kIndex, symbolic::floordiv(lane, 2),
                                                ir::cast(DType::kF64, w.index(t * 3))}));
    body.push_back(w.store(wide, t, w.load(d, 0)));
    w.k.body = KernelWriter::block(body);
    std::mt19937_64 random(test_seed());
    const size_t count = 1000;
    Array data(DType::kF32, count, random), out(DType::kF32, static_cast<size_t>(block), random),
        flags(DType::kBool, static_cast<size_t>(block), random),
        doubles(DType::kF64, static_cast<size_t>(block), random);
    LaunchValues values;
    values.arguments = {&data, &out, &flags, &doubles};
    values.params = {static_cast<int64_t>(count)};
    run_ptx(w.k, "cuda:sm_75", values);
    if (HasFatalFailure()) return;
    double sum = 0;
    for (size_t k = 0; k < count; ++k) sum += data.at(k).f;
    for (size_t k = 0; k < static_cast<size_t>(block); ++k) {
      EXPECT_NEAR(out.at(k).f, sum, 1e-3);
      EXPECT_EQ(doubles.at(k).f, static_cast<double>((k / 32 * 32 + k % 32 / 2) * 3));
    }
    expect_assembles(w.k);
  }
}

TEST(PtxVectors, OfEveryWidthAndType) {
  for (DType t :
       {DType::kI8, DType::kU16, DType::kF16, DType::kBF16, DType::kF32, DType::kI64, DType::kF64, DType::kBool}) {
    const int size = static_cast<int>(ir::byte_size(t));
    for (int bytes : {4, 8, 16}) {
      const int width = bytes / size;
      if (width < 1) continue;
      KernelWriter w(32);
      const Expr n = w.param("n", 0, 4096);
      const int x = w.in(t, n), y = w.out(t, n), r = w.local(t, width + 4);
      const Expr at = w.k.thread * width;
      // From element 1 on, so that words are not those of the buffer.
      for (int first : {0, 1}) {
        std::vector<Stmt> body = {thread::make(thread::LoadVector{r, w.n(first), x, w.index(at), width})};
        for (int k = 0; k < width; ++k) {
          const Scalar v = w.load(r, first + k);
          body.push_back(w.store(r, first + k, t == DType::kBool ? w.scalars.op(ScalarOp::kNot, {v}) : v + v));
        }
        body.push_back(thread::make(thread::StoreVector{y, w.index(at), r, w.n(first), width}));
        w.k.body = w.when(symbolic::less(at + w.n(width - 1), n), KernelWriter::block(body));
        for (const char* target : {"cuda:sm_75", "cuda:sm_80"}) {
          std::mt19937_64 random(test_seed());
          const auto count = static_cast<size_t>(width) * 29;
          Array data(t, count, random), out(t, count, random);
          LaunchValues values;
          values.arguments = {&data, &out};
          values.params = {static_cast<int64_t>(count)};
          run_ptx(w.k, target, values);
          if (HasFatalFailure()) return;
          for (size_t k = 0; k < count; ++k) {
            if (ir::is_float(t)) {
              ASSERT_EQ(out.at(k).f, ir::round_to(t, 2 * data.at(k).f))
                  << ir::name_of(t) << " " << width << " " << first;
            } else {
              ASSERT_EQ(out.at(k).i, t == DType::kBool ? 1 - data.at(k).i : ir::wrap_integer(t, 2 * data.at(k).i))
                  << ir::name_of(t) << " " << width << " " << first;
            }
          }
        }
      }
      expect_assembles(w.k, bytes == 16 ? run_targets() : std::vector<std::string>{"cuda:sm_80"});
    }
  }
}

TEST(PtxAtomics, EveryTypeAndCombiner) {
  for (DType t : {DType::kBool, DType::kI8, DType::kU16, DType::kI32, DType::kU32, DType::kI64, DType::kU64,
                  DType::kF16, DType::kBF16, DType::kF32, DType::kF64})
    for (bool shared : {false, true}) {
      KernelWriter w(64);
      const int x = w.in(t, w.n(64)), y = w.out(t, w.n(5 * 4)), s = w.shared(t, w.n(5 * 4));
      const Expr at = w.k.thread;
      std::vector<ir::Combiner> combiners = {ir::Combiner::kSum, ir::Combiner::kMin, ir::Combiner::kMax};
      if (!ir::is_float(t)) combiners.insert(combiners.end(), {ir::Combiner::kAnd, ir::Combiner::kOr});
      std::vector<Stmt> body;
      const Expr limit = w.n(static_cast<int64_t>(combiners.size()) * 4);
      if (shared) body.push_back(w.when(symbolic::less(at, limit), w.store(s, at, w.load(y, at))));
      if (shared) body.push_back(KernelWriter::barrier());
      for (size_t c = 0; c < combiners.size(); ++c) {
        const Stmt atomic = thread::make(
            thread::Atomic{shared ? s : y, w.index(symbolic::mod(at, 3) + w.n(static_cast<int64_t>(c) * 4)),
                           combiners[c], w.load(x, at)});
        body.push_back(w.when(symbolic::less(at, w.n(61)), atomic));
      }
      if (shared) body.push_back(KernelWriter::barrier());
      if (shared) body.push_back(w.when(symbolic::less(at, limit), w.store(y, at, w.load(s, at))));
      w.k.body = KernelWriter::block(body);
      for (const char* target : {"cuda:sm_75", "cuda:sm_90a"}) {
        std::mt19937_64 random(test_seed());
        Array data(t, 64, random), out(t, 20, random);
        const Array before = out;
        LaunchValues values;
        values.arguments = {&data, &out};
        run_ptx(w.k, target, values);
        if (HasFatalFailure()) return;
        for (size_t c = 0; c < combiners.size(); ++c)
          for (size_t e = 0; e < 4; ++e) {
            static constexpr ScalarOp kOps[] = {ScalarOp::kAdd, ScalarOp::kMul, ScalarOp::kMin,
                                                ScalarOp::kMax, ScalarOp::kAnd, ScalarOp::kOr};
            ir::Value64 v = before.at(c * 4 + e);
            for (size_t k = 0; k < 61; ++k) {
              const ir::Value64 args[2] = {v, data.at(k)};
              if (k % 3 == e) v = ir::evaluate_scalar_op(kOps[static_cast<size_t>(combiners[c])], t, args);
            }
            const ir::Value64 got = out.at(c * 4 + e);
            // In another order, each step rounded: 20 steps.
            if (ir::is_float(t)) {
              ASSERT_NEAR(got.f, v.f,
                          c > 0               ? 0
                          : t == DType::kBF16 ? 2
                          : t == DType::kF16  ? 0.3
                                              : 1e-4)
                  << ir::name_of(t) << " " << c << " " << e << " " << target;
            } else {
              ASSERT_EQ(got.i, v.i) << ir::name_of(t) << " " << c << " " << e << " " << target << shared;
            }
          }
      }
      expect_assembles(w.k, {"cuda:sm_75", shared ? "cuda:sm_80" : "cuda:sm_90a"});
    }
}

// Two stages of shared memory, filled in the background while the other is summed up; the last copies fall outside and give zeros.
TEST(PtxAsync, CopiesInTwoStages) {
  KernelWriter w(32);
  const Expr n = w.param("n", 0, 1 << 20), t = w.k.thread, i = w.symbol("i", 0, 1 << 20);
  const int x = w.in(DType::kF32, n), y = w.out(DType::kF32, w.n(32)), s = w.shared(DType::kF32, w.n(2 * 128)),
            acc = w.local(DType::kF32, 1), v = w.local(DType::kF32, 4);
  const auto copy = [&](Expr step, Expr stage) {
    const Expr from = step * 128 + t * 4;
    return KernelWriter::block({thread::make(thread::AsyncCopy{s, w.index(stage * 128 + t * 4), x, w.index(from), 4,
                                                               w.truth(symbolic::less(from + 3, n))}),
                                thread::make(thread::AsyncCommit{})});
  };
  w.k.body = KernelWriter::block(
      {w.store(acc, 0, w.f32(0)), copy(w.n(0), w.n(0)),
       KernelWriter::loop(
           i, symbolic::ceildiv(n, 128),
           KernelWriter::block(
               {copy(i + 1, symbolic::mod(i + 1, 2)), thread::make(thread::AsyncWait{1}), KernelWriter::barrier(),
                thread::make(
                    thread::LoadVector{v, w.n(0), s, w.index(symbolic::mod(i, 2) * 128 + (w.n(31) - t) * 4), 4}),
                w.store(acc, 0, w.load(acc, 0) + (w.load(v, 0) + w.load(v, 1)) + (w.load(v, 2) + w.load(v, 3))),
                KernelWriter::barrier()})),
       thread::make(thread::AsyncWait{0}), w.store(y, t, w.load(acc, 0))});
  std::mt19937_64 random(test_seed());
  for (size_t count : {size_t{0}, size_t{4}, size_t{300}, size_t{1024}}) {
    Array data(DType::kF32, count, random), out(DType::kF32, 32, random);
    LaunchValues values;
    values.arguments = {&data, &out};
    values.params = {static_cast<int64_t>(count)};
    run_ptx(w.k, "cuda:sm_80", values);
    if (HasFatalFailure()) return;
    for (size_t lane = 0; lane < 32; ++lane) {
      double sum = 0;
      for (size_t k = (31 - lane) * 4; k < count; k += 128)
        for (size_t e = 0; e < 4; ++e) sum += data.at(k + e).f;
      ASSERT_NEAR(out.at(lane).f, sum, 1e-4) << count << " " << lane;
    }
  }
  std::vector<std::string> targets(cuda_targets().begin() + 1, cuda_targets().end());
  expect_assembles(w.k, targets);
  EXPECT_THROW(emit_ptx(w.k, ir::find_target("cuda:sm_75")), InternalError);
}

TEST(PtxLocal, IndexedByData) {
  KernelWriter w(32);
  const int x = w.in(DType::kI32, w.n(32)), y = w.out(DType::kF32, w.n(32)), table = w.local(DType::kF32, 8);
  const Expr i = w.symbol("i", 0, 7);
  w.k.body = KernelWriter::block(
      {KernelWriter::loop(i, w.n(8), w.store(table, i, ir::cast(DType::kF32, w.index(i * i + w.k.thread)))),
       thread::make(
           thread::Store{y, w.index(w.k.thread),
                         w.scalars.load(table, DType::kF32, {ir::cast(DType::kI64, w.load(x, w.k.thread))})})});
  std::mt19937_64 random(test_seed());
  Array data(DType::kI32, 32, random), out(DType::kF32, 32, random);
  for (size_t k = 0; k < 32; ++k) data.set(k, whole(static_cast<int64_t>(random() % 8)));
  LaunchValues values;
  values.arguments = {&data, &out};
  run_ptx(w.k, "cuda:sm_86", values);
  for (size_t k = 0; k < 32; ++k)
    EXPECT_EQ(out.at(k).f, static_cast<double>(data.at(k).i * data.at(k).i + static_cast<int64_t>(k)));
  expect_assembles(w.k, cuda_targets(), /*stack=*/true);
}

// A gather: an index that is out of range writes the record once and reads element 0; arms of a select that is not taken read nothing.
TEST(PtxGather, CheckedIndices) {
  for (int bits : {32, 64}) {
    KernelWriter w(64, bits);
    const Expr n = w.param("n", 0, 1000), rows = w.param("rows", 0, 1000);
    const int index = w.in(DType::kI64, n), x = w.in(DType::kF32, rows * 3), y = w.out(DType::kF32, n * 3);
    const Expr t = w.k.thread, j = w.symbol("j", 0, 2);
    const Scalar row = w.scalars.op(ScalarOp::kCheckedIndex, {w.load(index, t), w.index(rows)});
    const Scalar at = row * w.scalars.constant_int(DType::kI64, 3) + w.index(j);
    const Scalar value = ir::select(w.truth(symbolic::less(w.n(4), t)), w.scalars.load(x, DType::kF32, {at}),
                                    ir::unary(ScalarOp::kExp, w.f32(1) * ir::cast(DType::kF32, w.index(t))));
    w.k.body = w.when(symbolic::less(t, n), KernelWriter::loop(j, w.n(3), w.store(y, t * 3 + j, value)));
    w.k.check_messages = {"an index"};
    for (bool bad : {false, true}) {
      std::mt19937_64 random(test_seed());
      const size_t count = 50, extent = 7;
      Array indices(DType::kI64, count, random), data(DType::kF32, extent * 3, random),
          out(DType::kF32, count * 3, random);
      for (size_t k = 0; k < count; ++k)
        indices.set(k, whole(static_cast<int64_t>(random() % (2 * extent)) - static_cast<int64_t>(extent)));
      indices.set(2, whole(99));  // not read
      if (bad) indices.set(20, whole(int64_t{1} << 40)), indices.set(33, whole(int64_t{1} << 40));
      LaunchValues values;
      values.arguments = {&indices, &data, &out};
      values.params = {static_cast<int64_t>(count), static_cast<int64_t>(extent)};
      run_ptx(w.k, "cuda:sm_80", values);
      if (HasFatalFailure()) return;
      const std::array<int64_t, 4> expected =
          bad ? std::array<int64_t, 4>{1, int64_t{1} << 40, 7, 0} : std::array<int64_t, 4>{};
      EXPECT_EQ(values.fault, expected);
      for (size_t k = 0; k < count; ++k)
        for (size_t e = 0; e < 3; ++e) {
          int64_t r = indices.at(k).i;
          if (r < 0) r += static_cast<int64_t>(extent);
          if (r >= static_cast<int64_t>(extent)) r = 0;
          const double want = k > 4 ? data.at(static_cast<size_t>(r) * 3 + e).f : std::exp(static_cast<double>(k));
          EXPECT_NEAR(out.at(k * 3 + e).f, want, std::fabs(want) * 1e-6);
        }
    }
    expect_assembles(w.k);
  }
}

}  // namespace
}  // namespace stax::emit
