// SPDX-License-Identifier: Apache-2.0
// Text of kernels.
//
//   kernel @name map {
//     param n 0 .. 64 multiple 8
//     argument 0 @x f32 [n]
//     argument 1 @y f32 [n] strides [2] written
//     local 2 @part f32 [8]
//     check "what a failing index says"
//     schedule "split i 8 -> io ii exact"
//     for io in floordiv(n, 8) parallel {
//       allocate 2 {
//         for ii in 8 vector 8 {
//           %2[ii] = load0[io*8 + ii]
//           %2[ii] sum= 1.0:f32
//         }
//         if cast<bool>([less(io, 3)]) {
//         } else {
//         }
//       }
//     }
//   }
//
// Buffers are numbered by slot; an index that depends on data stands in braces. `range` (and `multiple`) follow the
// extent of a loop whose variable was declared with other bounds than the extent gives.
#include "loop/access.h"
#include "loop/loop_ir.h"
#include "support/error.h"
#include "support/lexer.h"
#include "support/text_writer.h"

namespace stax::loop {

namespace {

std::string list_of(const auto& items) {
  std::string text = "[";
  for (size_t i = 0; i < items.size(); ++i) text += (i > 0 ? ", " : "") + items[i].str();
  return text + "]";
}

std::string range_text(const symbolic::SymbolInfo& info) {
  std::string text = fmt::format("{} .. {}", info.range.lo, info.range.hi);
  if (info.multiple != 1) text += fmt::format(" multiple {}", info.multiple);
  return text;
}

std::string index_text(const std::vector<Scalar>& index) {
  std::string text = "[";
  for (size_t i = 0; i < index.size(); ++i) {
    const Expr e = ir::as_expr(index[i]);
    text += (i > 0 ? ", " : "") + (e ? e.str() : "{" + index[i].str() + "}");
  }
  return text + "]";
}

class Printer {
 public:
  Printer(const Kernel& kernel, bool anonymous) : kernel_(kernel), anonymous_(anonymous) {}

  std::string print() {
    if (anonymous_) {
      out_.line("kernel {} {{", spell_name('\0', kernel_.kernel_class));
    } else {
      out_.line("kernel {} {} {{", spell_name('@', kernel_.name), spell_name('\0', kernel_.kernel_class));
    }
    {
      const auto body = out_.indent();
      header();
      statement(kernel_.body);
    }
    out_.line("}}");
    return std::move(out_).text();
  }

 private:
  void header() {
    for (Expr p : kernel_.params) {
      out_.line("param {} {}", spell_name('\0', p.symbol().name), range_text(p.symbol()));
    }
    for (size_t slot = 0; slot < kernel_.buffers.size(); ++slot) {
      const Buffer& b = kernel_.buffers[slot];
      out_.write("{} {}", b.scope == Scope::kGlobal ? "argument" : "local", slot);
      if (!anonymous_) out_.write(" {}", spell_name('@', b.name));
      out_.write(" {} {}", ir::name_of(b.dtype), list_of(b.extents));
      if (!b.strides.empty()) out_.write(" strides {}", list_of(b.strides));
      if (b.written) out_.write(" written");
      if (b.finite) out_.write(" finite");
      out_.end_line();
    }
    if (anonymous_) return;
    for (const std::string& message : kernel_.check_messages) out_.line("check {}", spell_string(message));
    if (!kernel_.schedule.empty()) out_.line("schedule {}", spell_string(kernel_.schedule));
  }

  void braced(const Stmt& s) {
    const auto body = out_.indent();
    statement(s);
  }

  void statement(const Stmt& s) {
    std::visit(Overloaded{
                   [&](const For& f) {
                     out_.write("for {} in {}", f.var.str(), f.extent.str());
                     const symbolic::SymbolInfo& info = f.var.symbol();
                     if (info.range != loop_range(f.extent) || info.multiple != 1) {
                       out_.write(" range {}", range_text(info));
                     }
                     if (f.kind != LoopKind::kSerial) out_.write(" {}", name_of(f.kind));
                     if (f.kind == LoopKind::kVector) out_.write(" {}", f.width);
                     out_.line(" {{");
                     braced(f.body);
                     out_.line("}}");
                   },
                   [&](const Block& b) {
                     for (const Stmt& each : b.statements) statement(each);
                   },
                   [&](const Store& w) {
                     out_.line("%{}{} {} {}", w.slot, index_text(w.index), w.in_background ? "async=" : "=",
                               w.value.str());
                   },
                   [&](const Fence& n) { out_.line("fence {}", n.pending); },
                   [&](const Update& w) {
                     out_.line("%{}{} {}= {}", w.slot, index_text(w.index), name_of(w.combiner), w.value.str());
                   },
                   [&](const If& i) {
                     out_.line("if {} {{", i.condition.str());
                     braced(i.then_body);
                     if (i.else_body) {
                       out_.line("}} else {{");
                       braced(i.else_body);
                     }
                     out_.line("}}");
                   },
                   [&](const Prefetch& p) { out_.line("prefetch {} %{}{}", p.level, p.slot, index_text(p.index)); },
                   [&](const Allocate& a) {
                     out_.line("allocate {} {{", a.slot);
                     braced(a.body);
                     out_.line("}}");
                   },
               },
               s->v);
  }

  const Kernel& kernel_;
  bool anonymous_;
  TextWriter out_;
};

// A copy of the kernel in a context of its own, with parameters called p0, p1, .. and loop variables v0, v1, .. in the
// order of the loops. The canonical order of sums and products goes by names, so equal kernels become equal whatever
// they were called before.
class Renamer {
 public:
  explicit Renamer(const Kernel& kernel) : kernel_(kernel), context_(std::make_shared<ir::Context>()) {}

  Kernel rename() {
    Kernel result;
    result.context = context_;
    result.kernel_class = kernel_.kernel_class;
    result.arguments = kernel_.arguments;
    for (Expr p : kernel_.params) result.params.push_back(declare(p, 'p', result.params.size()));
    for (const Buffer& b : kernel_.buffers) {
      Buffer copy = b;
      copy.name.clear();
      for (Expr& e : copy.extents) e = translate(e);
      for (Expr& e : copy.strides) e = translate(e);
      result.buffers.push_back(std::move(copy));
    }
    result.body = translate(kernel_.body);
    return result;
  }

 private:
  Expr declare(Expr symbol, char letter, size_t number) {
    symbolic::SymbolInfo info = symbol.symbol();
    info.name = fmt::format("{}{}", letter, number);
    const Expr result = context_->exprs.new_symbol(std::move(info));
    exprs_[symbol.node()] = result;
    return result;
  }

  Expr translate(Expr e) {
    if (const auto found = exprs_.find(e.node()); found != exprs_.end()) return found->second;
    Expr result;
    if (e.is_constant()) {
      result = context_->exprs.constant(e.constant());
    } else {
      STAX_ASSERT(!e.is_symbol(), "kernel {}: symbol {} is neither a parameter nor a loop variable", kernel_.name,
                  e.str());
      std::vector<Expr> args;
      for (Expr arg : e.args()) args.push_back(translate(arg));
      result = context_->exprs.make(e.kind(), std::move(args));
    }
    exprs_[e.node()] = result;
    return result;
  }

  Scalar translate(Scalar x) {
    if (const auto found = scalars_.find(x.node()); found != scalars_.end()) return found->second;
    ir::ScalarTable& table = context_->scalars;
    std::vector<Scalar> args;
    for (Scalar arg : x->args) args.push_back(translate(arg));
    Scalar result;
    switch (x->kind) {
      case ir::ScalarKind::kConstant:
        result = ir::is_float(x->dtype) ? table.constant(x->dtype, x->as_double())
                                        : table.constant_int(x->dtype, x->as_int());
        break;
      case ir::ScalarKind::kIndex: result = table.index(translate(x->index)); break;
      case ir::ScalarKind::kLoad: result = table.load(x->slot, x->dtype, std::move(args)); break;
      case ir::ScalarKind::kAccumulator: result = table.accumulator(x->dtype); break;
      case ir::ScalarKind::kOp: result = table.op(x->op, std::move(args)); break;
      case ir::ScalarKind::kCast: result = table.cast(x->dtype, args[0]); break;
    }
    scalars_[x.node()] = result;
    return result;
  }

  Stmt translate(const Stmt& s) {
    const auto access = [&](auto copy) -> Stmt {
      for (Scalar& i : copy.index) i = translate(i);
      if constexpr (!std::is_same_v<decltype(copy), Prefetch>) copy.value = translate(copy.value);
      return make(std::move(copy));
    };
    return std::visit(
        Overloaded{
            [&](const For& f) -> Stmt {
              For copy = f;
              copy.extent = translate(f.extent);
              // One variable may belong to several loops, one after the other.
              const auto found = exprs_.find(f.var.node());
              copy.var = found != exprs_.end() ? found->second : declare(f.var, 'v', loops_++);
              copy.body = translate(f.body);
              return make(std::move(copy));
            },
            [&](const Block& b) -> Stmt {
              Block copy;
              for (const Stmt& each : b.statements) copy.statements.push_back(translate(each));
              return make(std::move(copy));
            },
            [&](const Store& w) -> Stmt { return access(w); },
            [&](const Fence&) -> Stmt { return s; },
            [&](const Update& w) -> Stmt { return access(w); },
            [&](const Prefetch& p) -> Stmt { return access(p); },
            [&](const If& i) -> Stmt {
              const Scalar condition = translate(i.condition);
              Stmt then_body = translate(i.then_body);
              return make(If{condition, std::move(then_body), i.else_body ? translate(i.else_body) : Stmt()});
            },
            [&](const Allocate& a) -> Stmt { return make(Allocate{a.slot, translate(a.body)}); },
        },
        s->v);
  }

  const Kernel& kernel_;
  std::shared_ptr<ir::Context> context_;
  std::unordered_map<const symbolic::ExprNode*, Expr> exprs_;
  std::unordered_map<const ir::ScalarNode*, Scalar> scalars_;
  size_t loops_ = 0;
};

}  // namespace

std::string print(const Kernel& kernel, bool anonymous) {
  if (!anonymous) return Printer(kernel, false).print();
  return Printer(Renamer(kernel).rename(), true).print();
}

}  // namespace stax::loop
