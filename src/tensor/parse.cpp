// SPDX-License-Identifier: Apache-2.0
// Reads the text form of tensor IR (text.cpp has its grammar). Ids and names come back as they were printed.
#include <array>
#include <charconv>
#include <cstring>
#include <map>

#include "support/error.h"
#include "support/lexer.h"
#include "symbolic/evaluate.h"
#include "tensor/builder.h"

namespace stax::tensor {

namespace {

using symbolic::SymbolKind;

std::optional<std::vector<std::byte>> decode_base64(std::string_view text) {
  static constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::array<int, 256> value_of;
  value_of.fill(-1);
  for (size_t i = 0; i < kDigits.size(); ++i) value_of[static_cast<unsigned char>(kDigits[i])] = static_cast<int>(i);
  if (text.size() % 4 != 0) return std::nullopt;
  std::vector<std::byte> result;
  result.reserve(text.size() / 4 * 3);
  for (size_t i = 0; i < text.size(); i += 4) {
    uint32_t word = 0;
    size_t padding = 0;
    for (size_t k = 0; k < 4; ++k) {
      const char c = text[i + k];
      const bool is_padding = c == '=' && i + 4 == text.size() && k >= 2;
      const int digit = is_padding ? 0 : value_of[static_cast<unsigned char>(c)];
      if (digit < 0 || (padding > 0 && !is_padding)) return std::nullopt;
      padding += is_padding ? 1 : 0;
      word = word << 6 | static_cast<uint32_t>(digit);
    }
    for (size_t k = 0; k < 3 - padding; ++k) result.push_back(static_cast<std::byte>(word >> (16 - 8 * k) & 255));
  }
  return result;
}

class Parser {
 public:
  explicit Parser(const std::string& text)
      : lexer_(text, "tensor IR"), graph_(std::make_unique<Graph>(std::make_shared<ir::Context>())) {}

  std::unique_ptr<Graph> parse() {
    lexer_.expect("tensor_ir");
    if (lexer_.expect_integer() != 1) lexer_.error("this version of the text form is not known");
    while (lexer_.peek_is("symbol")) parse_symbol();
    lexer_.expect("graph");
    lexer_.expect("(");
    parse_list(")", [&] {
      Header header = parse_header();
      Value* v = graph_->add_input(graph_->body, header.type, header.name);
      define(header, v);
      const std::string name = lexer_.accept("as") ? lexer_.expect_string() : header.name;
      graph_->inputs.push_back({name, v});
    });
    lexer_.expect("{");
    parse_ops(graph_->body, "return");
    if (!lexer_.peek_is("}")) {
      do {
        Value* v = parse_reference();
        lexer_.expect("as");
        graph_->outputs.push_back({lexer_.expect_string(), v});
        graph_->body.outputs.push_back(v);
      } while (lexer_.accept(","));
    }
    lexer_.expect("}");
    lexer_.expect_end();
    number_values();
    return std::move(graph_);
  }

 private:
  // A value before it exists: what is printed where it is defined.
  struct Header {
    Token token;
    std::string name;
    Type type;
    std::optional<std::vector<Expr>> contents;
  };

  struct Definition {
    Value* value;
    std::optional<uint32_t> id;
  };

  // ---- lists and pieces
  template <class F>
  void parse_list(std::string_view end, const F& item) {
    if (lexer_.accept(end)) return;
    do {
      item();
    } while (lexer_.accept(","));
    lexer_.expect(end);
  }

  // A user's fault anywhere below is reported where the text of that part begins.
  template <class F>
  auto at(const Token& token, const F& f) {
    try {
      return f();
    } catch (const UserError& error) {
      lexer_.error_at(token, "{}", error.what());
    } catch (const InternalError& error) {
      lexer_.error_at(token, "{}", error.what());
    }
  }

  // The text up to a comma or a closing bracket that was not opened in it. Such a part has a grammar of its own.
  std::string take_text() {
    std::string text;
    int depth = 0;
    for (;;) {
      const Token& token = lexer_.peek();
      if (token.kind == TokenKind::kEnd) lexer_.error("the text ends within an expression");
      if (token.kind == TokenKind::kPunctuation) {
        const bool opens = token.text == "(" || token.text == "[" || token.text == "{";
        const bool closes = token.text == ")" || token.text == "]" || token.text == "}";
        if (depth == 0 && (closes || token.text == ",")) return text;
        depth += opens ? 1 : closes ? -1 : 0;
      }
      if (!text.empty()) text += ' ';
      if (token.kind == TokenKind::kString) {
        text += spell_string(token.text);
      } else if (token.kind == TokenKind::kIdentifier && (token.text[0] == '%' || token.text[0] == '@')) {
        text += spell_name(token.text[0], token.text.substr(1));
      } else {
        text += token.text;
      }
      lexer_.next();
    }
  }

  Expr resolve(const std::string& name) {
    if (const auto found = symbols_.find(name); found != symbols_.end()) return found->second;
    if (const Expr var = axis_from_name(name)) return symbols_[name] = var;
    user_error("there is no symbol '{}'", name);
  }

  Expr axis_from_name(const std::string& name) {
    if (name.size() < 2 || (name[0] != 'i' && name[0] != 'r')) return {};
    const char* const end = name.data() + name.size();
    int position = 0;
    const auto [after, error] = std::from_chars(name.data() + 1, end, position);
    if (error != std::errc() || position < 0 || position > 1000) return {};
    int64_t bound = symbolic::kMaxExtent;
    if (after != end) {
      if (*after != '_') return {};
      if (std::string_view(after, end) == "_inf") {
        bound = symbolic::kPosInf;
      } else {
        const auto [stop, fault] = std::from_chars(after + 1, end, bound);
        if (fault != std::errc() || stop != end || bound < 0) return {};
      }
    }
    return graph_->axis_var(position, graph_->exprs().constant(bound), name[0] == 'r');
  }

  Expr parse_expr() {
    const Token token = lexer_.peek();
    const std::string text = take_text();
    if (text.empty()) lexer_.error("an expression is missing");
    return at(token, [&] {
      return symbolic::parse_expr(graph_->exprs(), text, [&](const std::string& name) { return resolve(name); });
    });
  }

  std::vector<Expr> parse_exprs(std::string_view open, std::string_view close) {
    std::vector<Expr> result;
    lexer_.expect(open);
    parse_list(close, [&] { result.push_back(parse_expr()); });
    return result;
  }

  Scalar parse_scalar(const std::vector<Value*>& operands) {
    lexer_.expect("{");
    const Token token = lexer_.peek();
    const std::string text = take_text();
    lexer_.expect("}");
    return at(token, [&] {
      return ir::parse_scalar(
          *graph_->context, text, [&](const std::string& name) { return resolve(name); },
          [&](int slot) {
            if (slot < 0 || slot >= static_cast<int>(operands.size())) user_error("load{} has no operand", slot);
            return operands[slot]->type.dtype;
          });
    });
  }

  DType parse_dtype() {
    const Token token = lexer_.next();
    const auto dtype = ir::parse_dtype(token.text);
    if (!dtype) lexer_.error_at(token, "'{}' is no element type", token.text);
    return *dtype;
  }

  Type parse_type() {
    if (lexer_.accept("sequence")) {
      lexer_.expect("<");
      const DType dtype = parse_dtype();
      const int rank = lexer_.accept(",") ? static_cast<int>(lexer_.expect_integer()) : -1;
      lexer_.expect(">");
      return Type::sequence(dtype, rank);
    }
    const DType dtype = parse_dtype();
    Type type = Type::tensor(dtype, parse_exprs("[", "]"));
    if (lexer_.accept("rank")) {
      type.rank = parse_rank();
      if (type.static_rank() != kMaxRank) lexer_.error("a value of run-time rank has {} extents", kMaxRank);
    }
    return type;
  }

  // A rank is not in brackets: it ends where the definition of its value goes on.
  Expr parse_rank() {
    const Token token = lexer_.peek();
    std::string text;
    int depth = 0;
    for (;;) {
      const Token& next = lexer_.peek();
      if (next.kind == TokenKind::kEnd) lexer_.error("the text ends within an expression");
      const bool closes = next.kind == TokenKind::kPunctuation && next.text == ")";
      const bool ends = closes || next.text == "," || next.text == "=" || next.text == "contents" || next.text == "as";
      if (depth == 0 && next.kind != TokenKind::kString && ends) break;
      depth += next.text == "(" ? 1 : closes ? -1 : 0;
      text += (next.kind == TokenKind::kString ? spell_string(next.text) : next.text) + " ";
      lexer_.next();
    }
    return at(token, [&] {
      return symbolic::parse_expr(graph_->exprs(), text, [&](const std::string& name) { return resolve(name); });
    });
  }

  void parse_symbol() {
    lexer_.expect("symbol");
    const Token token = lexer_.next();
    if (token.kind != TokenKind::kIdentifier && token.kind != TokenKind::kString)
      lexer_.error_at(token, "a symbol's name is missing");
    symbolic::SymbolInfo info;
    info.name = token.text;
    lexer_.expect(":");
    static const std::map<std::string, SymbolKind> kKinds = {{"dim", SymbolKind::kDim},
                                                             {"value", SymbolKind::kValue},
                                                             {"axis", SymbolKind::kLoop},
                                                             {"param", SymbolKind::kParam}};
    const Token kind = lexer_.next();
    if (!kKinds.contains(kind.text)) lexer_.error_at(kind, "'{}' is no kind of symbol", kind.text);
    info.kind = kKinds.at(kind.text);
    lexer_.expect("[");
    info.range.lo = lexer_.accept("least") ? symbolic::kNegInf : lexer_.expect_integer();
    lexer_.expect(",");
    info.range.hi = lexer_.accept("greatest") ? symbolic::kPosInf : lexer_.expect_integer();
    lexer_.expect("]");
    if (lexer_.accept("multiple")) info.multiple = lexer_.expect_integer();
    if (info.multiple < 1) lexer_.error_at(token, "a multiple is positive");
    if (symbols_.contains(token.text)) lexer_.error_at(token, "symbol '{}' is declared twice", token.text);
    symbols_[token.text] = graph_->exprs().new_symbol(std::move(info));
  }

  // ---- values
  Token expect_value_token() {
    const Token token = lexer_.peek();
    if (token.kind != TokenKind::kIdentifier || token.text[0] != '%') lexer_.error("a value (%name) is expected");
    return lexer_.next();
  }

  Value* parse_reference() {
    const Token token = expect_value_token();
    const auto found = values_.find(token.text);
    if (found == values_.end()) lexer_.error_at(token, "there is no value {}", token.text);
    return found->second;
  }

  std::vector<Value*> parse_references() {
    std::vector<Value*> result;
    lexer_.expect("(");
    parse_list(")", [&] { result.push_back(parse_reference()); });
    return result;
  }

  static std::optional<uint32_t> id_of(const Token& token) {
    uint32_t id = 0;
    const char* const end = token.text.data() + token.text.size();
    const auto [after, error] = std::from_chars(token.text.data() + 1, end, id);
    return error == std::errc() && after == end ? std::optional(id) : std::nullopt;
  }

  Header parse_header() {
    Header header;
    header.token = expect_value_token();
    if (lexer_.peek().kind == TokenKind::kString) {
      header.name = lexer_.expect_string();
    } else if (!id_of(header.token)) {
      header.name = header.token.text.substr(1);
    }
    lexer_.expect(":");
    header.type = parse_type();
    if (lexer_.accept("contents")) {
      header.contents = parse_exprs("{", "}");
      int64_t count = 1;
      for (Expr extent : header.type.extents)
        count = extent.is_constant() ? symbolic::saturating_mul(count, extent.constant()) : -1;
      if (count != static_cast<int64_t>(header.contents->size()))
        lexer_.error("contents of another size than the value's");
    }
    return header;
  }

  void define(const Header& header, Value* v) {
    v->name = header.name;
    if (header.contents) v->contents = header.contents;
    definitions_.push_back({v, id_of(header.token)});
    if (!values_.emplace(header.token.text, v).second)
      lexer_.error_at(header.token, "{} is defined twice", header.token.text);
  }

  void number_values() {
    uint32_t next = 0;
    for (const Definition& definition : definitions_) {
      if (definition.id) next = std::max(next, *definition.id + 1);
    }
    for (const Definition& definition : definitions_) definition.value->id = definition.id ? *definition.id : next++;
    graph_->start_value_ids_at(next);
  }

  // ---- ops
  void parse_ops(Block& block, std::string_view end) {
    while (!lexer_.accept(end)) parse_op(block);
  }

  std::unique_ptr<Block> parse_block() {
    auto block = std::make_unique<Block>();
    block->graph = graph_.get();
    parse_block_into(*block);
    return block;
  }

  void parse_block_into(Block& block) {
    lexer_.expect("{");
    parse_ops(block, "yield");
    if (!lexer_.accept("}")) {
      do {
        block.outputs.push_back(parse_reference());
      } while (lexer_.accept(","));
      lexer_.expect("}");
    }
  }

  Combiner parse_combiner() {
    const Token token = lexer_.next();
    for (int k = 0; k <= static_cast<int>(Combiner::kArgMinLast); ++k) {
      if (token.text == name_of(static_cast<Combiner>(k))) return static_cast<Combiner>(k);
    }
    lexer_.error_at(token, "'{}' is no way to combine", token.text);
  }

  int parse_axis() {
    lexer_.expect("axis");
    const int64_t axis = lexer_.expect_integer();
    if (axis < 0 || axis >= kMaxRank) lexer_.error("axis {} is none", axis);
    return static_cast<int>(axis);
  }

  std::vector<Axis> parse_axes() {
    std::vector<Axis> axes;
    lexer_.expect("[");
    parse_list("]", [&] {
      const Token token = lexer_.next();
      const Expr var = at(token, [&] { return resolve(token.text); });
      if (var.symbol().kind != SymbolKind::kLoop) lexer_.error_at(token, "'{}' is no axis variable", token.text);
      lexer_.expect(":");
      axes.push_back({var, parse_expr()});
    });
    return axes;
  }

  // Scalars name operands by slot, and the operands stand behind them: the scalars are read when those are known.
  size_t postpone_scalar() {
    const size_t mark = lexer_.mark();
    lexer_.expect("{");
    take_text();
    lexer_.expect("}");
    return mark;
  }

  Scalar parse_postponed(size_t mark, const std::vector<Value*>& operands) {
    const size_t here = lexer_.mark();
    lexer_.rewind(mark);
    const Scalar s = parse_scalar(operands);
    lexer_.rewind(here);
    return s;
  }

  struct Parsed {
    Payload payload;
    std::vector<Value*> operands;
  };

  Parsed parse_constant(const std::vector<Header>& headers) {
    if (headers.size() != 1) lexer_.error("a constant has one result");
    const Type& type = headers[0].type;
    std::vector<int64_t> extents;
    for (Expr extent : type.extents) {
      if (!extent.is_constant() || extent.constant() < 0) lexer_.error("a constant has constant extents");
      extents.push_back(extent.constant());
    }
    if (lexer_.peek_is("checksum")) {
      lexer_.error(
          "this text has a constant by its checksum only: it was printed for reading. Print it with the bytes of all "
          "constants");
    }
    const Token token = lexer_.peek();
    Literal literal = at(token, [&] { return Literal(type.dtype, extents); });
    if (lexer_.accept("base64")) {
      const auto bytes = decode_base64(lexer_.expect_string());
      if (!bytes || bytes->size() != literal.bytes())
        lexer_.error_at(token, "these are not the {} bytes of the constant", literal.bytes());
      if (!bytes->empty()) std::memcpy(literal.data(), bytes->data(), bytes->size());
      return {Constant{std::move(literal)}, {}};
    }
    lexer_.expect("{");
    int64_t i = 0;
    parse_list("}", [&] {
      if (i >= literal.count()) lexer_.error("more than {} elements", literal.count());
      literal.set(i++, parse_element(type.dtype));
    });
    if (i != literal.count()) lexer_.error_at(token, "{} elements for {}", i, literal.count());
    return {Constant{std::move(literal)}, {}};
  }

  ir::Value64 parse_element(DType t) {
    if (ir::is_float(t)) return {.f = lexer_.expect_float()};
    // The least i64 has no positive counterpart, and a u64 may be any 64 bits.
    const bool negative = lexer_.accept("-");
    const uint64_t magnitude = lexer_.expect_unsigned();
    return {.i = static_cast<int64_t>(negative ? 0 - magnitude : magnitude)};
  }

  Parsed parse_compute() {
    Compute compute;
    compute.axes = parse_axes();
    if (!lexer_.peek_is("{")) {
      compute.combiner = parse_combiner();
      lexer_.expect("<");
      compute.accumulate = parse_dtype();
      lexer_.expect(">");
      compute.reductions = parse_axes();
    }
    const size_t body = postpone_scalar();
    std::optional<size_t> epilogue;
    if (lexer_.accept("epilogue")) epilogue = postpone_scalar();
    std::vector<Value*> operands = parse_references();
    compute.body = parse_postponed(body, operands);
    if (epilogue) compute.epilogue = parse_postponed(*epilogue, operands);
    return {std::move(compute), std::move(operands)};
  }

  Parsed parse_scatter() {
    Scatter scatter;
    scatter.axes = parse_axes();
    scatter.mode = parse_combiner();
    std::vector<size_t> index;
    while (lexer_.peek_is("{")) index.push_back(postpone_scalar());
    lexer_.expect("value");
    const size_t value = postpone_scalar();
    std::optional<size_t> guard;
    if (lexer_.accept("guard")) guard = postpone_scalar();
    std::vector<Value*> operands = parse_references();
    for (const size_t each : index) scatter.index.push_back(parse_postponed(each, operands));
    scatter.value = parse_postponed(value, operands);
    if (guard) scatter.guard = parse_postponed(*guard, operands);
    return {std::move(scatter), std::move(operands)};
  }

  Parsed parse_check() {
    Check check;
    lexer_.expect("{");
    check.condition = parse_expr();
    lexer_.expect("}");
    check.message = lexer_.expect_string();
    check.arguments = parse_exprs("[", "]");
    return {std::move(check), {}};
  }

  Parsed parse_if() {
    std::vector<Value*> operands = parse_references();
    If branch;
    branch.then_block = parse_block();
    lexer_.expect("else");
    branch.else_block = parse_block();
    return {std::move(branch), std::move(operands)};
  }

  Parsed parse_loop() {
    Loop loop;
    loop.has_trip_count = lexer_.accept("trip_count");
    loop.has_condition = lexer_.accept("condition");
    lexer_.expect("carried");
    loop.carried = static_cast<int>(lexer_.expect_integer());
    std::vector<Value*> operands = parse_references();
    loop.body = parse_body_inputs();
    if (lexer_.accept("binds")) loop.body_defines = parse_exprs("[", "]");
    parse_block_into(*loop.body);
    return {std::move(loop), std::move(operands)};
  }

  std::unique_ptr<Block> parse_body_inputs() {
    auto body = std::make_unique<Block>();
    lexer_.expect("body");
    lexer_.expect("(");
    parse_list(")", [&] {
      Header header = parse_header();
      define(header, graph_->add_input(*body, header.type, header.name));
    });
    return body;
  }

  Parsed parse_row_group() {
    RowGroup group;
    group.rows = parse_axes();
    std::vector<Value*> operands = parse_references();
    group.body = parse_body_inputs();
    parse_block_into(*group.body);
    return {std::move(group), std::move(operands)};
  }

  Parsed parse_top_k() {
    const int axis = parse_axis();
    const bool largest = lexer_.accept("largest");
    if (!largest) lexer_.expect("smallest");
    return {TopK{axis, largest}, parse_references()};
  }

  Parsed parse_scan() {
    PrefixScan scan;
    scan.axis = parse_axis();
    scan.combiner = parse_combiner();
    scan.exclusive = lexer_.accept("exclusive");
    scan.reverse = lexer_.accept("reverse");
    return {scan, parse_references()};
  }

  Parsed parse_unique() {
    Unique unique;
    if (lexer_.peek_is("axis")) unique.axis = parse_axis();
    unique.sorted = lexer_.accept("sorted");
    return {unique, parse_references()};
  }

  Parsed parse_payload(OpKind kind, const std::vector<Header>& headers) {
    switch (kind) {
      case OpKind::kConstant: return parse_constant(headers);
      case OpKind::kCompute: return parse_compute();
      case OpKind::kReshape: return {Reshape{}, parse_references()};
      case OpKind::kReshapeDynamic: {
        const bool allow_zero = lexer_.accept("allow_zero");
        return {ReshapeDynamic{allow_zero}, parse_references()};
      }
      case OpKind::kBind: return {Bind{}, parse_references()};
      case OpKind::kCheck: return parse_check();
      case OpKind::kScatter: return parse_scatter();
      case OpKind::kPrefixScan: return parse_scan();
      case OpKind::kTopK: return parse_top_k();
      case OpKind::kNonZero: return {NonZero{}, parse_references()};
      case OpKind::kUnique: return parse_unique();
      case OpKind::kNonMaxSuppression: {
        const bool center_point_box = lexer_.accept("center_point_box");
        return {NonMaxSuppression{center_point_box}, parse_references()};
      }
      case OpKind::kDeterminant: return {Determinant{}, parse_references()};
      case OpKind::kIf: return parse_if();
      case OpKind::kLoop: return parse_loop();
      case OpKind::kRowGroup: return parse_row_group();
      case OpKind::kSequenceConstruct: return {SequenceConstruct{}, parse_references()};
      case OpKind::kSequenceInsert: return {SequenceInsert{}, parse_references()};
      case OpKind::kSequenceErase: return {SequenceErase{}, parse_references()};
      case OpKind::kSequenceAt: return {SequenceAt{}, parse_references()};
      case OpKind::kSequenceLength: return {SequenceLength{}, parse_references()};
      case OpKind::kSplitToSequence: {
        const int axis = parse_axis();
        const bool keep_dims = lexer_.accept("keep_dims");
        return {SplitToSequence{axis, keep_dims}, parse_references()};
      }
      case OpKind::kConcatFromSequence: {
        const int axis = parse_axis();
        const bool new_axis = lexer_.accept("new_axis");
        return {ConcatFromSequence{axis, new_axis}, parse_references()};
      }
    }
    STAX_UNREACHABLE();
  }

  static OpKind kind_of(const Lexer& lexer, const Token& token) {
    static const std::map<std::string, OpKind, std::less<>> kKinds = {
#define STAX_TENSOR_OP(Name, text) {text, OpKind::k##Name},
#include "tensor/ops.def"
#undef STAX_TENSOR_OP
    };
    const auto found = kKinds.find(token.text);
    if (found == kKinds.end()) lexer.error_at(token, "there is no op '{}'", token.text);
    return found->second;
  }

  void parse_op(Block& block) {
    std::vector<Header> headers;
    if (lexer_.peek().kind == TokenKind::kIdentifier && lexer_.peek().text[0] == '%') {
      do {
        headers.push_back(parse_header());
      } while (lexer_.accept(","));
      lexer_.expect("=");
    }
    const Token name = lexer_.next();
    const OpKind kind = kind_of(lexer_, name);
    Parsed parsed = parse_payload(kind, headers);
    std::vector<Expr> defines;
    if (lexer_.accept("defines")) defines = parse_exprs("[", "]");
    for (Expr symbol : defines) {
      if (!symbol.is_symbol()) lexer_.error_at(name, "what an op defines is a symbol");
    }
    std::string source;
    if (lexer_.accept("from")) source = lexer_.expect_string();
    std::vector<Type> types;
    for (const Header& header : headers) types.push_back(header.type);
    Op* op = graph_->add_op(block, std::move(parsed.payload), std::move(parsed.operands), std::move(types),
                            std::move(defines), std::move(source));
    for (size_t k = 0; k < headers.size(); ++k) define(headers[k], op->result(static_cast<int>(k)));
    if (kind == OpKind::kConstant) op->result()->contents = infer_contents(*graph_, *op);
    // A check at the top holds for the whole program, as in the builder.
    if (const auto* check = op->as<Check>(); check != nullptr && &block == &graph_->body) {
      at(name, [&] { graph_->constraints.assume_true(check->condition); });
    }
  }

  Lexer lexer_;
  std::unique_ptr<Graph> graph_;
  std::map<std::string, Expr> symbols_;
  std::map<std::string, Value*> values_;
  std::vector<Definition> definitions_;
};

}  // namespace

std::unique_ptr<Graph> parse_graph(const std::string& text) {
  std::unique_ptr<Graph> graph = Parser(text).parse();
  try {
    verify(*graph);
  } catch (const InternalError& error) {
    // Whoever wrote the text broke the rule, not a pass.
    user_error("the text is no tensor IR: {}", error.what());
  }
  return graph;
}

}  // namespace stax::tensor
