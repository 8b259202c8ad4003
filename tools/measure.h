// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a model costs at a shape, kernel by kernel, measured.
#include <string>
#include <vector>

#include "roof.h"
#include "session/session.h"

namespace stax::tool {

struct KernelCost {
  uint32_t kernel = 0;  // in the program: a version
  int64_t launches = 0;
  double ns = 0;  // of all launches of a call: the median over calls
  int64_t bytes = 0, operations = 0;
  double least_ns = 0;  // by the roof
  double share_of_roof() const { return least_ns / ns; }
};

struct Cost {
  double call_us = 0;                  // from caller's to caller's buffers: the median
  double kernels_us = 0, roof_us = 0;  // of all kernels; what takes less than its roof counts with its time
  std::vector<KernelCost> kernels;     // the dearest first
  double share_of_roof() const { return kernels_us > 0 ? roof_us / kernels_us : 0; }
};

/// Some calls to warm up; then calls timed whole, and half as many by kernel.
Cost measure(session::Session& session, const std::vector<runtime::Item>& inputs, int warmup, int repeat,
             const Roof& roof);

}  // namespace stax::tool
