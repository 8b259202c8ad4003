// SPDX-License-Identifier: Apache-2.0
// Feature extraction: n-gram counts, and the small operators of domain ai.onnx.ml that work on numbers.
#include <algorithm>

#include "frontend/scalar_words.h"
#include "frontend/spelling.h"

namespace stax::frontend {
namespace {

/// n-grams of one length: their tokens, one row each, and where their counts go.
struct GramTable {
  int length = 0;
  std::vector<int64_t> tokens, places;
  std::vector<double> weights;
};

std::vector<GramTable> gram_tables(Node& n) {
  const auto counts = n.integers("ngram_counts"), places = n.integers("ngram_indexes"),
             pool = n.integers("pool_int64s");
  if (!pool) n.unsupported("n-grams of strings");
  if (!counts || !places) n.fault("its attributes 'ngram_counts' or 'ngram_indexes' are missing");
  const auto weights = n.reals("weights");
  const int64_t least = n.integer("min_gram_length", 1), greatest = n.integer("max_gram_length", 1);
  std::vector<GramTable> tables;
  size_t next = 0;  // n-gram number over all lengths
  for (size_t k = 0; k < counts->size(); ++k) {
    GramTable table;
    table.length = static_cast<int>(k) + 1;
    const int64_t begin = (*counts)[k],
                  end = k + 1 < counts->size() ? (*counts)[k + 1] : static_cast<int64_t>(pool->size());
    if (begin < 0 || end < begin || end > static_cast<int64_t>(pool->size()) || (end - begin) % table.length != 0)
      n.fault("its attribute 'ngram_counts' does not fit its pool");
    table.tokens.assign(pool->begin() + begin, pool->begin() + end);
    for (int64_t gram = 0; gram < (end - begin) / table.length; ++gram, ++next) {
      if (next >= places->size() || (*places)[next] < 0) n.fault("its attribute 'ngram_indexes' does not fit its pool");
      table.places.push_back((*places)[next]);
      table.weights.push_back(weights && next < weights->size() ? (*weights)[next] : 1.0);
    }
    if (table.length >= least && table.length <= greatest && !table.places.empty()) tables.push_back(std::move(table));
  }
  return tables;
}

void import_tfidf(Node& n) {
  Builder& b = n.b();
  n.require(ir::is_integer(n.dtype()), 0, "an integer");
  Value* x = n.input(0);
  const int rank = need_rank(n, 0, 1, 2);
  if (rank == 1) x = b.reshape(x, {one_of(b), x->type.extents[0]});
  const std::string mode = n.text("mode", "TF");
  const int64_t skips = n.integer("max_skip_count", 0);
  const std::vector<GramTable> tables = gram_tables(n);
  const auto places = n.integers("ngram_indexes");
  const int64_t width = places->empty() ? 0 : *std::max_element(places->begin(), places->end()) + 1;
  const Expr rows = x->type.extents[0], columns = x->type.extents[1];
  Value* result = b.map({rows, b.constant_expr(width)}, [&](Body& body) { return body.number(DType::kF32, 0); });
  for (const GramTable& table : tables) {
    const int64_t grams = static_cast<int64_t>(table.places.size());
    Value* tokens = b.constant(Literal::ints(table.tokens).reshaped({grams, table.length}));
    Value* targets = b.constant(Literal::ints(table.places));
    Literal literal(DType::kF32, {grams});
    for (int64_t k = 0; k < grams; ++k) literal.set(k, {.f = mode == "TF" ? 1.0 : table.weights[k]});
    Value* weights = b.constant(literal);
    // Tokens that stand 1, 2, .. skips + 1 apart.
    const Expr steps = b.constant_expr(table.length == 1 ? 1 : skips + 1);
    Value* counts =
        b.reduce(Combiner::kSum, DType::kF32, {rows, b.constant_expr(grams)}, {columns, steps}, [&](Body& body) {
          const Expr step = body.r[1] + 1, last = body.r[0] + step * (table.length - 1);
          Scalar found = holds(body, symbolic::less(last, columns));
          for (int k = 0; k < table.length; ++k) {
            const Scalar token = ir::cast(DType::kI64, body.load(x, {body.i[0], body.r[0] + step * k}));
            const Scalar same = ir::equal(token, body.load(tokens, {body.i[1], b.constant_expr(k)}));
            found = ir::select(found, same, body.integer(DType::kBool, 0));
          }
          return ir::cast(DType::kF32, found);
        });
    result = b.scatter(result, {rows, b.constant_expr(grams)}, Combiner::kSum, [&](Body& body) {
      Scalar count = body.load(counts, body.i);
      if (mode == "IDF")
        count = ir::select(ir::less(body.number(DType::kF32, 0), count), body.number(DType::kF32, 1), count);
      Builder::ScatterPoint point;
      point.index = {body.index(body.i[0]), body.load(targets, std::vector<Expr>{body.i[1]})};
      point.value = count * body.load(weights, std::vector<Expr>{body.i[1]});
      return point;
    });
  }
  n.output(0, rank == 1 ? b.reshape(result, {b.constant_expr(width)}) : result);
}

void import_array_feature_extractor(Node& n) {
  Builder& b = n.b();
  Value* x = n.input(0);
  n.require(ir::is_integer(n.dtype(1)), 1, "an integer");
  need_rank(n, 0, 1);
  Value* places = b.reshape(n.input(1), {b.product(n.input(1)->type.extents)});
  if (n.rank(0) == 1) x = b.reshape(x, {one_of(b), x->type.extents[0]});
  n.output(0, b.gather(x, places, -1));
}

void import_binarizer(Node& n) {
  n.require(n.dtype() != DType::kBool, 0, "a number");
  const double threshold = n.real("threshold", 0);
  n.output(0, n.b().pointwise({n.input(0)}, [&](std::span<const Scalar> x) {
    return ir::select(ir::less(like(x[0], threshold), x[0]), like(x[0], 1), like(x[0], 0));
  }));
}

constexpr OperatorRow kOperators[] = {
    {"", "TfIdfVectorizer", 9, import_tfidf},
    {"ai.onnx.ml", "ArrayFeatureExtractor", 1, import_array_feature_extractor},
    {"ai.onnx.ml", "Binarizer", 1, import_binarizer},
};

}  // namespace

std::span<const OperatorRow> feature_operators() { return kOperators; }

}  // namespace stax::frontend
