// SPDX-License-Identifier: Apache-2.0
// The C++ API on models from files. Links with libstax and sees its public headers only.
#include <gtest/gtest.h>
#include <stax/stax.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <thread>

namespace {

using stax::DType;
using stax::Error;
using stax::ErrorKind;
using stax::Model;
using stax::Shape;
using stax::Tensor;
using stax::TensorView;
using stax::view;

std::string file(const std::string& name) { return std::string(STAX_TEST_MODELS) + "/" + name; }

Model load(const std::string& name, const stax::Options& options = {}) { return Model::load(file(name), options); }

std::vector<float> counting(int64_t count, float from = -3) {
  std::vector<float> v(static_cast<size_t>(count));
  std::iota(v.begin(), v.end(), from);
  return v;
}

/// What dense.onnx computes.
std::vector<float> dense(const std::vector<float>& x) {
  const float bias[] = {0.5f, -1.0f, 0.25f};
  std::vector<float> y;
  for (size_t row = 0; row < x.size() / 4; ++row)
    for (size_t c = 0; c < 3; ++c) {
      float sum = bias[c];
      for (size_t k = 0; k < 4; ++k) sum += x[row * 4 + k] * (static_cast<float>(k * 3 + c) - 5) / 8;
      y.push_back(std::max(0.0f, sum));
    }
  return y;
}

void expect_near(const std::vector<float>& got, const std::vector<float>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t k = 0; k < got.size(); ++k) EXPECT_NEAR(got[k], want[k], 1e-5) << "element " << k;
}

std::vector<float> floats(const Tensor& t) { return {t.elements<float>().begin(), t.elements<float>().end()}; }

/// The error that f throws; every error has its three parts.
template <class F>
Error error_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    EXPECT_FALSE(e.problem().empty()) << e.what();
    EXPECT_FALSE(e.where().empty()) << e.what();
    EXPECT_FALSE(e.how().empty()) << e.what();
    std::string all = e.what();
    EXPECT_NE(all.find(e.problem()), std::string::npos);
    EXPECT_NE(all.find(e.where()), std::string::npos);
    EXPECT_NE(all.find(e.how()), std::string::npos);
    return e;
  }
  ADD_FAILURE() << "nothing was thrown";
  return Error(ErrorKind::kInternal, "nothing", "nowhere", "nohow");
}

bool has(const std::string& text, const std::string& word) { return text.find(word) != std::string::npos; }

TEST(Model, describes_inputs_and_outputs) {
  Model m = load("dense.onnx", {.dims = {{"batch", {1, 64}}}});
  ASSERT_EQ(m.inputs().size(), 1u);
  EXPECT_EQ(m.inputs()[0].name, "x");
  EXPECT_EQ(m.inputs()[0].dtype, DType::kF32);
  ASSERT_EQ(m.inputs()[0].extents.size(), 2u);
  const stax::Extent& batch = m.inputs()[0].extents[0];
  EXPECT_EQ(batch.name, "batch");
  EXPECT_FALSE(batch.is_constant);
  EXPECT_EQ(batch.lo, 1);
  EXPECT_EQ(batch.hi, 64);
  EXPECT_TRUE(m.inputs()[0].extents[1].is_constant);
  EXPECT_EQ(m.inputs()[0].extents[1].lo, 4);
  EXPECT_EQ(m.outputs()[0].extents[0].name, "batch");
  EXPECT_EQ(m.outputs()[0].extents[1].hi, 3);
  EXPECT_EQ(m.output("y"), 0u);
  EXPECT_TRUE(has(error_of([&] { m.input("z"); }).how(), "'x'"));
  Model views = load("views.onnx");
  EXPECT_EQ(views.outputs()[views.output("flat")].extents[0].name, "n*2");
}

TEST(Model, runs_at_any_extent) {
  Model m = load("dense.onnx");
  for (int64_t n : {3, 0, 1, 257, 64}) {
    std::vector<float> x = counting(4 * n);
    std::vector<Tensor> y = m.run({view(x.data(), {n, 4})});
    EXPECT_EQ(y.at(0).shape(), (Shape{n, 3}));
    expect_near(floats(y[0]), dense(x));
  }
  EXPECT_EQ(m.statistics().calls, 5);
  EXPECT_EQ(m.statistics().compiles_after_load, 0);
}

TEST(Model, writes_into_the_callers_memory) {
  Model m = load("dense.onnx");
  std::vector<float> x = counting(20), y(15);
  m.run({view(x.data(), {5, 4})}, {view(y.data(), {5, 3})});
  expect_near(y, dense(x));
  // In place: nothing was packed or copied.
  EXPECT_EQ(m.statistics().packed_inputs, 0);
  EXPECT_EQ(m.statistics().copied_outputs, 0);
  Error e = error_of([&] { m.run({view(x.data(), {5, 4})}, {view(y.data(), {3, 5})}); });
  EXPECT_EQ(e.where(), "output 'y'");
  EXPECT_TRUE(has(e.what(), "[5, 3]") && has(e.what(), "[3, 5]")) << e.what();
  EXPECT_TRUE(has(error_of([&] { m.run({view(x.data(), {5, 4})}, {}); }).what(), "1"));
  std::vector<double> wide(15);
  EXPECT_TRUE(has(error_of([&] { m.run({view(x.data(), {5, 4})}, {view(wide.data(), {5, 3})}); }).what(), "float64"));
}

TEST(Model, output_may_share_memory_with_an_input) {
  Model m = load("views.onnx");
  std::vector<float> x = counting(8), want_line(8), flat(8), same(8), again(8), line(8);
  std::vector<float> positive = x;  // input and output
  for (size_t k = 0; k < 8; ++k) want_line[k] = -x[k];
  m.run({view(positive.data(), {4, 2})},
        {view(flat.data(), {8}), view(same.data(), {4, 2}), view(positive.data(), {4, 2}), view(again.data(), {4, 2}),
         view(line.data(), {8})});
  std::vector<float> want = x;
  for (float& v : want) v = std::max(0.0f, v);
  EXPECT_EQ(positive, want);
  EXPECT_EQ(flat, want);
  EXPECT_EQ(again, want);
  EXPECT_EQ(same, x);
  EXPECT_EQ(line, want_line);
  Error e = error_of([&] {
    m.run({view(x.data(), {4, 2})}, {view(flat.data(), {8}), view(same.data(), {4, 2}), view(flat.data(), {4, 2}),
                                     view(again.data(), {4, 2}), view(line.data(), {8})});
  });
  EXPECT_TRUE(has(e.what(), "'positive'") && has(e.what(), "'flat'")) << e.what();
}

TEST(Model, reshaped_outputs_are_written_in_place) {
  Model m = load("views.onnx");
  std::vector<float> x = counting(6), flat(6), same(6), positive(6), again(6), line(6);
  m.run({view(x.data(), {3, 2})}, {view(flat.data(), {6}), view(same.data(), {3, 2}), view(positive.data(), {3, 2}),
                                   view(again.data(), {3, 2}), view(line.data(), {6})});
  // The input as an output, and the second and third name of one value, have to be copied; the reshaped ones not.
  EXPECT_EQ(m.statistics().copied_outputs, 3);
}

TEST(Model, outputs_that_share_memory_inside_are_apart_when_written_to) {
  Model m = load("views.onnx");
  std::vector<float> x = counting(4);
  std::vector<Tensor> y = m.run({view(x.data(), {2, 2})});
  size_t a = m.output("positive"), b = m.output("again");
  y[a].mutable_data<float>()[0] = 99;
  EXPECT_EQ(y[b].data<float>()[0], 0);
  EXPECT_EQ(y[a].data<float>()[0], 99);
}

TEST(Model, packs_strided_inputs_once) {
  Model m = load("dense.onnx");
  std::vector<float> x = counting(24);  // [4, 6], read as its transpose [6, 4]
  std::vector<float> packed;
  for (size_t i = 0; i < 6; ++i)
    for (size_t j = 0; j < 4; ++j) packed.push_back(x[j * 6 + i]);
  expect_near(floats(m.run({view(x.data(), {6, 4}, {1, 6})})[0]), dense(packed));
  EXPECT_EQ(m.statistics().packed_inputs, 1);
  // Row-major strides need no packing, whatever they are on axes of extent 1.
  expect_near(floats(m.run({view(x.data(), {6, 4}, {4, 1})})[0]), dense(x));
  expect_near(floats(m.run({view(x.data(), {1, 4}, {77, 1})})[0]), dense({x.begin(), x.begin() + 4}));
  EXPECT_EQ(m.statistics().packed_inputs, 1);
  // Backwards, and one row repeated.
  std::vector<float> reversed(x.rbegin(), x.rend()), repeated;
  expect_near(floats(m.run({view(x.data() + 23, {6, 4}, {-4, -1})})[0]), dense(reversed));
  for (int k = 0; k < 3; ++k) repeated.insert(repeated.end(), x.begin(), x.begin() + 4);
  expect_near(floats(m.run({view(x.data(), {3, 4}, {0, 1})})[0]), dense(repeated));
  // At an odd address.
  std::vector<char> bytes(24 * 4 + 1);
  std::memcpy(bytes.data() + 1, x.data(), 24 * 4);
  expect_near(floats(m.run({TensorView{DType::kF32, {6, 4}, bytes.data() + 1, {}}})[0]), dense(x));
  EXPECT_EQ(m.statistics().packed_inputs, 4);
}

TEST(Model, writes_strided_outputs) {
  Model m = load("dense.onnx");
  std::vector<float> x = counting(8), both(2 * 8, -7);
  m.run({view(x.data(), {2, 4})}, {view(both.data() + 4, {2, 3}, {8, 1})});
  std::vector<float> want = dense(x);
  for (size_t row = 0; row < 2; ++row)
    for (size_t c = 0; c < 8; ++c)
      EXPECT_FLOAT_EQ(both[row * 8 + c], c >= 4 && c < 7 ? want[row * 3 + c - 4] : -7) << row << " " << c;
  EXPECT_EQ(m.statistics().copied_outputs, 1);
}

TEST(Model, outputs_may_lie_between_each_other_and_not_meet) {
  Model m = load("nonzero.onnx");
  const std::vector<float> x{0, 2, 0, 3, 4, 0};
  std::vector<int64_t> memory(12, -1);
  auto* floats = reinterpret_cast<float*>(memory.data());
  // Six floats 16 bytes apart, three numbers of 8 bytes 32 bytes apart.
  const auto run = [&](int64_t* where, Shape apart, Shape floats_apart) {
    m.run({view(x.data(), {6})}, {view(where, {1, 3}, std::move(apart)), view(floats, {6}, std::move(floats_apart))});
  };
  run(memory.data() + 1, {12, 4}, {4});
  for (size_t k = 0; k < 6; ++k) EXPECT_EQ(floats[4 * k], x[k] + 1) << k;
  EXPECT_EQ((std::vector<int64_t>{memory[1], memory[5], memory[9]}), (std::vector<int64_t>{1, 3, 4}));
  EXPECT_EQ((std::vector<int64_t>{memory[3], memory[7], memory[11]}), (std::vector<int64_t>{-1, -1, -1}));
  const auto refused = [&](int64_t* where, Shape apart, Shape floats_apart, const char* problem) {
    const Error e = error_of([&] { run(where, apart, floats_apart); });
    EXPECT_TRUE(e.kind() == ErrorKind::kUser && has(e.problem(), problem) && has(e.how(), "memory of its own"))
        << e.what();
  };
  refused(memory.data() + 2, {12, 4}, {4}, "is given memory that output 'where' has too");
  refused(memory.data() + 1, {12, 3}, {4}, "is given memory that output 'where' has too");
  refused(memory.data() + 1, {12, 4}, {0}, "two of its elements meet");
  refused(memory.data() + 1, {12, 0}, {4}, "two of its elements meet");
}

TEST(Model, allocation_callback_gets_shapes_that_data_decides) {
  Model m = load("nonzero.onnx");
  std::vector<float> x{0, 2, 0, 3, 4, 0};
  std::vector<std::vector<char>> memory(2);
  std::vector<Shape> shapes =
      m.run({view(x.data(), {6})}, [&](size_t output, DType t, std::span<const int64_t> shape) -> void* {
        size_t n = stax::byte_size(t);
        for (int64_t e : shape) n *= static_cast<size_t>(e);
        memory[output].resize(n);
        return memory[output].data();
      });
  EXPECT_EQ(shapes[0], (Shape{1, 3}));
  EXPECT_EQ(shapes[1], (Shape{6}));
  const auto* where = reinterpret_cast<const int64_t*>(memory[0].data());
  EXPECT_EQ(std::vector<int64_t>(where, where + 3), (std::vector<int64_t>{1, 3, 4}));
  EXPECT_EQ(reinterpret_cast<const float*>(memory[1].data())[1], 3);
  // The output of known shape was written in place, the other copied.
  EXPECT_EQ(m.statistics().copied_outputs, 1);

  std::vector<float> none(4);
  shapes = m.run({view(none.data(), {4})}, [&](size_t output, DType, std::span<const int64_t> shape) -> void* {
    if (output == 0) return nullptr;  // nothing is needed
    memory[1].resize(static_cast<size_t>(shape[0]) * 4);
    return memory[1].data();
  });
  EXPECT_EQ(shapes[0], (Shape{1, 0}));
}

TEST(Model, allocation_callback_may_not_give_memory_twice) {
  Model m = load("nonzero.onnx");
  std::vector<float> x{0, 2, 0, 3, 4, 0};
  std::vector<char> memory(1000);
  const Error e = error_of([&] {
    m.run({view(x.data(), {6})}, [&](size_t, DType, std::span<const int64_t>) -> void* { return memory.data(); });
  });
  EXPECT_TRUE(has(e.problem(), "is given memory that output") && has(e.how(), "callback")) << e.what();
}

TEST(Model, of_which_nothing_is_left_says_so) {
  Model m = load("dense.onnx");
  const Model other = std::move(m);
  std::vector<float> x(4);
  const std::vector<std::function<void()>> uses = {
      [&] { m.run({view(x.data(), {1, 4})}); },
      [&] { (void)m.inputs(); },
      [&] { (void)m.outputs(); },
      [&] { (void)m.input("x"); },
      [&] { (void)m.warnings(); },
      [&] { (void)m.statistics(); },
      [&] { m.compile_to("nowhere.stax"); },
      [&] { m.output_shapes({view(x.data(), {1, 4})}); },
      [&] { m.run_values(std::vector<stax::Input>{view(x.data(), {1, 4})}); }};
  for (const auto& use : uses) {
    const Error e = error_of(use);
    EXPECT_EQ(e.kind(), ErrorKind::kUser);
    EXPECT_TRUE(has(e.problem(), "moved from")) << e.what();
  }
  EXPECT_EQ(other.inputs().size(), 1u);
}

TEST(Model, what_the_callback_throws_passes_through) {
  Model m = load("nonzero.onnx");
  std::vector<float> x{1, 0, 1};
  struct Mine {
    int number;
  };
  try {
    m.run({view(x.data(), {3})}, [](size_t, DType, std::span<const int64_t>) -> void* { throw Mine{42}; });
    ADD_FAILURE();
  } catch (const Mine& mine) {
    EXPECT_EQ(mine.number, 42);
  }
  Error e = error_of(
      [&] { m.run({view(x.data(), {3})}, [](size_t, DType, std::span<const int64_t>) -> void* { return nullptr; }); });
  EXPECT_EQ(e.kind(), ErrorKind::kOutOfMemory);
  // And the model is as usable as before.
  EXPECT_EQ(m.run({view(x.data(), {3})})[0].shape(), (Shape{1, 2}));
  EXPECT_EQ(m.statistics().failed_calls, 2);
}

TEST(Model, tells_output_shapes_without_running) {
  Model m = load("nonzero.onnx");
  auto shapes = m.output_shapes({TensorView{DType::kF32, {7}}});
  EXPECT_FALSE(shapes[0].has_value());
  EXPECT_EQ(shapes[1], (Shape{7}));
  EXPECT_TRUE(has(error_of([&] { m.output_shapes({TensorView{DType::kF32, {7, 1}}}); }).what(), "rank"));
}

TEST(Model, sequences) {
  Model m = load("sequence.onnx");
  size_t s = m.input("s"), x = m.input("x");
  EXPECT_TRUE(m.inputs()[s].is_sequence);
  EXPECT_TRUE(m.outputs()[m.output("more")].is_sequence);
  std::vector<Tensor> elements{Tensor::of<float>({1, 2}, {1, 2}), Tensor::of<float>({2, 2}, {3, 4, 5, 6})};
  Tensor last = Tensor::of<float>({1, 2}, {7, 8});
  std::vector<stax::Input> inputs(2, stax::Input(last));
  inputs[s] = stax::Input(elements);
  inputs[x] = stax::Input(last);
  std::vector<stax::Value> y = m.run_values(inputs);
  const std::vector<Tensor>& more = y[m.output("more")].sequence;
  ASSERT_EQ(more.size(), 3u);
  EXPECT_EQ(more[1].shape(), (Shape{2, 2}));
  EXPECT_EQ(more[1].data<float>()[3], 6);
  EXPECT_EQ(more[2].data<float>()[0], 7);
  // Results do not live in the caller's memory.
  EXPECT_NE(more[0].data(), elements[0].data());
  EXPECT_EQ(y[m.output("length")].tensor.data<int64_t>()[0], 3);
  EXPECT_TRUE(has(error_of([&] { m.run(inputs); }).how(), "run_values"));
  inputs[s] = stax::Input(last);
  EXPECT_TRUE(has(error_of([&] { m.run_values(inputs); }).what(), "sequence"));
}

TEST(Model, compiled_file_gives_the_same) {
  Model m = load("dense.onnx", {.dims = {{"batch", {0, 100}}}});
  std::string path = testing::TempDir() + "stax_api_dense_" + std::to_string(getpid()) + ".stax";
  m.compile_to(path);
  std::vector<float> x = counting(28), y(21);
  for (int way = 0; way < 2; ++way) {
    std::ifstream in(path, std::ios::binary);
    std::string bytes((std::istreambuf_iterator<char>(in)), {});
    Model again = way == 0 ? Model::load(path) : Model::load_bytes(std::as_bytes(std::span(bytes)), "bytes");
    EXPECT_EQ(again.inputs()[0].extents[0].hi, 100);
    again.run({view(x.data(), {7, 4})}, {view(y.data(), {7, 3})});
    expect_near(y, dense(x));
    again.compile_to(path + ".again");
    EXPECT_EQ(std::filesystem::file_size(path + ".again"), bytes.size());
  }
  EXPECT_TRUE(has(error_of([&] { Model::load(path, {.dims = {{"batch", {1, 2}}}}); }).what(), "compiled"));
  // Folders that are missing are made; a file is none.
  m.compile_to(path + ".folders/of/two.stax");
  EXPECT_EQ(Model::load(path + ".folders/of/two.stax").inputs().size(), m.inputs().size());
  const Error below = error_of([&] { m.compile_to(path + "/below.stax"); });
  EXPECT_TRUE(has(below.what(), path) && has(below.how(), "folders")) << below.what() << ": " << below.how();
  std::filesystem::remove(path);
  std::filesystem::remove(path + ".again");
  std::filesystem::remove_all(path + ".folders");
}

TEST(Model, loads_from_memory_and_on_the_loop_device) {
  std::ifstream in(file("dense.onnx"), std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), {});
  Model m = Model::load_bytes(std::as_bytes(std::span(bytes)), "memory", {.device = "loop"});
  std::vector<float> x = counting(8);
  expect_near(floats(m.run({view(x.data(), {2, 4})})[0]), dense(x));
}

TEST(Errors, of_files) {
  EXPECT_EQ(error_of([] { load("nowhere.onnx"); }).where(), file("nowhere.onnx"));
  EXPECT_TRUE(has(error_of([] { load("damaged.onnx"); }).where(), "damaged.onnx"));
  Error e = error_of([] { load("unsupported.onnx"); });
  EXPECT_EQ(e.kind(), ErrorKind::kUnsupported);
  EXPECT_TRUE(has(e.what(), "Frobnicate") && has(e.what(), "Twiddle")) << e.what();
  e = error_of([] { load("dense.onnx", {.dims = {{"length", {1, 2}}}}); });
  EXPECT_TRUE(has(e.what(), "length") && has(e.what(), "batch")) << e.what();
  error_of([] { load("dense.onnx", {.dims = {{"batch", {5, 2}}}}); });
  EXPECT_TRUE(has(error_of([] { load("dense.onnx", {.device = "gpu"}); }).what(), "cpu"));
  error_of([] { load("dense.onnx", {.device = "cuda"}); });
  error_of([] { load("dense.onnx", {.device = "reference"}); });
  error_of([] { Model::load_bytes({}, "nothing"); });
}

TEST(Errors, of_inputs) {
  Model m = load("dense.onnx", {.dims = {{"batch", {1, 8}}}});
  std::vector<float> x(4 * 9);
  std::vector<double> wide(4);
  auto run = [&](TensorView v) { return error_of([&] { m.run({v}); }); };
  Error e = run(view(wide.data(), {1, 4}));
  EXPECT_EQ(e.where(), "input 'x'");
  EXPECT_TRUE(has(e.problem(), "float64") && has(e.problem(), "float32") && has(e.how(), "convert")) << e.what();
  e = run(view(x.data(), {4}));
  EXPECT_TRUE(e.where() == "input 'x'" && has(e.problem(), "rank 1")) << e.what();
  e = run(view(x.data(), {1, 5}));
  EXPECT_TRUE(e.where() == "input 'x'" && has(e.problem(), "axis 1") && has(e.problem(), "expected 4")) << e.what();
  e = run(view(x.data(), {9, 4}));
  EXPECT_TRUE(e.where() == "dim 'batch'" && has(e.problem(), "1..8") && has(e.how(), "--dim")) << e.what();
  e = run(TensorView{DType::kF32, {2, 4}, nullptr, {}});
  EXPECT_TRUE(e.where() == "input 'x'" && has(e.problem(), "null")) << e.what();
  e = run(view(x.data(), {-1, 4}));
  EXPECT_TRUE(e.where() == "input 'x'" && has(e.problem(), "negative")) << e.what();
  e = run(view(x.data(), {1, 4}, {1}));
  EXPECT_TRUE(e.where() == "input 'x'" && has(e.problem(), "1 strides")) << e.what();
  e = error_of([&] { m.run({}); });
  EXPECT_TRUE(has(e.what(), "0 inputs") && has(e.what(), "1")) << e.what();
  e = error_of([&] { m.run({std::vector<TensorView>{view(x.data(), {1, 4})}}); });
  EXPECT_EQ(e.where(), "input 'x'");

  Model relation = load("relation.onnx");
  e = error_of([&] { relation.run({view(x.data(), {3}), view(x.data(), {4})}); });
  EXPECT_TRUE(e.where() == "dim 'n'" && has(e.problem(), "'a'") && has(e.problem(), "'b'")) << e.what();

  Model pick = load("pick.onnx");
  int64_t far = 5;
  e = error_of([&] { pick.run({view(&far, {1})}); });
  EXPECT_TRUE(has(e.where(), "Gather") && has(e.problem(), "5")) << e.what();
}

TEST(Errors, of_tensors) {
  error_of([] { Tensor::of<float>({2, 2}, {1, 2, 3}); });
  error_of([] { Tensor(DType::kF32, {-1}); });
  error_of([] { Tensor(DType::kF32, {int64_t{1} << 40, int64_t{1} << 40}); });
  Tensor t(DType::kI32, {3});
  EXPECT_EQ(t.data<int32_t>()[2], 0);
  EXPECT_TRUE(has(error_of([&] { t.data<float>(); }).what(), "int32"));
  EXPECT_EQ(Tensor().count(), 0);
  EXPECT_STREQ(stax::name_of(DType::kBF16), "bfloat16");
}

TEST(Threads, eight_at_once) {
  Model m = load("dense.onnx");
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int k = 0; k < 200; ++k) {
        int64_t n = (t * 31 + k) % 97;
        std::vector<float> x = counting(4 * n, static_cast<float>(t)), y(static_cast<size_t>(3 * n));
        m.run({view(x.data(), {n, 4})}, {view(y.data(), {n, 3})});
        std::vector<float> want = dense(x);
        for (size_t i = 0; i < y.size(); ++i)
          if (std::abs(y[i] - want[i]) > 1e-4 * (1 + std::abs(want[i]))) ++wrong;
        if (k % 50 == 0) {
          try {
            m.run({view(x.data(), {n, 5})});
            ++wrong;
          } catch (const Error&) {
          }
        }
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_EQ(m.statistics().calls, 8 * 204);
  EXPECT_EQ(m.statistics().failed_calls, 8 * 4);
}

TEST(Model, outlives_nothing_that_its_results_need) {
  Tensor y;
  {
    Model m = load("dense.onnx");
    std::vector<float> x = counting(8);
    y = m.run({view(x.data(), {2, 4})})[0];
  }
  expect_near(floats(y), dense(counting(8)));
}

}  // namespace
