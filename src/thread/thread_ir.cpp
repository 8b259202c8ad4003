// SPDX-License-Identifier: Apache-2.0
#include "thread/thread_ir.h"

#include <algorithm>
#include <set>

#include "support/error.h"
#include "support/overloaded.h"

namespace stax::thread {

namespace {

constexpr std::string_view kSpaceNames[] = {"global", "shared", "local"};

// Calls f on each scalar and each index expression of a statement, not of those inside it; what f gives back takes its place.
template <class Scalars, class Exprs>
StmtNode map_parts(const StmtNode& s, const Scalars& scalar, const Exprs& expr) {
  StmtNode copy = s;
  std::visit(Overloaded{
                 [&](For& n) { n.extent = expr(n.extent); },
                 [&](Block&) {},
                 [&](If& n) { n.condition = scalar(n.condition); },
                 [&](Store& n) { n.index = scalar(n.index), n.value = scalar(n.value); },
                 [&](LoadVector& n) { n.first = expr(n.first), n.index = scalar(n.index); },
                 [&](StoreVector& n) { n.index = scalar(n.index), n.first = expr(n.first); },
                 [&](Barrier&) {},
                 [&](Shuffle& n) { n.first = expr(n.first), n.lane = expr(n.lane), n.value = scalar(n.value); },
                 [&](Vote& n) { n.first = expr(n.first), n.condition = scalar(n.condition); },
                 [&](Atomic& n) { n.index = scalar(n.index), n.value = scalar(n.value); },
                 [&](AsyncCopy& n) {
                   n.to = scalar(n.to), n.from = scalar(n.from);
                   if (n.condition) n.condition = scalar(n.condition);
                 },
                 [&](AsyncCommit&) {},
                 [&](AsyncWait&) {},
                 [&](LoadMatrix& n) { n.first = expr(n.first), n.index = scalar(n.index); },
                 [&](Mma& n) {
                   for (Fragment* f : {&n.d, &n.a, &n.b, &n.c}) f->first = expr(f->first);
                 },
             },
             copy.v);
  return copy;
}

}  // namespace

std::string_view name_of(Space space) { return kSpaceNames[static_cast<size_t>(space)]; }

std::optional<Space> parse_space(std::string_view name) {
  const auto* found = std::find(std::begin(kSpaceNames), std::end(kSpaceNames), name);
  if (found == std::end(kSpaceNames)) return std::nullopt;
  return static_cast<Space>(found - std::begin(kSpaceNames));
}

symbolic::Interval range_below(Expr extent) {
  const int64_t hi = extent.range().hi;
  return {0, hi == symbolic::kPosInf ? hi : std::max<int64_t>(hi, 1) - 1};
}

Stmt make(decltype(StmtNode::v) s) {
  if (Block* block = std::get_if<Block>(&s)) {
    Block flat;
    flat.independent = block->independent;
    for (Stmt& each : block->statements) {
      STAX_ASSERT(each != nullptr, "a block of null statements");
      if (const Block* inner = each->as<Block>(); inner != nullptr && !inner->independent) {
        flat.statements.insert(flat.statements.end(), inner->statements.begin(), inner->statements.end());
      } else {
        flat.statements.push_back(std::move(each));
      }
    }
    if (flat.statements.size() == 1 && !flat.independent) return flat.statements.front();
    *block = std::move(flat);
  }
  return std::make_shared<const StmtNode>(StmtNode{std::move(s)});
}

int64_t static_shared_bytes(const Kernel& kernel) {
  int64_t bytes = 0;
  for (const Buffer& b : kernel.buffers) {
    if (b.space != Space::kShared || !b.count.is_constant()) continue;
    bytes = (bytes + 15) / 16 * 16 + b.count.constant() * static_cast<int64_t>(ir::byte_size(b.dtype));
  }
  return bytes;
}

Expr dynamic_shared_bytes(const Kernel& kernel) {
  Expr bytes = kernel.context->exprs.constant(0);
  for (const Buffer& b : kernel.buffers) {
    if (b.space != Space::kShared || b.count.is_constant()) continue;
    bytes = symbolic::ceildiv(bytes, 16) * 16 + b.count * static_cast<int64_t>(ir::byte_size(b.dtype));
  }
  return bytes;
}

std::vector<bool> register_slots(const Kernel& kernel) {
  std::vector<bool> is_register(kernel.buffers.size());
  for (size_t slot = 0; slot < kernel.buffers.size(); ++slot)
    is_register[slot] = kernel.buffers[slot].space == Space::kLocal;
  const auto needs_constant = [&](int slot, Expr index) {
    if (!index || !index.is_constant()) is_register[slot] = false;
  };
  visit(kernel.body, [&](const Stmt& s) {
    for_each_scalar(*s, [&](Scalar root) {
      ir::visit(root, [&](Scalar x) {
        if (x->kind == ir::ScalarKind::kLoad) needs_constant(x->slot, ir::as_expr(x->args[0]));
      });
    });
    std::visit(Overloaded{
                   [&](const Store& n) { needs_constant(n.slot, ir::as_expr(n.index)); },
                   [&](const LoadVector& n) { needs_constant(n.local, n.first); },
                   [&](const StoreVector& n) { needs_constant(n.local, n.first); },
                   [&](const Shuffle& n) { needs_constant(n.local, n.first); },
                   [&](const Vote& n) { needs_constant(n.local, n.first); },
                   [&](const LoadMatrix& n) { needs_constant(n.local, n.first); },
                   [&](const Mma& n) {
                     for (const Fragment& f : {n.d, n.a, n.b, n.c}) needs_constant(f.local, f.first);
                   },
                   [](const auto&) {},
               },
               s->v);
  });
  return is_register;
}

Stmt rewrite(const Stmt& root, const std::function<Stmt(const Stmt&)>& f) {
  const auto with_parts = [&]() -> Stmt {
    if (const For* s = root->as<For>()) {
      Stmt body = rewrite(s->body, f);
      if (body == s->body) return root;
      For copy = *s;
      copy.body = std::move(body);
      return make(std::move(copy));
    }
    if (const Block* s = root->as<Block>()) {
      Block copy;
      copy.independent = s->independent;
      bool changed = false;
      for (const Stmt& each : s->statements) {
        copy.statements.push_back(rewrite(each, f));
        changed |= copy.statements.back() != each;
      }
      return changed ? make(std::move(copy)) : root;
    }
    if (const If* s = root->as<If>()) {
      If copy = *s;
      copy.then_body = rewrite(s->then_body, f);
      if (s->else_body) copy.else_body = rewrite(s->else_body, f);
      if (copy.then_body == s->then_body && copy.else_body == s->else_body) return root;
      return make(std::move(copy));
    }
    return root;
  };
  return f(with_parts());
}

Stmt substitute(const Stmt& root, const symbolic::Substitution& map) {
  if (map.empty()) return root;
  return rewrite(root, [&](const Stmt& s) -> Stmt {
    StmtNode copy = map_parts(
        *s, [&](Scalar x) { return ir::substitute(x, map); }, [&](Expr e) { return symbolic::substitute(e, map); });
    if (For* loop = std::get_if<For>(&copy.v)) {
      if (const auto found = map.find(loop->var.node()); found != map.end()) {
        STAX_ASSERT(found->second.is_symbol(), "the variable of loop {} can only be renamed", loop->var.str());
        loop->var = found->second;
      }
    }
    return make(std::move(copy.v));
  });
}

void visit(const Stmt& root, const std::function<void(const Stmt&)>& f) {
  f(root);
  if (const For* s = root->as<For>()) visit(s->body, f);
  if (const Block* s = root->as<Block>())
    for (const Stmt& each : s->statements) visit(each, f);
  if (const If* s = root->as<If>()) {
    visit(s->then_body, f);
    if (s->else_body) visit(s->else_body, f);
  }
}

void for_each_scalar(const StmtNode& s, const std::function<void(Scalar)>& f) {
  map_parts(
      s,
      [&](Scalar x) {
        f(x);
        return x;
      },
      [](Expr e) { return e; });
}

void for_each_index(const StmtNode& s, const std::function<void(Expr)>& f) {
  const auto visit_expr = [&](Expr e) {
    f(e);
    return e;
  };
  map_parts(
      s,
      [&](Scalar root) {
        ir::visit(root, [&](Scalar x) {
          if (x->kind == ir::ScalarKind::kIndex) f(x->index);
        });
        return root;
      },
      visit_expr);
}

const Divisor* find_divisor(const Kernel& kernel, Expr division) {
  const symbolic::ExprKind kind = division.kind();
  if (kind != symbolic::ExprKind::kFloorDiv && kind != symbolic::ExprKind::kMod) return nullptr;
  if (division.args()[0].range().lo < 0) return nullptr;
  const auto found = std::find_if(kernel.divisors.begin(), kernel.divisors.end(),
                                  [&](const Divisor& d) { return d.value == division.args()[1]; });
  return found == kernel.divisors.end() ? nullptr : &*found;
}

}  // namespace stax::thread
