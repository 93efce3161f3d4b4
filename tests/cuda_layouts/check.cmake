# SPDX-License-Identifier: Apache-2.0
# cmake -DMODULES=cmake -DSCRATCH=directory -DCXX=compiler -DNVCC=… -DINCLUDE=… -DLIBRARIES=… -DPROCESSOR=… -P check.cmake:
# CUDA and NCCL of this machine, laid out by links as Python wheels and conda do, are found whole.

cmake_minimum_required(VERSION 3.25)
file(REMOVE_RECURSE "${SCRATCH}")
list(REMOVE_DUPLICATES INCLUDE)
set(runtime "cu[daC]*" "*_types.h" "*_functions.h*" "host_*.h" "channel_descriptor.h")

# place(DIRECTORY FILES...): links in the tree.
function(place directory)
  file(MAKE_DIRECTORY "${tree}/${directory}")
  foreach(path IN LISTS ARGN)
    cmake_path(GET path FILENAME name)
    if(NOT EXISTS "${tree}/${directory}/${name}")
      file(CREATE_LINK "${path}" "${tree}/${directory}/${name}" SYMBOLIC)
    endif()
  endforeach()
endfunction()

# headers(DIRECTORY PATTERNS...): those headers of CUDA and NCCL.
function(headers directory)
  foreach(pattern IN LISTS ARGN)
    foreach(source IN LISTS INCLUDE)
      file(GLOB found "${source}/${pattern}")
      place("${directory}" ${found})
    endforeach()
  endforeach()
endfunction()

# libraries(DIRECTORY UNVERSIONED NAMES...): with or without the name that a linker looks for.
function(libraries directory unversioned)
  foreach(name IN LISTS ARGN)
    foreach(path IN LISTS LIBRARIES)
      if(NOT path MATCHES "/lib${name}\\.so")
        continue()
      endif()
      file(REAL_PATH "${path}" real)
      string(REGEX MATCH "/lib${name}\\.so\\.[0-9]+" versioned "${real}")
      place("${directory}" "${real}")
      cmake_path(GET real FILENAME file)
      if(NOT EXISTS "${tree}/${directory}${versioned}")
        file(CREATE_LINK "${file}" "${tree}/${directory}${versioned}" SYMBOLIC)
      endif()
      if(unversioned)
        file(CREATE_LINK "${file}" "${tree}/${directory}/lib${name}.so" SYMBOLIC)
      endif()
    endforeach()
  endforeach()
endfunction()

# check(LAYOUT VARIABLES...): with those variables of the environment.
function(check layout)
  set(build "${SCRATCH}/build/${layout}")
  foreach(command IN ITEMS "-S;${CMAKE_CURRENT_LIST_DIR};-B;${build};-DTREE=${tree};-DMODULES=${MODULES};-DCMAKE_CXX_COMPILER=${CXX}"
                           "--build;${build}")
    execute_process(
      COMMAND "${CMAKE_COMMAND}" -E env --unset=CUDAToolkit_ROOT --unset=CUDA_PATH --unset=CUDA_HOME
              --unset=VIRTUAL_ENV --unset=CONDA_PREFIX ${ARGN} "${CMAKE_COMMAND}" ${command}
      RESULT_VARIABLE status OUTPUT_VARIABLE said ERROR_VARIABLE said)
    if(NOT status EQUAL 0)
      message(FATAL_ERROR "${layout}: ${said}")
    endif()
  endforeach()
  execute_process(COMMAND "${build}/versions" RESULT_VARIABLE status OUTPUT_VARIABLE said ERROR_VARIABLE said)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${layout}: its program fails: ${said}")
  endif()
  string(STRIP "${said}" said)
  message(STATUS "${layout}: ${said}")
endfunction()

# Wheels of CUDA 13, found through the environment of Python and through a root.
set(tree "${SCRATCH}/venv/lib/python3.11/site-packages/nvidia")
headers(cu13/include ${runtime} "cublas*" "crt")
headers(nccl/include "nccl*")
libraries(cu13/lib FALSE cudart cublas cublasLt)
libraries(nccl/lib FALSE nccl)
place(cu13/bin "${NVCC}")
check(wheels_by_environment "VIRTUAL_ENV=${SCRATCH}/venv")
check(wheels_by_root "CUDAToolkit_ROOT=${tree}")
check(wheels_by_cuda_root "CUDAToolkit_ROOT=${tree}/cu13")

# Wheels of CUDA 12: a directory for each part.
set(tree "${SCRATCH}/parts/nvidia")
headers(cuda_runtime/include ${runtime})
headers(cuda_nvcc/include "crt")
headers(cublas/include "cublas*")
headers(nccl/include "nccl*")
libraries(cuda_runtime/lib FALSE cudart)
libraries(cublas/lib FALSE cublas cublasLt)
libraries(nccl/lib FALSE nccl)
place(cuda_nvcc/bin "${NVCC}")
check(wheels_in_parts "CUDAToolkit_ROOT=${tree}")

# conda.
set(tree "${SCRATCH}/conda")
headers(targets/${PROCESSOR}-linux/include ${runtime} "cublas*" "crt")
headers(include "nccl*")
libraries(lib TRUE cudart cublas cublasLt nccl)
place(bin "${NVCC}")
check(conda "CONDA_PREFIX=${tree}")
