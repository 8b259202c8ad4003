# SPDX-License-Identifier: Apache-2.0
#
# One precompiled header of the standard library and fmt for all folders, and one with GoogleTest for all tests: it takes about a
# third off a cold build. It saves parsing only; every file still includes what it uses, which -DSTAX_PRECOMPILED=OFF checks.
#
#   stax_use_precompiled(target)         for a folder or the command line
#   stax_use_precompiled_tests(target)   for a test program

option(STAX_PRECOMPILED "Precompile common headers" ON)

set(STAX_PRECOMPILED_HEADERS
  <fmt/format.h>
  <algorithm> <array> <bit> <cmath> <cstddef> <cstdint> <cstring> <functional> <limits> <map> <memory> <numeric> <optional>
  <set> <span> <string> <string_view> <unordered_map> <unordered_set> <utility> <variant> <vector>)

# stax_add_precompiled(name [library [header...]]): a precompiled header with further headers, those of `library`.
function(stax_add_precompiled name)
  if(NOT STAX_PRECOMPILED)
    return()
  endif()
  # A compiler takes a precompiled header only from a source file compiled with the same flags: this one is empty.
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/${name}.cpp CONTENT "// SPDX-License-Identifier: Apache-2.0\n")
  add_library(${name} OBJECT ${CMAKE_BINARY_DIR}/generated/${name}.cpp)
  target_link_libraries(${name} PRIVATE stax_options fmt::fmt)
  list(POP_FRONT ARGN library)
  target_link_libraries(${name} PRIVATE ${library})
  target_precompile_headers(${name} PRIVATE ${STAX_PRECOMPILED_HEADERS} ${ARGN})
  if(CMAKE_CXX_COMPILER_ID STREQUAL Clang)
    # Without the time of the header inside, equal headers are equal files, which ccache needs.
    target_compile_options(${name} PRIVATE SHELL:-Xclang -fno-pch-timestamp)
  endif()
endfunction()

function(stax_use_precompiled target)
  if(STAX_PRECOMPILED)
    target_precompile_headers(${target} REUSE_FROM stax_precompiled)
  endif()
endfunction()

function(stax_use_precompiled_tests target)
  if(STAX_PRECOMPILED)
    target_precompile_headers(${target} REUSE_FROM stax_precompiled_tests)
  endif()
endfunction()
