# SPDX-License-Identifier: Apache-2.0
#
# External libraries, each behind one target `stax_external_<folder>` for the folder of src/ that uses it. Nothing is looked
# for on behalf of a folder that is not there.

find_package(Threads REQUIRED)

function(stax_find_externals_support)
  find_package(fmt REQUIRED)
  target_link_libraries(stax_external_support INTERFACE fmt::fmt)
endfunction()

# LLVM is one shared library; lld comes as static libraries on top of it.
function(stax_find_externals_native)
  find_package(LLVM CONFIG HINTS /usr/lib/llvm-22/lib/cmake/llvm)
  if(NOT LLVM_VERSION_MAJOR EQUAL 22)
    message(FATAL_ERROR "LLVM 22 was not found (found '${LLVM_VERSION}'). Install llvm-22-dev, or run scripts/setup.")
  endif()
  find_library(STAX_LLD_ELF lldELF HINTS ${LLVM_LIBRARY_DIR} NO_DEFAULT_PATH)
  find_library(STAX_LLD_COMMON lldCommon HINTS ${LLVM_LIBRARY_DIR} NO_DEFAULT_PATH)
  if(NOT STAX_LLD_ELF OR NOT STAX_LLD_COMMON)
    message(FATAL_ERROR "lldELF or lldCommon is not in ${LLVM_LIBRARY_DIR}. Install liblld-22-dev, or run scripts/setup.")
  endif()
  # What the static lld libraries compress sections with.
  find_package(ZLIB REQUIRED)
  find_library(STAX_ZSTD zstd REQUIRED)
  target_include_directories(stax_external_native SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS})
  target_link_libraries(stax_external_native INTERFACE ${STAX_LLD_ELF} ${STAX_LLD_COMMON} LLVM ZLIB::ZLIB ${STAX_ZSTD})
endfunction()

function(stax_find_externals_runtime)
  target_link_libraries(stax_external_runtime INTERFACE Threads::Threads ${CMAKE_DL_LIBS})
endfunction()

function(stax_find_externals_frontend)
  include(onnx_proto)
  target_link_libraries(stax_external_frontend INTERFACE stax_onnx_proto)
endfunction()

function(stax_find_externals_session)
  find_package(nlohmann_json REQUIRED)
  # The CMake package of libzip names its command line tools and fails without them.
  find_path(STAX_ZIP_INCLUDE zip.h)
  find_library(STAX_ZIP_LIBRARY zip)
  if(NOT STAX_ZIP_INCLUDE OR NOT STAX_ZIP_LIBRARY)
    message(FATAL_ERROR "libzip was not found. Install libzip-dev, or run scripts/setup.")
  endif()
  target_include_directories(stax_external_session SYSTEM INTERFACE ${STAX_ZIP_INCLUDE})
  target_link_libraries(stax_external_session INTERFACE nlohmann_json::nlohmann_json ${STAX_ZIP_LIBRARY} Threads::Threads)
endfunction()

function(stax_find_externals_tools)
  find_package(CLI11 REQUIRED)
  find_package(spdlog REQUIRED)
  target_link_libraries(stax_external_tools INTERFACE CLI11::CLI11 spdlog::spdlog)
endfunction()

# Creates stax_external_<folder>, empty for a folder without externals.
function(stax_find_externals folder)
  add_library(stax_external_${folder} INTERFACE)
  if(COMMAND stax_find_externals_${folder})
    cmake_language(CALL stax_find_externals_${folder})
  endif()
endfunction()
