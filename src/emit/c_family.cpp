// SPDX-License-Identifier: Apache-2.0
#include "emit/c_family.h"

#include <algorithm>
#include <map>

#include "emit/c_functions.h"
#include "emit/c_kernel.h"
#include "support/error.h"
#include "support/overloaded.h"

namespace stax::emit {

using thread::Buffer;
using thread::Space;

namespace {

constexpr std::string_view kReserved[] = {
    "auto",     "bool",   "break", "case",     "char",      "class",   "const",    "constant",  "continue",
    "default",  "delete", "do",    "double",   "else",      "enum",    "extern",   "false",     "float",
    "for",      "global", "goto",  "half",     "i16",       "i64",     "i8",       "if",        "inline",
    "int",      "kernel", "local", "long",     "namespace", "new",     "operator", "private",   "public",
    "register", "return", "short", "signed",   "sizeof",    "static",  "struct",   "switch",    "template",
    "this",     "thread", "throw", "true",     "try",       "typedef", "u16",      "u32",       "u64",
    "u8",       "uint",   "union", "unsigned", "using",     "virtual", "void",     "volatile",  "while",
    "fault",    "asm",    "and",   "or",       "not",       "xor",     "vector",   "image2d_t", "restrict"};

std::string as_identifier(std::string_view name) {
  std::string text;
  for (char c : name) text += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  if (text.empty() || std::isdigit(static_cast<unsigned char>(text.front())) != 0) text.insert(0, "v");
  return text;
}

void replace_all(std::string& text, std::string_view what, std::string_view by) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
}

// Elements of local buffers that statements name.
std::map<int, std::set<int64_t>> elements_used(const thread::Kernel& kernel) {
  std::map<int, std::set<int64_t>> used;
  const auto add = [&](int slot, Expr first, int count) {
    if (kernel.buffers[static_cast<size_t>(slot)].space != Space::kLocal || !first || !first.is_constant()) return;
    for (int k = 0; k < count; ++k) used[slot].insert(first.constant() + k);
  };
  thread::visit(kernel.body, [&](const thread::Stmt& s) {
    thread::for_each_scalar(*s, [&](Scalar root) {
      if (!root) return;
      ir::visit(root, [&](Scalar x) {
        if (x->kind == ir::ScalarKind::kLoad) add(x->slot, ir::as_expr(x->args[0]), 1);
      });
    });
    std::visit(Overloaded{
                   [&](const thread::Store& n) { add(n.slot, ir::as_expr(n.index), 1); },
                   [&](const thread::LoadVector& n) { add(n.local, n.first, n.width); },
                   [&](const thread::StoreVector& n) { add(n.local, n.first, n.width); },
                   [&](const thread::Shuffle& n) { add(n.local, n.first, 1); },
                   [&](const thread::Vote& n) { add(n.local, n.first, 1); },
                   [&](const thread::LoadMatrix& n) { add(n.local, n.first, 2 * n.count); },
                   [&](const thread::Mma& n) {
                     const thread::MmaInstruction& i = thread::mma_instructions()[static_cast<size_t>(n.instruction)];
                     add(n.d.local, n.d.first, i.c.items), add(n.c.local, n.c.first, i.c.items);
                     add(n.a.local, n.a.first, i.a.items), add(n.b.local, n.b.first, i.b.items);
                   },
                   [](const auto&) {},
               },
               s->v);
  });
  return used;
}

}  // namespace

CKernel::CKernel(const thread::Kernel& kernel, const Dialect& dialect, const ir::Target& target)
    : kernel_(kernel),
      dialect_(dialect),
      target_(target),
      wide_(kernel.index_bits == 64),
      registers_(thread::register_slots(kernel)) {
  STAX_ASSERT(kernel.index_bits == 32 || kernel.index_bits == 64, "kernel {}: indices of {} bits", kernel.name,
              kernel.index_bits);
  has_checks_ = !kernel.check_messages.empty();
  names_.insert(std::begin(kReserved), std::end(kReserved));
  std::set<int> read, written;
  for (size_t slot = 0; slot < kernel.buffers.size(); ++slot)
    if (kernel.buffers[slot].space == Space::kGlobal && kernel.buffers[slot].written)
      written.insert(static_cast<int>(slot));
  thread::visit(kernel.body, [&](const thread::Stmt& s) {
    switch (s->kind()) {
      case thread::StmtKind::kBarrier:
      case thread::StmtKind::kShuffle:
      case thread::StmtKind::kVote:
      case thread::StmtKind::kLoadMatrix:
      case thread::StmtKind::kMma: meets_others_ = true; break;
      default: break;
    }
    if (const auto* n = s->as<thread::LoadVector>()) read.insert(n->memory);
    if (const auto* n = s->as<thread::AsyncCopy>()) read.insert(n->global);
    if (const auto* n = s->as<thread::Atomic>()) read.insert(n->slot);
    thread::for_each_scalar(*s, [&](Scalar root) {
      if (!root) return;
      ir::visit(root, [&](Scalar x) {
        if (x->kind == ir::ScalarKind::kLoad) read.insert(x->slot);
      });
    });
  });
  global_barriers_ = std::any_of(read.begin(), read.end(), [&](int slot) { return written.contains(slot); });
}

std::string CKernel::fresh(const std::string& wanted) {
  std::string name = as_identifier(wanted);
  for (int n = 1; !names_.insert(name).second; ++n) name = fmt::format("{}_{}", as_identifier(wanted), n);
  return name;
}

std::string CKernel::pointer_type(int slot) const {
  const Buffer& b = buffer(slot);
  const bool is_global = b.space == Space::kGlobal;
  std::string text(is_global ? dialect_.global : b.space == Space::kShared ? dialect_.shared_pointer : "");
  if (!text.empty()) text += " ";
  if (is_global && !b.written) text += "const ";
  return text + fmt::format("{}*", storage_type(b.dtype));
}

void CKernel::name_symbols() {
  for (const Buffer& b : kernel_.buffers) {
    std::string wanted = as_identifier(b.name);
    // "t7" and "acc_3" are names that the text makes itself.
    if (wanted.size() > 1 && wanted[0] == 't' && std::isdigit(static_cast<unsigned char>(wanted[1])) != 0)
      wanted += "_";
    buffer_names_.push_back(fresh(wanted));
  }
  index_scopes_.emplace_back();
  for (Expr p : kernel_.params) bind(p, {fresh("p_" + as_identifier(p.symbol().name)), wide_});
}

std::string CKernel::signature() {
  std::vector<std::string> parameters;
  for (int slot = 0; slot < kernel_.arguments; ++slot) {
    const std::string& name = buffer_names_[static_cast<size_t>(slot)];
    if (dialect_.object_arguments) {
      parameters.push_back(fmt::format("{} {} {}_object", pointer_type(slot), dialect_.restrict_word, name));
      parameters.push_back(fmt::format("u64 {}_offset", name));
    } else {
      parameters.push_back(fmt::format("{} {} {}", pointer_type(slot), dialect_.restrict_word, name));
    }
  }
  for (Expr p : kernel_.params) parameters.push_back(fmt::format("{} {}", index_type(wide_), find_index(p)->text));
  if (has_checks_) {
    if (dialect_.object_arguments) {
      parameters.push_back(fmt::format("{} i64* fault_object", dialect_.global));
      parameters.emplace_back("u64 fault_offset");
    } else {
      parameters.emplace_back("i64* fault");
    }
  }
  const bool has_dynamic = std::any_of(kernel_.buffers.begin(), kernel_.buffers.end(), [](const Buffer& b) {
    return b.space == Space::kShared && !b.count.is_constant();
  });
  if (has_dynamic && dialect_.object_arguments)
    parameters.push_back(fmt::format("{} u32x4* dynamic_object", dialect_.shared_pointer));
  std::string text(dialect_.kernel_prefix);
  replace_all(text, "{block}", fmt::format("{}", kernel_.block));
  return fmt::format("{} {}({}) {{", text, kernel_.name, fmt::join(parameters, ", "));
}

void CKernel::declare_threads() {
  std::set<const symbolic::ExprNode*> used;
  const auto look = [&](Expr root) {
    if (!root) return;
    for (Expr s : symbolic::free_symbols(root)) used.insert(s.node());
  };
  for (const Buffer& b : kernel_.buffers) look(b.count);
  thread::visit(kernel_.body, [&](const thread::Stmt& s) { thread::for_each_index(*s, look); });
  const auto declare = [&](Expr symbol, const char* wanted, std::string_view text) {
    if (!symbol || !used.contains(symbol.node())) return;
    const std::string name = fresh(wanted);
    line(fmt::format("const int {} = (int){};", name, text));
    bind(symbol, {name, false});
  };
  declare(kernel_.thread, "thread_x", dialect_.thread_index);
  constexpr const char* kNames[] = {"block_x", "block_y", "block_z"};
  for (size_t axis = 0; axis < 3; ++axis) declare(kernel_.block_index[axis], kNames[axis], dialect_.block_index[axis]);
}

void CKernel::declare_shared(int slot, Expr& offset) {
  const Buffer& b = buffer(slot);
  const std::string& name = buffer_names_[static_cast<size_t>(slot)];
  if (b.count.is_constant()) {
    line(fmt::format("{} {} {}[{}];", dialect_.shared, storage_type(b.dtype), name,
                     std::max<int64_t>(b.count.constant(), 1)));
    return;
  }
  if (offset.is_constant(0)) {
    if (dialect_.object_arguments)
      line(fmt::format("{0} u8* const dynamic_shared = ({0} u8*)dynamic_object;", dialect_.shared_pointer));
    else
      line(fmt::format("extern {} u8 dynamic_shared[];", dialect_.shared));
  }
  const std::string type = pointer_type(slot);
  line(fmt::format("{} const {} = ({})(dynamic_shared + {});", type, name, type, index(offset).text));
  offset = symbolic::ceildiv(offset + b.count * static_cast<int64_t>(ir::byte_size(b.dtype)), 16) * 16;
}

void CKernel::declare_locals(int slot, const std::set<int64_t>& used) {
  const Buffer& b = buffer(slot);
  const std::string& name = buffer_names_[static_cast<size_t>(slot)];
  if (!registers_[static_cast<size_t>(slot)]) {
    line(fmt::format("{} {}[{}];", storage_type(b.dtype), name, std::max<int64_t>(b.count.constant(), 1)));
    return;
  }
  std::vector<std::string> variables;
  for (int64_t i : used) {
    variables.push_back(fmt::format("{}_{}", name, i));
    names_.insert(variables.back());
    if (variables.size() == 8 || i == *used.rbegin()) {
      line(fmt::format("{} {};", storage_type(b.dtype), fmt::join(variables, ", ")));
      variables.clear();
    }
  }
}

void CKernel::declare_buffers() {
  if (dialect_.object_arguments) {
    const std::string_view global = dialect_.global;
    for (int slot = 0; slot < kernel_.arguments; ++slot) {
      const std::string& name = buffer_names_[static_cast<size_t>(slot)];
      const std::string type = pointer_type(slot);
      line(fmt::format("{} const {} = ({})(({} {}u8*){}_object + {}_offset);", type, name, type, global,
                       buffer(slot).written ? "" : "const ", name, name));
    }
    if (has_checks_)
      line(fmt::format("{0} i64* const fault = ({0} i64*)(({0} u8*)fault_object + fault_offset);", global));
  }
  const std::map<int, std::set<int64_t>> used = elements_used(kernel_);
  Expr offset = kernel_.context->exprs.constant(0);
  for (size_t slot = static_cast<size_t>(kernel_.arguments); slot < kernel_.buffers.size(); ++slot) {
    const int number = static_cast<int>(slot);
    if (kernel_.buffers[slot].space == Space::kShared) declare_shared(number, offset);
    if (kernel_.buffers[slot].space == Space::kLocal)
      declare_locals(number, used.contains(number) ? used.at(number) : std::set<int64_t>());
  }
}

std::string CKernel::run() {
  for (int slot = 0; slot < kernel_.arguments; ++slot)
    STAX_ASSERT(buffer(slot).space == Space::kGlobal, "kernel {}: argument {} is {}", kernel_.name, slot,
                thread::name_of(buffer(slot).space));
  name_symbols();
  const std::string head = signature();
  declare_threads();
  declare_buffers();
  find_offsets();
  name_divisions(kernel_.body);
  statement(kernel_.body);

  std::string body = head + "\n";
  for (const auto& [depth, text] : frame_) body += std::string(static_cast<size_t>(depth) * 2, ' ') + text + "\n";
  body += "}\n";
  std::string text = fmt::format("// {}: {}, blocks of {} threads{}\n", kernel_.name, kernel_.kernel_class,
                                 kernel_.block, kernel_.schedule.empty() ? "" : "; " + kernel_.schedule);
  text += std::string(dialect_.prologue) + "\n";
  text += functions_for(body, dialect_.functions, dialect_.constant_table);
  return text + body;
}

std::string emit_c_family(const thread::Kernel& kernel, const Dialect& dialect, const ir::Target& target) {
  return CKernel(kernel, dialect, target).run();
}

}  // namespace stax::emit
