# SPDX-License-Identifier: Apache-2.0
# cmake -DSCRATCH=directory -P check_layers_test.cmake: check_layers.cmake passes a tree that is in order, and finds
# each violation, alone, in an otherwise right one.

cmake_minimum_required(VERSION 3.25)

set(licence "// SPDX-License-Identifier: Apache-2.0\n")
set(start "${licence}// A fixture.\n#pragma once\n\n")

function(make_tree)
  file(REMOVE_RECURSE "${SCRATCH}")
  foreach(path base/a comm/b backend/c context grid/d partition/e trace/event trace/export)
    file(WRITE "${SCRATCH}/partita/${path}.hpp" "${start}")
  endforeach()
  file(APPEND "${SCRATCH}/partita/context.hpp" "#include <vector>\n\n#include \"partita/comm/b.hpp\"\n"
                                               "#include \"partita/backend/c.hpp\"\n")
  file(APPEND "${SCRATCH}/partita/trace/export.hpp" "#include \"partita/trace/event.hpp\"\n")
endfunction()

function(check output)
  execute_process(COMMAND "${CMAKE_COMMAND}" "-DROOT=${SCRATCH}" -P "${CMAKE_CURRENT_LIST_DIR}/check_layers.cmake"
                  RESULT_VARIABLE status OUTPUT_VARIABLE text ERROR_VARIABLE text)
  set(status "${status}" PARENT_SCOPE)
  set(${output} "${text}" PARENT_SCOPE)
endfunction()

make_tree()
check(said)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "a tree that is in order is rejected:\n${said}")
endif()

# expect_violation(PATH CONTENT TEXT): a header with this content is a violation that says TEXT.
function(expect_violation path content text)
  make_tree()
  file(WRITE "${SCRATCH}/partita/${path}" "${content}")
  check(said)
  string(FIND "${said}" "partita/${path}: ${text}" position)
  if(status EQUAL 0 OR position EQUAL -1 OR NOT said MATCHES "1 violations in")
    message(FATAL_ERROR "partita/${path} should be rejected because it '${text}'; the checker said:\n${said}")
  endif()
endfunction()

string(REPEAT "// line\n" 300 long)
expect_violation(grid/d.hpp "${start}#include \"partita/partition/e.hpp\"\n" "(layer 4) includes partita/partition/e.hpp")
expect_violation(base/a.hpp "${start}#  include  <partita/trace/event.hpp>\n" "(layer 0) includes partita/trace/event")
expect_violation(trace/event.hpp "${start}#include \"partita/trace/export.hpp\"\n" "(layer 1) includes")
expect_violation(comm/b.hpp "${start}#include \"partita/backend/c.hpp\"\n" "(comm) includes partita/backend/c.hpp")
expect_violation(backend/c.hpp "${start}#include \"partita/comm/b.hpp\"\n" "(backend) includes partita/comm/b.hpp")
expect_violation(grid/d.hpp "${start}#include \"partita/base/none.hpp\"\n" "includes partita/base/none.hpp, which does not")
expect_violation(grid/d.hpp "${start}#include \"d.hpp\"\n" "includes \"d.hpp\"")
expect_violation(grid/d.hpp "// A fixture.\n#pragma once\n" "does not begin with the licence line")
expect_violation(grid/d.hpp "${licence}// A fixture.\n" "has no #pragma once")
expect_violation(grid/d.hpp "${start}${long}" "has 304 lines")
expect_violation(other/f.hpp "${start}" "belongs to no layer")
message(STATUS "each violation is found")
