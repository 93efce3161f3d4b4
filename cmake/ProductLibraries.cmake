# SPDX-License-Identifier: Apache-2.0
# The headers' target together with a library that multiplies, for this tree and for the installed package.

# partita_add_blas(TARGET HEADERS): with the BLAS that find_package(BLAS) found.
function(partita_add_blas target headers)
  add_library(${target} INTERFACE)
  target_link_libraries(${target} INTERFACE ${headers} BLAS::BLAS)
  if(BLA_SIZEOF_INTEGER EQUAL 8)
    target_compile_definitions(${target} INTERFACE PARTITA_BLAS_INT64)
  endif()
endfunction()

# partita_add_onednn(TARGET HEADERS): with oneDNN, if it is found; otherwise there is no such target. Not by oneDNN's own
# package: as Debian ships it, that one stops every project on a machine without the headers of OpenCL.
function(partita_add_onednn target headers)
  find_path(PARTITA_ONEDNN_INCLUDE dnnl.hpp PATH_SUFFIXES oneapi/dnnl)
  find_library(PARTITA_ONEDNN_LIBRARY dnnl)
  mark_as_advanced(PARTITA_ONEDNN_INCLUDE PARTITA_ONEDNN_LIBRARY)
  if(PARTITA_ONEDNN_INCLUDE AND PARTITA_ONEDNN_LIBRARY)
    add_library(${target} INTERFACE)
    target_include_directories(${target} SYSTEM INTERFACE "${PARTITA_ONEDNN_INCLUDE}")
    target_link_libraries(${target} INTERFACE ${headers} "${PARTITA_ONEDNN_LIBRARY}")
  endif()
endfunction()
