// SPDX-License-Identifier: Apache-2.0
#pragma once
// Steps of the loop interpreter: expressions over a box of iterations, translated (interpret_translate.cpp) and run
// (interpret_evaluator.cpp). interpret_leaf.h says how.
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "loop/interpret_integers.h"
#include "loop/interpret_values.h"

namespace stax::loop {

/// Iterations at a time.
inline constexpr int64_t kBlock = 1024;

/// uniform + sum of coefficients[d] * variable d of the box.
struct Form {
  int uniform = 0;                    // number in the IntProgram
  std::vector<int64_t> coefficients;  // empty: none depends on the box
  int step = -1;                      // not affine: the step that computes it
  bool is_array() const { return step >= 0; }
};

/// The part of an affine form that varies over the box: within a block, the value at its first iteration and this
/// pattern.
struct Offsets {
  std::vector<int64_t> coefficients;
  std::vector<int64_t> pattern;
  std::vector<int64_t> made_for;  // extents of the box
};

/// Where a statement or a load touches its buffer.
struct Place {
  int slot = 0;
  std::vector<Form> index;
  // If no index is an array:
  bool affine = false;
  int base = 0;
  Offsets offsets;
  // Of the current entry:
  std::vector<bool> within;       // by index: affine, and within bounds over the whole box
  bool safe = false;              // all are
  std::optional<int64_t> stride;  // where the offsets are k * stride
  // Where addresses are computed one by one:
  std::vector<Offsets> by_index;  // of the affine indices
  std::vector<int64_t> addresses;
};

struct BlockStep {
  enum class Kind : uint8_t { kInteger, kAffine, kIndex, kConstant, kLoad, kOp, kSelect, kCheckedIndex, kCast, kMask };
  enum class State : uint8_t { kNone, kSome, kAll };

  Kind kind = Kind::kConstant;
  DType dtype = DType::kI64;
  DType from = DType::kI64;  // kOp, kCast: of the arguments
  ir::ScalarOp op = ir::ScalarOp::kAdd;
  symbolic::ExprKind index = symbolic::ExprKind::kAdd;
  bool uniform = true;         // the same over the box
  bool holds = true;           // kMask: the condition's value that it asks for
  int mask = -1;               // needed only under this (a kMask step)
  std::vector<int> args = {};  // kMask: the condition
  int number = 0;              // kInteger: in the IntProgram; kAffine: of the uniform part
  int place = -1;              // kLoad
  Offsets offsets = {};        // kAffine
  Value64 constant = {};
  std::vector<Value64> values = {};
  // kMask, of the current block:
  State state = State::kAll;
  std::vector<uint8_t> bytes = {};
};

class Evaluator {
 public:
  Evaluator(Machine& machine, const std::vector<For>& box);

  // Translation: each gives the number of a step. `mask`: the mask step under which the value is needed, or -1.
  int scalar(Scalar x, int mask);
  int mask_of(int condition, bool holds, int outer);
  int place(int slot, const std::vector<Scalar>& index, int mask);

  /// Begins an entry; false if the box is empty.
  bool enter();
  /// Runs the steps for the next block of iterations; false if there is none.
  bool next_block();
  int64_t first() const { return first_; }
  int64_t count() const { return count_; }

  // Of the current block:
  const Value64* values(int step) const { return steps_[step].values.data(); }
  /// Null where the mask is on for the whole block.
  const uint8_t* bytes_of(int mask) const;
  bool is_off(int mask) const { return mask >= 0 && steps_[mask].state == BlockStep::State::kNone; }
  /// The addresses of a place; checks that they are in bounds where the mask is on. `what` is for the message.
  Address locate(int place, const uint8_t* mask, const char* what);
  const BoundBuffer& buffer(int slot) const { return machine_.buffers[slot]; }

 private:
  struct Version {
    int mask;
    int step;
  };

  size_t block() const { return variables_.empty() ? 1 : kBlock; }
  int add(BlockStep step);
  Form form(Expr e);
  Form make_form(Expr e);
  Form combine(symbolic::ExprKind kind, const Form& a, const Form& b);
  int step_of(Expr e);
  int step_of(const Form& f);
  bool has_effect(Scalar x);
  bool implies(int mask, int other) const;
  int make_scalar(Scalar x, int mask);
  int branch(Scalar x, int condition, bool holds, int mask);

  void enter(Place& p);
  void choose_blocks();
  void move_to(int64_t first);
  int64_t first_value(const Offsets& o) const;
  const int64_t* pattern(Offsets& o) const;
  int64_t index_value(const Form& f, int64_t i) const;
  [[noreturn]] void out_of_bounds(const Place& p, int64_t i, const char* what) const;
  [[noreturn]] void bad_index(int64_t index, int64_t extent) const;
  void run(BlockStep& s);
  void run_mask(BlockStep& s);

  Machine& machine_;
  IntProgram ints_;
  std::vector<Expr> variables_;  // of the box
  std::vector<int> extent_numbers_;
  std::vector<BlockStep> steps_;
  std::vector<std::unique_ptr<Place>> places_;

  // While translating:
  std::unordered_map<const symbolic::ExprNode*, Form> forms_;
  std::unordered_map<const symbolic::ExprNode*, int> arrays_;  // of forms, where they are needed as values
  std::unordered_map<const ir::ScalarNode*, bool> effects_;
  std::unordered_map<const ir::ScalarNode*, std::vector<Version>> versions_;

  // Of the current entry:
  std::vector<int64_t> extents_;
  int64_t total_ = 1;
  size_t split_ = 0;   // a block is some iterations of this loop of the box, with all of the loops inside
  int64_t inner_ = 1;  // iterations of the loops inside

  // Of the current block:
  int64_t first_ = 0, count_ = 0;
  std::vector<int64_t> at_;           // the variables at its first iteration
  std::vector<const Value64*> args_;  // scratch
};

}  // namespace stax::loop
