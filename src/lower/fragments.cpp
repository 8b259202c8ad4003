// SPDX-License-Identifier: Apache-2.0
#include "lower/fragments.h"

#include <algorithm>

#include "loop/access.h"
#include "support/error.h"

namespace stax::lower {

using loop::LoopKind;
using symbolic::Expr;

MatrixNest matrix_nest(const loop::For& outermost) {
  MatrixNest nest;
  nest.loops.push_back(&outermost);
  bool seen[3] = {};
  const auto see = [&](const loop::For& f) {
    seen[static_cast<int>(f.kind) - static_cast<int>(LoopKind::kRows)] = true;
  };
  see(outermost);
  for (const loop::StmtNode* s = outermost.body.get(); nest.leaf == nullptr;) {
    if (const auto* f = s->as<loop::For>()) {
      STAX_ASSERT(loop::is_matrix(f->kind), "loop {} is inside of matrix loops", f->var.str());
      nest.loops.push_back(f);
      see(*f);
      s = f->body.get();
    } else if (const auto* i = s->as<loop::If>()) {
      nest.has_condition = true;
      s = i->then_body.get();
    } else {
      nest.leaf = s;
    }
  }
  STAX_ASSERT(nest.loops.size() >= 2, "matrix loop {} is alone", outermost.var.str());
  nest.part = nest.loops.size() == 3 ? MatrixPart::kProduct
              : !seen[2]             ? MatrixPart::kSum
              : !seen[1]             ? MatrixPart::kLeft
                                     : MatrixPart::kRight;
  return nest;
}

int matrix_instruction(const loop::Kernel& kernel, const ir::Target& target) {
  int found = -1;
  loop::visit(kernel.body, [&](const loop::Stmt& s) {
    const auto* f = s->as<loop::For>();
    if (found >= 0 || f == nullptr || !loop::is_matrix(f->kind)) return;
    const auto* inner = f->body->as<loop::For>();
    if (inner == nullptr || !loop::is_matrix(inner->kind)) return;
    const MatrixNest nest = matrix_nest(*f);
    if (nest.part != MatrixPart::kProduct) return;
    const auto* sum = nest.leaf->as<loop::Update>();
    ir::Scalar factor = sum->value->args[0];
    while (factor->kind == ir::ScalarKind::kCast) factor = factor->args[0];
    found = thread::best_mma(target, kernel.buffers[factor->slot].dtype, kernel.buffers[sum->slot].dtype);
    STAX_ASSERT(found >= 0, "kernel {}: {} has no matrix instruction for {}", kernel.name, target.name,
                ir::name_of(kernel.buffers[factor->slot].dtype));
  });
  return found;
}

FragmentShape fragment_shape(const thread::MmaInstruction& i, MatrixPart part) {
  switch (part) {
    case MatrixPart::kSum: return {i.m, i.n, LoopKind::kRows, LoopKind::kColumns, &i.c};
    case MatrixPart::kLeft: return {i.m, i.k, LoopKind::kRows, LoopKind::kDepth, &i.a};
    case MatrixPart::kRight: return {i.k, i.n, LoopKind::kDepth, LoopKind::kColumns, &i.b};
    case MatrixPart::kProduct: break;
  }
  internal_error("a product has no fragment of its own");
}

Expr lane_offset(Expr thread, const std::vector<int>& by_bit) {
  Expr sum = thread.table().constant(0);
  for (size_t b = 0; b < by_bit.size();) {
    size_t end = b + 1;
    if (by_bit[b] == 0) {
      b = end;
      continue;
    }
    // Neighbouring bits whose values double are digits of one number.
    while (end < by_bit.size() && by_bit[end] == by_bit[end - 1] * 2) ++end;
    sum = sum + symbolic::mod(symbolic::floordiv(thread, int64_t{1} << b), int64_t{1} << (end - b)) * by_bit[b];
    b = end;
  }
  return sum;
}

}  // namespace stax::lower
