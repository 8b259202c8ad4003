// SPDX-License-Identifier: Apache-2.0
// The OpenCL device by itself, on programs made by hand.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <thread>

#include "runtime/runtime.h"
#include "support/error.h"

namespace stax::runtime {
namespace {

program::KernelSpec kernel(const std::string& entry, const std::string& code, uint32_t index_bits = 32,
                           bool faults = false) {
  program::KernelSpec k;
  k.name = k.entry = entry;
  k.code_format = "opencl";
  k.code = code;
  k.index_bits = index_bits;
  k.reports_faults = faults;
  return k;
}

/// Null, and the test skipped, where there is no driver; the message says what to install.
std::unique_ptr<Device> open(const program::Program& program) {
  try {
    return open_opencl(program);
  } catch (const UserError& e) {
    EXPECT_NE(std::string(e.what()).find("apt-get install"), std::string::npos) << e.what();
    return nullptr;
  }
}

#define STAX_OPEN(device, program) \
  auto device = open(program);     \
  if (device == nullptr) GTEST_SKIP() << "there is no OpenCL driver"

TEST(OpenclDevice, CopiesKeepBytesAtEveryOffset) {
  STAX_OPEN(device, program::Program());
  EXPECT_FALSE(device->name().empty());
  EXPECT_FALSE(device->unified());
  std::vector<uint8_t> bytes(1000), got(1000, 0xEE);
  std::iota(bytes.begin(), bytes.end(), 0);
  auto* a = static_cast<char*>(device->allocate(1000));
  auto* b = static_cast<char*>(device->allocate(2000));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a) % 64, 0U);
  device->copy_in(a, bytes.data(), 1000);
  device->copy(b + 1001, a + 1, 999);
  device->copy_out(got.data(), b + 1001, 999);
  EXPECT_EQ(std::memcmp(got.data(), bytes.data() + 1, 999), 0);
  EXPECT_EQ(got[999], 0xEE);
  device->release(a, 1000);
  device->release(b, 2000);
  EXPECT_EQ(device->allocate(size_t{1} << 60), nullptr);
}

// Places inside of allocations, parameters of both widths, an absent buffer, local memory that the launch sizes, a fault record.
TEST(OpenclDevice, LaunchesPassEveryKindOfArgument) {
  program::Program program;
  for (const char* type : {"int", "long"}) {
    program.kernels.push_back(kernel(std::string("k_") + type,
                                     fmt::format(R"(
      __kernel __attribute__((reqd_work_group_size(32, 1, 1))) void k_{0}(__global const float* x_object, ulong x_offset, __global const float* none,
          ulong none_offset, __global float* y_object, ulong y_offset, {0} n, {0} multiplier, __global long* fault_object, ulong fault_offset,
          __local uint4* dynamic) {{
        __global const float* x = (__global const float*)((__global const uchar*)x_object + x_offset);
        __global float* y = (__global float*)((__global uchar*)y_object + y_offset);
        __global long* fault = (__global long*)((__global uchar*)fault_object + fault_offset);
        __local float* tile = (__local float*)dynamic;
        const int t = get_local_id(0), at = get_group_id(0) * 32 + t;
        tile[t] = at < n ? x[at] : 0;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (at < n) y[at] = tile[31 - t] + get_num_groups(1) * 1000;
        if (at == 0) {{ fault[0] = 1; fault[1] = (long)(multiplier == ({0})0xfffffff0u) + (none == 0 ? 2 : 0); fault[2] = 7; fault[3] = 9; }}
      }})",
                                                 type),
                                     std::string(type) == "int" ? 32 : 64, true));
  }
  STAX_OPEN(device, program);
  std::vector<float> x(64), y(64);
  std::iota(x.begin(), x.end(), 1.0F);
  auto* memory = static_cast<char*>(device->allocate(4096));
  for (uint32_t which : {0U, 1U}) {
    std::vector<char> poison(4096, char(0x5A));
    device->copy_in(memory, poison.data(), 4096);
    device->copy_in(memory + 256, x.data(), 256);
    Launch l;
    l.kernel = which;
    void* const buffers[] = {memory + 256, nullptr, memory + 1024};
    const int64_t params[] = {64, 0xfffffff0LL};
    l.buffers = buffers;
    l.params = params;
    l.grid[0] = 2, l.grid[1] = 3;
    l.block = 32;
    l.shared_bytes = 128;
    l.fault = reinterpret_cast<Fault*>(memory + 2048);
    device->launch(l);
    device->copy_out(y.data(), memory + 1024, 256);
    for (size_t i = 0; i < 64; ++i) ASSERT_EQ(y[i], x[i / 32 * 32 + 31 - i % 32] + 3000) << i;
    Fault fault;
    device->copy_out(&fault, memory + 2048, sizeof(fault));
    EXPECT_EQ(fault.failed, 1);
    EXPECT_EQ(fault.index, 3);
    EXPECT_EQ(fault.extent, 7);
    char guard = 0;
    device->copy_out(&guard, memory + 1024 + 256, 1);
    EXPECT_EQ(guard, 0x5A);
  }
  device->release(memory, 4096);
}

// Launches of several threads each come whole, in some order.
TEST(OpenclDevice, ThreadsShareTheQueue) {
  program::Program program;
  program.kernels.push_back(kernel("add", R"(
    __kernel __attribute__((reqd_work_group_size(1, 1, 1))) void add(__global int* y_object, ulong y_offset, int by) {
      *(__global int*)((__global uchar*)y_object + y_offset) += by;
    })"));
  STAX_OPEN(device, program);
  auto* sums = static_cast<char*>(device->allocate(64));
  const std::vector<char> zeros(64);
  device->copy_in(sums, zeros.data(), 64);
  std::vector<std::thread> threads;
  for (int64_t n = 0; n < 4; ++n) {
    threads.emplace_back([&, n] {
      for (int i = 0; i < 50; ++i) {
        Launch l;
        void* const buffers[] = {sums + 4 * n};
        const int64_t params[] = {n + 1};
        l.buffers = buffers;
        l.params = params;
        device->launch(l);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  device->synchronize();
  int32_t got[4];
  device->copy_out(got, sums, sizeof(got));
  for (int n = 0; n < 4; ++n) EXPECT_EQ(got[n], 50 * (n + 1));
}

TEST(OpenclDevice, TextThatTheDriverRejectsIsAFaultWithItsLog) {
  program::Program program;
  program.kernels.push_back(kernel("bad", "__kernel void bad() { this is no C }"));
  try {
    if (open(program) == nullptr) GTEST_SKIP() << "there is no OpenCL driver";
    FAIL() << "the program was built";
  } catch (const InternalError& e) {
    EXPECT_NE(std::string(e.what()).find("kernel bad"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace stax::runtime
