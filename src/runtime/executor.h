// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs the blocks of a program in one call's context.
#include <memory>
#include <vector>

#include "procedures/procedures.h"
#include "runtime/evaluator.h"
#include "runtime/memory.h"
#include "runtime/plan_cache.h"
#include "runtime/runtime.h"
#include "runtime/thread_pool.h"

namespace stax::runtime {

/// What all calls of a module share.
struct Shared {
  std::shared_ptr<const program::Program> program;
  std::unique_ptr<KernelBackend> backend;
  ModuleOptions options;
  Evaluator evaluator;
  std::shared_ptr<MemoryPool> memory = std::make_shared<MemoryPool>();
  ThreadPool pool;
  PlanCache plans;
  Statistics statistics;
  /// For each step of each block: the values that it makes and that need memory before it runs.
  std::vector<std::vector<std::vector<program::ValueRef>>> results;
  /// By value: the output whose data it holds and whose extents are known when it is made, or kNone.
  std::vector<uint32_t> placed_output;
  /// By output: its extents follow from those of the inputs.
  std::vector<bool> output_is_planned;
  /// By kernel: the version of its family that is forced, or kNone.
  std::vector<uint32_t> forced;
  Shared(std::shared_ptr<const program::Program> p, std::unique_ptr<KernelBackend> b, ModuleOptions o);

 private:
  void find_placed_outputs();
};

using Sequence = std::vector<Tensor>;

/// The state of one call, reused by later calls: symbols, expression values, and where each value is.
class Context {
 public:
  explicit Context(Shared& shared);
  std::vector<Item> call(std::span<const Item> inputs, CallStatistics* statistics, bool profile, OutputPlaces* places);
  std::vector<std::optional<std::vector<int64_t>>> output_extents(std::span<const Item> inputs);

 private:
  using ExprRef = program::ExprRef;
  using ValueRef = program::ValueRef;
  struct Arena {
    std::shared_ptr<void> memory;
    int64_t bytes = 0;
    int64_t recent_need = 0;
    int calls = 0;
  };

  void bind_inputs(std::span<const Item> inputs);
  void plan_first_segment();
  void run_block(uint32_t block);
  void enter_segment(uint32_t block, uint32_t segment);
  void prepare_arena(uint32_t block, uint32_t segment);
  void allocate_result(uint32_t block, ValueRef v, std::string_view source);
  void run_step(const program::LaunchStep& s);
  const program::LaunchVersion& choose(const program::LaunchStep& s) const;
  void run_step(const program::CopyStep& s);
  void run_step(const program::AliasStep& s);
  void run_step(const program::ReshapeDynamicStep& s);
  void run_step(const program::BindStep& s);
  void run_step(const program::CheckStep& s);
  void run_step(const program::ProcedureStep& s);
  void run_step(const program::IfStep& s);
  void run_step(const program::LoopStep& s);
  void run_step(const program::SequenceStep& s);
  void run_top_k(const program::ProcedureStep& s);
  void run_nonzero(const program::ProcedureStep& s);
  void run_unique(const program::ProcedureStep& s);
  void run_suppression(const program::ProcedureStep& s);
  void run_determinant(const program::ProcedureStep& s);
  /// Gives a result of data-dependent size its own memory.
  void* allocate_owned(ValueRef v, int64_t bytes, std::string_view source);
  /// Runs f(begin, end, worker) over [0, iterations) on as many threads as the work is worth.
  template <class F>
  void parallel(int64_t iterations, int64_t work, const F& f);

  /// True extents of a tensor value (leading ones of a run-time rank dropped).
  std::vector<int64_t> extents_of(ValueRef v) const;
  std::vector<int64_t> padded_extents_of(ValueRef v) const;
  int64_t count_of(ValueRef v) const;
  int64_t read_int(ValueRef v) const;  // of one element
  void define(uint32_t symbol, int64_t value, std::string_view source);
  void bind(const std::vector<program::ExtentBinding>& bindings, uint32_t output, const std::vector<int64_t>& extents,
            std::string_view source);
  Tensor tensor_of(ValueRef v);  // with its own memory
  void set_tensor(ValueRef v, const Tensor& t);
  int64_t value(ExprRef e) const { return values_[e]; }

  Shared& shared_;
  const program::Program& program_;
  std::vector<int64_t> symbols_, values_;
  std::vector<void*> data_;
  std::vector<std::shared_ptr<void>> owners_;
  std::vector<std::shared_ptr<const Sequence>> sequences_;
  std::vector<std::vector<Arena>> arenas_;
  std::vector<int64_t> iteration_;              // by body block
  std::vector<std::shared_ptr<void>> scratch_;  // by worker
  std::vector<int64_t> scratch_bytes_;
  std::vector<procedures::Scratch> procedure_scratch_;  // by worker
  std::vector<int64_t> params_;
  std::vector<void*> buffers_;
  std::vector<int64_t> key_;  // of the shape plan
  CallStatistics* statistics_ = nullptr;
  OutputPlaces* places_ = nullptr;
  bool profile_ = false;
  std::vector<bool> used_;
  int64_t launches_ = 0;
};

}  // namespace stax::runtime
