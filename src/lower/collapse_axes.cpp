// SPDX-License-Identifier: Apache-2.0
// Merging of adjacent axes.
//
// [batch, length, 768] + [768] has three axes, but both operands walk batch and length alike, so [batch * length, 768] says the same with
// longer loops. Two adjacent axes a, b (b the inner one, of extent m) merge into f = a * m + b where
//   - every load has either both, as neighbouring bare indices [.., a, b, ..] with the operand's extent at b equal to m or as one index
//     [.., a * m + b, ..], or neither;
//   - neither variable appears anywhere else in the body.
// As the result is row-major and contiguous it always allows the merge. The same rule merges neighbouring reduction axes. Computes that are
// one kernel (a row group) share their variables: they merge a pair together or not at all, so that a value is seen alike by all of them.
#include <algorithm>

#include "lower/lower.h"
#include "support/error.h"

namespace stax::lower {
namespace {

using ir::Scalar;
using ir::ScalarKind;
using symbolic::Expr;
using tensor::Axis;
using tensor::Compute;

bool is_one(const Axis& a) { return a.extent.is_constant(1); }

// Position of the bare variable `var` among a load's indices, -1 if absent, -2 if it appears in any other way.
int bare_position(Scalar load, Expr var) {
  int position = -1;
  for (size_t k = 0; k < load->args.size(); ++k) {
    Expr e = ir::as_expr(load->args[k]);
    if (e && e == var) {
      if (position != -1) return -2;
      position = static_cast<int>(k);
    } else {
      bool inside = false;
      ir::visit(load->args[k], [&](Scalar s) {
        if (s->kind == ScalarKind::kIndex && symbolic::depends_on(s->index, var)) inside = true;
      });
      if (inside) return -2;
    }
  }
  return position;
}

class Collapser {
 public:
  // `extents` of each value that is loaded; compute k makes value made[k], or -1 if it is none of those.
  Collapser(tensor::Graph& graph, std::vector<Compute>& computes, std::vector<std::vector<Expr>>& extents,
            std::vector<int> made)
      : graph_(graph), computes_(computes), extents_(extents), made_(std::move(made)) {}

  void run() {
    drop_ones();
    drop_unit_extents();
    while (merge_any()) {
    }
  }

 private:
  std::vector<Scalar> nodes() const {
    std::vector<Scalar> nodes;
    auto add = [&](Scalar s) { nodes.push_back(s); };
    for (const Compute& c : computes_) {
      if (c.body) ir::visit(c.body, add);
      if (c.epilogue) ir::visit(c.epilogue, add);
    }
    return nodes;
  }

  void rewrite(const symbolic::Substitution& map, const std::function<Scalar(Scalar)>& f) {
    for (Compute& c : computes_) {
      for (Scalar* root : {&c.body, &c.epilogue}) {
        if (*root) *root = ir::rewrite(*root, map, f);
      }
    }
  }

  // An axis of extent 1 is no axis.
  void drop_ones() {
    symbolic::Substitution ones;
    for (Compute& c : computes_) {
      auto drop = [&](std::vector<Axis>& axes) {
        std::erase_if(axes, [&](const Axis& a) {
          if (is_one(a)) ones[a.var.node()] = graph_.exprs().constant(0);
          return is_one(a);
        });
      };
      drop(c.axes);
      if (!tensor::is_arg(c.combiner)) drop(c.reductions);
    }
    if (!ones.empty()) rewrite(ones, [](Scalar x) { return x; });
  }

  // A value's extent of 1, always read at 0, is no axis of it either: [1, n] and [n] are one view. Of a value that is made here these are the
  // axes that have just gone.
  void drop_unit_extents() {
    std::vector<std::vector<bool>> removable(extents_.size());
    for (size_t k = 0; k < removable.size(); ++k)
      for (Expr e : extents_[k]) removable[k].push_back(e.is_constant(1));
    const std::vector<Scalar> all = nodes();
    for (Scalar node : all) {
      if (node->kind != ScalarKind::kLoad) continue;
      for (size_t k = 0; k < node->args.size(); ++k) {
        Expr e = ir::as_expr(node->args[k]);
        if (e && e.is_constant(0)) continue;
        STAX_ASSERT(!removable[node->slot][k] || !is_made(node->slot), "an axis of one element is read at {}",
                    node->args[k].str());
        removable[node->slot][k] = false;
      }
    }
    rewrite({}, [&](Scalar node) -> Scalar {
      if (node->kind != ScalarKind::kLoad) return node;
      std::vector<Scalar> kept;
      for (size_t k = 0; k < node->args.size(); ++k)
        if (!removable[node->slot][k]) kept.push_back(node->args[k]);
      if (kept.size() == node->args.size()) return node;
      return node->table->load(node->slot, node->dtype, std::move(kept));
    });
    for (size_t k = 0; k < removable.size(); ++k) {
      std::vector<Expr> kept;
      for (size_t d = 0; d < removable[k].size(); ++d)
        if (!removable[k][d]) kept.push_back(extents_[k][d]);
      extents_[k] = kept;
    }
  }

  bool is_made(int value) const { return std::find(made_.begin(), made_.end(), value) != made_.end(); }

  bool merge_any() {
    for (const Compute& c : computes_) {
      for (const std::vector<Axis>* axes : {&c.axes, &c.reductions}) {
        if (axes == &c.reductions && tensor::is_arg(c.combiner)) continue;
        for (size_t at = 0; at + 1 < axes->size(); ++at) {
          const Axis a = (*axes)[at], b = (*axes)[at + 1];
          std::vector<int> positions;
          if (!have_pair(a, b) || !may_merge(a, b, positions)) continue;
          merge(a, b, positions, axes == &c.reductions);
          return true;
        }
      }
    }
    return false;
  }

  // Every compute has both as neighbours, or neither.
  bool have_pair(const Axis& a, const Axis& b) const {
    return std::all_of(computes_.begin(), computes_.end(), [&](const Compute& c) {
      return has_pair(c.axes, a, b) && has_pair(c.reductions, a, b) &&
             !(tensor::is_arg(c.combiner) && has(c.reductions, a));
    });
  }
  static bool has(const std::vector<Axis>& axes, const Axis& a) {
    return std::find(axes.begin(), axes.end(), a) != axes.end();
  }
  static bool has_pair(const std::vector<Axis>& axes, const Axis& a, const Axis& b) {
    const auto first = std::find(axes.begin(), axes.end(), a);
    if (first == axes.end()) return !has(axes, b);
    return first + 1 != axes.end() && *(first + 1) == b;
  }

  // Whether axes a, b may merge; fills, for each value, the position of `a` in its loads (or -1).
  bool may_merge(const Axis& a, const Axis& b, std::vector<int>& positions) const {
    positions.assign(extents_.size(), -3);
    // A value that is made here has its axes where its op has them.
    for (size_t k = 0; k < computes_.size(); ++k) {
      if (made_[k] < 0) continue;
      const auto first = std::find(computes_[k].axes.begin(), computes_[k].axes.end(), a);
      positions[made_[k]] = first == computes_[k].axes.end() ? -1 : static_cast<int>(first - computes_[k].axes.begin());
    }
    const std::vector<Scalar> all = nodes();
    for (Scalar node : all) {
      if (node->kind == ScalarKind::kLoad) {
        int pa = bare_position(node, a.var), pb = bare_position(node, b.var);
        if (is_merged_already(node, a, b)) pa = pb = -1;
        if (pa == -2 || pb == -2) return false;
        if ((pa < 0) != (pb < 0)) return false;
        if (pa >= 0 && (pb != pa + 1 || extents_[node->slot][pb] != b.extent || extents_[node->slot][pa] != a.extent))
          return false;
        int& known = positions[node->slot];
        if (known == -3)
          known = pa;
        else if (known != pa)
          return false;  // one value walked in two ways keeps its view
      }
    }
    // Any use outside of a load's bare index forbids the merge; indices inside loads were seen above.
    for (Scalar node : all) {
      if (node->kind != ScalarKind::kIndex) continue;
      if (node->index == a.var || node->index == b.var || node->index == merged_index(a, b)) continue;  // judged below
      if (symbolic::depends_on(node->index, a.var) || symbolic::depends_on(node->index, b.var)) return false;
    }
    const auto is_variable = [&](Scalar s) {
      return s && s->kind == ScalarKind::kIndex &&
             (s->index == a.var || s->index == b.var || s->index == merged_index(a, b));
    };
    for (Scalar node : all) {
      if (node->kind != ScalarKind::kLoad && std::any_of(node->args.begin(), node->args.end(), is_variable))
        return false;
    }
    return std::none_of(computes_.begin(), computes_.end(),
                        [&](const Compute& c) { return is_variable(c.body) || is_variable(c.epilogue); });
  }

  static Expr merged_index(const Axis& a, const Axis& b) { return a.var * b.extent + b.var; }
  // One index is a * m + b, and no other has to do with a or b.
  static bool is_merged_already(Scalar load, const Axis& a, const Axis& b) {
    bool found = false;
    for (Scalar arg : load->args) {
      const Expr e = ir::as_expr(arg);
      if (e && e == merged_index(a, b)) {
        found = true;
        continue;
      }
      bool inside = false;
      ir::visit(arg, [&](Scalar s) {
        inside |= s->kind == ScalarKind::kIndex &&
                  (symbolic::depends_on(s->index, a.var) || symbolic::depends_on(s->index, b.var));
      });
      if (inside) return false;
    }
    return found;
  }

  void merge(const Axis& a, const Axis& b, const std::vector<int>& positions, bool reduction) {
    const Expr extent = a.extent * b.extent;
    // Positions from 64 on never clash with those of plain axes.
    const Axis merged{graph_.axis_var(64 + merged_++, extent, reduction), extent};
    rewrite({}, [&](Scalar node) -> Scalar {
      if (node->kind != ScalarKind::kLoad) return node;
      std::vector<Scalar> indices = node->args;
      if (positions[node->slot] < 0) {
        for (Scalar& index : indices)
          if (ir::as_expr(index) == merged_index(a, b)) index = node->table->index(merged.var);
        return node->table->load(node->slot, node->dtype, std::move(indices));
      }
      const int at = positions[node->slot];
      indices[at] = node->table->index(merged.var);
      indices.erase(indices.begin() + at + 1);
      return node->table->load(node->slot, node->dtype, std::move(indices));
    });
    for (size_t value = 0; value < positions.size(); ++value) {
      if (positions[value] < 0) continue;
      auto& extents = extents_[value];
      extents[positions[value]] = extent;
      extents.erase(extents.begin() + positions[value] + 1);
    }
    for (Compute& c : computes_) {
      for (std::vector<Axis>* axes : {&c.axes, &c.reductions}) {
        const auto first = std::find(axes->begin(), axes->end(), a);
        if (first == axes->end()) continue;
        *first = merged;
        axes->erase(first + 1);
      }
    }
  }

  tensor::Graph& graph_;
  std::vector<Compute>& computes_;
  std::vector<std::vector<Expr>>& extents_;
  std::vector<int> made_;
  int merged_ = 0;
};

}  // namespace

CollapsedCompute collapse_axes(const tensor::Op& op, Axes axes) {
  std::vector<Compute> computes{*op.as<Compute>()};
  std::vector<std::vector<Expr>> extents;
  for (tensor::Value* v : op.operands) extents.push_back(v->type.extents);
  if (axes == Axes::kMerged) Collapser(*op.block->graph, computes, extents, {-1}).run();
  return {std::move(computes[0]), std::move(extents)};
}

CollapsedRows collapse_axes_of_rows(const tensor::Op& op, Axes axes) {
  const auto& group = *op.as<tensor::RowGroup>();
  CollapsedRows r;
  std::unordered_map<const tensor::Value*, int> numbers;
  const auto add = [&](const tensor::Value* v) {
    numbers[v] = static_cast<int>(r.extents.size());
    r.extents.push_back(v->type.extents);
    r.dtypes.push_back(v->type.dtype);
  };
  for (const auto& input : group.body->inputs) add(input.get());
  std::vector<int> made;
  for (const auto& member : group.body->ops) {
    Compute c = *member->as<Compute>();
    for (Scalar* root : {&c.body, &c.epilogue}) {
      if (!*root) continue;
      *root = ir::rewrite(*root, {}, [&](Scalar x) {
        if (x->kind != ScalarKind::kLoad) return x;
        return x->table->load(numbers.at(member->operands[x->slot]), x->dtype, x->args);
      });
    }
    made.push_back(static_cast<int>(r.extents.size()));
    add(member->result());
    // Its own axes say what its extents are.
    for (size_t k = 0; k < c.axes.size(); ++k) r.extents.back()[k] = c.axes[k].extent;
    r.computes.push_back(std::move(c));
  }
  for (const tensor::Value* v : group.body->outputs) r.outputs.push_back(numbers.at(v));
  if (axes == Axes::kMerged) Collapser(*op.block->graph, r.computes, r.extents, std::move(made)).run();
  // The rows that are left are among the axes of every op.
  for (const Axis& a : r.computes[0].axes) {
    const bool everywhere = std::all_of(r.computes.begin(), r.computes.end(), [&](const Compute& c) {
      return std::find(c.axes.begin(), c.axes.end(), a) != c.axes.end();
    });
    if (everywhere) r.rows.push_back(a);
  }
  return r;
}

}  // namespace stax::lower
