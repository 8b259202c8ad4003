// SPDX-License-Identifier: Apache-2.0
#pragma once
// One kernel of loop IR as one LLVM function.
//
// Vectorization is explicit. Inside a vector loop a value is a vector of lanes if it depends on the loop's variable, else a scalar that is
// spread over the lanes where it meets a vector. A loop runs whole vectors first; what is left runs once under a mask. An If or a select
// whose condition differs between lanes makes a mask for what it guards. An Update whose place does not move with the loop is a reduction: it
// works on vectors of partial results, which meet in a fixed order after the loop.
//
// Local buffers of constant extents are stack slots that LLVM turns into registers, provided that all their accesses have constant
// indices: therefore unrolled loops, and vector loops of few vectors, are unrolled here. A local buffer allocated inside a vector loop holds
// one element per lane.
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "loop/access.h"
#include "loop/loop_ir.h"
#include "native/index.h"
#include "native/lanes.h"

namespace stax::native {

using ir::Scalar;
using loop::Stmt;

/// Whether `op` is more than a few instructions.
bool is_costly(ir::ScalarOp op);

class KernelEmitter {
 public:
  KernelEmitter(llvm::Module& module, const loop::Kernel& kernel, const std::string& entry, const Machine& machine);
  void emit();

 private:
  // Where a buffer lives.
  struct Storage {
    llvm::Value* pointer = nullptr;
    std::vector<Expr> strides;   // in elements
    int64_t slots = 0;           // elements of a stack slot, padding included; 0 elsewhere
    int64_t row = 0, pitch = 0;  // rows padded to whole vectors: elements of a row, and from row to row; 0: not padded
    int lanes = 0;               // not 0: allocated inside a vector loop, with one element per lane
    bool guarded_alike = false;  // what a mask leaves out is not read before it is written
    llvm::MDNode* scope = nullptr;  // alias scopes
    llvm::MDNode* other_scopes = nullptr;
    bool constant = false;  // never written by this kernel
    // i64: where no bit of it is in the address, a vector is stored past the caches; all bits: never
    llvm::Value* past_caches = nullptr;
  };

  // What an Update adds: value, or value * factor.
  struct Contribution {
    loop::Combiner combiner = loop::Combiner::kSum;
    DType dtype = DType::kF32;
    llvm::Value* value = nullptr;
    llvm::Value* factor = nullptr;
  };

  // Partial results of an Update whose place does not move with the vector loop.
  struct Reduction {
    loop::Combiner combiner = loop::Combiner::kSum;
    int slot = 0;
    Expr linear;
    std::vector<llvm::AllocaInst*> partial;
    llvm::AllocaInst* unordered =
        nullptr;  // of a least or greatest number: lanes that met a NaN, which `partial` passes over
  };

  // The vector loop around what is being emitted.
  struct Vector {
    LaneRange range;
    llvm::Value* mask = nullptr;  // lanes that run; null: all
    bool scalar_tail = false;     // what is left after whole vectors runs in scalar code: masks would cost more
    int64_t live = 0;             // the mask is known: these lanes run, the first ones; 0: it is not
    bool conditional = false;     // an If or a select is part of the mask
    bool may_be_empty = false;    // perhaps no lane runs
    bool safe_loads =
        true;      // what is read alike by all iterations may be read here, as some iteration is known to do so
    int copy = 0;  // of `copies` that run side by side, each with partial results of its own
    int copies = 1;
    size_t scope = 0;                     // depth of scopes outside of the loop
    llvm::Instruction* before = nullptr;  // where partial results get their first value
    std::vector<Reduction>* reductions = nullptr;
  };

  // The place of an access: linear + offset + lanes, in elements. Null: absent.
  struct Place {
    int slot = 0;
    Expr linear;
    llvm::Value* offset = nullptr;  // depends on data, the same in all lanes
    llvm::Value* lanes = nullptr;   // depends on data, differs between lanes
  };
  enum class Pattern : uint8_t { kUniform, kContiguous, kReversed, kScattered };

  // llvm_kernel.cpp: function, buffers, statements
  void declare_function();
  void prepare_buffers();
  llvm::Value* past_caches(const loop::Buffer& buffer);
  void store_vector(const Place& place, llvm::Value* at, llvm::Value* memory, llvm::Align align);
  void emit(const Stmt& s);
  void emit(const loop::For& s);
  void emit(const loop::Block& s);
  void emit(const loop::If& s);
  void emit(const loop::Allocate& s);
  void emit(const loop::Store& s);
  void emit(const loop::Fence&) {}  // of schedules for GPUs
  void emit(const loop::Update& s);
  void emit(const loop::Prefetch& s);
  llvm::AllocaInst* stack_slot(llvm::Type* type, const char* name);
  llvm::BasicBlock* block(const char* name);
  /// Runs `then` (and `otherwise`, if given) under a scalar condition.
  void branch(llvm::Value* condition, const std::function<void()>& then, const std::function<void()>& otherwise = {});
  void place_on_stack(int slot);
  static bool is_cheap(const Stmt& s);
  llvm::Value* accumulate(const Contribution& c, llvm::Value* old);
  void update_lane_by_lane(const Place& place, const Contribution& c);
  llvm::Value* combine(loop::Combiner combiner, DType t, llvm::Value* a, llvm::Value* b);

  // loops.cpp
  void emit_serial(const loop::For& s);
  void emit_unrolled(const loop::For& s, int64_t count);
  bool emit_rolled(const loop::For& s, int64_t count);    // rolled.cpp
  bool emit_byte_dot(const loop::For& s);                 // byte_dot.cpp
  static bool is_guarded_alike(const loop::Allocate& s);  // guarded.cpp
  void load_turned(const loop::For& s, int64_t count);    // turned.cpp
  void transpose(std::vector<llvm::Value*>& rows);
  void emit_vector(const loop::For& s);
  bool can_vectorize(const loop::For& s);
  int width_of(const loop::For& s) const;
  bool has_reduction(const loop::For& s) const;
  bool touches_stack(const loop::For& s) const;
  bool touches_narrow_types(const loop::For& s) const;
  void emit_straight_vectors(const loop::For& s, Vector v, int64_t extent);
  void emit_bounded_vectors(const loop::For& s, Vector v, Expr extent, int64_t count);
  void emit_vector_loop(const loop::For& s, Vector v, Expr extent);
  void emit_lanes(const loop::For& s, const Vector& v);
  /// for (i = begin; i < end; i += step) body(i), with a scope of its own.
  void counted_loop(llvm::Value* begin, llvm::Value* end, int64_t step, bool may_be_empty,
                    const std::function<void(llvm::Value*)>& body);
  llvm::Value* lane_mask(llvm::Value* count, int width);
  void reduce_in_lanes(const Place& place, const Contribution& c);
  void reduce_extreme(Reduction& reduction, llvm::Value* v);
  Reduction& reduction_at(const Place& place, const Contribution& c);
  void finish_reductions(std::vector<Reduction>& reductions);
  llvm::Value* across_lanes(llvm::Value* v, const std::function<llvm::Value*(llvm::Value*, llvm::Value*)>& meet);

  // llvm_access.cpp
  Place place_of(int slot, const std::vector<Scalar>& index);
  void add_index(Place& place, Scalar index, Expr factor);
  Pattern pattern_of(const Place& place) const;
  llvm::Value* address_of(const Place& place);  // of the first lane
  llvm::Value* lane_addresses(const Place& place);
  llvm::Value* load(const Place& place);
  llvm::Value* byte_entry(Scalar s);  // of a table of 256 bytes that fits registers; null: not of that form
  void store(const Place& place, llvm::Value* v);  // v in registers
  llvm::Value* tag(llvm::Value* access, int slot);
  llvm::Value* reversed(llvm::Value* v);
  template <class F>
  void with_reversed(const Place& place, const F& f);
  bool can_mask(DType t) const;
  bool spills_into_padding(const Place& place) const;
  bool stays_inside(const Place& place, const LaneRange& range) const;
  llvm::Value* zeros();  // readable memory for what is not loaded, all zeros
  llvm::Value* sink();   // memory for lanes that do not store

  // scalar.cpp
  llvm::Value* scalar(Scalar s);
  llvm::Value* compute(Scalar s);
  llvm::Value* select(Scalar s);
  llvm::Value* load_or_zero(Scalar s);
  llvm::Value* checked_index(Scalar s);
  llvm::Value* index_value(Expr e);
  llvm::Value* rounded_once(Scalar cast);
  llvm::Value* truth(Scalar s);
  Vector under(llvm::Value* mask, Scalar condition,
               bool holds);   // the mask is that of the condition, or of its opposite
  bool is_guarded(Scalar s);  // has loads or checks, or is costly: not to be evaluated where it is not wanted
  llvm::Function* fault_function();
  bool product_of(Scalar s, DType t, Scalar& a, Scalar& b) const;

  llvm::Module& module_;
  const loop::Kernel& kernel_;
  std::string entry_;
  llvm::IRBuilder<> b_;
  Lanes lanes_;
  IndexEmitter index_;
  llvm::Function* function_ = nullptr;
  llvm::Instruction* entry_anchor_ = nullptr;  // end of the entry block
  llvm::Value* begin_ = nullptr;
  llvm::Value* end_ = nullptr;
  llvm::Value* scratch_ = nullptr;
  llvm::Value* fault_ = nullptr;
  llvm::Function* fault_function_ = nullptr;
  llvm::AllocaInst* sink_ = nullptr;  // where masked-off lanes store to
  int widest_ = 0;                    // lanes of the widest vector loop
  std::vector<Storage> storage_;
  loop::LoopScope loops_;     // those around, with resolved extents
  Vector* vector_ = nullptr;  // null: scalar code
  std::map<std::pair<int, const symbolic::ExprNode*>, llvm::Value*>
      turned_;  // by slot and place: loaded for several iterations together
  std::vector<std::unordered_map<const ir::ScalarNode*, llvm::Value*>> memo_;
  std::unordered_map<const ir::ScalarNode*, bool> guarded_;
};

}  // namespace stax::native
