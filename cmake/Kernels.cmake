# SPDX-License-Identifier: Apache-2.0
# partita::kernels in this build tree, with the options of what is built here.

include(KernelUnits)

partita_add_kernels(partita_kernels)
add_library(partita::kernels ALIAS partita_kernels)
partita_build_options(partita_kernels)
if(PARTITA_SANITIZE STREQUAL "address")
  # Checks of undefined behaviour inside Eigen double the time to compile, and judge Eigen.
  set_source_files_properties(${partita_kernels_gemm_units} PROPERTIES COMPILE_OPTIONS -fno-sanitize=undefined)
endif()
