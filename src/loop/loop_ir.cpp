// SPDX-License-Identifier: Apache-2.0
#include "loop/loop_ir.h"

#include <algorithm>

#include "loop/access.h"
#include "support/error.h"

namespace stax::loop {

namespace {

constexpr std::string_view kLoopKindNames[] = {"serial", "parallel", "vector",  "unrolled", "thread",
                                               "warp",   "rows",     "columns", "depth"};

Stmt wrap(auto s) { return std::make_shared<const StmtNode>(StmtNode{std::move(s)}); }

}  // namespace

std::string_view name_of(LoopKind kind) { return kLoopKindNames[static_cast<size_t>(kind)]; }
std::optional<LoopKind> parse_loop_kind(std::string_view name) {
  const auto* found = std::find(std::begin(kLoopKindNames), std::end(kLoopKindNames), name);
  if (found == std::end(kLoopKindNames)) return std::nullopt;
  return static_cast<LoopKind>(found - std::begin(kLoopKindNames));
}

bool is_matrix(LoopKind kind) {
  return kind == LoopKind::kRows || kind == LoopKind::kColumns || kind == LoopKind::kDepth;
}

Stmt make(For s) {
  STAX_ASSERT(s.var && s.var.is_symbol() && s.extent && s.body, "a loop needs a variable, an extent and a body");
  return wrap(std::move(s));
}

Stmt make(Block s) {
  Block flat;
  for (Stmt& each : s.statements) {
    STAX_ASSERT(each != nullptr, "a block of null statements");
    if (const Block* inner = each->as<Block>()) {
      flat.statements.insert(flat.statements.end(), inner->statements.begin(), inner->statements.end());
    } else {
      flat.statements.push_back(std::move(each));
    }
  }
  if (flat.statements.size() == 1) return flat.statements.front();
  return wrap(std::move(flat));
}

Stmt make(Store s) { return wrap(std::move(s)); }
Stmt make(Update s) { return wrap(std::move(s)); }

Stmt make(Prefetch s) { return wrap(std::move(s)); }

Stmt make(If s) {
  STAX_ASSERT(s.condition && s.then_body, "an if needs a condition and a body");
  return wrap(std::move(s));
}

Stmt make(Allocate s) {
  STAX_ASSERT(s.body != nullptr, "an allocate needs a body");
  return wrap(std::move(s));
}

Stmt make(Fence s) { return wrap(s); }

Stmt rewrite(const Stmt& root, const std::function<Stmt(const Stmt&)>& f) {
  const auto with_parts = [&]() -> Stmt {
    return std::visit(Overloaded{
                          [&](const For& s) -> Stmt {
                            Stmt body = rewrite(s.body, f);
                            if (body == s.body) return root;
                            For copy = s;
                            copy.body = std::move(body);
                            return make(std::move(copy));
                          },
                          [&](const Block& s) -> Stmt {
                            Block copy;
                            bool changed = false;
                            for (const Stmt& each : s.statements) {
                              copy.statements.push_back(rewrite(each, f));
                              changed |= copy.statements.back() != each;
                            }
                            return changed ? make(std::move(copy)) : root;
                          },
                          [&](const If& s) -> Stmt {
                            If copy = s;
                            copy.then_body = rewrite(s.then_body, f);
                            if (s.else_body) copy.else_body = rewrite(s.else_body, f);
                            if (copy.then_body == s.then_body && copy.else_body == s.else_body) return root;
                            return make(std::move(copy));
                          },
                          [&](const Allocate& s) -> Stmt {
                            Stmt body = rewrite(s.body, f);
                            return body == s.body ? root : make(Allocate{s.slot, std::move(body)});
                          },
                          [&](const Store&) -> Stmt { return root; },
                          [&](const Update&) -> Stmt { return root; },
                          [&](const Prefetch&) -> Stmt { return root; },
                          [&](const Fence&) -> Stmt { return root; },
                      },
                      root->v);
  };
  return f(with_parts());
}

Stmt substitute(const Stmt& root, const symbolic::Substitution& map) {
  if (map.empty()) return root;
  return rewrite(root, [&](const Stmt& s) -> Stmt {
    if (const For* loop = s->as<For>()) {
      Expr extent = symbolic::substitute(loop->extent, map);
      Expr var = loop->var;
      if (const auto found = map.find(var.node()); found != map.end()) {
        STAX_ASSERT(found->second.is_symbol(), "the variable of loop {} can only be renamed", var.str());
        var = found->second;
      }
      if (extent == loop->extent && var == loop->var) return s;
      For copy = *loop;
      copy.var = var;
      copy.extent = extent;
      return make(std::move(copy));
    }
    return map_scalars(s, [&](Scalar x) { return ir::substitute(x, map); });
  });
}

Kernel with_param(const Kernel& kernel, size_t k, Expr known) {
  Kernel result = kernel;
  const symbolic::Substitution map{{kernel.params[k].node(), known}};
  if (known.is_symbol()) result.params[k] = known;
  for (Buffer& b : result.buffers) {
    for (Expr& e : b.extents) e = symbolic::substitute(e, map);
    for (Expr& e : b.strides) e = symbolic::substitute(e, map);
  }
  result.body = substitute(kernel.body, map);
  return result;
}

void visit(const Stmt& root, const std::function<void(const Stmt&)>& f) {
  f(root);
  std::visit(Overloaded{
                 [&](const For& s) { visit(s.body, f); },
                 [&](const Block& s) {
                   for (const Stmt& each : s.statements) visit(each, f);
                 },
                 [&](const If& s) {
                   visit(s.then_body, f);
                   if (s.else_body) visit(s.else_body, f);
                 },
                 [&](const Allocate& s) { visit(s.body, f); },
                 [](const Store&) {},
                 [](const Update&) {},
                 [](const Prefetch&) {},
                 [](const Fence&) {},
             },
             root->v);
}

symbolic::Interval loop_range(Expr extent) {
  const int64_t hi = extent.range().hi;
  return {0, hi == symbolic::kPosInf ? hi : std::max<int64_t>(hi, 1) - 1};
}

Expr loop_var(ir::Context& context, const std::string& name, Expr extent) {
  return context.exprs.new_symbol({name, symbolic::SymbolKind::kLoop, loop_range(extent), 1});
}

}  // namespace stax::loop
