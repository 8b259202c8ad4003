// SPDX-License-Identifier: Apache-2.0
// Calls that are checked while they serve: each launch runs a second time, in the version that is right at every shape.
//
// The last version runs first, into memory of its own: a result may lie where an operand was that nobody needs any more. What then differs is put
// right, so that the rest of the call works on what it should, one wrong version raises one alarm, and the caller gets a right answer.
#include "runtime/executor.h"
#include "runtime/version_compare.h"
#include "support/error.h"

namespace stax::runtime {

using namespace program;

std::vector<std::byte> Context::host_copy(const void* data, int64_t bytes) {
  std::vector<std::byte> host(static_cast<size_t>(bytes));
  if (bytes > 0) shared_.device->copy_out(host.data(), data, host.size());
  return host;
}

void Context::report_mismatch(const LaunchStep& s, uint32_t kernel, Mismatch mismatch) {
  ++shared_.statistics.mismatches;
  mismatch.kernel = kernel;
  mismatch.total = s.versions.back().kernel;
  mismatch.source = s.source;
  mismatch.inputs = inputs_;
  if (mismatch.kernel != mismatch.total) shared_.demoted[kernel] = true;
  if (shared_.options.alarm) shared_.options.alarm(mismatch);
}

void Context::launch_checked(const LaunchStep& s, const LaunchVersion& version) {
  const LaunchVersion& total = s.versions.back();
  const size_t first = s.arguments.size() - s.results;
  const std::vector<void*> own = buffers_;
  std::vector<std::shared_ptr<void>> spare;
  for (size_t k = first; k < own.size(); ++k) {
    const int64_t bytes = value(program_.values[s.arguments[k]].bytes);
    spare.push_back(shared_.memory->allocate(bytes, s.source));
    buffers_[k] = spare.back().get();
    // A scatter goes on with what is there.
    if (bytes > 0) shared_.device->copy(buffers_[k], own[k], static_cast<size_t>(bytes));
  }
  if (const Fault fault = launch(s, total); fault.failed) raise(fault, s.source);
  ++shared_.statistics.launches;
  ++shared_.statistics.checked_launches;
  buffers_ = own;
  const Fault fault = launch_counted(s, version);
  bool reported = fault.failed != 0;
  if (fault.failed)
    report_mismatch(s, version.kernel, {.what = fmt::format("it finds index {} out of range", fault.index)});
  for (size_t k = first; k < own.size(); ++k) {
    const ValueRef v = s.arguments[k];
    const int64_t bytes = value(program_.values[v].bytes);
    if (!reported) {
      const std::vector<std::byte> got = host_copy(own[k], bytes), want = host_copy(spare[k - first].get(), bytes);
      auto difference = compare_versions(program_.values[v].dtype, padded_extents_of(v), got.data(), want.data(),
                                         version.kernel == total.kernel);
      if (!difference) continue;
      reported = true;
      report_mismatch(s, version.kernel,
                      {.result = static_cast<uint32_t>(k - first),
                       .index = std::move(difference->index),
                       .what = std::move(difference->what)});
    }
    if (bytes > 0) shared_.device->copy(own[k], spare[k - first].get(), static_cast<size_t>(bytes));
  }
}

}  // namespace stax::runtime
