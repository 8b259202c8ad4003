// SPDX-License-Identifier: Apache-2.0
// Reads lines of text of any width: read_text MODEL.onnx
//
// The callback gives the memory for results when their shape is known, here from a buffer that grows to what the widest
// line needs. The picture is read where it lies, as a part of a larger page: its rows have a stride, and Stax packs it
// once.
#include <stax/stax.h>

#include <cstdio>
#include <string>

namespace {

/// The best letter of each column; runs of one letter count once, letter 0 is a gap.
std::string decode(const float* scores, int64_t columns, int64_t letters) {
  std::string text;
  int64_t before = 0;
  for (int64_t c = 0; c < columns; ++c) {
    int64_t best = 0;
    for (int64_t l = 1; l < letters; ++l)
      if (scores[c * letters + l] > scores[c * letters + best]) best = l;
    if (best != 0 && best != before) text += best == 27 ? '_' : static_cast<char>('a' + best - 1);
    before = best;
  }
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: read_text MODEL.onnx\n"), 2;
  try {
    stax::Model model = stax::Model::load(argv[1], {.dims = {{"width", {4, 4096}}}});

    // A page of 64 x 512 pixels; lines are boxes in it.
    const int64_t page_width = 512;
    std::vector<float> page(static_cast<size_t>(64 * page_width));
    for (size_t k = 0; k < page.size(); ++k) page[k] = static_cast<float>((k * k / 7 + k * 13) % 97) / 48.0f - 1.0f;

    struct Box {
      int64_t top, left, width;
    };
    std::vector<float> buffer;
    for (Box box : {Box{0, 0, 512}, Box{16, 10, 100}, Box{40, 200, 37}, Box{48, 0, 4}}) {
      const float* first = page.data() + box.top * page_width + box.left;
      std::vector<stax::Shape> shapes = model.run({stax::view(first, {1, 1, 16, box.width}, {0, 0, page_width, 1})},
                                                  [&](size_t, stax::DType, std::span<const int64_t> shape) -> void* {
                                                    size_t count = static_cast<size_t>(shape[0] * shape[1] * shape[2]);
                                                    if (buffer.size() < count) buffer.resize(count);
                                                    return buffer.data();
                                                  });
      std::printf("line of %d: '%s'\n", static_cast<int>(box.width),
                  decode(buffer.data(), shapes[0][1], shapes[0][2]).c_str());
    }
    std::printf("packed %d inputs\n", static_cast<int>(model.statistics().packed_inputs));
  } catch (const stax::Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
