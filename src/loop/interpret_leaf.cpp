// SPDX-License-Identifier: Apache-2.0
#include "loop/interpret_leaf.h"

#include <algorithm>
#include <optional>

#include "loop/access.h"
#include "loop/interpret_evaluator.h"
#include "support/error.h"

namespace stax::loop {

struct Leaf::Impl {
  Evaluator evaluator;
  int slot = 0;
  std::optional<Combiner> combiner;
  int place = 0;
  int value = 0;
  int mask = -1;
  int lanes = 0;  // of a vector loop that the updated location does not depend on

  Impl(Machine& machine, const std::vector<For>& box) : evaluator(machine, box) {}

  void write_block() {
    if (evaluator.is_off(mask)) return;
    const uint8_t* bytes = evaluator.bytes_of(mask);
    const BoundBuffer& b = evaluator.buffer(slot);
    const Address at = evaluator.locate(place, bytes, combiner ? "update" : "store");
    const Value64* values = evaluator.values(value);
    if (!combiner) return store_block(b.dtype, b.data, at, evaluator.count(), bytes, values);
    update_block(b.dtype, *combiner, b.data, at, evaluator.count(), bytes, values);
  }

  // Each lane has a sum of its own, in the buffer's dtype, that begins with its first value; the lanes are added to the
  // location in order.
  void run_lanes() {
    const BoundBuffer& b = evaluator.buffer(slot);
    std::vector<double> partial(static_cast<size_t>(lanes));  // memory for any dtype
    std::vector<int64_t> lane(static_cast<size_t>(kBlock));
    std::vector<bool> is_used(static_cast<size_t>(lanes));
    int used = 0;
    std::optional<Address> target;
    const auto update = [&](int64_t from, int64_t n, const uint8_t* bytes, const Value64* values) {
      update_block(b.dtype, *combiner, partial.data(), {0, 0, lane.data() + from}, n, bytes, values + from);
    };
    while (evaluator.next_block()) {
      const int64_t n = evaluator.count();
      if (evaluator.is_off(mask)) continue;
      const uint8_t* bytes = evaluator.bytes_of(mask);
      const Value64* values = evaluator.values(value);
      const Address at = evaluator.locate(place, bytes, "update");
      target = Address{at[first_on(bytes, n)], 0, nullptr};
      for (int64_t k = 0; k < n; ++k) lane[k] = (evaluator.first() + k) % lanes;
      int64_t k = 0;
      for (; k < n && used < lanes; ++k) {
        if (bytes != nullptr && bytes[k] == 0) continue;
        if (is_used[lane[k]]) {
          update(k, 1, nullptr, values);
        } else {
          store_block(b.dtype, partial.data(), {lane[k], 0, nullptr}, 1, nullptr, values + k);
          is_used[lane[k]] = true;
          ++used;
        }
      }
      update(k, n - k, bytes != nullptr ? bytes + k : nullptr, values);
    }
    for (int l = 0; l < lanes; ++l) {
      if (!is_used[l]) continue;
      Value64 v;
      load_block(b.dtype, partial.data(), {l, 0, nullptr}, 1, nullptr, &v);
      update_block(b.dtype, *combiner, b.data, *target, 1, nullptr, &v);
    }
  }

  static int64_t first_on(const uint8_t* bytes, int64_t n) {
    if (bytes == nullptr) return 0;
    return std::find_if(bytes, bytes + n, [](uint8_t x) { return x != 0; }) - bytes;
  }
};

Leaf::Leaf(Machine& machine, std::vector<For> box, const std::vector<Guard>& guards, const Stmt& statement)
    : impl_(std::make_unique<Impl>(machine, box)) {
  Evaluator& e = impl_->evaluator;
  int mask = -1;
  for (const Guard& g : guards) mask = e.mask_of(e.scalar(g.condition, mask), g.holds, mask);
  impl_->mask = mask;
  const auto take = [&](const auto& s) {
    impl_->slot = s.slot;
    impl_->value = e.scalar(s.value, mask);
    impl_->place = e.place(s.slot, s.index, mask);
  };
  if (const Store* s = statement->as<Store>()) {
    take(*s);
    return;
  }
  const Update* u = statement->as<Update>();
  STAX_ASSERT(u != nullptr);
  take(*u);
  impl_->combiner = u->combiner;
  if (box.size() == 1 && box[0].kind == LoopKind::kVector && box[0].width > 1 &&
      std::none_of(u->index.begin(), u->index.end(), [&](Scalar i) { return depends_on(i, box[0].var); })) {
    impl_->lanes = box[0].width;
  }
}

Leaf::~Leaf() = default;

void Leaf::run() {
  Evaluator& e = impl_->evaluator;
  if (!e.enter()) return;
  if (impl_->lanes > 0) return impl_->run_lanes();
  while (e.next_block()) impl_->write_block();
}

struct ScalarLeaf::Impl {
  Evaluator evaluator;
  int step = 0;
};

ScalarLeaf::ScalarLeaf(Machine& machine, Scalar scalar) : impl_(new Impl{Evaluator(machine, {}), 0}) {
  impl_->step = impl_->evaluator.scalar(scalar, -1);
}

ScalarLeaf::~ScalarLeaf() = default;

Value64 ScalarLeaf::run() {
  impl_->evaluator.enter();
  return impl_->evaluator.values(impl_->step)[0];
}

}  // namespace stax::loop
