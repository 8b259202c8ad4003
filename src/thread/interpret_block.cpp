// SPDX-License-Identifier: Apache-2.0
#include "thread/interpret_block.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "support/error.h"
#include "thread/mma.h"

namespace stax::thread {

BlockRunner::BlockRunner(LaunchState& launch)
    : launch_(launch),
      program_(*launch.program),
      kernel_(*launch.program->kernel),
      memory_(launch),
      storage_(static_cast<std::byte*>(std::aligned_alloc(64, static_cast<size_t>((program_.bytes + 127) / 64 * 64))),
               [](std::byte* p) { std::free(p); }) {
  STAX_ASSERT(storage_ != nullptr, "kernel {}: no memory for {} bytes", kernel_.name, program_.bytes);
  std::memset(storage_.get(), 0xff, static_cast<size_t>(program_.bytes));
  for (const auto& [place, value] : program_.integers) *at<int64_t>({place}) = value;
  for (const auto& [place, value] : program_.doubles) *at<double>({place}) = value;
  for (const auto& [place, value] : program_.floats) *at<float>({place}) = value;
  for (size_t i = 0; i < program_.params.size(); ++i) *at<int64_t>(program_.params[i]) = launch.launch->params[i];
  for (int64_t t = 0; t < program_.lanes; ++t) at<int64_t>(program_.thread)[t] = t;
  scratch_.resize(static_cast<size_t>(program_.lanes) * 8);
  groups_.resize(static_cast<size_t>(program_.lanes));
}

void BlockRunner::run(int64_t block, const int64_t (&index)[3]) {
  memory_.begin_block(block);
  for (int k = 0; k < 3; ++k) *at<int64_t>(program_.block_index[k]) = index[k];
  std::fill(groups_.begin(), groups_.end(), 0);
  copies_.clear();
  run_steps(program_.prologue, program_.prologue_cost, full());
  run(program_.body, full());
}

// ---- Masks

uint8_t* BlockRunner::mask_bytes(size_t depth) {
  while (masks_.size() <= depth) masks_.push_back(std::make_unique<uint8_t[]>(static_cast<size_t>(program_.lanes)));
  return masks_[depth].get();
}

Mask BlockRunner::narrowed(const uint8_t* bytes, const Span& span) const {
  Mask result{bytes, span, 0};
  while (result.span.lo < result.span.hi && bytes[result.span.lo] == 0) ++result.span.lo;
  while (result.span.hi > result.span.lo && bytes[result.span.hi - 1] == 0) --result.span.hi;
  for (int64_t lane = result.span.lo; lane < result.span.hi; ++lane) result.active += bytes[lane] != 0 ? 1 : 0;
  if (result.active == kernel_.block) result.bytes = nullptr;
  return result;
}

// ---- Steps

void BlockRunner::run_steps(const std::vector<Step>& steps, const Cost& cost, const Mask& mask, std::byte* last_out) {
  Counters& c = memory_.counters;
  c.float_ops += cost.float_ops * mask.active;
  c.integer_ops += cost.integer_ops * mask.active;
  c.special_ops += cost.special_ops * mask.active;
  if (launch_.launch->count) {
    const int64_t instructions = cost.float_ops + cost.integer_ops + cost.special_ops + 1;
    c.executed += instructions * mask.active;
    c.issued += instructions * threads_of_warps(mask);
  }
  for (const Step& step : steps) {
    std::byte* out = at<std::byte>(step.out);
    if (last_out != nullptr && &step == &steps.back()) out = last_out;
    switch (step.kind) {
      case Step::Kind::kElement: element_step(*node_, step, mask, out); break;
      case Step::Kind::kLoad: load_step(*node_, step, mask, out); break;
      case Step::Kind::kCheckedIndex: checked_index(step, mask_of(step, mask), reinterpret_cast<int64_t*>(out)); break;
      case Step::Kind::kMask: {
        const int64_t* condition = at<int64_t>(step.args[0]);
        const Mask outer = mask_of(step, mask);
        auto* bytes = reinterpret_cast<uint8_t*>(out);
        for (int64_t lane = mask.span.lo; lane < mask.span.hi; ++lane)
          bytes[lane] = outer[lane] && (condition[step.args[0].uniform ? 0 : lane] != 0) == step.holds ? 1 : 0;
        break;
      }
      default: run_step(step, storage_.get(), out, step.out.uniform ? Span{0, 1} : mask.span);
    }
  }
}

/// Threads of the warps of which any takes part.
int64_t BlockRunner::threads_of_warps(const Mask& mask) const {
  if (mask.bytes == nullptr) return kernel_.block;
  int64_t threads = 0;
  const int64_t warp = kernel_.warp;
  for (int64_t first = mask.span.lo / warp * warp; first < mask.span.hi; first += warp) {
    const int64_t end = std::min(first + warp, mask.span.hi);
    const bool any =
        std::any_of(mask.bytes + std::max(first, mask.span.lo), mask.bytes + end, [](uint8_t b) { return b != 0; });
    if (any) threads += std::min<int64_t>(warp, kernel_.block - first);
  }
  return threads;
}

Mask BlockRunner::mask_of(const Step& step, const Mask& mask) {
  if (step.mask < 0) return mask;
  Mask result = mask;
  result.bytes = at<uint8_t>({step.mask});
  return result;
}

void BlockRunner::load_step(const Node& node, const Step& step, const Mask& mask, std::byte* out) {
  const Mask taken = mask_of(step, mask);
  memory_.locate(node, step.slot, at<int64_t>(step.args[0]), step.args[0].uniform, step.offset, 1, Touch::kRead, taken);
  memory_.counters.loads += mask.active;
  memory_.load(step.slot, 0, taken, out);
}

void BlockRunner::element_step(const Node& node, const Step& step, const Mask& mask, std::byte* out) {
  const Mask taken = mask_of(step, mask);
  const Buffer& b = kernel_.buffers[static_cast<size_t>(step.slot)];
  const int64_t count = b.count.constant();
  const int64_t* index = at<int64_t>(step.args[0]);
  const bool is_float = lane_of(b.dtype) == Lane::kF32;
  for (int64_t lane = mask.span.lo; lane < mask.span.hi; ++lane) {
    const int64_t i = index[step.args[0].uniform ? 0 : lane] + step.offset;
    int64_t bits = 0;
    if (taken[lane] && i >= 0 && i < count) {
      const std::byte* from = element(step.slot, i);
      if (is_float) {
        std::memcpy(&bits, from + lane * 4, 4);
      } else {
        std::memcpy(&bits, from + lane * 8, 8);
      }
    } else if (taken[lane]) {
      memory_.report(Report::Kind::kOutOfBounds, node, b.name, i, lane);
    }
    if (is_float) {
      std::memcpy(out + lane * 4, &bits, 4);
    } else {
      std::memcpy(out + lane * 8, &bits, 8);
    }
  }
}

void BlockRunner::checked_index(const Step& step, const Mask& mask, int64_t* out) {
  const int64_t *index = at<int64_t>(step.args[0]), *extent = at<int64_t>(step.args[1]);
  for (int64_t lane = mask.span.lo; lane < mask.span.hi; ++lane) {
    const int64_t given = index[step.args[0].uniform ? 0 : lane], n = extent[step.args[1].uniform ? 0 : lane];
    const int64_t i = given < 0 ? given + n : given;
    const bool inside = i >= 0 && i < n;
    out[lane] = inside ? i : 0;
    if (inside || !mask[lane] || launch_.launch->fault == nullptr) continue;
    const std::lock_guard lock(launch_.fault);
    int64_t* fault = launch_.launch->fault;
    if (fault[0] != 0) continue;
    fault[0] = 1, fault[1] = given, fault[2] = n, fault[3] = 0;
  }
}

// ---- Control flow

void BlockRunner::run(const Node& node, const Mask& mask) {
  node_ = &node;
  switch (node.kind) {
    case StmtKind::kBlock:
      for (const Node& each : node.body) run(each, mask);
      return;
    case StmtKind::kFor: return loop(node, mask);
    case StmtKind::kIf: return branch(node, mask);
    case StmtKind::kStore: return store(node, mask);
    case StmtKind::kLoadVector: return load_vector(node, mask);
    case StmtKind::kStoreVector: return store_vector(node, mask);
    case StmtKind::kBarrier: {
      ++memory_.counters.barriers;
      if (mask.active != kernel_.block) {
        int64_t absent = 0, present = mask.span.lo;
        while (absent >= mask.span.lo && absent < mask.span.hi && mask[absent]) ++absent;
        memory_.report(Report::Kind::kDivergentBarrier, node, "", 0, present, absent);
      }
      memory_.barrier();
      return;
    }
    case StmtKind::kShuffle: return shuffle(node, mask);
    case StmtKind::kVote: return vote(node, mask);
    case StmtKind::kAtomic:
      run_steps(node.steps, node.cost, mask);
      memory_.locate(node, node.place.slot, at<int64_t>(node.place.index), node.place.index.uniform, node.place.offset,
                     1, Touch::kAtomic, mask);
      memory_.counters.atomics += mask.active;
      memory_.atomic(node.place.slot, std::get<Atomic>(node.statement->v).combiner, mask, at<std::byte>(node.value),
                     node.value.uniform);
      return;
    case StmtKind::kAsyncCopy: return async_copy(node, mask);
    case StmtKind::kAsyncCommit:
      for (int64_t lane = mask.span.lo; lane < mask.span.hi; ++lane)
        groups_[static_cast<size_t>(lane)] += mask[lane] ? 1 : 0;
      return;
    case StmtKind::kAsyncWait: return async_wait(node, mask);
    case StmtKind::kLoadMatrix: return load_matrix(node, mask);
    case StmtKind::kMma: return mma(node, mask);
  }
}

void BlockRunner::count_branch(const Mask& mask, const uint8_t* taken) {
  const int64_t warp = kernel_.warp;
  for (int64_t first = mask.span.lo / warp * warp; first < mask.span.hi; first += warp) {
    bool some = false, others = false;
    for (int64_t lane = std::max(first, mask.span.lo); lane < std::min(first + warp, mask.span.hi); ++lane) {
      if (!mask[lane]) continue;
      const bool t = taken == nullptr || taken[lane] != 0;
      some |= t, others |= !t;
    }
    memory_.counters.branches += some || others ? 1 : 0;
    memory_.counters.divergent_branches += some && others ? 1 : 0;
  }
}

void BlockRunner::branch(const Node& node, const Mask& mask) {
  run_steps(node.steps, node.cost, mask);
  const int64_t* condition = at<int64_t>(node.value);
  if (node.value.uniform) {
    if (launch_.launch->count) count_branch(mask, nullptr);
    if (*condition != 0) return run(node.body.front(), mask);
    if (!node.other.empty()) run(node.other.front(), mask);
    return;
  }
  uint8_t* taken = mask_bytes(depth_);
  for (int64_t lane = mask.span.lo; lane < mask.span.hi; ++lane)
    taken[lane] = mask[lane] && condition[lane] != 0 ? 1 : 0;
  if (launch_.launch->count) count_branch(mask, taken);
  const Mask then_mask = narrowed(taken, mask.span);
  ++depth_;
  if (!node.other.empty() && then_mask.active < mask.active) {
    // What the first branch changes may be what the condition was computed from.
    uint8_t* rest = mask_bytes(depth_++);
    for (int64_t lane = mask.span.lo; lane < mask.span.hi; ++lane) rest[lane] = mask[lane] && taken[lane] == 0 ? 1 : 0;
    if (then_mask.active > 0) run(node.body.front(), then_mask);
    run(node.other.front(), narrowed(rest, mask.span));
    --depth_;
  } else if (then_mask.active > 0) {
    run(node.body.front(), then_mask);
  }
  --depth_;
}

void BlockRunner::loop(const Node& node, const Mask& mask) {
  int64_t* variable = at<int64_t>(node.variable);
  const int64_t* extent = at<int64_t>(node.value);
  if (node.value.uniform) {
    const int64_t n = *extent;
    for (int64_t i = 0; i < n; ++i) {
      if (launch_.launch->count) count_branch(mask, nullptr);
      *variable = i;
      run_steps(node.iteration, node.iteration_cost, mask);
      run(node.body.front(), mask);
    }
    return;
  }
  uint8_t* running = mask_bytes(depth_++);
  for (int64_t i = 0;; ++i) {
    for (int64_t lane = mask.span.lo; lane < mask.span.hi; ++lane)
      running[lane] = mask[lane] && i < extent[lane] ? 1 : 0;
    const Mask inner = narrowed(running, mask.span);
    if (launch_.launch->count) count_branch(mask, running);
    if (inner.active == 0) break;
    *variable = i;
    run_steps(node.iteration, node.iteration_cost, inner);
    run(node.body.front(), inner);
  }
  --depth_;
}

// ---- Memory

void BlockRunner::store(const Node& node, const Mask& mask) {
  if (node.local < 0) {
    run_steps(node.steps, node.cost, mask);
    memory_.locate(node, node.place.slot, at<int64_t>(node.place.index), node.place.index.uniform, node.place.offset, 1,
                   Touch::kWrite, mask);
    memory_.counters.stores += mask.active;
    memory_.store(node.place.slot, 0, mask, at<std::byte>(node.value), node.value.uniform);
    return;
  }
  if (node.direct && mask.bytes == nullptr) {
    run_steps(node.steps, node.cost, mask, element(node.local, node.first_offset));
    return;
  }
  run_steps(node.steps, node.cost, mask);
  store_local(node, mask, at<std::byte>(node.value), node.value.uniform);
}

void BlockRunner::store_local(const Node& node, const Mask& mask, const std::byte* values, bool uniform, int64_t k) {
  const Buffer& b = kernel_.buffers[static_cast<size_t>(node.local)];
  const auto copy = [&]<class T>(T*) {
    const T* in = reinterpret_cast<const T*>(values);
    if (b.dtype == DType::kF16 || b.dtype == DType::kBF16) {
      if constexpr (std::is_same_v<T, float>) {
        auto* rounded = reinterpret_cast<float*>(scratch_.data());
        round_lanes(b.dtype, in, rounded, uniform ? Span{0, 1} : mask.span);
        in = rounded;
      }
    }
    if (node.first_constant) {
      T* out = reinterpret_cast<T*>(element(node.local, node.first_offset + k));
      for (int64_t lane = mask.span.lo; lane < mask.span.hi; ++lane)
        if (mask[lane]) out[lane] = in[uniform ? 0 : lane];
      return;
    }
    const int64_t* first = at<int64_t>(node.first);
    const int64_t count = b.count.constant();
    for (int64_t lane = mask.span.lo; lane < mask.span.hi; ++lane) {
      if (!mask[lane]) continue;
      const int64_t i = first[node.first.uniform ? 0 : lane] + node.first_offset + k;
      if (i < 0 || i >= count) {
        memory_.report(Report::Kind::kOutOfBounds, node, b.name, i, lane);
      } else {
        reinterpret_cast<T*>(element(node.local, i))[lane] = in[uniform ? 0 : lane];
      }
    }
  };
  switch (lane_of(b.dtype)) {
    case Lane::kF32: return copy(static_cast<float*>(nullptr));
    case Lane::kF64: return copy(static_cast<double*>(nullptr));
    case Lane::kInt: return copy(static_cast<int64_t*>(nullptr));
  }
}

void BlockRunner::load_vector(const Node& node, const Mask& mask) {
  run_steps(node.steps, node.cost, mask);
  memory_.locate(node, node.place.slot, at<int64_t>(node.place.index), node.place.index.uniform, node.place.offset,
                 node.width, Touch::kRead, mask);
  memory_.counters.loads += mask.active;
  std::vector<std::byte> values(static_cast<size_t>(program_.lanes) * 8);
  for (int64_t k = 0; k < node.width; ++k) {
    if (node.first_constant && mask.bytes == nullptr) {
      memory_.load(node.place.slot, k, mask, element(node.local, node.first_offset + k));
      continue;
    }
    memory_.load(node.place.slot, k, mask, values.data());
    store_local(node, mask, values.data(), false, k);
  }
}

void BlockRunner::store_vector(const Node& node, const Mask& mask) {
  run_steps(node.steps, node.cost, mask);
  memory_.locate(node, node.place.slot, at<int64_t>(node.place.index), node.place.index.uniform, node.place.offset,
                 node.width, Touch::kWrite, mask);
  memory_.counters.stores += mask.active;
  Step element;
  element.slot = node.local;
  element.args[0] = node.first;
  element.count = 1;
  std::vector<std::byte> values(static_cast<size_t>(program_.lanes) * 8);
  for (int64_t k = 0; k < node.width; ++k) {
    if (node.first_constant) {
      memory_.store(node.place.slot, k, mask, this->element(node.local, node.first_offset + k), false);
      continue;
    }
    element.offset = node.first_offset + k;
    element_step(node, element, mask, values.data());
    memory_.store(node.place.slot, k, mask, values.data(), false);
  }
}

// ---- Warps

void BlockRunner::check_whole_warps(const Node& node, const Mask& mask) {
  if (mask.bytes == nullptr) return;
  const int64_t warp = kernel_.warp;
  for (int64_t first = mask.span.lo / warp * warp; first < mask.span.hi; first += warp) {
    int64_t present = -1, absent = -1;
    for (int64_t lane = first; lane < std::min<int64_t>(first + warp, kernel_.block); ++lane) {
      const bool here = lane >= mask.span.lo && lane < mask.span.hi && mask[lane];
      (here ? present : absent) = lane;
    }
    if (present >= 0 && absent >= 0) memory_.report(Report::Kind::kBadLane, node, "", 0, present, absent);
  }
}

void BlockRunner::shuffle(const Node& node, const Mask& mask) {
  run_steps(node.steps, node.cost, mask);
  check_whole_warps(node, mask);
  memory_.counters.shuffles += mask.active;
  const auto& n = std::get<Shuffle>(node.statement->v);
  const int64_t* lanes = at<int64_t>(*node.lane);
  const auto exchange = [&]<class T>(T*) {
    const T* in = at<T>(node.value);
    std::vector<T> out(static_cast<size_t>(program_.lanes));
    for (int64_t lane = mask.span.lo; lane < mask.span.hi; ++lane) {
      if (!mask[lane]) continue;
      const int64_t base = lane / kernel_.warp * kernel_.warp;
      const int64_t given = lanes[node.lane->uniform ? 0 : lane];
      const int64_t from = base + (n.mode == ShuffleMode::kXor ? (lane - base) ^ given : given);
      const bool exists = from >= base && from < std::min<int64_t>(base + kernel_.warp, kernel_.block);
      const bool here = exists && from >= mask.span.lo && from < mask.span.hi && mask[from];
      if (!here) memory_.report(Report::Kind::kBadLane, node, "", from - base, lane, exists ? from : -1);
      out[static_cast<size_t>(lane)] = in[node.value.uniform ? 0 : here ? from : lane];
    }
    store_local(node, mask, reinterpret_cast<const std::byte*>(out.data()), false);
  };
  switch (lane_of(node.dtype)) {
    case Lane::kF32: return exchange(static_cast<float*>(nullptr));
    case Lane::kF64: return exchange(static_cast<double*>(nullptr));
    case Lane::kInt: return exchange(static_cast<int64_t*>(nullptr));
  }
}

void BlockRunner::vote(const Node& node, const Mask& mask) {
  run_steps(node.steps, node.cost, mask);
  check_whole_warps(node, mask);
  memory_.counters.shuffles += mask.active;
  const bool is_any = std::get<Vote>(node.statement->v).mode == VoteMode::kAny;
  const int64_t* condition = at<int64_t>(node.value);
  std::vector<int64_t> out(static_cast<size_t>(program_.lanes));
  const int64_t warp = kernel_.warp;
  for (int64_t first = mask.span.lo / warp * warp; first < mask.span.hi; first += warp) {
    const int64_t begin = std::max(first, mask.span.lo), end = std::min(first + warp, mask.span.hi);
    bool any = false, all = true;
    for (int64_t lane = begin; lane < end; ++lane) {
      if (!mask[lane]) continue;
      const bool holds = condition[node.value.uniform ? 0 : lane] != 0;
      any |= holds, all &= holds;
    }
    for (int64_t lane = begin; lane < end; ++lane) out[static_cast<size_t>(lane)] = (is_any ? any : all) ? 1 : 0;
  }
  store_local(node, mask, reinterpret_cast<const std::byte*>(out.data()), false);
}

// ---- Asynchronous copies

void BlockRunner::async_copy(const Node& node, const Mask& mask) {
  run_steps(node.steps, node.cost, mask);
  const auto lanes = static_cast<size_t>(program_.lanes);
  const Buffer& b = kernel_.buffers[static_cast<size_t>(node.place.slot)];
  const size_t bytes = static_cast<size_t>(node.width) * ir::byte_size(b.dtype);
  Copy copy{&node, std::vector<int64_t>(lanes, -1), groups_, std::vector<std::byte>(lanes * bytes)};
  // What is read, where the condition holds; zeros elsewhere.
  Mask reading = mask;
  std::vector<uint8_t> holds;
  if (node.has_condition) {
    holds.resize(lanes);
    const int64_t* condition = at<int64_t>(node.value);
    for (int64_t lane = mask.span.lo; lane < mask.span.hi; ++lane)
      holds[static_cast<size_t>(lane)] = mask[lane] && condition[node.value.uniform ? 0 : lane] != 0 ? 1 : 0;
    reading = Mask{holds.data(), mask.span, mask.active};
  }
  memory_.locate(node, node.from.slot, at<int64_t>(node.from.index), node.from.index.uniform, node.from.offset,
                 node.width, Touch::kRead, reading);
  memory_.counters.loads += mask.active;
  const std::byte* from = memory_.data(node.from.slot);
  const auto size = static_cast<int64_t>(ir::byte_size(b.dtype));
  for (int64_t lane = mask.span.lo; lane < mask.span.hi; ++lane) {
    const int64_t i = memory_.addresses()[lane];
    if (i >= 0) std::memcpy(copy.bytes.data() + static_cast<size_t>(lane) * bytes, from + i * size, bytes);
  }
  memory_.locate(node, node.place.slot, at<int64_t>(node.place.index), node.place.index.uniform, node.place.offset,
                 node.width, Touch::kIssue, mask);
  memory_.counters.stores += mask.active;
  for (int64_t lane = mask.span.lo; lane < mask.span.hi; ++lane)
    if (mask[lane]) copy.to[static_cast<size_t>(lane)] = memory_.addresses()[lane];
  copies_.push_back(std::move(copy));
}

void BlockRunner::async_wait(const Node& node, const Mask& mask) {
  for (Copy& copy : copies_) {
    const int slot = copy.node->place.slot;
    const Buffer& b = kernel_.buffers[static_cast<size_t>(slot)];
    const size_t size = ir::byte_size(b.dtype), bytes = static_cast<size_t>(copy.node->width) * size;
    for (int64_t lane = mask.span.lo; lane < mask.span.hi; ++lane) {
      const auto l = static_cast<size_t>(lane);
      if (!mask[lane] || copy.to[l] < 0 || copy.group[l] >= groups_[l] - node.width) continue;
      std::memcpy(memory_.data(slot) + static_cast<size_t>(copy.to[l]) * size, copy.bytes.data() + l * bytes, bytes);
      if (launch_.regions[static_cast<size_t>(slot)].marked)
        for (int64_t k = 0; k < copy.node->width; ++k) memory_.touch(node, slot, copy.to[l] + k, lane, Touch::kArrive);
      copy.to[l] = -1;
    }
  }
  std::erase_if(copies_,
                [](const Copy& c) { return std::all_of(c.to.begin(), c.to.end(), [](int64_t to) { return to < 0; }); });
}

// ---- Matrix instructions

void BlockRunner::load_matrix(const Node& node, const Mask& mask) {
  constexpr int64_t kRow = 8;
  run_steps(node.steps, node.cost, mask);
  check_whole_warps(node, mask);
  const auto& n = std::get<LoadMatrix>(node.statement->v);
  const auto lanes = static_cast<size_t>(program_.lanes);
  // Only lanes that give the address of a row read.
  std::vector<uint8_t> gives(lanes);
  int64_t count = 0;
  for (int64_t lane = mask.span.lo; lane < mask.span.hi; ++lane)
    count += gives[static_cast<size_t>(lane)] = mask[lane] && lane % kernel_.warp < kRow * n.count ? 1 : 0;
  const Mask reading{gives.data(), mask.span, count};
  memory_.locate(node, node.place.slot, at<int64_t>(node.place.index), node.place.index.uniform, node.place.offset,
                 kRow, Touch::kRead, reading);
  memory_.counters.loads += mask.active;
  std::vector<float> rows[kRow], out(lanes);
  for (int64_t k = 0; k < kRow; ++k) {
    rows[k].resize(lanes);
    memory_.load(node.place.slot, k, reading, reinterpret_cast<std::byte*>(rows[k].data()));
  }
  for (int item = 0; item < 2 * n.count; ++item) {
    for (int64_t lane = mask.span.lo; lane < mask.span.hi; ++lane) {
      const int64_t within = lane % kernel_.warp, base = lane - within + kRow * (item / 2);
      const int64_t along = 2 * (within % 4) + item % 2, across = within / 4;
      const int64_t row = base + (n.transposed ? along : across);
      out[static_cast<size_t>(lane)] = rows[n.transposed ? across : along][static_cast<size_t>(row)];
    }
    store_local(node, mask, reinterpret_cast<const std::byte*>(out.data()), false, item);
  }
}

namespace {

template <class T>
T as_factor(T value, bool) {
  return value;
}
template <>
float as_factor(float value, bool tf32) {
  if (!tf32) return value;
  uint32_t bits = 0;
  std::memcpy(&bits, &value, 4);
  bits &= 0xffffe000U;
  std::memcpy(&value, &bits, 4);
  return value;
}

int64_t multiply_add(int64_t a, int64_t b, int64_t c) { return static_cast<int32_t>(a * b + c); }
float multiply_add(float a, float b, float c) { return std::fma(a, b, c); }

}  // namespace

void BlockRunner::mma(const Node& node, const Mask& mask) {
  check_whole_warps(node, mask);
  const MmaInstruction& instruction = mma_instructions()[static_cast<size_t>(node.width)];
  const auto multiply = [&]<class T>(T*) {
    std::vector<T> a(static_cast<size_t>(instruction.m * instruction.k)),
        b(static_cast<size_t>(instruction.k * instruction.n)), c(static_cast<size_t>(instruction.m * instruction.n));
    const auto lanes_of = [&](size_t part, int item) {
      const Node::Part& p = node.parts[part];
      return reinterpret_cast<T*>(element(p.local, (p.constant ? 0 : *at<int64_t>(p.first)) + p.offset + item));
    };
    for (const Node::Part& p : node.parts)
      STAX_ASSERT(p.constant || p.first.uniform, "kernel {}: a fragment that begins elsewhere for each thread",
                  kernel_.name);
    const int64_t warp = kernel_.warp;
    for (int64_t first = mask.span.lo / warp * warp; first + warp <= kernel_.block && first < mask.span.hi;
         first += warp) {
      if (!mask[first]) continue;
      ++memory_.counters.mma;
      const auto gather = [&](size_t part, const FragmentMap& map, int columns, std::vector<T>& matrix, bool tf32) {
        for (int item = 0; item < map.items; ++item) {
          const T* lanes = lanes_of(part, item);
          for (int lane = 0; lane < warp; ++lane)
            matrix[static_cast<size_t>(map.row(lane, item) * columns + map.column(lane, item))] =
                as_factor(lanes[first + lane], tf32);
        }
      };
      gather(1, instruction.a, instruction.k, a, instruction.tf32);
      gather(2, instruction.b, instruction.n, b, instruction.tf32);
      gather(3, instruction.c, instruction.n, c, false);
      for (int row = 0; row < instruction.m; ++row) {
        for (int column = 0; column < instruction.n; ++column) {
          T sum = c[static_cast<size_t>(row * instruction.n + column)];
          for (int k = 0; k < instruction.k; ++k)
            sum = multiply_add(a[static_cast<size_t>(row * instruction.k + k)],
                               b[static_cast<size_t>(k * instruction.n + column)], sum);
          c[static_cast<size_t>(row * instruction.n + column)] = sum;
        }
      }
      for (int item = 0; item < instruction.c.items; ++item) {
        T* lanes = lanes_of(0, item);
        for (int lane = 0; lane < warp; ++lane)
          lanes[first + lane] =
              c[static_cast<size_t>(instruction.c.row(lane, item) * instruction.n + instruction.c.column(lane, item))];
      }
    }
  };
  if (lane_of(instruction.sum) == Lane::kInt) {
    multiply(static_cast<int64_t*>(nullptr));
  } else {
    multiply(static_cast<float*>(nullptr));
  }
}

}  // namespace stax::thread
