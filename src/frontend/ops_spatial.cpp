// SPDX-License-Identifier: Apache-2.0
// What reads an image through windows or at computed positions. One table joins the files of each idea; here are the
// operators that only exchange space and channels, or look along the channels.
#include "frontend/decompositions.h"
#include "frontend/tables.h"

namespace stax::frontend {
namespace {

using ir::ScalarOp;

int64_t block_size(Node& n) {
  const std::optional<int64_t> size = n.integer("blocksize");
  if (!size || *size < 1) n.fault("blocksize has to be 1 or more");
  return *size;
}

void import_depth_to_space(Node& n) {
  Builder& b = n.b();
  need_rank(n, 0, 4, 4);
  Value* x = n.input(0);
  const int64_t size = block_size(n);
  const Expr block = b.constant_expr(size), depth = symbolic::floordiv(n.extent(0, 1), size * size);
  b.check(symbolic::equal(depth * (size * size), n.extent(0, 1)), "{0} channels do not make blocks of {1}",
          {n.extent(0, 1), b.constant_expr(size * size)});
  const Expr batch = n.extent(0, 0), height = n.extent(0, 2), width = n.extent(0, 3);
  const std::string mode = n.text("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") n.fault("mode has to be DCR or CRD, not " + mode);
  Value* y = mode == "DCR" ? b.transpose(b.reshape(x, {batch, block, block, depth, height, width}), {0, 3, 4, 1, 5, 2})
                           : b.transpose(b.reshape(x, {batch, depth, block, block, height, width}), {0, 1, 4, 2, 5, 3});
  n.output(0, b.reshape(y, {batch, depth, height * size, width * size}));
}

void import_space_to_depth(Node& n) {
  Builder& b = n.b();
  need_rank(n, 0, 4, 4);
  Value* x = n.input(0);
  const int64_t size = block_size(n);
  const Expr block = b.constant_expr(size), batch = n.extent(0, 0), depth = n.extent(0, 1);
  const Expr height = symbolic::floordiv(n.extent(0, 2), size), width = symbolic::floordiv(n.extent(0, 3), size);
  for (int d = 2; d < 4; ++d)
    b.check(symbolic::equal(symbolic::mod(n.extent(0, d), size), 0), "an extent of {0} does not make blocks of {1}",
            {n.extent(0, d), block});
  const std::string mode = n.text("mode", "DCR");
  if (mode != "DCR" && mode != "CRD") n.fault("mode has to be DCR or CRD, not " + mode);
  Value* y = b.transpose(b.reshape(x, {batch, depth, height, block, width, block}),
                         mode == "DCR" ? std::vector<int>{0, 3, 5, 1, 2, 4} : std::vector<int>{0, 1, 3, 5, 2, 4});
  n.output(0, b.reshape(y, {batch, depth * (size * size), height, width}));
}

/// x / (bias + alpha / size * sum of squares over neighbouring channels)^beta
void import_lrn(Node& n) {
  Builder& b = n.b();
  need_rank(n, 0, 2);
  Value* x = n.input(0);
  const DType t = n.dtype(), work = ir::compute_type(t);
  const std::optional<int64_t> size = n.integer("size");
  if (!size || *size < 1) n.fault("size has to be 1 or more");
  const double alpha = n.real("alpha", 1e-4), beta = n.real("beta", 0.75), bias = n.real("bias", 1);
  const int64_t below = (*size - 1) / 2;
  n.output(0, b.reduce(
                  Combiner::kSum, work, x->type.extents, {b.constant_expr(*size)},
                  [&](Body& body) {
                    std::vector<Expr> at = body.i;
                    at[1] = body.i[1] + body.r[0] - below;
                    return ir::select(holds(body, within(at[1], n.extent(0, 1))),
                                      square(ir::cast(work, body.load(x, at))), body.number(work, 0));
                  },
                  [&](Body& body, Scalar sum) {
                    const Scalar base =
                        body.number(work, bias) + body.number(work, alpha / static_cast<double>(*size)) * sum;
                    return ir::cast(t, ir::cast(work, body.load(x, body.i)) /
                                           ir::binary(ScalarOp::kPow, base, body.number(work, beta)));
                  }));
}

constexpr OperatorRow kRows[] = {
    {"", "DepthToSpace", 1, import_depth_to_space},
    {"", "SpaceToDepth", 1, import_space_to_depth},
    {"", "LRN", 1, import_lrn},
};

}  // namespace

std::span<const OperatorRow> spatial_operators() {
  static const std::vector<OperatorRow> rows =
      joined_rows({kRows, convolution_rows(), pooling_rows(), resize_rows(), sampling_rows()});
  return rows;
}

}  // namespace stax::frontend
