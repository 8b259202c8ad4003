// SPDX-License-Identifier: Apache-2.0
// com.microsoft's operators of transformer models, as ONNX Runtime's optimizer and exporters write them: norms with a skip connection,
// attention in its three forms, rotary embedding.
#include "frontend/attention.h"
#include "frontend/decompositions.h"
#include "frontend/tables.h"

namespace stax::frontend {
namespace {

using ir::ScalarOp;

Scalar i64(Scalar x) { return ir::cast(DType::kI64, x); }

// ---- norms ----------------------------------------------------------------------------------------------------------

/// input + skip (+ bias), which is output 3, too. The skip may lack the batch, or have a batch of 1.
Value* joined_input(Node& n, int bias) {
  Builder& b = n.b();
  Value *x = n.input(0), *skip = n.input(1);
  const DType t = n.dtype(), work = ir::compute_type(t);
  std::vector<Value*> terms = {x, skip};
  if (n.has(bias)) terms.push_back(n.input(bias));
  Value* sum = b.pointwise(terms, [&](std::span<const Scalar> v) {
    Scalar s = ir::cast(work, v[0]);
    for (size_t k = 1; k < v.size(); ++k) s = s + ir::cast(work, v[k]);
    return ir::cast(t, s);
  });
  if (n.wants(3)) n.output(3, sum);
  return sum;
}

void give_norm(Node& n, const Normalized& r) {
  n.output(0, r.y);
  if (n.wants(1)) {
    if (!r.mean) n.unsupported("the mean as an output of a norm that has none");
    n.output(1, as_type(n.b(), r.mean, DType::kF32));
  }
  if (n.wants(2)) n.output(2, as_type(n.b(), r.inverse, DType::kF32));
}

void import_skip_layer_normalization(Node& n) {
  Value* x = joined_input(n, 4);
  give_norm(n, layer_norm(n.b(), x, axis_of(n, -1, x), n.real("epsilon", 1e-12), n.input(2), n.optional(3)));
}

void import_skip_simplified_layer_normalization(Node& n) {
  Value* x = joined_input(n, 3);
  give_norm(n, rms_norm(n.b(), x, axis_of(n, -1, x), n.real("epsilon", 1e-12), n.input(2)));
}

/// Inputs: input_ids, segment_ids, the three tables of embeddings (words, positions, segments), gamma, beta, mask, position_ids.
void import_embed_layer_normalization(Node& n) {
  Builder& b = n.b();
  Value *words = n.input_of_rank(0, 2), *segments = n.optional(1), *segment_table = n.optional(4);
  Value *word_table = n.input_of_rank(2, 2), *position_table = n.input_of_rank(3, 2), *positions = n.optional(8);
  const DType t = word_table->type.dtype, work = ir::compute_type(t);
  const Expr batch = b.extent(words, 0), length = b.extent(words, 1), width = b.extent(word_table, 1);
  check_equal(b, b.extent(position_table, 1), width, "widths of the embeddings");
  if (segment_table) check_equal(b, n.extent(4, 1), width, "widths of the embeddings");
  if (segments)
    for (int d = 0; d < 2; ++d)
      check_equal(b, n.extent(1, d), b.extent(words, d), "extents of segment_ids and input_ids");
  if (positions) {
    check_broadcast(b, n.extent(8, 0), batch, "position_ids");
    check_equal(b, n.extent(8, 1), length, "lengths of position_ids and input_ids");
  }
  Value* sum = b.map({batch, length, width}, [&](Body& body) {
    const Expr sample = body.i[0], at = body.i[1];
    const auto row = [&](Value* table, Scalar index) {
      return ir::cast(work, body.load(table, {body.checked(i64(index), b.extent(table, 0)), body.index(body.i[2])}));
    };
    Scalar position = body.index(at);
    if (positions) position = body.load(positions, {broadcast_index(b, sample, n.extent(8, 0), batch), at});
    Scalar v = row(word_table, body.load(words, {sample, at})) + row(position_table, position);
    if (segments && segment_table) v = v + row(segment_table, body.load(segments, {sample, at}));
    return ir::cast(t, v);
  });
  n.output(0, layer_norm(b, sum, 2, n.real("epsilon", 1e-12), n.input(5), n.input(6)).y);
  if (n.wants(1)) {
    // How many words the mask lets through.
    if (!n.has(7)) {
      n.output(1, b.map({batch}, [](Body& body) { return body.integer(DType::kI32, 0); }));
    } else {
      n.output(1, b.reduce_axes(Combiner::kSum, n.input_of_rank(7, 2), {1}, false, DType::kI32));
    }
  }
  if (n.wants(2)) n.output(2, sum);
}

// ---- attention ------------------------------------------------------------------------------------------------------

int64_t heads_attribute(Node& n, const char* name = "num_heads") {
  const int64_t heads = n.integer(name, 0);
  if (heads < 1) n.fault(std::string(name) + " has to be 1 or more");
  return heads;
}

std::function<Scalar(Body&, Scalar)> scale_of(Node& n, Expr size) {
  const double scale = n.real("scale", 0);
  return [=](Body& body, Scalar a) {
    if (scale != 0) return a * body.number(a->dtype, scale);
    return a / ir::unary(ScalarOp::kSqrt, number_of(body, a->dtype, size));
  };
}

/// What a padding mask of int32 says of a key: 1 where it is masked. Its meaning follows from its shape:
///   [batch] lengths; [2 * batch] ends, then beginnings; [batch, keys]; [batch, queries, keys]; [batch, 1, longest, longest].
struct PaddingMask {
  Value* v = nullptr;
  Expr batch, queries, keys, past;

  Scalar masked(Builder& b, Body& body, const AttentionPoint& at) const {
    const Scalar key = body.index(at.key);
    const auto zero = [&](Scalar m) { return ir::equal(i64(m), body.integer(DType::kI64, 0)); };
    switch (v->type.static_rank()) {
      case 1: {
        const Scalar behind = ir::less_equal(i64(body.load(v, {at.batch})), key);
        if (b.graph().constraints.equal(b.extent(v, 0), batch) == symbolic::Truth::kYes) return behind;
        const Scalar before = ir::less(key, i64(body.load(v, {at.batch + batch})));
        return logical_or(behind, ir::select(holds(body, symbolic::equal(b.extent(v, 0), batch * 2)), before,
                                             holds(body, zero_of(b))));
      }
      case 2: return zero(body.load(v, {broadcast_index(b, at.batch, b.extent(v, 0), batch), at.key}));
      case 3: return zero(body.load(v, {broadcast_index(b, at.batch, b.extent(v, 0), batch), at.query, at.key}));
      default: return zero(body.load(v, {at.batch, zero_of(b), at.query + past, at.key}));
    }
  }
};

PaddingMask padding_mask(Node& n, int k, const AttentionSpec& s, Expr past) {
  Builder& b = n.b();
  PaddingMask m{n.optional(k), s.q.batch(b), s.q.length(b), s.k.length(b), past};
  if (!m.v) return m;
  const int rank = need_rank(n, k, 1, 4);
  const Expr first = b.extent(m.v, 0);
  if (rank == 1)
    // Lengths; or ends and starts; or lengths and, for packed tokens, where each row of them begins.
    b.check(symbolic::logical_or(
                symbolic::equal(first, m.batch * 3 + 2),
                symbolic::logical_or(symbolic::equal(first, m.batch), symbolic::equal(first, m.batch * 2))),
            "a mask of {0} numbers for a batch of {1}", {first, m.batch});
  else
    check_broadcast(b, first, m.batch, "batch of the mask");
  if (rank == 2 || rank == 3) check_equal(b, b.extent(m.v, -1), m.keys, "keys of the mask and of the input");
  if (rank == 3) check_equal(b, b.extent(m.v, 1), m.queries, "queries of the mask and of the input");
  if (rank == 4)
    b.check(symbolic::less_equal(m.keys, b.extent(m.v, -1)), "a mask of {0} keys for {1}", {b.extent(m.v, -1), m.keys});
  return m;
}

/// [batch or 1, heads or 1, queries, keys], added to the scores.
struct ScoreBias {
  Value* v = nullptr;
  Scalar at(Builder& b, Body& body, DType t, const AttentionPoint& p, const AttentionSpec& s, Expr heads) const {
    const std::vector<Expr> point = {p.batch, p.head, p.query, p.key};
    const std::vector<Expr> extents = {s.q.batch(b), heads, s.q.length(b), s.k.length(b)};
    const int rank = v->type.static_rank();
    std::vector<Expr> index;
    for (int d = 0; d < rank; ++d)
      index.push_back(broadcast_index(b, point[4 - rank + d], b.extent(v, d), extents[4 - rank + d]));
    return ir::cast(t, body.load(v, index));
  }
};

/// Masks of MultiHeadAttention and Attention. A masked key gets a large negative number on its score, not -inf: a row without keys
/// then weighs all of them alike.
void set_masks(Node& n, AttentionSpec& s, int padding, int bias, Expr past) {
  Builder& b = n.b();
  const PaddingMask mask = padding_mask(n, padding, s, past);
  const ScoreBias extra{n.optional(bias)};
  if (extra.v) need_rank(n, bias, 2, 4);
  const bool causal = n.integer("unidirectional", 0) != 0;
  if (!mask.v && !extra.v && !causal) return;
  const double filter = n.real("mask_filter_value", -10000);
  const Expr heads = s.q.heads(b);
  const AttentionSpec shape = s;
  s.mask = [=, &b](Body& body, Scalar score, const AttentionPoint& at) {
    const DType t = score->dtype;
    if (mask.v) score = ir::select(mask.masked(b, body, at), score + body.number(t, filter), score);
    if (extra.v) score = score + extra.at(b, body, t, at, shape, heads);
    if (causal) score = ir::select(holds(body, symbolic::less_equal(at.key, at.query + past)), score, lowest(body, t));
    return score;
  };
}

Value* merged_heads(Builder& b, Value* y) {
  return b.reshape(y, {b.extent(y, 0), b.extent(y, 1), b.extent(y, 2) * b.extent(y, 3)});
}

/// Columns `first .. first + count - 1` of v [batch, length, width] and of a bias, as heads.
Heads part_as_heads(Node& n, Value* v, Expr first, Value* bias, Expr bias_first, Expr count, Expr heads) {
  Builder& b = n.b();
  Value* own = b.slice(v, 2, first, count, one_of(b));
  if (bias)
    own = b.pointwise({own, b.slice(bias, 0, bias_first, count, one_of(b))},
                      [](std::span<const Scalar> x) { return x[0] + x[1]; });
  return split_heads(n, own, heads);
}

/// Inputs: query, key, value, bias, key_padding_mask, attention_bias, past_key, past_value.
void import_multi_head_attention(Node& n) {
  Builder& b = n.b();
  AttentionSpec s;
  s.result = n.dtype();
  const Expr heads = b.constant_expr(heads_attribute(n));
  Value *query = n.input(0), *key = n.optional(1), *value = n.optional(2), *bias = n.optional(3);
  const int rank = need_rank(n, 0, 3, 5);
  // Element `which` of the axis before the last of a packed [batch, length, heads, 2 or 3, size].
  const auto unpacked = [&](Value* v, int64_t which) {
    Value* own = b.slice(v, 3, b.constant_expr(which), one_of(b), one_of(b));
    return Heads{b.reshape(own, {b.extent(v, 0), b.extent(v, 1), b.extent(v, 2), b.extent(v, 4)}), true};
  };
  if (rank == 5) {
    if (bias) n.unsupported("a bias of packed query, key and value");
    s.q = unpacked(query, 0);
    s.k = unpacked(query, 1);
    s.v = unpacked(query, 2);
  } else {
    if (!key) n.fault("key is missing");
    const Expr width = b.extent(query, 2);
    s.q = part_as_heads(n, query, zero_of(b), bias, zero_of(b), width, heads);
    const int key_rank = need_rank(n, 1, 3, 5);
    if (key_rank == 5) {
      if (bias) n.unsupported("a bias of packed key and value");
      s.k = unpacked(key, 0);
      s.v = unpacked(key, 1);
    } else if (!value) {
      n.fault("value is missing");
    } else if (key_rank == 4) {
      s.k = {key, false};
      s.v = {value, false};
    } else {
      s.k = part_as_heads(n, key, zero_of(b), bias, width, width, heads);
      s.v = part_as_heads(n, value, zero_of(b), bias, width * 2, b.extent(value, 2), heads);
    }
  }
  s.group = one_of(b);
  Expr past = zero_of(b);
  if (n.has(6) != n.has(7)) n.fault("past_key and past_value have to be given together");
  if (n.has(8)) n.unsupported("a past that shares its buffer with the present");
  if (n.has(6)) {
    past = b.extent(n.input_of_rank(6, 4), 2);
    s.k = {b.concat({n.input(6), heads_first(b, s.k)}, 2), false};
    s.v = {b.concat({n.input_of_rank(7, 4), heads_first(b, s.v)}, 2), false};
  }
  if (n.wants(1)) n.output(1, heads_first(b, s.k));
  if (n.wants(2)) n.output(2, heads_first(b, s.v));
  s.scale = scale_of(n, s.q.size(b));
  set_masks(n, s, 4, 5, past);
  const AttentionValues r = attend(n, s);
  n.output(0, merged_heads(b, r.y));
  if (n.wants(3)) n.output(3, r.masked);
}

/// Inputs: input, weights of query, key and value side by side, bias, mask_index, past, attention_bias.
void import_attention(Node& n) {
  Builder& b = n.b();
  AttentionSpec s;
  Value* x = n.input_of_rank(0, 3);
  s.result = n.dtype();
  const Expr heads = b.constant_expr(heads_attribute(n));
  if (n.integer("do_rotary", 0) != 0) n.unsupported("do_rotary");
  if (n.integer("past_present_share_buffer", 0) != 0) n.unsupported("a past that shares its buffer with the present");
  Value* all = b.matmul(x, n.input_of_rank(1, 2));
  Expr width_q = symbolic::floordiv(b.extent(all, 2), 3), width_k = width_q, width_v = b.extent(all, 2) - width_q * 2;
  if (const auto sizes = n.integers("qkv_hidden_sizes"); sizes && !sizes->empty()) {
    if (sizes->size() != 3) n.fault("qkv_hidden_sizes has to hold three numbers");
    width_q = b.constant_expr((*sizes)[0]);
    width_k = b.constant_expr((*sizes)[1]);
    width_v = b.constant_expr((*sizes)[2]);
    check_equal(b, width_q + width_k + width_v, b.extent(all, 2), "sum of qkv_hidden_sizes and columns of the weights");
  }
  Value* bias = n.has(2) ? n.input_of_rank(2, 1) : nullptr;
  if (bias) check_equal(b, b.extent(bias, 0), b.extent(all, 2), "length of the bias and columns of the weights");
  s.q = part_as_heads(n, all, zero_of(b), bias, zero_of(b), width_q, heads);
  s.k = part_as_heads(n, all, width_q, bias, width_q, width_k, heads);
  s.v = part_as_heads(n, all, width_q + width_k, bias, width_q + width_k, width_v, heads);
  s.group = one_of(b);
  Expr past = zero_of(b);
  if (n.has(4)) {
    Value* before = n.input_of_rank(4, 5);  // [2, batch, heads, past, size]
    past = b.extent(before, 3);
    const auto half = [&](int64_t k) {
      Value* own = b.slice(before, 0, b.constant_expr(k), one_of(b), one_of(b));
      return b.reshape(own, extents_of(before, 1));
    };
    s.k = {b.concat({half(0), heads_first(b, s.k)}, 2), false};
    s.v = {b.concat({half(1), heads_first(b, s.v)}, 2), false};
  }
  if (n.wants(1)) {
    Value *k = heads_first(b, s.k), *v = heads_first(b, s.v);
    n.output(1, b.concat({b.reshape(k, joined({one_of(b)}, k->type.extents)),
                          b.reshape(v, joined({one_of(b)}, v->type.extents))},
                         0));
  }
  s.scale = scale_of(n, s.q.size(b));
  set_masks(n, s, 3, 5, past);
  n.output(0, merged_heads(b, attend(n, s).y));
}

/// cos and sin of a cache [positions, pairs] at a position that is a scalar.
std::pair<Scalar, Scalar> cached_angle(Body& body, DType t, Value* cos, Value* sin, Scalar position, Expr pair) {
  Builder& b = body.builder();
  const std::vector<Scalar> at = {body.checked(position, b.extent(cos, 0)),
                                  body.index(symbolic::min(pair, symbolic::max(b.extent(cos, 1) - 1, 0)))};
  return {ir::cast(t, body.load(cos, at)), ir::cast(t, body.load(sin, at))};
}

/// Inputs: query, key, value (or all three packed in query), past_key, past_value, seqlens_k (the last position of each sample),
/// total_sequence_length, cos_cache, sin_cache, position_ids, attention_bias. Keys and values of the past lie in a cache
/// [batch, heads, length, size] that may be longer than they are; the new ones are written behind them.
void import_group_query_attention(Node& n) {
  Builder& b = n.b();
  AttentionSpec s;
  s.result = n.dtype();
  const DType work = ir::compute_type(s.result);
  const int64_t query_heads = heads_attribute(n), kv_heads = heads_attribute(n, "kv_num_heads");
  if (query_heads % kv_heads != 0) n.fault("num_heads has to be a multiple of kv_num_heads");
  if (n.integer("smooth_softmax", 0) > 0 || n.has(11)) n.unsupported("smooth_softmax");
  const Expr heads_q = b.constant_expr(query_heads), heads_k = b.constant_expr(kv_heads);
  s.group = b.constant_expr(query_heads / kv_heads);
  Value* query = n.input_of_rank(0, 3);
  if (n.has(1)) {
    s.q = split_heads(n, query, heads_q);
    s.k = split_heads(n, n.input_of_rank(1, 3), heads_k);
    s.v = split_heads(n, n.input_of_rank(2, 3), heads_k);
  } else {
    const int64_t all = query_heads + 2 * kv_heads;
    const Expr size = symbolic::floordiv(b.extent(query, 2), all);
    check_equal(b, size * all, b.extent(query, 2), "width of the packed heads and of the input");
    s.q = part_as_heads(n, query, zero_of(b), nullptr, {}, size * query_heads, heads_q);
    s.k = part_as_heads(n, query, size * query_heads, nullptr, {}, size * kv_heads, heads_k);
    s.v = part_as_heads(n, query, size * (query_heads + kv_heads), nullptr, {}, size * kv_heads, heads_k);
  }
  const Expr batch = s.q.batch(b), queries = s.q.length(b);
  Value *past_key = n.optional(3), *past_value = n.optional(4);
  Value* last = n.input(5);
  const Expr total = n.exact_ints(n.input(6), 1, {0, symbolic::kMaxExtent})[0];
  const Expr stored = past_key ? b.extent(past_key, 2) : zero_of(b);
  const Expr length = symbolic::max(stored, total);
  last = b.reshape(last, {batch});
  // How many positions of a sample came before this call.
  const auto before = [=](Body& body, Expr sample) {
    const Scalar known = i64(body.load(last, {sample})) + body.index(1 - queries);
    return ir::select(holds(body, symbolic::equal(total, queries)), body.integer(DType::kI64, 0), known);
  };
  if (n.integer("do_rotary", 0) != 0) {
    Value *cos = n.input_of_rank(7, 2), *sin = n.input_of_rank(8, 2), *positions = n.optional(9);
    Rotation r;
    r.half = b.extent(cos, 1);
    r.interleaved = n.integer("rotary_interleaved", 0) != 0;
    r.angle = [=](Body& body, Expr sample, Expr position, Expr pair) {
      const Scalar p =
          positions ? i64(body.load(positions, {sample, position})) : before(body, sample) + body.index(position);
      return cached_angle(body, work, cos, sin, p, pair);
    };
    s.q.v = rotate(b, s.q, r);
    s.k.v = rotate(b, s.k, r);
  }
  const auto present = [&](const Heads& fresh, Value* old) {
    return b.map({batch, heads_k, length, fresh.size(b)}, [&](Body& body) {
      const Scalar at = body.index(body.i[2]) - before(body, body.i[0]), zero = body.integer(DType::kI64, 0);
      const Scalar is_new = logical_and(ir::less_equal(zero, at), ir::less(at, body.index(queries)));
      const Scalar written =
          body.load(fresh.v, {body.index(body.i[0]), at, body.index(body.i[1]), body.index(body.i[3])});
      Scalar kept = body.number(fresh.v->type.dtype, 0);
      if (old) {
        const Scalar held = holds(body, symbolic::less(body.i[2], stored));
        kept = ir::select(logical_and(held, ir::less(at, zero)), body.load(old, body.i), kept);
      }
      return ir::select(is_new, written, kept);
    });
  };
  s.k = {present(s.k, past_key), false};
  s.v = {present(s.v, past_value), false};
  if (n.wants(1)) n.output(1, s.k.v);
  if (n.wants(2)) n.output(2, s.v.v);
  s.scale = scale_of(n, s.q.size(b));
  s.softcap = n.real("softcap", 0);
  const int64_t window = n.integer("local_window_size", -1);
  const ScoreBias extra{n.optional(10)};
  const AttentionSpec shape = s;
  s.mask = [=, &b](Body& body, Scalar score, const AttentionPoint& at) {
    if (extra.v) score = score + extra.at(b, body, score->dtype, at, shape, heads_q);
    const Scalar position = before(body, at.batch) + body.index(at.query), key = body.index(at.key);
    Scalar seen = ir::less_equal(key, position);
    if (window > 0) seen = logical_and(seen, ir::less(position - body.integer(DType::kI64, window), key));
    return ir::select(seen, score, lowest(body, score->dtype));
  };
  const AttentionValues r = attend(n, s);
  n.output(0, merged_heads(b, r.y));
  if (n.wants(3)) n.output(3, n.integer("qk_output", 0) == 2 ? r.weights : r.masked);
}

/// Inputs: input, position_ids ([1]: where the sequence begins; or [batch, length]), cos_cache, sin_cache.
void import_rotary_embedding(Node& n) {
  Builder& b = n.b();
  Value *x = n.input(0), *positions = n.input(1), *cos = n.input_of_rank(2, 2), *sin = n.input_of_rank(3, 2);
  const DType work = ir::compute_type(n.dtype());
  if (n.integer("is_packed_batching", 0) != 0) n.unsupported("is_packed_batching");
  Heads h{x, false};
  if (need_rank(n, 0, 3, 4) == 3) {
    const int64_t named = n.integer("num_heads", 0);
    const bool partly = n.integer("rotary_embedding_dim", 0) > 0;
    if (partly && named < 1) n.fault("num_heads has to be given with rotary_embedding_dim");
    h = split_heads(n, x,
                    named > 0 ? b.constant_expr(named) : symbolic::floordiv(b.extent(x, 2), b.extent(cos, 1) * 2));
  }
  Rotation r;
  r.half = b.extent(cos, 1);
  r.interleaved = n.integer("interleaved", 0) != 0;
  const bool offset = need_rank(n, 1, 1, 2) == 1;
  if (!offset) {
    check_broadcast(b, n.extent(1, 0), h.batch(b), "position_ids");
    check_equal(b, n.extent(1, 1), h.length(b), "lengths of position_ids and input");
  }
  const double scale = n.real("scale", 1);
  r.angle = [=, &b](Body& body, Expr batch, Expr position, Expr pair) {
    const Scalar p =
        offset ? i64(body.load(positions)) + body.index(position)
               : i64(body.load(positions, {broadcast_index(b, batch, b.extent(positions, 0), h.batch(b)), position}));
    auto [c, s] = cached_angle(body, work, cos, sin, p, pair);
    if (scale == 1) return std::pair(c, s);
    return std::pair(c * body.number(work, scale), s * body.number(work, scale));
  };
  Value* y = rotate(b, h, r);
  n.output(0, h.packed ? b.reshape(y, x->type.extents) : y);
}

constexpr OperatorRow kRows[] = {
    {"com.microsoft", "SkipLayerNormalization", 1, import_skip_layer_normalization},
    {"com.microsoft", "SkipSimplifiedLayerNormalization", 1, import_skip_simplified_layer_normalization},
    {"com.microsoft", "EmbedLayerNormalization", 1, import_embed_layer_normalization},
    {"com.microsoft", "MultiHeadAttention", 1, import_multi_head_attention},
    {"com.microsoft", "Attention", 1, import_attention},
    {"com.microsoft", "GroupQueryAttention", 1, import_group_query_attention},
    {"com.microsoft", "RotaryEmbedding", 1, import_rotary_embedding},
};

}  // namespace

Rows transformer_rows() { return kRows; }

}  // namespace stax::frontend
