# SPDX-License-Identifier: Apache-2.0
#
# cmake -DPYTHON= -DSTAX= -DSCRIPT= -DMODELS= -P make_models.cmake: ONNX models, and the compiled form of those that the runtime library loads.

execute_process(COMMAND ${CMAKE_COMMAND} -E env STAX=${STAX} ${PYTHON} ${SCRIPT} ${MODELS} RESULT_VARIABLE status)
if(status EQUAL 77)
  return()
endif()
if(NOT status EQUAL 0)
  message(FATAL_ERROR "${SCRIPT} failed")
endif()
foreach(model dense nonzero sequence)
  execute_process(COMMAND ${STAX} compile ${MODELS}/${model}.onnx -o ${MODELS}/${model}.stax COMMAND_ERROR_IS_FATAL ANY)
endforeach()
