# SPDX-License-Identifier: Apache-2.0
#
# One object library per folder of src/, as cmake/layers.txt lists them.
#
#   stax_add_layers()               makes stax_<folder> for each folder that has sources
#   stax_use_layer(target folder)   links `target` with the objects of `folder` and of all that it may include
#   stax_add_native_library()       makes libstax_llvm of the folder `native`, which whatever generates native code loads
#   stax_layer_closure(out folder)  `folder` and all that it may include

set(STAX_LAYER_FILE ${CMAKE_SOURCE_DIR}/cmake/layers.txt)
set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${STAX_LAYER_FILE})

# Sets STAX_LAYERS and, for each folder, STAX_LAYER_<folder>.
macro(stax_read_layers)
  set(STAX_LAYERS "")
  file(STRINGS ${STAX_LAYER_FILE} stax_layer_lines REGEX "^[a-z_]+:")
  foreach(stax_layer_line IN LISTS stax_layer_lines)
    string(REGEX MATCH "^([a-z_]+): *(.*)$" stax_layer_match "${stax_layer_line}")
    set(stax_layer_folder ${CMAKE_MATCH_1})
    string(REGEX MATCHALL "[a-z_]+" STAX_LAYER_${stax_layer_folder} "${CMAKE_MATCH_2}")
    foreach(stax_layer_lower IN LISTS STAX_LAYER_${stax_layer_folder})
      if(NOT stax_layer_lower IN_LIST STAX_LAYERS)
        message(FATAL_ERROR "${STAX_LAYER_FILE}: ${stax_layer_folder} names ${stax_layer_lower}, which has no line above it")
      endif()
    endforeach()
    list(APPEND STAX_LAYERS ${stax_layer_folder})
  endforeach()
endmacro()

function(stax_layer_closure out folder)
  set(closure ${folder})
  foreach(lower IN LISTS STAX_LAYER_${folder})
    stax_layer_closure(below ${lower})
    list(APPEND closure ${below})
  endforeach()
  list(REMOVE_DUPLICATES closure)
  set(${out} ${closure} PARENT_SCOPE)
endfunction()

# Folders may include headers of lower folders, so their externals' headers have to be found too.
function(stax_compile_like_layer target folder)
  stax_layer_closure(closure ${folder})
  target_link_libraries(${target} PRIVATE stax_options)
  foreach(each IN LISTS closure)
    if(TARGET stax_external_${each})
      target_link_libraries(${target} PRIVATE stax_external_${each})
    endif()
  endforeach()
endfunction()

function(stax_add_layers)
  find_package(fmt REQUIRED)
  stax_add_precompiled(stax_precompiled)
  foreach(folder IN LISTS STAX_LAYERS)
    file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${folder}/*.cpp)
    file(GLOB headers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${folder}/*.h)
    if(NOT sources AND NOT headers)
      continue()
    endif()
    stax_find_externals(${folder})
    if(NOT sources)
      continue()
    endif()
    # Built for those that use it.
    add_library(stax_${folder} OBJECT EXCLUDE_FROM_ALL ${sources})
    stax_compile_like_layer(stax_${folder} ${folder})
    stax_use_precompiled(stax_${folder})
  endforeach()
endfunction()

function(stax_use_layer target folder)
  stax_layer_closure(closure ${folder})
  target_link_libraries(${target} PRIVATE stax_options)
  foreach(each IN LISTS closure)
    if(TARGET stax_${each})
      target_sources(${target} PRIVATE $<TARGET_OBJECTS:stax_${each}>)
    endif()
    if(TARGET stax_external_${each})
      target_link_libraries(${target} PRIVATE stax_external_${each})
    endif()
  endforeach()
  if("emit" IN_LIST closure AND NOT "native" IN_LIST closure)
    add_dependencies(${target} stax_llvm)
  endif()
endfunction()

# Programs look for it in their own folder, which is where it is built, and in the folder of libraries of an install tree.
cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_LIBDIR BASE_DIRECTORY ${CMAKE_INSTALL_FULL_BINDIR} OUTPUT_VARIABLE stax_library_folder)
set_source_files_properties(${CMAKE_SOURCE_DIR}/src/emit/native.cpp PROPERTIES COMPILE_DEFINITIONS STAX_LIBRARY_FOLDER="${stax_library_folder}")

function(stax_add_native_library)
  set(exports ${CMAKE_SOURCE_DIR}/cmake/native_exports.map)
  add_library(stax_llvm MODULE)
  stax_use_layer(stax_llvm native)
  target_link_options(stax_llvm PRIVATE -Wl,--version-script=${exports} -Wl,--gc-sections -Wl,--as-needed)
  if(NOT STAX_SANITIZE)
    target_link_options(stax_llvm PRIVATE -Wl,-z,defs)
  endif()
  set_target_properties(stax_llvm PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR} LINK_DEPENDS ${exports})
endfunction()
