# SPDX-License-Identifier: Apache-2.0
# Libraries for local products beside Eigen.
#
# PARTITA_BLAS=ON: partita::blas, the library with the BLAS that CMake finds (BLA_VENDOR chooses: OpenBLAS, FLAME for
# BLIS, Intel10_64lp for MKL), for backend/blas.hpp. Tests, examples and benchmarks then multiply with it too.

include(ProductLibraries)
option(PARTITA_BLAS "Find a BLAS, provide partita::blas, and use it in what is built here" OFF)

if(PARTITA_BLAS)
  find_package(BLAS REQUIRED)
  partita_add_blas(partita_blas partita)
  add_library(partita::blas ALIAS partita_blas)
endif()

# PARTITA_ONEDNN=ON: partita::onednn, the library with oneDNN's 16-bit products, for backend/onednn.hpp.
option(PARTITA_ONEDNN "Find oneDNN, provide partita::onednn, and use it in what is built here" OFF)

if(PARTITA_ONEDNN)
  partita_add_onednn(partita_onednn partita)
  if(NOT TARGET partita_onednn)
    message(FATAL_ERROR "PARTITA_ONEDNN=ON, but oneDNN is not found (libdnnl-dev on Debian and Ubuntu). Install it, set "
                        "PARTITA_ONEDNN_INCLUDE and PARTITA_ONEDNN_LIBRARY, or leave the option off.")
  endif()
  add_library(partita::onednn ALIAS partita_onednn)
endif()
