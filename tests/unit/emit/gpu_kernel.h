// SPDX-License-Identifier: Apache-2.0
#pragma once
// Thread kernels made by hand, their text assembled for CUDA and HIP, and run on OpenCL.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "emit/emit_gpu.h"
#include "ir/scalar.h"
#include "symbolic/evaluate.h"
#include "unit/emit/opencl_program.h"

namespace stax::emit {

using ir::DType;
using ir::Scalar;
using symbolic::Expr;
using thread::Stmt;

/// A kernel in the making: buffers are numbered in the order in which they are added, arguments first.
class Maker {
 public:
  explicit Maker(const std::string& name, int block = 64, int index_bits = 32) {
    k_.context = std::make_shared<ir::Context>();
    k_.name = name;
    k_.kernel_class = "map";
    k_.block = block;
    k_.index_bits = index_bits;
    k_.thread = symbol("thread", block - 1);
    for (int axis = 0; axis < 3; ++axis) {
      k_.block_index[axis] = symbol("block" + std::to_string(axis), (int64_t{1} << 31) - 1);
      k_.grid[axis] = number(1);
    }
  }

  Expr symbol(const std::string& name, int64_t most, int64_t least = 0) {
    return k_.context->exprs.new_symbol({name, symbolic::SymbolKind::kLoop, {least, most}, 1});
  }
  Expr param(const std::string& name, int64_t least = 0, int64_t most = symbolic::kMaxExtent) {
    k_.params.push_back(k_.context->exprs.new_symbol({name, symbolic::SymbolKind::kParam, {least, most}, 1}));
    return k_.params.back();
  }
  int global(const std::string& name, DType t, Expr count, bool written) {
    k_.buffers.push_back({name, t, thread::Space::kGlobal, count, 0, written});
    return k_.arguments++;
  }
  int shared(const std::string& name, DType t, Expr count) { return add(name, t, thread::Space::kShared, count); }
  int local(const std::string& name, DType t, int64_t count) {
    return add(name, t, thread::Space::kLocal, number(count));
  }

  Expr number(int64_t v) { return k_.context->exprs.constant(v); }
  Scalar at(Expr e) { return k_.context->scalars.index(e); }
  Scalar load(int slot, Expr e) { return load(slot, at(e)); }
  Scalar load(int slot, Scalar i) {
    return k_.context->scalars.load(slot, k_.buffers[static_cast<size_t>(slot)].dtype, {i});
  }
  Scalar constant(DType t, double v) {
    return ir::is_float(t) ? k_.context->scalars.constant(t, v)
                           : k_.context->scalars.constant_int(t, static_cast<int64_t>(v));
  }
  Scalar call(ir::ScalarOp op, std::vector<Scalar> args) { return k_.context->scalars.op(op, std::move(args)); }

  Stmt store(int slot, Expr i, Scalar v) { return thread::make(thread::Store{slot, at(i), v}); }
  Stmt when(Expr condition, std::vector<Stmt> body) {
    return thread::make(
        thread::If{k_.context->scalars.cast(DType::kBool, at(condition)), block_of(std::move(body)), nullptr});
  }
  static Stmt block_of(std::vector<Stmt> body) { return thread::make(thread::Block{std::move(body)}); }

  Expr thread() const { return k_.thread; }
  Expr block(int axis = 0) const { return k_.block_index[axis]; }
  Expr linear() const { return k_.block_index[0] * k_.block + k_.thread; }
  thread::Kernel& kernel() { return k_; }
  ir::Context& context() { return *k_.context; }
  thread::Kernel finish(std::vector<Stmt> body) {
    k_.body = block_of(std::move(body));
    return k_;
  }

 private:
  int add(const std::string& name, DType t, thread::Space space, Expr count) {
    k_.buffers.push_back({name, t, space, count, 0, false});
    return static_cast<int>(k_.buffers.size()) - 1;
  }
  thread::Kernel k_;
};

/// A program on PATH or in /usr/local/cuda/bin; empty if there is none.
inline std::string find_tool(const std::string& name) {
  std::vector<std::string> folders{"/usr/local/cuda/bin"};
  const char* home = std::getenv("CUDA_HOME");
  if (home != nullptr) folders.insert(folders.begin(), std::string(home) + "/bin");
  std::string path = std::getenv("PATH") == nullptr ? "" : std::getenv("PATH");
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find(':', begin), path.size());
    folders.push_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  for (const std::string& folder : folders)
    if (::access((folder + "/" + name).c_str(), X_OK) == 0) return folder + "/" + name;
  return "";
}

/// What the compiler says of a kernel's text for a target; `ok`: it takes it. Warnings are faults.
struct Assembled {
  bool ok = false;
  std::string log;
};
inline Assembled assemble(const thread::Kernel& kernel, const std::string& target_name) {
  const ir::Target& target = ir::find_target(target_name);
  const bool is_cuda = target.family == "cuda";
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / fmt::format("stax_{}_{}_{}", ::getpid(), kernel.name, target.arch);
  std::filesystem::create_directories(folder);
  const std::string source = (folder / (is_cuda ? "k.cu" : "k.hip")).string(), output = (folder / "k.bin").string();
  const std::string text = emit_gpu(kernel, is_cuda ? ir::CodeFormat::kCuda : ir::CodeFormat::kHip, target);
  std::ofstream(source) << text;
  std::string command;
  if (is_cuda)
    command =
        fmt::format("{} -arch={} -cubin -Xptxas -v -std=c++17 -Werror all-warnings -diag-suppress 177,550 {} -o {}",
                    find_tool("nvcc"), target.arch, source, output);
  else
    command = fmt::format(
        "{} -x hip --cuda-device-only -nogpulib -nogpuinc --offload-arch={} -O3 -std=c++17 -Wall -Werror "
        "-Wno-unused-variable "
        "-Wno-unused-but-set-variable -Rpass-analysis=kernel-resource-usage -c {} -o {}",
        find_tool("clang-22"), target.arch, source, output);
  Assembled result;
  FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  char buffer[4096];
  while (const size_t n = ::fread(buffer, 1, sizeof(buffer), pipe)) result.log.append(buffer, n);
  result.ok = ::pclose(pipe) == 0;
  if (!result.ok) result.log += text;
  std::filesystem::remove_all(folder);
  return result;
}

/// Nothing of a thread is in memory: no stack, no spills.
inline bool stays_in_registers(const std::string& log) {
  if (log.find("ScratchSize") != std::string::npos) return log.find("ScratchSize [bytes/lane]: 0") != std::string::npos;
  return log.find("0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads") != std::string::npos;
}

inline const char* const kAssembled[] = {"cuda:sm_75", "cuda:sm_80", "cuda:sm_90a", "hip:gfx90a", "hip:gfx1100"};

inline std::string missing_compiler(const std::string& target) {
  const char* tool = target.starts_with("cuda") ? "nvcc" : "clang-22";
  return find_tool(tool).empty() ? std::string(tool) + " is not installed" : "";
}

/// Asserts that the targets take the kernel and that its values stay in registers (`in_registers`).
inline void expect_assembles(const thread::Kernel& kernel, std::vector<std::string> targets, bool in_registers = true) {
  for (const std::string& target : targets) {
    if (!missing_compiler(target).empty()) continue;
    const Assembled a = assemble(kernel, target);
    ASSERT_TRUE(a.ok) << target << "\n" << a.log;
    if (!in_registers) continue;
    EXPECT_TRUE(stays_in_registers(a.log))
        << target << "\n"
        << a.log
        << emit_gpu(kernel, ir::find_target(target).family == "hip" ? ir::CodeFormat::kHip : ir::CodeFormat::kCuda,
                    ir::find_target(target));
  }
}

/// Runs on the OpenCL device: `buffers` in argument order, poisoned or filled by the caller.
inline void run_opencl(const thread::Kernel& kernel, const std::vector<OpenclBuffer*>& buffers,
                       const std::vector<int64_t>& params, OpenclBuffer* fault = nullptr) {
  const std::string text = emit_gpu(kernel, ir::CodeFormat::kOpencl, ir::find_target("opencl"));
  OpenclProgram program(text, kernel.name);
  std::unordered_map<const symbolic::ExprNode*, int64_t> values;
  for (size_t i = 0; i < params.size(); ++i) values[kernel.params[i].node()] = params[i];
  int64_t grid[3];
  for (int axis = 0; axis < 3; ++axis) grid[axis] = symbolic::evaluate(kernel.grid[axis], values);
  program.run(buffers, params, kernel.index_bits, grid, kernel.block, fault,
              symbolic::evaluate(thread::dynamic_shared_bytes(kernel), values));
  for (OpenclBuffer* b : buffers) EXPECT_TRUE(b->guards_hold()) << "a write out of bounds\n" << text;
}

#define STAX_NEEDS_OPENCL() \
  if (const std::string& why = OpenclDevice::get().missing(); !why.empty()) GTEST_SKIP() << why

}  // namespace stax::emit
