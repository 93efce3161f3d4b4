# SPDX-License-Identifier: Apache-2.0
# partita::kernels: the library with its products compiled once. The units are generated, one for each scalar.
# PARTITA_COMPILED_KERNELS tells backend/eigen.hpp and partita.hpp to declare what these units instantiate; Eigen is then
# not included.

set(kernel_scalars "float" "double" "std::complex<float>" "std::complex<double>")

set(kernel_units "")
foreach(scalar IN LISTS kernel_scalars)
  string(MAKE_C_IDENTIFIER "${scalar}" name)
  string(REGEX REPLACE "^std__|_$" "" name "${name}")
  set(unit "${PROJECT_BINARY_DIR}/kernels/gemm_${name}.cpp")
  file(CONFIGURE OUTPUT "${unit}" @ONLY CONTENT [[
// Generated: the local product of one scalar, and the executor of products among threads.
#include "partita/backend/eigen_gemm.hpp"
#include "partita/partita.hpp"

PARTITA_INSTANTIATE_EIGEN_GEMM(@scalar@);
PARTITA_INSTANTIATE_PRODUCT(@scalar@, partita::ThreadContext);
]])
  list(APPEND kernel_units "${unit}")
endforeach()

add_library(partita_kernels STATIC ${kernel_units})
add_library(partita::kernels ALIAS partita_kernels)
target_link_libraries(partita_kernels PUBLIC partita)
target_compile_definitions(partita_kernels INTERFACE PARTITA_COMPILED_KERNELS)
set_target_properties(partita_kernels PROPERTIES POSITION_INDEPENDENT_CODE ON)
partita_build_options(partita_kernels)
if(PARTITA_SANITIZE STREQUAL "address")
  # Checks of undefined behaviour inside Eigen double the time to compile, and judge Eigen.
  target_compile_options(partita_kernels PRIVATE -fno-sanitize=undefined)
endif()
