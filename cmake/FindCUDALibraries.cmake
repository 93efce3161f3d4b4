# SPDX-License-Identifier: Apache-2.0
# The parts of CUDA that Partita uses: headers of the runtime and of cuBLAS, the libraries, and nvcc where there is one.
# As NVIDIA's packages lay them out, as conda does, and as Python wheels do: nvidia/cu13/{bin,include,lib}, or a
# directory for each part (nvidia/cuda_runtime, nvidia/cublas), with only versioned libraries. CMake's own
# FindCUDAToolkit does not know the last two. Searched are CUDAToolkit_ROOT (which may be a `nvidia` directory of
# wheels), CUDA_PATH and CUDA_HOME, active environments of conda and Python, where nvcc is, and /usr/local/cuda.
#
#   CUDALibraries_INCLUDE_DIRS, CUDALibraries_VERSION, CUDALibraries_NVCC (or a false value)
#   CUDALibraries::cudart, ::cublas, ::cublasLt where the libraries are found; the component `libraries` demands them

set(roots ${CUDAToolkit_ROOT} $ENV{CUDAToolkit_ROOT} $ENV{CUDA_PATH} $ENV{CUDA_HOME})
foreach(environment IN ITEMS "$ENV{VIRTUAL_ENV}" "$ENV{CONDA_PREFIX}")
  if(environment)
    file(GLOB wheels "${environment}/lib/python3*/site-packages/nvidia")
    list(APPEND roots ${wheels} "${environment}")
  endif()
endforeach()
string(REPLACE "aarch64" "sbsa" processor "${CMAKE_SYSTEM_PROCESSOR}")
set(places "")
foreach(root IN LISTS roots ITEMS /usr/local/cuda)
  file(GLOB versions "${root}/cu[0-9][0-9]")
  list(SORT versions ORDER DESCENDING)
  foreach(place IN LISTS versions ITEMS "${root}" "${root}/targets/${processor}-linux" "${root}/cuda_runtime"
                                        "${root}/cublas" "${root}/cuda_nvcc" "${root}/cuda_crt")
    if(EXISTS "${place}")
      list(APPEND places "${place}")
    endif()
  endforeach()
endforeach()

find_program(CUDALibraries_NVCC nvcc HINTS ${places} PATH_SUFFIXES bin)
if(CUDALibraries_NVCC)
  file(REAL_PATH "${CUDALibraries_NVCC}" nvcc)
  cmake_path(GET nvcc PARENT_PATH nvcc)
  cmake_path(GET nvcc PARENT_PATH nvcc)
  list(APPEND places "${nvcc}" "${nvcc}/targets/${processor}-linux")
endif()

# Each header has a place of its own: a wheel may hold one part of CUDA.
foreach(part IN ITEMS RUNTIME:cuda_runtime_api.h CRT:crt/host_defines.h CUBLAS:cublasLt.h)
  string(REPLACE ":" ";" part "${part}")
  list(GET part 0 name)
  list(GET part 1 header)
  find_path(CUDALibraries_${name}_INCLUDE_DIR "${header}" HINTS ${places} PATH_SUFFIXES include)
  mark_as_advanced(CUDALibraries_${name}_INCLUDE_DIR)
  list(APPEND CUDALibraries_INCLUDE_DIRS "${CUDALibraries_${name}_INCLUDE_DIR}")
endforeach()
list(REMOVE_DUPLICATES CUDALibraries_INCLUDE_DIRS)

set(CUDALibraries_libraries_FOUND TRUE)
foreach(library IN ITEMS cudart cublas cublasLt)
  find_library(CUDALibraries_${library}_LIBRARY NAMES ${library} lib${library}.so.13 lib${library}.so.12 NAMES_PER_DIR
               HINTS ${places} PATH_SUFFIXES lib lib64)
  mark_as_advanced(CUDALibraries_${library}_LIBRARY)
  if(NOT CUDALibraries_${library}_LIBRARY)
    set(CUDALibraries_libraries_FOUND FALSE)
  endif()
endforeach()
mark_as_advanced(CUDALibraries_NVCC)

if(CUDALibraries_RUNTIME_INCLUDE_DIR)
  file(STRINGS "${CUDALibraries_RUNTIME_INCLUDE_DIR}/cuda_runtime_api.h" line REGEX "^#define CUDART_VERSION +[0-9]+")
  string(REGEX MATCH "[0-9]+$" number "${line}")
  math(EXPR major "${number} / 1000")
  math(EXPR minor "${number} % 1000 / 10")
  set(CUDALibraries_VERSION "${major}.${minor}")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  CUDALibraries
  REQUIRED_VARS CUDALibraries_RUNTIME_INCLUDE_DIR CUDALibraries_CRT_INCLUDE_DIR CUDALibraries_CUBLAS_INCLUDE_DIR
  VERSION_VAR CUDALibraries_VERSION HANDLE_COMPONENTS)

if(CUDALibraries_FOUND)
  foreach(library IN ITEMS cudart cublas cublasLt)
    if(CUDALibraries_${library}_LIBRARY AND NOT TARGET CUDALibraries::${library})
      add_library(CUDALibraries::${library} UNKNOWN IMPORTED)
      set_target_properties(
        CUDALibraries::${library} PROPERTIES IMPORTED_LOCATION "${CUDALibraries_${library}_LIBRARY}"
                                             INTERFACE_INCLUDE_DIRECTORIES "${CUDALibraries_INCLUDE_DIRS}")
    endif()
  endforeach()
endif()
