// SPDX-License-Identifier: Apache-2.0
// Steps that run blocks: branches and loops.
#include <algorithm>
#include <cstring>

#include "runtime/executor.h"
#include "runtime/loop_replay.h"
#include "support/error.h"

namespace stax::runtime {

using namespace program;

void Context::run_step(const IfStep& s) {
  const int64_t condition = s.known != kNone ? value(s.known) : read_int(s.condition);
  const uint32_t chosen = condition != 0 ? s.then_block : s.else_block;
  run_block(chosen);
  const BlockSpec& block = program_.blocks[chosen];
  for (size_t k = 0; k < s.results.size(); ++k) {
    ValueRef from = block.outputs[k], to = s.results[k];
    if (program_.values[from].is_sequence)
      sequences_[to] = sequences_[from];
    else
      set_place(to, place_of(from)), bind(s.bindings, static_cast<uint32_t>(k), padded_extents_of(from), s.source);
    for (const ExtentBinding& b : s.bindings)
      if (b.output == k && b.axis == kNone) define(b.symbol, static_cast<int64_t>(extents_of(from).size()), s.source);
  }
}

bool Context::replays(const LoopStep& s) const { return shared_.replayed[s.body] && !profile_ && !checking_; }

LoopReplay& Context::replay(const LoopStep& s) {
  if (!replays_[s.body]) replays_[s.body] = std::make_unique<LoopReplay>(*this, s);
  return *replays_[s.body];
}

bool Context::run_side_by_side(const BlockSpec& block, uint32_t& step) {
  const auto loop = [&](uint32_t s) -> const LoopStep& { return std::get<LoopStep>(block.steps[s]); };
  uint32_t end = step + 1;
  while (loop(end - 1).beside_next) ++end;
  const int loops = static_cast<int>(end - step);
  if (loops == 1 || shared_.pool.threads() == 1) return false;
  for (uint32_t s = step; s < end; ++s)
    if (!replays(loop(s)) || loop(s).condition != kNone || read_int(loop(s).trip_count) <= 0) return false;
  beside_.clear();
  int64_t work = 0, largest = 0, scratch = 0;
  for (uint32_t s = step; s < end; ++s) {
    LoopReplay& replay = this->replay(loop(s));
    replay.enter(read_int(loop(s).trip_count));
    work = symbolic::saturating_add(work, replay.work());
    largest = std::max(largest, replay.largest_work());
    scratch = std::max(scratch, replay.scratch_bytes());
    beside_.push_back(&replay);
  }
  // Where a single launch is worth more threads than there are loops, all threads are better at each of them in turn.
  if (workers_.worth(work) > 1 && workers_.worth(largest) <= loops) {
    workers_.reserve(shared_.pool.threads(), scratch);
    const auto function = [](void* self, int64_t begin, int64_t end, int worker) {
      for (int64_t k = begin; k < end; ++k) (*static_cast<std::vector<LoopReplay*>*>(self))[k]->run(worker);
    };
    shared_.pool.run({function, &beside_}, loops, loops);
  } else {
    for (LoopReplay* replay : beside_) replay->run(-1);
  }
  for (LoopReplay* replay : beside_) replay->leave();
  step = end - 1;
  return true;
}

void Context::run_step(const LoopStep& s) {
  const int64_t trips = replays(s) ? read_int(s.trip_count) : 0;
  if (trips <= 0 || (s.condition != kNone && read_int(s.condition) == 0)) return run_trip_by_trip(s);
  LoopReplay& replay = this->replay(s);
  replay.enter(trips);
  replay.run(-1);
  replay.leave();
}

void Context::run_trip_by_trip(const LoopStep& s) {
  const BlockSpec& body = program_.blocks[s.body];
  int64_t trips = s.trip_count == kNone ? symbolic::kPosInf : read_int(s.trip_count);
  bool go = s.condition == kNone || read_int(s.condition) != 0;
  size_t carried = s.initial.size(), first = body.outputs.size() - s.results.size();  // 1 if the body gives a condition
  size_t scanned = s.results.size() - carried;
  std::vector<ValueRef> source = s.initial;
  std::vector<Scan> scans(scanned);
  std::vector<Place> next(carried);
  std::vector<std::shared_ptr<const Sequence>> next_sequences(carried);
  std::vector<std::vector<int64_t>> carried_extents(carried);
  std::vector<int64_t> carried_ranks(carried);
  bool shapes_may_change = !s.body_bindings.empty() || !s.bindings.empty();
  auto take = [&] {
    for (size_t k = 0; k < carried; ++k) {
      next[k] = place_of(source[k]);
      if (next[k].host == &iteration_[s.body]) {  // the iteration number itself, which is about to change
        next[k].host = nullptr;
        if (shared_.unified) {
          next[k].owner = shared_.memory->allocate(sizeof(int64_t), s.source);
          next[k].data = std::memcpy(next[k].owner.get(), &iteration_[s.body], sizeof(int64_t));
        }
      }
      next_sequences[k] = sequences_[source[k]];
      if (shapes_may_change && !program_.values[source[k]].is_sequence) {
        carried_extents[k] = padded_extents_of(source[k]);
        carried_ranks[k] = static_cast<int64_t>(extents_of(source[k]).size());
      }
    }
  };
  take();
  int64_t iteration = 0;
  for (; go && iteration < trips; ++iteration) {
    set_iteration(s.body, iteration, s.source);
    for (size_t k = 0; k < carried; ++k) {
      ValueRef in = body.inputs[k + 1];
      set_place(in, std::move(next[k]));
      sequences_[in] = std::move(next_sequences[k]);
    }
    for (const ExtentBinding& b : s.body_bindings)
      define(b.symbol, b.axis == kNone ? carried_ranks[b.output] : carried_extents[b.output][b.axis], s.source);
    run_block(s.body);
    if (first == 1) go = read_int(body.outputs[0]) != 0;
    for (size_t k = 0; k < carried; ++k) source[k] = body.outputs[first + k];
    take();
    for (size_t k = 0; k < scanned; ++k) {
      ValueRef v = body.outputs[first + carried + k];
      Scan& scan = scans[k];
      std::vector<int64_t> extents = extents_of(v);
      if (iteration == 0)
        scan.extents = extents;
      else if (extents != scan.extents)
        user_error("{}: scanned output {} has extents [{}] in iteration {} and [{}] before", s.source, k,
                   fmt::join(extents, ", "), iteration, fmt::join(scan.extents, ", "));
      bool trips_known = s.condition == kNone && first == 0 && s.trip_count != kNone;
      append(scan, v, trips_known ? trips - iteration : 1, s.source);
    }
  }
  for (size_t k = 0; k < carried; ++k) {
    ValueRef to = s.results[k];
    set_place(to, std::move(next[k]));
    sequences_[to] = next_sequences[k];
    if (program_.values[to].is_sequence) continue;
    bind(s.bindings, static_cast<uint32_t>(k), carried_extents[k], s.source);
    for (const ExtentBinding& b : s.bindings)
      if (b.output == k && b.axis == kNone) define(b.symbol, carried_ranks[k], s.source);
  }
  for (size_t k = 0; k < scanned; ++k) {
    ValueRef to = s.results[carried + k];
    const ValueSpec& spec = program_.values[to];
    std::vector<int64_t> extents{iteration};
    if (iteration > 0)
      extents.insert(extents.end(), scans[k].extents.begin(), scans[k].extents.end());
    else
      extents.resize(std::max<size_t>(1, spec.extents.size()), 0);
    int64_t rank = static_cast<int64_t>(extents.size());
    if (spec.rank != kNone)
      extents.insert(extents.begin(), spec.extents.size() - std::min(spec.extents.size(), extents.size()), 1);
    bind(s.bindings, static_cast<uint32_t>(carried + k), extents, s.source);
    for (const ExtentBinding& b : s.bindings)
      if (b.output == carried + k && b.axis == kNone) define(b.symbol, rank, s.source);
    if (!scans[k].memory) scans[k].memory = shared_.memory->allocate(0, s.source);
    set_place(to, {scans[k].memory.get(), scans[k].memory, nullptr});
  }
}

void Context::set_iteration(uint32_t body, int64_t number, const std::string& source) {
  ValueRef v = program_.blocks[body].inputs[0];
  iteration_[body] = number;
  if (shared_.unified) {
    set_place(v, {&iteration_[body], nullptr, &iteration_[body]});
    return;
  }
  // Memory of its own each time: what was made of an earlier number may still be held.
  allocate_owned(v, sizeof(int64_t), source);
  shared_.device->copy_in(data_[v], &number, sizeof number);
  host_[v] = &iteration_[body];
}

void Context::append(Scan& scan, ValueRef v, int64_t trips_left, const std::string& source) {
  int64_t bytes = count_of(v) * static_cast<int64_t>(ir::byte_size(program_.values[v].dtype));
  if (scan.used + bytes > scan.capacity) {
    // Where the number of trips is known, all of it at once, unless it is so large that it had better be asked for as it fills.
    int64_t all = symbolic::saturating_mul(trips_left, bytes);
    int64_t capacity = std::max(2 * scan.capacity, scan.used + (all <= (int64_t{1} << 30) ? all : bytes));
    std::shared_ptr<void> memory = shared_.memory->allocate(capacity, source);
    copy(memory.get(), scan.memory.get(), scan.used);
    scan.memory = std::move(memory);
    scan.capacity = capacity;
  }
  copy(static_cast<char*>(scan.memory.get()) + scan.used, data_[v], bytes);
  scan.used += bytes;
}

}  // namespace stax::runtime
