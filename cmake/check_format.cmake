# SPDX-License-Identifier: Apache-2.0
# cmake -DROOT=repository -P check_format.cmake: our C++ is formatted as .clang-format says, by clang-format 19 (another
# version breaks lines elsewhere). cmake -DFIX=ON ... formats it in place.

cmake_minimum_required(VERSION 3.25)

find_program(clang_format NAMES clang-format-19 clang-format)
if(clang_format)
  execute_process(COMMAND "${clang_format}" --version OUTPUT_VARIABLE version)
endif()
if(NOT version MATCHES "version 19\\.")
  if(FIX)
    message(FATAL_ERROR "clang-format 19 is not found (package clang-format-19)")
  endif()
  message(NOTICE "SKIPPED: no clang-format 19 (package clang-format-19); the format of the sources was NOT checked")
  return()
endif()

set(files "")
foreach(directory include tests examples bench)
  file(GLOB_RECURSE found "${ROOT}/${directory}/*.hpp" "${ROOT}/${directory}/*.cpp" "${ROOT}/${directory}/*.cuh")
  list(APPEND files ${found})
endforeach()

if(FIX)
  execute_process(COMMAND "${clang_format}" -i ${files} COMMAND_ERROR_IS_FATAL ANY)
  return()
endif()
execute_process(COMMAND "${clang_format}" --dry-run -Werror ${files} RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "run: cmake -DROOT=. -DFIX=ON -P cmake/check_format.cmake")
endif()
