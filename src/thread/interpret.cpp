// SPDX-License-Identifier: Apache-2.0
#include "thread/interpret.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <thread>

#include "support/error.h"
#include "support/on_threads.h"
#include "symbolic/evaluate.h"
#include "thread/interpret_block.h"

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace stax::thread {

namespace {

constexpr std::string_view kKindNames[] = {"race",       "out of bounds", "uninitialized", "divergent barrier",
                                           "misaligned", "bad lane"};

/// Denormals are zeros while it lives, where the machine can do that.
class FlushDenormals {
 public:
  explicit FlushDenormals(bool on) : on_(on) {
#if defined(__SSE__)
    if (on_) saved_ = _mm_getcsr(), _mm_setcsr(saved_ | 0x8040U);
#endif
  }
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;
  ~FlushDenormals() {
#if defined(__SSE__)
    if (on_) _mm_setcsr(saved_);
#endif
  }

 private:
  bool on_;
  unsigned saved_ = 0;
};

std::string line_of(const std::string& text, int line) {
  size_t begin = 0;
  for (int i = 1; i < line; ++i) begin = text.find('\n', begin) + 1;
  begin = text.find_first_not_of(' ', begin);
  return text.substr(begin, text.find('\n', begin) - begin);
}

class LaunchRunner {
 public:
  LaunchRunner(const InterpreterProgram& program, const Launch& launch) : kernel_(*program.kernel) {
    STAX_ASSERT(launch.params.size() == kernel_.params.size(), "kernel {} takes {} parameters, not {}", kernel_.name,
                kernel_.params.size(), launch.params.size());
    STAX_ASSERT(launch.buffers.size() == static_cast<size_t>(kernel_.arguments), "kernel {} takes {} buffers, not {}",
                kernel_.name, kernel_.arguments, launch.buffers.size());
    state_.program = &program;
    state_.launch = &launch;
    for (size_t i = 0; i < launch.params.size(); ++i) values_[kernel_.params[i].node()] = launch.params[i];
    for (int k = 0; k < 3; ++k) grid_[k] = std::max<int64_t>(0, symbolic::evaluate(kernel_.grid[k], values_));
    blocks_ = grid_[0] * grid_[1] * grid_[2];
    runs_ = launch.most_blocks > 0 ? std::min(blocks_, launch.most_blocks) : blocks_;
    for (const Divisor& d : kernel_.divisors) {
      const Reciprocal r = reciprocal_of(symbolic::evaluate(d.value, values_));
      STAX_ASSERT(values_[d.multiplier.node()] == r.multiplier && values_[d.shift.node()] == r.shift,
                  "kernel {}: {} and {} are not those of the divisor {}", kernel_.name, d.multiplier.str(),
                  d.shift.str(), d.value.str());
    }
    regions();
  }

  Outcome run() {
    if (runs_ == 0) return {};
    // Host threads are started only where they are worth it: what is left after a first part shows.
    const auto start = std::chrono::steady_clock::now();
    const auto elapsed = [&] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };
    std::vector<std::unique_ptr<BlockRunner>> runners;
    runners.push_back(std::make_unique<BlockRunner>(state_));
    const FlushDenormals flush(kernel_.flush_denormals);
    const int64_t cores =
        state_.launch->threads > 0 ? state_.launch->threads : std::max(1U, std::thread::hardware_concurrency());
    constexpr double kWorthThreads = 1e-3;
    int64_t done = 0;
    while (done < runs_ && (cores == 1 || elapsed() * static_cast<double>(runs_ - done) <
                                              kWorthThreads * static_cast<double>(std::max<int64_t>(done, 1)))) {
      run_block(*runners[0], done++);
    }
    if (done < runs_) in_parallel(runners, done, std::min(cores, runs_ - done));
    return collect(runners);
  }

 private:
  void regions() {
    const Launch& launch = *state_.launch;
    state_.regions.resize(kernel_.buffers.size());
    state_.marks.resize(kernel_.buffers.size());
    for (size_t slot = 0; slot < kernel_.buffers.size(); ++slot) {
      const Buffer& b = kernel_.buffers[slot];
      if (b.space == Space::kLocal) continue;
      Region& r = state_.regions[slot];
      r.buffer = &b;
      r.count = std::max<int64_t>(0, symbolic::evaluate(b.count, values_));
      r.size = static_cast<int64_t>(ir::byte_size(b.dtype));
      r.is_shared = b.space == Space::kShared;
      r.alignment = r.is_shared ? std::max(16, b.alignment) : b.alignment != 0 ? b.alignment : r.size;
      if (!r.is_shared) r.data = static_cast<std::byte*>(launch.buffers[slot]);
      r.marked = launch.check && (r.is_shared || b.written);
      if (r.marked && !r.is_shared) state_.marks[slot] = std::make_unique<GlobalMarks>(r.count);
    }
  }

  void run_block(BlockRunner& runner, int64_t number) const {
    const auto block = static_cast<int64_t>(static_cast<__int128>(number) * blocks_ / runs_);
    const int64_t index[3] = {block % grid_[0], block / grid_[0] % grid_[1], block / grid_[0] / grid_[1]};
    runner.run(block, index);
  }

  void in_parallel(std::vector<std::unique_ptr<BlockRunner>>& runners, int64_t first, int64_t workers) {
    std::atomic<int64_t> next = first;
    std::mutex mutex;
    std::exception_ptr failure;
    const auto work = [&](BlockRunner& runner) {
      try {
        const FlushDenormals flush(kernel_.flush_denormals);
        for (int64_t block = 0; (block = next.fetch_add(1)) < runs_;) run_block(runner, block);
      } catch (...) {
        const std::lock_guard lock(mutex);
        failure = std::current_exception();
        next = runs_;
      }
    };
    while (static_cast<int64_t>(runners.size()) < workers) runners.push_back(std::make_unique<BlockRunner>(state_));
    on_threads(static_cast<int>(runners.size()), [&](int k) { work(*runners[static_cast<size_t>(k)]); });
    if (failure) std::rethrow_exception(failure);
  }

  Outcome collect(const std::vector<std::unique_ptr<BlockRunner>>& runners) const {
    Outcome outcome;
    outcome.blocks = blocks_;
    outcome.blocks_run = runs_;
    outcome.accessed_bytes.resize(static_cast<size_t>(kernel_.arguments));
    for (const auto& runner : runners) {
      outcome.counters.add(runner->memory().counters);
      for (size_t slot = 0; slot < outcome.accessed_bytes.size(); ++slot)
        outcome.accessed_bytes[slot] += runner->memory().accessed[slot];
      for (const Report& r : runner->memory().reports) outcome.reports.push_back(r);
    }
    std::vector<Report>& reports = outcome.reports;
    if (reports.empty()) return outcome;
    std::stable_sort(reports.begin(), reports.end(),
                     [](const Report& a, const Report& b) { return a.block < b.block; });
    std::vector<Report> distinct;
    for (Report& r : reports) {
      if (std::none_of(distinct.begin(), distinct.end(),
                       [&](const Report& d) { return d.kind == r.kind && d.line == r.line && d.buffer == r.buffer; })) {
        distinct.push_back(std::move(r));
      }
    }
    distinct.resize(std::min(distinct.size(), state_.launch->most_reports));
    const std::string text = print(kernel_);
    for (Report& r : distinct) r.statement = line_of(text, r.line);
    reports = std::move(distinct);
    return outcome;
  }

  const Kernel& kernel_;
  LaunchState state_;
  std::unordered_map<const symbolic::ExprNode*, int64_t> values_;
  int64_t grid_[3] = {};
  int64_t blocks_ = 0, runs_ = 0;
};

}  // namespace

std::string_view name_of(Report::Kind kind) { return kKindNames[static_cast<size_t>(kind)]; }

std::string Report::str() const {
  std::string text = fmt::format("line {}: {}: `{}`", line, name_of(kind), statement);
  if (!buffer.empty()) text += fmt::format(", {}[{}]", buffer, index);
  text += fmt::format(", block {} thread {}", block, thread);
  if (other_block >= 0 && other_block != block) {
    text += fmt::format(" and block {} thread {}", other_block, other_thread);
  } else if (other_thread >= 0) {
    const bool is_absent = kind == Kind::kDivergentBarrier || kind == Kind::kBadLane;
    text += fmt::format("{} thread {}", is_absent ? ", but not" : " and", other_thread);
  }
  return text;
}

void Counters::add(const Counters& o) {
  shared_requests += o.shared_requests, shared_cycles += o.shared_cycles;
  least_shared_cycles += o.least_shared_cycles;
  global_requests += o.global_requests, global_sectors += o.global_sectors, least_sectors += o.least_sectors;
  branches += o.branches, divergent_branches += o.divergent_branches;
  barriers += o.barriers;
  loads += o.loads, stores += o.stores;
  float_ops += o.float_ops, integer_ops += o.integer_ops, special_ops += o.special_ops;
  shuffles += o.shuffles, atomics += o.atomics, mma += o.mma;
  executed += o.executed, issued += o.issued;
}

Interpreter::Interpreter(Kernel kernel)
    : kernel_(std::make_unique<Kernel>(std::move(kernel))),
      program_(std::make_unique<InterpreterProgram>(translate(*kernel_))) {}
Interpreter::~Interpreter() = default;
Interpreter::Interpreter(Interpreter&&) noexcept = default;
Interpreter& Interpreter::operator=(Interpreter&&) noexcept = default;

Outcome Interpreter::run(const Launch& launch) const { return LaunchRunner(*program_, launch).run(); }

Outcome interpret(const Kernel& kernel, const Launch& launch) { return Interpreter(kernel).run(launch); }

Reciprocal reciprocal_of(int64_t divisor) {
  const auto value = static_cast<uint64_t>(std::max<int64_t>(divisor, 1));
  uint64_t shift = 0;
  while ((uint64_t{1} << shift) < value) ++shift;
  const uint64_t multiplier = ((uint64_t{1} << 32) * ((uint64_t{1} << shift) - value)) / value + 1;
  return {static_cast<int64_t>(multiplier), static_cast<int64_t>(shift)};
}

}  // namespace stax::thread
