// SPDX-License-Identifier: Apache-2.0
#include "frontend/tensors.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>

#include "onnx/onnx-ml.pb.h"
#include "support/error.h"
#include "support/mapped_file.h"

namespace stax::frontend {
namespace {

static_assert(std::endian::native == std::endian::little, "ONNX files hold little-endian numbers");

// Smaller tensors are copied, so that a mapping is not kept for a handful of bytes.
constexpr int64_t kLeastMappedBytes = int64_t{1} << 20;
constexpr size_t kAlignment = 64;

std::string describe(const onnx::TensorProto& proto) {
  return proto.name().empty() ? std::string("a tensor without a name") : "tensor '" + proto.name() + "'";
}

std::vector<int64_t> extents_of(const onnx::TensorProto& proto) {
  std::vector<int64_t> extents(proto.dims().begin(), proto.dims().end());
  if (extents.size() > static_cast<size_t>(tensor::kMaxRank))
    unsupported("{}: rank {} (at most {})", describe(proto), extents.size(), tensor::kMaxRank);
  for (const int64_t extent : extents)
    if (extent < 0) user_error("{}: extent {}", describe(proto), extent);
  return extents;
}

/// Saturates, so that an absurd shape stays absurd.
int64_t count_of(const std::vector<int64_t>& extents) {
  int64_t count = 1;
  for (const int64_t extent : extents)
    if (extent == 0) return 0;
  for (const int64_t extent : extents) {
    if (count > std::numeric_limits<int64_t>::max() / 16 / extent) return std::numeric_limits<int64_t>::max() / 16;
    count *= extent;
  }
  return count;
}

DType dtype_of(const onnx::TensorProto& proto) {
  const std::optional<DType> dtype = dtype_of_onnx(proto.data_type());
  if (!dtype) unsupported("{}: elements of type {}", describe(proto), onnx_type_name(proto.data_type()));
  return *dtype;
}

[[noreturn]] void wrong_size(const onnx::TensorProto& proto, int64_t have, int64_t want, const char* unit) {
  user_error("{}: holds {} {}, its shape needs {}", describe(proto), have, unit, want);
}

template <class Field>
Literal literal_of_field(const onnx::TensorProto& proto, DType t, const std::vector<int64_t>& extents,
                         const Field& field) {
  const int64_t count = count_of(extents);
  if (field.size() != count) wrong_size(proto, field.size(), count, "elements");
  Literal literal(t, extents);
  for (int64_t i = 0; i < count; ++i) {
    if constexpr (std::is_floating_point_v<typename Field::value_type>) {
      literal.set(i, {.f = field.Get(static_cast<int>(i))});
    } else {
      literal.set(i, {.i = static_cast<int64_t>(field.Get(static_cast<int>(i)))});
    }
  }
  return literal;
}

/// 16-bit floats stand as their bits in int32_data.
Literal literal_of_bits(const onnx::TensorProto& proto, DType t, const std::vector<int64_t>& extents) {
  const auto& field = proto.int32_data();
  const int64_t count = count_of(extents);
  if (field.size() != count) wrong_size(proto, field.size(), count, "elements");
  Literal literal(t, extents);
  auto* bits = static_cast<uint16_t*>(literal.data());
  for (int64_t i = 0; i < count; ++i) bits[i] = static_cast<uint16_t>(field.Get(static_cast<int>(i)));
  return literal;
}

Literal literal_of_bytes(const onnx::TensorProto& proto, DType t, const std::vector<int64_t>& extents,
                         const void* bytes, size_t size) {
  const int64_t want = count_of(extents) * static_cast<int64_t>(ir::byte_size(t));
  if (static_cast<int64_t>(size) != want) wrong_size(proto, static_cast<int64_t>(size), want, "bytes");
  Literal literal(t, extents);
  if (t == DType::kBool) {
    const auto* from = static_cast<const uint8_t*>(bytes);
    auto* to = static_cast<uint8_t*>(literal.data());
    for (size_t i = 0; i < size; ++i) to[i] = from[i] != 0;
  } else if (size != 0) {
    std::memcpy(literal.data(), bytes, size);
  }
  return literal;
}

int64_t parse_number(const onnx::TensorProto& proto, const std::string& key, const std::string& text) {
  int64_t number = -1;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (fault != std::errc() || end != text.data() + text.size() || number < 0)
    user_error("{}: '{}' as the {} of its external data", describe(proto), text, key);
  return number;
}

Literal literal_of_external(const onnx::TensorProto& proto, DType t, const std::vector<int64_t>& extents,
                            const ExternalData& external) {
  std::string location;
  int64_t offset = 0;
  std::optional<int64_t> length;
  for (const onnx::StringStringEntryProto& entry : proto.external_data()) {
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset") offset = parse_number(proto, "offset", entry.value());
    if (entry.key() == "length") length = parse_number(proto, "length", entry.value());
  }
  const std::filesystem::path relative(location);
  const bool leaves = relative.is_absolute() ||
                      std::any_of(relative.begin(), relative.end(), [](const auto& part) { return part == ".."; });
  if (location.empty() || location.find('\0') != std::string::npos)
    user_error("{}: its external data has no file name", describe(proto));
  if (leaves) user_error("{}: its external data '{}' lies outside the folder of the model", describe(proto), location);
  const std::string path = (std::filesystem::path(external.folder.empty() ? "." : external.folder) / relative).string();
  if (external.read != nullptr) external.read->push_back(path);
  const int64_t want = count_of(extents) * static_cast<int64_t>(ir::byte_size(t));
  if (length && *length != want) wrong_size(proto, *length, want, "bytes");
  MappedBytes bytes;
  try {
    bytes = map_file(path, offset, want);
  } catch (const UserError& error) {
    user_error("{}: its external data: {}", describe(proto), error.what());
  }
  const bool aligned = reinterpret_cast<uintptr_t>(bytes.data.get()) % kAlignment == 0;
  if (want >= kLeastMappedBytes && aligned && t != DType::kBool) return Literal::view(t, extents, bytes.data);
  return literal_of_bytes(proto, t, extents, bytes.data.get(), bytes.size);
}

}  // namespace

std::optional<DType> dtype_of_onnx(int element_type) {
  switch (element_type) {
    case onnx::TensorProto::BOOL: return DType::kBool;
    case onnx::TensorProto::INT8: return DType::kI8;
    case onnx::TensorProto::INT16: return DType::kI16;
    case onnx::TensorProto::INT32: return DType::kI32;
    case onnx::TensorProto::INT64: return DType::kI64;
    case onnx::TensorProto::UINT8: return DType::kU8;
    case onnx::TensorProto::UINT16: return DType::kU16;
    case onnx::TensorProto::UINT32: return DType::kU32;
    case onnx::TensorProto::UINT64: return DType::kU64;
    case onnx::TensorProto::FLOAT16: return DType::kF16;
    case onnx::TensorProto::BFLOAT16: return DType::kBF16;
    case onnx::TensorProto::FLOAT: return DType::kF32;
    case onnx::TensorProto::DOUBLE: return DType::kF64;
    default: return std::nullopt;
  }
}

std::string onnx_type_name(int element_type) {
  if (const std::optional<DType> dtype = dtype_of_onnx(element_type)) return std::string(long_name_of(*dtype));
  if (!onnx::TensorProto::DataType_IsValid(element_type)) return "number " + std::to_string(element_type);
  std::string name = onnx::TensorProto::DataType_Name(static_cast<onnx::TensorProto::DataType>(element_type));
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return name;
}

Literal literal_of(const onnx::TensorProto& proto, const ExternalData& external) {
  const DType t = dtype_of(proto);
  const std::vector<int64_t> extents = extents_of(proto);
  if (proto.has_segment()) unsupported("{}: a tensor in segments", describe(proto));
  if (proto.data_location() == onnx::TensorProto::EXTERNAL) return literal_of_external(proto, t, extents, external);
  if (proto.has_raw_data())
    return literal_of_bytes(proto, t, extents, proto.raw_data().data(), proto.raw_data().size());
  switch (t) {
    case DType::kF32: return literal_of_field(proto, t, extents, proto.float_data());
    case DType::kF64: return literal_of_field(proto, t, extents, proto.double_data());
    case DType::kI64: return literal_of_field(proto, t, extents, proto.int64_data());
    case DType::kU32:
    case DType::kU64: return literal_of_field(proto, t, extents, proto.uint64_data());
    case DType::kF16:
    case DType::kBF16: return literal_of_bits(proto, t, extents);
    case DType::kBool:
    case DType::kI8:
    case DType::kI16:
    case DType::kI32:
    case DType::kU8:
    case DType::kU16: return literal_of_field(proto, t, extents, proto.int32_data());
  }
  STAX_UNREACHABLE();
}

Literal literal_of_sparse(const onnx::SparseTensorProto& proto, const ExternalData& external) {
  const std::string what = "sparse tensor '" + proto.values().name() + "'";
  const Literal values = literal_of(proto.values(), external);
  const Literal indices = literal_of(proto.indices(), external);
  const std::vector<int64_t> extents(proto.dims().begin(), proto.dims().end());
  const int rank = static_cast<int>(extents.size());
  for (const int64_t extent : extents)
    if (extent < 0) user_error("{}: extent {}", what, extent);
  const int64_t stored = values.count();
  const bool linear = indices.rank() == 1;
  if (indices.dtype() != DType::kI64 || indices.count() != stored * (linear ? 1 : rank))
    user_error("{}: {} indices for {} values of rank {}", what, indices.count(), stored, rank);
  Literal dense(values.dtype(), extents);
  if (dense.bytes() != 0) std::memset(dense.data(), 0, dense.bytes());
  for (int64_t k = 0; k < stored; ++k) {
    int64_t at = linear ? indices.at(k).i : 0;
    for (int axis = 0; !linear && axis < rank; ++axis) {
      const int64_t index = indices.at(k * rank + axis).i;
      if (index < 0 || index >= extents[axis])
        user_error("{}: index {} on axis {} of extent {}", what, index, axis, extents[axis]);
      at = at * extents[axis] + index;
    }
    if (at < 0 || at >= dense.count()) user_error("{}: index {} of {} elements", what, at, dense.count());
    dense.set(at, values.at(k));
  }
  return dense;
}

}  // namespace stax::frontend
