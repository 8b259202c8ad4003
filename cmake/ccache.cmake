# SPDX-License-Identifier: Apache-2.0
#
# Compilation through ccache where it is installed. The base directory makes results valid for any checkout.

find_program(STAX_CCACHE ccache)
if(STAX_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros
      CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}
      CCACHE_NOHASHDIR=1
      ${STAX_CCACHE})
endif()
