// SPDX-License-Identifier: Apache-2.0
#pragma once
// Loops whose trips are launches and copies alone.
//
// The step of a recurrent layer at a small batch takes a few microseconds, in several kernels. Looking up extents, versions and memory for each launch
// of each trip takes as long again, and so does handing small kernels to other threads. But all that a trip needs follows from the shape at which
// the loop is entered, except where its data is, and that follows a simple rule. So a loop is entered once: versions, parameters, iterations and
// scratch are written down, with a list of the places among the arguments that change from trip to trip. A trip then writes those places and calls the
// kernels. A value that is carried lies in two buffers in turn; a value that is scanned is made where its slice of the result lies, if slices are as
// aligned as memory of its own.
//
// What a replay runs on is its own: loops that stand beside each other (program::LoopStep::beside_next) can run at the same time, each on a thread.
#include <exception>

#include "runtime/executor.h"

namespace stax::runtime {

class LoopReplay {
 public:
  /// Extents stay, trips are launches, copies and aliases, and every carried value is made anew or stays as it is. On a unified device.
  static bool fits(const Shared& shared, const program::LoopStep& step);

  LoopReplay(Context& context, const program::LoopStep& step);
  /// Memory and arguments for that many trips, at least one. UserError where memory cannot be had.
  void enter(int64_t trips);
  /// All trips. worker >= 0: on the calling thread, with that worker's scratch, which has been reserved; else launches get the threads that they
  /// are worth. What fails is kept for leave().
  void run(int worker) noexcept;
  /// The results, in place. Throws what failed.
  void leave();
  /// Gives back the memory of a loop that was not left.
  void drop();

  int64_t scratch_bytes() const { return scratch_bytes_; }
  /// Scalar operations, of all trips and of the largest launch.
  int64_t work() const { return work_; }
  int64_t largest_work() const { return largest_work_; }

 private:
  /// Where a trip puts something: base + stride * (trip & mask). A value that it makes, or a slice of a scanned result.
  struct Moving {
    program::ValueRef value = program::kNone;  // kNone: a slice
    program::ValueRef bytes_of = program::kNone;
    uint32_t scan = program::kNone;   // of a slice: which scanned result it is of
    uint32_t slice = program::kNone;  // of a value: the slice that it could be made in
    bool in_slice = false;            // and is
    char* base = nullptr;
    int64_t stride = 0, mask = 0;
    std::shared_ptr<void> memory;
  };
  struct Carried {
    uint32_t moving = program::kNone;  // what a trip makes for the next one
    program::ValueRef root;            // where that does not move
    Place initial;
  };
  struct Call {
    const program::LaunchStep* step;  // null: a copy from the first argument to the second
    program::ValueRef bytes_of = program::kNone;
    uint32_t slice = program::kNone;    // a copy into a slice, unless the value is made there
    uint32_t first = 0, arguments = 0;  // in places_
    size_t first_param = 0, params = 0;
    bool skipped = false;
    Launch launch;
    int64_t bytes = 0;
  };
  struct Patch {
    uint32_t place, pointer;
  };

  uint32_t moving_of(program::ValueRef root) const;
  void add_argument(program::ValueRef v);
  int64_t bytes_of(program::ValueRef v) const;
  void prepare(Call& call);
  void point();

  Context& c_;
  const program::Program& program_;
  const program::LoopStep& step_;
  const program::BlockSpec& body_;
  uint32_t first_output_;  // behind the condition
  std::vector<Moving> moving_;
  std::vector<Carried> carried_;
  std::vector<Call> calls_;
  std::vector<program::ValueRef> roots_;  // by place; kNone: a pointer
  std::vector<Patch> patches_;
  std::vector<void*> pointers_;  // of this trip: moving values, then carried inputs
  std::vector<void*> places_;    // arguments of all calls
  std::vector<int64_t> params_;
  std::vector<std::shared_ptr<void>> scratch_;
  int64_t scratch_bytes_ = 0, work_ = 0, largest_work_ = 0;
  const void* condition_ = nullptr;
  uint32_t condition_pointer_ = program::kNone;
  // Written by the thread that runs it, apart from what others write.
  alignas(64) int64_t trip_ = 0;
  int64_t trips_ = 0;
  Fault fault_;
  const program::LaunchStep* failed_ = nullptr;
  std::exception_ptr error_;
  [[maybe_unused]] alignas(64) char end_[1] = {};
};

}  // namespace stax::runtime
