// SPDX-License-Identifier: Apache-2.0
// What the lanes of a warp do together: shuffles, votes, matrices.

#include "support/ptx_machine.h"

namespace stax::testing {

void PtxProgram::Impl::decode_warp(const Operation& o, Step& s) {
  s.meet = Meet::kWarp;
  if (o.parts[0] == "shfl") {
    const int to = reg(o.operands[0]);
    const Value from = value(o.operands[1]), lane = value(o.operands[2]), clamp = value(o.operands[3]),
                mask = value(o.operands[4]);
    const bool by_xor = o.has("bfly");
    s.run_warp = [=](std::vector<Thread*>& lanes) {
      std::vector<uint64_t> values(lanes.size());
      uint32_t present = 0;
      for (size_t k = 0; k < lanes.size(); ++k)
        if (lanes[k] != nullptr) values[k] = get(*lanes[k], from), present |= uint32_t{1} << k;
      for (size_t k = 0; k < lanes.size(); ++k) {
        if (lanes[k] == nullptr) continue;
        if (get(*lanes[k], clamp) != 31) fail("a shuffle within part of a warp");
        if (static_cast<uint32_t>(get(*lanes[k], mask)) != present) fail("a shuffle whose mask is not the warp");
        const uint64_t other = by_xor ? k ^ get(*lanes[k], lane) : get(*lanes[k], lane) & 31;
        if (other >= lanes.size() || lanes[other] == nullptr) fail("a shuffle from a lane that does not exist");
        set(*lanes[k], to, values[other], 32);
      }
    };
  } else if (o.parts[0] == "vote") {
    const int to = reg(o.operands[0]);
    const Value from = value(o.operands[1]), mask = value(o.operands[2]);
    const bool any = o.has("any");
    s.run_warp = [=](std::vector<Thread*>& lanes) {
      bool result = !any;
      uint32_t present = 0;
      for (size_t k = 0; k < lanes.size(); ++k)
        if (lanes[k] != nullptr) {
          present |= uint32_t{1} << k;
          const bool p = get(*lanes[k], from) != 0;
          result = any ? result || p : result && p;
        }
      for (Thread* t : lanes) {
        if (t == nullptr) continue;
        if (static_cast<uint32_t>(get(*t, mask)) != present) fail("a vote whose mask is not the warp");
        set(*t, to, result ? 1 : 0, 1);
      }
    };
  } else if (o.parts[0] == "ldmatrix") {
    decode_load_matrix(o, s);
  } else {
    decode_mma(o, s);
  }
}

void PtxProgram::Impl::decode_load_matrix(const Operation& o, Step& s) {
  std::vector<int> to;
  for (const std::string& r : group(o.operands[0])) to.push_back(reg(r));
  const Address at = address(o.operands[1]);
  const bool transposed = o.has("trans");
  if (!o.has("m8n8") || !o.has("shared") || !o.has("x" + std::to_string(to.size()))) fail("instruction " + s.text);
  s.run_warp = [=](std::vector<Thread*>& lanes) {
    uint32_t results[32][4];
    for (size_t q = 0; q < to.size(); ++q) {
      uint16_t matrix[8][8];
      for (size_t r = 0; r < 8; ++r) {
        Thread* t = lanes[8 * q + r];
        if (t == nullptr) fail("matrices are loaded in a warp that is not full");
        std::memcpy(matrix[r], memory_at(*t, "shared", at, 16, false), 16);
      }
      for (size_t lane = 0; lane < 32; ++lane) {
        if (lanes[lane] == nullptr) fail("matrices are loaded in a warp that is not full");
        const size_t line = lane / 4, first = lane % 4 * 2;
        const uint32_t low = transposed ? matrix[first][line] : matrix[line][first];
        const uint32_t high = transposed ? matrix[first + 1][line] : matrix[line][first + 1];
        results[lane][q] = low | high << 16;
      }
    }
    for (size_t lane = 0; lane < 32; ++lane)
      for (size_t q = 0; q < to.size(); ++q) set(*lanes[lane], to[q], results[lane][q], 32);
  };
}

PtxProgram::Impl::At PtxProgram::Impl::a_at(int m, int k, int size, int lane, int i) {
  const int group = lane / 4, within = lane % 4, per = 4 / size;
  const int word = i / per, part = i % per;
  if (m == 8) return {group, within * per + i};
  return {group + (word % 2 == 1 ? 8 : 0), within * per + part + (word / 2) * 4 * per + 0 * k};
}

PtxProgram::Impl::At PtxProgram::Impl::b_at(int size, int lane, int i) {
  const int per = 4 / size;
  return {(lane % 4) * per + i % per + (i / per) * 4 * per, lane / 4};
}

void PtxProgram::Impl::decode_mma(const Operation& o, Step& s) {
  std::smatch shape;
  int m = 0, n = 0, k = 0;
  for (const std::string& p : o.parts)
    if (std::regex_match(p, shape, std::regex(R"(m(\d+)n(\d+)k(\d+))")))
      m = std::stoi(shape[1]), n = std::stoi(shape[2]), k = std::stoi(shape[3]);
  const bool tf32 = o.has("tf32");
  if (!o.has("row") || !o.has("col") || n != 8 || !(tf32 || o.types.size() == 4)) fail("instruction " + s.text);
  const Type sum = o.types.front(), factor = tf32 ? Type{'f', 32} : o.types[1];
  const auto list = [&](const std::string& text) {
    std::vector<int> result;
    for (const std::string& r : group(text)) result.push_back(reg(r));
    return result;
  };
  const std::vector<int> d = list(o.operands[0]), a = list(o.operands[1]), b = list(o.operands[2]),
                         c = list(o.operands[3]);
  const int size = factor.bits / 8, sum_size = sum.bits / 8;
  const int a_items = m * k / 32, b_items = k * 8 / 32, c_items = m * 8 / 32;
  if (static_cast<int>(a.size()) != a_items * size / 4 || static_cast<int>(b.size()) != b_items * size / 4 ||
      static_cast<int>(c.size()) != c_items * sum_size / 4 || d.size() != c.size())
    fail("operands of " + s.text);
  s.run_warp = [=](std::vector<Thread*>& lanes) {
    const auto item = [&](Thread* t, const std::vector<int>& registers, Type type, int i) -> double {
      const int bytes = type.bits / 8, per = 4 / bytes;
      const uint64_t raw =
          t->registers[static_cast<size_t>(registers[static_cast<size_t>(i / per)])] >> (i % per * type.bits);
      if (type.kind == 's') return static_cast<double>(extend(raw, type.bits));
      if (type.kind == 'u') return static_cast<double>(raw & mask_of(type.bits));
      if (tf32 && type.bits == 32 && &registers != &c) return f32_of(raw & ~uint64_t{0x1FFF});
      return number_of(type, raw & mask_of(type.bits));
    };
    std::vector<double> left(static_cast<size_t>(m * k)), right(static_cast<size_t>(k * 8)),
        out(static_cast<size_t>(m * 8));
    for (int lane = 0; lane < 32; ++lane) {
      Thread* t = lanes[static_cast<size_t>(lane)];
      if (t == nullptr) fail("a matrix instruction in a warp that is not full");
      for (int i = 0; i < a_items; ++i)
        left[static_cast<size_t>(a_at(m, k, size, lane, i).row * k + a_at(m, k, size, lane, i).column)] =
            item(t, a, factor, i);
      for (int i = 0; i < b_items; ++i)
        right[static_cast<size_t>(b_at(size, lane, i).row * 8 + b_at(size, lane, i).column)] = item(t, b, factor, i);
      for (int i = 0; i < c_items; ++i)
        out[static_cast<size_t>(c_at(m, lane, i).row * 8 + c_at(m, lane, i).column)] = item(t, c, sum, i);
    }
    for (int row = 0; row < m; ++row)
      for (int column = 0; column < 8; ++column)
        for (int r = 0; r < k; ++r)
          out[static_cast<size_t>(row * 8 + column)] +=
              left[static_cast<size_t>(row * k + r)] * right[static_cast<size_t>(r * 8 + column)];
    for (int lane = 0; lane < 32; ++lane)
      for (int i = 0; i < c_items; ++i) {
        const double x = out[static_cast<size_t>(c_at(m, lane, i).row * 8 + c_at(m, lane, i).column)];
        const uint64_t raw =
            sum.kind == 's' ? static_cast<uint64_t>(static_cast<int64_t>(x)) & mask_of(32) : to_raw(sum, x);
        uint64_t& to =
            lanes[static_cast<size_t>(lane)]->registers[static_cast<size_t>(d[static_cast<size_t>(i * sum_size / 4)])];
        if (sum_size == 4)
          to = raw;
        else
          to = i % 2 == 0 ? (to & ~mask_of(16)) | raw : (to & mask_of(16)) | raw << 16;
      }
  };
}

}  // namespace stax::testing
