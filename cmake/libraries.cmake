# SPDX-License-Identifier: Apache-2.0
#
# The libraries that applications link with, and the install tree.
#
#   libstax            everything: imports, traces, compiles and runs
#   libstax_runtime    loads and runs compiled `.stax` files; no LLVM, no protobuf
#   libstax_llvm       what libstax and the command line load to generate native code; not linked with
#
# The first two have the headers of include/stax/ and export only what is declared there.

include(CMakePackageConfigHelpers)

# stax_add_shared_library(target file_name folder [source...]): the objects of a layer and of all below it, and further sources.
function(stax_add_shared_library target file_name folder)
  set(exports ${CMAKE_SOURCE_DIR}/cmake/exports.map)
  add_library(${target} SHARED ${ARGN})
  stax_use_layer(${target} ${folder})
  stax_use_precompiled(${target})
  target_link_options(${target} PRIVATE -Wl,--version-script=${exports} -Wl,--gc-sections -Wl,--as-needed)
  if(NOT STAX_SANITIZE)
    target_link_options(${target} PRIVATE -Wl,-z,defs)
  endif()
  target_include_directories(${target} INTERFACE
    $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(${target} INTERFACE cxx_std_20)
  # Versions 0.x promise nothing to each other.
  set_target_properties(${target} PROPERTIES
    OUTPUT_NAME ${file_name} DEFINE_SYMBOL "" LINK_DEPENDS ${exports} CXX_EXTENSIONS OFF
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
endfunction()

function(stax_add_libraries)
  stax_add_shared_library(libstax stax api)
  set_target_properties(libstax PROPERTIES EXPORT_NAME stax)
  stax_add_shared_library(libstax_runtime stax_runtime embed ${CMAKE_SOURCE_DIR}/src/embed/runtime_only/open.cpp)
  target_compile_definitions(libstax_runtime INTERFACE STAX_RUNTIME_ONLY)
  set_target_properties(libstax_runtime PROPERTIES EXPORT_NAME runtime)
  add_library(stax::stax ALIAS libstax)
  add_library(stax::runtime ALIAS libstax_runtime)
endfunction()

function(stax_install)
  set(package ${CMAKE_INSTALL_LIBDIR}/cmake/stax)
  install(TARGETS stax RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(TARGETS libstax libstax_runtime EXPORT stax LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(TARGETS stax_llvm LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/stax DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
  install(FILES ${CMAKE_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
  install(DIRECTORY ${CMAKE_SOURCE_DIR}/examples DESTINATION ${CMAKE_INSTALL_DOCDIR})

  # find_package(stax) -> stax::stax, stax::runtime
  install(EXPORT stax FILE stax-targets.cmake NAMESPACE stax:: DESTINATION ${package})
  configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/stax-config.cmake.in ${CMAKE_BINARY_DIR}/stax-config.cmake INSTALL_DESTINATION ${package})
  write_basic_package_version_file(${CMAKE_BINARY_DIR}/stax-config-version.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${CMAKE_BINARY_DIR}/stax-config.cmake ${CMAKE_BINARY_DIR}/stax-config-version.cmake DESTINATION ${package})

  # pkg-config: the folder is found from where the file lies, so that the tree can be moved.
  cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_LIBDIR BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX} OUTPUT_VARIABLE lib)
  cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_INCLUDEDIR BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX} OUTPUT_VARIABLE include)
  cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig OUTPUT_VARIABLE up)
  foreach(module stax stax-runtime)
    string(REPLACE - _ library ${module})
    set(flags "")
    set(what "a tensor compiler for dynamic shapes")
    if(module STREQUAL stax-runtime)
      set(flags " -DSTAX_RUNTIME_ONLY")
      set(what "runs compiled models of Stax, without the compiler")
    endif()
    configure_file(${CMAKE_SOURCE_DIR}/cmake/stax.pc.in ${CMAKE_BINARY_DIR}/${module}.pc @ONLY)
    install(FILES ${CMAKE_BINARY_DIR}/${module}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
  endforeach()
endfunction()
