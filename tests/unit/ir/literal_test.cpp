// SPDX-License-Identifier: Apache-2.0
#include "ir/literal.h"

#include <gtest/gtest.h>

#include <limits>

#include "support/error.h"

namespace stax::ir {
namespace {

TEST(Literals, StorageIsAlignedAndCounted) {
  for (int n = 0; n < kDTypeCount; ++n) {
    const Literal x(static_cast<DType>(n), {3, 5});
    EXPECT_EQ(reinterpret_cast<uintptr_t>(x.data()) % 64, 0U);
    EXPECT_EQ(x.count(), 15);
    EXPECT_EQ(x.bytes(), 15 * byte_size(x.dtype()));
    EXPECT_EQ(x.rank(), 2);
  }
}

TEST(Literals, EmptyAndScalar) {
  EXPECT_EQ(Literal(DType::kF32, {4, 0, 1LL << 62, 8}).count(), 0);
  const Literal x = Literal::scalar(DType::kF16, 0.1);
  EXPECT_EQ(x.rank(), 0);
  EXPECT_EQ(x.count(), 1);
  EXPECT_EQ(x.at(0).f, round_to(DType::kF16, 0.1));
  EXPECT_EQ(Literal::scalar(DType::kI8, 300).at(0).i, 44);
  EXPECT_EQ(Literal::scalar(DType::kBool, 0.5).at(0).i, 1);
}

TEST(Literals, IntsReshapedAndViewed) {
  const Literal x = Literal::ints({1, -2, 3, 4});
  EXPECT_EQ(x.at(1).i, -2);
  const Literal y = x.reshaped({2, 2});
  EXPECT_EQ(y.data(), x.data());
  EXPECT_EQ(y.extents(), (std::vector<int64_t>{2, 2}));
  EXPECT_THROW(x.reshaped({3}), InternalError);
  auto owner = std::make_shared<std::vector<float>>(std::vector<float>{1.5F, 2.5F});
  const Literal view = Literal::view(DType::kF32, {2}, std::shared_ptr<void>(owner, owner->data()));
  owner.reset();
  EXPECT_EQ(view.at(1).f, 2.5);
}

TEST(Literals, AbsurdSizesAreTheUsersFault) {
  for (const std::vector<int64_t>& extents :
       {std::vector<int64_t>{int64_t{1} << 45, 4}, {std::numeric_limits<int64_t>::max(), 2}, {1LL << 40, 1LL << 40}}) {
    try {
      Literal x(DType::kF32, extents);
      FAIL();
    } catch (const UserError& error) {
      const std::string message = error.what();
      EXPECT_NE(message.find("float32 tensor of shape [" + std::to_string(extents[0])), std::string::npos) << message;
      EXPECT_NE(message.find(" bytes"), std::string::npos) << message;
    }
  }
}

}  // namespace
}  // namespace stax::ir
