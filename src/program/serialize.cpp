// SPDX-License-Identifier: Apache-2.0
// The file of a compiled program.
//
//   bytes 0..7    "STAXPROG"
//   8..11         format version          12..15  zero
//   16..23        checksum of all bytes from 24 on
//   24..31        length of the description; it follows; then, each 64-byte aligned, images and weights in the order of the description
//
// The description is a sequence of 64-bit numbers, little-endian, and of texts (length, bytes). Reading checks every length against what is left, then
// program::verify checks every reference; nothing is executed before.
#include <cstring>

#include "program/steps.h"
#include "support/error.h"
#include "support/hash.h"

namespace stax::program {
namespace {

constexpr char kMagic[8] = {'S', 'T', 'A', 'X', 'P', 'R', 'O', 'G'};
constexpr uint32_t kFormat = 7;
constexpr size_t kHeader = 32;

template <class T>
concept Number = std::is_integral_v<T> || std::is_enum_v<T>;

struct Writer {
  std::vector<uint8_t> out;
  static constexpr bool kReads = false;
  template <Number T>
  void io(T& v) {
    uint64_t bits = static_cast<uint64_t>(v);
    for (int k = 0; k < 8; ++k) out.push_back(static_cast<uint8_t>(bits >> (8 * k)));
  }
  void io(std::string& s) {
    size_t n = s.size();
    io(n);
    out.insert(out.end(), s.begin(), s.end());
  }
  template <class T>
  size_t size(std::vector<T>& v, size_t) {
    size_t n = v.size();
    io(n);
    return n;
  }
};

struct Reader {
  std::span<const uint8_t> in;
  const std::string& name;
  static constexpr bool kReads = true;
  [[noreturn]] void damaged() const {
    user_error("'{}' is damaged: its description ends too early; make it again with `stax compile`", name);
  }
  template <Number T>
  void io(T& v) {
    if (in.size() < 8) damaged();
    uint64_t bits = 0;
    for (int k = 0; k < 8; ++k) bits |= static_cast<uint64_t>(in[static_cast<size_t>(k)]) << (8 * k);
    in = in.subspan(8);
    v = static_cast<T>(bits);
  }
  void io(std::string& s) {
    size_t n = 0;
    io(n);
    if (n > in.size()) damaged();
    s.assign(reinterpret_cast<const char*>(in.data()), n);
    in = in.subspan(n);
  }
  template <class T>
  size_t size(std::vector<T>& v, size_t least_bytes) {
    size_t n = 0;
    io(n);
    if (n > in.size() / least_bytes) damaged();
    v.resize(n);
    return n;
  }
};

// One description of every struct, for reading and for writing.
template <class A, Number T>
void fields(A& a, T& v) {
  a.io(v);
}
template <class A>
void fields(A& a, std::string& v) {
  a.io(v);
}
template <class A>
void fields(A& a, SymbolSpec& v);
template <class A>
void fields(A& a, symbolic::FlatNode& v);
template <class A>
void fields(A& a, ValueSpec& v);
template <class A>
void fields(A& a, DimSpec& v);
template <class A>
void fields(A& a, InputSpec& v);
template <class A>
void fields(A& a, OutputSpec& v);
template <class A>
void fields(A& a, KernelSpec& v);
template <class A>
void fields(A& a, ExtentBinding& v);
template <class A>
void fields(A& a, LaunchVersion& v);
template <class A>
void fields(A& a, Segment& v);
template <class A>
void fields(A& a, BlockSpec& v);
template <class A>
void fields(A& a, Step& v);

template <class A, class T>
void fields(A& a, std::vector<T>& v) {
  size_t n = a.size(v, 8);
  for (size_t k = 0; k < n; ++k) fields(a, v[k]);
}
template <class A, class... T>
void all(A& a, T&... v) {
  (fields(a, v), ...);
}

template <class A>
void fields(A& a, SymbolSpec& v) {
  all(a, v.name, v.lo, v.hi, v.multiple);
}
template <class A>
void fields(A& a, symbolic::FlatNode& v) {
  all(a, v.kind, v.value, v.args);
}
template <class A>
void fields(A& a, ValueSpec& v) {
  all(a, v.name, v.dtype, v.is_sequence, v.extents, v.rank, v.storage, v.index, v.offset, v.arena_segment, v.bytes);
}
template <class A>
void fields(A& a, DimSpec& v) {
  all(a, v.symbol, v.constant);
}
template <class A>
void fields(A& a, InputSpec& v) {
  all(a, v.name, v.value, v.dims, v.rank_symbol);
}
template <class A>
void fields(A& a, OutputSpec& v) {
  all(a, v.name, v.value);
}
template <class A>
void fields(A& a, KernelSpec& v) {
  all(a, v.name, v.family, v.version, v.kernel_class, v.entry, v.loop_text, v.source, v.flush_denormals, v.thread_text,
      v.code_format, v.code, v.static_shared_bytes, v.index_bits, v.reports_faults, v.decisions);
}
template <class A>
void fields(A& a, ExtentBinding& v) {
  all(a, v.symbol, v.output, v.axis);
}
template <class A>
void fields(A& a, Segment& v) {
  all(a, v.first_step, v.point, v.nodes, v.arena_bytes);
}
template <class A>
void fields(A& a, BlockSpec& v) {
  all(a, v.inputs, v.outputs, v.steps, v.segments);
}
template <class A>
void fields(A& a, LaunchVersion& v) {
  all(a, v.kernel, v.guard, v.necessary, v.iterations, v.scratch_bytes, v.grid[0], v.grid[1], v.grid[2], v.block,
      v.shared_bytes, v.divisors, v.scratch);
}
template <class A>
void exact(A& a, LaunchStep& v) {
  all(a, v.versions, v.arguments, v.results, v.params, v.work, v.operations, v.empty_if_zero, v.source);
}
template <class A>
void exact(A& a, CopyStep& v) {
  all(a, v.from, v.to);
}
template <class A>
void exact(A& a, AliasStep& v) {
  all(a, v.from, v.to);
}
template <class A>
void exact(A& a, ReshapeDynamicStep& v) {
  all(a, v.data, v.shape, v.result, v.allow_zero, v.defines, v.source);
}
template <class A>
void exact(A& a, BindStep& v) {
  all(a, v.value, v.defines, v.source);
}
template <class A>
void exact(A& a, CheckStep& v) {
  all(a, v.condition, v.message, v.arguments);
}
template <class A>
void exact(A& a, ProcedureStep& v) {
  all(a, v.procedure, v.operands, v.results, v.axis, v.flag, v.defines, v.source);
}
template <class A>
void exact(A& a, IfStep& v) {
  all(a, v.condition, v.known, v.then_block, v.else_block, v.results, v.bindings, v.source);
}
template <class A>
void exact(A& a, LoopStep& v) {
  all(a, v.trip_count, v.condition, v.initial, v.body, v.body_bindings, v.results, v.bindings, v.source, v.beside_next);
}
template <class A>
void exact(A& a, SequenceStep& v) {
  all(a, v.op, v.operands, v.result, v.axis, v.flag, v.bindings, v.source);
}

template <size_t K = 0>
void make_step(Step& v, size_t kind) {
  if constexpr (K < std::variant_size_v<Step>) {
    if (kind == K)
      v.emplace<K>();
    else
      make_step<K + 1>(v, kind);
  }
}

template <class A>
void fields(A& a, Step& v) {
  size_t kind = v.index();
  a.io(kind);
  if constexpr (A::kReads) {
    if (kind >= std::variant_size_v<Step>) a.damaged();
    make_step(v, kind);
  }
  std::visit([&](auto& s) { exact(a, s); }, v);
}

template <class A>
void describe(A& a, Program& p) {
  all(a, p.build, p.target, p.symbols, p.symbol_points, p.exprs.nodes(), p.values, p.inputs, p.outputs, p.blocks,
      p.kernels, p.warnings);
}

size_t aligned(size_t n) { return (n + 63) / 64 * 64; }

}  // namespace

bool is_program_file(std::span<const uint8_t> first_bytes) {
  return first_bytes.size() >= 8 && std::memcmp(first_bytes.data(), kMagic, 8) == 0;
}

std::vector<uint8_t> serialize(const Program& program) {
  // The description is shared with the reader, which writes into it; this copy's fields are only read.
  Program copy = program;
  Writer w;
  describe(w, copy);
  size_t images = copy.images.size(), constants = copy.constants.size();
  w.io(images);
  for (Image& i : copy.images) {
    size_t n = i.bytes.size();
    w.io(i.isa), w.io(n);
  }
  w.io(constants);
  for (ir::Literal& c : copy.constants) {
    DType t = c.dtype();
    std::vector<int64_t> extents = c.extents();
    all(w, t, extents);
  }
  std::vector<uint8_t> out(kHeader + w.out.size());
  uint64_t length = w.out.size();
  std::memcpy(out.data(), kMagic, 8);
  std::memcpy(out.data() + 8, &kFormat, 4);
  std::memcpy(out.data() + 24, &length, 8);
  std::copy(w.out.begin(), w.out.end(), out.begin() + kHeader);
  auto append = [&](const void* data, size_t n) {
    out.resize(aligned(out.size()));
    const auto* bytes = static_cast<const uint8_t*>(data);
    out.insert(out.end(), bytes, bytes + n);
  };
  for (const Image& i : program.images) append(i.bytes.data(), i.bytes.size());
  for (const ir::Literal& c : program.constants) append(c.data(), c.bytes());
  uint64_t sum = hash_bytes(std::as_bytes(std::span(out).subspan(24)));
  std::memcpy(out.data() + 16, &sum, 8);
  return out;
}

Program deserialize(std::span<const uint8_t> bytes, const std::string& name, const std::shared_ptr<void>& owner) {
  if (!is_program_file(bytes)) user_error("'{}' is no compiled program", name);
  if (bytes.size() < kHeader)
    user_error("'{}' is damaged: it ends after {} bytes; make it again with `stax compile`", name, bytes.size());
  uint32_t format = 0;
  uint64_t sum = 0, length = 0;
  std::memcpy(&format, bytes.data() + 8, 4);
  std::memcpy(&sum, bytes.data() + 16, 8);
  std::memcpy(&length, bytes.data() + 24, 8);
  if (format != kFormat)
    user_error("'{}' has format version {}, this build reads {}; compile the model again", name, format, kFormat);
  if (hash_bytes(std::as_bytes(bytes.subspan(24))) != sum)
    user_error("'{}' is damaged: its checksum does not match; make it again with `stax compile`", name);
  if (length > bytes.size() - kHeader) user_error("'{}' is damaged: its description is longer than the file", name);
  Program p;
  Reader r{bytes.subspan(kHeader, length), name};
  describe(r, p);
  size_t at = kHeader + length;
  auto take = [&](size_t n) {
    at = aligned(at);
    if (at > bytes.size() || n > bytes.size() - at) r.damaged();
    const uint8_t* data = bytes.data() + at;
    at += n;
    return data;
  };
  size_t images = 0, constants = 0;
  r.io(images);
  std::vector<size_t> sizes;
  for (size_t k = 0; k < images; ++k) {
    Image i;
    size_t n = 0;
    r.io(i.isa), r.io(n);
    sizes.push_back(n);
    p.images.push_back(std::move(i));
  }
  r.io(constants);
  struct Shape {
    DType dtype;
    std::vector<int64_t> extents;
  };
  std::vector<Shape> shapes;
  for (size_t k = 0; k < constants; ++k) {
    Shape s{};
    all(r, s.dtype, s.extents);
    if (static_cast<int>(s.dtype) >= ir::kDTypeCount) r.damaged();
    for (int64_t e : s.extents)
      if (e < 0) r.damaged();
    shapes.push_back(std::move(s));
  }
  for (size_t k = 0; k < images; ++k) {
    const uint8_t* data = take(sizes[k]);
    p.images[k].bytes.assign(data, data + sizes[k]);
  }
  for (const Shape& s : shapes) {
    double n = static_cast<double>(ir::byte_size(s.dtype));
    for (int64_t e : s.extents) n *= static_cast<double>(e);
    if (n > static_cast<double>(bytes.size())) r.damaged();
    if (owner && n > 0) {
      const uint8_t* data = take(static_cast<size_t>(n));
      p.constants.push_back(ir::Literal::view(s.dtype, s.extents, {owner, const_cast<uint8_t*>(data)}));
      continue;
    }
    ir::Literal c(s.dtype, s.extents);
    const uint8_t* data = take(c.bytes());
    if (c.bytes() > 0) std::memcpy(c.data(), data, c.bytes());
    p.constants.push_back(std::move(c));
  }
  try {
    verify(p);
  } catch (const InternalError& e) {
    user_error("'{}' is damaged: {}", name, e.what());
  }
  return p;
}

}  // namespace stax::program
