// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs the blocks of a program in one call's context.
#include <memory>
#include <unordered_map>
#include <vector>

#include "procedures/procedures.h"
#include "runtime/evaluator.h"
#include "runtime/host_workers.h"
#include "runtime/memory.h"
#include "runtime/plan_cache.h"
#include "runtime/runtime.h"
#include "runtime/thread_pool.h"

namespace stax::runtime {

/// What all calls of a module share.
struct Shared {
  std::shared_ptr<const program::Program> program;
  std::shared_ptr<Device> device;
  bool unified;
  ModuleOptions options;
  Evaluator evaluator;
  std::shared_ptr<MemoryPool> memory;       // of the device
  std::shared_ptr<MemoryPool> host_memory;  // the same where it is unified
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
  /// By kernel: a version that gave a wrong result and is not launched any more. Empty where no launch is checked.
  std::vector<std::atomic<bool>> demoted;
  std::atomic<int64_t> calls{0};  // where some are checked
  /// By constant of the program: its place on the device.
  std::vector<void*> constants;
  /// By block: it is the body of a loop that is replayed.
  std::vector<bool> replayed;
  /// Launch steps in order, and the number of each: devices that are not unified keep a Fault for each.
  std::vector<const program::LaunchStep*> launches;
  std::unordered_map<const program::LaunchStep*, uint32_t> launch_numbers;
  Shared(std::shared_ptr<const program::Program> p, std::shared_ptr<Device> d, const ModuleOptions& o);

 private:
  std::vector<std::shared_ptr<void>> uploaded_;
  void find_results();
  void upload_constants();
  void find_placed_outputs();
};

using Sequence = std::vector<Tensor>;
class LoopReplay;

/// Where a value is.
struct Place {
  void* data = nullptr;
  std::shared_ptr<void> owner;
  const void* host = nullptr;  // the same bytes in host memory, where they happen to be there
};

/// The state of one call, reused by later calls: symbols, expression values, and where each value is.
///
/// Values are in the device's memory. Steps that compute on the host take operands by host_data() and results by host_result(), which on a
/// unified device are the values themselves; on others they are copies, made when asked for and put in place at the end of the step.
class Context final : StepView {
 public:
  explicit Context(Shared& shared);
  ~Context() override;
  void call(std::span<const Item> inputs, std::vector<Item>& outputs, CallStatistics* statistics, bool profile,
            OutputPlaces* places);
  std::vector<std::optional<std::vector<int64_t>>> output_extents(std::span<const Item> inputs);

 private:
  friend class LoopReplay;
  using ExprRef = program::ExprRef;
  using ValueRef = program::ValueRef;
  struct Arena {
    std::shared_ptr<void> memory;
    int64_t bytes = 0;
    int64_t recent_need = 0;
    int calls = 0;
  };

  void bind_inputs(std::span<const Item> inputs);
  void upload_inputs(std::span<const Item> inputs);
  void take_outputs(std::vector<Item>& outputs);
  void plan_first_segment();
  void run_block(uint32_t block);
  void enter_segment(uint32_t block, uint32_t segment);
  void prepare_arena(uint32_t block, uint32_t segment);
  void allocate_result(uint32_t block, ValueRef v, std::string_view source);
  void run_step(const program::LaunchStep& s);
  const program::LaunchVersion& choose(const program::LaunchStep& s) const;
  /// Adds the parameters of a launch.
  void append_params(const program::LaunchStep& s, const program::LaunchVersion& version,
                     std::vector<int64_t>& params) const;
  /// All of a launch but buffers, parameters and the fault record.
  void describe(const program::LaunchStep& s, const program::LaunchVersion& version, Launch& launch);
  /// On `buffers_`; says what failed, on a unified device.
  Fault launch(const program::LaunchStep& s, const program::LaunchVersion& version);
  Fault launch_counted(const program::LaunchStep& s, const program::LaunchVersion& version);
  // ---- checked calls (executor_checked.cpp)
  void launch_checked(const program::LaunchStep& s, const program::LaunchVersion& version);
  void report_mismatch(const program::LaunchStep& s, uint32_t kernel, Mismatch mismatch);
  std::vector<std::byte> host_copy(const void* data, int64_t bytes);
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
  // ---- memory of the device and of the host
  void copy(void* to, const void* from, int64_t bytes);
  /// The bytes of a tensor, to be read until the end of the step. UserError if a launch before it failed.
  const void* host_data(ValueRef v);
  /// Where the host writes a result that has its memory, until the end of the step.
  void* host_result(ValueRef v, int64_t bytes);
  void* allocate_host_result(ValueRef v, int64_t bytes, std::string_view source);
  void finish_host_step();
  /// UserError if a launch since the last look failed. For devices that are not unified.
  void look_for_faults();
  [[noreturn]] void raise(const Fault& fault, const std::string& source) const;
  Place place_of(ValueRef v) const { return {data_[v], owners_[v], host_[v]}; }
  void set_place(ValueRef v, Place p);
  // ---- loops
  bool replays(const program::LoopStep& s) const;
  LoopReplay& replay(const program::LoopStep& s);
  void run_trip_by_trip(const program::LoopStep& s);
  /// The loops from `step` on that stand beside each other, all at the same time; `step` becomes the last of them. Does nothing and gives false where
  /// one after the other is better.
  bool run_side_by_side(const program::BlockSpec& block, uint32_t& step);
  struct Scan {  // results of iterations, one after the other, on the device
    std::vector<int64_t> extents;
    std::shared_ptr<void> memory;
    int64_t used = 0, capacity = 0;
  };
  void append(Scan& scan, ValueRef v, int64_t trips_left, const std::string& source);
  void set_iteration(uint32_t body, int64_t number, const std::string& source);
  /// Runs f(begin, end, worker) over [0, iterations) on as many threads as the work is worth.
  template <class F>
  void parallel(int64_t iterations, int64_t work, const F& f);

  /// True extents of a tensor value (leading ones of a run-time rank dropped).
  std::vector<int64_t> extents_of(ValueRef v) const;
  void extents_of(ValueRef v, std::vector<int64_t>& extents) const;
  std::vector<int64_t> padded_extents_of(ValueRef v) const;
  int64_t count_of(ValueRef v) const;
  int64_t read_int(ValueRef v);  // of one element
  void define(uint32_t symbol, int64_t value, std::string_view source);
  void bind(const std::vector<program::ExtentBinding>& bindings, uint32_t output, const std::vector<int64_t>& extents,
            std::string_view source);
  /// In host memory of its own; the extents' memory is used again.
  void take_tensor(ValueRef v, Tensor& t);
  Tensor tensor_of(ValueRef v) {
    Tensor t;
    take_tensor(v, t);
    return t;
  }
  void set_tensor(ValueRef v, const Tensor& t, std::string_view source);
  int64_t value(ExprRef e) const override { return values_[e]; }
  int64_t symbol(uint32_t slot) const override { return symbols_[slot]; }
  std::vector<int64_t> extents(ValueRef v) const override { return extents_of(v); }
  std::span<std::byte> bytes(ValueRef v) const override;
  std::span<std::byte> arena(uint32_t block, uint32_t segment) const override;

  Shared& shared_;
  const program::Program& program_;
  std::vector<int64_t> symbols_, values_;
  std::vector<void*> data_;
  std::vector<std::shared_ptr<void>> owners_;
  std::vector<std::shared_ptr<const Sequence>> sequences_;
  std::vector<std::vector<Arena>> arenas_;
  std::vector<const void*> host_;                     // see Place
  std::vector<int64_t> iteration_;                    // by body block
  std::vector<std::unique_ptr<LoopReplay>> replays_;  // by body block, made when first entered
  std::vector<LoopReplay*> beside_;                   // loops that run at the same time
  HostWorkers workers_;
  std::vector<procedures::Scratch> procedure_scratch_;  // by worker
  struct HostResult {
    ValueRef value;
    std::shared_ptr<void> memory;
    int64_t bytes;
  };
  std::vector<HostResult> host_results_;              // of this step, not in place yet
  std::vector<std::shared_ptr<void>> host_operands_;  // of this step
  std::shared_ptr<void> faults_;                      // on the device: one for each launch step
  std::vector<Fault> seen_faults_;
  bool launched_ = false;  // since the last look for faults
  std::vector<int64_t> params_;
  std::vector<void*> buffers_;
  std::vector<int64_t> key_;               // of the shape plan
  std::shared_ptr<const ShapePlan> plan_;  // whose values the first segment's nodes have
  struct FirstUse {
    const program::InputSpec* input = nullptr;
    size_t axis = 0;
  };
  std::vector<FirstUse> first_uses_;  // by symbol, while inputs are bound
  std::vector<int64_t> extents_;      // of one output
  CallStatistics* statistics_ = nullptr;
  OutputPlaces* places_ = nullptr;
  bool profile_ = false, checking_ = false;
  std::span<const Item> inputs_;  // of a checked call
  std::vector<bool> used_;
  int64_t launches_ = 0;
};

}  // namespace stax::runtime
