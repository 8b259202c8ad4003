// SPDX-License-Identifier: Apache-2.0
// Thresholds are such that what a finding names costs the kernel more than about a tenth of its time, or could.
#include "session/doctor.h"

#include <algorithm>
#include <cmath>

#include "support/error.h"
#include "symbolic/evaluate.h"

namespace stax::session {

namespace {

constexpr std::string_view kNames[] = {"low occupancy",  "uncoalesced access", "bandwidth",
                                       "bank conflicts", "tail effect",        "divergence"};

constexpr double kLowOccupancy = 0.25;   // of the threads that a multiprocessor could hold
constexpr double kPoorCoalescing = 0.8;  // least sectors of those touched
constexpr double kWastedBytes = 1.25;    // moved, of those needed
constexpr double kConflicts = 0.1;       // cycles beyond the least
constexpr double kIdleTail = 0.8;        // work of the waves' capacity
constexpr double kDivergence = 0.1;      // of the threads of issued instructions
constexpr double kL2Bandwidth = 3;       // times that of device memory
constexpr double kSpecialPerFma = 4;     // a special function takes as long as so many multiply-adds
constexpr double kLaunch = 2e-6;         // seconds
constexpr int kSystemRegisters = 24;     // addresses, counters, temporaries of a thread

int estimate_registers(const thread::Kernel& kernel, const ir::Target& target) {
  int64_t registers = kSystemRegisters;
  const std::vector<bool> is_register = thread::register_slots(kernel);
  for (size_t slot = 0; slot < kernel.buffers.size(); ++slot) {
    const thread::Buffer& b = kernel.buffers[slot];
    if (is_register[slot]) registers += (b.count.constant() * static_cast<int64_t>(ir::byte_size(b.dtype)) + 3) / 4;
  }
  return static_cast<int>(std::min<int64_t>(registers, target.max_registers));
}

thread::Counters scaled(thread::Counters c, double by) {
  for (int64_t* v :
       {&c.shared_requests, &c.shared_cycles, &c.least_shared_cycles, &c.global_requests, &c.global_sectors,
        &c.least_sectors, &c.branches, &c.divergent_branches, &c.barriers, &c.loads, &c.stores, &c.float_ops,
        &c.integer_ops, &c.special_ops, &c.shuffles, &c.atomics, &c.mma, &c.executed, &c.issued})
    *v = std::llround(static_cast<double>(*v) * by);
  return c;
}

double ratio(int64_t a, int64_t b) { return b == 0 ? 1 : static_cast<double>(a) / static_cast<double>(b); }

class Doctor {
 public:
  Doctor(const thread::Kernel& kernel, const ir::Target& target, std::span<const int64_t> params,
         const DoctorOptions& options)
      : kernel_(kernel), target_(target), params_(params), options_(options) {
    STAX_ASSERT(target.is_gpu, "target {} launches no grids", target.name);
    for (size_t i = 0; i < params.size(); ++i) values_[kernel.params[i].node()] = params[i];
  }

  Diagnosis run() {
    d_.kernel = kernel_.name, d_.kernel_class = kernel_.kernel_class;
    d_.block = kernel_.block;
    count();
    if (d_.blocks == 0) return std::move(d_);
    residency();
    time();
    find();
    return std::move(d_);
  }

 private:
  int64_t value(symbolic::Expr e) const { return symbolic::evaluate(e, values_); }

  void count() {
    std::vector<std::unique_ptr<std::byte, void (*)(void*)>> memory;
    std::vector<void*> buffers;
    std::vector<int64_t> bytes;
    for (int slot = 0; slot < kernel_.arguments; ++slot) {
      const thread::Buffer& b = kernel_.buffers[static_cast<size_t>(slot)];
      bytes.push_back(std::max<int64_t>(0, value(b.count)) * static_cast<int64_t>(ir::byte_size(b.dtype)));
      // Pages that no block touches cost nothing.
      constexpr size_t kPage = 4096;
      auto* raw = static_cast<std::byte*>(std::calloc(static_cast<size_t>(bytes.back()) + kPage, 1));
      if (raw == nullptr)
        user_error("kernel {}: no memory for buffer {} of {} bytes; choose a smaller shape", kernel_.name, b.name,
                   bytes.back());
      memory.emplace_back(raw, std::free);
      buffers.push_back(raw + (kPage - reinterpret_cast<uintptr_t>(raw) % kPage) % kPage);
    }
    int64_t fault[4] = {};
    thread::Launch launch;
    launch.buffers = buffers;
    launch.params = params_;
    launch.fault = fault;
    launch.check = false;
    launch.most_blocks = options_.most_blocks;
    const thread::Outcome outcome = thread::interpret(kernel_, launch);
    // Memory holds zeros, not what earlier kernels would have written: an index that comes from data may lead anywhere, and counts nothing there.
    for (const thread::Report& report : outcome.reports)
      if (report.kind != thread::Report::Kind::kOutOfBounds)
        internal_error("kernel {}: {}", kernel_.name, report.str());
    d_.blocks = outcome.blocks;
    const double scale = ratio(outcome.blocks, outcome.blocks_run);
    d_.counters = scaled(outcome.counters, scale);
    for (size_t slot = 0; slot < buffers.size(); ++slot) {
      const double asked =
          static_cast<double>(outcome.accessed_bytes.empty() ? 0 : outcome.accessed_bytes[slot]) * scale;
      d_.least_bytes += std::min(bytes[slot], static_cast<int64_t>(asked));
      resident_ += std::min(bytes[slot], static_cast<int64_t>(asked));
    }
    d_.moved_bytes = d_.counters.global_sectors * 32;
    d_.coalescing = ratio(d_.counters.least_sectors, d_.counters.global_sectors);
    d_.bank_conflicts = ratio(d_.counters.shared_cycles, d_.counters.least_shared_cycles) - 1;
    d_.divergence = 1 - ratio(d_.counters.executed, d_.counters.issued);
  }

  void residency() {
    d_.registers = options_.registers > 0 ? options_.registers : estimate_registers(kernel_, target_);
    d_.shared_bytes = thread::static_shared_bytes(kernel_) + value(thread::dynamic_shared_bytes(kernel_));
    d_.occupancy = ir::occupancy(target_, kernel_.block, d_.registers, d_.shared_bytes);
    const int64_t at_once = std::max<int64_t>(1, static_cast<int64_t>(d_.occupancy.blocks) * target_.units);
    d_.waves = ratio(d_.blocks, at_once);
    // The blocks of a last wave spread over the machine: what counts is the multiprocessor with most of them.
    const int64_t rest = d_.blocks % at_once;
    const int64_t full = d_.blocks / at_once * std::max(1, d_.occupancy.blocks);
    const int64_t longest = full + (rest + target_.units - 1) / target_.units;
    d_.tail = ratio(d_.blocks, longest * target_.units);
  }

  void time() {
    const thread::Counters& c = d_.counters;
    // What is used again comes out of the second-level cache, if it fits there.
    const bool fits = resident_ <= target_.l2;
    const auto moved = static_cast<double>(d_.moved_bytes), least = static_cast<double>(d_.least_bytes);
    const double device = fits ? least : std::max(least, moved);
    const double memory = std::max(device / target_.bandwidth, moved / (kL2Bandwidth * target_.bandwidth));
    const double rate = static_cast<double>(target_.units) * target_.fma_per_cycle * target_.clock;
    // Additions and multiplications mostly pair up to one instruction.
    // A warp takes as long as if all of its threads went each way that one of them goes.
    const double arithmetic =
        ((static_cast<double>(c.float_ops) / 2 + static_cast<double>(c.integer_ops) / 2 +
          static_cast<double>(c.special_ops) * kSpecialPerFma + static_cast<double>(c.shuffles + c.loads + c.stores)) /
         rate) /
        (1 - d_.divergence);
    const double shared = static_cast<double>(c.shared_cycles) / (target_.units * target_.clock);
    // Fewer threads than a quarter of what fits hide less latency than there is.
    const double hidden = std::min(1.0, d_.occupancy.fraction / kLowOccupancy);
    const double idle = std::max(d_.tail, 1e-3);
    d_.memory_us = memory * 1e6, d_.compute_us = arithmetic / idle * 1e6, d_.shared_us = shared / idle * 1e6;
    const double longest = std::max({memory / std::max(hidden, 0.1), arithmetic / idle, shared / idle});
    d_.predicted_us = (longest + kLaunch) * 1e6;
    d_.bound = longest < kLaunch                                       ? "latency"
               : d_.memory_us >= std::max(d_.compute_us, d_.shared_us) ? "memory"
               : d_.compute_us >= d_.shared_us                         ? "arithmetic"
                                                                       : "shared memory";
  }

  void find() {
    std::vector<std::pair<double, Finding>> found;  // by what it may cost
    const auto add = [&](double cost, Pitfall pitfall, std::string advice) {
      found.emplace_back(cost, Finding{pitfall, std::move(advice)});
    };
    if (d_.occupancy.fraction < kLowOccupancy) {
      add(1 - d_.occupancy.fraction / kLowOccupancy, Pitfall::kLowOccupancy,
          fmt::format("{} blocks of {} threads fit a multiprocessor, {:.0f} % of its threads: limited by {}; {}",
                      d_.occupancy.blocks, d_.block, d_.occupancy.fraction * 100, d_.occupancy.limiter, relief()));
    }
    if (d_.coalescing < kPoorCoalescing) {
      add(1 - d_.coalescing, Pitfall::kUncoalesced,
          fmt::format("warps touch {:.1f} sectors of memory where {:.1f} would hold their bytes; let neighbouring "
                      "threads access "
                      "neighbouring elements, or go through shared memory",
                      ratio(d_.counters.global_sectors, d_.counters.global_requests),
                      ratio(d_.counters.least_sectors, d_.counters.global_requests)));
    }
    const double waste = ratio(d_.moved_bytes, std::max<int64_t>(1, d_.least_bytes));
    if (d_.bound == "memory" && waste > kWastedBytes) {
      add(1 - 1 / waste, Pitfall::kBandwidth,
          fmt::format("memory decides, and {:.1f} times the bytes that are needed are moved; keep what is used again "
                      "in shared memory or "
                      "registers",
                      waste));
    }
    if (d_.bank_conflicts > kConflicts) {
      add(1 - 1 / (1 + d_.bank_conflicts), Pitfall::kBankConflicts,
          fmt::format(
              "shared memory takes {:.1f} times the cycles that it needs; pad rows by one bank, or swizzle them",
              1 + d_.bank_conflicts));
    }
    if (d_.tail < kIdleTail) {
      const std::string how = d_.waves < 1 ? "use smaller blocks, or split the work of one over several"
                                           : "use smaller blocks or tiles, so that the last wave is fuller";
      add(1 - d_.tail, Pitfall::kTailEffect,
          fmt::format("{} blocks are {:.2f} waves: {:.0f} % of the machine idles; {}", d_.blocks, d_.waves,
                      (1 - d_.tail) * 100, how));
    }
    if (d_.divergence > kDivergence) {
      add(d_.divergence, Pitfall::kDivergence,
          fmt::format("{:.0f} % of the threads idle while others of their warp go another way; let conditions change "
                      "from warp to warp, not from thread "
                      "to thread",
                      d_.divergence * 100));
    }
    std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    for (auto& [cost, finding] : found) d_.findings.push_back(std::move(finding));
  }

  std::string relief() const {
    if (d_.occupancy.limiter == "shared memory")
      return fmt::format("a block holds {} bytes: use smaller tiles, or more threads for one", d_.shared_bytes);
    if (d_.occupancy.limiter == "registers")
      return fmt::format("a thread holds {}: unroll less, or use smaller tiles", d_.registers);
    if (d_.occupancy.limiter == "blocks") return "use larger blocks";
    return "use blocks of which several fit";
  }

  const thread::Kernel& kernel_;
  const ir::Target& target_;
  std::span<const int64_t> params_;
  const DoctorOptions& options_;
  std::unordered_map<const symbolic::ExprNode*, int64_t> values_;
  int64_t resident_ = 0;  // bytes of all arguments that are used
  Diagnosis d_;
};

}  // namespace

std::string_view name_of(Pitfall pitfall) { return kNames[static_cast<size_t>(pitfall)]; }

std::string Diagnosis::str() const {
  std::string text = fmt::format("{} ({}): {} blocks of {} threads\n", kernel, kernel_class, blocks, block);
  if (blocks == 0) return text + "  nothing to launch at this shape\n";
  text += fmt::format(
      "  waves {:.2f}, of which {:.0f} % is work; occupancy {:.0f} % ({} blocks, limited by {}), {} registers, {} "
      "bytes of "
      "shared memory\n",
      waves, tail * 100, occupancy.fraction * 100, occupancy.blocks, occupancy.limiter, registers, shared_bytes);
  text += fmt::format(
      "  bytes moved {} ({:.2f} of the least {}), coalescing {:.0f} %, bank conflicts {:.0f} %, divergence {:.0f} "
      "%\n",
      moved_bytes, ratio(moved_bytes, std::max<int64_t>(1, least_bytes)), least_bytes, coalescing * 100,
      bank_conflicts * 100, divergence * 100);
  text += fmt::format("  predicted {:.1f} us, bound by {} (memory {:.1f}, arithmetic {:.1f}, shared memory {:.1f})\n",
                      predicted_us, bound, memory_us, compute_us, shared_us);
  if (findings.empty()) return text + "  nothing stands out\n";
  for (const Finding& f : findings) text += fmt::format("  {}: {}\n", name_of(f.pitfall), f.advice);
  return text;
}

std::string Diagnosis::advice() const {
  if (!findings.empty()) return fmt::format("{}: {}", name_of(findings.front().pitfall), findings.front().advice);
  return blocks == 0 ? "nothing to launch at this shape" : "nothing stands out; it is bound by " + bound;
}

Diagnosis diagnose(const thread::Kernel& kernel, const ir::Target& target, std::span<const int64_t> params,
                   const DoctorOptions& options) {
  return Doctor(kernel, target, params, options).run();
}

}  // namespace stax::session
