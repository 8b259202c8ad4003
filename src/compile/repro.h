// SPDX-License-Identifier: Apache-2.0
#pragma once
// Repro files: what is needed to see one fault of the compiler again, as text. `stax replay` runs them.
//
//   stax_repro 1
//   pass fuse_ops                      one pass over the graph ..
//   session calls                     .. or calls of the model in one session, each of which is right alone: `inputs` once for each ..
//   expression floordiv               .. or an expression that the simplifier makes another one of: the model is that expression ..
//   kernel simplify version 1         .. or the model as a program, whose level or loop pass `simplify` was found to differ, in a kernel's version 1
//   fault "%t: element [0, 3] is .."   what was seen
//   disable "schedule"                 passes that were left out
//   target "sm_90a"                    of a pass: what the graph is compiled for; without: the CPU
//   device "opencl"                    what the program runs on; without: the CPU
//   emit "cuda"                        the code that it is given, where that is not the target's own
//   inputs                             optional: a graph without inputs whose results are the model's inputs
//   tensor_ir 1 ..
//   model                              as the pass got it; for a kernel, in its final form
//   tensor_ir 1 ..
//
// Lines that begin with // are comments.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stax::compile {

struct Repro {
  enum class Kind { kPass, kKernel, kSession, kExpression };
  Kind kind = Kind::kPass;
  std::string name;  // the pass over the graph, or the part of the way to native code
  std::optional<uint32_t> version;
  std::string fault;
  std::string disable;
  std::string target;                    // of kPass; empty: the CPU
  std::string device;                    // empty: the CPU
  std::string emit;                      // empty: the target's own code
  std::string inputs;                    // tensor IR text; empty: there are none
  std::vector<std::string> more_inputs;  // of the calls behind the first
  std::string model;                     // tensor IR text
  std::vector<std::string> notes;        // for the reader: comments of the file
};

bool is_repro(std::string_view first_bytes);
std::string print(const Repro& repro);
/// UserError that names the line.
Repro parse_repro(const std::string& text);

/// Writes it beside others, to STAX_REPRO_DIR or, if nobody may write there, to the folder for temporary files. Complete or not at all. The
/// path, or why there is none in parentheses.
std::string write_repro(const Repro& repro);

}  // namespace stax::compile
