// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "loop/access.h"
#include "lower/fragments.h"
#include "lower/loop_to_thread.h"
#include "lower/place_buffers.h"

namespace stax::lower {

/// One kernel on its way from loop IR to thread IR: what `lower_to_structured` does.
class ThreadLowering {
 public:
  ThreadLowering(const loop::Kernel& from, const ir::Target& target, int block, int index_bits, bool rows_in_global);

  thread::Kernel run();

 private:
  enum class Level : uint8_t { kBlock, kThread };
  bool checks_an_index() const;

  // ---- Buffers
  void add(const loop::Buffer& b, int slot);
  /// One part for each block.
  void add_scratch(const loop::Buffer& b, int slot);
  int add_local(const std::string& name, ir::DType t, int64_t count);
  int add_shared(const std::string& name, ir::DType t, int64_t count);

  // ---- Expressions
  void bind(symbolic::Expr var, symbolic::Expr value) { variables_[var.node()] = value; }
  symbolic::Expr value(symbolic::Expr e) const { return symbolic::substitute(e, variables_); }
  ir::Scalar index(symbolic::Expr e) { return context_.scalars.index(e); }
  using Made = std::unordered_map<const ir::ScalarNode*, ir::Scalar>;
  /// With loads of one index, and variables replaced by what they are in the thread.
  ir::Scalar scalar(ir::Scalar x);
  ir::Scalar scalar(ir::Scalar x, Made& made);
  ir::Scalar fresh_scalar(ir::Scalar x, Made& made);
  int slot_of(int slot) const;
  /// The one index of an element.
  ir::Scalar linear(int slot, const std::vector<ir::Scalar>& original);
  /// Which of the lane's elements of a matrix: those of one tile lie side by side, tiles go by rows.
  symbolic::Expr fragment_item(int slot, const std::vector<ir::Scalar>& original) const;

  // ---- Statements
  thread::Stmt lower(const loop::Stmt& s);
  thread::Stmt lower_node(const loop::Block& b);
  thread::Stmt lower_node(const loop::Fence& f);
  thread::Stmt lower_node(const loop::Allocate& a) { return lower(a.body); }
  thread::Stmt lower_node(const loop::If& i);
  thread::Stmt lower_node(const loop::Prefetch&) { return thread::make(thread::Block{}); }
  thread::Stmt lower_node(const loop::Store& w);
  thread::Stmt lower_node(const loop::Update& u);
  thread::Stmt store(int slot, const std::vector<ir::Scalar>& at, ir::Scalar v);
  thread::Stmt by_thread_zero(thread::Stmt s);
  thread::Stmt lower_node(const loop::For& f);

  /// Whether an element of a buffer in registers is chosen by the variable of the loop.
  bool indexes_registers(const loop::For& f) const;

  // ---- Vector loops: one access of all lanes where addresses allow it
  thread::Stmt vector_loop(const loop::For& f);

  /// A copy of neighbours in global memory to neighbours in shared memory, or zeros; null where it is none that goes on by itself.
  thread::Stmt copy_in_background(const loop::Store& w);

  // ---- Matrices
  thread::Stmt warp_loop(const loop::For& f);
  thread::Stmt matrix_loops(const loop::For& f);

  /// The elements that a lane has of a nest from matrix loop `f` on: bits `item` of their number are chosen by loops around it.
  void elements(const loop::For& f, const FragmentShape& shape, int item, thread::Block& out);
  thread::Stmt product(const MatrixNest& nest);

  /// A factor that is filled from shared memory, by the instruction that loads 8 x 8 elements at once. Null where it does not fit.
  thread::Stmt load_matrices(const MatrixNest& nest, const FragmentShape& shape);

  // ---- Thread loops
  struct Reduced {
    int slot = 0, partial = 0;
    loop::Combiner combiner = loop::Combiner::kSum;
  };
  std::vector<Reduced> reductions_of(const loop::Stmt& s);
  thread::Stmt thread_loop(const loop::For& f);
  /// Thread loops one after the other that add to the same: each thread's part of all of them is combined with others once.
  size_t loops_of_one_reduction(const loop::Block& b, size_t first) const;
  /// `body`, which is what threads do of thread loops in `s`, with what stands around it for the reductions in it.
  thread::Stmt reduced(const loop::Stmt& s, const std::function<thread::Stmt()>& body);

  /// What a thread does of a thread loop.
  thread::Stmt iterations(const loop::For& f);
  /// Short loops of sums alone, of which several iterations are written out: their loads are under way together.
  static bool is_short_sum(const loop::For& f);
  static std::string loop_name_of(const loop::For& f);
  bool touches_spread(const loop::For& f) const;

  // ---- Reductions over the threads of a block
  /// target = combine(target, all threads' partial values), in every thread.
  void reduce(thread::Block& out, const Reduced& r, int64_t element);

  const loop::Kernel& from_;
  const ir::Target& target_;
  ir::Context& context_;
  std::vector<Placement> places_;
  thread::Kernel to_;
  std::vector<int> slots_;                              // in `to_`, by slot of `from_`
  std::unordered_map<int, symbolic::Expr> block_part_;  // of buffers in global memory: elements of one block
  symbolic::Substitution variables_;
  std::unordered_map<int, int> partials_;  // in a thread loop: what each thread combines into instead
  int instruction_ = -1;                   // of matrix loops
  const thread::MmaInstruction* mma_ = nullptr;
  symbolic::Substitution tiles_;  // in matrix loops: where the tile at hand begins, by variable
  symbolic::Expr item_;           // which of the lane's elements of a tile
  symbolic::Expr vector_lane_;    // of the vector loop at hand
  int vector_width_ = 1;
  Level level_ = Level::kBlock;
  symbolic::Expr thread_var_, iteration_;  // in a thread loop: its variable, and which of the thread's iterations it is
};

}  // namespace stax::lower
