// SPDX-License-Identifier: Apache-2.0
#pragma once
// Random tensor graphs over symbolic extents: ops of every form that lowering and schedules know.
#include "unit/compile/random_graph_base.h"

namespace stax::compile {

class RandomGraph : public RandomGraphBase {
 public:
  using RandomGraphBase::RandomGraphBase;

  // ---- ops. Each returns a value of symbolic extents.

  /// An operand that is read at the axes `i` of extents `e`: whole, in part, broadcast, transposed, reversed, shifted or strided.
  Scalar operand(Body& body, DType t, const std::vector<Expr>& i, const std::vector<Expr>& e, Data data = Data::kTame) {
    struct Place {
      Expr extent, index;
    };
    std::vector<Place> places;
    const size_t from = chance(25) && i.size() > 1 ? 1 : 0;
    for (size_t k = from; k < i.size(); ++k) {
      switch (pick(12)) {
        case 0: places.push_back({number(1), number(0)}); break;
        case 1: places.push_back({e[k], e[k] - 1 - i[k]}); break;
        case 2: places.push_back({e[k] + 2, i[k] + 1}); break;
        case 3: places.push_back({e[k] * 2 + 1, i[k] * 2 + 1}); break;
        case 4: break;
        default: places.push_back({e[k], i[k]}); break;
      }
    }
    if (chance(30)) std::shuffle(places.begin(), places.end(), random);
    std::vector<Expr> own, index;
    for (const Place& p : places) own.push_back(p.extent), index.push_back(p.index);
    return body.load(input(t, own, data), index);
  }
  Scalar operand(Body& body, DType t, Data data = Data::kTame) { return operand(body, t, body.i, current, data); }

  DType number_type() {
    return one_of({DType::kF32, DType::kF32, DType::kF32, DType::kF64, DType::kF16, DType::kBF16, DType::kI32,
                   DType::kI64, DType::kU8, DType::kI8});
  }

  Value* map() {
    current = extents(pick(5));
    inexact = false;
    const DType t = chance(10) ? DType::kBool : number_type();
    const Data data = ir::is_float(t) && chance(25) ? Data::kSpecial : Data::kTame;
    return b.map(current, [&](Body& body) {
      Scalar x = operand(body, t, data);
      for (int k = pick(3); k > 0; --k) x = decorate(combine(x, operand(body, t, data)));
      if (!current.empty() && chance(20)) x = combine(x, b.scalars().cast(t, body.index(body.i[0] * 3 + 1)));
      if (chance(20))
        x = b.scalars().cast(
            inexact ? one_of({DType::kF32, DType::kF16}) : one_of({DType::kF32, DType::kI32, DType::kF16, DType::kI64}),
            x);
      return x;
    });
  }

  /// Concatenation, padding, gathering, by the builder's words.
  Value* view() {
    const DType t = number_type();
    std::vector<Expr> e = extents(1 + pick(3));
    const int axis = pick(static_cast<int>(e.size()));
    Value* x = input(t, e);
    switch (pick(5)) {
      case 0: {
        std::vector<Expr> other = e;
        other[static_cast<size_t>(axis)] = extent();
        return b.concat({x, input(t, other), x}, axis);
      }
      case 1: {
        std::vector<Expr> before, after;
        for (size_t k = 0; k < e.size(); ++k)
          before.push_back(number(pick(3))), after.push_back(chance(30) ? dims[0] : number(pick(2)));
        return b.pad_constant(x, before, after, chance(50) ? Scalar() : b.scalars().constant_int(t, 1));
      }
      case 2: {
        Value* at = input(DType::kI64, extents(pick(3)), Data::kIndex, e[static_cast<size_t>(axis)]);
        return b.gather(x, at, axis);
      }
      case 3: {
        std::vector<int> order(e.size());
        for (size_t k = 0; k < order.size(); ++k) order[k] = static_cast<int>(k);
        std::shuffle(order.begin(), order.end(), random);
        return b.transpose(x, order);
      }
      default: return b.softmax(input(DType::kF32, e), axis);
    }
  }

  Value* reduction() {
    const DType t = chance(10) ? DType::kBool : number_type();
    Combiner combiner = Combiner::kAnd;
    if (t == DType::kBool) {
      combiner = one_of({Combiner::kAnd, Combiner::kOr});
    } else {
      combiner = one_of({Combiner::kSum, Combiner::kSum, Combiner::kProd, Combiner::kMin, Combiner::kMax,
                         Combiner::kArgMaxFirst, Combiner::kArgMaxLast, Combiner::kArgMinFirst, Combiner::kArgMinLast});
    }
    current = extents(pick(4));
    const std::vector<Expr> over = extents(1 + pick(2));
    Data data = combiner == Combiner::kProd ? Data::kSigns : Data::kTame;
    if (ir::is_float(t) && combiner != Combiner::kProd && combiner != Combiner::kSum && chance(40))
      data = Data::kSpecial;
    DType accumulate = ir::compute_type(t);
    if (combiner == Combiner::kSum && t == DType::kF32 && chance(30)) accumulate = DType::kF64;
    if (ir::is_integer(t) && chance(30)) accumulate = DType::kI64;
    const bool arg = tensor::is_arg(combiner);
    tensor::EpilogueFn epilogue;
    if (chance(40) && t != DType::kBool) {
      epilogue = [&, arg](Body& body, Scalar acc) {
        if (arg) return acc + body.integer(DType::kI64, 5);
        return b.scalars().cast(t,
                                combiner == Combiner::kProd ? acc : acc + operand(body, acc->dtype, body.i, current));
      };
    }
    return b.reduce(
        combiner, accumulate, current, over,
        [&](Body& body) {
          std::vector<Expr> at = body.i, e = current;
          at.insert(at.end(), body.r.begin(), body.r.end());
          e.insert(e.end(), over.begin(), over.end());
          Scalar x = operand(body, t, at, e, data);
          if (chance(30) && combiner != Combiner::kProd && t != DType::kBool)
            x = b.scalars().op(ScalarOp::kMax, {x, operand(body, t, at, e, data)});
          return arg ? x : b.scalars().cast(accumulate, x);
        },
        epilogue);
  }

  /// sum over k of A * B, with any axes in any order; a bias and a clamp behind it sometimes.
  Value* contraction() {
    struct Label {
      Expr extent;
      bool in_a, in_b, out;
    };
    std::vector<Label> labels;
    for (int k = pick(3); k > 0; --k) labels.push_back({extent(), true, chance(70), true});
    if (chance(85)) labels.push_back({extent(), true, false, true});
    if (chance(85)) labels.push_back({extent(), false, true, true});
    for (int k = 1 + pick(2); k > 0; --k) labels.push_back({extent(), true, true, false});
    if (chance(30)) std::shuffle(labels.begin(), labels.end(), random);
    const DType t = one_of({DType::kF32, DType::kF32, DType::kF32, DType::kF64, DType::kF16, DType::kBF16, DType::kI8,
                            DType::kU8, DType::kI32});
    const DType accumulate = t == DType::kI8 || t == DType::kU8 ? DType::kI32 : ir::compute_type(t);
    current.clear();
    std::vector<Expr> over;
    for (const Label& l : labels) (l.out ? current : over).push_back(l.extent);
    tensor::EpilogueFn epilogue;
    if (chance(40)) {
      epilogue = [&](Body& body, Scalar acc) {
        Scalar x = acc;
        if (!current.empty()) x = x + body.load(input(accumulate, {current.back()}), std::vector<Expr>{body.i.back()});
        return b.scalars().cast(t, b.scalars().op(ScalarOp::kMax, {x, b.scalars().constant_int(accumulate, 0)}));
      };
    }
    const bool turned = chance(50), offset = ir::is_integer(t) && chance(50);
    return b.reduce(
        Combiner::kSum, accumulate, current, over,
        [&](Body& body) {
          std::vector<Expr> index[2], e[2];
          size_t out = 0, in = 0;
          for (const Label& l : labels) {
            const Expr var = l.out ? body.i[out++] : body.r[in++];
            for (int side = 0; side < 2; ++side)
              if (side == 0 ? l.in_a : l.in_b) index[side].push_back(var), e[side].push_back(l.extent);
          }
          if (turned && e[1].size() > 1)
            std::reverse(index[1].begin(), index[1].end()), std::reverse(e[1].begin(), e[1].end());
          Scalar x = b.scalars().cast(accumulate, body.load(input(t, e[0]), index[0]));
          const Scalar y = b.scalars().cast(accumulate, body.load(input(t, e[1]), index[1]));
          if (offset) x = x - body.integer(accumulate, 3);
          return x * y;
        },
        epilogue);
  }

  /// A window over one or two axes, with stride, dilation and padding.
  Value* convolution() {
    const int axes = 1 + pick(2);
    const int64_t channels = one_of<int64_t>({1, 3, 8}), outputs = one_of<int64_t>({1, 4, 16, 33});
    const bool depthwise = chance(25);
    std::vector<Expr> x{dims[0], number(channels)}, w{number(depthwise ? channels : outputs), number(channels)}, over;
    current = {dims[0], w[0]};
    if (!depthwise)
      over.push_back(number(channels));
    else
      w.pop_back();
    struct Axis {
      Expr extent;
      int64_t stride, dilation, pad, window;
    };
    std::vector<Axis> window;
    for (int k = 0; k < axes; ++k) {
      const Axis a{dims[1 + k], 1 + pick(2), 1 + pick(2), pick(3), 1 + pick(3)};
      window.push_back(a);
      x.push_back(a.extent);
      w.push_back(number(a.window));
      over.push_back(number(a.window));
      current.push_back(
          symbolic::max(symbolic::floordiv(a.extent + (2 * a.pad - a.dilation * (a.window - 1) - 1), a.stride) + 1, 0));
    }
    const DType t = one_of({DType::kF32, DType::kF32, DType::kF64, DType::kF16});
    Value* data = input(t, x);
    Value* weights = input(t, w);
    const DType accumulate = ir::compute_type(t);
    return b.reduce(Combiner::kSum, accumulate, current, over, [&](Body& body) {
      std::vector<Expr> at{body.i[0]}, wat{body.i[1]};
      size_t r = 0;
      if (depthwise)
        at.push_back(body.i[1]);
      else
        at.push_back(body.r[r]), wat.push_back(body.r[r++]);
      Expr inside = number(1);
      for (size_t k = 0; k < window.size(); ++k, ++r) {
        const Expr position = body.i[2 + k] * window[k].stride + body.r[r] * window[k].dilation - window[k].pad;
        inside = symbolic::logical_and(inside, symbolic::logical_and(symbolic::less_equal(number(0), position),
                                                                     symbolic::less(position, window[k].extent)));
        at.push_back(position);
        wat.push_back(body.r[r]);
      }
      auto& s = b.scalars();
      const Scalar value = ir::select(s.cast(DType::kBool, s.index(inside)), s.cast(accumulate, body.load(data, at)),
                                      s.constant_int(accumulate, 0));
      return value * s.cast(accumulate, body.load(weights, wat));
    });
  }

  /// Channels last, read through padding that differs from side to side.
  Value* padded_convolution() {
    const int64_t channels = one_of<int64_t>({16, 17, 40}), outputs = one_of<int64_t>({8, 16, 33, 64});
    std::vector<Expr> x{dims[0]}, w, over;
    struct Axis {
      Expr extent;
      int64_t stride, dilation, before, after, window;
    };
    std::vector<Axis> window;
    current = {dims[0]};
    for (int k = 1 + pick(2); k > 0; --k) {
      const Axis a{dims[k], 1 + pick(2), 1 + pick(2), pick(3), pick(3), 1 + pick(3)};
      window.push_back(a);
      x.push_back(a.extent);
      w.push_back(number(a.window));
      current.push_back(symbolic::max(
          symbolic::floordiv(a.extent + (a.before + a.after - a.dilation * (a.window - 1) - 1), a.stride) + 1, 0));
    }
    over = w;
    for (std::vector<Expr>* e : {&x, &w, &over}) e->push_back(number(channels));
    w.push_back(number(outputs));
    current.push_back(number(outputs));
    const DType t = one_of({DType::kF32, DType::kF32, DType::kF64});
    Value* data = input(t, x);
    Value* weights = chance(30) ? input(t, w) : b.constant(finite_or_not(t, w));
    return b.reduce(Combiner::kSum, t, current, over, [&](Body& body) {
      std::vector<Expr> at{body.i[0]}, wat;
      Expr inside = number(1);
      for (size_t k = 0; k < window.size(); ++k) {
        const Expr position = body.i[1 + k] * window[k].stride + body.r[k] * window[k].dilation - window[k].before;
        inside = symbolic::logical_and(inside, symbolic::logical_and(symbolic::less_equal(number(0), position),
                                                                     symbolic::less(position, window[k].extent)));
        at.push_back(position);
        wat.push_back(body.r[k]);
      }
      for (std::vector<Expr>* e : {&at, &wat}) e->push_back(body.r.back());
      wat.push_back(body.i.back());
      auto& s = b.scalars();
      return ir::select(s.cast(DType::kBool, s.index(inside)), body.load(data, at), s.constant_int(t, 0)) *
             body.load(weights, wat);
    });
  }

  Value* scatter() {
    const DType t = one_of({DType::kF32, DType::kF64, DType::kI32, DType::kI64, DType::kF16});
    const std::vector<Expr> e = extents(1 + pick(2));
    const Combiner mode = one_of({Combiner::kNone, Combiner::kSum, Combiner::kProd, Combiner::kMin, Combiner::kMax});
    Value* data = input(t, e, mode == Combiner::kProd ? Data::kSigns : Data::kTame);
    std::vector<Expr> domain = e;
    domain[0] = extent();
    Value* at = input(DType::kI64, domain, Data::kIndex, e[0]);
    Value* update = input(t, domain, mode == Combiner::kProd ? Data::kSigns : Data::kTame);
    const bool guarded = chance(30);
    return b.scatter(data, domain, mode, [&](Body& body) {
      tensor::Builder::ScatterPoint point;
      point.index.push_back(body.checked(body.load(at, body.i), e[0]));
      for (size_t k = 1; k < e.size(); ++k) point.index.push_back(body.index(body.i[k]));
      point.value = body.load(update, body.i);
      if (guarded) point.guard = ir::less(body.load(data, std::vector<Expr>(e.size(), number(0))), point.value);
      return point;
    });
  }

  Value* scan() {
    const DType t = one_of({DType::kF32, DType::kF64, DType::kI32, DType::kI64, DType::kF16});
    const std::vector<Expr> e = extents(1 + pick(3));
    tensor::PrefixScan p;
    p.axis = pick(static_cast<int>(e.size()));
    p.combiner = one_of({Combiner::kSum, Combiner::kProd});
    p.exclusive = chance(40);
    p.reverse = chance(40);
    Value* x = input(t, e, p.combiner == Combiner::kProd ? Data::kSigns : Data::kTame);
    return b.op(p, {x}, {x->type})->result();
  }

  /// Something made of `v`: a function, a view, a sum, a product. Continuous, so that rounding stays rounding; results are of moderate size.
  Value* grow(Value* v) {
    const DType t = v->type.dtype;
    const std::vector<Expr> e = v->type.extents;
    const int rank = static_cast<int>(e.size());
    auto& s = b.scalars();
    const bool is_float = ir::is_float(t);
    const auto clamp = [&](Value* x) {
      return b.pointwise({x}, [&](std::span<const Scalar> a) {
        return is_float            ? s.op(ScalarOp::kTanh, {a[0]})
               : t == DType::kBool ? a[0]
                                   : s.op(ScalarOp::kMin, {a[0], s.constant_int(t, 9)});
      });
    };
    if (t == DType::kBool) return b.cast(v, DType::kI32);
    switch (pick(13)) {
      case 11:
      case 12: return is_float && rank > 0 && rank < 5 ? rows(v) : clamp(v);
      case 0:
        return b.pointwise({v}, [&](std::span<const Scalar> a) {
          return is_float ? s.op(one_of({ScalarOp::kSigmoid, ScalarOp::kTanh, ScalarOp::kErf, ScalarOp::kSin}), {a[0]})
                          : s.op(ScalarOp::kAbs, {a[0]});
        });
      case 1: {
        std::vector<Expr> other = e;
        for (Expr& x : other)
          if (chance(30)) x = number(1);
        return b.pointwise({v, input(t, other)}, [&](std::span<const Scalar> a) {
          return s.op(one_of({ScalarOp::kAdd, ScalarOp::kSub, ScalarOp::kMax}), {a[0], a[1]});
        });
      }
      case 2: {
        if (rank == 0) return clamp(v);
        std::vector<int> axes;
        for (int k = 0; k < rank; ++k)
          if (chance(50)) axes.push_back(k);
        if (axes.empty()) axes.push_back(rank - 1);
        return clamp(b.reduce_axes(one_of({Combiner::kSum, Combiner::kMax, Combiner::kMin}), v, axes, chance(50),
                                   is_float ? ir::compute_type(t) : t));
      }
      case 3: {
        std::vector<int> order(e.size());
        for (size_t k = 0; k < order.size(); ++k) order[k] = static_cast<int>(k);
        std::shuffle(order.begin(), order.end(), random);
        return b.transpose(v, order);
      }
      case 4:
      case 5:
        if (rank == 0 || rank > 4) return clamp(v);
        return clamp(b.matmul(v, input(t, {e.back(), extent()})));
      case 6:
        if (!is_float || rank == 0) return b.cast(v, DType::kF32);
        return b.softmax(v, rank - 1);
      case 7:
        if (rank == 0) return clamp(v);
        return b.concat({v, input(t, e)}, pick(rank));
      case 8: return b.reshape(v, {b.product(e)});
      case 9: {
        if (rank == 0) return v;
        const int axis = pick(rank);
        return b.slice(v, axis, number(0), symbolic::floordiv(e[static_cast<size_t>(axis)] + 1, 2), number(2));
      }
      default:
        if (t != DType::kF32 || rank == 0) return is_float ? b.cast(v, DType::kF32) : clamp(v);
        return b.layer_norm(v, rank - 1, 1e-3, input(t, {e.back()}), input(t, {e.back()}));
    }
  }
  /// Attention as exporters spell it: heads before or behind the length, keys transposed or not, a scale, a mask of any kind.
  Value* attention() {
    auto& s = b.scalars();
    const DType t = one_of({DType::kF32, DType::kF32, DType::kF32, DType::kF64, DType::kF16});
    const std::vector<Expr> batch = extents(pick(3));
    const Expr queries = extent(), keys = chance(50) ? queries : extent(), size = extent(), width = extent();
    const auto matrix = [&](Expr rows, Expr columns) {
      std::vector<Expr> e = batch;
      e.push_back(rows);
      e.push_back(columns);
      std::vector<int> order(e.size());
      for (size_t k = 0; k < order.size(); ++k) order[k] = static_cast<int>(k);
      if (e.size() > 2 && chance(50)) std::swap(order[e.size() - 3], order[e.size() - 2]);
      if (chance(30)) std::swap(order[e.size() - 2], order[e.size() - 1]);
      std::vector<Expr> stored;
      for (const int k : order) stored.push_back(e[static_cast<size_t>(k)]);
      std::vector<int> back(e.size());
      for (size_t k = 0; k < order.size(); ++k) back[static_cast<size_t>(order[k])] = static_cast<int>(k);
      return b.transpose(input(t, stored), back);
    };
    Value* scores = b.matmul(matrix(queries, size), matrix(size, keys));
    const int rank = static_cast<int>(scores->type.extents.size());
    if (chance(70)) {
      scores = b.pointwise({scores}, [&](std::span<const Scalar> a) {
        return s.op(one_of({ScalarOp::kMul, ScalarOp::kDiv}), {a[0], s.constant(t, 2.5)});
      });
    }
    if (chance(60)) {
      std::vector<Expr> mask = scores->type.extents;
      for (Expr& e : mask)
        if (chance(50)) e = number(1);
      scores = b.pointwise({scores, input(t, mask, chance(20) ? Data::kSpecial : Data::kTame)},
                           [&](std::span<const Scalar> a) { return a[0] + a[1]; });
    } else if (chance(50)) {
      scores = b.map(scores->type.extents, [&](Body& body) {
        const Expr row = body.i[static_cast<size_t>(rank) - 2], column = body.i[static_cast<size_t>(rank) - 1];
        return ir::select(s.cast(DType::kBool, body.index(symbolic::less(row, column))),
                          s.constant(t, -std::numeric_limits<double>::infinity()), body.load(scores, body.i));
      });
    }
    Value* weights = b.softmax(scores, rank - 1);
    if (chance(10)) output(weights);
    Value* result = b.matmul(weights, matrix(keys, width));
    if (rank > 2 && chance(60)) {
      std::vector<int> order(static_cast<size_t>(rank));
      for (int k = 0; k < rank; ++k) order[static_cast<size_t>(k)] = k;
      std::swap(order[static_cast<size_t>(rank) - 3], order[static_cast<size_t>(rank) - 2]);
      result = b.transpose(result, order);
    }
    return result;
  }

  /// Several passes over the same rows: numbers for each row, each of the elements and of an earlier one, and in the end all elements again.
  Value* rows(Value* v) {
    auto& s = b.scalars();
    const int rank = static_cast<int>(v->type.extents.size());
    const DType t = v->type.dtype, work = ir::compute_type(t);
    std::vector<int> axes;
    for (int k = 0; k < rank; ++k)
      if (chance(k + 1 == rank ? 70 : 35)) axes.push_back(k);
    if (axes.empty()) axes.push_back(pick(rank));
    Value* x = v;
    if (chance(30)) x = b.pointwise({v}, [&](std::span<const Scalar> a) { return s.op(ScalarOp::kTanh, {a[0]}); });
    if (chance(40)) {
      std::vector<Expr> other = v->type.extents;
      for (Expr& e : other)
        if (chance(40)) e = number(1);
      x = b.pointwise({x, input(t, other)},
                      [&](std::span<const Scalar> a) { return s.op(ScalarOp::kAdd, {a[0], a[1]}); });
    }
    Value* of_row = nullptr;
    // exp is kept small: it goes to sums and products.
    const auto element = [&](Scalar a, Scalar stat, int kind) {
      const Scalar d = s.op(ScalarOp::kSub, {a, stat});
      if (kind == 0) return s.op(ScalarOp::kMul, {d, d});
      const Scalar small = s.op(ScalarOp::kMin, {d, s.constant(t, 1)});
      return kind == 1 ? s.op(ScalarOp::kExp, {small}) : d;
    };
    const int kind = pick(3);
    for (int n = 1 + pick(3); n > 0; --n) {
      Value* each = of_row == nullptr ? x : b.pointwise({x, of_row}, [&](std::span<const Scalar> a) {
        return element(a[0], a[1], kind);
      });
      of_row = b.reduce_axes(one_of({Combiner::kSum, Combiner::kMax, Combiner::kMin}), each, axes, true, work);
      of_row =
          b.pointwise({of_row}, [&](std::span<const Scalar> a) { return s.cast(t, s.op(ScalarOp::kTanh, {a[0]})); });
      if (chance(15)) output(of_row);
    }
    Value* y = b.pointwise({x, of_row}, [&](std::span<const Scalar> a) {
      return s.op(ScalarOp::kTanh, {s.op(ScalarOp::kMul, {element(a[0], a[1], kind), a[1]})});
    });
    return y;
  }

  /// A graph of `ops` ops, each made of one before it, with some of the values as outputs.
  void chain(int ops) {
    tame = true;
    std::vector<Value*> values;
    using Make = Value* (RandomGraph::*)();
    const Make makes[] = {&RandomGraph::source,      &RandomGraph::source,    &RandomGraph::contraction,
                          &RandomGraph::convolution, &RandomGraph::attention, &RandomGraph::view,
                          &RandomGraph::attention,   &RandomGraph::scatter};
    values.push_back((this->*makes[pick(static_cast<int>(std::size(makes)))])());
    for (int k = 0; k < ops; ++k) {
      Value* from = chance(75) ? values.back() : values[static_cast<size_t>(pick(static_cast<int>(values.size())))];
      Value* made = grow(from);
      if (made->type.static_rank() == from->type.static_rank() && made->type.extents == from->type.extents &&
          made->type.dtype == from->type.dtype && chance(30))
        made = b.binary(made->type.dtype == DType::kBool ? ScalarOp::kOr : ScalarOp::kMax, made, from);
      values.push_back(made);
    }
    output(values.back());
    for (Value* v : values)
      if (v != values.back() && chance(15)) output(v);
  }
  Value* source() {
    return input(one_of({DType::kF32, DType::kF32, DType::kF32, DType::kF16, DType::kI32, DType::kF64}),
                 extents(1 + pick(3)));
  }

 private:
  /// Elements of constant extents, one of which may be an infinity.
  ir::Literal finite_or_not(DType t, const std::vector<Expr>& extents) {
    std::vector<int64_t> numbers;
    for (Expr e : extents) numbers.push_back(e.constant());
    ir::Literal made(t, numbers);
    for (int64_t k = 0; k < made.count(); ++k) {
      ir::Value64 v{};
      v.f = static_cast<double>(pick(17) - 8) / 4;
      made.set(k, v);
    }
    ir::Value64 infinite{};
    infinite.f = std::numeric_limits<double>::infinity();
    if (chance(20)) made.set(pick(static_cast<int>(made.count())), infinite);
    return made;
  }
};

}  // namespace stax::compile
