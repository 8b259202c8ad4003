// SPDX-License-Identifier: Apache-2.0
#include "runtime/executor.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <chrono>
#include <cstring>

#include "program/steps.h"
#include "runtime/loop_replay.h"
#include "support/error.h"

namespace stax::runtime {

using namespace program;

namespace {

// An arena that has been more than twice too large for this many calls is given back.
constexpr int kCallsUntilTrim = 64;
constexpr int64_t kTrimAbove = int64_t{16} << 20;

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

Shared::Shared(std::shared_ptr<const Program> p, std::shared_ptr<Device> d, const ModuleOptions& o)
    : program(std::move(p)),
      device(std::move(d)),
      unified(device->unified()),
      options(o),
      evaluator(*program),
      memory(std::make_shared<MemoryPool>(device)),
      host_memory(unified ? memory : std::make_shared<MemoryPool>(std::make_shared<HostDevice>())),
      pool(o.threads),
      plans(o.plan_cache_entries),
      demoted(o.check_every > 0 ? program->kernels.size() : 0) {
  for (const KernelSpec& k : program->kernels) {
    auto it = options.forced_versions.find(k.family);
    if (it == options.forced_versions.end()) it = options.forced_versions.find("*");
    forced.push_back(it == options.forced_versions.end() ? kNone : it->second);
  }
  upload_constants();
  find_results();
  replayed.assign(program->blocks.size(), false);
  for (const BlockSpec& block : program->blocks)
    for (const Step& step : block.steps)
      if (const auto* loop = std::get_if<LoopStep>(&step)) replayed[loop->body] = LoopReplay::fits(*this, *loop);
  find_placed_outputs();
}

void Shared::upload_constants() {
  for (size_t k = 0; k < program->constants.size(); ++k) {
    const ir::Literal& c = program->constants[k];
    int64_t bytes = static_cast<int64_t>(c.bytes());
    if (unified) {
      constants.push_back(const_cast<void*>(c.data()));
      memory->count_external(bytes);
      continue;
    }
    uploaded_.push_back(memory->allocate(bytes, fmt::format("weight {} of {}", k + 1, program->constants.size())));
    constants.push_back(uploaded_.back().get());
    if (bytes > 0) device->copy_in(constants.back(), c.data(), c.bytes());
  }
}

void Shared::find_results() {
  std::vector<bool> made(program->values.size(), false);
  for (const BlockSpec& block : program->blocks) {
    auto& steps = results.emplace_back();
    for (const Step& step : block.steps) {
      auto& list = steps.emplace_back();
      bool planned = std::holds_alternative<LaunchStep>(step) || std::holds_alternative<CopyStep>(step);
      if (const auto* s = std::get_if<ProcedureStep>(&step))
        planned = s->procedure == Procedure::kTopK || s->procedure == Procedure::kDeterminant;
      if (const auto* s = std::get_if<LaunchStep>(&step)) {
        launch_numbers.emplace(s, static_cast<uint32_t>(launches.size()));
        launches.push_back(s);
      }
      for_each_result(step, [&](ValueRef v) {
        Storage storage = program->values[v].storage;
        if (planned && !made[v] && (storage == Storage::kArena || storage == Storage::kOwned)) list.push_back(v);
        made[v] = true;
      });
    }
    for (ValueRef v : block.inputs) made[v] = true;
  }
}

void Shared::find_placed_outputs() {
  const BlockSpec& block = program->blocks[0];
  placed_output.assign(program->values.size(), kNone);
  // By expression: the segment of the model from which it is known.
  std::vector<uint32_t> known_from(program->exprs.nodes().size(), kNone);
  for (uint32_t k = 0; k < block.segments.size(); ++k)
    for (ExprRef e : block.segments[k].nodes) known_from[e] = k;
  std::vector<uint32_t> made_in(program->values.size(), kNone);
  uint32_t segment = 0;
  for (uint32_t s = 0; s < block.steps.size(); ++s) {
    while (segment + 1 < block.segments.size() && block.segments[segment + 1].first_step <= s) ++segment;
    for (ValueRef v : results[0][s]) made_in[v] = segment;
  }
  for (uint32_t o = 0; o < program->outputs.size(); ++o) {
    const ValueSpec& spec = program->values[program->outputs[o].value];
    auto known_in = [&](uint32_t in) {
      if (spec.is_sequence || (spec.rank != kNone && (known_from[spec.rank] == kNone || known_from[spec.rank] > in)))
        return false;
      return std::all_of(spec.extents.begin(), spec.extents.end(),
                         [&](ExprRef e) { return known_from[e] != kNone && known_from[e] <= in; });
    };
    output_is_planned.push_back(known_in(0));
    ValueRef v = root_of(*program, program->outputs[o].value);
    if (made_in[v] != kNone && placed_output[v] == kNone && program->values[v].storage == Storage::kOwned &&
        known_in(made_in[v]))
      placed_output[v] = o;
  }
}

Context::Context(Shared& shared)
    : shared_(shared), program_(*shared.program), workers_(shared.pool, *shared.host_memory) {
  symbols_.assign(program_.symbols.size(), 0);
  values_.assign(shared.evaluator.size(), 0);
  data_.assign(program_.values.size(), nullptr);
  host_.assign(program_.values.size(), nullptr);
  owners_.resize(program_.values.size());
  sequences_.resize(program_.values.size());
  iteration_.assign(program_.blocks.size(), 0);
  replays_.resize(program_.blocks.size());
  procedure_scratch_.resize(static_cast<size_t>(shared.pool.threads()));
  first_uses_.resize(program_.symbols.size());
  for (const BlockSpec& b : program_.blocks) arenas_.emplace_back(b.segments.size());
  for (size_t v = 0; v < program_.values.size(); ++v) {
    if (program_.values[v].storage != Storage::kConstant) continue;
    data_[v] = shared.constants[program_.values[v].index];
    host_[v] = program_.constants[program_.values[v].index].data();
  }
  if (shared.unified) return;
  seen_faults_.resize(shared.launches.size());
  size_t bytes = seen_faults_.size() * sizeof(Fault);
  faults_ = shared.memory->allocate(static_cast<int64_t>(bytes), "faults of launches");
  if (bytes > 0) shared.device->copy_in(faults_.get(), seen_faults_.data(), bytes);
}

std::vector<std::optional<std::vector<int64_t>>> Context::output_extents(std::span<const Item> inputs) {
  bind_inputs(inputs);
  plan_first_segment();
  std::vector<std::optional<std::vector<int64_t>>> result;
  for (size_t k = 0; k < program_.outputs.size(); ++k)
    result.push_back(shared_.output_is_planned[k] ? std::optional(extents_of(program_.outputs[k].value))
                                                  : std::nullopt);
  for (auto& s : sequences_) s.reset();
  return result;
}

Context::~Context() = default;

void Context::call(std::span<const Item> inputs, std::vector<Item>& outputs, CallStatistics* statistics, bool profile,
                   OutputPlaces* places) {
  statistics_ = statistics;
  places_ = places;
  profile_ = profile && statistics;
  launches_ = 0;
  checking_ = shared_.options.check_every > 0 && shared_.calls++ % shared_.options.check_every == 0;
  inputs_ = inputs;
  if (statistics) used_.assign(program_.kernels.size(), false);
  if (profile_) statistics->kernels.assign(program_.kernels.size(), {});
  int64_t start = now_ns();
  bind_inputs(inputs);
  plan_first_segment();
  if (statistics) statistics->dispatch_ns = now_ns() - start;
  struct Release {  // whatever happens, nothing of this call stays behind
    Context& c;
    ~Release() {
      for (auto& o : c.owners_) o.reset();
      for (auto& s : c.sequences_) s.reset();
      for (auto& r : c.replays_)
        if (r) r->drop();
      c.host_results_.clear();
      c.host_operands_.clear();
    }
  } release{*this};
  if (!shared_.unified) upload_inputs(inputs);
  run_block(0);
  take_outputs(outputs);
  if (statistics) {
    statistics->launches = launches_;
    statistics->versions_used.clear();
    for (uint32_t k = 0; k < used_.size(); ++k)
      if (used_[k]) statistics->versions_used.push_back(k);
  }
  shared_.statistics.launches += launches_;
  shared_.statistics.checked_calls += checking_;
}

void Context::upload_inputs(std::span<const Item> inputs) {
  for (size_t k = 0; k < inputs.size(); ++k) {
    if (inputs[k].is_sequence) continue;  // sequences stay on the host
    ValueRef v = program_.inputs[k].value;
    const Tensor& t = inputs[k].tensor;
    int64_t bytes = static_cast<int64_t>(t.bytes());
    allocate_owned(v, bytes, "input '" + program_.inputs[k].name + "'");
    host_[v] = t.data;
    if (bytes > 0) shared_.device->copy_in(data_[v], t.data, static_cast<size_t>(bytes));
  }
}

void Context::take_outputs(std::vector<Item>& outputs) {
  if (!shared_.unified) look_for_faults();
  outputs.resize(program_.outputs.size());
  for (uint32_t k = 0; k < program_.outputs.size(); ++k) {
    ValueRef v = program_.outputs[k].value;
    Item& item = outputs[k];
    item.is_sequence = program_.values[v].is_sequence;
    item.sequence.clear();
    if (item.is_sequence) {
      item.tensor = {};
      item.sequence = *sequences_[v];
      continue;
    }
    void* place = nullptr;
    if (!shared_.unified && places_) {
      int64_t bytes = count_of(v) * static_cast<int64_t>(ir::byte_size(program_.values[v].dtype));
      extents_of(v, extents_);
      place = places_->place(k, extents_, bytes);
      if (place && bytes > 0) shared_.device->copy_out(place, data_[v], static_cast<size_t>(bytes));
    }
    if (!place) {
      take_tensor(v, item.tensor);
      continue;
    }
    item.tensor.dtype = program_.values[v].dtype;
    extents_of(v, item.tensor.extents);
    item.tensor.data = place;
    item.tensor.owner = std::shared_ptr<void>(std::shared_ptr<void>(), place);
  }
}

// ---- segments

void Context::plan_first_segment() {
  const Segment& first = program_.blocks[0].segments[0];
  std::vector<int64_t>& key = key_;
  key.clear();
  for (size_t s = 0; s < symbols_.size(); ++s)
    if (program_.symbol_points[s] == first.point) key.push_back(symbols_[s]);
  // The shape of the call before: its values are still here.
  if (plan_ && plan_->symbols == key) {
    ++shared_.statistics.plan_hits;
    return;
  }
  plan_ = shared_.plans.find(key);
  if (plan_) {
    for (size_t k = 0; k < first.nodes.size(); ++k) values_[first.nodes[k]] = plan_->values[k];
    ++shared_.statistics.plan_hits;
    return;
  }
  ++shared_.statistics.plan_misses;
  shared_.evaluator.run(first.nodes, symbols_, values_);
  auto plan = std::make_shared<ShapePlan>();
  plan->symbols = key;
  plan->values.reserve(first.nodes.size());
  for (ExprRef e : first.nodes) plan->values.push_back(values_[e]);
  plan_ = plan;
  shared_.plans.insert(std::move(plan));
}

void Context::enter_segment(uint32_t block, uint32_t segment) {
  const Segment& s = program_.blocks[block].segments[segment];
  if (block != 0 || segment != 0) shared_.evaluator.run(s.nodes, symbols_, values_);
  prepare_arena(block, segment);
}

void Context::prepare_arena(uint32_t block, uint32_t segment) {
  const Segment& s = program_.blocks[block].segments[segment];
  if (s.arena_bytes == kNone) return;
  Arena& arena = arenas_[block][segment];
  int64_t need = value(s.arena_bytes);
  if (need == 0) return;
  arena.recent_need = std::max(arena.recent_need, need);
  if (++arena.calls >= kCallsUntilTrim) {
    if (arena.bytes > kTrimAbove && arena.bytes > 2 * arena.recent_need) arena.memory.reset(), arena.bytes = 0;
    arena.calls = 0;
    arena.recent_need = need;
  }
  if (need <= arena.bytes && need >= 0) return;
  arena.memory.reset();
  arena.bytes = 0;
  arena.memory = shared_.memory->allocate(need, "intermediate values of this shape");
  arena.bytes = need;
}

void Context::run_block(uint32_t number) {
  const BlockSpec& block = program_.blocks[number];
  uint32_t segment = 0;
  enter_segment(number, 0);
  const auto& results = shared_.results[number];
  for (uint32_t s = 0; s < block.steps.size(); ++s) {
    while (segment + 1 < block.segments.size() && block.segments[segment + 1].first_step == s)
      enter_segment(number, ++segment);
    const Step& step = block.steps[s];
    if (std::holds_alternative<LoopStep>(step) && run_side_by_side(block, s)) continue;
    for (ValueRef v : results[s]) allocate_result(number, v, source_of(step));
    StepObserver* observer = shared_.options.observer;
    if (observer) observer->before(*this, number, s);
    std::visit([&](const auto& exact) { run_step(exact); }, step);
    if (!host_operands_.empty() || !host_results_.empty()) finish_host_step();
    if (observer) observer->after(*this, number, s);
  }
  while (segment + 1 < block.segments.size()) enter_segment(number, ++segment);
}

void Context::allocate_result(uint32_t block, ValueRef v, std::string_view source) {
  const ValueSpec& spec = program_.values[v];
  host_[v] = nullptr;
  if (spec.storage == Storage::kArena) {
    data_[v] = static_cast<char*>(arenas_[block][spec.arena_segment].memory.get()) + value(spec.offset);
    return;
  }
  if (places_ && shared_.unified && block == 0 && shared_.placed_output[v] != kNone) {
    uint32_t output = shared_.placed_output[v];
    extents_of(program_.outputs[output].value, extents_);
    if (void* place = places_->place(output, extents_, value(spec.bytes))) {
      owners_[v] = std::shared_ptr<void>(std::shared_ptr<void>(), place);
      data_[v] = place;
      return;
    }
  }
  owners_[v] = shared_.memory->allocate(value(spec.bytes), source);
  data_[v] = owners_[v].get();
}

// ---- steps

namespace {

// For 0 <= x < 2^31: x / d = (high half of x * multiplier + x) >> shift, all in unsigned 32 bits.
struct Divisor {
  int64_t multiplier = 1, shift = 0;
};
Divisor divisor(int64_t d) {
  if (d <= 1) return {};
  const int shift = 64 - std::countl_zero(static_cast<uint64_t>(d - 1));
  const uint64_t excess = (uint64_t{1} << shift) - static_cast<uint64_t>(d);
  return {static_cast<int64_t>((excess << 32) / static_cast<uint64_t>(d) + 1), shift};
}

}  // namespace

const LaunchVersion& Context::choose(const LaunchStep& s) const {
  const auto demoted = [&](const LaunchVersion& v) { return !shared_.demoted.empty() && shared_.demoted[v.kernel]; };
  uint32_t forced = shared_.forced[s.versions[0].kernel];
  if (forced != kNone) {
    const LaunchVersion& version = s.versions[std::min<size_t>(forced, s.versions.size() - 1)];
    if ((version.necessary == kNone || value(version.necessary) != 0) && !demoted(version)) return version;
  }
  size_t k = 0;
  const auto fits = [&](const LaunchVersion& v) { return v.guard == kNone || value(v.guard) != 0; };
  while (k + 1 < s.versions.size() && (!fits(s.versions[k]) || demoted(s.versions[k]))) ++k;
  return s.versions[k];
}

void Context::run_step(const LaunchStep& s) {
  if (value(s.empty_if_zero) <= 0) return;
  const LaunchVersion& version = choose(s);
  buffers_.clear();
  for (ValueRef v : s.arguments) buffers_.push_back(data_[v]);
  if (checking_) return launch_checked(s, version);
  if (const Fault fault = launch_counted(s, version); fault.failed) raise(fault, s.source);
}

void Context::append_params(const LaunchStep& s, const LaunchVersion& version, std::vector<int64_t>& params) const {
  for (ExprRef e : s.params) params.push_back(value(e));
  for (ExprRef e : version.divisors) {
    const Divisor d = divisor(value(e));
    params.push_back(d.multiplier);
    params.push_back(d.shift);
  }
}

void Context::describe(const LaunchStep& s, const LaunchVersion& version, Launch& launch) {
  launch.kernel = version.kernel;
  launch.iterations = value(version.iterations);
  launch.work = value(s.work);
  if (version.scratch_bytes != kNone) launch.scratch_bytes = value(version.scratch_bytes);
  launch.workers = &workers_;
  for (size_t k = 0; k < 3; ++k)
    if (version.grid[k] != kNone) launch.grid[k] = value(version.grid[k]);
  if (version.block != kNone) launch.block = value(version.block);
  if (version.shared_bytes != kNone) launch.shared_bytes = value(version.shared_bytes);
}

Fault Context::launch(const LaunchStep& s, const LaunchVersion& version) {
  params_.clear();
  append_params(s, version, params_);
  std::vector<std::shared_ptr<void>>
      scratch;  // given back when the launch is under way: what follows on the device comes later
  for (ExprRef e : version.scratch) {
    scratch.push_back(shared_.memory->allocate(value(e), s.source));
    buffers_.push_back(scratch.back().get());
  }
  Fault fault;
  Launch launch;
  describe(s, version, launch);
  launch.buffers = buffers_;
  launch.params = params_;
  launch.fault = shared_.unified ? &fault : static_cast<Fault*>(faults_.get()) + shared_.launch_numbers.at(&s);
  try {
    shared_.device->launch(launch);
  } catch (const UserError& e) {
    throw UserError(s.source + ": " + e.what());
  }
  launched_ = true;
  buffers_.resize(s.arguments.size());
  return fault;
}

Fault Context::launch_counted(const LaunchStep& s, const LaunchVersion& version) {
  const int64_t start = profile_ ? now_ns() : 0;
  const Fault fault = launch(s, version);
  if (profile_) {
    shared_.device->synchronize();
    KernelUse& use = statistics_->kernels[version.kernel];
    use.ns += now_ns() - start;
    ++use.launches;
    if (s.operations != kNone) use.operations += value(s.operations);
    for (ValueRef v : s.arguments)
      if (program_.values[v].bytes != kNone) use.bytes += value(program_.values[v].bytes);
  }
  ++launches_;
  if (statistics_) used_[version.kernel] = true;
  return fault;
}

void Context::run_step(const CopyStep& s) { copy(data_[s.to], data_[s.from], value(program_.values[s.to].bytes)); }

void Context::run_step(const AliasStep& s) { set_place(s.to, place_of(s.from)); }

void Context::run_step(const ReshapeDynamicStep& s) {
  std::vector<int64_t> from = extents_of(s.data), shape;
  int64_t n = count_of(s.shape);
  const auto* elements = static_cast<const int64_t*>(host_data(s.shape));
  if (n > 8)
    user_error("{}: a shape of {} extents, more than the 8 that a value of run-time rank may have", s.source, n);
  int64_t known = 1, unknown = -1, total = count_of(s.data);
  for (int64_t k = 0; k < n; ++k) {
    int64_t e = elements[k];
    if (e == -1) {
      if (unknown >= 0) user_error("{}: the shape has more than one -1", s.source);
      unknown = k;
    } else if (e == 0 && !s.allow_zero) {
      if (k >= static_cast<int64_t>(from.size()))
        user_error("{}: the shape has 0 (copy) at axis {}, but the input has rank {}", s.source, k, from.size());
      e = from[static_cast<size_t>(k)];
    } else if (e < 0) {
      user_error("{}: the shape has the extent {}", s.source, e);
    }
    shape.push_back(e);
    if (e != -1) known = symbolic::saturating_mul(known, e);
  }
  if (unknown >= 0) shape[static_cast<size_t>(unknown)] = known == 0 ? 0 : total / known;
  int64_t made = 1;
  for (int64_t e : shape) made = symbolic::saturating_mul(made, e);
  if (made != total)
    user_error("{}: cannot reshape [{}] with {} elements to [{}] with {} elements", s.source, fmt::join(from, ", "),
               total, fmt::join(std::vector<int64_t>(elements, elements + n), ", "), made);
  define(s.defines[0], static_cast<int64_t>(shape.size()), s.source);
  size_t pad = s.defines.size() - 1 - shape.size();
  for (size_t k = 1; k < s.defines.size(); ++k) define(s.defines[k], k - 1 < pad ? 1 : shape[k - 1 - pad], s.source);
  set_place(s.result, place_of(s.data));
}

void Context::run_step(const BindStep& s) {
  DType t = program_.values[s.value].dtype;
  if (count_of(s.value) < static_cast<int64_t>(s.defines.size()))
    user_error("{}: '{}' has {} elements and {} are needed", s.source, program_.values[s.value].name, count_of(s.value),
               s.defines.size());
  const void* elements = host_data(s.value);
  for (size_t k = 0; k < s.defines.size(); ++k)
    define(s.defines[k], ir::load_element(t, elements, static_cast<int64_t>(k)).i, s.source);
}

void Context::define(uint32_t symbol, int64_t v, std::string_view source) {
  const SymbolSpec& spec = program_.symbols[symbol];
  if (v < spec.lo || v > spec.hi) {
    if (spec.lo == 0 && v < 0)
      user_error("{}: the value {} is negative where a size is needed ('{}')", source, v, spec.name);
    user_error("{}: the value {} of '{}' is outside of its range {}..{}", source, v, spec.name, spec.lo, spec.hi);
  }
  symbols_[symbol] = v;
}

void Context::run_step(const CheckStep& s) {
  if (value(s.condition) != 0) return;
  // {0}, {1}, .. stand for the arguments; all other braces are of names.
  std::string text;
  for (size_t at = 0; at < s.message.size();) {
    size_t number = s.arguments.size();
    const char* first = s.message.data() + at + 1;
    const char* end = s.message.data() + s.message.size();
    if (s.message[at] == '{') {
      auto [after, error] = std::from_chars(first, end, number);
      if (error != std::errc() || after == end || *after != '}')
        number = s.arguments.size();
      else if (number < s.arguments.size())
        at = static_cast<size_t>(after + 1 - s.message.data());
    }
    if (number < s.arguments.size())
      text += std::to_string(value(s.arguments[number]));
    else
      text += s.message[at++];
  }
  throw UserError(text);
}

// ---- values

std::vector<int64_t> Context::padded_extents_of(ValueRef v) const {
  std::vector<int64_t> r;
  for (ExprRef e : program_.values[v].extents) r.push_back(value(e));
  return r;
}

void Context::extents_of(ValueRef v, std::vector<int64_t>& r) const {
  r.clear();
  for (ExprRef e : program_.values[v].extents) r.push_back(value(e));
  if (program_.values[v].rank != kNone) {
    int64_t rank = std::clamp<int64_t>(value(program_.values[v].rank), 0, static_cast<int64_t>(r.size()));
    r.erase(r.begin(), r.end() - rank);
  }
}

std::vector<int64_t> Context::extents_of(ValueRef v) const {
  std::vector<int64_t> r;
  extents_of(v, r);
  return r;
}

std::span<std::byte> Context::arena(uint32_t block, uint32_t segment) const {
  const Arena& arena = arenas_[block][segment];
  return {static_cast<std::byte*>(arena.memory.get()), static_cast<size_t>(arena.bytes)};
}

std::span<std::byte> Context::bytes(ValueRef v) const {
  size_t size = static_cast<size_t>(count_of(v)) * ir::byte_size(program_.values[v].dtype);
  return {static_cast<std::byte*>(data_[v]), size};
}

int64_t Context::count_of(ValueRef v) const {
  int64_t n = 1;
  for (ExprRef e : program_.values[v].extents) n = symbolic::saturating_mul(n, value(e));
  return n;
}

int64_t Context::read_int(ValueRef v) {
  if (count_of(v) < 1) user_error("'{}' must have one element and has none", program_.values[v].name);
  return ir::load_element(program_.values[v].dtype, host_data(v), 0).i;
}

void Context::bind(const std::vector<ExtentBinding>& bindings, uint32_t output, const std::vector<int64_t>& extents,
                   std::string_view source) {
  for (const ExtentBinding& b : bindings)
    if (b.output == output && b.axis != kNone && b.axis < extents.size()) define(b.symbol, extents[b.axis], source);
}

}  // namespace stax::runtime
