// SPDX-License-Identifier: Apache-2.0
#pragma once
// One problem of kernel_bench: arrays, a model, and who solves it.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace stax::bench {

/// Elements in row-major order.
struct Array {
  std::string type;  // as numpy names it: "float32", "uint8", "int8", "int32", "int64"
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;

  template <class T>
  const T* data() const {
    return reinterpret_cast<const T*>(bytes.data());
  }
  int64_t count() const;
};

/// What problems.py makes of a kind and its parameters.
struct Problem {
  std::string kind;
  std::map<std::string, int64_t> parameters;
  int64_t operations = 0;  // additions and multiplications of one call
  int64_t bytes = 0;       // that a call reads and writes at least
  int id = -1;             // problems.py's
  std::string model;       // path of an ONNX file
  std::vector<Array> inputs, constants;
  Array output;  // ONNX Runtime's

  int64_t operator[](const std::string& parameter) const { return parameters.at(parameter); }
  std::string name() const;
};

/// One call with the results in `output`, which is as large as Problem::output; empty where a library has no such kernel.
struct Solver {
  std::function<void()> call;
  std::shared_ptr<std::vector<std::byte>> output;
};

Solver solve_with_stax(const Problem& problem, int threads);
/// Products of floats. Weights are packed in each call, as its interface has it.
Solver solve_with_openblas(const Problem& problem);
/// Weights are reordered once, outside of the call, into the form that it likes best.
Solver solve_with_onednn(const Problem& problem);

/// The largest |a - b| over 1 + |a| of two arrays of the problem's output; infinity for a NaN on one side.
double distance(const Problem& problem, const std::vector<std::byte>& a, const std::vector<std::byte>& b);

}  // namespace stax::bench
