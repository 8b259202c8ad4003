// SPDX-License-Identifier: Apache-2.0
#include "loop/access.h"
#include "loop/passes.h"

namespace stax::loop {

// A parallel loop stays outermost, and a condition that loads is evaluated only where the loop runs.
Kernel hoist_loop_invariants(const Kernel& kernel) {
  Kernel result = kernel;
  result.body = rewrite(kernel.body, [](const Stmt& s) -> Stmt {
    const For* f = s->as<For>();
    const If* i = f != nullptr ? f->body->as<If>() : nullptr;
    if (i == nullptr || f->kind == LoopKind::kParallel) return s;
    if (depends_on(i->condition, f->var) || ir::has_load(i->condition)) return s;
    const auto around = [&](const Stmt& body) -> Stmt {
      if (!body) return body;
      For copy = *f;
      copy.body = body;
      return make(std::move(copy));
    };
    return make(If{i->condition, around(i->then_body), around(i->else_body)});
  });
  return result;
}

}  // namespace stax::loop
