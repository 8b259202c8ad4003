// SPDX-License-Identifier: Apache-2.0
#pragma once
// The functions of OpenCL that Stax calls, found at run time: building needs no header and no library of OpenCL.
//
// Symbols that are already in the process win over libOpenCL.so.1, so that a library loaded in front (Oclgrind) can stand in for a driver. The
// loader library itself reads OCL_ICD_VENDORS.
#include <cstddef>
#include <cstdint>
#include <string>

namespace stax::runtime::opencl {

using Handle = void*;  // platforms, devices, contexts, queues, memory objects, programs, kernels

// Constants of the specification.
constexpr int kSuccess = 0, kBuildProgramFailure = -11, kMemObjectAllocationFailure = -4, kOutOfResources = -5,
              kOutOfHostMemory = -6, kInvalidBufferSize = -61;
constexpr uint64_t kDeviceTypeGpu = 1 << 2, kDeviceTypeAll = 0xffffffff, kMemReadWrite = 1;
constexpr uint32_t kDeviceMaxWorkGroupSize = 0x1004, kDeviceSingleFpConfig = 0x101b, kDeviceDoubleFpConfig = 0x1032,
                   kDeviceName = 0x102b, kKernelNumArgs = 0x1191, kProgramBuildLog = 0x1183;
constexpr uint64_t kFpCorrectlyRoundedDivideSqrt = 1 << 7;

#define STAX_OPENCL_FUNCTIONS(F)                                                                                      \
  F(GetPlatformIDs, int(uint32_t, Handle*, uint32_t*))                                                                \
  F(GetDeviceIDs, int(Handle, uint64_t, uint32_t, Handle*, uint32_t*))                                                \
  F(GetDeviceInfo, int(Handle, uint32_t, size_t, void*, size_t*))                                                     \
  F(CreateContext, Handle(const intptr_t*, uint32_t, const Handle*, void*, void*, int*))                              \
  F(ReleaseContext, int(Handle))                                                                                      \
  F(CreateCommandQueue, Handle(Handle, Handle, uint64_t, int*))                                                       \
  F(ReleaseCommandQueue, int(Handle))                                                                                 \
  F(CreateProgramWithSource, Handle(Handle, uint32_t, const char**, const size_t*, int*))                             \
  F(BuildProgram, int(Handle, uint32_t, const Handle*, const char*, void*, void*))                                    \
  F(GetProgramBuildInfo, int(Handle, Handle, uint32_t, size_t, void*, size_t*))                                       \
  F(ReleaseProgram, int(Handle))                                                                                      \
  F(CreateKernel, Handle(Handle, const char*, int*))                                                                  \
  F(GetKernelInfo, int(Handle, uint32_t, size_t, void*, size_t*))                                                     \
  F(ReleaseKernel, int(Handle))                                                                                       \
  F(CreateBuffer, Handle(Handle, uint64_t, size_t, void*, int*))                                                      \
  F(ReleaseMemObject, int(Handle))                                                                                    \
  F(SetKernelArg, int(Handle, uint32_t, size_t, const void*))                                                         \
  F(EnqueueWriteBuffer, int(Handle, Handle, uint32_t, size_t, size_t, const void*, uint32_t, const Handle*, Handle*)) \
  F(EnqueueReadBuffer, int(Handle, Handle, uint32_t, size_t, size_t, void*, uint32_t, const Handle*, Handle*))        \
  F(EnqueueCopyBuffer, int(Handle, Handle, Handle, size_t, size_t, size_t, uint32_t, const Handle*, Handle*))         \
  F(EnqueueNDRangeKernel,                                                                                             \
    int(Handle, Handle, uint32_t, const size_t*, const size_t*, const size_t*, uint32_t, const Handle*, Handle*))     \
  F(Finish, int(Handle))

struct Driver {
#define STAX_OPENCL_MEMBER(Name, ...) \
  using Name##Function = __VA_ARGS__; \
  Name##Function* Name = nullptr;
  STAX_OPENCL_FUNCTIONS(STAX_OPENCL_MEMBER)
#undef STAX_OPENCL_MEMBER

  /// The one of this process. UserError that says what to install if there is none.
  static const Driver& get();
};

/// The word of the specification for an error, with its number.
std::string error_name(int error);

}  // namespace stax::runtime::opencl
