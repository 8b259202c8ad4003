// SPDX-License-Identifier: Apache-2.0
// Where every value lives, as expressions of the shape.
//
// Values that leave their block (its outputs), that a loop starts with, that data decides the size of, and sequences are allocated one by one. All others share the
// arena of the segment that makes them: a list of slots, each as large as the largest value that ever uses it, laid end to end. A value takes
// a slot that nobody uses while it lives; which one, of several, is decided by how well the sizes fit. Sizes are only known as expressions: order
// and fit are those of one sample shape. Correctness does not depend on the sample: a slot's size is the maximum over its users.
#include <algorithm>
#include <map>
#include <numeric>
#include <span>

#include "compile/pipeline.h"
#include "program/steps.h"
#include "support/error.h"

namespace stax::compile {
namespace {

using namespace program;

constexpr int64_t kAlignment = 64;
constexpr int64_t kSampleExtent = 48;

class Planner {
 public:
  explicit Planner(Program& program) : p_(program), made_(program.values.size(), false) {}

  void run() {
    sample_sizes();
    plan_block(0);
    place_nodes();
  }

 private:
  ExprRef node(symbolic::ExprKind kind, int64_t value, std::vector<uint32_t> args) {
    p_.exprs.nodes().push_back({kind, value, std::move(args)});
    return static_cast<ExprRef>(p_.exprs.nodes().size() - 1);
  }
  ExprRef constant(int64_t v) {
    auto [it, fresh] = constants_.try_emplace(v, 0);
    if (fresh) it->second = node(symbolic::ExprKind::kConstant, v, {});
    return it->second;
  }
  ExprRef aligned(ExprRef bytes) {
    auto [it, fresh] = aligned_.try_emplace(bytes, 0);
    if (!fresh) return it->second;
    ExprRef up = node(symbolic::ExprKind::kAdd, 0, {bytes, constant(kAlignment - 1)});
    ExprRef whole = node(symbolic::ExprKind::kFloorDiv, 0, {up, constant(kAlignment)});
    it = aligned_.find(bytes);
    return it->second = node(symbolic::ExprKind::kMul, 0, {whole, constant(kAlignment)});
  }

  void sample_sizes() {
    std::vector<int64_t> slots, values(p_.exprs.nodes().size());
    for (const SymbolSpec& s : p_.symbols) slots.push_back(std::clamp(kSampleExtent, s.lo, std::max(s.lo, s.hi)));
    p_.exprs.evaluate(0, values.size(), slots, values);
    sample_.assign(p_.values.size(), 0);
    for (size_t v = 0; v < p_.values.size(); ++v)
      if (p_.values[v].bytes != kNone) sample_[v] = std::max<int64_t>(0, values[p_.values[v].bytes]);
  }

  void uses_of_step(const Step& step, const std::function<void(ValueRef)>& f) {
    for_each_operand(step, f);
    for_each_result(step, f);
    for_each_block(step, [&](uint32_t b) {
      for (const Step& s : p_.blocks[b].steps) uses_of_step(s, f);
      for (ValueRef v : p_.blocks[b].outputs) f(v);
    });
  }

  // A value of the arena: made by step `begin`, last used by step `end`.
  struct Tenant {
    ValueRef value;
    uint32_t segment;
    size_t begin, end;
  };
  struct Slot {
    uint32_t segment;
    int64_t sample = 0;
    std::map<size_t, size_t> taken;  // first to last step
    std::vector<ValueRef> users;

    bool free(size_t begin, size_t end) const {
      auto after = taken.upper_bound(end);
      return after == taken.begin() || std::prev(after)->second < begin;
    }
  };

  std::vector<Slot> share_slots(const std::vector<Tenant>& tenants) const {
    std::vector<Slot> slots;
    for (const Tenant& t : tenants) {
      const int64_t sample = sample_[t.value];
      Slot* best = nullptr;
      auto misfit = [&](const Slot& slot) {
        const bool same = p_.values[slot.users.front()].bytes == p_.values[t.value].bytes;
        return same ? -1 : std::abs(slot.sample - sample);
      };
      for (Slot& slot : slots)
        if (slot.segment == t.segment && slot.free(t.begin, t.end) && (!best || misfit(slot) < misfit(*best)))
          best = &slot;
      if (!best) best = &slots.emplace_back(Slot{t.segment});
      best->sample = std::max(best->sample, sample);
      best->taken.emplace(t.begin, t.end);
      best->users.push_back(t.value);
    }
    return slots;
  }

  // Where large values choose first, who comes later costs nothing at the sample shape; where they choose as they are made, equal ones follow
  // each other more often. Neither is always better.
  std::vector<Slot> share_slots_best(std::vector<Tenant> tenants) const {
    auto total = [](const std::vector<Slot>& slots) {
      return std::accumulate(slots.begin(), slots.end(), int64_t{0},
                             [](int64_t sum, const Slot& s) { return sum + s.sample; });
    };
    std::vector<Slot> in_time = share_slots(tenants);
    std::stable_sort(tenants.begin(), tenants.end(),
                     [&](const Tenant& a, const Tenant& b) { return sample_[a.value] > sample_[b.value]; });
    std::vector<Slot> by_size = share_slots(tenants);
    return total(in_time) <= total(by_size) ? in_time : by_size;
  }

  ExprRef bytes_of(const Slot& slot) {
    std::vector<ExprRef> sizes;
    for (ValueRef v : slot.users) sizes.push_back(p_.values[v].bytes);
    std::sort(sizes.begin(), sizes.end());
    sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
    ExprRef largest = sizes.front();
    for (ExprRef each : std::span(sizes).subspan(1)) largest = node(symbolic::ExprKind::kMax, 0, {largest, each});
    return largest;
  }

  void plan_block(uint32_t number) {
    BlockSpec& block = p_.blocks[number];
    size_t steps = block.steps.size();
    std::map<ValueRef, size_t> last;
    for (size_t s = 0; s < steps; ++s) {
      size_t until = s;  // loops side by side may run at the same time
      while (const auto* loop = std::get_if<LoopStep>(&block.steps[until])) {
        if (!loop->beside_next) break;
        ++until;
      }
      uses_of_step(block.steps[s], [&](ValueRef v) { last[root_of(p_, v)] = until; });
    }
    auto escapes = [&](ValueRef v) {
      ValueRef r = root_of(p_, v);
      if (p_.values[r].storage == Storage::kArena || p_.values[r].storage == Storage::kOwned)
        p_.values[r].storage = Storage::kOwned, escaped_[r] = true;
    };
    for (ValueRef v : block.outputs) escapes(v);
    // What goes into a loop may come out of it as it is.
    for (const Step& step : block.steps)
      if (const auto* loop = std::get_if<LoopStep>(&step))
        for (ValueRef v : loop->initial) escapes(v);
    std::vector<Tenant> tenants;
    uint32_t segment = 0;
    for (ValueRef v : block.inputs) made_[v] = true;
    for (size_t s = 0; s < steps; ++s) {
      while (segment + 1 < block.segments.size() && block.segments[segment + 1].first_step <= s) ++segment;
      for_each_block(block.steps[s], [&](uint32_t b) { plan_block(b); });
      bool planned =
          std::holds_alternative<LaunchStep>(block.steps[s]) || std::holds_alternative<CopyStep>(block.steps[s]);
      if (const auto* p = std::get_if<ProcedureStep>(&block.steps[s]))
        planned = p->procedure == Procedure::kTopK || p->procedure == Procedure::kDeterminant;
      for_each_result(block.steps[s], [&](ValueRef v) {
        if (made_[v]) return;
        made_[v] = true;
        ValueSpec& spec = p_.values[v];
        if (spec.storage != Storage::kOwned || escaped_.count(v) || !planned) return;
        spec.storage = Storage::kArena;
        tenants.push_back({v, segment, s, last.at(v)});
      });
    }
    const std::vector<Slot> slots = share_slots_best(std::move(tenants));
    for (uint32_t k = 0; k < block.segments.size(); ++k) {
      ExprRef offset = constant(0);
      for (const Slot& slot : slots) {
        if (slot.segment != k) continue;
        for (ValueRef v : slot.users) p_.values[v].offset = offset, p_.values[v].arena_segment = k;
        offset = node(symbolic::ExprKind::kAdd, 0, {offset, aligned(bytes_of(slot))});
      }
      p_.blocks[number].segments[k].arena_bytes = offset;
    }
  }

  void place_nodes() {
    std::map<uint32_t, Segment*> by_point;
    for (BlockSpec& b : p_.blocks)
      for (Segment& s : b.segments) by_point[s.point] = &s;
    std::vector<uint32_t> home;
    const auto& nodes = p_.exprs.nodes();
    home.reserve(nodes.size());
    for (size_t n = 0; n < nodes.size(); ++n) {
      uint32_t point = 0;
      if (nodes[n].kind == symbolic::ExprKind::kSymbol) {
        point = p_.symbol_points.at(static_cast<size_t>(nodes[n].value));
        STAX_ASSERT(point != kNone, "symbol {} is never defined", p_.symbols[static_cast<size_t>(nodes[n].value)].name);
      }
      for (uint32_t a : nodes[n].args) point = std::max(point, home[a]);
      home.push_back(point);
      by_point.at(point)->nodes.push_back(static_cast<ExprRef>(n));
    }
  }

  Program& p_;
  std::vector<bool> made_;
  std::map<ValueRef, bool> escaped_;
  std::map<int64_t, ExprRef> constants_;
  std::map<ExprRef, ExprRef> aligned_;
  std::vector<int64_t> sample_;
};

}  // namespace

void plan_memory(Program& program) {
  program.symbol_points.resize(program.symbols.size(), kNone);
  Planner(program).run();
}

}  // namespace stax::compile
