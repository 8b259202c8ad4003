// SPDX-License-Identifier: Apache-2.0
// Steps that call procedures: what data decides the size or the order of.
#include <atomic>
#include <cstring>

#include "runtime/executor.h"
#include "support/error.h"

namespace stax::runtime {

using namespace program;

template <class F>
void Context::parallel(int64_t iterations, int64_t work, const F& f) {
  int wanted = workers_.worth(work);
  if (wanted <= 1 || iterations <= 1) return f(int64_t{0}, iterations, 0);
  struct Job {
    const F* f;
    std::atomic<bool> failed{false};
    std::exception_ptr error;  // of the first that failed
  } job{&f};
  auto function = [](void* self, int64_t begin, int64_t end, int worker) {
    auto& j = *static_cast<Job*>(self);
    try {
      (*j.f)(begin, end, worker);
    } catch (...) {
      if (!j.failed.exchange(true)) j.error = std::current_exception();
    }
  };
  shared_.pool.run({function, &job}, iterations, wanted);
  if (job.error) std::rethrow_exception(job.error);
}

void Context::run_step(const ProcedureStep& s) {
  switch (s.procedure) {
    case Procedure::kTopK: return run_top_k(s);
    case Procedure::kNonZero: return run_nonzero(s);
    case Procedure::kUnique: return run_unique(s);
    case Procedure::kNonMaxSuppression: return run_suppression(s);
    case Procedure::kDeterminant: return run_determinant(s);
  }
}

void* Context::allocate_host_result(ValueRef v, int64_t bytes, std::string_view source) {
  allocate_owned(v, bytes, source);
  return host_result(v, bytes);
}

void Context::run_top_k(const ProcedureStep& s) {
  ValueRef in = s.operands[0];
  std::vector<int64_t> extents = padded_extents_of(in);
  procedures::AxisView view = procedures::view_along(extents, static_cast<int>(s.axis));
  int64_t k = padded_extents_of(s.results[0])[static_cast<size_t>(s.axis)];
  DType t = program_.values[in].dtype;
  const void* from = host_data(in);
  void* items = host_result(s.results[0], value(program_.values[s.results[0]].bytes));
  auto* indices = s.results.size() > 1
                      ? static_cast<int64_t*>(host_result(s.results[1], value(program_.values[s.results[1]].bytes)))
                      : nullptr;
  parallel(view.rows(), view.rows() * view.count * 16, [&](int64_t begin, int64_t end, int worker) {
    procedures::top_k(t, from, view, k, s.flag, items, indices, begin, end, procedure_scratch_[worker]);
  });
}

void Context::run_nonzero(const ProcedureStep& s) {
  ValueRef in = s.operands[0];
  DType t = program_.values[in].dtype;
  const void* from = host_data(in);
  std::vector<int64_t> extents = extents_of(in);
  int64_t n = count_of(in), found = procedures::count_nonzero(t, from, 0, n);
  define(s.defines, found, s.source);
  int64_t bytes = found * static_cast<int64_t>(extents.size()) * 8;
  auto* out = static_cast<int64_t*>(allocate_host_result(s.results[0], bytes, s.source));
  procedures::write_nonzero(t, from, extents, 0, n, out, found, 0);
}

void Context::run_unique(const ProcedureStep& s) {
  ValueRef in = s.operands[0];
  DType t = program_.values[in].dtype;
  std::vector<int64_t> extents = extents_of(in);
  procedures::AxisView view;
  if (s.axis >= 0)
    view = procedures::view_along(extents, static_cast<int>(s.axis));
  else
    view.count = count_of(in);
  int64_t n = view.count;
  procedures::UniqueOutputs out;
  auto numbers = [&](size_t k) {
    return s.results.size() > k ? static_cast<int64_t*>(allocate_host_result(s.results[k], n * 8, s.source)) : nullptr;
  };
  out.items = allocate_host_result(s.results[0], count_of(in) * static_cast<int64_t>(ir::byte_size(t)), s.source);
  out.first_indices = numbers(1);
  out.inverse = numbers(2);
  out.counts = numbers(3);
  define(s.defines, procedures::unique(t, host_data(in), view, s.flag, out, procedure_scratch_[0]), s.source);
}

void Context::run_suppression(const ProcedureStep& s) {
  std::vector<int64_t> boxes = extents_of(s.operands[0]), scores = extents_of(s.operands[1]);
  if (boxes.size() != 3 || scores.size() != 3 || boxes[2] != 4 || boxes[0] != scores[0] || boxes[1] != scores[2])
    user_error("{}: boxes [{}] must be [batches, boxes, 4] and scores [{}] must be [batches, classes, boxes]", s.source,
               fmt::join(boxes, ", "), fmt::join(scores, ", "));
  procedures::SuppressionOptions options;
  options.batches = scores[0];
  options.classes = scores[1];
  options.boxes = scores[2];
  options.most_per_class = read_int(s.operands[2]);
  auto real = [&](ValueRef v) { return ir::load_element(program_.values[v].dtype, host_data(v), 0).f; };
  options.iou_threshold = real(s.operands[3]);
  options.score_threshold = real(s.operands[4]);
  options.center_point_box = s.flag;
  int64_t pairs = options.batches * options.classes, capacity = procedures::suppression_capacity(options);
  std::shared_ptr<void> rows = shared_.host_memory->allocate(symbolic::saturating_mul(pairs, capacity * 24), s.source);
  int64_t found = procedures::non_max_suppression(program_.values[s.operands[0]].dtype, host_data(s.operands[0]),
                                                  host_data(s.operands[1]), options, 0, pairs,
                                                  static_cast<int64_t*>(rows.get()), procedure_scratch_[0]);
  define(s.defines, found, s.source);
  void* out = allocate_host_result(s.results[0], found * 24, s.source);
  if (found > 0) std::memcpy(out, rows.get(), static_cast<size_t>(found) * 24);
}

void Context::run_determinant(const ProcedureStep& s) {
  std::vector<int64_t> extents = padded_extents_of(s.operands[0]);
  int64_t n = extents.back(), batch = 1;
  for (size_t k = 0; k + 2 < extents.size(); ++k) batch *= extents[k];
  DType t = program_.values[s.operands[0]].dtype;
  const void* from = host_data(s.operands[0]);
  void* to = host_result(s.results[0], value(program_.values[s.results[0]].bytes));
  parallel(batch, batch * n * n * n, [&](int64_t begin, int64_t end, int worker) {
    procedures::determinant(t, from, n, begin, end, to, procedure_scratch_[worker]);
  });
}

}  // namespace stax::runtime
