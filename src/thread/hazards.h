// SPDX-License-Identifier: Apache-2.0
#pragma once
// Whether two accesses of one buffer, by two different threads of a block, may touch one element.
//
// The block is small and its size is known, so what an index owes to the thread is not reasoned about but computed, thread by thread; so
// is which threads come to the access at all, as far as the conditions around it depend on the thread alone. What is left of the two indices
// differs by an expression of which bounds and divisibility are known. That finds tiles with padding or swizzles, thread 0 alone, halves of
// a tree. Two further steps: a loop variable under `mod 2` (mod 3, ..), as double buffers have it, is looked at by its remainders; and
// equal sums are taken apart digit by digit where strides are parameters. Unknown means that they may.
#include <deque>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "symbolic/constraints.h"
#include "thread/thread_ir.h"

namespace stax::thread {

enum class AccessKind : uint8_t { kRead, kWrite, kAtomic };

struct Guard {
  Scalar condition;
  bool holds = true;
  bool operator==(const Guard&) const = default;
};

struct Access {
  int slot = 0;
  AccessKind kind = AccessKind::kRead;
  Scalar index;  // i64, of the first of `width` elements
  int width = 1;
  std::vector<Guard> guards;  // conditions around it, and that variables are below their extents
  bool operator==(const Access&) const = default;
};

/// The accesses of shared memory and of written global memory by one statement itself, loads first.
std::vector<Access> accesses_of(const Kernel& kernel, const StmtNode& s, const std::vector<Guard>& guards);

class Hazards {
 public:
  explicit Hazards(const Kernel& kernel) : kernel_(kernel) {}

  /// Accesses are known by number: equal ones have one.
  int number_of(Access access);
  const Access& access(int number) const { return accesses_[static_cast<size_t>(number)]; }
  /// The number of the access with `by` for `var`.
  int substituted(int access, Expr var, Expr by);
  /// Whether `earlier` by one thread and `later` by another may be of one element, one of them a write. Both mean the same values by the same
  /// symbols, but for the thread.
  bool may_meet(int earlier, int later);
  /// A symbol for the value of `var` in some other iteration, and one for how many iterations lie in between.
  Expr another(Expr var);
  Expr distance(Expr var);

 private:
  using Threads = std::vector<bool>;
  struct Equation {
    Expr earlier, later;
  };
  struct Place {
    Expr of_thread, rest;  // the value is the sum of all
    int64_t constant = 0;
  };
  struct Apart {
    symbolic::Interval range;
    int64_t step = 0;  // of which it is a multiple; 0: it is one value
  };

  bool may_be_equal(const Access& a, const Access& b, int splits);
  std::vector<Equation> equations_of(const Access& a, const Access& b);
  bool is_within(const Access& a, Expr digit, int width, Expr base);
  symbolic::ConstraintSet& facts_of(const std::vector<Guard>& guards);
  bool have_common_solution(const Access& a, const Access& b, const std::vector<Equation>& equations);
  const std::optional<Place>& place_of(Expr e);
  /// How far what two values owe to everything but the thread is apart.
  Apart apart(const Place& a, const Place& b);
  bool has_strides(Expr e);
  /// What the values of `later` by one thread less those of `earlier` by another may be.
  struct Differences {
    int64_t least = 0;
    std::vector<bool> found;  // from `least` on
  };
  /// Whether one of them, for some elements of accesses of these widths, is in the range and a multiple of `step` (0: the range is one value).
  static bool meets(const Differences& d, symbolic::Interval range, int64_t step, int width_a, int width_b);
  const Differences* differences_of(Expr earlier, const Threads& of_earlier, Expr later, const Threads& of_later);
  const std::vector<int64_t>& values_of(Expr of_thread) const;
  const Threads& threads_of(const std::vector<Guard>& guards) const;
  std::optional<bool> decide(Scalar condition, int64_t thread) const;
  std::optional<bool> decide(Expr condition, int64_t thread) const;
  bool is_of_thread_alone(Expr e) const;
  Expr find_periodic(Expr e) const;

  const Kernel& kernel_;
  std::unordered_map<const symbolic::ExprNode*, Expr> others_, distances_, quotients_;
  mutable std::unordered_map<const symbolic::ExprNode*, std::vector<int64_t>> values_;
  mutable std::map<std::vector<std::pair<const ir::ScalarNode*, bool>>, Threads> threads_;  // by guards
  std::unordered_map<const symbolic::ExprNode*, std::optional<Place>> places_;
  std::unordered_map<const symbolic::ExprNode*, bool> have_strides_;
  std::map<std::pair<const symbolic::ExprNode*, const symbolic::ExprNode*>, Expr> apart_;
  std::map<std::tuple<const symbolic::ExprNode*, const Threads*, const symbolic::ExprNode*, const Threads*>,
           Differences>
      differences_;
  std::deque<std::pair<std::vector<Guard>, symbolic::ConstraintSet>> facts_;
  std::deque<Access> accesses_;
  std::unordered_map<size_t, std::vector<int>> numbers_;  // by hash
  std::map<std::tuple<int, const symbolic::ExprNode*, const symbolic::ExprNode*>, int> substituted_;
  std::unordered_map<uint64_t, bool> known_;
};

}  // namespace stax::thread
