// SPDX-License-Identifier: Apache-2.0
#include "thread/interpret_memory.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "support/error.h"
#include "support/float16.h"

namespace stax::thread {

using ir::Value64;

namespace {

constexpr int64_t kSector = 32;  // bytes
constexpr int64_t kBanks = 32, kBank = 4;

// Elements as they lie in memory, and as arrays hold them.
template <class F>
void with_storage(DType t, const F& f) {
  const auto same = [](auto v) { return v; };
  switch (t) {
    case DType::kBool: return f(uint8_t{}, int64_t{}, [](uint8_t v) { return int64_t{v != 0}; }, same);
    case DType::kI8: return f(int8_t{}, int64_t{}, same, same);
    case DType::kI16: return f(int16_t{}, int64_t{}, same, same);
    case DType::kI32: return f(int32_t{}, int64_t{}, same, same);
    case DType::kU8: return f(uint8_t{}, int64_t{}, same, same);
    case DType::kU16: return f(uint16_t{}, int64_t{}, same, same);
    case DType::kU32: return f(uint32_t{}, int64_t{}, same, same);
    case DType::kI64:
    case DType::kU64: return f(int64_t{}, int64_t{}, same, same);
    case DType::kF16: return f(uint16_t{}, float{}, f16_to_float, float_to_f16);
    case DType::kBF16: return f(uint16_t{}, float{}, bf16_to_float, float_to_bf16);
    case DType::kF32: return f(float{}, float{}, same, same);
    case DType::kF64: return f(double{}, double{}, same, same);
  }
  STAX_UNREACHABLE();
}

template <class T>
T read(const std::byte* data, int64_t index) {
  T value;
  std::memcpy(&value, data + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}
template <class T>
void write(std::byte* data, int64_t index, T value) {
  std::memcpy(data + index * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
}

}  // namespace

BlockMemory::BlockMemory(LaunchState& launch) : launch_(launch), kernel_(*launch.program->kernel) {
  addresses_.resize(static_cast<size_t>(launch.program->lanes));
  accessed.resize(kernel_.buffers.size());
  shared_.resize(kernel_.buffers.size());
  shared_marks_.resize(kernel_.buffers.size());
  for (size_t slot = 0; slot < launch.regions.size(); ++slot) {
    const Region& r = launch.regions[slot];
    if (!r.is_shared) continue;
    shared_[slot].resize(static_cast<size_t>(r.count * r.size));
    if (r.marked) shared_marks_[slot].resize(static_cast<size_t>(r.count));
  }
}

void BlockMemory::begin_block(int64_t block) {
  block_ = block;
  first_epoch_ = ++epoch_;
  // Undefined contents are the same every time, and no number.
  for (std::vector<std::byte>& bytes : shared_) std::fill(bytes.begin(), bytes.end(), std::byte{0xff});
}

std::byte* BlockMemory::data(int slot) {
  const Region& r = launch_.regions[static_cast<size_t>(slot)];
  return r.is_shared ? shared_[static_cast<size_t>(slot)].data() : r.data;
}

void BlockMemory::report(Report::Kind kind, const Node& node, const std::string& buffer, int64_t index, int64_t thread,
                         int64_t other_thread, int64_t other_block) {
  // One report for each fault of a statement: the first.
  for (const Report& r : reports)
    if (r.kind == kind && r.line == node.line && r.buffer == buffer) return;
  if (reports.size() >= launch_.launch->most_reports) return;
  Report r;
  r.kind = kind;
  r.line = node.line;
  r.buffer = buffer;
  r.index = index;
  r.block = block_;
  r.thread = thread;
  r.other_thread = other_thread;
  r.other_block = other_block;
  reports.push_back(std::move(r));
}

void BlockMemory::locate(const Node& node, int slot, const int64_t* index, bool uniform, int64_t offset, int width,
                         Touch touch, const Mask& mask) {
  const Region& r = launch_.regions[static_cast<size_t>(slot)];
  const int64_t last = r.count - width;
  bool faulty = false;
  int64_t* at = addresses_.data();
  for (int64_t lane = mask.span.lo; lane < mask.span.hi; ++lane) {
    const int64_t i = index[uniform ? 0 : lane] + offset;
    const bool on = mask[lane], inside = i >= 0 && i <= last;
    at[lane] = on && inside ? i : -1;
    faulty |= on && !inside;
  }
  if (faulty) {
    for (int64_t lane = mask.span.lo; lane < mask.span.hi; ++lane) {
      const int64_t i = index[uniform ? 0 : lane] + offset;
      if (mask[lane] && (i < 0 || i > last)) {
        report(Report::Kind::kOutOfBounds, node, r.buffer->name, i < 0 ? i : std::max(i, r.count), lane);
        break;
      }
    }
  }
  if (width > 1 || touch == Touch::kIssue) {
    const int64_t bytes = width * r.size;
    const bool base = r.alignment % bytes == 0 &&
                      (r.is_shared || reinterpret_cast<uintptr_t>(r.data) % static_cast<size_t>(bytes) == 0);
    for (int64_t lane = mask.span.lo; lane < mask.span.hi; ++lane) {
      if (at[lane] < 0 || (base && at[lane] * r.size % bytes == 0)) continue;
      report(Report::Kind::kMisaligned, node, r.buffer->name, at[lane], lane);
      break;
    }
  }
  if (launch_.launch->count) {
    count(r, width, mask);
    for (int64_t lane = mask.span.lo; lane < mask.span.hi; ++lane)
      accessed[static_cast<size_t>(slot)] += at[lane] >= 0 ? width * r.size : 0;
  }
  if (r.marked) mark(node, slot, width, touch, mask);
}

// ---- Races

Marks& BlockMemory::marks_of(int slot, int64_t index) {
  if (launch_.regions[static_cast<size_t>(slot)].is_shared)
    return shared_marks_[static_cast<size_t>(slot)][static_cast<size_t>(index)];
  return launch_.marks[static_cast<size_t>(slot)]->at(index);
}

void BlockMemory::mark(const Node& node, int slot, int width, Touch touch_kind, const Mask& mask) {
  std::unique_lock<std::mutex> lock;
  const auto& global = launch_.marks[static_cast<size_t>(slot)];
  if (global) lock = std::unique_lock(global->mutex);
  for (int64_t lane = mask.span.lo; lane < mask.span.hi; ++lane) {
    if (addresses_[static_cast<size_t>(lane)] < 0) continue;
    for (int64_t k = 0; k < width; ++k) touch(node, slot, addresses_[static_cast<size_t>(lane)] + k, lane, touch_kind);
  }
}

void BlockMemory::touch(const Node& node, int slot, int64_t index, int64_t lane, Touch touch_kind) {
  const Region& r = launch_.regions[static_cast<size_t>(slot)];
  Marks& m = marks_of(slot, index);
  const auto thread = static_cast<uint16_t>(lane);
  const auto block = r.is_shared ? 0U : static_cast<uint32_t>(block_);
  // What another block left in shared memory is gone.
  if (r.is_shared && m.write_epoch < first_epoch_ && m.read_epoch < first_epoch_) m = Marks{};
  const auto race = [&](uint16_t other, int64_t other_block) {
    report(Report::Kind::kRace, node, r.buffer->name, index, lane, other == kNoThread ? -1 : other, other_block);
  };
  const auto meets = [&](uint16_t one, uint16_t two) -> uint16_t {
    if (one != kNoThread && one != thread) return one;
    return two != kNoThread && two != thread ? two : kNoThread;
  };
  const bool is_atomic = touch_kind == Touch::kAtomic;
  // Against the last write.
  if (m.write_epoch != 0 && !(is_atomic && m.atomic)) {
    if (m.write_block != block || m.many_writers) {
      race(m.writer, m.write_block);
    } else if (m.in_flight && touch_kind != Touch::kArrive) {
      race(m.writer, -1);
    } else if (m.write_epoch == epoch_) {
      if (const uint16_t other = meets(m.writer, m.writer2); other != kNoThread) race(other, -1);
    }
  } else if (m.write_epoch == 0 && r.is_shared && (touch_kind == Touch::kRead || is_atomic)) {
    report(Report::Kind::kUninitialized, node, r.buffer->name, index, lane);
  }
  if (touch_kind == Touch::kRead) {
    if (m.read_epoch == epoch_ && m.read_block == block) {
      if (m.reader != thread && m.reader2 == kNoThread) m.reader2 = thread;
      return;
    }
    if (m.read_epoch == 0) m.first_reader = block;
    m.many_readers |= m.read_epoch != 0 && m.read_block != block;
    m.read_epoch = epoch_, m.read_block = block;
    m.reader = thread, m.reader2 = kNoThread;
    return;
  }
  // A write against reads.
  if (m.read_epoch != 0 && touch_kind != Touch::kArrive) {
    if (m.read_block != block || m.many_readers) {
      race(m.reader, m.read_block != block ? m.read_block : m.first_reader);
    } else if (m.read_epoch == epoch_) {
      if (const uint16_t other = meets(m.reader, m.reader2); other != kNoThread) race(other, -1);
    }
  }
  if (is_atomic && m.atomic && m.write_epoch == epoch_ && m.write_block == block) {
    if (m.writer != thread) m.writer2 = thread;
    return;
  }
  m.many_writers |= m.write_epoch != 0 && m.write_block != block;
  m.write_epoch = epoch_, m.write_block = block;
  m.writer = thread, m.writer2 = kNoThread;
  m.atomic = is_atomic;
  m.in_flight = touch_kind == Touch::kIssue;
}

// ---- Costs

void BlockMemory::count(const Region& r, int width, const Mask& mask) {
  const int64_t bytes = width * r.size;
  const int64_t warp = kernel_.warp;
  for (int64_t first = mask.span.lo / warp * warp; first < mask.span.hi; first += warp) {
    const int64_t begin = std::max(first, mask.span.lo), end = std::min(first + warp, mask.span.hi);
    if (std::all_of(addresses_.begin() + begin, addresses_.begin() + end, [](int64_t a) { return a < 0; })) continue;
    // Lanes before `begin` take no part.
    const int64_t* at = addresses_.data() + begin;
    if (r.is_shared) {
      count_shared(at, end - begin, bytes, r.size);
    } else {
      count_global(at, end - begin, bytes, r.size);
    }
  }
}

void BlockMemory::count_shared(const int64_t* at, int64_t lanes, int64_t bytes, int64_t size) {
  ++counters.shared_requests;
  // As many lanes at a time as fill the banks.
  const int64_t together = std::max<int64_t>(1, std::min(kBanks, kBanks * kBank / bytes));
  int64_t cycles = 0, least = 0;
  for (int64_t first = 0; first < lanes; first += together) {
    std::vector<int64_t>& words = scratch_;
    words.clear();
    for (int64_t lane = first; lane < std::min(lanes, first + together); ++lane) {
      if (at[lane] < 0) continue;
      const int64_t begin = at[lane] * size / kBank, end = (at[lane] * size + bytes + kBank - 1) / kBank;
      for (int64_t word = begin; word < end; ++word) words.push_back(word);
    }
    std::sort(words.begin(), words.end());
    words.erase(std::unique(words.begin(), words.end()), words.end());
    int64_t in_bank[kBanks] = {};
    int64_t most = 0;
    for (int64_t word : words) most = std::max(most, ++in_bank[word % kBanks]);
    cycles += most;
    least += (static_cast<int64_t>(words.size()) + kBanks - 1) / kBanks;
  }
  counters.shared_cycles += std::max<int64_t>(cycles, 1);
  counters.least_shared_cycles += std::max<int64_t>(least, 1);
}

void BlockMemory::count_global(const int64_t* at, int64_t lanes, int64_t bytes, int64_t size) {
  ++counters.global_requests;
  std::vector<int64_t>& starts = scratch_;
  starts.clear();
  for (int64_t lane = 0; lane < lanes; ++lane)
    if (at[lane] >= 0) starts.push_back(at[lane] * size);
  std::sort(starts.begin(), starts.end());
  int64_t sectors = 0, distinct = 0, next_sector = 0, next_byte = 0;
  for (int64_t start : starts) {
    const int64_t end = start + bytes;
    distinct += std::max<int64_t>(0, end - std::max(start, next_byte));
    next_byte = std::max(next_byte, end);
    const int64_t first = std::max(next_sector, start / kSector), last = (end - 1) / kSector;
    if (last >= first) sectors += last - first + 1;
    next_sector = std::max(next_sector, last + 1);
  }
  counters.global_sectors += sectors;
  counters.least_sectors += (distinct + kSector - 1) / kSector;
}

// ---- Data

void BlockMemory::load(int slot, int64_t k, const Mask& mask, std::byte* lanes) {
  const Region& r = launch_.regions[static_cast<size_t>(slot)];
  const std::byte* from = data(slot);
  const int64_t* at = addresses_.data();
  with_storage(r.buffer->dtype, [&]<class S, class L>(S, L, const auto& widen, const auto&) {
    L* out = reinterpret_cast<L*>(lanes);
    for (int64_t lane = mask.span.lo; lane < mask.span.hi; ++lane)
      out[lane] = at[lane] >= 0 ? static_cast<L>(widen(read<S>(from, at[lane] + k))) : L{};
  });
}

void BlockMemory::store(int slot, int64_t k, const Mask& mask, const std::byte* lanes, bool uniform) {
  const Region& r = launch_.regions[static_cast<size_t>(slot)];
  std::byte* to = data(slot);
  const int64_t* at = addresses_.data();
  with_storage(r.buffer->dtype, [&]<class S, class L>(S, L, const auto&, const auto& narrow) {
    const L* in = reinterpret_cast<const L*>(lanes);
    for (int64_t lane = mask.span.lo; lane < mask.span.hi; ++lane)
      if (at[lane] >= 0) write<S>(to, at[lane] + k, static_cast<S>(narrow(in[uniform ? 0 : lane])));
  });
}

void BlockMemory::atomic(int slot, Combiner combiner, const Mask& mask, const std::byte* lanes, bool uniform) {
  const Region& r = launch_.regions[static_cast<size_t>(slot)];
  const DType t = r.buffer->dtype;
  ir::ScalarOp op = ir::ScalarOp::kAdd;
  switch (combiner) {
    case Combiner::kSum: break;
    case Combiner::kProd: op = ir::ScalarOp::kMul; break;
    case Combiner::kMin: op = ir::ScalarOp::kMin; break;
    case Combiner::kMax: op = ir::ScalarOp::kMax; break;
    case Combiner::kAnd: op = ir::ScalarOp::kAnd; break;
    case Combiner::kOr: op = ir::ScalarOp::kOr; break;
  }
  std::byte* to = data(slot);
  std::unique_lock<std::mutex> lock;
  if (!r.is_shared) lock = std::unique_lock(launch_.atomics);
  with_storage(t, [&]<class S, class L>(S, L, const auto&, const auto&) {
    const L* in = reinterpret_cast<const L*>(lanes);
    for (int64_t lane = mask.span.lo; lane < mask.span.hi; ++lane) {
      const int64_t at = addresses_[static_cast<size_t>(lane)];
      if (at < 0) continue;
      Value64 args[2] = {ir::load_element(t, to, at), {}};
      if constexpr (std::is_integral_v<L>) {
        args[1].i = in[uniform ? 0 : lane];
      } else {
        args[1].f = static_cast<double>(in[uniform ? 0 : lane]);
      }
      ir::store_element(t, to, at, ir::evaluate_scalar_op(op, t, args));
    }
  });
}

}  // namespace stax::thread
