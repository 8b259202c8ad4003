// SPDX-License-Identifier: Apache-2.0
// Reads the text form of tensor IR (text.cpp has its grammar). Ids and names come back as they were printed.
#include <array>
#include <cstring>

#include "ir/drawn.h"
#include "tensor/builder.h"
#include "tensor/graph_reader.h"

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

// A few words should not ask for a day of work.
constexpr size_t kMostDrawnBytes = size_t{1} << 30;

class Parser : GraphReader {
 public:
  using GraphReader::GraphReader;
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
    if (lexer_.accept("drawn")) {
      const ir::Drawn how = ir::parse_drawn(lexer_);
      const Literal like =
          at(token, [&] { return Literal(type.dtype, extents); });  // which asks for no memory to be used
      if (like.bytes() > kMostDrawnBytes)
        lexer_.error_at(token, "a drawn constant has at most {} bytes", kMostDrawnBytes);
      return {Constant{at(token, [&] { return ir::draw(type.dtype, extents, how); })}, {}};
    }
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
