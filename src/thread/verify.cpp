// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "ir/format.h"
#include "support/error.h"
#include "support/overloaded.h"
#include "thread/mma.h"
#include "thread/thread_ir.h"

namespace stax::thread {

namespace {

class Verifier {
 public:
  Verifier(const Kernel& kernel, Stage stage) : kernel_(kernel), stage_(stage) {}

  void run() {
    check(kernel_.context != nullptr, "there is no context");
    check(kernel_.body != nullptr, "there is no body");
    header();
    statement(kernel_.body, /*divergent=*/false);
  }

 private:
  template <typename... Arguments>
  void check(bool holds, fmt::format_string<Arguments...> format, Arguments&&... arguments) const {
    if (holds) return;
    throw InternalError(
        fmt::format("kernel {}: {}", kernel_.name, fmt::format(format, std::forward<Arguments>(arguments)...)));
  }

  // ---- Header

  void header() {
    for (Expr p : kernel_.params) {
      check(p && p.is_symbol() && p.symbol().kind == symbolic::SymbolKind::kParam, "{} is not a parameter", p);
      check(!is_visible(p), "parameter {} is listed twice", p);
      visible_.push_back(p);
    }
    for (const Divisor& d : kernel_.divisors) {
      expr(d.value, "a divisor");
      check(is_visible(d.multiplier) && is_visible(d.shift), "multiplier and shift of divisor {} are not parameters",
            d.value);
      check(kernel_.index_bits == 32, "division by {} is reduced, but indices have {} bits", d.value,
            kernel_.index_bits);
    }
    check(kernel_.index_bits == 32 || kernel_.index_bits == 64, "indices have {} bits", kernel_.index_bits);
    check(kernel_.block >= 1, "a block has {} threads", kernel_.block);
    check(kernel_.warp >= 1 && (kernel_.warp & (kernel_.warp - 1)) == 0, "a warp has {} lanes", kernel_.warp);
    buffers();
    for (Expr grid : kernel_.grid) expr(grid, "the grid");
    variable(kernel_.thread, "the thread");
    const symbolic::Interval threads = kernel_.thread.symbol().range;
    check(threads.lo <= 0 && threads.hi >= kernel_.block - 1, "{} is declared as {} .. {}, but a block has {} threads",
          kernel_.thread, threads.lo, threads.hi, kernel_.block);
    for (Expr index : kernel_.block_index) variable(index, "the number of the block");
  }

  void buffers() {
    const auto count = static_cast<int>(kernel_.buffers.size());
    check(kernel_.arguments >= 0 && kernel_.arguments <= count, "{} arguments among {} buffers", kernel_.arguments,
          count);
    for (int slot = 0; slot < count; ++slot) {
      const Buffer& b = kernel_.buffers[static_cast<size_t>(slot)];
      check((slot < kernel_.arguments) == (b.space == Space::kGlobal),
            "slot {}: arguments come first and are global, the others are not", slot);
      expr(b.count, "the count of buffer " + b.name);
      check(b.space != Space::kLocal || b.count.is_constant(), "local buffer {} has {} elements, which is no constant",
            b.name, b.count);
      check(b.space == Space::kGlobal || !b.written, "buffer {} is not global, but marked as written", b.name);
      check(b.alignment == 0 || (b.alignment & (b.alignment - 1)) == 0, "buffer {} is aligned to {} bytes", b.name,
            b.alignment);
    }
  }

  void variable(Expr var, const char* what) {
    check(var && var.is_symbol() && var.symbol().kind == symbolic::SymbolKind::kLoop, "{} is {}, not a variable", what,
          var);
    check(!is_visible(var), "{} is {}, which is something else, too", what, var);
    visible_.push_back(var);
  }

  // ---- Expressions

  bool is_visible(Expr symbol) const { return std::find(visible_.begin(), visible_.end(), symbol) != visible_.end(); }

  void expr(Expr e, const std::string& what) const {
    check(static_cast<bool>(e), "{} is absent", what);
    check(&e.table() == &kernel_.context->exprs, "{} is of another table", what);
    for (Expr symbol : symbolic::free_symbols(e))
      check(is_visible(symbol), "{} uses {}, which is neither a parameter nor a variable around it", what, symbol);
  }

  const Buffer& buffer(int slot, const char* what) const {
    check(slot >= 0 && slot < static_cast<int>(kernel_.buffers.size()), "{} of slot {}, which does not exist", what,
          slot);
    return kernel_.buffers[static_cast<size_t>(slot)];
  }

  void scalar(Scalar root) const {
    check(static_cast<bool>(root), "a scalar is absent");
    ir::visit(root, [&](Scalar x) {
      check(x->table == &kernel_.context->scalars, "scalar {} is of another table", x);
      switch (x->kind) {
        case ir::ScalarKind::kConstant: break;
        case ir::ScalarKind::kIndex: expr(x->index, "an index"); break;
        case ir::ScalarKind::kLoad: {
          const Buffer& b = buffer(x->slot, "load");
          check(x->args.size() == 1 && x->args[0]->dtype == DType::kI64, "a load of buffer {} has not one i64 index",
                b.name);
          check(b.dtype == x->dtype, "buffer {} of {} is loaded as {}", b.name, ir::name_of(b.dtype),
                ir::name_of(x->dtype));
          break;
        }
        case ir::ScalarKind::kAccumulator: check(false, "an accumulator is left in {}", root); break;
        case ir::ScalarKind::kOp: {
          std::vector<DType> types;
          for (Scalar arg : x->args) types.push_back(arg->dtype);
          check(ir::result_dtype(x->op, types) == x->dtype, "{} has the wrong dtype", x);
          check(x->op != ir::ScalarOp::kCheckedIndex || !kernel_.check_messages.empty(),
                "{} has no message for an index that fails", x);
          break;
        }
        case ir::ScalarKind::kCast: break;
      }
    });
  }

  void index(Scalar i, const Buffer& b) const {
    scalar(i);
    check(i->dtype == DType::kI64, "an index of buffer {} is {}", b.name, ir::name_of(i->dtype));
  }

  bool is_divergent(Expr e) const {
    const std::vector<Expr> symbols = symbolic::free_symbols(e);
    return std::any_of(symbols.begin(), symbols.end(), [&](Expr s) {
      return s == kernel_.thread || std::find(divergent_.begin(), divergent_.end(), s) != divergent_.end();
    });
  }

  bool is_divergent(Scalar root) const {
    bool result = false;
    ir::visit(root, [&](Scalar x) {
      if (x->kind == ir::ScalarKind::kIndex) result |= is_divergent(x->index);
      if (x->kind != ir::ScalarKind::kLoad) return;
      const Buffer& b = kernel_.buffers[static_cast<size_t>(x->slot)];
      result |= b.space != Space::kGlobal || b.written;
    });
    return result;
  }

  // ---- Statements

  const Buffer& local(int slot, Expr first, int64_t items, const char* what) const {
    const Buffer& b = buffer(slot, what);
    check(b.space == Space::kLocal, "{} of buffer {}, which is not local", what, b.name);
    expr(first, fmt::format("the first element of buffer {}", b.name));
    if (stage_ == Stage::kFinal) {
      check(first.is_constant(), "{} of buffer {} at {}, which is no constant", what, b.name, first);
      check(first.constant() >= 0 && first.constant() + items <= b.count.constant(),
            "{} of {} elements at {} of buffer {}, which has {}", what, items, first, b.name, b.count);
    }
    return b;
  }

  const Buffer& memory(int slot, Scalar at, bool is_write, const char* what) const {
    const Buffer& b = buffer(slot, what);
    check(b.space != Space::kLocal, "{} of local buffer {}", what, b.name);
    if (is_write) writable(b);
    index(at, b);
    return b;
  }

  void writable(const Buffer& b) const {
    check(b.space != Space::kGlobal || b.written, "buffer {} is not declared as written", b.name);
  }

  void vector(const Buffer& b, int width, const char* what) const {
    const int bytes = width * static_cast<int>(ir::byte_size(b.dtype));
    check(width >= 1 && bytes >= 4 && bytes <= 16 && (bytes & (bytes - 1)) == 0,
          "{} of {} elements of buffer {}, which are {} bytes", what, width, b.name, bytes);
  }

  void condition(Scalar c) const {
    scalar(c);
    check(c->dtype == DType::kBool, "a condition is {}", ir::name_of(c->dtype));
  }

  void loop(const For& f, bool divergent) {
    expr(f.extent, "the extent of loop " + f.var.str());
    check(f.var.is_symbol() && f.var.symbol().kind == symbolic::SymbolKind::kLoop, "{} is not a loop variable", f.var);
    check(!is_visible(f.var), "loop {} is inside a loop of the same variable", f.var);
    check(!f.unrolled || f.extent.is_constant(), "unrolled loop {} has the extent {}", f.var, f.extent);
    check(!f.unrolled || stage_ == Stage::kStructured, "loop {} is still marked unrolled", f.var);
    const bool apart = is_divergent(f.extent);
    visible_.push_back(f.var);
    if (apart) divergent_.push_back(f.var);
    statement(f.body, divergent || apart);
    if (apart) divergent_.pop_back();
    visible_.pop_back();
  }

  void shuffle(const Shuffle& n) const {
    const Buffer& b = local(n.local, n.first, 1, "shuffle");
    scalar(n.value);
    check(n.value->dtype == b.dtype, "a {} is shuffled to buffer {} of {}", ir::name_of(n.value->dtype), b.name,
          ir::name_of(b.dtype));
    expr(n.lane, "a lane");
    if (n.mode == ShuffleMode::kXor) {
      check(n.lane.is_constant() && n.lane.constant() >= 0 && n.lane.constant() < kernel_.warp,
            "shuffle by xor {}, which is no constant below {}", n.lane, kernel_.warp);
    }
  }

  void fragment(const Fragment& f, int items, DType dtype, const char* what) const {
    const Buffer& b = local(f.local, f.first, items, what);
    check(b.dtype == dtype, "{} {} of a matrix instruction is {}, not {}", what, b.name, ir::name_of(b.dtype),
          ir::name_of(dtype));
  }

  void mma(const Mma& n) const {
    const auto rows = static_cast<int>(mma_instructions().size());
    check(n.instruction >= 0 && n.instruction < rows, "there is no matrix instruction {}", n.instruction);
    const MmaInstruction& i = mma_instructions()[static_cast<size_t>(n.instruction)];
    check(i.lanes == kernel_.warp && kernel_.block % kernel_.warp == 0,
          "{} needs whole warps of {} lanes; here are {} threads in warps of {}", i.name, i.lanes, kernel_.block,
          kernel_.warp);
    fragment(n.a, i.a.items, i.factor, "factor");
    fragment(n.b, i.b.items, i.factor, "factor");
    fragment(n.c, i.c.items, i.sum, "sum");
    fragment(n.d, i.c.items, i.sum, "sum");
  }

  void load_matrix(const LoadMatrix& n) const {
    check(n.count == 1 || n.count == 2 || n.count == 4, "{} matrices at once", n.count);
    check(kernel_.warp == 32 && kernel_.block % 32 == 0,
          "matrices are loaded by whole warps of 32 lanes; here are {} threads in warps of {}", kernel_.block,
          kernel_.warp);
    const Buffer& to = local(n.local, n.first, 2 * n.count, "load_matrix");
    const Buffer& from = memory(n.memory, n.index, false, "load_matrix");
    check(from.space == Space::kShared, "load_matrix of {}, which is not shared", from.name);
    check(to.dtype == from.dtype && ir::byte_size(to.dtype) == 2, "load_matrix of {} to {}", ir::name_of(from.dtype),
          ir::name_of(to.dtype));
  }

  void async_copy(const AsyncCopy& n) const {
    const Buffer& to = memory(n.shared, n.to, true, "async_copy");
    const Buffer& from = memory(n.global, n.from, false, "async_copy");
    check(to.space == Space::kShared && from.space == Space::kGlobal, "async_copy of {} to {}", from.name, to.name);
    check(to.dtype == from.dtype, "async_copy of {} to {}", ir::name_of(from.dtype), ir::name_of(to.dtype));
    vector(to, n.width, "async_copy");
    if (n.condition) condition(n.condition);
  }

  void statement(const Stmt& s, bool divergent) {
    check(s != nullptr, "a statement is absent");
    std::visit(Overloaded{
                   [&](const For& f) { loop(f, divergent); },
                   [&](const Block& b) {
                     for (const Stmt& each : b.statements) statement(each, divergent);
                   },
                   [&](const If& i) {
                     condition(i.condition);
                     const bool apart = divergent || is_divergent(i.condition);
                     statement(i.then_body, apart);
                     if (i.else_body) statement(i.else_body, apart);
                   },
                   [&](const Store& n) {
                     const Buffer& b = buffer(n.slot, "store");
                     writable(b);
                     index(n.index, b);
                     scalar(n.value);
                     check(n.value->dtype == b.dtype, "a {} is stored to buffer {} of {}", ir::name_of(n.value->dtype),
                           b.name, ir::name_of(b.dtype));
                   },
                   [&](const LoadVector& n) { vectors(n.local, n.first, n.memory, n.index, n.width, false, "load"); },
                   [&](const StoreVector& n) { vectors(n.local, n.first, n.memory, n.index, n.width, true, "store"); },
                   [&](const Barrier&) { check(!divergent, "a barrier is where not all threads of a block come to"); },
                   [&](const Shuffle& n) { shuffle(n); },
                   [&](const Vote& n) {
                     check(local(n.local, n.first, 1, "vote").dtype == DType::kBool, "a vote is not stored as bool");
                     condition(n.condition);
                   },
                   [&](const Atomic& n) {
                     const Buffer& b = memory(n.slot, n.index, true, "atomic");
                     scalar(n.value);
                     check(n.value->dtype == b.dtype, "atomic of a {} on buffer {} of {}", ir::name_of(n.value->dtype),
                           b.name, ir::name_of(b.dtype));
                     check(n.combiner != Combiner::kProd, "there is no atomic product");
                   },
                   [&](const AsyncCopy& n) { async_copy(n); },
                   [&](const AsyncCommit&) {},
                   [&](const AsyncWait& n) { check(n.pending >= 0, "a wait for {} groups", n.pending); },
                   [&](const LoadMatrix& n) {
                     check(!divergent, "a matrix is loaded where not all threads of a warp come to");
                     load_matrix(n);
                   },
                   [&](const Mma& n) { mma(n); },
               },
               s->v);
  }

  void vectors(int local_slot, Expr first, int memory_slot, Scalar at, int width, bool is_write,
               const char* what) const {
    const Buffer& l = local(local_slot, first, width, what);
    const Buffer& m = memory(memory_slot, at, is_write, what);
    check(l.dtype == m.dtype, "{} between buffers {} of {} and {} of {}", what, l.name, ir::name_of(l.dtype), m.name,
          ir::name_of(m.dtype));
    vector(m, width, what);
  }

  const Kernel& kernel_;
  Stage stage_;
  std::vector<Expr> visible_;    // parameters and variables
  std::vector<Expr> divergent_;  // variables of loops that threads leave at different times
};

}  // namespace

void verify(const Kernel& kernel, Stage stage) { Verifier(kernel, stage).run(); }

}  // namespace stax::thread
