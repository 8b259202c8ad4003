// SPDX-License-Identifier: Apache-2.0
// The directions of a bidirectional layer are two loops that need nothing of each other, and between them stands what prepares the second. A loop of
// small kernels keeps one thread busy at best, so that two threads do best with a loop each. Here such loops come to stand next to each other,
// and are marked; the runtime decides at each shape whether to run them at the same time.
//
// From a loop on, the steps of its segment are looked at in order. Another loop that is independent of it joins it: what that loop needs of the
// steps in between moves in front of the first. Launches, copies and aliases move; anything else ends the search, because it may define symbols or
// fail.
#include <algorithm>
#include <set>

#include "compile/pipeline.h"
#include "program/steps.h"

namespace stax::compile {
namespace {

using namespace program;

class Placer {
 public:
  Placer(Program& program, Origin& origin) : p_(program), origin_(origin) {}

  void run() {
    for (uint32_t b = 0; b < p_.blocks.size(); ++b)
      for (size_t s = 0; s < p_.blocks[b].steps.size(); ++s)
        if (is_loop(p_.blocks[b].steps[s])) s = gather(b, s);
  }

 private:
  /// A loop that defines no symbol.
  static bool is_loop(const Step& step) {
    const auto* loop = std::get_if<LoopStep>(&step);
    return loop && loop->bindings.empty();
  }
  static bool moves(const Step& step) {
    return std::holds_alternative<LaunchStep>(step) || std::holds_alternative<CopyStep>(step) ||
           std::holds_alternative<AliasStep>(step);
  }

  /// What a step and the blocks in it read and write.
  std::set<ValueRef> uses(const Step& step) const {
    std::set<ValueRef> all;
    const auto add = [&](ValueRef v) { all.insert(v); };
    for_each_operand(step, add);
    for_each_result(step, add);
    for_each_block(step, [&](uint32_t b) {
      for (const Step& inner : p_.blocks[b].steps) all.merge(uses(inner));
      for (ValueRef v : p_.blocks[b].outputs) add(v);
    });
    return all;
  }
  static bool meet(const std::set<ValueRef>& a, const std::set<ValueRef>& b) {
    return std::any_of(a.begin(), a.end(), [&](ValueRef v) { return b.contains(v); });
  }
  static void add_results(const Step& step, std::set<ValueRef>& to) {
    if (const auto* launch = std::get_if<LaunchStep>(&step))
      to.insert(launch->arguments.end() - launch->results, launch->arguments.end());
    else
      for_each_result(step, [&](ValueRef v) { to.insert(v); });
  }

  /// Loops that can stand behind the one at `first`; gives the place of the last of them.
  size_t gather(uint32_t block, size_t first) {
    std::vector<Step>& steps = p_.blocks[block].steps;
    size_t end = steps.size();
    for (const Segment& segment : p_.blocks[block].segments)
      if (segment.first_step > first) end = std::min<size_t>(end, segment.first_step);
    size_t last = first;
    std::set<ValueRef> made;  // by the loops, and by what needs them
    add_results(steps[first], made);
    for (size_t s = first + 1; s < end; ++s) {
      const bool independent = !meet(uses(steps[s]), made);
      if (independent && is_loop(steps[s])) {
        // What it needs, from the back.
        std::set<ValueRef> needed = uses(steps[s]);
        const size_t before = last;
        std::vector<bool> taken(s - before, false);
        for (size_t k = s - 1; k > before; --k) {
          std::set<ValueRef> results;
          add_results(steps[k], results);
          if (!meet(results, needed)) continue;
          taken[k - before] = true;
          needed.merge(uses(steps[k]));
        }
        for (size_t k = before + 1; k < s; ++k) {
          if (!taken[k - before]) continue;
          move_step(block, k, first);
          ++first, ++last;
        }
        move_step(block, s, last + 1);
        std::get<LoopStep>(steps[last]).beside_next = true;
        ++last;
        add_results(steps[last], made);
        continue;
      }
      if (!independent) {
        add_results(steps[s], made);
        if (is_loop(steps[s])) continue;
      }
      if (!moves(steps[s])) break;
    }
    return last;
  }

  /// To an earlier place; those in between make room.
  void move_step(uint32_t block, size_t from, size_t to) {
    const auto rotate = [&](auto& list) {
      std::rotate(list.begin() + static_cast<ptrdiff_t>(to), list.begin() + static_cast<ptrdiff_t>(from),
                  list.begin() + static_cast<ptrdiff_t>(from) + 1);
    };
    rotate(p_.blocks[block].steps);
    rotate(origin_.ops[block]);
    rotate(origin_.phases[block]);
  }

  Program& p_;
  Origin& origin_;
};

}  // namespace

void place_loops_side_by_side(Program& program, Origin& origin) { Placer(program, origin).run(); }

}  // namespace stax::compile
