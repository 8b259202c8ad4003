// SPDX-License-Identifier: Apache-2.0
// Compiled .stax files. What stands in front of the description (magic, version, checksum, length) refuses nearly everything, so it is made right
// first; and the description is numbers of 64 bits, so it is changed by numbers, too.
#include "program/program.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "fuzz.h"
#include "support/error.h"
#include "support/hash.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

using Bytes = std::vector<uint8_t>;

// Of program/serialize.cpp.
constexpr size_t kChecksum = 16, kLength = 24, kHeader = 32, kWord = 8, kAlign = 64;

void put(Bytes& bytes, size_t at, uint64_t number) {
  for (size_t k = 0; k < kWord; ++k) bytes[at + k] = static_cast<uint8_t>(number >> (8 * k));
}
uint64_t get(const Bytes& bytes, size_t at) {
  uint64_t number = 0;
  for (size_t k = 0; k < kWord; ++k) number |= static_cast<uint64_t>(bytes[at + k]) << (8 * k);
  return number;
}

/// Magic and version of this build's files.
const Bytes& head() {
  static const Bytes bytes = [] {
    Bytes file = stax::program::serialize({});
    file.resize(kChecksum);
    return file;
  }();
  return bytes;
}

void make_checksum_right(Bytes& file) {
  if (file.size() < kHeader) return;
  put(file, kChecksum, stax::hash_bytes(std::as_bytes(std::span(file).subspan(kLength))));
}

/// A file as its description and what follows.
struct Parts {
  Bytes description, data;

  explicit Parts(const Bytes& file) {
    if (file.size() < kHeader) {
      description = file;
      return;
    }
    const auto begin = file.begin() + kHeader;
    const size_t length = std::min<uint64_t>(get(file, kLength), file.size() - kHeader);
    description.assign(begin, begin + static_cast<ptrdiff_t>(length));
    const size_t rest = std::min(file.size(), (kHeader + length + kAlign - 1) / kAlign * kAlign);
    data.assign(file.begin() + static_cast<ptrdiff_t>(rest), file.end());
  }
  Bytes file() const {
    Bytes all = head();
    all.resize(kHeader);
    put(all, kLength, description.size());
    all.insert(all.end(), description.begin(), description.end());
    if (!data.empty()) all.resize((all.size() + kAlign - 1) / kAlign * kAlign);
    all.insert(all.end(), data.begin(), data.end());
    make_checksum_right(all);
    return all;
  }
};

class Mutator {
 public:
  Mutator(Bytes& description, size_t most, unsigned seed) : d_(description), most_(most), random_(seed) {}

  void run() {
    // Several changes at once seldom pass the verifier.
    for (size_t changes = 1 + (number(4) == 0 ? number(3) : 0); changes > 0; --changes) change();
  }

 private:
  size_t number(size_t below) { return std::uniform_int_distribution<size_t>(0, below - 1)(random_); }

  void change() {
    numbers_.clear();
    for (size_t at = 0; at + kWord <= d_.size(); ++at)
      if (is_number(at)) numbers_.push_back(at);
    switch (numbers_.empty() ? 9 : number(10)) {
      case 0:
      case 1:
      case 2:
      case 3:
      case 4: put(d_, any_number(), fresh()); break;
      case 5: {  // two change places
        const size_t a = any_number(), b = any_number();
        const uint64_t was = get(d_, a);
        put(d_, a, get(d_, b)), put(d_, b, was);
        break;
      }
      case 6: {  // a run of words once more, as an element that is added; in front of it may be their count
        const size_t at = any_number(), bytes = std::min(kWord * (1 + number(12)), d_.size() - at);
        if (d_.size() + bytes > most_) break;
        const Bytes run(d_.begin() + static_cast<ptrdiff_t>(at), d_.begin() + static_cast<ptrdiff_t>(at + bytes));
        d_.insert(d_.begin() + static_cast<ptrdiff_t>(at + bytes), run.begin(), run.end());
        count_before(at, 1);
        break;
      }
      case 7: {  // .. or taken away
        const size_t at = any_number(), bytes = std::min(kWord * (1 + number(12)), d_.size() - at);
        d_.erase(d_.begin() + static_cast<ptrdiff_t>(at), d_.begin() + static_cast<ptrdiff_t>(at + bytes));
        count_before(at, ~uint64_t{0});
        break;
      }
      default: {
        Bytes grown = d_;
        grown.resize(std::max(most_, d_.size()));
        grown.resize(LLVMFuzzerMutate(grown.data(), d_.size(), grown.size()));
        d_ = std::move(grown);
      }
    }
  }

  /// What looks like one: small, or small and negative, or no reference.
  bool is_number(size_t at) const {
    const uint64_t v = get(d_, at);
    return v < (1 << 16) || v == 0xffffffff || v > ~uint64_t{0} - (1 << 16);
  }
  size_t any_number() { return numbers_[number(numbers_.size())]; }
  uint64_t fresh() {
    const uint64_t was = get(d_, any_number());
    switch (number(6)) {
      case 0: return was;  // another one of the file
      case 1: return was + 1;
      case 2: return was - 1;
      case 3: return number(16);
      case 4: return 0xffffffff;
      default: return ~uint64_t{0} >> number(64);
    }
  }
  void count_before(size_t at, uint64_t change) {
    if (at >= kWord && is_number(at - kWord) && number(4) != 0) put(d_, at - kWord, get(d_, at - kWord) + change);
  }

  Bytes& d_;
  const size_t most_;
  std::minstd_rand random_;
  std::vector<size_t> numbers_;
};

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  Parts parts(Bytes(data, data + size));
  const size_t others = kHeader + kAlign + parts.data.size();
  Mutator(parts.description, max_size > others ? max_size - others : 0, seed).run();
  const Bytes file = parts.file();
  if (file.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::copy(file.begin(), file.end(), data);
  return file.size();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stax;
  return fuzz_text(data, size, [](const std::string& text) {
    Bytes bytes(text.begin(), text.end());
    make_checksum_right(bytes);
    const program::Program p = program::deserialize(bytes, "the file");
    program::print(p);
    // What was read is written as it is.
    if (program::serialize(program::deserialize(program::serialize(p), "the same")) != program::serialize(p))
      internal_error("a file is not what was written");
  });
}
