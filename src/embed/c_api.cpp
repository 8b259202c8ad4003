// SPDX-License-Identifier: Apache-2.0
// The C interface, spelled by the C++ one.
#include "stax/c_api.h"

#include <fmt/format.h>

#include <cstring>
#include <new>

#include "embed/strided.h"
#include "stax/stax.h"

using stax::DType;
using stax::Error;
using stax::ErrorKind;

// The layout of DLPack's structs on 64-bit machines.
static_assert(sizeof(stax_dl_tensor) == 48 && offsetof(stax_dl_tensor, ndim) == 16 &&
              offsetof(stax_dl_tensor, dtype) == 20);
static_assert(offsetof(stax_dl_tensor, shape) == 24 && offsetof(stax_dl_tensor, strides) == 32 &&
              offsetof(stax_dl_tensor, byte_offset) == 40);
static_assert(sizeof(stax_dl_managed_tensor) == 64 && offsetof(stax_dl_managed_tensor, manager_ctx) == 48 &&
              offsetof(stax_dl_managed_tensor, deleter) == 56);
static_assert(sizeof(stax_dl_managed_tensor_versioned) == 80 &&
              offsetof(stax_dl_managed_tensor_versioned, deleter) == 16);
static_assert(offsetof(stax_dl_managed_tensor_versioned, flags) == 24 &&
              offsetof(stax_dl_managed_tensor_versioned, dl_tensor) == 32);

namespace {

constexpr uint32_t kDlpackMajor = 1, kDlpackMinor = 0;

struct LastError {
  std::string all, what, where, how;
};
LastError& last_error() {
  thread_local LastError error;
  return error;
}

stax_status status_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kUser: return STAX_ERROR_USER;
    case ErrorKind::kUnsupported: return STAX_ERROR_UNSUPPORTED;
    case ErrorKind::kOutOfMemory: return STAX_ERROR_OUT_OF_MEMORY;
    case ErrorKind::kInternal: return STAX_ERROR_INTERNAL;
  }
  return STAX_ERROR_INTERNAL;
}

stax_status remember(const Error& e) {
  try {
    last_error() = {e.what(), e.problem(), e.where(), e.how()};
  } catch (...) {  // no memory left for the message
    last_error() = {};
  }
  return status_of(e.kind());
}

/// Runs f; what it throws becomes a status.
template <class F>
stax_status guarded(F&& f) noexcept {
  try {
    f();
    return STAX_OK;
  } catch (const Error& e) {
    return remember(e);
  } catch (const std::bad_alloc&) {
    last_error() = {};
    return STAX_ERROR_OUT_OF_MEMORY;
  } catch (const std::exception& e) {
    return remember(Error(ErrorKind::kInternal, e.what(), "the C interface", "this is a fault of Stax's: report it"));
  }
}

[[noreturn]] void fault(const std::string& problem, const std::string& where, const std::string& how) {
  throw Error(ErrorKind::kUser, problem, where, how);
}

template <class T>
T& need(T* pointer, const char* what) {
  if (!pointer) fault(fmt::format("{} is NULL", what), "the C interface", "give a pointer");
  return *pointer;
}

stax_dl_data_type dl_type_of(DType t) {
  auto type = [](int code, int bits) {
    return stax_dl_data_type{static_cast<uint8_t>(code), static_cast<uint8_t>(bits), 1};
  };
  switch (t) {
    case DType::kBool: return type(STAX_DL_BOOL, 8);
    case DType::kI8: return type(STAX_DL_INT, 8);
    case DType::kI16: return type(STAX_DL_INT, 16);
    case DType::kI32: return type(STAX_DL_INT, 32);
    case DType::kI64: return type(STAX_DL_INT, 64);
    case DType::kU8: return type(STAX_DL_UINT, 8);
    case DType::kU16: return type(STAX_DL_UINT, 16);
    case DType::kU32: return type(STAX_DL_UINT, 32);
    case DType::kU64: return type(STAX_DL_UINT, 64);
    case DType::kF16: return type(STAX_DL_FLOAT, 16);
    case DType::kBF16: return type(STAX_DL_BFLOAT, 16);
    case DType::kF32: return type(STAX_DL_FLOAT, 32);
    case DType::kF64: return type(STAX_DL_FLOAT, 64);
  }
  return type(STAX_DL_FLOAT, 32);
}

DType dtype_of(const stax_dl_data_type& type, const std::string& where) {
  for (int k = 0; k <= static_cast<int>(DType::kF64); ++k) {
    stax_dl_data_type known = dl_type_of(static_cast<DType>(k));
    if (known.code == type.code && known.bits == type.bits && type.lanes == 1) return static_cast<DType>(k);
  }
  fault(fmt::format("has elements of type code {}, {} bits, {} lanes, which Stax has not", type.code, type.bits,
                    type.lanes),
        where, "convert it to a float, bfloat, int, uint or bool type of one lane");
}

// No model has more.
constexpr int32_t kMostAxes = 64;

stax::MutableTensorView view_of(const stax_dl_tensor* tensor, const std::string& where) {
  const stax_dl_tensor& t = need(tensor, where.c_str());
  if (static_cast<int>(t.device.device_type) != STAX_DL_CPU)
    fault(fmt::format("is on a device of type {}", static_cast<int>(t.device.device_type)), where,
          "copy it to the CPU's memory (device type 1)");
  if (t.ndim < 0 || (t.ndim > 0 && !t.shape))
    fault(fmt::format("has {} axes and {}", t.ndim, t.shape ? "a shape" : "no shape"), where, "set ndim and shape");
  if (t.byte_offset > static_cast<uint64_t>(PTRDIFF_MAX))
    fault(fmt::format("has a byte_offset of {}", t.byte_offset), where, "set it to the bytes in front of the data");
  // Before so many are read.
  if (t.ndim > kMostAxes)
    fault(fmt::format("has {} axes", t.ndim), where, fmt::format("give a tensor of at most {} axes", kMostAxes));
  stax::MutableTensorView view;
  view.dtype = dtype_of(t.dtype, where);
  if (t.ndim > 0) view.shape.assign(t.shape, t.shape + t.ndim);
  if (t.ndim > 0 && t.strides) view.strides.assign(t.strides, t.strides + t.ndim);
  view.data = t.data ? static_cast<char*>(t.data) + t.byte_offset : nullptr;
  return view;
}

std::string place(const std::vector<stax::Port>& ports, size_t k, const char* what) {
  return k < ports.size() ? fmt::format("{} '{}'", what, ports[k].name) : fmt::format("{} {}", what, k);
}

stax::Options options_of(const stax_options* given) {
  stax::Options options;
  if (!given) return options;
  for (size_t k = 0; k < given->dim_count; ++k) {
    const stax_dim_range& d = (&need(given->dims, "options.dims"))[k];
    const std::string name = &need(d.name, "the name of a dim");
    if (!options.dims.emplace(name, stax::DimRange{d.lo, d.hi}).second)
      fault("is given twice", "dim '" + name + "'", "give one range for it");
  }
  options.threads = given->threads;
  if (given->device) options.device = given->device;
  options.check_every = given->check_every;
  if (given->on_mismatch) {
    options.on_mismatch = [tell = given->on_mismatch, context = given->on_mismatch_context](const stax::Mismatch& m) {
      const stax_mismatch shown{m.kernel.c_str(), m.operation.c_str(), m.what.c_str()};
      tell(context, &shown);
    };
  }
  return options;
}

/// A tensor and the struct that shows it.
struct Shown {
  stax::Tensor tensor;
  std::vector<int64_t> strides;  // newer versions of DLPack ask for them
  stax_dl_tensor dl{};
  explicit Shown(stax::Tensor t) : tensor(std::move(t)) {
    strides = stax::embed::row_major(tensor.shape());
    dl.data = tensor.count() > 0 ? const_cast<void*>(tensor.data()) : nullptr;
    dl.device.device_id = 0;
    dl.device.device_type = static_cast<decltype(dl.device.device_type)>(STAX_DL_CPU);
    dl.ndim = static_cast<int32_t>(tensor.rank());
    dl.dtype = dl_type_of(tensor.dtype());
    dl.shape = const_cast<int64_t*>(tensor.shape().data());
    dl.strides = strides.data();
    dl.byte_offset = 0;
  }
};

struct CPort {
  stax_port port{};
  std::vector<stax_extent> extents;
};

}  // namespace

struct stax_model {
  stax::Model model;
  std::vector<CPort> inputs, outputs;

  explicit stax_model(stax::Model m)
      : model(std::move(m)), inputs(ports_of(model.inputs())), outputs(ports_of(model.outputs())) {}

 private:
  static std::vector<CPort> ports_of(const std::vector<stax::Port>& ports) {
    std::vector<CPort> result(ports.size());
    for (size_t k = 0; k < ports.size(); ++k) {
      for (const stax::Extent& e : ports[k].extents)
        result[k].extents.push_back({e.name.c_str(), e.lo, e.hi, e.multiple});
      bool ranked = ports[k].rank_is_known && !ports[k].is_sequence;
      result[k].port = {ports[k].name.c_str(), dl_type_of(ports[k].dtype), ports[k].is_sequence,
                        ranked ? static_cast<int32_t>(ports[k].extents.size()) : -1, result[k].extents.data()};
    }
    return result;
  }
};

struct stax_result {
  struct Output {
    bool is_sequence = false;
    std::vector<std::unique_ptr<Shown>> tensors;
  };
  std::vector<Output> outputs;
  const Shown* find(size_t output, size_t element) const {
    if (output >= outputs.size() || element >= outputs[output].tensors.size()) return nullptr;
    return outputs[output].tensors[element].get();
  }
};

namespace {

/// Every tensor with memory that no other output has: whoever gets it may write to it.
std::unique_ptr<Shown> shown(stax::Tensor t) {
  t.mutable_data();
  return std::make_unique<Shown>(std::move(t));
}

std::unique_ptr<stax_result> result_of(std::vector<stax::Value> values) {
  auto result = std::make_unique<stax_result>();
  for (stax::Value& v : values) {
    auto& output = result->outputs.emplace_back();
    output.is_sequence = v.is_sequence;
    if (v.is_sequence)
      for (stax::Tensor& t : v.sequence) output.tensors.push_back(shown(std::move(t)));
    else
      output.tensors.push_back(shown(std::move(v.tensor)));
  }
  return result;
}

/// Before any of them is looked at: the caller may not have that many.
void need_count(const std::vector<stax::Port>& ports, size_t count, const char* what) {
  if (count != ports.size())
    fault(fmt::format("{} {}s are given, and the model has {}", count, what, ports.size()), "the C interface",
          fmt::format("give one for each {} of the model", what));
}

std::vector<stax::Input> inputs_of(const stax_model& model, const stax_dl_tensor* const* inputs, size_t count) {
  need_count(model.model.inputs(), count, "input");
  std::vector<stax::Input> result;
  result.reserve(count);
  for (size_t k = 0; k < count; ++k)
    result.emplace_back(view_of((&need(inputs, "inputs"))[k], place(model.model.inputs(), k, "input")));
  return result;
}

/// What a DLPack tensor of ours needs to know to free itself.
template <class Managed>
struct Holder {
  Shown shown;
  Managed managed{};
  explicit Holder(stax::Tensor t) : shown(std::move(t)) {
    managed.dl_tensor = shown.dl;
    managed.manager_ctx = this;
    managed.deleter = [](Managed* self) { delete static_cast<Holder*>(self->manager_ctx); };
  }
};

template <class Managed>
Managed* managed_of(const stax_result* result, size_t output, size_t element) {
  const Shown* shown = need(result, "result").find(output, element);
  if (!shown)
    fault(fmt::format("there is no element {} of output {}", element, output), "stax_result_dlpack",
          "see stax_result_count() and stax_result_length()");
  return &(new Holder<Managed>(shown->tensor))->managed;
}

}  // namespace

extern "C" {

stax_dl_tensor stax_cpu_tensor(void* data, int code, int bits, int ndim, int64_t* shape) {
  stax_dl_tensor t{};
  t.data = data;
  t.device.device_type = static_cast<decltype(t.device.device_type)>(STAX_DL_CPU);
  t.ndim = ndim;
  t.dtype = {static_cast<uint8_t>(code), static_cast<uint8_t>(bits), 1};
  t.shape = shape;
  return t;
}

const char* stax_last_error(void) { return last_error().all.c_str(); }
const char* stax_last_error_what(void) { return last_error().what.c_str(); }
const char* stax_last_error_where(void) { return last_error().where.c_str(); }
const char* stax_last_error_how(void) { return last_error().how.c_str(); }

const char* stax_version(void) { return stax::version(); }
int stax_has_compiler(void) { return stax::has_compiler(); }

stax_status stax_load(const char* path, const stax_options* options, stax_model** model) {
  return guarded([&] {
    stax_model*& to = need(model, "model");
    to = new stax_model(stax::Model::load(&need(path, "path"), options_of(options)));
  });
}

stax_status stax_load_bytes(const void* bytes, size_t size, const char* name, const stax_options* options,
                            stax_model** model) {
  return guarded([&] {
    stax_model*& to = need(model, "model");
    std::span<const std::byte> span(size ? &need(static_cast<const std::byte*>(bytes), "bytes") : nullptr, size);
    to = new stax_model(stax::Model::load_bytes(span, &need(name, "name"), options_of(options)));
  });
}

stax_status stax_compile_to(const stax_model* model, const char* path) {
  return guarded([&] { need(model, "model").model.compile_to(&need(path, "path")); });
}

void stax_model_free(stax_model* model) { delete model; }

size_t stax_input_count(const stax_model* model) { return model ? model->inputs.size() : 0; }
size_t stax_output_count(const stax_model* model) { return model ? model->outputs.size() : 0; }
const stax_port* stax_input(const stax_model* model, size_t index) {
  return index < stax_input_count(model) ? &model->inputs[index].port : nullptr;
}
const stax_port* stax_output(const stax_model* model, size_t index) {
  return index < stax_output_count(model) ? &model->outputs[index].port : nullptr;
}

stax_statistics stax_get_statistics(const stax_model* model) {
  if (!model) return {};
  stax::Statistics s = model->model.statistics();
  return {s.calls,         s.failed_calls,   s.kernel_launches, s.shape_hits,          s.shape_misses,
          s.packed_inputs, s.copied_outputs, s.peak_bytes,      s.compiles_after_load, s.checked_calls,
          s.mismatches,    s.compile_ms,     s.load_ms};
}

stax_status stax_run(const stax_model* model, const stax_dl_tensor* const* inputs, size_t count, stax_result** result) {
  return guarded([&] {
    auto& to = need(result, "result");
    to = result_of(need(model, "model").model.run_values(inputs_of(*model, inputs, count))).release();
  });
}

stax_status stax_run_values(const stax_model* model, const stax_value* inputs, size_t count, stax_result** result) {
  return guarded([&] {
    auto& to = need(result, "result");
    const stax::Model& m = need(model, "model").model;
    need_count(m.inputs(), count, "input");
    std::vector<stax::Input> given;
    for (size_t k = 0; k < count; ++k) {
      const stax_value& v = (&need(inputs, "inputs"))[k];
      std::string where = place(m.inputs(), k, "input");
      if (v.tensor) {
        given.emplace_back(view_of(v.tensor, where));
        continue;
      }
      std::vector<stax::TensorView> elements;
      elements.reserve(v.element_count);
      for (size_t e = 0; e < v.element_count; ++e) {
        stax::MutableTensorView view = view_of((&need(v.elements, "elements"))[e], where);
        elements.push_back({view.dtype, view.shape, view.data, view.strides});
      }
      given.emplace_back(std::move(elements));
    }
    to = result_of(m.run_values(given)).release();
  });
}

stax_status stax_run_into(const stax_model* model, const stax_dl_tensor* const* inputs, size_t count,
                          stax_dl_tensor* const* outputs, size_t output_count) {
  return guarded([&] {
    const stax::Model& m = need(model, "model").model;
    need_count(m.outputs(), output_count, "output");
    std::vector<stax::MutableTensorView> views;
    for (size_t k = 0; k < output_count; ++k)
      views.push_back(view_of((&need(outputs, "outputs"))[k], place(m.outputs(), k, "output")));
    m.run(inputs_of(*model, inputs, count), views);
  });
}

stax_status stax_run_allocating(const stax_model* model, const stax_dl_tensor* const* inputs, size_t count,
                                stax_allocator allocate, void* context) {
  return guarded([&] {
    const stax::Model& m = need(model, "model").model;
    if (!allocate) fault("allocate is NULL", "the C interface", "give a function");
    m.run(inputs_of(*model, inputs, count), [&](size_t output, DType t, std::span<const int64_t> shape) {
      return allocate(context, output, dl_type_of(t), shape.data(), static_cast<int32_t>(shape.size()));
    });
  });
}

size_t stax_result_count(const stax_result* result) { return result ? result->outputs.size() : 0; }

const stax_dl_tensor* stax_result_tensor(const stax_result* result, size_t output) {
  if (output >= stax_result_count(result) || result->outputs[output].is_sequence) return nullptr;
  return &result->find(output, 0)->dl;
}

size_t stax_result_length(const stax_result* result, size_t output) {
  if (output >= stax_result_count(result) || !result->outputs[output].is_sequence) return 0;
  return result->outputs[output].tensors.size();
}

const stax_dl_tensor* stax_result_element(const stax_result* result, size_t output, size_t element) {
  const Shown* shown = result ? result->find(output, element) : nullptr;
  return shown ? &shown->dl : nullptr;
}

stax_status stax_result_dlpack(const stax_result* result, size_t output, size_t element,
                               stax_dl_managed_tensor** tensor) {
  return guarded([&] {
    auto& to = need(tensor, "tensor");
    to = managed_of<stax_dl_managed_tensor>(result, output, element);
  });
}

stax_status stax_result_dlpack_versioned(const stax_result* result, size_t output, size_t element,
                                         stax_dl_managed_tensor_versioned** tensor) {
  return guarded([&] {
    auto& to = need(tensor, "tensor");
    to = managed_of<stax_dl_managed_tensor_versioned>(result, output, element);
    to->version = {kDlpackMajor, kDlpackMinor};
  });
}

void stax_result_free(stax_result* result) { delete result; }

}  // extern "C"
