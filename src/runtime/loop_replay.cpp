// SPDX-License-Identifier: Apache-2.0
#include "runtime/loop_replay.h"

#include <algorithm>
#include <cstring>

#include "program/steps.h"
#include "support/error.h"

namespace stax::runtime {

using namespace program;

namespace {

constexpr int64_t kAlignment = 64;

bool contains(const std::vector<ValueRef>& list, ValueRef v) {
  return std::find(list.begin(), list.end(), v) != list.end();
}

}  // namespace

bool LoopReplay::fits(const Shared& shared, const LoopStep& s) {
  const Program& program = *shared.program;
  const BlockSpec& body = program.blocks[s.body];
  const size_t carried = s.initial.size(), first = body.outputs.size() - s.results.size();
  if (!shared.unified || shared.options.observer || s.trip_count == kNone || body.segments.size() != 1 ||
      !s.body_bindings.empty() || !s.bindings.empty())
    return false;
  // How much a loop with a condition scans is known in the end only.
  if ((first == 1 || s.condition != kNone) && s.results.size() > carried) return false;
  for (const Step& step : body.steps)
    if (!std::holds_alternative<LaunchStep>(step) && !std::holds_alternative<CopyStep>(step) &&
        !std::holds_alternative<AliasStep>(step))
      return false;
  for (size_t k = 0; k < body.outputs.size(); ++k) {
    if (program.values[body.outputs[k]].is_sequence) return false;
    const ValueRef root = root_of(program, body.outputs[k]);
    // A value that goes from one carried value to another would live for more than two trips.
    const bool is_carried = k >= first && k - first < carried;
    const bool stays = is_carried && root == body.inputs[k - first + 1];
    if ((is_carried || k < first) && !stays && contains(body.inputs, root)) return false;
    if (root == body.inputs[0]) return false;
  }
  return true;
}

LoopReplay::LoopReplay(Context& context, const LoopStep& step)
    : c_(context),
      program_(context.program_),
      step_(step),
      body_(program_.blocks[step.body]),
      first_output_(static_cast<uint32_t>(body_.outputs.size() - step.results.size())) {
  std::vector<ValueRef> made;
  for (const auto& list : c_.shared_.results[step.body])
    for (ValueRef v : list)
      if (program_.values[v].storage == Storage::kOwned) made.push_back(v);
  const auto output = [&](size_t k) { return root_of(program_, body_.outputs[first_output_ + k]); };
  const size_t carried = step.initial.size(), scanned = step.results.size() - carried;
  for (uint32_t k = 0; k < scanned; ++k)
    moving_.push_back({.bytes_of = body_.outputs[first_output_ + carried + k], .scan = k});
  // What is scanned twice is made in one of the slices.
  for (size_t k = 0; k < carried + scanned; ++k) {
    if (!contains(made, output(k)) || moving_of(output(k)) != kNone) continue;
    Moving value{.value = output(k), .bytes_of = body_.outputs[first_output_ + k]};
    for (uint32_t s = 0; s < scanned && value.slice == kNone; ++s)
      if (output(carried + s) == output(k)) value.slice = s;
    moving_.push_back(value);
  }
  for (size_t k = 0; k < carried; ++k) carried_.push_back({moving_of(output(k)), output(k), {}});
  pointers_.resize(moving_.size() + carried, nullptr);
  for (const Step& s : body_.steps) {
    Call call{};
    call.first = static_cast<uint32_t>(roots_.size());
    if (const auto* launch = std::get_if<LaunchStep>(&s)) {
      call.step = launch;
      for (ValueRef v : launch->arguments) add_argument(v);
      // Arguments that a version adds for itself.
      size_t most = 0;
      for (const LaunchVersion& v : launch->versions) most = std::max(most, v.scratch.size());
      roots_.resize(roots_.size() + most, kNone);
    } else if (const auto* copy = std::get_if<CopyStep>(&s)) {
      call.bytes_of = copy->to;
      add_argument(copy->from);
      add_argument(copy->to);
    } else {
      continue;  // an alias is its root
    }
    call.arguments = static_cast<uint32_t>(roots_.size()) - call.first;
    calls_.push_back(call);
  }
  for (uint32_t m = 0; m < moving_.size(); ++m) {
    if (moving_[m].scan == kNone) continue;
    Call call{};
    call.bytes_of = moving_[m].bytes_of;
    call.slice = m;
    call.first = static_cast<uint32_t>(roots_.size());
    call.arguments = 2;
    add_argument(moving_[m].bytes_of);
    patches_.push_back({static_cast<uint32_t>(roots_.size()), m});
    roots_.push_back(kNone);
    calls_.push_back(call);
  }
  places_.resize(roots_.size(), nullptr);
  if (first_output_ == 1) condition_pointer_ = moving_of(root_of(program_, body_.outputs[0]));
}

uint32_t LoopReplay::moving_of(ValueRef root) const {
  for (uint32_t m = 0; m < moving_.size(); ++m)
    if (moving_[m].value == root) return m;
  return kNone;
}

/// The next place is that value's.
void LoopReplay::add_argument(ValueRef v) {
  const ValueRef root = root_of(program_, v);
  const uint32_t place = static_cast<uint32_t>(roots_.size());
  roots_.push_back(root);
  if (const uint32_t m = moving_of(root); m != kNone) patches_.push_back({place, m});
  for (uint32_t k = 0; k < carried_.size(); ++k)
    if (root == body_.inputs[k + 1]) patches_.push_back({place, static_cast<uint32_t>(moving_.size()) + k});
}

int64_t LoopReplay::bytes_of(ValueRef v) const {
  return symbolic::saturating_mul(c_.count_of(v), static_cast<int64_t>(ir::byte_size(program_.values[v].dtype)));
}

void LoopReplay::enter(int64_t trips) {
  c_.enter_segment(step_.body, 0);
  trip_ = 0;
  trips_ = trips;
  fault_ = {};
  failed_ = nullptr;
  error_ = nullptr;
  params_.clear();
  scratch_.clear();
  scratch_bytes_ = work_ = largest_work_ = 0;
  c_.set_place(body_.inputs[0], {&trip_, nullptr, &trip_});
  for (size_t k = 0; k < carried_.size(); ++k) {
    carried_[k].initial = c_.place_of(step_.initial[k]);
    c_.set_place(body_.inputs[k + 1], carried_[k].initial);
  }
  for (const auto& list : c_.shared_.results[step_.body])
    for (ValueRef v : list)
      if (moving_of(v) == kNone) c_.allocate_result(step_.body, v, step_.source);
  // Slices come first.
  for (Moving& m : moving_) {
    const int64_t bytes = bytes_of(m.bytes_of);
    const bool is_slice = m.scan != kNone;
    m.in_slice = m.slice != kNone && bytes % kAlignment == 0;
    if (m.in_slice) {
      const Moving& slice = moving_[m.slice];
      m.base = slice.base, m.stride = slice.stride, m.mask = slice.mask;
      continue;
    }
    m.stride = is_slice ? bytes : (bytes + kAlignment - 1) / kAlignment * kAlignment;
    m.mask = is_slice ? -1 : 1;
    m.memory = c_.shared_.memory->allocate(symbolic::saturating_mul(is_slice ? trips : 2, m.stride), step_.source);
    m.base = static_cast<char*>(m.memory.get());
  }
  for (size_t p = 0; p < roots_.size(); ++p)
    if (roots_[p] != kNone) places_[p] = c_.data_[roots_[p]];
  for (Call& call : calls_) prepare(call);
  for (Call& call : calls_)
    call.launch.params = std::span<const int64_t>(params_).subspan(call.first_param, call.params);
  if (first_output_ == 1) condition_ = c_.data_[root_of(program_, body_.outputs[0])];
}

void LoopReplay::prepare(Call& call) {
  if (!call.step) {
    call.bytes = bytes_of(call.bytes_of);
    call.skipped = call.slice != kNone && std::any_of(moving_.begin(), moving_.end(), [&](const Moving& m) {
                     return m.in_slice && m.slice == call.slice;
                   });
    return;
  }
  const LaunchStep& s = *call.step;
  call.skipped = c_.value(s.empty_if_zero) <= 0;
  if (call.skipped) return;
  const LaunchVersion& version = c_.choose(s);
  call.launch = {};
  call.first_param = params_.size();
  c_.append_params(s, version, params_);
  call.params = params_.size() - call.first_param;
  size_t arguments = s.arguments.size();
  for (ExprRef e : version.scratch) {
    scratch_.push_back(c_.shared_.memory->allocate(c_.value(e), s.source));
    places_[call.first + arguments++] = scratch_.back().get();
  }
  c_.describe(s, version, call.launch);
  call.launch.buffers = std::span<void* const>(places_).subspan(call.first, arguments);
  call.launch.fault = &fault_;
  scratch_bytes_ = std::max(scratch_bytes_, call.launch.scratch_bytes);
  largest_work_ = std::max(largest_work_, call.launch.work);
  work_ = symbolic::saturating_add(work_, symbolic::saturating_mul(trips_, call.launch.work));
}

/// The places of this trip.
void LoopReplay::point() {
  const size_t inputs = moving_.size();
  for (size_t k = 0; k < carried_.size(); ++k) {
    const Carried& carried = carried_[k];
    if (trip_ == 0)
      pointers_[inputs + k] = carried.initial.data;
    else if (carried.moving != kNone)
      pointers_[inputs + k] = pointers_[carried.moving];
    else
      pointers_[inputs + k] = c_.data_[carried.root];
  }
  for (size_t m = 0; m < inputs; ++m) pointers_[m] = moving_[m].base + moving_[m].stride * (trip_ & moving_[m].mask);
  for (const Patch& p : patches_) places_[p.place] = pointers_[p.pointer];
}

void LoopReplay::run(int worker) noexcept {
  Device& device = *c_.shared_.device;
  try {
    for (bool go = true; go && trip_ < trips_; ++trip_) {
      point();
      for (Call& call : calls_) {
        if (call.skipped) continue;
        if (!call.step) {
          if (call.bytes > 0)
            device.copy(places_[call.first + 1], places_[call.first], static_cast<size_t>(call.bytes));
          continue;
        }
        call.launch.worker = worker;
        failed_ = call.step;
        device.launch(call.launch);
        if (fault_.failed) return;
      }
      if (first_output_ == 1)
        go = ir::load_element(program_.values[body_.outputs[0]].dtype,
                              condition_pointer_ == kNone ? condition_ : pointers_[condition_pointer_], 0)
                 .i != 0;
    }
    failed_ = nullptr;
  } catch (...) {
    error_ = std::current_exception();
  }
}

void LoopReplay::leave() {
  for (const Call& call : calls_) {
    if (!call.step || call.skipped) continue;
    c_.launches_ += trip_;
    if (c_.statistics_) c_.used_[call.launch.kernel] = true;
  }
  c_.launched_ = true;
  if (error_) std::rethrow_exception(error_);
  if (fault_.failed) c_.raise(fault_, failed_->source);
  for (size_t k = 0; k < carried_.size(); ++k) {
    const Carried& carried = carried_[k];
    Place place;
    if (carried.moving == kNone) {
      place = c_.place_of(carried.root);
    } else if (const Moving& m = moving_[carried.moving]; !m.in_slice) {
      place = {pointers_[carried.moving], m.memory, nullptr};
    } else {
      // The last slice of a result would keep all of it.
      place.owner = c_.shared_.memory->allocate(m.stride, step_.source);
      place.data = place.owner.get();
      c_.copy(place.data, pointers_[carried.moving], m.stride);
    }
    c_.set_place(step_.results[k], std::move(place));
  }
  for (const Moving& m : moving_)
    if (m.scan != kNone) c_.set_place(step_.results[carried_.size() + m.scan], {m.base, m.memory, nullptr});
  drop();
}

void LoopReplay::drop() {
  for (Moving& m : moving_) m.memory.reset();
  for (Carried& carried : carried_) carried.initial = {};
  scratch_.clear();
}

}  // namespace stax::runtime
