// SPDX-License-Identifier: Apache-2.0
// LSTM, GRU, RNN, com.microsoft's DynamicQuantizeLSTM, and ReverseSequence.
//
// The inputs of all steps are multiplied by W in one product before the loop; a step multiplies the state by R and applies the gates.
// Time is a Loop whose carried values are the states. A direction that runs backwards reads its inputs from the end; with sequence_lens
// each sample reads its own length from the end, and a step behind it leaves the state as it is and gives 0.
//
//   Recurrence   attributes, shapes and the loop, the same for all cells
//   Cell         what one step does: LSTM, GRU and RNN below
#include <algorithm>
#include <cctype>

#include "frontend/decompositions.h"
#include "frontend/tables.h"

namespace stax::frontend {
namespace {

using ir::ScalarOp;

// ---- activations ----------------------------------------------------------------------------------------------------

struct ActivationKind {
  const char* name;
  std::optional<double> alpha, beta;  // default values, where it has them
  Scalar (*apply)(Body&, Scalar x, double alpha, double beta);
};

Scalar at(Body& body, Scalar x, double v) { return body.number(x->dtype, v); }

constexpr ActivationKind kActivations[] = {
    {"relu", {}, {}, [](Body& b, Scalar x, double, double) { return ir::binary(ScalarOp::kMax, x, at(b, x, 0)); }},
    {"tanh", {}, {}, [](Body&, Scalar x, double, double) { return ir::unary(ScalarOp::kTanh, x); }},
    {"sigmoid", {}, {}, [](Body&, Scalar x, double, double) { return ir::unary(ScalarOp::kSigmoid, x); }},
    {"affine", 1.0, 0.0,
     [](Body& b, Scalar x, double alpha, double beta) { return x * at(b, x, alpha) + at(b, x, beta); }},
    {"leakyrelu",
     0.01,
     {},
     [](Body& b, Scalar x, double alpha, double) {
       return ir::select(ir::less(x, at(b, x, 0)), x * at(b, x, alpha), x);
     }},
    {"thresholdedrelu",
     1.0,
     {},
     [](Body& b, Scalar x, double alpha, double) { return ir::select(ir::less(x, at(b, x, alpha)), at(b, x, 0), x); }},
    {"scaledtanh", 1.0, 1.0,
     [](Body& b, Scalar x, double alpha, double beta) {
       return at(b, x, alpha) * ir::unary(ScalarOp::kTanh, x * at(b, x, beta));
     }},
    {"hardsigmoid", 0.2, 0.5,
     [](Body& b, Scalar x, double alpha, double beta) {
       return clamp(x * at(b, x, alpha) + at(b, x, beta), at(b, x, 0), at(b, x, 1));
     }},
    {"elu",
     1.0,
     {},
     [](Body& b, Scalar x, double alpha, double) {
       return ir::select(ir::less(x, at(b, x, 0)), at(b, x, alpha) * ir::unary(ScalarOp::kExpm1, x), x);
     }},
    {"softsign",
     {},
     {},
     [](Body& b, Scalar x, double, double) { return x / (at(b, x, 1) + ir::unary(ScalarOp::kAbs, x)); }},
    {"softplus",
     {},
     {},
     [](Body& b, Scalar x, double, double) {
       // log(1 + e^x) without overflow
       const Scalar rest = ir::unary(ScalarOp::kLog1p, ir::unary(ScalarOp::kExp, -ir::unary(ScalarOp::kAbs, x)));
       return ir::binary(ScalarOp::kMax, x, at(b, x, 0)) + rest;
     }},
};

}  // namespace

Activation activation_named(const Node& n, const std::string& name, const ActivationParameters& parameters) {
  std::string lower = name;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto kind =
      std::find_if(std::begin(kActivations), std::end(kActivations), [&](const auto& a) { return lower == a.name; });
  if (kind == std::end(kActivations)) n.fault("there is no activation '" + name + "'");
  const double alpha = kind->alpha ? parameters.alpha().value_or(*kind->alpha) : 0;
  const double beta = kind->beta ? parameters.beta().value_or(*kind->beta) : 0;
  return [apply = kind->apply, alpha, beta](Body& body, Scalar x) { return apply(body, x, alpha, beta); };
}

namespace {

/// The activations of all directions, one after the other. Alphas and betas are consumed in order by those that have them.
std::vector<Activation> read_activations(Node& n, const std::vector<std::string>& defaults, int directions) {
  std::vector<std::string> names = n.texts("activations");
  const size_t count = defaults.size() * directions;
  if (names.empty())
    for (int d = 0; d < directions; ++d) names.insert(names.end(), defaults.begin(), defaults.end());
  if (names.size() < count)
    n.fault("activations has " + std::to_string(names.size()) + " names, needs " + std::to_string(count));
  const auto next_of = [&](const char* attribute) {
    return [values = n.reals(attribute).value_or(std::vector<double>{}), next = size_t{0}]() mutable {
      return next < values.size() ? std::optional<double>(values[next++]) : std::nullopt;
    };
  };
  const ActivationParameters parameters{next_of("activation_alpha"), next_of("activation_beta")};
  std::vector<Activation> out;
  for (size_t k = 0; k < count; ++k) out.push_back(activation_named(n, names[k], parameters));
  return out;
}

// ---- the loop over time ---------------------------------------------------------------------------------------------

/// Sums over the hidden axis: sum over k of h[b, k] * R[first + g, k], made into an element by `finish`.
using GateFn = std::function<Scalar(Body&, Scalar sum, Expr sample, Expr gate)>;

struct Recurrence {
  Node& n;
  Builder& b;
  int gates, directions;
  bool batch_first;
  std::vector<bool> backwards;  // by direction
  DType type, work;
  Expr steps, batch, width, hidden;
  Value *x, *w, *r, *bias, *lengths;
  std::optional<double> clip;
  /// Of direction d: all inputs times W, [steps, batch, gates * hidden], and the state times a part of R.
  std::function<Value*(int d, Value* offsets)> project;
  std::function<Value*(Builder&, int d, Value* h, Expr first, Expr count, const GateFn&)> multiply;

  Recurrence(Node& node, int gate_count);
  Expr size() const { return hidden * gates; }
  std::vector<Expr> state() const { return {batch, hidden}; }
  /// Wb + Rb of direction d, Rb only where `both` says so; null without bias.
  Value* offsets(int d, const std::function<Expr(Expr gate)>& both = {});
  Value* initial(int k, int d);
  Scalar clipped(Body& body, Scalar v) const;
  Value* gather_states(const std::vector<Value*>& finals);
  Value* gather_steps(const std::vector<Value*>& scans);
};

Recurrence::Recurrence(Node& node, int gate_count) : n(node), b(node.b()), gates(gate_count) {
  const std::string direction = n.text("direction", "forward");
  if (direction == "forward")
    backwards = {false};
  else if (direction == "reverse")
    backwards = {true};
  else if (direction == "bidirectional")
    backwards = {false, true};
  else
    n.fault("direction has to be forward, reverse or bidirectional, not " + direction);
  directions = static_cast<int>(backwards.size());
  batch_first = n.integer("layout", 0) != 0;
  n.require(ir::is_float(n.dtype()), 0, "a float");
  x = n.input_of_rank(0, 3);
  w = n.input_of_rank(1, 3);
  r = n.input_of_rank(2, 3);
  bias = n.has(3) ? n.input_of_rank(3, 2) : nullptr;
  lengths = n.has(4) ? n.input_of_rank(4, 1) : nullptr;
  type = n.dtype();
  work = ir::compute_type(type);
  steps = b.extent(x, batch_first ? 1 : 0);
  batch = b.extent(x, batch_first ? 0 : 1);
  width = b.extent(x, 2);
  if (n.has_attribute("clip")) clip = n.real("clip", 0);
  const int64_t named = n.integer("hidden_size", 0);
  hidden = named > 0 ? b.constant_expr(named)
                     : symbolic::floordiv(b.extent(bias ? bias : r, bias ? 1 : 2), bias ? 2 * gates : 1);
  const Expr d = b.constant_expr(directions);
  for (const Value* v : {w, r})
    check_equal(b, b.extent(v, 0), d, "first extent of the weights and number of directions");
  if (bias) {
    check_equal(b, b.extent(bias, 0), d, "first extent of B and number of directions");
    check_equal(b, b.extent(bias, 1), size() * 2, "width of B and of the gates");
  }
  if (lengths) {
    check_equal(b, b.extent(lengths, 0), batch, "length of sequence_lens and the batch");
    // Longer than the input is as long as the input.
    lengths = b.map({batch}, [&](Body& body) {
      const Scalar length = ir::cast(DType::kI64, body.load(n.input(4), {body.i[0]}));
      return clamp(length, body.integer(DType::kI64, 0), body.index(steps));
    });
  }
}

Value* Recurrence::offsets(int d, const std::function<Expr(Expr gate)>& both) {
  if (!bias) return nullptr;
  const Expr direction = b.constant_expr(d);
  return b.map({size()}, [&](Body& body) {
    const Expr g = body.i[0];
    const Scalar of_w = ir::cast(work, body.load(bias, {direction, g})),
                 of_r = ir::cast(work, body.load(bias, {direction, g + size()}));
    return both ? ir::select(holds(body, both(g)), of_w + of_r, of_w) : of_w + of_r;
  });
}

/// Input k as the first state of direction d, [batch, hidden]; zeros if there is none.
Value* Recurrence::initial(int k, int d) {
  if (!n.has(k)) return b.map(state(), [&](Body& body) { return body.number(work, 0); });
  Value* v = n.input_of_rank(k, 3);
  check_equal(b, b.extent(v, batch_first ? 1 : 0), b.constant_expr(directions), "directions of an initial state");
  check_equal(b, b.extent(v, batch_first ? 0 : 1), batch, "batch of an initial state and of the input");
  check_equal(b, b.extent(v, 2), hidden, "width of an initial state and hidden_size");
  const Expr direction = b.constant_expr(d);
  return b.map(state(), [&](Body& body) {
    const std::vector<Expr> at = batch_first ? std::vector<Expr>{body.i[0], direction, body.i[1]}
                                             : std::vector<Expr>{direction, body.i[0], body.i[1]};
    return ir::cast(work, body.load(v, at));
  });
}

Scalar Recurrence::clipped(Body& body, Scalar v) const {
  return clip ? clamp(v, at(body, v, -*clip), at(body, v, *clip)) : v;
}

/// Final states of all directions as [directions, batch, hidden], or [batch, directions, hidden].
Value* Recurrence::gather_states(const std::vector<Value*>& finals) {
  const Expr d = b.constant_expr(directions);
  const std::vector<Expr> extents =
      batch_first ? std::vector<Expr>{batch, d, hidden} : std::vector<Expr>{d, batch, hidden};
  if (directions == 1) return b.reshape(as_type(b, finals[0], type), extents);
  return b.map(extents, [&](Body& body) {
    const Expr direction = body.i[batch_first ? 1 : 0], sample = body.i[batch_first ? 0 : 1];
    const auto value = [&](int k) { return ir::cast(type, body.load(finals[k], {sample, body.i[2]})); };
    return ir::select(holds(body, symbolic::equal(direction, 0)), value(0), value(1));
  });
}

/// What the steps gave, in order of time: [steps, directions, batch, hidden], or [batch, steps, directions, hidden].
Value* Recurrence::gather_steps(const std::vector<Value*>& scans) {
  const Expr d = b.constant_expr(directions);
  const std::vector<Expr> extents =
      batch_first ? std::vector<Expr>{batch, steps, d, hidden} : std::vector<Expr>{steps, d, batch, hidden};
  if (directions == 1 && !backwards[0] && !batch_first) return b.reshape(as_type(b, scans[0], type), extents);
  return b.map(extents, [&](Body& body) {
    const Expr time = body.i[batch_first ? 1 : 0], direction = body.i[batch_first ? 2 : 1],
               sample = body.i[batch_first ? 0 : 2];
    const auto value = [&](int k) {
      Scalar step = body.index(time);
      if (backwards[k] && !lengths) step = body.index(steps - 1 - time);
      if (backwards[k] && lengths) {
        const Scalar length = body.load(lengths, {sample});
        step = ir::select(ir::less(step, length), length - body.integer(DType::kI64, 1) - step, step);
      }
      return ir::cast(type, body.load(scans[k], {step, body.index(sample), body.index(body.i[3])}));
    };
    if (directions == 1) return value(0);
    return ir::select(holds(body, symbolic::equal(direction, 0)), value(0), value(1));
  });
}

/// A step of a direction, inside of the loop's body.
struct Step {
  Recurrence& r;
  Builder& b;  // of the body
  int direction;
  Value* number;     // i64, rank 0
  Value* projected;  // [steps, batch, gates * hidden]
  std::vector<Value*> states;

  Value* h() const { return states[0]; }
  /// The projected input of gate element g.
  Scalar input(Body& body, Expr sample, Expr g) const {
    Scalar time = body.load(number);
    const Scalar one = body.integer(DType::kI64, 1);
    if (r.backwards[direction] && !r.lengths) time = body.index(r.steps - 1) - time;
    if (r.backwards[direction] && r.lengths) {
      const Scalar length = body.load(r.lengths, {sample});
      time = ir::select(ir::less(time, length), length - one - time, time);
    }
    return body.load(projected, {time, body.index(sample), body.index(g)});
  }
};

/// New states, the hidden one first.
using Cell = std::function<std::vector<Value*>(Step&)>;

/// Runs `cell` over time in each direction. `starts` gives the input number of each state's initial value; the outputs are Y and then
/// one for each state.
void run(Recurrence& r, const std::vector<int>& starts, const std::function<Value*(int d)>& offsets, const Cell& cell) {
  Builder& b = r.b;
  const bool wants_steps = r.n.wants(0);
  std::vector<std::vector<Value*>> finals(starts.size());
  std::vector<Value*> scans;
  for (int d = 0; d < r.directions; ++d) {
    Value* projected = r.project(d, offsets(d));
    auto block = std::make_unique<tensor::Block>();
    block->graph = &b.graph();
    Value* number = b.graph().add_input(*block, tensor::Type::tensor(DType::kI64, {}), "step");
    Builder inner(b.graph(), *block);
    inner.source = b.source;
    Step step{r, inner, d, number, projected, {}};
    std::vector<Value*> operands = {b.int_scalar(r.steps)};
    std::vector<tensor::Type> results;
    for (int k : starts) {
      operands.push_back(r.initial(k, d));
      step.states.push_back(b.graph().add_input(*block, operands.back()->type, "state"));
      results.push_back(operands.back()->type);
    }
    std::vector<Value*> next = cell(step);
    Value* given = next[0];
    if (r.lengths) {
      // Behind the end of its sequence a sample keeps its states.
      const auto running = [&](Body& body) { return ir::less(body.load(number), body.load(r.lengths, {body.i[0]})); };
      given = inner.map(r.state(), [&](Body& body) {
        return ir::select(running(body), body.load(next[0], body.i), body.number(r.work, 0));
      });
      for (size_t k = 0; k < next.size(); ++k)
        next[k] = inner.map(r.state(), [&, fresh = next[k], old = step.states[k]](Body& body) {
          return ir::select(running(body), body.load(fresh, body.i), body.load(old, body.i));
        });
    }
    block->outputs = next;
    if (wants_steps) {
      block->outputs.push_back(given);
      results.push_back(tensor::Type::tensor(r.work, {r.steps, r.batch, r.hidden}));
    }
    tensor::Loop loop;
    loop.body = std::move(block);
    loop.has_trip_count = true;
    loop.carried = static_cast<int>(starts.size());
    tensor::Op* op = b.op(std::move(loop), operands, results);
    for (size_t k = 0; k < starts.size(); ++k) finals[k].push_back(op->result(static_cast<int>(k)));
    if (wants_steps) scans.push_back(op->result(static_cast<int>(starts.size())));
  }
  if (wants_steps) r.n.output(0, r.gather_steps(scans));
  for (size_t k = 0; k < starts.size(); ++k)
    if (r.n.wants(static_cast<int>(k) + 1)) r.n.output(static_cast<int>(k) + 1, r.gather_states(finals[k]));
}

/// W [directions, gates * hidden, width] and R [directions, gates * hidden, hidden] as they are.
void use_real_weights(Recurrence& r) {
  Builder& b = r.b;
  check_equal(b, b.extent(r.w, 1), r.size(), "rows of W and of the gates");
  check_equal(b, b.extent(r.r, 1), r.size(), "rows of R and of the gates");
  check_equal(b, b.extent(r.w, 2), r.width, "width of W and of the input");
  check_equal(b, b.extent(r.r, 2), r.hidden, "width of R and hidden_size");
  const auto matrix = [&b, &r](Value* v, int d) {
    Value* own = b.slice(v, 0, b.constant_expr(d), one_of(b), one_of(b));
    return b.reshape(own, {r.size(), b.extent(v, 2)});
  };
  r.project = [&r, &b, matrix](int d, Value* offsets) {
    Value* w = matrix(r.w, d);
    return b.reduce(
        Combiner::kSum, r.work, {r.steps, r.batch, r.size()}, {r.width},
        [&](Body& body) {
          const Expr time = body.i[0], sample = body.i[1], k = body.r[0];
          const std::vector<Expr> at =
              r.batch_first ? std::vector<Expr>{sample, time, k} : std::vector<Expr>{time, sample, k};
          return ir::cast(r.work, body.load(r.x, at)) * ir::cast(r.work, body.load(w, {body.i[2], k}));
        },
        [&](Body& body, Scalar a) { return offsets ? a + body.load(offsets, {body.i[2]}) : a; });
  };
  std::vector<Value*> recurrent;
  for (int d = 0; d < r.directions; ++d) recurrent.push_back(matrix(r.r, d));
  r.multiply = [&r, recurrent](Builder& inner, int d, Value* h, Expr first, Expr count, const GateFn& finish) {
    return inner.reduce(
        Combiner::kSum, r.work, {r.batch, count}, {r.hidden},
        [&](Body& body) {
          const Expr k = body.r[0];
          return ir::cast(r.work, body.load(h, {body.i[0], k})) *
                 ir::cast(r.work, body.load(recurrent[d], {body.i[1] + first, k}));
        },
        [&](Body& body, Scalar a) { return finish(body, a, body.i[0], body.i[1] + first); });
  };
}

// ---- cells ----------------------------------------------------------------------------------------------------------

/// Gates i, o, f, c. A clip bounds what the gates' activations see, not the cell on its way to the output. Peepholes P of i, o, f at input k (7 for LSTM).
void run_lstm(Node& n, Recurrence& r, int first_state, int peepholes) {
  Builder& b = r.b;
  const std::vector<Activation> act = read_activations(n, {"sigmoid", "tanh", "tanh"}, r.directions);
  const bool coupled = n.integer("input_forget", 0) != 0;
  Value* p = n.has(peepholes) ? n.input_of_rank(peepholes, 2) : nullptr;
  if (p) check_equal(b, b.extent(p, 1), r.hidden * 3, "width of P and 3 * hidden_size");
  run(
      r, {first_state, first_state + 1}, [&](int d) { return r.offsets(d); },
      [&](Step& s) {
        const Activation &f = act[3 * s.direction], &g = act[3 * s.direction + 1], &h = act[3 * s.direction + 2];
        Value* gates =
            r.multiply(s.b, s.direction, s.h(), zero_of(b), r.size(),
                       [&](Body& body, Scalar a, Expr sample, Expr gate) { return a + s.input(body, sample, gate); });
        const auto gate = [&](Body& body, int k) { return body.load(gates, {body.i[0], body.i[1] + r.hidden * k}); };
        const auto peep = [&](Body& body, int k, Scalar v, Scalar c) {
          if (!p) return v;
          return v + ir::cast(r.work, body.load(p, {b.constant_expr(s.direction), body.i[1] + r.hidden * k})) * c;
        };
        Value* cell = s.b.map(r.state(), [&](Body& body) {
          const Scalar old = body.load(s.states[1], body.i);
          const Scalar in = f(body, r.clipped(body, peep(body, 0, gate(body, 0), old)));
          const Scalar keep =
              coupled ? at(body, in, 1) - in : f(body, r.clipped(body, peep(body, 2, gate(body, 2), old)));
          return keep * old + in * g(body, r.clipped(body, gate(body, 3)));
        });
        Value* hidden = s.b.map(r.state(), [&](Body& body) {
          const Scalar c = body.load(cell, body.i);
          return f(body, r.clipped(body, peep(body, 1, gate(body, 1), c))) * h(body, c);
        });
        return std::vector<Value*>{hidden, cell};
      });
}

void import_lstm(Node& n) {
  Recurrence r(n, 4);
  use_real_weights(r);
  run_lstm(n, r, 5, 7);
}

/// Gates z, r, h.
void import_gru(Node& n) {
  Recurrence r(n, 3);
  use_real_weights(r);
  Builder& b = r.b;
  const std::vector<Activation> act = read_activations(n, {"sigmoid", "tanh"}, r.directions);
  const bool linear_first = n.integer("linear_before_reset", 0) != 0;
  const Expr two = r.hidden * 2;
  // With linear_before_reset, the recurrent bias of h belongs to what r multiplies.
  const auto offsets = [&](int d) {
    if (!linear_first) return r.offsets(d);
    return r.offsets(d, [&](Expr gate) { return symbolic::less(gate, two); });
  };
  run(r, {5}, offsets, [&](Step& s) {
    const Activation &f = act[2 * s.direction], &g = act[2 * s.direction + 1];
    const auto blend = [&](Body& body, Scalar z, Scalar fresh) {
      return (at(body, z, 1) - z) * fresh + z * body.load(s.h(), body.i);
    };
    if (linear_first) {
      Value* gates =
          r.multiply(s.b, s.direction, s.h(), zero_of(b), r.size(), [&](Body& body, Scalar a, Expr sample, Expr gate) {
            const Scalar in = s.input(body, sample, gate);
            Scalar own = a;
            if (r.bias) own = a + ir::cast(r.work, body.load(r.bias, {b.constant_expr(s.direction), r.size() + gate}));
            return ir::select(holds(body, symbolic::less(gate, two)), a + in, own);
          });
      return std::vector<Value*>{s.b.map(r.state(), [&](Body& body) {
        const Expr sample = body.i[0], j = body.i[1];
        const Scalar z = f(body, r.clipped(body, body.load(gates, {sample, j})));
        const Scalar reset = f(body, r.clipped(body, body.load(gates, {sample, j + r.hidden})));
        const Scalar fresh = s.input(body, sample, j + two) + reset * body.load(gates, {sample, j + two});
        return blend(body, z, g(body, r.clipped(body, fresh)));
      })};
    }
    Value* gates =
        r.multiply(s.b, s.direction, s.h(), zero_of(b), two, [&](Body& body, Scalar a, Expr sample, Expr gate) {
          return f(body, r.clipped(body, a + s.input(body, sample, gate)));
        });
    Value* reset = s.b.map(r.state(), [&](Body& body) {
      return body.load(gates, {body.i[0], body.i[1] + r.hidden}) * body.load(s.h(), body.i);
    });
    Value* fresh =
        r.multiply(s.b, s.direction, reset, two, r.hidden, [&](Body& body, Scalar a, Expr sample, Expr gate) {
          return g(body, r.clipped(body, a + s.input(body, sample, gate)));
        });
    return std::vector<Value*>{s.b.map(
        r.state(), [&](Body& body) { return blend(body, body.load(gates, body.i), body.load(fresh, body.i)); })};
  });
}

void import_rnn(Node& n) {
  Recurrence r(n, 1);
  use_real_weights(r);
  const std::vector<Activation> act = read_activations(n, {"tanh"}, r.directions);
  run(
      r, {5}, [&](int d) { return r.offsets(d); },
      [&](Step& s) {
        return std::vector<Value*>{r.multiply(
            s.b, s.direction, s.h(), zero_of(r.b), r.hidden, [&](Body& body, Scalar a, Expr sample, Expr gate) {
              return act[s.direction](body, r.clipped(body, a + s.input(body, sample, gate)));
            })};
      });
}

/// com.microsoft: W [directions, width, 4 * hidden] and R [directions, hidden, 4 * hidden] are 8-bit, each with a scale and a zero
/// point per direction or per direction and column. Input and state are quantized as they come: all steps of the input at once, the
/// state in each step.
void import_dynamic_quantize_lstm(Node& n) {
  Recurrence r(n, 4);
  Builder& b = r.b;
  if (r.type != DType::kF32) n.fault("its input has to be of type float32");
  check_equal(b, b.extent(r.w, 1), r.width, "rows of W and width of the input");
  check_equal(b, b.extent(r.r, 1), r.hidden, "rows of R and hidden_size");
  for (const Value* v : {r.w, r.r}) check_equal(b, b.extent(v, 2), r.size(), "columns of the weights and of the gates");
  // Scale or zero point of column g in direction d.
  const auto parameter = [&b, &r](Body& body, Value* v, DType t, int d, Expr g) {
    if (!v) return body.integer(t, 0);
    const Expr direction = b.constant_expr(d);
    if (v->type.static_rank() == 0) return ir::cast(t, body.load(v));
    if (v->type.static_rank() == 1) return ir::cast(t, body.load(v, {direction}));
    return ir::cast(t, body.load(v, {direction, broadcast_index(b, g, b.extent(v, 1), r.size())}));
  };
  const auto element = [](Body& body, Value* v, const std::vector<Expr>& at, Scalar zero) {
    return ir::cast(DType::kI32, body.load(v, at)) - zero;
  };
  const DynamicRange x = quantize_dynamically(b, r.x);
  Value *scale_w = n.input(8), *zero_w = n.optional(9), *scale_r = n.input(10), *zero_r = n.optional(11);
  r.project = [&, x](int d, Value* offsets) {
    return b.reduce(
        Combiner::kSum, DType::kI32, {r.steps, r.batch, r.size()}, {r.width},
        [&](Body& body) {
          const Expr time = body.i[0], sample = body.i[1], g = body.i[2], k = body.r[0];
          const std::vector<Expr> place =
              r.batch_first ? std::vector<Expr>{sample, time, k} : std::vector<Expr>{time, sample, k};
          return element(body, x.y, place, ir::cast(DType::kI32, body.load(x.zero))) *
                 element(body, r.w, {b.constant_expr(d), k, g}, parameter(body, zero_w, DType::kI32, d, g));
        },
        [&](Body& body, Scalar a) {
          const Scalar step = body.load(x.scale) * parameter(body, scale_w, DType::kF32, d, body.i[2]);
          const Scalar real = ir::cast(DType::kF32, a) * step;
          return offsets ? real + body.load(offsets, {body.i[2]}) : real;
        });
  };
  r.multiply = [&](Builder& inner, int d, Value* h, Expr first, Expr count, const GateFn& finish) {
    const DynamicRange q = quantize_dynamically(inner, h);
    return inner.reduce(
        Combiner::kSum, DType::kI32, {r.batch, count}, {r.hidden},
        [&](Body& body) {
          const Expr g = body.i[1] + first, k = body.r[0];
          return element(body, q.y, {body.i[0], k}, ir::cast(DType::kI32, body.load(q.zero))) *
                 element(body, r.r, {b.constant_expr(d), k, g}, parameter(body, zero_r, DType::kI32, d, g));
        },
        [&](Body& body, Scalar a) {
          const Expr g = body.i[1] + first;
          const Scalar step = body.load(q.scale) * parameter(body, scale_r, DType::kF32, d, g);
          return finish(body, ir::cast(DType::kF32, a) * step, body.i[0], g);
        });
  };
  run_lstm(n, r, 5, 7);
}

// ---- reversal -------------------------------------------------------------------------------------------------------

void import_reverse_sequence(Node& n) {
  Builder& b = n.b();
  const int rank = need_rank(n, 0, 2);
  Value *x = n.input(0), *lengths = n.input_of_rank(1, 1);
  const int time = n.axis(n.integer("time_axis", 0), rank), batch = n.axis(n.integer("batch_axis", 1), rank);
  if (time == batch) n.fault("time_axis and batch_axis are the same");
  check_equal(b, b.extent(lengths, 0), b.extent(x, batch), "length of sequence_lens and the batch");
  n.output(0, b.map(x->type.extents, [&](Body& body) {
    std::vector<Scalar> index;
    for (Expr i : body.i) index.push_back(body.index(i));
    const Scalar length = ir::cast(DType::kI64, body.load(lengths, {body.i[batch]})), now = index[time];
    const Scalar turned = body.checked(length - body.integer(DType::kI64, 1) - now, b.extent(x, time));
    index[time] = ir::select(ir::less(now, length), turned, now);
    return body.load(x, index);
  }));
}

constexpr OperatorRow kRows[] = {
    {"", "LSTM", 7, import_lstm},
    {"", "GRU", 7, import_gru},
    {"", "RNN", 7, import_rnn},
    {"com.microsoft", "DynamicQuantizeLSTM", 1, import_dynamic_quantize_lstm},
    {"", "ReverseSequence", 10, import_reverse_sequence},
};

}  // namespace

std::span<const OperatorRow> recurrent_operators() { return kRows; }

}  // namespace stax::frontend
