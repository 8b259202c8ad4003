// SPDX-License-Identifier: Apache-2.0
// Attention, LinearAttention and RotaryEmbedding of ONNX.
#include "frontend/attention.h"

#include <limits>

#include "frontend/decompositions.h"
#include "frontend/tables.h"

namespace stax::frontend {

using ir::ScalarOp;

Heads split_heads(Node& n, Value* v, Expr heads) {
  Builder& b = n.b();
  const Expr width = b.extent(v, 2), size = symbolic::floordiv(width, heads);
  b.check(symbolic::equal(size * heads, width), "a width of {0} does not make {1} heads", {width, heads});
  return {b.reshape(v, {b.extent(v, 0), b.extent(v, 1), heads, size}), true};
}

Value* heads_first(Builder& b, const Heads& h) { return h.packed ? b.transpose(h.v, {0, 2, 1, 3}) : h.v; }

AttentionValues attend(Node& n, const AttentionSpec& s) {
  Builder& b = n.b();
  const DType work = ir::compute_type(s.q.v->type.dtype);
  const Expr batch = s.q.batch(b), heads = s.k.heads(b), queries = s.q.length(b), keys = s.k.length(b);
  const Expr query_heads = heads * s.group;
  check_equal(b, s.q.heads(b), query_heads, "query heads and the groups of key heads");
  check_equal(b, s.k.batch(b), batch, "batches of query and key");
  check_equal(b, s.v.batch(b), batch, "batches of query and value");
  check_equal(b, s.q.size(b), s.k.size(b), "head sizes of query and key");
  check_equal(b, s.v.heads(b), heads, "heads of key and value");
  check_equal(b, s.v.length(b), keys, "lengths of key and value");
  const bool grouped = !is_one(s.group);
  // Axes: batch, heads, (group,) queries, and one more.
  const auto axes = [&](Expr last) {
    return grouped ? std::vector<Expr>{batch, heads, s.group, queries, last}
                   : std::vector<Expr>{batch, heads, queries, last};
  };
  const int query_axis = grouped ? 3 : 2;
  Value* q = s.q.v;
  if (grouped)
    q = b.reshape(q, s.q.packed ? std::vector<Expr>{batch, queries, heads, s.group, s.q.size(b)}
                                : std::vector<Expr>{batch, heads, s.group, queries, s.q.size(b)});
  const auto at_query = [&](const std::vector<Expr>& i, Expr element) -> std::vector<Expr> {
    if (!grouped) return s.q.at(i[0], i[1], i[2], element);
    if (s.q.packed) return {i[0], i[3], i[1], i[2], element};
    return {i[0], i[1], i[2], i[3], element};
  };
  const auto ungrouped = [&](Value* v) { return grouped ? b.reshape(v, {batch, query_heads, queries, keys}) : v; };
  const auto as_result = [&](Value* v) { return as_type(b, v, s.result); };
  AttentionValues out;

  Value* scores = b.reduce(
      Combiner::kSum, work, axes(keys), {s.q.size(b)},
      [&](Body& body) {
        const Scalar left = body.load(q, at_query(body.i, body.r[0]));
        const Scalar right = body.load(s.k.v, s.k.at(body.i[0], body.i[1], body.i[query_axis + 1], body.r[0]));
        return ir::cast(work, left) * ir::cast(work, right);
      },
      [&](Body& body, Scalar a) { return s.scale(body, a); });
  if (n.wants(3)) out.scores = ungrouped(as_result(scores));

  const auto capped = [&](Body& body, Scalar score) {
    if (s.softcap == 0) return score;
    const Scalar cap = body.number(work, s.softcap);
    return cap * ir::unary(ScalarOp::kTanh, score / cap);
  };
  if (n.wants(3))
    out.capped = ungrouped(
        b.map(axes(keys), [&](Body& body) { return ir::cast(s.result, capped(body, body.load(scores, body.i))); }));
  Value* masked = scores;
  if (s.softcap != 0 || s.mask)
    masked = b.map(axes(keys), [&](Body& body) {
      const Scalar score = capped(body, body.load(scores, body.i));
      if (!s.mask) return score;
      const Expr head = grouped ? body.i[1] * s.group + body.i[2] : body.i[1];
      return s.mask(body, score, {body.i[0], head, body.i[query_axis], body.i[query_axis + 1]});
    });
  if (n.wants(3)) out.masked = ungrouped(as_result(masked));

  const auto row = [&](std::vector<Expr> i) {
    i.back() = zero_of(b);
    return i;
  };
  const auto along = [&](std::vector<Expr> i, Expr key) {
    i.back() = key;
    return i;
  };
  Value* top = b.reduce(
      Combiner::kMax, work, axes(one_of(b)), {keys},
      [&](Body& body) { return body.load(masked, along(body.i, body.r[0])); },
      [&](Body& body, Scalar a) { return ir::select(ir::equal(a, lowest(body, work)), body.number(work, 0), a); });
  const auto exponential = [&](Body& body, const std::vector<Expr>& i) {
    return ir::unary(ScalarOp::kExp, body.load(masked, i) - body.load(top, row(i)));
  };
  Value* total = b.reduce(Combiner::kSum, work, axes(one_of(b)), {keys},
                          [&](Body& body) { return exponential(body, along(body.i, body.r[0])); });
  Value* weights = b.map(axes(keys), [&](Body& body) {
    const Scalar sum = body.load(total, row(body.i)), zero = body.number(work, 0);
    return ir::select(ir::equal(sum, zero), zero, exponential(body, body.i) / sum);
  });
  if (n.wants(3)) out.weights = ungrouped(as_result(weights));

  const std::vector<Expr> packed = grouped ? std::vector<Expr>{batch, queries, heads, s.group, s.v.size(b)}
                                           : std::vector<Expr>{batch, queries, heads, s.v.size(b)};
  Value* y = b.reduce(
      Combiner::kSum, work, packed, {keys},
      [&](Body& body) {
        const Expr key = body.r[0];
        const std::vector<Expr> at_weight = grouped ? std::vector<Expr>{body.i[0], body.i[2], body.i[3], body.i[1], key}
                                                    : std::vector<Expr>{body.i[0], body.i[2], body.i[1], key};
        return body.load(weights, at_weight) *
               ir::cast(work, body.load(s.v.v, s.v.at(body.i[0], body.i[2], key, body.i.back())));
      },
      [&](Body&, Scalar a) { return ir::cast(s.result, a); });
  out.y = grouped ? b.reshape(y, {batch, queries, query_heads, s.v.size(b)}) : y;
  return out;
}

Value* rotate(Builder& b, const Heads& x, const Rotation& r) {
  const DType t = x.v->type.dtype, work = ir::compute_type(t);
  return b.map(x.v->type.extents, [&](Body& body) {
    const Expr e = body.i[3], head = body.i[x.packed ? 2 : 1], position = body.i[x.packed ? 1 : 2];
    const Expr pair =
        r.interleaved ? symbolic::floordiv(e, 2) : symbolic::select(symbolic::less(e, r.half), e, e - r.half);
    const Expr second = r.interleaved ? symbolic::mod(e, 2) : symbolic::less_equal(r.half, e);
    const Expr partner =
        r.interleaved ? e + 1 - symbolic::mod(e, 2) * 2 : symbolic::select(second, e - r.half, e + r.half);
    const auto [cos, sin] = r.angle(body, body.i[0], position, pair);
    const Scalar own = ir::cast(work, body.load(x.v, body.i));
    const Scalar other = ir::cast(work, body.load(x.v, x.at(body.i[0], head, position, partner)));
    // (x1 cos - x2 sin, x2 cos + x1 sin)
    const Scalar turned = own * cos + ir::select(holds(body, second), other, -other) * sin;
    if (r.half * 2 == b.extent(x.v, 3)) return ir::cast(t, turned);
    return ir::cast(t, ir::select(holds(body, symbolic::less(e, r.half * 2)), turned, own));
  });
}

namespace {

Heads heads_of(Node& n, int k, const char* attribute) {
  Builder& b = n.b();
  Value* v = n.input(k);
  if (need_rank(n, k, 3, 4) == 4) return {v, false};
  const std::optional<int64_t> heads = n.integer(attribute);
  if (!heads || *heads < 1) n.fault(std::string(attribute) + " has to be given for inputs of rank 3");
  return split_heads(n, v, b.constant_expr(*heads));
}

void import_attention(Node& n) {
  Builder& b = n.b();
  n.require(ir::is_float(n.dtype()), 0, "a float");
  AttentionSpec s;
  s.result = n.dtype();
  const DType work = ir::compute_type(s.result);
  s.q = heads_of(n, 0, "q_num_heads");
  s.k = heads_of(n, 1, "kv_num_heads");
  s.v = heads_of(n, 2, "kv_num_heads");
  Value *mask = n.optional(3), *past_key = n.optional(4), *past_value = n.optional(5), *lengths = n.optional(6);
  if ((past_key == nullptr) != (past_value == nullptr)) n.fault("past_key and past_value have to be given together");
  Expr past = zero_of(b);
  if (past_key) {
    past = b.extent(past_key, 2);
    s.k = {b.concat({past_key, heads_first(b, s.k)}, 2), false};
    s.v = {b.concat({past_value, heads_first(b, s.v)}, 2), false};
  }
  if (n.wants(1)) n.output(1, heads_first(b, s.k));
  if (n.wants(2)) n.output(2, heads_first(b, s.v));
  const Expr query_heads = s.q.heads(b), heads = s.k.heads(b), queries = s.q.length(b), keys = s.k.length(b);
  s.group = symbolic::floordiv(query_heads, heads);
  b.check(symbolic::equal(s.group * heads, query_heads), "{0} query heads are no multiple of {1} key heads",
          {query_heads, heads});
  const bool given = n.has_attribute("scale");
  const double scale = n.real("scale", 0);
  s.scale = [=, size = s.q.size(b)](Body& body, Scalar a) {
    if (given) return a * body.number(work, scale);
    return a / ir::unary(ScalarOp::kSqrt, number_of(body, work, size));
  };
  s.softcap = n.real("softcap", 0);
  const bool causal = n.integer("is_causal", 0) != 0;
  const int64_t left = n.integer("left_window_size", -1), right = n.integer("right_window_size", -1);
  if (mask) {
    // Aligned with [batch, query heads, queries, keys]; the keys that a shorter mask does not name are masked.
    const int rank = need_rank(n, 3, 1, 4);
    const std::vector<Expr> full = {s.q.batch(b), query_heads, queries, keys};
    for (int d = 0; d + 1 < rank; ++d) check_broadcast(b, b.extent(mask, d), full[4 - rank + d], "attn_mask");
    b.check(symbolic::less_equal(b.extent(mask, -1), keys), "attn_mask names {0} keys of {1}",
            {b.extent(mask, -1), keys});
  }
  if (lengths) check_equal(b, b.extent(lengths, 0), s.q.batch(b), "length of nonpad_kv_seqlen and the batch");
  if (mask || causal || lengths || left >= 0 || right >= 0) {
    s.mask = [=, &b](Body& body, Scalar score, const AttentionPoint& at) {
      const Scalar nothing = lowest(body, work);
      const auto keep = [&](Scalar condition) { score = ir::select(condition, score, nothing); };
      if (mask) {
        const int rank = mask->type.static_rank();
        const std::vector<Expr> full = {at.batch, at.head, at.query, at.key};
        const std::vector<Expr> extents = {s.q.batch(b), query_heads, queries, keys};
        std::vector<Expr> index;
        for (int d = 0; d + 1 < rank; ++d)
          index.push_back(broadcast_index(b, full[4 - rank + d], b.extent(mask, d), extents[4 - rank + d]));
        index.push_back(at.key);
        const Scalar m = body.load(mask, index);
        const Scalar named = holds(body, symbolic::less(at.key, b.extent(mask, -1)));
        const bool whole = b.graph().constraints.equal(b.extent(mask, -1), keys) == symbolic::Truth::kYes;
        Scalar with = nothing;
        if (m->dtype == DType::kBool)
          with = ir::select(m, score, nothing);
        else
          with = ir::select(ir::equal(ir::cast(work, m), nothing), nothing, score + ir::cast(work, m));
        score = whole ? with : ir::select(named, with, nothing);
      }
      // The position of a query among the keys.
      Scalar position = body.index(at.query + past);
      if (!past_key && lengths)
        position = body.index(at.query - queries) + ir::cast(DType::kI64, body.load(lengths, {at.batch}));
      const Scalar key = body.index(at.key);
      if (causal) keep(ir::less_equal(key, position));
      if (left >= 0) keep(ir::less_equal(position - body.integer(DType::kI64, left), key));
      if (right >= 0) keep(ir::less_equal(key, position + body.integer(DType::kI64, right)));
      if (lengths) keep(ir::less(key, ir::cast(DType::kI64, body.load(lengths, {at.batch}))));
      return score;
    };
  }
  const AttentionValues r = attend(n, s);
  if (s.q.packed)
    n.output(0, b.reshape(r.y, {s.q.batch(b), queries, query_heads * s.v.size(b)}));
  else
    n.output(0, b.transpose(r.y, {0, 2, 1, 3}));
  if (!n.wants(3)) return;
  const int64_t mode = n.integer("qk_matmul_output_mode", 0);
  if (mode < 0 || mode > 3) n.fault("qk_matmul_output_mode has to be 0 to 3");
  Value* const outputs[] = {r.scores, r.capped, r.masked, r.weights};
  n.output(3, outputs[mode]);
}

void import_rotary_embedding(Node& n) {
  Builder& b = n.b();
  Value *cos = n.input(1), *sin = n.input(2), *positions = n.optional(3);
  const Heads x = heads_of(n, 0, "num_heads");
  const DType work = ir::compute_type(n.dtype());
  const int64_t given = n.integer("rotary_embedding_dim", 0);
  Rotation r;
  r.half = given > 0 ? b.constant_expr(given / 2) : symbolic::floordiv(x.size(b), 2);
  r.interleaved = n.integer("interleaved", 0) != 0;
  cos = n.input_of_rank(1, positions ? 2 : 3);
  sin = n.input_of_rank(2, positions ? 2 : 3);
  check_equal(b, b.extent(cos, -1), r.half, "last extent of cos_cache and half of what is rotated");
  check_equal(b, b.extent(sin, -1), r.half, "last extent of sin_cache and half of what is rotated");
  if (positions) {
    check_broadcast(b, n.extent(3, 0), x.batch(b), "position_ids");
    check_equal(b, n.extent(3, 1), x.length(b), "lengths of position_ids and input");
  } else {
    check_broadcast(b, b.extent(cos, 0), x.batch(b), "cos_cache");
    check_equal(b, b.extent(cos, 1), x.length(b), "lengths of cos_cache and input");
  }
  r.angle = [=, &b](Body& body, Expr batch, Expr position, Expr pair) {
    std::vector<Scalar> at;
    if (positions) {
      const Scalar p = body.load(positions, {broadcast_index(b, batch, b.extent(positions, 0), x.batch(b)), position});
      at = {body.checked(ir::cast(DType::kI64, p), b.extent(cos, 0)), body.index(pair)};
    } else {
      at = {body.index(broadcast_index(b, batch, b.extent(cos, 0), x.batch(b))), body.index(position),
            body.index(pair)};
    }
    return std::pair(ir::cast(work, body.load(cos, at)), ir::cast(work, body.load(sin, at)));
  };
  // Elements behind the rotated ones have no pair: their angle is not asked for, but its index has to stay inside.
  if (!(r.half * 2 == x.size(b))) {
    const auto inner = r.angle;
    r.angle = [=](Body& body, Expr batch, Expr position, Expr pair) {
      return inner(body, batch, position, symbolic::max(symbolic::min(pair, r.half - 1), 0));
    };
  }
  Value* y = rotate(b, x, r);
  n.output(0, x.packed ? b.reshape(y, n.input(0)->type.extents) : y);
}

/// The state [batch, heads, key size, value size] is carried through a loop over time:
///   S *= exp(decay);  v' = beta * (v - S^T k), or v;  S += k v'^T;  y = scale * q^T S
void import_linear_attention(Node& n) {
  Builder& b = n.b();
  n.require(ir::is_float(n.dtype()), 0, "a float");
  if (n.has(3)) need_rank(n, 3, 4, 4);
  const std::string rule = n.text("update_rule", "gated_delta");
  const bool gated = rule == "gated" || rule == "gated_delta", delta = rule == "delta" || rule == "gated_delta";
  if (!gated && !delta && rule != "linear")
    n.fault("update_rule has to be linear, gated, delta or gated_delta, not " + rule);
  const int64_t q_heads = n.integer("q_num_heads", 0), kv_heads = n.integer("kv_num_heads", 0);
  if (q_heads < 1 || kv_heads < 1 || q_heads % kv_heads != 0)
    n.fault("q_num_heads has to be a multiple of kv_num_heads");
  const DType t = n.dtype(), work = ir::compute_type(t);
  const Expr heads = b.constant_expr(kv_heads), group = b.constant_expr(q_heads / kv_heads);
  const Heads q = split_heads(n, n.input_of_rank(0, 3), b.constant_expr(q_heads));
  const Heads k = split_heads(n, n.input_of_rank(1, 3), heads), v = split_heads(n, n.input_of_rank(2, 3), heads);
  const Expr batch = q.batch(b), steps = q.length(b), key = k.size(b), value = v.size(b);
  check_equal(b, q.size(b), key, "head sizes of query and key");
  for (const Heads* h : {&k, &v}) {
    check_equal(b, h->batch(b), batch, "batches of query, key and value");
    check_equal(b, h->length(b), steps, "lengths of query, key and value");
  }
  Value *past = n.optional(3), *decay = n.has(4) ? n.input_of_rank(4, 3) : nullptr,
        *beta = n.has(5) ? n.input_of_rank(5, 3) : nullptr;
  if (gated != (decay != nullptr)) n.fault("decay belongs to the gated rules, and only to them");
  if (delta != (beta != nullptr)) n.fault("beta belongs to the delta rules, and only to them");
  const DType state_type = past ? past->type.dtype : t;
  const double given = n.real("scale", 0);
  const std::vector<Expr> state_extents = {batch, heads, key, value};
  Value* start = past ? as_type(b, past, work) : b.map(state_extents, [&](Body& body) { return body.number(work, 0); });
  // One decay for each key element, or one for all of a head.
  const Expr decays = gated ? symbolic::floordiv(b.extent(decay, 2), heads) : one_of(b);
  if (gated) {
    check_equal(b, decays * heads, b.extent(decay, 2), "width of decay and of the heads");
    check_broadcast(b, decays, key, "decay");
    decay = b.reshape(decay, {batch, steps, heads, decays});
  }
  if (delta) check_broadcast(b, b.extent(beta, 2), heads, "beta");
  const std::vector<Expr> kv_axes = {batch, heads, value};

  auto block = std::make_unique<tensor::Block>();
  block->graph = &b.graph();
  Value* step = b.graph().add_input(*block, tensor::Type::tensor(DType::kI64, {}), "step");
  Value* state = b.graph().add_input(*block, tensor::Type::tensor(work, state_extents), "state");
  Builder inner(b.graph(), *block);
  inner.source = b.source;
  // An element at the current step of a tensor [batch, steps, ..].
  const auto now = [&](Body& body, Value* x, Expr sample, const std::vector<Expr>& rest) {
    std::vector<Scalar> at = {body.index(sample), body.load(step)};
    for (Expr e : rest) at.push_back(body.index(e));
    return ir::cast(work, body.load(x, at));
  };
  const auto decayed = [&](Body& body, const std::vector<Expr>& at) {
    const Scalar s = body.load(state, at);
    if (!gated) return s;
    return s * ir::unary(ScalarOp::kExp, now(body, decay, at[0], {at[1], broadcast_index(b, at[2], decays, key)}));
  };
  Value* written = nullptr;  // what is added, [batch, heads, value]
  if (delta) {
    written = inner.reduce(
        Combiner::kSum, work, kv_axes, {key},
        [&](Body& body) {
          return decayed(body, {body.i[0], body.i[1], body.r[0], body.i[2]}) *
                 now(body, k.v, body.i[0], {body.i[1], body.r[0]});
        },
        [&](Body& body, Scalar seen) {
          const Expr h = broadcast_index(b, body.i[1], b.extent(beta, 2), heads);
          return now(body, beta, body.i[0], {h}) * (now(body, v.v, body.i[0], {body.i[1], body.i[2]}) - seen);
        });
  }
  Value* next = inner.map(state_extents, [&](Body& body) {
    const Expr s = body.i[0], h = body.i[1];
    const Scalar added = delta ? body.load(written, {s, h, body.i[3]}) : now(body, v.v, s, {h, body.i[3]});
    return decayed(body, body.i) + now(body, k.v, s, {h, body.i[2]}) * added;
  });
  Value* read = inner.reduce(
      Combiner::kSum, work, {batch, heads, group, value}, {key},
      [&](Body& body) {
        const Scalar query = now(body, q.v, body.i[0], {body.i[1] * group + body.i[2], body.r[0]});
        return query * body.load(next, {body.i[0], body.i[1], body.r[0], body.i[3]});
      },
      [&](Body& body, Scalar a) {
        const Scalar scale = given != 0 ? body.number(work, given)
                                        : body.number(work, 1) / ir::unary(ScalarOp::kSqrt, number_of(body, work, key));
        return ir::cast(t, a * scale);
      });
  block->outputs = {next, read};
  tensor::Loop loop;
  loop.body = std::move(block);
  loop.has_trip_count = true;
  loop.carried = 1;
  tensor::Op* op =
      b.op(std::move(loop), {b.int_scalar(steps), start},
           {tensor::Type::tensor(work, state_extents), tensor::Type::tensor(t, {steps, batch, heads, group, value})});
  Value* y = b.transpose(op->result(1), {1, 0, 2, 3, 4});
  n.output(0, b.reshape(y, {batch, steps, heads * group * value}));
  n.output(1, as_type(b, op->result(0), state_type));
}

constexpr OperatorRow kRows[] = {
    {"", "Attention", 23, import_attention},
    {"", "RotaryEmbedding", 23, import_rotary_embedding},
    {"", "LinearAttention", 27, import_linear_attention},
};

}  // namespace

Rows attention_rows() { return kRows; }

}  // namespace stax::frontend
