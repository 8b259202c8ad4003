// SPDX-License-Identifier: Apache-2.0
#include "support/on_threads.h"

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

}  // namespace stax
