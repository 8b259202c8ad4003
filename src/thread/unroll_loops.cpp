// SPDX-License-Identifier: Apache-2.0
#include "support/error.h"
#include "thread/passes.h"

namespace stax::thread {

namespace {

// A condition that an unrolled variable has made constant decides here.
Stmt resolve(const Stmt& s) {
  const If* branch = s->as<If>();
  if (branch == nullptr || branch->condition->kind != ir::ScalarKind::kConstant) return s;
  if (branch->condition->as_int() != 0) return branch->then_body;
  return branch->else_body ? branch->else_body : make(Block{});
}

}  // namespace

Kernel unroll_loops(const Kernel& kernel) {
  Kernel result = kernel;
  result.body = rewrite(kernel.body, [&](const Stmt& s) -> Stmt {
    const For* loop = s->as<For>();
    if (loop == nullptr || !loop->unrolled) return s;
    STAX_ASSERT(loop->extent.is_constant(), "kernel {}: unrolled loop {} has the extent {}", kernel.name,
                loop->var.str(), loop->extent.str());
    Block copies;
    for (int64_t i = 0; i < loop->extent.constant(); ++i) {
      const Stmt copy = substitute(loop->body, {{loop->var.node(), kernel.context->exprs.constant(i)}});
      copies.statements.push_back(rewrite(copy, resolve));
    }
    return make(std::move(copies));
  });
  return result;
}

}  // namespace stax::thread
