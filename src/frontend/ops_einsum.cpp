// SPDX-License-Identifier: Apache-2.0
// Einsum. Operands are contracted pairwise from left to right: each step is one sum of products over the labels that nothing
// later asks for, so that a chain of matrices costs what its products cost. A label that only one of the two has and that
// nobody asks for is summed out before.
#include <algorithm>
#include <map>

#include "frontend/decompositions.h"
#include "frontend/tables.h"

namespace stax::frontend {
namespace {

// Letters are their code; axis k of what "..." stands for, counted from its right end, is kEllipsis + k.
using Labels = std::vector<int>;
constexpr int kEllipsis = 1000;

struct Term {
  Value* v = nullptr;
  Labels labels;
};

bool holds_label(const Labels& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

class Equation {
 public:
  Equation(Node& n, const std::string& text) : n_(n) {
    std::string plain;
    for (char c : text)
      if (c != ' ') plain += c;
    const size_t arrow = plain.find("->");
    const std::string left = plain.substr(0, arrow);
    size_t begin = 0;
    for (int k = 0; begin <= left.size(); ++k) {
      const size_t end = std::min(left.find(',', begin), left.size());
      if (k >= n.input_count()) n.fault("the equation '" + text + "' has more terms than there are inputs");
      terms_.push_back({n.input(k), labels_of(left.substr(begin, end - begin), need_rank(n, k, 0))});
      begin = end + 1;
    }
    if (static_cast<int>(terms_.size()) != n.input_count())
      n.fault("the equation '" + text + "' has fewer terms than there are inputs");
    if (arrow == std::string::npos) {
      implicit_output();
    } else {
      output_ = labels_of(plain.substr(arrow + 2), -1);
    }
    for (const Term& term : terms_) meet(term);
    for (size_t i = 0; i < output_.size(); ++i) {
      if (!extents_.contains(output_[i])) n.fault("the result of '" + text + "' names an axis that no term has");
      if (std::count(output_.begin(), output_.end(), output_[i]) > 1)
        n.fault("the result of '" + text + "' names an axis twice");
    }
  }

  const std::vector<Term>& terms() const { return terms_; }
  const Labels& output() const { return output_; }
  Expr extent(int label) const { return extents_.at(label); }
  std::vector<Expr> extents(const Labels& labels) const {
    std::vector<Expr> out;
    for (int label : labels) out.push_back(extents_.at(label));
    return out;
  }

 private:
  /// `rank` -1: the result, where "..." stands for as many axes as in the terms.
  Labels labels_of(const std::string& text, int rank) {
    const size_t dots = text.find("...");
    const int letters = static_cast<int>(text.size()) - (dots == std::string::npos ? 0 : 3);
    int hidden = 0;
    if (rank < 0) {
      hidden = hidden_;
    } else if (dots != std::string::npos) {
      hidden = rank - letters;
    }
    if (hidden < 0 || (rank >= 0 && hidden + letters != rank))
      n_.fault("the term '" + text + "' does not fit an input of rank " + std::to_string(rank));
    Labels labels;
    for (size_t at = 0; at < text.size();) {
      if (at == dots) {
        for (int k = hidden; k-- > 0;) labels.push_back(kEllipsis + k);
        at += 3;
        continue;
      }
      const bool letter = (text[at] >= 'a' && text[at] <= 'z') || (text[at] >= 'A' && text[at] <= 'Z');
      if (!letter) n_.fault("'" + text + "' is no term of an equation");
      labels.push_back(text[at++]);
    }
    hidden_ = std::max(hidden_, hidden);
    return labels;
  }

  void implicit_output() {
    std::map<int, int> count;
    for (const Term& term : terms_)
      for (int label : term.labels) ++count[label];
    for (int k = hidden_; k-- > 0;) output_.push_back(kEllipsis + k);
    for (const auto& [label, times] : count)
      if (label < kEllipsis && times == 1) output_.push_back(label);
  }

  /// Extents of a label are equal; one that is known to be 1 broadcasts. Those of "..." broadcast in general.
  void meet(const Term& term) {
    Builder& b = n_.b();
    for (size_t k = 0; k < term.labels.size(); ++k) {
      const int label = term.labels[k];
      const Expr own = b.extent(term.v, static_cast<int>(k));
      Expr& extent = extents_[label];
      if (!extent || is_one(extent))
        extent = own;
      else if (label >= kEllipsis)
        extent = b.broadcast_extent(extent, own, "axes that '...' stands for");
      else if (!is_one(own))
        check_equal(b, extent, own, std::string("extents of '") + static_cast<char>(label) + "'");
    }
  }

  Node& n_;
  std::vector<Term> terms_;
  Labels output_;
  std::map<int, Expr> extents_;
  int hidden_ = 0;
};

class Contraction {
 public:
  Contraction(Node& n, const Equation& equation) : b_(n.b()), equation_(equation), type_(n.dtype()) {}

  Value* run() {
    const std::vector<Term>& terms = equation_.terms();
    if (terms.size() == 1) return as_type(b_, reduced(terms[0], equation_.output()).v, type_);
    Term all = terms[0];
    for (size_t k = 1; k < terms.size(); ++k) {
      const bool last = k + 1 == terms.size();
      const auto asked = [&](int label) {
        if (holds_label(equation_.output(), label)) return true;
        for (size_t later = k + 1; later < terms.size(); ++later)
          if (holds_label(terms[later].labels, label)) return true;
        return false;
      };
      Term next = terms[k];
      const auto trim = [&](Term& term, const Term& other) {
        Labels kept;
        for (int label : term.labels)
          if ((asked(label) || holds_label(other.labels, label)) && !holds_label(kept, label)) kept.push_back(label);
        bool alone = false;
        for (int label : term.labels) alone = alone || !holds_label(kept, label);
        if (alone) term = reduced(term, kept);
      };
      trim(all, next);
      trim(next, all);
      Labels result = equation_.output();
      if (!last) {
        result.clear();
        for (const Term* term : {&all, &next})
          for (int label : term->labels)
            if (asked(label) && !holds_label(result, label)) result.push_back(label);
      }
      all = multiplied(all, next, result);
    }
    return as_type(b_, all.v, type_);
  }

 private:
  std::vector<Expr> index(const Term& term, const std::map<int, Expr>& at) const {
    std::vector<Expr> out;
    for (size_t k = 0; k < term.labels.size(); ++k) {
      const int label = term.labels[k];
      out.push_back(broadcast_index(b_, at.at(label), b_.extent(term.v, static_cast<int>(k)), equation_.extent(label)));
    }
    return out;
  }

  static std::map<int, Expr> point(const Body& body, const Labels& axes, const Labels& reductions) {
    std::map<int, Expr> at;
    for (size_t k = 0; k < axes.size(); ++k) at[axes[k]] = body.i[k];
    for (size_t k = 0; k < reductions.size(); ++k) at[reductions[k]] = body.r[k];
    return at;
  }

  /// A term with the labels `kept` in that order: a diagonal, a transpose, a sum.
  Term reduced(const Term& term, const Labels& kept) {
    Labels gone;
    for (int label : term.labels)
      if (!holds_label(kept, label) && !holds_label(gone, label)) gone.push_back(label);
    const DType sum = sum_accumulator(type_), result = product_accumulator(type_);
    const auto body = [&](Body& body) { return body.load(term.v, index(term, point(body, kept, gone))); };
    if (gone.empty()) return {b_.map(equation_.extents(kept), body), kept};
    return {b_.reduce(Combiner::kSum, sum, equation_.extents(kept), equation_.extents(gone), body,
                      [&](Body&, Scalar a) { return ir::cast(result, a); }),
            kept};
  }

  Term multiplied(const Term& x, const Term& y, const Labels& result) {
    Labels summed;
    for (const Term* term : {&x, &y})
      for (int label : term->labels)
        if (!holds_label(result, label) && !holds_label(summed, label)) summed.push_back(label);
    const DType t = product_accumulator(type_);
    const auto body = [&](Body& body) {
      const std::map<int, Expr> at = point(body, result, summed);
      return ir::cast(t, body.load(x.v, index(x, at))) * ir::cast(t, body.load(y.v, index(y, at)));
    };
    if (summed.empty()) return {b_.map(equation_.extents(result), body), result};
    return {b_.reduce(Combiner::kSum, t, equation_.extents(result), equation_.extents(summed), body), result};
  }

  Builder& b_;
  const Equation& equation_;
  DType type_;
};

void import_einsum(Node& n) {
  if (n.input_count() < 1) n.fault("it has no inputs");
  for (int k = 1; k < n.input_count(); ++k) n.same_dtype(0, k);
  const Equation equation(n, n.text("equation", ""));
  n.output(0, Contraction(n, equation).run());
}

constexpr OperatorRow kRows[] = {
    {"", "Einsum", 12, import_einsum},
};

}  // namespace

Rows einsum_rows() { return kRows; }

}  // namespace stax::frontend
