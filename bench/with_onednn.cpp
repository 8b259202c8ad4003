// SPDX-License-Identifier: Apache-2.0
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>

#include "problem.h"

namespace stax::bench {
namespace {

using dnnl::memory;
using Dims = memory::dims;

constexpr auto kInference = dnnl::prop_kind::forward_inference;

// Row-major strides.
Dims strides_of(const Dims& dims) {
  Dims strides(dims.size(), 1);
  for (size_t k = dims.size(); k-- > 1;) strides[k - 1] = strides[k] * dims[k];
  return strides;
}

memory::desc plain(const Dims& dims, memory::data_type type = memory::data_type::f32) {
  return {dims, type, strides_of(dims)};
}
memory::desc any(const Dims& dims, memory::data_type type = memory::data_type::f32) {
  return {dims, type, memory::format_tag::any};
}

// A chain of primitives over memory that lives as long as it does.
class Chain {
 public:
  explicit Chain(const Problem& problem)
      : output_(std::make_shared<std::vector<std::byte>>(problem.output.bytes.size())) {}

  const dnnl::engine& engine() const { return engine_; }
  memory over(const memory::desc& desc, const Array& array) const {
    return {desc, engine_, const_cast<std::byte*>(array.bytes.data())};
  }
  memory output(const memory::desc& desc) const { return {desc, engine_, output_->data()}; }
  memory make(const memory::desc& desc) const { return {desc, engine_}; }

  void add(const dnnl::primitive& primitive, std::unordered_map<int, memory> arguments) {
    steps_.push_back({primitive, std::move(arguments)});
  }
  void add_reorder(const memory& from, const memory& to) {
    add(dnnl::reorder(from, to), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
  }
  // `from` in the form `wanted`, reordered in each call if it is another one.
  memory in_form(const memory& from, const memory::desc& wanted) {
    if (from.get_desc() == wanted) return from;
    const memory to = make(wanted);
    add_reorder(from, to);
    return to;
  }
  // The same, once.
  memory constant_in_form(memory from, const memory::desc& wanted) {
    if (from.get_desc() == wanted) return from;
    memory to = make(wanted);
    dnnl::reorder(from, to).execute(stream_, from, to);
    stream_.wait();
    return to;
  }

  Solver solver() && {
    auto chain = std::make_shared<Chain>(std::move(*this));
    return {[chain] {
              for (const Step& step : chain->steps_) step.primitive.execute(chain->stream_, step.arguments);
              chain->stream_.wait();
            },
            chain->output_};
  }

 private:
  struct Step {
    dnnl::primitive primitive;
    std::unordered_map<int, memory> arguments;
  };
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::shared_ptr<std::vector<std::byte>> output_;
  std::vector<Step> steps_;
};

Solver product(const Problem& p) {
  Chain chain(p);
  const bool bytes = p.kind == "matmul_int8";
  const bool batched = p.kind == "batched_matmul";
  Dims a = {p["m"], p["k"]}, b = {p["k"], p["n"]}, c = {p["m"], p["n"]};
  if (batched)
    for (Dims* dims : {&a, &b, &c}) dims->insert(dims->begin(), p["batch"]);
  const auto left = plain(a, bytes ? memory::data_type::u8 : memory::data_type::f32);
  const auto right = plain(b, bytes ? memory::data_type::s8 : memory::data_type::f32);
  const auto result = plain(c, bytes ? memory::data_type::s32 : memory::data_type::f32);
  const dnnl::matmul::primitive_desc description({left, batched ? right : any(b, right.data_type()), result},
                                                 chain.engine());
  const memory weights = chain.over(right, batched ? p.inputs[1] : p.constants[0]);
  chain.add(dnnl::matmul(description), {{DNNL_ARG_SRC, chain.over(left, p.inputs[0])},
                                        {DNNL_ARG_WEIGHTS, chain.constant_in_form(weights, description.weights_desc())},
                                        {DNNL_ARG_DST, chain.output(result)}});
  return std::move(chain).solver();
}

Solver convolution(const Problem& p) {
  Chain chain(p);
  const int64_t groups = p["groups"], pad = p["window"] / 2;
  const Dims x = p.inputs[0].shape, y = p.output.shape;
  Dims w = p.constants[0].shape;
  if (groups > 1) {
    w[0] /= groups;
    w.insert(w.begin(), groups);
  }
  const Dims bias = p.constants[1].shape;
  const dnnl::convolution_forward::primitive_desc description(
      {kInference, dnnl::algorithm::convolution_direct, any(x), any(w), plain(bias), any(y),
       Dims{p["stride"], p["stride"]}, Dims{pad, pad}, Dims{pad, pad}},
      chain.engine());
  const memory weights = chain.constant_in_form(chain.over(plain(w), p.constants[0]), description.weights_desc());
  const memory source = chain.in_form(chain.over(plain(x), p.inputs[0]), description.src_desc());
  const memory result = chain.output(plain(y));
  const memory inner = result.get_desc() == description.dst_desc() ? result : chain.make(description.dst_desc());
  chain.add(dnnl::convolution_forward(description), {{DNNL_ARG_SRC, source},
                                                     {DNNL_ARG_WEIGHTS, weights},
                                                     {DNNL_ARG_BIAS, chain.over(plain(bias), p.constants[1])},
                                                     {DNNL_ARG_DST, inner}});
  if (result.get_desc() != description.dst_desc()) chain.add_reorder(inner, result);
  return std::move(chain).solver();
}

Solver softmax(const Problem& p) {
  Chain chain(p);
  const auto form = plain(p.inputs[0].shape);
  const dnnl::softmax_forward::primitive_desc description({kInference, form, 1}, chain.engine());
  chain.add(dnnl::softmax_forward(description),
            {{DNNL_ARG_SRC, chain.over(form, p.inputs[0])}, {DNNL_ARG_DST, chain.output(form)}});
  return std::move(chain).solver();
}

Solver layer_norm(const Problem& p) {
  Chain chain(p);
  const auto form = plain(p.inputs[0].shape), columns = plain({p["columns"]});
  using dnnl::normalization_flags;
  const dnnl::layer_normalization_forward::primitive_desc description(
      {kInference, form, 1e-5F, normalization_flags::use_scale | normalization_flags::use_shift}, chain.engine());
  chain.add(dnnl::layer_normalization_forward(description), {{DNNL_ARG_SRC, chain.over(form, p.inputs[0])},
                                                             {DNNL_ARG_SCALE, chain.over(columns, p.constants[0])},
                                                             {DNNL_ARG_SHIFT, chain.over(columns, p.constants[1])},
                                                             {DNNL_ARG_DST, chain.output(form)}});
  return std::move(chain).solver();
}

Solver pointwise(const Problem& p, dnnl::algorithm algorithm) {
  Chain chain(p);
  const auto form = plain(p.inputs[0].shape);
  const dnnl::eltwise_forward::primitive_desc description({kInference, algorithm, form, 0, 0}, chain.engine());
  chain.add(dnnl::eltwise_forward(description),
            {{DNNL_ARG_SRC, chain.over(form, p.inputs[0])}, {DNNL_ARG_DST, chain.output(form)}});
  return std::move(chain).solver();
}

Solver add(const Problem& p) {
  Chain chain(p);
  const auto form = plain(p.inputs[0].shape), row = plain({1, p["columns"]});
  const dnnl::binary::primitive_desc description({dnnl::algorithm::binary_add, form, row, form}, chain.engine());
  chain.add(dnnl::binary(description), {{DNNL_ARG_SRC_0, chain.over(form, p.inputs[0])},
                                        {DNNL_ARG_SRC_1, chain.over(row, p.constants[0])},
                                        {DNNL_ARG_DST, chain.output(form)}});
  return std::move(chain).solver();
}

Solver sums(const Problem& p) {
  Chain chain(p);
  const auto form = plain(p.inputs[0].shape),
             result = plain(p.kind == "row_sums" ? Dims{p["rows"], 1} : Dims{1, p["columns"]});
  const dnnl::reduction::primitive_desc description({dnnl::algorithm::reduction_sum, form, result, 0, 0},
                                                    chain.engine());
  chain.add(dnnl::reduction(description),
            {{DNNL_ARG_SRC, chain.over(form, p.inputs[0])}, {DNNL_ARG_DST, chain.output(result)}});
  return std::move(chain).solver();
}

// The result as it lies in memory, with its axes named as the input has them.
Solver transpose(const Problem& p) {
  Chain chain(p);
  const Dims x = p.inputs[0].shape;
  Dims strides = strides_of(p.output.shape);
  const size_t a = p.kind == "heads" ? 1 : 0;
  std::swap(strides[a], strides[a + 1]);
  chain.add_reorder(chain.over(plain(x), p.inputs[0]), chain.output(memory::desc(x, memory::data_type::f32, strides)));
  return std::move(chain).solver();
}

}  // namespace

Solver solve_with_onednn(const Problem& problem) {
  static const std::map<std::string, std::function<Solver(const Problem&)>> kinds = {
      {"matmul", product},
      {"batched_matmul", product},
      {"matmul_int8", product},
      {"convolution", convolution},
      {"softmax", softmax},
      {"layer_norm", layer_norm},
      {"gelu", [](const Problem& p) { return pointwise(p, dnnl::algorithm::eltwise_gelu_erf); }},
      {"exp", [](const Problem& p) { return pointwise(p, dnnl::algorithm::eltwise_exp); }},
      {"tanh", [](const Problem& p) { return pointwise(p, dnnl::algorithm::eltwise_tanh); }},
      {"add", add},
      {"row_sums", sums},
      {"column_sums", sums},
      {"transpose", transpose},
      {"heads", transpose},
  };
  const auto found = kinds.find(problem.kind);
  return found == kinds.end() ? Solver{} : found->second(problem);
}

}  // namespace stax::bench
