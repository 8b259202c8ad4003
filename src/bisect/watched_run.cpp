// SPDX-License-Identifier: Apache-2.0
#include "bisect/watched_run.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "bisect/isolated.h"
#include "bisect/runtime_items.h"
#include "program/steps.h"
#include "runtime/runtime.h"
#include "support/error.h"
#include "support/hash.h"

namespace stax::bisect {

using namespace program;
using tensor::Item;
using tensor::Literal;
using tensor::Op;

namespace {

constexpr int kSeconds = 60, kGpuSeconds = 600;
constexpr size_t kMostOperandBytes = size_t{4} << 30;

struct Stop {};

uint64_t hash_of(std::span<const std::byte> bytes) { return hash_bytes(bytes); }

/// A step's own data: nothing is shared with an earlier value.
bool makes_data(const Step& step) {
  return std::holds_alternative<LaunchStep>(step) || std::holds_alternative<CopyStep>(step) ||
         std::holds_alternative<ProcedureStep>(step);
}

/// For each block: the last step that reads a value, blocks of its steps included; and the block that runs it.
struct Uses {
  std::vector<std::map<ValueRef, uint32_t>> last;
  std::vector<uint32_t> parent;

  explicit Uses(const Program& p) : last(p.blocks.size()), parent(p.blocks.size(), kNone), p_(p) {
    for (uint32_t b = 0; b < p.blocks.size(); ++b) {
      const BlockSpec& block = p.blocks[b];
      for (uint32_t s = 0; s < block.steps.size(); ++s) {
        for_each_block(block.steps[s], [&](uint32_t inner) { parent[inner] = b; });
        add(block.steps[s], b, last_beside(block, s));
      }
      for (ValueRef v : block.outputs) last[b][root_of(p, v)] = kNone;
    }
    for (const OutputSpec& o : p.outputs) last[0][root_of(p, o.value)] = kNone;
  }
  bool is_within(uint32_t block, uint32_t outer) const {
    while (block != outer && block != kNone) block = parent[block];
    return block == outer;
  }

 private:
  /// Loops that stand beside each other may run at the same time: what one reads is needed until all are done.
  static uint32_t last_beside(const BlockSpec& block, uint32_t s) {
    for (;; ++s) {
      const auto* loop = std::get_if<LoopStep>(&block.steps[s]);
      if (!loop || !loop->beside_next) return s;
    }
  }
  void add(const Step& step, uint32_t b, uint32_t s) {
    const auto use = [&](ValueRef v) {
      auto [it, fresh] = last[b].try_emplace(root_of(p_, v), s);
      if (it->second != kNone) it->second = s;
    };
    for_each_operand(step, use);
    for_each_block(step, [&](uint32_t inner) {
      for (const Step& each : p_.blocks[inner].steps) add(each, b, s);
      for (ValueRef v : p_.blocks[inner].outputs) use(v);
    });
  }
  const Program& p_;
};

// Items and symbols through shared memory.
class Writer {
 public:
  Writer(char* at, size_t bytes) : at_(at), end_(at + bytes) {}
  void number(int64_t v) { raw(&v, sizeof v); }
  void raw(const void* from, size_t bytes) {
    if (static_cast<size_t>(end_ - at_) < bytes) throw std::bad_alloc();
    if (bytes > 0) std::memcpy(at_, from, bytes);
    at_ += bytes;
  }

 private:
  char *at_, *end_;
};
class Reader {
 public:
  explicit Reader(const char* at) : at_(at) {}
  int64_t number() {
    int64_t v;
    raw(&v, sizeof v);
    return v;
  }
  void raw(void* to, size_t bytes) {
    if (bytes > 0) std::memcpy(to, at_, bytes);
    at_ += bytes;
  }

 private:
  const char* at_;
};

class Watcher final : public runtime::StepObserver {
 public:
  Watcher(const compile::Compiled& compiled, const std::vector<Item>& inputs, const Values& want,
          const WatchOptions& options, Sighting* sighting, Writer* stopped)
      : c_(compiled),
        p_(*compiled.program),
        inputs_(inputs),
        want_(want),
        o_(options),
        seen_(*sighting),
        stopped_(stopped),
        uses_(p_) {
    for (ValueRef v = 0; v < p_.values.size(); ++v) refs_[c_.origin.values[v]] = v;
  }

  void before(const runtime::StepView& view, uint32_t block, uint32_t step) override {
    // Behind the last step of a body, what it made is seen by whoever reads it.
    if (pending_ && (pending_->block != block || pending_->behind + 1 != step)) {
      for (const auto& v : pending_->op->results) ++times_[refs_.at(v.get())];
      pending_.reset();
    }
    finish(view);
    const Step& s = p_.blocks[block].steps[step];
    if (seen_.number == 0) look_at_dims(view);
    ++seen_.number;
    seen_.block = block, seen_.step = step;
    seen_.kernel = launched(view, s);
    if (const auto* launch = std::get_if<LaunchStep>(&s); launch && view.value(launch->empty_if_zero) > 0)
      ran_ = {op(block, step), &s, block, step, seen_.number, seen_.kernel, step};
    forget(block, step);
    if (seen_.number == o_.stop_at) stop(view, s, *op(block, step));
    for_each_operand(s, [&](ValueRef v) { unchanged(view, v, "in front of the step that reads it"); });
    for (const ValueRef v : results(block, step)) place(view, block, step, v);
  }

  void after(const runtime::StepView& view, uint32_t block, uint32_t step) override {
    const Step& s = p_.blocks[block].steps[step];
    const Op& o = *op(block, step);
    if (const auto* bind = std::get_if<BindStep>(&s)) look_at_bound(view, *bind);
    const std::vector<ValueRef> made = results(block, step);
    if (o_.strict) {
      for (const auto& [v, live] : live_)
        if (std::find(made.begin(), made.end(), v) == made.end()) unchanged(view, v, "by the step");
    } else {
      for_each_operand(s, [&](ValueRef v) {
        if (std::find(made.begin(), made.end(), v) == made.end()) unchanged(view, v, "by the step that reads it");
      });
    }
    if (std::holds_alternative<CopyStep>(s) && o.kind() == tensor::OpKind::kScatter) return;  // the launch is next
    const std::vector<const Op*>& ops = c_.origin.ops[block];
    if (std::holds_alternative<LaunchStep>(s) && step + 1 < ops.size() && ops[step + 1] == &o)
      return;  // a further phase is
    pending_ = Pending{&o, &s, block, step, seen_.number, seen_.kernel, step};
    if (ran_ && ran_->op == &o && ran_->block == block) {
      pending_ = std::exchange(ran_, std::nullopt);  // the phase that did it
      pending_->behind = step;
    }
    // Extents that the op defines are known from the next step on.
    if (o.defines.empty()) finish(view);
  }

  /// What the last step made.
  void finish(const runtime::StepView& view) {
    if (!pending_) return;
    const Pending p = *std::exchange(pending_, std::nullopt);
    for (size_t k = 0; k < p.op->results.size(); ++k) check_result(view, p, k);
  }

 private:
  struct Live {
    uint32_t block, last;
    std::span<std::byte> bytes;
    uint64_t hash;
  };
  struct Pending {
    const Op* op;
    const Step* step;
    uint32_t block, number;
    int64_t count;  // over the call
    uint32_t kernel;
    uint32_t behind;  // the last step of the op
  };

  const Op* op(uint32_t block, uint32_t step) const { return c_.origin.ops[block][step]; }
  std::string name(ValueRef v) const { return describe(*c_.origin.values[v]); }

  [[noreturn]] void report(Seen seen, ValueRef v, const std::string& what) {
    seen_.seen = seen;
    seen_.value = v;
    std::snprintf(seen_.what, sizeof seen_.what, "%s", what.c_str());
    throw Stop{};
  }

  /// Values whose data the step makes.
  std::vector<ValueRef> results(uint32_t block, uint32_t step) const {
    std::vector<ValueRef> r;
    const Step& s = p_.blocks[block].steps[step];
    if (!makes_data(s)) return r;
    for (const auto& v : op(block, step)->results) {
      const ValueRef result = refs_.at(v.get());
      const auto* launch = std::get_if<LaunchStep>(&s);
      if (launch == nullptr ||
          std::find(launch->arguments.begin(), launch->arguments.end(), result) != launch->arguments.end())
        r.push_back(result);
    }
    return r;
  }

  uint32_t launched(const runtime::StepView& view, const Step& step) const {
    const auto* launch = std::get_if<LaunchStep>(&step);
    if (!launch) return 0;
    for (const LaunchVersion& v : launch->versions)
      if (v.guard == kNone || view.value(v.guard) != 0) return v.kernel;
    return launch->versions.back().kernel;
  }

  /// Values that nobody reads any more.
  void forget(uint32_t block, uint32_t step) {
    std::erase_if(live_, [&](const auto& entry) {
      const Live& live = entry.second;
      if (live.block == block) return step == 0 || live.last < step;
      return !uses_.is_within(block, live.block);
    });
  }

  void unchanged(const runtime::StepView& view, ValueRef v, const char* when) {
    auto it = live_.find(root_of(p_, v));
    if (it == live_.end()) return;
    const auto bytes = view.bytes(it->first);
    if (bytes.data() == it->second.bytes.data() && hash_of(it->second.bytes) == it->second.hash) return;
    report(Seen::kChanged, it->first, fmt::format("{} was overwritten {}", name(it->first), when));
  }

  /// Where a result is about to be written.
  void place(const runtime::StepView& view, uint32_t block, uint32_t step, ValueRef v) {
    const Op& o = *op(block, step);
    const bool behind_phases = step > 0 && c_.origin.phases[block][step] == 0 &&
                               c_.origin.phases[block][step - 1] > 0 && op(block, step - 1) == &o;
    const bool first = !behind_phases && !(o.kind() == tensor::OpKind::kScatter &&
                                           std::holds_alternative<LaunchStep>(p_.blocks[block].steps[step]));
    const ValueSpec& spec = p_.values[v];
    if (!o.defines.empty() || spec.is_sequence || !first) return;
    if (const Item* want = want_.find(c_.origin.values[v]->id, times_[v])) {
      const std::vector<int64_t> got = view.extents(v);
      if (got != want->tensor.extents())
        report(Seen::kExtents, v,
               fmt::format("{} gets the extents [{}] instead of [{}]", name(v), fmt::join(got, ", "),
                           fmt::join(want->tensor.extents(), ", ")));
      if (view.value(spec.bytes) != static_cast<int64_t>(want->tensor.bytes()))
        report(Seen::kExtents, v,
               fmt::format("{} gets {} bytes instead of {}", name(v), view.value(spec.bytes), want->tensor.bytes()));
    }
    const auto bytes = view.bytes(v);
    if (spec.storage == Storage::kArena) {
      const int64_t offset = view.value(spec.offset);
      const int64_t arena = view.value(p_.blocks[block].segments[spec.arena_segment].arena_bytes);
      if (offset < 0 || offset + static_cast<int64_t>(bytes.size()) > arena)
        report(Seen::kBounds, v,
               fmt::format("{} is placed at {} .. {} of an arena of {} bytes", name(v), offset,
                           offset + static_cast<int64_t>(bytes.size()), arena));
      const auto memory = view.arena(block, spec.arena_segment);
      if (!bytes.empty() && static_cast<int64_t>(memory.size()) < arena)
        report(Seen::kPlace, v, fmt::format("its arena has {} bytes instead of {}", memory.size(), arena));
      if (!bytes.empty() && bytes.data() != memory.data() + offset)
        report(Seen::kPlace, v,
               fmt::format("{} is at {} of its arena instead of {}", name(v), bytes.data() - memory.data(), offset));
    }
    for (const auto& [other, live] : live_) {
      if (other == v || bytes.empty() || live.bytes.empty()) continue;
      if (bytes.data() < live.bytes.data() + live.bytes.size() && live.bytes.data() < bytes.data() + bytes.size())
        report(Seen::kOverlap, v, fmt::format("{} is placed on {}, which is still needed", name(v), name(other)));
    }
    if (!bytes.empty() && makes_data(p_.blocks[block].steps[step]))
      std::memset(bytes.data(), ir::is_float(spec.dtype) ? 0xFF : 0xA5, bytes.size());
  }

  Item item_of(const runtime::StepView& view, ValueRef v) const {
    Item item;
    item.tensor =
        Literal::view(p_.values[v].dtype, view.extents(v), std::shared_ptr<void>(view.bytes(v).data(), [](void*) {}));
    return item;
  }

  void check_result(const runtime::StepView& view, const Pending& p, size_t k) {
    const tensor::Value& value = *p.op->results[k];
    const ValueRef v = refs_.at(&value);
    const size_t occurrence = times_[v]++;
    if (p_.values[v].is_sequence) return;
    const Item* want = want_.find(value.id, occurrence);
    const bool owns = makes_data(*p.step);
    if (want) {
      Again again;
      const bool is_control = p.op->kind() == tensor::OpKind::kIf || p.op->kind() == tensor::OpKind::kLoop;
      if (!is_control && std::none_of(p.op->operands.begin(), p.op->operands.end(),
                                      [](const tensor::Value* o) { return !o->type.is_tensor(); }))
        again.compute = [&](Draw draw) { return perturbed(view, *p.op, k, draw); };
      if (auto d = compare(item_of(view, v), *want, again, rounding_of(*p.op, bindings(view)))) {
        seen_.block = p.block, seen_.step = p.number, seen_.number = p.count;
        seen_.kernel = p.kernel;
        report(Seen::kDiffers, v, d->text());
      }
      if (owns && want->tensor.bytes() > 0)
        std::memcpy(view.bytes(v).data(), want->tensor.data(), want->tensor.bytes());
    }
    if (!owns) return;
    auto last = uses_.last[p.block].find(v);
    live_[v] = {p.block, last == uses_.last[p.block].end() ? p.number : last->second, view.bytes(v),
                hash_of(view.bytes(v))};
  }

  std::optional<Item> perturbed(const runtime::StepView& view, const Op& o, size_t k, Draw draw) const {
    std::vector<Item> items;
    std::vector<const Item*> pointers;
    for (const tensor::Value* v : o.operands) items.push_back(item_of(view, refs_.at(v)));
    for (const Item& item : items) pointers.push_back(&item);
    auto moved = evaluate_moved(o, pointers, bindings(view), draw);
    return moved ? std::optional(std::move((*moved)[k])) : std::nullopt;
  }

  std::vector<int64_t> symbols_of(const runtime::StepView& view) const {
    std::vector<int64_t> symbols;
    for (uint32_t s = 0; s < p_.symbols.size(); ++s) symbols.push_back(view.symbol(s));
    return symbols;
  }
  tensor::Bindings bindings(const runtime::StepView& view) const { return bindings_of(c_, symbols_of(view)); }

  [[noreturn]] void stop(const runtime::StepView& view, const Step& step, const Op& o) {
    const std::vector<int64_t> symbols = symbols_of(view);
    std::vector<int64_t> values(p_.exprs.nodes().size());
    p_.exprs.evaluate(0, values.size(), symbols, values);
    auto check = [&](ExprRef e) {
      if (e == kNone || seen_.seen != Seen::kNothing || view.value(e) == values[e]) return;
      seen_.seen = Seen::kEvaluator;
      std::snprintf(seen_.what, sizeof seen_.what, "expression %u of the program is %lld instead of %lld", e,
                    static_cast<long long>(view.value(e)), static_cast<long long>(values[e]));
    };
    for_each_expr(step, check);
    auto check_value = [&](ValueRef v) {
      for (const ExprRef e : p_.values[v].extents) check(e);
    };
    for_each_operand(step, check_value);
    for (const auto& v : o.operands) check_value(refs_.at(v));
    if (seen_.seen != Seen::kNothing) throw Stop{};
    stopped_->number(static_cast<int64_t>(symbols.size()));
    for (int64_t s : symbols) stopped_->number(s);
    const bool tensors =
        std::none_of(o.operands.begin(), o.operands.end(), [](const tensor::Value* v) { return !v->type.is_tensor(); });
    stopped_->number(tensors ? static_cast<int64_t>(o.operands.size()) : 0);
    for (size_t k = 0; tensors && k < o.operands.size(); ++k) {
      const Item item = item_of(view, refs_.at(o.operands[k]));
      stopped_->number(static_cast<int64_t>(item.tensor.dtype()));
      stopped_->number(item.tensor.rank());
      for (int64_t e : item.tensor.extents()) stopped_->number(e);
      stopped_->raw(item.tensor.data(), item.tensor.bytes());
    }
    throw Stop{};
  }

  /// What the runtime takes for dims that a value's elements are.
  void look_at_bound(const runtime::StepView& view, const BindStep& bind) {
    const std::byte* elements = view.bytes(bind.value).data();
    for (size_t k = 0; k < bind.defines.size(); ++k) {
      const int64_t want = ir::load_element(p_.values[bind.value].dtype, elements, static_cast<int64_t>(k)).i;
      const int64_t got = view.symbol(bind.defines[k]);
      if (got != want)
        report(Seen::kBinding, bind.value,
               fmt::format("dim '{}' is {}, and element {} of {} is {}", p_.symbols[bind.defines[k]].name, got, k,
                           name(bind.value), want));
    }
  }

  /// What the runtime takes for the dims of the inputs.
  void look_at_dims(const runtime::StepView& view) {
    for (size_t k = 0; k < inputs_.size(); ++k) {
      const InputSpec& input = p_.inputs[k];
      if (inputs_[k].is_sequence) continue;
      const std::vector<int64_t>& extents = inputs_[k].tensor.extents();
      const size_t missing = input.dims.size() - extents.size();
      for (size_t d = 0; d < extents.size(); ++d) {
        const DimSpec& dim = input.dims[d + missing];
        if (dim.symbol == kNone || view.symbol(dim.symbol) == extents[d]) continue;
        seen_.seen = Seen::kBinding;
        std::snprintf(seen_.what, sizeof seen_.what, "dim '%s' is %lld, and input '%s' has %lld at axis %zu",
                      p_.symbols[dim.symbol].name.c_str(), static_cast<long long>(view.symbol(dim.symbol)),
                      input.name.c_str(), static_cast<long long>(extents[d]), d);
        throw Stop{};
      }
    }
  }

  const compile::Compiled& c_;
  const Program& p_;
  const std::vector<Item>& inputs_;
  const Values& want_;
  const WatchOptions& o_;
  Sighting& seen_;
  Writer* stopped_;
  Uses uses_;
  std::unordered_map<const tensor::Value*, ValueRef> refs_;
  std::map<ValueRef, Live> live_;
  std::map<ValueRef, size_t> times_;
  std::optional<Pending> pending_;
  std::optional<Pending> ran_;  // the last launch that did anything
};

}  // namespace

tensor::Bindings bindings_of(const compile::Compiled& compiled, const std::vector<int64_t>& symbols) {
  tensor::Bindings bindings;
  for (size_t s = 0; s < symbols.size(); ++s) bindings[compiled.origin.symbols[s].node()] = symbols[s];
  return bindings;
}

Watched watch(const compile::Compiled& compiled, const std::vector<Item>& inputs, const Values& want,
              const std::vector<Item>& outputs, const WatchOptions& options) {
  const SharedMemory sighting(sizeof(Sighting)), stopped(options.stop_at >= 0 ? kMostOperandBytes : 64);
  auto* seen = new (sighting.as<void>()) Sighting();
  auto say = [&](Seen what, const std::string& text) {
    seen->seen = what;
    std::snprintf(seen->what, sizeof seen->what, "%s", text.c_str());
  };
  const std::string end = run_isolated(
      [&] {
        Writer writer(stopped.as<char>(), stopped.bytes());
        Watcher watcher(compiled, inputs, want, options, seen, &writer);
        runtime::ModuleOptions module_options;
        module_options.threads = options.threads;
        module_options.observer = &watcher;
        runtime::Module module(compiled.program, open_unified(options.machine, *compiled.program), module_options);
        std::vector<runtime::Item> items;
        for (const Item& item : inputs) items.push_back(item_of(item));
        try {
          const std::vector<runtime::Item> got = module.run(items);
          for (size_t k = 0; k < got.size(); ++k)
            if (auto d = compare(item_of(got[k]), outputs[k]))
              return say(Seen::kOutput, "output '" + compiled.program->outputs[k].name + "': " + d->text());
        } catch (const Stop&) {
        } catch (const std::exception& e) {
          say(Seen::kThrows, e.what());
        }
      },
      options.machine.is_gpu() ? kGpuSeconds : kSeconds);
  if (!end.empty()) say(Seen::kCrashes, end);
  Watched watched;
  std::memcpy(&watched.sighting, seen, sizeof(Sighting));
  if (options.stop_at < 0 || watched.sighting.number != options.stop_at || watched.sighting.seen != Seen::kNothing)
    return watched;
  Reader reader(stopped.as<char>());
  for (int64_t n = reader.number(); n > 0; --n) watched.symbols.push_back(reader.number());
  for (int64_t n = reader.number(); n > 0; --n) {
    const auto dtype = static_cast<ir::DType>(reader.number());
    std::vector<int64_t> extents(static_cast<size_t>(reader.number()));
    for (int64_t& e : extents) e = reader.number();
    Item item;
    item.tensor = Literal(dtype, extents);
    reader.raw(item.tensor.data(), item.tensor.bytes());
    watched.operands.push_back(std::move(item));
  }
  return watched;
}

}  // namespace stax::bisect
