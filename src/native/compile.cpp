// SPDX-License-Identifier: Apache-2.0
// Text of kernels -> one LLVM module -> an object.
#include <llvm/Analysis/CGSCCPassManager.h>
#include <llvm/Analysis/LoopAnalysisManager.h>
#include <llvm/CodeGen/TargetPassConfig.h>
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

#include <mutex>

#include "emit/native_compiler.h"
#include "native/kernel.h"
#include "native/link.h"
#include "support/error.h"

namespace stax::native {
namespace {

using emit::KernelText;
using emit::NativeUnit;

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

NativeUnit compile(std::span<const KernelText> kernels, Isa isa, bool keep_text, bool verify) {
  const Machine machine = machine_of(isa);
  llvm::LLVMContext context;
  llvm::Module module("stax", context);
  std::unique_ptr<llvm::TargetMachine> target = target_machine(machine);
  module.setTargetTriple(target->getTargetTriple());
  module.setDataLayout(target->createDataLayout());
  module.setPICLevel(llvm::PICLevel::BigPIC);
  for (const KernelText& each : kernels) {
    const loop::Kernel kernel = loop::parse_kernel(each.text);
    KernelEmitter(module, kernel, each.entry, machine).emit();
  }
  if (verify) {
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
  NativeUnit unit;
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

class Compiler final : public emit::NativeCompiler {
 public:
  NativeUnit compile(std::span<const KernelText> kernels, Isa isa, bool keep_text, bool verify) const override {
    return native::compile(kernels, isa, keep_text, verify);
  }
  std::vector<uint8_t> link(const std::vector<std::string>& objects) const override { return link_image(objects); }
};

}  // namespace
}  // namespace stax::native

extern "C" __attribute__((visibility("default"))) const stax::emit::NativeCompiler* stax_native_compiler() {
  static const stax::native::Compiler compiler;
  return &compiler;
}
