// SPDX-License-Identifier: Apache-2.0
#include "runtime/executor.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>

#include "program/steps.h"
#include "support/error.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace stax::runtime {

using namespace program;

namespace {

// Scalar operations that make it worth to wake another thread.
constexpr int64_t kWorkPerThread = 40'000;
// An arena that has been more than twice too large for this many calls is given back.
constexpr int kCallsUntilTrim = 64;
constexpr int64_t kTrimAbove = int64_t{16} << 20;

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Denormals count as zero while it lives, in this thread.
class FlushDenormals {
 public:
  explicit FlushDenormals(bool on) : on_(on) {
#if defined(__x86_64__)
    if (on_) saved_ = _mm_getcsr(), _mm_setcsr(saved_ | 0x8040u);
#endif
  }
  ~FlushDenormals() {
#if defined(__x86_64__)
    if (on_) _mm_setcsr(saved_);
#endif
  }

 private:
  bool on_;
  unsigned saved_ = 0;
};

}  // namespace

Shared::Shared(std::shared_ptr<const Program> p, std::unique_ptr<KernelBackend> b, ModuleOptions o)
    : program(std::move(p)),
      backend(std::move(b)),
      options(o),
      evaluator(*program),
      pool(o.threads),
      plans(o.plan_cache_entries) {
  std::vector<bool> made(program->values.size(), false);
  for (const BlockSpec& block : program->blocks) {
    auto& steps = results.emplace_back();
    for (const Step& step : block.steps) {
      auto& list = steps.emplace_back();
      bool planned = std::holds_alternative<LaunchStep>(step) || std::holds_alternative<CopyStep>(step);
      if (const auto* s = std::get_if<ProcedureStep>(&step))
        planned = s->procedure == Procedure::kTopK || s->procedure == Procedure::kDeterminant;
      for_each_result(step, [&](ValueRef v) {
        Storage storage = program->values[v].storage;
        if (planned && !made[v] && (storage == Storage::kArena || storage == Storage::kOwned)) list.push_back(v);
        made[v] = true;
      });
    }
    for (ValueRef v : block.inputs) made[v] = true;
  }
  for (const KernelSpec& k : program->kernels) {
    auto it = options.forced_versions.find(k.family);
    if (it == options.forced_versions.end()) it = options.forced_versions.find("*");
    forced.push_back(it == options.forced_versions.end() ? kNone : it->second);
  }
  find_placed_outputs();
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

Context::Context(Shared& shared) : shared_(shared), program_(*shared.program) {
  symbols_.assign(program_.symbols.size(), 0);
  values_.assign(shared.evaluator.size(), 0);
  data_.assign(program_.values.size(), nullptr);
  owners_.resize(program_.values.size());
  sequences_.resize(program_.values.size());
  iteration_.assign(program_.blocks.size(), 0);
  scratch_.resize(static_cast<size_t>(shared.pool.threads()));
  scratch_bytes_.assign(scratch_.size(), 0);
  procedure_scratch_.resize(scratch_.size());
  for (const BlockSpec& b : program_.blocks) arenas_.emplace_back(b.segments.size());
  for (size_t v = 0; v < program_.values.size(); ++v)
    if (program_.values[v].storage == Storage::kConstant)
      data_[v] = const_cast<void*>(program_.constants[program_.values[v].index].data());
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

std::vector<Item> Context::call(std::span<const Item> inputs, CallStatistics* statistics, bool profile,
                                OutputPlaces* places) {
  statistics_ = statistics;
  places_ = places;
  profile_ = profile && statistics;
  launches_ = 0;
  if (statistics) used_.assign(program_.kernels.size(), false);
  if (profile_) statistics->kernel_ns.assign(program_.kernels.size(), 0);
  int64_t start = now_ns();
  bind_inputs(inputs);
  plan_first_segment();
  if (statistics) statistics->dispatch_ns = now_ns() - start;
  struct Release {  // whatever happens, nothing of this call stays behind
    Context& c;
    ~Release() {
      for (auto& o : c.owners_) o.reset();
      for (auto& s : c.sequences_) s.reset();
    }
  } release{*this};
  run_block(0);
  std::vector<Item> outputs;
  for (const OutputSpec& o : program_.outputs) {
    Item item;
    if (program_.values[o.value].is_sequence) {
      item.is_sequence = true;
      item.sequence = *sequences_[o.value];
    } else {
      item.tensor = tensor_of(o.value);
    }
    outputs.push_back(std::move(item));
  }
  if (statistics) {
    statistics->launches = launches_;
    statistics->versions_used.clear();
    for (uint32_t k = 0; k < used_.size(); ++k)
      if (used_[k]) statistics->versions_used.push_back(k);
  }
  shared_.statistics.launches += launches_;
  return outputs;
}

// ---- segments

void Context::plan_first_segment() {
  const Segment& first = program_.blocks[0].segments[0];
  std::vector<int64_t>& key = key_;
  key.clear();
  for (size_t s = 0; s < symbols_.size(); ++s)
    if (program_.symbol_points[s] == first.point) key.push_back(symbols_[s]);
  if (auto plan = shared_.plans.find(key)) {
    for (size_t k = 0; k < first.nodes.size(); ++k) values_[first.nodes[k]] = plan->values[k];
    ++shared_.statistics.plan_hits;
    return;
  }
  ++shared_.statistics.plan_misses;
  shared_.evaluator.run(first.nodes, symbols_, values_);
  auto plan = std::make_shared<ShapePlan>();
  plan->symbols = key;
  plan->values.reserve(first.nodes.size());
  for (ExprRef e : first.nodes) plan->values.push_back(values_[e]);
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
    for (ValueRef v : results[s]) allocate_result(number, v, source_of(step));
    std::visit([&](const auto& exact) { run_step(exact); }, step);
  }
  while (segment + 1 < block.segments.size()) enter_segment(number, ++segment);
}

void Context::allocate_result(uint32_t block, ValueRef v, std::string_view source) {
  const ValueSpec& spec = program_.values[v];
  if (spec.storage == Storage::kArena) {
    data_[v] = static_cast<char*>(arenas_[block][spec.arena_segment].memory.get()) + value(spec.offset);
    return;
  }
  if (places_ && block == 0 && shared_.placed_output[v] != kNone) {
    uint32_t output = shared_.placed_output[v];
    if (void* place = places_->place(output, extents_of(program_.outputs[output].value), value(spec.bytes))) {
      owners_[v] = std::shared_ptr<void>(std::shared_ptr<void>(), place);
      data_[v] = place;
      return;
    }
  }
  owners_[v] = shared_.memory->allocate(value(spec.bytes), std::string(source));
  data_[v] = owners_[v].get();
}

// ---- steps

const LaunchVersion& Context::choose(const LaunchStep& s) const {
  uint32_t forced = shared_.forced[s.versions[0].kernel];
  if (forced != kNone) return s.versions[std::min<size_t>(forced, s.versions.size() - 1)];
  size_t k = 0;
  while (s.versions[k].guard != kNone && value(s.versions[k].guard) == 0) ++k;
  return s.versions[k];
}

void Context::run_step(const LaunchStep& s) {
  if (value(s.empty_if_zero) <= 0) return;
  const LaunchVersion& version = choose(s);
  int64_t iterations = value(version.iterations);
  const KernelSpec& kernel = program_.kernels[version.kernel];
  params_.clear();
  for (ExprRef e : s.params) params_.push_back(value(e));
  buffers_.clear();
  for (ValueRef v : s.arguments) buffers_.push_back(data_[v]);
  int64_t scratch = value(version.scratch_bytes);
  int wanted = 1;
  if (!shared_.backend->whole_only()) {
    int64_t work = value(s.work);
    wanted = static_cast<int>(std::min<int64_t>(shared_.pool.threads(), work / kWorkPerThread + 1));
  }
  Fault fault;
  if (scratch > 0)
    for (int w = 0; w < (wanted > 1 ? shared_.pool.threads() : 1); ++w)
      if (scratch_bytes_[w] < scratch)
        scratch_[w].reset(), scratch_[w] = shared_.memory->allocate(scratch, s.source), scratch_bytes_[w] = scratch;
  struct Job {
    Context* c;
    uint32_t kernel;
    Fault* fault;
    bool flush;
    std::exception_ptr error;
  } job{this, version.kernel, &fault, kernel.flush_denormals, {}};
  auto function = [](void* self, int64_t begin, int64_t end, int worker) {
    auto& j = *static_cast<Job*>(self);
    FlushDenormals flush(j.flush);
    try {
      j.c->shared_.backend->run(j.kernel, j.c->buffers_.data(), j.c->params_.data(), begin, end,
                                j.c->scratch_[worker].get(), j.fault);
    } catch (...) {
      j.error = std::current_exception();
    }
  };
  int64_t start = profile_ ? now_ns() : 0;
  if (wanted <= 1 || iterations <= 1)
    function(&job, 0, iterations, 0);
  else
    shared_.pool.run({function, &job}, iterations, wanted);
  if (profile_) statistics_->kernel_ns[version.kernel] += now_ns() - start;
  ++launches_;
  if (statistics_) used_[version.kernel] = true;
  if (job.error) {
    try {
      std::rethrow_exception(job.error);
    } catch (const UserError& e) {
      throw UserError(s.source + ": " + e.what());
    }
  }
  if (fault.failed)
    user_error("{}: index {} is out of range for an extent of {}; indices must be in [{}, {}]", s.source, fault.index,
               fault.extent, -fault.extent, fault.extent - 1);
}

void Context::run_step(const CopyStep& s) {
  std::memcpy(data_[s.to], data_[s.from], static_cast<size_t>(value(program_.values[s.to].bytes)));
}

void Context::run_step(const AliasStep& s) {
  data_[s.to] = data_[s.from];
  owners_[s.to] = owners_[s.from];
}

void Context::run_step(const ReshapeDynamicStep& s) {
  std::vector<int64_t> from = extents_of(s.data), shape;
  int64_t n = count_of(s.shape);
  const auto* elements = static_cast<const int64_t*>(data_[s.shape]);
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
  data_[s.result] = data_[s.data];
  owners_[s.result] = owners_[s.data];
}

void Context::run_step(const BindStep& s) {
  DType t = program_.values[s.value].dtype;
  if (count_of(s.value) < static_cast<int64_t>(s.defines.size()))
    user_error("{}: '{}' has {} elements and {} are needed", s.source, program_.values[s.value].name, count_of(s.value),
               s.defines.size());
  for (size_t k = 0; k < s.defines.size(); ++k)
    define(s.defines[k], ir::load_element(t, data_[s.value], static_cast<int64_t>(k)).i, s.source);
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

void Context::run_step(const IfStep& s) {
  uint32_t chosen = read_int(s.condition) != 0 ? s.then_block : s.else_block;
  run_block(chosen);
  const BlockSpec& block = program_.blocks[chosen];
  for (size_t k = 0; k < s.results.size(); ++k) {
    ValueRef from = block.outputs[k], to = s.results[k];
    if (program_.values[from].is_sequence)
      sequences_[to] = sequences_[from];
    else
      data_[to] = data_[from], owners_[to] = owners_[from],
      bind(s.bindings, static_cast<uint32_t>(k), padded_extents_of(from), s.source);
    for (const ExtentBinding& b : s.bindings)
      if (b.output == k && b.axis == kNone) define(b.symbol, static_cast<int64_t>(extents_of(from).size()), s.source);
  }
}

void Context::run_step(const LoopStep& s) {
  const BlockSpec& body = program_.blocks[s.body];
  int64_t trips = s.trip_count == kNone ? symbolic::kPosInf : read_int(s.trip_count);
  bool go = s.condition == kNone || read_int(s.condition) != 0;
  size_t carried = s.initial.size(), first = body.outputs.size() - s.results.size();  // 1 if the body gives a condition
  size_t scanned = s.results.size() - carried;
  std::vector<ValueRef> source = s.initial;
  struct Scan {
    std::vector<int64_t> extents;
    std::vector<std::shared_ptr<void>> parts;
    std::vector<char> bytes;
  };
  std::vector<Scan> scans(scanned);
  std::vector<void*> next_data(carried);
  std::vector<std::shared_ptr<void>> next_owners(carried);
  std::vector<std::shared_ptr<const Sequence>> next_sequences(carried);
  std::vector<std::vector<int64_t>> carried_extents(carried);
  std::vector<int64_t> carried_ranks(carried);
  bool shapes_may_change = !s.body_bindings.empty() || !s.bindings.empty();
  auto take = [&] {
    for (size_t k = 0; k < carried; ++k) {
      next_data[k] = data_[source[k]];
      next_owners[k] = owners_[source[k]];
      if (next_data[k] == &iteration_[s.body]) {  // the iteration number itself, which is about to change
        next_owners[k] = shared_.memory->allocate(sizeof(int64_t), s.source);
        next_data[k] = std::memcpy(next_owners[k].get(), &iteration_[s.body], sizeof(int64_t));
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
    iteration_[s.body] = iteration;
    data_[body.inputs[0]] = &iteration_[s.body];
    for (size_t k = 0; k < carried; ++k) {
      ValueRef in = body.inputs[k + 1];
      data_[in] = next_data[k];
      owners_[in] = std::move(next_owners[k]);
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
      size_t bytes = static_cast<size_t>(count_of(v)) * ir::byte_size(program_.values[v].dtype);
      if (iteration == 0 && trips < (int64_t{1} << 32) && s.condition == kNone &&
          static_cast<double>(trips) * static_cast<double>(bytes) < 1e9)
        scan.bytes.reserve(bytes * static_cast<size_t>(trips));
      const char* data = static_cast<const char*>(data_[v]);
      scan.bytes.insert(scan.bytes.end(), data, data + bytes);
    }
  }
  for (size_t k = 0; k < carried; ++k) {
    ValueRef to = s.results[k];
    data_[to] = next_data[k];
    owners_[to] = next_owners[k];
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
    owners_[to] = shared_.memory->allocate(static_cast<int64_t>(scans[k].bytes.size()), s.source);
    data_[to] = owners_[to].get();
    if (!scans[k].bytes.empty()) std::memcpy(data_[to], scans[k].bytes.data(), scans[k].bytes.size());
  }
}

// ---- values

std::vector<int64_t> Context::padded_extents_of(ValueRef v) const {
  std::vector<int64_t> r;
  for (ExprRef e : program_.values[v].extents) r.push_back(value(e));
  return r;
}

std::vector<int64_t> Context::extents_of(ValueRef v) const {
  std::vector<int64_t> r = padded_extents_of(v);
  if (program_.values[v].rank != kNone) {
    int64_t rank = std::clamp<int64_t>(value(program_.values[v].rank), 0, static_cast<int64_t>(r.size()));
    r.erase(r.begin(), r.end() - rank);
  }
  return r;
}

int64_t Context::count_of(ValueRef v) const {
  int64_t n = 1;
  for (ExprRef e : program_.values[v].extents) n = symbolic::saturating_mul(n, value(e));
  return n;
}

int64_t Context::read_int(ValueRef v) const {
  if (count_of(v) < 1) user_error("'{}' must have one element and has none", program_.values[v].name);
  return ir::load_element(program_.values[v].dtype, data_[v], 0).i;
}

void Context::bind(const std::vector<ExtentBinding>& bindings, uint32_t output, const std::vector<int64_t>& extents,
                   std::string_view source) {
  for (const ExtentBinding& b : bindings)
    if (b.output == output && b.axis != kNone && b.axis < extents.size()) define(b.symbol, extents[b.axis], source);
}

Tensor Context::tensor_of(ValueRef v) {
  Tensor t;
  t.dtype = program_.values[v].dtype;
  t.extents = extents_of(v);
  if (owners_[v]) {
    t.owner = owners_[v];
  } else {
    int64_t bytes = count_of(v) * static_cast<int64_t>(ir::byte_size(t.dtype));
    t.owner = shared_.memory->allocate(bytes, program_.values[v].name);
    if (bytes > 0) std::memcpy(t.owner.get(), data_[v], static_cast<size_t>(bytes));
    t.data = t.owner.get();
    return t;
  }
  t.data = data_[v];
  return t;
}

void Context::set_tensor(ValueRef v, const Tensor& t) {
  data_[v] = const_cast<void*>(t.data);
  owners_[v] = t.owner;
}

}  // namespace stax::runtime
