// SPDX-License-Identifier: Apache-2.0
#pragma once
// The same kernel on the same data in machine code and in the interpreter.
#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <map>
#include <random>

#include "symbolic/evaluate.h"
#include "unit/emit/native.h"

namespace stax::emit {

// Values of all sizes and the special ones; small integers, so that sums and indices stay meaningful, with `tame`.
inline ir::Value64 random_value(ir::DType t, std::mt19937_64& random, bool tame) {
  ir::Value64 v;
  if (ir::is_float(t)) {
    const double small = std::uniform_real_distribution<double>(-4, 4)(random);
    static constexpr double kSpecial[] = {0.0,  -0.0,   1.0,    -1.0,  0.5,   INFINITY, -INFINITY, NAN,
                                          1e30, -1e-30, 3.5e38, 1e-42, 65504, 70000,    6e-8,      2147483648.0};
    const int kind = static_cast<int>(random() % 8);
    if (tame || kind < 4)
      v.f = small;
    else if (kind < 6)
      v.f = kSpecial[random() % std::size(kSpecial)];
    else
      v.f = std::ldexp(small, static_cast<int>(random() % 120) - 60);
    v.f = ir::round_to(t, v.f);
    return v;
  }
  if (t == ir::DType::kBool) {
    v.i = static_cast<int64_t>(random() % 2);
    return v;
  }
  const int kind = static_cast<int>(random() % 8);
  const int bits = ir::bit_width(t);
  if (tame || kind < 4)
    v.i = static_cast<int64_t>(random() % 15) - 7;
  else if (kind == 4)
    v.i = int64_t{1} << (bits - 1);
  else if (kind == 5)
    v.i = static_cast<int64_t>((uint64_t{1} << (bits - 1)) - 1);
  else
    v.i = static_cast<int64_t>(random());
  v.i = ir::wrap_integer(t, v.i);
  return v;
}

struct Tolerance {
  double relative = 0;  // of floats, on top of half a unit in the last place; 0: exact
  double absolute = 0;
};

inline bool close(ir::DType t, ir::Value64 expected, ir::Value64 got, Tolerance tolerance) {
  if (!ir::is_float(t)) return expected.i == got.i;
  if (std::isnan(expected.f) || std::isnan(got.f)) return std::isnan(expected.f) && std::isnan(got.f);
  if (expected.f == got.f) return true;
  if (std::isinf(expected.f) != std::isinf(got.f)) {
    // One side of the end of the range each.
    const double most = t == ir::DType::kF16 ? 65504.0 : t == ir::DType::kF64 ? 1.7976931348623157e308 : 3.38e38;
    return tolerance.relative > 0 && std::fabs(std::isinf(expected.f) ? got.f : expected.f) >= most * 0.999;
  }
  double unit = 0;
  switch (t) {
    case ir::DType::kF16: unit = std::max(std::fabs(expected.f) * 0x1p-10, 0x1p-24); break;
    case ir::DType::kBF16: unit = std::max(std::fabs(expected.f) * 0x1p-7, 0x1p-133); break;
    case ir::DType::kF32: unit = 0x1p-149; break;
    default: unit = 0x1p-1074; break;
  }
  return std::fabs(expected.f - got.f) <=
         tolerance.absolute + tolerance.relative * std::fabs(expected.f) + (tolerance.relative > 0 ? unit : 0);
}

class Comparison {
 public:
  explicit Comparison(const std::string& text, std::vector<Isa> isas = testable_isas())
      : Comparison(loop::parse_kernel(text), std::move(isas)) {}
  explicit Comparison(loop::Kernel kernel, std::vector<Isa> isas = testable_isas()) : kernel_(std::move(kernel)) {
    for (Isa isa : isas) native_.emplace_back(isa, std::make_unique<Native>(kernel_, isa));
  }

  Tolerance tolerance;
  bool tame = true;
  int64_t parallel = 1;  // iterations of the parallel loop
  /// Called for each element of an argument that the kernel reads; null: random.
  std::function<ir::Value64(int slot, int64_t element)> fill;

  void check(const std::vector<int64_t>& params, uint64_t seed = 1) const {
    std::unordered_map<const symbolic::ExprNode*, int64_t> values;
    for (size_t i = 0; i < params.size(); ++i) values[kernel_.params[i].node()] = params[i];
    std::vector<int64_t> counts;
    for (int slot = 0; slot < kernel_.arguments; ++slot)
      counts.push_back(elements(kernel_.buffers[static_cast<size_t>(slot)], values));

    auto make = [&] {
      std::vector<std::unique_ptr<Guarded>> buffers;
      std::mt19937_64 random(seed);
      for (int slot = 0; slot < kernel_.arguments; ++slot) {
        const loop::Buffer& b = kernel_.buffers[static_cast<size_t>(slot)];
        const int64_t count = counts[static_cast<size_t>(slot)];
        buffers.push_back(std::make_unique<Guarded>(static_cast<size_t>(count) * ir::byte_size(b.dtype)));
        // What is written is poisoned, unless the kernel reads it first.
        if (b.written && !reads(slot)) continue;
        for (int64_t i = 0; i < count; ++i) {
          ir::store_element(b.dtype, buffers.back()->data(), i,
                            fill ? fill(slot, i) : random_value(b.dtype, random, tame));
        }
      }
      return buffers;
    };
    auto pointers = [](const auto& buffers) {
      std::vector<void*> result;
      for (const auto& b : buffers) result.push_back(b->data());
      return result;
    };
    const auto expected = make();
    loop::interpret(kernel_, pointers(expected), params);
    for (const auto& [isa, native] : native_) {
      const auto got = make();
      KernelFault fault = native->run(pointers(got), params, 0, parallel);
      ASSERT_EQ(fault.failed, 0);
      for (int slot = 0; slot < kernel_.arguments; ++slot) {
        const loop::Buffer& b = kernel_.buffers[static_cast<size_t>(slot)];
        for (int64_t i = 0; i < counts[static_cast<size_t>(slot)]; ++i) {
          const ir::Value64 e = ir::load_element(b.dtype, expected[static_cast<size_t>(slot)]->data(), i);
          const ir::Value64 g = ir::load_element(b.dtype, got[static_cast<size_t>(slot)]->data(), i);
          ASSERT_TRUE(close(b.dtype, e, g, tolerance))
              << kernel_.name << " on " << name_of(isa) << ", buffer " << slot << "[" << i << "] of "
              << counts[static_cast<size_t>(slot)] << ": expected "
              << (ir::is_float(b.dtype) ? fmt::format("{}", e.f) : fmt::format("{}", e.i)) << ", got "
              << (ir::is_float(b.dtype) ? fmt::format("{}", g.f) : fmt::format("{}", g.i)) << inputs_at(expected, i)
              << "\n"
              << (loop::print(kernel_).size() < 3000 ? loop::print(kernel_) : "");
        }
      }
    }
  }

 private:
  static int64_t elements(const loop::Buffer& b, const std::unordered_map<const symbolic::ExprNode*, int64_t>& values) {
    int64_t count = b.strides.empty() ? 1 : 0;
    bool empty = false;
    for (size_t axis = 0; axis < b.extents.size(); ++axis) {
      const int64_t extent = std::max<int64_t>(symbolic::evaluate(b.extents[axis], values), 0);
      empty |= extent == 0;
      if (b.strides.empty())
        count *= extent;
      else
        count += (extent - 1) * symbolic::evaluate(b.strides[axis], values);
    }
    if (empty) return 0;
    return b.strides.empty() ? count : count + 1;
  }

  bool reads(int slot) const {
    bool found = false;
    loop::visit(kernel_.body, [&](const loop::Stmt& s) {
      if (auto* update = s->as<loop::Update>()) found |= update->slot == slot;
      auto look = [&](ir::Scalar root) {
        ir::visit(root, [&](ir::Scalar x) { found |= x->kind == ir::ScalarKind::kLoad && x->slot == slot; });
      };
      if (auto* store = s->as<loop::Store>()) look(store->value);
      if (auto* update = s->as<loop::Update>()) look(update->value);
      if (auto* branch = s->as<loop::If>()) look(branch->condition);
      if (auto* store = s->as<loop::Store>()) found |= partial_ && store->slot == slot;
    });
    return found;
  }

  std::string inputs_at(const std::vector<std::unique_ptr<Guarded>>& buffers, int64_t i) const {
    std::string text;
    for (int slot = 0; slot < kernel_.arguments; ++slot) {
      const loop::Buffer& b = kernel_.buffers[static_cast<size_t>(slot)];
      if (b.written ||
          static_cast<size_t>(i + 1) * ir::byte_size(b.dtype) > buffers[static_cast<size_t>(slot)]->bytes())
        continue;
      const ir::Value64 v = ir::load_element(b.dtype, buffers[static_cast<size_t>(slot)]->data(), i);
      text += ir::is_float(b.dtype) ? fmt::format(", in{} {}", slot, v.f) : fmt::format(", in{} {}", slot, v.i);
    }
    return text;
  }

  loop::Kernel kernel_;
  std::vector<std::pair<Isa, std::unique_ptr<Native>>> native_;
  bool partial_ = false;
};

inline const std::vector<int64_t> kExtents = {0,  1,  2,  3,  5,  7,  8,  13,  15,  16,  17, 31,
                                              32, 33, 47, 61, 64, 65, 97, 127, 128, 129, 251};

}  // namespace stax::emit
