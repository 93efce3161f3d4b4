# SPDX-License-Identifier: Apache-2.0
# NCCL, which brings no package of its own: as NVIDIA's packages lay it out, as conda does, and as Python wheels do
# (nvidia/nccl/{include,lib}, where only the versioned libnccl.so.2 exists): beside the CUDA that FindCUDALibraries has
# found. NCCL_ROOT points elsewhere.
#
#   NCCL_INCLUDE_DIRS, NCCL_LIBRARIES, NCCL_VERSION, and the target NCCL::NCCL where the library is found too

set(hints "")
foreach(dir IN LISTS CUDALibraries_INCLUDE_DIRS)
  cmake_path(GET dir PARENT_PATH dir)
  list(APPEND hints "${dir}")
  cmake_path(GET dir PARENT_PATH dir)
  list(APPEND hints "${dir}/nccl")
endforeach()
list(APPEND hints $ENV{CONDA_PREFIX})
find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${hints} PATH_SUFFIXES include)
find_library(NCCL_LIBRARY NAMES nccl libnccl.so.2 NAMES_PER_DIR HINTS "${NCCL_INCLUDE_DIR}/.." ${hints} PATH_SUFFIXES lib lib64)
mark_as_advanced(NCCL_INCLUDE_DIR NCCL_LIBRARY)

if(NCCL_INCLUDE_DIR)
  set(NCCL_VERSION "")
  foreach(part MAJOR MINOR PATCH)
    file(STRINGS "${NCCL_INCLUDE_DIR}/nccl.h" line REGEX "^#define NCCL_${part} +[0-9]+")
    string(REGEX MATCH "[0-9]+$" number "${line}")
    list(APPEND NCCL_VERSION "${number}")
  endforeach()
  list(JOIN NCCL_VERSION "." NCCL_VERSION)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(NCCL REQUIRED_VARS NCCL_INCLUDE_DIR VERSION_VAR NCCL_VERSION)

if(NCCL_FOUND)
  set(NCCL_INCLUDE_DIRS "${NCCL_INCLUDE_DIR}")
  set(NCCL_LIBRARIES "${NCCL_LIBRARY}")
  if(NCCL_LIBRARY AND NOT TARGET NCCL::NCCL)
    add_library(NCCL::NCCL UNKNOWN IMPORTED)
    set_target_properties(NCCL::NCCL PROPERTIES IMPORTED_LOCATION "${NCCL_LIBRARY}"
                                                INTERFACE_INCLUDE_DIRECTORIES "${NCCL_INCLUDE_DIR}")
  endif()
endif()
