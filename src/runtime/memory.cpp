// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory.h"

#include <algorithm>

#include "support/error.h"

namespace stax::runtime {
namespace {

constexpr int64_t kMaxBytes = int64_t{1} << 46;
constexpr size_t kAlwaysKept = size_t{4} << 20;
constexpr int kRecent = 64;  // blocks after which what was needed before is forgotten, at the second time

// Sizes come in steps of an eighth of a power of two, so that neighbours in shape share blocks.
size_t rounded(size_t bytes) {
  size_t step = 64;
  while (step * 16 <= bytes) step *= 2;
  return (bytes + step - 1) / step * step;
}

/// Memory for the reference counts of blocks, kept by each thread for its next ones: a call that takes blocks and gives them back does not ask the
/// heap each time.
class CountBlocks {
 public:
  static constexpr size_t kBytes = 128;
  ~CountBlocks() {
    closed_ = true;
    for (; kept_ > 0; --kept_) ::operator delete(blocks_[kept_ - 1]);
  }
  void* take() { return kept_ > 0 ? blocks_[--kept_] : ::operator new(kBytes); }
  void give(void* p) {
    if (closed_ || kept_ == std::size(blocks_)) return ::operator delete(p);
    blocks_[kept_++] = p;
  }

 private:
  void* blocks_[64];
  size_t kept_ = 0;
  bool closed_ = false;
};
thread_local CountBlocks count_blocks;

template <class T>
struct CountAllocator {
  using value_type = T;
  CountAllocator() = default;
  template <class U>
  explicit(false) CountAllocator(const CountAllocator<U>&) {}
  T* allocate(size_t n) {
    static_assert(sizeof(T) <= CountBlocks::kBytes && alignof(T) <= alignof(std::max_align_t));
    STAX_ASSERT(n == 1);
    return static_cast<T*>(count_blocks.take());
  }
  void deallocate(T* p, size_t) { count_blocks.give(p); }
  template <class U>
  bool operator==(const CountAllocator<U>&) const {
    return true;
  }
};

}  // namespace

MemoryPool::~MemoryPool() { trim(); }

void MemoryPool::trim() {
  std::lock_guard lock(mutex_);
  drop_to(0);
}

// First what has been of no use for longest.
void MemoryPool::drop_to(size_t bytes) {
  while (free_bytes_ > bytes) {
    const auto oldest =
        std::min_element(free_.begin(), free_.end(), [](const Free& a, const Free& b) { return a.since < b.since; });
    device_->release(oldest->data, oldest->bytes);
    free_bytes_ -= oldest->bytes;
    free_.erase(oldest);
  }
}

size_t MemoryPool::most_kept(size_t live) const {
  const size_t need = std::max(need_, earlier_need_);
  return std::max(kAlwaysKept, need > live ? need - live : 0);
}

void MemoryPool::note_need(size_t live) {
  if (++blocks_ == kRecent) {
    blocks_ = 0;
    earlier_need_ = need_;
    need_ = 0;
  }
  need_ = std::max(need_, live);
}

std::shared_ptr<void> MemoryPool::allocate(int64_t bytes, std::string_view what) {
  if (bytes < 0 || bytes > kMaxBytes)
    user_error("{}: cannot allocate {} bytes; check the sizes that lead to this shape", what, bytes);
  size_t size = rounded(std::max<size_t>(64, static_cast<size_t>(bytes)));
  void* data = nullptr;
  {
    std::lock_guard lock(mutex_);
    auto it = std::lower_bound(free_.begin(), free_.end(), size, [](const Free& f, size_t s) { return f.bytes < s; });
    if (it != free_.end() && it->bytes <= size + size / 4) {
      data = it->data;
      size = it->bytes;
      free_bytes_ -= size;
      free_.erase(it);
    }
    const size_t live = static_cast<size_t>(std::max<int64_t>(0, live_.load())) + size;
    note_need(live);
    // What is free and of no use to it would come on top of what is needed.
    if (!data) drop_to(most_kept(live));
  }
  if (!data) data = device_->allocate(size);
  if (!data) {
    trim();
    data = device_->allocate(size);
  }
  if (!data)
    user_error("{}: out of memory: {} bytes could not be allocated; use smaller inputs or free memory", what, bytes);
  int64_t now = live_.fetch_add(static_cast<int64_t>(size)) + static_cast<int64_t>(size);
  for (int64_t peak = peak_.load(); now > peak && !peak_.compare_exchange_weak(peak, now);) {
  }
  return {data, [self = shared_from_this(), size](void* p) { self->give_back(p, size); }, CountAllocator<char>()};
}

void MemoryPool::give_back(void* data, size_t bytes) {
  int64_t now = live_.fetch_sub(static_cast<int64_t>(bytes)) - static_cast<int64_t>(bytes);
  {
    std::lock_guard lock(mutex_);
    const size_t limit = most_kept(static_cast<size_t>(std::max<int64_t>(0, now)));
    // The next call is most likely like this one: older blocks make way.
    drop_to(limit - std::min(limit, bytes));
    if (bytes <= limit) {
      auto it =
          std::lower_bound(free_.begin(), free_.end(), bytes, [](const Free& f, size_t s) { return f.bytes < s; });
      try {
        free_.insert(it, {data, bytes, ++given_back_});
        free_bytes_ += bytes;
        return;
      } catch (const std::bad_alloc&) {  // no memory for the list: then the block goes back, which helps
      }
    }
  }
  device_->release(data, bytes);
}

void MemoryPool::count_external(int64_t bytes) {
  int64_t now = live_.fetch_add(bytes) + bytes;
  for (int64_t peak = peak_.load(); now > peak && !peak_.compare_exchange_weak(peak, now);) {
  }
}

}  // namespace stax::runtime
