# SPDX-License-Identifier: Apache-2.0
# cmake -DROOT=include -P check_layers.cmake checks the tree of headers:
#   - a header includes only headers of its own layer and of lower ones (comm and backend, both of layer 2, never meet);
#   - an include in quotes names an existing header by its full path, partita/...;
#   - it begins with the licence line, has #pragma once, and at most 300 lines.

cmake_minimum_required(VERSION 3.25)

get_filename_component(ROOT "${ROOT}" ABSOLUTE)
set(lines_max 300)

# The first pattern that matches a path below partita/ gives its layer and the name of its part.
set(layers "^base/          0 base"
           "^cuda/          1 cuda"
           "^trace/event    1 trace/event"
           "^comm/          2 comm"
           "^backend/       2 backend"
           "^context.hpp$   3 context"
           "^grid/          4 grid"
           "^partition/     5 partition"
           "^tensor/        6 tensor"
           "^schedule/      7 schedule"
           "^redistribute/  8 redistribute"
           "^matmul/        9 matmul"
           "^nn/           10 nn"
           "^plan/         11 plan"
           "^trace/export  12 trace/export"
           "^partita.hpp$  13 partita.hpp")

# layer_of(PATH PREFIX) sets PREFIX_layer (empty where no layer holds PATH) and PREFIX_part.
function(layer_of path prefix)
  set(${prefix}_layer "" PARENT_SCOPE)
  foreach(entry IN LISTS layers)
    string(REGEX MATCH "^([^ ]+) +([0-9]+) (.+)$" _ "${entry}")
    set(layer "${CMAKE_MATCH_2}")
    set(part "${CMAKE_MATCH_3}")
    if(path MATCHES "${CMAKE_MATCH_1}")
      set(${prefix}_layer "${layer}" PARENT_SCOPE)
      set(${prefix}_part "${part}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()

set(violations 0)
macro(violation text)
  math(EXPR violations "${violations} + 1")
  message(NOTICE "partita/${path}: ${text}")
endmacro()

file(GLOB_RECURSE headers RELATIVE "${ROOT}/partita" "${ROOT}/partita/*")
if(NOT headers)
  message(FATAL_ERROR "no header under ${ROOT}/partita")
endif()

foreach(path IN LISTS headers)
  file(READ "${ROOT}/partita/${path}" text)

  if(NOT text MATCHES "^// SPDX-License-Identifier: Apache-2\\.0\n")
    violation("does not begin with the licence line")
  endif()
  if(NOT text MATCHES "\n#pragma once\n")
    violation("has no #pragma once")
  endif()
  string(REGEX REPLACE "[^\n]" "" newlines "${text}")
  string(LENGTH "${newlines}" line_count)
  if(line_count GREATER lines_max)
    violation("has ${line_count} lines, more than ${lines_max}")
  endif()

  layer_of("${path}" own)
  if(own_layer STREQUAL "")
    violation("belongs to no layer")
    continue()
  endif()
  string(REGEX MATCHALL "\n[ \t]*#[ \t]*include[ \t]*(\"[^\"\n]*\"|<partita/[^>\n]*>)" includes "\n${text}")
  foreach(include IN LISTS includes)
    string(REGEX REPLACE "^[^\"<]*[\"<](.*)[\">]$" "\\1" include "${include}")
    if(NOT include MATCHES "^partita/(.+)$")
      violation("includes \"${include}\", which is not a full path partita/...")
      continue()
    endif()
    set(target "${CMAKE_MATCH_1}")
    if(NOT EXISTS "${ROOT}/partita/${target}")
      violation("includes partita/${target}, which does not exist")
      continue()
    endif()
    layer_of("${target}" target)
    if(target_layer STREQUAL "")
      continue()  # reported where it stands
    elseif(target_layer GREATER own_layer)
      violation("(layer ${own_layer}) includes partita/${target} (layer ${target_layer}): never upwards")
    elseif(target_layer EQUAL own_layer AND NOT target_part STREQUAL own_part)
      violation("(${own_part}) includes partita/${target} (${target_part}): these two parts never meet")
    endif()
  endforeach()
endforeach()

list(LENGTH headers header_count)
if(violations GREATER 0)
  message(FATAL_ERROR "${violations} violations in ${header_count} headers")
endif()
message(STATUS "${header_count} headers are in order")
