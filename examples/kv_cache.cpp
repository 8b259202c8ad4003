// SPDX-License-Identifier: Apache-2.0
// A decoder with a cache of keys and values: kv_cache MODEL.onnx
//
// The prompt goes in at once, then one token a call; the past grows with every call and nothing is compiled for it.
// Keys and values live in two pairs of buffers of this program's: a call reads the one and writes the other, without
// any copy.
#include <stax/stax.h>

#include <algorithm>
#include <cstdio>

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: kv_cache MODEL.onnx\n"), 2;
  try {
    const int64_t most = 64;
    stax::Model model = stax::Model::load(argv[1], {.dims = {{"new", {1, most}}, {"past", {0, most}}}});
    const stax::Port& keys = model.inputs()[model.input("keys")];
    const int64_t heads = keys.extents[0].hi, size = keys.extents[2].hi;
    const int64_t words = model.outputs()[model.output("scores")].extents[1].hi;

    struct Cache {
      std::vector<float> keys, values;
    };
    Cache caches[2];
    for (Cache& c : caches) c.keys.resize(static_cast<size_t>(heads * most * size)), c.values.resize(c.keys.size());
    std::vector<float> scores(static_cast<size_t>(most * words));

    std::vector<int64_t> tokens{7, 3, 21};  // the prompt
    int64_t past = 0;
    for (int step = 0; step < 12; ++step) {
      const int64_t fresh = static_cast<int64_t>(tokens.size()) - past, total = past + fresh;
      Cache &from = caches[step % 2], &to = caches[1 - step % 2];
      model.run({stax::view(tokens.data() + past, {1, fresh}), stax::view(from.keys.data(), {heads, past, size}),
                 stax::view(from.values.data(), {heads, past, size})},
                {stax::view(scores.data(), {fresh, words}), stax::view(to.keys.data(), {heads, total, size}),
                 stax::view(to.values.data(), {heads, total, size})});
      const float* last = scores.data() + (fresh - 1) * words;
      tokens.push_back(std::max_element(last, last + words) - last);
      past = total;
      if (step == 11) std::printf("score %.5f\n", *std::max_element(last, last + words));
    }
    std::printf("tokens");
    for (int64_t t : tokens) std::printf(" %d", static_cast<int>(t));
    stax::Statistics s = model.statistics();
    std::printf("\n%d calls, %d compiles after load, %d outputs copied\n", static_cast<int>(s.calls),
                static_cast<int>(s.compiles_after_load), static_cast<int>(s.copied_outputs));
  } catch (const stax::Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
