// SPDX-License-Identifier: Apache-2.0
#pragma once
// The engine of the reference interpreter: evaluates scalar expressions over the points of a box, a block of points at
// a time.
//
// A BlockProgram is a list of steps in topological order, one for each distinct node of the expressions. Each step owns
// an array of kBlockPoints doubles (float dtypes) or int64 (integers and bool), so that one pass over the steps
// computes a whole block. Index expressions become affine forms of the box's axes where they are; a load whose indices
// are all affine and proved in bounds has one affine offset and needs no check.
//
// The branch of a select that is not taken is not evaluated, says the IR; here all branches are computed, and a load
// out of bounds (or a checked index out of range) reads nothing and marks its point as faulty. Marks travel through the
// steps the way NaNs do, a select passes on only those of the branch taken, and a mark that reaches a root is the
// fault. That is the lazy semantics exactly, without masks.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "ir/scalar.h"
#include "tensor/interpret.h"
#include "tensor/interpret_index.h"

namespace stax::tensor::reference {

inline constexpr int64_t kBlockPoints = 1024;

/// What a slot's loads read.
struct Source {
  DType dtype = DType::kF32;
  const void* data = nullptr;
  std::vector<int64_t> extents;
  std::vector<int64_t> strides;  // in elements
  static Source of(const Literal& literal);
};

/// Faulty points: where, and what went wrong.
struct Fault {
  bool checked_index = false;  // else a load out of bounds
  int64_t index = 0;
  int64_t extent = 0;
  int slot = -1;
  int axis = -1;
};

class BlockProgram {
 public:
  /// The box is `vars` x `extents`, row-major, no extent 0. An expression in `vars` need not be a symbol: wherever it
  /// occurs as a whole it stands for that axis. `sources` must outlive the program.
  BlockProgram(const std::vector<Expr>& vars, const std::vector<int64_t>& extents, std::span<const Source> sources,
               const Bindings& bindings);
  ~BlockProgram();
  BlockProgram(const BlockProgram&) = delete;
  BlockProgram& operator=(const BlockProgram&) = delete;

  /// Adds a root and returns its number. All roots before `finish`.
  int add_root(Scalar root);
  /// The affine form of an expression over the box, if it has one.
  std::optional<AffineForm> affine(Expr e);
  /// False if no point of the root can be faulty.
  bool may_fault(int root) const;
  /// Sound bounds of an integer root.
  symbolic::Interval range(int root) const;
  void finish();

  int64_t count() const { return count_; }
  /// Accumulators of the points from `origin` on (linear), for expressions with an accumulator.
  void set_accumulators(const void* values, int64_t origin);
  /// Evaluates points [start, start + n) where n <= `limit` is chosen by the program (a block never leaves a row of
  /// long rows); returns n.
  int64_t run(int64_t start, int64_t limit);
  const double* floats(int root) const;
  const int64_t* ints(int root) const;
  /// After `run`: the marks of a root's points, or null if none is faulty.
  const uint16_t* faults(int root) const;
  Fault describe_fault(int root, int64_t linear);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
  int64_t count_ = 1;
};

/// Writes n values (doubles or int64, by dtype) to elements [start, start + n) of a tensor.
void store_block(DType t, void* data, int64_t start, const void* values, int64_t n);
bool is_float_block(DType t);

}  // namespace stax::tensor::reference
