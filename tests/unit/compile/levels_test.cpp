// SPDX-License-Identifier: Apache-2.0
// Each kernel at each level: the tensor interpreter says what an op means; the naive loop nest, the nest under each of its schedules, and
// machine code have to give the same. Results are poisoned before, and lie against pages that cannot be touched.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "loop/passes.h"
#include "loop/transform.h"
#include "lower/lower.h"
#include "schedule/schedule.h"
#include "unit/compile/random_graph.h"
#include "unit/emit/compare.h"
#include "unit/emit/native.h"

namespace stax::compile {
namespace {

using emit::Guarded;
using tensor::Op;
using tensor::OpKind;

// Scalar operations that the loop interpreter, or a single call, does in a moment.
constexpr int64_t kMostInterpreted = 60'000, kMostWork = 3'000'000;

lower::LoweredKernel lower_op(const Op& op) {
  switch (op.kind()) {
    case OpKind::kCompute: return lower::lower_compute(op);
    case OpKind::kScatter: return lower::lower_scatter(op);
    case OpKind::kPrefixScan: return lower::lower_prefix_scan(op);
    default: internal_error("{} is no kernel", tensor::name_of(op.kind()));
  }
}
bool is_kernel(const Op& op) {
  return op.kind() == OpKind::kCompute || op.kind() == OpKind::kScatter || op.kind() == OpKind::kPrefixScan;
}

/// One op under all of its schedules.
class KernelForms {
 public:
  explicit KernelForms(const Op& op) : op_(op), lowered_(lower_op(op)) {
    loop::verify(lowered_.kernel);
    forms_.push_back({"naive", lowered_.kernel});
    const schedule::Versions versions = schedule::choose_versions(lowered_.kernel, [&] { return lower_op(op).kernel; });
    for (size_t v = 0; v < versions.size(); ++v) {
      loop::Kernel kernel = versions[v].kernel;
      loop::verify(kernel);
      forms_.push_back({"version " + std::to_string(v), kernel});
      kernel = loop::hoist_loop_invariants(loop::simplify(kernel));
      loop::verify(kernel);
      forms_.push_back({"version " + std::to_string(v) + " simplified", kernel});
      EXPECT_EQ(loop::print(loop::parse_kernel(loop::print(kernel))), loop::print(kernel));
    }
    EXPECT_FALSE(versions.empty() || versions.back().guard) << "the last version takes every shape";
  }

  void compile(emit::Isa isa) {
    std::vector<emit::NativeKernel> kernels;
    for (size_t k = 0; k < forms_.size(); ++k) kernels.push_back({&forms_[k].kernel, "k" + std::to_string(k)});
    emit::EmitOptions options;
    options.isa = isa;
    native_.push_back(std::make_unique<emit::Mapped>(emit::emit_native(kernels, options)));
  }

  /// Compares all forms with `want`, the op's result on `operands`.
  void check(const std::vector<const tensor::Item*>& operands, const ir::Literal& want, const tensor::Bindings& bound,
             emit::Tolerance tolerance, std::mt19937_64& draw) const {
    if (symbolic::evaluate(lowered_.written, bound) <= 0) return;  // never launched
    std::vector<int64_t> params;
    for (const Expr e : lowered_.param_values) params.push_back(symbolic::evaluate(e, bound));
    for (const Form& form : forms_) {
      if (work(bound) <= kMostInterpreted)
        expect(form.name + ", interpreted", operands, want, tolerance,
               [&](std::span<void* const> buffers) { loop::interpret(form.kernel, buffers, params); });
      if (testing::Test::HasFailure()) return;
      for (const auto& image : native_) {
        std::unordered_map<const symbolic::ExprNode*, int64_t> values;
        for (size_t k = 0; k < params.size(); ++k) values[form.kernel.params[k].node()] = params[k];
        int64_t iterations = 1;
        if (const auto* f = form.kernel.body->as<loop::For>(); f && f->kind == loop::LoopKind::kParallel)
          iterations = symbolic::evaluate(f->extent, values);
        const Guarded scratch(static_cast<size_t>(symbolic::evaluate(emit::scratch_bytes(form.kernel), values) + 63) /
                              64 * 64);
        const emit::Entry entry = image->entry("k" + std::to_string(&form - forms_.data()));
        expect(form.name + ", native", operands, want, tolerance, [&](std::span<void* const> buffers) {
          emit::KernelFault fault;
          for (int64_t begin = 0; begin < iterations;) {  // in pieces, as threads take them
            const int64_t end =
                std::min(iterations, begin + 1 + static_cast<int64_t>(draw() % static_cast<uint64_t>(iterations)));
            entry(buffers.data(), params.data(), begin, end, scratch.data(), &fault);
            begin = end;
          }
          EXPECT_EQ(fault.failed, 0);
        });
        if (testing::Test::HasFailure()) return;
      }
    }
  }
  /// Scalar operations of one evaluation.
  int64_t work(const tensor::Bindings& bound) const { return symbolic::evaluate(lowered_.work, bound); }
  std::string text() const {
    std::string text;
    for (const Form& form : forms_) text += "// " + form.name + "\n" + loop::print(form.kernel);
    return text.substr(0, 6000);
  }

 private:
  struct Form {
    std::string name;
    loop::Kernel kernel;
  };

  template <class F>
  void expect(const std::string& what, const std::vector<const tensor::Item*>& operands, const ir::Literal& want,
              emit::Tolerance tolerance, const F& run) const {
    std::vector<std::unique_ptr<Guarded>> memory;
    std::vector<void*> buffers;
    void* result = nullptr;
    for (const int argument : lowered_.arguments) {
      const ir::Literal& data = argument >= 0 ? operands[static_cast<size_t>(argument)]->tensor : want;
      memory.push_back(std::make_unique<Guarded>(data.bytes()));
      buffers.push_back(memory.back()->data());
      const ir::Literal* initial = argument >= 0                    ? &data
                                   : op_.kind() == OpKind::kScatter ? &operands[0]->tensor
                                                                    : nullptr;
      if (initial != nullptr && initial->bytes() > 0) std::memcpy(buffers.back(), initial->data(), initial->bytes());
      if (argument < 0) result = buffers.back();
    }
    run(std::span<void* const>(buffers));
    for (int64_t i = 0; i < want.count(); ++i) {
      const ir::Value64 e = want.at(i), g = ir::load_element(want.dtype(), result, i);
      if (emit::close(want.dtype(), e, g, tolerance)) continue;
      ADD_FAILURE() << what << ": element " << i << " of " << want.count() << " is "
                    << (ir::is_float(want.dtype()) ? fmt::format("{}", g.f) : fmt::format("{}", g.i)) << " instead of "
                    << (ir::is_float(want.dtype()) ? fmt::format("{}", e.f) : fmt::format("{}", e.i));
      return;
    }
  }

  const Op& op_;
  lower::LoweredKernel lowered_;
  std::vector<Form> forms_;
  std::vector<std::unique_ptr<emit::Mapped>> native_;
};

emit::Tolerance tolerance_of(DType t) {
  switch (t) {
    case DType::kF16: return {2e-3, 2e-3};
    case DType::kBF16: return {2e-2, 2e-2};
    case DType::kF64: return {1e-12, 1e-12};
    default: return {1e-5, 1e-6};
  }
}

using Make = Value* (RandomGraph::*)();

/// `graphs` random ops of one kind, each at `calls` random shapes.
void check_levels(Make make, uint64_t first_seed, int graphs, int calls) {
  for (int g = 0; g < graphs; ++g) {
    const uint64_t seed = first_seed + static_cast<uint64_t>(g);
    RandomGraph random(seed);
    random.output((random.*make)());
    tensor::verify(*random.graph);
    std::vector<std::unique_ptr<KernelForms>> kernels;
    for (const auto& op : random.graph->body.ops) {
      kernels.push_back(is_kernel(*op) ? std::make_unique<KernelForms>(*op) : nullptr);
      if (kernels.back() == nullptr) continue;
      kernels.back()->compile(emit::host_isa());
      if (g % 8 == 0)
        for (const emit::Isa isa : emit::testable_isas())
          if (isa != emit::host_isa()) kernels.back()->compile(isa);
    }
    for (int c = 0, checked = 0; checked < calls && c < 10 * calls; ++c) {
      const auto call = random.call(seed * 1000 + static_cast<uint64_t>(c));
      if (!call) continue;
      std::mt19937_64 draw(seed);
      tensor::Bindings bound = tensor::bind_inputs(*random.graph, call->inputs);
      if (std::any_of(kernels.begin(), kernels.end(),
                      [&](const auto& kernel) { return kernel && kernel->work(bound) > kMostWork; }))
        continue;
      ++checked;
      std::unordered_map<const Value*, tensor::Item> values;
      for (size_t k = 0; k < call->inputs.size(); ++k) values[random.graph->inputs[k].value] = call->inputs[k];
      size_t at = 0;
      for (const auto& op : random.graph->body.ops) {
        std::vector<const tensor::Item*> operands;
        for (const Value* v : op->operands) operands.push_back(&values.at(v));
        std::vector<tensor::Item> results = tensor::evaluate_op(*op, operands, bound);
        if (const auto& kernel = kernels[at++]) {
          kernel->check(operands, results[0].tensor, bound, tolerance_of(op->result()->type.dtype), draw);
          if (testing::Test::HasFailure()) {
            std::string shapes;
            for (const auto& input : call->inputs) shapes += " " + text_of(input.tensor.extents());
            FAIL() << "seed " << seed << ", call " << c << ", inputs" << shapes << "\n"
                   << tensor::print(*op) << "\n"
                   << kernel->text();
          }
        }
        for (size_t k = 0; k < results.size(); ++k) values[op->result(static_cast<int>(k))] = std::move(results[k]);
      }
    }
  }
}

// A different run with another STAX_TEST_SEED; the seed of a failure is in its message.
uint64_t seed_of(uint64_t test) {
  const char* text = std::getenv("STAX_TEST_SEED");
  return (text != nullptr ? std::strtoull(text, nullptr, 10) * 1'000'003 : 0) + test * 10'000;
}

TEST(Levels, Maps) { check_levels(&RandomGraph::map, seed_of(1), 40, 6); }
TEST(Levels, Views) { check_levels(&RandomGraph::view, seed_of(2), 25, 6); }
TEST(Levels, Reductions) { check_levels(&RandomGraph::reduction, seed_of(3), 40, 6); }
TEST(Levels, Contractions) { check_levels(&RandomGraph::contraction, seed_of(4), 30, 5); }
TEST(Levels, Convolutions) { check_levels(&RandomGraph::convolution, seed_of(5), 12, 3); }
TEST(Levels, PaddedConvolutions) { check_levels(&RandomGraph::padded_convolution, seed_of(8), 16, 4); }
TEST(Levels, Scatters) { check_levels(&RandomGraph::scatter, seed_of(6), 16, 6); }
TEST(Levels, Scans) { check_levels(&RandomGraph::scan, seed_of(7), 16, 6); }

}  // namespace
}  // namespace stax::compile
