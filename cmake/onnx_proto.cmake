# SPDX-License-Identifier: Apache-2.0
#
# `stax_onnx_proto`: the messages of ONNX, compiled from the `onnx-ml.proto` of the pinned onnx release. Use:
#   #include "onnx/onnx-ml.pb.h"

set(STAX_ONNX_PROTO "" CACHE FILEPATH "onnx-ml.proto of onnx 1.23; fetched with pip if not given")

find_package(Protobuf REQUIRED)

set(proto ${STAX_ONNX_PROTO})
if(NOT proto)
  execute_process(
    COMMAND ${CMAKE_SOURCE_DIR}/scripts/fetch_onnx_proto ${CMAKE_BINARY_DIR}/_deps/onnx
    OUTPUT_VARIABLE proto OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    set(proto "")
  endif()
endif()
if(NOT proto OR NOT EXISTS ${proto})
  message(FATAL_ERROR "No onnx-ml.proto (tried '${proto}'). Run scripts/setup and try again with access to a Python package "
                      "index, or take onnx/onnx-ml.proto out of the wheel onnx==1.23.2 and configure with "
                      "-DSTAX_ONNX_PROTO=/path/to/onnx-ml.proto.")
endif()

set(generated ${CMAKE_BINARY_DIR}/generated)
file(MAKE_DIRECTORY ${generated}/onnx)
configure_file(${proto} ${generated}/onnx/onnx-ml.proto COPYONLY)
add_custom_command(
  OUTPUT ${generated}/onnx/onnx-ml.pb.cc ${generated}/onnx/onnx-ml.pb.h
  COMMAND protobuf::protoc --proto_path=${generated} --cpp_out=${generated} onnx/onnx-ml.proto
  DEPENDS ${generated}/onnx/onnx-ml.proto
  COMMENT "Compiling onnx-ml.proto"
  VERBATIM)

add_library(stax_onnx_proto STATIC ${generated}/onnx/onnx-ml.pb.cc ${generated}/onnx/onnx-ml.pb.h)
target_compile_features(stax_onnx_proto PUBLIC cxx_std_20)
set_target_properties(stax_onnx_proto PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden)
target_include_directories(stax_onnx_proto SYSTEM PUBLIC ${generated})
target_link_libraries(stax_onnx_proto PUBLIC protobuf::libprotobuf)
