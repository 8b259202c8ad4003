// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <functional>

namespace stax {

/// Calls work(0), .., each on a thread of its own, the first on this one; fewer than `threads` where the system has no more for this process. Returns
/// when all have ended. `work` must not throw, and what one call leaves undone another one has to find.
void on_threads(int threads, const std::function<void(int number)>& work);

/// Calls work(0), .., work(count - 1) in any order, on up to `threads` threads. Where calls throw, all others are done nevertheless, and the exception of
/// the first of them goes on to the caller.
void for_each_on_threads(size_t count, int threads, const std::function<void(size_t item)>& work);

}  // namespace stax
