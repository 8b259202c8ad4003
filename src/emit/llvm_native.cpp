// SPDX-License-Identifier: Apache-2.0
// Kernels -> LLVM modules -> objects -> image.
//
// A module holds a few kernels, so that what LLVM does once per module is shared; which ones depends on their number alone, never on the number
// of threads. A kernel is emitted from a copy of its own, read back from its text: expression tables are not for several threads, and so equal
// kernels give equal code whatever else their tables hold.
#include <fmt/format.h>
#include <llvm/Analysis/CGSCCPassManager.h>
#include <llvm/Analysis/LoopAnalysisManager.h>
#include <llvm/CodeGen/TargetPassConfig.h>
#include <llvm/Config/llvm-config.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/SmallVectorMemoryBuffer.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/DeadStoreElimination.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/GVN.h>
#include <llvm/Transforms/Scalar/LICM.h>
#include <llvm/Transforms/Scalar/LoopPassManager.h>
#include <llvm/Transforms/Scalar/SROA.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>
#include <llvm/Transforms/Utils/Cloning.h>

#include <atomic>
#include <exception>
#include <mutex>

#include "emit/emit.h"
#include "emit/llvm_kernel.h"
#include "emit/llvm_link.h"
#include "support/cpu.h"
#include "support/debug.h"
#include "support/error.h"
#include "support/on_threads.h"

namespace stax::emit {
namespace {

constexpr size_t kKernelsPerModule = 8;

struct Unit {
  std::string object, llvm_text, asm_text;
};

const llvm::Target& target_of(const llvm::Triple& triple) {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    llvm::InitializeNativeTargetAsmParser();
  });
  std::string error;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (target == nullptr) internal_error("LLVM has no target {}: {}", triple.str(), error);
  return *target;
}

std::unique_ptr<llvm::TargetMachine> target_machine(const Machine& machine) {
  const llvm::Triple triple(machine.x86 ? "x86_64-unknown-linux-gnu" : llvm::sys::getDefaultTargetTriple());
  const char* cpu = "generic";
  const char* features = "";
  if (machine.x86) {
    switch (machine.isa) {
      case Isa::kAvx512Vnni: cpu = "x86-64-v4", features = "+avx512vnni,+prfchw"; break;
      case Isa::kAvx512: cpu = "x86-64-v4", features = "+prfchw"; break;
      case Isa::kAvxVnni: cpu = "x86-64-v3", features = "+avxvnni"; break;
      case Isa::kAvx2: cpu = "x86-64-v3"; break;
      case Isa::kBaseline: cpu = "x86-64-v2"; break;
    }
  }
  llvm::TargetOptions options;
  return std::unique_ptr<llvm::TargetMachine>(target_of(triple).createTargetMachine(
      triple, cpu, features, options, llvm::Reloc::PIC_, llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default));
}

void optimize(llvm::Module& module, llvm::TargetMachine& target) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager calls;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&target);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(calls);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, calls, modules);

  llvm::FunctionPassManager passes;
  passes.addPass(llvm::SimplifyCFGPass());
  passes.addPass(llvm::SROAPass(llvm::SROAOptions::PreserveCFG));
  passes.addPass(llvm::EarlyCSEPass(true));
  passes.addPass(llvm::InstCombinePass());
  passes.addPass(llvm::createFunctionToLoopPassAdaptor(llvm::LICMPass(llvm::LICMOptions()), /*UseMemorySSA=*/true));
  passes.addPass(llvm::SROAPass(llvm::SROAOptions::PreserveCFG));
  passes.addPass(llvm::GVNPass());
  passes.addPass(llvm::DSEPass());
  passes.addPass(llvm::InstCombinePass());
  passes.addPass(llvm::SimplifyCFGPass());
  llvm::ModulePassManager pipeline;
  pipeline.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(passes)));
  pipeline.run(module, modules);
}

std::string generate(llvm::Module& module, llvm::TargetMachine& target, llvm::CodeGenFileType type) {
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream out(bytes);
  llvm::legacy::PassManager passes;
  if (target.addPassesToEmitFile(passes, out, nullptr, type)) internal_error("LLVM cannot write this kind of file");
  passes.run(module);
  return {bytes.begin(), bytes.end()};
}

struct Source {
  std::string entry, text;
};

Unit compile(std::span<const Source> kernels, Isa isa, bool keep_text) {
  const Machine machine = machine_of(isa);
  llvm::LLVMContext context;
  llvm::Module module("stax", context);
  std::unique_ptr<llvm::TargetMachine> target = target_machine(machine);
  module.setTargetTriple(target->getTargetTriple());
  module.setDataLayout(target->createDataLayout());
  module.setPICLevel(llvm::PICLevel::BigPIC);
  for (const Source& each : kernels) {
    const loop::Kernel kernel = loop::parse_kernel(each.text);
    KernelEmitter(module, kernel, each.entry, machine).emit();
  }
  if (debug_options().verify) {
    std::string faults;
    llvm::raw_string_ostream out(faults);
    if (llvm::verifyModule(module, &out)) {
      std::string text;
      llvm::raw_string_ostream all(text);
      module.print(all, nullptr);
      internal_error("invalid LLVM IR: {}\n{}", faults, text);
    }
  }
  optimize(module, *target);
  Unit unit;
  if (keep_text) {
    llvm::raw_string_ostream out(unit.llvm_text);
    module.print(out, nullptr);
    // Code generation changes the module: the text comes from a copy.
    std::unique_ptr<llvm::Module> copy = llvm::CloneModule(module);
    unit.asm_text = generate(*copy, *target, llvm::CodeGenFileType::AssemblyFile);
  }
  unit.object = generate(module, *target, llvm::CodeGenFileType::ObjectFile);
  return unit;
}

}  // namespace

std::string_view name_of(Isa isa) {
  switch (isa) {
    case Isa::kAvx512Vnni: return "avx512vnni";
    case Isa::kAvx512: return "avx512";
    case Isa::kAvxVnni: return "avxvnni";
    case Isa::kAvx2: return "avx2";
    case Isa::kBaseline: return "baseline";
  }
  STAX_UNREACHABLE();
}

Isa host_isa() {
  for (Isa isa : kIsas)
    if (cpu_executes(name_of(isa))) return isa;
  return Isa::kBaseline;
}

int vector_bytes(Isa isa) {
  switch (isa) {
    case Isa::kAvx512Vnni:
    case Isa::kAvx512: return 64;
    case Isa::kAvxVnni:
    case Isa::kAvx2: return 32;
    case Isa::kBaseline: return 16;
  }
  STAX_UNREACHABLE();
}

NativeImage emit_native(std::span<const NativeKernel> kernels, const EmitOptions& options) {
  std::vector<Source> sources;
  for (const NativeKernel& each : kernels) sources.push_back({each.entry, loop::print(*each.kernel, true)});
  NativeImage image;
  image.isa = options.isa;
  std::string key;
  if (options.cache != nullptr && !options.keep_text) {
    key = fmt::format("image of {}, LLVM {}, {}\n", build_id(), LLVM_VERSION_STRING, name_of(options.isa));
    for (const Source& each : sources) key += each.entry + "\n" + each.text + "\n";
    if (auto kept = options.cache->find(key)) {
      image.bytes.assign(kept->bytes().begin(), kept->bytes().end());
      return image;
    }
  }
  const size_t count = (kernels.size() + kKernelsPerModule - 1) / kKernelsPerModule;
  std::vector<Unit> units(count);
  std::atomic<size_t> next = 0;
  std::mutex fault_mutex;
  std::exception_ptr fault;
  auto work = [&](int) {
    for (size_t i = next++; i < count; i = next++) {
      try {
        const size_t first = i * kKernelsPerModule;
        const std::span<const Source> own = std::span(sources).subspan(first);
        units[i] = compile(own.first(std::min(kKernelsPerModule, own.size())), options.isa, options.keep_text);
      } catch (...) {
        const std::lock_guard lock(fault_mutex);
        if (!fault) fault = std::current_exception();
      }
    }
  };
  on_threads(static_cast<int>(std::min<size_t>(count, static_cast<size_t>(std::max(options.threads, 1)))), work);
  if (fault) std::rethrow_exception(fault);

  std::vector<std::string> objects;
  for (Unit& unit : units) {
    objects.push_back(std::move(unit.object));
    image.llvm_text += unit.llvm_text;
    image.asm_text += unit.asm_text;
  }
  image.bytes = link_image(objects);
  if (!key.empty()) options.cache->insert(key, image.bytes);
  return image;
}

std::string emit_llvm_text(const loop::Kernel& kernel, Isa isa) {
  return compile(std::array{Source{"kernel", loop::print(kernel)}}, isa, true).llvm_text;
}

std::string emit_asm_text(const loop::Kernel& kernel, Isa isa) {
  return compile(std::array{Source{"kernel", loop::print(kernel)}}, isa, true).asm_text;
}

}  // namespace stax::emit
