// SPDX-License-Identifier: Apache-2.0
#pragma once
// problems.py as a process of its own: makes problems, and times ONNX Runtime.
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "problem.h"

namespace stax::bench {

class Worker {
 public:
  /// Starts `python` with `script`; files go to `folder`. Throws std::runtime_error.
  Worker(const std::string& python, const std::string& script, int threads, const std::string& folder);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker();

  Problem make(const std::string& kind, const std::map<std::string, int64_t>& parameters);
  /// Seconds of one call of ONNX Runtime, the mean of `calls`.
  double seconds(const Problem& problem, int calls);

 private:
  nlohmann::json ask(const nlohmann::json& request);
  FILE* to_ = nullptr;
  FILE* from_ = nullptr;
  int process_ = -1;
};

}  // namespace stax::bench
