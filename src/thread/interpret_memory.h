// SPDX-License-Identifier: Apache-2.0
#pragma once
// Global and shared memory of the interpreter: bounds, alignment, races, and what an access costs.
//
// Races are found by marks on elements: who wrote last, who read since, in which interval between barriers (epoch) and in which block. One
// writer and two different readers are enough to find every race of an element: a third adds nothing.
#include <mutex>
#include <span>

#include "thread/interpret_program.h"
#include "thread/interpret_steps.h"

namespace stax::thread {

inline constexpr uint16_t kNoThread = 0xffff;

struct Marks {
  uint32_t write_epoch = 0, read_epoch = 0;  // 0: never
  uint32_t write_block = 0, read_block = 0, first_reader = 0;
  uint16_t writer = kNoThread, writer2 = kNoThread, reader = kNoThread, reader2 = kNoThread;
  bool atomic = false, in_flight = false, many_writers = false, many_readers = false;
};

enum class Touch : uint8_t { kRead, kWrite, kAtomic, kIssue, kArrive };  // the last two: of an asynchronous copy

/// One launch's view of a buffer.
struct Region {
  const Buffer* buffer = nullptr;
  std::byte* data = nullptr;  // of global memory
  int64_t count = 0;
  int64_t size = 0;  // of an element
  bool is_shared = false;
  bool marked = false;  // races are looked for
  int64_t alignment = 0;
};

/// Marks of a written global buffer, made where it is touched. Blocks on several host threads share them.
class GlobalMarks {
 public:
  explicit GlobalMarks(int64_t count) : pages_(static_cast<size_t>((count + kPage - 1) / kPage)) {}
  std::mutex mutex;
  Marks& at(int64_t index) {
    std::unique_ptr<Marks[]>& page = pages_[static_cast<size_t>(index / kPage)];
    if (!page) page = std::make_unique<Marks[]>(kPage);
    return page[static_cast<size_t>(index % kPage)];
  }

 private:
  static constexpr int64_t kPage = 4096;
  std::vector<std::unique_ptr<Marks[]>> pages_;
};

/// What all blocks of a launch share.
struct LaunchState {
  const InterpreterProgram* program = nullptr;
  const Launch* launch = nullptr;
  std::vector<Region> regions;                      // by slot; local ones are empty
  std::vector<std::unique_ptr<GlobalMarks>> marks;  // by slot
  std::mutex atomics;
  std::mutex fault;
};

/// The threads that take part in something.
struct Mask {
  const uint8_t* bytes = nullptr;  // null: all of them
  Span span;
  int64_t active = 0;
  bool operator[](int64_t lane) const { return bytes == nullptr || bytes[lane] != 0; }
};

/// The memory of the block that a worker runs.
class BlockMemory {
 public:
  explicit BlockMemory(LaunchState& launch);

  void begin_block(int64_t block);
  void barrier() { ++epoch_; }

  /// The element of each thread that takes part: addresses()[lane], -1 where there is none (also where there is a fault). Reports faults,
  /// marks, counts.
  void locate(const Node& node, int slot, const int64_t* index, bool uniform, int64_t offset, int width, Touch touch,
              const Mask& mask);
  int64_t* addresses() { return addresses_.data(); }
  /// As `locate` has it: element address + k of each thread, from and to arrays of values.
  void load(int slot, int64_t k, const Mask& mask, std::byte* lanes);
  void store(int slot, int64_t k, const Mask& mask, const std::byte* lanes, bool uniform);
  void atomic(int slot, Combiner combiner, const Mask& mask, const std::byte* lanes, bool uniform);
  std::byte* data(int slot);
  /// Marks of one element, as the thread's access changes them.
  void touch(const Node& node, int slot, int64_t index, int64_t lane, Touch touch);

  void report(Report::Kind kind, const Node& node, const std::string& buffer, int64_t index, int64_t thread,
              int64_t other_thread = -1, int64_t other_block = -1);

  std::vector<Report> reports;
  Counters counters;
  std::vector<int64_t> accessed;  // bytes, by slot

 private:
  Marks& marks_of(int slot, int64_t index);
  void mark(const Node& node, int slot, int width, Touch touch, const Mask& mask);
  void count(const Region& region, int width, const Mask& mask);
  void count_shared(const int64_t* at, int64_t lanes, int64_t bytes_each, int64_t size);
  void count_global(const int64_t* at, int64_t lanes, int64_t bytes_each, int64_t size);

  LaunchState& launch_;
  const Kernel& kernel_;
  std::vector<std::vector<std::byte>> shared_;  // by slot
  std::vector<std::vector<Marks>> shared_marks_;
  std::vector<int64_t> addresses_;
  std::vector<int64_t> scratch_;
  int64_t block_ = 0;
  uint32_t epoch_ = 1, first_epoch_ = 1;
};

}  // namespace stax::thread
