# SPDX-License-Identifier: Apache-2.0
# check_headers: every header compiles alone, and twice in a row. It is not a part of `all`.
# Headers that need MPI, NCCL, CUDA or oneDNN are opt-in includes, and left out.

set(optional_headers "^(cuda/|(comm/mpi|comm/nccl|comm/cuda|backend/cuda|backend/onednn)[._/])")

set(header_units "")
foreach(header IN LISTS partita_headers)
  cmake_path(RELATIVE_PATH header BASE_DIRECTORY "${PROJECT_SOURCE_DIR}/include/partita" OUTPUT_VARIABLE path)
  if(path MATCHES "${optional_headers}")
    continue()
  endif()
  string(REGEX REPLACE "[/.]" "_" name "${path}")
  set(unit "${PROJECT_BINARY_DIR}/headers/${name}.cpp")
  file(CONFIGURE OUTPUT "${unit}" @ONLY CONTENT [[
#include "partita/@path@"
#include "partita/@path@"
]])
  list(APPEND header_units "${unit}")
endforeach()

add_library(check_headers OBJECT EXCLUDE_FROM_ALL ${header_units})
target_link_libraries(check_headers PRIVATE partita::partita)
partita_build_options(check_headers)
target_compile_options(check_headers PRIVATE -O0)
