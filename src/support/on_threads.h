// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>

namespace stax {

/// Calls work(0), .., each on a thread of its own, the first on this one; fewer than `threads` where the system has no more for this process. Returns
/// when all have ended. `work` must not throw, and what one call leaves undone another one has to find.
void on_threads(int threads, const std::function<void(int number)>& work);

}  // namespace stax
