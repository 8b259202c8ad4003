# SPDX-License-Identifier: Apache-2.0
#
# What every target of Stax is compiled with: `stax_options`.

option(STAX_LIBRARIES "Build the libraries libstax and libstax_runtime, and install them" ON)
option(STAX_WARNINGS_AS_ERRORS "Treat compiler warnings as errors" OFF)
set(STAX_SANITIZE "" CACHE STRING "Sanitizers to build with, such as address,undefined")

add_library(stax_options INTERFACE)
target_compile_features(stax_options INTERFACE cxx_std_20)
target_include_directories(stax_options INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
target_compile_options(stax_options INTERFACE
  -Wall -Wextra -Wno-missing-field-initializers
  # No path of this machine in assertion messages and debug information: builds are reproducible and cacheable.
  -ffile-prefix-map=${CMAKE_SOURCE_DIR}/= -fmacro-prefix-map=../=)
# One set of objects serves programs and shared libraries; what a library does not use is left out of it, and only what it is for is visible.
target_compile_options(stax_options INTERFACE -fPIC -fvisibility=hidden -fvisibility-inlines-hidden -ffunction-sections -fdata-sections)
if(STAX_WARNINGS_AS_ERRORS)
  target_compile_options(stax_options INTERFACE -Werror)
endif()
if(STAX_SANITIZE)
  target_compile_options(stax_options INTERFACE
    -fsanitize=${STAX_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(stax_options INTERFACE -fsanitize=${STAX_SANITIZE})
endif()

# lld links in a fraction of the time.
find_program(STAX_LLD NAMES ld.lld-22 ld.lld HINTS /usr/lib/llvm-22/bin)
if(STAX_LLD)
  file(REAL_PATH ${STAX_LLD} lld)
  get_filename_component(lld_folder ${lld} DIRECTORY)
  if(EXISTS ${lld_folder}/ld.lld)
    # GCC looks for `ld.lld` under this very name, in the folders named with -B.
    target_link_options(stax_options INTERFACE -fuse-ld=lld -B${lld_folder})
  endif()
endif()
