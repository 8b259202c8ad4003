// SPDX-License-Identifier: Apache-2.0
// Classifies pictures of several sizes with one model: classify MODEL.onnx
//
// One compile serves every batch and every picture size. Results go into memory of the program's own; nothing is
// copied.
#include <stax/stax.h>

#include <algorithm>
#include <cstdio>

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: classify MODEL.onnx\n"), 2;
  try {
    stax::Model model =
        stax::Model::load(argv[1], {.dims = {{"batch", {0, 32}}, {"height", {8, 1024}}, {"width", {8, 1024}}}});
    const int64_t classes = model.outputs()[0].extents[1].hi;

    struct Size {
      int64_t batch, height, width;
    };
    for (Size size : {Size{1, 32, 32}, Size{3, 48, 40}, Size{2, 17, 33}}) {
      std::vector<float> pixels(static_cast<size_t>(size.batch * 3 * size.height * size.width));
      for (size_t k = 0; k < pixels.size(); ++k)
        pixels[k] = static_cast<float>(k * 7 % 255) / 255.0f;  // where a picture would be decoded to
      std::vector<float> probabilities(static_cast<size_t>(size.batch * classes));

      model.run({stax::view(pixels.data(), {size.batch, 3, size.height, size.width})},
                {stax::view(probabilities.data(), {size.batch, classes})});

      for (int64_t b = 0; b < size.batch; ++b) {
        const float* row = probabilities.data() + b * classes;
        const float* best = std::max_element(row, row + classes);
        std::printf("%d x %d picture: class %d, probability %.5f\n", static_cast<int>(size.height),
                    static_cast<int>(size.width), static_cast<int>(best - row), *best);
      }
    }
    stax::Statistics s = model.statistics();
    std::printf("compiled once in %.0f ms; %d calls, %d compiles after that, %d inputs packed, %d outputs copied\n",
                s.compile_ms, static_cast<int>(s.calls), static_cast<int>(s.compiles_after_load),
                static_cast<int>(s.packed_inputs), static_cast<int>(s.copied_outputs));
  } catch (const stax::Error& e) {
    std::fprintf(stderr, "%s\n  where: %s\n  how to fix it: %s\n", e.problem().c_str(), e.where().c_str(),
                 e.how().c_str());
    return 1;
  }
}
