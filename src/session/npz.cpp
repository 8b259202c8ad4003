// SPDX-License-Identifier: Apache-2.0
#include "session/npz.h"

#include <sys/stat.h>
#include <unistd.h>
#include <zip.h>

#include <atomic>
#include <cctype>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "support/error.h"

namespace stax::session {
namespace {

using ir::DType;
using runtime::Tensor;
namespace fs = std::filesystem;

// ---- the .npy header: a Python literal {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }

struct Header {
  std::string descr;
  bool fortran_order = false;
  std::vector<int64_t> shape;
};

class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& where) : text_(text), where_(where) {}
  Header parse() {
    Header h;
    bool descr = false, order = false, shape = false;
    expect('{');
    while (!accept('}')) {
      std::string key = string();
      expect(':');
      if (key == "descr")
        h.descr = string(), descr = true;
      else if (key == "fortran_order")
        h.fortran_order = word() == "True", order = true;
      else if (key == "shape")
        h.shape = tuple(), shape = true;
      else
        fail();
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    if (!descr || !order || !shape) fail();
    return h;
  }

 private:
  [[noreturn]] void fail() const {
    user_error("{}: the array's header cannot be read; save it again with numpy.savez", where_);
  }
  void space() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool accept(char c) {
    space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail();
  }
  std::string string() {
    space();
    if (at_ >= text_.size() || (text_[at_] != '\'' && text_[at_] != '"')) fail();
    size_t end = text_.find(text_[at_], at_ + 1);
    if (end == std::string_view::npos) fail();
    std::string s(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return s;
  }
  std::string word() {
    space();
    size_t start = at_;
    while (at_ < text_.size() && std::isalnum(static_cast<unsigned char>(text_[at_]))) ++at_;
    return std::string(text_.substr(start, at_ - start));
  }
  std::vector<int64_t> tuple() {
    std::vector<int64_t> r;
    expect('(');
    while (!accept(')')) {
      std::string digits = word();
      if (digits.empty() || digits.size() > 18 || digits.find_first_not_of("0123456789") != std::string::npos) fail();
      r.push_back(std::stoll(digits));
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return r;
  }
  std::string_view text_;
  std::string where_;
  size_t at_ = 0;
};

DType dtype_of(const std::string& descr, const std::string& where) {
  static const std::map<std::string, DType> kTypes = {{"b1", DType::kBool}, {"i1", DType::kI8},  {"i2", DType::kI16},
                                                      {"i4", DType::kI32},  {"i8", DType::kI64}, {"u1", DType::kU8},
                                                      {"u2", DType::kU16},  {"u4", DType::kU32}, {"u8", DType::kU64},
                                                      {"f2", DType::kF16},  {"f4", DType::kF32}, {"f8", DType::kF64}};
  if (descr.size() >= 3 && descr[0] != '>')
    if (auto it = kTypes.find(descr.substr(1)); it != kTypes.end()) return it->second;
  user_error("{}: arrays of numpy type '{}' are not supported; use little-endian numbers or bool", where, descr);
}

std::string descr_of(DType t) {
  switch (t) {
    case DType::kBool: return "|b1";
    case DType::kI8: return "|i1";
    case DType::kI16: return "<i2";
    case DType::kI32: return "<i4";
    case DType::kI64: return "<i8";
    case DType::kU8: return "|u1";
    case DType::kU16:
    case DType::kBF16: return "<u2";
    case DType::kU32: return "<u4";
    case DType::kU64: return "<u8";
    case DType::kF16: return "<f2";
    case DType::kF32: return "<f4";
    case DType::kF64: return "<f8";
  }
  STAX_UNREACHABLE();
}

std::shared_ptr<void> aligned_block(size_t bytes) {
  void* p = std::aligned_alloc(64, (std::max<size_t>(bytes, 1) + 63) / 64 * 64);
  if (!p) throw std::bad_alloc();
  return {p, std::free};
}

// Column-major to row-major.
void reorder(const uint8_t* from, uint8_t* to, const std::vector<int64_t>& shape, size_t item) {
  std::vector<int64_t> index(shape.size(), 0);
  int64_t total = 1;
  for (int64_t e : shape) total *= e;
  for (int64_t linear = 0; linear < total; ++linear) {
    int64_t at = 0, step = 1;
    for (size_t d = 0; d < shape.size(); ++d) at += index[d] * step, step *= shape[d];
    std::memcpy(to + static_cast<size_t>(linear) * item, from + static_cast<size_t>(at) * item, item);
    for (size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
  }
}

Tensor parse_npy(const std::vector<uint8_t>& bytes, const std::string& where) {
  auto fail = [&] { user_error("{}: this is no .npy array; save it again with numpy.savez", where); };
  if (bytes.size() < 10 || std::memcmp(bytes.data(), "\x93NUMPY", 6) != 0) fail();
  size_t start = bytes[6] == 1 ? 10 : 12, length = bytes[8] | static_cast<size_t>(bytes[9]) << 8;
  if (bytes[6] != 1) {
    if (bytes.size() < 12) fail();
    length |= static_cast<size_t>(bytes[10]) << 16 | static_cast<size_t>(bytes[11]) << 24;
  }
  if (length > bytes.size() - start) fail();
  Header header = HeaderParser({reinterpret_cast<const char*>(bytes.data()) + start, length}, where).parse();
  Tensor t;
  t.dtype = dtype_of(header.descr, where);
  t.extents = header.shape;
  size_t data = start + length, have = bytes.size() - data, need = t.bytes();
  if (need != have)
    user_error("{}: its shape [{}] needs {} bytes and {} are there; the file is damaged", where,
               fmt::join(t.extents, ", "), need, have);
  t.owner = aligned_block(have);
  t.data = t.owner.get();
  if (header.fortran_order && t.extents.size() > 1)
    reorder(bytes.data() + data, static_cast<uint8_t*>(t.owner.get()), t.extents, ir::byte_size(t.dtype));
  else if (have > 0)
    std::memcpy(t.owner.get(), bytes.data() + data, have);
  if (t.dtype == DType::kBool)  // any byte but 0 is true
    for (size_t k = 0; k < have; ++k)
      static_cast<uint8_t*>(t.owner.get())[k] = static_cast<uint8_t*>(t.owner.get())[k] != 0;
  return t;
}

std::string npy_header(const Tensor& t) {
  std::string shape = "(";
  for (int64_t e : t.extents) shape += std::to_string(e) + ", ";
  if (t.extents.size() > 1)
    shape.resize(shape.size() - 2);
  else if (t.extents.size() == 1)
    shape.pop_back();
  shape += ")";
  std::string text = "{'descr': '" + descr_of(t.dtype) + "', 'fortran_order': False, 'shape': " + shape + ", }";
  size_t total = (10 + text.size() + 1 + 63) / 64 * 64;
  text.append(total - 10 - text.size() - 1, ' ');
  text += '\n';
  std::string head("\x93NUMPY\x01\x00", 8);
  head += static_cast<char>(text.size() & 255);
  head += static_cast<char>(text.size() >> 8);
  return head + text;
}

/// The file that a path leads to, whether it exists or not: links are followed, as if it were opened for writing.
std::string behind_links(std::string path) {
  std::error_code error;
  for (int k = 0; k < 40 && fs::is_symlink(fs::symlink_status(path, error)); ++k) {
    const fs::path to = fs::read_symlink(path, error);
    if (error) break;
    path = to.is_absolute() ? to.string() : (fs::path(path).parent_path() / to).string();
  }
  return path;
}

/// A device or a pipe: it takes bytes, and no other file may take its place.
bool is_special(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  return fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status);
}

std::string temporary_name(const std::string& path) {
  static std::atomic<int> counter{0};
  return path + ".part" + std::to_string(::getpid()) + "." + std::to_string(counter++);
}

void make_parent(const std::string& path) {
  fs::path parent = fs::path(path).parent_path();
  std::error_code error;
  if (!parent.empty() && !fs::is_directory(parent, error)) {
    fs::create_directories(parent, error);
    if (!fs::is_directory(parent)) user_error("the folder '{}' cannot be made: {}", parent.string(), error.message());
  }
}

void finish(const std::string& temporary, const std::string& path) {
  std::error_code error;
  fs::rename(temporary, path, error);
  if (error) {
    std::error_code ignored;
    fs::remove(temporary, ignored);
    user_error("'{}' cannot be written: {}", path, error.message());
  }
}

}  // namespace

Arrays read_npz(const std::string& path) {
  std::error_code error;
  if (!fs::exists(path, error)) user_error("input file '{}' does not exist", path);
  if (!fs::is_regular_file(path, error)) user_error("input file '{}' is no file", path);
  int code = 0;
  std::unique_ptr<zip_t, void (*)(zip_t*)> archive(zip_open(path.c_str(), ZIP_RDONLY, &code),
                                                   [](zip_t* z) { zip_discard(z); });
  if (!archive) user_error("input file '{}' is no .npz archive, or is damaged; save it with numpy.savez", path);
  Arrays result;
  zip_int64_t count = zip_get_num_entries(archive.get(), 0);
  for (zip_int64_t k = 0; k < count; ++k) {
    zip_stat_t stat;
    if (zip_stat_index(archive.get(), static_cast<zip_uint64_t>(k), ZIP_FL_ENC_RAW, &stat) != 0 ||
        !(stat.valid & ZIP_STAT_NAME) || !(stat.valid & ZIP_STAT_SIZE))
      user_error("'{}': entry {} of the archive is damaged", path, k);
    std::string name = stat.name;
    if (name.size() > 4 && name.ends_with(".npy")) name.resize(name.size() - 4);
    std::string where = "'" + path + "', array '" + name + "'";
    // A damaged size must not make us reserve memory that no file of this length can fill.
    if (stat.size > (uint64_t{1} << 46)) user_error("{}: the archive is damaged", where);
    std::unique_ptr<zip_file_t, int (*)(zip_file_t*)> file(
        zip_fopen_index(archive.get(), static_cast<zip_uint64_t>(k), 0), zip_fclose);
    if (!file) user_error("{}: cannot be opened: {}", where, zip_strerror(archive.get()));
    std::vector<uint8_t> bytes;
    std::vector<uint8_t> chunk(std::min<size_t>(1 << 20, std::max<size_t>(stat.size + 1, 256)));
    for (;;) {
      zip_int64_t n = zip_fread(file.get(), chunk.data(), chunk.size());
      if (n < 0) user_error("{}: the archive is damaged ({})", where, zip_file_strerror(file.get()));
      if (n == 0) break;
      if (bytes.empty()) bytes.reserve(std::min<size_t>(stat.size, 64 << 20));
      bytes.insert(bytes.end(), chunk.begin(), chunk.begin() + n);
      if (bytes.size() > stat.size) user_error("{}: the archive is damaged", where);
    }
    if (result.count(name)) user_error("{}: the archive has this name twice", where);
    result[name] = parse_npy(bytes, where);
  }
  return result;
}

void write_npz(const std::string& name, const std::vector<std::pair<std::string, Tensor>>& arrays) {
  const std::string path = behind_links(name);
  if (is_special(path)) user_error("'{}' is no regular file; give another place for the arrays", name);
  make_parent(path);
  std::string temporary = temporary_name(path);
  int code = 0;
  zip_t* archive = zip_open(temporary.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code);
  auto fail = [&](const std::string& why) {
    if (archive) zip_discard(archive);
    std::error_code ignored;
    fs::remove(temporary, ignored);
    user_error("'{}' cannot be written: {}", path, why);
  };
  if (!archive) fail("the file cannot be made");
  std::vector<std::vector<uint8_t>> contents;  // must live until the archive is closed
  contents.reserve(arrays.size());
  for (const auto& [array, t] : arrays) {
    std::string head = npy_header(t);
    std::vector<uint8_t>& bytes = contents.emplace_back(head.begin(), head.end());
    const auto* data = static_cast<const uint8_t*>(t.data);
    bytes.insert(bytes.end(), data, data + t.bytes());
    zip_source_t* source = zip_source_buffer(archive, bytes.data(), bytes.size(), 0);
    zip_int64_t index =
        source ? zip_file_add(archive, (array + ".npy").c_str(), source, ZIP_FL_OVERWRITE | ZIP_FL_ENC_UTF_8) : -1;
    if (index < 0 || zip_set_file_compression(archive, static_cast<zip_uint64_t>(index), ZIP_CM_STORE, 0) != 0)
      fail(zip_strerror(archive));
  }
  if (arrays.empty()) {  // libzip makes no file of an empty archive
    zip_discard(archive);
    static constexpr uint8_t kEmpty[22] = {'P', 'K', 5, 6};
    write_file_atomically(path, kEmpty);
    return;
  }
  if (zip_close(archive) != 0) fail(zip_strerror(archive));
  finish(temporary, path);
}

std::vector<uint8_t> read_file(const std::string& path) {
  std::error_code error;
  if (!fs::exists(path, error)) user_error("file '{}' does not exist", path);
  if (!fs::is_regular_file(path, error)) user_error("'{}' is no file", path);
  std::ifstream in(path, std::ios::binary);
  if (!in) user_error("file '{}' cannot be read: {}", path, std::strerror(errno));
  std::vector<uint8_t> bytes(static_cast<size_t>(fs::file_size(path, error)));
  in.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (static_cast<size_t>(in.gcount()) != bytes.size()) user_error("file '{}' cannot be read to its end", path);
  return bytes;
}

void write_file_atomically(const std::string& name, std::span<const uint8_t> bytes) {
  const std::string path = behind_links(name);
  const bool through = is_special(path);
  make_parent(path);
  const std::string temporary = through ? path : temporary_name(path);
  {
    std::ofstream out(temporary, std::ios::binary);
    out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    out.flush();
    if (!out) {
      const int why = errno;
      std::error_code ignored;
      if (!through) fs::remove(temporary, ignored);
      user_error("'{}' cannot be written: {}", path, std::strerror(why));
    }
  }
  if (!through) finish(temporary, path);
}

}  // namespace stax::session
