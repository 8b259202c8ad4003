// SPDX-License-Identifier: Apache-2.0
// Attention: rows whose elements are made by one product and consumed by another.
//
// A block of queries is in lanes all the way: scores lie as [key, query] in a buffer of the block, a softmax is the same lane arithmetic for
// every key with nothing to combine across lanes, and both products are register tiles of kTile keys (or result columns) x the block, whose other
// factor is one number a step, read where it is. No operand is laid out anew but the block's own queries. The keys pass through once a block.
//
// A query or two, as in a decoder's step, would leave most lanes idle. Those are done one by one: scores are sums in lanes along a key, the softmax
// is in lanes along the row, and the last product keeps a row of results in registers.
#include <algorithm>

#include "loop/access.h"
#include "loop/transform.h"
#include "schedule/attention.h"
#include "schedule/schedule.h"
#include "schedule/step_list.h"

namespace stax::schedule {

using loop::Stmt;
using symbolic::Expr;

namespace {

constexpr int64_t kTile = 8;
// Queries of a block, smallest first: a few do not pay for the wide one's idle lanes.
constexpr int64_t kBlocks[] = {16, 32};

// Up to as many queries are better done one by one.
constexpr int64_t kFewQueries = 2;
// Results of one query that fit registers.
constexpr int64_t kMostResults = 256;

}  // namespace

std::vector<Product> products_of(const loop::Kernel& kernel) {
  std::vector<Product> found;
  loop::visit(kernel.body, [&](const Stmt& s) {
    const auto* f = s->as<loop::For>();
    if (f == nullptr || f->body->as<loop::Allocate>() == nullptr || loop::loop_name(f->var)[0] != 'c') return;
    Product p;
    p.points = *f;
    loop::visit(f->body, [&](const Stmt& inner) {
      if (const auto* loop = inner->as<loop::For>()) p.terms = *loop;
      if (const auto* store = inner->as<loop::Store>()) p.is_last = p.is_last || store->slot < kernel.arguments;
      const auto* update = inner->as<loop::Update>();
      if (update == nullptr) return;
      int rows = 0;
      ir::visit(update->value, [&](ir::Scalar x) {
        if (x->kind != ir::ScalarKind::kLoad) return;
        if (x->slot >= kernel.arguments) {
          p.row = ++rows == 1 ? x : ir::Scalar();
        } else if (!kernel.buffers[x->slot].written) {
          p.factor = x;
        }
      });
    });
    found.push_back(std::move(p));
  });
  return found;
}

bool moves_factor(const std::vector<Product>& products, Expr var) {
  return std::any_of(products.begin(), products.end(),
                     [&](const Product& p) { return p.factor && loop::depends_on(p.factor, var); });
}

namespace {

bool is_contiguous(const loop::Kernel& kernel, ir::Scalar load, Expr var) {
  const auto stride = load ? stride_of(kernel, load, var) : std::nullopt;
  return stride && stride->is_constant(1);
}

/// Empty where a product is not contiguous in the way it takes.
std::string schedule_one_by_one(const loop::Kernel& kernel, const NestForm& form,
                                const std::vector<Product>& products) {
  StepList steps(names_of(form.outer));
  const std::string lanes = std::to_string(lanes_of(kernel));
  std::vector<std::string> done;
  for (const Product& p : products) {
    const std::string points = loop::loop_name(p.points.var), terms = loop::loop_name(p.terms.var);
    if (!p.is_last && is_contiguous(kernel, p.factor, p.terms.var)) {
      steps.step("vectorize " + terms + " " + lanes);
    } else if (p.points.extent.is_constant() && p.points.extent.constant() <= kMostResults &&
               is_contiguous(kernel, p.factor, p.points.var)) {
      steps.step("sink " + points);
      steps.step("vectorize " + points + " " + lanes);
    } else {
      return {};
    }
    done.push_back(points);
    done.push_back(terms);
  }
  // The passes over the row, and the query itself.
  std::vector<std::string> passes;
  loop::visit(kernel.body, [&](const Stmt& s) {
    const auto* f = s->as<loop::For>();
    if (f == nullptr) return;
    const std::string name = loop::loop_name(f->var);
    const auto is_in = [&](const std::vector<std::string>& list) {
      return std::find(list.begin(), list.end(), name) != list.end();
    };
    if (name[0] == 'r' && !is_in(done) && !is_in(passes)) passes.push_back(name);
  });
  for (const std::string& name : passes) steps.step("vectorize " + name + " " + lanes);
  steps.parallelize_first(form.outer.size());
  return steps.str();
}

std::string schedule_block(const loop::Kernel& kernel, const NestForm& form, const std::vector<Product>& products,
                           const std::string& row, int64_t block) {
  StepList steps(names_of(form.outer));
  std::vector<std::string> tiles;
  for (const Product& p : products) {
    const std::string name = loop::loop_name(p.points.var);
    const Expr extent = p.points.extent;
    if (extent.is_constant() && extent.constant() <= kTile) {
      steps.step("sink " + name);
      tiles.push_back(name);
      continue;
    }
    const bool whole = extent.is_constant() && extent.constant() % kTile == 0;
    steps.step("split " + name + " " + std::to_string(kTile) + " -> " + name + "o " + name + "i " +
               (whole ? "exact" : "clamped"));
    steps.step("sink " + name + "i");
    tiles.push_back(name + "i");
  }
  steps.move(row, form.outer.size() - 1);
  steps.split(row, block, "clamped");
  steps.step("sink " + row + "i");
  for (const std::string& tile : tiles) steps.step("unroll " + tile);
  steps.step("vectorize " + row + "i " + std::to_string(lanes_of(kernel)));
  steps.parallelize_first(form.outer.size());
  return steps.str();
}

}  // namespace

Versions schedule_attention(const loop::Kernel& kernel, const NestForm& form) {
  const std::vector<Product> products = products_of(kernel);
  for (auto row = form.outer.rbegin(); row != form.outer.rend(); ++row) {
    if (moves_factor(products, row->var)) continue;
    Versions versions;
    const std::string name = loop::loop_name(row->var);
    const Expr few = symbolic::less_equal(row->extent, row->extent.table().constant(kFewQueries));
    if (!few.is_constant(0)) {
      const std::string steps = schedule_one_by_one(kernel, form, products);
      if (!steps.empty()) versions.push_back({steps, few.is_constant(1) ? Expr() : few});
      if (!steps.empty() && few.is_constant(1)) return versions;
    }
    for (int64_t block : kBlocks) {
      const bool last = block == kBlocks[std::size(kBlocks) - 1];
      const Expr guard = last ? Expr() : symbolic::less_equal(row->extent, row->extent.table().constant(block));
      if (guard && guard.is_constant(0)) continue;
      const bool always = !guard || guard.is_constant(1);
      versions.push_back({schedule_block(kernel, form, products, name, block), always ? Expr() : guard});
      if (always) break;
    }
    return versions;
  }
  return schedule_fallback(form);
}

}  // namespace stax::schedule
