# SPDX-License-Identifier: Apache-2.0
# Runs cmake/RefuseTest.cmake on a file that is wrong on purpose. Its line `// harness: reason` is the reason for which
# the harness must fail; `// harness: passes` marks the one that must pass.

cmake_minimum_required(VERSION 3.25)

file(STRINGS "${SOURCE}" reason REGEX "^// harness: ")
string(REGEX REPLACE "^// harness: " "" reason "${reason}")

execute_process(
  COMMAND "${CMAKE_COMMAND}" "-DSOURCE=${SOURCE}" "-DCOMPILER=${COMPILER}" "-DINCLUDES=${INCLUDES}"
          "-DSYSTEM_INCLUDES=${SYSTEM_INCLUDES}" -P "${CMAKE_CURRENT_LIST_DIR}/../../cmake/RefuseTest.cmake"
  RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)

# CMake wraps its messages.
string(REGEX REPLACE "[ \n]+" " " output "${output}")
string(FIND "${output}" ": ${reason}" position)
if(reason STREQUAL "passes")
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "the harness rejects a file that is right:\n${output}")
  endif()
elseif(reason STREQUAL "" OR status EQUAL 0 OR position EQUAL -1)
  message(FATAL_ERROR "the harness should have failed because '${reason}'; it returned ${status} and said:\n${output}")
endif()
