// SPDX-License-Identifier: Apache-2.0
// Programs side by side in one process: each runs its own native code.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include <unistd.h>

#include "session/session.h"

namespace stax::session {
namespace {

// y = x op 3, as IR text in a file of its own.
std::unique_ptr<Session> load(const std::string& op) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("several_models_" + op + std::to_string(::getpid()) + ".stax"))
          .string();
  std::ofstream(path)
      << "tensor_ir 1\nsymbol n: dim [0, 2147483647]\ngraph(%x: f32[n]) {\n  %y: f32[n] = compute [i0: n] { " << op
      << "(load0[i0], 3.0:f32) } (%x)\n  return %y as \"y\"\n}\n";
  auto session = Session::load(path, {});
  std::filesystem::remove(path);
  return session;
}

float run(Session& session, float x) {
  runtime::Item item;
  item.tensor.dtype = ir::DType::kF32;
  item.tensor.extents = {1};
  item.tensor.data = &x;
  const auto outputs = session.run(std::span(&item, 1), nullptr);
  return *static_cast<const float*>(outputs[0].tensor.data);
}

TEST(SeveralModels, EachRunsItsOwnCode) {
  auto sum = load("add"), product = load("mul");
  auto difference = load("sub");
  EXPECT_EQ(run(*sum, 5), 8);
  EXPECT_EQ(run(*product, 5), 15);
  EXPECT_EQ(run(*difference, 5), 2);
  sum.reset();
  auto quotient = load("div");
  EXPECT_EQ(run(*product, 6), 18);
  EXPECT_EQ(run(*quotient, 6), 2);
}

}  // namespace
}  // namespace stax::session
