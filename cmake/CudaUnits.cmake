# SPDX-License-Identifier: Apache-2.0
# partita::cuda for this tree and for the installed package: headers and libraries of CUDA and NCCL, and kernels.
# Kernels are compiled by calls of nvcc, and CUDA is not a language of the project: CMake 3.25 knows no C++20 for CUDA 13,
# defaults to an architecture that is not wanted, and refuses an nvcc whose static runtime is missing, as in wheels.
#
#   CUDALibraries_NVCC           another nvcc; a false value leaves out the kernels
#   PARTITA_CUDA_ARCHITECTURES   for which architectures; the last one also as PTX, for newer devices
#   PARTITA_CUDA_FLAGS           further flags of nvcc

set(architectures "80;90")
if(CUDALibraries_VERSION VERSION_GREATER_EQUAL 12.8)
  list(APPEND architectures "100")
endif()
set(PARTITA_CUDA_ARCHITECTURES "${architectures}" CACHE STRING "CUDA architectures of the kernels")
set(PARTITA_CUDA_FLAGS "" CACHE STRING "Further flags of nvcc for the kernels")
mark_as_advanced(PARTITA_CUDA_FLAGS)

# The .cuh headers that define kernels by themselves, below partita/ and without the suffix.
set(partita_cuda_headers backend/cuda/combine cuda/sum)

# partita_provide_cuda(HEADERS): partita::cuda, the target HEADERS with CUDA, NCCL and, where there is nvcc,
# partita::cuda_kernels. Pre: find_package has found CUDALibraries with its libraries, and NCCL.
function(partita_provide_cuda headers)
  add_library(partita_cuda INTERFACE)
  add_library(partita::cuda ALIAS partita_cuda)
  target_include_directories(partita_cuda SYSTEM INTERFACE ${CUDALibraries_INCLUDE_DIRS} ${NCCL_INCLUDE_DIRS})
  target_link_libraries(partita_cuda INTERFACE ${headers})
  if(CUDALibraries_NVCC)
    partita_add_cuda_kernels(partita_cuda_kernels ${headers})
    add_library(partita::cuda_kernels ALIAS partita_cuda_kernels)
    target_link_libraries(partita_cuda INTERFACE partita_cuda_kernels)
  else()
    message(STATUS "No nvcc: partita::cuda has no kernels, which 16-bit data and the layers need")
  endif()
  target_link_libraries(partita_cuda INTERFACE NCCL::NCCL CUDALibraries::cublasLt CUDALibraries::cublas
                                               CUDALibraries::cudart)
endfunction()

# partita_add_cuda_kernels(TARGET HEADERS): a static library of what the .cuh headers of the target HEADERS define,
# one unit for each scalar of the layers' bodies, and one for each of the others.
function(partita_add_cuda_kernels target headers)
  set(architectures ${PARTITA_CUDA_ARCHITECTURES})
  list(SORT architectures COMPARE NATURAL)
  list(GET architectures -1 latest)
  set(code "")
  foreach(architecture IN LISTS architectures)
    list(APPEND code "-gencode=arch=compute_${architecture},code=sm_${architecture}")
  endforeach()
  list(APPEND code "-gencode=arch=compute_${latest},code=compute_${latest}")
  list(TRANSFORM CUDALibraries_INCLUDE_DIRS PREPEND "-isystem=" OUTPUT_VARIABLE includes)
  separate_arguments(flags UNIX_COMMAND "${PARTITA_CUDA_FLAGS}")

  set(directory "${CMAKE_CURRENT_BINARY_DIR}/${target}")
  file(MAKE_DIRECTORY "${directory}")
  set(scalars float double half bfloat16)
  set(objects "")
  foreach(header IN LISTS partita_cuda_headers scalars)
    cmake_path(GET header FILENAME unit)
    if(unit IN_LIST scalars)
      string(CONFIGURE [[
// Generated: the bodies of the layers with one scalar.
#include "partita/backend/cuda/for_each_index.cuh"
#include "partita/nn/kernel/bodies.hpp"

namespace partita {
template struct CudaKernels<kernel::BodiesOfScalar<@unit@>>;
]] text @ONLY)
      if(unit MATCHES "^(float|double)$")
        string(APPEND text "template struct CudaKernels<kernel::BodiesOfSum<${unit}>>;\n")
      endif()
      if(unit STREQUAL "double")
        string(APPEND text "template struct CudaKernels<kernel::OtherBodies>;\n")
      endif()
      string(APPEND text "}\n")
    else()
      set(text "// Generated.\n#include \"partita/${header}.cuh\"\n")
    endif()
    file(CONFIGURE OUTPUT "${directory}/${unit}.cu" @ONLY CONTENT "@text@")
    set(object "${directory}/${unit}${CMAKE_CXX_OUTPUT_EXTENSION}")
    add_custom_command(
      OUTPUT "${object}"
      COMMAND "${CUDALibraries_NVCC}" -std=c++20 -O3 --expt-relaxed-constexpr "-ccbin=${CMAKE_CXX_COMPILER}"
              -Xcompiler=-fPIC ${code} "-I$<JOIN:$<TARGET_PROPERTY:${headers},INTERFACE_INCLUDE_DIRECTORIES>,;-I>"
              ${includes} ${flags} -MD -MF "${object}.d" -c
              "${directory}/${unit}.cu" -o "${object}"
      DEPENDS "${directory}/${unit}.cu" DEPFILE "${object}.d" COMMENT "Building CUDA object ${target}/${unit}"
      COMMAND_EXPAND_LISTS VERBATIM)
    list(APPEND objects "${object}")
  endforeach()
  set_source_files_properties(${objects} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  add_library(${target} STATIC ${objects})
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX)
  target_link_libraries(${target} INTERFACE CUDALibraries::cudart)
endfunction()
