// SPDX-License-Identifier: Apache-2.0
#include "loop/transform.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "loop/dependence.h"
#include "loop/transform_step.h"

namespace stax::loop {

// ---- Text

namespace {

constexpr size_t kAllButLast = 99;

struct Verb {
  std::string_view name;
  size_t least, most;   // words
  size_t before_arrow;  // words in front of "->"; 0: there is none; kAllButLast: one word is behind it
  Kernel (*run)(Edit);
  size_t arrow(size_t words) const { return before_arrow == kAllButLast ? words - 1 : before_arrow; }
};

constexpr Verb kVerbs[] = {
    {"split", 4, 6, 2, split},
    {"interchange", 2, 2, 0, interchange},
    {"fuse", 3, 3, 2, fuse},
    {"tile", 8, 9, 4, tile},
    {"sink", 1, 12, 0, sink},
    {"unroll", 1, 1, 0, unroll},
    {"vectorize", 2, 2, 0, vectorize},
    {"parallelize", 1, 1, 0, parallelize},
    {"thread", 1, 1, 0, spread_over_threads},
    {"warp", 1, 1, 0, spread_over_warps},
    {"matrix", 3, 3, 0, matrix},
    {"pipeline", 4, 7, 0, pipeline},
    {"stage", 4, 4, 3, stage},
    {"cache", 6, 14, kAllButLast, cache},
    {"compute_at", 2, 2, 0, compute_at},
    {"double_buffer", 2, 2, 0, double_buffer},
    {"split_reduction", 4, 5, 2, split_reduction},
    {"split_scan", 5, 5, 4, split_scan},
    {"align", 5, 5, 4, align},
    {"phase_reduction", 4, 7, 3, phase_reduction},
    {"phase_scan", 3, 3, 2, phase_scan},
    {"prefetch", 3, 6, 0, prefetch},
    {"hint", 3, 3, 0, hint},
    {"skip", 1, 1, 0, skip},
};

const Verb* find_verb(std::string_view name) {
  const auto* found = std::find_if(std::begin(kVerbs), std::end(kVerbs), [&](const Verb& v) { return v.name == name; });
  return found == std::end(kVerbs) ? nullptr : found;
}

std::string names_of_verbs() {
  std::string names;
  for (const Verb& v : kVerbs) names += (names.empty() ? "" : ", ") + std::string(v.name);
  return names;
}

}  // namespace

std::string Step::str() const {
  const Verb* known = find_verb(verb);
  std::string text = verb;
  for (size_t i = 0; i < words.size(); ++i) {
    if (known != nullptr && known->before_arrow != 0 && i == known->arrow(words.size())) text += " ->";
    text += " " + words[i];
  }
  return text;
}

std::vector<Step> parse_schedule(const std::string& text) {
  std::string lines = text;
  std::replace(lines.begin(), lines.end(), ';', '\n');
  std::istringstream in(lines);
  std::vector<Step> steps;
  for (std::string line; std::getline(in, line);) {
    line = line.substr(0, line.find('#'));
    std::istringstream words(line);
    Step step;
    if (!(words >> step.verb)) continue;
    const auto fail = [&](const std::string& reason) {
      throw IllegalTransform(fmt::format("schedule step '{}': {}", line, reason));
    };
    const Verb* verb = find_verb(step.verb);
    if (verb == nullptr) fail(fmt::format("there is no step {}; there are {}", step.verb, names_of_verbs()));
    std::vector<size_t> arrows;
    for (std::string word; words >> word;) {
      if (word == "->") {
        arrows.push_back(step.words.size());
      } else {
        step.words.push_back(word);
      }
    }
    if (step.words.size() < verb->least || step.words.size() > verb->most) {
      fail(fmt::format("{} takes {} to {} words, not {}", step.verb, verb->least, verb->most, step.words.size()));
    }
    const bool has_arrow = verb->before_arrow != 0;
    if (arrows.size() != (has_arrow ? 1 : 0) || (has_arrow && arrows[0] != verb->arrow(step.words.size()))) {
      fail(!has_arrow ? fmt::format("{} has no arrow", step.verb)
                      : fmt::format("the arrow stands after {} words", verb->arrow(step.words.size())));
    }
    steps.push_back(std::move(step));
  }
  return steps;
}

Kernel apply(Kernel kernel, const Step& step) {
  const Verb* verb = find_verb(step.verb);
  if (verb == nullptr || step.words.size() < verb->least || step.words.size() > verb->most) {
    throw IllegalTransform(fmt::format("schedule step '{}': it is not well-formed", step.str()));
  }
  return verb->run(Edit{std::move(kernel), step});
}

Kernel apply_schedule(const Kernel& kernel, const std::string& schedule) {
  Kernel result = kernel;
  for (const Step& step : parse_schedule(schedule)) {
    result = apply(std::move(result), step);
    result.schedule += (result.schedule.empty() ? "" : "; ") + step.str();
  }
  return result;
}

// ---- The steps that are a few lines

namespace {

/// The loop that is all of the body of `outer`; of a body that is a loop under a condition, the condition goes into the loop.
For inner_loop(const Edit& edit, const For& outer, Expr inner) {
  const If* condition = outer.body->as<If>();
  const For* f =
      condition != nullptr && !condition->else_body ? condition->then_body->as<For>() : outer.body->as<For>();
  if (f == nullptr || f->var != inner) {
    edit.fail("loop " + loop_name(inner), fmt::format("it is not all of the body of loop {}", loop_name(outer.var)));
  }
  if (symbolic::depends_on(f->extent, outer.var)) {
    edit.fail("loop " + loop_name(inner),
              fmt::format("its extent {} depends on loop {}", f->extent.str(), loop_name(outer.var)));
  }
  For result = *f;
  if (condition != nullptr) {
    if (reads_any(condition->condition, slots_written_in(f->body)))
      edit.fail("loop " + loop_name(inner), "the condition around it reads what it writes");
    result.body = make(If{condition->condition, f->body, {}});
  }
  return result;
}

/// outer { inner { body } } -> inner { outer { body } }, if one of the two can change its order.
Stmt exchange(const Edit& edit, const LoopScope& scope, const For& outer, const For& inner) {
  For inside = outer, outside = inner;
  inside.body = inner.body;
  outside.body = make(inside);
  const std::string outer_dependence = find_dependence(edit.kernel, outer, scope, Reduction::kAny);
  if (!outer_dependence.empty() && !find_dependence(edit.kernel, outside, scope, Reduction::kAny).empty()) {
    edit.fail(fmt::format("loops {} and {}", loop_name(outer.var), loop_name(inner.var)),
              "neither has independent iterations: " + outer_dependence);
  }
  return make(std::move(outside));
}

bool is_plain(LoopKind kind) { return kind == LoopKind::kSerial || kind == LoopKind::kUnrolled; }

}  // namespace

Kernel interchange(Edit edit) {
  const Expr i = edit.loop(edit.word(0)), j = edit.loop(edit.word(1));
  edit.replace_loops(i, [&](const For& outer, const LoopScope& scope) {
    const For inner = inner_loop(edit, outer, j);
    for (const For* f : {&outer, &inner}) {
      if (!is_plain(f->kind)) edit.fail("loop " + loop_name(f->var), "parallel and vector loops stay where they are");
    }
    return exchange(edit, scope, outer, inner);
  });
  return std::move(edit.kernel);
}

Kernel fuse(Edit edit) {
  const Expr i = edit.loop(edit.word(0)), j = edit.loop(edit.word(1));
  const Expr outer_count = trip_count(edit.common_extent(i)), inner_count = trip_count(edit.common_extent(j));
  const Expr extent = outer_count * inner_count;
  const Expr f = edit.new_loop(edit.word(2), extent);
  edit.replace_loops(i, [&](const For& outer, const LoopScope&) {
    const For inner = inner_loop(edit, outer, j);
    edit.require_kind(outer, LoopKind::kSerial);
    edit.require_kind(inner, LoopKind::kSerial);
    // Of a single outer iteration nothing is left, whatever the inner extent is.
    const bool single = outer_count.is_constant(1);
    const symbolic::Substitution map{
        {i.node(), single ? edit.context().exprs.constant(0) : symbolic::floordiv(f, inner_count)},
        {j.node(), single ? f : symbolic::mod(f, inner_count)}};
    return make(For{f, extent, LoopKind::kSerial, 0, substitute(inner.body, map)});
  });
  return std::move(edit.kernel);
}

Kernel tile(Edit edit) {
  const Expr i = edit.loop(edit.word(0)), j = edit.loop(edit.word(1));
  const int64_t height = edit.number(2, 1, int64_t{1} << 20), width = edit.number(3, 1, int64_t{1} << 20);
  const bool exact = edit.step.words.size() == 9 && edit.word(8) == "exact";
  if (edit.step.words.size() == 9 && !exact && edit.word(8) != "guard") {
    edit.fail(edit.word(8), "expected exact or guard");
  }
  const Expr rows = trip_count(edit.common_extent(i)), columns = trip_count(edit.common_extent(j));
  if (exact && !(symbolic::mod(rows, height).is_constant(0) && symbolic::mod(columns, width).is_constant(0))) {
    edit.fail(
        fmt::format("loops {} and {}", loop_name(i), loop_name(j)),
        fmt::format("the tile {} x {} does not provably divide {} x {}", height, width, rows.str(), columns.str()));
  }
  symbolic::ExprTable& table = edit.context().exprs;
  const Expr extents[] = {symbolic::ceildiv(rows, height), symbolic::ceildiv(columns, width), table.constant(height),
                          table.constant(width)};
  Expr vars[4];
  for (size_t k = 0; k < 4; ++k) {
    vars[k] = edit.new_loop(edit.word(4 + k), extents[k]);
  }
  edit.replace_loops(i, [&](const For& outer, const LoopScope& scope) {
    const For inner = inner_loop(edit, outer, j);
    edit.require_kind(outer, LoopKind::kSerial);
    edit.require_kind(inner, LoopKind::kSerial);
    exchange(edit, scope, outer, inner);  // for the check
    const Expr row = vars[0] * height + vars[2], column = vars[1] * width + vars[3];
    Stmt body = substitute(inner.body, {{i.node(), row}, {j.node(), column}});
    const Expr inside = symbolic::logical_and(symbolic::less(row, rows), symbolic::less(column, columns));
    if (!inside.is_constant(1)) body = make(If{condition_of(edit.context(), inside), std::move(body), {}});
    for (size_t k = 4; k-- > 0;) body = make(For{vars[k], extents[k], LoopKind::kSerial, 0, std::move(body)});
    return body;
  });
  return std::move(edit.kernel);
}

Kernel unroll(Edit edit) {
  constexpr int64_t kMost = 1024;
  const Expr i = edit.loop(edit.word(0));
  edit.replace_loops(i, [&](const For& loop, const LoopScope&) {
    edit.require_kind(loop, LoopKind::kSerial);
    if (!loop.extent.is_constant() || loop.extent.constant() > kMost) {
      edit.fail("loop " + loop_name(i),
                fmt::format("its extent {} is not a constant up to {}", loop.extent.str(), kMost));
    }
    For copy = loop;
    copy.kind = LoopKind::kUnrolled;
    return make(std::move(copy));
  });
  return std::move(edit.kernel);
}

Kernel vectorize(Edit edit) {
  const Expr i = edit.loop(edit.word(0));
  const auto width = static_cast<int>(edit.number(1, 1, 1024));
  edit.replace_loops(i, [&](const For& loop, const LoopScope& outer) {
    const std::string name = "loop " + loop_name(i);
    edit.require_kind(loop, LoopKind::kSerial);
    visit(loop.body, [&](const Stmt& s) {
      const For* inner = s->as<For>();
      if (inner != nullptr && inner->kind != LoopKind::kUnrolled) {
        edit.fail(name, fmt::format("it encloses the {} loop {}", name_of(inner->kind), loop_name(inner->var)));
      }
      if (const Allocate* a = s->as<Allocate>()) {
        edit.fail(name,
                  fmt::format("it encloses the local buffer {}; sink it first", edit.kernel.buffers[a->slot].name));
      }
    });
    const std::string dependence = find_dependence(edit.kernel, loop, outer, Reduction::kInvariant);
    if (!dependence.empty()) edit.fail(name, "its iterations are not independent: " + dependence);
    For copy = loop;
    copy.kind = LoopKind::kVector;
    copy.width = width;
    return make(std::move(copy));
  });
  return std::move(edit.kernel);
}

namespace {

Kernel spread(Edit edit, LoopKind kind) {
  const Expr i = edit.loop(edit.word(0));
  edit.replace_loops(i, [&](const For& loop, const LoopScope& outer) {
    const std::string name = "loop " + loop_name(i);
    edit.require_kind(loop, LoopKind::kSerial);
    visit(loop.body, [&](const Stmt& s) {
      const For* inner = s->as<For>();
      if (inner != nullptr && (inner->kind == LoopKind::kThread || inner->kind == LoopKind::kWarp))
        edit.fail(name, fmt::format("it encloses the {} loop {}", name_of(inner->kind), loop_name(inner->var)));
    });
    const std::string dependence = find_dependence(edit.kernel, loop, outer, Reduction::kInvariant);
    if (!dependence.empty()) edit.fail(name, "its iterations are not independent: " + dependence);
    For copy = loop;
    copy.kind = kind;
    return make(std::move(copy));
  });
  return std::move(edit.kernel);
}

}  // namespace

Kernel spread_over_threads(Edit edit) { return spread(std::move(edit), LoopKind::kThread); }
Kernel spread_over_warps(Edit edit) { return spread(std::move(edit), LoopKind::kWarp); }

Kernel parallelize(Edit edit) {
  const Expr i = edit.loop(edit.word(0));
  const std::string name = "loop " + loop_name(i);
  // The nest from the outermost loop down to i, all of it perfect.
  std::vector<For> nest;
  for (Stmt s = edit.kernel.body; nest.empty() || nest.back().var != i;) {
    const For* f = s->as<For>();
    if (f == nullptr) {
      edit.fail(name, nest.empty()
                          ? "the kernel is not a single nest of loops"
                          : fmt::format("loop {} encloses more than loops above it", loop_name(nest.back().var)));
    }
    edit.require_kind(*f, LoopKind::kSerial);
    nest.push_back(*f);
    s = f->body;
  }
  // Outward, one loop at a time.
  for (size_t k = nest.size() - 1; k > 0; --k) {
    For outer = nest[k - 1], inner = nest[k];
    if (symbolic::depends_on(inner.extent, outer.var)) {
      edit.fail(name, fmt::format("its extent {} depends on loop {}", inner.extent.str(), loop_name(outer.var)));
    }
    outer.body = make(inner);
    LoopScope scope;
    for (size_t above = 0; above + 1 < k; ++above) scope.push(nest[above].var, nest[above].extent);
    nest[k - 1] = *exchange(edit, scope, outer, inner)->as<For>();
  }
  For outermost = nest[0];
  const std::string dependence = find_dependence(edit.kernel, outermost, LoopScope(), Reduction::kForbidden);
  if (!dependence.empty()) edit.fail(name, "its iterations are not independent: " + dependence);
  outermost.kind = LoopKind::kParallel;
  edit.kernel.body = make(std::move(outermost));
  return std::move(edit.kernel);
}

}  // namespace stax::loop
