// SPDX-License-Identifier: Apache-2.0
// Model: calls on the caller's buffers.
//
// Inputs are handed to the runtime as they are where they can be, else packed once. Outputs go where the caller wants
// them: the runtime asks for their place before it makes them, so that they are written there; those for which that is
// not possible (they depend on data, they are an input passed through, the place is strided or shared with an input)
// are made in the runtime's memory and copied.
#include <algorithm>
#include <cstdlib>

#include "embed/boundary.h"
#include "embed/engine.h"
#include "embed/strided.h"
#include "embed/values.h"
#include "support/error.h"

namespace stax {

const char* version() {
#define STAX_TEXT_OF(x) #x
#define STAX_TEXT(x) STAX_TEXT_OF(x)
  return STAX_TEXT(STAX_VERSION_MAJOR) "." STAX_TEXT(STAX_VERSION_MINOR) "." STAX_TEXT(STAX_VERSION_PATCH);
#undef STAX_TEXT
#undef STAX_TEXT_OF
}

}  // namespace stax

namespace stax::embed {
namespace {

constexpr const char* kHowToLoad =
    "correct the model or export it again; `stax dump MODEL --stage tensor` shows what Stax reads";
constexpr const char* kHowToCall = "compare the inputs with Model::inputs()";

bool is_aligned(const void* data, DType t) { return reinterpret_cast<uintptr_t>(data) % stax::byte_size(t) == 0; }

std::string shape_text(std::span<const int64_t> shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

/// One call: inputs as the runtime takes them.
class Call {
 public:
  Call(Model::Impl& model, std::span<const Input> inputs, bool shapes_only = false) : model_(model) {
    if (inputs.size() != model.inputs.size())
      throw Error(ErrorKind::kUser,
                  fmt::format("{} inputs are given, the model has {}", inputs.size(), model.inputs.size()), model.place,
                  "give them in the order of Model::inputs()");
    items.reserve(inputs.size());
    for (size_t k = 0; k < inputs.size(); ++k) {
      const std::string& where = model.input_places[k];
      runtime::Item& item = items.emplace_back();
      item.is_sequence = inputs[k].is_sequence();
      if (item.is_sequence)
        for (const TensorView& v : inputs[k].sequence()) item.sequence.push_back(take(v, where, shapes_only));
      else
        item.tensor = take(inputs[k].tensor(), where, shapes_only);
    }
  }

  std::vector<runtime::Item> run(runtime::OutputPlaces* places) {
    return model_.engine->module->run(items, nullptr, false, places);
  }

  bool meets_an_input(const Range& range) const {
    for (const Range& r : ranges_)
      if (r.meets(range)) return true;
    return false;
  }

  std::vector<runtime::Item> items;

 private:
  runtime::Tensor take(const TensorView& v, const std::string& where, bool shapes_only) {
    if (shapes_only)
      check_shape(v.dtype, v.shape, where);
    else
      check_view(v, where);
    runtime::Tensor t;
    t.dtype = internal(v.dtype);
    t.extents = v.shape;
    t.data = v.data;
    if (shapes_only) return t;
    bool dense = v.strides.empty() || is_row_major(v.shape, v.strides);
    if (dense && is_aligned(v.data, v.dtype)) {
      if (size_t bytes = t.bytes(); bytes > 0)
        ranges_.push_back({reinterpret_cast<uintptr_t>(v.data), reinterpret_cast<uintptr_t>(v.data) + bytes});
      return t;
    }
    Tensor packed = Tensor::copy_of(v);
    t.data = packed.data();
    t.owner = packed.owner();
    ++model_.packed_inputs;
    return t;
  }

  Model::Impl& model_;
  std::vector<Range> ranges_;
};

/// A result with memory of its own.
Tensor own(const runtime::Tensor& t) {
  if (t.owner.use_count() == 0) return Tensor::copy_of(TensorView{external(t.dtype), t.extents, t.data, {}});
  return Tensor::adopt(external(t.dtype), t.extents, t.owner, t.data);
}

/// Outputs in the caller's memory.
class Places : public runtime::OutputPlaces {
 public:
  Places(Model::Impl& model, const Call& call) : model_(model), call_(call), data_(model.outputs.size()) {
    for (size_t k = 0; k < model.outputs.size(); ++k)
      if (model.outputs[k].is_sequence)
        throw Error(ErrorKind::kUser, "is a sequence of tensors, for which no memory can be given",
                    model.output_places[k], "use Model::run_values(), which gives sequences");
  }

  void* place(uint32_t output, std::span<const int64_t> extents, int64_t bytes) override {
    MutableTensorView view = view_of(output, extents);
    data_[output] = view.data;
    if (!view.data) return nullptr;
    bool dense = view.strides.empty() || is_row_major(view.shape, view.strides);
    uintptr_t at = reinterpret_cast<uintptr_t>(view.data);
    if (!dense || !is_aligned(view.data, view.dtype) || call_.meets_an_input({at, at + static_cast<uintptr_t>(bytes)}))
      return nullptr;
    return view.data;
  }

  /// After the call: what is not where it should be.
  void finish(const std::vector<runtime::Item>& results) {
    // What was written in place may be what others are copied from, and is never overwritten by them.
    for (size_t k = 0; k < results.size(); ++k) {
      const runtime::Tensor& t = results[k].tensor;
      if (data_[k] && t.data == data_[k]) continue;
      MutableTensorView view = view_of(k, t.extents);
      if (t.bytes() == 0) continue;
      std::vector<int64_t> dense = row_major(t.extents);
      copy_strided(t.extents, stax::byte_size(view.dtype), t.data, dense, view.data,
                   view.strides.empty() ? dense : view.strides);
      ++model_.copied_outputs;
    }
  }

 protected:
  /// Memory for an output of these extents; throws where there is none.
  virtual MutableTensorView view_of(size_t output, std::span<const int64_t> extents) = 0;
  Model::Impl& model_;

 private:
  const Call& call_;
  std::vector<const void*> data_;
};

class GivenPlaces final : public Places {
 public:
  GivenPlaces(Model::Impl& model, const Call& call, std::span<const MutableTensorView> views)
      : Places(model, call), views_(views) {
    if (views.size() != model.outputs.size())
      throw Error(ErrorKind::kUser,
                  fmt::format("memory for {} outputs is given, the model has {}", views.size(), model.outputs.size()),
                  model.place, "give one view for each of Model::outputs()");
    std::vector<Layout> layouts;
    for (size_t k = 0; k < views.size(); ++k) {
      const Port& port = model.outputs[k];
      const MutableTensorView& v = views[k];
      check_view({v.dtype, v.shape, v.data, v.strides}, model.output_places[k]);
      if (v.dtype != port.dtype)
        throw Error(
            ErrorKind::kUser,
            fmt::format("has elements of type {}, and memory for {} is given", name_of(port.dtype), name_of(v.dtype)),
            model.output_places[k], "give memory of the type that Model::outputs() says");
      bool dense = v.strides.empty() || is_row_major(v.shape, v.strides);
      if (!dense && meets_itself(v.shape, v.strides))
        throw Error(ErrorKind::kUser,
                    fmt::format("two of its elements meet: shape {}, strides [{}]", shape_text(v.shape),
                                fmt::join(v.strides, ", ")),
                    model.output_places[k], "give strides under which each element has memory of its own");
      layouts.push_back({v.shape, dense ? row_major(v.shape) : v.strides, stax::byte_size(v.dtype), v.data});
      for (size_t other = 0; other < k; ++other)
        if (meet(layouts[other], layouts[k]))
          throw Error(ErrorKind::kUser,
                      fmt::format("is given memory that output '{}' has too", model.outputs[other].name),
                      model.output_places[k], "give each output memory of its own");
    }
  }

 private:
  MutableTensorView view_of(size_t output, std::span<const int64_t> extents) override {
    const MutableTensorView& v = views_[output];
    if (!std::ranges::equal(v.shape, extents))
      throw Error(ErrorKind::kUser,
                  fmt::format("has the shape {}, and memory for {} is given", shape_text(extents), shape_text(v.shape)),
                  model_.output_places[output],
                  "give a view of exactly that shape (Model::output_shapes() tells it before the call), or use an "
                  "allocation callback");
    return v;
  }
  std::span<const MutableTensorView> views_;
};

class AllocatedPlaces final : public Places {
 public:
  AllocatedPlaces(Model::Impl& model, const Call& call, const Allocator& allocate)
      : Places(model, call), allocate_(allocate), given_(model.outputs.size()) {
    if (!allocate) throw Error(ErrorKind::kUser, "the allocation callback is empty", "Model::run", "give a function");
  }

 private:
  MutableTensorView view_of(size_t output, std::span<const int64_t> extents) override {
    DType t = model_.outputs[output].dtype;
    Given& given = given_[output];
    if (!given.asked) {
      given.asked = true;
      try {
        given.data = allocate_(output, t, extents);
      } catch (...) {
        throw CallerException{std::current_exception()};
      }
      if (!given.data && count_of(extents) > 0)
        throw Error(ErrorKind::kOutOfMemory,
                    fmt::format("the allocation callback gave no memory for the shape {}", shape_text(extents)),
                    model_.output_places[output], "let it return memory of that size, or let it throw");
      given.range = range_of(extents, stax::byte_size(t), given.data, row_major(extents));
      for (const Given& other : given_)
        if (&other != &given && other.asked && other.range.meets(given.range))
          throw Error(ErrorKind::kUser,
                      fmt::format("is given memory that output '{}' has too",
                                  model_.outputs[static_cast<size_t>(&other - given_.data())].name),
                      model_.output_places[output], "let the allocation callback give each output memory of its own");
    }
    return {t, Shape(extents.begin(), extents.end()), given.data, {}};
  }
  struct Given {
    bool asked = false;
    void* data = nullptr;
    Range range = {};
  };
  const Allocator& allocate_;
  std::vector<Given> given_;
};

template <class F>
auto counted(Model::Impl& model, F&& f) {
  ++model.calls;
  try {
    return guarded(model.place, kHowToCall, std::forward<F>(f));
  } catch (...) {
    ++model.failed_calls;
    throw;
  }
}

size_t position_of(std::string_view name, const std::vector<Port>& ports, const Model::Impl& model, const char* what) {
  for (size_t k = 0; k < ports.size(); ++k)
    if (ports[k].name == name) return k;
  std::string known;
  for (const Port& p : ports) known += (known.empty() ? "'" : ", '") + p.name + "'";
  throw Error(ErrorKind::kUser, fmt::format("there is no {} '{}'", what, name), model.place,
              fmt::format("use one of {}", known.empty() ? "none" : known));
}

}  // namespace

Model make_model(std::shared_ptr<Engine> engine) {
  auto impl = std::make_shared<Model::Impl>();
  impl->inputs = ports_of(engine->module->program(), true);
  impl->outputs = ports_of(engine->module->program(), false);
  impl->place = "model '" + engine->name + "'";
  for (const Port& port : impl->inputs) impl->input_places.push_back("input '" + port.name + "'");
  for (const Port& port : impl->outputs) impl->output_places.push_back("output '" + port.name + "'");
  impl->engine = std::move(engine);
  return Model(std::move(impl));
}

}  // namespace stax::embed

namespace stax {

using namespace embed;

Model::Model(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

Model::Impl& Model::impl() const {
  if (!impl_)
    throw Error(ErrorKind::kUser, "is empty: it was moved from, or never loaded", "a Model",
                "use what Model::load() or stax::trace() returned");
  return *impl_;
}

Model Model::load(const std::string& path, const Options& options) {
  return guarded(path, kHowToLoad, [&] { return make_model(open_model({path, nullptr}, options)); });
}

Model Model::load_bytes(std::span<const std::byte> bytes, const std::string& name, const Options& options) {
  return guarded(name, kHowToLoad, [&] { return make_model(open_model({name, &bytes}, options)); });
}

void Model::compile_to(const std::string& path) const {
  guarded(path, "check that the path can be written; missing folders are made",
          [&] { embed::compile_to(*impl().engine, path); });
}

const std::vector<Port>& Model::inputs() const { return impl().inputs; }
const std::vector<Port>& Model::outputs() const { return impl().outputs; }
size_t Model::input(std::string_view name) const { return position_of(name, impl().inputs, impl(), "input"); }
size_t Model::output(std::string_view name) const { return position_of(name, impl().outputs, impl(), "output"); }
const std::vector<std::string>& Model::warnings() const { return impl().engine->warnings; }

std::vector<Value> Model::run_values(std::span<const Input> inputs) const {
  return counted(impl(), [&] {
    Call call(impl(), inputs);
    std::vector<Value> values;
    for (const runtime::Item& item : call.run(nullptr)) {
      Value& value = values.emplace_back();
      value.is_sequence = item.is_sequence;
      if (!item.is_sequence) value.tensor = own(item.tensor);
      for (const runtime::Tensor& t : item.sequence) value.sequence.push_back(own(t));
    }
    return values;
  });
}

std::vector<Tensor> Model::run(std::span<const Input> inputs) const {
  for (size_t k = 0; k < impl().outputs.size(); ++k)
    if (impl().outputs[k].is_sequence)
      throw Error(ErrorKind::kUser, "is a sequence of tensors", impl().output_places[k],
                  "use Model::run_values(), which gives sequences");
  std::vector<Tensor> tensors;
  for (Value& v : run_values(inputs)) tensors.push_back(std::move(v.tensor));
  return tensors;
}

void Model::run(std::span<const Input> inputs, std::span<const MutableTensorView> outputs) const {
  counted(impl(), [&] {
    Call call(impl(), inputs);
    GivenPlaces places(impl(), call, outputs);
    places.finish(call.run(&places));
  });
}

std::vector<Shape> Model::run(std::span<const Input> inputs, const Allocator& allocate) const {
  return counted(impl(), [&] {
    Call call(impl(), inputs);
    AllocatedPlaces places(impl(), call, allocate);
    std::vector<runtime::Item> results = call.run(&places);
    places.finish(results);
    std::vector<Shape> shapes;
    shapes.reserve(results.size());
    for (const runtime::Item& item : results) shapes.push_back(item.tensor.extents);
    return shapes;
  });
}

std::vector<std::optional<Shape>> Model::output_shapes(std::span<const Input> inputs) const {
  return guarded(impl().place, kHowToCall, [&] {
    Call call(impl(), inputs, true);
    return impl().engine->module->output_extents(call.items);
  });
}

Statistics Model::statistics() const {
  const runtime::Statistics& s = impl().engine->module->statistics();
  Statistics result;
  result.calls = impl().calls;
  result.failed_calls = impl().failed_calls;
  result.kernel_launches = s.launches;
  result.shape_hits = s.plan_hits;
  result.shape_misses = s.plan_misses;
  result.packed_inputs = impl().packed_inputs;
  result.copied_outputs = impl().copied_outputs;
  result.peak_bytes = s.peak_bytes;
  result.checked_calls = s.checked_calls;
  result.mismatches = s.mismatches;
  result.compile_ms = impl().engine->compile_ms;
  result.load_ms = impl().engine->load_ms;
  return result;
}

}  // namespace stax
