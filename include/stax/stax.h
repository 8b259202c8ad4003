// SPDX-License-Identifier: Apache-2.0
#pragma once
// Stax inside a C++20 application: load a model once, run it at every shape.
//
//   stax::Model model = stax::Model::load("classifier.onnx", {.dims = {{"batch", {1, 64}}}});
//   std::vector<float> pixels = ..., scores(8 * 1000);
//   model.run({stax::view(pixels.data(), {8, 3, 224, 224})}, {stax::view(scores.data(), {8, 1000})});
//
// Shapes are lists of extents, the outermost first; 0 and 1 are ordinary extents. Strides are in elements, sizes of
// memory in bytes. Data is row-major where no strides are given.
//
// Errors: every function that can fail throws stax::Error and nothing else (exceptions of the caller's own callbacks
// pass through as they are). A failed call leaves the model as usable as before.
//
// Threads: a Model may be used by several threads at once, each call on its own. Calls share the model's worker
// threads; a call that finds them busy runs on its caller's thread alone.
//
// Two libraries have this header: libstax (CMake: stax::stax) does everything; libstax_runtime (stax::runtime) loads
// compiled `.stax` files only and needs no compiler. What needs the compiler is marked [compiler]; in libstax_runtime
// it throws an Error that says so, or (trace.h) is not declared.
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#define STAX_VERSION_MAJOR 0
#define STAX_VERSION_MINOR 1
#define STAX_VERSION_PATCH 0

#if defined(_WIN32)
#define STAX_API
#else
#define STAX_API __attribute__((visibility("default")))
#endif

namespace stax {

/// The version of the library that is linked, such as "0.1.0".
STAX_API const char* version();
/// True in libstax, false in libstax_runtime.
STAX_API bool has_compiler();

// ---- errors ---------------------------------------------------------------------------------------------------------

enum class ErrorKind : uint8_t {
  kUser,         // an argument, a file or a shape is wrong
  kUnsupported,  // legal, but Stax cannot do it
  kOutOfMemory,
  kInternal,  // a fault of Stax's
};

/// What went wrong, where, and how to fix it; none of the three is ever empty.
class STAX_API Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string problem, std::string where, std::string how);
  Error(const Error&);
  Error& operator=(const Error&);
  ~Error() override;
  /// All of it: "where: problem; how".
  const char* what() const noexcept override;
  const std::string& problem() const noexcept;
  const std::string& where() const noexcept;
  const std::string& how() const noexcept;
  ErrorKind kind() const noexcept;

 private:
  struct Parts;
  std::shared_ptr<const Parts> parts_;
};

// ---- element types --------------------------------------------------------------------------------------------------

enum class DType : uint8_t { kBool, kI8, kI16, kI32, kI64, kU8, kU16, kU32, kU64, kF16, kBF16, kF32, kF64 };

/// Bytes of one element; bool is one byte, 0 or 1.
STAX_API size_t byte_size(DType t);
/// "bool", "int8", ..., "uint64", "float16", "bfloat16", "float32", "float64".
STAX_API const char* name_of(DType t);

/// f16 and bf16 as their bits, for languages without such types.
struct Float16 {
  uint16_t bits = 0;
};
struct BFloat16 {
  uint16_t bits = 0;
};

template <class T>
constexpr DType dtype_of() {
  using U = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<U, bool>)
    return DType::kBool;
  else if constexpr (std::is_same_v<U, Float16>)
    return DType::kF16;
  else if constexpr (std::is_same_v<U, BFloat16>)
    return DType::kBF16;
  else if constexpr (std::is_same_v<U, float>)
    return DType::kF32;
  else if constexpr (std::is_same_v<U, double>)
    return DType::kF64;
  else {
    static_assert(std::is_integral_v<U> && sizeof(U) <= 8, "no element type of Stax's");
    constexpr bool is_signed = std::is_signed_v<U>;
    if constexpr (sizeof(U) == 1)
      return is_signed ? DType::kI8 : DType::kU8;
    else if constexpr (sizeof(U) == 2)
      return is_signed ? DType::kI16 : DType::kU16;
    else if constexpr (sizeof(U) == 4)
      return is_signed ? DType::kI32 : DType::kU32;
    else
      return is_signed ? DType::kI64 : DType::kU64;
  }
}

// ---- tensors --------------------------------------------------------------------------------------------------------

using Shape = std::vector<int64_t>;

/// The caller's memory, to be read during one call. `data` may be null where there are no elements.
struct TensorView {
  DType dtype = DType::kF32;
  Shape shape;
  const void* data = nullptr;
  Shape strides = {};  // in elements, one for each axis, any sign, 0 repeats; empty: row-major without gaps
};

/// The caller's memory, to be written during one call. Strides must not make two elements meet.
struct MutableTensorView {
  DType dtype = DType::kF32;
  Shape shape;
  void* data = nullptr;
  Shape strides = {};
  operator TensorView() const { return {dtype, shape, data, strides}; }
};

template <class T>
TensorView view(const T* data, Shape shape, Shape strides = {}) {
  return {dtype_of<T>(), std::move(shape), data, std::move(strides)};
}
template <class T>
  requires(!std::is_const_v<T>)
MutableTensorView view(T* data, Shape shape, Shape strides = {}) {
  return {dtype_of<T>(), std::move(shape), data, std::move(strides)};
}

/// A tensor with memory of its own: row-major without gaps, 64-byte aligned. Copies share the memory.
class STAX_API Tensor {
 public:
  /// Of no elements: float32, shape [0].
  Tensor();
  /// Zeros.
  Tensor(DType dtype, Shape shape);
  /// A copy of `count` elements; Error unless the shape has that many.
  template <class T>
  static Tensor of(Shape shape, std::span<const T> elements) {
    return copy_of(dtype_of<T>(), std::move(shape), elements.data(), elements.size());
  }
  template <class T>
  static Tensor of(Shape shape, std::initializer_list<T> elements) {
    return copy_of(dtype_of<T>(), std::move(shape), elements.begin(), elements.size());
  }
  template <class T>
    requires(!std::is_same_v<T, bool>)
  static Tensor of(Shape shape, const std::vector<T>& elements) {
    return copy_of(dtype_of<T>(), std::move(shape), elements.data(), elements.size());
  }
  /// A copy of what a view shows, without its strides.
  static Tensor copy_of(const TensorView& view);
  /// `data` as it is, kept alive by `owner`: row-major, 64-byte aligned or not.
  static Tensor adopt(DType dtype, Shape shape, std::shared_ptr<void> owner, const void* data);

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int64_t rank() const { return static_cast<int64_t>(shape_.size()); }
  int64_t count() const;
  size_t bytes() const;
  const void* data() const { return data_; }
  /// Error where T is not the element type.
  template <class T>
  const T* data() const {
    return static_cast<const T*>(checked_data(dtype_of<T>()));
  }
  template <class T>
  std::span<const T> elements() const {
    return {data<T>(), static_cast<size_t>(count())};
  }
  /// To be written; memory that others share (another Tensor, another output) is copied first.
  void* mutable_data();
  template <class T>
  T* mutable_data() {
    checked_data(dtype_of<T>());
    return static_cast<T*>(mutable_data());
  }
  const std::shared_ptr<void>& owner() const { return owner_; }
  operator TensorView() const { return {dtype_, shape_, data_, {}}; }

 private:
  static Tensor copy_of(DType dtype, Shape shape, const void* elements, size_t count);
  const void* checked_data(DType wanted) const;
  DType dtype_ = DType::kF32;
  Shape shape_;
  const void* data_ = nullptr;
  std::shared_ptr<void> owner_;
};

/// One input of a call: a tensor, or a sequence of tensors of one element type.
class Input {
 public:
  Input(TensorView tensor) : tensor_(std::move(tensor)) {}
  Input(const MutableTensorView& t) : tensor_{t.dtype, t.shape, t.data, t.strides} {}
  Input(const Tensor& tensor) : tensor_(tensor) {}
  Input(std::vector<TensorView> sequence) : sequence_(std::move(sequence)), is_sequence_(true) {}
  Input(const std::vector<Tensor>& sequence) : sequence_(sequence.begin(), sequence.end()), is_sequence_(true) {}
  bool is_sequence() const { return is_sequence_; }
  const TensorView& tensor() const { return tensor_; }
  const std::vector<TensorView>& sequence() const { return sequence_; }

 private:
  TensorView tensor_;
  std::vector<TensorView> sequence_;
  bool is_sequence_ = false;
};

/// One output of a call.
struct Value {
  bool is_sequence = false;
  Tensor tensor;
  std::vector<Tensor> sequence;
};

// ---- models ---------------------------------------------------------------------------------------------------------

/// What an extent of an input or an output may be.
struct Extent {
  bool is_constant = false;
  int64_t lo = 0, hi = 0;  // inclusive; equal for a constant
  int64_t multiple = 1;    // every value is a multiple of it
  /// A symbol ("batch"), or an expression over symbols ("length*2 + 1"), or the constant's digits. A symbol that no
  /// input has depends on data.
  std::string name;
};

/// What an input takes or an output gives.
struct Port {
  std::string name;
  DType dtype = DType::kF32;
  bool is_sequence = false;
  bool rank_is_known = true;  // false: `extents` is empty and the rank is decided by the data
  std::vector<Extent> extents;
};

struct DimRange {
  int64_t lo = 0, hi = 0;
};

/// A kernel that gave another result than its version that is right at every shape.
struct Mismatch {
  std::string kernel;     // its name and version
  std::string operation;  // the operator of the model
  std::string what;       // "element [3, 0] is 1.5 instead of 2 (4 of 64 differ)"
};

struct Options {
  /// Ranges of dims by their name in the model, or `input[axis]` for an unnamed one; default 0 .. 2^31 - 1. Only for
  /// models, not for `.stax` files, whose dims were fixed when they were compiled. A name that the model lacks is an
  /// Error that lists those that it has.
  std::map<std::string, DimRange> dims = {};
  /// Threads that one call may use, the caller's own among them; 0: all cores.
  int threads = 0;
  /// "cpu", or "loop": the interpreter that defines what generated code must do; slow, for doubts about a result.
  /// [compiler]
  std::string device = "cpu";
  /// Of so many calls one, beginning with the first, runs each of its kernels a second time, in the version that is right at every shape, and
  /// compares. Where they differ the call goes on with the right result, and that version is not used again. 0: none.
  int64_t check_every = 0;
  /// Called for each of them, on the thread of the call. What it throws ends the call.
  std::function<void(const Mismatch&)> on_mismatch = {};
};

struct Statistics {
  int64_t calls = 0, failed_calls = 0;
  int64_t kernel_launches = 0;
  int64_t shape_hits = 0, shape_misses = 0;   // calls whose tuple of dims was seen before, and others
  int64_t packed_inputs = 0;                  // inputs that were copied because of gaps, order or alignment
  int64_t copied_outputs = 0;                 // outputs that were made elsewhere and copied into the caller's memory
  int64_t peak_bytes = 0;                     // the most memory the model ever held, weights included, the caller's not
  int64_t compiles_after_load = 0;            // always 0
  int64_t checked_calls = 0, mismatches = 0;  // with Options::check_every
  double compile_ms = 0, load_ms = 0;
};

/// Gives the memory for an output once its shape is known: at least the shape's bytes, aligned for the element type,
/// valid until the call returns. Null: an Error. May be called before or after the output's data is made, in any order
/// of outputs, always on the calling thread.
using Allocator = std::function<void*(size_t output, DType dtype, std::span<const int64_t> shape)>;

/// A compiled model. A handle: copies are the same model.
class STAX_API Model {
 public:
  /// An ONNX file or tensor IR text, compiled now [compiler]; or a compiled `.stax` file. The first bytes decide.
  static Model load(const std::string& path, const Options& options = {});
  /// The same from memory. External weights of an ONNX model are looked for beside `name`.
  static Model load_bytes(std::span<const std::byte> bytes, const std::string& name, const Options& options = {});
  /// Writes a `.stax` file that libstax and libstax_runtime load on any x86-64 machine with AVX2; complete or not at
  /// all. Missing folders are made. [compiler]
  void compile_to(const std::string& path) const;

  const std::vector<Port>& inputs() const;
  const std::vector<Port>& outputs() const;
  /// Position of an input or output; Error that lists the names where there is none.
  size_t input(std::string_view name) const;
  size_t output(std::string_view name) const;
  /// What the import or the compiler had to say.
  const std::vector<std::string>& warnings() const;

  /// Inputs in the order of inputs(). Views are read in place where they are row-major without gaps and aligned for
  /// their element type, else packed once. Error for a wrong number, type, rank or extent, a dim outside of its range,
  /// or dims that must be equal and are not.
  std::vector<Tensor> run(std::span<const Input> inputs) const;
  std::vector<Tensor> run(std::initializer_list<Input> inputs) const {
    return run(std::span(inputs.begin(), inputs.size()));
  }
  /// The same for models with outputs that are sequences.
  std::vector<Value> run_values(std::span<const Input> inputs) const;
  std::vector<Value> run_values(std::initializer_list<Input> inputs) const {
    return run_values(std::span(inputs.begin(), inputs.size()));
  }
  /// Into the caller's memory, in the order of outputs(). Types and extents must be exactly those of the results, else
  /// Error. Memory that an input or another output shares is allowed for an input (the output is made elsewhere and
  /// copied) and an Error for an output. After an Error its contents are undefined.
  void run(std::span<const Input> inputs, std::span<const MutableTensorView> outputs) const;
  void run(std::initializer_list<Input> inputs, std::initializer_list<MutableTensorView> outputs) const {
    run(std::span(inputs.begin(), inputs.size()), std::span(outputs.begin(), outputs.size()));
  }
  /// Into memory that the caller gives when the shapes are known. Returns the shapes.
  std::vector<Shape> run(std::span<const Input> inputs, const Allocator& allocate) const;
  std::vector<Shape> run(std::initializer_list<Input> inputs, const Allocator& allocate) const {
    return run(std::span(inputs.begin(), inputs.size()), allocate);
  }

  /// The shapes that outputs would have, by arithmetic alone; none for those that depend on data, and for sequences. Of
  /// the inputs only type and shape are looked at. Errors as run.
  std::vector<std::optional<Shape>> output_shapes(std::span<const Input> inputs) const;
  std::vector<std::optional<Shape>> output_shapes(std::initializer_list<Input> inputs) const {
    return output_shapes(std::span(inputs.begin(), inputs.size()));
  }

  Statistics statistics() const;

  struct Impl;
  explicit Model(std::shared_ptr<Impl> impl);  // for the library
 private:
  Impl& impl() const;  // an Error if there is none: of a Model that was moved from
  std::shared_ptr<Impl> impl_;
};

}  // namespace stax

#ifndef STAX_RUNTIME_ONLY
#include <stax/trace.h>
#endif
