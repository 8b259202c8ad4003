// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace stax::runtime {

/// Denormals count as zero while it lives, in this thread.
class FlushDenormals {
 public:
  explicit FlushDenormals(bool on) : on_(on) {
#if defined(__x86_64__)
    if (on_) saved_ = _mm_getcsr(), _mm_setcsr(saved_ | 0x8040u);
#endif
  }
  ~FlushDenormals() {
#if defined(__x86_64__)
    if (on_) _mm_setcsr(saved_);
#endif
  }

 private:
  bool on_;
  unsigned saved_ = 0;
};

}  // namespace stax::runtime
