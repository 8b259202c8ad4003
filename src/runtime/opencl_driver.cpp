// SPDX-License-Identifier: Apache-2.0
#include "runtime/opencl_driver.h"

#include "runtime/dynamic_library.h"
#include "support/error.h"

namespace stax::runtime::opencl {

namespace {

Driver load() {
  static const DynamicLibrary library(
      {"libOpenCL.so.1"}, "OpenCL library",
      "Install a loader and a driver, e.g. apt-get install ocl-icd-libopencl1 pocl-opencl-icd (which runs on any "
      "CPU), or use another --device");
  Driver driver;
#define STAX_OPENCL_LOAD(Name, ...) \
  driver.Name = reinterpret_cast<Driver::Name##Function*>(library.function("cl" #Name));
  STAX_OPENCL_FUNCTIONS(STAX_OPENCL_LOAD)
#undef STAX_OPENCL_LOAD
  return driver;
}

}  // namespace

const Driver& Driver::get() {
  static const Driver driver = load();
  return driver;
}

std::string error_name(int error) {
  const auto name = [&]() -> const char* {
    switch (error) {
      case -4: return "MEM_OBJECT_ALLOCATION_FAILURE";
      case -5: return "OUT_OF_RESOURCES";
      case -6: return "OUT_OF_HOST_MEMORY";
      case -11: return "BUILD_PROGRAM_FAILURE";
      case -14: return "EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST";
      case -30: return "INVALID_VALUE";
      case -38: return "INVALID_MEM_OBJECT";
      case -46: return "INVALID_KERNEL_NAME";
      case -48: return "INVALID_KERNEL";
      case -51: return "INVALID_ARG_SIZE";
      case -52: return "INVALID_KERNEL_ARGS";
      case -54: return "INVALID_WORK_GROUP_SIZE";
      case -55: return "INVALID_WORK_ITEM_SIZE";
      case -61: return "INVALID_BUFFER_SIZE";
      default: return "error";
    }
  };
  return fmt::format("CL_{} ({})", name(), error);
}

}  // namespace stax::runtime::opencl
