// SPDX-License-Identifier: Apache-2.0
#pragma once
// The contract between compiler and runtime: a compiled model as plain data. No pointers into the compiler, no LLVM.
//
// Values and blocks
//   A program has one table of values (each with dtype and extents as expressions) and a list of blocks; block 0 is the model, the
//   others are bodies of If and Loop. A block is a list of steps that run in order. A step makes its result values.
// Expressions
//   All extents, kernel parameters, sizes and offsets are nodes of one pool (FlatExprs). Symbol slots are filled when a block starts (its
//   inputs' dims, or a body's `defines`) or after a step that defines symbols. Each such point starts a segment of the block; a segment lists
//   the nodes that become computable there, in order. Nodes that depend on outer symbols only are listed by the outer block.
// Memory
//   constant: in the constant pool. input: given by the caller or the enclosing step. alias: the data of another value (Reshape). arena: at
//   `offset` in the chunk of the segment that makes it (chunk size: the segment's arena_bytes). owned: its own reference-counted allocation
//   (block outputs, loop-carried values, sequence elements).
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "ir/dtype.h"
#include "ir/literal.h"
#include "symbolic/evaluate.h"

namespace stax::program {

using ir::DType;
using ExprRef = uint32_t;
using ValueRef = uint32_t;
inline constexpr uint32_t kNone = 0xffffffffu;

struct SymbolSpec {
  std::string name;
  int64_t lo = 0, hi = 0, multiple = 1;
};

enum class Storage : uint8_t { kConstant, kInput, kAlias, kArena, kOwned };

struct ValueSpec {
  std::string name;
  DType dtype = DType::kF32;
  bool is_sequence = false;
  std::vector<ExprRef> extents;  // kMaxRank right-aligned ones where rank != kNone
  ExprRef rank = kNone;          // run-time rank
  Storage storage = Storage::kOwned;
  uint32_t index = kNone;  // kConstant: number in `constants`; kAlias: the value
  ExprRef offset = kNone;  // kArena: in the chunk of segment `arena_segment` of the block that makes it
  uint32_t arena_segment = kNone;
  ExprRef bytes = kNone;  // of tensors: size of the data
};

struct DimSpec {
  uint32_t symbol = kNone;
  int64_t constant = 0;
};
struct InputSpec {
  std::string name;
  ValueRef value = kNone;
  std::vector<DimSpec> dims;  // as the value's extents: right-aligned where the rank is known at run time only
  uint32_t rank_symbol = kNone;
};
struct OutputSpec {
  std::string name;
  ValueRef value = kNone;
};

struct KernelSpec {    // one version of a kernel
  std::string name;    // unique, an identifier
  std::string family;  // the kernel: what all its versions compute
  uint32_t version = 0;
  std::string kernel_class;  // map, reduction, rows, contraction, attention, scatter, scan
  std::string entry;         // exported symbol in the images
  std::string loop_text;     // loop IR, for the loop device, dumps and bisect
  std::string source;        // the first op it came from
  bool flush_denormals = false;
  std::string thread_text;          // thread IR, of GPUs
  std::string code_format;          // "opencl", "ptx", "cuda", "hip" or empty
  std::string code;                 // text in that format
  int64_t static_shared_bytes = 0;  // of GPUs
  uint32_t index_bits = 64;         // of GPUs: 32 or 64, the width of parameters
  bool reports_faults = false;      // its last argument is a fault record
  std::string decisions;            // why it is scheduled so, a line each
};

struct LaunchVersion {
  uint32_t kernel = kNone;
  ExprRef guard = kNone;          // 0 at run time: the next version; kNone: any shape
  ExprRef iterations = kNone;     // of the outermost parallel loop (constant 1 without one)
  ExprRef scratch_bytes = kNone;  // per thread
  /// Without it the version gives wrong results; part of the guard. What else is in the guard is a matter of speed. kNone: nothing.
  ExprRef necessary = kNone;
  // Of devices that launch grids; kNone: 1, 1 and 0.
  std::array<ExprRef, 3> grid{kNone, kNone, kNone};  // blocks along x, y, z
  ExprRef block = kNone;                             // threads of a block
  ExprRef shared_bytes = kNone;                      // dynamic shared memory of a block
  /// Each adds two parameters behind the step's, for divisions by it: for d >= 1 with s = ceil(log2(d)) the multiplier
  /// floor(2^32 * (2^s - d) / d) + 1 and the shift s.
  std::vector<ExprRef> divisors;
  std::vector<ExprRef> scratch;  // bytes of further arguments, behind the step's: memory that the launch alone uses
};
struct LaunchStep {
  std::vector<LaunchVersion> versions;  // the first whose guard holds is launched; the last has none
  std::vector<ValueRef> arguments;      // buffers in the kernel's order, the same for all versions
  uint32_t results = 1;                 // the last ones of the arguments, which the launch makes
  std::vector<ExprRef> params;
  ExprRef work = kNone;           // about how many scalar operations all of it is; decides how many threads it gets
  ExprRef empty_if_zero = kNone;  // 0 at run time: nothing to launch
  std::string source;             // for the message of a failed index
  ExprRef operations = kNone;     // how many scalar operations its definition has, for profiles
};
struct CopyStep {
  ValueRef from = kNone, to = kNone;
};  // same bytes
struct AliasStep {
  ValueRef from = kNone, to = kNone;
};  // Reshape
struct ReshapeDynamicStep {
  ValueRef data = kNone, shape = kNone, result = kNone;
  bool allow_zero = false;
  std::vector<uint32_t> defines; /* rank, extents.. */
  std::string source;
};
struct BindStep {
  ValueRef value = kNone;
  std::vector<uint32_t> defines;
  std::string source;
};
struct CheckStep {
  ExprRef condition = kNone;
  std::string message;
  std::vector<ExprRef> arguments;
};
enum class Procedure : uint8_t { kTopK, kNonZero, kUnique, kNonMaxSuppression, kDeterminant };
struct ProcedureStep {
  Procedure procedure = Procedure::kTopK;
  std::vector<ValueRef> operands, results;
  int64_t axis = -1;         // top-k, unique (-1: flattened)
  bool flag = false;         // top-k: largest; unique: sorted; nms: center_point_box
  uint32_t defines = kNone;  // symbol of the data-dependent extent
  std::string source;
};
/// Extents of results that are symbols of their own are bound from the value that the block gave.
struct ExtentBinding {
  uint32_t symbol = kNone;
  uint32_t output = 0;
  uint32_t axis = 0;
};  // axis == kNone: the rank
struct IfStep {
  // One of the two: a value, or an expression where the shape decides.
  ValueRef condition = kNone;
  ExprRef known = kNone;
  uint32_t then_block = kNone, else_block = kNone;
  std::vector<ValueRef> results;
  std::vector<ExtentBinding> bindings;
  std::string source;
};
struct LoopStep {
  ValueRef trip_count = kNone, condition = kNone;  // kNone where absent
  std::vector<ValueRef> initial;
  uint32_t body = kNone;  // block inputs: iteration, carried..; outputs: condition?, carried.., scanned..
  std::vector<ExtentBinding> body_bindings;  // output = carried number
  std::vector<ValueRef> results;             // carried.., scanned..
  std::vector<ExtentBinding> bindings;       // output = result number; scanned results: axis 0 is the trip count
  std::string source;
  bool beside_next = false;  // the next step is a loop that needs nothing of this one: both may run at the same time
};
enum class SequenceOp : uint8_t { kConstruct, kInsert, kErase, kAt, kLength, kSplit, kConcat };
struct SequenceStep {
  SequenceOp op = SequenceOp::kConstruct;
  std::vector<ValueRef> operands;
  ValueRef result = kNone;
  int64_t axis = 0;
  bool flag = false;                    // split: keep_dims; concat: new_axis
  std::vector<ExtentBinding> bindings;  // output 0
  std::string source;
};

using Step = std::variant<LaunchStep, CopyStep, AliasStep, ReshapeDynamicStep, BindStep, CheckStep, ProcedureStep,
                          IfStep, LoopStep, SequenceStep>;

struct Segment {
  uint32_t first_step = 0;  // runs to the next segment's first_step
  uint32_t point = 0;  // its number in the order of execution over the whole program, bodies before what follows them
  std::vector<ExprRef> nodes;  // to evaluate before it, ascending
  ExprRef arena_bytes = kNone;
};

struct BlockSpec {
  std::vector<ValueRef> inputs, outputs;
  std::vector<Step> steps;
  std::vector<Segment> segments;  // at least one, starting at step 0
};

struct Image {
  std::string isa;
  std::vector<uint8_t> bytes;
};

struct Program {
  std::string build;           // of Stax, that made it
  std::string target = "cpu";  // ir::find_target
  std::vector<SymbolSpec> symbols;
  std::vector<uint32_t> symbol_points;  // the segment (its `point`) from which each symbol is known
  symbolic::FlatExprs exprs;
  std::vector<ValueSpec> values;
  std::vector<InputSpec> inputs;
  std::vector<OutputSpec> outputs;
  std::vector<BlockSpec> blocks;
  std::vector<KernelSpec> kernels;
  std::vector<ir::Literal> constants;
  std::vector<Image> images;
  std::vector<std::string> warnings;
};

std::string print(const Program& program);               // `--stage plan`
std::string text_of(const Program& program, ExprRef e);  // an expression over the symbols' names
/// The file format: magic "STAXPROG", format version, checksum of the rest, sections; weights 64-byte aligned so that they can be mapped.
std::vector<uint8_t> serialize(const Program& program);
/// UserError where the bytes are no such file, of another version, damaged, or inconsistent (every reference is checked before anything runs).
/// With an `owner`, who keeps the bytes, constants are views of them; without, copies.
Program deserialize(std::span<const uint8_t> bytes, const std::string& name_for_messages,
                    const std::shared_ptr<void>& owner = nullptr);
/// What is true of a program while it is compiled: it is built without places for values; memory is planned behind that.
enum class Stage : uint8_t { kBuilt, kPlaced };
/// Every reference in range, every value made before it is used; of placed programs also every expression computed before it is used: InternalError
/// from the compiler, UserError from deserialize.
void verify(const Program& program, Stage stage = Stage::kPlaced);
bool is_program_file(std::span<const uint8_t> first_bytes);

}  // namespace stax::program
