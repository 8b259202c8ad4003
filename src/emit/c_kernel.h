// SPDX-License-Identifier: Apache-2.0
#pragma once
// One kernel on its way to C text. Inside emit/ only.
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "emit/c_family.h"
#include "emit/quotient_sum.h"

namespace stax::emit {

using ir::DType;
using ir::Scalar;
using symbolic::Expr;

class CKernel {
 public:
  CKernel(const thread::Kernel& kernel, const Dialect& dialect, const ir::Target& target);
  std::string run();

 private:
  /// An index expression: int, or i64 where `wide`. Its text is one word or stands in parentheses.
  struct Index {
    std::string text;
    bool wide = false;
  };
  using Lines = std::vector<std::pair<int, std::string>>;

  // c_family.cpp: the frame
  void name_symbols();
  std::string fresh(const std::string& wanted);
  std::string signature();
  void declare_threads();
  void declare_buffers();
  void declare_shared(int slot, Expr& offset);
  void declare_locals(int slot, const std::set<int64_t>& used);
  std::string pointer_type(int slot) const;
  const thread::Buffer& buffer(int slot) const { return kernel_.buffers[static_cast<size_t>(slot)]; }
  void line(std::string text) { lines_->emplace_back(depth_, std::move(text)); }

  // c_index.cpp
  Index index(Expr e);
  std::string index_in(Expr e, bool wide);  // of the type int or i64
  std::string truth(Expr e);                // as a condition
  std::string divided(Expr e);
  Index sum(Expr e);
  std::string wrapping(Expr e);
  std::vector<QuotientTerm> quotients(Expr e) const;
  Index computed(Expr e);
  bool is_division(Expr e) const;
  /// Names for the divisions of a body that can be computed now.
  void name_divisions(const thread::Stmt& body);
  void bind(Expr symbol, Index value) { index_scopes_.back().values[symbol.node()] = std::move(value); }
  bool is_known(Expr symbol) const;
  const Index* find_index(Expr e) const;
  std::string_view index_type(bool wide) const { return wide ? "i64" : "int"; }

  // c_scalar.cpp
  std::string value(Scalar s);
  std::string compute(Scalar s);
  std::string operation(Scalar s);
  std::string integer_operation(Scalar s);
  std::string float_operation(Scalar s);
  std::string power(Scalar s);
  std::string select(Scalar s);
  std::string cast(Scalar s);
  std::string checked_index(Scalar s);
  std::string load(Scalar s);
  std::string loaded(Scalar s);
  std::string condition(Scalar s);
  std::string word(Scalar s);                // its value as one word
  std::string place(Scalar s);               // the text in [] of an access
  Index position(Scalar s);                  // the same with its type
  std::string element(int slot, Scalar at);  // the variable or array element, as stored
  /// The address of an element of an argument as a pointer to bytes and an offset; empty where the dialect takes it as it comes.
  std::string byte_address(int slot, Scalar at);
  /// The address of an element that is only read, as a pointer and a position.
  std::string pointer_to(int slot, Scalar at);
  void find_offsets();
  std::string name(std::string_view type, const std::string& text);
  bool is_guarded(Scalar s);
  const std::unordered_set<const ir::ScalarNode*>& always(Scalar s);
  std::string from_storage(DType t, const std::string& text) const;
  std::string to_storage(DType t, const std::string& text) const;
  /// The bits in memory of what is a load, 0, or a choice among such that needs no load; else empty.
  std::string bits_of(Scalar s);
  void begin_statement(const thread::StmtNode& s);
  void count(Scalar s);

  // c_statements.cpp
  void statement(const thread::Stmt& s);
  void emit(const thread::For& s);
  void emit(const thread::Block& s);
  bool is_conditional_copy(const thread::Stmt& s);
  void emit(const thread::If& s);
  void emit(const thread::Store& s);
  void emit(const thread::LoadVector& s);
  void emit(const thread::StoreVector& s);
  void emit(const thread::Barrier& s);
  void emit(const thread::Shuffle& s);
  void emit(const thread::Vote& s);
  void emit(const thread::Atomic& s);
  void emit(const thread::AsyncCopy& s);
  void emit(const thread::AsyncCommit& s);
  void emit(const thread::AsyncWait& s);
  void emit(const thread::LoadMatrix& s);
  void emit(const thread::Mma& s);
  void body(const thread::Stmt& s);
  std::string local_item(int slot, Expr first, int64_t k);
  std::string address(int slot, Scalar at, std::string_view as, bool is_const);
  void swap_loop(const thread::Atomic& s, const std::string& value);
  std::vector<std::string> fragment_words(const thread::Fragment& f, int items);

  /// Elements of 16 bits in registers that are halves of a word with a name: where they go on to another vector, words are taken whole or put
  /// together of halves, which compilers do not see through variables for each element.
  struct Half {
    std::string word;
    int part = 0;
  };
  void set_half(int slot, int64_t item, std::optional<Half> half);
  const Half* half_of(int slot, int64_t item) const;
  /// Elements `first` .. of a local buffer that fill a word.
  std::string word_of(int slot, Expr first, int items);

  const thread::Kernel& kernel_;
  const Dialect& dialect_;
  const ir::Target& target_;
  bool wide_;  // index_bits is 64
  Lines frame_;
  Lines* lines_ = &frame_;
  int depth_ = 1;
  int temporaries_ = 0;
  std::set<std::string> names_;
  std::vector<std::string> buffer_names_;
  std::vector<bool> registers_;
  bool has_checks_ = false, meets_others_ = false, global_barriers_ = false;
  using Address = std::pair<int, const symbolic::ExprNode*>;  // a slot, and a position in it
  struct Scope {
    std::unordered_map<const symbolic::ExprNode*, Index> values;
    std::map<Address, std::string> pointers;
  };
  std::vector<Scope> index_scopes_;
  // What reads in loops add to a position that changes in them: parts that do not, each with the numbers that are added to both.
  std::map<Address, std::map<const symbolic::ExprNode*, std::set<int64_t>>> offsets_;
  std::string where_;  // a condition under which the copies at hand are made; empty: there is none
  std::unordered_map<int64_t, Half> halves_;  // by slot and element; of the block of text at hand
  // Of one statement.
  std::vector<std::unordered_map<const ir::ScalarNode*, std::string>> memo_;
  std::unordered_map<const ir::ScalarNode*, int> uses_;
  std::unordered_map<const ir::ScalarNode*, bool> guarded_;
  std::unordered_map<const ir::ScalarNode*, std::unordered_set<const ir::ScalarNode*>> always_;
};

bool is_word(const std::string& text);  // a name, a number or an element: needs no name of its own
std::string without_parentheses(const std::string& text);

}  // namespace stax::emit
