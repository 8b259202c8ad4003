// SPDX-License-Identifier: Apache-2.0
//
// PTX, and the machine behind it.
//
// A multiprocessor has four schedulers; each has 16 K registers of 32 bits for its warps of 32 threads and starts one instruction a cycle. What
// is scarce are those cycles and those registers: an instruction that moves or indexes costs as much as one that multiplies, and a register more
// for each thread may cost a warp that would have hidden the latency of memory. PTX is not what runs: ptxas allocates registers and schedules. It
// knows the machine, so nothing is done here that needs latencies. But it sees one function without knowing what its numbers mean, and does not
// repair everything, so the text has to be right in these:
//
//   addresses   one 64-bit register for all accesses that differ by constants, which stand in the instruction ([%rd3+256]). In a loop the register
//               advances by one addition. Index arithmetic is 32 bits wide where it can be: 64-bit integers are made of two.
//   invariants  computed in front of the loop, by construction (ptx_builder.h)
//   divisions   there are none in indices: constants and the host's multipliers (thread::Divisor) make them a multiplication and a shift
//   branches    a tail is a predicate in front of a vector access, not a branch; what is rare stands behind the end
//   order       loads of a step directly in front of their use, arguments in the order that needs fewest registers. ptxas keeps roughly the order
//               it gets: the same instructions scattered cost it up to twice the registers
//   caches      what the kernel does not write is read past the coherent path (ld.global.nc); accesses are of 16 bytes where the IR has vectors
//   rounding    every operation says .rn: without it ptxas may contract a product and a sum. Where a sum of products is wanted, it is fma
//
// A kernel is written in two steps. KernelEmitter makes a list of instructions over virtual registers of six classes; the list is tidied
// (ptx_code.h) and printed. Text is the same from run to run: nothing is ordered by address or hash.
#include "emit/ptx.h"

#include <cctype>

#include "emit/ptx_kernel.h"
#include "support/error.h"
#include "thread/mma.h"

namespace stax::emit {

namespace {

// The first version that knows the machine, so that older drivers take it.
const char* version_of(int sm) { return sm >= 100 ? "8.7" : "8.0"; }

}  // namespace

int ptx::sm_of(const ir::Target& target) {
  STAX_ASSERT(target.family == "cuda" && target.arch.starts_with("sm_"), "PTX for {}", target.name);
  int sm = 0;
  for (char c : target.arch)
    if (std::isdigit(static_cast<unsigned char>(c)) != 0) sm = sm * 10 + (c - '0');
  return sm;
}

ptx::Code ptx::code_of(const thread::Kernel& kernel, const ir::Target& target) {
  return KernelEmitter(kernel, target, sm_of(target)).emit().code;
}

std::string emit_ptx(const thread::Kernel& kernel, const ir::Target& target) {
  const int sm = ptx::sm_of(target);
  thread::visit(kernel.body, [&](const thread::Stmt& s) {
    const auto* mma = s->as<thread::Mma>();
    if (mma == nullptr) return;
    const thread::MmaInstruction& m = thread::mma_instructions()[static_cast<size_t>(mma->instruction)];
    STAX_ASSERT(!m.ptx.empty() && m.least_sm <= sm, "{} is no instruction of {}", m.name, target.name);
  });
  const ptx::KernelCode made = ptx::KernelEmitter(kernel, target, sm).emit();
  std::string text = fmt::format(".version {}\n.target {}\n.address_size 64\n\n", version_of(sm), target.arch);
  if (made.dynamic_shared) text += ".extern .shared .align 16 .b8 dynamic_shared[];\n\n";
  if (made.math_table) {
    text += fmt::format(".const .align 4 .b32 two_over_pi[{}] = {{", ir::two_over_pi().size());
    for (size_t k = 0; k < ir::two_over_pi().size(); ++k)
      text += fmt::format("{}{}", k == 0 ? "" : ", ", ir::two_over_pi()[k]);
    text += "};\n\n";
  }
  std::vector<std::string> parameters;
  for (int slot = 0; slot < kernel.arguments; ++slot)
    parameters.push_back(fmt::format(".param .u64 {}_{}", kernel.name, slot));
  for (size_t k = 0; k < kernel.params.size(); ++k)
    parameters.push_back(fmt::format(".param .b{} {}_p{}", kernel.index_bits, kernel.name, k));
  if (!kernel.check_messages.empty()) parameters.push_back(fmt::format(".param .u64 {}_fault", kernel.name));
  text += fmt::format(".visible .entry {}(", kernel.name);
  for (size_t k = 0; k < parameters.size(); ++k) text += (k == 0 ? "\n  " : ",\n  ") + parameters[k];
  // Without .minnctapersm ptxas aims at an occupancy of its own, and spills for it.
  text += fmt::format(")\n.reqntid {}, 1, 1\n.minnctapersm 1\n{{\n", kernel.block);
  return text + made.declarations + ptx::print(made.code) + "}\n";
}

}  // namespace stax::emit
