# SPDX-License-Identifier: Apache-2.0
# PARTITA_BLAS=ON: partita::blas, the library with the BLAS that CMake finds (BLA_VENDOR chooses: OpenBLAS, FLAME for
# BLIS, Intel10_64lp for MKL), for backend/blas.hpp. Tests, examples and benchmarks then multiply with it too.

include(BlasTarget)
option(PARTITA_BLAS "Find a BLAS, provide partita::blas, and use it in what is built here" OFF)

if(PARTITA_BLAS)
  find_package(BLAS REQUIRED)
  partita_add_blas(partita_blas partita)
  add_library(partita::blas ALIAS partita_blas)
endif()
