// SPDX-License-Identifier: Apache-2.0
// Text of kernels.
//
//   kernel @name reduction {
//     param n 0 .. 64 multiple 8
//     global 0 @x f32 [n] align 16
//     global 1 @y f32 [n] written
//     shared 2 @tile f32 [264]
//     local 3 @part f32 [4]
//     grid bx floordiv(n + 255, 256) by 1 bz 1
//     block t 256 warp 32
//     index_bits 32
//     flush_denormals
//     divisor n multiplier0 shift0
//     check "what a failing index says"
//     schedule "split i 256 -> io ii"
//     independent {
//       %2[t] = load0[t]
//     }
//     for i in floordiv(n, 8) {
//       load %3[0] = %0[i*1024 + t*4] width 4
//       %2[t] = add(load3[0], load3[1])
//       barrier
//       if cast<bool>([less(t, 32)]) {
//         shuffle %3[0] = load2[t] xor 16
//         shuffle %3[1] = load2[t] lane mod(t + 1, 32)
//         vote %3[2] = any lt(load2[t], 0.0:f32)
//         atomic %1[0] sum= load3[1]
//       } else {
//         async_copy %2[t*4] = %0[t*4] width 4 where cast<bool>([less(t, n)])
//         async_commit
//         async_wait 0
//       }
//       load_matrix %4[0] = %2[mod(t, 16)*72] count 4 transposed
//       mma "m16n8k16.f32.f16" %3[0] = %4[0] * %5[0] + %3[0]
//       store %1[t*4] = %3[0] width 4
//     }
//   }
//
// Buffers are numbered by slot; an index that depends on data stands in braces. `range` (and `multiple`) follow the extent of a variable that
// was declared with other bounds than the extent gives.
#include <algorithm>

#include "support/error.h"
#include "support/lexer.h"
#include "support/overloaded.h"
#include "support/text_writer.h"
#include "thread/mma.h"
#include "thread/thread_ir.h"

namespace stax::thread {

namespace {

std::string range_text(const symbolic::SymbolInfo& info) {
  std::string text = fmt::format("{} .. {}", info.range.lo, info.range.hi);
  if (info.multiple != 1) text += fmt::format(" multiple {}", info.multiple);
  return text;
}

/// " range lo .. hi", where that is not what follows from the extent.
std::string other_range(Expr var, Expr extent) {
  const symbolic::SymbolInfo& info = var.symbol();
  return info.range == range_below(extent) && info.multiple == 1 ? "" : " range " + range_text(info);
}

std::string element(int slot, Expr index) { return fmt::format("%{}[{}]", slot, index.str()); }

std::string element(int slot, Scalar index) {
  if (const Expr e = ir::as_expr(index)) return element(slot, e);
  return fmt::format("%{}[{{{}}}]", slot, index.str());
}

std::string element(const Fragment& f) { return element(f.local, f.first); }

class Printer {
 public:
  explicit Printer(const Kernel& kernel, std::unordered_map<const StmtNode*, int>* lines)
      : kernel_(kernel), lines_(lines) {}

  std::string print() {
    out_.line("kernel {} {} {{", spell_name('@', kernel_.name), spell_name('\0', kernel_.kernel_class));
    {
      const auto body = out_.indent();
      header();
      statement(kernel_.body);
    }
    out_.line("}}");
    return std::move(out_).text();
  }

 private:
  static std::string_view word(StmtKind kind) {
    static constexpr std::string_view kWords[] = {
#define STAX_THREAD_STMT(Name, text) text,
#include "thread/nodes.def"
#undef STAX_THREAD_STMT
    };
    return kWords[static_cast<size_t>(kind)];
  }

  void header() {
    for (Expr p : kernel_.params) out_.line("param {} {}", spell_name('\0', p.symbol().name), range_text(p.symbol()));
    for (size_t slot = 0; slot < kernel_.buffers.size(); ++slot) {
      const Buffer& b = kernel_.buffers[slot];
      out_.write("{} {} {} {} [{}]", name_of(b.space), slot, spell_name('@', b.name), ir::name_of(b.dtype),
                 b.count.str());
      if (b.alignment != 0) out_.write(" align {}", b.alignment);
      if (b.written) out_.write(" written");
      out_.end_line();
    }
    out_.write("grid");
    for (int k = 0; k < 3; ++k) {
      out_.write(" {} {}{}", kernel_.block_index[k].str(), kernel_.grid[k].str(),
                 other_range(kernel_.block_index[k], kernel_.grid[k]));
    }
    out_.end_line();
    const Expr block = kernel_.context->exprs.constant(kernel_.block);
    out_.line("block {} {}{} warp {}", kernel_.thread.str(), kernel_.block, other_range(kernel_.thread, block),
              kernel_.warp);
    if (kernel_.index_bits != 64) out_.line("index_bits {}", kernel_.index_bits);
    if (kernel_.flush_denormals) out_.line("flush_denormals");
    for (const Divisor& d : kernel_.divisors)
      out_.line("divisor {} {} {}", d.value.str(), d.multiplier.str(), d.shift.str());
    for (const std::string& message : kernel_.check_messages) out_.line("check {}", spell_string(message));
    if (!kernel_.schedule.empty()) out_.line("schedule {}", spell_string(kernel_.schedule));
  }

  void braced(const Stmt& s) {
    const auto body = out_.indent();
    statement(s);
  }

  void statement(const Stmt& s) {
    if (lines_ != nullptr && s->kind() != StmtKind::kBlock) {
      const std::string& text = out_.text();
      line_ += static_cast<int>(std::count(text.begin() + counted_, text.end(), '\n'));
      counted_ = static_cast<std::ptrdiff_t>(text.size());
      // The first place of a statement that stands in several.
      lines_->emplace(s.get(), line_);
    }
    const std::string_view name = word(s->kind());
    std::visit(
        Overloaded{
            [&](const For& f) {
              out_.write("{} {} in {}{}", name, f.var.str(), f.extent.str(), other_range(f.var, f.extent));
              if (f.unrolled) out_.write(" unrolled");
              out_.line(" {{");
              braced(f.body);
              out_.line("}}");
            },
            [&](const Block& b) {
              if (b.independent) out_.line("{} {{", name);
              {
                std::optional<decltype(out_.indent())> inside;
                if (b.independent) inside.emplace(out_.indent());
                for (const Stmt& each : b.statements) statement(each);
              }
              if (b.independent) out_.line("}}");
            },
            [&](const If& i) {
              out_.line("{} {} {{", name, i.condition.str());
              braced(i.then_body);
              if (i.else_body) {
                out_.line("}} else {{");
                braced(i.else_body);
              }
              out_.line("}}");
            },
            [&](const Store& n) { out_.line("{} = {}", element(n.slot, n.index), n.value.str()); },
            [&](const LoadVector& n) {
              out_.line("{} {} = {} width {}", name, element(n.local, n.first), element(n.memory, n.index), n.width);
            },
            [&](const StoreVector& n) {
              out_.line("{} {} = {} width {}", name, element(n.memory, n.index), element(n.local, n.first), n.width);
            },
            [&](const Barrier&) { out_.line("{}", name); },
            [&](const Shuffle& n) {
              out_.line("{} {} = {} {} {}", name, element(n.local, n.first), n.value.str(),
                        n.mode == ShuffleMode::kXor ? "xor" : "lane", n.lane.str());
            },
            [&](const Vote& n) {
              out_.line("{} {} = {} {}", name, element(n.local, n.first), n.mode == VoteMode::kAny ? "any" : "all",
                        n.condition.str());
            },
            [&](const Atomic& n) {
              out_.line("{} {} {}= {}", name, element(n.slot, n.index), ir::name_of(n.combiner), n.value.str());
            },
            [&](const AsyncCopy& n) {
              out_.write("{} {} = {} width {}", name, element(n.shared, n.to), element(n.global, n.from), n.width);
              if (n.condition) out_.write(" where {}", n.condition.str());
              out_.end_line();
            },
            [&](const AsyncCommit&) { out_.line("{}", name); },
            [&](const AsyncWait& n) { out_.line("{} {}", name, n.pending); },
            [&](const LoadMatrix& n) {
              out_.line("{} {} = {} count {}{}", name, element(n.local, n.first), element(n.memory, n.index), n.count,
                        n.transposed ? " transposed" : "");
            },
            [&](const Mma& n) {
              out_.line("{} {} {} = {} * {} + {}", name, spell_string(mma_instructions()[n.instruction].name),
                        element(n.d), element(n.a), element(n.b), element(n.c));
            },
        },
        s->v);
  }

  const Kernel& kernel_;
  std::unordered_map<const StmtNode*, int>* lines_;
  TextWriter out_;
  int line_ = 1;                // of the statement at hand
  std::ptrdiff_t counted_ = 0;  // characters before it
};

}  // namespace

std::string print(const Kernel& kernel) { return Printer(kernel, nullptr).print(); }

std::unordered_map<const StmtNode*, int> lines_of(const Kernel& kernel) {
  std::unordered_map<const StmtNode*, int> lines;
  Printer(kernel, &lines).print();
  return lines;
}

}  // namespace stax::thread
