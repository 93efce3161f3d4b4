# SPDX-License-Identifier: Apache-2.0
# One refusal test: cmake -DSOURCE=file.cpp -DCOMPILER=... -DINCLUDES=... -DSYSTEM_INCLUDES=... -P RefuseTest.cmake
#
# SOURCE, as it stands, must compile without a word (the control: the includes are right, the valid program is valid).
# With -DREFUSE it must fail with one error, in less than 15 lines, and say every text of its lines `// expect: text`.
# Texts are compared without `partita::`, quotes, the blank in `> >`, and with runs of blanks made one.

cmake_minimum_required(VERSION 3.25)

set(lines_max 14)

# Semicolons, brackets and backslashes mean something in CMake's lists: they are written in other signs on both sides.
function(plain out text)
  string(REPLACE ";" "<semicolon>" text "${text}")
  string(REPLACE "[" "<left>" text "${text}")
  string(REPLACE "]" "<right>" text "${text}")
  string(REPLACE "\\" "<backslash>" text "${text}")
  set(${out} "${text}" PARENT_SCOPE)
endfunction()

function(normalise out text)
  foreach(noise "partita::" "‘" "’" "'" "\"" "`")
    string(REPLACE "${noise}" "" text "${text}")
  endforeach()
  string(REGEX REPLACE "[ \t\r\n]+" " " text "${text}")
  while(text MATCHES "> >")
    string(REPLACE "> >" ">>" text "${text}")
  endwhile()
  string(STRIP "${text}" text)
  set(${out} "${text}" PARENT_SCOPE)
endfunction()

set(flags -std=c++20 -fsyntax-only -Wall -Wextra -DPARTITA_COMPILED_KERNELS)
foreach(directory IN LISTS INCLUDES)
  list(APPEND flags "-I${directory}")
endforeach()
foreach(directory IN LISTS SYSTEM_INCLUDES)
  list(APPEND flags -isystem "${directory}")
endforeach()

set(ENV{LC_ALL} C)
foreach(run control refusal)
  set(define "")
  if(run STREQUAL "refusal")
    set(define -DREFUSE)
  endif()
  execute_process(COMMAND "${COMPILER}" ${flags} ${define} "${SOURCE}"
                  RESULT_VARIABLE ${run}_status OUTPUT_VARIABLE out ERROR_VARIABLE err)
  plain(${run}_output "${out}${err}")
endforeach()

function(fail reason output)
  foreach(name semicolon left right backslash)
    string(ASCII 59 semicolon)
    set(left "[")
    set(right "]")
    set(backslash "\\")
    string(REPLACE "<${name}>" "${${name}}" output "${output}")
  endforeach()
  message(NOTICE "The compiler said:\n${output}")
  message(FATAL_ERROR "${SOURCE}: ${reason}")
endfunction()

# ---- The control ---------------------------------------------------------------------------------------------------

if(NOT control_status EQUAL 0)
  fail("the control does not compile" "${control_output}")
elseif(NOT control_output STREQUAL "")
  fail("the control compiles with a warning" "${control_output}")
endif()

# ---- The refusal ---------------------------------------------------------------------------------------------------

if(refusal_status EQUAL 0)
  fail("it compiles with -DREFUSE" "${refusal_output}")
endif()

file(READ "${SOURCE}" source)
plain(source "${source}")
string(REGEX MATCHALL "\n[ \t]*// expect: [^\n]+" expected "\n${source}")
if(NOT expected)
  fail("it has no line '// expect: text'" "${refusal_output}")
endif()
normalise(said "${refusal_output}")
foreach(text IN LISTS expected)
  string(REGEX REPLACE "^[^/]*// expect: " "" text "${text}")
  normalise(wanted "${text}")
  string(FIND "${said}" "${wanted}" position)
  if(position EQUAL -1)
    fail("the refusal does not say '${text}'" "${refusal_output}")
  endif()
endforeach()

string(REGEX MATCHALL "[^\n]+" lines "${refusal_output}")
list(LENGTH lines line_count)
list(FILTER lines INCLUDE REGEX "error:")
list(LENGTH lines error_count)
if(NOT error_count EQUAL 1)
  fail("the refusal is ${error_count} errors instead of one" "${refusal_output}")
elseif(line_count GREATER lines_max)
  fail("the refusal is more than ${lines_max} lines long: ${line_count}" "${refusal_output}")
endif()
