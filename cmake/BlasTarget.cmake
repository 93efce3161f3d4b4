# SPDX-License-Identifier: Apache-2.0
# partita_add_blas(TARGET LIBRARY): the headers' target LIBRARY together with the BLAS that find_package(BLAS) found.

function(partita_add_blas target library)
  add_library(${target} INTERFACE)
  target_link_libraries(${target} INTERFACE ${library} BLAS::BLAS)
  if(BLA_SIZEOF_INTEGER EQUAL 8)
    target_compile_definitions(${target} INTERFACE PARTITA_BLAS_INT64)
  endif()
endfunction()
