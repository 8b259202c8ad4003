// SPDX-License-Identifier: Apache-2.0
#include "loop/transform_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace stax::loop {

void Edit::fail(const std::string& subject, const std::string& reason) const {
  throw IllegalTransform(
      fmt::format("kernel {}: schedule step '{}': {}: {}", kernel.name, step.str(), subject, reason));
}

int64_t Edit::number(size_t i, int64_t least, int64_t most) const {
  const std::string& text = word(i);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most) {
    fail(text, fmt::format("expected a number from {} to {}", least, most));
  }
  return value;
}

int Edit::slot(size_t i) const {
  return static_cast<int>(number(i, 0, static_cast<int64_t>(kernel.buffers.size()) - 1));
}

Expr Edit::parameter(size_t i) const {
  for (Expr p : kernel.params) {
    if (p.symbol().name != word(i)) continue;
    if (p.range().lo < 1) fail("parameter " + word(i), "it may be less than 1");
    return p;
  }
  fail("parameter " + word(i), "the kernel has no such parameter");
}

std::string loop_name(Expr var) {
  const std::string& name = var.symbol().name;
  const size_t dot = name.find_last_not_of("0123456789");
  if (dot == std::string::npos || dot == 0 || dot + 1 == name.size() || name[dot] != '.') return name;
  return name.substr(0, dot);
}

namespace {

std::vector<Expr> loop_variables(const Stmt& root) {
  std::vector<Expr> result;
  visit(root, [&](const Stmt& s) {
    const For* f = s->as<For>();
    if (f != nullptr && std::find(result.begin(), result.end(), f->var) == result.end()) result.push_back(f->var);
  });
  return result;
}

}  // namespace

std::set<std::string> loop_names(const Stmt& root) {
  std::set<std::string> names;
  for (Expr var : loop_variables(root)) names.insert(loop_name(var));
  return names;
}

Expr Edit::loop(const std::string& name) const {
  Expr result;
  for (Expr var : loop_variables(kernel.body)) {
    if (var.symbol().name == name) return var;
    if (loop_name(var) != name) continue;
    if (result) fail("loop " + name, "more than one loop is called so; give the whole name, such as " + var.str());
    result = var;
  }
  if (!result) {
    std::string names;
    for (const std::string& each : loop_names(kernel.body)) names += (names.empty() ? "" : ", ") + each;
    fail("loop " + name, "there is no such loop; there are " + (names.empty() ? "none" : names));
  }
  return result;
}

Expr Edit::new_loop(const std::string& name, Expr extent) const {
  bool taken = claimed.contains(name);
  for (Expr var : loop_variables(kernel.body)) taken |= loop_name(var) == name || var.symbol().name == name;
  if (taken) fail("loop " + name, "the name is taken");
  claimed.insert(name);
  return loop_var(context(), name, extent);
}

std::string Edit::fresh_name(std::string name, const std::string& suffix) const {
  const std::set<std::string> taken = loop_names(kernel.body);
  while (taken.contains(name) || claimed.contains(name)) name += suffix;
  claimed.insert(name);
  return name;
}

Expr Edit::fresh_loop(const std::string& name, Expr extent) const {
  return loop_var(context(), fresh_name(name, "_"), extent);
}

int Edit::new_local(std::string name, DType dtype, std::vector<Expr> extents) {
  kernel.buffers.push_back({std::move(name), dtype, std::move(extents), {}, Scope::kLocal, false});
  return static_cast<int>(kernel.buffers.size()) - 1;
}

namespace {

Stmt replace_in(const Stmt& s, Expr var, LoopScope& scope, const std::function<Stmt(const For&, const LoopScope&)>& f) {
  return std::visit(Overloaded{
                        [&](const For& loop) -> Stmt {
                          if (loop.var == var) return f(loop, scope);
                          scope.push(loop.var, loop.extent);
                          Stmt body = replace_in(loop.body, var, scope, f);
                          scope.pop();
                          if (body == loop.body) return s;
                          For copy = loop;
                          copy.body = std::move(body);
                          return make(std::move(copy));
                        },
                        [&](const Block& b) -> Stmt {
                          Block copy;
                          for (const Stmt& each : b.statements)
                            copy.statements.push_back(replace_in(each, var, scope, f));
                          return copy.statements == b.statements ? s : make(std::move(copy));
                        },
                        [&](const If& i) -> Stmt {
                          Stmt then_body = replace_in(i.then_body, var, scope, f);
                          Stmt else_body = i.else_body ? replace_in(i.else_body, var, scope, f) : Stmt();
                          if (then_body == i.then_body && else_body == i.else_body) return s;
                          return make(If{i.condition, std::move(then_body), std::move(else_body)});
                        },
                        [&](const Allocate& a) -> Stmt {
                          Stmt body = replace_in(a.body, var, scope, f);
                          return body == a.body ? s : make(Allocate{a.slot, std::move(body)});
                        },
                        [&](const Store&) -> Stmt { return s; },
                        [&](const Update&) -> Stmt { return s; },
                        [&](const Prefetch&) -> Stmt { return s; },
                        [&](const Fence&) -> Stmt { return s; },
                    },
                    s->v);
}

}  // namespace

void Edit::replace_loops(Expr var, const std::function<Stmt(const For&, const LoopScope&)>& f) {
  LoopScope scope;
  kernel.body = replace_in(kernel.body, var, scope, f);
}

Expr Edit::common_extent(Expr var) const {
  Expr extent;
  visit(kernel.body, [&](const Stmt& s) {
    const For* f = s->as<For>();
    if (f == nullptr || f->var != var) return;
    if (extent && extent != f->extent) {
      fail("loop " + loop_name(var),
           fmt::format("its copies have different extents: {} and {}", extent.str(), f->extent.str()));
    }
    extent = f->extent;
  });
  return extent;
}

void Edit::require_kind(const For& f, LoopKind kind) const {
  if (f.kind == kind) return;
  fail("loop " + loop_name(f.var),
       fmt::format("it is {}, and only {} loops can be changed", name_of(f.kind), name_of(kind)));
}

Stmt map_accesses(const Stmt& root, int slot, int new_slot,
                  const std::function<std::vector<Scalar>(const std::vector<Scalar>&)>& index) {
  const auto map_loads = [&](Scalar x) {
    return ir::rewrite(x, {}, [&](Scalar node) {
      if (node->kind != ir::ScalarKind::kLoad || node->slot != slot) return node;
      return node->table->load(new_slot, node->dtype, index(node->args));
    });
  };
  return rewrite(root, [&](const Stmt& s) -> Stmt {
    const Stmt mapped = map_scalars(s, map_loads);
    const auto retarget = [&](auto copy) -> Stmt {
      if (copy.slot != slot) return mapped;
      copy.slot = new_slot;
      copy.index = index(copy.index);
      return make(std::move(copy));
    };
    if (const Store* w = mapped->as<Store>()) return retarget(*w);
    if (const Update* w = mapped->as<Update>()) return retarget(*w);
    if (const Prefetch* p = mapped->as<Prefetch>(); p != nullptr && p->slot == slot) return make(Block{});
    if (const Allocate* a = mapped->as<Allocate>(); a != nullptr && a->slot == slot) {
      return make(Allocate{new_slot, a->body});
    }
    return mapped;
  });
}

Stmt NestCopier::copy(const Stmt& nest) {
  symbolic::Substitution renaming;
  for (Expr var : loop_variables(nest)) {
    Expr& renamed = variables_[var.node()];
    if (!renamed) {
      const std::string name = edit_.fresh_name(loop_name(var) + "_t", "_t");
      symbolic::SymbolInfo info = var.symbol();
      info.name = name;
      renamed = edit_.context().exprs.new_symbol(std::move(info));
    }
    renaming[var.node()] = renamed;
  }
  Stmt result = substitute(nest, renaming);
  for (int slot : slots_allocated_in(nest)) {
    const auto [found, is_new] = slots_.try_emplace(slot, static_cast<int>(edit_.kernel.buffers.size()));
    if (is_new) {
      Buffer buffer = edit_.kernel.buffers[slot];
      buffer.name += "_t";
      edit_.kernel.buffers.push_back(std::move(buffer));
    }
    result = map_accesses(result, slot, found->second, [](const std::vector<Scalar>& index) { return index; });
  }
  return result;
}

std::optional<Footprint> footprint_of(const Stmt& root, int slot, const LoopScope& outer) {
  Footprint result;
  bool is_first = true;
  for (const Access& a : accesses_in(root)) {
    if (a.slot != slot) continue;
    LoopScope scope = outer;
    scope.push(a.loops);
    result.low.resize(a.index.size());
    result.high.resize(a.index.size());
    for (size_t d = 0; d < a.index.size(); ++d) {
      const Expr e = ir::as_expr(a.index[d]);
      const Expr low = e ? scope.lower(e, outer.loops().size()) : Expr();
      const Expr high = e ? scope.upper(e, outer.loops().size()) : Expr();
      if (!low || !high) return std::nullopt;
      result.low[d] = is_first ? low : symbolic::min(result.low[d], low);
      result.high[d] = is_first ? high : symbolic::max(result.high[d], high);
    }
    is_first = false;
  }
  return result;
}

Expr trip_count(Expr extent) { return extent.range().lo < 0 ? symbolic::max(extent, 0) : extent; }

Expr local_extent(Expr extent, const LoopScope& outer) {
  constexpr int64_t kSmall = 256;
  symbolic::ExprTable& table = extent.table();
  const int64_t hi = extent.range().hi;
  if (hi <= kSmall) return table.constant(std::max<int64_t>(hi, 0));
  const Expr bound = outer.upper(extent);
  if (!bound) return {};
  for (const LoopRange& l : outer.loops()) {
    if (symbolic::depends_on(bound, l.var)) return {};
  }
  return trip_count(bound);
}

}  // namespace stax::loop
