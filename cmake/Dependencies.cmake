# SPDX-License-Identifier: Apache-2.0
# partita_dependency(NAME) finds a package; if it is not there and PARTITA_FETCH_DEPENDENCIES is on, it downloads the
# pinned version below. All of them are headers alone, so nothing of their own build is run.

#                 package    target            headers   repository                                    tag
set(partita_pins "Eigen3     Eigen3::Eigen     .         https://gitlab.com/libeigen/eigen.git         3.4.0"
                 "doctest    doctest::doctest  .         https://github.com/doctest/doctest.git        v2.4.11"
                 "CLI11      CLI11::CLI11      include   https://github.com/CLIUtils/CLI11.git         v2.4.2")

function(partita_dependency name)
  find_package(${name} QUIET)
  if(${name}_FOUND)
    # An imported target is seen in the directory that found it: the tests look for theirs, the top level for its own.
    return()
  endif()
  if(NOT PARTITA_FETCH_DEPENDENCIES)
    message(FATAL_ERROR "${name} is not found. Install it (libeigen3-dev, doctest-dev, libcli11-dev on Debian and "
                        "Ubuntu), or configure with -DPARTITA_FETCH_DEPENDENCIES=ON to download it.")
  endif()
  foreach(pin IN LISTS partita_pins)
    string(REGEX REPLACE " +" ";" pin "${pin}")
    list(POP_FRONT pin package target headers repository tag)
    if(package STREQUAL name AND NOT TARGET ${target})
      include(FetchContent)
      # The subdirectory does not exist, so that the sources are fetched and their CMakeLists.txt is left alone.
      FetchContent_Declare(${name} GIT_REPOSITORY "${repository}" GIT_TAG "${tag}" GIT_SHALLOW ON
                                   SOURCE_SUBDIR headers-only)
      FetchContent_MakeAvailable(${name})
      string(TOLOWER "${name}" lower)
      add_library(${target} INTERFACE IMPORTED GLOBAL)
      target_include_directories(${target} SYSTEM INTERFACE "${${lower}_SOURCE_DIR}/${headers}")
    endif()
  endforeach()
endfunction()
