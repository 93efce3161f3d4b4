# SPDX-License-Identifier: Apache-2.0
# partita_add_kernels(TARGET): a static library with Partita's products compiled once, by the flags of the project that
# calls this, installed package or source. The units are generated, two for each scalar: the local product of Eigen, and
# the executor of products among threads. PARTITA_COMPILED_KERNELS tells backend/eigen.hpp and partita.hpp to declare
# what these units instantiate; Eigen is then not included. Sets TARGET_gemm_units to the units that hold Eigen.

set(partita_kernel_scalars "float" "double" "std::complex<float>" "std::complex<double>")

function(partita_add_kernels target)
  set(gemm [[
// Generated: the local product of one scalar.
#include "partita/backend/eigen_gemm.hpp"

PARTITA_INSTANTIATE_EIGEN_GEMM(@scalar@);
]])
  set(product [[
// Generated: the executor of one scalar's products among threads.
#include "partita/partita.hpp"

PARTITA_INSTANTIATE_PRODUCT(@scalar@, partita::ThreadContext);
]])
  foreach(scalar IN LISTS partita_kernel_scalars)
    string(MAKE_C_IDENTIFIER "${scalar}" name)
    string(REGEX REPLACE "^std__|_$" "" name "${name}")
    foreach(kind gemm product)
      set(unit "${CMAKE_CURRENT_BINARY_DIR}/${target}/${kind}_${name}.cpp")
      file(CONFIGURE OUTPUT "${unit}" @ONLY CONTENT "${${kind}}")
      list(APPEND ${kind}_units "${unit}")
    endforeach()
  endforeach()
  add_library(${target} STATIC ${gemm_units} ${product_units})
  target_link_libraries(${target} PUBLIC partita::partita)
  target_compile_definitions(${target} INTERFACE PARTITA_COMPILED_KERNELS)
  set_source_files_properties(${product_units} PROPERTIES COMPILE_DEFINITIONS PARTITA_COMPILED_KERNELS)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  set(${target}_gemm_units "${gemm_units}" PARENT_SCOPE)
endfunction()
