// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "ir/format.h"
#include "loop/access.h"
#include "loop/loop_ir.h"
#include "support/error.h"

namespace stax::loop {

namespace {

class Verifier {
 public:
  explicit Verifier(const Kernel& kernel) : kernel_(kernel) {}

  void run() {
    check(kernel_.context != nullptr, "there is no context");
    check(kernel_.body != nullptr, "there is no body");
    header();
    statement(kernel_.body, /*outermost=*/true, /*in_vector=*/false);
  }

 private:
  template <typename... Arguments>
  void check(bool holds, fmt::format_string<Arguments...> format, Arguments&&... arguments) const {
    if (holds) return;
    throw InternalError(
        fmt::format("kernel {}: {}", kernel_.name, fmt::format(format, std::forward<Arguments>(arguments)...)));
  }

  void header() {
    const auto count = static_cast<int>(kernel_.buffers.size());
    check(kernel_.arguments >= 0 && kernel_.arguments <= count, "{} arguments among {} buffers", kernel_.arguments,
          count);
    for (Expr p : kernel_.params) {
      check(p && p.is_symbol() && p.symbol().kind == symbolic::SymbolKind::kParam, "{} is not a parameter", p);
      check(!is_visible(p), "parameter {} is listed twice", p);
      visible_.push_back(p);
    }
    for (int slot = 0; slot < count; ++slot) {
      const Buffer& b = kernel_.buffers[slot];
      const bool argument = slot < kernel_.arguments;
      check(argument == (b.scope == Scope::kGlobal), "slot {}: arguments come first and are global, the others local",
            slot);
      check(b.strides.empty() || b.strides.size() == b.extents.size(), "buffer {} has {} extents and {} strides",
            b.name, b.extents.size(), b.strides.size());
      for (Expr e : b.extents) expr(e, "an extent of buffer " + b.name);
      for (Expr e : b.strides) expr(e, "a stride of buffer " + b.name);
    }
    is_live_.assign(kernel_.buffers.size(), false);
    std::fill_n(is_live_.begin(), kernel_.arguments, true);
  }

  bool is_visible(Expr symbol) const { return std::find(visible_.begin(), visible_.end(), symbol) != visible_.end(); }

  void expr(Expr e, const std::string& what) const {
    check(static_cast<bool>(e), "{} is absent", what);
    check(&e.table() == &kernel_.context->exprs, "{} is of another table", what);
    for (Expr symbol : symbolic::free_symbols(e)) {
      check(is_visible(symbol), "{} uses {}, which is neither a parameter nor the variable of an enclosing loop", what,
            symbol);
    }
  }

  const Buffer& buffer(int slot, const char* what) const {
    check(slot >= 0 && slot < static_cast<int>(kernel_.buffers.size()), "{} of slot {}, which does not exist", what,
          slot);
    check(is_live_[slot], "{} of local buffer {} outside of its allocate", what, kernel_.buffers[slot].name);
    return kernel_.buffers[slot];
  }

  void indices(const Buffer& b, const std::vector<Scalar>& index) const {
    check(index.size() == b.extents.size(), "buffer {} of rank {} has {} indices", b.name, b.extents.size(),
          index.size());
    for (Scalar i : index) {
      check(static_cast<bool>(i) && i->dtype == DType::kI64, "an index of buffer {} is not i64", b.name);
    }
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
          indices(b, x->args);
          check(b.dtype == x->dtype, "buffer {} of {} is loaded as {}", b.name, ir::name_of(b.dtype),
                ir::name_of(x->dtype));
          break;
        }
        case ir::ScalarKind::kAccumulator: check(false, "an accumulator is left in {}", root); break;
        case ir::ScalarKind::kOp: {
          std::vector<DType> types;
          for (Scalar arg : x->args) types.push_back(arg->dtype);
          check(ir::result_dtype(x->op, types) == x->dtype, "{} has the wrong dtype", x);
          break;
        }
        case ir::ScalarKind::kCast: break;
      }
    });
  }

  void write(int slot, const std::vector<Scalar>& index, Scalar value) const {
    const Buffer& b = buffer(slot, "store");
    check(b.scope == Scope::kLocal || b.written, "buffer {} is not declared as written", b.name);
    indices(b, index);
    for (Scalar i : index) scalar(i);
    scalar(value);
    check(value->dtype == b.dtype, "a {} is stored to buffer {} of {}", ir::name_of(value->dtype), b.name,
          ir::name_of(b.dtype));
  }

  void loop(const For& f, bool outermost, bool in_vector) {
    expr(f.extent, "the extent of loop " + f.var.str());
    check(f.var.symbol().kind == symbolic::SymbolKind::kLoop, "{} is not a loop variable", f.var);
    check(!is_visible(f.var), "loop {} is inside a loop of the same variable", f.var);
    check(!in_vector || f.kind == LoopKind::kUnrolled, "{} loop {} is inside a vector loop", name_of(f.kind),
          f.var.str());
    switch (f.kind) {
      case LoopKind::kSerial: break;
      case LoopKind::kParallel: check(outermost, "parallel loop {} is not outermost", f.var); break;
      case LoopKind::kVector: check(f.width >= 1, "vector loop {} of width {}", f.var.str(), f.width); break;
      case LoopKind::kUnrolled:
        check(f.extent.is_constant(), "unrolled loop {} has the extent {}", f.var.str(), f.extent);
        break;
      case LoopKind::kThread:
      case LoopKind::kWarp: check(!in_thread_, "{} loop {} is inside a thread loop", name_of(f.kind), f.var); break;
      case LoopKind::kRows:
      case LoopKind::kColumns:
      case LoopKind::kDepth: check(f.extent.is_constant(), "matrix loop {} has the extent {}", f.var, f.extent); break;
    }
    visible_.push_back(f.var);
    const bool was_in_thread =
        std::exchange(in_thread_, in_thread_ || f.kind == LoopKind::kThread || f.kind == LoopKind::kWarp);
    statement(f.body, false, in_vector || f.kind == LoopKind::kVector);
    in_thread_ = was_in_thread;
    visible_.pop_back();
  }

  void statement(const Stmt& s, bool outermost, bool in_vector) {
    check(s != nullptr, "a statement is absent");
    std::visit(Overloaded{
                   [&](const For& f) { loop(f, outermost, in_vector); },
                   [&](const Block& b) {
                     for (const Stmt& each : b.statements) statement(each, false, in_vector);
                   },
                   [&](const Store& w) { write(w.slot, w.index, w.value); },
                   [&](const Update& w) { write(w.slot, w.index, w.value); },
                   [&](const Prefetch& p) {
                     check(p.level == 1 || p.level == 2, "prefetch into the cache of level {}", p.level);
                     indices(buffer(p.slot, "prefetch"), p.index);
                     for (Scalar i : p.index) {
                       check(!ir::has_load(i), "a prefetch at the index {}, which is data", i);
                       scalar(i);
                     }
                   },
                   [&](const Fence& n) { check(n.pending >= 0, "a fence of {} groups", n.pending); },
                   [&](const If& i) {
                     scalar(i.condition);
                     check(i.condition->dtype == DType::kBool, "a condition is {}", ir::name_of(i.condition->dtype));
                     statement(i.then_body, false, in_vector);
                     if (i.else_body) statement(i.else_body, false, in_vector);
                   },
                   [&](const Allocate& a) {
                     check(a.slot >= kernel_.arguments && a.slot < static_cast<int>(kernel_.buffers.size()),
                           "allocate of slot {}, which is not local", a.slot);
                     check(!is_live_[a.slot], "buffer {} is allocated inside its own allocate",
                           kernel_.buffers[a.slot].name);
                     is_live_[a.slot] = true;
                     statement(a.body, false, in_vector);
                     is_live_[a.slot] = false;
                   },
               },
               s->v);
  }

  const Kernel& kernel_;
  std::vector<Expr> visible_;  // parameters and enclosing variables
  std::vector<bool> is_live_;  // by slot
  bool in_thread_ = false;
};

}  // namespace

void verify(const Kernel& kernel) { Verifier(kernel).run(); }

}  // namespace stax::loop
