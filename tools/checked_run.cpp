// SPDX-License-Identifier: Apache-2.0
#include "checked_run.h"

#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>

#include "commands.h"
#include "session/npz.h"
#include "support/debug.h"
#include "support/error.h"

namespace stax::tool {
namespace {

constexpr int kFault = 70;

/// The inputs of a call, beside repro files. The path, or why there is none in parentheses.
std::string keep(const session::Session& session, std::span<const runtime::Item> inputs, size_t number) {
  namespace fs = std::filesystem;
  const std::string name =
      fmt::format("stax-repro-{}-check{}.npz", ::getpid(), number ? fmt::format("-{}", number) : "");
  std::string why;
  std::error_code error;
  for (const fs::path& folder : {fs::path(debug_options().repro_dir), fs::temp_directory_path(error)}) {
    try {
      session::write_npz((folder / name).string(), session::unfeed(session.inputs(), {inputs.begin(), inputs.end()}));
      return (folder / name).string();
    } catch (const UserError& e) {
      why = e.what();
    }
  }
  return "(" + why + ")";
}

}  // namespace

void CheckedRun::listen(session::SessionOptions& options) {
  options.alarm = [this](const runtime::Mismatch& mismatch) { alarm(mismatch); };
}

void CheckedRun::alarm(const runtime::Mismatch& m) {
  const auto& kernels = session_->program()->kernels;
  const program::KernelSpec &wrong = kernels[m.kernel], &total = kernels[m.total];
  Found found{file_, keep(*session_, m.inputs, mismatches_.size()), {}};
  if (mismatches_.empty())
    for (const runtime::Item& item : m.inputs) {  // of its own: the caller's memory may be another's by then
      const tensor::Item view = std::move(session::reference_items({&item, 1})[0]);
      tensor::Item copy = view;
      const auto literal = [](const ir::Literal& from) {
        ir::Literal l(from.dtype(), from.extents());
        if (l.bytes() > 0) std::memcpy(l.data(), from.data(), l.bytes());
        return l;
      };
      if (!view.is_sequence) copy.tensor = literal(view.tensor);
      for (ir::Literal& l : copy.sequence) l = literal(l);
      found.items.push_back(std::move(copy));
    }
  const std::string against =
      m.kernel == m.total ? "gives other results when it runs again"
                          : fmt::format("differs from version {}, which replaces it from here on", total.version);
  std::fprintf(stderr, "stax: %s: version %u of kernel %s (%s) %s: result %u: %s\n  inputs:   %s\n", file_.c_str(),
               wrong.version, wrong.family.c_str(), m.source.c_str(), against.c_str(), m.result, m.what.c_str(),
               found.inputs.c_str());
  mismatches_.push_back(std::move(found));
}

void CheckedRun::print_summary() const {
  const session::SessionStatistics s = session_->statistics();
  std::printf("checked: %lld calls, %lld launches, %lld of them differ\n", static_cast<long long>(s.checked_calls),
              static_cast<long long>(s.checked_launches), static_cast<long long>(s.mismatches));
}

int CheckedRun::explain() const {
  const Found& first = mismatches_.front();
  const std::vector<uint8_t> head = session::read_file(model_);
  if (program::is_program_file(head)) {
    std::fprintf(stderr, "stax: `stax bisect MODEL --inputs %s` with the model that '%s' was made from says where\n",
                 first.inputs.c_str(), model_.c_str());
    return kFault;
  }
  if (machine_.device == "loop") {
    std::fprintf(stderr, "stax: `stax bisect %s --inputs %s` says where\n", model_.c_str(), first.inputs.c_str());
    return kFault;
  }
  const auto source = [this] { return session::load_graph(model_, dims_); };
  if (const auto finding = bisect::bisect(source, first.items, machine_))
    report_finding(first.file, *finding);
  else
    std::fprintf(stderr,
                 "stax: %s: made again, all levels agree: a race, what was in memory, or the machine is at fault\n",
                 first.file.c_str());
  return kFault;
}

}  // namespace stax::tool
