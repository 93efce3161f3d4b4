# SPDX-License-Identifier: Apache-2.0
# cmake -DNM=nm -DPROGRAM=nn_tests -P check_bodies.cmake: each body that the tests of the layers run is in the lists of
# nn/kernel/bodies.hpp, from which kernels are made. A program that is not optimised has a function for each.

cmake_minimum_required(VERSION 3.25)

execute_process(COMMAND "${NM}" -C "${PROGRAM}" OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
string(REPLACE ";" "," symbols "${symbols}")
foreach(function IN ITEMS run_body listed_body)
  string(REGEX MATCHALL "partita::${function}<[^(\n]*>\\(" ${function} "${symbols}")
  list(TRANSFORM ${function} REPLACE "^partita::${function}<(.*[^ ]) ?>\\($" "\\1")
  list(REMOVE_DUPLICATES ${function})
  list(LENGTH ${function} ${function}_count)
endforeach()
if(run_body_count LESS 50 OR listed_body_count LESS 50)
  message(NOTICE "SKIPPED: ${PROGRAM} has functions for ${run_body_count} bodies that run and ${listed_body_count} of the lists")
  return()
endif()

set(missing ${run_body})
list(REMOVE_ITEM missing ${listed_body})
if(missing)
  list(JOIN missing "\n  " missing)
  message(FATAL_ERROR "not in the lists of nn/kernel/bodies.hpp:\n  ${missing}")
endif()
message(STATUS "${run_body_count} bodies run, all are among the ${listed_body_count} of the lists")
