// SPDX-License-Identifier: Apache-2.0
// RowGroup -> one nest:
//
//   for each row                           one loop for each row axis
//     allocate what lives within a row     a number for each accumulator and row scalar, a buffer for each value of the row
//       for the inner domain { .. }        the passes, one after the other, with what is to be done between them
//       ..
//
// Which op goes into which pass. A reduction's result is there when its pass is over, so whatever reads it at the points of a row belongs to
// a later one; a value of the row that is read at the point at hand is made in the same iteration. Each op goes into the first pass that its
// operands allow, and the ops of one pass over one domain share its loops. A sum over one axis for each point of another (the products of
// attention) has loops of its own, whose variables no other op has.
//
// A value of the row takes the buffer of one that is read for the last time where it is made, point by point.
#include <algorithm>

#include "lower/kernel_scope.h"
#include "lower/lower.h"
#include "lower/nest.h"
#include "support/error.h"

namespace stax::lower {
namespace {

using ir::DType;
using ir::Scalar;
using ir::ScalarKind;
using loop::Stmt;
using symbolic::Expr;
using tensor::Axis;
using tensor::Combiner;

// Axis positions of what one op alone has: past those of merged axes.
constexpr int kOwnPositions = 128;

class RowLowering {
 public:
  RowLowering(const tensor::Op& op, Axes axes)
      : op_(op), group_(collapse_axes_of_rows(op, axes)), scope_(out_.kernel) {}

  LoweredKernel run() {
    loop::Kernel& kernel = out_.kernel;
    place_values();
    const bool has_products =
        std::any_of(members_.begin(), members_.end(), [](const Member& m) { return m.is_product(); });
    kernel.kernel_class = has_products ? "attention" : "rows";
    scope_.leaf = [this](Scalar original, std::vector<Scalar> args) { return load_of(original, std::move(args)); };
    const Loops rows = make_loops(scope_, kernel, group_.rows, "i");
    assign_passes();
    allocate_row_values();
    Stmt body = emit_passes();
    for (auto slot = locals_.rbegin(); slot != locals_.rend(); ++slot) body = loop::make(loop::Allocate{*slot, body});
    kernel.body = rows.around(std::move(body));
    out_.param_values = scope_.param_values();
    count_work();
    return std::move(out_);
  }

 private:
  // What becomes of a value of the group: an operand, a result, or a local buffer without the row axes.
  struct Place {
    int slot = -1;
    std::vector<bool> kept;  // which indices there are
  };
  // When a value is there: in the iteration of `pass` that makes it, or once `after` passes are over.
  struct Member {
    tensor::Compute compute;
    int value = 0;
    int accumulator = -1;
    Scalar accumulated;  // the accumulator in the epilogue, as a load of `accumulator_value`
    int accumulator_value = -1;
    std::vector<Axis> domain;  // the axes and reductions that are no rows
    int pass = 0, after = 0;
    bool is_reduction() const { return compute.combiner != Combiner::kNone; }
    bool is_in_loop() const { return !domain.empty(); }
    /// A sum for each of several points of a row.
    bool is_product() const { return is_reduction() && domain.size() > compute.reductions.size(); }
  };

  bool is_row(const Axis& axis) const {
    return std::find(group_.rows.begin(), group_.rows.end(), axis) != group_.rows.end();
  }

  // ---- buffers

  void place_values() {
    loop::Kernel& kernel = out_.kernel;
    places_.resize(group_.extents.size());
    const auto add_global = [&](int value, const std::string& name, bool written) {
      const int slot = add_buffer(kernel, scope_, name, group_.dtypes[value], group_.extents[value], written);
      return Place{slot, std::vector<bool>(group_.extents[value].size(), true)};
    };
    for (int k = 0; k < static_cast<int>(op_.operands.size()); ++k) {
      places_[k] = add_global(k, "in" + std::to_string(k), false);
      out_.arguments.push_back(k);
    }
    for (size_t k = 0; k < group_.outputs.size(); ++k) {
      const int value = group_.outputs[k];
      const Place place = add_global(value, group_.outputs.size() == 1 ? "out" : "out" + std::to_string(k), true);
      // What others of the group read they read from a buffer of the row, whose elements lie as the passes take them.
      (is_read_inside(value) ? copies_[value] : places_[value]) = place;
      out_.arguments.push_back(~static_cast<int>(k));
    }
    kernel.arguments = static_cast<int>(kernel.buffers.size());
    for (size_t k = 0; k < group_.computes.size(); ++k) add_member(k);
  }

  bool is_read_inside(int value) const {
    bool found = false;
    for (const tensor::Compute& c : group_.computes) {
      for (Scalar root : {c.body, c.epilogue}) {
        if (root)
          ir::visit(root, [&](Scalar x) { found = found || (x->kind == ScalarKind::kLoad && x->slot == value); });
      }
    }
    return found;
  }

  void add_member(size_t k) {
    Member m;
    m.compute = group_.computes[k];
    m.value = static_cast<int>(op_.operands.size() + k);
    for (const std::vector<Axis>* list : {&m.compute.axes, &m.compute.reductions}) {
      for (const Axis& a : *list) {
        if (!is_row(a)) m.domain.push_back(a);
      }
    }
    if (m.is_product()) {
      separate_axes(m);
    } else {
      order_domain(m);
    }
    if (places_[m.value].slot < 0) {
      for (const Axis& a : m.compute.axes) places_[m.value].kept.push_back(!is_row(a));
    }
    if (m.is_reduction()) {
      m.accumulator_value = static_cast<int>(places_.size());
      places_.push_back({-1, {}});
    }
    members_.push_back(std::move(m));
  }

  /// All passes take the axes of their domain in one order, so that the innermost loop is the same one.
  void order_domain(Member& m) {
    for (const Axis& a : m.domain) {
      if (std::find(inner_axes_.begin(), inner_axes_.end(), a) == inner_axes_.end()) inner_axes_.push_back(a);
    }
    std::stable_sort(m.domain.begin(), m.domain.end(), [&](const Axis& a, const Axis& b) {
      return std::find(inner_axes_.begin(), inner_axes_.end(), a) <
             std::find(inner_axes_.begin(), inner_axes_.end(), b);
    });
  }

  /// Gives the axes that are no rows variables of their own.
  void separate_axes(Member& m) {
    tensor::Graph& graph = *op_.block->graph;
    symbolic::Substitution own;
    for (std::vector<Axis>* list : {&m.compute.axes, &m.compute.reductions}) {
      for (Axis& a : *list) {
        if (is_row(a)) continue;
        const Expr var = graph.axis_var(kOwnPositions + own_axes_++, a.extent, false);
        own[a.var.node()] = var;
        a.var = var;
      }
    }
    m.compute.body = ir::substitute(m.compute.body, own);
    if (m.compute.epilogue) m.compute.epilogue = ir::substitute(m.compute.epilogue, own);
    m.domain.clear();
    for (const std::vector<Axis>* list : {&m.compute.axes, &m.compute.reductions}) {
      for (const Axis& a : *list) {
        if (!is_row(a)) m.domain.push_back(a);
      }
    }
  }

  /// Local buffers, in the order of the ops that fill them.
  void allocate_row_values() {
    for (size_t k = 0; k < members_.size(); ++k) {
      Member& m = members_[k];
      const std::string number = std::to_string(k);
      if (places_[m.value].slot < 0) {
        const Member* before = m.is_in_loop() && !m.is_reduction() ? replaced_by(k) : nullptr;
        if (before != nullptr) {
          places_[m.value].slot = places_[before->value].slot;
        } else {
          std::vector<Expr> extents;
          for (const Axis& a : m.compute.axes) {
            if (!is_row(a)) extents.push_back(a.extent);
          }
          places_[m.value].slot = add_local_buffer("row" + number, group_.dtypes[m.value], extents);
        }
      }
      if (!m.is_reduction()) continue;
      m.accumulator = add_local_buffer("acc" + number, m.compute.accumulate, {});
      places_[m.accumulator_value].slot = m.accumulator;
      // That of a product lives within its loops.
      if (m.is_product()) locals_.pop_back();
    }
  }

  /// The member whose row buffer member `k` may take: a value of the same form that nothing reads after the statement that makes this one.
  const Member* replaced_by(size_t k) const {
    const Member& m = members_[k];
    for (size_t other = 0; other < k; ++other) {
      const Member& old = members_[other];
      if (!old.is_in_loop() || (old.is_reduction() && !old.is_product())) continue;
      const int slot = places_[old.value].slot;
      if (slot < out_.kernel.arguments || group_.dtypes[old.value] != group_.dtypes[m.value]) continue;
      if (!have_same_shape(old, m) || !is_read_last(old, k)) continue;
      const bool is_taken =
          std::any_of(members_.begin(), members_.begin() + static_cast<std::ptrdiff_t>(k),
                      [&](const Member& x) { return &x != &old && &x > &old && places_[x.value].slot == slot; });
      if (!is_taken) return &old;
    }
    return nullptr;
  }
  bool have_same_shape(const Member& a, const Member& b) const {
    std::vector<Expr> x, y;
    for (const Axis& axis : a.compute.axes) {
      if (!is_row(axis)) x.push_back(axis.extent);
    }
    for (const Axis& axis : b.compute.axes) {
      if (!is_row(axis)) y.push_back(axis.extent);
    }
    return x == y;
  }
  bool is_read_last(const Member& old, size_t k) const {
    const Member& m = members_[k];
    for (size_t reader = 0; reader < members_.size(); ++reader) {
      const Member& r = members_[reader];
      for (Scalar root : {r.compute.body, r.compute.epilogue}) {
        if (!root) continue;
        bool fine = true;
        ir::visit(root, [&](Scalar x) {
          if (x->kind != ScalarKind::kLoad || x->slot != old.value) return;
          if (r.pass < m.pass) return;
          // In the same iteration: at the point at hand, and before this one's value is stored.
          fine = fine && r.pass == m.pass && reader <= k && r.domain == m.domain && is_at_place_of(m, x);
        });
        if (!fine) return false;
      }
    }
    return true;
  }
  /// Whether a load is of the element that is in the place where a member stores.
  bool is_at_place_of(const Member& m, Scalar load) const {
    std::vector<Expr> stored, loaded;
    for (const Axis& a : m.compute.axes) {
      if (!is_row(a)) stored.push_back(a.var);
    }
    for (Scalar index : load->args) {
      const Expr e = ir::as_expr(index);
      const bool is_row_index =
          std::any_of(group_.rows.begin(), group_.rows.end(), [&](const Axis& row) { return row.var == e; });
      if (!is_row_index) loaded.push_back(e);
    }
    return stored == loaded;
  }

  int add_local_buffer(const std::string& name, DType dtype, const std::vector<Expr>& extents) {
    const int slot = add_buffer(out_.kernel, scope_, name, dtype, extents, true);
    out_.kernel.buffers[slot].scope = loop::Scope::kLocal;
    locals_.push_back(slot);
    return slot;
  }

  Scalar load_of(Scalar original, std::vector<Scalar> args) {
    STAX_ASSERT(original->kind == ScalarKind::kLoad, "an accumulator outside of an epilogue");
    const Place& place = places_[original->slot];
    return scope_.scalars().load(place.slot, original->dtype, indices(place, std::move(args)));
  }

  static std::vector<Scalar> indices(const Place& place, std::vector<Scalar> args) {
    std::vector<Scalar> kept;
    for (size_t k = 0; k < args.size(); ++k) {
      if (place.kept[k]) kept.push_back(args[k]);
    }
    return kept;
  }

  // ---- passes

  Member* maker_of(int value) {
    const auto m = std::find_if(members_.begin(), members_.end(), [&](const Member& x) { return x.value == value; });
    return m == members_.end() ? nullptr : &*m;
  }

  void assign_passes() {
    for (Member& m : members_) {
      const auto need = [&](Scalar root, bool is_epilogue) {
        ir::visit(root, [&](Scalar x) {
          if (x->kind != ScalarKind::kLoad) return;
          const Member* maker = maker_of(x->slot);
          if (maker == nullptr) return;
          const bool same_iteration = maker->is_in_loop() && !maker->is_reduction() && m.is_in_loop() &&
                                      maker->domain == m.domain && is_at_hand(*maker, x);
          // Reductions of one pass are finished in their order behind its loops.
          const bool same_end = is_epilogue && is_row_reduction(m) && is_row_reduction(*maker);
          m.pass = std::max(m.pass, same_iteration || same_end ? maker->pass : maker->after);
        });
      };
      need(m.compute.body, false);
      if (m.compute.epilogue) need(m.compute.epilogue, true);
      m.after = m.is_in_loop() ? m.pass + 1 : m.pass;
    }
  }

  /// A load at the indices at which the value is stored.
  static bool is_at_hand(const Member& maker, Scalar load) {
    for (size_t k = 0; k < load->args.size(); ++k) {
      if (ir::as_expr(load->args[k]) != maker.compute.axes[k].var) return false;
    }
    return true;
  }

  Stmt emit_passes() {
    loop::Block all;
    int last = 0;
    for (const Member& m : members_) last = std::max(last, m.after);
    for (int pass = 0; pass <= last; ++pass) {
      for (Member& m : members_) {
        if (!m.is_in_loop() && m.pass == pass) all.statements.push_back(store(m, value_of(m)));
      }
      for (Member& m : members_) {
        if (is_row_reduction(m) && m.pass == pass) all.statements.push_back(start(m));
      }
      emit_loops(pass, all);
      for (Member& m : members_) {
        if (is_row_reduction(m) && m.pass == pass) all.statements.push_back(store(m, finished(m)));
      }
    }
    return loop::make(std::move(all));
  }

  static bool is_row_reduction(const Member& m) { return m.is_in_loop() && m.is_reduction() && !m.is_product(); }

  /// Loops over the points, a sum in each: "c<n>" and "d<n>".
  Stmt product(const Member& m) {
    Loops points, terms;
    const auto add = [&](Loops& loops, const std::vector<Axis>& axes, const char* prefix) {
      for (const Axis& a : axes) {
        if (is_row(a)) continue;
        const Expr extent = scope_.extent(a.extent);
        const Expr var = loop::loop_var(*out_.kernel.context, prefix + std::to_string(product_loops_++), extent);
        scope_.map(a.var, var);
        loops.loops.push_back({var, extent, loop::LoopKind::kSerial, 0, {}});
      }
    };
    add(points, m.compute.axes, "c");
    add(terms, m.compute.reductions, "d");
    loop::Block sum;
    sum.statements = {start(m), terms.around(update(m)), store(m, finished(m))};
    return points.around(loop::make(loop::Allocate{m.accumulator, loop::make(std::move(sum))}));
  }

  void emit_loops(int pass, loop::Block& all) {
    std::vector<bool> done(members_.size(), false);
    for (size_t k = 0; k < members_.size(); ++k) {
      if (done[k] || !members_[k].is_in_loop() || members_[k].pass != pass) continue;
      const std::vector<Axis>& domain = members_[k].domain;
      loop::Block each;
      for (size_t other = k; other < members_.size(); ++other) {
        Member& m = members_[other];
        if (done[other] || m.pass != pass || m.domain != domain) continue;
        done[other] = true;
        if (m.is_product()) {
          all.statements.push_back(product(m));
          continue;
        }
        each.statements.push_back(m.is_reduction() ? update(m) : store(m, value_of(m)));
      }
      if (!each.statements.empty()) all.statements.push_back(loops_over(domain).around(loop::make(std::move(each))));
    }
  }

  /// One variable for each axis of a domain, whatever pass it is in: a schedule names all of its loops at once.
  Loops loops_over(const std::vector<Axis>& domain) {
    Loops result;
    for (const Axis& a : domain) result.loops.push_back(inner_loop(a));
    return result;
  }
  loop::For inner_loop(const Axis& axis) {
    for (const auto& [known, made] : inner_loops_) {
      if (known == axis) return made;
    }
    const Expr extent = scope_.extent(axis.extent);
    const Expr var = loop::loop_var(*out_.kernel.context, "r" + std::to_string(inner_loops_.size()), extent);
    scope_.map(axis.var, var);
    inner_loops_.push_back({axis, {var, extent, loop::LoopKind::kSerial, 0, {}}});
    return inner_loops_.back().second;
  }

  Scalar value_of(const Member& m) {
    if (!m.is_product()) {
      for (const Axis& a : m.domain) inner_loop(a);
    }
    return scope_.scalar(m.compute.body);
  }
  Stmt store(const Member& m, Scalar value) {
    const Place& place = places_[m.value];
    std::vector<Scalar> at;
    for (const Axis& a : m.compute.axes) at.push_back(scope_.scalars().index(scope_.expr(a.var)));
    value = scope_.scalars().cast(group_.dtypes[m.value], value);
    Stmt own = loop::make(loop::Store{place.slot, indices(place, at), value});
    const auto copy = copies_.find(m.value);
    if (copy == copies_.end()) return own;
    if (!m.is_product()) value = scope_.scalars().load(place.slot, value->dtype, indices(place, at));
    return loop::make(loop::Block{{own, loop::make(loop::Store{copy->second.slot, at, value})}});
  }
  Stmt start(const Member& m) {
    return loop::make(loop::Store{
        m.accumulator,
        {},
        loop::neutral(*out_.kernel.context, tensor::plain_combiner(m.compute.combiner), m.compute.accumulate)});
  }
  Stmt update(const Member& m) {
    return loop::make(loop::Update{m.accumulator,
                                   {},
                                   tensor::plain_combiner(m.compute.combiner),
                                   scope_.scalars().cast(m.compute.accumulate, value_of(m))});
  }
  Scalar finished(const Member& m) {
    const DType t = m.compute.accumulate;
    if (!m.compute.epilogue) return scope_.scalars().load(m.accumulator, t, std::vector<Scalar>{});
    // The accumulators of the members are told apart: equal epilogues are one pointer.
    const Scalar own = m.compute.body->table->load(m.accumulator_value, t, std::vector<Scalar>{});
    return scope_.scalar(
        ir::rewrite(m.compute.epilogue, {}, [&](Scalar x) { return x->kind == ScalarKind::kAccumulator ? own : x; }));
  }

  void count_work() {
    tensor::Graph& graph = *op_.block->graph;
    out_.work = graph.exprs().constant(0);
    out_.written = graph.exprs().constant(0);
    out_.operations = graph.exprs().constant(0);
    for (const Member& m : members_) {
      Expr points = graph.exprs().constant(1);
      for (const std::vector<Axis>* list : {&m.compute.axes, &m.compute.reductions}) {
        for (const Axis& a : *list) points = points * a.extent;
      }
      out_.work = out_.work + points * static_cast<int64_t>(ir::node_count(m.compute.body));
      out_.operations = out_.operations + operations_of(graph, m.compute);
    }
    for (int value : group_.outputs) {
      Expr count = graph.exprs().constant(1);
      for (Expr e : group_.extents[value]) count = count * e;
      out_.written = out_.written + count;
    }
  }

  const tensor::Op& op_;
  CollapsedRows group_;
  LoweredKernel out_;
  KernelScope scope_;
  std::vector<Place> places_;
  std::unordered_map<int, Place> copies_;  // results that are values of the row, too
  std::vector<Member> members_;
  std::vector<int> locals_;
  std::vector<std::pair<Axis, loop::For>> inner_loops_;
  std::vector<Axis> inner_axes_;
  int own_axes_ = 0, product_loops_ = 0;
};

}  // namespace

LoweredKernel lower_row_group(const tensor::Op& op, Axes axes) { return RowLowering(op, axes).run(); }

}  // namespace stax::lower
