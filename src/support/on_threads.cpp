// SPDX-License-Identifier: Apache-2.0
#include "support/on_threads.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace stax {

void on_threads(int threads, const std::function<void(int number)>& work) {
  std::vector<std::jthread> others;
  others.reserve(static_cast<size_t>(threads));
  try {
    for (int k = 1; k < threads; ++k) others.emplace_back([&work, k] { work(k); });
  } catch (const std::system_error&) {
  }
  work(0);
}

void for_each_on_threads(size_t count, int threads, const std::function<void(size_t item)>& work) {
  std::atomic<size_t> next = 0;
  std::mutex fault_mutex;
  std::exception_ptr fault;
  size_t faulty = count;
  const size_t most = std::min(count, static_cast<size_t>(std::max(threads, 1)));
  on_threads(static_cast<int>(most), [&](int) {
    for (size_t item = next++; item < count; item = next++) {
      try {
        work(item);
      } catch (...) {
        const std::lock_guard lock(fault_mutex);
        if (item < faulty) fault = std::current_exception(), faulty = item;
      }
    }
  });
  if (fault) std::rethrow_exception(fault);
}

}  // namespace stax
