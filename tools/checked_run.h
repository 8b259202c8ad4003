// SPDX-License-Identifier: Apache-2.0
#pragma once
// run --check: what is said, kept and looked into when a version of a kernel gives another result than the last one.
#include <string>
#include <vector>

#include "bisect/bisect.h"
#include "session/session.h"

namespace stax::tool {

class CheckedRun {
 public:
  CheckedRun(std::string model, bisect::BisectOptions machine, std::map<std::string, frontend::DimRange> dims)
      : model_(std::move(model)), machine_(std::move(machine)), dims_(std::move(dims)) {}
  /// Sets the session's alarm. This object must outlive the session's calls.
  void listen(session::SessionOptions& options);
  void attach(const session::Session& session) { session_ = &session; }
  /// The calls that follow are of this input file.
  void begin(const std::string& file) { file_ = file; }
  bool found() const { return !mismatches_.empty(); }
  void print_summary() const;
  /// Bisects the first call that went wrong, where there is a model to do it with. The exit status.
  int explain() const;

 private:
  struct Found {
    std::string file, inputs;  // the call, and where its inputs are kept
    std::vector<tensor::Item> items;
  };
  void alarm(const runtime::Mismatch& mismatch);

  std::string model_;
  bisect::BisectOptions machine_;
  std::map<std::string, frontend::DimRange> dims_;
  const session::Session* session_ = nullptr;
  std::string file_;
  std::vector<Found> mismatches_;
};

}  // namespace stax::tool
