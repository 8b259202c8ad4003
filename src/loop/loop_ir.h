// SPDX-License-Identifier: Apache-2.0
#pragma once
// Loop IR: one kernel as a nest of loops over buffers.
//
// A kernel works on global buffers (its arguments: contiguous and row-major unless strides say otherwise) and on local
// buffers that it allocates. Its integer parameters are symbols (SymbolKind::kParam) that stand for extents, strides and other
// functions of the shape; the runtime evaluates them. Loops start at 0, have step 1, and an extent that is an Expr over
// parameters and outer loop variables; a negative extent counts as 0.
//
// Statements (nodes.def)
//   For       kinds: serial; parallel (the outermost statement of a kernel only: iterations are independent and run in any order and
//             on any thread); vector (iterations are independent, except that an Update of a location that does not depend on the
//             variable is a reduction; executed in lanes of `width`, the remainder masked); unrolled (constant extent); thread
//             (as vector, without a width and with any loops but parallel and thread ones inside: spread over the threads of a GPU's block);
//             warp (as thread, but an iteration belongs to the lanes of one warp together: each statement inside is in matrix loops);
//             rows, columns, depth (constant extents, in a warp loop: nests over parts of a matrix that is spread over the lanes of the
//             warp. Rows and columns: elements of a sum; rows and depth: of its left factor; depth and columns: of its right factor; all
//             three: the sum of the products, an Update by sum. Other iterations are independent).
//   Block     statements in order
//   Store     buffer[index] = value. in_background: done at some time between here and the Fence that waits for its group
//   Fence     ends the group of stores in the background since the last one, and waits until at most `pending` groups are not done yet.
//             Only such stores are affected; the interpreter does each at once.
//   Update    buffer[index] = combine(buffer[index], value); combiner sum, prod, min, max, and, or. In a vector or thread loop over
//             which the location is invariant, partial results per lane are combined at the end in a fixed order.
//   If        condition is a bool scalar. In a vector loop it becomes a mask.
//   Allocate  makes local buffer `slot` live within the body; its contents are undefined. Constant extents: registers or stack; else
//             scratch memory of the executing thread.
//   Prefetch  a hint without meaning: buffer[index], read as memory goes on where an index is past its axis, will be wanted in the cache of
//             the given level. The address may lie outside of the buffer. Indices are known without data.
// Evaluation order is program order. Buffers never alias, except that a kernel may list one buffer as both read and written
// (`in_place`). Loads out of bounds are a fault of the compiler, except under a condition that is false (If, select), where they
// are not evaluated. Scalars as in ir/scalar.h; slots number the kernel's buffers.
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "ir/combiner.h"
#include "ir/scalar.h"

namespace stax::loop {

using ir::DType;
using ir::Scalar;
using symbolic::Expr;

using ir::combine;
using ir::Combiner;
using ir::neutral;
using ir::parse_combiner;

enum class LoopKind : uint8_t { kSerial, kParallel, kVector, kUnrolled, kThread, kWarp, kRows, kColumns, kDepth };
enum class Scope : uint8_t { kGlobal, kLocal };

struct Buffer {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<Expr> extents;
  std::vector<Expr> strides;  // in elements; empty: row-major
  Scope scope = Scope::kGlobal;
  bool written = false;  // of a global buffer: written by the kernel (it may also be read)
  bool finite = false;   // of a global buffer that is not: it holds no infinity and no NaN
};

struct StmtNode;
using Stmt = std::shared_ptr<const StmtNode>;

struct For {
  Expr var;
  Expr extent;
  LoopKind kind = LoopKind::kSerial;
  int width = 0;
  Stmt body;
};
struct Block {
  std::vector<Stmt> statements;
};
struct Store {
  int slot = 0;
  std::vector<Scalar> index;
  Scalar value;
  bool in_background = false;
};
struct Fence {
  int pending = 0;
};
struct Update {
  int slot = 0;
  std::vector<Scalar> index;
  Combiner combiner = Combiner::kSum;
  Scalar value;
};
struct If {
  Scalar condition;
  Stmt then_body;
  Stmt else_body; /* may be null */
};
struct Allocate {
  int slot = 0;
  Stmt body;
};

struct Prefetch {
  int level = 1;
  int slot = 0;
  std::vector<Scalar> index;
};

enum class StmtKind : uint8_t {
#define STAX_LOOP_STMT(Name, text) k##Name,
#include "loop/nodes.def"
#undef STAX_LOOP_STMT
};

struct StmtNode {
  std::variant<For, Block, Store, Update, If, Allocate, Prefetch, Fence> v;
  StmtKind kind() const { return static_cast<StmtKind>(v.index()); }
  template <class T>
  const T* as() const {
    return std::get_if<T>(&v);
  }
};

std::string_view name_of(LoopKind kind);  // "serial", ...
std::optional<LoopKind> parse_loop_kind(std::string_view name);
/// rows, columns, depth.
bool is_matrix(LoopKind kind);

Stmt make(For s);
Stmt make(Block s);  // nested blocks are flattened; a block of one is that one
Stmt make(Store s);
Stmt make(Update s);
Stmt make(If s);
Stmt make(Allocate s);
Stmt make(Prefetch s);
Stmt make(Fence s);

struct Kernel {
  std::shared_ptr<ir::Context> context;
  std::string name;             // an identifier; not part of the identity of a kernel
  std::string kernel_class;     // "map", "reduction", "contraction", "scatter", ... for statistics and dumps
  std::vector<Buffer> buffers;  // slots: first the `arguments` global ones, then local ones
  int arguments = 0;
  std::vector<Expr> params;  // symbols of kind kParam, in the order the runtime passes them
  Stmt body;
  std::string schedule;                     // text of the schedule that was applied (transform.h)
  std::vector<std::string> check_messages;  // what a failing checked_index says: one line for the kernel's source op
};

/// Rebuilds the tree: `f` sees each statement with its parts already rewritten and returns its replacement. Unchanged trees keep
/// their pointer.
Stmt rewrite(const Stmt& root, const std::function<Stmt(const Stmt&)>& f);
/// In indices, conditions, values, extents. A loop whose variable is mapped to another variable is renamed.
Stmt substitute(const Stmt& root, const symbolic::Substitution& map);
void visit(const Stmt& root, const std::function<void(const Stmt&)>& f);  // outer before inner
/// Parameter number k is replaced by a symbol of which more is known, or by a constant (then it is still passed, and unused).
Kernel with_param(const Kernel& kernel, size_t k, Expr known);
/// A fresh loop variable; its range is 0 .. extent.range().hi - 1.
symbolic::Interval loop_range(Expr extent);
Expr loop_var(ir::Context& context, const std::string& name, Expr extent);

/// Text: complete and parseable; also the key under which equal kernels are shared (with `anonymous`: name and messages left out, and
/// variables, parameters and buffers renamed in order of appearance).
std::string print(const Kernel& kernel, bool anonymous = false);
/// A UserError says what is wrong with the text, or which rule of `verify` the kernel breaks.
Kernel parse_kernel(const std::string& text);
void verify(const Kernel&
                kernel);  // InternalError: undefined symbols, slots, dtypes, a parallel loop that is not outermost, ...

/// The interpreter: the definition of loop IR. `buffers` are raw memory in argument order, `params` in the order of kernel.params.
/// A failing checked_index throws UserError with the kernel's message, the index and the extent. Each float operation is done in double and rounded to its
/// dtype (f16 and bf16 at stores and casts only); accumulation in local buffers of f32 rounds at each store like any other.
void interpret(const Kernel& kernel, std::span<void* const> buffers, std::span<const int64_t> params);

}  // namespace stax::loop
