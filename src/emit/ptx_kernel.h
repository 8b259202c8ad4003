// SPDX-License-Identifier: Apache-2.0
#pragma once
// One kernel of thread IR as PTX.
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "emit/ptx_index.h"
#include "emit/ptx_ops.h"
#include "ir/target.h"
#include "thread/thread_ir.h"

namespace stax::emit::ptx {

using ir::Scalar;
using symbolic::Expr;
using symbolic::Interval;

/// What stands between braces of the entry, and in front of it.
struct KernelCode {
  Code code;
  std::string declarations;  // of arrays, inside the entry
  bool dynamic_shared = false;
  bool math_table = false;
};

class KernelEmitter {
 public:
  KernelEmitter(const thread::Kernel& kernel, const ir::Target& target, int sm);
  KernelCode emit();

 private:
  // A part of a local buffer that has a register: an element, or in buffers of short elements that are accessed as vectors, a word of 32 bits.
  struct Unit {
    int slot = 0;
    int number = 0;
    auto operator<=>(const Unit&) const = default;
  };
  struct Local {
    bool in_registers = false;
    bool words = false;  // units are words
    Class cls = Class::kB32;
    std::vector<Operand> values;  // of units; none: undefined
  };

  // ptx_kernel.cpp
  void declare();
  void statement(const thread::Stmt& s);
  void loop(const thread::For& s);
  void condition(const thread::If& s);
  void predicated(const thread::If& s, Operand p);
  void branched(const thread::If& s, Operand p);
  void shuffle(const thread::Shuffle& s);
  void vote(const thread::Vote& s);
  void load_matrix(const thread::LoadMatrix& s);
  void mma(const thread::Mma& s);
  bool is_short(const thread::Stmt& s, int& budget) const;
  std::set<Unit> written(const thread::Stmt& s) const;
  std::vector<Instruction> close();
  Operand warp_mask();

  // ptx_local.cpp
  void plan_locals();
  Operand read_local(int slot, int64_t element);
  void write_local(int slot, int64_t element, Operand value);
  Operand word_of(int slot, int64_t first,
                  int index);  // the 32 (64) bits of unit number `index` from element `first` on
  void set_words(int slot, int64_t first, const std::vector<Operand>& words);
  int unit_of(const Local& local, int slot, int64_t element) const;
  int per_word(int slot) const { return 4 / element_size(slot); }
  void store_to_local(int slot, Expr index, Operand value);
  void set_unit(Unit u, Operand value);

  // ptx_memory.cpp
  Place place_of(int slot, Scalar index);
  Operand base_of(int slot);
  std::string space_of(int slot, bool load) const;
  Operand load(int slot, Place at);
  void store(int slot, Place at, Operand value);
  Operand to_memory(int slot, Operand value, std::string& type);
  void load_vector(const thread::LoadVector& s);
  void store_vector(const thread::StoreVector& s);
  void atomic(const thread::Atomic& s);
  void atomic_by_loop(const thread::Atomic& s, Place at, Operand value);
  void async_copy(const thread::AsyncCopy& s);
  void changed(int slot) { states_[static_cast<size_t>(slot)] = ++state_; }
  void changed_all();
  int element_size(int slot) const { return static_cast<int>(ir::byte_size(buffer(slot).dtype)); }
  const thread::Buffer& buffer(int slot) const { return kernel_.buffers[static_cast<size_t>(slot)]; }

  // ptx_scalar.cpp
  Operand scalar(Scalar s);
  Operand compute(Scalar s);
  Operand truth(Scalar s);
  Operand select(Scalar s);
  Operand checked_index(Scalar s);
  Operand low32(Scalar s);
  Operand stored_value(const thread::Store& s);
  bool is_guarded(Scalar s);
  int weight(Scalar s);
  bool fits_i32(Scalar s) const;

  const thread::Kernel& kernel_;
  const ir::Target& target_;
  Builder b_;
  IndexEmitter index_;
  Ops ops_;
  int sm_;
  std::vector<Local> locals_;
  std::vector<Operand> bases_;
  std::vector<int> states_;  // of memory, by slot: grows with every write
  int state_ = 0;
  std::vector<std::unordered_map<const ir::ScalarNode*, Operand>>
      memo_;  // of the statement, and of the arms of selects in it
  std::unordered_map<const ir::ScalarNode*, bool> guarded_;
  std::unordered_map<const ir::ScalarNode*, int> weights_;
  int loops_ = 0;  // that were begun
  std::string declarations_;
  bool dynamic_shared_ = false;
};

}  // namespace stax::emit::ptx
