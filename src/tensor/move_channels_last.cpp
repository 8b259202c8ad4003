// SPDX-License-Identifier: Apache-2.0
// Channels innermost in memory, between convolutions.
//
// Files keep images as [batch, channel, height, width]. A convolution computes its channels side by side, in vector lanes: their number is known and
// fits the lanes, while the width is any number. With the channels in the middle each result is then written across the lanes, the next
// kernel reads it across them, and rows are as short as the image. With the channels last, results are written as they are computed,
// neighbouring pixels are one long axis for whatever works pixel by pixel (a 1x1 convolution is a matrix product), and windows of few pixels waste nothing.
//
// Where it begins: results of a contraction with constant weights that alone bring an axis, the channels, which is not the last. It goes on
// through whatever has the same axis: pads, pooling, depthwise convolutions, sums, concatenations. Results that are only read in one piece
// (by a reshape, as an output) stay as they are; one that is also read otherwise is copied back for those readers. Windows that nothing in front of them
// has moved begin with a copy: two copies cost less than windows whose edges lie among the lanes. So do sums of elements whose places depend on data,
// as of regions: all channels are read at the same places, side by side instead of lane by lane. Nothing is searched:
// a value is moved if its producer or an operand asks for it, so the pass is one walk in the order of execution.
//
// The reduction over the channels of an operand becomes the innermost one, and constants are laid out in the order in which the loops use them.
#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

#include "tensor/classify.h"
#include "tensor/passes.h"
#include "tensor/rewrite.h"

namespace stax::tensor {

namespace {

/// Fewer channels than this leave most of a vector empty.
constexpr int64_t kFewestChannels = 16;

/// Whether every index is one variable or a number.
bool all_bare(Scalar load) {
  return std::all_of(load->args.begin(), load->args.end(), [](Scalar a) {
    const Expr e = ir::as_expr(a);
    return e && (e.is_constant() || e.is_symbol());
  });
}

bool mentions(Scalar index, Expr var) {
  bool found = false;
  ir::visit(index,
            [&](Scalar x) { found |= x->kind == ir::ScalarKind::kIndex && symbolic::depends_on(x->index, var); });
  return found;
}

bool mentions(const std::vector<Scalar>& indices, Expr var) {
  return std::any_of(indices.begin(), indices.end(), [&](Scalar index) { return mentions(index, var); });
}

/// All axes from `axis` on move up by one, and `axis` becomes the last.
template <class T>
void move_last(std::vector<T>& items, size_t axis) {
  std::rotate(items.begin() + static_cast<std::ptrdiff_t>(axis), items.begin() + static_cast<std::ptrdiff_t>(axis) + 1,
              items.end());
}

std::vector<Scalar> loads_of(const Op& op) {
  std::vector<Scalar> loads;
  visit_scalars(op, [&](Scalar x) {
    if (x->kind == ir::ScalarKind::kLoad && std::find(loads.begin(), loads.end(), x) == loads.end()) loads.push_back(x);
  });
  return loads;
}

class ChannelMover {
 public:
  explicit ChannelMover(Graph& graph) : graph_(graph) { note_readers(graph.body); }

  bool run() {
    for_each_op(graph_.body, [&](Op& op) {
      if (op.kind() == OpKind::kCompute) choose(op);
    });
    if (channels_.empty()) return false;
    for (const Window& w : windows_) copy_image(w);
    std::vector<Op*> computes;
    for_each_op(graph_.body, [&](Op& op) {
      if (op.kind() == OpKind::kCompute) computes.push_back(&op);
    });
    for (Op* op : computes) rewrite_compute(*op);
    copy_back(graph_.body);
    return true;
  }

 private:
  // ---- who reads a value element by element, and who in one piece
  void note_readers(Block& block) {
    for (const auto& op : block.ops) {
      for (Value* v : op->operands) {
        ++readers_[v];
        if (op->kind() == OpKind::kCompute) by_element_.insert(v);
      }
      for_each_block(*op, [&](Block& inner) { note_readers(inner); });
    }
    for (const Value* v : block.outputs) ++readers_[v];
  }
  template <class F>
  static void for_each_block(Op& op, const F& f) {
    if (If* branch = op.as<If>()) {
      f(*branch->then_block);
      f(*branch->else_block);
    } else if (Loop* loop = op.as<Loop>()) {
      f(*loop->body);
    }
  }

  // ---- which axis of which values
  void choose(Op& op) {
    ask_for_padding(op);
    const Value* v = op.result();
    if (op.results.size() != 1 || !v->type.has_static_rank() || v->type.static_rank() < 3 || v->contents) return;
    const Compute& c = *op.as<Compute>();
    if (by_element_.count(v) != 0) {
      int axis = channels_of_weights(op, c);
      if (axis < 0) axis = channels_of_operands(op, c);
      if (axis >= 0 && is_worth_moving(c, axis)) channels_[v] = axis;
    }
    if (channels_.count(v) != 0) return;
    auto window = window_of(op, c);
    if (!window) window = picked(op, c);
    if (!window) return;
    if (channels_.count(op.operands[static_cast<size_t>(window->slot)]) == 0) windows_.push_back(*window);
    channels_[v] = window->axis;
  }

  /// A reduction over windows of the one operand that is no constant, but for convolutions, whose loops find the edges outside.
  struct Window {
    Op* op;
    int slot, axis, channels;  // the axis of the result that has the channels, and the operand's
  };
  std::optional<Window> window_of(Op& op, const Compute& c) const {
    if (c.reductions.empty() || classify(c).kind == ComputeClass::kContraction) return std::nullopt;
    Window w{&op, -1, -1, -1};
    for (size_t k = 0; k < op.operands.size(); ++k) {
      if (is_constant(op.operands[k])) continue;
      if (w.slot >= 0 || channels_.count(op.operands[k]) != 0) return std::nullopt;
      w.slot = static_cast<int>(k);
    }
    bool in_windows = false;
    for (Scalar load : loads_of(op)) {
      if (load->slot != w.slot) continue;
      for (size_t p = 0; p < load->args.size(); ++p) {
        const Expr index = ir::as_expr(load->args[p]);
        if (!index) return std::nullopt;
        const auto axis = std::find_if(c.axes.begin(), c.axes.end(), [&](const Axis& a) { return a.var == index; });
        const int d = static_cast<int>(axis - c.axes.begin());
        if (w.axis < 0 && axis != c.axes.end() && is_worth_moving(c, d)) w.axis = d, w.channels = static_cast<int>(p);
        const bool slides = std::any_of(c.axes.begin(), c.axes.end(), [&](const Axis& a) {
          return a.var != index && symbolic::depends_on(index, a.var);
        });
        in_windows |= slides && std::any_of(c.reductions.begin(), c.reductions.end(),
                                            [&](const Axis& r) { return symbolic::depends_on(index, r.var); });
      }
    }
    return w.axis >= 0 && in_windows && reads_own_channels(op, c, w) ? std::optional(w) : std::nullopt;
  }

  /// What reads one operand at places that depend on data, the same ones for all channels. Where the operand has its channels elsewhere, several elements for
  /// each of the result: of one alone, few points of a large image may be wanted.
  std::optional<Window> picked(Op& op, const Compute& c) const {
    if (classify(c).kind == ComputeClass::kContraction) return std::nullopt;
    for (Scalar load : loads_of(op)) {
      const bool has_data =
          std::any_of(load->args.begin(), load->args.end(), [](Scalar index) { return !ir::as_expr(index); });
      if (!has_data) continue;
      for (size_t p = 0; p < load->args.size(); ++p) {
        const Expr index = ir::as_expr(load->args[p]);
        const auto axis = std::find_if(c.axes.begin(), c.axes.end(), [&](const Axis& a) { return a.var == index; });
        if (!index || axis == c.axes.end()) continue;
        const Window w{&op, load->slot, static_cast<int>(axis - c.axes.begin()), static_cast<int>(p)};
        const auto moved = channels_.find(op.operands[static_cast<size_t>(w.slot)]);
        const bool is_there = moved != channels_.end() && moved->second == w.channels;
        if (!is_there && (moved != channels_.end() || c.reductions.empty())) continue;
        if (is_worth_moving(c, w.axis) && picks_alike(c, load, w.axis) && reads_own_channels(op, c, w)) return w;
      }
    }
    return std::nullopt;
  }
  /// Whether the places change along an axis behind the channels, which would be lanes otherwise.
  static bool picks_alike(const Compute& c, Scalar load, int axis) {
    return std::any_of(c.axes.begin() + axis + 1, c.axes.end(), [&](const Axis& a) {
      return std::any_of(load->args.begin(), load->args.end(),
                         [&](Scalar index) { return !ir::as_expr(index) && mentions(index, a.var); });
    });
  }

  /// Whether every read of the window's operand is of the result's own channel, and no other operand but for constants has any.
  static bool reads_own_channels(const Op& op, const Compute& c, const Window& w) {
    const Expr var = c.axes[static_cast<size_t>(w.axis)].var;
    for (Scalar load : loads_of(op)) {
      if (load->slot != w.slot) {
        if (!is_constant(op.operands[static_cast<size_t>(load->slot)]) && mentions(load->args, var)) return false;
        continue;
      }
      for (size_t p = 0; p < load->args.size(); ++p) {
        const bool own = static_cast<int>(p) == w.channels;
        if (own ? ir::as_expr(load->args[p]) != var : mentions(load->args[p], var)) return false;
      }
    }
    return true;
  }
  void copy_image(const Window& w) {
    Value*& image = w.op->operands[static_cast<size_t>(w.slot)];
    std::vector<size_t> order(image->type.extents.size());
    std::iota(order.begin(), order.end(), size_t{0});
    image = insert_transpose(*w.op, image, order);
    channels_[image] = w.channels;
  }

  static bool is_worth_moving(const Compute& c, int axis) {
    const Expr extent = c.axes[axis].extent;
    if (!extent.is_constant() || extent.constant() < kFewestChannels) return false;
    return std::any_of(c.axes.begin() + axis + 1, c.axes.end(), [](const Axis& a) { return !a.extent.is_constant(1); });
  }

  /// The axis that constant weights alone bring, where another operand brings one behind it; -1 where there is none.
  static int channels_of_weights(const Op& op, const Compute& c) {
    const Classification found = classify(c);
    if (found.kind != ComputeClass::kContraction) return -1;
    const Contraction& r = found.contraction;
    for (const auto& [weights, image] : {std::pair(r.left, r.right), std::pair(r.right, r.left)}) {
      if (!is_constant(op.operands[weights->slot]) || is_constant(op.operands[image->slot]) || !all_bare(weights))
        continue;
      for (int d = 0; d + 1 < static_cast<int>(c.axes.size()); ++d) {
        const Expr var = c.axes[d].var;
        if (!mentions(weights->args, var) || mentions(image->args, var) || !is_worth_moving(c, d)) continue;
        const bool followed = std::any_of(c.axes.begin() + d + 1, c.axes.end(), [&, image = image](const Axis& a) {
          return !a.extent.is_constant(1) && mentions(image->args, a.var);
        });
        if (followed) return d;
      }
    }
    return -1;
  }

  /// What is copied for a convolution alone, a padded image, is copied into the order in which the convolution reads.
  void ask_for_padding(const Op& op) {
    const Compute& c = *op.as<Compute>();
    const Classification found = classify(c);
    if (found.kind != ComputeClass::kContraction) return;
    for (Scalar image : {found.contraction.left, found.contraction.right}) {
      const Value* v = op.operands[image->slot];
      const Compute* copy = v->producer != nullptr ? v->producer->as<Compute>() : nullptr;
      if (copy == nullptr || !padded_load(copy->body) || readers_[v] != 1 || channels_.count(v) != 0) continue;
      for (const Axis& r : c.reductions) {
        const auto at =
            std::find_if(image->args.begin(), image->args.end(), [&](Scalar i) { return ir::as_expr(i) == r.var; });
        const auto axis = static_cast<int>(at - image->args.begin());
        if (at != image->args.end() && is_worth_moving(*copy, axis)) {
          channels_[v] = axis;
          break;
        }
      }
    }
  }

  /// The axis along which the operands have their channels; -1 where they have none or do not agree.
  int channels_of_operands(const Op& op, const Compute& c) const {
    int axis = -1;
    for (Scalar load : loads_of(op)) {
      const auto moved = channels_.find(op.operands[load->slot]);
      if (moved == channels_.end()) continue;
      const Expr index = ir::as_expr(load->args[moved->second]);
      if (!index) continue;
      for (int d = 0; d < static_cast<int>(c.axes.size()); ++d) {
        const auto form = symbolic::affine_in(index, c.axes[d].var);
        if (!form || !form->coefficient.is_constant(1)) continue;
        if (axis >= 0 && axis != d) return -1;
        axis = d;
      }
    }
    return axis;
  }

  // ---- rewriting
  void rewrite_compute(Op& op) {
    const bool reads_moved =
        std::any_of(op.operands.begin(), op.operands.end(), [&](const Value* v) { return channels_.count(v) != 0; });
    const auto moved = channels_.find(op.result());
    if (!reads_moved && moved == channels_.end()) return;
    if (reads_moved) reorder_reductions(op);
    Compute& c = *op.as<Compute>();
    if (moved != channels_.end()) {
      move_last(c.axes, static_cast<size_t>(moved->second));
      move_last(op.result()->type.extents, static_cast<size_t>(moved->second));
      op.result()->id = graph_.next_value_id();  // its elements lie elsewhere: another value
    }
    if (reads_moved) rewrite_loads(op);
    number_variables(op);
    if (moved != channels_.end() || classify(*op.as<Compute>()).kind == ComputeClass::kContraction)
      lay_out_constants(op, moved != channels_.end());
  }

  void rewrite_loads(Op& op) {
    rewrite_scalars(op, [&](Scalar root) {
      return ir::rewrite(root, {}, [&](Scalar x) {
        if (x->kind != ir::ScalarKind::kLoad) return x;
        const auto moved = channels_.find(op.operands[x->slot]);
        if (moved == channels_.end()) return x;
        std::vector<Scalar> indices = x->args;
        move_last(indices, static_cast<size_t>(moved->second));
        return x->table->load(x->slot, x->dtype, indices);
      });
    });
  }

  /// Sums go over the channels of what was moved innermost. The loads still have their old indices.
  void reorder_reductions(Op& op) {
    Compute& c = *op.as<Compute>();
    if (c.combiner != Combiner::kSum) return;
    for (Scalar load : loads_of(op)) {
      const auto moved = channels_.find(op.operands[load->slot]);
      if (moved == channels_.end()) continue;
      for (size_t r = 0; r + 1 < c.reductions.size(); ++r) {
        if (!mentions(load->args[moved->second], c.reductions[r].var)) continue;
        move_last(c.reductions, r);
        return;
      }
    }
  }

  /// Variables are those of their positions again, so that equal bodies stay equal.
  void number_variables(Op& op) {
    Compute& c = *op.as<Compute>();
    symbolic::Substitution names;
    const auto number = [&](std::vector<Axis>& axes, bool reduction) {
      for (size_t k = 0; k < axes.size(); ++k) {
        const Expr var = graph_.axis_var(static_cast<int>(k), axes[k].extent, reduction);
        names[axes[k].var.node()] = var;
        axes[k].var = var;
      }
    };
    number(c.axes, false);
    number(c.reductions, true);
    rewrite_scalars(op, [&](Scalar root) { return ir::substitute(root, names); });
  }

  /// Constants in the order of the loops that walk over them; the last axis, if it is the channels, behind the reductions.
  void lay_out_constants(Op& op, bool channels_are_last) {
    for (Scalar load : loads_of(op)) {
      Value* v = op.operands[load->slot];
      if (!is_constant(v) || load->args.size() < 2 || !all_bare(load)) continue;
      const Compute& c = *op.as<Compute>();
      const auto place = [&](size_t k) {
        const Expr e = ir::as_expr(load->args[k]);
        if (e.is_constant()) return size_t{0};
        if (channels_are_last && e == c.axes.back().var) return c.axes.size() + c.reductions.size() + 1;
        for (size_t d = 0; d < c.axes.size(); ++d)
          if (e == c.axes[d].var) return 1 + d;
        for (size_t r = 0; r < c.reductions.size(); ++r)
          if (e == c.reductions[r].var) return 1 + c.axes.size() + r;
        return size_t{0};
      };
      std::vector<size_t> order;
      for (size_t k = 0; k < load->args.size(); ++k) order.push_back(k);
      std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return place(a) < place(b); });
      if (std::is_sorted(order.begin(), order.end())) continue;
      const int slot = slot_of(op, insert_transpose(op, v, order));
      std::vector<Scalar> indices;
      for (size_t k : order) indices.push_back(load->args[k]);
      rewrite_scalars(op, [&](Scalar root) {
        return ir::rewrite(root, {}, [&](Scalar x) { return x == load ? x->table->load(slot, x->dtype, indices) : x; });
      });
    }
    compact_operands(op);
  }

  /// `v` with axis order[k] as axis k; in front of `before`.
  Value* insert_transpose(Op& before, Value* v, const std::vector<size_t>& order) {
    Compute c;
    std::vector<Scalar> indices(order.size());
    std::vector<Expr> extents;
    for (size_t k = 0; k < order.size(); ++k) {
      const Expr extent = v->type.extents[order[k]];
      c.axes.push_back({graph_.axis_var(static_cast<int>(k), extent, false), extent});
      extents.push_back(extent);
      indices[order[k]] = graph_.scalars().index(c.axes[k].var);
    }
    c.body = graph_.scalars().load(0, v->type.dtype, indices);
    Op* op = graph_.add_op(*before.block, std::move(c), {v}, {Type::tensor(v->type.dtype, extents)}, {}, before.source,
                           &before);
    op->result()->name = v->name;
    return op->result();
  }

  /// Readers in one piece get the value as it was.
  void copy_back(Block& block) {
    std::unordered_map<Value*, Value*> copies;
    const auto as_it_was = [&](Value* v, Op* before) {
      Value*& copy = copies[v];
      if (copy == nullptr) copy = insert_copy_back(block, v, before);
      return copy;
    };
    for (auto it = block.ops.begin(); it != block.ops.end(); ++it) {
      Op& op = **it;
      if (op.kind() != OpKind::kCompute)
        for (Value*& v : op.operands)
          if (channels_.count(v) != 0) v = as_it_was(v, &op);
      for_each_block(op, [&](Block& inner) { copy_back(inner); });
    }
    for (Value*& v : block.outputs)
      if (channels_.count(v) != 0) v = as_it_was(v, nullptr);
    if (&block == &graph_.body)
      for (GraphOutput& output : graph_.outputs)
        if (channels_.count(output.value) != 0) output.value = as_it_was(output.value, nullptr);
  }

  Value* insert_copy_back(Block& block, Value* v, Op* before) {
    const auto axis = static_cast<size_t>(channels_.at(v));
    Compute c;
    std::vector<Expr> extents = v->type.extents;
    std::rotate(extents.begin() + static_cast<std::ptrdiff_t>(axis), extents.end() - 1, extents.end());
    std::vector<Scalar> indices;
    for (size_t k = 0; k < extents.size(); ++k) {
      c.axes.push_back({graph_.axis_var(static_cast<int>(k), extents[k], false), extents[k]});
      indices.push_back(graph_.scalars().index(c.axes[k].var));
    }
    move_last(indices, axis);
    c.body = graph_.scalars().load(0, v->type.dtype, indices);
    Op* op = graph_.add_op(block, std::move(c), {v}, {Type::tensor(v->type.dtype, extents)}, {}, v->producer->source,
                           before);
    op->result()->name = v->name;
    return op->result();
  }

  Graph& graph_;
  std::unordered_set<const Value*> by_element_;
  std::unordered_map<const Value*, int> readers_;
  std::unordered_map<const Value*, int> channels_;  // values to move, and the axis that goes last
  std::vector<Window> windows_;
};

}  // namespace

bool move_channels_last(Graph& graph) { return ChannelMover(graph).run(); }

}  // namespace stax::tensor
