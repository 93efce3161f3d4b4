# SPDX-License-Identifier: Apache-2.0
# PARTITA_CUDA=ON: partita::cuda, the library with CUDA and NCCL, for backend/cuda.hpp and comm/nccl.hpp; and, where nvcc
# is found, partita::cuda_kernels, which it links: 16-bit data and the layers need it. CUDAToolkit_ROOT and NCCL_ROOT
# choose among several. PARTITA_CUDA=EMULATE: tests run against host stand-ins (tests/cuda_emulation), which need the
# headers of CUDA and NCCL and no device.

set(PARTITA_CUDA "OFF" CACHE STRING "CUDA: OFF, ON, or EMULATE for tests against host stand-ins")
set_property(CACHE PARTITA_CUDA PROPERTY STRINGS OFF ON EMULATE)
if(NOT PARTITA_CUDA MATCHES "^(OFF|ON|EMULATE)$")
  message(FATAL_ERROR "PARTITA_CUDA is '${PARTITA_CUDA}'; it can be OFF, ON or EMULATE")
endif()

if(PARTITA_CUDA STREQUAL "EMULATE")
  find_package(CUDALibraries 12 REQUIRED)
  find_package(NCCL 2.28 REQUIRED)
elseif(PARTITA_CUDA STREQUAL "ON")
  find_package(CUDALibraries 12 REQUIRED COMPONENTS libraries)
  find_package(NCCL 2.28 REQUIRED)
  if(NOT TARGET NCCL::NCCL)
    message(FATAL_ERROR "PARTITA_CUDA=ON, but only the header of NCCL is found (${NCCL_INCLUDE_DIR}), and no library. Set "
                        "NCCL_ROOT, or PARTITA_CUDA to EMULATE for tests without a device.")
  endif()
  include(CudaUnits)
  set(known ${partita_cuda_headers} backend/cuda/for_each_index)
  foreach(header IN LISTS partita_headers)
    cmake_path(RELATIVE_PATH header BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}/include/partita")
    if(header MATCHES "^(.*)\\.cuh$" AND NOT CMAKE_MATCH_1 IN_LIST known)
      message(FATAL_ERROR "no unit of cmake/CudaUnits.cmake compiles partita/${header}")
    endif()
  endforeach()
  partita_provide_cuda(partita)
endif()
