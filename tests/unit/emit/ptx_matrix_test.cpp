// SPDX-License-Identifier: Apache-2.0
// Matrix instructions of thread IR as PTX.
#include "thread/mma.h"
#include "unit/emit/ptx_fixture.h"

namespace stax::emit {
namespace {

// Every thread writes eight elements, every warp reads matrices of the rows of its lanes in the other order.
TEST(PtxLoadMatrix, AsTheDocumentSays) {
  for (int count : {1, 2, 4}) {
    for (bool transposed : {false, true}) {
      KernelWriter w(64);
      const int x = w.in(DType::kF16, w.n(512)), y = w.out(DType::kF16, w.n(512)), s = w.shared(DType::kF16, w.n(512));
      const int local = w.local(DType::kF16, 8);
      const Expr t = w.k.thread;
      std::vector<Stmt> body;
      for (int k = 0; k < 8; ++k) body.push_back(w.store(s, t * 8 + k, w.load(x, t * 8 + k)));
      body.push_back(thread::make(thread::Barrier{}));
      const Expr row = w.n(63) - t;
      body.push_back(thread::make(thread::LoadMatrix{local, w.n(0), s, w.index(row * 8), count, transposed}));
      for (int k = 0; k < 2 * count; ++k) body.push_back(w.store(y, t * 8 + k, w.load(local, k)));
      w.k.body = KernelWriter::block(body);
      std::mt19937_64 random(test_seed());
      Array data(DType::kF16, 512, random), out(DType::kF16, 512, random);
      for (size_t k = 0; k < 512; ++k) data.set(k, number(static_cast<double>(k)));
      LaunchValues values;
      values.arguments = {&data, &out};
      run_ptx(w.k, "cuda:sm_75", values);
      if (HasFatalFailure()) return;
      for (size_t lane = 0; lane < 64; ++lane) {
        for (size_t item = 0; item < 2 * static_cast<size_t>(count); ++item) {
          const size_t within = lane % 32, along = 2 * (within % 4) + item % 2, across = within / 4;
          const size_t giver = lane - within + item / 2 * 8 + (transposed ? along : across);
          ASSERT_EQ(out.at(lane * 8 + item).f, static_cast<double>((63 - giver) * 8 + (transposed ? across : along)))
              << count << " lane " << lane << " item " << item;
        }
      }
      expect_assembles(w.k, cuda_targets());
    }
  }
}

TEST(PtxMma, EveryInstruction) {
  const auto instructions = thread::mma_instructions();
  int run = 0;
  for (size_t number_of = 0; number_of < instructions.size(); ++number_of) {
    const thread::MmaInstruction& m = instructions[number_of];
    if (m.ptx.empty()) continue;
    ++run;
    KernelWriter w(32);
    const auto count = [](int v) { return static_cast<int64_t>(v); };
    const int a = w.in(m.factor, w.n(count(m.m * m.k))), b = w.in(m.factor, w.n(count(m.k * m.n))),
              c = w.in(m.sum, w.n(count(m.m * m.n))), d = w.out(m.sum, w.n(count(m.m * m.n)));
    const int fa = w.local(m.factor, m.a.items), fb = w.local(m.factor, m.b.items), fc = w.local(m.sum, m.c.items);
    std::vector<Stmt> body;
    // The lane's part of an index: the bits of the lane give what the table says.
    const auto lane_part = [&](const std::vector<int>& by_bit) {
      Expr sum = w.n(0);
      for (size_t bit = 0; bit < by_bit.size(); ++bit)
        sum = sum + symbolic::mod(symbolic::floordiv(w.k.thread, int64_t{1} << bit), 2) * count(by_bit[bit]);
      return sum;
    };
    const auto at = [&](const thread::FragmentMap& map, int item, int columns) {
      return (lane_part(map.lane_row) + w.n(map.row(0, item))) * count(columns) + lane_part(map.lane_column) +
             w.n(map.column(0, item));
    };
    for (int k = 0; k < m.a.items; ++k) body.push_back(w.store(fa, k, w.load(a, at(m.a, k, m.k))));
    for (int k = 0; k < m.b.items; ++k) body.push_back(w.store(fb, k, w.load(b, at(m.b, k, m.n))));
    for (int k = 0; k < m.c.items; ++k) body.push_back(w.store(fc, k, w.load(c, at(m.c, k, m.n))));
    const Expr i = w.symbol("i", 0, 1);
    body.push_back(
        KernelWriter::loop(i, w.n(2),
                           thread::make(thread::Mma{
                               static_cast<int>(number_of), {fc, w.n(0)}, {fa, w.n(0)}, {fb, w.n(0)}, {fc, w.n(0)}})));
    for (int k = 0; k < m.c.items; ++k) body.push_back(w.store(d, at(m.c, k, m.n), w.load(fc, k)));
    w.k.body = KernelWriter::block(body);
    std::mt19937_64 random(test_seed());
    Array va(m.factor, static_cast<size_t>(m.m * m.k), random), vb(m.factor, static_cast<size_t>(m.k * m.n), random),
        vc(m.sum, static_cast<size_t>(m.m * m.n), random), vd(m.sum, static_cast<size_t>(m.m * m.n), random);
    const bool is_float = ir::is_float(m.factor);
    for (Array* v : {&va, &vb})
      for (size_t k = 0; k < v->count(); ++k) v->set(k, is_float ? number(std::round(v->at(k).f * 4) / 4) : v->at(k));
    LaunchValues values;
    values.arguments = {&va, &vb, &vc, &vd};
    const int least = m.least_sm;
    std::vector<std::string> targets;
    for (const std::string& t : cuda_targets())
      if (std::atoi(ir::find_target(t).arch.c_str() + 3) >= least) targets.push_back(t);
    run_ptx(w.k, targets[0], values);
    if (HasFatalFailure()) return;
    for (int r = 0; r < m.m; ++r)
      for (int col = 0; col < m.n; ++col) {
        double sum = is_float ? vc.at(static_cast<size_t>(r * m.n + col)).f
                              : static_cast<double>(vc.at(static_cast<size_t>(r * m.n + col)).i);
        for (int k = 0; k < m.k; ++k) {
          const auto x = va.at(static_cast<size_t>(r * m.k + k)), y = vb.at(static_cast<size_t>(k * m.n + col));
          sum += 2 * (is_float ? x.f * y.f : static_cast<double>(x.i * y.i));
        }
        const auto got = vd.at(static_cast<size_t>(r * m.n + col));
        if (is_float) {
          ASSERT_NEAR(got.f, sum, m.sum == DType::kF16 ? 0.5 : 1e-3) << m.name << " " << r << " " << col;
        } else {
          ASSERT_EQ(got.i, static_cast<int64_t>(sum)) << m.name << " " << r << " " << col;
        }
      }
    expect_assembles(w.k, targets);
  }
  EXPECT_GT(run, 4);
}

}  // namespace
}  // namespace stax::emit
