// SPDX-License-Identifier: Apache-2.0
#include "emit/standalone.h"

#include <fmt/format.h>

#include "emit/c_family.h"
#include "emit/c_functions.h"
#include "emit/emit_gpu.h"
#include "support/error.h"

namespace stax::emit {

namespace {

using symbolic::Expr;
using symbolic::ExprKind;
using thread::Kernel;

// The part that is the same for all: expressions, inputs, comparison.
constexpr std::string_view kHost = R"(
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace host {

typedef long long i64;

inline i64 floordiv(i64 a, i64 b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }
inline i64 mod(i64 a, i64 b) { return a - floordiv(a, b) * b; }
inline i64 least(i64 a, i64 b) { return a < b ? a : b; }
inline i64 most(i64 a, i64 b) { return a > b ? a : b; }

// floordiv(x, value) = (high32(x * multiplier) + x) >> shift
inline i64 shift_of(i64 value) {
  i64 shift = 0;
  while ((1LL << shift) < value) ++shift;
  return shift;
}
inline i64 multiplier_of(i64 value) {
  return (i64)(((1ULL << 32) * ((1ULL << shift_of(value)) - (unsigned long long)value)) / (unsigned long long)value + 1);
}

struct Buffer {
  std::string name, type;
  i64 count, size;
  bool written;
  std::vector<unsigned char> given, want, got;
  void* device = nullptr;
};

inline unsigned long long draw() {
  static unsigned long long state = 0x9e3779b97f4a7c15ULL;
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return state * 0x2545f4914f6cdd1dULL >> 20;
}

// Floats between -1 and 1, integers from 0 to 7.
inline void fill(Buffer& b) {
  b.given.resize((size_t)(b.count * b.size));
  for (i64 k = 0; k < b.count; ++k) {
    unsigned char* at = b.given.data() + k * b.size;
    const unsigned long long bits = draw();
    const double unit = (double)(bits & 0xffffff) / 8388608.0 - 1.0;
    const float narrow = (float)unit;
    const unsigned short half = (unsigned short)((bits & 0x8000) | 14 << 10 | (bits & 0x3ff)), brain = (unsigned short)((bits & 0x8000) | 126 << 7 | (bits & 0x7f));
    const i64 integer = b.type == "bool" ? (i64)(bits & 1) : (i64)(bits & 7);
    const void* from = b.type == "f64" ? (const void*)&unit : b.type == "f32" ? (const void*)&narrow : b.type == "f16" ? (const void*)&half : b.type == "bf16" ? (const void*)&brain : (const void*)&integer;
    std::memcpy(at, from, (size_t)b.size);
  }
  b.want = b.got = b.given;
}

inline double decode(const Buffer& b, const std::vector<unsigned char>& data, i64 k) {
  const unsigned char* at = data.data() + k * b.size;
  if (b.type == "f64") return *(const double*)at;
  if (b.type == "f32") return *(const float*)at;
  if (b.type == "f16") return simple::f16_value(*(const unsigned short*)at);
  if (b.type == "bf16") return simple::f32_value((unsigned)*(const unsigned short*)at << 16);
  i64 value = 0;
  std::memcpy(&value, at, (size_t)b.size);
  if (b.type[0] == 'i' && b.size < 8) value = (i64)((unsigned long long)value << (64 - 8 * b.size)) >> (64 - 8 * b.size);
  return (double)value;
}

// Floats may differ by rounding: relative to the element and to the largest of all.
inline bool agrees(const Buffer& b) {
  const double tolerance = b.type == "f64" ? 1e-9 : b.type == "f32" ? 1e-4 : b.type == "f16" ? 1e-2 : b.type == "bf16" ? 5e-2 : 0;
  double largest = 0, worst = 0;
  i64 wrong = 0, first = -1;
  for (i64 k = 0; k < b.count; ++k) {
    const double want = decode(b, b.want, k);
    if (std::isfinite(want)) largest = std::fmax(largest, std::fabs(want));
  }
  for (i64 k = 0; k < b.count; ++k) {
    const double want = decode(b, b.want, k), got = decode(b, b.got, k), off = std::fabs(got - want);
    if (want == got || (want != want && got != got)) continue;
    if (off == off && off < INFINITY) worst = std::fmax(worst, off);
    if (tolerance > 0 && off <= tolerance * (std::fabs(want) + largest)) continue;
    if (wrong++ == 0) first = k;
  }
  if (wrong > 0)
    std::printf("%s: %lld of %lld differ, first at %lld: %.9g, the simple loop has %.9g\n", b.name.c_str(), wrong, b.count, first, decode(b, b.got, first), decode(b, b.want, first));
  else
    std::printf("%s: %lld elements agree, off by %.3g at most\n", b.name.c_str(), b.count, worst);
  return wrong == 0;
}

}  // namespace host
)";

// Of CUDA and HIP, which differ in a prefix.
constexpr std::string_view kGpuCalls = R"(
static void check(GPU(Error_t) error, const char* what) {
  if (error == GPU(Success)) return;
  std::printf("%s: %s\n", what, GPU(GetErrorString)(error));
  std::exit(2);
}
)";

// What a file needs of OpenCL, which has no header on many machines.
constexpr std::string_view kOpenclCalls = R"(
extern "C" {
typedef void* cl_handle;
int clGetPlatformIDs(unsigned, cl_handle*, unsigned*);
int clGetDeviceIDs(cl_handle, unsigned long, unsigned, cl_handle*, unsigned*);
int clGetDeviceInfo(cl_handle, unsigned, size_t, void*, size_t*);
cl_handle clCreateContext(const long*, unsigned, const cl_handle*, void*, void*, int*);
cl_handle clCreateCommandQueue(cl_handle, cl_handle, unsigned long, int*);
cl_handle clCreateBuffer(cl_handle, unsigned long, size_t, void*, int*);
cl_handle clCreateProgramWithSource(cl_handle, unsigned, const char**, const size_t*, int*);
int clBuildProgram(cl_handle, unsigned, const cl_handle*, const char*, void*, void*);
int clGetProgramBuildInfo(cl_handle, cl_handle, unsigned, size_t, void*, size_t*);
cl_handle clCreateKernel(cl_handle, const char*, int*);
int clSetKernelArg(cl_handle, unsigned, size_t, const void*);
int clEnqueueWriteBuffer(cl_handle, cl_handle, unsigned, size_t, size_t, const void*, unsigned, const cl_handle*, cl_handle*);
int clEnqueueReadBuffer(cl_handle, cl_handle, unsigned, size_t, size_t, void*, unsigned, const cl_handle*, cl_handle*);
int clEnqueueNDRangeKernel(cl_handle, cl_handle, unsigned, const size_t*, const size_t*, const size_t*, unsigned, const cl_handle*, cl_handle*);
int clGetEventProfilingInfo(cl_handle, unsigned, size_t, void*, size_t*);
int clFinish(cl_handle);
}

static void check(int error, const char* what) {
  if (error == 0) return;
  std::printf("%s: OpenCL error %d\n", what, error);
  std::exit(2);
}
)";

constexpr int kTimed = 20;  // launches

/// A file in the making.
class Writer {
 public:
  Writer(const Standalone& file, const ir::Target& target)
      : file_(file), kernel_(file.kernel), simple_(file.simple), target_(target) {}

  std::string run() {
    text_ = fmt::format("// {}: {}, blocks of {} threads, with what it has to do as a simple loop.\n", kernel_.name,
                        kernel_.kernel_class, kernel_.block);
    if (target_.family == "opencl")
      text_ += "//   c++ FILE -o run -lOpenCL && ./run\n";
    else if (target_.family == "hip")
      text_ += fmt::format("//   hipcc --offload-arch={} FILE -o run && ./run\n", target_.arch);
    else
      text_ += fmt::format("//   nvcc -arch={} FILE -o run && ./run\n", target_.arch);
    text_ += "// Arguments of ./run, in order:\n";
    for (size_t k = 0; k < simple_.params.size(); ++k)
      text_ +=
          fmt::format("//   {} = {} ({} here)\n", simple_.params[k].symbol().name, file_.meaning[k], file_.params[k]);
    const bool is_opencl = target_.family == "opencl", is_hip = target_.family == "hip";
    const std::string code = emit_gpu(kernel_,
                                      is_opencl ? ir::CodeFormat::kOpencl
                                      : is_hip  ? ir::CodeFormat::kHip
                                                : ir::CodeFormat::kCuda,
                                      target_);
    if (is_hip) text_ += "#if __has_include(<hip/hip_runtime.h>)\n#include <hip/hip_runtime.h>\n#endif\n";
    text_ += is_opencl ? fmt::format("static const char* const kSource = R\"opencl(\n{})opencl\";\n", code) : code;
    if (is_hip) text_ += "\n#if __has_include(<hip/hip_runtime.h>)";
    text_ += "\nnamespace simple {\n" + emit_c_family(simple_, host_dialect(), target_) + std::string(kValues) + "}\n";
    text_ += kHost;
    if (is_opencl) {
      text_ += kOpenclCalls;
    } else {
      text_ += fmt::format("\n#define GPU(name) {}##name\n", is_hip ? "hip" : "cuda");
      text_ += kGpuCalls;
    }
    main_begins();
    if (is_opencl)
      opencl_main();
    else
      gpu_main();
    main_ends();
    if (is_hip) text_ += "#endif\n";
    return std::move(text_);
  }

 private:
  // Of f16 and bf16 in memory, whatever functions the kernel itself needs.
  static constexpr std::string_view kValues = R"(
inline double f32_value(u32 bits) {
  float x;
  __builtin_memcpy(&x, &bits, sizeof x);
  return x;
}
inline double f16_value(u16 x) {
  const int exponent = (x >> 10) & 31;
  const double sign = x & 0x8000 ? -1.0 : 1.0, fraction = (double)(x & 0x3ff) / 1024.0;
  if (exponent == 31) return fraction == 0 ? sign * __builtin_inf() : __builtin_nan("");
  return sign * (exponent == 0 ? fraction * 0x1p-14 : (1.0 + fraction) * __builtin_ldexp(1.0, exponent - 15));
}
)";

  void line(const std::string& s) { text_ += "  " + s + "\n"; }

  /// An expression over the parameters of a kernel as C++ on the host.
  std::string host(Expr e, const Kernel& k) const {
    if (e.is_constant()) return std::to_string(e.constant());
    if (e.is_symbol()) {
      for (size_t p = 0; p < k.params.size(); ++p)
        if (k.params[p] == e) return fmt::format("p[{}]", p);
      internal_error("kernel {}: {} is no parameter", k.name, e.str());
    }
    std::vector<std::string> args;
    for (Expr a : e.args()) args.push_back(host(a, k));
    const auto joined = [&](const char* with) { return fmt::format("({})", fmt::join(args, with)); };
    const auto nested = [&](const char* name) {
      std::string text = args[0];
      for (size_t i = 1; i < args.size(); ++i) text = fmt::format("host::{}({}, {})", name, text, args[i]);
      return text;
    };
    switch (e.kind()) {
      case ExprKind::kAdd: return joined(" + ");
      case ExprKind::kMul: return joined(" * ");
      case ExprKind::kFloorDiv: return nested("floordiv");
      case ExprKind::kMod: return nested("mod");
      case ExprKind::kMin: return nested("least");
      case ExprKind::kMax: return nested("most");
      case ExprKind::kLess: return fmt::format("(host::i64)({} < {})", args[0], args[1]);
      case ExprKind::kEqual: return fmt::format("(host::i64)({} == {})", args[0], args[1]);
      case ExprKind::kSelect: return fmt::format("({} ? {} : {})", args[0], args[1], args[2]);
      case ExprKind::kConstant:
      case ExprKind::kSymbol: break;
    }
    STAX_UNREACHABLE();
  }
  bool reports_faults() const { return !kernel_.check_messages.empty(); }
  bool has_dynamic_shared(const Kernel& k) const { return !thread::dynamic_shared_bytes(k).is_constant(0); }

  void main_begins() {
    text_ += "\nint main(int words, char** word) {\n";
    std::vector<std::string> values;
    for (int64_t v : file_.params) values.push_back(fmt::format("{}LL", v));
    line(fmt::format("host::i64 p[{}] = {{{}}};", kernel_.params.size() + 1, fmt::join(values, ", ")));
    line(fmt::format("for (int k = 1; k < words && k <= {}; ++k) p[k - 1] = std::atoll(word[k]);",
                     simple_.params.size()));
    // An extent of 0 divides nothing.
    for (const thread::Divisor& d : kernel_.divisors) {
      const std::string value = fmt::format("host::most({}, 1)", host(d.value, kernel_));
      line(fmt::format("{} = host::multiplier_of({});", host(d.multiplier, kernel_), value));
      line(fmt::format("{} = host::shift_of({});", host(d.shift, kernel_), value));
    }
    line(fmt::format("const host::i64 grid[3] = {{{}, {}, {}}}, block = {};", host(kernel_.grid[0], kernel_),
                     host(kernel_.grid[1], kernel_), host(kernel_.grid[2], kernel_), kernel_.block));
    if (target_.family != "opencl" || has_dynamic_shared(kernel_))
      line(fmt::format("const host::i64 shared = {};", host(thread::dynamic_shared_bytes(kernel_), kernel_)));
    line(
        "if (grid[0] * grid[1] * grid[2] == 0) return std::printf(\"there is nothing to do at these extents\\n\"), 0;");
    line("std::vector<host::Buffer> buffers = {");
    for (int k = 0; k < kernel_.arguments; ++k) {
      const thread::Buffer& b = kernel_.buffers[static_cast<size_t>(k)];
      const bool is_scratch = k >= kernel_.arguments - kernel_.scratch;
      line(fmt::format("    {{\"{}\", \"{}\", {}, {}, {}, {{}}, {{}}, {{}}}},", b.name, ir::name_of(b.dtype),
                       host(b.count, kernel_), ir::byte_size(b.dtype), b.written && !is_scratch));
    }
    line("};");
    line("double bytes = 0;");
    line("for (host::Buffer& b : buffers) host::fill(b), bytes += (double)(b.count * b.size);");
    line("host::i64 want_fault[4] = {}, fault[4] = {};");
    line("// What has to be there.");
    std::vector<std::string> arguments;
    for (int k = 0; k < simple_.arguments; ++k)
      arguments.push_back(fmt::format("({})buffers[{}].want.data(), 0", pointer(simple_, k), k));
    for (size_t k = 0; k < simple_.params.size(); ++k) arguments.push_back(fmt::format("p[{}]", k));
    if (!simple_.check_messages.empty()) arguments.emplace_back("want_fault, 0");
    if (has_dynamic_shared(simple_)) {
      line(fmt::format("std::vector<simple::u32x4> room((size_t)(({}) / 16 + 1));",
                       host(thread::dynamic_shared_bytes(simple_), simple_)));
      arguments.emplace_back("room.data()");
    }
    line(fmt::format("simple::{}({});", simple_.name, fmt::join(arguments, ", ")));
  }
  static std::string pointer(const Kernel& k, int slot) {
    const thread::Buffer& b = k.buffers[static_cast<size_t>(slot)];
    return fmt::format("{}{}*", b.written ? "" : "const ", storage(b.dtype));
  }
  // Types that C++ has itself stand as they are.
  static std::string storage(ir::DType t) {
    const std::string name(storage_type(t));
    return name == "float" || name == "double" || name == "int" ? name : "simple::" + name;
  }

  void gpu_main() {
    line("for (host::Buffer& b : buffers) {");
    line("  check(GPU(Malloc)(&b.device, (size_t)host::most(b.count * b.size, 16)), \"memory\");");
    line("  check(GPU(Memcpy)(b.device, b.given.data(), b.given.size(), GPU(MemcpyHostToDevice)), \"a copy\");");
    line("}");
    line("host::i64* device_fault = nullptr;");
    line("check(GPU(Malloc)((void**)&device_fault, sizeof fault), \"memory\");");
    line("check(GPU(Memcpy)(device_fault, fault, sizeof fault, GPU(MemcpyHostToDevice)), \"a copy\");");
    if (has_dynamic_shared(kernel_))
      line(
          fmt::format("check(GPU(FuncSetAttribute)((const void*){}, GPU(FuncAttributeMaxDynamicSharedMemorySize), "
                      "(int)shared), \"shared memory\");",
                      kernel_.name));
    std::vector<std::string> arguments;
    for (int k = 0; k < kernel_.arguments; ++k) {
      const thread::Buffer& b = kernel_.buffers[static_cast<size_t>(k)];
      arguments.push_back(
          fmt::format("({}{}*)buffers[{}].device", b.written ? "" : "const ", storage_type(b.dtype), k));
    }
    for (size_t k = 0; k < kernel_.params.size(); ++k)
      arguments.push_back(fmt::format("({})p[{}]", kernel_.index_bits == 32 ? "int" : "i64", k));
    if (reports_faults()) arguments.emplace_back("device_fault");
    const std::string launch = fmt::format(
        "{}<<<dim3((unsigned)grid[0], (unsigned)grid[1], (unsigned)grid[2]), (unsigned)block, (size_t)shared>>>({});",
        kernel_.name, fmt::join(arguments, ", "));
    line(launch);
    line("check(GPU(GetLastError)(), \"the launch\");");
    line("check(GPU(DeviceSynchronize)(), \"the kernel\");");
    line(
        "for (host::Buffer& b : buffers) check(GPU(Memcpy)(b.got.data(), b.device, b.got.size(), "
        "GPU(MemcpyDeviceToHost)), \"a copy\");");
    line("check(GPU(Memcpy)(fault, device_fault, sizeof fault, GPU(MemcpyDeviceToHost)), \"a copy\");");
    line("GPU(Event_t) start, stop;");
    line("check(GPU(EventCreate)(&start), \"an event\"), check(GPU(EventCreate)(&stop), \"an event\");");
    line("check(GPU(EventRecord)(start, 0), \"an event\");");
    line(fmt::format("for (int k = 0; k < {}; ++k)", kTimed));
    line("  " + launch);
    line("check(GPU(EventRecord)(stop, 0), \"an event\"), check(GPU(EventSynchronize)(stop), \"the kernel\");");
    line("float ms = 0;");
    line("check(GPU(EventElapsedTime)(&ms, start, stop), \"the time\");");
    line(fmt::format("const double spent = ms / {} * 1e-3;", kTimed));
  }

  void opencl_main() {
    line("cl_handle platforms[16], device = nullptr;");
    line("unsigned count = 0;");
    line("check(clGetPlatformIDs(16, platforms, &count), \"the platforms\");");
    line("for (unsigned long kind : {4UL, 0xffffffffUL})  // a GPU, else anything");
    line("  for (unsigned k = 0; k < count && k < 16 && device == nullptr; ++k)");
    line("    if (clGetDeviceIDs(platforms[k], kind, 1, &device, nullptr) != 0) device = nullptr;");
    line("if (device == nullptr) return std::printf(\"there is no OpenCL device\\n\"), 2;");
    line("int error = 0;");
    line("cl_handle context = clCreateContext(nullptr, 1, &device, nullptr, nullptr, &error);");
    line("check(error, \"the context\");");
    line("cl_handle queue = clCreateCommandQueue(context, device, 2, &error);  // with times");
    line("check(error, \"the queue\");");
    line("const char* source = kSource;");
    line("cl_handle program = clCreateProgramWithSource(context, 1, &source, nullptr, &error);");
    line("check(error, \"the program\");");
    line("if (clBuildProgram(program, 1, &device, \"-cl-std=CL1.2\", nullptr, nullptr) != 0) {");
    line("  static char log[1 << 16];");
    line("  clGetProgramBuildInfo(program, device, 0x1183, sizeof log - 1, log, nullptr);");
    line("  return std::printf(\"%s\\n\", log), 2;");
    line("}");
    line(fmt::format("cl_handle kernel = clCreateKernel(program, \"{}\", &error);", kernel_.name));
    line("check(error, \"the kernel\");");
    line("unsigned number = 0;");
    line("const unsigned long nowhere = 0;");
    line("const auto memory = [&](void* data, size_t size) {");
    line("  cl_handle object = clCreateBuffer(context, 1, size > 16 ? size : 16, nullptr, &error);");
    line("  check(error, \"memory\");");
    line("  check(clEnqueueWriteBuffer(queue, object, 1, 0, size, data, 0, nullptr, nullptr), \"a copy\");");
    line("  check(clSetKernelArg(kernel, number++, sizeof object, &object), \"an argument\");");
    line("  check(clSetKernelArg(kernel, number++, sizeof nowhere, &nowhere), \"an argument\");");
    line("  return object;");
    line("};");
    line("for (host::Buffer& b : buffers) b.device = memory(b.given.data(), b.given.size());");
    line(fmt::format("for (int k = 0; k < {}; ++k) {{", kernel_.params.size()));
    if (kernel_.index_bits == 32) {
      line("  const unsigned narrow = (unsigned)p[k];");
      line("  check(clSetKernelArg(kernel, number++, sizeof narrow, &narrow), \"an argument\");");
    } else {
      line("  check(clSetKernelArg(kernel, number++, sizeof p[k], &p[k]), \"an argument\");");
    }
    line("}");
    if (reports_faults()) line("cl_handle device_fault = memory(fault, sizeof fault);");
    if (has_dynamic_shared(kernel_))
      line("check(clSetKernelArg(kernel, number++, (size_t)host::most(shared, 16), nullptr), \"shared memory\");");
    line(
        "const size_t local[3] = {(size_t)block, 1, 1}, global[3] = {(size_t)(grid[0] * block), (size_t)grid[1], "
        "(size_t)grid[2]};");
    line(
        "check(clEnqueueNDRangeKernel(queue, kernel, 3, nullptr, global, local, 0, nullptr, nullptr), \"the "
        "launch\");");
    line(
        "for (host::Buffer& b : buffers) check(clEnqueueReadBuffer(queue, b.device, 1, 0, b.got.size(), b.got.data(), "
        "0, "
        "nullptr, nullptr), \"a copy\");");
    if (reports_faults())
      line(
          "check(clEnqueueReadBuffer(queue, device_fault, 1, 0, sizeof fault, fault, 0, nullptr, nullptr), \"a "
          "copy\");");
    line("double spent = 0;");
    line(fmt::format("for (int k = 0; k < {}; ++k) {{", kTimed));
    line("  cl_handle event = nullptr;");
    line(
        "  check(clEnqueueNDRangeKernel(queue, kernel, 3, nullptr, global, local, 0, nullptr, &event), \"the "
        "launch\");");
    line("  check(clFinish(queue), \"the kernel\");");
    line("  unsigned long from = 0, to = 0;");
    line("  clGetEventProfilingInfo(event, 0x1282, sizeof from, &from, nullptr);");
    line("  clGetEventProfilingInfo(event, 0x1283, sizeof to, &to, nullptr);");
    line(fmt::format("  spent += (double)(to - from) * 1e-9 / {};", kTimed));
    line("}");
  }

  void main_ends() {
    line("bool fine = fault[0] == want_fault[0];");
    line(
        "if (!fine) std::printf(\"an index is %s range on the GPU and %s in the simple loop\\n\", fault[0] ? \"out "
        "of\" : "
        "\"in\", want_fault[0] ? \"is not\" : \"is\");");
    line(
        "if (fault[0] && fine) std::printf(\"index %lld is not below %lld: these inputs are no inputs\\n\", fault[1], "
        "fault[2]);");
    line("for (const host::Buffer& b : buffers)");
    line("  if (b.written && !fault[0]) fine = host::agrees(b) && fine;");
    line(
        "std::printf(\"%.3f us, %.1f GB/s if each buffer moves once\\n%s\\n\", spent * 1e6, bytes / spent * 1e-9, fine "
        "? "
        "\"right\" : \"WRONG\");");
    line("return fine ? 0 : 1;");
    text_ += "}\n";
  }

  const Standalone& file_;
  const Kernel& kernel_;
  const Kernel& simple_;
  const ir::Target& target_;
  std::string text_;
};

}  // namespace

std::string emit_standalone(const Standalone& file, const ir::Target& target) {
  STAX_ASSERT(file.params.size() == file.simple.params.size() && file.meaning.size() == file.params.size(),
              "kernel {}: {} values for {} parameters", file.kernel.name, file.params.size(),
              file.simple.params.size());
  return Writer(file, target).run();
}

}  // namespace stax::emit
